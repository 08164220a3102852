// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/served_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "apps/ftx/files/system.h"
#include "apps/ftx/files/walk.h"
#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

/// Opens `path` below `root`; -1 and errno. EISDIR, ELOOP and EPERM say what it is instead of what may be sent.
int open_below(int root, const std::string& path, bool directories) {
  auto walk = path == "/" ? std::vector<std::string_view>() : components(path);
  Descriptor at = enter_directory(root, ".");
  if (walk.empty()) {
    return at.release();
  }
  const std::string last(walk.back());
  walk.pop_back();
  for (const std::string_view name : walk) {
    if (!at.valid()) {
      return -1;
    }
    at = enter_directory(at.get(), std::string(name).c_str());
  }
  struct stat status{};
  if (!at.valid() || look_at(at.get(), last.c_str(), status) != 0) {
    return -1;
  }
  if (S_ISDIR(status.st_mode) && directories) {
    return enter_directory(at.get(), last.c_str()).release();
  }
  if (!S_ISREG(status.st_mode)) {
    errno = S_ISDIR(status.st_mode) ? EISDIR : S_ISLNK(status.st_mode) ? ELOOP : EPERM;
    return -1;
  }
  // FileSource looks at it again, when it is open.
  constexpr int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  return retried([&] { return os().openat(at.get(), last.c_str(), flags, 0); });
}

bool is_served_path(const std::string& path, bool directories) {
  if (directories && path == "/") {
    return true;
  }
  return !path.empty() && (directories || !path.ends_with('/')) && is_relative_path(path);
}

}  // namespace

Result<ServedFiles> ServedFiles::serve(const std::string& directory) {
  auto root = std::make_shared<const Descriptor>(
      retried([&] { return os().openat(AT_FDCWD, directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0); }));
  if (!root->valid()) {
    const int code = errno;
    return fail(code, "cannot open the directory '" + printable(directory) + "': " + std::strerror(code));
  }
  return ServedFiles(std::move(root));
}

std::expected<std::unique_ptr<FileSource>, Failure> ServedFiles::open(std::span<const std::string> paths,
                                                                      SourceOptions options) const {
  const bool directories = options.trees != Trees::none;
  for (const std::string& path : paths) {
    if (!is_served_path(path, directories)) {
      return std::unexpected(Failure{
          ExitCode::refused, "'" + printable(path) +
                                 "': a path names a file inside what the server serves: no '..', no '/' in front or "
                                 "behind, no empty component, no control characters"});
    }
  }
  const auto open_path = [root = root_, directories](const std::string& path) {
    return open_below(root->get(), path, directories);
  };
  return FileSource::open(paths, open_path, std::move(options));
}

}  // namespace sluice::ftx
