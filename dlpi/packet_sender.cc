// SPDX-License-Identifier: Apache-2.0
#include "dlpi/packet_sender.h"

#include <linux/if_packet.h>

#include <cerrno>
#include <utility>

#include "base/retried.h"
#include "dlpi/super_frame.h"

namespace sluice::dlpi {
namespace {

/// Room for a burst of the largest frames of a fast link; the kernel's default holds about a hundred.
constexpr int send_buffer_bytes = 4 << 20;

bool bind_to_send(const Descriptor& socket, int index) {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_ifindex = index;
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

bool begins_with_super_frame(const Batch& frames) {
  const Block* const first = frames.front();
  return first != nullptr && first->codec != nullptr;  // frames have no descriptor
}

}  // namespace

Result<std::unique_ptr<PacketSender>> PacketSender::open(StreamSet& set, const Interface& interface, bool bypass_qdisc,
                                                         std::function<void()> on_room, SendCall call) {
  Descriptor socket(::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket || !bind_to_send(socket, interface.index)) {
    return device_failure(errno, "opening a packet socket on", interface.name);
  }
  // As much as the system's limit allows without the privilege to exceed it.
  static_cast<void>(::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &send_buffer_bytes, sizeof send_buffer_bytes));
  const int bypass = bypass_qdisc ? 1 : 0;
  if (bypass_qdisc && ::setsockopt(socket.get(), SOL_PACKET, PACKET_QDISC_BYPASS, &bypass, sizeof bypass) != 0) {
    return device_failure(errno, "bypassing traffic control on", interface.name);
  }
  return std::unique_ptr<PacketSender>(new PacketSender(set, std::move(socket), std::move(on_room), call));
}

PacketSender::PacketSender(StreamSet& set, Descriptor socket, std::function<void()> on_room, SendCall call)
    : set_(set), socket_(std::move(socket)), on_room_(std::move(on_room)), call_(call) {
  for (std::size_t at = 0; at < headers_.size(); ++at) {
    pieces_[at][0] = {&plain_, sizeof plain_};
    headers_[at].msg_hdr.msg_iov = pieces_[at].data() + 1;
  }
  set_.add_source(*this);
}

PacketSender::~PacketSender() { set_.remove_source(*this); }

void PacketSender::on_writable() {
  full_ = false;
  on_room_();
}

/// Names the frame's blocks for the kernel; a frame of too many is made one. False when there is no memory for that.
bool PacketSender::describe(Message& frame, std::size_t at) {
  if (frame.block_count() > blocks_per_frame_max && !frame.pull_up(frame.size())) {
    return false;
  }
  std::size_t count = 1;
  for (const Block* block = &frame.first(); block != nullptr; block = block->cont) {
    pieces_[at][count++] = {block->rptr, block->size()};
  }
  headers_[at].msg_hdr.msg_iovlen = count - (offload_headers_ ? 0 : 1);
  return true;
}

/// packet(7), PACKET_VNET_HDR: a frame that is sent has one in front, too. Can be changed, since there is no ring here.
bool PacketSender::enable_offload_headers() {
  const int on = 1;
  if (!offload_headers_ && ::setsockopt(socket_.get(), SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) == 0) {
    offload_headers_ = true;
    for (std::size_t at = 0; at < headers_.size(); ++at) {
      headers_[at].msg_hdr.msg_iov = pieces_[at].data();
    }
  }
  return offload_headers_;
}

/// Sends `frame`, which came before `frames`.
void PacketSender::send_super_frame(Message frame, Batch& frames, Sent& done) {
  Takes& takes = takes_[index_of(frame.native<wire::DataUnit>()->protocol)];
  if (takes == Takes::no || !enable_offload_headers()) {
    takes = Takes::no;
    done.to_split.push(std::move(frame));
    return;
  }
  if (!super_pieces_.describe(frame)) {
    ++done.no_memory;
    return;
  }
  super_header_.msg_iov = super_pieces_.pieces().data();
  super_header_.msg_iovlen = super_pieces_.pieces().size();
  const ssize_t taken = retried([this] { return call_(socket_.get(), &super_header_, 0); });
  if (taken >= 0) {
    const std::size_t segments = segments_in(frame);
    done.frames += segments;
    done.bytes += frame.data_size() + (segments - 1) * header_bytes_in(frame);
    ++done.super_frames;
  } else if (errno == EAGAIN) {
    full_ = true;
    frames.push_front(std::move(frame));
  } else if (errno == EINVAL && takes == Takes::unknown) {
    takes = Takes::no;
    done.to_split.push(std::move(frame));
  } else {
    ++done.refused;  // as send() has it
  }
  takes = taken >= 0 ? Takes::yes : takes;
}

std::size_t PacketSender::gather(Batch& frames, Sent& done) {
  std::size_t count = 0;
  while (count < held_.size() && !frames.empty() && !begins_with_super_frame(frames)) {
    held_[count] = frames.pop();
    if (describe(held_[count], count)) {
      ++count;
    } else {
      held_[count].reset();
      ++done.no_memory;
    }
  }
  return count;
}

void PacketSender::put_back(Batch& frames, std::size_t from, std::size_t to) {
  while (to > from) {
    frames.push_front(std::move(held_[--to]));
  }
}

PacketSender::Sent PacketSender::send(Batch& frames) {
  Sent done;
  while (!frames.empty() && !full_ && done.to_split.empty()) {
    if (begins_with_super_frame(frames)) [[unlikely]] {
      send_super_frame(frames.pop(), frames, done);
      continue;
    }
    const std::size_t count = gather(frames, done);
    std::size_t at = 0;
    while (at < count && !full_) {
      const int taken = ::sendmmsg(socket_.get(), &headers_[at], static_cast<unsigned>(count - at), 0);
      if (taken > 0) {
        for (const std::size_t end = at + static_cast<std::size_t>(taken); at < end; ++at) {
          done.bytes += headers_[at].msg_len - (offload_headers_ ? sizeof plain_ : 0);
          ++done.frames;
          held_[at].reset();
        }
      } else if (errno == EAGAIN) {
        full_ = true;
      } else if (errno != EINTR) {
        // The first frame is refused: too long, the queue of the device full (ENOBUFS), the device down or gone.
        ++done.refused;
        held_[at++].reset();
      }
    }
    put_back(frames, at, count);
  }
  return done;
}

}  // namespace sluice::dlpi
