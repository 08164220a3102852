// SPDX-License-Identifier: Apache-2.0
#include "apps/sluice/netcat.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <vector>

#include "apps/common/addresses.h"
#include "apps/sluice/exit_code.h"
#include "apps/sluice/netcat_connection.h"
#include "apps/sluice/netcat_user.h"
#include "apps/sluice/program.h"
#include "edge/host_stream.h"
#include "stack/wire/address.h"
#include "tli/endpoint.h"
#include "tli/options.h"

namespace sluice {
namespace {

using tli::Endpoint;
using wire::TransportAddress;

class Netcat : NetcatUser {
 public:
  Netcat(Program& program, Endpoint& endpoint, const NetcatOptions& options)
      : NetcatUser(program, endpoint, options), addresses_(endpoint.stream(), "sluice: nc") {}

  void set_peer(const TransportAddress& peer) {
    peer_.resize(peer.encoded_size());
    peer.encode(peer_);
  }

  int run() {
    if (!addresses_.settle(program_.loop(), [this] { return program_.stopped(); })) {
      return exit_open;
    }
    input_.begin();
    program_.loop().attend(endpoint_.stream(), [this] { return turn(); });
    while (!program_.stopped() && exit_code_ == exit_ok && !input_.failed() && !input_.expired()) {
      // A peer may have come and the datagram may have left.
      input_.update(!peer_.empty());
      [[maybe_unused]] const bool happened = program_.loop().wait(input_.deadline());
      addresses_.tell();
    }
    program_.loop().unattend(endpoint_.stream());
    input_.update(false);
    endpoint_.stream().set_nonblocking(false);
    [[maybe_unused]] const Status drained = endpoint_.stream().drain(std::chrono::seconds(1));
    return input_.failed() ? int{exit_failed} : exit_code_;
  }

 private:
  /// Receives some, and sends what waits to be sent; whether it did either.
  bool turn() {
    const bool received = drain_endpoint();
    return (!input_.chunk().empty() && exit_code_ == exit_ok && send_pending()) || received;
  }

  /// False where there is no room now.
  bool send_pending() {
    tli::t_unitdata unit;
    unit.addr = {.maxlen = peer_.size(), .len = peer_.size(), .buf = peer_.data()};
    const ConstBytes chunk = input_.chunk();
    unit.udata = {.maxlen = chunk.size(), .len = chunk.size(), .buf = const_cast<std::byte*>(chunk.data())};
    const auto sent = endpoint_.t_sndudata(unit);
    if (!sent && sent.error().t_errno == wire::tpi::TLOOK) {
      report_error();
      return true;
    }
    if (!sent && sent.error().t_errno == wire::tpi::TFLOW) {
      return false;
    }
    if (!sent) {
      fail("send", sent.error());
    }
    input_.sent(chunk.size());
    return true;
  }

  /// Takes a turn's worth of datagrams and errors; whether there were any.
  bool drain_endpoint() {
    constexpr int turn_units_max = 64;
    for (int taken = 0; taken < turn_units_max; ++taken) {
      std::array<std::byte, TransportAddress::encoded_size_max> address{};
      tli::t_unitdata unit;
      unit.addr = {.maxlen = address.size(), .len = 0, .buf = address.data()};
      unit.udata = {.maxlen = received_.size(), .len = 0, .buf = received_.data()};
      int flags = 0;
      const auto got = endpoint_.t_rcvudata(unit, flags);
      if (got) {
        receive(unit);
      } else if (got.error().t_errno == wire::tpi::TLOOK) {
        report_error();
      } else if (got.error().t_errno == wire::tpi::TNODATA) {
        return taken > 0;
      } else {
        fail("receive", got.error());
        return false;
      }
    }
    return true;
  }

  void receive(const tli::t_unitdata& unit) {
    if (options_.listen && peer_.empty()) {
      peer_.assign(unit.addr.buf, unit.addr.buf + unit.addr.len);
    }
    input_.write({unit.udata.buf, unit.udata.len});
  }

  /// The peer's host said that nobody listens there.
  void report_error() {
    tli::t_uderr error;
    if (endpoint_.t_rcvuderr(&error)) {
      fmt::print(stderr, "sluice: nc: {}\n", std::generic_category().message(error.error));
      exit_code_ = options_.listen ? exit_ok : exit_failed;
    }
  }

