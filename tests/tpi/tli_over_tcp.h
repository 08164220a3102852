// SPDX-License-Identifier: Apache-2.0
#pragma once

// Endpoints of the transport library in one stream set with a run loop: over kernel_tcp on loopback, and over the
// module tcp of one host that speaks to itself.

#include <string>
#include <tuple>
#include <utility>

#include "stack/modules/tcp.h"
#include "tests/tpi/tcp_endpoint.h"
#include "tests/tpi/tli_endpoints.h"

namespace sluice::tpi {

[[nodiscard]] inline std::string name_of_variant(const testing::TestParamInfo<ProviderVariant>& variant) {
  return variant_name(variant.param, "tcp");
}

class TliOverTcp : public TliEndpoints {
 protected:
  Made make(const TcpSocket::Options& options = {}) { return endpoint_on(provider_stream(options)); }
  tli::Outcome<> connect(tli::Endpoint& endpoint, const wire::TransportAddress& to) const {
    Name name(to);
    return endpoint.t_connect({.addr = name.given(), .opt = {}, .udata = {}, .sequence = 0}, nullptr);
  }
  /// One that listens, one that calls it, and the call that the first has heard.
  std::tuple<Made, Made, tli::t_call> called_listener(const TcpSocket::Options& options = {}) {
    Made listener = make(options);
    const wire::TransportAddress at = bind(*listener, 1);
    Made caller = make(options);
    bind(*caller);
    EXPECT_TRUE(connect(*caller, at));
    tli::t_call call;
    EXPECT_TRUE(listener->t_listen(call));
    return {std::move(listener), std::move(caller), call};
  }
  /// Two connected endpoints: the one that called, and the one that was called.
  std::pair<Made, Made> pair(const TcpSocket::Options& options = {}) {
    auto [listener, caller, call] = called_listener(options);
    Made called = make(options);
    EXPECT_TRUE(listener->t_accept(*called, call));
    return {std::move(caller), std::move(called)};
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
  std::unique_ptr<Stream> provider_stream(const TcpSocket::Options& options) {
    if (GetParam().kernel) {
      return std::move(Stream::open(set, std::make_unique<KernelTcp>(set, options))).value();
    }
    auto stream = host_stream({"10.77.0.1/24", "fd00:77::1/64"});
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

  std::unique_ptr<Stream> host_ = provider_stream({});  // refuses what nobody else of its host wants
};

}  // namespace sluice::tpi
