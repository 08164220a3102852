// SPDX-License-Identifier: Apache-2.0
#pragma once

// The command lines of ssh: to start ftx on the other host, and to ask ssh which host it would go to. Nothing of the
// user's paths and no secret is in them: those travel through the pipe, so no shell sees them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace sluice::ftx {

struct SshCommand {
  std::vector<std::string> program{"ssh"};  // with its first arguments (--ssh)
  std::optional<std::uint16_t> port;        // -p; without it: as ssh is configured
  std::string login;                        // [user@]host
  std::string remote_ftx = "ftx";           // as the login shell there reads it (--remote-ftx)
};

/// Splits `text` at blanks, as a shell splits simple words: '...' and "..." keep blanks, a backslash keeps what follows
/// it. Nothing is expanded. EINVAL: a quote without an end, or no word at all.
[[nodiscard]] Result<std::vector<std::string>> split_words(std::string_view text);

/// ssh ... -- LOGIN REMOTE-FTX JOB. `job` is no text of another's: the login shell there reads it.
[[nodiscard]] std::vector<std::string> job_arguments(const SshCommand& command, std::string_view job);
/// The same, of the job `remote`.
[[nodiscard]] std::vector<std::string> start_arguments(const SshCommand& command);
/// ssh ... -G -- LOGIN: prints the configuration, and connects to nobody.
[[nodiscard]] std::vector<std::string> query_arguments(const SshCommand& command);

/// The value of "hostname" in what `ssh -G` printed; empty: there is none.
[[nodiscard]] std::string hostname_in(std::string_view configuration);

/// The addresses of SSH_CONNECTION: "client IP address, client port number, server IP address, and server port number"
/// (ssh(1), ENVIRONMENT). Empty where the text is none of these.
struct SshConnection {
  std::string client;
  std::string server;
};
[[nodiscard]] SshConnection parse_ssh_connection(std::string_view text);

}  // namespace sluice::ftx
