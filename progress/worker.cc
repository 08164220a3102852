// SPDX-License-Identifier: Apache-2.0
#include "progress/worker.h"

#include <pthread.h>

#include <cerrno>
#include <csignal>
#include <string>

namespace sluice::msg {
namespace {

/// Signals are the program's: a thread inherits what is blocked where it is made.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

Worker::Worker(Core& core, const Options& options, std::size_t requests_max)
    : receives_max_(options.receives_max),
      sends_max_(options.sends_max),
      core_(core),
      requests_(requests_max),
      finished_(options.receives_max + options.sends_max + 1) {
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

Worker::~Worker() {
  ask(End{});
  thread_.join();
}

// ---- The program's side ----

void Worker::ask(Request request) {
  if (requests_.push(std::move(request))) {
    core_.loop->stop();
  }
}

Result<Handle> Worker::begin(Kind kind, std::size_t& count, std::size_t count_max) {
  if (count >= count_max) {
    return fail(ENOBUFS, std::to_string(count) + " are not done or not asked for: wait for some");
  }
  ++count;
  outstanding_.emplace(++last_handle_, Outstanding{kind, std::nullopt});
  return Handle{last_handle_};
}

Result<Handle> Worker::post(Bytes buffer, const Match& match) {
  Result<Handle> handle = begin(Kind::receive, receives_, receives_max_);
  if (handle) {
    ask(Post{handle->value, buffer, match});
  }
  return handle;
}

Result<Handle> Worker::send(const Peer& to, std::uint64_t bits, ConstBytes data) {
  Result<Handle> handle = begin(Kind::send, sends_, sends_max_);
  if (handle) {
    ask(Send{handle->value, to, bits, data});
  }
  return handle;
}

void Worker::note(std::deque<Finished> finished) {
  for (Finished& one : finished) {
    // One that the program has cancelled is not there any more.
    if (const auto found = outstanding_.find(one.handle); found != outstanding_.end()) {
      found->second.result = std::move(one.result);
    }
  }
}

void Worker::forget(std::unordered_map<std::uint64_t, Outstanding>::iterator outstanding) {
  --(outstanding->second.kind == Kind::receive ? receives_ : sends_);
  outstanding_.erase(outstanding);
}

Result<Completion> Worker::test(Handle handle) {
  note(finished_.take_all());
  const auto found = outstanding_.find(handle.value);
  if (found == outstanding_.end()) {
    return fail(EINVAL, "no receive or send has this handle: it is done, or was cancelled");
  }
  if (!found->second.result) {
    return fail(EAGAIN);
  }
  Result<Completion> result = std::move(*found->second.result);
  forget(found);
  return result;
}

Result<std::pair<std::size_t, Completion>> Worker::wait_any(std::span<const Handle> handles, TimePoint deadline) {
  for (bool in_time = true;;) {
    auto done = test_any(*this, handles);
    if (done || done.error().code != EAGAIN) {
      return done;
    }
    if (!in_time) {
      return fail(ETIME);
    }
    std::deque<Finished> finished = finished_.wait_and_take(deadline);
    in_time = !finished.empty();
    note(std::move(finished));
  }
}

template <class T>
T Worker::answer() {
  return std::get<T>(answers_.wait_and_take(never).front());
}

std::optional<Unexpected> Worker::probe(const Match& match, TimePoint deadline) {
  const bool waits = deadline != TimePoint::min();
  ask(Probe{match, waits});
  if (!waits) {
    return answer<std::optional<Unexpected>>();
  }
  std::deque<Answer> answered = answers_.wait_and_take(deadline);
  if (answered.empty()) {
    ask(EndProbe{});  // now the answer comes, if it is not there by then
    answered = answers_.wait_and_take(never);
  }
  return std::get<std::optional<Unexpected>>(answered.front());
}

bool Worker::cancel(Handle handle) {
  const auto found = outstanding_.find(handle.value);
  if (found == outstanding_.end() || found->second.result) {
    return false;
  }
  ask(Cancel{handle.value});
  const bool cancelled = answer<bool>();
  if (cancelled) {
    forget(found);
  }
  return cancelled;
}

Statistics Worker::statistics() {
  ask(AskStatistics{});
  return answer<Statistics>();
}

// ---- The thread's side ----

void Worker::run() {
  core_.loop->attend(core_.endpoint->stream(), [this] { return turn(); });
  serve();
  while (!ended_) {
    core_.loop->run_until([this] { return !requests_.empty(); });
    serve();
  }
  core_.loop->unattend(core_.endpoint->stream());
}

bool Worker::turn() {
  const bool moved = core_.endpoint->progress();
  tell();
  return moved;
}

void Worker::serve() {
  for (const Request& request : requests_.take_all()) {
    std::visit([this](const auto& one) { serve(one); }, request);
  }
  tell();
}

void Worker::begun(std::uint64_t handle, const Result<Handle>& result) {
  if (!result) {
    static_cast<void>(finished_.push({handle, std::unexpected(result.error())}));
    return;
  }
  to_endpoint_.emplace(handle, result->value);
  to_program_.emplace(result->value, handle);
}

void Worker::serve(const Post& request) { begun(request.handle, core_.endpoint->post(request.buffer, request.match)); }

void Worker::serve(const Send& request) {
  begun(request.handle, core_.endpoint->send(request.to, request.bits, request.data));
}

void Worker::serve(const Cancel& request) {
  tell();  // what is done by now is not cancelled
  const auto found = to_endpoint_.find(request.handle);
  const bool cancelled = found != to_endpoint_.end() && core_.endpoint->cancel({found->second});
  if (cancelled) {
    to_program_.erase(found->second);
    to_endpoint_.erase(found);
  }
  static_cast<void>(answers_.push(cancelled));
}

void Worker::serve(const Probe& request) {
  probing_ = request.match;
  answer_probe();
  if (probing_ && !request.waits) {
    serve(EndProbe{});
  }
}

void Worker::serve(const EndProbe& /*request*/) {
  if (std::exchange(probing_, std::nullopt)) {
    static_cast<void>(answers_.push(std::optional<Unexpected>()));
  }
}

void Worker::serve(const AskStatistics& /*request*/) { static_cast<void>(answers_.push(core_.endpoint->statistics())); }

void Worker::serve(const End& /*request*/) { ended_ = true; }

void Worker::answer_probe() {
  if (const auto found = probing_ ? core_.endpoint->probe(*probing_) : std::nullopt) {
    probing_.reset();
    static_cast<void>(answers_.push(found));
  }
}

/// The program hears what is done.
void Worker::tell() {
  for (const Handle done : core_.endpoint->take_finished()) {
    const auto found = to_program_.find(done.value);
    Result<Completion> result = core_.endpoint->test(done);
    if (found == to_program_.end() || (!result && result.error().code == EAGAIN)) {
      continue;
    }
    static_cast<void>(finished_.push({found->second, std::move(result)}));
    to_endpoint_.erase(found->second);
    to_program_.erase(found);
  }
  if (core_.endpoint->broken() != 0) {
    tell_broken();
  }
  answer_probe();
}

/// The stream has ended: nothing that is not done will be.
void Worker::tell_broken() {
  for (const auto& [handle, of_endpoint] : to_endpoint_) {
    static_cast<void>(finished_.push({handle, fail(core_.endpoint->broken())}));
    static_cast<void>(core_.endpoint->cancel({of_endpoint}));
  }
  to_endpoint_.clear();
  to_program_.clear();
}

}  // namespace sluice::msg
