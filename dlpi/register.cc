// SPDX-License-Identifier: Apache-2.0
#include "dlpi/register.h"

#include <memory>

#include "dlpi/link_table.h"
#include "dlpi/packet.h"
#include "dlpi/pcap.h"
#include "dlpi/tap.h"
#include "dlpi/wire.h"

namespace sluice::dlpi {

void add_drivers(Registry& registry) {
  const auto table = std::make_shared<LinkTable>();
  registry.add(wire_entry(table));
  registry.add(packet_entry(table));
  registry.add(tap_entry(table));
  registry.add(pcap_entry(table));
}

}  // namespace sluice::dlpi
