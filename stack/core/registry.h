// SPDX-License-Identifier: Apache-2.0
#pragma once

// What can be named in a stack file: modules and drivers, their parameters, and which service each needs and offers. A
// program fills the registry by hand, so what is linked is what can be pushed, and it adds a module of its own in one
// line:
//
//     registry.add(Entry{.name = "mine", .summary = "...", .make = [](StreamSet&, const Parameters&) { ... }});
//
// Threads: filled before streams are opened, read-only from then on.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "stack/core/module.h"

namespace sluice {

/// The service a module offers to the one above it.
enum class Service : std::uint8_t {
  link,       // DLPI, connectionless mode
  network,    // TPI primitives; addresses are an IP address and a protocol number
  transport,  // TPI primitives; addresses are an IP address and a port
  user,       // what a user library speaks: TPI with timod's requests answered
};

/// Which services a module accepts below it.
using ServiceSet = std::uint8_t;
constexpr ServiceSet accepts(Service service) { return static_cast<ServiceSet>(1U << static_cast<unsigned>(service)); }
inline constexpr ServiceSet accepts_any = 0xff;

[[nodiscard]] std::string_view service_name(Service service);

/// One parameter of a module or driver, as it may stand in a stack file.
struct ParameterSpec {
  enum class Type : std::uint8_t { boolean, integer, real, text, texts };

  std::string_view name;
  Type type = Type::text;
  /// One sentence with the unit and what absence means.
  std::string_view meaning;
  bool required = false;
  /// For numbers: the closed range.
  double minimum = std::numeric_limits<double>::lowest();
  double maximum = std::numeric_limits<double>::max();
  /// For texts: the closed list of values, or empty for any.
  std::vector<std::string_view> choices = {};
};

using ParameterValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;

/// Values that have been checked against their specifications.
class Parameters {
 public:
  void set(std::string name, ParameterValue value) { values_.insert_or_assign(std::move(name), std::move(value)); }
  [[nodiscard]] bool has(std::string_view name) const { return values_.find(name) != values_.end(); }

  /// The value of a parameter, or `otherwise` where it is absent. REQUIRES: its specification has this type.
  [[nodiscard]] bool boolean(std::string_view name, bool otherwise) const;
  [[nodiscard]] std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  [[nodiscard]] double real(std::string_view name, double otherwise) const;
  [[nodiscard]] std::string text(std::string_view name, std::string_view otherwise) const;
  /// A list; a single text counts as a list of one.
  [[nodiscard]] std::vector<std::string> texts(std::string_view name) const;

  [[nodiscard]] const std::map<std::string, ParameterValue, std::less<>>& values() const { return values_; }

 private:
  std::map<std::string, ParameterValue, std::less<>> values_;
};

struct Entry {
  enum class Kind : std::uint8_t { module, driver };
  using Factory = std::function<Result<std::unique_ptr<Module>>(StreamSet&, const Parameters&)>;

  std::string_view name;
  /// One line.
  std::string_view summary;
  /// What it does to data, in a few words, for `sluice explain`.
  std::string_view effect = "passes data unchanged";
  Kind kind = Kind::module;
  /// Modules: what may be below. A module that is transparent offers above what it finds below.
  ServiceSet lower = accepts_any;
  bool transparent = false;
  Service upper = Service::link;
  std::vector<ParameterSpec> parameters = {};
  Factory make;
};

class Registry {
 public:
  /// REQUIRES: no other entry has this name.
  void add(Entry entry);
  /// nullptr when nothing has that name.
  [[nodiscard]] const Entry* find(std::string_view name) const;
  [[nodiscard]] const std::map<std::string_view, Entry>& entries() const { return entries_; }
  /// The entry of this kind whose name is spelt most alike; empty when none is near.
  [[nodiscard]] std::string_view nearest(std::string_view name, Entry::Kind kind) const;

 private:
  std::map<std::string_view, Entry> entries_;
};

/// Of `candidates`, the one with the smallest edit distance to `word`, if that is at most a third of its length (and at
/// least 1); else empty.
[[nodiscard]] std::string_view nearest_spelling(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace sluice
