// SPDX-License-Identifier: Apache-2.0

// What a stack needs for datagrams that are sent and received together (t_sndsudata, t_rcvsudata): 44 datagrams of 1448
// bytes in a message, ip, udp and timod over `wire` and over `packet` on a veth pair, and timod over `kernel_udp`
// there.
//
// Arms say who sums, and are not mixed:
//   sums_*        we do, whole: `offload = false`, so that the sending driver splits in the pass that sums, and the
//                 receiving udp checks each datagram
//   offloaded_*   nobody does: a super-frame crosses whole
//   kernel        sockets of the kernel's own UDP on that last veth pair, UDP_SEGMENT and UDP_GRO, without a stack
//   *_layered, *_fused as in stack_experiments.cc
//
// Time is this thread's CPU time for both ends, with what the kernel does in its context; a ratio A/B is the messages
// that A moves per CPU second over those that B does. "share_of_bytes_A" is what A needs beyond as many datagrams of 40
// bytes, within the same round: the bound of what any way of touching bytes can gain. Before anything is timed each arm
// must bring the bytes whole; a datagram that is lost fails the test.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/experiment.h"
#include "bench/stack_pair.h"

namespace sluice::bench {
namespace {

constexpr std::size_t datagrams = 44;
constexpr std::size_t segment = 1448;
constexpr std::size_t segment_fixed = 40;  // of datagrams that stand for the cost of any; together above the MTU
constexpr std::size_t whole = datagrams * segment;

std::size_t window() { return tiny() ? 2 : 8; }

/// A pair of stacks that sums as its arms' names say, with the memory of both sizes.
class SegmentArms {
 public:
  SegmentArms(std::string name, const End& near, const End& far, const VethLab* lab)
      : name_(std::move(name)), pair_(near, far, lab, {.defer_bytes_min = afar_defer_bytes_min}) {}

  void expect_whole() {
    for (const ProcessingMode mode : {ProcessingMode::layered, ProcessingMode::fused}) {
      pair_.set_mode(mode);
      std::ranges::fill(memory_.to(), std::byte{0});
      pair_.move_segments(1, segment, memory_.from(), memory_.to());
      EXPECT_TRUE(std::ranges::equal(memory_.from(), memory_.to())) << name_ << ' ' << name_of(mode);
    }
  }
  /// Adds "NAME_layered", "NAME_fused", and the same in "_fixed".
  void add_to(std::vector<Arm>& arms) {
    for (const ProcessingMode mode : {ProcessingMode::layered, ProcessingMode::fused}) {
      const std::string name = name_ + "_" + std::string(name_of(mode));
      arms.push_back(arm(name, mode, segment, memory_));
      arms.push_back(arm(name + "_fixed", mode, segment_fixed, small_));
    }
  }
  [[nodiscard]] bool whole_still() const { return pair_.whole(); }
  void add_ratios(const Figure& figure, const Rounds& rounds) const {
    const std::string layered = name_ + "_layered";
    const std::string fused = name_ + "_fused";
    figure.add(fused + "/" + layered, segment, rounds.ratio(fused, layered));
    for (const std::string& arm : {layered, fused}) {
      figure.add("share_of_bytes_" + arm, segment, rounds.share_beyond(arm, arm + "_fixed"));
    }
  }
  void add_against_kernel(const Figure& figure, const Rounds& rounds) const {
    for (const char* mode : {"_layered", "_fused"}) {
      figure.add(name_ + mode + "/kernel", segment, rounds.ratio(name_ + mode, "kernel"));
    }
  }

 private:
  Arm arm(const std::string& name, ProcessingMode mode, std::size_t of, UserMemory& memory) {
    const Arm windows =
        timed(name, [this, of, &memory] { pair_.move_segments(window(), of, memory.from(), memory.to()); });
    return {name, [this, mode, windows] {
              pair_.set_mode(mode);
              return windows.seconds() / static_cast<double>(window());
            }};
  }