  AddressWatch addresses_;
  std::vector<std::byte> peer_;
};

/// Binds the endpoint: to the given port on every address of the stack, or where the provider likes. Answers where.
tli::Outcome<TransportAddress> bind_port(Endpoint& endpoint, std::uint16_t port, bool v6, std::uint32_t qlen) {
  const TransportAddress any{v6 ? wire::IpAddress(wire::Ipv6Address{}) : wire::IpAddress(wire::Ipv4Address{}), port};
  std::array<std::byte, TransportAddress::encoded_size_max> bytes{};
  tli::t_bind request;
  request.addr = {.maxlen = bytes.size(), .len = any.encode(bytes), .buf = bytes.data()};
  request.qlen = qlen;
  std::array<std::byte, TransportAddress::encoded_size_max> answer{};
  tli::t_bind bound;
  bound.addr = {.maxlen = answer.size(), .len = 0, .buf = answer.data()};
  if (const auto done = endpoint.t_bind(&request, &bound); !done) {
    return std::unexpected(done.error());
  }
  return TransportAddress::decode(ConstBytes(answer).first(bound.addr.len)).value_or(any);
}

/// What was asked for of groups and broadcasts, in one request. Empty, or what is wrong.
std::string set_options(Endpoint& endpoint, const NetcatOptions& options) {
  std::vector<std::byte> wanted;
  for (const std::string& text : options.join) {
    const auto group = wire::IpAddress::from_text(text);
    if (!group || !group->is_multicast()) {
      return fmt::format("--join {}: no multicast group", text);
    }
    tli::put_membership(wanted, *group);
  }
  if (options.broadcast) {
    tli::put_option(wanted, wire::xti::T_INET_IP, wire::xti::T_IP_BROADCAST, wire::xti::T_YES);
  }
  if (wanted.empty()) {
    return {};
  }
  std::vector<std::byte> outcome(wanted.size());
  tli::t_optmgmt answer{.opt = tli::buffer_of(outcome)};
  if (const auto set = endpoint.t_optmgmt({.opt = tli::buffer_of(wanted), .flags = wire::tpi::T_NEGOTIATE}, answer);
      !set) {
    return Endpoint::t_error("options", set.error());
  }
  std::size_t at = 0;
  for (auto results = tli::options_of(answer.opt); const auto result = results.next(); ++at) {
    if (result->status != wire::tpi::T_SUCCESS) {
      return at < options.join.size() ? fmt::format("cannot join {}", options.join[at])
                                      : std::string("broadcasts are not supported");
    }
  }
  return {};
}

}  // namespace

int run_netcat(const StackDeclaration& stack, const NetcatOptions& options) {
  std::optional<TransportAddress> peer;
  if (!options.listen) {
    auto parsed = TransportAddress::from_text(options.peer);
    if (!parsed) {
      fmt::print(stderr, "sluice: nc: {}\n", parsed.error().text);
      return exit_usage;
    }
    peer = *parsed;
  }
  const std::unique_ptr<Program> program = Program::start();
  std::unique_ptr<Stream> stream = program == nullptr ? nullptr : program->open(stack);
  if (stream == nullptr) {
    return exit_open;
  }
  const auto host = HostStream::open(program->set(), program->loop(), stack);
  if (!host) {
    fmt::print(stderr, "sluice: {}\n", host.error().text);
    return exit_open;
  }
  auto endpoint = Endpoint::t_open(std::move(stream), nullptr);
  const bool connections = endpoint && (*endpoint)->info().servtype == wire::tpi::T_COTS_ORD;
  if (connections && (!options.join.empty() || options.broadcast)) {
    fmt::print(stderr, "sluice: nc: --join and --broadcast are for datagrams; stack '{}' makes connections\n",
               stack.name);
    return exit_usage;
  }
  const std::uint32_t qlen = connections && options.listen ? 1 : 0;
  // An unspecified IPv6 address takes IPv4, too, wherever the provider can.
  tli::Outcome<TransportAddress> bound =
      endpoint ? bind_port(**endpoint, options.local_port, !peer || peer->address.is_v6(), qlen)
               : std::unexpected(endpoint.error());
  if (!bound && endpoint && !peer && bound.error().t_errno == wire::tpi::TBADADDR) {
    bound = bind_port(**endpoint, options.local_port, false, qlen);
  }
  if (!bound) {
    fmt::print(stderr, "sluice: nc: {}\n", Endpoint::t_error("stack '" + stack.name + "'", bound.error()));
    return exit_open;
  }
  if (const std::string problem = set_options(**endpoint, options); !problem.empty()) {
    fmt::print(stderr, "sluice: nc: {}\n", problem);
    return exit_open;
  }
  if (options.verbose) {
    fmt::print(stderr, "sluice: nc: {} {}\n", options.listen ? "listening on" : "sending from", bound->to_text());
  }
  (*endpoint)->stream().set_nonblocking(true);
  if (connections) {
    return run_netcat_connection(*program, **endpoint, options, peer);
  }
  Netcat netcat(*program, **endpoint, options);
  if (peer) {
    netcat.set_peer(*peer);
  }
  return netcat.run();
}

}  // namespace sluice
