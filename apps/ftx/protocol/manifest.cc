// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/protocol/manifest.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "apps/ftx/protocol/cursor.h"
#include "apps/ftx/protocol/message.h"
#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

constexpr const char* mismatch_text = "the list of files does not match the offer";
constexpr std::uint32_t mode_bits = 0777;
constexpr std::uint32_t nanoseconds_per_second = 1'000'000'000;

/// A name in a directory.
struct Place {
  std::uint32_t parent = 0;
  std::string_view name;
  bool operator==(const Place&) const = default;
};
struct PlaceHash {
  std::size_t operator()(const Place& place) const {
    return std::hash<std::string_view>()(place.name) ^ (std::size_t{place.parent} * 0x9e37'79b9'7f4a'7c15U);
  }
};

/// The field that holds the size of a file holds that of the target of a link, and which file a hard link is.
std::uint64_t size_field(const FileEntry& entry) {
  return entry.kind == EntryKind::link        ? entry.target.size()
         : entry.kind == EntryKind::hard_link ? entry.original
                                              : entry.size_bytes;
}

/// Of the field that holds the kind: the digest of the content stands behind the name.
constexpr std::uint8_t with_digest = 0x80;

void write_entry(Writer& writer, const FileEntry& entry) {
  const auto kind = static_cast<unsigned>(entry.kind) | (entry.digest ? with_digest : 0U);
  writer.number(static_cast<std::uint8_t>(kind)).number(entry.parent);
  writer.number(static_cast<std::uint16_t>(entry.mode)).number(size_field(entry));
  writer.number(static_cast<std::uint64_t>(entry.mtime_s)).number(entry.mtime_ns);
  writer.number(static_cast<std::uint8_t>(entry.name.size())).bytes(as_bytes(entry.name));
  writer.bytes(as_bytes(entry.target));
  if (entry.digest) {
    writer.bytes(*entry.digest);
  }
}

FileEntry read_entry(Reader& reader) {
  FileEntry entry;
  const auto kind = reader.number<std::uint8_t>();
  entry.kind = EntryKind{static_cast<std::uint8_t>(kind & ~with_digest)};
  entry.parent = reader.number<std::uint32_t>();
  entry.mode = reader.number<std::uint16_t>();
  entry.size_bytes = reader.number<std::uint64_t>();
  entry.mtime_s = static_cast<std::int64_t>(reader.number<std::uint64_t>());
  entry.mtime_ns = reader.number<std::uint32_t>();
  entry.name = as_text(reader.take(reader.number<std::uint8_t>()));
  if (entry.kind == EntryKind::link && entry.size_bytes <= link_target_bytes_max) {
    entry.target = as_text(reader.take(static_cast<std::size_t>(entry.size_bytes)));
    entry.size_bytes = 0;
  }
  if (entry.kind == EntryKind::hard_link && entry.size_bytes <= UINT32_MAX) {
    entry.original = static_cast<std::uint32_t>(std::exchange(entry.size_bytes, 0));
  }
  if ((kind & with_digest) != 0) {
    Digest& digest = entry.digest.emplace();
    std::ranges::copy(reader.take(digest.size()), digest.begin());
  }
  return entry;
}

bool numbers_hold(const FileEntry& entry) {
  if (entry.mtime_ns >= nanoseconds_per_second || entry.mode > mode_bits || (entry.digest && !entry.regular())) {
    return false;
  }
  switch (entry.kind) {
    case EntryKind::directory:
    case EntryKind::hard_link:
    case EntryKind::left_out:
      return entry.size_bytes == 0;
    case EntryKind::file:
      return entry.size_bytes < file_bytes_max;
    case EntryKind::packed:
      return entry.size_bytes <= packed_bytes_max;
    case EntryKind::link:
      return !entry.target.empty() && entry.target.find('\0') == std::string::npos;
  }
  return false;
}

/// Reads a list entry by entry and knows where each may lie.
///
/// Threat: a list whose entries lie in what is no directory, in each other, or under a name that is there already, so
/// that a receiver writes through a link or over a file of the same transfer.
class Tree {
 public:
  explicit Tree(std::size_t count) : depths_(count) {}

