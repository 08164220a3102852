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

void UdpSender::add(Message message, const SocketAddress& destination, std::uint16_t segment,
                    const wire::network::Sending& how) {
  SLUICE_REQUIRE(count_ < messages_max);
  Datagram& datagram = datagrams_[count_];
  datagram.bytes = message.data_size();
  datagram.pieces = describe(message, iovecs_);
  SLUICE_REQUIRE(segment == 0 || fits_run(datagram.bytes, segment));
  datagram.message = std::move(message);
  datagram.destination = destination;
  datagram.how = how;
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
         last.bytes + datagram.bytes <= run_bytes_max && datagram.destination == first.destination &&
         datagram.how == first.how;
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
  attach_options(entry_count_, datagram);
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

/// Appends a control message.
template <class Value>
void UdpSender::attach(std::size_t entry, int level, int type, const Value& value) {
  msghdr& header = headers_[entry].msg_hdr;
  auto* const part = reinterpret_cast<cmsghdr*>(controls_[entry].bytes.data() + header.msg_controllen);
  part->cmsg_level = level;
  part->cmsg_type = type;
  part->cmsg_len = CMSG_LEN(sizeof value);
  std::memcpy(CMSG_DATA(part), &value, sizeof value);
  header.msg_control = &controls_[entry];
  header.msg_controllen += CMSG_SPACE(sizeof value);
}

/// ip(7), ipv6(7). A socket of IPv6 takes those of IPv4 for an IPv4-mapped destination.
void UdpSender::attach_options(std::size_t entry, const Datagram& datagram) {
  const wire::network::Sending& how = datagram.how;
  if (how.source || how.hop_limit != 0 || how.traffic_class != 0) [[unlikely]] {
    const bool v4 = transport_address(datagram.destination).address.is_v4();
    if (how.hop_limit != 0) {
      attach(entry, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TTL : IPV6_HOPLIMIT, int{how.hop_limit});
    }
    if (how.traffic_class != 0) {
      attach(entry, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TOS : IPV6_TCLASS, int{how.traffic_class});
    }
    if (how.source && v4) {
      in_pktinfo from{};
      std::memcpy(&from.ipi_spec_dst, how.source->bytes().data(), how.source->size());
      attach(entry, IPPROTO_IP, IP_PKTINFO, from);
    } else if (how.source) {
      in6_pktinfo from{};
      how.source->store(reinterpret_cast<std::byte*>(&from.ipi6_addr));
      attach(entry, IPPROTO_IPV6, IPV6_PKTINFO, from);
    }
  }
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
      attach(entry, IPPROTO_UDP, UDP_SEGMENT,
             datagram.segment != 0 ? datagram.segment : static_cast<std::uint16_t>(datagram.bytes));
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
