// SPDX-License-Identifier: Apache-2.0
#pragma once

// A System whose calls fail when a test says so, and that records what was asked of it.

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "apps/ftx/files/system.h"

namespace sluice::ftx {

class FaultySystem final : public System {
 public:
  struct Call {
    std::string name;
    std::string file;  // path below its directory; of a descriptor: what it was opened as
    bool failed = false;
    int flags = 0;
    mode_t mode = 0;
  };
  /// What happens to a call.
  struct Fault {
    int error = 0;         // fails with this errno, and does nothing
    bool partial = false;  // reads or writes one byte only
  };
  /// Asked before each call: its number, from 1 up, and what it is. Without one nothing fails.
  std::function<Fault(std::size_t number, const Call& call)> fault;
  std::vector<Call> calls;
  std::map<int, std::string> open_files;
  std::size_t windows = 0;

  /// The positions of the calls of that name that succeeded.
  std::vector<std::size_t> all(const std::string& name, const std::string& file = "") const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].name == name && !calls[i].failed && (file.empty() || calls[i].file == file)) {
        found.push_back(i);
      }
    }
    return found;
  }

  int openat(int directory, const char* path, int flags, mode_t mode) override {
    if (const Fault now = next({.name = "openat", .file = path, .flags = flags, .mode = mode}); now.error != 0) {
      return failed(now);
    }
    const int descriptor = System::openat(directory, path, flags, mode);
    calls.back().failed = descriptor < 0;
    if (descriptor >= 0) {
      open_files[descriptor] = path;
    }
    return descriptor;
  }
  int close(int descriptor) override {
    const Fault now = next({"close", of(descriptor)});
    open_files.erase(descriptor);
    const int result = System::close(descriptor);  // closes whatever it answers
    return now.error != 0 ? failed(now) : result;
  }
  ssize_t pread(int descriptor, void* out, std::size_t size, off_t offset) override {
    const Fault now = next({"pread", of(descriptor)});
    return now.error != 0 ? failed(now) : System::pread(descriptor, out, now.partial ? 1 : size, offset);
  }
  ssize_t pwritev(int descriptor, const iovec* pieces, int count, off_t offset) override {
    const Fault now = next({"pwritev", of(descriptor)});
    const iovec first_byte{pieces->iov_base, 1};
    return now.error != 0
               ? failed(now)
               : System::pwritev(descriptor, now.partial ? &first_byte : pieces, now.partial ? 1 : count, offset);
  }
  off_t lseek(int descriptor, off_t offset, int whence) override {
    const Fault now = next({"lseek", of(descriptor)});
    return now.error != 0 ? failed(now) : System::lseek(descriptor, offset, whence);
  }
  int ftruncate(int descriptor, off_t size) override {
    return simple({"ftruncate", of(descriptor)}, [&] { return System::ftruncate(descriptor, size); });
  }
  int fstat(int descriptor, struct stat* status) override {
    return simple({"fstat", of(descriptor)}, [&] { return System::fstat(descriptor, status); });
  }
  int fstatat(int directory, const char* path, struct stat* status, int flags) override {
    return simple({"fstatat", path}, [&] { return System::fstatat(directory, path, status, flags); });
  }
  int fchmod(int descriptor, mode_t mode) override {
    return simple({"fchmod", of(descriptor)}, [&] { return System::fchmod(descriptor, mode); });
  }
  int fchown(int descriptor, uid_t user, gid_t group) override {
    return simple({"fchown", of(descriptor)}, [&] { return System::fchown(descriptor, user, group); });
  }
  int fchownat(int directory, const char* path, uid_t user, gid_t group, int flags) override {
    return simple({"fchownat", path}, [&] { return System::fchownat(directory, path, user, group, flags); });
  }
  ssize_t flistxattr(int descriptor, char* out, std::size_t size) override {
    const Fault now = next({"flistxattr", of(descriptor)});
    return now.error != 0 ? failed(now) : System::flistxattr(descriptor, out, size);
  }
  ssize_t fgetxattr(int descriptor, const char* name, void* out, std::size_t size) override {
    const Fault now = next({"fgetxattr", of(descriptor)});
    return now.error != 0 ? failed(now) : System::fgetxattr(descriptor, name, out, size);
  }
  int fsetxattr(int descriptor, const char* name, const void* value, std::size_t size, int flags) override {
    return simple({"fsetxattr", of(descriptor)},
                  [&] { return System::fsetxattr(descriptor, name, value, size, flags); });
  }
  int fremovexattr(int descriptor, const char* name) override {
    return simple({"fremovexattr", of(descriptor)}, [&] { return System::fremovexattr(descriptor, name); });
  }
  int futimens(int descriptor, const timespec times[2]) override {
    return simple({"futimens", of(descriptor)}, [&] { return System::futimens(descriptor, times); });
  }
  int fsync(int descriptor) override {
    return simple({"fsync", of(descriptor)}, [] { return 0; });  // takes time, and no test cuts the power
  }
  int fdatasync(int descriptor) override {
    return simple({"fdatasync", of(descriptor)}, [] { return 0; });  // as fsync()
  }
  int flock(int descriptor, int operation) override {
    return simple({"flock", of(descriptor)}, [&] { return System::flock(descriptor, operation); });
  }
  int renameat(int directory, const char* from, int to_directory, const char* to) override {
    return simple({"renameat", from}, [&] { return System::renameat(directory, from, to_directory, to); });
  }
  int unlinkat(int directory, const char* path, int flags) override {
    return simple({"unlinkat", path}, [&] { return System::unlinkat(directory, path, flags); });
  }
  int mkdirat(int directory, const char* path, mode_t mode) override {
    return simple({.name = "mkdirat", .file = path, .mode = mode},
                  [&] { return System::mkdirat(directory, path, mode); });
  }
  int linkat(int directory, const char* path, int to_directory, const char* to, int flags) override {
    return simple({"linkat", to}, [&] {
      if (flags == AT_EMPTY_PATH) {  // as Linux 6.10 lets everybody do it
        const std::string proc = "/proc/self/fd/" + std::to_string(directory);
        return System::linkat(AT_FDCWD, proc.c_str(), to_directory, to, AT_SYMLINK_FOLLOW);
      }
      return System::linkat(directory, path, to_directory, to, flags);
    });
  }
  int symlinkat(const char* target, int directory, const char* path) override {
    return simple({"symlinkat", path}, [&] { return System::symlinkat(target, directory, path); });
  }
  ssize_t readlinkat(int directory, const char* path, char* out, std::size_t size) override {
    const Fault now = next({"readlinkat", path});
    return now.error != 0 ? failed(now) : System::readlinkat(directory, path, out, size);
  }
  int utimensat(int directory, const char* path, const timespec times[2], int flags) override {
    return simple({"utimensat", path}, [&] { return System::utimensat(directory, path, times, flags); });
  }
  int syncfs(int descriptor) override {
    return simple({"syncfs", of(descriptor)}, [] { return 0; });  // as fsync()
  }
  DIR* fdopendir(int descriptor) override {
    if (const Fault now = next({"fdopendir", of(descriptor)}); now.error != 0) {
      failed(now);
      return nullptr;
    }
    return System::fdopendir(descriptor);
  }
  dirent* readdir(DIR* directory) override {
    if (const Fault now = next({"readdir", ""}); now.error != 0) {
      failed(now);
      return nullptr;
    }
    return System::readdir(directory);
  }
  void* mmap(std::size_t size, int protection, int flags, int descriptor, off_t offset) override {
    if (const Fault now = next({"mmap", of(descriptor)}); now.error != 0) {
      failed(now);
      return MAP_FAILED;
    }
    void* const at = System::mmap(size, protection, flags, descriptor, offset);
    windows += at != MAP_FAILED ? 1 : 0;
    return at;
  }
  int munmap(void* at, std::size_t size) override {
    calls.push_back({.name = "munmap", .file = ""});
    --windows;
    return System::munmap(at, size);
  }
  int madvise(void* at, std::size_t size, int advice) override {
    return simple({"madvise", ""}, [&] { return System::madvise(at, size, advice); });
  }

 private:
  std::string of(int descriptor) const {
    const auto found = open_files.find(descriptor);
    return found == open_files.end() ? "?" : found->second;
  }
  Fault next(Call call) {
    ++count_;
    const Fault now = fault ? fault(count_, call) : Fault{};
    call.failed = now.error != 0;
    calls.push_back(std::move(call));
    return now;
  }
  static int failed(const Fault& now) {
    errno = now.error;
    return -1;
  }
  template <class Real>
  int simple(Call call, Real&& real) {
    const Fault now = next(std::move(call));
    return now.error != 0 ? failed(now) : real();
  }

  std::size_t count_ = 0;
};

}  // namespace sluice::ftx
