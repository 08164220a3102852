// SPDX-License-Identifier: Apache-2.0
#pragma once

// Fills a registry with the drivers of this folder: wire, packet, tap, pcap, xdp. Streams of one stream set that name
// one device share its link; the table of links lives as long as the registry's entries.

#include "stack/core/registry.h"

namespace sluice::dlpi {

void add_drivers(Registry& registry);

}  // namespace sluice::dlpi
