// SPDX-License-Identifier: Apache-2.0
#include "tests/tli/allocations.h"

#include <atomic>
#include <cstddef>

#include "base/sanitizers.h"

namespace {
std::atomic<std::uint64_t> count{0};
}  // namespace

#ifdef SLUICE_SANITIZED

// As in <sanitizer/allocator_interface.h>, which GCC does not install.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, std::size_t),
                                                         void (*on_free)(const volatile void*));

namespace {
void counted(const volatile void*, std::size_t) { ++count; }
void ignored(const volatile void*) {}
[[maybe_unused]] const int installed = __sanitizer_install_malloc_and_free_hooks(counted, ignored);
}  // namespace

#else

// glibc lets a program define the allocator's entry points and call its own under these names.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);

void* malloc(std::size_t size) {
  ++count;
  return __libc_malloc(size);
}
void* calloc(std::size_t items, std::size_t size) {
  ++count;
  return __libc_calloc(items, size);
}
void* realloc(void* memory, std::size_t size) {
  ++count;
  return __libc_realloc(memory, size);
}
}

#endif

namespace sluice::test {

std::uint64_t allocations() { return count.load(); }

}  // namespace sluice::test
