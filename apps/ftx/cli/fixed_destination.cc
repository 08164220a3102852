// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/cli/fixed_destination.h"

#include <fnmatch.h>

#include <algorithm>
#include <cerrno>

namespace sluice::ftx {
namespace {

class WantedSink final : public Sink {
 public:
  WantedSink(std::unique_ptr<Sink> below, Wanted wanted) : below_(std::move(below)), wanted_(std::move(wanted)) {}

  Result<std::unique_ptr<SinkFile>> create(const FileEntry& entry) override {
    const bool wanted = std::any_of(wanted_.names.begin(), wanted_.names.end(), [&](const std::string& one) {
      // As glob(3) does: a leading period is matched by a period only.
      return one == entry.name ||
             (wanted_.are == Wanted::Are::patterns && ::fnmatch(one.c_str(), entry.name.c_str(), FNM_PERIOD) == 0);
    });
    return wanted ? below_->create(entry) : fail(EPERM, "nobody asked for a file '" + entry.name + "'");
  }
  Status flush() override { return below_->flush(); }
  std::string path(const FileEntry& entry) const override { return below_->path(entry); }

 private:
  std::unique_ptr<Sink> below_;
  Wanted wanted_;
};

}  // namespace

Wanted wanted_of(const std::vector<std::string>& paths, Wanted::Are are) {
  Wanted wanted{{}, are};
  for (const std::string& path : paths) {
    wanted.names.push_back(path.substr(path.rfind('/') + 1));  // npos + 1 is 0
  }
  return wanted;
}

Result<std::unique_ptr<Sink>> FixedDestination::open(std::string_view, std::size_t files) {
  // No name comes twice in a list, so as many as were asked for, of which each was, are all of them.
  if (wanted_.are == Wanted::Are::names && files != wanted_.names.size()) {
    return fail(EPERM, "the other end offers " + std::to_string(files) + " files, and was asked for " +
                           std::to_string(wanted_.names.size()));
  }
  auto sink = below_.open(path_, files);
  if (!sink || wanted_.names.empty()) {
    return sink;
  }
  return std::make_unique<WantedSink>(*std::move(sink), wanted_);
}

}  // namespace sluice::ftx
