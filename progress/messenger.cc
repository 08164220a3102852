// SPDX-License-Identifier: Apache-2.0
#include "progress/messenger.h"

#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>

#include "progress/core.h"
#include "progress/worker.h"

namespace sluice::msg {

Messenger::Messenger() = default;

/// First the thread, then what it worked on.
Messenger::~Messenger() = default;

TimePoint Messenger::now() {
  return TimePoint(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

Result<std::unique_ptr<Messenger>> Messenger::open(const Opener& opener, Options options) {
  return open(opener, nullptr, std::move(options));
}

Result<std::unique_ptr<Messenger>> Messenger::open(const StackDeclaration& stack, Options options) {
  return open([stack](StreamSet& set) { return open_stack(set, stack); }, &stack, std::move(options));
}

Result<std::unique_ptr<Messenger>> Messenger::open(const Opener& opener, const StackDeclaration* host,
                                                   Options options) {
  std::unique_ptr<Messenger> messenger(new Messenger());
  messenger->core_ = std::make_unique<Core>(options.set);
  Core& core = *messenger->core_;
  auto loop = RunLoop::open(core.set);
  if (!loop) {
    return std::unexpected(std::move(loop.error()));
  }
  core.loop = std::move(*loop);
  auto stream = opener(core.set);
  if (!stream) {
    return std::unexpected(std::move(stream.error()));
  }
  (*stream)->set_waiter(core.loop.get());
  if (host != nullptr) {
    auto opened = HostStream::open(core.set, *core.loop, *host);
    if (!opened) {
      return std::unexpected(std::move(opened.error()));
    }
    core.host = std::move(*opened);
  }
  options.endpoint.list_finished = options.progress_thread;
  // For connections: the opener is called again, by the thread where there is one.
  options.endpoint.another_stream = [opener, &core] { return opener(core.set); };
  auto endpoint = Endpoint::open(std::move(*stream), options.endpoint);
  if (!endpoint) {
    return std::unexpected(std::move(endpoint.error()));
  }
  core.endpoint = std::move(*endpoint);
  messenger->address_ = core.endpoint->address();
  messenger->message_bytes_max_ = core.endpoint->message_bytes_max();
  if (!options.progress_thread) {
    core.loop->attend(core.endpoint->stream(), [&core] { return core.endpoint->progress(); });
    return messenger;
  }
  try {
    messenger->worker_ = std::make_unique<Worker>(core, options.endpoint, requests_max);
  } catch (const std::system_error& error) {
    return fail(error.code().value(), std::string("cannot start the progress thread: ") + error.what());
  }
  return messenger;
}

Result<Handle> Messenger::post(Bytes buffer, const Match& match) {
  return worker_ ? worker_->post(buffer, match) : core_->endpoint->post(buffer, match);
}

Result<Handle> Messenger::send(const Peer& to, std::uint64_t bits, ConstBytes data) {
  if (data.size() > message_bytes_max_) {
    return fail(EMSGSIZE, "a message of " + std::to_string(data.size()) + " bytes is longer than the " +
                              std::to_string(message_bytes_max_) + " that the stack takes");
  }
  return worker_ ? worker_->send(to, bits, data) : core_->endpoint->send(to, bits, data);
}

Result<Completion> Messenger::test(Handle handle) {
  return worker_ ? worker_->test(handle) : core_->endpoint->test(handle);
}

Result<Completion> Messenger::wait(Handle handle, TimePoint deadline) {
  auto done = wait_any(std::span(&handle, 1), deadline);
  return done ? Result<Completion>(done->second) : std::unexpected(std::move(done.error()));
}

Result<std::pair<std::size_t, Completion>> Messenger::wait_any(std::span<const Handle> handles, TimePoint deadline) {
  return worker_ ? worker_->wait_any(handles, deadline) : core_->endpoint->wait_any(handles, deadline);
}

Result<Unexpected> Messenger::probe(const Match& match, TimePoint deadline) {
  if (worker_) {
    const auto found = worker_->probe(match, deadline);
    return found ? Result<Unexpected>(*found) : fail(deadline == TimePoint::min() ? EAGAIN : ETIME);
  }
  static_cast<void>(core_->loop->wait(TimePoint::min()));
  core_->loop->run_until([&] { return core_->endpoint->probe(match).has_value(); }, deadline);
  const auto found = core_->endpoint->probe(match);
  return found ? Result<Unexpected>(*found) : fail(deadline == TimePoint::min() ? EAGAIN : ETIME);
}

bool Messenger::cancel(Handle handle) { return worker_ ? worker_->cancel(handle) : core_->endpoint->cancel(handle); }

Statistics Messenger::statistics() { return worker_ ? worker_->statistics() : core_->endpoint->statistics(); }

}  // namespace sluice::msg
