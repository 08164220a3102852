// SPDX-License-Identifier: Apache-2.0
// The functions of ftx.h: a job's options are those of the program, read by the same parser.
#include <sys/eventfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "apps/ftx/arguments/serve_arguments.h"
#include "apps/ftx/arguments/transfer_arguments.h"
#include "apps/ftx/jobs/jobs.h"
#include "apps/ftx/jobs/observer.h"
#include "apps/ftx/library/ftx.h"
#include "apps/ftx/protocol/exit_code.h"
#include "apps/ftx/session/event.h"

namespace {

using sluice::ftx::Event;
using sluice::ftx::ExitCode;
using sluice::ftx::Failure;

constexpr int usage = static_cast<int>(ExitCode::usage);

ftx_event_kind kind_of(Event::Kind kind) {
  switch (kind) {
    case Event::Kind::listening:
      return FTX_LISTENING;
    case Event::Kind::offer:
      return FTX_OFFER;
    case Event::Kind::file:
      return FTX_FILE;
    case Event::Kind::change:
      return FTX_CHANGE;
    case Event::Kind::progress:
      return FTX_PROGRESS;
    case Event::Kind::fallback:
      return FTX_FALLBACK;
    case Event::Kind::left_out:
      return FTX_LEFT_OUT;
    case Event::Kind::repair:
      return FTX_REPAIR;
    case Event::Kind::error:
      return FTX_ERROR;
    case Event::Kind::rejected:
      return FTX_REJECTED;
    case Event::Kind::done:
      return FTX_DONE;
    case Event::Kind::unconfined:
      break;  // these jobs do not confine their process
  }
  return FTX_WARNING;
}

/// What a handler gets. `ftx_event` is first, so that ftx_event_json() finds the rest.
struct ToldEvent {
  ftx_event told;
  const Event* event;  // null: a warning
  mutable std::string json;
};
static_assert(std::is_standard_layout_v<ftx_event>);

ToldEvent told_of(const Event& event) {
  ftx_event told{};
  told.kind = kind_of(event.kind);
  told.code = static_cast<int>(event.code);
  told.files = event.files;
  told.files_done = event.files_done;
  told.bytes = event.bytes;
  told.total_bytes = event.total_bytes;
  told.skipped_files = event.skipped_files;
  told.skipped_bytes = event.skipped_bytes;
  told.datagrams = event.adus;
  told.seconds = event.seconds;
  told.path = event.path.c_str();
  told.text = event.kind == Event::Kind::change ? event.item.c_str() : event.text.c_str();
  return {told, &event, {}};
}

}  // namespace

struct ftx_job final : sluice::ftx::Observer {
 public:
  ftx_job(ftx_job_kind kind, int stop) : kind_(kind), stop_(stop) {
    if (kind == FTX_SERVE) {
      sluice::ftx::add_serve_options(app_, serve_);
    } else {
      transfer_.emplace(app_);
    }
  }
  ~ftx_job() override { ::close(stop_); }

  int set(std::string_view name, const char* value);
  void add(const char* operand) { operands_.emplace_back(operand); }
  void handle_by(ftx_event_handler* handler, void* user) {
    handler_ = handler;
    user_ = user;
  }
  void watch_files() { watches_files_ = true; }
  int run();
  void stop() const {
    constexpr std::uint64_t once = 1;
    const int code = errno;
    [[maybe_unused]] const auto written = ::write(stop_, &once, sizeof once);  // it fails where it is stopped already
    errno = code;
  }
  [[nodiscard]] const char* error() const { return failure_ != nullptr ? failure_ : error_.c_str(); }
  /// Allocates nothing.
  void give_up(const std::exception& exception) noexcept {
    failure_ =
        dynamic_cast<const std::bad_alloc*>(&exception) != nullptr ? "no memory is left" : "a fault of ftx itself";
  }

  void show(const Event& event) override;
  void note(std::string_view /*text*/) override {}  // of confinement, which a library does not do
  void warn(std::string_view text) override;
  [[nodiscard]] bool wants_files() const override { return watches_files_; }

 private:
  int fail(std::string text) {
    error_ = std::move(text);
    return usage;
  }
  ExitCode run_parsed();
  template <class Options>
  Options owned(Options options) const {
    options.own_process = false;
    options.stop_descriptor = stop_;
    return options;
  }

  ftx_job_kind kind_;
  int stop_;
  CLI::App app_;
  sluice::ftx::ServeOptions serve_;
  std::optional<sluice::ftx::TransferArguments> transfer_;
  std::vector<std::string> arguments_;
  std::vector<std::string> operands_;
  ftx_event_handler* handler_ = nullptr;
  void* user_ = nullptr;
  bool watches_files_ = false;
  bool has_run_ = false;
  std::string error_;
  const char* failure_ = nullptr;  // set: nothing works any more
};

