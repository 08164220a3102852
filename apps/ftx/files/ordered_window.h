// SPDX-License-Identifier: Apache-2.0
#pragma once

// OrderedWindow: the part of a file between what has been taken out of it in order and what may arrive. Bytes come in
// any order and lie in a ring of fixed size; what has no gap before it can be taken out. Somewhat less than the ring
// holds may come ahead, since what has been taken out can be read again for a while.
//
//      taken      prefix              taken - kept + ring
//   -----+----------+=====----===--------+
//   kept |   ready  |  ahead, with gaps  | does not fit yet
//
// Threat: a peer that sends single bytes with gaps between them. The gaps are slots of 16 bytes or ADUs: the table of
// what lies ahead has an entry for each, and the window bounds them.
//
// Not thread-safe. O(log gaps) a call, apart from copying; allocates an entry a gap, and the ring once.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>

#include "base/bytes.h"
#include "base/contract.h"

namespace sluice::ftx {

class OrderedWindow {
 public:
  /// REQUIRES: kept_bytes < ring_bytes.
  OrderedWindow(std::size_t ring_bytes, std::size_t kept_bytes)
      : ring_(std::make_unique_for_overwrite<std::byte[]>(ring_bytes)), ring_bytes_(ring_bytes), kept_(kept_bytes) {
    SLUICE_REQUIRE(kept_bytes < ring_bytes);
  }

  /// Whether put() may be called for these.
  [[nodiscard]] bool takes(std::uint64_t offset, std::size_t size) const { return offset + size <= end(); }
  /// How many bytes may come behind the prefix.
  [[nodiscard]] std::uint64_t room() const { return end() - prefix_; }

  /// Bytes that are there already are left as they are where they have no gap before them. REQUIRES: takes().
  void put(std::uint64_t offset, ConstBytes bytes) {
    SLUICE_REQUIRE(takes(offset, bytes.size()));
    const std::uint64_t to = offset + bytes.size();
    highest_ = std::max(highest_, to);
    const std::uint64_t from = std::max(offset, prefix_);
    if (from >= to) {
      return;
    }
    each_stretch(from, to - from, [&](std::byte* at, std::size_t done, std::size_t size) {
      std::copy_n(bytes.data() + (from - offset + done), size, at);
    });
    note(from, to);
  }

  /// REQUIRES: all of it was put, and nothing since that lies ring_bytes or more ahead; so it holds for what is read
  /// before another put(), and for what lies less than kept_bytes before taken().
  void read(std::uint64_t offset, Bytes out) const {
    SLUICE_REQUIRE(offset + ring_bytes_ >= highest_);
    each_stretch(offset, out.size(), [&](const std::byte* at, std::size_t done, std::size_t size) {
      std::copy_n(at, size, out.begin() + static_cast<std::ptrdiff_t>(done));
    });
  }

  /// What is there without a gap.
  [[nodiscard]] std::uint64_t prefix() const { return prefix_; }
  [[nodiscard]] std::uint64_t taken() const { return taken_; }
  /// The next bytes to take out, as many as lie in one piece. put() and read() leave them alone until take().
  [[nodiscard]] ConstBytes ready() const {
    const std::size_t at = taken_ % ring_bytes_;
    return {ring_.get() + at, std::min<std::size_t>(prefix_ - taken_, ring_bytes_ - at)};
  }
  /// REQUIRES: bytes <= ready().size().
  void take(std::size_t bytes) {
    SLUICE_REQUIRE(bytes <= prefix_ - taken_);
    taken_ += bytes;
  }

 private:
  [[nodiscard]] std::uint64_t end() const { return std::max<std::uint64_t>(taken_, kept_) - kept_ + ring_bytes_; }

  /// Calls use(memory, done, size) for each stretch of the ring that [offset, offset + size) lies in.
  template <class Use>
  void each_stretch(std::uint64_t offset, std::size_t size, Use&& use) const {
    for (std::size_t done = 0; done < size;) {
      const std::size_t at = (offset + done) % ring_bytes_;
      const std::size_t stretch = std::min(size - done, ring_bytes_ - at);
      use(ring_.get() + at, done, stretch);
      done += stretch;
    }
  }

  void note(std::uint64_t from, std::uint64_t to) {
    auto after = ahead_.upper_bound(from);
    if (after != ahead_.begin() && std::prev(after)->second >= from) {
      --after;
      from = after->first;
    }
    while (after != ahead_.end() && after->first <= to) {
      to = std::max(to, after->second);
      after = ahead_.erase(after);
    }
    if (from == prefix_) {
      prefix_ = to;
    } else {
      ahead_.emplace(from, to);
    }
  }

  std::unique_ptr<std::byte[]> ring_;
  std::size_t ring_bytes_;
  std::size_t kept_;
  std::uint64_t taken_ = 0;
  std::uint64_t prefix_ = 0;
  std::uint64_t highest_ = 0;
  std::map<std::uint64_t, std::uint64_t> ahead_;  // from, to; neither overlapping nor touching
};

}  // namespace sluice::ftx
