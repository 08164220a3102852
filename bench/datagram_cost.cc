// SPDX-License-Identifier: Apache-2.0

// One datagram through two stacks at the ends of a memory wire, user memory to user memory, and nothing else: what
// bench/instructions counts under callgrind, and what scripts/compare-commits times two commits with.
//
//     datagram_cost ARM PATH BYTES COUNT
//
// ARM is how the datagrams go:
//   batch    ip, udp, timod; 32 at a time by t_sndmudata, which joins them, and t_rcvmudata
//   apart    likewise, but by t_sndmvudata: each crosses alone
//   single   ip, udp, xdr, timod; one at a time by t_sndudata and t_rcvudata
//   stream   as batch, without TLI: 32 T_UNITDATA_REQ in one Stream::send, read one by one. What a program did before
//            TLI had batches; it also compiles, and runs, where TLI has none.
// Both ends are in one stream set that has the options users get: on a fused path small messages have no plan.
//
// It moves 64 datagrams to find the neighbour and to fill the pools, checks them, moves COUNT and checks the last 32
// (of `single`, the last). Checks compare every byte of the payload, and that datagrams came in order. Within the COUNT
// only their number and sizes are checked. It prints nanoseconds of CPU time a datagram, both ends together, without
// the set-up and the checks.
//
// Exit status: 0; 1 when a datagram was lost or damaged; 2 for arguments that cannot be used, and for `batch` or
// `apart` where TLI has no batches.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/registry.h"
#include "bench/samples.h"
#include "stack/head/stack_file.h"
#include "stack/wire/address.h"
#include "stack/wire/tpi.h"
#include "tli/endpoint.h"

namespace sluice::bench {
namespace {

constexpr std::size_t window = 32;
constexpr std::size_t warm_up = 2 * window;
constexpr std::size_t bytes_max = 65504;  // the most of a UDP datagram that is a multiple of 8
constexpr std::size_t count_max = 100'000'000;

using AddressBytes = std::array<std::byte, 8>;

/// Ends the program: its number would mean nothing.
void must(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "datagram_cost: %s\n", what);
    std::exit(1);
  }
}

AddressBytes address_of(unsigned number) {
  AddressBytes bytes{};
  wire::TransportAddress{wire::Ipv4Address{{10, 78, 0, static_cast<std::uint8_t>(number)}}, 7000}.encode(bytes);
  return bytes;
}

std::unique_ptr<tli::Endpoint> open(StreamSet& set, unsigned number, const std::string& modules, ProcessingMode mode) {
  static const Registry registry = standard_registry();
  const std::string text = "[stack.end]\ndriver = { kind = 'wire', name = 'lab', end = '" +
                           std::string(number == 1 ? "a" : "b") + "', mtu = 65535 }\nip = { address = '10.78.0." +
                           std::to_string(number) + "/24' }\npush = [" + modules + "]\n";
  const Result<StackFile> file = StackFile::parse(text, "datagram_cost", registry);
  must(file.has_value(), "the stack file is refused");
  Result<std::unique_ptr<Stream>> stream = open_stack(set, file->stacks().front());
  must(stream.has_value(), "the stack does not open");
  (*stream)->set_nonblocking(true);
  (*stream)->set_mode(mode);
  auto endpoint = tli::Endpoint::t_open(std::move(*stream), nullptr);
  must(endpoint.has_value(), "t_open fails");
  AddressBytes address = address_of(number);
  const tli::t_bind bind{.addr = {address.size(), address.size(), address.data()}};
  must((*endpoint)->t_bind(&bind, nullptr).has_value(), "t_bind fails");
  return std::move(*endpoint);
}

