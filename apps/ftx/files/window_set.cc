// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/window_set.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "apps/ftx/files/system.h"
#include "base/contract.h"

namespace sluice::ftx {
namespace {

// The least bytes of a run, and the largest gap in one.
constexpr std::uint64_t run_bytes_min = 64 * 1024;
// With this many a call, the cost of the calls does not show.
constexpr std::uint64_t ready_bytes_max = 256 * 1024;

}  // namespace

Result<Bytes> WindowSet::range(const File& file, std::uint64_t offset, std::size_t size) {
  SLUICE_REQUIRE(size > 0 && size <= range_bytes_max && offset <= file.size_bytes && size <= file.size_bytes - offset);
  const std::uint64_t end = offset + size;
  const bool near = in_run(file.index, offset, end);
  if (!near && far_ == Far::refuse) {
    return fail(EAGAIN);
  }
  const auto kept = keep(file, offset / window_bytes * window_bytes);
  if (!kept) {
    return std::unexpected(kept.error());
  }
  if (near && end > run_.ready) {
    if (auto ready = make_ready(**kept, end); !ready) {
      return std::unexpected(ready.error());
    }
  }
  return (*kept)->window.bytes().subspan(offset - (*kept)->from, size);
}

Result<WindowSet::Kept*> WindowSet::keep(const File& file, std::uint64_t from) {
  Kept* oldest = &kept_.front();
  for (Kept& kept : kept_) {
    if (kept.index == file.index && kept.from == from && !kept.window.bytes().empty()) {
      kept.used = ++uses_;
      return &kept;
    }
    if (kept.used < oldest->used) {
      oldest = &kept;
    }
  }
  const std::uint64_t size = std::min(window_bytes + range_bytes_max, file.size_bytes - from);
  if (!oldest->window.bytes().empty()) {
    retired_.push_back(std::exchange(*oldest, Kept{}));
  }
  auto window = MappedWindow::map(file.descriptor, from, static_cast<std::size_t>(size), access_);
  if (!window) {
    return std::unexpected(window.error());
  }
  *oldest = Kept{file.index, from, ++uses_, std::move(*window)};
  return oldest;
}

/// Adds the range to the run or begins another; true when it lies in a run.
bool WindowSet::in_run(std::uint32_t index, std::uint64_t offset, std::uint64_t end) {
  const bool behind = offset + run_bytes_min < run_.from;
  const bool beyond = offset > std::max(run_.reached, run_.ready) + run_bytes_min;
  // A range from before a run, such as a retransmission, does not end it. Anything ends what is no run yet.
  if (index != run_.index || beyond || (behind && run_.bytes < run_bytes_min)) {
    run_ = {.index = index, .from = offset, .reached = offset, .ready = offset};
  } else if (behind) {
    return false;
  }
  run_.bytes += end - offset;
  run_.reached = std::max(run_.reached, end);
  if (run_.bytes < run_bytes_min) {
    run_.from = run_.ready = std::min(run_.from, offset);
    return false;
  }
  return offset >= run_.from && end <= ready_limit();
}

Status WindowSet::make_ready(const Kept& kept, std::uint64_t end) {
  const std::uint64_t page = MappedWindow::page_bytes();
  const ConstBytes bytes = kept.window.bytes();
  const std::uint64_t first = (std::max(run_.ready, kept.from) - kept.from) / page * page;
  const std::uint64_t last =
      std::min<std::uint64_t>(std::min(end + ready_bytes_max, ready_limit()) - kept.from, bytes.size());
  run_.ready = kept.from + last;
  const int advice = access_ == MappedWindow::Access::write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  // A kernel without this advice answers EINVAL. The reader finds pages that cannot be read.
  const bool done = os().madvise(kept.window.bytes().data() + first, last - first, advice) == 0;
  if (!done && errno == EFAULT && access_ == MappedWindow::Access::write) {
    return fail(EFAULT);
  }
  return {};
}

void WindowSet::release() {
  std::erase_if(retired_, [](const Kept& kept) { return !kept.window.failed(); });
}

std::optional<std::uint32_t> WindowSet::failed() const {
  if (!MappedWindow::any_failed()) {
    return std::nullopt;
  }
  for (const std::vector<Kept>* const windows : {&kept_, &retired_}) {
    const auto found = std::ranges::find_if(*windows, [](const Kept& kept) { return kept.window.failed(); });
    if (found != windows->end()) {
      return found->index;
    }
  }
  return std::nullopt;
}

bool WindowSet::holds(std::uint32_t index, std::uint64_t offset) const {
  return std::ranges::any_of(kept_, [&](const Kept& kept) {
    return kept.index == index && kept.from == offset / window_bytes * window_bytes && !kept.window.bytes().empty();
  });
}

void WindowSet::forget() {
  retired_.clear();
  for (Kept& kept : kept_) {
    kept = Kept{};
  }
}

}  // namespace sluice::ftx
