// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/mapped_window.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

#include "apps/ftx/files/system.h"
#include "base/contract.h"

namespace sluice::ftx {
namespace {

// --- What the handler sees -----------------------------------------------------------------------------------------

/// `begin` is 0 in a free entry and 1 in one that is being set up. It is written last and cleared first.
struct Entry {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  std::atomic<int> protection{0};
  std::atomic<bool> failed{false};
};
constexpr std::uintptr_t entry_free = 0;
constexpr std::uintptr_t entry_taken = 1;

static_assert(std::atomic<std::uintptr_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
              std::atomic<bool>::is_always_lock_free);

std::array<Entry, MappedWindow::windows_max> mapped_entries;
std::atomic<bool> some_failed{false};  // since the process began
// Written once, before the handler is installed.
struct sigaction previous{};
std::uintptr_t page_mask = 0;

/// The window that holds `address`; null also for an entry that another window takes over meanwhile.
Entry* window_of(std::uintptr_t address) {
  for (Entry& entry : mapped_entries) {
    const std::uintptr_t begin = entry.begin.load(std::memory_order_acquire);
    if (begin <= entry_taken || address < begin || address >= entry.end.load(std::memory_order_acquire)) {
      continue;
    }
    if (entry.begin.load(std::memory_order_acquire) == begin) {
      return &entry;
    }
  }
  return nullptr;
}

/// Maps a page of zeros over the page of `address`. mmap is a plain system call and does not lock.
bool stand_in(const Entry& entry, std::uintptr_t address) {
  void* const page = reinterpret_cast<void*>(address & page_mask);  // NOLINT(performance-no-int-to-ptr)
  return ::mmap(page, ~page_mask + 1, entry.protection.load(std::memory_order_relaxed),
                MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    return previous.sa_sigaction(signal, info, context);
  }
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    return previous.sa_handler(signal);
  }
  ::sigaction(SIGBUS, &previous, nullptr);
  // After the return the faulting access happens again, for a debugger to see; a signal from kill() does not.
  if (info->si_code <= 0) {
    ::raise(SIGBUS);
  }
}

void on_sigbus(int signal, siginfo_t* info, void* context) {
  const int code = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  // With any other code, such as that of kill(), si_addr is not the address of an access.
  const bool access = info->si_code == BUS_ADRERR || info->si_code == BUS_MCEERR_AR;
  Entry* const entry = access ? window_of(address) : nullptr;
  if (entry != nullptr && stand_in(*entry, address)) {
    entry->failed.store(true, std::memory_order_release);
    some_failed.store(true, std::memory_order_release);
  } else {
    pass_on(signal, info, context);
  }
  errno = code;
}

/// Installs the handler, once a process. Answers 0 or an errno value.
int install() {
  page_mask = ~(static_cast<std::uintptr_t>(MappedWindow::page_bytes()) - 1);
  if (::sigaction(SIGBUS, nullptr, &previous) != 0) {
    return errno;
  }
  struct sigaction ours{};
  ours.sa_sigaction = on_sigbus;
  // Runs on the thread's signal stack if it has one. No SA_NODEFER: the handler itself touches no window.
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  ::sigemptyset(&ours.sa_mask);
  return ::sigaction(SIGBUS, &ours, nullptr) == 0 ? 0 : errno;
}

std::optional<std::size_t> take_entry() {
  for (std::size_t index = 0; index < mapped_entries.size(); ++index) {
    std::uintptr_t expected = entry_free;
    if (mapped_entries[index].begin.compare_exchange_strong(expected, entry_taken)) {
      return index;
    }
  }
  return std::nullopt;
}

}  // namespace

std::size_t MappedWindow::page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

Result<MappedWindow> MappedWindow::map(int descriptor, std::uint64_t offset, std::size_t size, Access access) {
  SLUICE_REQUIRE(size > 0 && offset % page_bytes() == 0);
  static const int unguarded = install();
  if (unguarded != 0) {
    return fail(unguarded, "cannot guard a window against SIGBUS");
  }
  const auto index = take_entry();
  if (!index) {
    return fail(ENFILE);
  }
  Entry& entry = mapped_entries[*index];
  const int protection = access == Access::write ? PROT_READ | PROT_WRITE : PROT_READ;
  void* const at = os().mmap(size, protection, MAP_SHARED, descriptor, static_cast<off_t>(offset));
  if (at == MAP_FAILED) {
    const int code = errno;
    entry.begin.store(entry_free, std::memory_order_release);
    return fail(code);
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  entry.failed.store(false, std::memory_order_relaxed);
  entry.protection.store(protection, std::memory_order_relaxed);
  entry.end.store(begin + size, std::memory_order_relaxed);
  entry.begin.store(begin, std::memory_order_release);
  return MappedWindow(Bytes(static_cast<std::byte*>(at), size), *index);
}

MappedWindow::~MappedWindow() {
  if (bytes_.empty()) {
    return;
  }
  // The entry goes first: once unmapped, the addresses may belong to another map.
  mapped_entries[entry_].begin.store(entry_taken, std::memory_order_release);
  os().munmap(bytes_.data(), bytes_.size());
  mapped_entries[entry_].begin.store(entry_free, std::memory_order_release);
}

MappedWindow& MappedWindow::operator=(MappedWindow&& other) noexcept {
  MappedWindow moved(std::move(other));
  std::swap(bytes_, moved.bytes_);
  std::swap(entry_, moved.entry_);
  return *this;
}

bool MappedWindow::any_failed() { return some_failed.load(std::memory_order_acquire); }

bool MappedWindow::failed() const {
  return !bytes_.empty() && mapped_entries[entry_].failed.load(std::memory_order_acquire);
}

}  // namespace sluice::ftx
