// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/name_list.h"

#include <algorithm>

#include "apps/ftx/protocol/message.h"
#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

std::expected<std::string, std::string> parse_name(std::string_view text) {
  const auto wrong = [&](std::string_view why) {
    return std::unexpected("'" + printable(text) + "': " + std::string(why));
  };
  if (text.starts_with('/')) {
    return wrong("names are relative to the source, without a '/' in front");
  }
  std::string name;
  const bool directory = text.ends_with('/') || text.ends_with("/.");
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    const std::string_view component = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (component.empty() || component == ".") {
      continue;
    }
    if (component == "..") {
      return wrong("names may not hold '..'");
    }
    if (!is_component(component)) {
      return wrong("a name of more than 255 bytes, or with control characters, cannot be sent");
    }
    name += (name.empty() ? "" : "/") + std::string(component);
  }
  name += directory && !name.empty() ? "/" : "";
  return name.size() <= path_bytes_max ? std::expected<std::string, std::string>(std::move(name))
                                       : wrong("it is longer than " + std::to_string(path_bytes_max) + " bytes");
}

}  // namespace

std::expected<std::vector<std::string>, std::string> parse_name_list(std::string_view list, NameEnd end) {
  std::vector<std::string> names;
  for (std::size_t number = 1; !list.empty(); ++number) {
    const std::size_t size = std::min(list.find(end == NameEnd::nul ? '\0' : '\n'), list.size());
    std::string_view text = list.substr(0, size);
    list.remove_prefix(std::min(size + 1, list.size()));
    if (end == NameEnd::line && text.ends_with('\r')) {
      text.remove_suffix(1);
    }
    if (text.empty() || (end == NameEnd::line && (text.front() == '#' || text.front() == ';'))) {
      continue;
    }
    auto name = parse_name(text);
    if (!name) {
      return std::unexpected((end == NameEnd::nul ? "name " : "line ") + std::to_string(number) + ": " + name.error());
    }
    names.push_back(*std::move(name));
  }
  return names;
}

}  // namespace sluice::ftx
