// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/protocol/manifest.h"

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <string_view>
#include <utility>

#include "apps/ftx/protocol/cursor.h"
#include "apps/ftx/protocol/message.h"
#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

constexpr const char* mismatch_text = "the list of files does not match the offer";
constexpr const char* malformed_text = "the list of files is malformed";
constexpr std::uint32_t mode_bits = 0777;
constexpr std::uint32_t nanoseconds_per_second = 1'000'000'000;

std::size_t target_bytes(const FileEntry& entry) { return entry.target() != nullptr ? entry.target()->size() : 0; }

/// The field that holds the size of a file holds that of the target of a link, and which file a hard link is.
std::uint64_t size_field(const FileEntry& entry) {
  return entry.kind == EntryKind::link        ? target_bytes(entry)
         : entry.kind == EntryKind::hard_link ? entry.original
                                              : entry.size_bytes;
}

/// Of the field that holds the kind: the digest of all bytes stands behind the name.
constexpr std::uint8_t with_digest = 0x80;
/// Likewise, behind that: its extents.
constexpr std::uint8_t with_extents = 0x40;
/// Likewise, at the end: metadata. Without it the entry has that of the one before it.
constexpr std::uint8_t with_metadata = 0x20;
constexpr std::uint8_t all_with = with_digest | with_extents | with_metadata;

void write_entry(Writer& writer, const FileEntry& entry, const Shared<Metadata>& before) {
  const Extents* const extents = entry.extents();
  const bool differs = entry.metadata != before;
  const auto kind = static_cast<unsigned>(entry.kind) | (entry.digest ? with_digest : 0U) |
                    (extents != nullptr ? with_extents : 0U) | (differs ? with_metadata : 0U);
  writer.number(static_cast<std::uint8_t>(kind)).number(entry.parent);
  writer.number(entry.mode).number(size_field(entry));
  writer.number(static_cast<std::uint64_t>(entry.mtime_s)).number(entry.mtime_ns);
  writer.number(static_cast<std::uint8_t>(entry.name.size())).bytes(as_bytes(entry.name.view()));
  if (entry.target() != nullptr) {
    writer.bytes(as_bytes(*entry.target()));
  }
  if (entry.digest) {
    writer.bytes(*entry.digest);
  }
  if (extents != nullptr) {
    writer.number(static_cast<std::uint32_t>(extents->count()));
    for (std::size_t i = 0; i < extents->count(); ++i) {
      const ByteRange extent = (*extents)[i];
      writer.number(extent.from).number(extent.to);
    }
  }
  if (differs) {
    put(writer, entry.metadata ? *entry.metadata : Metadata{});
  }
}

/// Null: what stands there are no extents of a file of that size.
std::optional<Extents> read_extents(Reader& reader, std::uint64_t size_bytes) {
  const auto count = reader.number<std::uint32_t>();
  // Before there is memory for them.
  if (count > Extents::count_max || count > reader.rest().size() / extent_bytes) {
    return std::nullopt;
  }
  std::vector<ByteRange> ranges(count);
  for (ByteRange& range : ranges) {
    range.from = reader.number<std::uint64_t>();
    range.to = reader.number<std::uint64_t>();
  }
  return Extents::are_extents(ranges, size_bytes) ? std::optional(Extents(ranges)) : std::nullopt;
}

/// What follows, and is not the same as `before`.
Result<Shared<Metadata>> read_metadata(Reader& reader, const Shared<Metadata>& before,
                                       const std::function<bool()>& room) {
  auto metadata = take_metadata(reader);
  if (!metadata || *metadata == (before ? *before : Metadata{})) {
    return fail(EINVAL, malformed_text);
  }
  if (metadata->empty()) {
    return Shared<Metadata>();
  }
  return room() ? Result<Shared<Metadata>>(Shared<Metadata>(*std::move(metadata))) : fail(ENOMEM, "no room for it");
}

