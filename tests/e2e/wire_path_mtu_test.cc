// SPDX-License-Identifier: Apache-2.0
// ftx searches for the path MTU over our own stack: ip fragments nothing, and what the path does not carry is lost,
// with or without an ICMP message. The same in both modes.
#include <cstring>
#include <map>

#include "apps/ftx/recovery/fixed_rate.h"
#include "tests/e2e/wire_transfer.h"
#include "tests/file_text.h"
#include "tests/stack/modules/ip_bed.h"

namespace sluice::ftx {
namespace {

constexpr std::size_t link_mtu = 9000;

/// What a path between the hosts carries, and what it was given.
struct NarrowPath {
  std::size_t mtu = link_mtu;
  bool tells = false;                    // a router on it sends ICMP messages
  std::map<std::size_t, std::size_t> v;  // packets that passed, by size
  std::size_t refused = 0;
  std::size_t fragments = 0;  // or packets that might become such

  [[nodiscard]] std::size_t passed() const {
    std::size_t all = 0;
    for (const auto& [size, packets] : v) {
      all += packets;
    }
    return all;
  }
};

/// The path, as a module above the driver of host a.
class Narrow final : public Module {
 public:
  explicit Narrow(NarrowPath& path) : Module("narrow"), path_(path) {}

  [[nodiscard]] bool handles_deferred() const override { return true; }

  void wput(Batch&& batch) override {
    Batch passing;
    std::vector<Message> answers;
    while (Message message = batch.pop()) {
      if (passes(message, answers)) {
        passing.push(std::move(message));
      }
    }
    if (!passing.empty()) {
      write_queue().put_next(std::move(passing));
    }
    for (Message& answer : answers) {
      read_queue().put_next(std::move(answer));
    }
  }

 private:
  [[nodiscard]] bool passes(const Message& message, std::vector<Message>& answers) {
    const std::size_t size = message.data_size();
    ip_test::Octets front(std::min<std::size_t>(size, quoted_bytes));
    if (message.native<wire::DataUnit>() == nullptr || !message.copy_data_to(0, front) || !is_udp(front)) {
      return true;
    }
    const bool v4 = (front[0] >> 4) == std::byte{4};
    path_.fragments += v4 && (front[6] & std::byte{0x60}) != std::byte{0x40} ? 1U : 0U;
    if (size <= path_.mtu) {
      ++path_.v[size];
      return true;
    }
    ++path_.refused;
    if (path_.tells) {
      answers.push_back(v4 ? answer4(front) : answer6(front));
    }
    return false;
  }

  /// Fragments of IPv6 are none, and are counted.
  [[nodiscard]] bool is_udp(ConstBytes front) {
    const auto version = std::to_integer<unsigned>(front[0]) >> 4U;
    path_.fragments += version == 6 && front[6] == std::byte{wire::protocol_ipv6_fragment} ? 1U : 0U;
    return (version == 4 && front[9] == std::byte{wire::protocol_udp}) ||
           (version == 6 && front[6] == std::byte{wire::protocol_udp});
  }

  [[nodiscard]] Message answer4(ConstBytes quoted) {
    const wire::Icmp4Unreachable too_big{wire::Icmp4UnreachableCode::fragmentation_needed,
                                         static_cast<std::uint16_t>(path_.mtu)};
    return frame(
        wire::ethertype_ipv4,
        packet(ip_test::V4{.source = "10.79.0.254", .destination = "10.79.0.1", .protocol = wire::protocol_icmp4},
               ip_test::icmp(wire::Icmp4Message(too_big), quoted)));
  }
  [[nodiscard]] Message answer6(ConstBytes quoted) {
    const ip_test::V6 header{.source = "fd00:79::fe", .destination = "fd00:79::1", .next_header = wire::protocol_icmp6};
    const wire::Icmp6PacketTooBig too_big{static_cast<std::uint32_t>(path_.mtu)};
    return frame(wire::ethertype_ipv6, packet(header, ip_test::icmp(wire::Icmp6Message(too_big), quoted, header)));
  }
  [[nodiscard]] Message frame(std::uint16_t sap, const ip_test::Octets& octets) {
    Message message = Message::of_native(set().pool(), wire::DataUnit{.kind = wire::DataUnit::Kind::link_indication,
                                                                      .destination = {ip_test::our_mac, sap},
                                                                      .source = {ip_test::peer_mac, sap}});
    message.link(Message::copy_of(set().pool(), octets, 14));
    return message;
  }

  static constexpr std::size_t quoted_bytes = 64;

  NarrowPath& path_;
};

class WirePathMtu : public WireTransfer {
 protected:
  WirePathMtu() {
    registry_.add({.name = "narrow",
                   .summary = "a path that carries less than its links",
                   .transparent = true,
                   .make = [this](StreamSet&, const Parameters&) -> Result<std::unique_ptr<Module>> {
                     return std::make_unique<Narrow>(path);
                   }});
  }

  /// Over a link of 9000 bytes with a round trip of 20 ms.
  Event search(bool v6, std::string_view mode, std::uint64_t bytes_per_second) {
    ip_header_bytes_ = v6 ? 48 : 28;
    congestion_ = std::make_unique<FixedRate>(bytes_per_second);
    path.v.clear();
    path.refused = path.fragments = 0;
    const Event done =
        transfer(two_hosts(link_mtu, R"("narrow", "fault", )", "fault = { delay_ms = 10 }", mode),
                 *wire::IpAddress::from_text(v6 ? "fd00:79::2" : "10.79.0.2"), link_mtu - *ip_header_bytes_);
    EXPECT_EQ(done.kind, Event::Kind::done);
    EXPECT_EQ(path.fragments, 0U);
    EXPECT_TRUE(file_text(directory_ / "big.bin") == file_text(directory_ / "in" / "big.bin"));
    fs::remove(directory_ / "in" / "big.bin");
    return done;
  }

