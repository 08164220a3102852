// SPDX-License-Identifier: Apache-2.0
#pragma once

// FixedDestination: a destination where this side alone says where files go and, if it asked for them, which ones.
//
// Threat: a far side that sends other files than those that were asked for, such as .bashrc into a home directory (as
// CVE-2019-6111 of scp). The path that the sender offers counts for nothing, and a name that nobody asked for fails the
// transfer.
//
// Borrows the destination below. Not thread-safe.

#include <string>
#include <vector>

#include "apps/ftx/files/sink.h"

namespace sluice::ftx {

/// The last components of what was asked for: names, or patterns of names.
[[nodiscard]] std::vector<std::string> wanted_names(const std::vector<std::string>& paths);

class FixedDestination final : public Destination {
 public:
  /// `path`: as Destination::open() has it. `wanted` are names or patterns (glob(7)); none: all names are good.
  FixedDestination(Destination& below, std::string path, std::vector<std::string> wanted)
      : below_(below), path_(std::move(path)), wanted_(std::move(wanted)) {}

  [[nodiscard]] Result<std::unique_ptr<Sink>> open(std::string_view path, std::size_t files) override;

 private:
  Destination& below_;
  std::string path_;
  std::vector<std::string> wanted_;
};

}  // namespace sluice::ftx
