// SPDX-License-Identifier: Apache-2.0
// `ftx doctor`: what is in the way of transfers to another host, and what to do about it.
#include <fmt/format.h>

#include "apps/ftx/cli/commands.h"
#include "apps/ftx/cli/findings.h"
#include "apps/ftx/jobs/confined.h"
#include "apps/ftx/jobs/jobs.h"
#include "apps/ftx/jobs/probe.h"
#include "apps/ftx/jobs/reach.h"
#include "apps/ftx/jobs/sending.h"
#include "apps/ftx/jobs/trust.h"
#include "apps/ftx/jobs/url.h"
#include "apps/ftx/remote/operand.h"

namespace sluice::ftx {
namespace {

/// How long a server may take to say that it does not take a client.
constexpr Duration judgement_time = std::chrono::seconds(1);

/// Of the data that came from there.
void tell_path(Findings& findings, const Event& done) {
  findings.good("UDP", "both ways with " + done.address);
  findings.add(loss_finding(done));
  const std::size_t packet_bytes = done.datagram_bytes + header_bytes(is_v6(done.peer));
  const std::string text = fmt::format("packets of {} bytes come through from there", packet_bytes);
  // Payloads are multiples of adu_bytes_unit.
  if (packet_bytes + adu_bytes_unit > ethernet_mtu) {
    findings.good("path MTU", text);
  } else {
    findings.add({Finding::State::advice, "path MTU", text, "less than Ethernet's 1500: look for a tunnel on the way"});
  }
  findings.good("round trip", fmt::format("{:.3f} ms while data flows", done.round_trip_seconds * 1000));
  findings.good("cipher", done.cipher);
}

void examine_through_ssh(Findings& findings, const PushOptions& options, const Operand& there) {
  const SshProbe probe = probe_through_ssh(options, there);
  if (probe.start) {
    return findings.failed("ssh", *probe.start);
  }
  findings.good("ssh",
                fmt::format("logs in to {} and starts ftx there in {:.2f} s", there.login(), probe.start_seconds));
  findings.good("ftx there", probe.version == options.version
                                 ? probe.version + ", as here"
                                 : fmt::format("{}, {} here", probe.version, options.version));
  if (probe.udp) {
    findings.failed("UDP", *probe.udp, "without it files go through ssh, which is slower");
  } else {
    tell_path(findings, probe.done);
  }
  if (findings.interrupted()) {
    return;
  }
  if (const auto facts = facts_in(probe.printed)) {
    findings.add(buffers_finding(*facts, "there"));
    findings.add(clock_finding(*facts, probe.asked_at_s, probe.answered_at_s));
  } else {
    findings.add(
        {Finding::State::advice, "host there", "its ftx does not tell of it", "install the same version there"});
  }
}

/// The seconds that the handshake took.
std::expected<double, Failure> greet_server(const PushOptions& options, const Url& url, const Console::Options& shown) {
  const auto addresses = resolve_all(url.host);
  if (!addresses) {
    return std::unexpected(Failure{ExitCode::usage, addresses.error().text});
  }
  auto host = Host::start(options);
  if (!host) {
    return std::unexpected(host.error());
  }
  auto reach = Reach::to(**host, *addresses, url.port);
  if (!reach) {
    return std::unexpected(reach.error());
  }
  forbid_core_dumps(options);
  Console console(shown);
  const TimePoint since = (*host)->loop().now();
  const auto met = Acquaintance::meet(**host, *reach->transport, options, url, reach->peers,
                                      reach->transport->tsdu_bytes(), console, {});
  if (!met) {
    return std::unexpected(met.error());
  }
  const double seconds = std::chrono::duration<double>((*host)->loop().now() - since).count();
  if (auto refused = (*met)->refused_within(judgement_time)) {
    return std::unexpected(*std::move(refused));
  }
  return seconds;
}

void examine_server(Findings& findings, const PushOptions& options, const Console::Options& shown) {
  const auto url = parse_url(options.destination);
  if (!url) {
    return findings.fault("server", url.error().text);
  }
  const auto seconds = greet_server(options, *url, shown);
  if (!seconds) {
    return findings.failed("server",
                           {seconds.error().code, fmt::format("{}: {}", options.destination, seconds.error().text)});
  }
  findings.good("UDP", fmt::format("both ways with {} port {}", url->host, url->port));
  findings.good("server", fmt::format("its key is known, and it takes this client; the handshake took {:.1f} ms",
                                      *seconds * 1000));
}

}  // namespace

ExitCode doctor(const PushOptions& options, const Console::Options& shown) {
  Findings findings(shown);
  const HostFacts here = facts_here(options.version);
  findings.add(here);
  findings.good("ftx here", fmt::format("{}; {} is faster here", here.version, here.cipher));
  findings.add(buffers_finding(here, "here"));
  if (options.destination.starts_with("ftx://")) {
    examine_server(findings, options, shown);
  } else if (!options.destination.empty()) {
    const auto there =
        parse_operand(options.destination.ends_with(':') ? options.destination : options.destination + ":");
    if (!there || there->kind != Operand::Kind::remote || !there->path.empty()) {
      findings.fault("host", fmt::format("'{}': expected [user@]host or ftx://HOST:PORT", options.destination));
    } else {
      examine_through_ssh(findings, options, *there);
    }
  }
  return findings.exit_code();
}

}  // namespace sluice::ftx
