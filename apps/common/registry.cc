// SPDX-License-Identifier: Apache-2.0
#include "apps/common/registry.h"

#include "dlpi/register.h"
#include "stack/modules/register.h"
#include "tpi/register.h"

namespace sluice {

Registry standard_registry() {
  Registry registry;
  add_modules(registry);
  dlpi::add_drivers(registry);
  tpi::add_providers(registry);
  return registry;
}

}  // namespace sluice
