// SPDX-License-Identifier: Apache-2.0
#pragma once

// M_IOCTL, M_IOCACK and M_IOCNAK: the first block holds an IoctlBlock (struct iocblk), data blocks behind it the
// argument. A module that knows the command answers with M_IOCACK or M_IOCNAK by reply(); one that does not passes it
// on; a driver that does not answers M_IOCNAK with EINVAL. The head matches answers by id.

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
};

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
