// SPDX-License-Identifier: Apache-2.0
#pragma once

// An endpoint's messages over a connection-mode provider: the stream that listens, the connections that others have
// made to it, on which messages come in, and those that it has made itself, on which they go out. Frames:
// docs/formats/msg.md.
//
//     Outgoing   waiting ──► connecting ──► open ──► (ended)      a call that is refused is made again after a while
//     Incoming   greeting ──► open ──► (ended)
//
// Payload is read where it belongs, at most `turn_bytes_max` a connection and turn; on a fused path, what comes between
// two turns is put there by the provider (tli::Endpoint::t_rcvplace()). It is written from the program's
// bytes (the stack copies what the provider does not take at once). A turn looks at every connection.
//
// Threats: callers are strangers. Each may make the endpoint keep 32 bytes, 64 KiB of answers that it does not read,
// and what the bounds of unexpected messages allow; there are `connections_max` of them, and those that do not say
// hello in time are dropped. A length is checked before anything is done on the strength of it, and memory is taken for
// it within the bounds of unexpected messages alone. The called may lie as well: an answer is taken only to the message
// that is due, and `done` only when all of it has left.
//
// Ownership: part of its endpoint. Threads: the stream set's.

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "msg/endpoint.h"
#include "stack/core/scheduler.h"
#include "stack/wire/msg_frame.h"

namespace sluice::msg {

class Endpoint::Connections {
 public:
  static constexpr std::uint32_t calls_waiting_max = 16;
  static constexpr std::size_t turn_bytes_max = std::size_t{1} << 20;
  static constexpr std::size_t turn_reads_max = 64;
  static constexpr std::size_t answers_bytes_max = 64 * 1024;
  static constexpr Duration hello_time = std::chrono::seconds(10);
  static constexpr Duration first_retry = std::chrono::milliseconds(20);
  static constexpr unsigned retry_doublings_max = 5;
  static constexpr Duration memory_retry = std::chrono::milliseconds(1);
  /// How long an endpoint that closes waits for its peers to take what has been said to them.
  static constexpr Duration farewell_time = std::chrono::seconds(1);

  explicit Connections(Endpoint& endpoint)
      : endpoint_(endpoint), memory_awaited_(endpoint.stream().set().scheduler(), [] {}) {}
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  /// Takes a message to be sent. An error is told by its outcome.
  void send(Send& send);
  /// Takes back a send of which nothing has left. Whether it could.
  [[nodiscard]] bool withdraw(Send& send);
  /// Its sender is told.
  void refuse(const Inbound& inbound);
  bool progress();

 private:
  using Frame = wire::MsgFrame;
  using FrameBytes = std::array<std::byte, Frame::size>;

  struct Incoming {
    std::unique_ptr<tli::Endpoint> tli;
    Peer from;  // port 0: it has not said hello
    std::unique_ptr<Timer> hello;
    FrameBytes header{};
    std::size_t header_bytes = 0;
    std::uint64_t number = 0;                  // of the last message that began
    std::optional<InboundList::iterator> now;  // it is on its way in
    std::uint64_t offset = 0;
    std::vector<std::byte> answers;  // that the provider has not taken
    bool ended = false;
    bool expired = false;
  };
  struct Outgoing {
    Peer to;
    std::unique_ptr<tli::Endpoint> tli;  // none: waiting
    std::unique_ptr<Timer> retry;
    bool open = false;
    bool due = false;  // to call (again)
    unsigned calls = 0;
    std::deque<Send*> waiting;  // the first may have left in part
    std::deque<Send*> left;     // answers are awaited
    std::uint64_t number = 0;   // of the last message that has begun to leave
    FrameBytes header{};
    std::size_t header_left = 0;  // of hello, or of the first that waits
    bool begun = false;           // the first that waits has
    std::size_t offset = 0;       // of its data
    std::optional<int> answer;    // to the first that waits, before all of it has left
    FrameBytes in{};
    std::size_t in_bytes = 0;
    int ended = 0;
  };

  /// Somebody calls, and is neither accepted nor refused yet.
  struct Call {
    Peer from;  // port 0: no address
    int sequence = 0;
  };

  [[nodiscard]] Result<std::unique_ptr<tli::Endpoint>> open_another();
  [[nodiscard]] tli::Outcome<void> bind_any(tli::Endpoint& stream);
  [[nodiscard]] bool passes(const tli::Failure& failure);
  void farewell();

  // connections_incoming.cc
  bool accept();
  bool answer_call();
  tli::Outcome<void> accept_on(tli::Endpoint& accepting, tli::t_call& call);
  bool read(Incoming& incoming);
  std::optional<std::size_t> receive(Incoming& incoming, Bytes place);
  bool read_header(Incoming& incoming);
  bool read_payload(Incoming& incoming);
  [[nodiscard]] Bytes place_of_next(const Incoming& incoming) const;
  void act(Incoming& incoming, const Frame& frame);
  void answer(Incoming& incoming, Frame::Type type);
  bool write_answers(Incoming& incoming);
  void malformed(Incoming& incoming);
  void end(Incoming& incoming);

  // connections_outgoing.cc
  void call(Outgoing& outgoing);
  void call_again(Outgoing& outgoing, int error);
  bool advance(Outgoing& outgoing);
  bool event(Outgoing& outgoing);
  bool read_answers(Outgoing& outgoing);
  bool take_answer(Outgoing& outgoing, const Frame& frame);
  bool write(Outgoing& outgoing);
  void begin_next(Outgoing& outgoing);
  void has_left(Outgoing& outgoing);
  void end(Outgoing& outgoing, int error);
  bool make_room();

  Endpoint& endpoint_;
  Timer memory_awaited_;  // its end makes the run loop call progress()
  std::optional<Call> call_;
  std::list<Incoming> incoming_;
  std::map<Peer, Outgoing> outgoing_;
  std::vector<std::byte> thrown_away_;
};

}  // namespace sluice::msg
