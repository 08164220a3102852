// SPDX-License-Identifier: Apache-2.0
#include "stack/core/stream_set.h"

#include <algorithm>

namespace sluice {

void StreamSet::add_source(EventSource& source) {
  sources_.push_back(&source);
  ++sources_version_;
}

void StreamSet::remove_source(EventSource& source) {
  std::erase(sources_, &source);
  ++sources_version_;
}

}  // namespace sluice
