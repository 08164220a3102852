// SPDX-License-Identifier: Apache-2.0
#include "tpi/udp_receiver.h"

#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "stack/wire/tpi.h"

namespace sluice::tpi {
namespace {

template <class T>
T control_value(const cmsghdr* part) {
  T value;
  std::memcpy(&value, CMSG_DATA(part), sizeof value);
  return value;
}

}  // namespace

/// How many slots there are for this burst: fewer than all only where the pool is exhausted.
std::size_t UdpReceiver::prepare_slots(BufferPool& pool) {
  std::size_t ready = 0;
  for (; ready < slots_max; ++ready) {
    Message& slot = slots_[ready];
    if (!slot) {
      slot = Message::allocate(pool, slot_bytes);
      if (!slot) {
        break;
      }
    }
    iovecs_[ready] = {slot.first().buffer->base(), slot_bytes};
    msghdr& header = headers_[ready].msg_hdr;
    header.msg_name = &sources_[ready].generic;
    header.msg_namelen = sizeof sources_[ready].v6;
    header.msg_iov = &iovecs_[ready];
    header.msg_iovlen = 1;
    header.msg_control = &controls_[ready];
    header.msg_controllen = sizeof controls_[ready];
  }
  return ready;
}

UdpReceiver::Outcome UdpReceiver::receive(int descriptor, BufferPool& pool, Batch& batch) {
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
  for (std::size_t slot = 0; slot < count; ++slot) {
    deliver(slot, pool, batch);
  }
  return {.more = count == ready};
}

void UdpReceiver::deliver(std::size_t slot, BufferPool& pool, Batch& batch) {
  msghdr& header = headers_[slot].msg_hdr;
  const std::size_t bytes = headers_[slot].msg_len;
  const std::size_t segment = segment_size(header, bytes);
  sources_[slot].size = header.msg_namelen;
  if ((header.msg_flags & MSG_TRUNC) != 0) {
    ++statistics_.truncated;
    return;
  }
  if (!encode_indication(sources_[slot], pool)) {
    ++statistics_.no_buffer;
    return;
  }
  Block& block = slots_[slot].first();
  block.wptr = block.rptr + bytes;
  if (bytes < copy_below_bytes) {
    deliver_copied(block.bytes(), segment, pool, batch);
  } else {
    deliver_shared(std::move(slots_[slot]), segment, batch);
  }
}

/// The size of all datagrams but the last that lie in the `bytes` received. Never 0 when bytes are there.
std::size_t UdpReceiver::segment_size(msghdr& header, std::size_t bytes) {
  std::size_t segment = bytes;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SO_RXQ_OVFL) {
      note_kernel_drops(control_value<std::uint32_t>(part));
    } else if (part->cmsg_level == IPPROTO_UDP && part->cmsg_type == UDP_GRO) {
      segment = static_cast<std::size_t>(std::max(control_value<int>(part), 1));
    }
  }
  return segment;
}

/// The kernel counts since the socket was made, modulo 2^32.
void UdpReceiver::note_kernel_drops(std::uint32_t total) {
  statistics_.kernel_drops += total - std::exchange(kernel_drops_seen_, total);
}

bool UdpReceiver::encode_indication(const SocketAddress& source, BufferPool& pool) {
  if (indication_ && source == indicated_) {
    return true;
  }
  std::array<std::byte, wire::TransportAddress::encoded_size_max> address;
  const std::size_t size = transport_address(source).encode(address);
  const wire::tpi::UnitdataInd indication{.address = ConstBytes(address).first(size), .options = {}};
  indication_ = Message::allocate(pool, indication.encoded_size(), 0, MessageType::proto);
  if (!indication_) {
    return false;
  }
  Block& block = indication_.first();
  block.wptr += indication.encode({block.wptr, indication.encoded_size()});
  indicated_ = source;
  return true;
}

void UdpReceiver::deliver_copied(ConstBytes bytes, std::size_t segment, BufferPool& pool, Batch& batch) {
  statistics_.coalesced += bytes.size() > segment ? (bytes.size() + segment - 1) / segment : 0;
  do {
    const std::size_t part = std::min(segment, bytes.size());
    push(Message::copy_of(pool, bytes.first(part)), batch);
    bytes = bytes.subspan(part);
  } while (!bytes.empty());
}

void UdpReceiver::deliver_shared(Message data, std::size_t segment, Batch& batch) {
  const std::size_t bytes = data.size();
  statistics_.coalesced += bytes > segment ? (bytes + segment - 1) / segment : 0;
  while (data && data.size() > segment) {
    Message rest = data.split(segment);
    if (!rest) {
      statistics_.no_buffer += (data.size() - 1) / segment;
      data.trim_back(data.size() - segment);
    }
    push(std::exchange(data, std::move(rest)), batch);
  }
  if (data) {
    push(std::move(data), batch);
  }
}

/// An empty `data` is one that could not be had.
void UdpReceiver::push(Message data, Batch& batch) {
  Message message = data ? indication_.duplicate() : Message();
  if (!message) {
    ++statistics_.no_buffer;
    return;
  }
  message.link(std::move(data));
  batch.push(std::move(message));
  ++statistics_.datagrams;
}

void UdpReceiver::clear() {
  for (Message& slot : slots_) {
    slot.reset();
  }
  indication_.reset();
  kernel_drops_seen_ = 0;
}

}  // namespace sluice::tpi
