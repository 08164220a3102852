// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/earlier_version.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "apps/ftx/files/sparse.h"
#include "apps/ftx/files/system.h"

namespace sluice::ftx {

EarlierVersion::EarlierVersion(Descriptor file, const struct stat& status)
    : file_(std::move(file)),
      sparse_(looks_sparse(status)),
      data_to_(sparse_ ? 0 : std::numeric_limits<off_t>::max()) {}

Result<std::size_t> EarlierVersion::read_on(Bytes out) {
  if (sparse_ && at_ == data_to_) {
    const off_t data = os().lseek(file_.get(), at_, SEEK_DATA);
    const off_t hole = data < 0 ? data : os().lseek(file_.get(), data, SEEK_HOLE);
    if (data < at_ || hole <= data) {
      return 0;
    }
    at_ = data;
    data_to_ = hole;
  }
  const auto size = std::min(out.size(), static_cast<std::size_t>(data_to_ - at_));
  const ssize_t got = retried([&] { return os().pread(file_.get(), out.data(), size, at_); });
  if (got < 0) {
    return fail(errno);
  }
  at_ += got;
  return static_cast<std::size_t>(got);
}

}  // namespace sluice::ftx
