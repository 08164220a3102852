// SPDX-License-Identifier: Apache-2.0
#pragma once

// A process that sends and receives messages, with all that it stands on: stream set, run loop and endpoint
// (msg/endpoint.h, whose comment says what the calls mean), and, if the program wants it, a thread that moves messages
// while the program computes.
//
//     auto messenger = msg::Messenger::open(declaration, {.endpoint = {.local = address}});
//     auto receive = (*messenger)->post(buffer, {.bits = 7});
//     compute();                                             // the message lands meanwhile
//     auto done = (*messenger)->wait(*receive);
//
// Progress
//   Options::progress_thread, true if absent. False: messages move in wait(), wait_any() and probe() alone, and the
//   sends and receives of a program that computes stand still. True: a thread of the messenger's owns stream set, run
//   loop and endpoint from open() to the destructor. Calls put requests into one bounded queue and take what is done
//   out of another; nothing else is shared, but the program's buffers, which belong to the thread from post() or send()
//   until test() or wait() has told the end, or cancel() has returned. The thread takes no signals.
//
//   The calls and what they answer are the same either way, but for three things with the thread: post() and send()
//   answer before the endpoint has the request, so an error that it finds (the stream has ended) is told by the handle;
//   test() sees what has happened without any call in between; and probe() and cancel() wait for the thread's answer.
//
// Errors: as of the endpoint; open() also EAGAIN, where the system gives no thread, and what the run loop needs.
//
// Threats: as of the endpoint. What the thread keeps for a program is bounded: requests_max, and one completion for
// each receive and send that Options::endpoint allows.
//
// Ownership: owns set, loop and endpoint; the buffers stay the caller's. Threads: one of the program's at a time.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "edge/run_loop.h"
#include "msg/endpoint.h"
#include "stack/core/stream_set.h"
#include "stack/head/stack_file.h"

namespace sluice::msg {

struct Core;
class Worker;

class Messenger {
 public:
  /// Opens a stream in the set; is called by open(), in the calling thread, and over connections for each of them, by
  /// the messenger's thread: then what it refers to outlives the messenger, and is not changed meanwhile.
  using Opener = std::function<Result<std::unique_ptr<Stream>>(StreamSet&)>;
  static constexpr std::size_t requests_max = 1024;

  struct Options {
    msg::Options endpoint = {};
    bool progress_thread = true;
    StreamSet::Options set = {};
  };

  [[nodiscard]] static Result<std::unique_ptr<Messenger>> open(const Opener& opener, Options options);
  [[nodiscard]] static Result<std::unique_ptr<Messenger>> open(const Opener& opener) { return open(opener, {}); }
  /// Over a stack that is declared, with the stream that answers for the host beside it where it has one
  /// (edge/host_stream.h). The registry that the declaration was read with outlives the messenger.
  [[nodiscard]] static Result<std::unique_ptr<Messenger>> open(const StackDeclaration& stack, Options options);
  /// Ends the thread, and closes the stream.
  ~Messenger();
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  [[nodiscard]] const Peer& address() const { return address_; }
  [[nodiscard]] std::uint64_t message_bytes_max() const { return message_bytes_max_; }
  [[nodiscard]] bool has_progress_thread() const { return worker_ != nullptr; }
  /// The clock of the deadlines below.
  [[nodiscard]] static TimePoint now();

  [[nodiscard]] Result<Handle> post(Bytes buffer, const Match& match);
  [[nodiscard]] Result<Handle> send(const Peer& to, std::uint64_t bits, ConstBytes data);
  [[nodiscard]] bool cancel(Handle handle);
  [[nodiscard]] Result<Completion> test(Handle handle);
  [[nodiscard]] Result<Completion> wait(Handle handle, TimePoint deadline = never);
  [[nodiscard]] Result<std::pair<std::size_t, Completion>> wait_any(std::span<const Handle> handles,
                                                                    TimePoint deadline = never);
  /// The first unexpected message that `match` accepts; it stays. Waits for one until `deadline`: ETIME. Without a
  /// deadline it looks once: EAGAIN.
  [[nodiscard]] Result<Unexpected> probe(const Match& match, TimePoint deadline = TimePoint::min());
  [[nodiscard]] Statistics statistics();

 private:
  Messenger();
  /// `host`: the declaration whose host stream is opened, too; or none.
  [[nodiscard]] static Result<std::unique_ptr<Messenger>> open(const Opener& opener, const StackDeclaration* host,
                                                               Options options);

  std::unique_ptr<Core> core_;
  std::unique_ptr<Worker> worker_;  // the thread; ends before what it works on
  Peer address_;
  std::uint64_t message_bytes_max_ = 0;
};

}  // namespace sluice::msg
