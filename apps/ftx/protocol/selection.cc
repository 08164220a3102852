// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/protocol/selection.h"

#include <algorithm>

#include "apps/ftx/protocol/message.h"
#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

enum SelectionFlag : std::uint8_t {
  hard_links = 1,
  left_out = 2,
  has_names = 4,
  recursive = 8,
  digests = 16,
  attributes = 32,
  user = 64,
  group = 128,
};

std::uint8_t flags_of(const Selection& selection) {
  return static_cast<std::uint8_t>((selection.hard_links ? hard_links : 0) | (selection.left_out ? left_out : 0) |
                                   (selection.names ? has_names : 0) | (selection.recursive ? recursive : 0) |
                                   (selection.digests ? digests : 0) | (selection.attributes ? attributes : 0) |
                                   (selection.user ? user : 0) | (selection.group ? group : 0));
}

bool is_name(std::string_view name) { return name.size() <= path_bytes_max && is_relative_path(name); }

bool agrees(const Selection& selection) { return selection.names || !selection.recursive; }

}  // namespace

bool fit(const Selection& selection) {
  return fit(selection.rules) && agrees(selection) &&
         (!selection.names ||
          (selection.names->size() <= selected_names_max && std::ranges::all_of(*selection.names, is_name)));
}

std::size_t encoded_bytes(const Selection& selection) {
  std::size_t size = 1 + encoded_bytes(selection.rules) + (selection.names ? 2 : 0);
  for (const std::string& name : selection.names.value_or(std::vector<std::string>{})) {
    size += 2 + name.size();
  }
  return size;
}

void put(Writer& writer, const Selection& selection) {
  writer.number(flags_of(selection));
  put(writer, selection.rules);
  if (!selection.names) {
    return;
  }
  writer.number(static_cast<std::uint16_t>(selection.names->size()));
  for (const std::string& name : *selection.names) {
    writer.number(static_cast<std::uint16_t>(name.size())).bytes(as_bytes(name));
  }
}

std::optional<Selection> take_selection(Reader& reader) {
  const auto flags = reader.number<std::uint8_t>();
  auto rules = take_filter_rules(reader);
  if (!rules) {
    return std::nullopt;
  }
  Selection selection{.rules = *std::move(rules),
                      .hard_links = (flags & hard_links) != 0,
                      .digests = (flags & digests) != 0,
                      .left_out = (flags & left_out) != 0,
                      .attributes = (flags & attributes) != 0,
                      .user = (flags & user) != 0,
                      .group = (flags & group) != 0,
                      .recursive = (flags & recursive) != 0};
  if ((flags & has_names) != 0) {
    const std::size_t count = reader.number<std::uint16_t>();
    if (count > selected_names_max) {
      return std::nullopt;
    }
    auto& names = selection.names.emplace();
    for (std::size_t i = 0; i < count && reader.ok(); ++i) {
      names.emplace_back(as_text(reader.take(reader.number<std::uint16_t>())));
      if (!is_name(names.back())) {
        return std::nullopt;
      }
    }
  }
  return reader.ok() && agrees(selection) ? std::optional(std::move(selection)) : std::nullopt;
}

}  // namespace sluice::ftx
