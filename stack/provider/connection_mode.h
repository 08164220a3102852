// SPDX-License-Identifier: Apache-2.0
#pragma once

// A connection-mode (T_COTS_ORD) transport provider, as far as all of them are alike: keeps the state of the interface
// (stack/provider/connection_states.h), answers every request of TPI 2.0.0, counts what is outstanding, and calls what
// derives from it to bind, connect, accept and disconnect. What happens on the connection it is told, and tells the
// user as the primitive that is due.
//
//     T_INFO_REQ, T_ADDR_REQ      T_INFO_ACK, T_ADDR_ACK
//     T_CAPABILITY_REQ            T_CAPABILITY_ACK with TC1_INFO and TC1_ACCEPTOR_ID
//     T_BIND_REQ, O_T_BIND_REQ, T_UNBIND_REQ    T_BIND_ACK, T_OK_ACK, T_ERROR_ACK
//     T_CONN_REQ                  T_OK_ACK, then T_CONN_CON or T_DISCON_IND; T_ERROR_ACK
//     T_CONN_RES, O_T_CONN_RES    T_OK_ACK or T_ERROR_ACK; TBADSEQ: no such indication is outstanding
//     T_DISCON_REQ                M_FLUSH where there was a connection, then T_OK_ACK; T_ERROR_ACK with TBADSEQ
//     T_DATA_REQ, T_ORDREL_REQ    none; they are the provider's to carry out in order
//     T_OPTMGMT_REQ               T_OPTMGMT_ACK: stack/provider/options.h
//     the rest                    T_ERROR_ACK with TNOTSUPPORT, or M_ERROR
//
// T_DISCON_IND of a connection that was set up comes behind an M_FLUSH of both sides: its data is worth nothing any
// more.
//
// ACCEPTOR_id is the number of the module that is the accepting provider (ModuleHandleTable::number()): of the same
// stream set, and of no other.
//
// Ownership: a base of a module, or a part of one, which outlives it. Threads: as its module's.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "stack/core/message.h"
#include "stack/provider/connection_states.h"
#include "stack/provider/management.h"
#include "stack/wire/address.h"
#include "stack/wire/tpi_connection.h"

namespace sluice::provider {

class ConnectionMode : public Management {
 public:
  /// The most connection indications that may be outstanding; T_BIND_ACK tells.
  static constexpr std::uint32_t connect_indications_max = 4096;

  [[nodiscard]] wire::tpi::State state() const { return state_; }
  /// M_ERROR was sent: every message is dropped.
  [[nodiscard]] bool failed() const { return failed_; }

  /// Takes an M_PROTO, M_PCPROTO or M_DATA message from above. Returns it when it is data to be sent, or the orderly
  /// release that comes behind it; answers or drops any other.
  [[nodiscard]] Message accept(Message request);

 protected:
  explicit ConnectionMode(Module& module) : Management(module) {}
  ~ConnectionMode() = default;

  // The outcome of bind(), unbind(), connect(), respond(), reject() and disconnect(): one of these, while it runs or
  // later. REQUIRES: it is owed.
  void bound(ConstBytes address, std::uint32_t connect_indications);
  void acknowledged();
  /// As acknowledged(), of a connection accepted on another stream.
  void accepted_elsewhere();
  void refused(std::int32_t tli_error, std::int32_t unix_error = 0);

  // What has happened. REQUIRES: the state allows it.
  void indicate_connection(ConstBytes source, std::int32_t sequence);
  void confirm_connection(ConstBytes responder);
  /// Of the connection, or of the one that is being set up.
  void indicate_disconnection(std::int32_t reason);
  /// Of a connection indication that is outstanding.
  void indicate_withdrawal(std::int32_t reason, std::int32_t sequence);
  void indicate_release();
  /// A connection that another stream has accepted is now this one's; `address` is what it is bound to if it was not.
  void take_connection(ConstBytes address);

