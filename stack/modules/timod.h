// SPDX-License-Identifier: Apache-2.0
#pragma once

// timod - makes requests of a transport provider atomic
//
// The transport library's helper (timod(7M)): "converts a set of ioctl(2) calls into STREAMS messages that may be
// consumed by a transport protocol provider that supports the Transport Interface. This allows a user to initiate
// certain TI functions as atomic operations."
//
// Accepts and produces
//   An I_STR ioctl of stack/wire/timod.h becomes the TPI request it carries; the provider's acknowledgement becomes the
//   data of the ioctl's:
//     TI_GETINFO      T_INFO_REQ                           T_INFO_ACK
//     TI_OPTMGMT      T_OPTMGMT_REQ, T_SVR4_OPTMGMT_REQ    T_OPTMGMT_ACK
//     TI_BIND         T_BIND_REQ, O_T_BIND_REQ             T_BIND_ACK
//     TI_UNBIND       T_UNBIND_REQ                         T_OK_ACK
//     TI_CAPABILITY   T_CAPABILITY_REQ                     T_CAPABILITY_ACK
//     TI_GETADDRS     T_ADDR_REQ                           T_ADDR_ACK
//     TI_GETMYNAME    (asks with T_ADDR_REQ)               the bytes of the local address; none when unbound
//     TI_SYNC         (asks with T_INFO_REQ)               T_INFO_ACK; Solaris adds a queue length, here always 0
//
//   An error of the provider is a return value: "If the ioctl returns with a value greater than 0, the lower 8 bits of
//   the return value will be one of the TI error codes as defined in <sys/tiuser.h>. If the TI error is of type
//   TSYSERR, then the next 8 bits of the return value will contain an error as defined in <sys/errno.h>".
//
//   Refused with M_IOCNAK: an argument that is not the primitive (EINVAL), no memory for the request (ENOSR), a
//   request that is still not answered when the next one comes (ETIME: the stream head, which has one ioctl in flight,
//   gave it up), a stream that hangs up (ENXIO) or fails (its errno, or EIO) in the middle of one.
//
//   "All STREAMS messages, with the exception of the message types generated from the ioctl commands described below,
//   will be transparently passed to the neighboring module or driver."
//
// Parameters
//   none
//
// Counters
//   acknowledged       requests answered, with success or the provider's error
//   refused            requests answered with M_IOCNAK
//
// Flow control
//   No queues and no service procedures: can_put_next() looks through it.
//
// Example
//   push = ["ip", "udp", "timod"]
//
// Threads: as its stream set's.

#include <cstdint>

#include "stack/core/registry.h"

namespace sluice {

class Timod : public Module {
 public:
  Timod() : Module("timod") {}

  [[nodiscard]] bool handles_deferred() const override { return true; }
  [[nodiscard]] bool handles_segments() const override { return true; }
  [[nodiscard]] bool leaves_data() const override { return true; }
  void wput(Batch&& batch) override;
  void rput(Batch&& batch) override;
  void close() override { waiting_.reset(); }

 private:
  [[nodiscard]] Message from_user(Message message);
  [[nodiscard]] Message begin(Message request);
  [[nodiscard]] Message from_provider(Message message);
  [[nodiscard]] bool ends_request(const Message& message) const;
  [[nodiscard]] Message acknowledge(Message answer);
  [[nodiscard]] Message refuse(Message request, std::int32_t error);
  void abort(std::int32_t error);

  Message waiting_;                   // the ioctl in flight; empty when there is none
  std::int32_t primitive_ = 0;        // what it asks the provider
  std::int32_t acknowledgement_ = 0;  // what answers that
  Counter acknowledged_{*this, "acknowledged", "requests answered, with success or the provider's error"};
  Counter refused_{*this, "refused", "requests answered with M_IOCNAK"};
};

[[nodiscard]] Entry timod_entry();

}  // namespace sluice
