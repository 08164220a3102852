// SPDX-License-Identifier: Apache-2.0

// kernel_tcp: the data of its connection, each way, and the release behind it.

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "stack/core/primitive.h"
#include "tpi/kernel_tcp.h"

namespace sluice::tpi {

using namespace wire::tpi;  // the primitives and their numbers

// ---- Sending ----

void KernelTcp::start_release() {
  release_due_ = true;
  closing_ = peer_ended_;
  end_if_released();
}

/// What was put before the release has left: so does the release, and with the peer's the connection is over.
void KernelTcp::end_if_released() {
  if (!release_due_ || phase_ != Phase::connected || !write_queue().empty()) {
    return;
  }
  release_due_ = false;
  if (const int error = socket_->end_sending(); error != 0) {
    return lose_connection(error);
  }
  if (!closing_) {
    return;
  }
  drop_connection(false);
  Batch requests = std::move(requests_);
  while (Message request = requests.pop()) {
    take_request(std::move(request));
  }
}

/// What is lent is copied now; where there is no memory for that, bytes of the stream are lost, and it with them.
void KernelTcp::wait(Message message) {
  if (keep(message, Side::write) == TransformResult::failed) {
    ++unsent_;
    return lose_connection(ENOBUFS);
  }
  message.first().type = message.type() == MessageType::data ? MessageType::data : MessageType::proto;
  write_queue().enqueue(std::move(message));
}

void KernelTcp::wsrv() {
  while (sendable() && !write_queue().empty()) {
    if (!send_gathered()) {
      return;
    }
  }
  if (write_queue().empty()) {
    static_cast<void>(write_queue().dequeue());  // finds nothing: the next message schedules
    end_if_released();
  }
}

/// Offers the message to the kernel from where its bytes lie. True when it is done with: taken, or of a connection that
/// has ended. What is left is the message's to keep.
bool KernelTcp::send(Message& message) {
  std::array<ConstBytes, TcpSocket::parts_max> parts;
  std::size_t size = message.data_size();
  while (size > 0) {
    auto runs = message.runs(parts);
    if (!runs) {
      if (message.materialize() == TransformResult::failed) {
        ++unsent_;
        lose_connection(ENOBUFS);
        return true;
      }
      runs = message.runs(parts);
    }
    if (!runs) {
      return false;  // more parts than one call takes
    }
    const TcpSocket::Moved moved = socket_->send(std::span(parts).first(*runs), calls_);
    ++send_calls_;
    bytes_sent_ += moved.bytes;
    if (moved.bytes > 0) {
      size -= moved.bytes;
      if (size > 0) {
        message.trim_data_front(moved.bytes);
      }
    } else if (moved.error != EINTR) {
      stop_writing(moved.error);
      const bool over = phase_ != Phase::connected;
      unsent_ += over ? 1U : 0U;
      return over;
    }
  }
  return true;
}

/// Sends from the front of the queue what one call takes. False when sending has to wait, or there is no connection.
bool KernelTcp::send_gathered() {
  std::array<ConstBytes, TcpSocket::parts_max> parts;
  std::array<Message, TcpSocket::parts_max> taken;
  std::size_t part_count = 0;
  std::size_t count = 0;
  while (count < taken.size() && part_count < parts.size()) {
    Message message = write_queue().dequeue();
    if (!message) {
      break;
    }
    if (message.materialize() == TransformResult::failed) {
      unsent_ += count + 1;
      lose_connection(ENOBUFS);
      return false;
    }
    if (message.data_size() == 0) {
      continue;
    }
    auto runs = message.runs(std::span(parts).subspan(part_count));
    if (!runs && part_count > 0) {
      write_queue().put_back(std::move(message));
      break;
    }
    if (!runs) {
      Message data = message.type() == MessageType::data ? std::move(message) : message.unlink();
      if (!data.pull_up(std::min(data.size(), BufferPool::capacity_max))) {
        write_queue().put_back(std::move(data));
        stop_writing(ENOBUFS);
        return false;
      }
      write_queue().put_back(std::move(data));
      continue;
    }
    part_count += *runs;
    taken[count++] = std::move(message);
  }
  if (count == 0) {
    return !write_queue().empty();
  }
  const TcpSocket::Moved moved = socket_->send(std::span(parts).first(part_count), calls_);
  ++send_calls_;
  bytes_sent_ += moved.bytes;
  std::size_t left = moved.bytes;
  std::size_t first = 0;
  while (first < count && left >= taken[first].data_size()) {
    left -= taken[first++].data_size();
  }
  if (first < count && left > 0) {
    taken[first].trim_data_front(left);
  }
  while (count > first) {
    write_queue().put_back(std::move(taken[--count]));
  }
  if (moved.error != 0 && moved.error != EINTR) {
    stop_writing(moved.error);
    return false;
  }
  return true;
}

/// What is left stays on the queue, whose service procedure it does not schedule.
void KernelTcp::stop_writing(int error) {
  if (!would_block(error) && !is_shortage(error)) {
    return lose_connection(error);
  }
  ++write_waits_;
  write_queue().set_enabled(false);
  if (would_block(error)) {
    writing_blocked_ = true;
  } else {
    retry_.arm_after(retry_delay);
  }
}

void KernelTcp::resume_writing() {
  writing_blocked_ = false;
  write_queue().set_enabled(true);
  write_queue().enable();
}

void KernelTcp::on_writable() {
  if (phase_ == Phase::connecting) {
    finish_connect();
  } else {
    resume_writing();
  }
}

// ---- Receiving ----

bool KernelTcp::wants_readable() const { return phase_ == Phase::connected && !reading_stopped_ && !peer_ended_; }

bool KernelTcp::on_readable() {
  for (std::size_t reads = 0; reads < reads_per_turn_max; ++reads) {
    if (!read_queue().can_put_next()) {
      ++read_stops_;
      reading_stopped_ = true;
      watch_unread();
      return false;
    }
    if (!read_once()) {
      return false;
    }
  }
  return phase_ == Phase::connected;
}

/// False when there is nothing more to read now. Reads into a block that is kept for the next time where little came:
/// what came is then copied, so that a message never takes much more memory than it has bytes.
bool KernelTcp::read_once() {
  if (!room_) {
    room_ = Message::allocate(set().pool(), read_bytes_max);
  }
  Message indication = primitive_message(set().pool(), DataInd{}, MessageType::proto);
  if (!room_ || !indication) {
    ++no_buffer_;
    reading_stopped_ = true;
    retry_.arm_after(retry_delay);
    return false;
  }
  Block& block = room_.first();
  const TcpSocket::Moved moved = socket_->receive({block.rptr, read_bytes_max}, calls_);
  ++receive_calls_;
  if (moved.error != 0) {
    if (moved.error == EINTR) {
      return true;
    }
    if (is_shortage(moved.error)) {
      reading_stopped_ = true;
      retry_.arm_after(retry_delay);
    } else if (!would_block(moved.error)) {
      lose_connection(moved.error);
    }
    return false;
  }
  if (moved.bytes == 0) {
    peer_ended_ = true;
    const bool released = state() == TS_WIND_ORDREL;
    closing_ = released;
    indicate_release();
    if (released) {
      if (release_due_) {
        end_if_released();
      } else if (phase_ == Phase::connected && state() == TS_IDLE) {
        drop_connection(false);
      }
    }
    return false;
  }
  Message data;
  if (moved.bytes >= read_bytes_max / 4) {
    block.wptr = block.rptr + moved.bytes;
    data = std::move(room_);
  } else {
    data = Message::copy_of(set().pool(), {block.rptr, moved.bytes});
    if (!data) {
      block.wptr = block.rptr + moved.bytes;
      data = std::move(room_);
    }
  }
  bytes_received_ += moved.bytes;
  indication.link(std::move(data));
  defer_if_fused(indication);
  read_queue().put_next(std::move(indication));
  return phase_ == Phase::connected;
}

void KernelTcp::rsrv() { reading_stopped_ = false; }

}  // namespace sluice::tpi
