// SPDX-License-Identifier: Apache-2.0
#pragma once

// Two endpoints on stacks of a stack file, in one stream set, and the user memory between which they move datagrams.
//
// Not thread-safe; what cannot be opened ends the program.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "apps/common/registry.h"
#include "base/contract.h"
#include "bench/arena.h"
#include "bench/veth_lab.h"
#include "edge/run_loop.h"
#include "stack/head/stack_file.h"
#include "stack/wire/address.h"
#include "tli/endpoint.h"

namespace sluice::bench {

inline constexpr std::size_t smallest = 8;  // bytes of the datagram that stands for the cost of any datagram
inline constexpr std::size_t afar_defer_bytes_min = 1024;
inline constexpr std::size_t cache_line = 64;
inline constexpr Duration silence_max = std::chrono::milliseconds(500);  // what is not there by then is lost

/// Where the user's data lies: as many sources and destinations of `size` bytes as `total` holds, at least one of each.
class UserMemory {
 public:
  UserMemory(std::size_t size, std::size_t total)
      : size_(size),
        stride_((size + cache_line - 1) / cache_line * cache_line),
        count_(std::max<std::size_t>(1, total / 2 / stride_)),
        arena_(2 * count_ * stride_ + half_page) {}

  /// The next pair, of all in turn.
  void advance() { at_ = at_ + 1 == count_ ? 0 : at_ + 1; }
  [[nodiscard]] Bytes from() const { return {arena_.start() + at_ * stride_, size_}; }
  [[nodiscard]] Bytes to() const { return {arena_.start() + (count_ + at_) * stride_ + half_page, size_}; }

 private:
  static constexpr std::size_t half_page = 2048;

  std::size_t size_;
  std::size_t stride_;
  std::size_t count_;
  Arena arena_;
  std::size_t at_ = 0;
};

/// One end of a pair: its stack, as in a stack file, and the address it binds.
struct End {
  std::string stack;
  wire::Ipv4Address address;
};

/// Two endpoints in one stream set. REQUIRES: `lab`, if any, outlives it.
class Pair {
 public:
  Pair(const End& near, const End& far, const VethLab* lab = nullptr, StreamSet::Options options = {})
      : set_(options), loop_(std::move(RunLoop::open(set_)).value()), lends_(lab != nullptr) {
    if (lab != nullptr) {
      lab->enter_far();
    }
    far_ = open(far);
    if (lab != nullptr) {
      lab->enter_near();
    }
    near_ = open(near);
    introduce();
  }

  void set_mode(ProcessingMode mode) {
    near_->stream().set_mode(mode);
    far_->stream().set_mode(mode);
  }

  /// Sends `window` datagrams and receives them. Once one is lost, nothing moves any more.
  void move(std::size_t window, Bytes from, Bytes to) {
    for (std::size_t sent = 0; whole_ && sent < window; ++sent) {
      whole_ = near_->t_sndudata(unit(peer_, peer_size_, from)).has_value();
    }
    set_.scheduler().poll(set_.now());
    for (std::size_t received = 0; whole_ && received < window;) {
      if (take(to)) {
        ++received;
      } else {
        whole_ = loop_->wait(loop_->now() + silence_max);
      }
    }
  }
  /// Sends `from` as datagrams of `segment` bytes in one call, `window` times, and receives them all.
  void move_segments(std::size_t window, std::size_t segment, Bytes from, Bytes to) {
    const tli::t_iovec part{from.data(), from.size()};
    for (std::size_t sent = 0; whole_ && sent < window; ++sent) {
      whole_ = near_->t_sndsudata(unit(peer_, peer_size_, {}), std::span(&part, 1), segment).has_value();
    }
    set_.scheduler().poll(set_.now());
    for (std::size_t received = 0; whole_ && received < window * from.size();) {
      const std::size_t more = take_segments(to.subspan(received % to.size()));
      received += more;
      if (more == 0) {
        whole_ = loop_->wait(loop_->now() + silence_max);
      }
    }
  }
  /// Whether every datagram has come.
  [[nodiscard]] bool whole() const { return whole_; }
  /// Bytes from which a message of the fused path has a plan.
  [[nodiscard]] std::size_t threshold() const { return set_.defer_bytes_min(); }
  /// Whether a driver may lend its frames to a fused path, which then loads less even without a plan.
  [[nodiscard]] bool may_lend() const { return lends_; }
  /// Bytes that the stack has loaded so far.
  [[nodiscard]] std::uint64_t loaded_bytes() { return set_.pool().touches().loaded_bytes; }

