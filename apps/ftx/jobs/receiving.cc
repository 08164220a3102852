// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/receiving.h"

#include <fmt/format.h>

#include <algorithm>

namespace sluice::ftx {
ExitCode Receiving::run() {
  while (!ended()) {
    now_ = host_.loop().now();
    if (host_.interrupted()) {
      stop(std::nullopt);
      break;
    }
    const TimePoint until = traffic_.send(now_);
    show_events();
    if (left && (left() || outcome_ == ExitCode::no_answer)) {
      return ExitCode::no_answer;
    }
    if (const auto failure = lost()) {
      if (ends_at_ == never) {
        // A signal of the terminal is for ssh, too, which may end before we have seen ours.
        host_.wait(now_);
        stop(host_.interrupted() ? std::nullopt : failure);
      }
      break;
    }
    host_.wait(once_ ? std::min(until, ends_at_) : until);
  }
  show_events();
  traffic_.end();
  carrier_->drain(std::chrono::seconds(1));
  return outcome_;
}

/// Ends what runs and tells the peers. `failure` is the reason and the outcome; without it the user's interrupt is.
void Receiving::stop(const std::optional<Failure>& failure) {
  server_.interrupt(now_);
  traffic_.send(now_);
  if (!failure) {
    show_events();
    outcome_ = ExitCode::interrupted;
    return;
  }
  while (traffic_.next_event()) {  // "interrupted" is not the reason
  }
  outcome_ = observer_.fail(*failure);
}

/// `once` ends when the peers have closed or do not answer any more.
bool Receiving::ended() const {
  return once_ && ends_at_ != never && server_.open_sessions() == 0 &&
         (server_.unclosed_sessions() == 0 || now_ >= ends_at_);
}

void Receiving::show_events() {
  while (auto event = traffic_.next_event()) {
    if (event->code == ExitCode::no_answer && left) {
      outcome_ = ExitCode::no_answer;
      continue;
    }
    if (event->code == ExitCode::no_answer && unanswered) {
      event->code = unanswered->code;
      event->text = unanswered->text;
    } else if (event->kind == Event::Kind::error && event->code != ExitCode::interrupted) {
      event->text = fmt::format("{}: {}", shown_path.empty() ? event->address : shown_path, event->text);
    }
    if (!shown_path.empty() && event->kind != Event::Kind::change) {
      event->path = shown_path;
    }
    observer_.show(*event);
    if (event->kind == Event::Kind::done || event->kind == Event::Kind::error) {
      outcome_ = event->kind == Event::Kind::done ? ExitCode::ok : event->code;
      ends_at_ = now_ + linger;
    }
  }
}

}  // namespace sluice::ftx
