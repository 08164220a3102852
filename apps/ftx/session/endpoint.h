// SPDX-License-Identifier: Apache-2.0
#pragma once

// Peer, Outgoing and Burst: the interface between a session and its transport. The transport is any connectionless
// endpoint (TPI T_CLTS): it carries datagrams of up to its TSDU size to and from opaque addresses. The program drives a
// session like this:
//
//   a datagram arrived   session.receive(now, datagram, from)
//   it can send          session.transmit(now, burst); send what it holds; again, until the burst stays empty
//   otherwise            sleep until session.next_deadline() at the latest, then transmit again
//
// A session calls no transport, reads no clock and keeps no datagram.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "apps/ftx/protocol/message.h"
#include "base/bytes.h"
#include "base/contract.h"
#include "base/time.h"

namespace sluice::ftx {

/// A time as packets carry it, to whoever made it: nanoseconds of his own clock.
[[nodiscard]] inline std::uint64_t nanoseconds(TimePoint time) {
  return static_cast<std::uint64_t>(time.time_since_epoch().count());
}

/// A transport address in the transport's own encoding; sessions only compare and hash it.
class Peer {
 public:
  static constexpr std::size_t address_bytes_max = 32;

  Peer() = default;
  /// REQUIRES: address.size() <= address_bytes_max.
  explicit Peer(ConstBytes address) : size_(static_cast<std::uint8_t>(address.size())) {
    SLUICE_REQUIRE(address.size() <= address_bytes_max);
    std::copy(address.begin(), address.end(), bytes_.begin());
  }

  [[nodiscard]] ConstBytes address() const { return ConstBytes(bytes_).first(size_); }
  // std::byte has the library compare one byte after the other; what address() does not show is zero.
  bool operator==(const Peer& other) const {
    return size_ == other.size_ && std::memcmp(bytes_.data(), other.bytes_.data(), bytes_.size()) == 0;
  }

 private:
  std::array<std::byte, address_bytes_max> bytes_{};
  std::uint8_t size_ = 0;
};

/// A datagram in two parts: `front`, which is not empty, and `rest`.
struct Outgoing {
  Peer to;
  ConstBytes front;
  ConstBytes rest;
  [[nodiscard]] std::size_t size() const { return front.size() + rest.size(); }
};

/// Datagrams that a session wants sent, in order. One call of the session fills the burst. Their fronts lie in the
/// burst, one behind the other, and are all of what was made for it: control datagrams, sealed ones, the headers of
/// others. The rest of those, payload, lies with the session and stays valid until it fills a burst again, whatever it
/// receives in between. So the caller may send a burst in parts.
class Burst {
 public:
  /// Of 1,472 bytes: together they make a super-frame of which a block of a receive ring holds two
  /// (dlpi/packet_ring.h).
  static constexpr std::size_t datagrams_max = 44;
  /// A burst ends with the datagram that reaches this: what a session has just read should still be in a cache when it
  /// is sent.
  static constexpr std::size_t bytes_max = 64 * 1024;
  /// No datagram is longer.
  static constexpr std::size_t datagram_bytes_max = data_header_bytes + adu_bytes_max + tag_bytes;

  Burst() = default;
  Burst(const Burst&) = delete;
  Burst& operator=(const Burst&) = delete;

  [[nodiscard]] bool full() const { return count_ == datagrams_max || bytes_ >= bytes_max; }
  /// Where the front of the next datagram goes; holds datagram_bytes_max unless full().
  [[nodiscard]] Bytes room() { return Bytes(memory_.get(), memory_bytes).subspan(memory_used_); }
  /// REQUIRES: !full(); the front begins where room() does.
  void add(const Outgoing& datagram) { add(datagram.to, datagram.front, datagram.rest); }
  /// By its parts: a whole one, made just before, would be read before its stores are done.
  void add(const Peer& to, ConstBytes front, ConstBytes rest) {
    SLUICE_REQUIRE(!full() && front.data() == room().data());
    Outgoing& next = datagrams_[count_++];
    next.to = to;
    next.front = front;
    next.rest = rest;
    memory_used_ += front.size();
    bytes_ += front.size() + rest.size();
  }

  /// What has not been sent.
  [[nodiscard]] std::span<const Outgoing> left() const { return std::span(datagrams_).first(count_).subspan(sent_); }
  /// The next `count` have been sent. REQUIRES: so many are left.
  void sent(std::size_t count) {
    SLUICE_REQUIRE(count <= left().size());
    sent_ += count;
  }
  void clear() { count_ = sent_ = memory_used_ = bytes_ = 0; }

 private:
  static constexpr std::size_t memory_bytes = bytes_max + datagram_bytes_max;

  std::array<Outgoing, datagrams_max> datagrams_;
  std::size_t count_ = 0;
  std::size_t sent_ = 0;
  std::size_t memory_used_ = 0;
  std::size_t bytes_ = 0;
  // Of most bursts but the first bytes_max are ever touched.
  std::unique_ptr<std::byte[]> memory_ = std::make_unique_for_overwrite<std::byte[]>(memory_bytes);
};

}  // namespace sluice::ftx
