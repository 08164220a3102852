// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/protocol/extended_attributes.h"

#include <algorithm>

namespace sluice::ftx {
namespace {

constexpr std::size_t lengths_bytes = 1 + 4;

/// As it travels, in memory that is not copied.
struct View {
  std::string_view name;
  std::string_view value;
};

View take_one(Reader& reader) {
  const auto name_bytes = reader.number<std::uint8_t>();
  const auto value_bytes = reader.number<std::uint32_t>();
  const std::string_view name = as_text(reader.take(name_bytes));
  return {name, as_text(reader.take(value_bytes))};
}

bool is_attribute(std::string_view name, std::string_view value) {
  return ExtendedAttributes::is_name(name) && value.size() <= ExtendedAttributes::value_bytes_max;
}

}  // namespace

bool ExtendedAttributes::is_name(std::string_view name) {
  return name.size() > name_space.size() && name.size() <= name_bytes_max && name.starts_with(name_space) &&
         name.find('\0') == std::string_view::npos;
}

std::optional<ExtendedAttributes> ExtendedAttributes::of(std::vector<ExtendedAttribute> all) {
  std::ranges::sort(all);
  std::size_t size = 0;
  for (const ExtendedAttribute& one : all) {
    if (!is_attribute(one.name, one.value)) {
      return std::nullopt;
    }
    size += lengths_bytes + one.name.size() + one.value.size();
  }
  const bool twice = std::ranges::adjacent_find(all, {}, &ExtendedAttribute::name) != all.end();
  if (all.size() > count_max || size > bytes_max || twice) {
    return std::nullopt;
  }
  std::vector<std::byte> bytes(size);
  Writer writer(bytes);
  for (const ExtendedAttribute& one : all) {
    writer.number(static_cast<std::uint8_t>(one.name.size())).number(static_cast<std::uint32_t>(one.value.size()));
    writer.bytes(as_bytes(one.name)).bytes(as_bytes(one.value));
  }
  ExtendedAttributes made;
  made.count_ = static_cast<std::uint16_t>(all.size());
  made.encoded_ = as_text(bytes);
  return made;
}

std::optional<ExtendedAttributes> ExtendedAttributes::take(Reader& reader) {
  ExtendedAttributes taken;
  taken.count_ = reader.number<std::uint16_t>();
  if (taken.count_ > count_max) {
    return std::nullopt;
  }
  const ConstBytes from = reader.rest();
  std::string_view before;
  for (std::size_t i = 0; i < taken.count_; ++i) {
    const auto [name, value] = take_one(reader);
    if (!reader.ok() || !is_attribute(name, value) || (i > 0 && name <= before)) {
      return std::nullopt;
    }
    before = name;
  }
  const std::size_t size = from.size() - reader.rest().size();
  if (!reader.ok() || size > bytes_max) {
    return std::nullopt;
  }
  taken.encoded_ = as_text(from.first(size));
  return taken;
}

std::vector<ExtendedAttribute> ExtendedAttributes::all() const {
  std::vector<ExtendedAttribute> all;
  all.reserve(count_);
  Reader reader(as_bytes(encoded_));
  for (std::size_t i = 0; i < count_; ++i) {
    const auto [name, value] = take_one(reader);
    all.push_back({std::string(name), std::string(value)});
  }
  return all;
}

void ExtendedAttributes::put(Writer& writer) const { writer.number(count_).bytes(as_bytes(encoded_)); }

}  // namespace sluice::ftx
