// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/utopia.h"

#include <memory>

#include "stack/modules/message_protocol.h"

namespace sluice {

Entry utopia_entry() {
  return {
      .name = "utopia",
      .summary = "messages of any length over datagrams, without recovery",
      .effect = "cuts messages into packets, by reference",
      .lower = static_cast<ServiceSet>(accepts(Service::transport) | accepts(Service::user)),
      .transparent = true,
      .parameters = rmpp::parameter_specs(),
      .make = [](StreamSet&, const Parameters& parameters) -> Result<std::unique_ptr<Module>> {
        return std::make_unique<rmpp::Protocol>("utopia", rmpp::options_of(parameters, rmpp::Recovery::none));
      },
  };
}

}  // namespace sluice
