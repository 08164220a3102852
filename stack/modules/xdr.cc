// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/xdr.h"

#include <array>
#include <bit>
#include <cerrno>
#include <memory>
#include <utility>

#include "base/contract.h"
#include "stack/core/primitive.h"
#include "stack/core/stream_set.h"
#include "stack/wire/tpi.h"

namespace sluice {
namespace {

using wire::tpi::UderrorInd;
using wire::tpi::UnitdataReq;

constexpr bool swaps = std::endian::native == std::endian::little;

/// M_ERROR of two bytes: the read side stays as it is (NOERROR), writes fail.
Message write_error(BufferPool& pool, int error) {
  constexpr std::byte no_error{0xff};
  return Message::copy_of(pool, std::array{no_error, static_cast<std::byte>(error)}, 0, MessageType::error);
}

}  // namespace

Xdr::Xdr(std::size_t unit_bytes) : Module("xdr"), unit_bytes_(unit_bytes) {
  SLUICE_REQUIRE(unit_bytes == 2 || unit_bytes == 4 || unit_bytes == 8);
}

PayloadWork Xdr::payload_work(Side) const {
  PayloadWork work;
  if (swaps) {
    work.items = {{.kind = PayloadWork::Kind::swap, .unit = unit_bytes_}};
  }
  return work;
}

inline Xdr::Outcome Xdr::convert(Message& message, Side side) {
  if (!message.carries_data()) {
    return Outcome::converted;
  }
  if (swaps && message.transform(Swap{unit_bytes_}) != TransformResult::failed) [[likely]] {
    return Outcome::converted;
  }
  if (message.data_size() % unit_bytes_ != 0) {
    // What is dropped is counted, and only what has been verified may be.
    return materialize(message, side) == TransformResult::done ? Outcome::not_whole_units : lost(message);
  }
  return swaps ? lost(message) : Outcome::converted;
}

Xdr::Outcome Xdr::lost(const Message& message) { return message.failed() ? Outcome::refuted : Outcome::no_memory; }

void Xdr::drop(Outcome why) {
  if (why != Outcome::refuted) {  // the module whose check it was has counted it
    ++(why == Outcome::not_whole_units ? not_whole_units_ : no_memory_);
  }
}

void Xdr::refuse(Message message, Outcome why) {
  drop(why);
  message.encode();
  const int error = why == Outcome::not_whole_units ? EINVAL : ENOMEM;
  Message answer;
  if (const auto request = UnitdataReq::decode(message.bytes()); is_protocol(message.type()) && request) {
    // TPI 2.0.0, T_UDERROR_IND: "This primitive indicates to the transport user that a datagram with the specified
    // destination address and options produced an error."
    const UderrorInd indication{.destination = request->address, .options = request->options, .error_type = error};
    answer = primitive_message(set().pool(), indication, MessageType::proto);
  } else if (message.type() == MessageType::data) {
    answer = write_error(set().pool(), error);
  }
  if (answer) {
    read_queue().put_next(std::move(answer));
  }
}

void Xdr::wput(Batch&& batch) {
  write_queue().pass_on(std::move(batch), [this](Message& message) {
    const Outcome outcome = convert(message, Side::write);
    if (outcome != Outcome::converted) [[unlikely]] {
      refuse(std::move(message), outcome);
    }
    return outcome == Outcome::converted;
  });
}

void Xdr::rput(Batch&& batch) {
  read_queue().pass_on(std::move(batch), [this](Message& message) {
    const Outcome outcome = convert(message, Side::read);
    if (outcome != Outcome::converted) [[unlikely]] {
      drop(outcome);
    }
    return outcome == Outcome::converted;
  });
}

Entry xdr_entry() {
  return {
      .name = "xdr",
      .summary = "converts the numbers in the data between the host's byte order and big-endian",
      .effect = "reverses the bytes of each unit, in one pass",
      .lower = static_cast<ServiceSet>(accepts(Service::transport) | accepts(Service::user)),
      .transparent = true,
      .parameters = {{.name = "unit",
                      .type = ParameterSpec::Type::integer,
                      .meaning = "Bytes in a number: 2, 4 or 8; 4 if absent.",
                      .minimum = 2,
                      .maximum = 8}},
      .make = [](StreamSet&, const Parameters& parameters) -> Result<std::unique_ptr<Module>> {
        const std::int64_t unit = parameters.integer("unit", 4);
        if (unit != 2 && unit != 4 && unit != 8) {
          return fail(EINVAL, "xdr: unit is " + std::to_string(unit) + ", but must be 2, 4 or 8 bytes");
        }
        return std::make_unique<Xdr>(static_cast<std::size_t>(unit));
      },
  };
}

}  // namespace sluice
