// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/capture_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/retried.h"

namespace sluice {
namespace {

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() { ::close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// Two captures that wrote to one file would leave it unreadable: the second is refused before it truncates.
  [[nodiscard]] int take_over(CaptureFileStart start) const {
    if (retried([&] { return ::flock(descriptor_, LOCK_EX | LOCK_NB); }) != 0) {
      return errno == EWOULDBLOCK ? EBUSY : errno;
    }
    if (start == CaptureFileStart::after_what_is_there) {
      return 0;
    }
    return retried([&] { return ::ftruncate(descriptor_, 0); }) == 0 || errno == EINVAL ? 0 : errno;  // EINVAL: a pipe
  }

  [[nodiscard]] bool write(ConstBytes bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = retried([&] { return ::write(descriptor_, bytes.data(), bytes.size()); });
      if (written <= 0) {
        return false;
      }
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return true;
  }

 private:
  int descriptor_;
};

std::unexpected<Error> refused(const std::string& path, int error) {
  const char* why = error == EBUSY ? "another capture writes to it" : std::strerror(error);
  return fail(error, fmt::format("capture: cannot write '{}': {}", path, why));
}

}  // namespace

Result<CaptureSink> open_capture_file(const std::string& path, CaptureFileStart start) {
  constexpr mode_t owner_only = 0600;
  const int descriptor =
      retried([&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, owner_only); });
  if (descriptor < 0) {
    return refused(path, errno);
  }
  auto file = std::make_shared<File>(descriptor);
  if (const int error = file->take_over(start); error != 0) {
    return refused(path, error);
  }
  return [file](ConstBytes bytes) { return file->write(bytes); };
}

}  // namespace sluice
