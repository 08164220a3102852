// SPDX-License-Identifier: Apache-2.0
#pragma once

// EarlierVersion: a regular file on disk as an EarlierFile. Where it changes while it is read, whatever was read
// counts: who searches it compares what he has read, and nothing else.
//
// Threat: a file of petabytes of holes. They are passed over, where the file system tells of them.
//
// Not thread-safe.

#include <sys/stat.h>
#include <sys/types.h>

#include "apps/ftx/files/descriptor.h"
#include "apps/ftx/files/sink.h"

namespace sluice::ftx {

class EarlierVersion final : public EarlierFile {
 public:
  /// `status` is that of `file`.
  EarlierVersion(Descriptor file, const struct stat& status);
  Result<std::size_t> read_on(Bytes out) override;

 private:
  Descriptor file_;
  bool sparse_;
  off_t at_ = 0;
  off_t data_to_;  // where a hole begins
};

}  // namespace sluice::ftx
