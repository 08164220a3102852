// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/window_set.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/contract.h"

namespace sluice::ftx {
namespace {

// Below the first, faults are as cheap; above the second, system calls are few enough.
constexpr std::uint64_t ready_bytes_min = 64 * 1024;
constexpr std::uint64_t ready_bytes_max = 256 * 1024;

}  // namespace

Result<Bytes> WindowSet::range(const File& file, std::uint64_t offset, std::size_t size) {
  SLUICE_REQUIRE(size > 0 && size <= range_bytes_max && offset <= file.size_bytes && size <= file.size_bytes - offset);
  const auto kept = keep(file, offset / window_bytes * window_bytes);
  if (!kept) return std::unexpected(kept.error());
  if (auto ready = make_ready(**kept, offset, offset + size); !ready) return std::unexpected(ready.error());
  return (*kept)->window.bytes().subspan(offset - (*kept)->from, size);
}

Result<WindowSet::Kept*> WindowSet::keep(const File& file, std::uint64_t from) {
  Kept* oldest = &kept_.front();
  for (Kept& kept : kept_) {
    if (kept.index == file.index && kept.from == from && !kept.window.bytes().empty()) {
      kept.used = ++uses_;
      return &kept;
    }
    if (kept.used < oldest->used) oldest = &kept;
  }
  const std::uint64_t size = std::min(window_bytes + range_bytes_max, file.size_bytes - from);
  // One at a time: the old one goes first.
  *oldest = Kept{};
  auto window = MappedWindow::map(file.descriptor, from, static_cast<std::size_t>(size), access_);
  if (!window) return std::unexpected(window.error());
  *oldest = Kept{file.index, from, ++uses_, std::move(*window)};
  return oldest;
}

Status WindowSet::make_ready(const Kept& kept, std::uint64_t offset, std::uint64_t end) {
  if (run_.index != kept.index || offset > run_.ready) run_ = {kept.index, offset, offset};
  if (offset < run_.from || end <= run_.ready) return {};
  const std::uint64_t ahead = std::min(end - run_.from, ready_bytes_max);
  if (ahead < ready_bytes_min) {
    run_.ready = end;
    return {};
  }
  const std::uint64_t page = MappedWindow::page_bytes();
  const ConstBytes bytes = kept.window.bytes();
  const std::uint64_t first = (std::max(run_.ready, kept.from) - kept.from) / page * page;
  const std::uint64_t last = std::min<std::uint64_t>(end - kept.from + ahead, bytes.size());
  run_.ready = kept.from + last;
  const int advice = access_ == MappedWindow::Access::write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  // A kernel that does not know the advice says EINVAL; what cannot be read is found out by who reads it.
  const bool done = ::madvise(kept.window.bytes().data() + first, last - first, advice) == 0;
  if (!done && errno == EFAULT && access_ == MappedWindow::Access::write) return fail(EFAULT);
  return {};
}

bool WindowSet::failed(std::uint32_t index) const {
  return std::ranges::any_of(kept_, [&](const Kept& kept) { return kept.index == index && kept.window.failed(); });
}

bool WindowSet::holds(std::uint32_t index, std::uint64_t offset) const {
  return std::ranges::any_of(kept_, [&](const Kept& kept) {
    return kept.index == index && kept.from == offset / window_bytes * window_bytes && !kept.window.bytes().empty();
  });
}

void WindowSet::forget() {
  for (Kept& kept : kept_) kept = Kept{};
}

}  // namespace sluice::ftx