 private:
  using Address = std::array<std::byte, wire::TransportAddress::encoded_size_max>;

  std::unique_ptr<tli::Endpoint> open(const End& end) {
    static const Registry registry = standard_registry();
    const Result<StackFile> file = StackFile::parse("[stack.end]\n" + end.stack, "stack_experiments", registry);
    SLUICE_REQUIRE(file.has_value());
    Result<std::unique_ptr<Stream>> stream = open_stack(set_, file->stacks().front());
    if (!stream) {
      std::fprintf(stderr, "%s\n", stream.error().text.c_str());
      std::exit(1);
    }
    (*stream)->set_nonblocking(true);
    auto endpoint = tli::Endpoint::t_open(std::move(*stream), nullptr);
    SLUICE_REQUIRE(endpoint.has_value());
    Address any{};
    const std::size_t any_size = wire::TransportAddress{end.address, 0}.encode(any);
    const tli::t_bind request{.addr = {any.size(), any_size, any.data()}};
    // The first that is opened is the far end, whose address is the peer's.
    tli::t_bind bound{.addr = {peer_.size(), 0, peer_.data()}};
    SLUICE_REQUIRE((*endpoint)->t_bind(&request, peer_size_ == 0 ? &bound : nullptr).has_value());
    peer_size_ = std::max(peer_size_, bound.addr.len);
    return std::move(*endpoint);
  }

  static tli::t_unitdata unit(Address& address, std::size_t address_size, Bytes data) {
    return {.addr = {address.size(), address_size, address.data()},
            .opt = {},
            .udata = {data.size(), data.size(), data.data()}};
  }

  /// Whether one has come.
  bool take(Bytes to) {
    Address sender;
    tli::t_unitdata received = unit(sender, 0, to);
    int flags = 0;
    if (const auto taken = far_->t_rcvudata(received, flags); !taken) {
      SLUICE_REQUIRE(taken.error().t_errno == wire::tpi::TNODATA);
      return false;
    }
    whole_ = whole_ && flags == 0 && received.udata.len == to.size();
    return true;
  }

  /// How many bytes have come, datagrams of one size.
  std::size_t take_segments(Bytes to) {
    Address sender;
    tli::t_unitdata received = unit(sender, 0, {});
    const tli::t_iovec place{to.data(), to.size()};
    std::size_t segment = 0;
    int flags = 0;
    const auto taken = far_->t_rcvsudata(received, std::span(&place, 1), segment, flags);
    SLUICE_REQUIRE(taken || taken.error().t_errno == wire::tpi::TNODATA);
    whole_ = whole_ && flags == 0;
    return taken.value_or(0);
  }

  /// The first datagram finds the neighbour.
  void introduce() {
    std::array<std::byte, smallest> data{};
    whole_ = near_->t_sndudata(unit(peer_, peer_size_, data)).has_value();
    for (int tries = 0; whole_ && !take(data); ++tries) {
      static_cast<void>(loop_->wait(loop_->now() + std::chrono::milliseconds(1)));
      whole_ = tries < 1000;
    }
  }

  StreamSet set_;
  std::unique_ptr<RunLoop> loop_;
  std::unique_ptr<tli::Endpoint> near_;
  std::unique_ptr<tli::Endpoint> far_;
  Address peer_{};
  std::size_t peer_size_ = 0;
  bool whole_ = true;
  bool lends_;
};

/// The one pair of namespaces of this program, which enters them: for experiments that come last.
inline const VethLab& veth_lab() {
  static const VethLab lab;
  return lab;
}

}  // namespace sluice::bench
