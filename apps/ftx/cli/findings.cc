// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/cli/findings.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/ftx/cli/screen_text.h"
#include "apps/ftx/security/aead.h"

namespace sluice::ftx {
namespace {

/// What kernel_udp asks for (tpi/kernel_udp.h).
constexpr std::uint64_t buffer_bytes_wanted = 4U << 20;
/// Congestion control itself loses a little of what it sends to find the rate.
constexpr double usual_loss_percent_max = 2;
/// Modification times are compared in seconds.
constexpr double clock_difference_max_s = 2;

std::string_view name_of(Finding::State state) {
  return state == Finding::State::good ? "ok" : state == Finding::State::advice ? "advice" : "fault";
}

std::uint64_t read_setting(const char* path) {
  std::uint64_t value = 0;
  std::ifstream(path) >> value;
  return value;
}

std::string dumped(const nlohmann::ordered_json& object) {
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::optional<HostFacts> parse_facts(std::string_view line) {
  const auto object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object() || object.value("event", nlohmann::json()) != "host") {
    return std::nullopt;
  }
  const auto member = [&object](const char* name) { return object.value(name, nlohmann::json()); };
  const auto version = member("version"), cipher = member("cipher"), time = member("time");
  const auto receive = member("receive_buffer_bytes_max"), send = member("send_buffer_bytes_max");
  if (!version.is_string() || !cipher.is_string() || !time.is_number() || !receive.is_number_unsigned() ||
      !send.is_number_unsigned()) {
    return std::nullopt;
  }
  return HostFacts{.version = version.get<std::string>(),
                   .cipher = cipher.get<std::string>(),
                   .receive_buffer_bytes_max = receive.get<std::uint64_t>(),
                   .send_buffer_bytes_max = send.get<std::uint64_t>(),
                   .time_s = time.get<double>()};
}

}  // namespace

std::string to_text(const Finding& finding) {
  const std::string text = fmt::format("{:7} {}: {}", name_of(finding.state), finding.check, finding.text);
  return terminal_text(finding.fix.empty() ? text : fmt::format("{}; {}", text, finding.fix));
}

std::string to_json(const Finding& finding) {
  return dumped({{"event", "finding"},
                 {"check", finding.check},
                 {"state", name_of(finding.state)},
                 {"text", finding.text},
                 {"fix", finding.fix}});
}

HostFacts facts_here(std::string_view version) {
  const auto clock = [] { return TimePoint(std::chrono::steady_clock::now().time_since_epoch()); };
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return {.version = std::string(version),
          .cipher = std::string(name(choose_cipher(clock))),
          .receive_buffer_bytes_max = read_setting("/proc/sys/net/core/rmem_max"),
          .send_buffer_bytes_max = read_setting("/proc/sys/net/core/wmem_max"),
          .time_s = std::chrono::duration<double>(since_1970).count()};
}

std::string to_json(const HostFacts& facts) {
  return dumped({{"event", "host"},
                 {"version", facts.version},
                 {"cipher", facts.cipher},
                 {"receive_buffer_bytes_max", facts.receive_buffer_bytes_max},
                 {"send_buffer_bytes_max", facts.send_buffer_bytes_max},
                 {"time", facts.time_s}});
}

std::optional<HostFacts> facts_in(std::string_view lines) {
  lines = lines.substr(0, facts_bytes_max);
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size() - 1);
    if (auto facts = parse_facts(lines.substr(0, end + 1))) {
      return facts;
    }
    lines.remove_prefix(end + 1);
  }
  return std::nullopt;
}

Finding buffers_finding(const HostFacts& facts, const std::string& where) {
  const std::string text =
      fmt::format("{} for receiving, {} for sending", bytes_text(static_cast<double>(facts.receive_buffer_bytes_max)),
                  bytes_text(static_cast<double>(facts.send_buffer_bytes_max)));
  const std::string check = "socket buffers " + where;
  std::string settings;
  if (facts.receive_buffer_bytes_max < buffer_bytes_wanted) {
    settings += fmt::format(" net.core.rmem_max={}", buffer_bytes_wanted);
  }
  if (facts.send_buffer_bytes_max < buffer_bytes_wanted) {
    settings += fmt::format(" net.core.wmem_max={}", buffer_bytes_wanted);
  }
  if (settings.empty()) {
    return {Finding::State::good, check, text};
  }
  return {Finding::State::advice, check, text,
          fmt::format("above 1 Gbit/s more helps: as root, sysctl -w{}", settings)};
}

Finding loss_finding(const Event& done) {
  const double percent = 100.0 * static_cast<double>(done.repaired) / static_cast<double>(done.adus);
  const std::string text = fmt::format("{} of {} datagrams repaired ({:.1f}%), {} in {:.2f} s", done.repaired,
                                       done.adus, percent, bytes_text(static_cast<double>(done.bytes)), done.seconds);
  if (percent <= usual_loss_percent_max) {
    return {Finding::State::good, "loss", text};
  }
  return {Finding::State::advice, "loss", text,
          "try --congestion cubic, or --rate with less than the link carries; Wi-Fi, cables and policers lose, too"};
}

Finding clock_finding(const HostFacts& there, double asked_at_s, double answered_at_s) {
  const double difference = there.time_s < asked_at_s      ? there.time_s - asked_at_s
                            : there.time_s > answered_at_s ? there.time_s - answered_at_s
                                                           : 0;
  const std::string text = difference == 0 ? "as here" : fmt::format("{:+.1f} s beside the one here", difference);
  if (std::abs(difference) <= clock_difference_max_s) {
    return {Finding::State::good, "clock there", text};
  }
  return {Finding::State::advice, "clock there", text, "set both by NTP: modification times are compared"};
}

void Findings::print(const std::string& line) const {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void Findings::add(const Finding& finding) {
  well_ = well_ && finding.state != Finding::State::fault;
  if (json()) {
    print(to_json(finding));
  } else if (finding.state != Finding::State::good || options_.detail != Console::Options::Detail::errors) {
    print(to_text(finding));
  }
}

void Findings::failed(std::string check, const Failure& failure, std::string fix) {
  interrupted_ = failure.code == ExitCode::interrupted;
  if (!interrupted_) {
    fault(std::move(check), failure.text, fix.empty() ? std::string(remedy_for(failure.code)) : std::move(fix));
  }
}

void Findings::add(const HostFacts& here) {
  if (json()) {
    print(to_json(here));
  }
}

}  // namespace sluice::ftx
