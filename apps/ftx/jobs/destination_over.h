// SPDX-License-Identifier: Apache-2.0
#pragma once

// DestinationOver: a destination that stands before another one and does what that does. A derived class overrides what
// it changes, and calls below() for the rest.
//
// Borrows the destination below. Not thread-safe.

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "apps/ftx/files/sink.h"

namespace sluice::ftx {

class DestinationOver : public Destination {
 public:
  explicit DestinationOver(Destination& below) : below_(below) {}

  [[nodiscard]] Result<std::optional<Deletion>> deletion(const std::optional<Deletion>& asked) override {
    return below_.deletion(asked);
  }
  [[nodiscard]] bool nothing_there(std::string_view path, const FileEntry& first) override {
    return below_.nothing_there(path, first);
  }
  [[nodiscard]] Result<std::unique_ptr<Sink>> open(std::string_view path, std::span<const FileEntry> entries) override {
    return below_.open(path, entries);
  }
  [[nodiscard]] Result<std::unique_ptr<Survey>> survey(std::string_view path, std::span<const FileEntry> entries,
                                                       const Update& update,
                                                       const std::optional<Deletion>& deletion) override {
    return below_.survey(path, entries, update, deletion);
  }

 protected:
  [[nodiscard]] Destination& below() { return below_; }

 private:
  Destination& below_;
};

}  // namespace sluice::ftx
