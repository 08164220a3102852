// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/null.h"

#include <memory>

namespace sluice {

Entry null_entry() {
  return {
      .name = "null",
      .summary = "passes everything; the base line for benchmarks",
      .transparent = true,
      .make = [](StreamSet&, const Parameters&) -> Result<std::unique_ptr<Module>> { return std::make_unique<Null>(); },
  };
}

}  // namespace sluice
