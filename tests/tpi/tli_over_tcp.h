// SPDX-License-Identifier: Apache-2.0
#pragma once

// Endpoints of the transport library over kernel_tcp on loopback, in one stream set with a run loop.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "base/prng.h"
#include "edge/run_loop.h"
#include "stack/modules/timod.h"
#include "tests/tpi/tcp_endpoint.h"
#include "tli/endpoint.h"

namespace sluice::tpi {

/// An address in a program's buffer.
struct Name {
  Name() = default;
  explicit Name(const wire::TransportAddress& address) : size(address.encode(bytes)) {}
  [[nodiscard]] tli::netbuf asked() { return {.maxlen = bytes.size(), .len = 0, .buf = bytes.data()}; }
  [[nodiscard]] tli::netbuf given() { return {.maxlen = bytes.size(), .len = size, .buf = bytes.data()}; }
  [[nodiscard]] static wire::TransportAddress in(const tli::netbuf& buffer) {
    return wire::TransportAddress::decode(ConstBytes(buffer.buf, buffer.len)).value();
  }
  std::array<std::byte, wire::TransportAddress::encoded_size_max> bytes{};
  std::size_t size = 0;
};

inline std::string random_text(std::size_t size, std::uint64_t seed) {
  Prng prng(seed);
  std::string text(size, '\0');
  for (char& one : text) {
    one = static_cast<char>(prng());
  }
  return text;
}

class TliOverTcp : public testing::TestWithParam<ProcessingMode> {
 protected:
  using Made = std::unique_ptr<tli::Endpoint>;

  Made make(const TcpSocket::Options& options = {}) {
    auto stream = std::move(Stream::open(set, std::make_unique<KernelTcp>(set, options))).value();
    EXPECT_TRUE(stream->push(std::make_unique<Timod>()));
    stream->set_mode(GetParam());
    stream->set_waiter(loop.get());
    auto opened = tli::Endpoint::t_open(std::move(stream), &info);
    EXPECT_TRUE(opened);
    return std::move(*opened);
  }
  wire::TransportAddress bind(tli::Endpoint& endpoint, std::uint32_t qlen = 0,
                              std::string_view to = "127.0.0.1:0") const {
    Name name(wire::TransportAddress::from_text(to).value());
    tli::t_bind request{name.given(), qlen};
    Name answer;
    tli::t_bind bound{answer.asked(), 0};
    EXPECT_TRUE(endpoint.t_bind(&request, &bound));
    EXPECT_EQ(bound.qlen, qlen);
    return Name::in(bound.addr);
  }
  tli::Outcome<> connect(tli::Endpoint& endpoint, const wire::TransportAddress& to) const {
    Name name(to);
    return endpoint.t_connect({.addr = name.given(), .opt = {}, .udata = {}, .sequence = 0}, nullptr);
  }
  /// Two connected endpoints: the one that called, and the one that was called.
  std::pair<Made, Made> pair(const TcpSocket::Options& options = {}) {
    const Made listener = make(options);
    const wire::TransportAddress at = bind(*listener, 1);
    Made caller = make(options);
    bind(*caller);
    EXPECT_TRUE(connect(*caller, at));
    tli::t_call call;
    EXPECT_TRUE(listener->t_listen(call));
    Made called = make(options);
    EXPECT_TRUE(listener->t_accept(*called, call));
    return {std::move(caller), std::move(called)};
  }
  template <class Predicate>
  [[nodiscard]] bool run_until(Predicate predicate) const {
    return loop->run_until(predicate, loop->now() + std::chrono::seconds(20));
  }
  static std::string receive(tli::Endpoint& endpoint, std::size_t size) {
    std::string text(size, '\0');
    int flags = 0;
    const auto got = endpoint.t_rcv(std::as_writable_bytes(std::span(text)), flags);
    return got ? text.substr(0, *got) : "error " + std::to_string(got.error().t_errno);
  }
  static std::string receive_all(tli::Endpoint& endpoint, std::size_t size) {
    std::string all;
    while (all.size() < size) {
      const std::string part = receive(endpoint, size - all.size());
      all += part;
      if (part.starts_with("error")) {
        break;
      }
    }
    return all;
  }
  template <class T>
  static int error_of(const tli::Outcome<T>& outcome) {
    return outcome ? 0 : outcome.error().t_errno;
  }
  [[nodiscard]] bool run_until_event(tli::Endpoint& endpoint, std::uint16_t event) const {
    return run_until([&] { return endpoint.t_look() == event; });
  }

  StreamSet set{{.defer_bytes_min = 0}};
  std::unique_ptr<RunLoop> loop = std::move(RunLoop::open(set)).value();
  tli::t_info info;
};

}  // namespace sluice::tpi
