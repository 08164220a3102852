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

/// Names the pieces of the data for the kernel; how many they are.
std::size_t UdpSender::describe(const Message& message, std::span<iovec> out) {
  std::size_t count = 0;
  if (!message.materialized()) {
    count = message.runs(runs_).value_or(0);
    SLUICE_REQUIRE(count <= out.size());
    std::transform(runs_.begin(), runs_.begin() + static_cast<std::ptrdiff_t>(count), out.begin(), [](ConstBytes run) {
      return iovec{const_cast<std::byte*>(run.data()), run.size()};  // the kernel reads them
    });
    return count;
  }
  for (const Block* block = &message.first(); block != nullptr; block = block->cont) {
    if (block->type == MessageType::data && block->size() > 0) {
      SLUICE_REQUIRE(count < out.size());
      out[count++] = {block->rptr, block->size()};
    }
  }
  return count;
}

void UdpSender::add(Message message, const SocketAddress& destination, std::uint16_t segment) {
  SLUICE_REQUIRE(count_ < messages_max);
  Datagram& datagram = datagrams_[count_];
  datagram.bytes = message.data_size();
  datagram.pieces = describe(message, iovecs_);
  SLUICE_REQUIRE(segment == 0 || fits_run(datagram.bytes, segment));
  datagram.message = std::move(message);
  datagram.destination = destination;
  datagram.segment = segment;
  ++count_;
}

/// Whether `datagram` may continue the last entry: all segments but the last have the size of the first.
bool UdpSender::joins_last(const Datagram& datagram) const {
  const Entry& last = entries_[entry_count_ - 1];
  const Datagram& previous = *(&datagram - 1);
  const Datagram& first = *(&datagram - last.messages);
  const bool segmented = segmentation_ && static_cast<std::size_t>(&first - &datagrams_[next_]) >= plain_left_;
  return segmented && datagram.segment == 0 && first.segment == 0 && datagram.bytes > 0 &&
         previous.bytes == first.bytes && datagram.bytes <= first.bytes && last.datagrams < run_datagrams_max &&
         last.bytes + datagram.bytes <= run_bytes_max && datagram.destination == first.destination;
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
  iovec_count_ += describe(datagram.message, std::span(iovecs_).subspan(iovec_count_));
  Entry& entry = entries_[entry_count_ - 1];
  ++entry.messages;
  entry.datagrams += datagram.segment == 0 ? 1 : (datagram.bytes + datagram.segment - 1) / datagram.segment;
  entry.bytes += datagram.bytes;
  headers_[entry_count_ - 1].msg_hdr.msg_iovlen += datagram.pieces;
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
  for (std::size_t i = next_; i < count_ && iovec_count_ + datagrams_[i].pieces <= iovecs_max; ++i) {
    if (entry_count_ == 0 || !joins_last(datagrams_[i])) {
      begin_entry(datagrams_[i]);
    }
    append(datagrams_[i]);
  }
  std::size_t first = next_;
  for (std::size_t entry = 0; entry < entry_count_; first += entries_[entry++].messages) {
    if (entries_[entry].datagrams > 1) {
      const Datagram& datagram = datagrams_[first];
      set_segment(entry, datagram.segment != 0 ? datagram.segment : static_cast<std::uint16_t>(datagram.bytes));
    }
  }
}

void UdpSender::retire(std::size_t entries) {
  for (std::size_t entry = 0; entry < entries; ++entry) {
    const auto [messages, datagrams, bytes] = entries_[entry];
    for (std::size_t i = 0; i < messages; ++i) {
      datagrams_[next_++].message.reset();
    }
    statistics_.datagrams += datagrams;
    plain_left_ -= std::min(plain_left_, messages);
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
      if (datagrams_[next_].segment != 0) {
        return Progress::no_run;
      }
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
