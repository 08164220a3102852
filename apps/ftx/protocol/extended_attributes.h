// SPDX-License-Identifier: Apache-2.0
#pragma once

// ExtendedAttributes: names and values that a file or a directory has beside its content (xattr(7)), as a list carries
// them. docs/formats/ftx.md, "Owners and extended attributes".
//
// Only those whose names begin with "user.". The kernel itself acts on the others: `security.*` are capabilities of
// programs and labels, `trusted.*` are for the superuser, `system.posix_acl_*` say who may read. A peer has no say in
// these.
//
// Threat: a list whose names are of other namespaces, come twice or hold NUL, so that another attribute is set than the
// one that was checked; or whose few bytes take much memory. take() accepts names in strictly ascending order alone,
// and what it keeps are the very bytes that have arrived.
//
// Not thread-safe while it changes.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ftx/protocol/cursor.h"
#include "base/bytes.h"

namespace sluice::ftx {

struct ExtendedAttribute {
  std::string name;
  std::string value;
  auto operator<=>(const ExtendedAttribute&) const = default;
};

class ExtendedAttributes {
 public:
  static constexpr std::size_t count_max = 1024;
  static constexpr std::size_t name_bytes_max = 255;         // XATTR_NAME_MAX
  static constexpr std::size_t value_bytes_max = 64 * 1024;  // XATTR_SIZE_MAX
  /// As they travel, of one file.
  static constexpr std::size_t bytes_max = 1U << 20;
  static constexpr std::string_view name_space = "user.";

  /// Whether one of this name travels. All others belong to the host where they are.
  [[nodiscard]] static bool is_name(std::string_view name);
  /// In any order. Null: two have one name, a name or a value is none, or they are more than may travel.
  [[nodiscard]] static std::optional<ExtendedAttributes> of(std::vector<ExtendedAttribute> all);
  /// What put() has written. Null: malformed.
  [[nodiscard]] static std::optional<ExtendedAttributes> take(Reader& reader);

  ExtendedAttributes() = default;
  bool operator==(const ExtendedAttributes&) const = default;

  [[nodiscard]] bool empty() const { return count_ == 0; }
  /// Ascending by name.
  [[nodiscard]] std::vector<ExtendedAttribute> all() const;
  [[nodiscard]] std::size_t encoded_bytes() const { return count_bytes + encoded_.size(); }
  void put(Writer& writer) const;

 private:
  static constexpr std::size_t count_bytes = 2;

  std::string encoded_;  // without the count
  std::uint16_t count_ = 0;
};

}  // namespace sluice::ftx
