// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/manifest_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "apps/ftx/files/digest.h"
#include "apps/ftx/session/adu_scheduler.h"
#include "base/prng.h"

namespace sluice::ftx {
namespace {

/// A list of all that an entry may have, longer than what the reader marks the places of.
std::vector<FileEntry> entries_of_all_kinds(std::size_t count, Prng& prng) {
  const Shared<Metadata> owned(Metadata{.user = Principal{7, "seven"}});
  std::vector<FileEntry> entries{{.name = "d", .kind = EntryKind::directory}};
  while (entries.size() < count) {
    FileEntry entry{.name = std::string(1 + prng.below(40), 'n') + std::to_string(entries.size()),
                    .size_bytes = prng.below(1000),
                    .kind = EntryKind::packed,
                    .parent = static_cast<std::uint32_t>(prng.below(2))};
    switch (prng.below(6)) {
      case 0:
        entry.kind = EntryKind::link;
        entry.size_bytes = 0;
        entry.form = std::string(1 + prng.below(4000), 't');
        break;
      case 1:
        entry.kind = EntryKind::file;
        entry.size_bytes = 1'000'000;
        entry.form = Extents(std::vector<ByteRange>{{1, 2}, {500, 700}});
        break;
      case 2:
        entry.digest = Digest{};
        break;
      case 3:
        entry.metadata = owned;
        break;
      default:
        break;
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

TEST(ManifestReader, ReadsFromAnyPlaceWhatIsEncodedAsAWhole) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    const auto entries = entries_of_all_kinds(1 + prng.below(1200), prng);
    const Deletion deletion{};
    const Deletion* const asked = seed % 2 == 0 ? &deletion : nullptr;
    const std::vector<std::byte> whole = encode_manifest(entries, asked);
    ManifestReader reader(entries, asked);
    ASSERT_EQ(reader.size_bytes(), whole.size());
    EXPECT_EQ(reader.digest(), digest_of(whole));
    std::uint64_t offset = 0;
    for (int i = 0; i < 5'000; ++i) {
      // What follows the last read, or any other place.
      offset = prng.below(3) == 0 || offset == whole.size() ? prng.below(whole.size()) : offset;
      std::vector<std::byte> read(std::min<std::uint64_t>(prng.below(5'000), whole.size() - offset));
      reader.read(offset, read);
      ASSERT_TRUE(std::ranges::equal(read, ConstBytes(whole).subspan(offset, read.size())))
          << read.size() << " bytes at " << offset;
      offset += read.size();
    }
  }
}

class ListSource final : public Source {
 public:
  explicit ListSource(std::vector<FileEntry> entries) : entries_(std::move(entries)) {}
  const std::vector<FileEntry>& files() const override { return entries_; }
  Status read(std::uint32_t, std::uint64_t, Bytes) override { return {}; }
  Status unchanged(std::uint32_t) override { return {}; }
  std::string path(std::uint32_t) const override { return "f"; }

 private:
  std::vector<FileEntry> entries_;
};

// Payloads of a burst lie beside each other until it is sent, whatever of the list is encoded meanwhile.
TEST(ManifestReader, APayloadStaysValidUntilTheBurstIsReleased) {
  Prng prng(4);
  ListSource source(entries_of_all_kinds(20'000, prng));
  const std::vector<std::byte> whole = encode_manifest(source.files());
  constexpr std::uint32_t largest = 8'192;
  AduScheduler scheduler(source, largest);
  scheduler.set_slot_bytes(adu_bytes_unit);
  std::uint64_t sent = 0;
  int bursts = 0;
  for (; sent < whole.size(); ++bursts) {
    ASSERT_LT(bursts, 10'000);
    scheduler.set_adu_bytes(static_cast<std::uint32_t>(1 + prng.below(largest / adu_bytes_unit)) * adu_bytes_unit);
    std::vector<AduScheduler::Adu> burst;
    if (sent > 0 && prng.below(4) == 0) {
      burst.push_back(*scheduler.retransmit({manifest_file, adu_bytes_unit, prng.below(sent / 16) * 16}));
      EXPECT_TRUE(scheduler.full()) << "the next repair would be written over it";
    }
    while (sent < whole.size() && !scheduler.full()) {
      const auto adu = scheduler.next();
      ASSERT_TRUE(adu && *adu);
      ASSERT_EQ((*adu)->name.offset, sent);
      sent += (*adu)->name.length;
      burst.push_back(**adu);
    }
    for (const AduScheduler::Adu& adu : burst) {
      ASSERT_TRUE(std::ranges::equal(adu.payload, ConstBytes(whole).subspan(adu.name.offset, adu.name.length)));
    }
    scheduler.release();
  }
  EXPECT_GT(bursts, 4) << "it has been encoded in parts";
  EXPECT_TRUE(scheduler.drained());
}

}  // namespace
}  // namespace sluice::ftx
