// SPDX-License-Identifier: Apache-2.0
// A loop's handlers run in its one thread and are handed over under a lock: the fences that Asio adds are not needed,
// and ThreadSanitizer does not know them.
#define BOOST_ASIO_DISABLE_FENCED_BLOCK

#include "edge/run_loop.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <utility>
#include <vector>

#include "base/contract.h"

namespace sluice {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using SteadyClock = std::chrono::steady_clock;

TimePoint steady_now() {
  return TimePoint(std::chrono::duration_cast<Duration>(SteadyClock::now().time_since_epoch()));
}

SteadyClock::time_point on_steady_clock(TimePoint at) {
  return SteadyClock::time_point(std::chrono::duration_cast<SteadyClock::duration>(at.time_since_epoch()));
}

/// A descriptor of the program's own.
class ProgramDescriptor final : public EventSource {
 public:
  ProgramDescriptor(int descriptor, std::function<bool()> callback)
      : descriptor_(descriptor), callback_(std::move(callback)) {}

  [[nodiscard]] int descriptor() const override { return descriptor_; }
  bool on_readable() override { return callback_(); }

 private:
  int descriptor_;
  std::function<bool()> callback_;
};

/// Keeps a descriptor that stays ready although its source has nothing more to do with it from ending every sleep: an
/// error that nobody reads, a hangup, a frame for which there is no memory. Suspicion costs a system call a wake and
/// begins after `wakes_trusted` in a row; a pause ends it, and whatever is found not ready clears it.
class Readiness {
 public:
  /// The source was woken and says that it is done. `events` is what it was woken for.
  void settled(int descriptor, short events) {
    if (++wakes_ <= wakes_trusted) {
      return;
    }
    short standing = poll(descriptor, events);
    if ((standing & POLLERR) != 0) {
      take_error(descriptor);
      standing = poll(descriptor, events);
    }
    if (standing == 0) {
      return busy();
    }
    if (++found_standing_ < found_standing_max) {
      return;
    }
    // What waits there may be dealt with later; of an error or a hangup alone nothing will come.
    const Duration pause_max = (standing & events) != 0 ? RunLoop::standing_pause_max : RunLoop::broken_pause_max;
    pause_ = std::min(pause_max, std::max(pause_min, 2 * pause_));
    until_ = steady_now() + pause_;
  }
  /// The source has more to do, or had: nothing is wrong.
  void busy() {
    wakes_ = found_standing_ = 0;
    pause_ = {};
  }
  [[nodiscard]] TimePoint paused_until() const { return until_; }

 private:
  static constexpr unsigned wakes_trusted = 16;
  static constexpr unsigned found_standing_max = 16;
  static constexpr Duration pause_min = std::chrono::milliseconds(1);

  static short poll(int descriptor, short events) {
    pollfd asked{descriptor, events, 0};
    return ::poll(&asked, 1, 0) > 0 ? asked.revents : short{0};
  }
  /// "SO_ERROR: Get and clear the pending socket error" (socket(7)). No effect on what is no socket.
  static void take_error(int descriptor) {
    int error = 0;
    socklen_t size = sizeof error;
    static_cast<void>(::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size));
  }

  unsigned wakes_ = 0;  // in a row
  unsigned found_standing_ = 0;
  Duration pause_{};
  TimePoint until_ = TimePoint::min();
};

/// What the loop knows about one source. Shared with the handlers of its pending waits, which may run after its end.
struct Watch {
  Watch(asio::io_context& context, EventSource& watched) : source(watched), descriptor(context) {}
  ~Watch() { end(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Whether the kernel watches the descriptor. It is asked when there is first something to wait for: it would
  /// otherwise tell us of each frame that a socket has sent, which costs the sender some per cent.
  bool watched() {
    if (!descriptor.is_open() && !refused) {
      error_code failed;
      descriptor.assign(source.descriptor(), failed);
      refused = static_cast<bool>(failed);
    }
    return !refused && !always_ready;
  }
  /// The descriptor may be closed by now, or even be another's: Asio only tells the kernel to forget a number that the
  /// kernel then has forgotten already.
  void end() {
    if (descriptor.is_open()) {
      descriptor.release();
    }
  }

  /// After the source's turn, where it has not ended.
  void settle() {
    if (readable || !source.wants_readable() || source.keeps_readable()) {
      woken_to_read = false;
      reading.busy();
    } else if (std::exchange(woken_to_read, false)) {
      reading.settled(descriptor.native_handle(), POLLIN);
    }
    if (!write_due && std::exchange(woken_to_write, false)) {
      source.wants_writable() ? writing.settled(descriptor.native_handle(), POLLOUT) : writing.busy();
    }
  }

  EventSource& source;
  std::shared_ptr<ProgramDescriptor> program_descriptor;  // keeps alive what `source` refers to, if it is one
  asio::posix::stream_descriptor descriptor;
  bool readable = false;
  bool writable = false;
  bool write_due = false;  // it may write, and reading had this turn
  bool woken_to_read = false;
  bool woken_to_write = false;
  Readiness reading;
  Readiness writing;
  bool read_pending = false;
  bool write_pending = false;
  bool refused = false;       // the kernel does not watch it
  bool always_ready = false;  // the kernel cannot wait on it
};

}  // namespace

struct RunLoop::Implementation {
  explicit Implementation(StreamSet& stream_set) : set(stream_set) {}
  ~Implementation() { end_watches(); }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  void run_handlers_until(TimePoint deadline);
  bool round();
  void sleep(TimePoint deadline);

