// SPDX-License-Identifier: Apache-2.0
#pragma once

// Early demultiplexing: which streams get a frame, before any module runs.
//
//   1. destination: our MAC address, broadcast, or a group that the stream has enabled
//   2. SAP: the EtherType
//   3. filter (DL_FILTER_REQ): local IP address, IP protocol, local port, and of a connection the remote address and
//      port, too; the most specific wins, so a connection before who listens on its port
//
// A datagram that a filter claims goes to that stream alone; what no filter claims goes to the streams of the SAP that
// have no filter there. One to a group or broadcast address on the link goes to every stream that accepts that address
// and whose filter claims it, the filter's local address aside, as on BSD. Which IP groups a stream is in its ip knows.
// A filter with a remote end claims nothing that is sent to a group: a connection is between two hosts.
// ICMP, ICMPv6 (so NDP), fragments, IPv6 packets with extension headers, and every SAP that is not IP (so ARP) go to
// all streams bound to the SAP, since each needs them. Promiscuous streams get their copy in any case.
//
// Headers are read as they came, unverified, and only to choose. A malformed one has no filter and goes where the
// unclaimed go, so that one module counts it.
//
// Cost: one hash lookup in a flat table for each kind of filter in use (one, as a rule), no allocation. A change of one
// stream's subscription costs what that stream wants, however many others there are, but for one look through the list
// of those that are bound to its SAPs. Ownership: streams are borrowed. Threads: one stream set, one thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "stack/core/message.h"
#include "stack/wire/address.h"
#include "stack/wire/dlpi.h"

namespace sluice::dlpi {

class LinkStream;

/// What one stream wants to receive. Invariants: each list is free of duplicates and within its bound.
struct Subscription {
  static constexpr std::size_t saps_max = 16;
  static constexpr std::size_t filters_max = 64;
  static constexpr std::size_t groups_max = 64;

  std::vector<std::uint16_t> saps;
  std::vector<wire::dlpi::FilterReq> filters;
  std::vector<wire::MacAddress> groups;
  bool promiscuous_phys = false;
  bool promiscuous_sap = false;
  bool promiscuous_multi = false;

  [[nodiscard]] bool has_sap(std::uint16_t sap) const;
  [[nodiscard]] bool has_filter(std::uint16_t sap) const;
  /// Whether it is promiscuous in some way.
  [[nodiscard]] bool watches() const { return promiscuous_phys || promiscuous_sap || promiscuous_multi; }
  /// Whether it is bound to SAPs at most.
  [[nodiscard]] bool is_plain() const { return filters.empty() && !watches(); }
  /// Whether it is bound to what `other` is, without a filter: such a stream is the host's beside a program's, and its
  /// user takes nothing.
  [[nodiscard]] bool is_beside(const Subscription& other) const;
  /// Whether a frame to this group or broadcast address is wanted.
  [[nodiscard]] bool accepts_group(const wire::MacAddress& group) const;
};

/// A filter, or the flow of a datagram, as words that compare and hash fast: two of the local address, one of all
/// numbers, two of the remote address.
struct FilterKey {
  std::array<std::uint64_t, 5> words{};

  static constexpr std::uint64_t has_protocol = std::uint64_t{1} << 40;
  static constexpr std::uint64_t has_address = std::uint64_t{1} << 41;
  static constexpr std::uint64_t has_port = std::uint64_t{1} << 42;
  static constexpr std::uint64_t has_remote = std::uint64_t{1} << 43;

  /// REQUIRES: a remote address with a remote port, or neither.
  [[nodiscard]] static FilterKey of(const wire::dlpi::FilterReq& filter);
  /// The members present, as bits: remote address and port 8, port 4, address 2, protocol 1.
  [[nodiscard]] unsigned shape() const { return static_cast<unsigned>(words[2] >> 40) & 15U; }
  /// This key reduced to the members of `shape`.
  [[nodiscard]] FilterKey reduced_to(unsigned shape) const;
  [[nodiscard]] std::size_t hash() const;

  friend bool operator==(const FilterKey&, const FilterKey&) = default;
};

/// What the demultiplexer has read of a frame.
struct FrameKey {
  wire::MacAddress destination;
  wire::MacAddress source;
  std::uint16_t sap = 0;
  bool to_all = false;  // every stream of the SAP needs it
  FilterKey flow;       // of an IP datagram: what is known of it; no member otherwise

