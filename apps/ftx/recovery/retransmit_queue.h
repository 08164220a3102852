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
  AduName pop() {
    SLUICE_REQUIRE(!adus_.empty());
    const AduName adu = adus_.front();
    adus_.pop();
    return adu;
  }

 private:
  Ring<AduName> adus_;
};

}  // namespace sluice::ftx
