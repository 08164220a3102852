// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/remote/start_pipe.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/retried.h"

namespace sluice::ftx {

StartPipe::StartPipe(RunLoop& loop, int in, int out) : loop_(loop), in_(in), out_(out) {
  loop_.watch(in_, [this] { return receive(); });
}

StartPipe::~StartPipe() { end(); }

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
  auto message = reader_.next();
  if (!message) {
    failure_ = message.error();
    end();
  } else if (*message) {
    auto* request = std::get_if<StartRequest>(&**message);
    if (request == nullptr || request_) {
      failure_ = Failure{ExitCode::protocol_error, "the start has one request, and nothing else"};
      end();
    } else {
      request_ = std::move(*request);
    }
  }
  return false;
}

std::expected<StartRequest, Failure> StartPipe::request(TimePoint deadline, const std::function<bool()>& stopped) {
  loop_.run_until([&] { return request_ || ended_ || stopped(); }, deadline);
  if (request_) {
    return std::move(*request_);
  }
  return std::unexpected(failure_.value_or(Failure{ExitCode::protocol_error, "no request came"}));
}

void StartPipe::answer(const StartReady& ready) { write(encode(ready)); }

void StartPipe::answer(const Failure& failure) { write(encode(StartFailure{failure.code, failure.text})); }

void StartPipe::write(ConstBytes bytes) {
  while (!bytes.empty()) {
    const ssize_t put = retried([&] { return ::write(out_, bytes.data(), bytes.size()); });
    if (put <= 0) {
      return end();
    }
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

}  // namespace sluice::ftx
