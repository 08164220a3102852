// SPDX-License-Identifier: Apache-2.0
#include "apps/sluice/serve.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/common/addresses.h"
#include "apps/sluice/exit_code.h"
#include "apps/sluice/program.h"
#include "edge/host_stream.h"
#include "sockets/protocol/protocol.h"
#include "sockets/server/server.h"
#include "tli/endpoint.h"

namespace sluice {
namespace {

using sockets::Server;

/// A mode as chmod(1) has it: octal.
std::optional<mode_t> mode_of(const std::string& text) {
  unsigned mode = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  const bool whole = error == std::errc() && end == text.data() + text.size() && mode <= 0777;
  return whole ? std::optional(static_cast<mode_t>(mode)) : std::nullopt;
}

/// Programs ask and wait for the answer: a frame that waits for others of its block (dlpi/packet_ring.h) would make
/// each of them wait for a millisecond. Unless the file says otherwise, frames are handed over at once.
std::vector<StackDeclaration> with_frames_at_once(std::vector<StackDeclaration> stacks) {
  for (StackDeclaration& stack : stacks) {
    if (stack.driver.entry->name == "packet" && !stack.driver.parameters.has("ring")) {
      stack.driver.parameters.set("ring", std::string("frame"));
    }
  }
  return stacks;
}

/// The stacks that sockets of either kind come from.
struct Stacks {
  const StackDeclaration* stream = nullptr;
  const StackDeclaration* datagram = nullptr;
  // Of `stream`, and bound to nothing: it gets the segments that no socket claims, and resets what they are of.
  std::unique_ptr<tli::Endpoint> unclaimed{};
};

Result<std::unique_ptr<tli::Endpoint>> open_endpoint(Program& program, const StackDeclaration& stack) {
  auto stream = open_stack(program.set(), stack);
  if (!stream) {
    return std::unexpected(stream.error());
  }
  (*stream)->set_waiter(&program.loop());
  auto endpoint = tli::Endpoint::t_open(std::move(*stream), nullptr);
  if (!endpoint) {
    return fail(EPROTONOSUPPORT, tli::Endpoint::t_error("stack '" + stack.name + "'", endpoint.error()));
  }
  (*endpoint)->stream().set_nonblocking(true);
  return std::move(*endpoint);
}

/// What each stack's provider is, by opening it once.
std::optional<Stacks> sort(Program& program, const std::vector<StackDeclaration>& stacks) {
  Stacks sorted;
  for (const StackDeclaration& stack : stacks) {
    auto endpoint = open_endpoint(program, stack);
    if (!endpoint) {
      fmt::print(stderr, "sluice: serve: {}\n", endpoint.error().text);
      return std::nullopt;
    }
    const std::int32_t service = (*endpoint)->info().servtype;
    const StackDeclaration*& place = service == wire::tpi::T_CLTS ? sorted.datagram : sorted.stream;
    if (place == nullptr && (service == wire::tpi::T_CLTS || service == wire::tpi::T_COTS_ORD)) {
      place = &stack;
      sorted.unclaimed = service == wire::tpi::T_COTS_ORD ? std::move(*endpoint) : std::move(sorted.unclaimed);
    }
  }
  return sorted;
}

void print_server_statistics(const Server& server, bool json) {
  const Server::Statistics now = server.statistics();
  if (json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"event", "sockets"},
                                              {"sockets", now.sockets},
                                              {"requests", now.requests},
                                              {"refused", now.refused},
                                              {"malformed", now.malformed},
                                              {"crowded_out", now.crowded_out}}
                           .dump());
  } else {
    fmt::print("sockets {}, requests {}, refused {}, malformed {}, crowded out {}\n", now.sockets, now.requests,
               now.refused, now.malformed, now.crowded_out);
  }
  std::fflush(stdout);
}

/// Where the library lies: beside the program, installed or built.
std::optional<std::string> library_path() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    return std::nullopt;
  }
  const std::filesystem::path top = program.parent_path().parent_path();
  for (const std::filesystem::path& path :
       {top / SLUICE_LIBRARY_DIRECTORY / "libsluice_sockets.so", top / "lib" / "libsluice_sockets.so"}) {
    if (std::filesystem::exists(path, error)) {
      return path.string();
    }
  }
  return std::nullopt;
}

}  // namespace

