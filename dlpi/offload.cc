// SPDX-License-Identifier: Apache-2.0
#include "dlpi/offload.h"

#include "ilp/kernels.h"
#include "stack/wire/checksum.h"
#include "stack/wire/udp.h"

namespace sluice::dlpi {

bool complete_checksum(Bytes frame, const OffloadHeader& offload) {
  const std::size_t start = offload.checksum_start;
  const std::size_t field = start + offload.checksum_offset;
  if (field + sizeof(std::uint16_t) > frame.size()) {
    return false;
  }
  // The sum starts from the pseudo-header's, which lies in the field. UDP has no checksum of zero, and to TCP all ones
  // is the same number.
  store_checksum(frame.data() + field, wire::udp_checksum_of(ilp::sum(frame.subspan(start))));
  return true;
}

}  // namespace sluice::dlpi