/// Without its metadata, which follows where `kind`, the field that holds the kind, says so. Null: its fields
/// contradict each other.
std::optional<FileEntry> read_entry(Reader& reader, std::uint8_t& kind, EntryNames& names) {
  FileEntry entry;
  kind = reader.number<std::uint8_t>();
  entry.kind = EntryKind{static_cast<std::uint8_t>(kind & ~all_with)};
  entry.parent = reader.number<std::uint32_t>();
  entry.mode = reader.number<std::uint16_t>();
  entry.size_bytes = reader.number<std::uint64_t>();
  entry.mtime_s = static_cast<std::int64_t>(reader.number<std::uint64_t>());
  entry.mtime_ns = reader.number<std::uint32_t>();
  entry.name = names.add(as_text(reader.take(reader.number<std::uint8_t>())));
  if (entry.kind == EntryKind::link && entry.size_bytes <= link_target_bytes_max) {
    entry.form = std::string(as_text(reader.take(static_cast<std::size_t>(entry.size_bytes))));
    entry.size_bytes = 0;
  }
  if (entry.kind == EntryKind::hard_link && entry.size_bytes <= UINT32_MAX) {
    entry.original = static_cast<std::uint32_t>(std::exchange(entry.size_bytes, 0));
  }
  if ((kind & with_digest) != 0) {
    Digest digest{};
    std::ranges::copy(reader.take(digest.size()), digest.begin());
    entry.digest = digest;
  }
  if ((kind & with_extents) != 0) {
    auto extents = read_extents(reader, entry.size_bytes);
    if (entry.form || !extents) {
      return std::nullopt;
    }
    entry.form = *std::move(extents);
  }
  return entry;
}

bool numbers_hold(const FileEntry& entry) {
  if (entry.mtime_ns >= nanoseconds_per_second || entry.mode > mode_bits || (entry.digest && !entry.regular()) ||
      (entry.extents() != nullptr && entry.kind != EntryKind::file)) {
    return false;
  }
  switch (entry.kind) {
    case EntryKind::directory:
    case EntryKind::hard_link:
    case EntryKind::left_out:
      return entry.size_bytes == 0;
    case EntryKind::stream:
      return entry.size_bytes == 0 && entry.mtime_s == 0 && entry.mtime_ns == 0;
    case EntryKind::file:
      return entry.size_bytes < file_bytes_max && entry.content_bytes() < file_content_max;
    case EntryKind::packed:
      return entry.size_bytes <= packed_bytes_max;
    case EntryKind::link:
      return target_bytes(entry) > 0 && entry.target()->find('\0') == std::string::npos;
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
      return good ? Status() : Status(fail(EINVAL, malformed_text));
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
    return {};
  }

 private:
  std::vector<std::uint16_t> depths_;
};

std::pair<std::uint32_t, std::string_view> name_in_directory(const FileEntry& entry) {
  return {entry.parent, entry.name};
}

/// That no name comes twice in a directory. By sorting places in the list: a table of names would take more memory than
/// the list itself.
Status names_differ(const std::vector<FileEntry>& entries) {
  const std::vector<std::uint32_t> places = places_by_name(entries);
  const auto twice = std::ranges::adjacent_find(
      places, {}, [&entries](std::uint32_t index) { return name_in_directory(entries[index]); });
  return twice == places.end()
             ? Status()
             : Status(fail(EPERM, "the file name '" + path_of(entries, entries[*twice]) + "' comes twice"));
}

/// Threat: a stream beside files, whose sizes would then say less than what comes.
bool streams_hold(const Manifest& manifest) {
  const auto& entries = manifest.entries;
  return std::ranges::none_of(entries, &FileEntry::stream) ||
         (entries.size() == 1 && !entries.front().metadata && !manifest.deletion);
}

}  // namespace

