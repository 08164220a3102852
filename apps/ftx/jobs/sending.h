// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sending: runs a sender until its transfer is over, whoever started it.
//
// Borrows everything. Not thread-safe.

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "apps/ftx/files/source.h"
#include "apps/ftx/jobs/host.h"
#include "apps/ftx/jobs/jobs.h"
#include "apps/ftx/jobs/observer.h"
#include "apps/ftx/jobs/traffic.h"
#include "apps/ftx/recovery/congestion.h"
#include "apps/ftx/session/sender.h"
#include "apps/ftx/transport/session_handlers.h"

namespace sluice::ftx {

class Sending {
 public:
  /// `destination` is what the outcome is shown for.
  Sending(Host& host, std::unique_ptr<Carrier> carrier, Sender& sender, std::string destination, Observer& observer)
      : host_(host),
        carrier_(std::move(carrier)),
        sender_(sender),
        traffic_(host, *carrier_, sender),
        destination_(std::move(destination)),
        observer_(observer) {}
  Sending(Host& host, Transport& transport, Sender& sender, std::string destination, Observer& observer)
      : Sending(host, std::make_unique<UdpCarrier>(host, transport), sender, std::move(destination), observer) {}

  /// Asked each turn, where there is a far side that may be lost: why the transfer cannot go on.
  std::function<std::optional<Failure>()> lost{};
  /// What it means that nobody answers; without it the session's own words.
  std::optional<Failure> unanswered{};

  /// Asked each turn, where there is another way than this one: whether this one is to be left. Then, and where nobody
  /// answers, run() answers no_answer and shows nothing of it.
  std::function<bool()> left{};

  ExitCode run();

 private:
  /// How long a sender has to tell its peer that it is interrupted.
  static constexpr Duration interrupt_grace = std::chrono::seconds(2);

  /// How long a busy machine may take to tell that the far side is gone.
  static constexpr Duration notice_time_max = std::chrono::seconds(1);

  [[nodiscard]] std::optional<Failure> lost_now() const { return lost ? lost() : std::nullopt; }
  [[nodiscard]] std::optional<Failure> lost_soon();
  ExitCode end_lost(const Failure& failure);
  void show_files();
  void show_changes();
  void show_events();

  Host& host_;
  std::unique_ptr<Carrier> carrier_;  // before what borrows it
  Sender& sender_;
  Traffic<Sender, SenderHandler> traffic_;
  std::string destination_;
  Observer& observer_;
  std::optional<ExitCode> outcome_{};  // as it was shown
};

/// Reads the sources for the digests that the list is to have, before anybody waits for it.
[[nodiscard]] std::expected<void, Failure> read_digests(Source& source, Host& host);

/// What the options ask for: a fixed rate, or one that follows the receiver's reports.
[[nodiscard]] std::unique_ptr<CongestionControl> congestion_for(const PushOptions& options, std::size_t datagram_bytes);

/// What the options ask of the other end, when that sends; `rate` is in bytes a second.
void ask_congestion(const PushOptions& options, AskedCongestion& congestion, std::uint64_t& rate);
/// The same options at the other end.
[[nodiscard]] PushOptions asked_of(AskedCongestion congestion, std::uint64_t rate);
/// Measures what compressing costs.
[[nodiscard]] TimePoint cost_clock();
/// What the options ask for where a pipe carries the datagrams: a fixed rate, or as fast as the pipe takes them.
[[nodiscard]] std::unique_ptr<CongestionControl> pipe_congestion_for(const PushOptions& options);

inline constexpr std::size_t ethernet_mtu = 1500;
/// The IP and UDP headers.
[[nodiscard]] constexpr std::size_t header_bytes(bool v6) { return v6 ? 48 : 28; }

/// How large datagrams may be.
struct DatagramSize {
  std::size_t bytes_max = 0;                     // SenderOptions::tsdu_bytes
  std::optional<std::size_t> ip_header_bytes{};  // likewise; set where the path MTU is searched
  std::size_t usual_bytes = 0;                   // for congestion control
};

/// What the options say, at most `peer_bytes_max`. Without them: where nothing is fragmented what the path carries, up
/// to a frame of 9000 bytes; else what a frame of 1500 bytes holds.
[[nodiscard]] std::expected<DatagramSize, Failure> datagram_size_for(
    const PushOptions& options, bool v6, const Transport& transport,
    std::size_t peer_bytes_max = std::numeric_limits<std::size_t>::max());

}  // namespace sluice::ftx
