// SPDX-License-Identifier: Apache-2.0
#pragma once

// DirectoryDestination: a directory tree that receives files. It opens the served directory once and keeps it open. It
// walks every path of a peer from there, component by component, with O_NOFOLLOW, so neither `..` nor a symbolic link
// leads out, even one that appears during the walk. It creates temporary files with O_EXCL beside the final name and
// renames them over it.
//
// Payloads land by a write call or through a map of the file (LandBy). The first ADU extends a mapped file to its size;
// the file is sparse, so missing parts take no disk space. Payloads are written instead when the extension fails
// (EFBIG), when the file system does not map, or when the process has no window left. A full disk and a file that
// another process truncates are errors, as with a write call, and never crashes (apps/ftx/files/mapped_window.h).
//
// Not thread-safe. No other part of ftx writes to a file system.

#include <memory>
#include <string>

#include "apps/ftx/files/descriptor.h"
#include "apps/ftx/files/ownership.h"
#include "apps/ftx/files/partial.h"
#include "apps/ftx/files/sink.h"
#include "apps/ftx/files/workers.h"
#include "base/prng.h"

namespace sluice::ftx {

/// How payloads reach a file.
enum class LandBy : std::uint8_t {
  faster,  // through a map for small ADUs of large files that arrive roughly in order, else by a write call
  map,     // through a map where possible: for trusted peers only (apps/ftx/files/window_set.h)
  write,   // by a write call, always
};

class DirectoryDestination final : public Destination {
 public:
  /// Opens `directory` and follows symbolic links in it, since the user named it. `seed` makes temporary names.
  [[nodiscard]] static Result<std::unique_ptr<DirectoryDestination>> serve(const std::string& directory,
                                                                           std::uint64_t seed,
                                                                           LandBy land_by = LandBy::faster,
                                                                           PartialOptions partials = {});

  /// Senders may have removed what their lists do not have.
  void allow_deletion() { may_delete_ = true; }
  [[nodiscard]] Result<std::optional<Deletion>> deletion(const std::optional<Deletion>& asked) override {
    return may_delete_ ? Result<std::optional<Deletion>>(asked) : Destination::deletion(asked);
  }
  /// `workers` help to store small files. They must outlive the sinks.
  void employ(Workers& workers) { workers_ = &workers; }
  /// What is set of owners and extended attributes; without this nothing.
  void keep(Kept kept) {
    takes_attributes_ = kept.attributes;
    ownership_ = Ownership(std::move(kept));
  }
  [[nodiscard]] bool nothing_there(std::string_view path, const FileEntry& first) override;
  /// `path` names a directory when it exists as one, is empty or ends in '/'; else it is the new name of the one entry
  /// that lies in no other, or of a directory that is made for the content of one.
  [[nodiscard]] Result<std::unique_ptr<Sink>> open(std::string_view path, std::span<const FileEntry> entries) override;
  [[nodiscard]] Result<std::unique_ptr<Survey>> survey(std::string_view path, std::span<const FileEntry> entries,
                                                       const Update& update,
                                                       const std::optional<Deletion>& deletion) override;

 private:
  DirectoryDestination(Descriptor root, std::uint64_t seed, LandBy land_by, PartialOptions partials)
      : root_(std::move(root)), prng_(seed), land_by_(land_by), partials_(partials) {}
  [[nodiscard]] Status check_attributes(std::span<const FileEntry> entries) const;

  Descriptor root_;
  Prng prng_;
  LandBy land_by_;
  Partials partials_;
  bool may_delete_ = false;
  bool takes_attributes_ = false;
  Ownership ownership_;
  Workers* workers_ = nullptr;
};

}  // namespace sluice::ftx
