// SPDX-License-Identifier: Apache-2.0
#include "apps/sluice/host.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/common/addresses.h"
#include "apps/sluice/exit_code.h"
#include "apps/sluice/program.h"
#include "edge/host_stream.h"

namespace sluice {

int run_host(const StackDeclaration& stack, const HostOptions& options) {
  const std::unique_ptr<Program> program = Program::start();
  const std::unique_ptr<Stream> stream = program == nullptr ? nullptr : program->open(stack);
  if (stream == nullptr) {
    return exit_open;
  }
  const auto print = [&] { print_statistics(stack, *stream, options.json); };
  if (Status status = program->loop().on_signal(SIGUSR1, print); !status) {
    fmt::print(stderr, "sluice: {}\n", status.error().text);
    return exit_failed;
  }
  AddressWatch addresses(*stream, "sluice");
  if (!addresses.settle(program->loop(), [&] { return program->stopped(); })) {
    return exit_open;
  }
  fmt::print("{}\n", options.json ? nlohmann::ordered_json{{"event", "running"}, {"stack", stack.name}}.dump()
                                  : fmt::format("running {}", stack.name));
  std::fflush(stdout);
  // Nobody reads here: what reaches the head has been answered for by the modules below.
  attend_unread(program->loop(), *stream);
  program->loop().run_until([&] {
    addresses.tell();
    return program->stopped();
  });
  program->loop().unattend(*stream);
  print();
  return exit_ok;
}

}  // namespace sluice
