// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/timod.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <expected>
#include <memory>
#include <utility>

#include "stack/core/ioctl.h"
#include "stack/core/primitive.h"
#include "stack/core/stream_set.h"
#include "stack/wire/timod.h"
#include "stack/wire/tpi.h"

namespace sluice {
namespace {

using namespace wire::tpi;
using namespace wire::timod;

/// What an ioctl asks: the primitives its argument may be (the first is made here where the ioctl carries none), how
/// they travel, and what answers them.
struct Row {
  std::int32_t command;
  std::array<std::int32_t, 2> primitives;
  MessageType type;
  std::int32_t acknowledgement;
  bool carries_primitive = true;
};

constexpr auto rows = std::to_array<Row>({
    {TI_GETINFO, {T_INFO_REQ, T_INFO_REQ}, MessageType::pcproto, T_INFO_ACK},
    {TI_OPTMGMT, {T_OPTMGMT_REQ, T_SVR4_OPTMGMT_REQ}, MessageType::proto, T_OPTMGMT_ACK},
    {TI_BIND, {T_BIND_REQ, O_T_BIND_REQ}, MessageType::proto, T_BIND_ACK},
    {TI_UNBIND, {T_UNBIND_REQ, T_UNBIND_REQ}, MessageType::proto, T_OK_ACK},
    {TI_CAPABILITY, {T_CAPABILITY_REQ, T_CAPABILITY_REQ}, MessageType::pcproto, T_CAPABILITY_ACK},
    {TI_GETADDRS, {T_ADDR_REQ, T_ADDR_REQ}, MessageType::pcproto, T_ADDR_ACK},
    {TI_GETMYNAME, {T_ADDR_REQ, T_ADDR_REQ}, MessageType::pcproto, T_ADDR_ACK, false},
    {TI_SYNC, {T_INFO_REQ, T_INFO_REQ}, MessageType::pcproto, T_INFO_ACK, false},
});

const Row* row_of(std::int32_t command) {
  const auto* row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.command == command; });
  return row == rows.end() ? nullptr : row;
}

/// The request that `argument` holds, as a message of one block; or EINVAL when it is not one of the row's.
std::expected<Message, std::int32_t> primitive_in(Message argument, const Row& row) {
  if (!argument) {
    return std::unexpected(EINVAL);
  }
  if (!argument.pull_up(argument.size())) {
    return std::unexpected(ENOSR);
  }
  const auto primitive = primitive_of(argument.bytes());
  if (!primitive || std::ranges::find(row.primitives, *primitive) == row.primitives.end()) {
    return std::unexpected(EINVAL);
  }
  argument.first().type = row.type;
  return argument;
}

/// What an ioctl asks of the provider, or the errno that refuses it. streamio(7), I_STR: "ENOSR Unable to allocate
/// buffers for the ioctl message due to insufficient STREAMS memory resources."
std::expected<Message, std::int32_t> request_of(BufferPool& pool, const Row& row, Message argument) {
  if (row.carries_primitive) {
    return primitive_in(std::move(argument), row);
  }
  Message made = row.primitives[0] == T_ADDR_REQ ? primitive_message(pool, AddrReq{}, row.type)
                                                 : primitive_message(pool, InfoReq{}, row.type);
  if (!made) {
    return std::unexpected(ENOSR);
  }
  return made;
}

std::int32_t return_value_of(const ErrorAck& error) {
  return error.tli_error == TSYSERR ? TSYSERR | ((error.unix_error & 0xff) << 8) : error.tli_error & 0xff;
}

/// Leaves of a T_ADDR_ACK the bytes of the local address.
void keep_local_address(Message& answer) {
  const auto addresses = AddrAck::decode(answer.bytes());
  Block& block = answer.first();
  if (!addresses || addresses->local.empty()) {
    block.wptr = block.rptr;
    return;
  }
  block.rptr += addresses->local.data() - block.rptr;
  block.wptr = block.rptr + addresses->local.size();
}

}  // namespace

