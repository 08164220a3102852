// SPDX-License-Identifier: Apache-2.0
#pragma once

// The thread that moves messages while a program computes, and the program's end of the queues to it.
//
//     program                                            thread
//     post, send, cancel, probe, end ──► requests ──►    endpoint: post, send, cancel, probe
//     test, wait, wait_any           ◄── finished ◄──    endpoint: what is done
//     cancel, probe, statistics      ◄── answers  ◄──
//
// Handles are the program's own numbers, given before the endpoint has the request; the thread keeps which of the
// endpoint's belongs to which. `finished` has room for everything that can be outstanding, so the thread never waits
// for the program; the program waits for the thread where `requests` is full, which is never long.
//
// Threads: constructor, destructor and calls: the program's. Ownership: refers to a Core, which is the thread's from
// constructor to destructor.

#include <cstdint>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "progress/bounded_queue.h"
#include "progress/core.h"

namespace sluice::msg {

class Worker {
 public:
  /// Starts the thread. Throws std::system_error where there is none.
  Worker(Core& core, const Options& options, std::size_t requests_max);
  /// Ends it.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  [[nodiscard]] Result<Handle> post(Bytes buffer, const Match& match);
  [[nodiscard]] Result<Handle> send(const Peer& to, std::uint64_t bits, ConstBytes data);
  [[nodiscard]] Result<Completion> test(Handle handle);
  [[nodiscard]] Result<std::pair<std::size_t, Completion>> wait_any(std::span<const Handle> handles,
                                                                    TimePoint deadline);
  [[nodiscard]] std::optional<Unexpected> probe(const Match& match, TimePoint deadline);
  [[nodiscard]] bool cancel(Handle handle);
  [[nodiscard]] Statistics statistics();

 private:
  // From the program. A probe is answered once: when a message is there, when the program ends it, or at once.
  struct Post {
    std::uint64_t handle;
    Bytes buffer;
    Match match;
  };
  struct Send {
    std::uint64_t handle;
    Peer to;
    std::uint64_t bits;
    ConstBytes data;
  };
  struct Cancel {
    std::uint64_t handle;
  };
  struct Probe {
    Match match;
    bool waits;
  };
  struct EndProbe {};
  struct AskStatistics {};
  struct End {};
  using Request = std::variant<Post, Send, Cancel, Probe, EndProbe, AskStatistics, End>;

  // To the program.
  struct Finished {
    std::uint64_t handle;
    Result<Completion> result;
  };
  using Answer = std::variant<std::optional<Unexpected>, bool, Statistics>;

  // The program's side.
  enum class Kind : std::uint8_t { receive, send };
  struct Outstanding {
    Kind kind;
    std::optional<Result<Completion>> result;
  };
  [[nodiscard]] Result<Handle> begin(Kind kind, std::size_t& count, std::size_t count_max);
  void ask(Request request);
  void note(std::deque<Finished> finished);
  void forget(std::unordered_map<std::uint64_t, Outstanding>::iterator outstanding);
  template <class T>
  [[nodiscard]] T answer();

  // The thread's side.
  void run();
  void serve();
  void serve(const Post& request);
  void serve(const Send& request);
  void serve(const Cancel& request);
  void serve(const Probe& request);
  void serve(const EndProbe& request);
  void serve(const AskStatistics& request);
  void serve(const End& request);
  void begun(std::uint64_t handle, const Result<Handle>& result);
  bool turn();
  void tell();
  void tell_broken();
  void answer_probe();

  // The program's.
  const std::size_t receives_max_;
  const std::size_t sends_max_;
  std::uint64_t last_handle_ = 0;
  std::size_t receives_ = 0;
  std::size_t sends_ = 0;
  std::unordered_map<std::uint64_t, Outstanding> outstanding_;

  // Both.
  Core& core_;  // of its members the program calls RunLoop::stop() alone
  BoundedQueue<Request> requests_;
  BoundedQueue<Finished> finished_;
  BoundedQueue<Answer> answers_{1};

  // The thread's.
  bool ended_ = false;
  std::optional<Match> probing_;
  std::unordered_map<std::uint64_t, std::uint64_t> to_endpoint_;  // handles of the program's that are not done
  std::unordered_map<std::uint64_t, std::uint64_t> to_program_;

  std::thread thread_;
};

}  // namespace sluice::msg
