// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/confined.h"

#include <filesystem>
#include <set>

namespace sluice::ftx {
namespace {

/// Where `path` lies.
std::string directory_of(const std::string& path) {
  const std::size_t slash = path.find_last_not_of('/');
  const std::size_t end = path.find_last_of('/', slash);
  return slash == std::string::npos || end == 0 ? "/" : end == std::string::npos ? "." : path.substr(0, end);
}

}  // namespace

FileRights rights_to_send(std::span<const std::string> sources) {
  if (sources.size() <= single_sources_max) {
    return {.read = {sources.begin(), sources.end()}, .write = {}};
  }
  std::set<std::string> directories;
  for (const std::string& source : sources) {
    directories.insert(directory_of(source));
  }
  return {.read = {directories.begin(), directories.end()}, .write = {}};
}

FileRights rights_to_receive(const std::string& directory) { return {.read = {}, .write = {directory}}; }

FileRights rights_to_serve(const std::string& directory, Access access, const std::string& allowed_keys) {
  FileRights rights =
      allows(access, Access::write) ? rights_to_receive(directory) : FileRights{.read = {directory}, .write = {}};
  if (!allowed_keys.empty()) {
    rights.read.push_back(directory_of(allowed_keys));
    // Where it is a link, what that leads to may be replaced, too.
    std::error_code missing;
    const auto target = std::filesystem::canonical(allowed_keys, missing);
    if (!missing) {
      rights.read.push_back(directory_of(target.string()));
    }
  }
  return rights;
}

FileRights and_to_replace(FileRights rights, const std::string& path) {
  rights.write.push_back(directory_of(path));
  return rights;
}

void forbid_core_dumps(const CommonOptions& options) {
  if (options.own_process) {
    [[maybe_unused]] const Status forbidden = forbid_core_dumps();
  }
}

void restrict_files(const CommonOptions& options, const FileRights& files) {
  if (options.own_process) {
    [[maybe_unused]] const Status restricted = restrict_files(files);
  }
}

void confine(const CommonOptions& options, const FileRights& files, Observer& observer, const Kept& kept,
             std::optional<pid_t> child) {
  if (!options.own_process) {
    return;
  }
  const CallRights calls{.child = child,
                         .drivers = !options.stack_file.empty(),
                         .owners = kept.user || kept.group,
                         .attributes = kept.attributes};
  std::string missing;
  for (const Status& confined : {restrict_files(files), restrict_calls(calls)}) {
    if (!confined) {
      missing += (missing.empty() ? "" : ", ") + confined.error().text;
    }
  }
  if (!missing.empty()) {
    Event event;
    event.kind = Event::Kind::unconfined;
    event.text = missing;
    observer.show(event);
  }
}

}  // namespace sluice::ftx
