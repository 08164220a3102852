// SPDX-License-Identifier: Apache-2.0
#include "dlpi/xdp_queue.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "dlpi/xdp_filter.h"
#include "stack/wire/ethernet.h"

namespace sluice::dlpi {
namespace {

/// The kernel gives up a queue some time after its socket has closed. A program that starts again just then waits.
constexpr int opening_tries = 50;
constexpr std::chrono::milliseconds opening_pause{2};

/// Room for a burst of the largest frames of a fast link; the kernel's default holds some dozens.
constexpr int send_buffer_bytes = 4 << 20;

constexpr std::uint32_t ring_size(std::size_t slots) { return static_cast<std::uint32_t>(slots); }

}  // namespace

Result<std::unique_ptr<XdpQueue>> XdpQueue::open(const Interface& interface, const Options& options) {
  auto queue = open_once(interface, options);
  for (int tries = 1; tries < opening_tries && !queue && queue.error().code == EBUSY; ++tries) {
    std::this_thread::sleep_for(opening_pause);
    queue = open_once(interface, options);
  }
  return queue;
}

Result<std::unique_ptr<XdpQueue>> XdpQueue::open_once(const Interface& interface, const Options& options) {
  std::unique_ptr<XdpQueue> queue(new XdpQueue(interface, options));
  if (const Status bound = queue->bind(); !bound) {
    return std::unexpected(bound.error());
  }
  return queue;
}

XdpQueue::XdpQueue(const Interface& interface, const Options& options)
    : interface_(interface), options_(options), slots_(options.receive_slots), under_way_(options.send_slots) {
  for (Slot& slot : slots_) {
    slot.queue = this;
  }
}

Status XdpQueue::bind() {
  const std::size_t size = (options_.receive_slots + options_.send_slots) * slot_bytes;
  void* const mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (mapped == MAP_FAILED) {
    return xdp_failure(errno, "allocating the slots of", interface_);
  }
  memory_ = {static_cast<std::byte*>(mapped), size};
  const xsk_umem_config umem{.fill_size = ring_size(options_.receive_slots),
                             .comp_size = ring_size(options_.send_slots),
                             .frame_size = slot_bytes,
                             .frame_headroom = 0,
                             .flags = 0};
  if (const int code = ::xsk_umem__create(&umem_, mapped, size, &fill_, &completion_, &umem); code < 0) {
    return xdp_failure(-code, "opening an XDP socket on", interface_);
  }
  xsk_socket_config socket{};
  socket.rx_size = ring_size(options_.receive_slots);
  socket.tx_size = ring_size(options_.send_slots);
  socket.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD;
  const int copying = options_.copies == Copies::always  ? XDP_COPY
                      : options_.copies == Copies::never ? XDP_ZEROCOPY
                                                         : 0;
  socket.bind_flags = static_cast<std::uint16_t>(XDP_USE_NEED_WAKEUP | copying);
  if (const int code = ::xsk_socket__create(&socket_, interface_.name.c_str(), options_.queue, umem_, &receive_,
                                            &transmit_, &socket);
      code < 0) {
    socket_ = nullptr;
    return xdp_failure(-code, "binding an XDP socket to queue " + std::to_string(options_.queue) + " of", interface_);
  }
  static_cast<void>(::fcntl(descriptor(), F_SETFD, FD_CLOEXEC));
  // As much as the system's limit allows without the privilege to exceed it.
  static_cast<void>(::setsockopt(descriptor(), SOL_SOCKET, SO_SNDBUF, &send_buffer_bytes, sizeof send_buffer_bytes));
  for (Slot& slot : slots_) {
    give_to_kernel(slot);
  }
  wake_receiver();
  for (std::size_t at = options_.send_slots; at > 0; --at) {
    free_send_slots_.push_back((options_.receive_slots + at - 1) * slot_bytes);
  }
  return {};
}

XdpQueue::~XdpQueue() {
  recall();
  if (socket_ != nullptr) {
    ::xsk_socket__delete(socket_);
  }
  if (umem_ != nullptr) {
    static_cast<void>(::xsk_umem__delete(umem_));
  }
  if (!memory_.empty()) {
    ::munmap(memory_.data(), memory_.size());
  }
}

bool XdpQueue::zero_copy() const {
  xdp_options options{};
  socklen_t size = sizeof options;
  return ::getsockopt(descriptor(), SOL_XDP, XDP_OPTIONS, &options, &size) == 0 &&
         (options.flags & XDP_OPTIONS_ZEROCOPY) != 0;
}

// ---- Receiving ----

/// The fill ring has as many places as there are slots: there is always one.
void XdpQueue::give_to_kernel(Slot& slot) {
  std::uint32_t at = 0;
  if (xsk_ring_prod__reserve(&fill_, 1, &at) == 1) {
    slot.owner = Owner::kernel;
    *xsk_ring_prod__fill_addr(&fill_, at) = number_of(slot) * slot_bytes;
    xsk_ring_prod__submit(&fill_, 1);
  }
}

void XdpQueue::wake_receiver() {
  if (xsk_ring_prod__needs_wakeup(&fill_) != 0) {
    static_cast<void>(::recvfrom(descriptor(), nullptr, 0, MSG_DONTWAIT, nullptr, nullptr));
  }
}

void XdpQueue::finish_frame() {
  if (Slot* const slot = std::exchange(reading_, nullptr); slot != nullptr && slot->owner == Owner::reader) {
    give_to_kernel(*slot);
  }
}

void XdpQueue::finish_batch() {
  if (batch_size_ > 0 && batch_read_ == batch_size_) {
    xsk_ring_cons__release(&receive_, batch_size_);
    batch_size_ = batch_read_ = 0;
    wake_receiver();
  }
  if (batch_size_ == 0) {
    const std::uint32_t unused = *fill_.producer - std::atomic_ref(*fill_.consumer).load(std::memory_order_relaxed);
    starved_ = starved_ || unused == 0;
    batch_size_ = xsk_ring_cons__peek(&receive_, batch_frames_max, &batch_at_);
  }
}

bool XdpQueue::readable() {
  finish_frame();
  finish_batch();
  return batch_read_ < batch_size_;
}

std::optional<Bytes> XdpQueue::next() {
  while (readable()) {
    const xdp_desc described = *xsk_ring_cons__rx_desc(&receive_, batch_at_ + batch_read_++);
    const std::size_t number = described.addr / slot_bytes;
    const std::size_t offset = described.addr % slot_bytes;
    if (number < slots_.size() && slots_[number].owner == Owner::kernel && described.len <= slot_bytes - offset) {
      reading_ = &slots_[number];
      reading_->owner = Owner::reader;
      return memory_.subspan(described.addr, described.len);
    }
    ++invalid_;
  }
  return std::nullopt;
}

std::size_t XdpQueue::lent_max() const { return std::min(loans_max, slots_.size() / 2); }

Message XdpQueue::lend(BufferPool& pool, Bytes frame) {
  if (lent_ == lent_max()) {
    recall_all_but(lent_max() - lent_max() / 4);
  }
  Slot& slot = *reading_;
  Block* const block = pool.borrow(frame, /*read_only=*/false, loan_ended, &slot);
  if (block != nullptr) {
    slot.owner = Owner::reader_lent;
    slot.block = block;
    slot.older = std::exchange(newest_, &slot);
    slot.newer = nullptr;
    (slot.older == nullptr ? oldest_ : slot.older->newer) = &slot;
    ++lent_;
  }
  return Message(block);
}

/// The message has gone, or its bytes have been brought home.
void XdpQueue::loan_ended(void* ended, ConstBytes) {
  Slot& slot = *static_cast<Slot*>(ended);
  XdpQueue& queue = *slot.queue;
  (slot.older == nullptr ? queue.oldest_ : slot.older->newer) = slot.newer;
  (slot.newer == nullptr ? queue.newest_ : slot.newer->older) = slot.older;
  slot.block = nullptr;
  --queue.lent_;
  queue.give_to_kernel(slot);
}

void XdpQueue::recall_all_but(std::size_t newest) {
  while (lent_ > newest) {
    oldest_->block->buffer->pool().reclaim(*oldest_->block);
  }
}

int XdpQueue::take_error() {
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(descriptor(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

/// rx_dropped: no slot, or one too small; rx_ring_full: no room to tell of a frame.
std::uint64_t XdpQueue::take_drops(bool always) {
  const std::uint64_t invalid = std::exchange(invalid_, 0);
  if (!std::exchange(starved_, false) && !always) {
    return invalid;
  }
  xdp_statistics statistics{};
  socklen_t size = sizeof statistics;
  if (::getsockopt(descriptor(), SOL_XDP, XDP_STATISTICS, &statistics, &size) != 0) {
    return invalid;
  }
  const std::uint64_t total = statistics.rx_dropped + statistics.rx_ring_full;
  return invalid + total - std::exchange(drops_, total);
}

// ---- Sending ----

void XdpQueue::take_completions() {
  std::uint32_t at = 0;
  const std::uint32_t count = xsk_ring_cons__peek(&completion_, completion_.size, &at);
  for (std::uint32_t end = at + count; at != end; ++at) {
    const std::uint64_t number = *xsk_ring_cons__comp_addr(&completion_, at) / slot_bytes;
    const std::uint64_t sender = number - slots_.size();
    if (number >= slots_.size() && sender < under_way_.size() && under_way_[sender]) {
      under_way_[sender] = false;
      free_send_slots_.push_back(number * slot_bytes);
    }
  }
  if (count > 0) {
    xsk_ring_cons__release(&completion_, count);
  }
}

/// Without zero copy the kernel sends a bounded number of frames in each call, and says EAGAIN where that was not all;
/// EBUSY says that the device refused a frame, which is lost. ENETDOWN and ENXIO: the device is down or gone, and the
/// frames wait for it.
std::size_t XdpQueue::continue_sending() {
  std::size_t refused = 0;
  constexpr std::size_t frames_per_call = 16;  // at least, kernels of today send 32
  const std::size_t tries_max = 4 + (options_.send_slots - free_send_slots_.size()) / frames_per_call;
  bool more = sending() && xsk_ring_prod__needs_wakeup(&transmit_) != 0;
  for (std::size_t tries = 0; tries < tries_max && more; ++tries) {
    more = ::sendto(descriptor(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) < 0 &&
           (errno == EAGAIN || errno == EBUSY || errno == EINTR);
    refused += more && errno == EBUSY ? 1 : 0;
  }
  take_completions();
  return refused;
}

XdpQueue::Sent XdpQueue::send(Batch& frames) {
  Sent done;
  take_completions();
  while (!frames.empty() && !free_send_slots_.empty()) {
    std::uint32_t submitted = 0;
    std::uint32_t at = 0;
    while (!frames.empty() && submitted < batch_frames_max && !free_send_slots_.empty()) {
      const Message frame = frames.pop();
      const std::size_t size = frame.size();
      // Neither fits an XDP descriptor: the kernel would skip it, and keep the slot.
      if (size < wire::EthernetHeader::size || size > slot_bytes || xsk_ring_prod__reserve(&transmit_, 1, &at) == 0) {
        ++done.refused;
        continue;
      }
      const std::uint64_t place = free_send_slots_.back();
      free_send_slots_.pop_back();
      under_way_[place / slot_bytes - slots_.size()] = true;
      std::byte* to = memory_.data() + place;
      for (const Block* block = &frame.first(); block != nullptr; block = block->cont) {
        to = std::copy(block->rptr, block->wptr, to);
      }
      *xsk_ring_prod__tx_desc(&transmit_, at) = {.addr = place, .len = static_cast<std::uint32_t>(size), .options = 0};
      ++submitted;
      ++done.frames;
      done.bytes += size;
    }
    xsk_ring_prod__submit(&transmit_, submitted);
    const std::size_t refused = continue_sending();
    done.refused += refused;
    done.frames -= std::min(done.frames, refused);
  }
  return done;
}

}  // namespace sluice::dlpi
