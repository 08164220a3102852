// SPDX-License-Identifier: Apache-2.0
#include "stack/provider/management.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "stack/core/ioctl.h"

namespace sluice::provider {

using namespace wire::tpi;  // the primitives and their numbers

void Management::up(Message message) {
  if (message) {
    module_.read_queue().put_next(std::move(message));
  } else {
    answer_lost();
  }
}

void Management::answer_error(Message& request, std::int32_t primitive, std::int32_t tli_error,
                              std::int32_t unix_error) {
  answer(request, ErrorAck{.error_primitive = primitive, .tli_error = tli_error, .unix_error = unix_error});
}

bool Management::is_ioctl(const Message& message, std::int32_t command) {
  return message.bytes().size() >= sizeof(IoctlBlock) && ioctl_block(message).command == command;
}

void Management::refuse_ioctl(Message message) {
  if (message.bytes().size() < sizeof(IoctlBlock)) {
    ++dropped_;
    return;
  }
  ++unsupported_;
  up(ioctl_refused(std::move(message), EINVAL));
}

void Management::tell_flush() {
  constexpr std::array both_sides{std::byte{flush_read | flush_write}};
  tell(ConstBytes(both_sides), MessageType::flush);
}

/// T_DATA_REQ: "This is indicated via a M_ERROR message type which results in the failure of all
/// operating system service routines on the stream."
void Management::tell_fatal_error(Message& request) {
  ++protocol_errors_;
  constexpr std::array both_sides{std::byte{EPROTO}, std::byte{EPROTO}};
  tell(ConstBytes(both_sides), MessageType::error, &request);
}

/// T_CAPABILITY_REQ: "It can be sent as either an M_PROTO or M_PCPROTO, and must be responded to with the same message
/// type as itself." T_CAPABILITY_ACK: "The provider must only set those bits which it supports and must leave as zero
/// any bits not supported." The text names no error for a block that is too short: OpenSS7 answers EINVAL, illumos
/// reads past its end.
void Management::answer_capability(Message& request, std::uint32_t supported, std::uint32_t acceptor_id) {
  const auto asked = CapabilityReq::decode(request.bytes());
  if (!asked) {
    return answer_error(request, T_CAPABILITY_REQ, TSYSERR, EINVAL);
  }
  const std::uint32_t told = asked->capabilities & supported;
  answer(request,
         CapabilityAck{
             .capabilities = told, .info = info(), .acceptor_id = (told & TC1_ACCEPTOR_ID) != 0 ? acceptor_id : 0},
         request.type());
}

/// T_OPTMGMT_REQ: "[TBADFLAG] The flags as specified were incorrect or invalid. [TBADOPT] The options as specified were
/// in an incorrect format, or they contained invalid information." T_OPTMGMT_ACK would have the request's flags "with
/// any additional flags"; XTI's t_optmgmt(): "The overall result of the negotiation is returned in ret->flags". OpenSS7
/// answers the result alone, and so does this.
void Management::manage_options(std::int32_t primitive, Message& request) {
  const auto asked = either<OptmgmtReq, Svr4OptmgmtReq>(request.bytes());
  if (!asked || (primitive == T_SVR4_OPTMGMT_REQ && !asked->options.empty())) {
    return answer_error(request, primitive, TBADOPT);
  }
  constexpr std::array<std::int32_t, 4> actions{T_NEGOTIATE, T_CHECK, T_DEFAULT, T_CURRENT};
  if (std::ranges::find(actions, asked->flags) == actions.end()) {
    return answer_error(request, primitive, TBADFLAG);
  }
  const auto managed = manage(asked->flags, asked->options, options());
  if (!managed) {
    return answer_error(request, primitive, managed.error());
  }
  if (!answer(request, OptmgmtAck{.options = managed->options, .flags = managed->flags})) {
    answer_error(request, primitive, TSYSERR, ENOSR);
  }
}

}  // namespace sluice::provider
