// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/directory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "apps/ftx/files/directory_file.h"
#include "apps/ftx/files/directory_sink.h"
#include "apps/ftx/files/directory_survey.h"
#include "apps/ftx/files/listing.h"
#include "apps/ftx/files/system.h"
#include "apps/ftx/files/walk.h"
#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

/// True when `name` is a directory, false when it is another file or missing.
Result<bool> is_directory(int parent, const std::string& name) {
  struct stat status{};
  if (look_at(parent, name.c_str(), status) != 0) {
    if (errno == ENOENT) {
      return false;
    }
    return system_error("cannot look at", name);
  }
  if (S_ISLNK(status.st_mode)) {
    errno = ELOOP;
    return system_error("refused the symbolic link", name);
  }
  return S_ISDIR(status.st_mode);
}

/// Where a list goes below the open directory `root`. A directory for the content of one is made if that is asked for,
/// else left invalid.
Result<DirectorySink::Place> find_place(int root, std::string_view path, std::span<const FileEntry> entries,
                                        bool make) {
  std::vector<std::string_view> walk = components(path);
  std::optional<std::string> last;
  if (!walk.empty() && !path.ends_with('/')) {
    last = std::string(walk.back());
    walk.pop_back();
  }
  DirectorySink::Place place;
  // Opening "." gives a second descriptor of the served directory.
  Descriptor& at = place.directory = enter_directory(root, ".");
  if (!at.valid()) {
    return system_error("cannot open", "the served directory");
  }
  std::string& shown = place.shown;
  const auto enter = [&](const std::string& name) {
    at = enter_directory(at.get(), name.c_str());
    shown += name + "/";
    return at.valid();
  };
  for (const std::string_view name : walk) {
    if (!enter(std::string(name))) {
      return system_error("cannot open the directory", shown);
    }
  }
  if (last) {
    const auto directory = is_directory(at.get(), *last);
    if (!directory) {
      return std::unexpected(directory.error());
    }
    // The content of a directory may go into one that is not there yet.
    const bool content = !entries.empty() && entries.front().top();
    if (!*directory && content && !make) {
      at = Descriptor();
      shown += *last + "/";
      return place;
    }
    if (!*directory && content) {
      if (retried([&] { return os().mkdirat(at.get(), last->c_str(), 0700); }) != 0) {
        return system_error("cannot make the directory", *last);
      }
      place.made = true;
    } else if (!*directory && std::ranges::count(entries, 0U, &FileEntry::parent) != 1) {
      return fail(ENOTDIR, "several files need a directory, and '" + *last + "' is none");
    }
    if ((*directory || place.made) && !enter(*std::exchange(last, std::nullopt))) {
      return system_error("cannot open the directory", shown);
    }
  }
  place.new_name = std::move(last);
  return place;
}

}  // namespace

Result<std::unique_ptr<DirectoryDestination>> DirectoryDestination::serve(const std::string& directory,
                                                                          std::uint64_t seed, LandBy land_by,
                                                                          PartialOptions partials) {
  Descriptor root(
      retried([&] { return os().openat(AT_FDCWD, directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0); }));
  if (!root.valid()) {
    return system_error("cannot open the directory", directory);
  }
  return std::unique_ptr<DirectoryDestination>(new DirectoryDestination(std::move(root), seed, land_by, partials));
}

/// Threat: a name of the peer's, in a list that nobody has checked as a whole. first_entry() has checked this one, and
/// the walk follows no link.
bool DirectoryDestination::nothing_there(std::string_view path, const FileEntry& first) {
  auto place = find_place(root_.get(), path, {&first, 1}, false);
  if (!place) {
    return false;  // open() says why
  }
  if (first.top()) {
    if (!place->directory.valid()) {
      return true;  // it will be made
    }
    Listing listing(std::move(place->directory));
    return listing.valid() && listing.empty();
  }
  struct stat status{};
  return look_at(place->directory.get(), place->new_name.value_or(first.name).c_str(), status) != 0 && errno == ENOENT;
}

/// Threat: attributes that nobody here has asked for, and that other programs here believe.
Status DirectoryDestination::check_attributes(std::span<const FileEntry> entries) const {
  const auto has = [](const FileEntry& entry) { return entry.attributes() != nullptr; };
  const auto one = takes_attributes_ ? entries.end() : std::ranges::find_if(entries, has);
  return one == entries.end() ? Status()
                              : Status(fail(EPERM, "refused the extended attributes of '" + path_of(entries, *one) +
                                                       "': none are taken here"));
}

Result<std::unique_ptr<Sink>> DirectoryDestination::open(std::string_view path, std::span<const FileEntry> entries) {
  if (Status good = check_attributes(entries); !good) {
    return std::unexpected(good.error());
  }
  auto place = find_place(root_.get(), path, entries, true);
  if (!place) {
    return std::unexpected(place.error());
  }
  if (entries.size() == 1 && entries.front().stream() && !place->new_name) {
    return fail(EISDIR, "'" + printable(place->shown) + "' is a directory: a stream needs the name of a file");
  }
  const DirectorySink::Means means{
      .land_by = land_by_, .partials = partials_, .ownership = ownership_, .workers = workers_};
  return std::make_unique<DirectorySink>(*std::move(place), entries, prng_(), means);
}

Result<std::unique_ptr<Survey>> DirectoryDestination::survey(std::string_view path, std::span<const FileEntry> entries,
                                                             const Update& update,
                                                             const std::optional<Deletion>& deletion) {
  if (Status good = check_attributes(entries); !good) {
    return std::unexpected(good.error());
  }
  auto place = find_place(root_.get(), path, entries, false);
  if (!place) {
    return std::unexpected(place.error());
  }
  return std::make_unique<DirectorySurvey>(*std::move(place), entries, update, deletion, ownership_);
}

}  // namespace sluice::ftx
