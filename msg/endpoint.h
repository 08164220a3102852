// SPDX-License-Identifier: Apache-2.0
#pragma once

// msg - messages between programs: post a receive, send, test, wait
//
// An endpoint stands on a stream with `rmpp` (messages arrive whole, once and in order) or `utopia` (no recovery: what
// is lost stays lost) below `timod`, over any connectionless transport provider: our `udp`, or the kernel's
// (`kernel_udp`). The stack file decides; the program is the same.
//
//     driver = { kind = "kernel_udp" }
//     push   = ["rmpp", "timod"]
//
// or on one of a connection-mode provider (`kernel_tcp`; `ip` and `tcp`; `xtp`): then it listens, and has a connection
// for each peer that it sends to or that sends to it (msg/connections.h, docs/formats/msg.md). Options::another_stream
// opens their streams.
//
//     auto endpoint = msg::Endpoint::open(std::move(stream), {.local = address});
//     auto receive = (*endpoint)->post(buffer, {.bits = 7});            // before the message comes, or after
//     auto sent = (*endpoint)->send(peer, 7, bytes);                    // `bytes` are lent until it is done
//     auto done = (*endpoint)->wait(*receive);                          // lets the caller's run loop run
//
// Matching
//   The 64 bits travel in the header of the module's packets (`tag`, docs/formats/rmpp.md), so a message has no header
//   of this library's. Which receive a message goes to is decided when its first packet is read (msg/matching.h).
//
// Placement
//   Data of a message whose receive is posted lands in the posted buffer in the pass that verifies it, packet by
//   packet, as it comes (t_lookudata, t_landudata). Before the receive is done the buffer's bytes mean nothing. A
//   sender's bytes are shown to the stack by reference. So the library copies nothing, but for unexpected messages.
//
// Unexpected messages
//   One that no receive accepts is held here, up to `unexpected_bytes_max` in all and `unexpected_messages_max`, each
//   with its full length from its first packet on; a receive that is posted later gets a copy. One beyond the bounds is
//   refused, Statistics::refused counts it, and its sender is told: his send is done with EXFULL ("Exchange full"),
//   which means nothing else. With `utopia` only a message of several packets can be refused so, whose sender waits for
//   a grant. A shorter one has left, its send is done with 0 all the same, and what came of it is thrown away: nobody
//   there says what becomes of it. Programs that must not lose any post receives before they let anybody send.
//
// Truncation
//   A message longer than its buffer is done with EMSGSIZE: Completion::bytes are in the buffer,
//   Completion::total_bytes is how long it was. The rest is thrown away.
//
// Sizes
//   0 bytes to message_bytes_max(): the module's `message_bytes`, 1 GiB if absent, and never above 2 GiB - 17 bytes
//   (TSDU_size is an int32_t, and 16 bytes of it are the module's). send() refuses more with EMSGSIZE; nothing is sent.
//
// Progress
//   There is no thread, clock or socket here: the time, too, is the Waiter's. Messages move while the caller's run loop
//   runs and somebody calls progress(): wait() and wait_any() do both, through the stream's Waiter; a program with a
//   loop of its own has RunLoop::attend() call it. test(), probe(), post() and send() act on what has been read so far.
//
// Errors, as errno values
//   of calls        EAGAIN (not done yet), EINVAL (no such handle), EMSGSIZE, ENOBUFS (too many receives or sends, no
//                   memory), ETIME (the deadline came first), ENXIO or what else ended the stream
//   of completions  0; EMSGSIZE (truncated), ECONNABORTED (the message was lost on its way in), and of sends ETIMEDOUT,
//                   ECONNRESET (it may not have arrived), EXFULL (the peer refused it), ENOBUFS, EINVAL (the module did
//                   not take it)
//
// Over connections
//   A send is done when the peer has the message; when it has been refused (EXFULL), the rest of it having left; or
//   with what ended the connection. A peer that is not there yet is called `calls_max` times. Several messages are on
//   their way to a peer at a time, in order; what has not begun to leave can be cancelled. A message that its peer
//   breaks off is ECONNABORTED. The destructor waits up to a second for peers to take what has been answered to them.
//
// Threats
//   A caller names the port that it listens at itself: who can call from a host can speak for any process there.
//   Messages come from anybody who can reach the port, with any bits: nothing here authenticates a peer, and a receive
//   without `from` takes a stranger's message. What strangers can take is bounded: the two bounds above, and one
//   message in progress a peer, of which the module knows `peers` at most. Unexpected messages of a stranger can use
//   these bounds up, so that those of others are refused; posted receives are not touched by that. A peer that stops in
//   the middle of a message holds the receive that it matched until the module forgets it (`dead_ms`): ECONNABORTED.
//
// Why so. Alternatives: (1) an envelope of the library's in front of each message would need a format, a decoder and
// room in the first packet for bits that the packet header has already; (2) sending through t_sndudata() would copy
// each message into the pool, whose bound is below the longest message; (3) handing all sends to the module at once
// would not get them there sooner, since it has one message a peer on its way, and an error it answers (T_UDERROR_IND)
// names a peer, not a message: with one at a time that is enough, and what waits here can still be cancelled.
//
// Ownership: an endpoint owns its stream. Buffers stay the caller's; posted ones are written, sent ones shown, until
// the handle is done or cancelled. The destructor closes the stream; what it has sent and nobody has read is then shown
// only by drivers in memory (`wire`), so there the bytes must outlive the stream set. Threads: the stream set's.

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "msg/matching.h"
#include "stack/head/stream.h"
#include "stack/wire/rmpp.h"
#include "tli/endpoint.h"

