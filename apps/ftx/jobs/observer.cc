// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/observer.h"

namespace sluice::ftx {

std::string_view remedy_for(ExitCode code) {
  switch (code) {
    case ExitCode::internal:
      return "please report this fault of ftx";
    case ExitCode::source_unreadable:
      return "check its name and permissions";
    case ExitCode::no_answer:
      return "check that `ftx serve` runs there, its port, and the firewalls between";
    case ExitCode::timeout:
      return "check the network between, or wait longer: --idle-timeout";
    case ExitCode::refused:
      return "what a server takes is decided where `ftx serve` runs";
    case ExitCode::disk_full:
      return "make room there and run it again";
    case ExitCode::write_failed:
      return "check the destination and its permissions";
    case ExitCode::digest_mismatch:
      return "run it again; if that fails, too, test memory and disks of both hosts";
    case ExitCode::source_changed:
      return "run it again when nothing writes to it";
    case ExitCode::protocol_error:
      return "install the same version of ftx on both hosts";
    case ExitCode::connection_lost:
      return "run it again";
    case ExitCode::stack_unusable:
      return "check the device, the address and the port";
    case ExitCode::no_such_path:
      return "check the path there";
    default:
      return {};
  }
}

std::string with_remedy(ExitCode code, std::string_view text) {
  const std::string_view remedy = remedy_for(code);
  return remedy.empty() ? std::string(text) : std::string(text) + "; " + std::string(remedy);
}

}  // namespace sluice::ftx
