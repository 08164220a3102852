// SPDX-License-Identifier: Apache-2.0
// Every state of an association of xtp with every kind of bad packet, most of them by a peer who knows its key: each is
// counted under its name, is answered as docs/formats/xtp.md says or not at all, and leaves the association as it was:
// the peer goes on, data comes, and both ends are released.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/stack/modules/watched_node.h"
#include "tests/stack/modules/xtp_bed.h"

namespace sluice::test::associations {
namespace {

using namespace std::chrono_literals;
using wire::XtpControl;
using wire::XtpDiagnosis;
using wire::XtpHeader;
using XtpType = XtpHeader::Type;
using xtp::State;

constexpr std::uint64_t our_key = 7;

std::string_view name_of_type(XtpType type) {
  static const std::map<XtpType, std::string_view> names = {{XtpType::data, "data"},   {XtpType::cntl, "cntl"},
                                                            {XtpType::first, "first"}, {XtpType::ecntl, "ecntl"},
                                                            {XtpType::tcntl, "tcntl"}, {XtpType::diag, "diag"}};
  return names.at(type);
}

/// Node 0 of a bed, whose peer at address 1 is the test.
class XtpScene : public WatchedNode {
 public:
  using Bytes = std::vector<std::byte>;

  explicit XtpScene(ProcessingMode mode, bool selective)
      : WatchedNode({"packets_out", "controls_sent"}),
        bed_({options(selective), options(selective)}, mode, 1, Weather{}, false) {
    bed_.loses = [](const Packet&) { return true; };
    bed_.network.on_send = [this](const Packet& packet) { note(packet); };
    user().releases = false;
  }

  void bring_to(State state) {
    user().bind(state == State::opening ? 0 : 1);
    bed_.step(false);
    if (state == State::closed) {
      return;
    }
    if (state == State::opening) {
      user().call(XtpBed::address(1));
      return bed_.step(false);
    }
    deliver(first_of(our_key));
    if (state == State::accepting) {
      return;
    }
    deliver(data("hello", XtpHeader::end_of_message));
    sequence_ += 5;
    user().send("answer");
    bed_.step(false);
    deliver(control());
    if (state == State::writing || state == State::ending || state == State::over) {
      end();
    }
    if (state == State::closing || state == State::reading || state == State::ending || state == State::over) {
      release();
    }
    if (state == State::reading || state == State::over) {
      deliver(control(XtpHeader::read_closed));
    }
  }
  /// The peer goes on as it should.
  void go_on() {
    if (user().connections == 0 && node_key_ == 0) {
      deliver(first_of(our_key));
    } else if (user().connections == 0) {
      XtpControl answer = control_now();
      answer.received = answer.allocated = sequence_of_node_;
      answer.exchanged_key = our_key;
      deliver(packet_of({.key = returned(), .type = XtpType::tcntl, .sync = 5, .sequence = sequence_}, answer));
    }
    EXPECT_EQ(user().connections, 1);
    std::vector<std::string> expected =
        sequence_ == first_sequence ? std::vector<std::string>{} : std::vector{std::string("hello")};
    if (!ended_) {
      deliver(control());
      deliver(data("more", XtpHeader::end_of_message));
      sequence_ += 4;
      expected.emplace_back("more");
      end();
    }
    EXPECT_TRUE(user().peer_released);
    if (!user().released) {
      release();
    }
    deliver(control(XtpHeader::read_closed | XtpHeader::write_closed));
    deliver(control(XtpHeader::read_closed | XtpHeader::write_closed | XtpHeader::end));
    EXPECT_EQ(user().got, expected);
  }
  void expect_nothing_left() {
    EXPECT_EQ(user().wrong, "");
    EXPECT_FALSE(user().fatal);
    EXPECT_TRUE(user().disconnections.empty());
    EXPECT_EQ(bed_[0].module().lingering(), 0U);
    EXPECT_EQ(bed_[0].module().callers(), 0U);
    EXPECT_EQ(bed_[0].set().scheduler().next_deadline(), never);
    EXPECT_EQ(bed_[0].set().pool().statistics().buffers_in_use, 0U);
  }

