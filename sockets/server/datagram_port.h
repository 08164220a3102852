// SPDX-License-Identifier: Apache-2.0
#pragma once

// A port of UDP and the sockets bound to it: one as a rule; several where all asked for that before they were bound
// (SO_REUSEADDR). A datagram goes to the socket whose peer has sent it, else to the one without a peer that was bound
// last, as Linux has it; so a server can have a socket of its own for each client.
//
// Ownership: shared by its sockets, which are woken for it: the first of them gives it its turns. Threads: the stream
// set's.

#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "sockets/server/endpoint_options.h"
#include "stack/wire/address.h"
#include "tli/endpoint.h"

namespace sluice::sockets {

class Host;
class Socket;

/// Who takes part in a port.
class DatagramTaker {
 public:
  virtual ~DatagramTaker() = default;
  [[nodiscard]] virtual const std::optional<wire::TransportAddress>& peer() const = 0;
  [[nodiscard]] virtual bool takes(const wire::TransportAddress& from) const = 0;
  /// A datagram from there, or an error that was reported of one that went there.
  virtual void deliver(int error, const wire::TransportAddress& address, ConstBytes data) = 0;
  [[nodiscard]] virtual Socket& socket() = 0;
};

class DatagramPort {
 public:
  /// Bound to `wanted`, or, where that is one of `others` and both are shared, that one. An errno.
  [[nodiscard]] static std::expected<std::shared_ptr<DatagramPort>, int> bind(
      Host& host, const wire::TransportAddress& wanted, bool shared, const EndpointOptions& options,
      std::vector<std::weak_ptr<DatagramPort>>& others);
  ~DatagramPort();
  DatagramPort(const DatagramPort&) = delete;
  DatagramPort& operator=(const DatagramPort&) = delete;

  void join(DatagramTaker& taker) { takers_.push_back(&taker); }
  void leave(const DatagramTaker& taker);
  [[nodiscard]] const wire::TransportAddress& local() const { return local_; }
  /// Of the socket that asked last.
  void apply(const EndpointOptions& options) { options.apply(*endpoint_); }

  /// Gives what waits to whom it is for, a bounded amount; whether more waits. Nothing for others than the first taker.
  bool receive(const DatagramTaker& taker);
  /// 0, EAGAIN where the stream has no room (its takers are woken when it has), or another errno.
  [[nodiscard]] int send(const wire::TransportAddress& to, ConstBytes data);

 private:
  static constexpr int turn_units_max = 64;

  DatagramPort(Host& host, std::unique_ptr<tli::Endpoint> endpoint, const wire::TransportAddress& local, bool shared,
               bool v6_only);
  bool receive_one();
  void receive_error();
  [[nodiscard]] DatagramTaker* taker_of(const wire::TransportAddress& from) const;
  void wake();

  Host& host_;
  std::unique_ptr<tli::Endpoint> endpoint_;
  wire::TransportAddress local_;
  bool shared_;
  bool v6_only_;
  std::vector<DatagramTaker*> takers_;  // in the order in which they were bound
};

}  // namespace sluice::sockets
