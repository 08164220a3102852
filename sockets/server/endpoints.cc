// SPDX-License-Identifier: Apache-2.0
#include "sockets/server/endpoints.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "stack/head/signal_events.h"
#include "stack/wire/words.h"
#include "tli/options.h"
#include "tpi/socket_address.h"

namespace sluice::sockets {

std::optional<wire::TransportAddress> transport_address_of(const Address& address, int family) {
  tpi::SocketAddress kernel;
  const std::size_t wanted = family == AF_INET6 ? sizeof kernel.v6 : sizeof kernel.v4;
  if (address.size < wanted || address.size > sizeof address.bytes) {
    return std::nullopt;
  }
  std::memcpy(&kernel.v6, address.bytes, wanted);
  kernel.size = static_cast<socklen_t>(wanted);
  if (kernel.generic.sa_family != family) {
    return std::nullopt;
  }
  return tpi::transport_address(kernel);
}

Address address_of(const wire::TransportAddress& address, int family) {
  const tpi::SocketAddress kernel = tpi::socket_address_of(address, family == AF_INET6);
  Address answer;
  answer.size = kernel.size;
  std::memcpy(answer.bytes, &kernel.v6, kernel.size);
  return answer;
}

wire::TransportAddress any_address(bool v6) {
  return {v6 ? wire::IpAddress(wire::Ipv6Address{}) : wire::IpAddress(wire::Ipv4Address{}), 0};
}

int errno_of(const tli::Failure& failure) {
  using enum wire::tpi::TliError;
  switch (failure.t_errno) {
    case TSYSERR:
      return failure.system_errno == 0 ? EIO : failure.system_errno;
    case TADDRBUSY:
      return EADDRINUSE;
    case TNOADDR:
    case TBADADDR:
      return EADDRNOTAVAIL;
    case TACCES:
      return EACCES;
    case TFLOW:
    case TNODATA:
      return EAGAIN;
    case TNOTSUPPORT:
      return EOPNOTSUPP;
    case TBADDATA:
      return EMSGSIZE;
    case TOUTSTATE:
      return EINVAL;
    default:
      return EPROTO;
  }
}

std::expected<wire::TransportAddress, int> bind_endpoint(tli::Endpoint& endpoint, const wire::TransportAddress& address,
                                                         std::uint32_t qlen) {
  using wire::TransportAddress;
  std::array<std::byte, TransportAddress::encoded_size_max> wanted{};
  std::array<std::byte, TransportAddress::encoded_size_max> answer{};
  tli::t_bind request;
  request.addr = {.maxlen = wanted.size(), .len = address.encode(wanted), .buf = wanted.data()};
  request.qlen = qlen;
  tli::t_bind bound;
  bound.addr = {.maxlen = answer.size(), .len = 0, .buf = answer.data()};
  if (const auto done = endpoint.t_bind(&request, &bound); !done) {
    return std::unexpected(errno_of(done.error()));
  }
  return TransportAddress::decode(ConstBytes(answer).first(bound.addr.len)).value_or(address);
}

namespace {

/// Asks for, or about, both buffers; what the provider has then.
Buffers negotiate_buffers(tli::Endpoint& endpoint, std::int32_t flags, const std::optional<Buffers>& wanted) {
  using namespace wire::xti;
  Buffers told;
  for (const auto& [name, place] : {std::pair{XTI_RCVBUF, &Buffers::receive}, {XTI_SNDBUF, &Buffers::send}}) {
    std::vector<std::byte> asked;
    if (wanted) {
      tli::put_option(asked, XTI_GENERIC, name, static_cast<std::uint32_t>((*wanted).*place));
    } else {
      tli::put_option(asked, XTI_GENERIC, name);
    }
    std::vector<std::byte> room(Option::header_size + wire::word_size);
    tli::t_optmgmt answer{.opt = tli::buffer_of(room)};
    if (!endpoint.t_optmgmt({.opt = tli::buffer_of(asked), .flags = flags}, answer)) {
      continue;
    }
    const auto option = tli::options_of(answer.opt).next();
    told.*place = option && option->value.size() == wire::word_size ? wire::load_word(option->value.data()) : 0;
  }
  return told;
}

}  // namespace

Buffers buffers_of(tli::Endpoint& endpoint) { return negotiate_buffers(endpoint, wire::tpi::T_CURRENT, std::nullopt); }

void set_buffers(tli::Endpoint& endpoint, const Buffers& buffers) {
  static_cast<void>(negotiate_buffers(endpoint, wire::tpi::T_NEGOTIATE, buffers));
}

void wake_on_events(tli::Endpoint& endpoint, std::function<void()> wake) {
  using Events = SignalEvents;
  static_cast<void>(endpoint.stream().set_signal(
      Events::S_INPUT | Events::S_HIPRI | Events::S_OUTPUT | Events::S_ERROR | Events::S_HANGUP,
      [wake = std::move(wake)](std::uint32_t, bool) { wake(); }));
}

}  // namespace sluice::sockets