  bool lists_changed() const { return watched_set_version != set.sources_version() || program_list_changed; }
  void end_watches();
  void follow_lists();
  void add_watch(EventSource& source, std::shared_ptr<ProgramDescriptor> program_descriptor);
  bool serve_sources();
  static bool serve(Watch& watch);
  TimePoint arm_all();
  static TimePoint arm(const std::shared_ptr<Watch>& watch, TimePoint now);
  void arm_timer(TimePoint deadline);
  void await_signal(asio::signal_set& signals, const std::shared_ptr<std::function<void()>>& callback);

  StreamSet& set;
  StreamTurns turns;
  asio::io_context context{1};  // a hint: one thread runs it
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(context);
  asio::steady_timer timer{context};
  TimePoint timer_at = never;  // when the pending wait on `timer` ends
  std::vector<std::shared_ptr<Watch>> watches;
  std::vector<std::shared_ptr<ProgramDescriptor>> program_descriptors;
  std::vector<std::unique_ptr<asio::signal_set>> signal_sets;
  std::uint64_t watched_set_version = 0;
  bool program_list_changed = false;
  bool happened = false;  // a signal or stop() came
  bool stopped = false;
  std::size_t rounds_since_collection = 0;
};

void RunLoop::Implementation::add_watch(EventSource& source, std::shared_ptr<ProgramDescriptor> program_descriptor) {
  auto watch = std::make_shared<Watch>(context, source);
  watch->program_descriptor = std::move(program_descriptor);
  watches.push_back(std::move(watch));
}

void RunLoop::Implementation::end_watches() {
  for (const auto& watch : watches) {
    watch->end();
  }
  watches.clear();
}

/// Starts anew with all sources: the same source may have left and come back with another descriptor, or another source
/// with the same one.
void RunLoop::Implementation::follow_lists() {
  end_watches();
  watched_set_version = set.sources_version();
  program_list_changed = false;
  for (EventSource* source : set.sources()) {
    add_watch(*source, nullptr);
  }
  for (const auto& descriptor : program_descriptors) {
    add_watch(*descriptor, descriptor);
  }
}

bool RunLoop::Implementation::serve(Watch& watch) {
  const bool unwatched = watch.always_ready || watch.refused;
  const bool reads = (watch.readable || unwatched) && watch.source.wants_readable();
  const bool writes = (watch.writable || unwatched) && watch.source.wants_writable();
  // Not both in one call, since the first hook may have ended the source: in turn, so that neither starves.
  const bool reads_now = reads && !(writes && watch.write_due);
  watch.writable = watch.write_due = reads_now && writes;
  if (reads_now) {
    watch.readable = false;
    watch.readable = watch.source.on_readable();
  } else if (writes) {
    watch.source.on_writable();
  }
  return reads || writes;
}

bool RunLoop::Implementation::serve_sources() {
  bool served = false;
  if (lists_changed()) {
    follow_lists();
  }
  for (std::size_t i = 0; i < watches.size() && !lists_changed(); ++i) {
    const std::shared_ptr<Watch> watch = watches[i];
    served |= serve(*watch);
    if (!lists_changed()) {
      watch->settle();
    }
  }
  return served;
}

bool RunLoop::Implementation::round() {
  // What arrives is dealt with at the time it arrives, not at the time the loop went to sleep.
  set.scheduler().advance(steady_now());
  bool worked = serve_sources();
  worked |= set.scheduler().poll(steady_now());
  worked |= std::exchange(happened, false);
  worked |= turns.serve(worked);
  if (worked && ++rounds_since_collection >= rounds_between_collections_max) {
    sleep(TimePoint::min());
  }
  return worked;
}

/// Answers when to arm again what is not armed now.
TimePoint RunLoop::Implementation::arm(const std::shared_ptr<Watch>& watch, TimePoint now) {
  TimePoint again = never;
  if (!watch->read_pending && !watch->readable && watch->source.wants_readable()) {
    if (watch->reading.paused_until() > now) {
      again = watch->reading.paused_until();
    } else {
      watch->read_pending = true;
      watch->descriptor.async_wait(asio::posix::descriptor_base::wait_read, [watch](const error_code& error) {
        watch->read_pending = false;
        watch->readable = watch->woken_to_read = true;
        watch->always_ready = error == asio::error::operation_not_supported;
      });
    }
  }
  if (!watch->write_pending && !watch->writable && watch->source.wants_writable()) {
    if (watch->writing.paused_until() > now) {
      again = std::min(again, watch->writing.paused_until());
    } else {
      watch->write_pending = true;
      watch->descriptor.async_wait(asio::posix::descriptor_base::wait_write, [watch](const error_code&) {
        watch->write_pending = false;
        watch->writable = watch->woken_to_write = true;
      });
    }
  }
  return again;
}

/// Answers when to look again though the kernel has told nothing: at a source that it cannot watch, or one that pauses.
TimePoint RunLoop::Implementation::arm_all() {
  const TimePoint now = steady_now();
  TimePoint again = never;
  for (const auto& watch : watches) {
    if (!watch->source.wants_readable() && !watch->source.wants_writable()) {
      continue;
    }
    again = std::min(again, watch->watched() ? arm(watch, now) : now + unwatched_poll_interval);
  }
  return again;
}

/// A timer that is set too early costs a round; setting it anew each time would cost a system call each time.
void RunLoop::Implementation::arm_timer(TimePoint deadline) {
  if (deadline >= timer_at) {
    return;
  }
  timer_at = deadline;
  timer.expires_at(on_steady_clock(deadline));
  timer.async_wait([this](const error_code& error) {
    if (error != asio::error::operation_aborted) {
      timer_at = never;
    }
  });
}

/// Runs handlers that are ready; if none is, waits for one until `deadline`.
void RunLoop::Implementation::run_handlers_until(TimePoint deadline) {
  if (deadline > steady_now()) {
    arm_timer(deadline);
    context.run_one();
  }
  context.poll();
}

void RunLoop::Implementation::sleep(TimePoint deadline) {
  rounds_since_collection = 0;
  if (lists_changed()) {
    return;
  }
  deadline = std::min({deadline, set.scheduler().next_deadline(), arm_all()});
  run_handlers_until(turns.declined() ? std::min(deadline, steady_now() + unwatched_poll_interval) : deadline);
}

void RunLoop::Implementation::await_signal(asio::signal_set& signals,
                                           const std::shared_ptr<std::function<void()>>& callback) {
  signals.async_wait([this, &signals, callback](const error_code& error, int) {
    if (!error) {
      happened = true;
      (*callback)();
      await_signal(signals, callback);
    }
  });
}

RunLoop::RunLoop(std::unique_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}

RunLoop::~RunLoop() = default;

Result<std::unique_ptr<RunLoop>> RunLoop::open(StreamSet& set) {
  try {
    auto loop = std::unique_ptr<RunLoop>(new RunLoop(std::make_unique<Implementation>(set)));
    set.scheduler().advance(steady_now());  // what is begun before the first turn begins now
    return loop;
  } catch (const boost::system::system_error& error) {
    return fail(error.code().value(), std::string("cannot make a run loop: ") + error.what());
  }
}

TimePoint RunLoop::now() { return steady_now(); }

bool RunLoop::wait(TimePoint deadline) {
  for (;;) {
    if (implementation_->round()) {
      return true;
    }
    const bool expired = steady_now() >= deadline;
    implementation_->sleep(expired ? TimePoint::min() : deadline);
    if (expired) {
      return implementation_->round();
    }
  }
}

bool RunLoop::run_until(const std::function<bool()>& predicate, TimePoint deadline) {
  while (!predicate()) {
    if (std::exchange(implementation_->stopped, false) || !wait(deadline)) {
      return predicate();
    }
    // Where something happens all the time, no wait ends by the deadline.
    if (deadline != never && steady_now() >= deadline) {
      return predicate();
    }
  }
  return true;
}

void RunLoop::stop() {
  asio::post(implementation_->context,
             [implementation = implementation_.get()] { implementation->happened = implementation->stopped = true; });
}

Status RunLoop::on_signal(int signal, std::function<void()> callback) {
  try {
    auto& signals =
        implementation_->signal_sets.emplace_back(std::make_unique<asio::signal_set>(implementation_->context, signal));
    implementation_->await_signal(*signals, std::make_shared<std::function<void()>>(std::move(callback)));
    return {};
  } catch (const boost::system::system_error& error) {
    return fail(error.code().value(), "cannot wait for signal " + std::to_string(signal) + ": " + error.what());
  }
}

void RunLoop::attend(Stream& stream, StreamTurns::Turn turn) { implementation_->turns.attend(stream, std::move(turn)); }

void RunLoop::unattend(const Stream& stream) { implementation_->turns.unattend(stream); }

void RunLoop::watch(int descriptor, std::function<bool()> on_readable) {
  auto& watched = implementation_->program_descriptors;
  SLUICE_REQUIRE(std::none_of(watched.begin(), watched.end(),
                              [descriptor](const auto& one) { return one->descriptor() == descriptor; }));
  watched.push_back(std::make_shared<ProgramDescriptor>(descriptor, std::move(on_readable)));
  implementation_->program_list_changed = true;
}

void RunLoop::unwatch(int descriptor) {
  // At once: the caller may go on to close a descriptor of which there are duplicates, such as standard input.
  for (const auto& watch : implementation_->watches) {
    if (watch->descriptor.is_open() && watch->descriptor.native_handle() == descriptor) {
      watch->end();
    }
  }
  std::erase_if(implementation_->program_descriptors,
                [descriptor](const auto& one) { return one->descriptor() == descriptor; });
  implementation_->program_list_changed = true;
}

}  // namespace sluice
