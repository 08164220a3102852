// SPDX-License-Identifier: Apache-2.0
#include "tpi/udp_sender.h"

#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/contract.h"

namespace sluice::tpi {

void UdpSender::add(Message message, const SocketAddress& destination) {
  SLUICE_REQUIRE(has_room());
  Datagram& datagram = datagrams_[count_];
  datagram.bytes = datagram.blocks = 0;
  for (const Block* block = &message.first(); block != nullptr; block = block->cont) {
    if (block->type == MessageType::data && block->size() > 0) {
      datagram.bytes += block->size();
      ++datagram.blocks;
    }
  }
  SLUICE_REQUIRE(datagram.blocks <= iovecs_max);
  datagram.message = std::move(message);
  datagram.destination = destination;
  ++count_;
}

/// Whether `datagram` may continue the last entry: all segments but the last have the size of the first.
bool UdpSender::joins_last(const Datagram& datagram) const {
  const Entry& last = entries_[entry_count_ - 1];
  const Datagram& previous = *(&datagram - 1);
  const Datagram& first = *(&datagram - last.datagrams);
  const bool segmented = segmentation_ && static_cast<std::size_t>(&first - &datagrams_[next_]) >= plain_left_;
  return segmented && datagram.bytes > 0 && previous.bytes == first.bytes && datagram.bytes <= first.bytes &&
         last.datagrams < run_datagrams_max && last.bytes + datagram.bytes <= run_bytes_max &&
         datagram.destination == first.destination;
}

void UdpSender::begin_entry(Datagram& datagram) {
  msghdr& header = headers_[entry_count_].msg_hdr;
  header.msg_name = &datagram.destination.generic;
  header.msg_namelen = datagram.destination.size;
  header.msg_iov = &iovecs_[iovec_count_];
  header.msg_iovlen = 0;
  header.msg_control = nullptr;
  header.msg_controllen = 0;
  entries_[entry_count_] = {};
  ++entry_count_;
}

void UdpSender::append(const Datagram& datagram) {
  for (const Block* block = &datagram.message.first(); block != nullptr; block = block->cont) {
    if (block->type == MessageType::data && block->size() > 0) {
      iovecs_[iovec_count_++] = {block->rptr, block->size()};
    }
  }
  Entry& entry = entries_[entry_count_ - 1];
  ++entry.datagrams;
  entry.bytes += datagram.bytes;
  headers_[entry_count_ - 1].msg_hdr.msg_iovlen += datagram.blocks;
}

void UdpSender::set_segment(std::size_t entry, std::uint16_t segment) {
  msghdr& header = headers_[entry].msg_hdr;
  header.msg_control = &controls_[entry];
  header.msg_controllen = sizeof controls_[entry];
  cmsghdr* part = CMSG_FIRSTHDR(&header);
  part->cmsg_level = IPPROTO_UDP;
  part->cmsg_type = UDP_SEGMENT;
  part->cmsg_len = CMSG_LEN(sizeof segment);
  std::memcpy(CMSG_DATA(part), &segment, sizeof segment);
}

void UdpSender::build_entries() {
  entry_count_ = iovec_count_ = 0;
  for (std::size_t i = next_; i < count_ && iovec_count_ + datagrams_[i].blocks <= iovecs_max; ++i) {
    if (entry_count_ == 0 || !joins_last(datagrams_[i])) {
      begin_entry(datagrams_[i]);
    }
    append(datagrams_[i]);
  }
  std::size_t first = next_;
  for (std::size_t entry = 0; entry < entry_count_; first += entries_[entry++].datagrams) {
    if (entries_[entry].datagrams > 1) {
      set_segment(entry, static_cast<std::uint16_t>(datagrams_[first].bytes));
    }
  }
}

void UdpSender::retire(std::size_t entries) {
  for (std::size_t entry = 0; entry < entries; ++entry) {
    const std::size_t datagrams = entries_[entry].datagrams;
    for (std::size_t i = 0; i < datagrams; ++i) {
      datagrams_[next_++].message.reset();
    }
    statistics_.datagrams += datagrams;
    plain_left_ -= std::min(plain_left_, datagrams);
    if (datagrams > 1) {
      ++statistics_.runs;
      plain_after_refusal_ = run_datagrams_max;
    }
  }
}

/// What the kernel answers where it cannot segment: EMSGSIZE or EINVAL when a segment does not fit the path MTU, EIO
/// when the device cannot sum.
bool UdpSender::refused_run() const {
  return entries_[0].datagrams > 1 && (error_ == EMSGSIZE || error_ == EINVAL || error_ == EIO);
}

void UdpSender::send_plainly() {
  ++statistics_.refused_runs;
  plain_left_ = plain_after_refusal_;
  plain_after_refusal_ = std::min(2 * plain_after_refusal_, plain_after_refusal_max);
}

UdpSender::Progress UdpSender::send(int descriptor) {
  while (!empty()) {
    build_entries();
    ++statistics_.calls;
    const int sent = call_(descriptor, headers_.data(), static_cast<unsigned>(entry_count_), 0);
    if (sent >= 0) {
      retire(static_cast<std::size_t>(sent));
      continue;
    }
    error_ = errno;
    if (error_ == EAGAIN) {
      return Progress::blocked;
    }
    if (refused_run()) {
      send_plainly();
    } else if (error_ != EINTR) {
      return Progress::failed;
    }
  }
  clear();
  return Progress::done;
}

Message UdpSender::take_front() {
  SLUICE_REQUIRE(!empty());
  plain_left_ -= std::min<std::size_t>(plain_left_, 1);
  return std::move(datagrams_[next_++].message);
}

Message UdpSender::take_back() {
  SLUICE_REQUIRE(!empty());
  return std::move(datagrams_[--count_].message);
}

void UdpSender::clear() {
  for (; next_ < count_; ++next_) {
    datagrams_[next_].message.reset();
  }
  next_ = count_ = 0;
}

}  // namespace sluice::tpi
