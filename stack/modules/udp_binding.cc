// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/udp_binding.h"

#include <cerrno>
#include <utility>

#include "stack/core/primitive.h"
#include "stack/core/stream_set.h"
#include "stack/wire/protocol.h"

namespace sluice::udp {
namespace {

using namespace wire::tpi;

}  // namespace

Binding::Binding(Module& module, Hooks hooks)
    : Connectionless(module),
      prng_(module.set().prng()),
      hooks_(std::move(hooks)),
      requests_(module, [this](Message request) { hooks_.down(std::move(request)); }),
      timer_(module.set().scheduler(), [this] { on_silence(); }) {}

void Binding::open() { ask_bind(Phase::bind_any, {}); }

void Binding::release() {
  hooks_.unbinding();
  phase_ = Phase::quiet;
  timer_.cancel();
  requests_.clear();
}

bool Binding::releasing() const {
  return phase_ == Phase::bind_release || phase_ == Phase::unbind_release || phase_ == Phase::undo_release;
}

/// Must come before the request: its answer may be here before put_next() returns.
void Binding::wait(Phase phase, Duration time_max) {
  phase_ = phase;
  timer_.arm_after(time_max);
}

void Binding::ask_bind(Phase phase, const wire::IpAddress& address) {
  const Encoded local(wire::NetworkAddress{address, wire::protocol_udp});
  wait(phase, network_answer_time_max);
  ask(BindReq{.address = local.bytes()}, MessageType::proto);
}

void Binding::ask_unbind(Phase phase) {
  wait(phase, network_answer_time_max);
  ask(UnbindReq{}, MessageType::proto);
}

void Binding::ask_filter() {
  const wire::IpAddress& address = local_.address;
  wire::dlpi::FilterReq filter{.sap = address.is_v4() ? wire::ethertype_ipv4 : wire::ethertype_ipv6,
                               .local = std::nullopt,
                               .protocol = wire::protocol_udp,
                               .local_port = local_.port};
  if (!address.is_unspecified()) {
    filter.local = address;
  }
  wait(Phase::bind_filter, filter_answer_time_max);
  ask(filter, MessageType::ctl);
}

std::uint16_t Binding::ephemeral_port() {
  return static_cast<std::uint16_t>(ephemeral_port_min + prng_.below(65536 - ephemeral_port_min));
}

/// "If the ADDR_length field in the T_BIND_REQ primitive is 0, then the transport provider is to assign a transport
/// protocol address to the user." (T_BIND_ACK) An address with port 0 leaves the choice of the port to us.
void Binding::bind(ConstBytes address) {
  const auto wanted = address.empty() ? wire::TransportAddress{} : wire::TransportAddress::decode(address);
  if (!wanted) {
    return refused(TBADADDR);
  }
  local_ = *wanted;
  any_port_ = local_.port == 0;
  port_attempts_ = 1;
  local_.port = any_port_ ? ephemeral_port() : local_.port;
  if (phase_ == Phase::quiet) {
    start_bind();
  }  // otherwise when ip has answered what it was asked before
}

void Binding::start_bind() {
  if (network_bound_) {
    ask_unbind(Phase::bind_release);
  } else {
    ask_bind(Phase::bind_network, local_.address);
  }
}

void Binding::unbind() {
  hooks_.unbinding();
  ask_unbind(Phase::unbind_release);
}

bool Binding::acknowledged(const Message& answer) {
  if (phase_ == Phase::quiet || phase_ == Phase::bind_filter) {
    return false;
  }
  const bool binds = phase_ == Phase::bind_any || phase_ == Phase::bind_network;
  if (const auto error = ErrorAck::decode(answer.bytes())) {
    const bool ours = error->error_primitive == (binds ? T_BIND_REQ : T_UNBIND_REQ);
    if (ours) {
      on_refusal(*error);
    }
    return ours;
  }
  const bool expected = binds ? BindAck::decode(answer.bytes()).has_value() : OkAck::decode(answer.bytes()).has_value();
  if (expected) {
    on_success(answer);
  }
  return expected;
}

void Binding::on_success(const Message& answer) {
  timer_.cancel();
  switch (std::exchange(phase_, Phase::quiet)) {
    case Phase::bind_any:
      network_bound_ = true;
      return network_is_unbound();
    case Phase::bind_release:
      network_bound_ = false;
      return ask_bind(Phase::bind_network, local_.address);
    case Phase::bind_network:
      network_bound_ = true;
      if (const auto granted = wire::NetworkAddress::decode(BindAck::decode(answer.bytes())->address)) {
        local_.address = granted->address;
      }
      return ask_filter();
    case Phase::unbind_release:
      network_bound_ = filtered_ = false;
      unbound();
      return rest();
    case Phase::undo_release:
      network_bound_ = false;
      return state() == State::binding ? start_bind() : open();
    case Phase::quiet:
    case Phase::bind_filter:
      return;
  }
}

void Binding::on_refusal(const ErrorAck& error) {
  timer_.cancel();
  switch (std::exchange(phase_, Phase::quiet)) {
    case Phase::bind_release:
    case Phase::bind_network:
      return bind_failed(error.tli_error, error.unix_error);
    case Phase::unbind_release:
      return refused(error.tli_error, error.unix_error);
    default:
      return network_is_unbound();
  }
}

/// The stream is as unbound as it can be; if its user has asked for an address meanwhile, it is his turn.
void Binding::network_is_unbound() {
  if (state() == State::binding) {
    start_bind();
  }
}

/// No answer came in time.
void Binding::on_silence() {
  requests_.clear();  // nobody is to answer it any more
  if (phase_ == Phase::bind_filter) {
    return bound_with(false);
  }
  on_refusal({.error_primitive = 0, .tli_error = TSYSERR, .unix_error = ETIMEDOUT});
}

bool Binding::filter_answered(const Message& answer) {
  using namespace wire::dlpi;
  const auto refused = wire::dlpi::ErrorAck::decode(answer.bytes());
  const auto accepted = wire::dlpi::OkAck::decode(answer.bytes());
  const bool ours =
      (refused && refused->error_primitive == DL_FILTER_REQ) || (accepted && accepted->value == DL_FILTER_REQ);
  if (ours && phase_ == Phase::bind_filter) {
    timer_.cancel();
    if (refused && refused->error == DL_BOUND) {
      try_next_port();
    } else {
      bound_with(accepted.has_value());
    }
  }
  return ours;
}

/// T_BIND_ACK, of T_BIND_REQ: "If the transport provider cannot bind the specified address the provider will return
/// [TADDRBUSY]." O_T_BIND_REQ keeps what TLI did before XTI: a busy address is replaced by a free one.
void Binding::try_next_port() {
  if ((!any_port_ && !replaces_busy()) || port_attempts_ == port_attempts_max) {
    phase_ = Phase::quiet;
    return bind_failed(any_port_ ? TNOADDR : TADDRBUSY, 0);
  }
  any_port_ = true;
  ++port_attempts_;
  local_.port = ephemeral_port();
  ask_filter();
}

void Binding::bound_with(bool filtered) {
  phase_ = Phase::quiet;
  filtered_ = filtered;
  bound(Encoded(local_).bytes());
}

void Binding::bind_failed(std::int32_t tli_error, std::int32_t unix_error) {
  refused(tli_error, unix_error);
  rest();
}

/// Binds an unbound stream to every address again, unless its user has asked for one at once.
void Binding::rest() {
  if (state() != State::unbound || phase_ != Phase::quiet) {
    return;
  }
  if (network_bound_) {
    ask_unbind(Phase::undo_release);
  } else {
    open();
  }
}

}  // namespace sluice::udp
