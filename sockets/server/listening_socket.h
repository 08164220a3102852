// SPDX-License-Identifier: Apache-2.0
#pragma once

// A socket that listens: each caller becomes a connection, and a message of the pair that brings the program its
// descriptor (Caller). So accept(2) is one recvmsg(2), poll says when it has something to take, and several processes
// may wait at once. What the program does not take waits in the pair, which the kernel bounds, and then as connection
// indications.

#include <memory>

#include "sockets/server/socket.h"

namespace sluice::sockets {

class ListeningSocket final : public Socket {
 public:
  /// Indications that may be outstanding, whatever backlog is asked for.
  static constexpr int backlog_max = 128;

  /// `share`: its place among those of its user that listen; `memory`: for its callers. REQUIRES: `endpoint` is bound
  /// with a qlen.
  ListeningSocket(Host& host, const Identity& identity, Descriptor channel, std::unique_ptr<tli::Endpoint> endpoint,
                  const wire::TransportAddress& local, const EndpointOptions& options, Quotas::Share share,
                  Quotas::Share memory);

  Reply bind(const Address& address, bool shared) override;
  /// As often as a program likes; the backlog stays.
  Reply listen(int backlog) override;
  Reply connect(const Request& request, Asker asker) override;
  [[nodiscard]] SocketRecord record() override;
  bool turn() override;
  [[nodiscard]] bool finished() const override { return hung_up_; }

 private:
  static constexpr int turn_callers_max = 16;

  void apply_options() override { options_.apply(*endpoint_); }
  [[nodiscard]] bool is_bound() const override { return true; }
  bool take_caller();
  void accept(const tli::t_call& call);
  void reject(const tli::t_call& call);
  bool deliver();

  std::unique_ptr<tli::Endpoint> endpoint_;
  Quotas::Share share_;
  Quotas::Share memory_;
  Caller caller_;       // the one that the pair has no room for yet
  Descriptor waiting_;  // its descriptor
};

}  // namespace sluice::sockets
