// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where the data of a file lies that has holes, as the file system says it.

#include <sys/stat.h>

#include <optional>

#include "apps/ftx/protocol/extents.h"

namespace sluice::ftx {

/// True when the file has fewer blocks than its size asks for, so that asking for its extents may be worth it.
[[nodiscard]] bool looks_sparse(const struct stat& status);

/// lseek(2): SEEK_DATA goes "to the next location in the file greater than or equal to offset containing data",
/// SEEK_HOLE to the next hole, where there is "an implicit hole at the end of any file"; a file system need not report
/// holes. Null: it reports none, or cannot say. Extents::count_max * 2 calls at most.
[[nodiscard]] std::optional<Extents> extents_of(int descriptor, std::uint64_t size_bytes);

}  // namespace sluice::ftx