  // ---- What the peer says ----

  /// The key by which node 0 is called.
  [[nodiscard]] std::uint64_t returned() const {
    constexpr std::uint64_t guessed = 55;
    return (node_key_ == 0 ? guessed : node_key_) | XtpHeader::return_key;
  }
  [[nodiscard]] std::uint64_t sequence() const { return sequence_; }
  /// All that node 0 has said is known.
  [[nodiscard]] XtpControl control_now() const {
    XtpControl now;
    now.received = sequence_of_node_;
    now.allocated = sequence_of_node_ + 10'000;
    now.echo = sync_of_node_;
    return now;
  }
  [[nodiscard]] XtpHeader header(XtpType type, std::uint32_t options = 0) const {
    return {.key = returned(), .options = options, .type = type, .sync = 5, .sequence = sequence_};
  }
  [[nodiscard]] Bytes control(std::uint32_t options = 0) const {
    return packet_of(header(XtpType::cntl, options), control_now());
  }
  [[nodiscard]] Bytes data(std::string_view text, std::uint32_t options = 0) const {
    return packet_of(header(XtpType::data, options), as_bytes(text));
  }
  void deliver(const Bytes& bytes, std::size_t from = 1) {
    bed_.deliver({.from = XtpBed::address(from), .to = XtpBed::address(0), .bytes = bytes, .sum = 0});
    bed_.step(false);
  }

 private:
  static xtp::Options options(bool selective) {
    xtp::Options made{.receive_buffer_bytes = 4096, .packet_bytes = 100};
    made.selective = selective;
    return made;
  }
  XtpUser& user() { return bed_[0].user(); }
  void end() {
    ended_ = true;
    deliver(control(XtpHeader::write_closed));
  }
  void release() {
    user().released = true;
    user().down(tpi::OrdrelReq{});
    bed_.step(false);
  }
  void note(const Packet& packet) {
    if (packet.from != XtpBed::address(0)) {
      return;
    }
    const auto sent = XtpHeader::parse(packet.bytes, packet.bytes.size());
    ASSERT_TRUE(sent);
    note_answer(std::string(name_of_type(sent->type)));
    if (sent->type == XtpType::diag) {
      return;
    }
    sequence_of_node_ = std::max(sequence_of_node_, sent->sequence + (sent->is_control() ? 0 : sent->length));
    if (sent->type == XtpType::first) {
      sequence_of_node_ = sent->sequence;
      node_key_ = sent->key;
    } else if (sent->type == XtpType::tcntl) {
      node_key_ =
          XtpControl::parse(ConstBytes(packet.bytes).subspan(XtpHeader::size), sent->type).value().exchanged_key;
    }
    sync_of_node_ = std::max(sync_of_node_, sent->sync);
  }
  const Module& watched() override { return bed_[0].module(); }
  std::string user_has() override {
    const XtpUser& told = user();
    return std::to_string(told.connections) + " connections, " + std::to_string(told.got.size()) + " messages, " +
           std::to_string(told.disconnections.size()) + " disconnections, released " +
           std::to_string(told.peer_released ? 1 : 0) + ", " + std::to_string(told.outstanding.size()) +
           " outstanding, " + std::to_string(bed_[0].module().lingering()) + " lingering, " +
           std::to_string(bed_[0].module().callers()) + " callers" + told.wrong;
  }