/// Two endpoints, and the user's memory of a window of datagrams at each.
class Pair {
 public:
  Pair(const std::string& modules, ProcessingMode mode, std::size_t bytes)
      : far_(open(set_, 2, modules, mode)),
        near_(open(set_, 1, modules, mode)),
        bytes_(bytes),
        out_(window * bytes),
        in_(window * bytes) {
    for (std::size_t at = 0; at < window; ++at) {
      requests_[at] = {.addr = {peer_.size(), peer_.size(), peer_.data()}, .opt = {}, .udata = piece(out_, at)};
      // Each datagram of a window is unlike the others.
      for (std::size_t byte = 0; byte < bytes; ++byte) {
        out_[at * bytes + byte] = static_cast<std::byte>(byte * 7 + byte / 256 + at);
      }
    }
  }

  /// TLI, one at a time, always the same memory.
  void single() {
    must(near_->t_sndudata(requests_[0]).has_value(), "t_sndudata fails");
    set_.scheduler().poll(set_.now());
    tli::t_unitdata taken = room(0);
    int flags = 0;
    must(far_->t_rcvudata(taken, flags).has_value(), "t_rcvudata fails");
    must(flags == 0 && taken.udata.len == bytes_, "a datagram has the wrong size");
  }

  /// Whether TLI has batches. A template, so that the question may be asked of a tree that has none.
  template <class Endpoint = tli::Endpoint>
  static constexpr bool has_batches =
      requires(Endpoint& end, std::span<const tli::t_unitdata> out, std::span<tli::t_unitdata> in, int flags) {
        end.t_sndmudata(out);
        end.t_rcvmudata(in, flags);
      };

  /// TLI, a window at a time.
  template <class Endpoint = tli::Endpoint>
  void batch(bool joined) {
    if constexpr (has_batches<Endpoint>) {
      Endpoint& near = *near_;
      Endpoint& far = *far_;
      if (joined) {
        must(near.t_sndmudata(requests_).value_or(0) == window, "t_sndmudata fails");
      } else {
        send_apart(near);
      }
      set_.scheduler().poll(set_.now());
      std::array<tli::t_unitdata, window> taken;
      for (std::size_t at = 0; at < window; ++at) {
        taken[at] = room(at);
      }
      int flags = 0;
      must(far.t_rcvmudata(taken, flags).value_or(0) == window, "t_rcvmudata fails");
      for (const tli::t_unitdata& unit : taken) {
        must(unit.udata.len == bytes_, "a datagram has the wrong size");
      }
      must(flags == 0, "a datagram has the wrong size");
    }
  }

  /// Without TLI, a window at a time.
  void stream() {
    Batch requests;
    const wire::tpi::UnitdataReq primitive{.address = peer_, .options = {}};
    for (const tli::t_unitdata& unit : requests_) {
      Message message = Message::allocate(set_.pool(), 64, 0, MessageType::proto);
      Message data = near_->stream().allocate(bytes_);
      message.first().wptr += primitive.encode({message.first().wptr, 64});
      std::memcpy(data.append(bytes_).data(), unit.udata.buf, bytes_);
      message.link(std::move(data));
      requests.push(std::move(message));
    }
    must(near_->stream().send(std::move(requests)).has_value(), "the stream does not send");
    set_.scheduler().poll(set_.now());
    std::size_t received = 0;
    while (const Message message = far_->stream().receive()) {
      must(received < window && message.copy_data_to(0, {in_.data() + received * bytes_, bytes_}),
           "a datagram has the wrong size, or came twice");
      ++received;
    }
    must(received == window, "a datagram is lost");
  }

  /// Ends the program unless the first `datagrams` of the window have arrived; then forgets them.
  void check(std::size_t datagrams) {
    must(std::memcmp(in_.data(), out_.data(), datagrams * bytes_) == 0, "the payload that arrived is another");
    std::ranges::fill(in_, std::byte{0});
  }

 private:
  template <class Endpoint>
  void send_apart(Endpoint& near) {
    std::array<tli::t_iovec, window> pieces;
    std::array<std::span<const tli::t_iovec>, window> parts;
    for (std::size_t at = 0; at < window; ++at) {
      pieces[at] = {out_.data() + at * bytes_, bytes_};
      parts[at] = {&pieces[at], 1};
    }
    must(near.t_sndmvudata(requests_, parts).value_or(0) == window, "t_sndmvudata fails");
  }

