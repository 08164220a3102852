// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/capture_recording.h"

#include <algorithm>
#include <string_view>

#include "stack/modules/capture_file.h"

namespace sluice {
namespace {

using pcapng::LinkType;

constexpr std::string_view interface_name(LinkType link) {
  switch (link) {
    case LinkType::ethernet:
      return "dlpi";
    case LinkType::raw_ip:
      return "ip";
    case LinkType::user0:
      return "data";
  }
  return "";
}

/// What a stream set knows of a file that its captures have named.
struct RecordedFile {
  bool begun = false;
  std::weak_ptr<CaptureRecording> recording;
};

}  // namespace

CaptureRecording::CaptureRecording(StreamSet& set, CaptureSink sink, WallClock wall_clock)
    : set_(set),
      sink_(std::move(sink)),
      wall_clock_(std::move(wall_clock)),
      timer_(set.scheduler(), [this] { flush(); }) {
  buffer_.reserve(2 * buffer_bytes_max);
  pcapng::append_section_header(buffer_, "sluice");
  flush();
}

bool CaptureRecording::write(LinkType link, pcapng::Packet packet) {
  if (failed_) {
    return false;
  }
  packet.interface_id = number_of({link, packet.snap_bytes});
  packet.time_ns = time_ns();
  pcapng::append_packet(buffer_, packet);
  if (buffer_.size() >= buffer_bytes_max) {
    flush();
  } else if (!timer_.armed()) {
    timer_.arm_after(write_delay_max);
  }
  return true;
}

/// The number of the interface, which is described in the file when it is first needed.
std::uint32_t CaptureRecording::number_of(const Interface& interface) {
  const auto known = std::ranges::find(interfaces_, interface);
  const auto number = static_cast<std::uint32_t>(known - interfaces_.begin());
  if (known == interfaces_.end()) {
    const auto [link, snap_bytes] = interface;
    interfaces_.push_back(interface);
    pcapng::append_interface(buffer_, link, interface_name(link), static_cast<std::uint32_t>(snap_bytes));
  }
  return number;
}

std::uint64_t CaptureRecording::time_ns() {
  const Duration now = set_.now().time_since_epoch();
  if (!epoch_) {
    epoch_ = wall_clock_() - now;
  }
  return static_cast<std::uint64_t>((*epoch_ + now).count());
}

void CaptureRecording::flush() {
  timer_.cancel();
  if (!buffer_.empty() && !failed_) {
    failed_ = !sink_(buffer_);
  }
  buffer_.clear();
}

Result<std::shared_ptr<CaptureRecording>> open_recording(StreamSet& set, const std::string& path) {
  auto& file = set.shared<RecordedFile>(path);
  if (auto recording = file.recording.lock(); recording != nullptr) {
    return recording;
  }
  Result<CaptureSink> sink =
      open_capture_file(path, file.begun ? CaptureFileStart::after_what_is_there : CaptureFileStart::empty);
  if (!sink) {
    return std::unexpected(std::move(sink.error()));
  }
  auto recording = std::make_shared<CaptureRecording>(
      set, std::move(*sink), [] { return Duration(std::chrono::system_clock::now().time_since_epoch()); });
  file = {.begun = true, .recording = recording};
  return recording;
}

}  // namespace sluice
