// SPDX-License-Identifier: Apache-2.0
#pragma once

// System: the calls to the operating system that the file side makes, one function each, so that a test can let each of
// them fail and see their order. The functions are those of POSIX with their results and errno; a call that a signal
// interrupted before it did anything is made again (base/retried.h).
//
// Cost: an indirect call for each system call, none for a byte. The handler of SIGBUS (apps/ftx/files/mapped_window.h)
// makes its one call itself.

#include <dirent.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <ctime>

#include "base/retried.h"

namespace sluice::ftx {

class System {
 public:
  virtual ~System() = default;

  virtual int openat(int directory, const char* path, int flags, mode_t mode);
  virtual int close(int descriptor);
  virtual ssize_t pread(int descriptor, void* out, std::size_t size, off_t offset);
  virtual ssize_t pwritev(int descriptor, const iovec* pieces, int count, off_t offset);
  virtual off_t lseek(int descriptor, off_t offset, int whence);
  virtual int ftruncate(int descriptor, off_t size);
  virtual int fstat(int descriptor, struct stat* status);
  virtual int fstatat(int directory, const char* path, struct stat* status, int flags);
  virtual int fchmod(int descriptor, mode_t mode);
  virtual int fchown(int descriptor, uid_t user, gid_t group);
  virtual int fchownat(int directory, const char* path, uid_t user, gid_t group, int flags);
  virtual ssize_t flistxattr(int descriptor, char* out, std::size_t size);
  virtual ssize_t fgetxattr(int descriptor, const char* name, void* out, std::size_t size);
  virtual int fsetxattr(int descriptor, const char* name, const void* value, std::size_t size, int flags);
  virtual int fremovexattr(int descriptor, const char* name);
  virtual int futimens(int descriptor, const timespec times[2]);
  virtual int fsync(int descriptor);
  virtual int fdatasync(int descriptor);
  virtual int flock(int descriptor, int operation);
  virtual int renameat(int directory, const char* from, int to_directory, const char* to);
  virtual int unlinkat(int directory, const char* path, int flags);
  virtual int mkdirat(int directory, const char* path, mode_t mode);
  virtual int linkat(int directory, const char* path, int to_directory, const char* to, int flags);
  virtual int symlinkat(const char* target, int directory, const char* path);
  virtual ssize_t readlinkat(int directory, const char* path, char* out, std::size_t size);
  virtual int utimensat(int directory, const char* path, const timespec times[2], int flags);
  virtual int syncfs(int descriptor);
  virtual DIR* fdopendir(int descriptor);
  virtual dirent* readdir(DIR* directory);
  virtual int closedir(DIR* directory);
  virtual void* mmap(std::size_t size, int protection, int flags, int descriptor, off_t offset);
  virtual int munmap(void* at, std::size_t size);
  virtual int madvise(void* at, std::size_t size, int advice);
};

/// The one in use: the operating system's own, unless a test has replaced it.
[[nodiscard]] System& os();

/// For tests: `system` is in use as long as this lives. Not while other threads use files.
class ReplaceSystem {
 public:
  explicit ReplaceSystem(System& system);
  ~ReplaceSystem();
  ReplaceSystem(const ReplaceSystem&) = delete;
  ReplaceSystem& operator=(const ReplaceSystem&) = delete;

 private:
  System* before_;
};

}  // namespace sluice::ftx
