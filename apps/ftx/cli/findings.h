// SPDX-License-Identifier: Apache-2.0
#pragma once

// Findings: what `ftx doctor` tells: a line each, whether it is good, and what to do where it is not.
// docs/formats/ftx-json.md has the JSON form.
//
// Threat: facts_in() reads what another host prints. At most facts_bytes_max of it are read, each member is checked for
// its type, and text is shown as the console shows what peers say.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "apps/ftx/cli/console.h"
#include "apps/ftx/jobs/probe.h"
#include "apps/ftx/protocol/exit_code.h"

namespace sluice::ftx {

struct Finding {
  enum class State : std::uint8_t { good, advice, fault };
  State state = State::good;
  std::string check;  // what was looked at, in a word or two
  std::string text;   // what it is like
  std::string fix{};  // what to do; of advice and faults
};

/// Such as "FAULT   UDP: port 7 does not answer; open the firewall".
[[nodiscard]] std::string to_text(const Finding& finding);
[[nodiscard]] std::string to_json(const Finding& finding);

/// What a host says of itself.
struct HostFacts {
  std::string version;
  std::string cipher;                          // the faster one
  std::uint64_t receive_buffer_bytes_max = 0;  // of a socket, without a privilege; 0: not known
  std::uint64_t send_buffer_bytes_max = 0;
  double time_s = 0;  // since 1970

  bool operator==(const HostFacts&) const = default;
};
inline constexpr std::size_t facts_bytes_max = probe_printed_bytes_max;

[[nodiscard]] HostFacts facts_here(std::string_view version);
[[nodiscard]] std::string to_json(const HostFacts& facts);
/// The facts among the lines that to_json() and others have printed; null: there are none.
[[nodiscard]] std::optional<HostFacts> facts_in(std::string_view lines);

/// Whether a socket there gets the buffers that ftx asks for. `where`: "here" or the host's name.
[[nodiscard]] Finding buffers_finding(const HostFacts& facts, const std::string& where);
/// What of a transfer's datagrams was lost. REQUIRES: done.adus > 0.
[[nodiscard]] Finding loss_finding(const Event& done);
/// `there` was printed between `asked_at_s` and `answered_at_s` of this host's time.
[[nodiscard]] Finding clock_finding(const HostFacts& there, double asked_at_s, double answered_at_s);

/// Prints findings as they come, and remembers whether all is well.
class Findings {
 public:
  explicit Findings(Console::Options options) : options_(options) {}

  void add(const Finding& finding);
  void add(const HostFacts& here);
  void good(std::string check, std::string text) { add({Finding::State::good, std::move(check), std::move(text)}); }
  void fault(std::string check, std::string text, std::string fix = "") {
    add({Finding::State::fault, std::move(check), std::move(text), std::move(fix)});
  }
  /// A failure of what was tried is a fault; without a `fix` its exit code says what to do. An interrupt is none: then
  /// nothing more is to be said.
  void failed(std::string check, const Failure& failure, std::string fix = "");
  [[nodiscard]] bool interrupted() const { return interrupted_; }
  [[nodiscard]] ExitCode exit_code() const {
    return interrupted_ ? ExitCode::interrupted : well_ ? ExitCode::ok : ExitCode::unwell;
  }

 private:
  [[nodiscard]] bool json() const { return options_.form == Console::Options::Form::json; }
  void print(const std::string& line) const;

  Console::Options options_;
  bool well_ = true;
  bool interrupted_ = false;
};

}  // namespace sluice::ftx