  std::uint64_t node_key_ = 0;
  std::uint64_t sequence_of_node_ = 0;
  std::uint32_t sync_of_node_ = 0;
  std::uint64_t sequence_ = first_sequence;  // of what we send next
  bool ended_ = false;                       // we have
  XtpBed bed_;                               // which sends as it ends
};

constexpr std::array association_states{State::closed,  State::opening, State::accepting, State::open, State::closing,
                                        State::reading, State::writing, State::ending,    State::over};

/// What it changes: one entry for all states, or one each; without one it fits there.
struct BadXtpPacket {
  std::string name;
  std::function<void(XtpScene&)> say;
  std::vector<std::string_view> changes;
};

using XtpBytes = XtpScene::Bytes;

/// One that nothing excuses, in any state: named by the counter.
std::vector<BadXtpPacket> malformed_xtp_packets() {
  std::vector<BadXtpPacket> all;
  const auto add = [&all](std::string_view counter, std::function<XtpBytes(const XtpScene&)> make) {
    all.push_back({"malformed", [make = std::move(make)](XtpScene& scene) { scene.deliver(make(scene)); }, {counter}});
  };
  /// A byte of a good packet is another one.
  const auto set = [](XtpBytes bytes, std::size_t at, unsigned value) {
    bytes[at] = static_cast<std::byte>(value);
    return summed(std::move(bytes));
  };
  const auto segment = [](const XtpScene& scene, XtpType type, std::size_t size) {
    return packet_of(scene.header(type), XtpBytes(size));
  };
  add("short_header", [](const XtpScene& scene) {
    XtpBytes bytes = scene.control();
    bytes.resize(XtpHeader::size - 1);
    return bytes;
  });
  add("bad_checksum", [](const XtpScene& scene) {
    XtpBytes bytes = scene.control();
    bytes[40] ^= std::byte{4};
    return bytes;
  });
  add("bad_version", [set](const XtpScene& scene) { return set(scene.control(), 11, 0x41); });
  add("bad_type", [set](const XtpScene& scene) { return set(scene.control(), 11, 0x26); });
  add("bad_options", [set](const XtpScene& scene) { return set(scene.control(), 10, 1); });
  add("bad_length", [set](const XtpScene& scene) { return set(scene.control(), 15, XtpControl::size + 1); });
  add("bad_length", [set](const XtpScene& scene) { return set(scene.control(), 12, 0xff); });
  add("bad_key", [](const XtpScene& scene) {
    XtpHeader bad = scene.header(XtpType::cntl);
    bad.key = XtpHeader::return_key;
    return packet_of(bad, scene.control_now());
  });
  // What its segment says is looked at when it has been counted.
  add("bad_key packets_in", [](const XtpScene&) { return first_of(our_key | XtpHeader::return_key); });
  add("bad_sequence", [](const XtpScene& scene) {
    XtpHeader bad = scene.header(XtpType::data);
    bad.sequence = XtpHeader::sequence_max;
    return packet_of(bad, XtpBytes(5));
  });
  add("bad_sequence packets_in", [](const XtpScene& scene) {
    XtpControl bad = scene.control_now();
    bad.allocated = bad.received - 1;
    return packet_of(scene.header(XtpType::cntl), bad);
  });
  add("bad_segment packets_in", [segment](const XtpScene& scene) { return segment(scene, XtpType::cntl, 19); });
  add("bad_segment packets_in", [segment](const XtpScene& scene) { return segment(scene, XtpType::cntl, 5000); });
  add("bad_segment packets_in", [segment](const XtpScene& scene) { return segment(scene, XtpType::diag, 7); });
  add("bad_spans packets_in", [segment](const XtpScene& scene) {
    return segment(scene, XtpType::ecntl, XtpControl::size + 4 + (XtpControl::spans_max + 1) * 16);
  });
  add("bad_spans packets_in", [set](const XtpScene& scene) {  // more than there are
    XtpControl one = scene.control_now();
    one.span_count = 1;
    one.spans[0] = {.left = one.received + 1, .right = one.received + 2};
    return set(packet_of(scene.header(XtpType::ecntl), one), XtpHeader::size + XtpControl::size + 3, 2);
  });
  add("bad_spans packets_in", [](const XtpScene& scene) {  // before what has come
    XtpControl bad = scene.control_now();
    bad.span_count = 1;
    bad.spans[0] = {.left = bad.received, .right = bad.received + 1};
    return packet_of(scene.header(XtpType::ecntl), bad);
  });
  add("bad_address packets_in", [set](const XtpScene&) { return set(first_of(our_key), 35, 9); });
  return all;
}

std::vector<BadXtpPacket> bad_xtp_packets() {
  std::vector<BadXtpPacket> all = malformed_xtp_packets();
  const auto add = [&all](std::string name, std::vector<std::string_view> changes, std::function<void(XtpScene&)> say) {
    all.push_back({std::move(name), std::move(say), std::move(changes)});
  };
  const auto add_control = [&add](std::string name, std::vector<std::string_view> changes, XtpType type,
                                  std::function<void(XtpHeader&, XtpControl&)> change, std::size_t from = 1) {
    add(std::move(name), std::move(changes), [type, change = std::move(change), from](XtpScene& scene) {
      XtpHeader header = scene.header(type);
      XtpControl control = scene.control_now();
      change(header, control);
      scene.deliver(packet_of(header, control), from);
    });
  };
  const auto add_data = [&add](std::string name, std::vector<std::string_view> changes, std::uint64_t sequence,
                               std::size_t size, std::uint32_t options = 0) {
    add(std::move(name), std::move(changes), [sequence, size, options](XtpScene& scene) {
      XtpHeader header = scene.header(XtpType::data, options);
      header.sequence = sequence;
      scene.deliver(packet_of(header, XtpBytes(size)));
    });
  };
  constexpr std::string_view unknown = "no_association packets_in";
  constexpr std::string_view told = "diagnoses_sent no_association packets_in -> diag";
  constexpr std::string_view stranger = "packets_in strangers";
  constexpr std::string_view contradicts = "contradictions packets_in";
  constexpr std::string_view nothing = "packets_in";
  constexpr std::string_view again = "duplicates packets_in";
  constexpr std::string_view beyond = "beyond packets_in";
  // In the order of association_states: closed, opening, accepting, open, closing, reading, writing, ending, over. A
  // caller that has no answer yet takes every control packet as a sign that there is somebody, but for TCNTL and END.
  using Changes = std::vector<std::string_view>;
  const auto of_control = [&](std::string_view opening, std::string_view others) {
    return Changes{told, opening, others, others, others, others, others, others, others};
  };

  // ---- Keys and addresses ----
  add_control("a key that is not known", {told}, XtpType::cntl, [](XtpHeader& bad, XtpControl&) { bad.key ^= 2; });
  add_control("END with a key that is not known", {unknown}, XtpType::cntl, [](XtpHeader& bad, XtpControl&) {
    bad.key ^= 2;
    bad.options |= XtpHeader::end;
  });
  add_control("a key of the sender's that is not known", {unknown}, XtpType::cntl,
              [](XtpHeader& bad, XtpControl&) { bad.key = 99; });
  add_control("from another address", of_control(nothing, stranger), XtpType::cntl, [](XtpHeader&, XtpControl&) {}, 3);
  add_control(
      "END from another address", {unknown, "", stranger, stranger, stranger, stranger, stranger, stranger, stranger},
      XtpType::cntl, [](XtpHeader& bad, XtpControl&) { bad.options |= XtpHeader::end; }, 3);
  add("DIAG with a key that is not known", {unknown}, [](XtpScene& scene) {
    XtpHeader bad = scene.header(XtpType::diag);
    bad.key ^= 2;
    scene.deliver(packet_of(bad, XtpBytes{{}, {}, {}, std::byte{1}, {}, {}, {}, {}}));
  });
  add("DIAG from another address", {unknown}, [](XtpScene& scene) {
    scene.deliver(packet_of(scene.header(XtpType::diag), XtpBytes{{}, {}, {}, std::byte{1}, {}, {}, {}, {}}), 3);
  });

  // ---- What control packets say ----
  add_control("more has come than was sent", of_control(nothing, contradicts), XtpType::cntl,
              [](XtpHeader&, XtpControl& bad) { ++bad.received; });
  add_control("an answer to a call says that more has come than was sent", of_control(contradicts, contradicts),
              XtpType::tcntl, [](XtpHeader&, XtpControl& bad) {
                ++bad.received;
                bad.exchanged_key = our_key;
              });
  add_control("an echo of what was not sent", of_control(nothing, contradicts), XtpType::cntl,
              [](XtpHeader&, XtpControl& bad) { ++bad.echo; });
  add_control("a span of what was not sent", of_control(nothing, contradicts), XtpType::ecntl,
              [](XtpHeader&, XtpControl& bad) {
                bad.span_count = 1;
                bad.spans[0] = {.left = bad.received + 1, .right = bad.received + 2};
              });
  add_control("an old status", of_control(nothing, nothing), XtpType::cntl, [](XtpHeader& old, XtpControl& said) {
    old.sync = 0;
    said = {};
  });
  add_control("RCLOSE of less than was sent", of_control(nothing, nothing), XtpType::cntl,
              [](XtpHeader& bad, XtpControl& said) {
                bad.options |= XtpHeader::read_closed;
                said = {};
              });
  add_control("RCLOSE where nothing has ended", {"", "", nothing, nothing, "", "", nothing, "", ""}, XtpType::cntl,
              [](XtpHeader& bad, XtpControl&) { bad.options |= XtpHeader::read_closed; });
  add_control("an answer to a call with another key",
              {told, "", nothing, nothing, nothing, nothing, nothing, nothing, nothing}, XtpType::tcntl,
              [](XtpHeader&, XtpControl& bad) {
                bad.exchanged_key = 99;
                bad.traffic.data_bytes = 64;
              });

  // ---- Ends ----
  add_control(
      "an end before what has come",
      {told, nothing, contradicts, contradicts, contradicts, contradicts, contradicts, contradicts, contradicts},
      XtpType::cntl, [](XtpHeader& bad, XtpControl&) {
        bad.options |= XtpHeader::write_closed;
        --bad.sequence;
      });
  add_control("another end than before", {"", "", "", "", "", "", contradicts, contradicts, contradicts}, XtpType::cntl,
              [](XtpHeader& bad, XtpControl&) {
                bad.options |= XtpHeader::write_closed;
                ++bad.sequence;
              });
  add_data("data behind the end", {"", "", "", "", "", "", contradicts, contradicts, contradicts}, first_sequence + 5,
           1);

  // ---- Data ----
  add_data("data that has come", {told, nothing, "", again, again, again, again, again, again}, first_sequence, 5);
  add_data("data before the first byte", {told, nothing, again, again, again, again, again, again, again},
           first_sequence - 5, 5);
  add_data("data of no bytes", {told, nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing},
           first_sequence, 0);
  add_data("data beyond the allocation",
           {told, nothing, beyond, beyond, beyond, beyond, contradicts, contradicts, contradicts},
           first_sequence + 5 + 4096, 1);
  add_data("data that ends beyond the allocation",
           {told, nothing, beyond, beyond, beyond, beyond, contradicts, contradicts, contradicts}, first_sequence,
           4096 + 6);

  // ---- Calls ----
  add("the call again",
      {"", "diagnoses_sent packets_in -> diag", nothing, nothing, nothing, nothing, nothing, nothing, nothing},
      [](XtpScene& scene) { scene.deliver(first_of(our_key)); });
  return all;
}

TEST(XtpBadPeers, NoPacketThatDoesNotFitChangesAnAssociation) {
  std::size_t tried = 0;
  for (const bool selective : {true, false}) {
    for (const ProcessingMode mode : {ProcessingMode::layered, ProcessingMode::fused}) {
      for (std::size_t at = 0; at < association_states.size(); ++at) {
        for (const BadXtpPacket& bad : bad_xtp_packets()) {
          const std::string_view changes = bad.changes.size() == 1 ? bad.changes.front() : bad.changes.at(at);
          if (changes.empty()) {
            continue;
          }
          SCOPED_TRACE(bad.name + ", state " + std::to_string(at) + ", mode " + std::to_string(static_cast<int>(mode)) +
                       ", selective " + std::to_string(selective ? 1 : 0));
          XtpScene scene(mode, selective);
          scene.bring_to(association_states[at]);
          for (int repeated = 0; repeated < 2; ++repeated) {
            EXPECT_EQ(scene.changed_by([&] { bad.say(scene); }), changes);
          }
          scene.go_on();
          scene.expect_nothing_left();
          ++tried;
        }
      }
    }
  }
  EXPECT_GT(tried, 1000U);
}

}  // namespace
}  // namespace sluice::test::associations
