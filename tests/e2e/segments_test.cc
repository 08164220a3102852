// SPDX-License-Identifier: Apache-2.0
// Several datagrams in one message (t_sndsudata, t_rcvsudata) through two whole stacks joined in memory: whatever takes
// them apart, and wherever, the same datagrams come out.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/registry.h"
#include "base/prng.h"
#include "stack/head/stack_file.h"
#include "stack/head/stream.h"
#include "tests/e2e/simulated_waiter.h"
#include "tli/endpoint.h"

namespace sluice {
namespace {

using namespace tli;
using enum wire::tpi::TliError;
using Texts = std::vector<std::string>;

/// One arrangement: what is pushed, and what becomes of segmented messages there.
struct Arrangement {
  std::string_view name;
  std::string_view mode;
  std::string_view a;  // pushed by the sender
  std::string_view b;  // and by the receiver
  bool v6 = false;
  bool leaves_whole = true;   // the link sees one message
  bool arrives_whole = true;  // and the receiver gets one
  int mtu = 1500;
};

constexpr std::string_view plain = R"("ip", "udp", "timod")";

class Segments : public testing::TestWithParam<Arrangement> {
 protected:
  Segments() {
    const auto declared = [](std::string_view name, std::string_view end, std::string_view push,
                             std::string_view address) {
      return "[stack." + std::string(name) + "]\nmode = \"" + std::string(GetParam().mode) +
             "\"\ndriver = { kind = \"wire\", name = \"w\", end = \"" + std::string(end) +
             "\", mtu = " + std::to_string(GetParam().mtu) + " }\npush = [" + std::string(push) +
             "]\nip = { address = [" + std::string(address) + "] }\n";
    };
    const std::string_view of_a = GetParam().v6 ? R"("fd00::1/64")" : R"("10.0.0.1/24")";
    const std::string_view of_b = GetParam().v6 ? R"("fd00::2/64")" : R"("10.0.0.2/24")";
    const auto file = StackFile::parse(declared("a", "a", GetParam().a, of_a) + declared("b", "b", GetParam().b, of_b),
                                       "test", registry_);
    EXPECT_TRUE(file) << file.error().text;
    a_ = open(**file->find("a"), 1);
    b_ = open(**file->find("b"), 2);
  }

  [[nodiscard]] static wire::TransportAddress address(unsigned host) {
    if (GetParam().v6) {
      return {*wire::IpAddress::from_text("fd00::" + std::to_string(host)), 7000};
    }
    return {*wire::IpAddress::from_text("10.0.0." + std::to_string(host)), 7000};
  }

  std::unique_ptr<Endpoint> open(const StackDeclaration& stack, unsigned host) {
    auto stream = open_stack(set_, stack);
    EXPECT_TRUE(stream) << stream.error().text;
    (*stream)->set_waiter(&waiter_);
    auto endpoint = Endpoint::t_open(std::move(*stream), nullptr);
    EXPECT_TRUE(endpoint);
    std::array<std::byte, wire::TransportAddress::encoded_size_max> bytes{};
    t_bind request;
    request.addr = {.maxlen = bytes.size(), .len = address(host).encode(bytes), .buf = bytes.data()};
    EXPECT_TRUE((*endpoint)->t_bind(&request, nullptr));
    (*endpoint)->stream().set_nonblocking(true);
    return std::move(*endpoint);
  }

  Outcome<> send(std::span<const std::string> parts, std::size_t segment) {
    std::vector<t_iovec> pieces;
    for (const std::string& part : parts) {
      pieces.push_back({reinterpret_cast<std::byte*>(const_cast<char*>(part.data())), part.size()});
    }
    std::array<std::byte, wire::TransportAddress::encoded_size_max> to{};
    t_unitdata unit;
    unit.addr = {.maxlen = to.size(), .len = address(2).encode(to), .buf = to.data()};
    const auto sent = a_->t_sndsudata(unit, pieces, segment);
    settle();
    return sent;
  }
  void settle() {
    for (int turn = 0; turn < 20; ++turn) {
      set_.scheduler().poll(waiter_.now());
    }
  }

