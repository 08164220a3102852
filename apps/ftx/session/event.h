// SPDX-License-Identifier: Apache-2.0
#pragma once

// Event: what a session reports to its program. `--json` prints one object a line; the last one is `done` or `error`.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "apps/ftx/protocol/exit_code.h"
#include "apps/ftx/session/endpoint.h"

namespace sluice::ftx {

/// Event::cipher of a session that is not encrypted.
inline constexpr std::string_view plain_cipher = "none";

struct Event {
  enum class Kind {
    listening,   // path: the address, text: the key
    offer,       // files, bytes, path, address, cipher, congestion
    file,        // path, bytes: one of the files that travel, where the program asks for that
    change,      // path, item, target: what the receiver does, before it does it; where that is asked for
    progress,    // bytes so far, total_bytes, skipped_files, skipped_bytes, files_done, files, adus, repaired
    fallback,    // path: how it goes on, code: why, text
    left_out,    // files, text: what of the sources is not sent
    unconfined,  // text: what of its confinement the kernel lacks; of no session
    repair,      // adus: asked for again since the last event of this kind
    error,       // code, text
    rejected,    // text: a client that may not come; no transfer of anybody
    done,        // files, bytes, skipped_files, skipped_bytes, seconds, adus, repaired, copied, out_of_order, path,
                 // datagram_bytes, path_mtu, round_trip_seconds, payload_bytes, compressed_bytes, loaded_bytes,
                 // stored_bytes
  };
  Kind kind{};
  std::uint64_t connection = 0;
  std::uint64_t files = 0;
  std::uint64_t files_done = 0;  // sender: sent once; receiver: under their final names
  std::uint64_t bytes = 0;
  std::uint64_t total_bytes = 0;
  bool open_ended = false;  // what is sent is standard input, and its size is not known yet: total_bytes is 0
  double seconds = 0;
  // What the receiver had already: whole files, and bytes, which count neither in `bytes` nor in `adus`.
  std::uint64_t skipped_files = 0;
  std::uint64_t skipped_bytes = 0;
  // Payloads of ADUs as they travelled, those of lists and repairs, too: sent, or received. And bytes of files that
  // travelled compressed.
  std::uint64_t payload_bytes = 0;
  std::uint64_t compressed_bytes = 0;
  std::uint64_t adus = 0;          // distinct file ADUs
  std::uint64_t repaired = 0;      // sender: ADUs sent again; receiver: ADUs placed by a repair
  std::uint64_t copied = 0;        // sender: ADUs sent again at the end without having been asked for
  std::uint64_t out_of_order = 0;  // datagrams that a later-sent one overtook, as the receiver saw it
  // Bytes that this side's stack has loaded and stored in passes over message data since the program started. Does not
  // count digests, file access and the kernel's own copies.
  std::uint64_t loaded_bytes = 0;
  std::uint64_t stored_bytes = 0;
  ExitCode code = ExitCode::ok;
  std::string path{};
  std::string text{};
  std::string client{};              // of a server: who the client is, as its key or its secret has proved
  Peer peer{};                       // where the other end is
  std::string address{};             // the same as text, which the program adds
  std::string cipher{};              // "none": not encrypted
  std::string congestion{};          // which congestion control; of a sender
  std::uint64_t datagram_bytes = 0;  // the largest with file data; a sender's: that it may send
  std::uint64_t path_mtu = 0;        // as it was found; 0: not searched
  double round_trip_seconds = 0;     // 0: not measured
  bool sent = false;                 // of a server: it is the one that sends
  bool dry_run = false;              // nothing has been changed
  std::string item{};                // of a change: what, as `rsync -i` writes it
  std::string target{};              // of a change: where a link leads; what a hard link is another name of
};

/// One line of JSON, without the newline. Replacement characters stand for text that is not UTF-8.
[[nodiscard]] std::string to_json(const Event& event);

/// Events that wait for the program. A full queue drops its oldest event of progress, a repair or a
/// rejected client.
class EventQueue {
 public:
  static constexpr std::size_t events_max = 1024;

  void push(Event event);
  /// How many more fit without one that is dropped.
  [[nodiscard]] std::size_t room() const { return events_max - events_.size(); }
  std::optional<Event> pop();

 private:
  std::deque<Event> events_;
};

}  // namespace sluice::ftx
