// SPDX-License-Identifier: Apache-2.0
// Every state of rmpp's and utopia's two machines with every kind of bad packet: each is counted under its name, is
// answered as docs/formats/rmpp.md says or not at all, and leaves the state as it was: the peer goes on, and what was
// on its way arrives.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "stack/core/primitive.h"
#include "tests/stack/modules/rmpp_bed.h"
#include "tests/stack/modules/watched_node.h"

namespace sluice::test::messages {
namespace {

using namespace std::chrono_literals;
using rmpp::ReceiveState;
using rmpp::Recovery;
using rmpp::SendState;
using wire::message::Decision;
using PacketType = RmppHeader::Type;

constexpr std::uint32_t former_process = 76;
constexpr std::uint32_t our_process = 77;
constexpr std::uint32_t nobodys_process = 78;
constexpr std::uint64_t long_bytes = 3000;  // in packets of 100
constexpr std::uint64_t our_tag = 3;

std::string_view name_of_type(PacketType type) {
  static constexpr std::array<std::string_view, 7> names{"", "request", "clear", "data", "end", "discard", "refuse"};
  return names[static_cast<std::size_t>(type)];
}

/// Node 0 of a bed, whose peer at address 1 is the test.
class BadPeerScene : public WatchedNode {
 public:
  BadPeerScene(Recovery recovery, ProcessingMode mode)
      : WatchedNode({"packets_out"}),
        recovery_(recovery),
        bed_(1,
             {.recovery = recovery,
              .packet_bytes = 100,
              .buffers = 16,
              .message_bytes_max = 10'000,
              .timeout = 20ms,
              .dead_time = 10s},
             mode, 1) {
    bed_.network.on_send = [this](const Packet& packet) {
      sent_.push_back(*RmppHeader::parse(packet.bytes));
      note_answer(std::string(name_of_type(sent_.back().type)));
    };
    // A process that has gone, and the one that is there: its message 4, in its second attempt, has come whole.
    RmppHeader first = request(1, 50);
    first.source_incarnation = former_process;
    deliver(first);
    receive_long(4);
    deliver(answer_to(at_hand_, PacketType::discard));
  }

  // ---- States ----

  void bring_to(ReceiveState state) {
    if (state == ReceiveState::none) {
      return;
    }
    if (state == ReceiveState::withheld) {  // another node has all packets that may be granted
      deliver(request(1, long_bytes), 2);
    }
    if (state == ReceiveState::refused) {
      decide(Decision::Kind::decides);
    }
    if (state == ReceiveState::ended) {
      return receive_long(5);
    }
    at_hand_ = request(5, long_bytes);
    deliver(at_hand_);
    if (state == ReceiveState::gathering) {
      deliver(data(1));
    } else if (state == ReceiveState::refused) {
      decide(Decision::Kind::refuses);
    }
  }
  void bring_to(SendState state) {
    constexpr std::uint64_t handle = 9;
    bed_.network.flying.clear();
    if (state == SendState::idle) {
      // What has been sent is over.
      send(handle, 50);
      if (recovery_ != Recovery::none) {
        deliver(answer_to(mine_, PacketType::end));
      }
      return;
    }
    send(handle, long_bytes);
    if (recovery_ == Recovery::message) {
      bed_.run(25ms);  // its second attempt
      bed_.network.flying.clear();
      mine_ = sent_.back();
    }
    if (state == SendState::sending) {
      bed_[0].provider().stuck = true;
      bed_[0].provider().write_queue().set_marks({.high_bytes = 1, .low_bytes = 1});
      bed_[0].send(Bed::address(2), 10, 50);  // waits at the device
      deliver(grant(1, 0xffff));
    } else if (state == SendState::ending) {
      deliver(grant(1, 0xffff));
      deliver(grant(17, 0x1fff));
    }
  }

  // ---- What the peer says ----

