// SPDX-License-Identifier: Apache-2.0
#pragma once

// M_IOCTL, M_IOCACK and M_IOCNAK: the first block holds an IoctlBlock (struct iocblk), data blocks behind it the
// argument: a copy of the caller's (I_STR), or, where the ioctl is transparent, the caller's memory itself, for the
// module to read and write in place (Stream::transparent_ioctl). A module that knows the command answers with M_IOCACK
// or M_IOCNAK by reply(); one that does not passes it on; a driver that does not answers M_IOCNAK with EINVAL. The head
// matches answers by id.

#include <cstdint>
#include <cstring>
#include <utility>

#include "base/contract.h"
#include "stack/core/message.h"

namespace sluice {

struct IoctlBlock {
  std::int32_t command = 0;
  std::uint32_t id = 0;
  std::int32_t error = 0;         // errno, in an answer
  std::int32_t return_value = 0;  // in an acknowledgement
  std::uint32_t count = 0;        // ioc_count: bytes of the argument, or ioctl_transparent

  [[nodiscard]] bool transparent() const;
};

/// "ioc_count is set to TRANSPARENT to indicate a transparent ioctl" (STREAMS Programming Guide).
inline constexpr std::uint32_t ioctl_transparent = 0xffff'ffff;

inline bool IoctlBlock::transparent() const { return count == ioctl_transparent; }

[[nodiscard]] inline IoctlBlock ioctl_block(const Message& message) {
  IoctlBlock block;
  SLUICE_REQUIRE(message.bytes().size() >= sizeof block);
  std::memcpy(&block, message.bytes().data(), sizeof block);
  return block;
}

inline void set_ioctl_block(Message& message, const IoctlBlock& block) {
  SLUICE_REQUIRE(message.bytes().size() >= sizeof block);
  std::memcpy(message.bytes().data(), &block, sizeof block);
}

/// The argument of a request, where it lies in one block, as the head's requests have it; empty where there is none.
[[nodiscard]] inline Bytes ioctl_argument(const Message& request) {
  const Block* const block = request.data_block();
  return block == nullptr ? Bytes() : block->bytes();
}

/// Turns a request into its acknowledgement; its data blocks stay as the answer's data.
[[nodiscard]] inline Message ioctl_acknowledged(Message request, std::int32_t return_value = 0) {
  IoctlBlock block = ioctl_block(request);
  block.error = 0;
  block.return_value = return_value;
  set_ioctl_block(request, block);
  request.first().type = MessageType::iocack;
  return request;
}

/// Turns a request into its refusal with an errno value.
[[nodiscard]] inline Message ioctl_refused(Message request, std::int32_t error) {
  IoctlBlock block = ioctl_block(request);
  block.error = error;
  set_ioctl_block(request, block);
  request.first().type = MessageType::iocnak;
  Message argument = request.unlink();
  return request;
}

}  // namespace sluice