  [[nodiscard]] bool may(ConnectionEvent event) const { return !failed_ && next_state(state_, event).has_value(); }
  /// Whether the bind in hand is TLI's: O_T_BIND_REQ replaces a busy address by a free one, T_BIND_REQ refuses it.
  [[nodiscard]] bool replaces_busy() const { return request_primitive_ == wire::tpi::O_T_BIND_REQ; }
  /// Why `acceptor`, a provider of the same kind as this, may not accept a connection for it; `busy`: for a reason of
  /// its own. Nothing: it may. `exists`: ACCEPTOR_id named somebody, though perhaps a provider of another kind,
  /// nullptr.
  [[nodiscard]] std::optional<std::int32_t> acceptance_error(bool exists, const ConnectionMode* acceptor,
                                                             bool busy) const;
  [[nodiscard]] std::uint32_t connect_indications() const { return connect_indications_; }
  [[nodiscard]] std::size_t outstanding() const { return outstanding_.size(); }
  [[nodiscard]] ConstBytes bound_address() const { return ConstBytes(address_).first(address_size_); }

  // The ends of the connection, for T_ADDR_ACK. Until they are set: the bound address, and none.
  void set_local_address(const wire::TransportAddress& address) { local_size_ = address.encode(local_); }
  void set_remote_address(const wire::TransportAddress& address) { remote_size_ = address.encode(remote_); }
  void forget_addresses() { local_size_ = remote_size_ = 0; }
  [[nodiscard]] ConstBytes local_address() const {
    return local_size_ != 0 ? ConstBytes(local_).first(local_size_) : bound_address();
  }
  [[nodiscard]] ConstBytes remote_address() const { return ConstBytes(remote_).first(remote_size_); }

  /// REQUIRES: the module is part of a stream.
  [[nodiscard]] std::uint32_t acceptor_id() const;
  /// SEQ_number for an indication of a connection: 1, 2, 3, ... as long as there are such numbers, then anew.
  [[nodiscard]] std::int32_t new_sequence();

 private:
  /// `address` as the user gave it; empty: any. It is valid during the call, as are those below.
  virtual void bind(ConstBytes address, std::uint32_t connect_indications) = 0;
  virtual void unbind() = 0;
  virtual void connect(ConstBytes destination) = 0;
  virtual void respond(std::uint32_t acceptor_id, std::int32_t sequence) = 0;
  virtual void reject(std::int32_t sequence) = 0;
  virtual void disconnect() = 0;
  /// The interface has failed: gives up everything.
  virtual void release() = 0;
  /// Of T_INFO_ACK: TSDU_size. 0: there are no TSDUs, what is written is a stream of bytes.
  [[nodiscard]] virtual std::int32_t tsdu_size() const { return 0; }
  /// Of T_INFO_ACK: TIDU_size.
  [[nodiscard]] virtual std::int32_t tidu_bytes_max() const = 0;

  void step(ConnectionEvent event);
  void begin(std::int32_t primitive, Message request);
  void start_bind();
  void start_connect();
  void start_response();
  void start_disconnect();
  [[nodiscard]] bool negotiate(ConstBytes wanted);
  void forget(std::int32_t sequence);
  [[nodiscard]] bool is_outstanding(std::int32_t sequence) const;
  void fail_fatally(Message& request);
  [[nodiscard]] wire::tpi::InfoAck info() const final;

  wire::tpi::State state_ = wire::tpi::TS_UNBND;
  bool failed_ = false;
  std::int32_t request_primitive_ = 0;
  Message request_;                        // whose acknowledgement is owed, and in whose block it will go
  std::int32_t sequence_ = 0;              // that it names
  std::vector<std::int32_t> outstanding_;  // connection indications
  std::uint32_t connect_indications_ = 0;  // how many may be
  std::array<std::byte, wire::TransportAddress::encoded_size_max> address_{};
  std::size_t address_size_ = 0;  // 0: not bound
  std::array<std::byte, wire::TransportAddress::encoded_size_max> local_{};
  std::array<std::byte, wire::TransportAddress::encoded_size_max> remote_{};
  std::size_t local_size_ = 0;
  std::size_t remote_size_ = 0;
  std::int32_t next_sequence_ = 1;
};

}  // namespace sluice::provider
