// SPDX-License-Identifier: Apache-2.0
#pragma once

// Host: what every job needs: stream set, run loop, signals and the declared stack.
//
// Not thread-safe.

#include <expected>
#include <memory>
#include <optional>

#include "apps/common/addresses.h"
#include "apps/ftx/jobs/jobs.h"
#include "apps/ftx/transport/transport.h"
#include "edge/host_stream.h"
#include "edge/run_loop.h"

namespace sluice::ftx {

class Host {
 public:
  [[nodiscard]] static std::expected<std::unique_ptr<Host>, Failure> start(const CommonOptions& options);

  /// The transport is the caller's; one at a time.
  [[nodiscard]] std::expected<std::unique_ptr<Transport>, Failure> open(const wire::TransportAddress& local);

  /// Lets go of the stream of open(), before the caller closes it while the program goes on.
  void close();

  /// Waits as the loop does, then tells what is new of the stack's addresses.
  void wait(TimePoint deadline);

  [[nodiscard]] RunLoop& loop() { return *loop_; }
  [[nodiscard]] StreamSet& set() { return set_; }
  /// The passes over payload so far.
  [[nodiscard]] const Touches& touches() { return set_.pool().touches(); }
  /// The job is to end: SIGINT or SIGTERM has come, one of also_interrupted_by(), or the options' descriptor is
  /// readable.
  [[nodiscard]] bool interrupted() const { return interrupted_; }
  Status also_interrupted_by(int signal);

 private:
  Host();
  /// By the signals that end a program, and by the descriptor of the options.
  Status heed_ends(const CommonOptions& options);

  StreamSet set_;
  Registry registry_;
  StackDeclaration stack_;  // points into the registry
  std::unique_ptr<RunLoop> loop_;
  std::optional<AddressWatch> addresses_;
  std::unique_ptr<HostStream> host_;
  bool interrupted_ = false;
};

/// The wildcard address of IPv6 or IPv4. The IPv6 one serves both where the provider can.
[[nodiscard]] wire::IpAddress any_address(bool v6);

[[nodiscard]] Duration seconds(double value);

}  // namespace sluice::ftx
