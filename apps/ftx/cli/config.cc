// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/cli/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <toml++/toml.h>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "apps/ftx/remote/paths.h"
#include "apps/ftx/security/private_file.h"

namespace sluice::ftx {
namespace {

std::string origin_of(std::string_view file, const toml::source_region& source) {
  return fmt::format("{}:{}", file, source.begin.line);
}

std::optional<std::string> value_text(const toml::node& node) {
  if (const auto* text = node.as_string()) {
    return text->get();
  }
  if (const auto* number = node.as_integer()) {
    return std::to_string(number->get());
  }
  if (const auto* number = node.as_floating_point()) {
    return fmt::format("{}", number->get());
  }
  if (const auto* flag = node.as_boolean()) {
    return flag->get() ? "true" : "false";
  }
  return std::nullopt;
}

Result<Setting> read_setting(std::string_view file, const toml::key& key, const toml::node& node,
                             std::span<const std::string> keys) {
  Setting setting{.key = std::string(key.str()),
                  .value = {},
                  .is_flag = node.is_boolean(),
                  .origin = origin_of(file, key.source())};
  if (std::ranges::find(keys, setting.key) == keys.end()) {
    return fail(EINVAL, fmt::format("{}: there is no key '{}'; expected one of: {}", setting.origin, setting.key,
                                    fmt::join(keys, ", ")));
  }
  auto value = value_text(node);
  if (!value) {
    return fail(EINVAL, fmt::format("{}: {}: expected a text, a number, true or false", setting.origin, setting.key));
  }
  setting.value = *std::move(value);
  return setting;
}

Result<std::vector<Setting>> read_settings(std::string_view file, const toml::table& section,
                                           std::span<const std::string> keys) {
  std::vector<Setting> settings;
  for (const auto& [key, node] : section) {
    auto setting = read_setting(file, key, node, keys);
    if (!setting) {
      return std::unexpected(setting.error());
    }
    settings.push_back(*std::move(setting));
  }
  return settings;
}

Result<std::vector<Config::Section>> read_hosts(std::string_view file, const toml::node& hosts,
                                                std::span<const std::string> keys) {
  const std::string origin = origin_of(file, hosts.source());
  if (!hosts.is_table()) {
    return fail(EINVAL, fmt::format("{}: host: expected sections, such as [host.backup]", origin));
  }
  std::vector<Config::Section> sections;
  for (const auto& [name, settings] : *hosts.as_table()) {
    if (!settings.is_table() || name.str().empty()) {
      return fail(EINVAL, fmt::format("{}: host.{}: expected a section, such as [host.backup]",
                                      origin_of(file, name.source()), name.str()));
    }
    auto section = read_settings(file, *settings.as_table(), keys);
    if (!section) {
      return std::unexpected(section.error());
    }
    sections.push_back({.host = std::string(name.str()), .settings = *std::move(section)});
  }
  return sections;
}

}  // namespace

Result<Config> Config::load(std::span<const std::string> keys) {
  const char* const named = std::getenv("FTX_CONFIG");
  const std::string path = named != nullptr ? std::string(named) : config_directory() + "/config.toml";
  if (path.empty()) {
    return Config();
  }
  const auto content = read_private_file(path, Readers::anybody);
  if (!content) {
    return content.error().code == ENOENT && named == nullptr ? Result<Config>(Config())
                                                              : std::unexpected(content.error());
  }
  return parse(as_text(*content), path, keys);
}

Result<Config> Config::parse(std::string_view text, std::string_view file, std::span<const std::string> keys) {
  toml::table root;
  try {
    root = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    return fail(EINVAL, fmt::format("{}: {}", origin_of(file, error.source()), error.description()));
  }
  Config config;
  if (const auto host = root.find("host"); host != root.end()) {
    auto sections = read_hosts(file, host->second, keys);
    if (!sections) {
      return std::unexpected(sections.error());
    }
    config.sections_ = *std::move(sections);
    root.erase(host);
  }
  auto general = read_settings(file, root, keys);
  if (!general) {
    return std::unexpected(general.error());
  }
  config.sections_.push_back({.host = {}, .settings = *std::move(general)});
  return config;
}

std::vector<std::span<const Setting>> Config::sections_for(std::string_view host) const {
  std::vector<std::span<const Setting>> found;
  for (const Section& section : sections_) {
    if (section.host.empty() || section.host == host) {
      found.emplace_back(section.settings);
    }
  }
  return found;
}

}  // namespace sluice::ftx