std::size_t entry_bytes(const FileEntry& entry, const Shared<Metadata>& before) {
  std::size_t size = entry_bytes_min + entry.name.size() + target_bytes(entry) + (entry.digest ? digest_bytes : 0);
  if (entry.extents() != nullptr) {
    size += extents_count_bytes + entry.extents()->count() * extent_bytes;
  }
  return size + (entry.metadata != before ? encoded_bytes(entry.metadata ? *entry.metadata : Metadata{}) : 0);
}

void encode_entry(const FileEntry& entry, const Shared<Metadata>& before, Bytes out) {
  Writer writer(out);
  write_entry(writer, entry, before);
}

std::vector<std::byte> encode_manifest(const std::vector<FileEntry>& entries, const Deletion* deletion) {
  SLUICE_REQUIRE(entries.size() <= files_max);
  std::size_t size = deletion != nullptr ? encoded_bytes(*deletion) : 0;
  Shared<Metadata> before;
  for (const FileEntry& entry : entries) {
    size += entry_bytes(entry, before);
    before = entry.metadata;
  }
  std::vector<std::byte> bytes(size);
  Writer writer(bytes);
  before = {};
  for (const FileEntry& entry : entries) {
    write_entry(writer, entry, before);
    before = entry.metadata;
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

Result<Manifest> decode_whole_manifest(ConstBytes bytes, std::size_t count, std::uint64_t total_bytes,
                                       const std::function<bool()>& room) {
  if (count > bytes.size() / entry_bytes_min) {
    return fail(EINVAL, "the list of files is shorter than it says");
  }
  Manifest manifest;
  std::vector<FileEntry>& entries = manifest.entries;
  entries.reserve(count);
  Tree tree(count);
  EntryNames names;
  Reader reader(bytes);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint8_t kind = 0;
    std::optional<FileEntry> entry = read_entry(reader, kind, names);
    if (!entry || !reader.ok() || !numbers_hold(*entry)) {
      return fail(EINVAL, malformed_text);
    }
    entry->metadata = i > 0 ? entries.back().metadata : Shared<Metadata>();
    if ((kind & with_metadata) != 0) {
      auto metadata = read_metadata(reader, entry->metadata, room);
      if (!metadata) {
        return std::unexpected(metadata.error());
      }
      entry->metadata = *std::move(metadata);
    }
    sum += entry->content_bytes();
    if (sum > total_bytes) {
      return fail(EINVAL, "the files are larger than the offer says");
    }
    entries.push_back(*std::move(entry));
    if (auto placed = tree.add(entries); !placed) {
      return std::unexpected(placed.error());
    }
  }
  if (auto differ = names_differ(entries); !differ) {
    return std::unexpected(differ.error());
  }
  const bool more = !reader.rest().empty();
  if (more) {
    manifest.deletion = take_deletion(reader);
  }
  if ((more && !manifest.deletion) || sum != total_bytes) {
    return fail(EINVAL, mismatch_text);
  }
  if (!streams_hold(manifest)) {
    return fail(EINVAL, malformed_text);
  }
  return manifest;
}

std::optional<FileEntry> first_entry(ConstBytes front) {
  Reader reader(front);
  std::uint8_t kind = 0;
  EntryNames names;
  std::optional<FileEntry> entry = read_entry(reader, kind, names);
  if (!entry || !reader.ok() || !numbers_hold(*entry)) {
    return std::nullopt;
  }
  return Tree(1).add({*entry}) ? std::move(entry) : std::nullopt;
}

std::vector<std::uint32_t> places_by_name(std::span<const FileEntry> entries) {
  std::vector<std::uint32_t> places(entries.size());
  std::iota(places.begin(), places.end(), 0U);
  std::ranges::sort(places, {}, [entries](std::uint32_t index) { return name_in_directory(entries[index]); });
  return places;
}

std::string path_of(std::span<const FileEntry> entries, const FileEntry& entry) {
  std::string path(entry.name);
  for (std::uint32_t at = entry.parent; at != 0; at = entries[at - 1].parent) {
    path = entries[at - 1].name + "/" + path;
  }
  return path;
}

}  // namespace sluice::ftx