  /// How many bytes from the start of a frame are looked at, at most.
  static constexpr std::size_t head_size_max = 14 + 60 + 4;
};

/// Reads the head of a frame. REQUIRES: head.size() >= 14.
[[nodiscard]] FrameKey read_frame_key(ConstBytes head);

/// The first bytes of a frame, contiguous: its first block if that suffices, else a copy in `scratch`.
[[nodiscard]] ConstBytes head_of(const Message& frame, std::array<std::byte, FrameKey::head_size_max>& scratch);

/// What frames of the flow that came last have in common, as far as it decides who gets them: the next one that looks
/// the same goes the same way, without a table being asked. Of IP packets with a destination port, not fragmented,
/// without options or extension headers. Whoever changes a subscription or the station's address clears it.
class FrameTemplate {
 public:
  /// `remote_decides`: the remote end is part of the flow. REQUIRES: `key` was read from `head`. Where there is no such
  /// flow the template is cleared.
  void take(ConstBytes head, const FrameKey& key, bool remote_decides);
  void clear() { words_used_ = 0; }
  [[nodiscard]] bool matches(ConstBytes front) const {
    if (words_used_ == 0 || front.size() < sizeof(Words)) {
      return false;
    }
    std::uint64_t difference = 0;
    for (std::size_t at = 0; at < words_used_; ++at) {
      std::uint64_t word;
      std::memcpy(&word, front.data() + 8 * at, sizeof word);
      difference |= (word & mask_[at]) ^ value_[at];
    }
    return difference == 0;
  }

 private:
  using Words = std::array<std::uint64_t, 8>;

  Words value_{};  // masked
  Words mask_{};
  std::size_t words_used_ = 0;
};

class Demultiplexer {
 public:
  /// What the demultiplexer decided about a frame.
  enum class Fate : std::uint8_t { delivered, unclaimed, not_ours };

  /// A stream wants that from now on. REQUIRES: no other has one of its filters (taken()).
  void add(LinkStream& stream, const Subscription& wanted);
  /// It wants that no longer. REQUIRES: it was added.
  void remove(LinkStream& stream, const Subscription& wanted);
  /// Whether another stream than `asker` has this very filter.
  [[nodiscard]] bool taken(const FilterKey& filter, const LinkStream* asker) const;
  /// Whether any filter names a remote end, so that who gets a datagram depends on where it comes from.
  [[nodiscard]] bool asks_for_remotes() const { return (shapes_used_ >> shape_of_connections & 1U) != 0; }
  /// Puts the streams that get a frame into `chosen` (cleared first), each once.
  Fate choose(const FrameKey& key, const wire::MacAddress& own, std::vector<LinkStream*>& chosen) const;

 private:
  struct SapGroup {
    std::uint16_t sap = 0;
    std::vector<LinkStream*> all;
    std::vector<LinkStream*> unfiltered;
  };
  struct Slot {
    FilterKey key;
    LinkStream* stream = nullptr;

    friend bool operator==(const Slot&, const Slot&) = default;
  };
  static constexpr unsigned shape_of_connections = 15;

  /// Of a key without address: all that is in it.
  [[nodiscard]] static std::uint64_t rank_of(const Slot& slot) { return slot.key.words[2]; }

  SapGroup& group_for(std::uint16_t sap);
  [[nodiscard]] const SapGroup* find_group(std::uint16_t sap) const;
  /// What a filter counts as for datagrams to groups; one with a remote end does not.
  [[nodiscard]] static std::optional<Slot> member_of(const wire::dlpi::FilterReq& filter, LinkStream& stream);
  void insert(const Slot& slot);
  void erase(const FilterKey& key);
  [[nodiscard]] std::size_t place_of(const FilterKey& key) const;
  [[nodiscard]] LinkStream* find(const FilterKey& key) const;
  [[nodiscard]] LinkStream* most_specific(const FilterKey& flow) const;
  [[nodiscard]] bool choose_members(const FrameKey& key, std::vector<LinkStream*>& chosen) const;
  void choose_bound(const FrameKey& key, const SapGroup& group, std::vector<LinkStream*>& chosen) const;
  void choose_watchers(const FrameKey& key, bool to_us, std::vector<LinkStream*>& chosen) const;

  std::vector<SapGroup> groups_;
  std::vector<LinkStream*> watchers_;  // promiscuous in some way
  std::vector<Slot> slots_;            // open addressing, size a power of two, at most half full
  std::size_t filters_ = 0;            // slots in use
  std::array<std::size_t, 16> filters_of_shape_{};
  unsigned shapes_used_ = 0;   // bit n: some filter has shape n
  std::vector<Slot> members_;  // filters for groups: without their address, sorted by protocol and port
};

}  // namespace sluice::dlpi
