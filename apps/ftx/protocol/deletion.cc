// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/protocol/deletion.h"

namespace sluice::ftx {
namespace {

enum DeletionFlag : std::uint8_t { empty_sources = 1, has_files_max = 2, all_deletion_flags = 3 };

}  // namespace

std::size_t encoded_bytes(const Deletion& deletion) { return 1 + 4 + encoded_bytes(deletion.rules); }

void put(Writer& writer, const Deletion& deletion) {
  writer.number(static_cast<std::uint8_t>((deletion.empty_sources ? empty_sources : 0) |
                                          (deletion.files_max ? has_files_max : 0)));
  writer.number(deletion.files_max.value_or(0));
  put(writer, deletion.rules);
}

std::optional<Deletion> take_deletion(Reader& reader) {
  const auto flags = reader.number<std::uint8_t>();
  const auto most = reader.number<std::uint32_t>();
  auto rules = take_filter_rules(reader);
  const bool bounded = (flags & has_files_max) != 0;
  if (!rules || !reader.exhausted() || flags > all_deletion_flags || (!bounded && most != 0)) {
    return std::nullopt;
  }
  return Deletion{.empty_sources = (flags & empty_sources) != 0,
                  .files_max = bounded ? std::optional(most) : std::nullopt,
                  .rules = *std::move(rules)};
}

}  // namespace sluice::ftx
