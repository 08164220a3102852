// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/udp_binding.h"

#include <utility>

#include "stack/core/primitive.h"
#include "stack/wire/protocol.h"

namespace sluice::udp {

Binding::Binding(Module& module, Hooks hooks)
    : Connectionless(module),
      hooks_(std::move(hooks)),
      port_(module, wire::protocol_udp,
            {.down = hooks_.down,
             .bound = [this] { bound(Encoded(port_.local()).bytes()); },
             .unbound = [this] { unbound(); },
             .refused = [this](std::int32_t tli_error, std::int32_t unix_error) { refused(tli_error, unix_error); }}) {}

/// An address with port 0 leaves the choice of the port to us.
void Binding::bind(ConstBytes address) {
  const auto wanted = PortBinding::wanted_by(address, hooks_.v6_only());
  if (!wanted) {
    return refused(wire::tpi::TBADADDR);
  }
  port_.bind(*wanted, replaces_busy());
}

void Binding::unbind() {
  hooks_.unbinding();
  port_.unbind();
}

void Binding::release() {
  hooks_.unbinding();
  port_.abandon();
}

}  // namespace sluice::udp
