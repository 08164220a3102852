// SPDX-License-Identifier: Apache-2.0
#include "dlpi/register.h"

#include "dlpi/memory_link.h"
#include "dlpi/packet.h"
#include "dlpi/pcap.h"
#include "dlpi/shared_link.h"
#include "dlpi/tap.h"
#include "dlpi/xdp.h"

namespace sluice::dlpi {

void add_drivers(Registry& registry) {
  registry.add(memory_link_entry());
  registry.add(shared_link_entry());
  registry.add(packet_entry());
  registry.add(tap_entry());
  registry.add(pcap_entry());
  registry.add(xdp_entry());
}

}  // namespace sluice::dlpi
