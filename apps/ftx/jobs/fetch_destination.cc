// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/fetch_destination.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "apps/common/entropy.h"

namespace sluice::ftx {
namespace {

/// How long the run loop works before the output is looked at again.
constexpr Duration turn_time = std::chrono::milliseconds(5);

std::unexpected<Failure> unwritable(const Error& error) {
  return std::unexpected(Failure{ExitCode::write_failed, error.text});
}

}  // namespace

std::expected<std::unique_ptr<FetchDestination>, Failure> FetchDestination::open(const PushOptions& options) {
  std::unique_ptr<FetchDestination> made(new FetchDestination());
  if (options.destination == standard_output) {
    if (options.trees != Trees::none || options.sources.size() > 1) {
      return std::unexpected(Failure{
          ExitCode::usage, "one file goes to standard output, and no directory; for a file named '-' say './-'"});
    }
    auto output = OutputDestination::open(STDOUT_FILENO, "standard output");
    if (!output) {
      return unwritable(output.error());
    }
    made->output_ = *std::move(output);
    return made;
  }
  auto place = place_of(options.destination.empty() ? "." : options.destination);
  if (!place) {
    return std::unexpected(Failure{ExitCode::write_failed, place.error().text});
  }
  auto directory =
      DirectoryDestination::serve(place->directory, entropy(), LandBy::faster, partials_of(options, made->journals_));
  if (!directory) {
    return unwritable(directory.error());
  }
  (*directory)->employ(made->workers_);
  (*directory)->keep(options.kept());
  made->place_ = *std::move(place);
  made->directory_ = *std::move(directory);
  return made;
}

FileRights FetchDestination::rights() const { return output_ ? FileRights{} : rights_to_receive(place_.directory); }

ExitCode FetchDestination::complete(ExitCode code, Host& host, Observer& observer) {
  if (code != ExitCode::ok || !output_) {
    return code;
  }
  const Status drained = output_->drain([&host] {
    host.wait(host.loop().now() + turn_time);
    return !host.interrupted();
  });
  if (drained) {
    return code;
  }
  return observer.fail(drained.error().code == EINTR ? Failure{ExitCode::interrupted, "interrupted"}
                                                     : Failure{ExitCode::write_failed, drained.error().text});
}

}  // namespace sluice::ftx
