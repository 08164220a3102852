// SPDX-License-Identifier: Apache-2.0
#pragma once

// The manifest: the list of what a transfer carries, encoded as one byte string. ADUs carry it as they carry a file.
// docs/formats/ftx.md, "Streams", has the layout.
//
// A list without directories is a flat one. In a tree each entry names its directory by that entry's place in the list,
// which comes before it, and itself by one path component. So no path has to be taken apart, and none can be absolute
// or hold "..": a decoded list is a tree whatever its bytes are.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "apps/ftx/protocol/deletion.h"
#include "apps/ftx/protocol/digest.h"
#include "apps/ftx/protocol/entry_name.h"
#include "apps/ftx/protocol/exit_code.h"
#include "apps/ftx/protocol/extents.h"
#include "apps/ftx/protocol/metadata.h"
#include "base/boxed.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/shared.h"

namespace sluice::ftx {

enum class EntryKind : std::uint8_t {
  directory = 1,
  file = 2,       // a regular file with a number of its own
  packed = 3,     // a regular file that travels in the pack (apps/ftx/protocol/pack.h)
  link = 4,       // a symbolic link
  hard_link = 5,  // another name of a regular file that comes before it in the list
  left_out = 6,   // something that the source has and does not send: what has its name is not removed
  stream = 7,     // a file whose size is known when it ends; alone in its list (apps/ftx/protocol/stream_end.h)
};

/// Small: a sender and a receiver hold one of each file of a transfer, of which there may be millions.
struct FileEntry {
  EntryName name;  // one path component; empty: the directory where the transfer goes itself
  std::uint64_t size_bytes = 0;
  std::int64_t mtime_s = 0;
  std::uint32_t mtime_ns = 0;
  std::uint16_t mode = 0644;  // permission bits, 0777 at most
  EntryKind kind = EntryKind::file;
  std::uint32_t parent = 0;    // the directory's index, plus 1; 0: where the transfer goes
  std::uint32_t original = 0;  // of a hard link: the file's index, plus 1
  /// Where a link leads; the extents of a sparse file with a number of its own.
  Boxed<std::variant<std::string, Extents>> form{};
  Boxed<Digest> digest{};       // of all bytes of a regular file, where the receiver is to compare them
  Shared<Metadata> metadata{};  // owners and extended attributes, where the receiver is to set them

  bool operator==(const FileEntry&) const = default;
  /// Null: it is no link.
  [[nodiscard]] const std::string* target() const { return form ? std::get_if<std::string>(form.get()) : nullptr; }
  /// Null: it is no sparse file.
  [[nodiscard]] const Extents* extents() const { return form ? std::get_if<Extents>(form.get()) : nullptr; }
  /// All that it is to have. Null: they are not spoken of.
  [[nodiscard]] const ExtendedAttributes* attributes() const {
    return metadata && metadata->attributes ? &*metadata->attributes : nullptr;
  }
  [[nodiscard]] bool regular() const { return kind == EntryKind::file || kind == EntryKind::packed; }
  [[nodiscard]] bool stream() const { return kind == EntryKind::stream; }
  /// ADUs name it by a number of its own.
  [[nodiscard]] bool numbered() const { return kind == EntryKind::file || stream(); }
  /// Empty: it is no link.
  [[nodiscard]] std::string link_target() const { return target() != nullptr ? *target() : std::string(); }
  /// What the list says of what travels of a file: all of it, or what lies in its extents; of a stream it says nothing.
  [[nodiscard]] std::uint64_t content_bytes() const {
    return extents() != nullptr ? extents()->content_bytes() : size_bytes;
  }
  /// Where the content from `offset` on lies in the file. REQUIRES: offset < content_bytes(); of a stream: < 2^62.
  [[nodiscard]] FileRun run_at(std::uint64_t offset) const {
    const std::uint64_t end = stream() ? std::uint64_t{1} << 62 : size_bytes;
    return extents() != nullptr ? extents()->run_at(offset) : FileRun{offset, end - offset};
  }
  /// Calls use(at, part) for each part of `bytes`, the content from `offset` on, with the place in the file where that
  /// part lies, until a call fails.
  template <class Byte, class Use>
  [[nodiscard]] Status each_run(std::uint64_t offset, std::span<Byte> bytes, Use&& use) const {
    Status status;
    while (status && !bytes.empty()) {
      const FileRun run = run_at(offset);
      const auto part = bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(run.bytes, bytes.size())));
      status = use(run.at, part);
      bytes = bytes.subspan(part.size());
      offset += part.size();
    }
    return status;
  }
  /// Where the first `size` bytes of the content end in the file. REQUIRES: size <= content_bytes().
  [[nodiscard]] std::uint64_t end_of(std::uint64_t size) const { return size == 0 ? 0 : run_at(size - 1).at + 1; }
  /// It stands for the directory where the transfer goes.
  [[nodiscard]] bool top() const { return name.empty(); }
};
static_assert(sizeof(FileEntry) <= 64);

