// SPDX-License-Identifier: Apache-2.0
#pragma once

// The links that are open, so that streams of one stream set that name one device share it. The set knows links, the
// streams own them: a link is closed with its last stream.

#include <functional>
#include <memory>
#include <string>

#include "dlpi/link.h"
#include "stack/core/registry.h"

namespace sluice::dlpi {

using LinkMaker = std::function<Result<std::shared_ptr<Link>>()>;

/// The link that the set has open under `name`, else what `make` makes. EINVAL when it is open with other parameters:
/// it has one MTU and one address.
Result<std::shared_ptr<Link>> open_link(StreamSet& set, const std::string& name, const Parameters& parameters,
                                        const LinkMaker& make);

/// nullptr when it is not open.
[[nodiscard]] std::shared_ptr<Link> find_link(StreamSet& set, const std::string& name);

}  // namespace sluice::dlpi
