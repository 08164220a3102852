// SPDX-License-Identifier: Apache-2.0
#pragma once

// xdr - integers travel in big-endian byte order
//
// The presentation conversion of a program that sends arrays of 16-, 32- or 64-bit numbers in its own byte order. XDR
// (RFC 4506 section 4.1): "The integer is represented in two's complement notation. The most and least significant
// bytes are 0 and 3, respectively." On a little-endian host the bytes of each unit are reversed, both ways; on a
// big-endian host there is nothing to do.
//
// Accepts and produces
//   Down and up: the data of M_DATA and of M_PROTO messages (T_UNITDATA_REQ, T_UNITDATA_IND), each unit reversed.
//   Primitives without data and everything else pass unchanged. A transparent module.
//
//   Data that is no whole number of units cannot be converted. On the way down it is refused: a T_UNITDATA_REQ is
//   answered with T_UDERROR_IND (EINVAL); since M_DATA has no answer of its own, its stream gets M_ERROR that fails
//   further writes with EINVAL, rather than losing bytes in silence. On the way up it is dropped and counted: the peer
//   is at fault.
//
// Parameters
//   unit = 2 | 4 | 8    bytes in a number; 4 if absent
//
// Counters
//   not_whole_units     messages refused or dropped, since their data was no multiple of the unit
//   no_memory           messages dropped, since shared bytes must be copied before they change and the pool was
//                       exhausted (a T_UNITDATA_REQ is answered with T_UDERROR_IND, ENOMEM)
//
// Flow control
//   No queues and no service procedures: can_put_next() looks through it.
//
// Example
//   push = ["ip", "udp", "xdr", "timod"]
//   xdr  = { unit = 4 }
//
// Threads: as its stream set's.

#include <cstddef>

#include "stack/core/registry.h"

namespace sluice {

class Xdr : public Module {
 public:
  /// REQUIRES: unit_bytes is 2, 4 or 8.
  explicit Xdr(std::size_t unit_bytes);

  [[nodiscard]] bool handles_deferred() const override { return true; }
  [[nodiscard]] PayloadWork payload_work(Side side) const override;
  void wput(Batch&& batch) override;
  void rput(Batch&& batch) override;

 private:
  enum class Outcome { converted, not_whole_units, no_memory, refuted };

  Outcome convert(Message& message, Side side);
  static Outcome lost(const Message& message);
  void refuse(Message message, Outcome why);
  void drop(Outcome why);

  std::size_t unit_bytes_;
  Counter not_whole_units_{*this, "not_whole_units", "data was no multiple of the unit"};
  Counter no_memory_{*this, "no_memory", "shared bytes could not be copied before they change"};
};

[[nodiscard]] Entry xdr_entry();

}  // namespace sluice
