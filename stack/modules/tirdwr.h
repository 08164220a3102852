// SPDX-License-Identifier: Apache-2.0
#pragma once

// tirdwr - read() and write() on a transport connection
//
// For a program that knows read() and write() and nothing of transport primitives (tirdwr(7M)): "This alternate
// interface allows a user to communicate with the transport protocol provider using the read(2) and write(2) system
// calls. The putmsg(2) and getmsg(2) system calls may also be used. However, putmsg and getmsg can only transfer data
// messages between user and stream; control portions are disallowed."
//
// A program connects with TLI first, then pushes tirdwr, above timod or in its place:
//   endpoint->t_connect(call, nullptr);
//   endpoint->stream().push(std::make_unique<Tirdwr>());
//   endpoint->stream().write(bytes);
// "After the tirdwr module has been pushed onto a stream, none of the TI functions can be used. [...] Once the error is
// detected, subsequent system calls on the stream return an error with errno set to EPROTO." When it is popped,
// t_sync() tells the endpoint its state again.
//
// Accepts and produces
//   push, of what waits at the stream head: M_DATA stays; T_DATA_IND loses its control part, and goes where nothing is
//   left; anything else refuses the push (EPROTO). What t_look() or t_rcv() has already taken is with the endpoint and
//   does not come again.
//
//   down                                    becomes
//     M_DATA                                passes on: the provider takes it as a T_DATA_REQ
//     M_DATA of no bytes                    freed
//     M_PROTO, M_PCPROTO                    freed; the stream fails
//   up
//     M_DATA                                passes on
//     T_DATA_IND                            its data, as M_DATA
//     M_DATA, T_DATA_IND of no bytes        freed
//     T_ORDREL_IND                          M_DATA of no bytes: read() returns 0, once
//     T_DISCON_IND                          M_HANGUP: write() fails with ENXIO, read() returns 0 behind the data
//     other M_PROTO, M_PCPROTO              freed; the stream fails. T_EXDATA_IND is one of them
//   Other messages pass on. A stream fails with M_ERROR (EPROTO) to both sides; from then on messages of data and
//   primitives are freed.
//
//   pop and close: "If an orderly release indication has been previously received, then an orderly release request will
//   be sent to the remote side of the transport connection." Where none was received, close leaves the connection to
//   the provider, which aborts it.
//
// Parameters
//   none
//
// Counters
//   released        orderly releases of the peer
//   disconnected    connections that were aborted
//   refused         messages that made the stream fail
//   discarded       messages freed because the stream had failed
//
// Flow control
//   No queues and no service procedures: can_put_next() looks through it.
//
// Example
//   push = ["tcp", "timod", "tirdwr"]
//
// Threads: as its stream set's.

#include <cstdint>

#include "stack/core/registry.h"

namespace sluice {

class Tirdwr : public Module {
 public:
  Tirdwr() : Module("tirdwr") {}

  [[nodiscard]] bool handles_deferred() const override { return true; }
  Status open() override;
  void close() override;
  void wput(Batch&& batch) override;
  void rput(Batch&& batch) override;

 private:
  enum class Phase : std::uint8_t {
    connected,
    released,      // by the peer
    disconnected,  // nothing is to be released any more
    failed,
  };

  [[nodiscard]] Status take_over_waiting_data();
  [[nodiscard]] bool passes_down(Message& message);
  [[nodiscard]] bool passes_up(Message& message);
  [[nodiscard]] bool indication_passes_up(Message& message);
  void discard(Message message, Side side);
  void fail_stream(Message cause);

  Phase phase_ = Phase::connected;
  Message reserve_;  // room for the last thing said: M_ERROR's bytes, or T_ORDREL_REQ
  Counter released_{*this, "released", "orderly releases of the peer"};
  Counter disconnected_{*this, "disconnected", "connections that were aborted"};
  Counter refused_{*this, "refused", "messages that made the stream fail"};
  Counter discarded_{*this, "discarded", "messages freed because the stream had failed"};
};

[[nodiscard]] Entry tirdwr_entry();

}  // namespace sluice
