// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/cli/fixed_destination.h"

#include <fnmatch.h>

#include <algorithm>
#include <cerrno>

namespace sluice::ftx {
namespace {

class WantedSink final : public Sink {
 public:
  WantedSink(std::unique_ptr<Sink> below, const std::vector<std::string>& wanted)
      : below_(std::move(below)), wanted_(wanted) {}

  Result<std::unique_ptr<SinkFile>> create(const FileEntry& entry) override {
    const bool wanted = std::any_of(wanted_.begin(), wanted_.end(), [&](const std::string& one) {
      // As glob(3) does: a leading period is matched by a period only.
      return one == entry.name || ::fnmatch(one.c_str(), entry.name.c_str(), FNM_PERIOD) == 0;
    });
    return wanted ? below_->create(entry) : fail(EPERM, "nobody asked for a file '" + entry.name + "'");
  }
  Status flush() override { return below_->flush(); }
  std::string path(const FileEntry& entry) const override { return below_->path(entry); }

 private:
  std::unique_ptr<Sink> below_;
  std::vector<std::string> wanted_;
};

}  // namespace

std::vector<std::string> wanted_names(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    names.push_back(path.substr(path.rfind('/') + 1));  // npos + 1 is 0
  }
  return names;
}

Result<std::unique_ptr<Sink>> FixedDestination::open(std::string_view, std::size_t files) {
  auto sink = below_.open(path_, files);
  if (!sink || wanted_.empty()) {
    return sink;
  }
  return std::make_unique<WantedSink>(*std::move(sink), wanted_);
}

}  // namespace sluice::ftx