  [[nodiscard]] std::uint8_t flags() const { return rmpp::flags_of(recovery_); }
  [[nodiscard]] RmppHeader request(std::uint32_t number, std::uint64_t total) const {
    return {.type = PacketType::request,
            .flags = flags(),
            .source_incarnation = our_process,
            .number = number,
            .attempt = 2,
            .packet_bytes = 100,
            .total_bytes = total,
            .tag = our_tag};
  }
  /// A packet of the message at hand.
  [[nodiscard]] RmppHeader data(std::uint32_t index) const {
    RmppHeader header = at_hand_;
    header.type = PacketType::data;
    header.index = index;
    return header;
  }
  /// The request of the message at hand.
  [[nodiscard]] RmppHeader at_hand() const { return at_hand_; }
  /// The request of node 0's message.
  [[nodiscard]] RmppHeader mine() const { return mine_; }
  [[nodiscard]] RmppHeader answer_to(RmppHeader header, PacketType type) const {
    header.type = type;
    header.destination_incarnation = bed_incarnation();
    header.source_incarnation = our_process;
    header.index = 0;
    header.length = 0;
    header.grant = 0;
    return header;
  }
  [[nodiscard]] RmppHeader grant(std::uint32_t index, std::uint16_t packets) const {
    RmppHeader header = answer_to(mine_, PacketType::clear);
    header.index = index;
    header.grant = packets;
    return header;
  }
  /// A header's packet, whose payload is what it should be.
  [[nodiscard]] static std::vector<std::byte> packet_of(RmppHeader header) {
    const bool carries = header.type == PacketType::request || header.type == PacketType::data;
    if (carries && header.offset() <= header.total_bytes) {
      header.length = static_cast<std::uint16_t>(
          std::min<std::uint64_t>(header.packet_bytes, header.total_bytes - header.offset()));
    }
    return messages::packet_of(header);
  }
  void deliver(const RmppHeader& header, std::size_t from = 1) { deliver(packet_of(header), from); }
  void deliver(const std::vector<std::byte>& bytes, std::size_t from = 1) {
    hand_over(bytes, from);
    bed_.network.flying.clear();  // what it sends is seen as it leaves
    bed_.step(false);
    bed_.network.flying.clear();
  }

  // ---- What comes of it ----

  /// The counters that grow as the packet comes, before anybody has a turn.
  std::string counted_of(const RmppHeader& header) {
    const Counts before = counters();
    hand_over(packet_of(header));
    return grown_since(before);
  }
  /// The user has more to read than it takes.
  void fill_user() {
    Queue& queue = bed_[0].user().read_queue();
    queue.set_marks({.high_bytes = 1, .low_bytes = 1});
    queue.enqueue(Message::copy_of(bed_[0].set().pool(), std::vector<std::byte>(1)));
  }
  /// The peer gives up the message at hand, and there is no memory to tell the user.
  void lose_without_memory() {
    bed_[0].set().pool().fail_when(
        [this, before = counters().at("messages_lost")] { return counters().at("messages_lost") > before; });
    hand_over(packet_of(answer_to(at_hand_, PacketType::discard)));
    bed_[0].set().pool().fail_when(nullptr);
  }
  /// The peer goes on as it should: what was on its way in arrives, and of what was over the sender is told again.
  void go_on_from(ReceiveState state) {
    if (state == ReceiveState::withheld) {
      sent_.clear();
      deliver(answer_to(request(1, long_bytes), PacketType::discard), 2);
      bed_.run(1ms);
      ASSERT_FALSE(sent_.empty());
      EXPECT_EQ(sent_.back().type, PacketType::clear);
    }
    if (state == ReceiveState::withheld || state == ReceiveState::gathering) {
      deliver_data(state == ReceiveState::gathering ? 2 : 1);
      EXPECT_EQ(bed_.outcomes.order.size(), 3U);
      return;
    }
    const std::string_view again = state == ReceiveState::refused ? "refuse" : recovery_ == Recovery::none ? "" : "end";
    answered_.clear();
    deliver(at_hand_);
    EXPECT_EQ(answered_, again);
    deliver(request(6, 50));
    if (state == ReceiveState::refused) {
      at_hand_ = request(6, 50);
      decide(Decision::Kind::accepts);
    }
    EXPECT_EQ(bed_.outcomes.order.size(), state == ReceiveState::ended ? 4U : 3U);
  }
  void go_on_from(SendState state) {
    if (state == SendState::sending) {
      bed_[0].provider().stuck = false;
      bed_[0].provider().write_queue().enable();
      bed_.run(0ms);
      bed_.network.flying.clear();
      deliver(grant(17, 0x1fff));
    } else if (state == SendState::asking) {
      deliver(grant(1, 0xffff));
      deliver(grant(17, 0x1fff));
    }
    if (state == SendState::idle) {
      send(11, 50);
    }
    if (recovery_ != Recovery::none) {
      deliver(answer_to(mine_, PacketType::end));
    }
    EXPECT_EQ(bed_.outcomes.sent[state == SendState::idle ? 11 : 9], 1);
    EXPECT_TRUE(bed_.outcomes.failed.empty());
  }
  void expect_nothing_left() {
    EXPECT_EQ(bed_.outcomes.wrong, "");
    bed_.network.on_send = nullptr;
    bed_.run(1000s);
    EXPECT_EQ(bed_[0].module().peers(), 0U);
    EXPECT_EQ(bed_[0].module().granted_packets(), 0U);
    EXPECT_EQ(bed_[0].module().messages_waiting(), 0U);
    EXPECT_EQ(bed_[0].set().pool().statistics().buffers_in_use, 0U);
  }
  /// What the user is told of a packet.
  std::vector<Indication> told_by(const RmppHeader& header) {
    hand_over(packet_of(header));
    bed_[0].set().scheduler().poll(bed_.now());
    std::vector<Indication> told;
    while (const Message message = bed_[0].user().read_queue().dequeue()) {
      std::array<std::byte, Indication::size> front;
      EXPECT_TRUE(message.copy_data_to(0, front));
      told.push_back(Indication::load(front.data()).value());
    }
    bed_.network.flying.clear();
    return told;
  }
  /// Whether the next message begins.
  bool next_leaves() {
    bed_[0].provider().stuck = false;
    bed_[0].provider().write_queue().enable();
    bed_.run(0ms);
    send(11, 50);
    return mine_.type == PacketType::request && mine_.total_bytes == 50;
  }
  [[nodiscard]] std::uint32_t bed_incarnation() const { return incarnation_; }