  [[nodiscard]] tli::netbuf piece(std::vector<std::byte>& memory, std::size_t at) const {
    return {bytes_, bytes_, memory.data() + at * bytes_};
  }
  /// Where the next datagram, and the address of its sender, may be put.
  [[nodiscard]] tli::t_unitdata room(std::size_t at) {
    return {.addr = {from_.size(), 0, from_.data()}, .opt = {}, .udata = piece(in_, at)};
  }

  StreamSet set_;
  std::unique_ptr<tli::Endpoint> far_;
  std::unique_ptr<tli::Endpoint> near_;
  std::size_t bytes_;
  std::vector<std::byte> out_;
  std::vector<std::byte> in_;
  AddressBytes peer_ = address_of(2);
  AddressBytes from_{};
  std::array<tli::t_unitdata, window> requests_;
};

/// What is timed, under a name by which bench/instructions.py finds it.
extern "C" [[gnu::noinline]] void datagram_cost_counted(const std::function<void(std::size_t)>& move,
                                                        std::size_t count) {
  move(count);
}

double nanoseconds(const std::string& arm, ProcessingMode mode, std::size_t bytes, std::size_t count) {
  const bool single = arm == "single";
  Pair pair(single ? "'ip', 'udp', 'xdr', 'timod'" : "'ip', 'udp', 'timod'", mode, bytes);
  const auto move = [&](std::size_t datagrams) {
    for (std::size_t moved = 0; moved < datagrams; moved += single ? 1 : window) {
      if (single) {
        pair.single();
      } else if (arm == "batch" || arm == "apart") {
        pair.batch(arm == "batch");
      } else {
        pair.stream();
      }
    }
  };
  const std::size_t checked = single ? 1 : window;
  move(warm_up);
  pair.check(checked);
  const double before = thread_cpu_ns();
  datagram_cost_counted(move, count);
  const double after = thread_cpu_ns();
  pair.check(checked);
  return (after - before) / static_cast<double>(count);
}

/// Accepts multiples of `unit` up to `most`.
CLI::Validator multiple(std::size_t unit, std::size_t most) {
  const std::string what = "multiple of " + std::to_string(unit) + " up to " + std::to_string(most);
  return {[unit, most, what](const std::string& text) {
            std::size_t value = 0;
            const char* end = text.data() + text.size();
            const auto [stop, error] = std::from_chars(text.data(), end, value);
            const bool good = error == std::errc() && stop == end && value > 0 && value <= most && value % unit == 0;
            return good ? std::string() : "'" + text + "' is no " + what;
          },
          what};
}

int run(int argc, char** argv) {
  CLI::App app("Moves datagrams over a memory wire; prints nanoseconds of CPU time a datagram, both ends together.",
               "datagram_cost");
  std::string arm;
  std::string mode;
  std::size_t bytes = 0;
  std::size_t count = 0;
  app.add_option("ARM", arm, "how they go")->required()->check(CLI::IsMember({"batch", "apart", "single", "stream"}));
  app.add_option("MODE", mode, "of both stacks")->required()->check(CLI::IsMember({"layered", "fused"}));
  app.add_option("BYTES", bytes, "of each datagram")->required()->check(multiple(4, bytes_max));
  app.add_option("COUNT", count, "of datagrams")->required()->check(multiple(window, count_max));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if ((arm == "batch" || arm == "apart") && !Pair::has_batches<>) {
    std::fputs("datagram_cost: no such arm: TLI has neither t_sndmudata nor t_rcvmudata here\n", stderr);
    return 2;
  }
  std::printf("%.1f\n", nanoseconds(arm, mode_named(mode).value(), bytes, count));
  return 0;
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) { return sluice::bench::run(argc, argv); }
