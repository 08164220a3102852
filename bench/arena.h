// SPDX-License-Identifier: Apache-2.0
#pragma once

// User memory for experiments on memory traffic: in huge pages where the system gives them, since where small pages
// happen to lie moves results by more than what is compared.
//
// Ownership: an arena owns its memory. Threads: any one at a time.

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/contract.h"
#include "base/prng.h"

namespace sluice::bench {

/// Memory of random bytes, from a huge page's boundary on.
class Arena {
 public:
  explicit Arena(std::size_t size) : size_((size + huge_page - 1) / huge_page * huge_page), mapped_(size_ + huge_page) {
    void* const at = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SLUICE_REQUIRE(at != MAP_FAILED);
    base_ = static_cast<std::byte*>(at);
    const std::size_t past = reinterpret_cast<std::uintptr_t>(base_) % huge_page;
    start_ = base_ + (past == 0 ? 0 : huge_page - past);
    ::madvise(start_, size_, MADV_HUGEPAGE);  // advice: a system without them gives small pages
    Prng prng(1990);
    for (std::size_t i = 0; i < size_; i += sizeof(std::uint64_t)) {
      const std::uint64_t word = prng();
      std::memcpy(start_ + i, &word, sizeof word);
    }
  }
  ~Arena() { ::munmap(base_, mapped_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  [[nodiscard]] std::byte* start() const { return start_; }

 private:
  static constexpr std::size_t huge_page = std::size_t{2} << 20;

  std::size_t size_;
  std::size_t mapped_;
  std::byte* base_;
  std::byte* start_;
};

}  // namespace sluice::bench
