// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/protocol/name.h"

#include <algorithm>

#include "base/contract.h"

namespace sluice::ftx {
namespace {

bool is_control(std::string_view text, std::size_t i) {
  const auto byte = static_cast<unsigned char>(text[i]);
  if (byte < 0x20 || byte == 0x7f) {
    return true;
  }
  if (byte < 0x80 || byte > 0x9f || i == 0) {
    return false;
  }
  return static_cast<unsigned char>(text[i - 1]) == 0xc2;
}

}  // namespace

bool is_printable(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_control(text, i)) {
      return false;
    }
  }
  return true;
}

std::string printable(std::string_view text) {
  std::string shown(text);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_control(text, i)) {
      shown[i] = '?';
    }
  }
  return shown;
}

bool is_component(std::string_view name) {
  if (name.empty() || name.size() > component_bytes_max || name == "." || name == "..") {
    return false;
  }
  return name.find('/') == std::string_view::npos && is_printable(name);
}

bool is_relative_path(std::string_view path) {
  if (path.ends_with('/')) {
    path.remove_suffix(1);
  } else if (path.empty()) {
    return true;
  }
  while (true) {
    const std::size_t slash = path.find('/');
    if (!is_component(path.substr(0, slash))) {
      return false;
    }
    if (slash == std::string_view::npos) {
      return true;
    }
    path.remove_prefix(slash + 1);
  }
}

std::vector<std::string_view> components(std::string_view path) {
  SLUICE_REQUIRE(is_relative_path(path));
  std::vector<std::string_view> list;
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    list.push_back(path.substr(0, slash));
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return list;
}

}  // namespace sluice::ftx
