// SPDX-License-Identifier: Apache-2.0
#pragma once

// The stack file: which modules stand on which driver, declared in TOML.
//
//     [stack.bulk]
//     mode   = "layered"                         # or "fused"; `path`, its former name, is understood
//     driver = { kind = "packet", device = "veth0" }
//     push   = ["ip", "udp", "timod"]              # the first stands on the driver
//     ip     = { address = "10.77.0.1/24" }        # parameters of a pushed module
//
// A program that binds a port sees that port alone. So it puts a second stream on the same device, with the declared
// `ip` and `udp` alone and bound to nothing (open_host): that one gets what no filter claims, and the host answers ping
// and closed ports (RFC 1122 section 3.2.2.6: "Every host MUST implement an ICMP Echo server function"). `host = false`
// beside the keys above leaves it away, for a program that is one of several on a host.
//
// A module that is pushed twice needs names of its own: push = ["capture:low", "ip", "capture:high"], with tables
// "capture:low" = { ... }. A list pushed on every stack of a driver kind, below what the stack itself pushes:
//
//     [autopush]
//     tap = ["fault"]
//
// Every fault of a file is reported (up to a bound), a line each: file, line, key, what was expected, the nearest valid
// spelling. What the file says is escaped in it, so that no control character of a hostile file reaches a terminal.
//
// The file is text that somebody wrote: it is bounded in size, and nothing in it is trusted before it is checked
// against the registry. Threads: none of its own; a loaded file is read-only.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "stack/core/registry.h"
#include "stack/head/stream.h"

namespace sluice {

/// A driver or module as declared. `entry` belongs to the registry.
struct ModuleDeclaration {
  std::string instance;  // "capture:low"; the module's name where there is no suffix
  const Entry* entry = nullptr;
  Parameters parameters;
  int line = 0;
};

struct StackDeclaration {
  std::string name;
  ProcessingMode mode = ProcessingMode::layered;
  bool host = false;  // read from a file: where there is an `ip`, unless it says otherwise
  ModuleDeclaration driver;
  std::vector<ModuleDeclaration> push;  // lowest first
  int line = 0;
};

class StackFile {
 public:
  static constexpr std::size_t file_bytes_max = std::size_t{1} << 20;
  /// Of a stack, or of a module with its suffix.
  static constexpr std::size_t name_bytes_max = 64;
  /// That are reported one by one.
  static constexpr std::size_t faults_max = 200;

  /// ENOENT, EACCES, ... when the file cannot be read; EINVAL with one line a fault when it is wrong.
  [[nodiscard]] static Result<StackFile> load(const std::filesystem::path& path, const Registry& registry);
  /// As load, of `text`; `file_name` is what the errors call it.
  [[nodiscard]] static Result<StackFile> parse(std::string_view text, std::string_view file_name,
                                               const Registry& registry);

  /// The stack of that name; an Error with the nearest spelling when there is none. An empty name finds the only stack.
  [[nodiscard]] Result<const StackDeclaration*> find(std::string_view name) const;
  /// In the order of the file.
  [[nodiscard]] const std::vector<StackDeclaration>& stacks() const { return stacks_; }

 private:
  std::string file_name_;
  std::vector<StackDeclaration> stacks_;
};

/// What a module of a declared stack refused, told with the names of both.
[[nodiscard]] Error in_stack(const StackDeclaration& declaration, const ModuleDeclaration& module, const Error& error);

/// Opens the declared driver and pushes the declared modules on it. Errors name the stack and the module.
[[nodiscard]] Result<std::unique_ptr<Stream>> open_stack(StreamSet& set, const StackDeclaration& declaration,
                                                         const HeadOptions& options = {});

/// The stream that answers for the host beside one that was opened by `declaration`; nothing where that has no `ip`, or
/// says `host = false`. Nobody needs to read it.
[[nodiscard]] Result<std::unique_ptr<Stream>> open_host(StreamSet& set, const StackDeclaration& declaration);

}  // namespace sluice
