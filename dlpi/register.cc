// SPDX-License-Identifier: Apache-2.0
#include "dlpi/register.h"

#include <memory>

#include "dlpi/link_table.h"
#include "dlpi/memory_link.h"
#include "dlpi/packet.h"
#include "dlpi/pcap.h"
#include "dlpi/shared_link.h"
#include "dlpi/tap.h"
#include "dlpi/xdp.h"

namespace sluice::dlpi {

void add_drivers(Registry& registry) {
  const auto table = std::make_shared<LinkTable>();
  registry.add(memory_link_entry(table));
  registry.add(shared_link_entry(table));
  registry.add(packet_entry(table));
  registry.add(tap_entry(table));
  registry.add(pcap_entry(table));
  registry.add(xdp_entry(table));
}

}  // namespace sluice::dlpi
