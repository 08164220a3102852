// SPDX-License-Identifier: Apache-2.0
#pragma once

// What makes the streams of each transport provider: udp over ip on a memory link, kernel_udp and kernel_tcp on
// loopback.

#include <array>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpi/register.h"
#include "stack/core/owed.h"
#include "stack/core/registry.h"
#include "stack/core/stream_set.h"
#include "stack/modules/register.h"
#include "stack/wire/address.h"
#include "stack/wire/words.h"
#include "tpi/register.h"

namespace sluice::test {

using Block = std::vector<std::byte>;

template <class Primitive>
[[nodiscard]] Block block(const Primitive& primitive) {
  return Owed::bytes_of(primitive);
}

[[nodiscard]] inline Block words(std::initializer_list<std::uint32_t> values) {
  Block bytes(values.size() * wire::word_size);
  std::memcpy(bytes.data(), std::data(values), bytes.size());
  return bytes;
}

/// How a provider's stream is made, an address that is its own, and one that it can send to.
struct Arrangement {
  const char* name;
  const char* local;
  const char* peer;

  [[nodiscard]] bool is_kernel() const { return std::string_view(name).starts_with("kernel"); }
  [[nodiscard]] wire::IpAddress address() const { return wire::IpAddress::from_text(local).value(); }
};

/// The connectionless ones.
inline constexpr std::array arrangements{Arrangement{"udp", "10.77.0.1", "10.77.0.2"},
                                         Arrangement{"kernel_udp", "127.0.0.1", "127.0.0.1"}};

inline constexpr Arrangement tcp_arrangement{"kernel_tcp", "127.0.0.1", "127.0.0.1"};

/// What makes the streams of one arrangement.
class Workshop {
 public:
  explicit Workshop(const Arrangement& arrangement, const StreamSet::Options& options = {.seed = 1})
      : arrangement_(arrangement), set_(options) {
    add_modules(registry_);
    dlpi::add_drivers(registry_);
    tpi::add_providers(registry_);
  }

  [[nodiscard]] const Arrangement& arrangement() const { return arrangement_; }
  StreamSet& set() { return set_; }

  std::unique_ptr<Module> driver() {
    return arrangement_.is_kernel() ? make(arrangement_.name, {}) : make("wire", {{"name", "lab"}, {"end", "a"}});
  }
  /// What is to be pushed on the driver, as far as the provider goes.
  [[nodiscard]] std::vector<std::string> module_names() const {
    return arrangement_.is_kernel() ? std::vector<std::string>() : std::vector<std::string>{"ip", "udp"};
  }
  std::unique_ptr<Module> module(const std::string& name) {
    const std::vector<std::string> addresses = {arrangement_.local + std::string("/24")};
    return name == "ip" ? make(name, {{"address", addresses}}) : make(name, {});
  }
  std::vector<std::unique_ptr<Module>> modules() {
    std::vector<std::unique_ptr<Module>> all;
    for (const std::string& name : module_names()) {
      all.push_back(module(name));
    }
    return all;
  }
  std::unique_ptr<Module> make(std::string_view name,
                               const std::vector<std::pair<std::string, ParameterValue>>& values) {
    Parameters parameters;
    for (const auto& [parameter, value] : values) {
      parameters.set(parameter, value);
    }
    return registry_.find(name)->make(set_, parameters).value();
  }

 private:
  const Arrangement& arrangement_;
  StreamSet set_;
  Registry registry_;
};

}  // namespace sluice::test