std::string default_server_path() {
  if (const char* const path = std::getenv(sockets::path_variable); path != nullptr && *path != '\0') {
    return path;
  }
  if (const char* const runtime = std::getenv("XDG_RUNTIME_DIR"); runtime != nullptr && *runtime != '\0') {
    return fmt::format("{}/sluice.sock", runtime);
  }
  return fmt::format("/tmp/sluice-{}.sock", ::getuid());
}

int run_server(const std::vector<StackDeclaration>& declared, const ServeOptions& options) {
  const auto mode = mode_of(options.mode);
  if (!mode) {
    fmt::print(stderr, "sluice: serve: --mode {}: an octal number of up to three digits is expected, such as 0660\n",
               options.mode);
    return exit_usage;
  }
  const std::vector<StackDeclaration> stacks = with_frames_at_once(declared);
  // One user must not be able to take all: the pool has twice as much.
  const std::size_t memory_bytes_max = options.memory_mib_max << 20;
  const std::unique_ptr<Program> program = Program::start(2 * memory_bytes_max);
  std::optional<Stacks> sorted = program == nullptr ? std::nullopt : sort(*program, stacks);
  if (!sorted) {
    return exit_open;
  }
  const auto opener =
      [&program](const StackDeclaration* stack) -> std::function<Result<std::unique_ptr<tli::Endpoint>>()> {
    if (stack == nullptr) {
      return {};
    }
    return [&program, stack] { return open_endpoint(*program, *stack); };
  };
  const StackDeclaration& any = sorted->stream != nullptr ? *sorted->stream : *sorted->datagram;
  const auto host = HostStream::open(program->set(), program->loop(), any);
  if (!host) {
    fmt::print(stderr, "sluice: serve: {}\n", host.error().text);
    return exit_open;
  }
  const std::string path = options.path.empty() ? default_server_path() : options.path;
  const auto server = Server::open(program->set(),
                                   {.path = path,
                                    .mode = *mode,
                                    .per_user = {.sockets = options.sockets_max,
                                                 .listening = options.listening_max,
                                                 .connecting = options.connecting_max,
                                                 .memory = memory_bytes_max}},
                                   opener(sorted->stream), opener(sorted->datagram));
  if (!server) {
    fmt::print(stderr, "sluice: serve: {}\n", server.error().text);
    return exit_open;
  }
  const auto print = [&] { print_server_statistics(**server, options.json); };
  if (Status status = program->loop().on_signal(SIGUSR1, print); !status) {
    fmt::print(stderr, "sluice: {}\n", status.error().text);
    return exit_failed;
  }
  fmt::print("{}\n", options.json ? nlohmann::ordered_json{{"event", "serving"}, {"socket", path}}.dump()
                                  : fmt::format("serving sockets at {}", path));
  std::fflush(stdout);
  while (!program->stopped()) {
    [[maybe_unused]] const bool happened = program->loop().wait((*server)->busy() ? TimePoint::min() : never);
    (*server)->turn();
  }
  print();
  return exit_ok;
}

int run_on_server(const std::string& path, const std::vector<std::string>& command) {
  const std::optional<std::string> library = library_path();
  if (!library) {
    fmt::print(stderr,
               "sluice: exec: libsluice_sockets.so lies neither beside the program nor where it was installed\n");
    return exit_failed;
  }
  const char* const others = std::getenv("LD_PRELOAD");
  const std::string preload = others == nullptr || *others == '\0' ? *library : fmt::format("{}:{}", *library, others);
  ::setenv("LD_PRELOAD", preload.c_str(), 1);
  ::setenv(sockets::path_variable, (path.empty() ? default_server_path() : path).c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& one : command) {
    arguments.push_back(const_cast<char*>(one.c_str()));
  }
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  const int error = errno;
  fmt::print(stderr, "sluice: exec: {}: {}\n", command.front(), std::strerror(error));
  return error == ENOENT ? 127 : 126;
}

}  // namespace sluice
