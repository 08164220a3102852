// SPDX-License-Identifier: Apache-2.0
#include "sockets/library/kinds.h"

#include <sys/un.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "sockets/library/system.h"

namespace sluice::sockets {
namespace {

constexpr std::size_t descriptors_max = std::size_t{1} << 20;  // of a process, on most systems (fs.nr_open)
constinit std::atomic<int> highest{-1};                        // that was ever one of ours
constinit char kinds[descriptors_max]{};                       // 0: not ours; pages that nobody touches cost nothing

bool in_table(int descriptor) { return descriptor >= 0 && static_cast<std::size_t>(descriptor) < descriptors_max; }

}  // namespace

std::optional<SocketKind> known_kind(int descriptor) {
  const char kind = in_table(descriptor) ? std::atomic_ref(kinds[descriptor]).load(std::memory_order_relaxed) : char{0};
  return kind == 0 ? std::nullopt : std::optional(static_cast<SocketKind>(kind));
}

std::optional<SocketKind> kind_of(int descriptor) {
  sockaddr_un name{};
  socklen_t size = sizeof name;
  const int kept = errno;
  const bool named = system_calls().getsockname(descriptor, reinterpret_cast<sockaddr*>(&name), &size) == 0;
  errno = kept;
  constexpr std::size_t prefix_size = sizeof name_prefix - 1;
  if (!named || name.sun_family != AF_UNIX || size < offsetof(sockaddr_un, sun_path) + 1 + prefix_size + 1 ||
      name.sun_path[0] != '\0' || std::memcmp(name.sun_path + 1, name_prefix, prefix_size) != 0) {
    return std::nullopt;
  }
  return static_cast<SocketKind>(name.sun_path[1 + prefix_size]);
}

void note_kind(int descriptor, std::optional<SocketKind> kind) {
  if (!in_table(descriptor)) {
    return;
  }
  int before = highest.load(std::memory_order_relaxed);
  while (kind && descriptor > before && !highest.compare_exchange_weak(before, descriptor)) {
  }
  std::atomic_ref(kinds[descriptor]).store(kind ? static_cast<char>(*kind) : char{0}, std::memory_order_relaxed);
}

void forget_kinds(unsigned first, unsigned last) {
  const int end = highest.load(std::memory_order_relaxed);
  for (unsigned descriptor = first; end >= 0 && descriptor <= last && descriptor <= static_cast<unsigned>(end);
       ++descriptor) {
    note_kind(static_cast<int>(descriptor), std::nullopt);
  }
}

void learn_kind(int descriptor) { note_kind(descriptor, kind_of(descriptor)); }

}  // namespace sluice::sockets
