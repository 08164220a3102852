// SPDX-License-Identifier: Apache-2.0
#pragma once

// wire: a link in memory between two ends in one stream set. Deterministic, without privileges, at any MTU.
//
// Manual
//   stack file  driver = { kind = "wire", name = "lab", end = "a" }
//               driver = { kind = "wire", name = "lab", end = "b", mtu = 65536 }
//   service     DLPI, style 1 (dlpi/link_stream.h). Any number of streams may share an end.
//   parameters  name  which wire, within the stream set
//               end   "a" or "b"
//               mtu   bytes, 68..2097152, absent 1500; both ends must say the same
//               offload  boolean, absent true: takes super-frames whole; with false the sending stream splits and sums
//   addresses   02:HH:HH:HH:HH:0a and ..:0b, where HH is a hash of the name; DL_SET_PHYS_ADDR_REQ changes them
//   data        a frame goes to the other end as it is: blocks by reference, no byte is touched, none lost. A
//               super-frame likewise, and nobody sums what it holds
//   link state  up while both ends are open. Before, DL_UNITDATA_REQ is answered DL_UNDELIVERABLE
//   flow        an end holds capacity_bytes() or frames_max that its streams have not taken; beyond, the sender's write
//               queue fills
//   order       frames are taken by the receiving stream's read service procedure, never inside the sender's put
//   counters    dlpi/link_counter.h
//   privileges  none
//
// Ownership: an end knows the other and forgets it when that is destroyed. Threads: one stream set, one thread.

#include <string>

#include "dlpi/link.h"
#include "stack/core/registry.h"

namespace sluice::dlpi {

class MemoryLink final : public Link {
 public:
  enum class End : std::uint8_t { a, b };

  static constexpr std::size_t mtu_default = 1500;
  /// RFC 791 section 3.2: "Every internet module must be able to forward a datagram of 68 octets without further
  /// fragmentation."
  static constexpr std::size_t mtu_min = 68;
  static constexpr std::size_t frames_max = 4096;
  static constexpr std::size_t burst_bytes_max = 64 * 1024;

  MemoryLink(StreamSet& set, const std::string& wire, End end, std::size_t mtu, bool offload = true);
  ~MemoryLink() override;

  /// Joins two ends. REQUIRES: neither is joined; one MTU.
  static void connect(MemoryLink& one, MemoryLink& other);

  void send(Batch& frames) override;
  [[nodiscard]] bool takes_super_frames(std::uint8_t) const override { return offload_; }
  void on_room() override;
  Status set_address(const wire::MacAddress& address) override;

  [[nodiscard]] std::size_t capacity_bytes() const;

 private:
  [[nodiscard]] Batch next_burst();
  void schedule();

  const bool offload_;
  MemoryLink* peer_ = nullptr;
  Batch inbound_;
  std::size_t inbound_bytes_ = 0;
  bool peer_waits_ = false;  // was refused room here
};

[[nodiscard]] Entry memory_link_entry();

}  // namespace sluice::dlpi
