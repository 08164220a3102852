// SPDX-License-Identifier: Apache-2.0
#pragma once

// The extended attributes of a file or a directory that is open: read by who sends, compared and set by who receives.
// Those outside of ExtendedAttributes::name_space are neither seen nor touched.
//
// Threats: a file with attributes without end (bounds of xattr(7), and those of a list); attributes that change while
// they are read (a size that has grown is asked for again, a few times); a list from a peer (parsed before,
// apps/ftx/protocol/extended_attributes.h). All calls are of descriptors, so nothing is followed.

#include "apps/ftx/protocol/extended_attributes.h"
#include "base/result.h"

namespace sluice::ftx {

/// Null: it has more than may travel. A file system without attributes has none of them. Errors are those of errno.
[[nodiscard]] Result<std::optional<ExtendedAttributes>> read_extended_attributes(int descriptor);

/// Makes those of the file these: sets what is missing or differs, removes what is beside them. Of a file of this user
/// that may not be written to, the mode is another one meanwhile. Errors are those of errno.
[[nodiscard]] Status write_extended_attributes(int descriptor, const ExtendedAttributes& wanted);

}  // namespace sluice::ftx
