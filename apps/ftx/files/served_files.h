// SPDX-License-Identifier: Apache-2.0
#pragma once

// ServedFiles: a directory tree of which clients of a standing server may fetch regular files. It opens the served
// directory once and keeps it open. It walks every path from there, component by component, without following links,
// each time that a file is opened.
//
// Threats: paths that lead out (`..`, absolute ones, symbolic links, also one that appears during the walk); a device,
// FIFO or terminal whose mere opening does something (what is no regular file is not opened: it is looked at first, and
// again when it is open, since it may have been swapped); a directory listing (a client gets one together with the
// files, when it asks for a tree, and of what it could fetch by name as well).
//
// Not thread-safe. Reads the file system by apps/ftx/files/system.h alone.

#include <expected>
#include <memory>
#include <span>
#include <string>

#include "apps/ftx/files/descriptor.h"
#include "apps/ftx/files/source.h"

namespace sluice::ftx {

class ServedFiles {
 public:
  /// Opens `directory` and follows symbolic links in it, since the user named it.
  [[nodiscard]] static Result<ServedFiles> serve(const std::string& directory);

  /// The files of `paths`, each relative to the served directory; with trees also directories, which may end in '/', of
  /// which "/" is the served one. The source holds the directory open as long as it lives. Failures: `refused` for
  /// a path that leads out, `source_unreadable`, and those of FileSource::open().
  [[nodiscard]] std::expected<std::unique_ptr<FileSource>, Failure> open(std::span<const std::string> paths,
                                                                         SourceOptions options = {}) const;

 private:
  explicit ServedFiles(std::shared_ptr<const Descriptor> root) : root_(std::move(root)) {}

  std::shared_ptr<const Descriptor> root_;
};

}  // namespace sluice::ftx