void Timod::wput(Batch&& batch) {
  if (!batch.has(MessageType::ioctl)) [[likely]] {
    return write_queue().put_next(std::move(batch));
  }
  const auto step = [](const Message& message) {
    return message.type() == MessageType::ioctl ? Batch::Step::stop : Batch::Step::keep;
  };
  write_queue().pass_on(std::move(batch), step, [this](Message& request) {
    request = from_user(std::move(request));
    return static_cast<bool>(request);
  });
}

/// The ioctl itself when it is none of ours, or the request it makes of the provider; empty when it has been refused. A
/// stream has one ioctl in flight: where another waits here, the head gave it up, and nobody else will ever end it.
Message Timod::from_user(Message message) {
  if (row_of(ioctl_block(message).command) == nullptr) {
    return message;
  }
  if (waiting_) {
    abort(ETIME);
  }
  return begin(std::move(message));
}

Message Timod::begin(Message request) {
  const Row& row = *row_of(ioctl_block(request).command);
  auto asked = request_of(set().pool(), row, request.unlink());
  if (!asked) {
    return refuse(std::move(request), asked.error());
  }
  primitive_ = *primitive_of(asked->bytes());
  acknowledgement_ = row.acknowledgement;
  waiting_ = std::move(request);
  return std::move(*asked);
}

Message Timod::refuse(Message request, std::int32_t error) {
  ++refused_;
  read_queue().put_next(ioctl_refused(std::move(request), error));
  return {};
}

void Timod::rput(Batch&& batch) {
  if (!waiting_) {
    return read_queue().put_next(std::move(batch));
  }
  Batch out;
  while (Message message = batch.pop()) {
    out.push(from_provider(std::move(message)));
  }
  read_queue().put_next(std::move(out));
}

Message Timod::from_provider(Message message) {
  if (!waiting_) {
    return message;
  }
  if (message.type() == MessageType::hangup) {
    abort(ENXIO);
  } else if (message.type() == MessageType::error) {
    const ConstBytes bytes = message.bytes();
    const auto error = bytes.empty() ? 0 : std::to_integer<std::int32_t>(bytes.back());
    constexpr std::int32_t no_error = 0xff;
    abort(error == 0 || error == no_error ? EIO : error);
  } else if (ends_request(message)) {
    return acknowledge(std::move(message));
  }
  return message;
}

/// The request that waits will never be answered.
void Timod::abort(std::int32_t error) { static_cast<void>(refuse(std::move(waiting_), error)); }

bool Timod::ends_request(const Message& message) const {
  if (!is_protocol(message.type())) {
    return false;
  }
  if (const auto error = ErrorAck::decode(message.bytes())) {
    return error->error_primitive == primitive_;
  }
  if (const auto ok = OkAck::decode(message.bytes())) {
    return acknowledgement_ == T_OK_ACK && ok->correct_primitive == primitive_;
  }
  return primitive_of(message.bytes()) == acknowledgement_;
}

/// "The message returned by the successful completion of the ioctl is equivalent to the TI message type T_BIND_ACK."
Message Timod::acknowledge(Message answer) {
  ++acknowledged_;
  const std::int32_t command = ioctl_block(waiting_).command;
  if (const auto error = ErrorAck::decode(answer.bytes())) {
    return ioctl_acknowledged(std::move(waiting_), return_value_of(*error));
  }
  if (command == TI_GETMYNAME) {
    keep_local_address(answer);
  }
  answer.first().type = MessageType::data;
  Message acknowledgement = ioctl_acknowledged(std::move(waiting_));
  acknowledgement.link(std::move(answer));
  return acknowledgement;
}

Entry timod_entry() {
  return {
      .name = "timod",
      .summary = "makes the requests of the transport library atomic",
      .lower = accepts(Service::transport),
      .upper = Service::user,
      .make = [](StreamSet&, const Parameters&) -> Result<std::unique_ptr<Module>> {
        return std::make_unique<Timod>();
      },
  };
}

}  // namespace sluice