  bool damages = false;  // payload, on its way

 private:
  void hand_over(const std::vector<std::byte>& bytes, std::size_t from = 1) {
    const auto sum = static_cast<std::uint16_t>(header_sum(bytes) ^ (damages ? 1 : 0));
    bed_[0].provider().deliver({.from = Bed::address(from), .to = Bed::address(0), .bytes = bytes, .sum = sum});
  }
  void deliver_data(std::uint32_t from) {
    for (std::uint32_t index = from; index < long_bytes / 100; ++index) {
      deliver(data(index));
    }
  }
  void receive_long(std::uint32_t number) {
    at_hand_ = request(number, long_bytes);
    deliver(at_hand_);
    deliver_data(1);
  }
  void send(std::uint64_t handle, std::size_t size) {
    sent_.clear();
    bed_[0].send(Bed::address(1), handle, size);
    bed_.step(false);
    bed_.network.flying.clear();
    ASSERT_FALSE(sent_.empty());
    mine_ = sent_.back();
  }
  void decide(Decision::Kind kind) {
    const Decision decision{
        .kind = kind, .peer = Bed::address(1), .incarnation = our_process, .number = at_hand_.number};
    bed_[0].user().write_queue().put_next(primitive_message(bed_[0].set().pool(), decision, MessageType::ctl));
    bed_.step(false);
    bed_.network.flying.clear();
  }
  const Module& watched() override { return bed_[0].module(); }
  std::string user_has() override {
    const Outcomes& told = bed_.outcomes;
    return std::to_string(told.order.size()) + " received, " + std::to_string(told.lost) + " lost, " +
           std::to_string(told.sent.size()) + " sent, " + std::to_string(told.failed.size()) + " failed, " +
           std::to_string(bed_[0].user().payload_bytes) + " bytes, " + std::to_string(bed_[0].module().peers()) +
           " peers, " + std::to_string(bed_[0].module().granted_packets()) + " granted, " +
           std::to_string(bed_[0].module().messages_waiting()) + " waiting" + told.wrong;
  }

