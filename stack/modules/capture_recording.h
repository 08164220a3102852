// SPDX-License-Identifier: Apache-2.0
#pragma once

// What captures of one stream set write to one pcapng file: packets in the order in which they came, each with its
// interface, gathered and written 64 KiB at a time, at the latest a second after they came. The wall clock is injected
// and read once, since a stream set's time is monotonic only.
//
// Threads: as its stream set's, which outlives it.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stack/core/stream_set.h"
#include "stack/modules/capture_pcapng.h"

namespace sluice {

/// Takes bytes for the end of the file; false when they could not be written.
using CaptureSink = std::function<bool(ConstBytes)>;
/// Since 1970-01-01 00:00 UTC.
using WallClock = std::function<Duration()>;

class CaptureRecording {
 public:
  static constexpr std::size_t buffer_bytes_max = 64 * 1024;
  static constexpr Duration write_delay_max = std::chrono::seconds(1);

  /// Begins a section of the file at once.
  CaptureRecording(StreamSet& set, CaptureSink sink, WallClock wall_clock);
  CaptureRecording(const CaptureRecording&) = delete;
  CaptureRecording& operator=(const CaptureRecording&) = delete;
  ~CaptureRecording() { flush(); }

  /// `packet` without its interface and time. False when it is lost, since the file could not be written before:
  /// nothing more is written then.
  bool write(pcapng::LinkType link, pcapng::Packet packet);
  void flush();

 private:
  using Interface = std::pair<pcapng::LinkType, std::size_t>;  // and how much of a packet is written at most

  [[nodiscard]] std::uint32_t number_of(const Interface& interface);
  [[nodiscard]] std::uint64_t time_ns();

  StreamSet& set_;
  CaptureSink sink_;
  WallClock wall_clock_;
  Timer timer_;
  std::vector<std::byte> buffer_;
  std::vector<Interface> interfaces_;
  std::optional<Duration> epoch_;  // wall clock minus the stream set's time
  bool failed_ = false;
};

/// The recording in the file at `path` of all captures of this set that name it so, or why the file can't be written.
/// The first one replaces what is there; one that comes after all others have gone adds a section.
[[nodiscard]] Result<std::shared_ptr<CaptureRecording>> open_recording(StreamSet& set, const std::string& path);

}  // namespace sluice
