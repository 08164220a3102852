// SPDX-License-Identifier: Apache-2.0
// The sluice program: reads the command line and calls the command.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <string>

#include "apps/common/registry.h"
#include "apps/sluice/bridge.h"
#include "apps/sluice/describe.h"
#include "apps/sluice/exit_code.h"
#include "apps/sluice/explain.h"
#include "apps/sluice/host.h"
#include "apps/sluice/manual.h"
#include "apps/sluice/netcat.h"
#include "apps/sluice/serve.h"
#include "apps/sluice/top.h"

namespace {

using namespace sluice;

/// Loads `file` and calls `use` with the stack of that name; tells what is wrong otherwise.
int with_stack(const Registry& registry, const std::string& file, const std::string& name,
               const std::function<int(const StackDeclaration&)>& use) {
  const auto loaded = StackFile::load(file, registry);
  if (!loaded) {
    fmt::print(stderr, "{}\n", loaded.error().text);
    return exit_stack_file;
  }
  const auto stack = loaded->find(name);
  if (!stack) {
    fmt::print(stderr, "{}\n", stack.error().text);
    return exit_stack_file;
  }
  return use(**stack);
}

int check(const Registry& registry, const std::string& file) {
  const auto loaded = StackFile::load(file, registry);
  if (!loaded) {
    fmt::print(stderr, "{}\n", loaded.error().text);
    return exit_stack_file;
  }
  for (const StackDeclaration& stack : loaded->stacks()) {
    fmt::print("{}: stack {} is good\n", file, stack.name);
  }
  return exit_ok;
}

/// In the processing mode of that name, or the declared one where it is empty. `sealed`: below a program that seals.
int explain_stack(const Registry& registry, const std::string& file, const std::string& name, const std::string& mode,
                  bool sealed, bool json) {
  return with_stack(registry, file, name, [&](const StackDeclaration& stack) {
    StreamSet set;
    const std::unique_ptr<Module> program = sealed ? sealing_program() : nullptr;
    const auto explanation = explain(set, stack, mode_named(mode).value_or(stack.mode), program.get());
    if (!explanation) {
      fmt::print(stderr, "sluice: {}\n", explanation.error().text);
      return int{exit_stack_file};
    }
    fmt::print("{}{}", json ? explain_json(stack, *explanation) : explain_text(stack, *explanation), json ? "\n" : "");
    return int{exit_ok};
  });
}

int modules(const Registry& registry, const std::string& name, bool json) {
  if (name.empty()) {
    fmt::print("{}{}", json ? modules_json(registry) : modules_text(registry), json ? "\n" : "");
    return exit_ok;
  }
  const Entry* entry = registry.find(name);
  if (entry == nullptr) {
    const std::string_view module = registry.nearest(name, Entry::Kind::module);
    const std::string_view near = module.empty() ? registry.nearest(name, Entry::Kind::driver) : module;
    fmt::print(stderr, "sluice: there is no module or driver \"{}\"{}\n", name,
               near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near));
    return exit_usage;
  }
  fmt::print("{}", manual_text(*entry, manual_of(name)));
  return exit_ok;
}

}  // namespace