  /// All data units that are there, by t_rcvudata.
  Texts received() {
    Texts texts;
    while (const auto part = receive(65536)) {
      EXPECT_EQ(part->flags, 0);
      EXPECT_EQ(part->from, address(1));
      texts.push_back(part->text);
    }
    return texts;
  }
  struct Part {
    std::optional<wire::TransportAddress> from;  // of the beginning of a data unit
    std::string text;
    int flags = 0;
  };
  /// What t_rcvudata brings in a buffer of so many bytes; nothing: it fails.
  std::optional<Part> receive(std::size_t size) {
    std::array<std::byte, 32> from{};
    Part part{.from = {}, .text = std::string(size, '\0')};
    t_unitdata unit;
    unit.addr = {.maxlen = from.size(), .len = 0, .buf = from.data()};
    unit.udata = {.maxlen = size, .len = 0, .buf = reinterpret_cast<std::byte*>(part.text.data())};
    if (!b_->t_rcvudata(unit, part.flags)) {
      return std::nullopt;
    }
    if (unit.addr.len > 0) {
      part.from = wire::TransportAddress::decode(ConstBytes(from).first(unit.addr.len)).value();
    }
    part.text.resize(unit.udata.len);
    return part;
  }

  /// A counter of one of a stream's modules.
  static std::uint64_t count(Endpoint& endpoint, std::string_view module, std::string_view counter) {
    for (const auto& at : endpoint.stream().chain().modules()) {
      for (const Counter* each : at->counters()) {
        if (at->name() == module && each->name() == counter) {
          return each->value();
        }
      }
    }
    ADD_FAILURE() << module << " has no " << counter;
    return 0;
  }