int ftx_job::set(std::string_view name, const char* value) {
  error_.clear();
  const std::string dashes = name.size() == 1 ? "-" : "--";
  const CLI::Option* const option =
      name.empty() || name.starts_with('-') ? nullptr : app_.get_option_no_throw(dashes + std::string(name));
  if (option == nullptr || option == app_.get_help_ptr()) {
    return fail("there is no option '" + std::string(name) + "' of a job; see ftx(1)");
  }
  if (option->get_items_expected_max() == 0) {
    const std::string_view text = value == nullptr ? "true" : value;
    if (text == "true") {
      arguments_.push_back(dashes + std::string(name));
    }
    return text == "true" || text == "false"
               ? 0
               : fail("option '" + std::string(name) + "' takes no value but \"true\" and \"false\"");
  }
  if (value == nullptr) {
    return fail("option '" + std::string(name) + "' needs a value");
  }
  // A value that begins with a dash is no option.
  arguments_.push_back(name.size() == 1 ? dashes + std::string(name) + value
                                        : dashes + std::string(name) + "=" + value);
  return 0;
}

ExitCode ftx_job::run_parsed() {
  std::vector<std::string> line = arguments_;
  line.emplace_back("--");
  line.insert(line.end(), operands_.begin(), operands_.end());
  std::ranges::reverse(line);  // as CLI11 wants it
  try {
    app_.parse(std::move(line));
  } catch (const CLI::ParseError& parse_error) {
    return Observer::fail(Failure{ExitCode::usage, parse_error.what()});
  }
  if (kind_ == FTX_SERVE) {
    return sluice::ftx::serve(owned(serve_), *this);
  }
  auto options = transfer_->options();
  if (!options) {
    return Observer::fail(options.error());
  }
  options->version = ftx_version();
  return sluice::ftx::transfer(owned(*std::move(options)), *this);
}

int ftx_job::run() {
  error_.clear();
  if (has_run_) {
    return fail("this job has run; make another one");
  }
  has_run_ = true;
  const ExitCode code = run_parsed();
  if (code != ExitCode::ok && error_.empty()) {
    error_ = ftx_code_meaning(static_cast<int>(code));
  } else if (code == ExitCode::ok) {
    error_.clear();  // a server goes on after a client's error
  }
  return static_cast<int>(code);
}

void ftx_job::show(const Event& event) {
  if (event.kind == Event::Kind::error) {
    error_ = sluice::ftx::with_remedy(event.code, event.text);
  }
  if (handler_ != nullptr) {
    const ToldEvent told = told_of(event);
    handler_(user_, &told.told);
  }
}

void ftx_job::warn(std::string_view text) {
  if (handler_ != nullptr) {
    const std::string copy(text);
    ToldEvent told{};
    told.told.kind = FTX_WARNING;
    told.told.path = "";
    told.told.text = copy.c_str();
    handler_(user_, &told.told);
  }
}

namespace {

/// No exception gets out of a function of C.
template <class Function>
int guarded(ftx_job* job, Function&& function) noexcept {
  try {
    return function();
  } catch (const std::exception& exception) {
    job->give_up(exception);
    return static_cast<int>(ExitCode::internal);
  }
}

}  // namespace

extern "C" {

ftx_job* ftx_job_new(ftx_job_kind kind) {
  const int stop = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (stop < 0) {
    return nullptr;
  }
  try {
    return new ftx_job(kind, stop);
  } catch (const std::bad_alloc&) {
    ::close(stop);
    errno = ENOMEM;
    return nullptr;
  }
}

void ftx_job_free(ftx_job* job) { delete job; }

int ftx_job_set(ftx_job* job, const char* name, const char* value) {
  return guarded(job, [&] { return job->set(name, value); });
}

int ftx_job_add(ftx_job* job, const char* operand) {
  return guarded(job, [&] {
    job->add(operand);
    return 0;
  });
}

void ftx_job_on_event(ftx_job* job, ftx_event_handler* handler, void* user) { job->handle_by(handler, user); }

void ftx_job_watch_files(ftx_job* job) { job->watch_files(); }

int ftx_job_run(ftx_job* job) {
  return guarded(job, [&] { return job->run(); });
}

void ftx_job_stop(ftx_job* job) { job->stop(); }

const char* ftx_job_error(const ftx_job* job) { return job->error(); }

const char* ftx_event_json(const ftx_event* event) {
  const auto* const told = reinterpret_cast<const ToldEvent*>(event);
  if (told->event != nullptr && told->json.empty()) {
    told->json = sluice::ftx::to_json(*told->event);
  }
  return told->json.c_str();
}

const char* ftx_code_meaning(int code) {
  for (const sluice::ftx::ExitCodeRow& row : sluice::ftx::exit_codes) {
    if (static_cast<int>(row.code) == code) {
      return row.meaning.data();  // a literal
    }
  }
  return "";
}

const char* ftx_version() { return SLUICE_VERSION; }

}  // extern "C"