namespace sluice::msg {

struct Options {
  std::optional<Peer> local = {};  ///< nothing: the provider chooses
  std::size_t unexpected_bytes_max = std::size_t{16} << 20;
  std::size_t unexpected_messages_max = 1024;
  std::size_t receives_max = 4096;  ///< posted, or done and not yet asked for
  std::size_t sends_max = 4096;     ///< likewise
  /// Over connections: opens another stream as the endpoint's, in the same set; one for each connection.
  std::function<Result<std::unique_ptr<Stream>>()> another_stream = {};
  std::size_t connections_max = 1024;  ///< either way
  unsigned calls_max = 16;             ///< how often a peer that does not answer is called, within some 8 s
  std::uint64_t connection_message_bytes_max = std::uint64_t{1} << 30;  ///< over connections, the longest either way
  bool list_finished = false;  ///< take_finished() tells what is done; whoever says so calls it
};

/// Names a receive or a send from post() or send() until test(), wait(), wait_any() or cancel() has told its end.
struct Handle {
  std::uint64_t value = 0;
  friend constexpr auto operator<=>(const Handle&, const Handle&) = default;
};

/// How a receive or a send ended.
struct Completion {
  int error = 0;  ///< an errno; 0: all of it arrived, or for a send: rmpp, the peer has it; utopia, it has left
  Peer peer = {};
  std::uint64_t bits = 0;  ///< the message's
  std::size_t bytes = 0;   ///< of the buffer that hold the message
  std::uint64_t total_bytes = 0;
  friend bool operator==(const Completion&, const Completion&) = default;
};

/// Asks `owner.test()` about each of `handles`: the place and the completion of the first that has ended. EINVAL: no
/// handles, or an unknown one; EAGAIN: none has ended.
template <class Owner>
[[nodiscard]] Result<std::pair<std::size_t, Completion>> test_any(Owner& owner, std::span<const Handle> handles) {
  if (handles.empty()) {
    return fail(EINVAL, "nothing to wait for");
  }
  for (std::size_t at = 0; at < handles.size(); ++at) {
    Result<Completion> done = owner.test(handles[at]);
    if (done) {
      return std::pair(at, *done);
    }
    if (done.error().code != EAGAIN) {
      return std::unexpected(std::move(done.error()));
    }
  }
  return fail(EAGAIN);
}

/// A message that no receive has accepted.
struct Unexpected {
  Peer peer = {};
  std::uint64_t bits = 0;
  std::uint64_t total_bytes = 0;
  bool whole = false;  ///< all of it has come
};

struct Statistics {
  std::uint64_t refused = 0;            ///< unexpected messages beyond the bounds
  std::uint64_t truncated = 0;          ///< messages longer than their buffers
  std::uint64_t lost = 0;               ///< messages that began and will not be whole
  std::uint64_t malformed = 0;          ///< connections ended, since their peer did not keep to the format
  std::uint64_t callers_refused = 0;    ///< beyond connections_max, or for want of a stream
  std::uint64_t stray = 0;              ///< indications that fit nothing; a fault of the module's
  std::size_t unexpected_bytes = 0;     ///< held now
  std::size_t unexpected_messages = 0;  ///< held now, or on their way in
};

class Endpoint {
 public:
  /// EINVAL: the provider is connectionless and `rmpp` or `utopia` is not in the stream, it makes connections and there
  /// is no Options::another_stream, or `timod` is not on top; EMSGSIZE: the provider takes no data unit as long as the
  /// module's packets; what t_open() and t_bind() say.
  [[nodiscard]] static Result<std::unique_ptr<Endpoint>> open(std::unique_ptr<Stream> stream,
                                                              const Options& options = {});
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// What it is bound to.
  [[nodiscard]] const Peer& address() const { return address_; }
  [[nodiscard]] std::uint64_t message_bytes_max() const { return message_bytes_max_; }

  /// Posts a receive for the first message that `match` accepts. ENOBUFS.
  [[nodiscard]] Result<Handle> post(Bytes buffer, const Match& match);
  /// Sends `data` with matching bits. EMSGSIZE, ENOBUFS, what ended the stream.
  [[nodiscard]] Result<Handle> send(const Peer& to, std::uint64_t bits, ConstBytes data);