  Registry registry_ = standard_registry();
  StreamSet set_{StreamSet::Options{.defer_bytes_min = 512, .seed = 5}};
  SimulatedWaiter waiter_{set_};
  std::unique_ptr<Endpoint> a_;
  std::unique_ptr<Endpoint> b_;
};

/// `size` bytes that tell their place, cut into parts at random.
std::pair<std::string, Texts> random_data(Prng& prng, std::size_t size) {
  std::string whole(size, '\0');
  std::ranges::generate(whole, [&] { return static_cast<char>(prng()); });
  Texts parts;
  for (std::size_t at = 0; at < size;) {
    const std::size_t part = std::min<std::size_t>(size - at, 1 + prng() % 1500);
    parts.push_back(whole.substr(at, part));
    at += part;
  }
  return {whole, parts};
}

Texts cut(const std::string& whole, std::size_t segment) {
  Texts texts;
  for (std::size_t at = 0; at < whole.size(); at += segment) {
    texts.push_back(whole.substr(at, segment));
  }
  return texts;
}

TEST_P(Segments, TheSameDatagramsComeOut) {
  ASSERT_TRUE(send(Texts{"first"}, 100));  // so that neighbours are known
  ASSERT_EQ(received(), Texts{"first"});
  Prng prng(11);
  for (int round = 0; round < 60; ++round) {
    const std::size_t segment = round == 0 ? 1400 : 1 + prng() % 1400;
    const std::size_t most = round % 4 == 1 ? 1400 : 60000;  // few small ones fit one packet together
    const std::size_t size = std::min<std::size_t>(most, segment * (1 + prng() % 64) - prng() % segment);
    SCOPED_TRACE("round " + std::to_string(round) + ": " + std::to_string(size) + " bytes in " +
                 std::to_string(segment));
    const auto [whole, parts] = random_data(prng, size);
    const std::uint64_t sent_before = count(*a_, "udp", "sent");
    const std::uint64_t received_before = count(*b_, "udp", "received");
    const std::uint64_t out_before = count(*a_, "ip", "packets_out");
    const std::uint64_t in_before = count(*b_, "ip", "packets_in");
    ASSERT_TRUE(send(parts, segment));
    const Texts expected = cut(whole, segment);
    EXPECT_EQ(received(), expected);
    // "flow control and counters count datagrams"
    EXPECT_EQ(count(*a_, "udp", "sent") - sent_before, expected.size());
    EXPECT_EQ(count(*b_, "udp", "received") - received_before, expected.size());
    EXPECT_EQ(count(*a_, "ip", "packets_out") - out_before, count(*b_, "ip", "packets_in") - in_before);
    EXPECT_GE(count(*a_, "ip", "packets_out") - out_before, expected.size());
  }
  EXPECT_EQ(a_->stream().set().pool().statistics().allocations_failed, 0U);
}

/// A program that knows nothing of segments: its batches are joined where they can be, and nobody sees that.
TEST_P(Segments, ABatchArrivesAsItWasSent) {
  ASSERT_TRUE(send(Texts{"first"}, 100));
  ASSERT_EQ(received(), Texts{"first"});
  std::array<std::byte, wire::TransportAddress::encoded_size_max> to{};
  t_unitdata unit;
  unit.addr = {.maxlen = to.size(), .len = address(2).encode(to), .buf = to.data()};
  Prng prng(12);
  for (int round = 0; round < 60; ++round) {
    Texts texts;
    std::size_t size = 0;
    for (std::size_t left = prng.below(100); left > 0; --left) {
      size = prng.below(8) == 0 || size == 0 ? 1 + prng.below(1400) : size;
      texts.push_back(random_data(prng, size).first);
    }
    std::vector<t_unitdata> units;
    for (std::string& text : texts) {
      unit.udata = {.maxlen = 0, .len = text.size(), .buf = reinterpret_cast<std::byte*>(text.data())};
      units.push_back(unit);
    }
    const std::uint64_t sent_before = count(*a_, "udp", "sent");
    EXPECT_EQ(a_->t_sndmudata(units).value(), units.size());
    const Texts before = texts;
    for (std::string& text : texts) {
      std::ranges::fill(text, '!');  // the memory is the program's again
    }
    settle();
    EXPECT_EQ(received(), before) << "round " << round;
    EXPECT_EQ(count(*a_, "udp", "sent") - sent_before, texts.size());
  }
}

TEST_P(Segments, OneDescentForAll) {
  ASSERT_TRUE(send(Texts{"first"}, 100));
  const std::uint64_t out_before = count(*a_, "ip", "packets_out");
  const std::uint64_t in_before = count(*b_, "ip", "packets_in");
  ASSERT_TRUE(send(Texts{std::string(40000, 'x')}, 1000));
  EXPECT_EQ(count(*b_, "wire", "super_frame_received"), GetParam().leaves_whole && GetParam().arrives_whole ? 1U : 0U);
  EXPECT_EQ(count(*b_, "wire", "super_frame_split"), GetParam().leaves_whole && !GetParam().arrives_whole ? 1U : 0U);
  EXPECT_EQ(count(*a_, "ip", "packets_out") - out_before, count(*b_, "ip", "packets_in") - in_before);
  EXPECT_GE(count(*a_, "ip", "packets_out") - out_before, 40U);
}

TEST_P(Segments, AreReceivedTogether) {
  ASSERT_TRUE(send(Texts{"first"}, 100));
  ASSERT_EQ(received().size(), 1U);
  const std::string whole = "aaaabbbbccccdddde";
  ASSERT_TRUE(send(Texts{whole}, 4));
  Texts units;
  std::string buffer(9, '\0');  // room for two and a bit
  for (;;) {
    const t_iovec place{reinterpret_cast<std::byte*>(buffer.data()), buffer.size()};
    t_unitdata unit;
    std::size_t segment = 0;
    int flags = 0;
    const auto size = b_->t_rcvsudata(unit, std::span(&place, 1), segment, flags);
    if (!size) {
      EXPECT_EQ(size.error().t_errno, TNODATA);
      break;
    }
    EXPECT_EQ(flags, 0);
    for (const std::string& one : cut(buffer.substr(0, *size), segment)) {
      units.push_back(one);
    }
  }
  EXPECT_EQ(units, cut(whole, 4));
}

/// "T_MORE" (t_rcvudata): the rest of a data unit comes with the next call, and then the next data unit.
TEST_P(Segments, OneThatDoesNotFitComesInParts) {
  ASSERT_TRUE(send(Texts{"first"}, 100));
  ASSERT_EQ(received().size(), 1U);
  ASSERT_TRUE(send(Texts{"abcdefgh", "ijkl", "mnop", "q"}, 6));
  Texts parts;
  while (const auto part = receive(4)) {
    parts.push_back((part->from ? "from: " : "rest: ") + part->text + (part->flags == T_MORE ? " more" : ""));
  }
  EXPECT_EQ(parts, (Texts{"from: abcd more", "rest: ef", "from: ghij more", "rest: kl", "from: mnop more", "rest: q"}));
}

/// "[TBUFOVFLW] [...] The unit data information to be returned in unitdata will be discarded": that of one data unit.
TEST_P(Segments, AnAddressThatDoesNotFitCostsOneDataUnit) {
  ASSERT_TRUE(send(Texts{"first"}, 100));
  ASSERT_EQ(received().size(), 1U);
  ASSERT_TRUE(send(Texts{"abcdefghi"}, 4));
  std::array<std::byte, 1> from{};
  std::string buffer(4, '\0');
  t_unitdata unit;
  unit.addr = {.maxlen = from.size(), .len = 0, .buf = from.data()};
  unit.udata = {.maxlen = buffer.size(), .len = 0, .buf = reinterpret_cast<std::byte*>(buffer.data())};
  int flags = 0;
  const auto refused = b_->t_rcvudata(unit, flags);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().t_errno, TBUFOVFLW);
  EXPECT_EQ(received(), (Texts{"efgh", "i"}));
}

TEST_P(Segments, AreLookedAtAndLandOneByOne) {
  ASSERT_TRUE(send(Texts{"first"}, 100));
  ASSERT_EQ(received().size(), 1U);
  ASSERT_TRUE(send(Texts{"head1", "data1", "head2", "data2", "h3", "d"}, 10));
  Texts seen;
  for (int at = 0; at < 3; ++at) {
    std::string head(5, '.');
    t_unitdata unit;
    unit.udata = {.maxlen = head.size(), .len = 0, .buf = reinterpret_cast<std::byte*>(head.data())};
    const auto size = b_->t_lookudata(unit);
    ASSERT_TRUE(size);
    if (at == 1) {
      b_->t_skipudata();
      seen.push_back(head + " skipped");
      continue;
    }
    std::string place(*size, '.');
    const t_iovec part{reinterpret_cast<std::byte*>(place.data()), place.size()};
    EXPECT_EQ(b_->t_landudata(std::span(&part, 1)), *size);
    const auto unseen = b_->t_landudata(std::span(&part, 1));
    EXPECT_TRUE(!unseen && unseen.error().t_errno == wire::tpi::TOUTSTATE) << "the next has not been looked at";
    seen.push_back(head.substr(0, unit.udata.len) + " " + place);
  }
  EXPECT_EQ(seen, (Texts{"head1 head1data1", "head2 skipped", "h3d h3d"}));
  EXPECT_TRUE(received().empty());
}

TEST_P(Segments, AreShownWhereTheyLieOrTakenInAnotherWay) {
  ASSERT_TRUE(send(Texts{"first"}, 100));
  ASSERT_EQ(received().size(), 1U);
  Prng prng(3);
  std::size_t shown_whole = 0;
  for (const bool some_taken : {false, true}) {
    const auto [whole, parts] = random_data(prng, 9999);
    ASSERT_TRUE(send(parts, 1000));
    Texts expected = cut(whole, 1000);
    const auto taken = [&] {
      std::string buffer(1000, '\0');
      t_unitdata unit;
      unit.udata = {.maxlen = buffer.size(), .len = 0, .buf = reinterpret_cast<std::byte*>(buffer.data())};
      int flags = 0;
      EXPECT_TRUE(b_->t_rcvudata(unit, flags));
      return buffer.substr(0, unit.udata.len);
    };
    if (some_taken) {
      EXPECT_EQ(taken(), expected.front());
      expected.erase(expected.begin());
    }
    std::array<std::byte, 32> from{};
    t_unitdata unit;
    unit.addr = {.maxlen = from.size(), .len = 0, .buf = from.data()};
    std::size_t segment = 0;
    const auto shown = b_->t_showsudata(unit, segment);
    ASSERT_TRUE(shown);
    if (shown->empty()) {
      EXPECT_EQ(received(), expected) << "nothing is lost";
      continue;
    }
    ++shown_whole;
    EXPECT_EQ(segment, 1000U);
    EXPECT_EQ(wire::TransportAddress::decode(ConstBytes(from).first(unit.addr.len)), address(1));
    const std::string text(reinterpret_cast<const char*>(shown->data()), shown->size());
    EXPECT_EQ(cut(text, segment), expected);
    std::ranges::fill(*shown, std::byte{0});
    b_->t_endsudata();
    EXPECT_TRUE(received().empty());
    b_->t_endsudata();  // nothing is shown: nothing is discarded
    ASSERT_TRUE(send(Texts{"next"}, 100));
    b_->t_endsudata();
    EXPECT_EQ(received(), Texts{"next"});
  }
  EXPECT_EQ(shown_whole, GetParam().arrives_whole && GetParam().leaves_whole ? 2U : 0U);
}

/// One that t_rcvudata() has begun to take is taken to its end first.
TEST_P(Segments, AreNotShownInTheMiddleOfOne) {
  ASSERT_TRUE(send(Texts{"first"}, 100));
  ASSERT_EQ(received().size(), 1U);
  ASSERT_TRUE(send(Texts{std::string(5000, 'x')}, 1000));
  std::string buffer(10, '\0');
  t_unitdata unit;
  unit.udata = {.maxlen = buffer.size(), .len = 0, .buf = reinterpret_cast<std::byte*>(buffer.data())};
  int flags = 0;
  ASSERT_TRUE(b_->t_rcvudata(unit, flags));
  ASSERT_EQ(flags, T_MORE);
  std::size_t segment = 0;
  const auto shown = b_->t_showsudata(unit, segment);
  ASSERT_FALSE(shown);
  EXPECT_EQ(shown.error().t_errno, TOUTSTATE);
}

TEST_P(Segments, WhatCannotBeSent) {
  const auto error_of = [](const Outcome<>& outcome) { return outcome ? 0 : int{outcome.error().t_errno}; };
  EXPECT_EQ(error_of(send(Texts{"text"}, 0)), TBADDATA) << "no segment size";
  EXPECT_EQ(error_of(send(Texts{}, 10)), TBADDATA) << "no data";
  EXPECT_EQ(error_of(send(Texts{std::string(65, 'x')}, 1)), TBADDATA) << "too many data units";
  EXPECT_EQ(error_of(send(Texts{std::string(65488, 'x')}, 1400)), TBADDATA) << "too many bytes";
  EXPECT_EQ(error_of(send(Texts(257, "x"), 100)), TBADDATA) << "too many parts";
  EXPECT_EQ(error_of(send(Texts{"x"}, 65508)), TBADDATA) << "above the TSDU";
  EXPECT_EQ(error_of(send(Texts{std::string(64, 'x')}, 1)), 0);
  EXPECT_EQ(received(), Texts(64, "x"));
}

INSTANTIATE_TEST_SUITE_P(
    Arrangements, Segments,
    testing::Values(
        Arrangement{"Layered", "layered", plain, plain}, Arrangement{"Fused", "fused", plain, plain},
        Arrangement{"LayeredV6", "layered", plain, plain, true}, Arrangement{"FusedV6", "fused", plain, plain, true},
        // A module that knows nothing of them takes them apart, at the end of the stream that it is in.
        Arrangement{"LayeredFromTheUser", "layered", R"("ip", "udp", "fault", "timod")", plain, false, false},
        Arrangement{"FusedFromTheUser", "fused", R"("ip", "udp", "fault", "timod")", plain, false, false},
        Arrangement{"LayeredToTheUser", "layered", plain, R"("ip", "fault", "udp", "timod")", false, true, false},
        Arrangement{"FusedToTheUser", "fused", plain, R"("ip", "fault", "udp", "timod")", false, true, false},
        Arrangement{"FusedToTheUserV6", "fused", plain, R"("fault", "ip", "udp", "timod")", true, true, false},
        // Where a datagram needs fragments each one is sent for itself.
        Arrangement{"SmallMtu", "fused", plain, plain, false, false, true, 600},
        // One that says that it is made for them lets them pass.
        Arrangement{"FusedThroughNull", "fused", R"("ip", "null", "udp", "timod")", plain}),
    [](const auto& parameter) { return std::string(parameter.param.name); });

}  // namespace
}  // namespace sluice
