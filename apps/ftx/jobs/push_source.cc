// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/push_source.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "apps/ftx/jobs/confined.h"

namespace sluice::ftx {
namespace {

std::unexpected<Failure> wrong(std::string text) { return std::unexpected(Failure{ExitCode::usage, std::move(text)}); }

}  // namespace

bool sends_input(const PushOptions& options) {
  return std::ranges::find(options.sources, input_operand) != options.sources.end();
}

std::expected<void, Failure> check_input(const PushOptions& options, std::string_view path) {
  if (options.sources.size() != 1) {
    return wrong("standard input is sent alone; './-' is a file named '-'");
  }
  if (path.empty() || path.ends_with('/')) {
    return wrong(fmt::format("'{}' is a directory: what comes from standard input needs the name of a file",
                             options.destination));
  }
  if (options.update.told || options.update.leaves_alone() || options.update.delta || options.select.digests) {
    return wrong(
        "-n, -i, -u, -c, --delta, --existing and --ignore-existing: standard input is not compared with what is there");
  }
  if (options.deletion || options.select.names) {
    return wrong("--delete and --files-from: standard input is no directory");
  }
  return {};
}

bool PushSource::takes_time(const PushOptions& options) {
  return options.trees != Trees::none && std::ranges::all_of(options.sources, [](const std::string& path) {
           struct stat status{};
           return ::lstat(path.c_str(), &status) == 0 && (S_ISLNK(status.st_mode) || ::access(path.c_str(), R_OK) == 0);
         });
}

std::expected<PushSource, Failure> PushSource::open(const PushOptions& options) {
  PushSource source(options);
  if (!sends_input(options)) {
    const auto opened = source.open_again();
    return opened ? std::expected<PushSource, Failure>(std::move(source)) : std::unexpected(opened.error());
  }
  auto input = InputSource::open(STDIN_FILENO, "standard input");
  if (!input) {
    return std::unexpected(input.error());
  }
  source.input_ = *std::move(input);
  return source;
}

std::expected<void, Failure> PushSource::open_again() {
  // What has been read for digests need not be read again, and of standard input nothing has been read.
  if (input_ || (files_ && options_->select.digests)) {
    return {};
  }
  auto files = FileSource::open(options_->sources, options_->source_options());
  if (!files) {
    return std::unexpected(files.error());
  }
  files_ = *std::move(files);
  return {};
}

void PushSource::show_left_out(Observer& observer) const {
  if (!files_) {
    return;
  }
  const auto [links, others] = files_->left_out();
  if (links + others == 0) {
    return;
  }
  Event event;
  event.kind = Event::Kind::left_out;
  event.files = links + others;
  event.text = fmt::format("not sent: {} symbolic links{}, {} devices, sockets and FIFOs", links,
                           links > 0 ? " (-a sends them)" : "", others);
  observer.show(event);
}

FileRights PushSource::rights() const { return files_ ? rights_to_send(options_->sources) : FileRights{}; }

InputNews::InputNews(Host& host, PushSource& source) : host_(host), input_(source.input_.get()) {
  if (input_ != nullptr) {
    host_.loop().watch(input_->news(), [input = input_] {
      input->heard();
      return false;
    });
  }
}

InputNews::~InputNews() {
  if (input_ != nullptr) {
    host_.loop().unwatch(input_->news());
  }
}

}  // namespace sluice::ftx
