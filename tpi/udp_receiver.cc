// SPDX-License-Identifier: Apache-2.0
#include "tpi/udp_receiver.h"

#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "ilp/kernels.h"
#include "stack/wire/network.h"

namespace sluice::tpi {

using wire::network::segments_in;

namespace {

template <class T>
T control_value(const cmsghdr* part) {
  T value;
  std::memcpy(&value, CMSG_DATA(part), sizeof value);
  return value;
}

}  // namespace

bool UdpReceiver::fill_slot(Slot& slot, BufferPool& pool) {
  if (!slot.small) {
    slot.small = Message::allocate(pool, small_bytes);
  }
  if (!slot.large) {
    slot.large = Message::allocate(pool, slot_bytes);
  }
  return slot.small && slot.large;
}

void UdpReceiver::prepare_header(std::size_t slot) {
  iovecs_[slot][0] = {slots_[slot].small.first().buffer->base(), small_bytes};
  iovecs_[slot][1] = {slots_[slot].large.first().buffer->base() + small_bytes, slot_bytes - small_bytes};
  msghdr& header = headers_[slot].msg_hdr;
  header.msg_name = &sources_[slot].generic;
  header.msg_namelen = sizeof sources_[slot].v6;
  header.msg_iov = iovecs_[slot].data();
  header.msg_iovlen = iovecs_[slot].size();
  header.msg_control = &controls_[slot];
  header.msg_controllen = sizeof controls_[slot];
}

/// How many slots there are for this burst: fewer than are offered only where the pool is exhausted.
std::size_t UdpReceiver::prepare_slots(BufferPool& pool) {
  std::size_t ready = 0;
  while (ready < slots_offered_ && fill_slot(slots_[ready], pool)) {
    prepare_header(ready++);
  }
  return ready;
}

UdpReceiver::Outcome UdpReceiver::receive(int descriptor, BufferPool& pool, bool segmented, Batch& batch) {
  segmented_ = segmented;
  const std::size_t ready = prepare_slots(pool);
  if (ready == 0) {
    return {.error = ENOBUFS};
  }
  ++statistics_.calls;
  const int received = ::recvmmsg(descriptor, headers_.data(), static_cast<unsigned>(ready), MSG_DONTWAIT, nullptr);
  if (received < 0) {
    return {.error = errno};
  }
  const auto count = static_cast<std::size_t>(received);
  std::size_t bytes = 0;
  for (std::size_t slot = 0; slot < count; ++slot) {
    bytes += headers_[slot].msg_len;
    deliver(slot, pool, batch);
  }
  slots_offered_ = std::clamp(burst_bytes * count / std::max<std::size_t>(bytes, 1), slots_min, slots_max);
  return {.more = count == ready};
}

void UdpReceiver::deliver(std::size_t slot, BufferPool& pool, Batch& batch) {
  msghdr& header = headers_[slot].msg_hdr;
  const std::size_t bytes = headers_[slot].msg_len;
  arrival_ = {.kind = wire::DataUnit::Kind::transport_indication};
  const std::size_t segment = read_control(header, bytes);
  sources_[slot].size = header.msg_namelen;
  if ((header.msg_flags & MSG_TRUNC) != 0) {
    ++statistics_.truncated;
    return;
  }
  const wire::TransportAddress source = transport_address(sources_[slot]);
  arrival_.peer = source.address;
  arrival_.peer_port = source.port;
  statistics_.coalesced += bytes > segment ? segments_in(bytes, segment) : 0;
  if (bytes <= small_bytes) {
    deliver_small(slots_[slot].small, bytes, segment, pool, batch);
  } else {
    deliver_large(slots_[slot], bytes, segment, pool, batch);
  }
}

void UdpReceiver::deliver_small(Message& small, std::size_t bytes, std::size_t segment, BufferPool& pool,
                                Batch& batch) {
  Block& block = small.first();
  block.wptr = block.rptr + bytes;
  if (bytes > segment || bytes < small_bytes / sharing_divisor) {
    deliver_copied(block.bytes(), segment, pool, batch);
  } else {
    push(std::move(small), bytes, segment, batch);
  }
}

void UdpReceiver::deliver_large(Slot& slot, std::size_t bytes, std::size_t segment, BufferPool& pool, Batch& batch) {
  Block& block = slot.large.first();
  block.wptr = block.rptr + bytes;
  ilp::copy({slot.small.first().buffer->base(), small_bytes}, {block.rptr, small_bytes});
  if (bytes < slot_bytes / sharing_divisor) {
    deliver_copied(block.bytes(), segment, pool, batch);
  } else {
    deliver_shared(std::move(slot.large), segment, batch);
  }
}

/// Answers the size of all datagrams but the last that lie in the `bytes` received; never 0 when bytes are there.
std::size_t UdpReceiver::read_control(msghdr& header, std::size_t bytes) {
  std::size_t segment = bytes;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SO_RXQ_OVFL) {
      note_kernel_drops(control_value<std::uint32_t>(part));
    } else if (part->cmsg_level == IPPROTO_UDP && part->cmsg_type == UDP_GRO) {
      segment = static_cast<std::size_t>(std::max(control_value<int>(part), 1));
    } else {
      read_arrival(*part);
    }
  }
  return segment;
}

