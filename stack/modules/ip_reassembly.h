// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reassembly of fragments, IPv4 (RFC 791 section 3.2) and IPv6 (RFC 8200 section 4.5). What comes out is the chain of
// the fragments' own blocks: nothing is copied.
//
// Everything is bounded: bytes of buffers held, datagrams, fragments of all of them, and time. When a bound is met, the
// datagram that was begun first is dropped. A fragment may be as small as 8 bytes, as RFC 791 section 3.2 allows; what
// one costs is found in logarithmic time, so that many small ones that come in the worst order cost no more.
//
// Threat: a sender of fragments of a few bytes, each of which holds on to the buffer of a whole frame, or of a frame
// that was many in one. So a buffer is charged whole, whatever part of it a fragment shows and whoever else shows it:
// what is held here is never more than what is charged. It is charged once, however many fragments show it: those of a
// sender in this program all show the one buffer that the datagram was cut from.
//
// What is there already:
//   IPv6  the same range again is dropped, and the others stay. RFC 8200 section 4.5: "It should be noted that
//   fragments
//         may be duplicated in the network. Instead of treating these exact duplicate fragments as overlapping
//         fragments, an implementation may choose to detect this case and drop exact duplicate fragments while keeping
//         the other fragments belonging to the same packet." Any other overlap drops the datagram (RFC 5722 section 4).
//   IPv4  a range within one that is there is dropped, and the others stay: a router that cut a fragment anew, on a
//         second path, makes such. RFC 791 section 3.2 would take "the more recently arrived copy"; we keep the first,
//         so that nobody changes what has been received. Any other overlap drops the datagram, as in IPv6.
//
// Not thread-safe. Invariants of a datagram: its pieces do not overlap; `end` is known once the last fragment has come,
// and no piece ends beyond it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/time.h"
#include "stack/core/message.h"
#include "stack/wire/address.h"

namespace sluice::ip {

/// What tells the fragments of one datagram from those of others. RFC 791 section 3.2: "the buffer identifier is
/// computed as the concatenation of the source, destination, protocol, and identification fields"; RFC 8200
/// section 4.5: "packets that have the same Source Address, Destination Address, and Fragment Identification" (protocol
/// is then 0).
struct FragmentKey {
  wire::IpAddress source;
  wire::IpAddress destination;
  std::uint32_t identification = 0;
  std::uint8_t protocol = 0;

  friend bool operator==(const FragmentKey&, const FragmentKey&) = default;
};

struct FragmentKeyHash {
  std::size_t operator()(const FragmentKey& key) const;
};

/// One fragment, checked as far as it can be alone.
struct Fragment {
  FragmentKey key;
  std::size_t offset = 0;       ///< bytes, a multiple of 8
  bool more = false;            ///< more fragments follow
  std::uint8_t protocol = 0;    ///< of the payload; that of the first fragment counts
  std::size_t header_size = 0;  ///< bytes of headers that lie in front of `data`, in its first block's buffer
  Message data;                 ///< not empty
};

class Reassembly {
 public:
  static constexpr std::size_t datagrams_max = 256;
  /// Of all datagrams: two of 64 KiB in pieces of 8 bytes. Bounds what is kept beside the buffers.
  static constexpr std::size_t fragments_max = 16384;
  static constexpr std::size_t payload_max = 65535;  // bytes; an offset beyond is the "ping of death"
  /// RFC 8200 section 4.5: "If insufficient fragments are received to complete reassembly of a packet within 60 seconds
  /// [...] reassembly of that packet must be abandoned". RFC 1122 section 3.3.2: "It is recommended that this value lie
  /// between 60 seconds and 120 seconds." IPv4 identifications return sooner than that at today's speeds (RFC 4963):
  /// the transport's checksum has to notice what was put together wrongly.
  static constexpr Duration timeout = std::chrono::seconds(60);

  explicit Reassembly(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  enum class Outcome : std::uint8_t {
    held,          ///< waits for the others
    complete,      ///< `datagram` is whole
    duplicate,     ///< it is there already: dropped, the others stay
    overlap,       ///< overlaps another, or contradicts the known end: all dropped, and what still comes
    refused,       ///< belongs to a datagram that was given up before
    out_of_range,  ///< ends beyond payload_max: dropped
    no_room,       ///< larger than the bound alone: dropped
  };

  struct Added {
    Outcome outcome = Outcome::held;
    std::size_t evicted = 0;  ///< unfinished datagrams that were dropped to make room
    // With `complete`:
    Message datagram;
    std::uint8_t protocol = 0;
    std::size_t header_size = 0;  ///< bytes of the first fragment's headers in front of `datagram`
  };

  Added add(Fragment fragment, TimePoint now);

  /// An unfinished datagram whose time is over.
  struct Expired {
    FragmentKey key;
    Message first_fragment;  ///< for an ICMP error; empty where it had not come
    std::uint8_t protocol = 0;
    std::size_t header_size = 0;
  };
  /// Drops what took too long and tells.
  using OnExpired = std::function<void(Expired expired)>;
  void expire(TimePoint now, const OnExpired& on_expired);
  [[nodiscard]] TimePoint next_deadline() const;

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t fragments() const { return fragments_; }
  [[nodiscard]] std::size_t datagrams() const { return index_.size(); }

 private:
  /// What is charged for a piece.
  struct Charge {
    std::size_t alone = 0;  // bytes of buffers that nothing else shows
    bool shares = false;    // others of its buffers are in shared_
  };
  struct Piece {
    std::size_t size = 0;
    Charge charge;
    Message data;
  };
  using Pieces = std::map<std::size_t, Piece>;  // by offset
  struct SharedBuffer {
    std::size_t bytes = 0;   // charged
    std::size_t blocks = 0;  // of pieces, that show it
  };
  struct Datagram {
    FragmentKey key;
    TimePoint deadline;
    Pieces pieces;
    std::size_t received = 0;        // payload bytes
    std::optional<std::size_t> end;  // payload bytes of the whole, once known
    std::uint8_t protocol = 0;
    std::size_t header_size = 0;
    bool given_up = false;  // kept, empty, so that late fragments are refused, too
  };
  using Datagrams = std::list<Datagram>;

  Datagrams::iterator datagram_of(const FragmentKey& key, TimePoint now, std::size_t& evicted);
  Outcome insert(Datagram& datagram, Fragment&& fragment, const Charge& charge);
  Charge charge(const Message& data);
  void discharge(const Charge& charge, const Message& data);
  Pieces take_pieces(Datagram& datagram);
  void give_up(Datagram& datagram);
  void remove(Datagrams::iterator datagram);
  std::size_t make_room(Datagrams::iterator keep);
  Added finish(Datagrams::iterator datagram);

  std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  std::unordered_map<const Buffer*, SharedBuffer> shared_;  // buffers that are, or were, shown by others, too
  std::size_t fragments_ = 0;
  Datagrams datagrams_;  // in the order they were begun
  std::unordered_map<FragmentKey, Datagrams::iterator, FragmentKeyHash> index_;
};

}  // namespace sluice::ip
