// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/cli/fixed_destination.h"

#include <fnmatch.h>

#include <algorithm>
#include <cerrno>

#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

/// A path that names a directory without its name: what lies in it may have any.
bool names_a_content(std::string_view name) { return means_content(name) || name == "~"; }

bool may_come(const Wanted& wanted, const FileEntry& entry) {
  return std::ranges::any_of(wanted.names, [&](const std::string& one) {
    // As glob(3) does: a leading period is matched by a period only.
    return one == entry.name || (wanted.trees != Trees::none && names_a_content(one)) ||
           (wanted.are == Wanted::Are::patterns && ::fnmatch(one.c_str(), entry.name.c_str(), FNM_PERIOD) == 0);
  });
}

/// What of `wanted` does not hold for `entry`.
Status check(const Wanted& wanted, const FileEntry& entry) {
  if (entry.kind == EntryKind::directory && wanted.trees == Trees::none) {
    return fail(EPERM, "nobody asked for a directory '" + entry.name + "'");
  }
  if (entry.kind == EntryKind::link && wanted.trees != Trees::with_links) {
    return fail(EPERM, "nobody asked for a symbolic link '" + entry.name + "'");
  }
  if (entry.parent == 0 && !entry.top() && !may_come(wanted, entry)) {
    return fail(EPERM, "nobody asked for a file '" + entry.name + "'");
  }
  return {};
}

}  // namespace

Wanted wanted_of(const std::vector<std::string>& paths, Wanted::Are are, Trees trees) {
  Wanted wanted{{}, are, trees};
  for (const std::string& path : paths) {
    wanted.names.push_back(path.substr(path.rfind('/') + 1));  // npos + 1 is 0
  }
  return wanted;
}

Result<std::unique_ptr<Sink>> FixedDestination::open(std::string_view, std::span<const FileEntry> entries) {
  if (wanted_.names.empty()) {
    return below_.open(path_, entries);
  }
  for (const FileEntry& entry : entries) {
    if (Status good = check(wanted_, entry); !good) {
      return std::unexpected(good.error());
    }
  }
  // No name comes twice in a list, so as many as were asked for, of which each was, are all of them.
  const auto files = static_cast<std::size_t>(
      std::ranges::count_if(entries, [](const FileEntry& entry) { return entry.parent == 0 && !entry.top(); }));
  const bool any = wanted_.trees != Trees::none && std::ranges::any_of(wanted_.names, names_a_content);
  if (wanted_.are == Wanted::Are::names && !any && files != wanted_.names.size()) {
    return fail(EPERM, "the other end offers " + std::to_string(files) + " files, and was asked for " +
                           std::to_string(wanted_.names.size()));
  }
  return below_.open(path_, entries);
}

Result<std::unique_ptr<Sink>> LinklessDestination::open(std::string_view path, std::span<const FileEntry> entries) {
  const auto link = std::ranges::find(entries, EntryKind::link, &FileEntry::kind);
  if (link != entries.end()) {
    return fail(EPERM, "refused the symbolic link '" + path_of(entries, *link) + "': this server takes none");
  }
  return below_.open(path, entries);
}

}  // namespace sluice::ftx