  /// How it ended, once; then the handle is gone. EAGAIN, EINVAL.
  [[nodiscard]] Result<Completion> test(Handle handle);
  /// As test(), and lets the run loop run until it is done. ETIME; EAGAIN: the stream has no waiter.
  [[nodiscard]] Result<Completion> wait(Handle handle, TimePoint deadline = never);
  /// As wait(), for whichever is done first; answers its place in `handles`, too. EINVAL: none, or an unknown one.
  [[nodiscard]] Result<std::pair<std::size_t, Completion>> wait_any(std::span<const Handle> handles,
                                                                    TimePoint deadline = never);
  /// The first unexpected message that `match` accepts; it stays.
  [[nodiscard]] std::optional<Unexpected> probe(const Match& match) const;
  /// Takes back a receive that is not done, or a send of which nothing has left: the handle is gone, and the buffer the
  /// caller's again. The message that has matched the receive is refused, as those beyond the bounds are; where all of
  /// it had come, its sender has been told that it arrived. False for all others, which end by themselves.
  [[nodiscard]] bool cancel(Handle handle);

  /// Reads what has come, and hands over what waits: a bounded amount. Whether anything has happened.
  bool progress();

  /// With Options::list_finished: the receives and sends that are done since the last call, each once. test() tells
  /// how.
  [[nodiscard]] std::vector<Handle> take_finished() { return std::exchange(finished_, {}); }
  /// The errno of what ended the stream; 0 while it lives.
  [[nodiscard]] int broken() const { return broken_; }

  [[nodiscard]] const Statistics& statistics() const { return statistics_; }
  [[nodiscard]] Stream& stream() { return tli_->stream(); }

 private:
  class Connections;
  using Indication = wire::message::Indication;
  static constexpr std::size_t indications_a_turn_max = 256;

  struct Receive {
    Handle handle = {};
    Match match = {};
    Bytes buffer = {};
    bool matched = false;
    std::optional<Completion> done = {};
  };
  /// A message on its way in, or held.
  struct Inbound {
    Peer peer = {};
    std::uint32_t incarnation = 0;
    std::uint32_t number = 0;
    std::uint64_t bits = 0;
    std::uint64_t total_bytes = 0;
    Receive* receive = nullptr;              // that accepted it
    std::unique_ptr<std::byte[]> held = {};  // unless that was posted first, or the message is refused
    bool unexpected = false;                 // counted in the bounds
    bool refused = false;                    // what comes of it is thrown away
    bool whole = false;
  };
  using InboundList = std::list<Inbound>;
  struct Lent;
  struct Send {
    Handle handle = {};
    Peer peer = {};
    std::uint64_t bits = 0;
    ConstBytes data = {};
    bool handed_over = false;
    Lent* lent = nullptr;  // while the stack shows `data`
    std::optional<int> outcome = {};
  };

  explicit Endpoint(const Options& options);
  Status bind();
  Status learn_limits();
  [[nodiscard]] Handle next_handle() { return {++last_handle_}; }
  /// test() will tell how it ended.
  void list(Handle handle) {
    if (options_.list_finished) {
      finished_.push_back(handle);
    }
  }

  // sending.cc
  void hand_over(const Peer& peer);
  [[nodiscard]] Message request_of(Send& send);
  void decide(Send& send, int outcome);
  void ended(Send& send, int outcome);
  static void released(void* lent, ConstBytes memory);
  void orphan_lent();
  bool hand_over_stalled();

  // receiving.cc
  bool take_one();
  void take_error();
  void take(const Indication& said, const Peer& from);
  void land(const Indication& said, const Peer& from, std::size_t payload_bytes);
  InboundList::iterator current(const Indication& said, const Peer& from);
  InboundList::iterator admit(Inbound made);
  InboundList::iterator begin_message(const Indication& said, const Peer& from);
  bool hold(Inbound& inbound);
  void refuse(Inbound& inbound);
  void release_held(Inbound& inbound);
  void tell(const wire::message::Decision& decision);
  bool tell_untold();
  void finish(InboundList::iterator inbound);
  void lose(InboundList::iterator inbound);
  void erase(InboundList::iterator inbound);
  void finish(Receive& receive, const Completion& done);
  void deliver(const Inbound& inbound, Receive& receive);
  [[nodiscard]] static Bytes place_of(Inbound& inbound);
  [[nodiscard]] static Completion completion_of(const Inbound& inbound, std::size_t bytes, int error);

  const Options options_;
  Peer address_;
  std::uint64_t message_bytes_max_ = 0;
  std::uint64_t last_handle_ = 0;
  int broken_ = 0;  // what ended the stream
  Statistics statistics_;

  std::unordered_map<std::uint64_t, std::unique_ptr<Receive>> receives_;
  std::list<Receive*> posted_;                    // no message has matched, in the order of posting
  InboundList inbound_;                           // in the order of their first packets
  std::map<Peer, InboundList::iterator> latest_;  // of each peer the one on its way in
  std::unordered_map<std::uint64_t, std::unique_ptr<Send>> sends_;
  std::map<Peer, std::deque<Send*>> outbound_;  // the first may be with the module
  std::set<Peer> stalled_;                      // flow control stopped the first
  std::vector<std::byte> discarded_;            // what does not fit lands here
  std::deque<wire::message::Decision> untold_;  // that wait for memory
  std::vector<Handle> finished_;                // with Options::list_finished

  std::unique_ptr<tli::Endpoint> tli_;
  std::unique_ptr<Connections> connections_;  // instead of a module's packets
};

}  // namespace sluice::msg