  [[nodiscard]] Status add(const std::vector<FileEntry>& entries) {
    const std::size_t index = entries.size() - 1;
    const FileEntry& entry = entries.back();
    if (entry.top()) {
      // It stands for where the transfer goes, so it comes first and nothing names it.
      const bool good = index == 0 && entry.parent == 0 && entry.kind == EntryKind::directory;
      return good ? Status() : Status(fail(EINVAL, "the list of files is malformed"));
    }
    if (!is_component(entry.name)) {
      return fail(EPERM, "refused the file name '" + printable(entry.name) + "'");
    }
    if (entry.parent > index) {
      return fail(EXDEV, "'" + entry.name + "' lies in a directory that comes after it in the list");
    }
    if (entry.kind == EntryKind::hard_link &&
        (entry.original == 0 || entry.original > index || !entries[entry.original - 1].regular())) {
      return fail(EXDEV, "'" + entry.name + "' is another name of no file that comes before it in the list");
    }
    if (entry.parent != 0) {
      const FileEntry& parent = entries[entry.parent - 1];
      if (parent.kind != EntryKind::directory || parent.top()) {
        return fail(EXDEV, "'" + entry.name + "' lies in '" + parent.name + "', which is no directory of the list");
      }
      depths_[index] = static_cast<std::uint16_t>(depths_[entry.parent - 1] + 1);
      if (depths_[index] > tree_depth_max) {
        return fail(EPERM, "'" + entry.name + "' lies deeper than " + std::to_string(tree_depth_max) + " directories");
      }
    }
    return places_.insert({entry.parent, entry.name}).second
               ? Status()
               : Status(fail(EPERM, "the file name '" + path_of(entries, entry) + "' comes twice"));
  }

 private:
  std::vector<std::uint16_t> depths_;
  std::unordered_set<Place, PlaceHash> places_;
};

}  // namespace

std::size_t entry_bytes(const FileEntry& entry) {
  return entry_bytes_min + entry.name.size() + entry.target.size() + (entry.digest ? digest_bytes : 0);
}

std::vector<std::byte> encode_manifest(const std::vector<FileEntry>& entries, const Deletion* deletion) {
  SLUICE_REQUIRE(entries.size() <= files_max);
  std::size_t size = deletion != nullptr ? encoded_bytes(*deletion) : 0;
  for (const FileEntry& entry : entries) {
    size += entry_bytes(entry);
  }
  std::vector<std::byte> bytes(size);
  Writer writer(bytes);
  for (const FileEntry& entry : entries) {
    write_entry(writer, entry);
  }
  if (deletion != nullptr) {
    put(writer, *deletion);
  }
  return bytes;
}

Result<std::vector<FileEntry>> decode_manifest(ConstBytes bytes, std::size_t count, std::uint64_t total_bytes) {
  auto manifest = decode_whole_manifest(bytes, count, total_bytes);
  if (!manifest) {
    return std::unexpected(manifest.error());
  }
  if (manifest->deletion) {
    return fail(EINVAL, mismatch_text);
  }
  return std::move(manifest->entries);
}

Result<Manifest> decode_whole_manifest(ConstBytes bytes, std::size_t count, std::uint64_t total_bytes) {
  if (count > bytes.size() / entry_bytes_min) {
    return fail(EINVAL, "the list of files is shorter than it says");
  }
  Manifest manifest;
  std::vector<FileEntry>& entries = manifest.entries;
  entries.reserve(count);  // the tree keeps views of the names
  Tree tree(count);
  Reader reader(bytes);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    FileEntry entry = read_entry(reader);
    if (!reader.ok() || !numbers_hold(entry)) {
      return fail(EINVAL, "the list of files is malformed");
    }
    sum += entry.size_bytes;
    if (sum > total_bytes) {
      return fail(EINVAL, "the files are larger than the offer says");
    }
    entries.push_back(std::move(entry));
    if (auto placed = tree.add(entries); !placed) {
      return std::unexpected(placed.error());
    }
  }
  const bool more = !reader.rest().empty();
  if (more) {
    manifest.deletion = take_deletion(reader);
  }
  if ((more && !manifest.deletion) || sum != total_bytes) {
    return fail(EINVAL, mismatch_text);
  }
  return manifest;
}

std::string path_of(std::span<const FileEntry> entries, const FileEntry& entry) {
  std::string path = entry.name;
  for (std::uint32_t at = entry.parent; at != 0; at = entries[at - 1].parent) {
    path = entries[at - 1].name + "/" + path;
  }
  return path;
}

}  // namespace sluice::ftx