int main(int argc, char** argv) {
  const Registry registry = standard_registry();
  CLI::App app("Sluice: protocol stacks declared in a file, checked, explained and run", "sluice");
  app.require_subcommand(1);
  app.set_version_flag("--version", SLUICE_VERSION);
  std::string file;
  std::string stack;
  std::string second;
  bool json = false;
  NetcatOptions netcat;
  std::uint16_t port = 0;
  int result = exit_ok;

  auto* check_command = app.add_subcommand("check", "say whether a stack file is good, and if not all that is wrong");
  check_command->add_option("FILE", file, "stack file")->required();
  check_command->callback([&] { result = check(registry, file); });

  const auto add_stack_options = [&](CLI::App* command) {
    command->add_option("FILE", file, "stack file")->required();
    command->add_option("--name", stack, "the stack's name; not needed when the file declares one");
    command->add_flag("--json", json, "print JSON");
  };
  std::string mode;
  auto* explain_command =
      app.add_subcommand("explain", "print a stack's chain, and what each module does to each payload byte");
  add_stack_options(explain_command);
  explain_command->add_option("--mode", mode, "explain this processing mode, not the declared one")
      ->check(CLI::IsMember({name_of(ProcessingMode::layered), name_of(ProcessingMode::fused)}));
  bool sealed = false;
  explain_command->add_flag("--sealed", sealed, "of a program that seals and opens the payload, as ftx does");
  explain_command->callback([&] { result = explain_stack(registry, file, stack, mode, sealed, json); });

  auto* run_command =
      app.add_subcommand("run", "be a host on a stack: answer ARP, NDP, ping; counters at SIGUSR1 and at the end");
  add_stack_options(run_command);
  run_command->callback([&] {
    result = with_stack(registry, file, stack,
                        [&](const StackDeclaration& found) { return run_host(found, {.json = json}); });
  });

  auto* bridge_command = app.add_subcommand("bridge", "join two links frame by frame, through what is pushed on them");
  bridge_command->add_option("FILE", file, "stack file")->required();
  bridge_command->add_option("FIRST", stack, "the name of one stack")->required();
  bridge_command->add_option("SECOND", second, "the name of the other stack")->required();
  bridge_command->add_flag("--json", json, "print JSON");
  bridge_command->callback([&] {
    result = with_stack(registry, file, stack, [&](const StackDeclaration& first) {
      return with_stack(registry, file, second,
                        [&](const StackDeclaration& other) { return run_bridge(first, other, {.json = json}); });
    });
  });

  std::string host;
  auto* netcat_command =
      app.add_subcommand("nc", "standard input and output as datagrams, or as a connection, over TLI on a stack");
  netcat_command->add_option("--stack", file, "stack file")->required();
  netcat_command->add_option("--name", stack, "the stack's name; not needed when the file declares one");
  netcat_command->add_flag("-l", netcat.listen,
                           "wait for a peer; the first to send, or to call, is the one that is answered");
  netcat_command->add_flag("-v", netcat.verbose, "say on standard error where it listens or sends from");
  netcat_command->add_option("-p", netcat.local_port, "local port");
  netcat_command->add_option("-w", netcat.idle_s, "end after so many seconds without data");
  netcat_command->add_option("-q", netcat.linger_s, "end so many seconds after the end of standard input");
  netcat_command->add_option("--join", netcat.join, "join a multicast group; may be given several times")
      ->type_name("GROUP")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  netcat_command->add_flag("--broadcast", netcat.broadcast, "allow HOST to be a broadcast address");
  netcat_command->add_option("HOST", host, "the peer's IP address");
  netcat_command->add_option("PORT", port, "the peer's port");
  netcat_command->callback([&] {
    if (netcat.listen == !host.empty() || (!netcat.listen && port == 0)) {
      fmt::print(stderr, "sluice: nc: give either -l, or HOST and PORT\n");
      result = exit_usage;
      return;
    }
    netcat.peer =
        host.find(':') != std::string::npos ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
    result =
        with_stack(registry, file, stack, [&](const StackDeclaration& found) { return run_netcat(found, netcat); });
  });

  ServeOptions serve;
  auto* serve_command = app.add_subcommand("serve", "own a stack whose sockets programs use, unmodified (see exec)");
  serve_command->add_option("FILE", file, "stack file: a stack that makes connections, one of datagrams, or both")
      ->required();
  serve_command->add_option("--socket", serve.path, "where programs find the server");
  serve_command->add_option("--mode", serve.mode, "of that file: who may have sockets; 0600 if absent");
  serve_command->add_option("--sockets-max", serve.sockets_max, "of each user; 4096 if absent");
  serve_command->add_option("--listening-max", serve.listening_max, "of these, that listen; 256 if absent");
  serve_command->add_option("--connecting-max", serve.connecting_max, "and that are connecting; 1024 if absent");
  serve_command->add_option("--memory-max", serve.memory_mib_max, "of each user's sockets, in MiB; 128 if absent")
      ->check(CLI::Range(1, 1 << 20));
  serve_command->add_flag("--json", serve.json, "print JSON");
  serve_command->callback([&] {
    const auto loaded = StackFile::load(file, registry);
    if (!loaded) {
      fmt::print(stderr, "{}\n", loaded.error().text);
      result = exit_stack_file;
      return;
    }
    result = run_server(loaded->stacks(), serve);
  });

  std::vector<std::string> command;
  auto* exec_command = app.add_subcommand("exec", "run a program whose sockets are those of a server (see serve)");
  exec_command->add_option("--socket", serve.path, "where the server is");
  exec_command->add_option("COMMAND", command, "the program and its arguments")->required();
  exec_command->prefix_command();
  exec_command->positionals_at_end();
  exec_command->callback([&] {
    const std::vector<std::string> rest = exec_command->remaining();
    command.insert(command.end(), rest.begin(), rest.end());
    result = run_on_server(serve.path, command);
  });

  TopOptions top;
  auto* top_command = app.add_subcommand("top", "show the sockets of a server (see serve), and what they do");
  top_command->add_option("--socket", top.path, "where the server is");
  top_command->add_option("--interval", top.interval_s, "seconds between screens; 1 if absent")
      ->check(CLI::Range(1U, 3600U));
  top_command->add_flag("--json", top.json, "print JSON");
  top_command->callback([&] { result = run_top(top); });

  std::string name;
  auto* modules_command = app.add_subcommand("modules", "list what can be pushed, or print one's manual");
  modules_command->add_option("NAME", name, "a module or driver");
  modules_command->add_flag("--json", json, "print JSON");
  modules_command->callback([&] { result = modules(registry, name, json); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? exit_ok : exit_usage;
  }
  return result;
}
