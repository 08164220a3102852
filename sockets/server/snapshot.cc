// SPDX-License-Identifier: Apache-2.0
#include "sockets/server/snapshot.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <type_traits>

#include "base/contract.h"

namespace sluice::sockets {
namespace {

static_assert(std::is_trivially_copyable_v<Totals> && std::is_trivially_copyable_v<SocketRecord>);

bool write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      return false;
    }
    bytes = bytes.subspan(written < 0 ? 0 : static_cast<std::size_t>(written));
  }
  return true;
}

bool read_all(int file, std::span<std::byte> place, off_t from) {
  while (!place.empty()) {
    const ssize_t got = ::pread(file, place.data(), place.size(), from);
    if (got == 0 || (got < 0 && errno != EINTR)) {
      return false;
    }
    const std::size_t size = got < 0 ? 0 : static_cast<std::size_t>(got);
    place = place.subspan(size);
    from += static_cast<off_t>(size);
  }
  return true;
}

}  // namespace

Result<Descriptor> make_snapshot(const Totals& totals, std::span<const SocketRecord> records) {
  SLUICE_REQUIRE(totals.records == records.size());
  Descriptor file(::memfd_create("sluice-statistics", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || !write_all(file.get(), std::as_bytes(std::span(&totals, 1))) ||
      !write_all(file.get(), std::as_bytes(records)) ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
    return fail(errno, "cannot tell statistics");
  }
  return file;
}

/// The threat: a server that lies about how much there is. It is asked by those who trust its path, but must not make
/// them take up memory for what is not there.
Result<std::pair<Totals, std::vector<SocketRecord>>> read_snapshot(const Descriptor& file) {
  Totals totals;
  struct stat status{};
  if (::fstat(file.get(), &status) != 0 || !read_all(file.get(), std::as_writable_bytes(std::span(&totals, 1)), 0) ||
      totals.version != protocol_version || totals.records > records_max ||
      static_cast<std::size_t>(status.st_size) != sizeof totals + totals.records * sizeof(SocketRecord)) {
    return fail(EPROTO, "the server's statistics cannot be read");
  }
  std::vector<SocketRecord> records(totals.records);
  if (!read_all(file.get(), std::as_writable_bytes(std::span(records)), sizeof totals)) {
    return fail(EPROTO, "the server's statistics cannot be read");
  }
  return std::pair{totals, std::move(records)};
}

}  // namespace sluice::sockets
