// SPDX-License-Identifier: Apache-2.0
#pragma once

// A connection endpoint for tests: a stream of `kernel_tcp` under a head that keeps what comes up, so that tests speak
// TPI by hand; and a peer that is a plain socket of the kernel.

#include <fcntl.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <string>
#include <utility>

#include "stack/wire/tpi_connection.h"
#include "tests/kernel_peer.h"
#include "tests/tpi/endpoint.h"
#include "tpi/kernel_tcp.h"

namespace sluice::tpi {

class TcpEndpoint : public DriverStream {
 public:
  explicit TcpEndpoint(StreamSet& set, const TcpCalls& calls = {}, const TcpSocket::Options& options = {})
      : DriverStream(set) {
    EXPECT_TRUE(chain_.open_driver(std::make_unique<KernelTcp>(set, options, calls)));
  }

  void send(std::string_view data) { put(wire::tpi::DataReq{}, data); }

  /// The number of the next primitive; -1: none. M_ERROR is -2.
  std::int32_t next() {
    kept_ = head_.read_queue().dequeue();
    return !kept_ ? -1 : kept_.type() == MessageType::error ? -2 : wire::tpi::primitive_of(kept_.bytes()).value_or(-1);
  }

  /// TLI_error of the refusal, 0 where it is bound.
  std::int32_t bind(std::string_view text, std::uint32_t connect_indications = 0) {
    std::array<std::byte, wire::TransportAddress::encoded_size_max> bytes{};
    const auto address = wire::TransportAddress::from_text(text).value();
    put(wire::tpi::BindReq{ConstBytes(bytes).first(address.encode(bytes)), connect_indications});
    kept_ = head_.read_queue().dequeue();
    if (const auto error = wire::tpi::ErrorAck::decode(kept_.bytes())) {
      return error->tli_error;
    }
    const auto ack = wire::tpi::BindAck::decode(kept_.bytes());
    EXPECT_TRUE(ack);
    EXPECT_EQ(ack->connect_indications, connect_indications);
    local = wire::TransportAddress::decode(ack->address).value();
    return 0;
  }
  void connect(const wire::TransportAddress& to) {
    std::array<std::byte, wire::TransportAddress::encoded_size_max> bytes{};
    put(wire::tpi::ConnReq{ConstBytes(bytes).first(to.encode(bytes)), {}});
  }
  std::uint32_t acceptor_id() {
    put(wire::tpi::CapabilityReq{wire::tpi::TC1_ACCEPTOR_ID});
    return expect<wire::tpi::CapabilityAck>().acceptor_id;
  }
  wire::tpi::State state() {
    put(wire::tpi::InfoReq{}, {}, false, MessageType::pcproto);
    return static_cast<wire::tpi::State>(expect<wire::tpi::InfoAck>().current_state);
  }
  /// All data that has come, up to the first primitive that is none.
  std::string data() {
    std::string all;
    while (const Block* first = head_.read_queue().peek()) {
      if (wire::tpi::primitive_of(first->bytes()) != wire::tpi::T_DATA_IND) {
        break;
      }
      Message message = head_.read_queue().dequeue();
      std::string part(message.data_size(), '\0');
      EXPECT_TRUE(message.copy_data_to(0, std::as_writable_bytes(std::span(part))));
      all += part;
    }
    return all;
  }
  [[nodiscard]] bool waits(std::int32_t primitive) {
    const Block* first = head_.read_queue().peek();
    return first != nullptr && wire::tpi::primitive_of(first->bytes()) == primitive;
  }

  wire::TransportAddress local;
};

using Peer = KernelPeer;

}  // namespace sluice::tpi
