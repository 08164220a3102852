// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/rmpp.h"

#include <memory>
#include <vector>

#include "stack/modules/message_protocol.h"

namespace sluice {
namespace {

std::vector<ParameterSpec> specs() {
  using enum ParameterSpec::Type;
  std::vector<ParameterSpec> specs = rmpp::parameter_specs();
  specs.push_back(
      {.name = "recovery",
       .type = text,
       .meaning = "What is sent again after a loss: the message, or only what lacks (selective); message if absent.",
       .choices = {"message", "selective"}});
  specs.push_back({.name = "timeout_ms",
                   .type = integer,
                   .meaning = "When nothing has come after so many ms the request is sent again; 20 if absent.",
                   .minimum = 1,
                   .maximum = 60000});
  specs.push_back({.name = "attempts",
                   .type = integer,
                   .meaning = "How often in a row, before the message fails; 16 if absent.",
                   .minimum = 1,
                   .maximum = 1000});
  return specs;
}

}  // namespace

Entry rmpp_entry() {
  return {
      .name = "rmpp",
      .summary = "messages of any length over datagrams, delivered whole, once and in order",
      .effect = "cuts messages into packets, by reference",
      .lower = static_cast<ServiceSet>(accepts(Service::transport) | accepts(Service::user)),
      .transparent = true,
      .parameters = specs(),
      .make = [](StreamSet&, const Parameters& parameters) -> Result<std::unique_ptr<Module>> {
        const bool selective = parameters.text("recovery", "message") == "selective";
        return std::make_unique<rmpp::Protocol>(
            "rmpp", rmpp::options_of(parameters, selective ? rmpp::Recovery::selective : rmpp::Recovery::message));
      },
  };
}

}  // namespace sluice