  std::string name_;
  Pair pair_;
  UserMemory memory_{whole, 0};
  UserMemory small_{datagrams * segment_fixed, 0};
};

TEST(stack, segments_wire) {
  const Figure figure("segments_wire", "ratio");
  const auto end = [](char which, char number, const char* offload) {
    return End{std::string("driver = { kind = 'wire', name = 'lab', end = '") + which + "', offload = " + offload +
                   " }\nip = { address = '10.78.0." + number + "/24' }\npush = ['ip', 'udp', 'timod']\n",
               {{10, 78, 0, static_cast<std::uint8_t>(number - '0')}}};
  };
  SegmentArms sums("sums", end('a', '1', "false"), end('b', '2', "false"), nullptr);
  SegmentArms offloaded("offloaded", end('a', '1', "true"), end('b', '2', "true"), nullptr);
  std::vector<Arm> arms;
  for (SegmentArms* each : {&sums, &offloaded}) {
    each->expect_whole();
    each->add_to(arms);
  }
  const Rounds rounds(std::move(arms));
  for (SegmentArms* each : {&sums, &offloaded}) {
    ASSERT_TRUE(each->whole_still()) << "datagrams were lost";
    each->add_ratios(figure, rounds);
  }
}

/// Two sockets of the kernel on the veth pair, the best it has for such datagrams.
class KernelSockets {
 public:
  explicit KernelSockets(const VethLab& lab) {
    lab.enter_far();
    far_ = open(2);
    lab.enter_near();
    near_ = open(1);
    const sockaddr_in to = address(2);
    SLUICE_REQUIRE(::connect(near_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
    const int size = segment;
    const int on = 1;
    SLUICE_REQUIRE(::setsockopt(near_.get(), IPPROTO_UDP, UDP_SEGMENT, &size, sizeof size) == 0);
    SLUICE_REQUIRE(::setsockopt(far_.get(), IPPROTO_UDP, UDP_GRO, &on, sizeof on) == 0);
    const timeval patience{.tv_sec = 1, .tv_usec = 0};
    SLUICE_REQUIRE(::setsockopt(far_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
  }
  void move(std::size_t count, Bytes from, Bytes to) {
    for (std::size_t sent = 0; whole_ && sent < count; ++sent) {
      whole_ = ::send(near_.get(), from.data(), from.size(), 0) == static_cast<ssize_t>(from.size());
    }
    for (std::size_t received = 0; whole_ && received < count * from.size();) {
      const Bytes place = to.subspan(received % to.size());
      const ssize_t more = ::recv(far_.get(), place.data(), place.size(), 0);
      whole_ = more > 0;
      received += static_cast<std::size_t>(std::max<ssize_t>(more, 0));
    }
  }
  [[nodiscard]] bool whole() const { return whole_; }

 private:
  static sockaddr_in address(std::uint32_t host) {
    sockaddr_in result{};
    result.sin_family = AF_INET;
    result.sin_port = htons(7000);
    result.sin_addr.s_addr = htonl(0x0a4d'0000U + host);
    return result;
  }
  static Descriptor open(std::uint32_t host) {
    Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const sockaddr_in local = address(host);
    const int bytes = 4 << 20;
    SLUICE_REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&local), sizeof local) == 0);
    static_cast<void>(::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes));
    static_cast<void>(::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes));
    return socket;
  }

  Descriptor near_;
  Descriptor far_;
  bool whole_ = true;
};

/// `packet`, summing and not, and the kernel's own UDP through our calls and without, on veth pairs, in turns.
TEST(stack, segments_veth) {
  if (const std::string missing = VethLab::missing(); !missing.empty()) {
    GTEST_SKIP() << "this figure needs " << missing;
  }
  const VethLab& lab = veth_lab();
  const Figure figure("segments_veth", "ratio");
  lab.add_link("sums");
  lab.add_link("whole");
  const auto end = [](const std::string& device, unsigned host, const char* offload) {
    const std::string number = std::to_string(host);
    return End{"driver = { kind = 'packet', device = '" + device + "', mac = '02:00:00:00:01:" + number +
                   "', offload = " + offload + " }\nip = { address = '10.78.0." + number +
                   "/24' }\npush = ['ip', 'udp', 'timod']\n",
               {{10, 78, 0, static_cast<std::uint8_t>(host)}}};
  };
  const auto kernel_end = [](unsigned host) {
    return End{"driver = { kind = 'kernel_udp', gso = true, gro = true }\npush = ['timod']\n",
               {{10, 77, 0, static_cast<std::uint8_t>(host)}}};
  };
  SegmentArms sums("sums", end("sums0", 11, "false"), end("sums1", 12, "false"), nullptr);
  SegmentArms offloaded("offloaded", end("whole0", 21, "true"), end("whole1", 22, "true"), nullptr);
  SegmentArms kernel_udp("kernel_udp", kernel_end(1), kernel_end(2), &lab);
  KernelSockets sockets(lab);
  UserMemory memory(whole, 0);
  std::vector<Arm> arms;
  for (SegmentArms* each : {&sums, &offloaded, &kernel_udp}) {
    each->expect_whole();
    each->add_to(arms);
  }
  const Arm windows = timed("kernel", [&] { sockets.move(window(), memory.from(), memory.to()); });
  arms.push_back({"kernel", [windows] { return windows.seconds() / static_cast<double>(window()); }});
  const Rounds rounds(std::move(arms));
  ASSERT_TRUE(sockets.whole()) << "the kernel's sockets lost datagrams";
  for (SegmentArms* each : {&sums, &offloaded, &kernel_udp}) {
    ASSERT_TRUE(each->whole_still()) << "datagrams were lost";
    each->add_ratios(figure, rounds);
    each->add_against_kernel(figure, rounds);
  }
}

}  // namespace
}  // namespace sluice::bench
