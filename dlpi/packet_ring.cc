// SPDX-License-Identifier: Apache-2.0
#include "dlpi/packet_ring.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

namespace sluice::dlpi {
namespace {

template <class Value>
bool set_option(const Descriptor& socket, int option, const Value& value) {
  return ::setsockopt(socket.get(), SOL_PACKET, option, &value, sizeof value) == 0;
}

/// Order matters: version and header format before the ring, and no frame before the filters stand (protocol 0).
bool configure(const Descriptor& socket, std::size_t blocks) {
  tpacket_req3 ring{};
  ring.tp_block_size = PacketRing::block_bytes;
  ring.tp_block_nr = static_cast<unsigned>(blocks);
  ring.tp_frame_size = 2048;  // V3 packs frames; the kernel only checks that this divides the block
  ring.tp_frame_nr = static_cast<unsigned>(PacketRing::block_bytes / ring.tp_frame_size * blocks);
  ring.tp_retire_blk_tov = PacketRing::block_timeout_ms;
  return set_option(socket, PACKET_VERSION, int{TPACKET_V3}) && set_option(socket, PACKET_VNET_HDR, 1) &&
         set_option(socket, PACKET_IGNORE_OUTGOING, 1) && set_option(socket, PACKET_RX_RING, ring);
}

bool bind_to(const Descriptor& socket, int index) {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = index;
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

Result<std::unique_ptr<PacketRing>> PacketRing::open(const Interface& interface, std::size_t ring_bytes) {
  const std::size_t blocks = std::max<std::size_t>(2, ring_bytes / block_bytes);
  Descriptor socket(::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) {
    return device_failure(errno, "opening a packet socket on", interface.name);
  }
  if (!configure(socket, blocks)) {
    return device_failure(errno, "setting up a receive ring on", interface.name);
  }
  void* const memory =
      ::mmap(nullptr, blocks * block_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, socket.get(), 0);
  if (memory == MAP_FAILED) {
    return device_failure(errno, "mapping the receive ring of", interface.name);
  }
  std::unique_ptr<PacketRing> ring(
      new PacketRing(std::move(socket), interface, static_cast<std::byte*>(memory), blocks));
  if (const Status filtered = ring->accept_only({}, false); !filtered) {
    return std::unexpected(filtered.error());
  }
  if (!bind_to(ring->socket_, interface.index)) {
    return device_failure(errno, "binding a packet socket to", interface.name);
  }
  return ring;
}

PacketRing::PacketRing(Descriptor socket, const Interface& interface, std::byte* memory, std::size_t blocks)
    : socket_(std::move(socket)), interface_(interface), memory_(memory), blocks_(blocks) {}

PacketRing::~PacketRing() { ::munmap(memory_, blocks_ * block_bytes); }

tpacket_hdr_v1& PacketRing::header(std::size_t block) const {
  return reinterpret_cast<tpacket_block_desc*>(memory_ + block * block_bytes)->hdr.bh1;
}

bool PacketRing::ours(std::size_t block) const {
  const std::uint32_t status = std::atomic_ref(header(block).block_status).load(std::memory_order_acquire);
  return (status & TP_STATUS_USER) != 0;
}

bool PacketRing::readable() {
  finish_block();
  return frames_left_ > 0 || ours(block_);
}

/// Gives a block back to the kernel once all of it has been read.
void PacketRing::finish_block() {
  if (frame_ != nullptr && frames_left_ == 0) {
    std::atomic_ref(header(block_).block_status).store(TP_STATUS_KERNEL, std::memory_order_release);
    block_ = (block_ + 1) % blocks_;
    frame_ = nullptr;
  }
}

std::optional<PacketRing::Frame> PacketRing::next() {
  finish_block();
  while (frame_ == nullptr) {
    if (!ours(block_)) {
      return std::nullopt;
    }
    losing_ = losing_ || (header(block_).block_status & TP_STATUS_LOSING) != 0;
    frames_left_ = header(block_).num_pkts;
    frame_ = memory_ + block_ * block_bytes + header(block_).offset_to_first_pkt;
    finish_block();  // a block may be empty
  }
  const auto& described = *reinterpret_cast<const tpacket3_hdr*>(frame_);
  Frame frame;
  const std::byte* const start = frame_ + described.tp_mac;
  frame.bytes = {start, described.tp_snaplen};
  // The kernel puts the virtio header right in front of the frame.
  std::memcpy(&frame.offload, start - sizeof frame.offload, sizeof frame.offload);
  frame.tagged = (described.tp_status & TP_STATUS_VLAN_VALID) != 0;
  frame.truncated = described.tp_snaplen < described.tp_len;
  frame_ += described.tp_next_offset;
  --frames_left_;
  return frame;
}

std::uint64_t PacketRing::take_drops() {
  if (!std::exchange(losing_, false)) {
    return 0;
  }
  tpacket_stats_v3 statistics{};
  socklen_t size = sizeof statistics;
  const int got = ::getsockopt(socket_.get(), SOL_PACKET, PACKET_STATISTICS, &statistics, &size);
  return got == 0 ? statistics.tp_drops : 0;
}

/// A BPF program: load the type field, compare with each, keep all or nothing of the frame.
Status PacketRing::accept_only(const std::vector<std::uint16_t>& types, bool all) {
  constexpr std::uint32_t everything = 0x40000;
  constexpr std::size_t types_max = 250;  // a jump reaches 255 instructions; with more types all frames come
  std::vector<sock_filter> program;
  if (!all && types.size() <= types_max) {
    program.push_back(BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12));
    for (std::size_t at = 0; at < types.size(); ++at) {
      const auto to_accept = static_cast<std::uint8_t>(types.size() - at);
      program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, types[at], to_accept, 0));
    }
    program.push_back(BPF_STMT(BPF_RET | BPF_K, 0));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, everything));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (::setsockopt(socket_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0) {
    return device_failure(errno, "filtering what is received on", interface_.name);
  }
  return {};
}

}  // namespace sluice::dlpi
