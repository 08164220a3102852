// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/host.h"

#include <csignal>

#include "apps/common/entropy.h"
#include "apps/common/registry.h"

namespace sluice::ftx {
namespace {

/// The stack without --stack; it needs no privilege.
constexpr std::string_view default_stack = R"(
[stack.kernel]
mode   = "fused"
driver = { kind = "kernel_udp" }
push   = ["timod"]
)";

/// On a fused path payloads from here on have a plan: they come from files and go to files, so that each pass less
/// counts.
constexpr std::size_t fused_payload_bytes_min = 1024;

}  // namespace

Host::Host()
    : set_(StreamSet::Options{.defer_bytes_min = fused_payload_bytes_min, .seed = entropy()}),
      registry_(standard_registry()) {}

std::expected<std::unique_ptr<Host>, Failure> Host::start(const CommonOptions& options) {
  if (options.own_process) {
    // A file beyond the process's size limit is a write error (EFBIG), not the end of the process.
    std::signal(SIGXFSZ, SIG_IGN);
  }
  std::unique_ptr<Host> host(new Host());
  auto loop = RunLoop::open(host->set_);
  if (!loop) {
    return std::unexpected(Failure{ExitCode::stack_unusable, loop.error().text});
  }
  host->loop_ = std::move(*loop);
  if (const Status heeded = host->heed_ends(options); !heeded) {
    return std::unexpected(Failure{ExitCode::stack_unusable, heeded.error().text});
  }
  auto file = options.stack_file.empty() ? StackFile::parse(default_stack, "built-in", host->registry_)
                                         : StackFile::load(options.stack_file, host->registry_);
  if (!file) {
    return std::unexpected(Failure{ExitCode::bad_stack_file, file.error().text});
  }
  auto stack = file->find(options.stack_name);
  if (!stack) {
    return std::unexpected(Failure{ExitCode::bad_stack_file, stack.error().text});
  }
  host->stack_ = **stack;
  host->stack_.mode = options.mode.value_or(host->stack_.mode);
  return host;
}

Status Host::heed_ends(const CommonOptions& options) {
  if (options.stop_descriptor >= 0) {
    loop_->watch(options.stop_descriptor, [this, stop = options.stop_descriptor] {
      loop_->unwatch(stop);
      interrupted_ = true;
      return false;
    });
  }
  Status status;
  for (const int signal : {SIGINT, SIGTERM}) {
    status = status && options.own_process ? also_interrupted_by(signal) : status;
  }
  return status;
}

Status Host::also_interrupted_by(int signal) {
  return loop_->on_signal(signal, [this] { interrupted_ = true; });
}

std::expected<std::unique_ptr<Transport>, Failure> Host::open(const wire::TransportAddress& local) {
  close();
  auto transport = Transport::open(set_, *loop_, stack_, local);
  if (transport) {
    auto host = HostStream::open(set_, *loop_, stack_);
    if (!host) {
      return std::unexpected(Failure{ExitCode::stack_unusable, host.error().text});
    }
    host_ = *std::move(host);
    addresses_.emplace((*transport)->stream(), "ftx");
    if (!addresses_->settle(*loop_, [this] { return interrupted_; })) {
      return std::unexpected(Failure{ExitCode::stack_unusable, "the stack has no address of its own"});
    }
  }
  return transport;
}

void Host::close() {
  addresses_.reset();
  host_.reset();
}

void Host::wait(TimePoint deadline) {
  [[maybe_unused]] const bool happened = loop_->wait(deadline);
  if (addresses_) {
    addresses_->tell();
  }
}

wire::IpAddress any_address(bool v6) {
  return v6 ? wire::IpAddress(wire::Ipv6Address{}) : wire::IpAddress(wire::Ipv4Address{});
}

Duration seconds(double value) { return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value)); }

}  // namespace sluice::ftx
