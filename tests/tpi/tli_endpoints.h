// SPDX-License-Identifier: Apache-2.0
#pragma once

// Endpoints of the transport library in one stream set with a run loop, over a provider of the kernel's on loopback or
// over one of ours on a host that speaks to itself. A fixture derives from it and says what the provider is.

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "dlpi/register.h"
#include "edge/run_loop.h"
#include "stack/modules/ip.h"
#include "stack/modules/timod.h"
#include "stack/wire/address.h"
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

struct ProviderVariant {
  bool kernel;
  ProcessingMode mode;
};
/// The kernel's provider, and ours, in both modes.
inline constexpr std::array<ProviderVariant, 4> all_variants{{{true, ProcessingMode::layered},
                                                              {true, ProcessingMode::fused},
                                                              {false, ProcessingMode::layered},
                                                              {false, ProcessingMode::fused}}};

/// The name of a test: "kernel_" where it is the kernel's, `provider`, mode.
[[nodiscard]] inline std::string variant_name(const ProviderVariant& variant, const std::string& provider) {
  return (variant.kernel ? "kernel_" : "") + provider + "_" + std::string(name_of(variant.mode));
}

class TliEndpoints : public testing::TestWithParam<ProviderVariant> {
 protected:
  using Made = std::unique_ptr<tli::Endpoint>;

  TliEndpoints() { dlpi::add_drivers(registry_); }

  /// On a stream that ends with a transport provider.
  Made endpoint_on(std::unique_ptr<Stream> stream) {
    EXPECT_TRUE(stream->push(std::make_unique<Timod>()));
    stream->set_mode(GetParam().mode);
    stream->set_waiter(loop.get());
    auto opened = tli::Endpoint::t_open(std::move(stream), &info);
    EXPECT_TRUE(opened);
    return std::move(*opened);
  }
  /// An address of this host, as text.
  [[nodiscard]] static std::string host() { return GetParam().kernel ? "127.0.0.1" : "10.77.0.1"; }
  /// A stream that ends with `ip`, whose host has `addresses` on a wire without a far end.
  std::unique_ptr<Stream> host_stream(const std::vector<std::string>& addresses) {
    Parameters link;
    link.set("name", std::string("lab"));
    link.set("end", std::string("a"));
    auto stream = std::move(Stream::open(set, registry_.find("wire")->make(set, link).value())).value();
    Parameters parameters;
    parameters.set("address", addresses);
    EXPECT_TRUE(stream->push(ip_entry().make(set, parameters).value()));
    return stream;
  }
  wire::TransportAddress bind(tli::Endpoint& endpoint, std::uint32_t qlen = 0, const std::string& to = {}) const {
    Name name(wire::TransportAddress::from_text(to.empty() ? host() + ":0" : to).value());
    tli::t_bind request{name.given(), qlen};
    Name answer;
    tli::t_bind bound{answer.asked(), 0};
    EXPECT_TRUE(endpoint.t_bind(&request, &bound));
    EXPECT_EQ(bound.qlen, qlen);
    return Name::in(bound.addr);
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
  [[nodiscard]] bool run_until_event(tli::Endpoint& endpoint, std::uint16_t event) const {
    return run_until([&] { return endpoint.t_look() == event; });
  }
  /// The reason of the disconnection that comes, or has come, to `endpoint`.
  [[nodiscard]] int disconnection_reason(tli::Endpoint& endpoint) const {
    EXPECT_TRUE(run_until_event(endpoint, tli::T_DISCONNECT));
    tli::t_discon discon;
    EXPECT_TRUE(endpoint.t_rcvdis(&discon));
    return discon.reason;
  }
  template <class T>
  static int error_of(const tli::Outcome<T>& outcome) {
    return outcome ? 0 : outcome.error().t_errno;
  }

  Registry registry_;
  StreamSet set{{.defer_bytes_min = 0}};
  std::unique_ptr<RunLoop> loop = std::move(RunLoop::open(set)).value();
  tli::t_info info;
};

}  // namespace sluice::tpi
