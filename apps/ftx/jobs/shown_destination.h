// SPDX-License-Identifier: Apache-2.0
#pragma once

// ShownDestination: tells the observer of each file as it begins to arrive, where that wants to know. What is there
// already is passed over. What would change is told by the session.
//
// Borrows the destination below and the observer. Not thread-safe.

#include <memory>
#include <span>
#include <string_view>

#include "apps/ftx/jobs/destination_over.h"
#include "apps/ftx/jobs/observer.h"

namespace sluice::ftx {

class ShownDestination final : public DestinationOver {
 public:
  ShownDestination(Destination& below, Observer& observer) : DestinationOver(below), observer_(observer) {}

  [[nodiscard]] Result<std::unique_ptr<Sink>> open(std::string_view path, std::span<const FileEntry> entries) override;

 private:
  Observer& observer_;
};

}  // namespace sluice::ftx