  NarrowPath path;
  std::size_t found = 0;  // what the sender took the MTU for when it was last looked at
};

/// The packet that an ADU of as many units as fit makes, with headers of 56 bytes in front.
std::size_t full_packet(std::size_t mtu, bool v6) {
  const std::size_t headers = data_header_bytes + (v6 ? 48 : 28);
  return (mtu - headers) / adu_bytes_unit * adu_bytes_unit + headers;
}

TEST_F(WirePathMtu, IsFoundWithAndWithoutARouterThatTells) {
  write_source(3'000'000);
  look_ = [this](const Sender& sender) { found = sender.datagram_bytes() + *ip_header_bytes_; };
  for (const std::size_t mtu : {1400UL, 1500UL, 9000UL}) {
    for (const bool v6 : {false, true}) {
      for (const bool tells : {false, true}) {
        std::vector<Event> done;
        for (const std::string_view mode : {"layered", "fused"}) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", mtu, v6 ? "IPv6" : "IPv4", tells ? "told" : "silent", mode));
          path.mtu = mtu;
          path.tells = tells;
          done.push_back(search(v6, mode, 1'000'000));
          EXPECT_EQ(found, mtu);
          EXPECT_EQ(path.v.rbegin()->first, mtu) << "a probe";
          EXPECT_GE(path.v[full_packet(mtu, v6)] * full_packet(mtu, v6), 2'000'000U) << "most of the data";
          EXPECT_EQ(done.back().repaired, 0U) << "only probes were too large";
        }
        EXPECT_EQ(done[0].adus, done[1].adus);
        EXPECT_EQ(done[0].seconds, done[1].seconds);
      }
    }
  }
}

// EMSGSIZE of ip ends a probe that is larger than the link takes.
TEST_F(WirePathMtu, TheLinksOwnMtuIsFoundAtOnce) {
  write_source(1'000'000);
  ip_header_bytes_ = 28;
  std::size_t largest = 0;
  look_ = [&](const Sender& sender) {
    found = sender.datagram_bytes() + *ip_header_bytes_;
    largest = std::max(largest, found);
  };
  for (const std::string_view mode : {"layered", "fused"}) {
    SCOPED_TRACE(mode);
    congestion_ = std::make_unique<FixedRate>(10'000'000);  // the answer to the first flight comes before the end
    const Event done = transfer(two_hosts(1500, "", "", mode), *wire::IpAddress::from_text("10.79.0.2"), link_mtu - 28);
    EXPECT_EQ(found, 1500U);
    EXPECT_EQ(largest, 1500U);
    EXPECT_EQ(done.repaired, 0U);
    EXPECT_TRUE(file_text(directory_ / "big.bin") == file_text(directory_ / "in" / "big.bin"));
    fs::remove(directory_ / "in" / "big.bin");
  }
}

TEST_F(WirePathMtu, APathThatShrinksIsFollowed) {
  write_source(4'000'000);
  look_ = [this](const Sender& sender) {
    found = sender.datagram_bytes() + *ip_header_bytes_;
    path.mtu = sender.sent_bytes() > 1'500'000 ? 1400 : link_mtu;
  };
  for (const bool v6 : {false, true}) {
    for (const bool tells : {false, true}) {
      std::vector<Event> done;
      for (const std::string_view mode : {"layered", "fused"}) {
        SCOPED_TRACE(fmt::format("{} {} {}", v6 ? "IPv6" : "IPv4", tells ? "told" : "silent", mode));
        path.mtu = link_mtu;
        path.tells = tells;
        done.push_back(search(v6, mode, 1'000'000));
        EXPECT_EQ(found, 1400U);
        EXPECT_GT(path.v[full_packet(link_mtu, v6)], 50U) << "before";
        EXPECT_GT(path.v[full_packet(1400, v6)], 500U) << "afterwards";
        EXPECT_GT(path.refused, 0U);
      }
      EXPECT_EQ(done[0].adus, done[1].adus);
      EXPECT_EQ(done[0].seconds, done[1].seconds);
    }
  }
}

// RFC 8899 section 5.1.1, PMTU_RAISE_TIMER: after 600 seconds the path is tried anew, though a router has said of it
// what it carried before.
TEST_F(WirePathMtu, APathThatGrowsIsFollowed) {
  write_source(1'000'000);
  for (const bool v6 : {false, true}) {
    for (const std::string_view mode : {"layered", "fused"}) {
      SCOPED_TRACE(fmt::format("{} {}", v6 ? "IPv6" : "IPv4", mode));
      std::size_t before = 0;
      look_ = [&, this](const Sender& sender) {
        found = sender.datagram_bytes() + *ip_header_bytes_;
        if (sender.sent_bytes() > 300'000) {
          before = before == 0 ? found : before;
          path.mtu = link_mtu;
        }
      };
      path.mtu = 1400;
      path.tells = true;
      search(v6, mode, 1'300);
      EXPECT_EQ(before, 1400U);
      EXPECT_EQ(found, link_mtu);
    }
  }
}

}  // namespace
}  // namespace sluice::ftx
