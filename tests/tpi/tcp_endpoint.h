// SPDX-License-Identifier: Apache-2.0
#pragma once

// A connection endpoint for tests: a stream of `kernel_tcp` under a head that keeps what comes up, so that tests speak
// TPI by hand; and a peer that is a plain socket of the kernel.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "stack/wire/tpi_connection.h"
#include "tests/tpi/endpoint.h"
#include "tpi/kernel_tcp.h"

namespace sluice::tpi {

class TcpEndpoint {
 public:
  explicit TcpEndpoint(StreamSet& set, const TcpCalls& calls = {}, const TcpSocket::Options& options = {})
      : set_(set), chain_(set, head_) {
    EXPECT_TRUE(chain_.open_driver(std::make_unique<KernelTcp>(set, options, calls)));
  }

  [[nodiscard]] KeepingHead& head() { return head_; }
  [[nodiscard]] Module& driver() { return chain_.driver(); }

  template <class Primitive>
  void put(const Primitive& primitive, std::string_view data = {}, MessageType type = MessageType::proto) {
    Message message = Message::allocate(set_.pool(), primitive.encoded_size(), 0, type);
    primitive.encode(message.append(primitive.encoded_size()));
    if (!data.empty()) {
      message.link(Message::copy_of(set_.pool(), as_bytes(data)));
    }
    head_.write_queue().put_next(std::move(message));
  }
  void send(std::string_view data) { put(wire::tpi::DataReq{}, data); }

  template <class Primitive>
  Primitive expect() {
    kept_ = head_.read_queue().dequeue();
    EXPECT_TRUE(kept_) << "nothing came up";
    if (!kept_) {
      return {};
    }
    const auto decoded = Primitive::decode(kept_.bytes());
    EXPECT_TRUE(decoded) << "another primitive came up: " << wire::tpi::primitive_of(kept_.bytes()).value_or(-1);
    return decoded.value_or(Primitive{});
  }
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
    put(wire::tpi::InfoReq{}, {}, MessageType::pcproto);
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
  [[nodiscard]] std::uint64_t counter(std::string_view name) {
    for (const Counter* counter : driver().counters()) {
      if (counter->name() == name) {
        return counter->value();
      }
    }
    ADD_FAILURE() << "no counter " << name;
    return 0;
  }

  wire::TransportAddress local;

 private:
  StreamSet& set_;
  KeepingHead head_;
  Chain chain_;
  Message kept_;
};

/// A TCP socket of the kernel on 127.0.0.1, non-blocking.
class Peer {
 public:
  Peer() : Peer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  explicit Peer(int descriptor) : descriptor_(descriptor) { EXPECT_GE(descriptor_, 0); }
  Peer(Peer&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Peer& operator=(Peer&&) = delete;
  ~Peer() { close(); }

  void close() {
    if (descriptor_ >= 0) {
      ::close(std::exchange(descriptor_, -1));
    }
  }
  void reset() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    EXPECT_EQ(::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    close();
  }
  wire::TransportAddress listen() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(descriptor_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(descriptor_, 8), 0);
    EXPECT_EQ(::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    return wire::TransportAddress::from_text("127.0.0.1:" + std::to_string(ntohs(address.sin_port))).value();
  }
  Peer accept() { return Peer(::accept(descriptor_, nullptr, nullptr)); }
  void connect(const wire::TransportAddress& to) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(to.port);
    EXPECT_EQ(::connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  void send(std::string_view text) {
    EXPECT_EQ(::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  /// As much as the socket takes now.
  std::size_t offer(std::string_view text) {
    const ssize_t sent = ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent > 0 ? static_cast<std::size_t>(sent) : 0;
  }
  /// What is there; `ended` tells of the end, `error` of an error.
  std::string take() {
    std::string all;
    std::string part(65536, '\0');
    for (;;) {
      const ssize_t received = ::recv(descriptor_, part.data(), part.size(), MSG_DONTWAIT);
      if (received <= 0) {
        ended = ended || received == 0;
        error = received < 0 && errno != EAGAIN ? errno : error;
        return all;
      }
      all.append(part, 0, static_cast<std::size_t>(received));
    }
  }
  void end() { EXPECT_EQ(::shutdown(descriptor_, SHUT_WR), 0); }
  [[nodiscard]] int descriptor() const { return descriptor_; }

  bool ended = false;
  int error = 0;

 private:
  int descriptor_;
};

}  // namespace sluice::tpi
