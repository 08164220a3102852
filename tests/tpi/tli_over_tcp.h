// SPDX-License-Identifier: Apache-2.0
#pragma once

// Endpoints of the transport library in one stream set with a run loop: over kernel_tcp on loopback, and over the
// module tcp of one host that speaks to itself.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "base/prng.h"
#include "dlpi/register.h"
#include "edge/run_loop.h"
#include "stack/modules/ip.h"
#include "stack/modules/tcp.h"
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

struct TcpVariant {
  bool kernel;
  ProcessingMode mode;
};

[[nodiscard]] inline std::string name_of_variant(const testing::TestParamInfo<TcpVariant>& variant) {
  return std::string(variant.param.kernel ? "kernel_tcp_" : "tcp_") + std::string(name_of(variant.param.mode));
}

class TliOverTcp : public testing::TestWithParam<TcpVariant> {
 protected:
  using Made = std::unique_ptr<tli::Endpoint>;

  Made make(const TcpSocket::Options& options = {}) {
    auto stream = provider_stream(options);
    EXPECT_TRUE(stream->push(std::make_unique<Timod>()));
    stream->set_mode(GetParam().mode);
    stream->set_waiter(loop.get());
    auto opened = tli::Endpoint::t_open(std::move(stream), &info);
    EXPECT_TRUE(opened);
    return std::move(*opened);
  }
  /// An address of this host, as text.
  [[nodiscard]] static std::string host() { return GetParam().kernel ? "127.0.0.1" : "10.77.0.1"; }
  wire::TransportAddress bind(tli::Endpoint& endpoint, std::uint32_t qlen = 0, const std::string& to = {}) const {
    Name name(wire::TransportAddress::from_text(to.empty() ? host() + ":0" : to).value());
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
  /// As run_until(), where the predicate itself moves the data: it is asked again though nothing else has happened.
  template <class Step>
  [[nodiscard]] bool step_until(Step step) const {
    for (const TimePoint end = loop->now() + std::chrono::seconds(20); loop->now() < end;) {
      if (loop->run_until(step, loop->now() + std::chrono::milliseconds(1))) {
        return true;
      }
    }
    return false;
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

  std::unique_ptr<Stream> provider_stream(const TcpSocket::Options& options) {
    if (GetParam().kernel) {
      return std::move(Stream::open(set, std::make_unique<KernelTcp>(set, options))).value();
    }
    Parameters link;
    link.set("name", std::string("lab"));
    link.set("end", std::string("a"));
    auto stream = std::move(Stream::open(set, registry_.find("wire")->make(set, link).value())).value();
    Parameters host_parameters;
    host_parameters.set("address", std::vector<std::string>{"10.77.0.1/24", "fd00:77::1/64"});
    EXPECT_TRUE(stream->push(ip_entry().make(set, host_parameters).value()));
    Tcp::Options buffers;
    if (options.receive_buffer_bytes > 0) {
      buffers.receive_buffer_bytes = options.receive_buffer_bytes;
    }
    if (options.send_buffer_bytes > 0) {
      buffers.send_buffer_bytes = options.send_buffer_bytes;
    }
    EXPECT_TRUE(stream->push(std::make_unique<Tcp>(buffers)));
    return stream;
  }

  static Registry drivers() {
    Registry registry;
    dlpi::add_drivers(registry);
    return registry;
  }

  Registry registry_ = drivers();
  StreamSet set{{.defer_bytes_min = 0}};
  std::unique_ptr<RunLoop> loop = std::move(RunLoop::open(set)).value();
  std::unique_ptr<Stream> host_ = provider_stream({});  // refuses what nobody else of its host wants
  tli::t_info info;
};

}  // namespace sluice::tpi
