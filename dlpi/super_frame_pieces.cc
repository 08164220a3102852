// SPDX-License-Identifier: Apache-2.0
#include "dlpi/super_frame_pieces.h"

namespace sluice::dlpi {

bool SuperFramePieces::describe(Message& frame) {
  auto count = frame.runs(runs_);
  if (!count) {
    count = frame.gather() == TransformResult::done ? frame.runs(runs_) : std::nullopt;
  }
  if (!count) {
    return false;
  }
  header_ = offload_of(frame);
  pieces_[0] = {&header_, sizeof header_};
  for (std::size_t at = 0; at < *count; ++at) {
    pieces_[1 + at] = {const_cast<std::byte*>(runs_[at].data()), runs_[at].size()};
  }
  count_ = *count;
  return true;
}

}  // namespace sluice::dlpi
