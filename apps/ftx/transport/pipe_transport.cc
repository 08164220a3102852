// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/transport/pipe_transport.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/retried.h"

namespace sluice::ftx {
namespace {

bool is_socket(int descriptor) {
  struct stat status{};
  return ::fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode);
}

}  // namespace

PipeTransport::End::End(int descriptor) : descriptor_(descriptor), is_socket_(is_socket(descriptor)) {
  const int flags = is_socket_ ? -1 : ::fcntl(descriptor, F_GETFL);
  if (flags >= 0 && ::fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0) {
    flags_ = flags;
  }
}

PipeTransport::End::~End() {
  if (flags_ >= 0) {
    ::fcntl(descriptor_, F_SETFL, flags_);
  }
}

ssize_t PipeTransport::End::read(Bytes out) const {
  return retried([&] {
    return is_socket_ ? ::recv(descriptor_, out.data(), out.size(), MSG_DONTWAIT)
                      : ::read(descriptor_, out.data(), out.size());
  });
}

ssize_t PipeTransport::End::write(ConstBytes bytes) const {
  return retried([&] {
    return is_socket_ ? ::send(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL)
                      : ::write(descriptor_, bytes.data(), bytes.size());
  });
}

Peer pipe_peer() { return Peer(as_bytes("pipe")); }

PipeTransport::PipeTransport(int in, int out) : in_(in), out_(out) {
  out_buffer_.reserve(waiting_bytes_max + frame_header_bytes + frame_datagram_bytes_max);
  // A descriptor that might block would hold up all else.
  ended_ = closed_ = !in_.usable() || !out_.usable();
}

bool PipeTransport::send(Burst& burst) {
  while (!burst.left().empty() && can_send()) {
    const Outgoing& datagram = burst.left().front();
    if (!closed_) {
      append_frame(out_buffer_, datagram.front, datagram.rest);
    }
    burst.sent(1);
    if (!can_send()) {
      flush();
    }
  }
  flush();
  return burst.left().empty();
}

void PipeTransport::flush() {
  while (waiting() > 0) {
    const ssize_t put = out_.write(ConstBytes(out_buffer_).subspan(written_));
    if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      break;
    }
    if (put <= 0) {
      // What the other end has said before it went may still be read.
      closed_ = true;
      written_ = out_buffer_.size();
      break;
    }
    written_ += static_cast<std::size_t>(put);
    written_bytes_ += static_cast<std::uint64_t>(put);
  }
  out_buffer_.erase(out_buffer_.begin(), out_buffer_.begin() + static_cast<std::ptrdiff_t>(written_));
  written_ = 0;
}

bool PipeTransport::receive(DatagramHandler& handler) {
  if (ended_) {
    return false;
  }
  const ssize_t got = in_.read(reader_.room());
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    return false;
  }
  if (got <= 0) {
    ended_ = true;
    return false;
  }
  reader_.fed(static_cast<std::size_t>(got));
  while (const auto datagram = reader_.next()) {
    handler.on_datagram(*datagram, pipe_peer());
  }
  ended_ = reader_.broken();
  return !ended_;
}

}  // namespace sluice::ftx
