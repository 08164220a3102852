// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/remote/ssh_command.h"

#include <cerrno>

namespace sluice::ftx {
namespace {

/// What both command lines begin with.
std::vector<std::string> program_of(const SshCommand& command) {
  std::vector<std::string> arguments = command.program;
  if (command.port) {
    arguments.insert(arguments.end(), {"-p", std::to_string(*command.port)});
  }
  return arguments;
}

std::string_view take_until(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return taken;
}

}  // namespace

Result<std::vector<std::string>> split_words(std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quote == 0 && (c == ' ' || c == '\t')) {
      in_word = false;
      continue;
    }
    if (!in_word) {
      words.emplace_back();
      in_word = true;
    }
    if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else {
      if (c == '\\' && quote != '\'') {
        if (++i == text.size()) {
          return fail(EINVAL, "a backslash has nothing behind it");
        }
        c = text[i];
      }
      words.back() += c;
    }
  }
  if (quote != 0) {
    return fail(EINVAL, std::string("a ") + quote + " has no end");
  }
  return words.empty() ? Result<std::vector<std::string>>(fail(EINVAL, "there is no word in it")) : words;
}

std::vector<std::string> job_arguments(const SshCommand& command, std::string_view job) {
  std::vector<std::string> arguments = program_of(command);
  // No terminal, since bytes must pass as they are; and nothing else that the configuration starts beside a session.
  arguments.insert(arguments.end(),
                   {"-T", "-x", "-oRemoteCommand=none", "-oPermitLocalCommand=no", "-oClearAllForwardings=yes",
                    "-oForwardAgent=no", "--", command.login, command.remote_ftx + " " + std::string(job)});
  return arguments;
}

std::vector<std::string> start_arguments(const SshCommand& command) { return job_arguments(command, "remote"); }

std::vector<std::string> query_arguments(const SshCommand& command) {
  std::vector<std::string> arguments = program_of(command);
  arguments.insert(arguments.end(), {"-G", "--", command.login});
  return arguments;
}

std::string hostname_in(std::string_view configuration) {
  constexpr std::string_view key = "hostname ";
  while (!configuration.empty()) {
    const std::string_view line = take_until(configuration, '\n');
    if (line.starts_with(key)) {
      return std::string(line.substr(key.size()));
    }
  }
  return {};
}

SshConnection parse_ssh_connection(std::string_view text) {
  SshConnection connection;
  connection.client = take_until(text, ' ');
  take_until(text, ' ');
  connection.server = take_until(text, ' ');
  return connection.server.empty() ? SshConnection{} : connection;
}

}  // namespace sluice::ftx
