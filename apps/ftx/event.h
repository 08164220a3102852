// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a session tells its program, and how `--json` prints it: one object a line, the last one `done` or `error`.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "apps/ftx/exit_code.h"

namespace sluice::ftx {

struct Event {
  enum class Kind {
    listening,  // path: the address
    offer,      // files, bytes, path
    progress,   // bytes so far, total_bytes, adus, repaired
    repair,     // adus: asked for again since the last event of this kind
    error,      // code, text
    done,       // bytes, seconds, adus, repaired, out_of_order, path, loaded_bytes, stored_bytes
  };
  Kind kind{};
  std::uint64_t connection = 0;
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::uint64_t total_bytes = 0;
  double seconds = 0;
  std::uint64_t adus = 0;          // distinct file ADUs
  std::uint64_t repaired = 0;      // sender: ADUs sent again; receiver: ADUs placed by a repair
  std::uint64_t out_of_order = 0;  // datagrams that a later-sent one overtook, as the receiver saw it
  // What this side's stack has loaded and stored in passes over its messages' data since the program started; digests,
  // files and the kernel's own copies not counted.
  std::uint64_t loaded_bytes = 0;
  std::uint64_t stored_bytes = 0;
  ExitCode code = ExitCode::ok;
  std::string path{};
  std::string text{};
};

/// One line of JSON, without the newline. Text that is not UTF-8 is shown with replacement characters.
[[nodiscard]] std::string to_json(const Event& event);

/// Events waiting for the program. Bounded: when nobody reads, the oldest progress and repair events go first.
class EventQueue {
 public:
  static constexpr std::size_t events_max = 1024;

  void push(Event event);
  std::optional<Event> pop();

 private:
  std::deque<Event> events_;
};

}  // namespace sluice::ftx
