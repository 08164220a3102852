// SPDX-License-Identifier: Apache-2.0
#pragma once

// ExitCode: how an ftx transfer can end. The process's exit status, the ERROR message and the JSON events carry the
// same code, so a script and the peer read the same number. --help prints the table below.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::ftx {

enum class ExitCode : std::uint8_t {
  ok = 0,
  internal = 1,
  usage = 2,
  bad_stack_file = 3,
  missing_privilege = 4,
  source_unreadable = 5,
  no_answer = 6,
  timeout = 7,
  refused = 8,
  disk_full = 9,
  write_failed = 10,
  digest_mismatch = 11,
  source_changed = 12,
  protocol_error = 13,
  connection_lost = 14,
  stack_unusable = 15,
  ssh_missing = 16,
  ssh_failed = 17,
  remote_missing = 18,
  remote_version = 19,
  udp_blocked = 20,
  no_such_path = 21,
  remote_lost = 22,
  congested = 23,
  unknown_host_key = 24,
  wrong_host_key = 25,
  not_allowed = 26,
  unwell = 27,
  interrupted = 130,
};

struct ExitCodeRow {
  ExitCode code;
  std::string_view name;
  std::string_view meaning;
};

inline constexpr std::array<ExitCodeRow, 29> exit_codes{{
    {ExitCode::ok, "ok", "every file arrived, its digest equal, under its final name"},
    {ExitCode::internal, "internal", "a fault of ftx itself"},
    {ExitCode::usage, "usage", "the command line is wrong"},
    {ExitCode::bad_stack_file, "bad_stack_file", "the stack file is unreadable or wrong"},
    {ExitCode::missing_privilege, "missing_privilege", "the stack needs a privilege this process lacks"},
    {ExitCode::source_unreadable, "source_unreadable", "a source cannot be read, vanished, or is no regular file"},
    {ExitCode::no_answer, "no_answer", "the peer refuses or never answered"},
    {ExitCode::timeout, "timeout", "the peer answered once and then fell silent"},
    {ExitCode::refused, "refused", "the peer refused: busy, a name, a path, or a limit"},
    {ExitCode::disk_full, "disk_full",
     "no space at the destination; the partial file is kept under its temporary name"},
    {ExitCode::write_failed, "write_failed", "the destination cannot be written"},
    {ExitCode::digest_mismatch, "digest_mismatch", "what was written differs from what was read"},
    {ExitCode::source_changed, "source_changed", "a source changed while it was sent"},
    {ExitCode::protocol_error, "protocol_error", "the peer broke the protocol"},
    {ExitCode::connection_lost, "connection_lost", "the peer no longer knows the connection (it restarted)"},
    {ExitCode::stack_unusable, "stack_unusable",
     "the stack cannot be opened: no such device, address in use, or the like"},
    {ExitCode::ssh_missing, "ssh_missing", "the ssh program cannot be started"},
    {ExitCode::ssh_failed, "ssh_failed", "ssh failed, or did not get through in time; its own message says why"},
    {ExitCode::remote_missing, "remote_missing", "there is no ftx to run on the other host"},
    {ExitCode::remote_version, "remote_version", "the ftx on the other host speaks another version"},
    {ExitCode::udp_blocked, "udp_blocked", "UDP does not come through to the other host"},
    {ExitCode::no_such_path, "no_such_path", "there is no such file or directory on the other host"},
    {ExitCode::remote_lost, "remote_lost", "the ftx on the other host, or ssh, ended before the transfer"},
    {ExitCode::congested, "congested", "the network loses too much at the rate asked for"},
    {ExitCode::unknown_host_key, "unknown_host_key", "the server's key is not known here yet"},
    {ExitCode::wrong_host_key, "wrong_host_key",
     "the server has another key than the one known here, or not the shared secret"},
    {ExitCode::not_allowed, "not_allowed", "the server does not allow this client"},
    {ExitCode::unwell, "unwell", "`ftx doctor` has found something to mend"},
    {ExitCode::interrupted, "interrupted", "interrupted by a signal"},
}};

/// The row of `code`; protocol_error for an unknown code (of a newer peer).
[[nodiscard]] constexpr const ExitCodeRow& exit_code_row(ExitCode code) {
  for (const ExitCodeRow& row : exit_codes) {
    if (row.code == code) {
      return row;
    }
  }
  return exit_codes[13];
}

/// The row of the code that an ERROR carries. An ERROR is never a success: 0, like a code of a newer peer, means
/// protocol_error. Takes the whole number of the message, of which an ExitCode holds only the lower half.
[[nodiscard]] constexpr const ExitCodeRow& failure_row(std::uint16_t code) {
  for (const ExitCodeRow& row : exit_codes) {
    if (row.code != ExitCode::ok && static_cast<std::uint16_t>(row.code) == code) {
      return row;
    }
  }
  return exit_code_row(ExitCode::protocol_error);
}

/// Why a transfer failed: the code for programs and a sentence for a person.
struct Failure {
  ExitCode code = ExitCode::internal;
  std::string text;
};

}  // namespace sluice::ftx
