// SPDX-License-Identifier: Apache-2.0
#include "apps/sluice/netcat_input.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

namespace sluice {
namespace {

Duration seconds(double value) { return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value)); }

}  // namespace

void NetcatInput::update(bool wanted) {
  wanted = wanted && size_ == 0 && !ended();
  if (wanted && !watching_) {
    loop_.watch(STDIN_FILENO, [this] { return read(); });
  } else if (!wanted && watching_) {
    loop_.unwatch(STDIN_FILENO);
  }
  watching_ = wanted;
}

bool NetcatInput::read() {
  if (size_ > 0 || ended()) {
    return false;
  }
  const ssize_t size = ::read(STDIN_FILENO, chunk_.data(), chunk_.size());
  if (size < 0 && (errno == EINTR || errno == EAGAIN)) {
    return false;  // it is still readable, or will be
  }
  if (size < 0) {
    fmt::print(stderr, "sluice: nc: cannot read standard input: {}\n", std::generic_category().message(errno));
    failed_ = true;
  }
  if (size <= 0) {
    ended_at_ = loop_.now();
    return false;
  }
  first_ = 0;
  size_ = static_cast<std::size_t>(size);
  return false;
}

void NetcatInput::sent(std::size_t size) {
  first_ += size;
  size_ -= size;
  last_activity_ = loop_.now();
}

void NetcatInput::write(ConstBytes data) {
  last_activity_ = loop_.now();
  if (std::fwrite(data.data(), 1, data.size(), stdout) != data.size() || std::fflush(stdout) != 0) {
    fmt::print(stderr, "sluice: nc: cannot write to standard output\n");
    failed_ = true;
  }
}

TimePoint NetcatInput::deadline() const {
  const TimePoint idle = options_.idle_s ? last_activity_ + seconds(*options_.idle_s) : never;
  const TimePoint lingered = options_.linger_s && ended() ? ended_at_ + seconds(*options_.linger_s) : never;
  return std::min(idle, lingered);
}

}  // namespace sluice
