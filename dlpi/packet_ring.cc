// SPDX-License-Identifier: Apache-2.0
#include "dlpi/packet_ring.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

#include "base/retried.h"
#include "dlpi/vlan.h"

namespace sluice::dlpi {
namespace {

template <class Value>
bool set_option(const Descriptor& socket, int option, const Value& value) {
  return ::setsockopt(socket.get(), SOL_PACKET, option, &value, sizeof value) == 0;
}

/// Frames of the ring by frame: a power of two, so that no slot crosses a block.
std::size_t slot_bytes(const Interface& interface) {
  constexpr std::size_t overhead = 128;  // the kernel's header, alignment, virtio and Ethernet headers, a VLAN tag
  return std::min(PacketRing::block_bytes, std::bit_ceil(interface.mtu + overhead));
}

/// For frames longer than a slot: as much as the privilege gives, else as the system's limit does.
void make_room(const Descriptor& socket, std::size_t bytes) {
  const auto wanted = static_cast<int>(std::min<std::size_t>(bytes, std::numeric_limits<int>::max() / 2));
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &wanted, sizeof wanted) != 0) {
    static_cast<void>(::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &wanted, sizeof wanted));
  }
}

/// Order matters: version and header format before the ring.
bool configure(const Descriptor& socket, int version, std::size_t blocks, std::size_t frame_bytes) {
  tpacket_req3 ring{};
  ring.tp_block_size = PacketRing::block_bytes;
  ring.tp_block_nr = static_cast<unsigned>(blocks);
  ring.tp_frame_size = static_cast<unsigned>(frame_bytes);
  ring.tp_frame_nr = static_cast<unsigned>(PacketRing::block_bytes / frame_bytes * blocks);
  ring.tp_retire_blk_tov = PacketRing::block_timeout_ms;
  const bool prepared = set_option(socket, PACKET_VERSION, version) && set_option(socket, PACKET_VNET_HDR, 1) &&
                        set_option(socket, PACKET_IGNORE_OUTGOING, 1);
  if (version == TPACKET_V3) {
    return prepared && set_option(socket, PACKET_RX_RING, ring);
  }
  const tpacket_req by_frame{ring.tp_block_size, ring.tp_block_nr, ring.tp_frame_size, ring.tp_frame_nr};
  make_room(socket, blocks * PacketRing::block_bytes);
  return prepared && set_option(socket, PACKET_COPY_THRESH, 1) && set_option(socket, PACKET_RX_RING, by_frame);
}

std::uint16_t tag_type(const tpacket2_hdr& header) { return header.tp_vlan_tpid; }
std::uint16_t tag_type(const tpacket3_hdr& header) { return header.hv1.tp_vlan_tpid; }
std::uint16_t tag_control(const tpacket2_hdr& header) { return header.tp_vlan_tci; }
std::uint16_t tag_control(const tpacket3_hdr& header) { return static_cast<std::uint16_t>(header.hv1.tp_vlan_tci); }

