// SPDX-License-Identifier: Apache-2.0
#pragma once

// RetransmitQueue: ADUs that the receiver reported missing, in the order in which they were reported. The protocol
// calls a retransmission a repair. SentAdus adds each lost ADU once; the Sender sends them before anything new.
//
// Not thread-safe. No allocation in steady state.

#include "apps/ftx/protocol/message.h"
#include "apps/ftx/recovery/ring.h"

namespace sluice::ftx {

class RetransmitQueue {
 public:
  [[nodiscard]] bool empty() const { return adus_.empty(); }
  void push(const AduName& adu) { adus_.push(adu); }

  /// The ADU that waits longest. REQUIRES: not empty.
  [[nodiscard]] const AduName& front() { return adus_.front(); }
  /// Removes the ADU that waits longest; if it is longer than `bytes_max`, its first part, and the rest waits on.
  /// Answers what it has removed. REQUIRES: not empty; bytes_max > 0.
  AduName pop(std::uint32_t bytes_max = adu_bytes_max) {
    SLUICE_REQUIRE(!adus_.empty() && bytes_max > 0);
    AduName adu = adus_.front();
    if (adu.length <= bytes_max) {
      adus_.pop();
      return adu;
    }
    adu.length = bytes_max;
    adus_.front().offset += bytes_max;
    adus_.front().length -= bytes_max;
    return adu;
  }

 private:
  Ring<AduName> adus_;
};

}  // namespace sluice::ftx
