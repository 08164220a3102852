// SPDX-License-Identifier: Apache-2.0
#pragma once

// Whether this is a build with AddressSanitizer or ThreadSanitizer, of either compiler: GCC defines a macro, Clang has
// a feature. Such builds take many times the memory and the time, so a test's bounds depend on it; and their runtimes
// look at the process from outside (apps/ftx/security/confinement.cc).

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLUICE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLUICE_SANITIZED 1
#endif
#endif

namespace sluice {

#ifdef SLUICE_SANITIZED
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace sluice
