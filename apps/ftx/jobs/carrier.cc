// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/carrier.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>

namespace sluice::ftx {
namespace {

/// Where nothing says that the pipe has room again.
constexpr Duration flush_interval = std::chrono::milliseconds(20);

}  // namespace

PipeCarrier::PipeCarrier(Host& host, int in, int out)
    : host_(host),
      transport_(in, out),
      in_(*this, in, in == out ? Source::Is::both : Source::Is::in),
      written_at_(host.loop().now()) {
  host_.set().add_source(in_);
  if (in == out) {
    return;
  }
  epoll_event event{.events = EPOLLOUT, .data = {}};
  out_watch_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (out_watch_ >= 0 && ::epoll_ctl(out_watch_, EPOLL_CTL_ADD, out, &event) == 0) {
    host_.set().add_source(out_.emplace(*this, out_watch_, Source::Is::watch_of_out));
  }
  // Else whoever sends tries again now and then.
}

PipeCarrier::~PipeCarrier() {
  host_.set().remove_source(in_);
  if (out_) {
    host_.set().remove_source(*out_);
  }
  if (out_watch_ >= 0) {
    ::close(out_watch_);
  }
}

bool PipeCarrier::Source::on_readable() {
  if (is_ == Is::watch_of_out) {
    owner_.transport_.flush();
    return false;
  }
  return owner_.turn_();
}

void PipeCarrier::attend(std::function<bool()> turn) { turn_ = std::move(turn); }

void PipeCarrier::drain(Duration time) {
  const TimePoint end = host_.loop().now() + time;
  for (transport_.flush(); waits() && !transport_.ended() && host_.loop().now() < end; transport_.flush()) {
    static_cast<void>(host_.loop().wait(std::min(end, host_.loop().now() + flush_interval)));
  }
}

std::optional<Failure> PipeCarrier::trouble(Duration limit) {
  if (transport_.broken()) {
    return Failure{ExitCode::protocol_error, "the other ftx broke the framing of the pipe"};
  }
  const TimePoint now = host_.loop().now();
  if (transport_.waiting() == 0 || transport_.written_bytes() != written_before_) {
    written_before_ = transport_.written_bytes();
    written_at_ = now;
  }
  return now - written_at_ >= limit
             ? std::optional(Failure{ExitCode::timeout, "the pipe of ssh takes nothing any more"})
             : std::nullopt;
}

}  // namespace sluice::ftx
