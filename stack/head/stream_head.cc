// SPDX-License-Identifier: Apache-2.0
#include "stack/head/stream_head.h"

#include "base/contract.h"
#include "stack/core/ioctl.h"

namespace sluice {

void StreamHead::rput(Batch batch) {
  while (Message message = batch.pop()) {
    receive(std::move(message));
  }
}

void StreamHead::receive(Message message) {
  switch (message.type()) {
    case MessageType::pcproto:
      // "The Stream head will allow only one M_PCPROTO message to be placed in its read queue at a time [...] If an
      // M_PCPROTO message is already in the queue, the second is discarded." (STREAMS Programmer's Guide, M_PCPROTO)
      if (high_priority_waits_) {
        ++second_high_priority_;
        return;
      }
      high_priority_waits_ = true;
      read_queue().enqueue(std::move(message));
      return;
    case MessageType::data:
    case MessageType::proto:
      read_queue().enqueue(std::move(message));
      return;
    case MessageType::iocack:
    case MessageType::iocnak:
      return receive_ioctl_answer(std::move(message));
    case MessageType::error:
      return receive_error(std::move(message));
    case MessageType::hangup:
      hung_up_ = true;
      return;
    case MessageType::flush:
      return receive_flush(std::move(message));
    case MessageType::ioctl:
      // Whoever sent it waits for an answer, and nobody above has one.
      if (message.bytes().size() >= sizeof(IoctlBlock)) {
        write_queue().put_next(ioctl_refused(std::move(message), EINVAL));
      } else {
        ++unexpected_;
      }
      return;
    case MessageType::ctl:
    case MessageType::setopts:
      ++unexpected_;
      return;
  }
}

/// One byte of M_ERROR: "If one of the bytes is set to NOERROR, then the field for the corresponding side of the stream
/// is unchanged. [...] If a byte is set to 0, the error state is cleared for the corresponding side" (STREAMS
/// Programming Guide, M_ERROR). Returns whether that side has an error now that it has been told about.
bool StreamHead::take_error(std::uint8_t code, int& error) {
  error = code == no_error ? error : code;
  return code != no_error && code != 0;
}

/// "The one-byte format M_ERROR message sets both of these fields [...] The first byte is the read error and the second
/// byte is the write error. [...] An M_FLUSH message with FLUSHRW is sent downstream." Here, as in SVR4's successors,
/// it names only the sides that are in error, so that the other side goes on undisturbed.
void StreamHead::receive_error(Message message) {
  const Bytes bytes = message.bytes();
  if (bytes.empty()) {
    ++unexpected_;
    return;
  }
  const auto read = std::to_integer<std::uint8_t>(bytes[0]);
  const auto write = bytes.size() > 1 ? std::to_integer<std::uint8_t>(bytes[1]) : read;
  const unsigned flags =
      (take_error(read, read_error_) ? flush_read : 0U) | (take_error(write, write_error_) ? flush_write : 0U);
  if (flags != 0) {
    message.first().type = MessageType::flush;
    bytes[0] = static_cast<std::byte>(flags);
    flush_own(message);
    write_queue().put_next(std::move(message));
  }
}

void StreamHead::flush_own(const Message& message) {
  flush_queues(message);
  high_priority_waits_ = read_queue().peek() != nullptr && is_high_priority(read_queue().peek()->type);
}

/// The head's turn: flush what the message names, and send it down when it names the write side.
void StreamHead::receive_flush(Message message) {
  flush_own(message);
  if (message.bytes().empty()) {
    return;
  }
  const auto flags = std::to_integer<unsigned>(message.bytes()[0]);
  if ((flags & flush_write) != 0) {
    message.bytes()[0] = static_cast<std::byte>(flags & ~unsigned{flush_read});
    write_queue().put_next(std::move(message));
  }
}

void StreamHead::receive_ioctl_answer(Message message) {
  const bool expected = message.bytes().size() >= sizeof(IoctlBlock) && expected_ioctl_ == ioctl_block(message).id;
  if (!expected || ioctl_answer_) {
    ++late_ioctl_answer_;
    return;
  }
  ioctl_answer_ = std::move(message);
}

void StreamHead::expect_ioctl(std::uint32_t id) {
  SLUICE_REQUIRE(!ioctl_pending());
  expected_ioctl_ = id;
}

void StreamHead::abandon_ioctl() {
  expected_ioctl_.reset();
  ioctl_answer_.reset();
}

Message StreamHead::take_ioctl_answer() {
  if (ioctl_answer_) {
    expected_ioctl_.reset();
  }
  return std::move(ioctl_answer_);
}

Message StreamHead::take() {
  Message message = read_queue().dequeue();
  if (message && is_high_priority(message.type())) {
    high_priority_waits_ = false;
  }
  return message;
}

void StreamHead::put_back(Message message) {
  high_priority_waits_ = high_priority_waits_ || is_high_priority(message.type());
  read_queue().put_back(std::move(message));
}

}  // namespace sluice
