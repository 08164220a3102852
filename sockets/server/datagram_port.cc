// SPDX-License-Identifier: Apache-2.0
#include "sockets/server/datagram_port.h"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ranges>
#include <utility>

#include "sockets/server/endpoints.h"
#include "sockets/server/socket.h"

namespace sluice::sockets {

using wire::TransportAddress;

std::expected<std::shared_ptr<DatagramPort>, int> DatagramPort::bind(Host& host, const TransportAddress& wanted,
                                                                     bool shared, const EndpointOptions& options,
                                                                     std::vector<std::weak_ptr<DatagramPort>>& others) {
  const bool v6_only = options.get(IPPROTO_IPV6, IPV6_V6ONLY) != 0;
  std::erase_if(others, [](const auto& other) { return other.expired(); });
  if (shared && wanted.port != 0) {
    for (const auto& other : others) {
      if (auto port = other.lock(); port->shared_ && port->local_ == wanted && port->v6_only_ == v6_only) {
        return port;
      }
    }
  }
  auto endpoint = host.open_endpoint(SocketKind::datagram);
  if (!endpoint) {
    return std::unexpected(endpoint.error().code);
  }
  options.apply(**endpoint);
  const auto local = bind_endpoint(**endpoint, wanted, 0);
  if (!local) {
    return std::unexpected(local.error());
  }
  std::shared_ptr<DatagramPort> port(new DatagramPort(host, std::move(*endpoint), *local, shared, v6_only));
  others.push_back(port);
  return port;
}

DatagramPort::DatagramPort(Host& host, std::unique_ptr<tli::Endpoint> endpoint, const TransportAddress& local,
                           bool shared, bool v6_only)
    : host_(host), endpoint_(std::move(endpoint)), local_(local), shared_(shared), v6_only_(v6_only) {
  wake_on_events(*endpoint_, [this] { wake(); });
}

DatagramPort::~DatagramPort() = default;

/// Whoever is first now takes the turns.
void DatagramPort::leave(const DatagramTaker& taker) {
  std::erase(takers_, &taker);
  wake();
}

/// All of them: each may wait for room.
void DatagramPort::wake() {
  for (DatagramTaker* const taker : takers_) {
    host_.wake(taker->socket());
  }
}

bool DatagramPort::receive(const DatagramTaker& taker) {
  if (takers_.empty() || takers_.front() != &taker) {
    return false;
  }
  for (int units = 0; units < turn_units_max; ++units) {
    if (!receive_one()) {
      return false;
    }
  }
  return true;
}

DatagramTaker* DatagramPort::taker_of(const TransportAddress& from) const {
  const auto latest = std::views::reverse(takers_);
  const auto named = std::ranges::find_if(latest, [&](const auto* taker) { return taker->peer() == from; });
  if (named != latest.end()) {
    return *named;
  }
  const auto open =
      std::ranges::find_if(latest, [&](const auto* taker) { return !taker->peer() && taker->takes(from); });
  return open == latest.end() ? nullptr : *open;
}

/// Whether there was one.
bool DatagramPort::receive_one() {
  const Bytes scratch = host_.scratch();
  std::array<std::byte, TransportAddress::encoded_size_max> bytes{};
  tli::t_unitdata unit;
  unit.addr = {.maxlen = bytes.size(), .len = 0, .buf = bytes.data()};
  unit.udata = {.maxlen = scratch.size(), .len = 0, .buf = scratch.data()};
  int flags = 0;
  if (const auto got = endpoint_->t_rcvudata(unit, flags); !got) {
    if (got.error().t_errno != wire::tpi::TLOOK) {
      return false;
    }
    receive_error();
    return true;
  }
  const auto from = TransportAddress::decode(ConstBytes(bytes).first(unit.addr.len));
  if (DatagramTaker* const taker = from ? taker_of(*from) : nullptr; taker != nullptr) {
    taker->deliver(0, *from, scratch.first(unit.udata.len));
  }
  return true;
}

/// Only who has named that peer is told, as with the kernel's sockets.
void DatagramPort::receive_error() {
  std::array<std::byte, TransportAddress::encoded_size_max> bytes{};
  tli::t_uderr error;
  error.addr = {.maxlen = bytes.size(), .len = 0, .buf = bytes.data()};
  const auto got = endpoint_->t_rcvuderr(&error);
  const auto to = TransportAddress::decode(ConstBytes(bytes).first(error.addr.len));
  if (!got || !to) {
    return;
  }
  for (DatagramTaker* const taker : takers_) {
    if (taker->peer() == *to) {
      taker->deliver(error.error, *to, {});
    }
  }
}

int DatagramPort::send(const TransportAddress& to, ConstBytes data) {
  std::array<std::byte, TransportAddress::encoded_size_max> bytes{};
  tli::t_unitdata unit;
  unit.addr = {.maxlen = bytes.size(), .len = to.encode(bytes), .buf = bytes.data()};
  unit.udata = {.maxlen = data.size(), .len = data.size(), .buf = const_cast<std::byte*>(data.data())};
  auto sent = endpoint_->t_sndudata(unit);
  while (!sent && sent.error().t_errno == wire::tpi::TLOOK && endpoint_->t_look() == tli::T_UDERR) {
    receive_error();
    sent = endpoint_->t_sndudata(unit);
  }
  return sent ? 0 : errno_of(sent.error());
}

}  // namespace sluice::sockets
