// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/protocol/manifest.h"

#include <cerrno>
#include <optional>
#include <unordered_set>

#include "apps/ftx/protocol/cursor.h"
#include "apps/ftx/protocol/message.h"
#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

constexpr std::size_t entry_fixed_bytes = entry_bytes_min - 1;
constexpr std::uint32_t mode_bits = 0777;
constexpr std::uint32_t nanoseconds_per_second = 1'000'000'000;

void write_entry(Writer& writer, const FileEntry& entry) {
  writer.number(entry.size_bytes).number(static_cast<std::uint64_t>(entry.mtime_s)).number(entry.mtime_ns);
  writer.number(entry.mode).number(static_cast<std::uint16_t>(entry.name.size())).bytes(as_bytes(entry.name));
}

FileEntry read_entry(Reader& reader) {
  FileEntry entry;
  entry.size_bytes = reader.number<std::uint64_t>();
  entry.mtime_s = static_cast<std::int64_t>(reader.number<std::uint64_t>());
  entry.mtime_ns = reader.number<std::uint32_t>();
  entry.mode = reader.number<std::uint32_t>();
  entry.name = as_text(reader.take(reader.number<std::uint16_t>()));
  return entry;
}

bool numbers_hold(const FileEntry& entry) {
  return entry.size_bytes < file_bytes_max && entry.mtime_ns < nanoseconds_per_second && entry.mode <= mode_bits;
}

}  // namespace

std::vector<std::byte> encode_manifest(const std::vector<FileEntry>& files) {
  SLUICE_REQUIRE(files.size() <= files_max);
  std::size_t size = 0;
  for (const FileEntry& entry : files) {
    size += entry_fixed_bytes + entry.name.size();
  }
  std::vector<std::byte> bytes(size);
  Writer writer(bytes);
  for (const FileEntry& entry : files) {
    write_entry(writer, entry);
  }
  return bytes;
}

Result<std::vector<FileEntry>> decode_manifest(ConstBytes bytes, std::size_t count, std::uint64_t total_bytes) {
  if (count > bytes.size() / entry_bytes_min) {
    return fail(EINVAL, "the list of files is shorter than it says");
  }
  std::vector<FileEntry> files;
  files.reserve(count);
  std::unordered_set<std::string_view> names;
  Reader reader(bytes);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    FileEntry entry = read_entry(reader);
    if (!reader.ok() || !numbers_hold(entry)) {
      return fail(EINVAL, "the list of files is malformed");
    }
    if (!is_component(entry.name)) {
      return fail(EPERM, "refused the file name '" + printable(entry.name) + "'");
    }
    sum += entry.size_bytes;
    if (sum > total_bytes) {
      return fail(EINVAL, "the files are larger than the offer says");
    }
    files.push_back(std::move(entry));
    if (!names.insert(files.back().name).second) {
      return fail(EPERM, "the file name '" + files.back().name + "' comes twice");
    }
  }
  if (!reader.exhausted() || sum != total_bytes) {
    return fail(EINVAL, "the list of files does not match the offer");
  }
  return files;
}

}  // namespace sluice::ftx
