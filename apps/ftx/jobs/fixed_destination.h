// SPDX-License-Identifier: Apache-2.0
#pragma once

// FixedDestination: a destination where this side alone says where files go and, if it asked for them, which ones.
//
// Threat: a far side that sends other files than those that were asked for, such as .bashrc into a home directory (as
// CVE-2019-6111 of scp). The path that the sender offers counts for nothing, and a name that nobody asked for fails the
// transfer. So does what filter rules exclude, or a list of names has not.
//
// Borrows the destination below. Not thread-safe.

#include <cstdint>
#include <string>
#include <vector>

#include "apps/ftx/jobs/destination_over.h"
#include "apps/ftx/protocol/manifest.h"
#include "apps/ftx/protocol/selection.h"

namespace sluice::ftx {

/// What may come.
struct Wanted {
  /// Patterns (glob(7)); any number may match. Names: exactly these, each of them.
  enum class Are : std::uint8_t { patterns, names };
  std::vector<std::string> names{};  // of what lies in no directory of the list; none: everything is good
  Are are = Are::patterns;
  Trees trees = Trees::none;
  Selection select{};
  std::optional<Deletion> deletion{};  // what this side removes; what the sender asks counts for nothing
};

/// The last components of what was asked for.
[[nodiscard]] Wanted wanted_of(const std::vector<std::string>& paths, Wanted::Are are, Trees trees = Trees::none,
                               const Selection& select = {});

/// A destination that takes no symbolic links: what one means, who made it alone decides.
///
/// Threat: a client that leaves a link in what a server serves, which other programs there follow to where they lead.
class LinklessDestination final : public DestinationOver {
 public:
  using DestinationOver::DestinationOver;

  [[nodiscard]] Result<std::unique_ptr<Sink>> open(std::string_view path, std::span<const FileEntry> entries) override;
  [[nodiscard]] Result<std::unique_ptr<Survey>> survey(std::string_view path, std::span<const FileEntry> entries,
                                                       const Update& update,
                                                       const std::optional<Deletion>& deletion) override;
};

class FixedDestination final : public DestinationOver {
 public:
  /// `path`: as Destination::open() has it.
  FixedDestination(Destination& below, std::string path, Wanted wanted)
      : DestinationOver(below), path_(std::move(path)), wanted_(std::move(wanted)) {}

  /// Of what was asked for alone.
  [[nodiscard]] bool nothing_there(std::string_view path, const FileEntry& first) override;
  [[nodiscard]] Result<std::unique_ptr<Sink>> open(std::string_view path, std::span<const FileEntry> entries) override;
  /// Where files were asked for: what they were asked for with.
  [[nodiscard]] Result<std::optional<Deletion>> deletion(const std::optional<Deletion>& asked) override;
  [[nodiscard]] Result<std::unique_ptr<Survey>> survey(std::string_view path, std::span<const FileEntry> entries,
                                                       const Update& update,
                                                       const std::optional<Deletion>& deletion) override;

 private:
  [[nodiscard]] Status check_list(std::span<const FileEntry> entries) const;

  std::string path_;
  Wanted wanted_;
};

}  // namespace sluice::ftx
