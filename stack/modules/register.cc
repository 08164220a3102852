// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/register.h"

#include "stack/modules/capture.h"
#include "stack/modules/fault.h"
#include "stack/modules/ip.h"
#include "stack/modules/null.h"
#include "stack/modules/rmpp.h"
#include "stack/modules/tcp.h"
#include "stack/modules/timod.h"
#include "stack/modules/tirdwr.h"
#include "stack/modules/udp.h"
#include "stack/modules/utopia.h"
#include "stack/modules/xdr.h"
#include "stack/modules/xtp.h"

namespace sluice {

void add_modules(Registry& registry) {
  registry.add(capture_entry());
  registry.add(fault_entry());
  registry.add(ip_entry());
  registry.add(null_entry());
  registry.add(rmpp_entry());
  registry.add(tcp_entry());
  registry.add(timod_entry());
  registry.add(tirdwr_entry());
  registry.add(udp_entry());
  registry.add(utopia_entry());
  registry.add(xdr_entry());
  registry.add(xtp_entry());
}

}  // namespace sluice
