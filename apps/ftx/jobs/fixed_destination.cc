// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/fixed_destination.h"

#include <fnmatch.h>

#include <algorithm>
#include <cerrno>
#include <unordered_map>
#include <unordered_set>

#include "apps/ftx/files/filter.h"
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
  if (entry.stream()) {
    return fail(EPERM, "nobody asked for a stream '" + entry.name + "'");
  }
  if (entry.kind == EntryKind::hard_link && !wanted.select.hard_links) {
    return fail(EPERM, "nobody asked for a hard link '" + entry.name + "'");
  }
  if (entry.parent == 0 && !entry.top() && !may_come(wanted, entry)) {
    return fail(EPERM, "nobody asked for a file '" + entry.name + "'");
  }
  return {};
}

/// What of a tree may come.
class Selected {
 public:
  Selected(const Selection& selection, std::span<const FileEntry> entries)
      : selection_(selection), entries_(entries), filter_(selection.rules, Filter::Side::sender) {
    for (const std::string& name : selection.names.value_or(std::vector<std::string>{})) {
      add(name);
    }
  }

  [[nodiscard]] Status check(const FileEntry& entry) {
    if (entry.top()) {
      return {};
    }
    const bool directory = entry.kind == EntryKind::directory;
    const std::string path = path_of(entries_, entry);
    // The directories around what is named come whatever the rules say of them.
    if (filter_.excludes(path, directory) && !(directory && around_.contains(path))) {
      return fail(EPERM, "the other end sends '" + path + "', which is excluded");
    }
    if (selection_.names && !is_named(path, directory)) {
      return fail(EPERM, "nobody asked for '" + path + "'");
    }
    return {};
  }

 private:
  void add(const std::string& name) {
    const bool content = name.empty() || name.ends_with('/') || selection_.recursive;
    const std::string path = name.substr(0, name.size() - (name.ends_with('/') ? 1 : 0));
    for (std::size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
      around_.insert(path.substr(0, slash));
    }
    auto& contents = named_[path];
    contents = contents || content;
  }
  [[nodiscard]] bool is_named(std::string path, bool directory) const {
    if (named_.contains(path) || (directory && around_.contains(path))) {
      return true;
    }
    // In something whose content comes.
    do {
      path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
      if (const auto above = named_.find(path); above != named_.end() && above->second) {
        return true;
      }
    } while (selection_.recursive && !path.empty());
    return false;
  }

  const Selection& selection_;
  std::span<const FileEntry> entries_;
  Filter filter_;
  std::unordered_map<std::string, bool> named_;  // and whether what lies in it comes, too
  std::unordered_set<std::string> around_;
};

Status has_no_link(std::span<const FileEntry> entries) {
  const auto link = std::ranges::find(entries, EntryKind::link, &FileEntry::kind);
  if (link != entries.end()) {
    return fail(EPERM, "refused the symbolic link '" + path_of(entries, *link) + "': this server takes none");
  }
  return {};
}

}  // namespace

Wanted wanted_of(const std::vector<std::string>& paths, Wanted::Are are, Trees trees, const Selection& select) {
  Wanted wanted{{}, are, trees, select};
  if (select.names) {
    // Whatever lies in the one path; its name does not come.
    wanted.names = {""};
    return wanted;
  }
  for (const std::string& path : paths) {
    wanted.names.push_back(path.substr(path.rfind('/') + 1));  // npos + 1 is 0
  }
  return wanted;
}

Result<std::optional<Deletion>> FixedDestination::deletion(const std::optional<Deletion>& asked) {
  if (wanted_.names.empty()) {
    return below().deletion(asked);
  }
  if (asked) {
    return fail(EPERM, "nobody asked the other end to remove anything");
  }
  return wanted_.deletion;
}

Status FixedDestination::check_list(std::span<const FileEntry> entries) const {
  if (wanted_.names.empty()) {
    return {};
  }
  Selected selected(wanted_.select, entries);
  for (const FileEntry& entry : entries) {
    Status good = check(wanted_, entry);
    good = good ? selected.check(entry) : good;
    if (!good) {
      return good;
    }
  }
  // No name comes twice in a list, so as many as were asked for, of which each was, are all of them.
  const auto files = static_cast<std::size_t>(
      std::ranges::count_if(entries, [](const FileEntry& entry) { return entry.parent == 0 && !entry.top(); }));
  const bool any = wanted_.trees != Trees::none && std::ranges::any_of(wanted_.names, names_a_content);
  const bool all = wanted_.are == Wanted::Are::names && !any && wanted_.select.rules.empty();
  if (all && files != wanted_.names.size()) {
    return fail(EPERM, "the other end offers " + std::to_string(files) + " files, and was asked for " +
                           std::to_string(wanted_.names.size()));
  }
  return {};
}

/// Threat: a far side that asks for what it was not asked, to learn from the answer what lies here.
bool FixedDestination::nothing_there(std::string_view, const FileEntry& first) {
  return (wanted_.names.empty() || check(wanted_, first)) && below().nothing_there(path_, first);
}

Result<std::unique_ptr<Sink>> FixedDestination::open(std::string_view, std::span<const FileEntry> entries) {
  const Status good = check_list(entries);
  return good ? below().open(path_, entries) : std::unexpected(good.error());
}

Result<std::unique_ptr<Survey>> FixedDestination::survey(std::string_view, std::span<const FileEntry> entries,
                                                         const Update& update,
                                                         const std::optional<Deletion>& deletion) {
  const Status good = check_list(entries);
  return good ? below().survey(path_, entries, update, deletion) : std::unexpected(good.error());
}

Result<std::unique_ptr<Sink>> LinklessDestination::open(std::string_view path, std::span<const FileEntry> entries) {
  const Status good = has_no_link(entries);
  return good ? below().open(path, entries) : std::unexpected(good.error());
}

Result<std::unique_ptr<Survey>> LinklessDestination::survey(std::string_view path, std::span<const FileEntry> entries,
                                                            const Update& update,
                                                            const std::optional<Deletion>& deletion) {
  const Status good = has_no_link(entries);
  return good ? below().survey(path, entries, update, deletion) : std::unexpected(good.error());
}

}  // namespace sluice::ftx
