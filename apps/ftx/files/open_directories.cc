// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/open_directories.h"

#include <algorithm>
#include <utility>

namespace sluice::ftx {

OpenDirectories::Open* OpenDirectories::find(std::uint32_t parent) {
  const auto found = std::ranges::find(open_, parent, &Open::parent);
  if (found == open_.end()) {
    return nullptr;
  }
  found->used = ++uses_;
  return found;
}

int OpenDirectories::at(std::uint32_t parent) {
  // Up to the nearest that is open, then down again.
  way_.clear();
  int from = root_.get();
  for (std::uint32_t up = parent; up != 0; up = entries_[up - 1].parent) {
    if (Open* const open = find(up)) {
      from = open->descriptor.get();
      break;
    }
    way_.push_back(up);
  }
  Descriptor entered;
  for (; !way_.empty(); way_.pop_back()) {
    entered = enter_(from, way_.back() - 1);
    if (!entered.valid()) {
      return -1;
    }
    from = entered.get();
  }
  if (entered.valid()) {
    *std::ranges::min_element(open_, {}, &Open::used) = {parent, ++uses_, std::move(entered)};
  }
  return from;
}

}  // namespace sluice::ftx
