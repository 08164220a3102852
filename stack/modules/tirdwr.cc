// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/tirdwr.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <utility>

#include "base/contract.h"
#include "stack/core/primitive.h"
#include "stack/core/stream_set.h"
#include "stack/wire/tpi_connection.h"

namespace sluice {
namespace {

using namespace wire::tpi;

constexpr std::size_t reserve_bytes = std::max(OrdrelReq::fixed_size, std::size_t{1});

/// Makes of a message with one block of no interest any more one without bytes. The block may be shared: its type and
/// its ends are this message's own.
void become_empty(Message& message, MessageType type) {
  message.unlink().reset();
  Block& block = message.first();
  block.type = type;
  block.wptr = block.rptr;
}

/// Whether a primitive that waits at the stream head is data, which may be read without its control part.
bool is_waiting_data(const Block& message) {
  return message.type == MessageType::proto && message.codec == nullptr && DataInd::decode(message.bytes()).has_value();
}

}  // namespace

/// "When the module is pushed onto a stream, it checks any existing data destined for the user to ensure that only
/// regular data messages are present. [...] If any other messages are present, the I_PUSH will return an error with
/// errno set to EPROTO." (tirdwr(7M))
Status Tirdwr::open() {
  reserve_ = Message::allocate(set().pool(), reserve_bytes);
  if (!reserve_) {
    return fail(ENOSR, "tirdwr: no memory");
  }
  return take_over_waiting_data();
}

Status Tirdwr::take_over_waiting_data() {
  Queue& head = *read_queue().next();
  for (const Block* waiting = head.peek(); waiting != nullptr; waiting = head.next_after(*waiting)) {
    if (waiting->type != MessageType::data && !is_waiting_data(*waiting)) {
      return fail(EPROTO, "tirdwr: a message that is not data waits to be read");
    }
  }
  for (const Block* waiting = head.peek(); waiting != nullptr;) {
    const Block* const next = head.next_after(*waiting);
    if (waiting->type == MessageType::proto) {
      Message data = head.remove(*waiting);
      const std::uint8_t band = data.band();
      data.pop_block();
      if (data && data.data_size() > 0) {
        data.set_band(band);
        SLUICE_REQUIRE(head.insert(next, std::move(data)));  // of the class, and in the place, that it had
      }
    }
    waiting = next;
  }
  return {};
}

/// "When the module is popped off the stream or the stream is closed, [...] If an orderly release indication has been
/// previously received, then an orderly release request will be sent to the remote side of the transport connection."
void Tirdwr::close() {
  if (phase_ == Phase::released) {
    Block& block = reserve_.first();
    block.wptr = block.rptr + OrdrelReq{}.encode({block.rptr, OrdrelReq::fixed_size});
    block.type = MessageType::proto;
    write_queue().put_next(std::move(reserve_));
  }
  reserve_.reset();
}

void Tirdwr::wput(Batch&& batch) {
  write_queue().pass_on(std::move(batch), [this](Message& message) { return passes_down(message); });
}

void Tirdwr::rput(Batch&& batch) {
  read_queue().pass_on(std::move(batch), [this](Message& message) { return passes_up(message); });
}

/// "Any zero length data messages are freed by the module [...] Any messages with control portions generate an error"
bool Tirdwr::passes_down(Message& message) {
  const bool primitive = is_protocol(message.type());
  if (!primitive && message.type() != MessageType::data) {
    return true;
  }
  if (phase_ == Phase::failed) {
    discard(std::move(message), Side::write);
    return false;
  }
  if (primitive) {
    fail_stream(std::move(message));
    return false;
  }
  return message.data_size() > 0;
}

bool Tirdwr::passes_up(Message& message) {
  const bool primitive = is_protocol(message.type());
  if (!primitive && message.type() != MessageType::data) {
    return true;
  }
  if (phase_ == Phase::failed) {
    discard(std::move(message), Side::read);
    return false;
  }
  return primitive ? indication_passes_up(message) : message.data_size() > 0;
}

/// What is left of a primitive, in `message`.
bool Tirdwr::indication_passes_up(Message& message) {
  message.encode();
  if (DataInd::decode(message.bytes())) {
    // "Any data messages with control portions have the control portions removed from the message".
    const std::uint8_t band = message.band();
    message.pop_block();
    if (message) {
      message.set_band(band);
    }
    return message && message.data_size() > 0;
  }
  if (OrdrelInd::decode(message.bytes())) {
    // "Messages that represent an orderly release indication from the transport provider generate a zero length data
    // message, indicating the end of file".
    ++released_;
    phase_ = phase_ == Phase::connected ? Phase::released : phase_;
    become_empty(message, MessageType::data);
    return true;
  }
  if (DisconInd::decode(message.bytes())) {
    // "Messages that represent an abortive disconnect indication from the transport provider cause all further write
    // and putmsg system calls to fail with errno set to ENXIO. All further read and getmsg system calls return zero
    // length data (indicating end of file) once all previous data has been read."
    ++disconnected_;
    phase_ = Phase::disconnected;
    become_empty(message, MessageType::hangup);
    return true;
  }
  fail_stream(std::move(message));
  return false;
}

/// A message on its way up that is damaged counts where its check is owed, and not here.
void Tirdwr::discard(Message message, Side side) {
  discarded_ += materialize(message, side) == TransformResult::done ? 1U : 0U;
}

/// "With the exception of the above rules, all other messages with control portions generate an error and all further
/// system calls associated with the stream will fail with errno set to EPROTO."
void Tirdwr::fail_stream(Message cause) {
  cause.reset();
  ++refused_;
  phase_ = Phase::failed;
  Block& block = reserve_.first();
  *block.rptr = std::byte{EPROTO};
  block.wptr = block.rptr + 1;
  block.type = MessageType::error;
  read_queue().put_next(std::move(reserve_));
}

Entry tirdwr_entry() {
  return {
      .name = "tirdwr",
      .summary = "read() and write() on a transport connection",
      .effect = "takes the control part off data on the way up",
      .lower = static_cast<ServiceSet>(accepts(Service::transport) | accepts(Service::user)),
      .upper = Service::user,
      .make = [](StreamSet&, const Parameters&) -> Result<std::unique_ptr<Module>> {
        return std::make_unique<Tirdwr>();
      },
  };
}

}  // namespace sluice