  Recovery recovery_;
  std::vector<RmppHeader> sent_;
  RmppHeader at_hand_;
  RmppHeader mine_;
  Bed bed_;  // which may send as it ends
  std::uint32_t incarnation_ = bed_[0].module().incarnation();
};

/// One that nothing excuses, in any state: named by the counter.
struct MalformedPacket {
  std::string_view counter;
  std::function<std::vector<std::byte>(const RmppHeader&)> make;
};

std::vector<std::byte> with(RmppHeader header, const std::function<void(RmppHeader&)>& change) {
  std::vector<std::byte> bytes = BadPeerScene::packet_of(header);
  header = *RmppHeader::parse(bytes);
  change(header);
  header.emit(bytes);
  return bytes;
}

/// From a packet that fits.
const std::vector<MalformedPacket>& malformed_packets() {
  static const std::vector<MalformedPacket> all = {
      {"short_header",
       [](const RmppHeader& good) {
         auto bytes = BadPeerScene::packet_of(good);
         bytes.resize(RmppHeader::size - 1);
         return bytes;
       }},
      {"bad_version",
       [](const RmppHeader& good) {
         auto bytes = BadPeerScene::packet_of(good);
         bytes[0] = std::byte{2};
         return bytes;
       }},
      {"bad_checksum",
       [](const RmppHeader& good) {
         auto bytes = BadPeerScene::packet_of(good);
         bytes[40] ^= std::byte{1};
         return bytes;
       }},
      {"bad_copy",
       [](const RmppHeader& good) {
         auto bytes = BadPeerScene::packet_of(good);
         bytes[12] ^= std::byte{1};
         store_checksum(bytes.data() + 62, 0);
         store_checksum(bytes.data() + 62, checksum_of(header_sum(ConstBytes(bytes).first(RmppHeader::size))));
         return bytes;
       }},
      {"bad_type",
       [](const RmppHeader& good) {
         return with(good, [](RmppHeader& bad) { bad.type = static_cast<PacketType>(7); });
       }},
      {"bad_flags", [](const RmppHeader& good) { return with(good, [](RmppHeader& bad) { bad.flags = 3; }); }},
      {"bad_length", [](const RmppHeader& good) { return with(good, [](RmppHeader& bad) { ++bad.length; }); }},
      {"bad_length",
       [](const RmppHeader& good) {
         auto bytes = BadPeerScene::packet_of(good);
         bytes.push_back({});
         return bytes;
       }},
      {"bad_total", [](const RmppHeader& good) { return with(good, [](RmppHeader& bad) { bad.packet_bytes = 63; }); }},
      {"bad_total",
       [](const RmppHeader& good) { return with(good, [](RmppHeader& bad) { bad.total_bytes = ~std::uint64_t{0}; }); }},
      {"bad_index", [](const RmppHeader& good) { return with(good, [](RmppHeader& bad) { bad.index = 30; }); }},
      {"bad_index",
       [](const RmppHeader& good) { return with(good, [](RmppHeader& bad) { bad.index = ~std::uint32_t{0}; }); }},
      {"bad_grant", [](const RmppHeader& good) { return with(good, [](RmppHeader& bad) { bad.grant = 1; }); }},
  };
  return all;
}

/// A packet that does not fit. What it changes: one entry for all states, or one each; without one it fits there.
struct BadPacket {
  std::string name;
  std::function<void(BadPeerScene&)> say;
  std::vector<std::string_view> changes;
};

RmppHeader changed(RmppHeader header, const std::function<void(RmppHeader&)>& change) {
  change(header);
  return header;
}

std::function<void(RmppHeader&)> of_process(std::uint32_t which) {
  return [which](RmppHeader& bad) { bad.source_incarnation = which; };
}

constexpr std::string_view stale = "packets_in stale";
constexpr std::string_view contradicts = "contradictions packets_in";
constexpr std::string_view out_of_order = "out_of_order packets_in";
constexpr std::string_view strange = "packets_in strangers";

/// In each of these modules, on either path, from each state: the packets, and that everything goes on as before.
template <class State>
void try_all(const std::function<std::vector<State>(Recovery)>& states,
             const std::function<std::vector<BadPacket>(Recovery)>& packets,
             const std::function<RmppHeader(const BadPeerScene&)>& good) {
  std::size_t tried = 0;
  for (const Recovery recovery : {Recovery::message, Recovery::selective, Recovery::none}) {
    for (const ProcessingMode mode : {ProcessingMode::layered, ProcessingMode::fused}) {
      const std::vector<State> all = states(recovery);
      for (std::size_t at = 0; at < all.size(); ++at) {
        const auto attempt = [&](const std::string& what, std::string_view changes,
                                 const std::function<void(BadPeerScene&)>& say) {
          SCOPED_TRACE(what + ", state " + std::to_string(static_cast<int>(all[at])) + ", recovery " +
                       std::to_string(static_cast<int>(recovery)) + ", mode " + std::to_string(static_cast<int>(mode)));
          BadPeerScene scene(recovery, mode);
          scene.bring_to(all[at]);
          for (int repeated = 0; repeated < 2; ++repeated) {
            EXPECT_EQ(scene.changed_by([&] { say(scene); }), changes);
          }
          scene.go_on_from(all[at]);
          scene.expect_nothing_left();
          ++tried;
        };
        for (const MalformedPacket& bad : malformed_packets()) {
          attempt("malformed", bad.counter, [&](BadPeerScene& scene) { scene.deliver(bad.make(good(scene))); });
        }
        for (const BadPacket& bad : packets(recovery)) {
          const std::string_view changes = bad.changes.size() == 1 ? bad.changes.front() : bad.changes.at(at);
          if (!changes.empty()) {
            attempt(bad.name, changes, bad.say);
          }
        }
      }
    }
  }
  EXPECT_GT(tried, 500U);
}

// ---- Packets of messages on their way in ----

std::vector<BadPacket> bad_packets_in(Recovery recovery) {
  std::vector<BadPacket> all;
  using Changes = std::vector<std::string_view>;
  using Change = std::function<void(RmppHeader&)>;
  const auto add_data = [&all](std::string name, Changes changes, Change change) {
    all.push_back({"data " + name, [change](BadPeerScene& scene) { scene.deliver(changed(scene.data(2), change)); },
                   std::move(changes)});
  };
  const auto add_request = [&all](std::string name, Changes changes, Change change) {
    all.push_back({"a request " + name,
                   [change](BadPeerScene& scene) { scene.deliver(changed(scene.at_hand(), change)); },
                   std::move(changes)});
  };
  const auto add_discard = [&all](std::string name, Changes changes, Change change) {
    all.push_back({"a discard " + name,
                   [change](BadPeerScene& scene) {
                     RmppHeader good = scene.answer_to(scene.at_hand(), PacketType::discard);
                     scene.deliver(changed(good, change));
                   },
                   std::move(changes)});
  };
  const Change elsewhere = [](RmppHeader& bad) { bad.destination_incarnation = 1; };

  add_data("of a message that has not begun", {stale}, [](RmppHeader& bad) { ++bad.number; });
  add_data("of a message before", {stale}, [](RmppHeader& bad) { --bad.number; });
  add_data("of an earlier attempt", {stale}, [](RmppHeader& bad) { --bad.attempt; });
  add_data("of a later attempt", {stale}, [](RmppHeader& bad) { ++bad.attempt; });
  add_data("of another total", {contradicts}, [](RmppHeader& bad) { bad.total_bytes += 1000; });
  add_data("of another tag", {contradicts}, [](RmppHeader& bad) { ++bad.tag; });
  add_data("with other flags", {contradicts}, [](RmppHeader& bad) { bad.flags = bad.flags == 0 ? 1 : 0; });
  add_data("in packets of another size", {contradicts}, [](RmppHeader& bad) { bad.packet_bytes = 200; });
  add_data("that is not granted", {out_of_order}, [](RmppHeader& bad) { bad.index = 20; });
  add_data("that has come", {out_of_order}, [](RmppHeader& bad) { bad.index = 1; });
  if (recovery == Recovery::selective) {
    // Behind a gap it is welcome while it is granted.
    add_data("that the state does not take", {out_of_order, "", out_of_order, out_of_order, out_of_order},
             [](RmppHeader& bad) { bad.index = 3; });
  } else {
    add_data("behind a gap", {out_of_order}, [](RmppHeader& bad) { bad.index = 3; });
  }
  add_data("of a former process", {stale}, of_process(former_process));
  add_data("of an unknown process", {stale}, of_process(nobodys_process));
  add_data("of no process", {stale}, of_process(0));
  add_data("for another process", {stale}, elsewhere);

  add_request("of a message before", {stale}, [](RmppHeader& bad) { --bad.number; });
  add_request("of half of all numbers before", {stale}, [](RmppHeader& bad) { bad.number += 0x8000'0000; });
  add_request("of an earlier attempt", {stale}, [](RmppHeader& bad) { --bad.attempt; });
  add_request("of another total", {contradicts}, [](RmppHeader& bad) { bad.total_bytes = 2000; });
  add_request("of another tag", {contradicts}, [](RmppHeader& bad) { ++bad.tag; });
  add_request("of a later attempt and another total", {contradicts}, [](RmppHeader& bad) {
    bad.total_bytes = 2000;
    ++bad.attempt;
  });
  add_request("that is too long", {"packets_in too_long"}, [](RmppHeader& bad) {
    ++bad.number;
    bad.total_bytes = 10'001;
  });
  add_request("of a former process", {stale}, of_process(former_process));
  add_request("of no process", {stale}, of_process(0));
  add_request("for another process", {"packets_in stale -> refuse"}, elsewhere);
  add_request("of the next message for another process", {"packets_in stale -> refuse"}, [](RmppHeader& bad) {
    ++bad.number;
    bad.destination_incarnation = 1;
  });
  // The sender may not have heard what was said to it. What has not been granted in full is not granted again.
  const std::string_view of_last = recovery == Recovery::none ? stale : "packets_in -> end";
  add_request("again",
              {of_last, recovery == Recovery::selective ? "packets_in -> clear" : out_of_order, out_of_order, of_last,
               "packets_in -> refuse"},
              [](RmppHeader&) {});

  add_discard("of another message", {stale}, [](RmppHeader& bad) { ++bad.number; });
  add_discard("of a former process", {stale}, of_process(former_process));
  add_discard("of an unknown process", {stale}, of_process(nobodys_process));
  add_discard("for another process", {stale}, elsewhere);
  all.push_back({"a stranger's data", [](BadPeerScene& scene) { scene.deliver(scene.data(2), 3); }, {strange}});
  all.push_back({"a stranger's discard",
                 [](BadPeerScene& scene) { scene.deliver(scene.answer_to(scene.at_hand(), PacketType::discard), 3); },
                 {strange}});
  return all;
}

std::vector<ReceiveState> receive_states(Recovery /*recovery*/) {
  return {ReceiveState::none, ReceiveState::gathering, ReceiveState::withheld, ReceiveState::ended,
          ReceiveState::refused};
}

TEST(RmppBadPeers, NoPacketOfAMessageThatDoesNotFitChangesAReceivingState) {
  try_all<ReceiveState>(receive_states, bad_packets_in, [](const BadPeerScene& scene) { return scene.data(2); });
}

// On a fused path the header may be good where the payload is not: nothing is counted or answered then, and no message
// ends.
TEST(RmppBadPeers, WhatIsDroppedOrEndsAMessageIsVerifiedFirst) {
  for (const Recovery recovery : {Recovery::message, Recovery::selective, Recovery::none}) {
    std::vector<BadPacket> all = bad_packets_in(recovery);
    all.push_back({"a request of the next message",
                   [](BadPeerScene& scene) { scene.deliver(scene.request(6, 50)); },
                   {"", "ends the one before", "ends the one before", "", ""}});
    const std::vector<ReceiveState> states = receive_states(recovery);
    for (std::size_t at = 0; at < states.size(); ++at) {
      for (const BadPacket& bad : all) {
        if (bad.changes.size() > 1 && bad.changes.at(at).empty()) {
          continue;  // it goes up
        }
        SCOPED_TRACE(bad.name + ", state " + std::to_string(at) + ", recovery " +
                     std::to_string(static_cast<int>(recovery)));
        BadPeerScene scene(recovery, ProcessingMode::fused);
        scene.bring_to(states[at]);
        scene.damages = true;
        EXPECT_EQ(scene.changed_by([&] { bad.say(scene); }), "");
        scene.damages = false;
        scene.go_on_from(states[at]);
        scene.expect_nothing_left();
      }
    }
  }
}

// A new message finds no room above, or no memory for what must be said before it.
TEST(RmppBadPeers, WhatFindsNoRoomIsVerifiedBeforeItIsCounted) {
  for (const Recovery recovery : {Recovery::message, Recovery::selective, Recovery::none}) {
    for (const ProcessingMode mode : {ProcessingMode::layered, ProcessingMode::fused}) {
      for (const bool damages : {true, false}) {
        SCOPED_TRACE("recovery " + std::to_string(static_cast<int>(recovery)) + ", mode " +
                     std::to_string(static_cast<int>(mode)) + ", damages " + std::to_string(damages ? 1 : 0));
        {
          BadPeerScene scene(recovery, mode);
          scene.bring_to(ReceiveState::ended);
          scene.fill_user();
          scene.damages = damages;
          EXPECT_EQ(scene.counted_of(scene.request(6, 50)), damages ? "" : "head_full packets_in");
        }
        BadPeerScene scene(recovery, mode);
        scene.bring_to(ReceiveState::gathering);
        scene.lose_without_memory();
        scene.damages = damages;
        EXPECT_EQ(scene.counted_of(scene.request(6, 50)), damages ? "" : "no_memory packets_in");
      }
    }
  }
}

// ---- Answers to messages on their way out ----

std::vector<BadPacket> bad_answers(Recovery recovery) {
  std::vector<BadPacket> all;
  const auto add = [&all](std::string name, PacketType type, std::vector<std::string_view> changes,
                          std::function<void(RmppHeader&)> change, std::size_t from = 1) {
    all.push_back({std::string(name_of_type(type)) + " " + name,
                   [type, change = std::move(change), from](BadPeerScene& scene) {
                     RmppHeader bad = scene.answer_to(scene.mine(), type);
                     if (type == PacketType::clear) {
                       bad.total_bytes = long_bytes;
                       bad.index = 1;
                       bad.grant = 1;
                     }
                     change(bad);
                     scene.deliver(bad, from);
                   },
                   std::move(changes)});
  };
  const auto as_it_is = [](RmppHeader&) {};
  constexpr std::string_view bad_grants = "bad_grants packets_in";
  constexpr std::string_view stray = "packets_in stray";
  constexpr std::string_view discarded = "packets_in -> discard";
  const bool selective = recovery == Recovery::selective;
  // In the order of send_states().
  for (const PacketType type : {PacketType::clear, PacketType::refuse, PacketType::end}) {
    // An end that nobody waits for is answered, so that its sender forgets.
    const std::string_view idle = type == PacketType::end ? discarded : stale;
    add("of a message before", type, {idle, stale, stale, stale}, [](RmppHeader& bad) { --bad.number; });
    add("of a message that has not begun", type, {idle, stale, stale, stale}, [](RmppHeader& bad) { ++bad.number; });
    add("of a later attempt", type, {idle, stale, stale, stale}, [](RmppHeader& bad) { ++bad.attempt; });
    add("of a former process", type, {stale}, of_process(former_process));
    add("of no process", type, {stale}, of_process(0));
    add("for another process", type, {stale}, [](RmppHeader& bad) { ++bad.destination_incarnation; });
    add("for any process", type, {stale}, [](RmppHeader& bad) { bad.destination_incarnation = 0; });
    add("of a stranger", type, {strange}, as_it_is, 3);
    if (type != PacketType::refuse) {
      add("of another process", type, {stale}, of_process(nobodys_process));
      add("of another total", type, {idle, contradicts, contradicts, contradicts},
          [](RmppHeader& bad) { bad.total_bytes += 1000; });
      add("with other flags", type, {idle, contradicts, contradicts, contradicts},
          [](RmppHeader& bad) { bad.flags = bad.flags == 0 ? 1 : 0; });
      add("of packets of another size", type, {idle, contradicts, contradicts, contradicts},
          [](RmppHeader& bad) { bad.packet_bytes = 200; });
    }
  }
  if (recovery == Recovery::message) {
    add("of an earlier attempt", PacketType::clear, {stale}, [](RmppHeader& bad) { bad.attempt = 0; });
  }
  // What is lost is granted again in the selective form.
  add("of what comes later", PacketType::clear, {stale, bad_grants, stray, selective ? "" : bad_grants},
      [](RmppHeader& bad) { bad.index = 20; });
  add("of the packet behind the next", PacketType::clear, {stale, bad_grants, stray, selective ? "" : bad_grants},
      [](RmppHeader& bad) { bad.index = 2; });
  add("of the first packet", PacketType::clear, {stale, bad_grants, stray, bad_grants},
      [](RmppHeader& bad) { bad.index = 0; });
  add("with a hole", PacketType::clear, {stale, selective ? "" : bad_grants, stray, selective ? "" : bad_grants},
      [](RmppHeader& bad) { bad.grant = 5; });
  add("of nothing", PacketType::clear, {"bad_grant"}, [](RmppHeader& bad) { bad.grant = 0; });
  add("beyond the message", PacketType::clear, {"bad_grant"}, [](RmppHeader& bad) {
    bad.index = 29;
    bad.grant = 3;
  });
  add("before all has left", PacketType::end, {"", stray, stray, ""}, as_it_is);
  return all;
}

std::vector<SendState> send_states(Recovery recovery) {
  std::vector<SendState> all{SendState::idle, SendState::asking, SendState::sending};
  if (recovery != Recovery::none) {
    all.push_back(SendState::ending);  // utopia's are over when they have left
  }
  return all;
}

TEST(RmppBadPeers, NoAnswerThatDoesNotFitChangesASendingState) {
  try_all<SendState>(send_states, bad_answers, [](const BadPeerScene& scene) { return scene.data(2); });
}

// ---- Ends that a peer may say ----

/// In each module, on either path, from each of these states.
template <class State>
void from_each(std::vector<State> (*states)(Recovery), const std::function<void(BadPeerScene&, State)>& act) {
  for (const Recovery recovery : {Recovery::message, Recovery::selective, Recovery::none}) {
    for (const ProcessingMode mode : {ProcessingMode::layered, ProcessingMode::fused}) {
      for (const State state : states(recovery)) {
        SCOPED_TRACE("state " + std::to_string(static_cast<int>(state)) + ", recovery " +
                     std::to_string(static_cast<int>(recovery)) + ", mode " + std::to_string(static_cast<int>(mode)));
        BadPeerScene scene(recovery, mode);
        scene.bring_to(state);
        act(scene, state);
        scene.expect_nothing_left();
      }
    }
  }
}

TEST(RmppBadPeers, ARefusalFailsTheMessageOnItsWayOutAndTheNextBegins) {
  for (const std::uint32_t refusing : {our_process, nobodys_process}) {
    from_each<SendState>(send_states, [refusing](BadPeerScene& scene, SendState state) {
      RmppHeader refusal = scene.answer_to(scene.mine(), PacketType::refuse);
      refusal.source_incarnation = refusing;
      const std::vector<Indication> told = scene.told_by(refusal);
      if (state == SendState::idle) {
        EXPECT_TRUE(told.empty());
      } else {
        ASSERT_EQ(told.size(), 1U);
        EXPECT_EQ(told[0].kind, Indication::Kind::failed);
        EXPECT_EQ(told[0].handle, 9U);
        EXPECT_EQ(told[0].error, refusing == our_process ? EXFULL : ECONNRESET);
      }
      EXPECT_TRUE(scene.next_leaves());
    });
  }
}

TEST(RmppBadPeers, ADiscardOrAnotherProcessLosesTheMessageOnItsWayIn) {
  for (const PacketType type : {PacketType::discard, PacketType::request}) {
    from_each<ReceiveState>(receive_states, [type](BadPeerScene& scene, ReceiveState state) {
      RmppHeader header = type == PacketType::discard ? scene.answer_to(scene.at_hand(), type) : scene.request(1, 50);
      header.source_incarnation = type == PacketType::discard ? our_process : nobodys_process;
      const std::vector<Indication> told = scene.told_by(header);
      const bool loses = state == ReceiveState::gathering || state == ReceiveState::withheld;
      ASSERT_EQ(told.size() >= 1 && told[0].kind == Indication::Kind::lost, loses);
      if (loses) {
        EXPECT_EQ(told[0].error, ECONNABORTED);
        EXPECT_EQ(told[0].number, 5U);
        EXPECT_EQ(told[0].incarnation, our_process);
      }
      const auto lost_again = std::ranges::count(told, Indication::Kind::lost, &Indication::kind);
      EXPECT_EQ(lost_again, loses ? 1 : 0);
      EXPECT_EQ(scene.told_by(header).size(), 0U) << "once";
    });
  }
}

}  // namespace
}  // namespace sluice::test::messages
