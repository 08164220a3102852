// SPDX-License-Identifier: Apache-2.0
#pragma once

// Local management of a connectionless-mode (T_CLTS) transport provider: keeps the state of the interface, answers
// every request of TPI 2.0.0 that is not a datagram, and calls what derives from it to bind and unbind.
//
//     T_INFO_REQ        T_INFO_ACK. One address and one option format for all providers: OPT_size is that of all
//                       options that T_ALLOPT may bring, which is more than any datagram has
//     T_CAPABILITY_REQ  T_CAPABILITY_ACK with TC1_INFO, where asked. TC1_ACCEPTOR_ID is never set: the identifier is
//                       "suitable for use in the ACCEPTOR_id field of the T_CONN_RES message", and nobody connects here
//                       (as in illumos; OpenSS7 gives one)
//     T_ADDR_REQ        T_ADDR_ACK
//     T_BIND_REQ, O_T_BIND_REQ, T_UNBIND_REQ    T_BIND_ACK, T_OK_ACK, T_ERROR_ACK
//     T_OPTMGMT_REQ     T_OPTMGMT_ACK: stack/provider/options.h
//     T_SVR4_OPTMGMT_REQ    T_OPTMGMT_ACK: there is no option of TLI's format to manage
//     the rest          T_ERROR_ACK with TNOTSUPPORT, or M_ERROR: stack/provider/states.h
//
// Ownership: a base of a module, or a part of one, which outlives it. Threads: as its module's.

#include <array>
#include <cstdint>

#include "base/bytes.h"
#include "stack/core/message.h"
#include "stack/provider/management.h"
#include "stack/provider/states.h"
#include "stack/wire/address.h"
#include "stack/wire/tpi.h"

namespace sluice::provider {

class Connectionless : public Management {
 public:
  [[nodiscard]] State state() const { return state_; }

  /// Takes an M_PROTO, M_PCPROTO or M_DATA message from above. Returns it when it is a datagram to be sent, as M_PROTO;
  /// answers or drops any other.
  [[nodiscard]] Message accept(Message request);

 protected:
  explicit Connectionless(Module& module) : Management(module) {}
  ~Connectionless() = default;

  // The outcome of bind() and unbind(): one of these, while it runs or later. REQUIRES: it is owed.
  void bound(ConstBytes address);
  void unbound();
  void refused(std::int32_t tli_error, std::int32_t unix_error = 0);

  /// Whether the bind in hand is TLI's: O_T_BIND_REQ replaces a busy address by a free one, T_BIND_REQ refuses it.
  [[nodiscard]] bool replaces_busy() const { return bind_primitive_ == wire::tpi::O_T_BIND_REQ; }

 private:
  /// Bytes of the largest datagram that every destination can be sent.
  [[nodiscard]] virtual std::int32_t tsdu_bytes_max() const = 0;
  /// `address` as the user gave it; empty: any. It is valid during the call.
  virtual void bind(ConstBytes address) = 0;
  virtual void unbind() = 0;
  /// The interface has failed: gives up the address. Nothing is sent or received any more.
  virtual void release() = 0;

  void fail_fatally(Message& request);
  void start_bind(std::int32_t primitive);
  [[nodiscard]] wire::tpi::InfoAck info() const final;

  State state_ = State::unbound;
  std::int32_t bind_primitive_ = 0;
  Message request_;  // to bind or to unbind, in whose block the outcome will go
  std::array<std::byte, wire::TransportAddress::encoded_size_max> address_{};
  std::size_t address_size_ = 0;  // 0: not bound
};

}  // namespace sluice::provider
