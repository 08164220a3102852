// SPDX-License-Identifier: Apache-2.0
#pragma once

// InputSource: one file that comes from a descriptor, such as standard input, and is sent while it comes, whatever its
// size will be. A thread reads it, so that the run loop waits for nobody who writes it. What the receiver does not have
// yet waits in a ring of memory (apps/ftx/files/stream_ring.h), since it cannot be read again; where that is full, the
// thread reads no more, and whoever writes waits.
//
// Nothing is read before the receiver has taken the transfer: one that comes to nothing leaves all to the next reader,
// or to the same transfer on another way.
//
// Ctrl-C in `make-some | ftx - host:file` is for both. The signal that has ended the writer reaches this process before
// the end of its output does; but the run loop may hear of the end first, and what has been cut short would be
// delivered as whole. So the end is told only after the loop has slept and has looked for signals once more.
//
// The mode of the file is that of a redirection: 0666 without the umask of this process. Its time is that of the last
// write there, which nobody sets.
//
// The source belongs to the thread of the run loop.

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "apps/ftx/files/descriptor.h"
#include "apps/ftx/files/source.h"
#include "apps/ftx/files/stream_ring.h"
#include "apps/ftx/jobs/given_descriptor.h"

namespace sluice::ftx {

class InputSource final : public Source {
 public:
  static constexpr std::size_t ring_bytes = std::size_t{64} << 20;
  static constexpr std::size_t read_bytes_max = std::size_t{256} << 10;

  /// The descriptor stays the caller's. `name`: of it, for people.
  [[nodiscard]] static std::expected<std::unique_ptr<InputSource>, Failure> open(int descriptor, std::string name,
                                                                                 std::size_t bytes = ring_bytes);
  /// Does not wait for who writes.
  ~InputSource() override;
  InputSource(const InputSource&) = delete;
  InputSource& operator=(const InputSource&) = delete;

  /// Readable when stream_state() may say something else than the last time. The caller takes that by heard().
  [[nodiscard]] int news() const { return news_.get(); }
  void heard();

  [[nodiscard]] const std::vector<FileEntry>& files() const override { return entries_; }
  [[nodiscard]] Result<StreamState> stream_state() override;
  void stream_delivered(std::uint64_t offset) override;
  [[nodiscard]] Status read(std::uint32_t index, std::uint64_t offset, Bytes out) override;
  [[nodiscard]] Status unchanged(std::uint32_t /*index*/) override { return {}; }
  [[nodiscard]] std::string path(std::uint32_t /*index*/) const override { return name_; }

 private:
  InputSource(GivenDescriptor input, Descriptor news, std::string name, std::size_t bytes);
  void begin();
  /// Worth the reading: who is woken for each datagram that arrives there does nothing else.
  [[nodiscard]] bool has_room() const { return ring_->free_bytes() >= std::min(read_bytes_max, bytes_ / 2); }

  void run();  // the reading thread
  void tell();

  GivenDescriptor input_;
  Descriptor news_;  // an eventfd
  std::string name_;
  std::vector<FileEntry> entries_;
  std::size_t bytes_;

  std::mutex mutex_;  // over all that follows, but for the bytes in the ring
  std::condition_variable changed_;
  std::optional<StreamRing> ring_;
  bool asked_ = false;  // since the last news
  bool ended_ = false;
  enum class End { untold, told_of, heard } end_ = End::untold;  // what the run loop knows of it
  bool ends_ = false;
  int error_ = 0;
  std::thread thread_;
};

}  // namespace sluice::ftx
