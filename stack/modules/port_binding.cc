// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/port_binding.h"

#include <cerrno>
#include <utility>

#include "base/contract.h"
#include "stack/core/primitive.h"
#include "stack/core/stream_set.h"
#include "stack/wire/dlpi.h"
#include "stack/wire/protocol.h"

namespace sluice {
namespace {

using namespace wire::tpi;

}  // namespace

PortBinding::PortBinding(Module& module, std::uint8_t protocol, Hooks hooks)
    : prng_(module.set().prng()),
      protocol_(protocol),
      hooks_(std::move(hooks)),
      requests_(module, [this](Message request) { hooks_.down(std::move(request)); }),
      timer_(module.set().scheduler(), [this] { on_silence(); }) {}

void PortBinding::open() { ask_bind(Phase::bind_any, {}); }

void PortBinding::abandon() {
  phase_ = Phase::abandoned;
  timer_.cancel();
  requests_.clear();
}

bool PortBinding::releasing() const {
  return phase_ == Phase::bind_release || phase_ == Phase::unbind_release || phase_ == Phase::undo_release;
}

/// Must come before the request: its answer may be here before put_next() returns.
void PortBinding::wait(Phase phase, Duration time_max) {
  phase_ = phase;
  timer_.arm_after(time_max);
}

void PortBinding::ask_bind(Phase phase, const wire::IpAddress& address) {
  const Encoded local(wire::NetworkAddress{address, protocol_});
  wait(phase, network_answer_time_max);
  ask(BindReq{.address = local.bytes()}, MessageType::proto);
}

void PortBinding::ask_unbind(Phase phase) {
  wait(phase, network_answer_time_max);
  ask(UnbindReq{}, MessageType::proto);
}

void PortBinding::ask_filter() {
  const wire::IpAddress& address = local_.address;
  const std::uint16_t sap = address.is_v4() ? wire::ethertype_ipv4 : wire::ethertype_ipv6;
  wire::dlpi::FilterReq filter{.sap = both_families_ ? std::uint16_t{0} : sap,
                               .local = std::nullopt,
                               .protocol = protocol_,
                               .local_port = local_.port};
  if (!address.is_unspecified()) {
    filter.local = address;
  }
  if (remote_) {
    filter.remote = remote_->address;
    filter.remote_port = remote_->port;
  }
  wait(Phase::bind_filter, filter_answer_time_max);
  ask(filter, MessageType::ctl);
}

std::uint16_t PortBinding::ephemeral_port() {
  return static_cast<std::uint16_t>(ephemeral_port_min + prng_.below(65536 - ephemeral_port_min));
}

std::optional<PortBinding::Wanted> PortBinding::wanted_by(ConstBytes address, bool v6_only) {
  if (address.empty()) {
    return Wanted{.address = {}, .both_families = true};
  }
  const auto named = wire::TransportAddress::decode(address);
  if (!named) {
    return std::nullopt;
  }
  return Wanted{.address = *named,
                .both_families = named->address.is_v6() && named->address.is_unspecified() && !v6_only};
}

void PortBinding::bind(const Wanted& wanted, bool replaces_busy) {
  any_port_ = wanted.address.port == 0 || replaces_busy;
  remote_.reset();
  Wanted local = wanted;
  local.address.port = wanted.address.port == 0 ? ephemeral_port() : wanted.address.port;
  want(local);
}

void PortBinding::bind_connection(const wire::TransportAddress& local, const wire::TransportAddress& remote) {
  any_port_ = false;
  remote_ = remote;
  want({.address = local});
}

void PortBinding::want(const Wanted& local) {
  SLUICE_REQUIRE(claim_ != Claim::wanted && phase_ != Phase::unbind_release && phase_ != Phase::abandoned);
  claim_ = Claim::wanted;
  local_ = local.address;
  both_families_ = local.both_families;
  port_attempts_ = 1;
  if (phase_ == Phase::quiet) {
    start_bind();
  }  // otherwise when ip has answered what it was asked before
}

void PortBinding::start_bind() {
  if (network_bound_) {
    ask_unbind(Phase::bind_release);
  } else {
    ask_bind(Phase::bind_network, local_.address);
  }
}

void PortBinding::unbind() {
  SLUICE_REQUIRE(phase_ == Phase::quiet && claim_ == Claim::held);
  ask_unbind(Phase::unbind_release);
}

bool PortBinding::acknowledged(const Message& answer) {
  if (phase_ == Phase::quiet || phase_ == Phase::bind_filter || phase_ == Phase::abandoned) {
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

void PortBinding::on_success(const Message& answer) {
  timer_.cancel();
  network_bound_ = !releasing();
  filtered_ = filtered_ && network_bound_;
  switch (std::exchange(phase_, Phase::quiet)) {
    case Phase::bind_any:
      return network_is_unbound();
    case Phase::bind_release:
      return ask_bind(Phase::bind_network, local_.address);
    case Phase::bind_network:
      if (const auto granted = wire::NetworkAddress::decode(BindAck::decode(answer.bytes())->address)) {
        local_.address = granted->address;
      }
      return ask_filter();
    case Phase::unbind_release:
      claim_ = Claim::none;
      hooks_.unbound();
      return rest();
    case Phase::undo_release:
      return claim_ == Claim::wanted ? start_bind() : open();
    case Phase::quiet:
    case Phase::bind_filter:
    case Phase::abandoned:
      return;
  }
}

void PortBinding::on_refusal(const ErrorAck& error) {
  timer_.cancel();
  switch (std::exchange(phase_, Phase::quiet)) {
    case Phase::bind_release:
    case Phase::bind_network:
      return bind_failed(error.tli_error, error.unix_error);
    case Phase::unbind_release:
      return hooks_.refused(error.tli_error, error.unix_error);
    default:
      return network_is_unbound();
  }
}

/// The stream is as unbound as it can be; if an address has been asked for meanwhile, it is its turn.
void PortBinding::network_is_unbound() {
  if (claim_ == Claim::wanted) {
    start_bind();
  }
}

/// No answer came in time.
void PortBinding::on_silence() {
  requests_.clear();  // nobody is to answer it any more
  if (phase_ == Phase::bind_filter) {
    return bound_with(false);
  }
  on_refusal({.error_primitive = 0, .tli_error = TSYSERR, .unix_error = ETIMEDOUT});
}

bool PortBinding::filter_answered(const Message& answer) {
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
/// [TADDRBUSY]."
void PortBinding::try_next_port() {
  if (!any_port_ || port_attempts_ == port_attempts_max) {
    phase_ = Phase::quiet;
    return bind_failed(any_port_ ? TNOADDR : TADDRBUSY, 0);
  }
  ++port_attempts_;
  local_.port = ephemeral_port();
  ask_filter();
}

void PortBinding::bound_with(bool filtered) {
  phase_ = Phase::quiet;
  claim_ = Claim::held;
  filtered_ = filtered;
  hooks_.bound();
}

void PortBinding::bind_failed(std::int32_t tli_error, std::int32_t unix_error) {
  claim_ = Claim::none;
  hooks_.refused(tli_error, unix_error);
  rest();
}

/// Binds a stream without a port to every address again, unless an address has been asked for at once.
void PortBinding::rest() {
  if (claim_ != Claim::none || phase_ != Phase::quiet) {
    return;
  }
  if (network_bound_) {
    ask_unbind(Phase::undo_release);
  } else {
    open();
  }
}

}  // namespace sluice
