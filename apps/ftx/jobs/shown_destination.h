// SPDX-License-Identifier: Apache-2.0
#pragma once

// ShownDestination: tells the observer of each file as it begins to arrive, where that wants to know. What is there
// already is passed over.
//
// Borrows the destination below and the observer. Not thread-safe.

#include <optional>
#include <span>
#include <string_view>

#include "apps/ftx/files/sink.h"
#include "apps/ftx/jobs/observer.h"

namespace sluice::ftx {

class ShownDestination final : public Destination {
 public:
  ShownDestination(Destination& below, Observer& observer) : below_(below), observer_(observer) {}

  [[nodiscard]] Result<std::optional<Deletion>> deletion(const std::optional<Deletion>& asked) override {
    return below_.deletion(asked);
  }
  [[nodiscard]] bool nothing_there(std::string_view path, const FileEntry& first) override {
    return below_.nothing_there(path, first);
  }
  [[nodiscard]] Result<std::unique_ptr<Sink>> open(std::string_view path, std::span<const FileEntry> entries) override;
  /// What would change is told by the session.
  [[nodiscard]] Result<std::unique_ptr<Survey>> survey(std::string_view path, std::span<const FileEntry> entries,
                                                       const Update& update,
                                                       const std::optional<Deletion>& deletion) override {
    return below_.survey(path, entries, update, deletion);
  }

 private:
  Destination& below_;
  Observer& observer_;
};

}  // namespace sluice::ftx