inline constexpr std::size_t entry_bytes_min = 28;  // without a name
inline constexpr std::size_t extents_count_bytes = 4;
inline constexpr std::size_t extent_bytes = 16;
/// A sparse file of as many extents as there may be, with as much metadata.
inline constexpr std::size_t entry_bytes_max =
    entry_bytes_min + 255 + digest_bytes + extents_count_bytes + extent_bytes * Extents::count_max + metadata_bytes_max;
inline constexpr std::size_t link_target_bytes_max = 4095;  // PATH_MAX without its NUL
/// How many directories lie around an entry at most. A walk holds so many descriptors at most.
inline constexpr std::size_t tree_depth_max = 256;
/// Larger files have numbers of their own. A receiver holds the parts of a packed file in memory.
inline constexpr std::uint64_t packed_bytes_max = 64 * 1024;

/// Whether what is to be sent may be a directory, which is then sent with what lies in it.
enum class Trees : std::uint8_t {
  none = 0,
  without_links = 1,  // symbolic links in it are left out
  with_links = 2,     // they are sent as links
};
[[nodiscard]] constexpr bool is_trees(Trees trees) { return trees <= Trees::with_links; }

/// REQUIRES: at most files_max entries, which decode_manifest() would accept.
[[nodiscard]] std::vector<std::byte> encode_manifest(const std::vector<FileEntry>& entries,
                                                     const Deletion* deletion = nullptr);
/// What encode_manifest() makes of one entry, behind one that has the metadata `before`.
[[nodiscard]] std::size_t entry_bytes(const FileEntry& entry, const Shared<Metadata>& before = {});
/// Writes that. REQUIRES: `out` has entry_bytes() of the same.
void encode_entry(const FileEntry& entry, const Shared<Metadata>& before, Bytes out);

/// Exactly `count` entries, the contents of whose files sum to `total_bytes`, each with an acceptable name of its own
/// in its directory. Otherwise an error whose text a terminal can show: EINVAL for a malformed list, EPERM for a
/// refused name, EXDEV for a list that is no tree.
[[nodiscard]] Result<std::vector<FileEntry>> decode_manifest(ConstBytes bytes, std::size_t count,
                                                             std::uint64_t total_bytes);

/// The entry that a list begins with, without its metadata, out of the front of the list. Null: that is not whole, or
/// no entry that a list may begin with. Nothing is said of what follows.
[[nodiscard]] std::optional<FileEntry> first_entry(ConstBytes front);

/// A list as it travels.
struct Manifest {
  std::vector<FileEntry> entries;
  std::optional<Deletion> deletion;  // what the sender asks to remove
};
/// As decode_manifest(), of a list that may ask for removals. `room` is asked for metadata_memory_bytes before memory
/// is taken for metadata that the entry before it does not have; ENOMEM: it has said no.
[[nodiscard]] Result<Manifest> decode_whole_manifest(
    ConstBytes bytes, std::size_t count, std::uint64_t total_bytes,
    const std::function<bool()>& room = [] { return true; });
/// Beside the bytes that it takes in the list.
inline constexpr std::size_t metadata_memory_bytes = sizeof(Metadata) + 32;

/// The entries' places in the list (indices), by the directory where they lie and then by name. 4 bytes an entry.
[[nodiscard]] std::vector<std::uint32_t> places_by_name(std::span<const FileEntry> entries);

/// The path of an entry below where the transfer goes, for people.
[[nodiscard]] std::string path_of(std::span<const FileEntry> entries, const FileEntry& entry);

}  // namespace sluice::ftx
