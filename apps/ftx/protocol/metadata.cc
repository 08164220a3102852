// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/protocol/metadata.h"

#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

enum Has : std::uint8_t { has_user = 1, has_group = 2, has_attributes = 4, all_bits = 7 };

std::size_t encoded_bytes(const std::optional<Principal>& principal) {
  return principal ? 4 + 1 + principal->name.size() : 0;
}

void put(Writer& writer, const std::optional<Principal>& principal) {
  if (principal) {
    writer.number(principal->id).number(static_cast<std::uint8_t>(principal->name.size()));
    writer.bytes(as_bytes(principal->name));
  }
}

/// False: malformed.
bool take(Reader& reader, std::optional<Principal>& principal) {
  principal.emplace();
  principal->id = reader.number<std::uint32_t>();
  principal->name = as_text(reader.take(reader.number<std::uint8_t>()));
  return reader.ok() && principal->id <= Principal::id_max && is_printable(principal->name);
}

}  // namespace

std::size_t encoded_bytes(const Metadata& metadata) {
  return 1 + encoded_bytes(metadata.user) + encoded_bytes(metadata.group) +
         (metadata.attributes ? metadata.attributes->encoded_bytes() : 0);
}

void put(Writer& writer, const Metadata& metadata) {
  writer.number(static_cast<std::uint8_t>((metadata.user ? has_user : 0) | (metadata.group ? has_group : 0) |
                                          (metadata.attributes ? has_attributes : 0)));
  put(writer, metadata.user);
  put(writer, metadata.group);
  if (metadata.attributes) {
    metadata.attributes->put(writer);
  }
}

std::optional<Metadata> take_metadata(Reader& reader) {
  const auto has = reader.number<std::uint8_t>();
  Metadata metadata;
  bool good = reader.ok() && has <= all_bits;
  good = good && ((has & has_user) == 0 || take(reader, metadata.user));
  good = good && ((has & has_group) == 0 || take(reader, metadata.group));
  if (good && (has & has_attributes) != 0) {
    metadata.attributes = ExtendedAttributes::take(reader);
    good = metadata.attributes.has_value();
  }
  return good ? std::optional(std::move(metadata)) : std::nullopt;
}

}  // namespace sluice::ftx
