// SPDX-License-Identifier: Apache-2.0
#pragma once

// OutputDestination: one file that goes to a descriptor in order, such as standard output. It is written while it
// arrives, by a thread, so that the run loop waits for nobody who reads it: what comes ahead of a gap waits in memory
// (apps/ftx/files/ordered_window.h), and a reader that is slow holds back the sender, by credit and in the end by ADUs
// that find no room. Holes are written as zeros.
//
// What is written came from the peer that has been authenticated. Whether it is the whole of the file, and equal, is
// only known at the end: the exit code says so, and who uses the data must look at it.
//
// Threat: a peer that sends far ahead: window_bytes bound what is kept.
//
// The destination belongs to the thread of the run loop.

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "apps/ftx/files/ordered_window.h"
#include "apps/ftx/files/sink.h"
#include "apps/ftx/jobs/given_descriptor.h"

namespace sluice::ftx {

class OutputDestination final : public Destination {
 public:
  static constexpr std::size_t window_bytes = std::size_t{64} << 20;
  /// What a receiver reads again for its digest lies behind the prefix by less than this: an ADU, and what is read back
  /// at a time.
  static constexpr std::size_t kept_bytes = std::size_t{4} << 20;

  /// The descriptor stays the caller's. `name`: of it, for people.
  [[nodiscard]] static Result<std::unique_ptr<OutputDestination>> open(int descriptor, std::string name);
  /// Does not wait for who reads.
  ~OutputDestination() override;
  OutputDestination(const OutputDestination&) = delete;
  OutputDestination& operator=(const OutputDestination&) = delete;

  [[nodiscard]] Result<std::unique_ptr<Sink>> open(std::string_view path, std::span<const FileEntry> entries) override;

  /// All has arrived: waits until it is written. `turn` is called now and then; false ends the wait (EINTR).
  [[nodiscard]] Status drain(const std::function<bool()>& turn);

 private:
  class Files;
  class File;
  OutputDestination(GivenDescriptor output, std::string name) : output_(std::move(output)), name_(std::move(name)) {}

  // Of the run loop.
  void begin(const FileEntry& entry);
  [[nodiscard]] bool takes(std::uint64_t offset, std::size_t size);
  [[nodiscard]] std::uint64_t room();
  [[nodiscard]] Status put(std::uint64_t offset, ConstBytes bytes);
  void read(std::uint64_t offset, Bytes out);
  void end();

  // Of the writing thread.
  void run();
  [[nodiscard]] ConstBytes next(bool& zeros) const;
  [[nodiscard]] bool has_next() const;
  [[nodiscard]] bool all_written() const { return whole_ && written_ == entry_.size_bytes; }

  [[nodiscard]] std::unexpected<Error> failed(int code) const;

  GivenDescriptor output_;
  std::string name_;

  std::mutex mutex_;  // over all that follows, but for what lies in the window between taken() and prefix()
  std::condition_variable changed_;
  FileEntry entry_;
  std::optional<OrderedWindow> window_;
  std::uint64_t written_ = 0;  // of the file, holes included
  bool whole_ = false;         // all of the content has arrived
  bool ends_ = false;
  int error_ = 0;
  std::thread thread_;
};

}  // namespace sluice::ftx
