// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/security/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "apps/ftx/security/open_file.h"
#include "apps/ftx/security/secret.h"
#include "base/retried.h"

namespace sluice::ftx {
namespace {

std::unexpected<Error> failed(const std::string& path, const char* what, int code) {
  return fail(code, "cannot " + std::string(what) + " " + path + ": " + std::strerror(code));
}

Status check(const std::string& path, const struct stat& status, Readers readers) {
  if (!S_ISREG(status.st_mode)) {
    return fail(EINVAL, path + " is not a regular file");
  }
  if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    return fail(EPERM, path + " belongs to another user");
  }
  if (readers == Readers::owner_only && (status.st_mode & 077) != 0) {
    return fail(EPERM, path + " holds a secret, and group or others have access to it; see to it with: chmod 600");
  }
  if ((status.st_mode & 022) != 0) {
    return fail(EPERM, path + " says who is trusted, and group or others may write it; see to it with: chmod go-w");
  }
  if (status.st_size > static_cast<off_t>(private_file_bytes_max)) {
    return fail(EFBIG, path + " is longer than " + std::to_string(private_file_bytes_max) + " bytes");
  }
  return {};
}

Status write_all(int descriptor, ConstBytes content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t wrote = retried([&] { return ::write(descriptor, content.data(), content.size()); });
    if (wrote <= 0) {
      return failed(path, "write", wrote < 0 ? errno : EIO);
    }
    content = content.subspan(static_cast<std::size_t>(wrote));
  }
  return {};
}

/// The name of `path` where nothing is (RENAME_NOREPLACE), or by a second link where the file system cannot.
int name_new(const std::string& temporary, const std::string& path) {
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0) {
    return 0;
  }
  if (errno != EINVAL && errno != ENOSYS) {
    return -1;
  }
  const int linked = ::link(temporary.c_str(), path.c_str());
  const int code = errno;
  if (linked == 0) {
    ::unlink(temporary.c_str());
  }
  errno = code;
  return linked;
}

}  // namespace

Result<std::vector<std::byte>> read_private_file(const std::string& path, Readers readers) {
  // Without O_NONBLOCK the open of a FIFO waits for a writer.
  const OpenFile file(retried([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); }));
  if (file.get() < 0) {
    return failed(path, "open", errno);
  }
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) {
    return failed(path, "examine", errno);
  }
  if (const Status good = check(path, status, readers); !good) {
    return std::unexpected(good.error());
  }
  std::vector<std::byte> content(private_file_bytes_max + 1);  // never moved while it grows: no copy stays behind
  std::size_t size = 0;
  while (size < content.size()) {
    const ssize_t got = retried([&] { return ::read(file.get(), content.data() + size, content.size() - size); });
    if (got < 0) {
      const int code = errno;
      wipe(content);
      return failed(path, "read", code);
    }
    if (got == 0) {
      content.resize(size);
      return content;
    }
    size += static_cast<std::size_t>(got);
  }
  wipe(content);
  return fail(EFBIG, path + " is longer than " + std::to_string(private_file_bytes_max) + " bytes");
}

Status write_private_file(const std::string& path, ConstBytes content, IfPresent present) {
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  std::string temporary = path + ".XXXXXX";
  // mkostemp() opens with O_EXCL and mode 0600, so nobody can have put a link of theirs in its place.
  const OpenFile file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) {
    return failed(path, "create", errno);
  }
  const auto undone = [&temporary](Status status) {
    ::unlink(temporary.c_str());
    return status;
  };
  if (const Status wrote = write_all(file.get(), content, path); !wrote) {
    return undone(wrote);
  }
  if (retried([&] { return ::fsync(file.get()); }) != 0) {
    return undone(failed(path, "write", errno));
  }
  const int named =
      present == IfPresent::replace ? ::rename(temporary.c_str(), path.c_str()) : name_new(temporary, path);
  if (named != 0) {
    return undone(failed(path, "create", errno));
  }
  const OpenFile parent(retried([&] { return ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (parent.get() < 0 || retried([&] { return ::fsync(parent.get()); }) != 0) {
    return failed(directory, "write", errno);  // the file is there; whether it outlives a crash is not known
  }
  return {};
}

}  // namespace sluice::ftx
