// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/journal.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "apps/ftx/protocol/cursor.h"

namespace sluice::ftx {
namespace {

constexpr std::string_view magic = "ftx-jrnl";
constexpr std::uint32_t version = 1;
constexpr std::size_t record_head_bytes = 16;

enum class Record : std::uint32_t { known = 1, withdrawn = 2 };

/// A record's statement about one block.
struct Statement {
  KnownBlock block;
  std::uint32_t order = 0;  // of two about one block, the greater counts
  bool known = false;
};

Digest header_checksum(ConstBytes header) { return digest_of(header.first(journal_header_bytes - digest_bytes)); }

Digest record_checksum(const Digest& header, ConstBytes record) {
  Digester digester;
  digester.update(header);
  digester.update(record);
  return digester.value();
}

/// The statements of the next record, which it appends; false when what is left does not begin with a record.
bool take_record(Reader& reader, const JournalHead& head, const Digest& header, std::vector<Statement>& statements) {
  const ConstBytes from = reader.rest();
  const auto first = reader.number<std::uint64_t>();
  const auto count = reader.number<std::uint32_t>();
  const auto kind = static_cast<Record>(reader.number<std::uint32_t>());
  const std::uint64_t blocks = (head.size_bytes + digest_block_bytes - 1) / digest_block_bytes;
  const std::size_t count_max = kind == Record::known ? journal_record_blocks_max : 1;
  if (!reader.ok() || count == 0 || count > count_max || first >= blocks || count > blocks - first ||
      (kind != Record::known && kind != Record::withdrawn)) {
    return false;
  }
  const ConstBytes digests = reader.take(kind == Record::known ? count * digest_bytes : 0);
  const std::size_t record_bytes = record_head_bytes + digests.size();
  const ConstBytes checksum = reader.take(digest_bytes);
  if (!reader.ok() || !std::ranges::equal(record_checksum(header, from.first(record_bytes)), checksum)) {
    return false;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto order = static_cast<std::uint32_t>(statements.size());
    Statement& added = statements.emplace_back(Statement{{first + i, {}}, order, kind == Record::known});
    if (added.known) {
      std::ranges::copy(digests.subspan(i * digest_bytes, digest_bytes), added.block.digest.begin());
    }
  }
  return true;
}

/// The last statement about each block counts.
std::vector<KnownBlock> known_of(std::vector<Statement> statements) {
  std::ranges::sort(statements, {}, [](const Statement& one) { return std::pair(one.block.index, one.order); });
  std::vector<KnownBlock> known;
  for (std::size_t i = 0; i < statements.size(); ++i) {
    const bool last = i + 1 == statements.size() || statements[i + 1].block.index != statements[i].block.index;
    if (last && statements[i].known) {
      known.push_back(statements[i].block);
    }
  }
  return known;
}

/// Appends a record of `count` blocks, whose `digests` are none for a withdrawal.
void append_record(std::vector<std::byte>& out, const Digest& header, std::uint64_t first, std::uint32_t count,
                   std::span<const KnownBlock> digests) {
  const std::size_t from = out.size();
  const std::size_t record_bytes = record_head_bytes + digests.size() * digest_bytes;
  out.resize(from + record_bytes + digest_bytes);
  Writer writer(Bytes(out).subspan(from));
  const Record kind = digests.empty() ? Record::withdrawn : Record::known;
  writer.number(first).number(count).number(static_cast<std::uint32_t>(kind));
  for (const KnownBlock& block : digests) {
    writer.bytes(block.digest);
  }
  writer.bytes(record_checksum(header, ConstBytes(out).subspan(from, record_bytes)));
}

}  // namespace

std::uint64_t journal_name_hash(std::string_view name, const Extents* extents, std::uint64_t size_bytes) {
  Digester digester;
  digester.update(as_bytes(name));
  const auto add = [&digester](std::uint64_t number) {
    std::array<std::byte, sizeof number> bytes;
    store_big_endian(bytes.data(), number);
    digester.update(bytes);
  };
  if (extents != nullptr) {
    add(size_bytes);
    for (std::size_t i = 0; i < extents->count(); ++i) {
      add((*extents)[i].from);
      add((*extents)[i].to);
    }
  }
  return load_big_endian<std::uint64_t>(digester.value().data());
}

std::vector<std::byte> encode_journal_head(const JournalHead& head) {
  std::vector<std::byte> out(journal_header_bytes);
  Writer(out)
      .bytes(as_bytes(magic))
      .number(version)
      .number(static_cast<std::uint32_t>(digest_block_bytes))
      .number(head.size_bytes)
      .number(static_cast<std::uint64_t>(head.mtime_s))
      .number(head.mtime_ns)
      .number(std::uint32_t{0})
      .number(head.name)
      .number(head.inode)
      .number(head.salt);
  std::ranges::copy(header_checksum(out), out.end() - static_cast<std::ptrdiff_t>(digest_bytes));
  return out;
}

std::vector<std::byte> encode_known(const JournalHead& head, std::vector<KnownBlock> blocks) {
  const Digest header = header_checksum(encode_journal_head(head));
  std::ranges::sort(blocks, {}, &KnownBlock::index);
  std::vector<std::byte> out;
  for (std::span<const KnownBlock> left(blocks); !left.empty();) {
    std::uint32_t run = 1;
    while (run < left.size() && run < journal_record_blocks_max && left[run].index == left[0].index + run) {
      ++run;
    }
    append_record(out, header, left[0].index, run, left.first(run));
    left = left.subspan(run);
  }
  return out;
}

std::vector<std::byte> encode_withdrawn(const JournalHead& head, std::span<const std::uint64_t> blocks) {
  const Digest header = header_checksum(encode_journal_head(head));
  std::vector<std::byte> out;
  for (const std::uint64_t block : blocks) {
    append_record(out, header, block, 1, {});
  }
  return out;
}

Result<Journal> parse_journal(ConstBytes bytes) {
  Reader reader(bytes);
  Journal journal;
  const bool named = std::ranges::equal(reader.take(magic.size()), as_bytes(magic));
  const bool known = reader.number<std::uint32_t>() == version &&
                     reader.number<std::uint32_t>() == static_cast<std::uint32_t>(digest_block_bytes);
  JournalHead& head = journal.head;
  head.size_bytes = reader.number<std::uint64_t>();
  head.mtime_s = static_cast<std::int64_t>(reader.number<std::uint64_t>());
  head.mtime_ns = reader.number<std::uint32_t>();
  const bool zero = reader.number<std::uint32_t>() == 0;
  head.name = reader.number<std::uint64_t>();
  head.inode = reader.number<std::uint64_t>();
  head.salt = reader.number<std::uint64_t>();
  const ConstBytes checksum = reader.take(digest_bytes);
  if (!reader.ok() || !named || !known || !zero || head.size_bytes >= file_bytes_max) {
    return fail(EILSEQ, "this is no journal");
  }
  const Digest header = header_checksum(bytes);
  if (!std::ranges::equal(header, checksum)) {
    return fail(EILSEQ, "the header of the journal is damaged");
  }
  std::vector<Statement> statements;
  do {
    journal.valid_bytes = bytes.size() - reader.rest().size();
  } while (take_record(reader, head, header, statements));
  journal.blocks = known_of(std::move(statements));
  return journal;
}

}  // namespace sluice::ftx
