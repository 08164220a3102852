// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/system.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace sluice::ftx {
namespace {

System& real() {
  static System system;
  return system;
}
System* replaced = nullptr;

}  // namespace

System& os() { return replaced != nullptr ? *replaced : real(); }

ReplaceSystem::ReplaceSystem(System& system) : before_(std::exchange(replaced, &system)) {}
ReplaceSystem::~ReplaceSystem() { replaced = before_; }

int System::openat(int directory, const char* path, int flags, mode_t mode) {
  return ::openat(directory, path, flags, mode);
}
int System::close(int descriptor) { return ::close(descriptor); }
ssize_t System::pread(int descriptor, void* out, std::size_t size, off_t offset) {
  return ::pread(descriptor, out, size, offset);
}
ssize_t System::pwritev(int descriptor, const iovec* pieces, int count, off_t offset) {
  return ::pwritev(descriptor, pieces, count, offset);
}
off_t System::lseek(int descriptor, off_t offset, int whence) { return ::lseek(descriptor, offset, whence); }
int System::ftruncate(int descriptor, off_t size) { return ::ftruncate(descriptor, size); }
int System::fstat(int descriptor, struct stat* status) { return ::fstat(descriptor, status); }
int System::fstatat(int directory, const char* path, struct stat* status, int flags) {
  return ::fstatat(directory, path, status, flags);
}
int System::fchmod(int descriptor, mode_t mode) { return ::fchmod(descriptor, mode); }
int System::fchown(int descriptor, uid_t user, gid_t group) { return ::fchown(descriptor, user, group); }
int System::fchownat(int directory, const char* path, uid_t user, gid_t group, int flags) {
  return ::fchownat(directory, path, user, group, flags);
}
ssize_t System::flistxattr(int descriptor, char* out, std::size_t size) { return ::flistxattr(descriptor, out, size); }
ssize_t System::fgetxattr(int descriptor, const char* name, void* out, std::size_t size) {
  return ::fgetxattr(descriptor, name, out, size);
}
int System::fsetxattr(int descriptor, const char* name, const void* value, std::size_t size, int flags) {
  return ::fsetxattr(descriptor, name, value, size, flags);
}
int System::fremovexattr(int descriptor, const char* name) { return ::fremovexattr(descriptor, name); }
int System::futimens(int descriptor, const timespec times[2]) { return ::futimens(descriptor, times); }
int System::fsync(int descriptor) { return ::fsync(descriptor); }
int System::fdatasync(int descriptor) { return ::fdatasync(descriptor); }
int System::flock(int descriptor, int operation) { return ::flock(descriptor, operation); }
int System::renameat(int directory, const char* from, int to_directory, const char* to) {
  return ::renameat(directory, from, to_directory, to);
}
int System::unlinkat(int directory, const char* path, int flags) { return ::unlinkat(directory, path, flags); }
int System::mkdirat(int directory, const char* path, mode_t mode) { return ::mkdirat(directory, path, mode); }
int System::linkat(int directory, const char* path, int to_directory, const char* to, int flags) {
  return ::linkat(directory, path, to_directory, to, flags);
}
int System::symlinkat(const char* target, int directory, const char* path) {
  return ::symlinkat(target, directory, path);
}
ssize_t System::readlinkat(int directory, const char* path, char* out, std::size_t size) {
  return ::readlinkat(directory, path, out, size);
}
int System::utimensat(int directory, const char* path, const timespec times[2], int flags) {
  return ::utimensat(directory, path, times, flags);
}
int System::syncfs(int descriptor) { return ::syncfs(descriptor); }
DIR* System::fdopendir(int descriptor) { return ::fdopendir(descriptor); }
dirent* System::readdir(DIR* directory) { return ::readdir(directory); }
int System::closedir(DIR* directory) { return ::closedir(directory); }
void* System::mmap(std::size_t size, int protection, int flags, int descriptor, off_t offset) {
  return ::mmap(nullptr, size, protection, flags, descriptor, offset);
}
int System::munmap(void* at, std::size_t size) { return ::munmap(at, size); }
int System::madvise(void* at, std::size_t size, int advice) { return ::madvise(at, size, advice); }

}  // namespace sluice::ftx
