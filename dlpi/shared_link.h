// SPDX-License-Identifier: Apache-2.0
#pragma once

// shm: a link in memory that two processes share. What `wire` is within one program, with packets of up to 2 MiB.
//
// Manual
//   stack file  driver = { kind = "shm", path = "/run/user/1000/lab", end = "a", mtu = 2097152 }    # one process
//               driver = { kind = "shm", path = "/run/user/1000/lab", end = "b", mtu = 2097152 }    # the other
//   service     DLPI, style 1 (dlpi/link_stream.h). Any number of streams of one process may share an end.
//   parameters  path  where the ends meet: a Unix socket, which end a makes, and leaves behind
//               end   "a" or "b"
//               mtu   bytes, 68..2097152, absent 1500; both ends must say the same. IP ends at 65,535 bytes: larger
//                     packets are for what has no IP, libdlpi and modules of one's own on raw DLPI
//   addresses   as those of `wire`, with the path as the name
//   data        a sender copies a frame into the memory, its receiver out of it: one load and one store each. Nothing
//               is lost between them
//   link state  up while both ends are there. End b tries again every retry_delay, end a waits; after the end of one
//               the other goes on with the next, in new memory
//   flow        a direction holds ring_bytes() of frames; beyond, the sender's write queue fills
//   counters    dlpi/link_counter.h. peer_refused: ends of another version or MTU, and ends that broke the rules of
//               the ring, after which the link begins anew
//   privileges  those that the socket's mode gives: 0600, of who runs end a
//
// How they meet. End a makes the memory (memfd_create), for each meeting a new one, and sends it over the connection,
// with what it is for; its size is sealed before, so that nobody can take it away under the other (SIGBUS), and end b
// does not take any that is not. Afterwards the connection carries doorbells, messages of a byte without meaning: "look
// at the ring". They ring only for a side that has said that it waits (SharedRingWords). The end of the connection is
// the end of the peer.
//
// Threat: whoever may connect may also lie. He can put anything into the memory (dlpi/shared_ring.h), ring without
// reason, send what is no doorbell, pass descriptors (which the kernel closes), or do nothing: he harms nobody but the
// link that he is an end of. tests/dlpi/shared_link_test.cc does these things.
//
// Ownership: owns its socket and its mapping. Threads: as its stream set.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/descriptor.h"
#include "dlpi/link.h"
#include "dlpi/shared_ring.h"
#include "stack/core/registry.h"
#include "stack/wire/ethernet.h"

namespace sluice::dlpi {

/// What end a sends with the memory; in the machine's byte order, since both are on one.
struct SharedHello {
  static constexpr std::uint32_t magic_value = 0x536c5368;  // "SlSh"
  static constexpr std::uint32_t version_value = 1;

  std::uint32_t magic = magic_value;
  std::uint32_t version = version_value;
  std::uint64_t mtu = 0;
};

/// The memory: a page of words, then the ring from a to b, then that from b to a.
class SharedMemory {
 public:
  static constexpr std::size_t words_bytes = 4096;

  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~SharedMemory();

  /// New memory for rings of so many bytes, sealed, and its mapping.
  [[nodiscard]] static Result<std::pair<Descriptor, SharedMemory>> make(std::size_t ring_bytes);
  /// The mapping of memory that somebody else made. EINVAL: it is not of that size, or not sealed.
  [[nodiscard]] static Result<SharedMemory> map(const Descriptor& memory, std::size_t ring_bytes);

  /// REQUIRES: there is memory.
  [[nodiscard]] SharedRing ring(bool from_a) const;

 private:
  [[nodiscard]] static constexpr std::size_t size_of(std::size_t ring_bytes) { return words_bytes + 2 * ring_bytes; }

  Bytes bytes_;
};

class SharedLink final : public Link {
 public:
  static constexpr std::size_t mtu_min = 68;
  static constexpr std::size_t ring_bytes_min = std::size_t{1} << 20;
  static constexpr std::size_t bursts_per_call_max = 4;
  static constexpr std::size_t burst_bytes_max = 64 * 1024;
  static constexpr std::size_t doorbells_per_call_max = 64;
  static constexpr Duration retry_delay = std::chrono::milliseconds(200);

  enum class End : std::uint8_t { a, b };

  /// EADDRINUSE: end a of `path` is there already; errors of the socket's.
  [[nodiscard]] static Result<std::shared_ptr<Link>> open(StreamSet& set, const std::string& path, End end,
                                                          std::size_t mtu);
  ~SharedLink() override;

  void send(Batch& frames) override;
  void on_room() override { take(); }
  Status set_address(const wire::MacAddress& address) override;

  /// Bytes of a ring for an MTU.
  [[nodiscard]] static constexpr std::size_t ring_bytes(std::size_t mtu) {
    return std::max(ring_bytes_min, 4 * SharedRing::record_bytes(mtu + wire::EthernetHeader::size));
  }

 private:
  class Socket;

  SharedLink(StreamSet& set, const std::string& path, End end, std::size_t mtu);
  Status listen();
  void accept();
  void connect();
  void begin(Descriptor connection, SharedMemory memory);
  void readable();
  void take_hello();
  void take();
  void ring_doorbell() const;
  void turn();
  void leave(bool broke_the_rules);
  void end_peer();

  const std::string path_;
  const End end_;
  std::unique_ptr<Socket> listening_;  // end a's
  std::unique_ptr<Socket> peer_;       // a connection; with memory once it is there
  SharedMemory memory_;
  std::optional<SharedRingWriter> writer_;
  std::optional<SharedRingReader> reader_;
  bool refused_ = false;  // frames, for want of room
  bool ends_ = false;     // the peer is to go in the next turn
  Timer again_;           // the next turn: to connect, to go on taking, to let the peer go
};

[[nodiscard]] Entry shared_link_entry();

}  // namespace sluice::dlpi
