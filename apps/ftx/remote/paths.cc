// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/remote/paths.h"

#include <fmt/format.h>
#include <glob.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

bool exists(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0;
}

bool is_directory(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::unexpected<Failure> no_such(std::string_view what, std::string_view path) {
  return std::unexpected(Failure{ExitCode::no_such_path, fmt::format("no such {}: '{}'", what, printable(path))});
}

}  // namespace

std::string home_directory() {
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') {
    return home;
  }
  const passwd* entry = ::getpwuid(::getuid());
  return entry != nullptr ? entry->pw_dir : "/";
}

/// XDG Base Directory Specification: "All paths set in these environment variables must be absolute. If an
/// implementation encounters a relative path in any of these variables it should consider the path invalid and ignore
/// it."
std::string config_directory() {
  const char* const configured = std::getenv("XDG_CONFIG_HOME");
  return (configured != nullptr && configured[0] == '/' ? std::string(configured) : home_directory() + "/.config") +
         "/ftx";
}

std::expected<std::string, Failure> from_home(std::string_view path, std::string_view home) {
  if (path.starts_with('/')) {
    return std::string(path);
  }
  if (path.empty() || path == "~" || path == "~/") {
    return std::string(home);
  }
  if (path.starts_with("~/")) {
    path.remove_prefix(2);
  } else if (path.starts_with('~')) {
    return std::unexpected(Failure{ExitCode::usage, fmt::format("'{}': of '~' only ~ and ~/PATH are understood; write "
                                                                "./{} for a file of that name",
                                                                printable(path), printable(path))});
  }
  return std::string(home) + "/" + std::string(path);
}

std::expected<Place, Failure> place_of(const std::string& path) {
  if (is_directory(path)) {
    return Place{path, {}};
  }
  const std::size_t slash = path.rfind('/');
  if (slash == path.size() - 1 || path.empty()) {
    return no_such("directory", path);
  }
  Place place{slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1)),
              slash == std::string::npos ? path : path.substr(slash + 1)};
  if (!is_directory(place.directory)) {
    return no_such("directory", place.directory);
  }
  if (!is_component(place.name)) {
    return std::unexpected(
        Failure{ExitCode::usage, fmt::format("'{}' cannot be the name of a file", printable(place.name))});
  }
  return place;
}

std::expected<std::vector<std::string>, Failure> expand(std::span<const std::string> patterns, std::string_view home) {
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    auto path = from_home(pattern, home);
    if (!path) {
      return std::unexpected(std::move(path.error()));
    }
    if (exists(*path)) {
      files.push_back(*std::move(path));
      continue;
    }
    glob_t found{};
    const int result = ::glob(path->c_str(), 0, nullptr, &found);
    if (result == 0) {
      files.insert(files.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
    }
    ::globfree(&found);
    if (result != 0) {
      return no_such("file", pattern);
    }
    if (files.size() > sources_max) {
      return std::unexpected(Failure{ExitCode::usage, "the patterns name too many files"});
    }
  }
  return files;
}

}  // namespace sluice::ftx