/// ip(7): "ipi_spec_dst is the local address of the packet and ipi_addr is the destination address in the packet
/// header." An IPv4 datagram at a socket of IPv6 brings both families' information, with its address in mapped form.
void UdpReceiver::read_arrival(const cmsghdr& part) {
  using wire::DataUnit;
  if (part.cmsg_level == IPPROTO_IP && part.cmsg_type == IP_PKTINFO) {
    const auto info = control_value<in_pktinfo>(&part);
    arrival_.options = DataUnit::Options::received;
    arrival_.local = wire::Ipv4Address::load(reinterpret_cast<const std::byte*>(&info.ipi_addr));
    arrival_.group = info.ipi_addr.s_addr != info.ipi_spec_dst.s_addr;
  } else if (part.cmsg_level == IPPROTO_IP && part.cmsg_type == IP_TTL) {
    arrival_.hop_limit = static_cast<std::uint8_t>(control_value<int>(&part));
  } else if (part.cmsg_level == IPPROTO_IP && part.cmsg_type == IP_TOS) {
    arrival_.traffic_class = control_value<std::uint8_t>(&part);
  } else if (part.cmsg_level == IPPROTO_IPV6 && part.cmsg_type == IPV6_PKTINFO) {
    SocketAddress address;
    const auto info = control_value<in6_pktinfo>(&part);
    address.v6.sin6_family = AF_INET6;
    address.v6.sin6_addr = info.ipi6_addr;
    address.v6.sin6_scope_id = info.ipi6_ifindex;
    address.size = sizeof address.v6;
    const wire::IpAddress local = transport_address(address).address;
    if (local.is_v6()) {
      arrival_.options = DataUnit::Options::received;
      arrival_.local = local;
      arrival_.group = local.is_multicast();
    }
  } else if (part.cmsg_level == IPPROTO_IPV6 && part.cmsg_type == IPV6_HOPLIMIT) {
    arrival_.hop_limit = static_cast<std::uint8_t>(control_value<int>(&part));
  } else if (part.cmsg_level == IPPROTO_IPV6 && part.cmsg_type == IPV6_TCLASS) {
    arrival_.traffic_class = static_cast<std::uint8_t>(control_value<int>(&part));
  }
}

/// The kernel counts since the socket was made, modulo 2^32.
void UdpReceiver::note_kernel_drops(std::uint32_t total) {
  statistics_.kernel_drops += total - std::exchange(kernel_drops_seen_, total);
}

void UdpReceiver::deliver_copied(ConstBytes bytes, std::size_t segment, BufferPool& pool, Batch& batch) {
  do {
    const std::size_t part = segmented_ ? bytes.size() : std::min(segment, bytes.size());
    push(Message::copy_of(pool, bytes.first(part)), part, segment, batch);
    bytes = bytes.subspan(part);
  } while (!bytes.empty());
}

void UdpReceiver::deliver_shared(Message data, std::size_t segment, Batch& batch) {
  while (data && !segmented_ && data.size() > segment) {
    Message rest = data.split(segment);
    if (!rest) {
      statistics_.no_buffer += segments_in(data.size() - segment, segment);
      data.trim_back(data.size() - segment);
    }
    push(std::exchange(data, std::move(rest)), segment, segment, batch);
  }
  if (data) {
    const std::size_t size = data.size();
    push(std::move(data), size, segment, batch);
  }
}

/// `data` of `size` bytes; empty: it could not be had.
void UdpReceiver::push(Message data, std::size_t size, std::size_t segment, Batch& batch) {
  const bool several = size > segment;
  const std::size_t datagrams = several ? segments_in(size, segment) : 1;
  arrival_.segment_size = static_cast<std::uint16_t>(several ? segment : 0);
  Message message = data ? Message::of_native(data.pool(), arrival_) : Message();
  if (!message) {
    statistics_.no_buffer += datagrams;
    return;
  }
  message.link(std::move(data));
  batch.push(std::move(message));
  statistics_.datagrams += datagrams;
}

void UdpReceiver::clear() {
  slots_ = {};
  kernel_drops_seen_ = 0;
}

}  // namespace sluice::tpi
