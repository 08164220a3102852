// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/remote/start_pipe.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/contract.h"
#include "base/retried.h"

namespace sluice::ftx {

StartPipe::StartPipe(RunLoop& loop, int in, int out) : loop_(loop), in_(in), out_(out) {
  loop_.watch(in_, [this] { return receive(); });
}

StartPipe::~StartPipe() {
  if (!switched_) {
    end();
  }
}

void StartPipe::end() {
  if (!std::exchange(ended_, true)) {
    loop_.unwatch(in_);
  }
}

/// One read a turn: the descriptor may block, and only the loop knows that it would not now.
bool StartPipe::receive() {
  std::array<std::byte, 4096> bytes;
  const Bytes room = Bytes(bytes).first(std::min(bytes.size(), reader_.room()));
  const ssize_t got = retried([&] { return ::read(in_, room.data(), room.size()); });
  if (got <= 0) {
    if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) {
      end();
    }
    return false;
  }
  reader_.feed(room.first(static_cast<std::size_t>(got)));
  wipe(bytes);
  while (!ended_) {
    auto message = reader_.next();
    if (!message) {
      failure_ = message.error();
      end();
    } else if (!*message) {
      break;
    } else if (!take(*std::move(*message))) {
      break_off("the start has one request, and nothing out of turn");
    }
  }
  return false;
}

/// False: out of turn. The near side sends one request, one echo at most, and nothing behind a switch before its
/// answer.
bool StartPipe::take(StartMessage message) {
  if (auto* request = std::get_if<StartRequest>(&message); request != nullptr && !requested_) {
    requested_ = true;
    request_ = std::move(*request);
    return true;
  }
  if (std::holds_alternative<StartEcho>(message) && requested_ && !echoed_) {
    echoed_ = true;
    write(encode(StartEcho{}));
    return true;
  }
  if (auto* change = std::get_if<StartSwitch>(&message);
      change != nullptr && requested_ && !switch_ && !reader_.holds_more()) {
    switch_ = std::move(*change);
    return true;
  }
  return false;
}

void StartPipe::break_off(std::string text) {
  failure_ = Failure{ExitCode::protocol_error, std::move(text)};
  end();
}

Secret StartPipe::switch_over() {
  SLUICE_REQUIRE(switch_ && !switched_);
  write(encode(StartSwitched{}));
  switched_ = true;
  if (!ended_) {
    loop_.unwatch(in_);
  }
  return std::move(switch_->secret);
}

std::expected<StartRequest, Failure> StartPipe::request(TimePoint deadline, const std::function<bool()>& stopped) {
  loop_.run_until([&] { return request_ || ended_ || stopped(); }, deadline);
  if (request_) {
    auto request = std::move(*request_);
    request_.reset();
    return request;
  }
  return std::unexpected(failure_.value_or(Failure{ExitCode::protocol_error, "no request came"}));
}

void StartPipe::answer(const StartReady& ready) { write(encode(ready)); }

void StartPipe::answer(const Failure& failure) { write(encode(StartFailure{failure.code, failure.text})); }

void StartPipe::write(ConstBytes bytes) {
  if (switched_) {
    return;  // whatever it is, it is no frame
  }
  while (!bytes.empty()) {
    const ssize_t put = retried([&] { return ::write(out_, bytes.data(), bytes.size()); });
    if (put <= 0) {
      return end();
    }
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

}  // namespace sluice::ftx
