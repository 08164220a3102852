// SPDX-License-Identifier: Apache-2.0
#pragma once

// A datagram socket: each message of the pair is a DatagramHeader and one datagram. What the program does not read in
// time is dropped, as with every socket of UDP.

#include <memory>
#include <vector>

#include "sockets/server/datagram_port.h"
#include "sockets/server/socket.h"

namespace sluice::sockets {

class DatagramSocket final : public Socket, private DatagramTaker {
 public:
  DatagramSocket(Host& host, const Identity& identity, Descriptor channel);
  ~DatagramSocket() override;

  Reply bind(const Address& address, bool shared) override;
  /// Names the peer: only its datagrams come, and what has no address goes to it. AF_UNSPEC forgets it.
  Reply connect(const Request& request, Asker asker) override;
  [[nodiscard]] SocketRecord record() override;
  bool turn() override;
  [[nodiscard]] bool finished() const override { return hung_up_; }

 private:
  static constexpr int turn_units_max = 64;
  static constexpr std::size_t receive_bytes_default = std::size_t{64} * 1024;
  static constexpr std::size_t message_bytes_max = sizeof(DatagramHeader) + datagram_bytes_max;

  [[nodiscard]] const std::optional<wire::TransportAddress>& peer() const override { return peer_; }
  [[nodiscard]] bool takes(const wire::TransportAddress& from) const override { return v6() || from.address.is_v4(); }
  void deliver(int error, const wire::TransportAddress& address, ConstBytes data) override;
  [[nodiscard]] Socket& socket() override { return *this; }

  void apply_options() override;
  [[nodiscard]] bool is_bound() const override { return port_ != nullptr; }
  /// 0, or an errno.
  [[nodiscard]] int bind_to(const wire::TransportAddress& address, bool shared);
  [[nodiscard]] int bind_for(const wire::TransportAddress& to);
  bool pass_down();
  /// False: there is no room now.
  bool send(ConstBytes message);

  /// Memory for what waits either way, given back first; false: there is none.
  bool take_memory();

  Quotas::Share memory_;
  std::shared_ptr<DatagramPort> port_;  // empty: not bound
  std::vector<std::byte> waiting_;      // read from the pair, while the stream has no room
};

}  // namespace sluice::sockets
