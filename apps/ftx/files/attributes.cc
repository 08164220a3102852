// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/attributes.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>

#include "apps/ftx/files/system.h"
#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

/// XATTR_LIST_MAX and XATTR_SIZE_MAX: the kernel hands out no more.
constexpr std::size_t bytes_max = 64 * 1024;
constexpr int attempts_max = 4;

std::unexpected<Error> failed(std::string_view what, const std::string& name) {
  const int code = errno;
  return fail(code, std::string(what) + " the extended attribute '" + printable(name) + "': " + std::strerror(code) +
                        (code == EOPNOTSUPP ? " (leave -X away)" : ""));
}

using Call = std::function<ssize_t(char* out, std::size_t size)>;

/// All that a call of the kind of flistxattr() answers. False, and errno.
bool read_all(const Call& call, std::string& out) {
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    out.resize(attempt == 0 ? 256 : bytes_max);
    const ssize_t got = retried([&] { return call(out.data(), out.size()); });
    if (got >= 0) {
      out.resize(static_cast<std::size_t>(got));
      return true;
    }
    if (errno != ERANGE) {
      return false;
    }
  }
  return false;
}

/// The names, ours alone.
Result<std::vector<std::string>> names_of(int descriptor) {
  std::string list;
  if (!read_all([&](char* out, std::size_t size) { return os().flistxattr(descriptor, out, size); }, list)) {
    if (errno == EOPNOTSUPP) {
      return std::vector<std::string>();
    }
    const int code = errno;
    return fail(code, std::string("cannot list the extended attributes: ") + std::strerror(code));
  }
  std::vector<std::string> names;
  for (std::size_t from = 0; from < list.size();) {
    const std::size_t end = std::min(list.find('\0', from), list.size());
    std::string name = list.substr(from, end - from);
    if (ExtendedAttributes::is_name(name)) {
      names.push_back(std::move(name));
    }
    from = end + 1;
  }
  return names;
}

Result<std::vector<ExtendedAttribute>> read_attributes(int descriptor) {
  auto names = names_of(descriptor);
  if (!names) {
    return std::unexpected(names.error());
  }
  std::vector<ExtendedAttribute> all;
  for (std::string& name : *names) {
    std::string value;
    const auto get = [&](char* out, std::size_t size) { return os().fgetxattr(descriptor, name.c_str(), out, size); };
    if (read_all(get, value)) {
      all.push_back({std::move(name), std::move(value)});
    } else if (errno != ENODATA) {  // else somebody has just removed it
      return failed("cannot read", name);
    }
  }
  std::ranges::sort(all);
  return all;
}

/// xattr(7): "The access permissions for user attributes are defined by the file permission bits", also for the owner.
class MadeWritable {
 public:
  explicit MadeWritable(int descriptor) : descriptor_(descriptor) {}
  ~MadeWritable() {
    if (mode_) {
      [[maybe_unused]] const int changed = retried([&] { return os().fchmod(descriptor_, *mode_); });
    }
  }
  MadeWritable(const MadeWritable&) = delete;
  MadeWritable& operator=(const MadeWritable&) = delete;

  /// Makes the call again where it is refused for the mode.
  int call(const std::function<int()>& one) {
    const int answer = retried(one);
    if (answer == 0 || errno != EACCES || mode_ || !make()) {
      return answer;
    }
    return retried(one);
  }

 private:
  bool make() {
    struct stat status{};
    if (retried([&] { return os().fstat(descriptor_, &status); }) == 0 &&
        retried([&] { return os().fchmod(descriptor_, (status.st_mode & 0777U) | S_IWUSR); }) == 0) {
      mode_ = status.st_mode & 0777U;
    } else {
      errno = EACCES;
    }
    return mode_.has_value();
  }

  int descriptor_;
  std::optional<mode_t> mode_;  // as it was
};

}  // namespace

Result<std::optional<ExtendedAttributes>> read_extended_attributes(int descriptor) {
  auto all = read_attributes(descriptor);
  return all ? Result<std::optional<ExtendedAttributes>>(ExtendedAttributes::of(*std::move(all)))
             : std::unexpected(all.error());
}

Status write_extended_attributes(int descriptor, const ExtendedAttributes& wanted) {
  const auto there = read_attributes(descriptor);
  if (!there) {
    return std::unexpected(there.error());
  }
  MadeWritable file(descriptor);
  const std::vector<ExtendedAttribute> all = wanted.all();
  for (const ExtendedAttribute& one : *there) {
    if (!std::ranges::binary_search(all, one.name, {}, &ExtendedAttribute::name) &&
        file.call([&] { return os().fremovexattr(descriptor, one.name.c_str()); }) != 0 && errno != ENODATA) {
      return failed("cannot remove", one.name);
    }
  }
  for (const ExtendedAttribute& one : all) {
    if (!std::ranges::binary_search(*there, one) && file.call([&] {
          return os().fsetxattr(descriptor, one.name.c_str(), one.value.data(), one.value.size(), 0);
        }) != 0) {
      return failed("cannot set", one.name);
    }
  }
  return {};
}

}  // namespace sluice::ftx
