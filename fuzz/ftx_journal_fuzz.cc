// SPDX-License-Identifier: Apache-2.0
// A journal as arbitrary bytes: once as they are, once behind a good header and with good checksums behind each record,
// so that a fuzzer gets past them. What is known lies in the file, in order, and comes back from its encoding.
#include <algorithm>
#include <cstdint>
#include <span>

#include "apps/ftx/files/journal.h"
#include "base/contract.h"

using namespace sluice;
using namespace sluice::ftx;

namespace {

void check(ConstBytes bytes) {
  const auto journal = parse_journal(bytes);
  if (!journal) {
    return;
  }
  SLUICE_REQUIRE(journal->valid_bytes >= journal_header_bytes && journal->valid_bytes <= bytes.size());
  const std::uint64_t size = journal->head.size_bytes;
  std::uint64_t next = 0;
  for (const KnownBlock& block : journal->blocks) {
    SLUICE_REQUIRE(block.index >= next && block.index <= (size - 1) / digest_block_bytes);
    next = block.index + 1;
  }
  std::vector<std::byte> again = encode_journal_head(journal->head);
  SLUICE_REQUIRE(std::ranges::equal(again, bytes.first(journal_header_bytes)));
  const auto records = encode_known(journal->head, journal->blocks);
  again.insert(again.end(), records.begin(), records.end());
  SLUICE_REQUIRE(parse_journal(again)->blocks == journal->blocks);
  // What is cut off adds nothing, and takes only from the end.
  for (std::size_t part = journal_header_bytes; part < bytes.size(); part += 1 + part / 8) {
    const auto less = parse_journal(bytes.first(part));
    SLUICE_REQUIRE(less && less->valid_bytes <= journal->valid_bytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConstBytes input = std::as_bytes(std::span(data, size));
  check(input);
  const JournalHead head{.size_bytes = 5000 * digest_block_bytes + 1, .inode = 1, .salt = 2};
  std::vector<std::byte> journal = encode_journal_head(head);
  Digest header{};
  std::copy_n(journal.end() - static_cast<std::ptrdiff_t>(digest_bytes), digest_bytes, header.begin());
  // Each record of the input is its length and what it says without the checksum.
  for (ConstBytes left = input; !left.empty();) {
    const auto length = std::min<std::size_t>(left.size() - 1, std::to_integer<std::size_t>(left[0]));
    const ConstBytes record = left.subspan(1, length);
    Digester digester;
    digester.update(header);
    digester.update(record);
    const Digest checksum = digester.value();
    journal.insert(journal.end(), record.begin(), record.end());
    journal.insert(journal.end(), checksum.begin(), checksum.end());
    left = left.subspan(1 + length);
  }
  check(journal);
  return 0;
}