/// Makes `frame` the one at `at`, behind the kernel's header of either kind. It is filled where it will be read: one
/// that is made elsewhere and copied waits for its own stores (5 ns a frame).
template <class Header>
void fill(PacketRing::Frame& frame, std::byte* at, const Header& header) {
  std::byte* const start = at + header.tp_mac;
  frame.bytes = {start, header.tp_snaplen};
  // The kernel puts the virtio header right in front of the frame.
  std::memcpy(&frame.offload, start - sizeof frame.offload, sizeof frame.offload);
  frame.size = header.tp_len;
  frame.tag_removed = (header.tp_status & TP_STATUS_VLAN_VALID) != 0;
  const bool service_tag =
      (header.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0 && tag_type(header) == ethertype_service_vlan;
  frame.tagged = frame.tag_removed && (service_tag || !is_null_vlan(tag_control(header)));
}

class BlockRing final : public PacketRing {
 public:
  BlockRing(Descriptor socket, const Interface& interface, Bytes memory)
      : PacketRing(std::move(socket), interface, memory,
                   {block_bytes, offsetof(tpacket_block_desc, hdr.bh1.block_status)}) {}

  bool readable() override {
    finish_block();
    return frames_left_ > 0 || handed_over();
  }
  std::optional<Frame> next() override;

 private:
  void finish_block();

  std::byte* frame_ = nullptr;     // next to be read; nullptr: the block has not been begun
  std::uint32_t frames_left_ = 0;  // in the block
};

void BlockRing::finish_block() {
  if (frame_ != nullptr && frames_left_ == 0) {
    finish_unit();
    frame_ = nullptr;
  }
}

std::optional<PacketRing::Frame> BlockRing::next() {
  std::optional<Frame> frame;
  finish_block();
  while (frame_ == nullptr) {
    if (!handed_over()) {
      return frame;
    }
    const tpacket_hdr_v1& header = reinterpret_cast<tpacket_block_desc*>(unit())->hdr.bh1;
    set_losing((header.block_status & TP_STATUS_LOSING) != 0);
    frames_left_ = header.num_pkts;
    frame_ = unit() + header.offset_to_first_pkt;
    finish_block();  // a block may be empty
  }
  const auto& described = *reinterpret_cast<const tpacket3_hdr*>(frame_);
  fill(frame.emplace(), frame_, described);
  frame_ += described.tp_next_offset;
  --frames_left_;
  return frame;
}

/// Frames longer than a slot wait whole in the socket's own queue, as many as its buffer holds.
class SlotRing final : public PacketRing {
 public:
  SlotRing(Descriptor socket, const Interface& interface, Bytes memory)
      : PacketRing(std::move(socket), interface, memory, {slot_bytes(interface), offsetof(tpacket2_hdr, tp_status)}),
        whole_(sizeof(OffloadHeader) + long_frame_bytes_max) {}

  bool readable() override {
    finish_slot();
    return handed_over();
  }
  std::optional<Frame> next() override {
    std::optional<Frame> frame;
    finish_slot();
    if (!handed_over()) {
      return frame;
    }
    begun_ = true;
    const auto& header = *reinterpret_cast<const tpacket2_hdr*>(unit());
    set_losing((header.tp_status & TP_STATUS_LOSING) != 0);
    fill(frame.emplace(), unit(), header);
    if ((header.tp_status & TP_STATUS_COPY) != 0) {
      take_whole(*frame);
    }
    return frame;
  }
  /// The socket's buffer counts what the kernel needs for a frame, too.
  [[nodiscard]] std::size_t room() const override {
    int buffer = 0;
    socklen_t size = sizeof buffer;
    const bool told = ::getsockopt(descriptor(), SOL_SOCKET, SO_RCVBUF, &buffer, &size) == 0;
    return std::min(PacketRing::room(), told ? static_cast<std::size_t>(buffer) / 4 : 0);
  }

 private:
  static constexpr std::size_t long_frame_bytes_max = block_bytes;  // as what comes by the block

  void finish_slot() {
    if (std::exchange(begun_, false)) {
      finish_unit();
    }
  }
  void take_whole(Frame& frame);

  bool begun_ = false;            // next() has given the slot's frame
  std::vector<std::byte> whole_;  // a long frame, behind its virtio header
};

/// The kernel has queued it before it handed over the slot, which has its beginning: so the first of the queue is this
/// slot's. One that does not fit stays truncated.
void SlotRing::take_whole(Frame& frame) {
  const ssize_t got = retried([this] { return ::recv(descriptor(), whole_.data(), whole_.size(), MSG_DONTWAIT); });
  if (got == static_cast<ssize_t>(sizeof frame.offload + frame.size)) {
    std::memcpy(&frame.offload, whole_.data(), sizeof frame.offload);
    frame.bytes = Bytes(whole_).subspan(sizeof frame.offload, frame.size);
  }
}

bool bind_to_receive(const Descriptor& socket, int index) {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = index;
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

Result<std::unique_ptr<PacketRing>> PacketRing::open(const Interface& interface, Kind kind, std::size_t ring_bytes) {
  const bool by_block = kind == Kind::by_block;
  const std::size_t blocks = std::max<std::size_t>(2, ring_bytes / block_bytes);
  Descriptor socket(::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) {
    return device_failure(errno, "opening a packet socket on", interface.name);
  }
  // By the block, the kernel packs frames, and only checks that the frame size divides the block's.
  if (!configure(socket, by_block ? TPACKET_V3 : TPACKET_V2, blocks, by_block ? 2048 : slot_bytes(interface))) {
    return device_failure(errno, "setting up a receive ring on", interface.name);
  }
  const std::size_t size = blocks * block_bytes;
  void* const mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, socket.get(), 0);
  if (mapped == MAP_FAILED) {
    return device_failure(errno, "mapping the receive ring of", interface.name);
  }
  const Bytes memory(static_cast<std::byte*>(mapped), size);
  std::unique_ptr<PacketRing> ring;
  if (by_block) {
    ring = std::make_unique<BlockRing>(std::move(socket), interface, memory);
  } else {
    ring = std::make_unique<SlotRing>(std::move(socket), interface, memory);
  }
  // No frame comes before the socket is bound, so none before the filter stands.
  if (const Status filtered = ring->accept_only({.station = {}, .types = std::vector<std::uint16_t>(), .hosts = {}});
      !filtered) {
    return std::unexpected(filtered.error());
  }
  if (!bind_to_receive(ring->socket_, interface.index)) {
    return device_failure(errno, "binding a packet socket to", interface.name);
  }
  return ring;
}

PacketRing::PacketRing(Descriptor socket, const Interface& interface, Bytes memory, const Layout& layout)
    : socket_(std::move(socket)),
      interface_(interface),
      memory_(memory),
      layout_(layout),
      lent_from_(memory.size() / layout.unit_bytes) {
  for (Loan& loan : loans_) {
    loan.ring = this;
    loan.next_free = std::exchange(free_loans_, &loan);
  }
}

PacketRing::~PacketRing() {
  recall();
  ::munmap(memory_.data(), memory_.size());
}

// ---- Units ----

std::uint32_t& PacketRing::status(const Unit& unit) const {
  return *reinterpret_cast<std::uint32_t*>(memory_.data() + unit.place * layout_.unit_bytes + layout_.status_offset);
}

void PacketRing::advance(Unit& unit) const {
  ++unit.number;
  unit.place = unit.place + 1 == units() ? 0 : unit.place + 1;
}

/// finish_unit() sees to it that the unit at reading_ is not one that has been read and is still ours.
bool PacketRing::handed_over() const {
  return (std::atomic_ref(status(reading_)).load(std::memory_order_acquire) & TP_STATUS_USER) != 0;
}

/// Where frames are held for long while others come and go, half of the ring is read before they are recalled, and then
/// those of half a turn's older half: looking through the loans is paid for by many frames.
void PacketRing::finish_unit() {
  advance(reading_);
  give_back();
  if (reading_.number - oldest_.number > units() / 2) {
    recall_before(reading_.number - units() / 4);
  }
}

void PacketRing::give_back() {
  for (; oldest_.number != reading_.number && lent_from_[oldest_.place] == 0; advance(oldest_)) {
    std::atomic_ref(status(oldest_)).store(TP_STATUS_KERNEL, std::memory_order_release);
  }
}

// ---- Loans ----

Message PacketRing::lend(BufferPool& pool, const Frame& frame) {
  const bool lies_here = frame.bytes.data() >= memory_.data() && frame.bytes.data() < memory_.data() + memory_.size();
  Block* const block = free_loans_ == nullptr || !lies_here
                           ? nullptr
                           : pool.borrow(frame.bytes, /*read_only=*/false, loan_ended, free_loans_);
  if (block != nullptr) {
    Loan& loan = *std::exchange(free_loans_, free_loans_->next_free);
    loan.block = block;
    loan.unit = reading_;
    ++lent_from_[reading_.place];
    ++lent_;
  }
  return Message(block);
}

/// The message has gone, or its bytes have been brought home.
void PacketRing::loan_ended(void* ended, ConstBytes) {
  Loan& loan = *static_cast<Loan*>(ended);
  PacketRing& ring = *loan.ring;
  loan.block = nullptr;
  loan.next_free = std::exchange(ring.free_loans_, &loan);
  --ring.lent_from_[loan.unit.place];
  --ring.lent_;
  ring.give_back();
}

void PacketRing::recall_before(std::uint64_t number) {
  for (std::size_t at = 0; at < loans_.size() && lent_ > 0; ++at) {
    if (Loan& loan = loans_[at]; loan.block != nullptr && loan.unit.number < number) {
      loan.block->buffer->pool().reclaim(*loan.block);
    }
  }
}

int PacketRing::take_error() {
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

std::uint64_t PacketRing::take_drops(bool always) {
  bool ask = std::exchange(losing_, false) || always;
  if (!handed_over()) {
    ask = ask || reading_.number >= oldest_when_empty_ + units();
    oldest_when_empty_ = oldest_.number;
  }
  if (!ask) {
    return 0;
  }
  tpacket_stats_v3 statistics{};
  socklen_t size = sizeof statistics;
  const int got = ::getsockopt(socket_.get(), SOL_PACKET, PACKET_STATISTICS, &statistics, &size);
  return got == 0 ? statistics.tp_drops : 0;
}

Status PacketRing::accept_only(const PacketFilterRules& rules) {
  std::vector<sock_filter> program = packet_filter(rules);
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (::setsockopt(socket_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0) {
    return device_failure(errno, "filtering what is received on", interface_.name);
  }
  return {};
}

}  // namespace sluice::dlpi
