// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/security/known_hosts.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "apps/ftx/security/private_file.h"

namespace sluice::ftx {
namespace {

constexpr std::size_t host_bytes_max = 255;

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? std::string_view{}
                                         : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// Splits a line at its first blank; the second part has no blanks around it.
std::pair<std::string_view, std::string_view> split(std::string_view line) {
  const std::size_t blank = std::min(line.find_first_of(" \t"), line.size());
  return {line.substr(0, blank), trimmed(line.substr(blank))};
}

/// Calls take(line) for each line that is neither empty nor a comment.
template <class Take>
Status each_line(std::string_view text, const std::string& file, Take&& take) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    Status status;
    if (end > trust_line_bytes_max) {
      status = fail(EINVAL, "the line is longer than " + std::to_string(trust_line_bytes_max) + " bytes");
    } else if (!line.empty() && line.front() != '#') {
      status = take(line);
    }
    if (!status) {
      return fail(EINVAL, file + ":" + std::to_string(number) + ": " + status.error().text);
    }
  }
  return {};
}

Result<std::string> parse_host_and_port(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  unsigned port = 0;
  if (colon != std::string_view::npos) {
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (code == std::errc() && end == digits.data() + digits.size() && port <= 65535) {
      std::string_view host = text.substr(0, colon);
      const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
      if (bracketed) {
        host = host.substr(1, host.size() - 2);
      }
      if (bracketed == (host.find(':') != std::string_view::npos)) {
        return host_and_port(host, static_cast<std::uint16_t>(port));
      }
    }
  }
  return fail(EINVAL, "expected host:port, with an IPv6 address in brackets");
}

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

Result<std::string> host_and_port(std::string_view host, std::uint16_t port) {
  const bool is_ipv6 = host.find(':') != std::string_view::npos;
  const std::string_view more = is_ipv6 ? ":.%" : "-._";
  const bool good = !host.empty() && host.size() <= host_bytes_max && port != 0 &&
                    std::all_of(host.begin(), host.end(), [more](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                             more.find(c) != std::string_view::npos;
                    });
  if (!good) {
    return fail(EINVAL, "expected a host name or address, and a port of 1 to 65535");
  }
  std::string text = is_ipv6 ? "[" : "";
  for (const char c : host) {
    text += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return text + (is_ipv6 ? "]:" : ":") + std::to_string(port);
}

Result<KnownHosts> KnownHosts::parse(std::string_view text, const std::string& file) {
  KnownHosts hosts;
  const Status status = each_line(text, file, [&hosts](std::string_view line) -> Status {
    const auto [where, key] = split(line);
    Result<std::string> host = parse_host_and_port(where);
    if (!host) {
      return std::unexpected(host.error());
    }
    const Result<KeyPin> pin = KeyPin::parse(key);
    if (!pin) {
      return std::unexpected(pin.error());
    }
    if (!hosts.keys_.emplace(std::move(*host), *pin).second) {
      return fail(EINVAL, "a second line on this host and port");
    }
    return {};
  });
  if (!status) {
    return std::unexpected(status.error());
  }
  return hosts;
}

Result<KnownHosts> KnownHosts::load(const std::string& path) {
  const auto bytes = read_private_file(path, Readers::anybody);
  if (!bytes) {
    return bytes.error().code == ENOENT ? Result<KnownHosts>() : std::unexpected(bytes.error());
  }
  return parse(as_text(*bytes), path);
}

KnownHosts::Answer KnownHosts::look_up(const std::string& host, const KeyPin& key) const {
  const auto known = keys_.find(host);
  if (known == keys_.end()) {
    return Answer::unknown;
  }
  return known->second == key ? Answer::match : Answer::mismatch;
}

std::optional<KeyPin> KnownHosts::find(const std::string& host) const {
  const auto known = keys_.find(host);
  return known == keys_.end() ? std::nullopt : std::optional(known->second);
}

Status KnownHosts::add(const std::string& path, const std::string& host, const KeyPin& key) {
  std::string text;
  const auto bytes = read_private_file(path, Readers::anybody);
  if (bytes) {
    text = as_text(*bytes);
  } else if (bytes.error().code != ENOENT) {
    return std::unexpected(bytes.error());
  }
  const Result<KnownHosts> before = parse(text, path);
  if (!before) {
    return std::unexpected(before.error());  // never added to what cannot be read
  }
  if (before->find(host)) {
    return fail(EEXIST, path + " has a line on this host and port");
  }
  if (const Result<std::string> good = parse_host_and_port(host); !good || *good != host) {
    return fail(EINVAL, "expected host:port, with an IPv6 address in brackets");
  }
  if (!text.empty() && text.back() != '\n') {
    text += '\n';
  }
  text += host + " " + key.text() + "\n";
  return write_private_file(path, as_bytes(text), IfPresent::replace);
}

Result<AllowedKeys> AllowedKeys::parse(std::string_view text, const std::string& file) {
  AllowedKeys allowed;
  const Status status = each_line(text, file, [&allowed](std::string_view line) -> Status {
    const auto [option, rest] = split(line);
    const Access access = option == "read-only" ? Access::read : option == "write-only" ? Access::write : Access::both;
    const auto [key, name] = access == Access::both ? std::pair(option, rest) : split(rest);
    const Result<KeyPin> pin = KeyPin::parse(key);
    if (!pin) {
      return std::unexpected(pin.error());
    }
    if (name.empty() || !is_printable(name)) {
      return fail(EINVAL, "expected a name of printable ASCII characters behind the key");
    }
    if (!allowed.clients_.emplace(*pin, Client{std::string(name), access}).second) {
      return fail(EINVAL, "a second line on this key");
    }
    return {};
  });
  if (!status) {
    return std::unexpected(status.error());
  }
  return allowed;
}

Result<AllowedKeys> AllowedKeys::load(const std::string& path) {
  const auto bytes = read_private_file(path, Readers::anybody);
  if (!bytes) {
    return std::unexpected(bytes.error());
  }
  return parse(as_text(*bytes), path);
}

const AllowedKeys::Client* AllowedKeys::find(const KeyPin& key) const {
  const auto allowed = clients_.find(key);
  return allowed == clients_.end() ? nullptr : &allowed->second;
}

}  // namespace sluice::ftx
