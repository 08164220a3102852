// SPDX-License-Identifier: Apache-2.0
// The digest of a file whose parts land in any order is that of its bytes in order.
#include "apps/ftx/files/block_digests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "base/prng.h"

namespace sluice::ftx {
namespace {

std::vector<std::byte> drawn_content(std::uint64_t size, std::uint64_t seed) {
  Prng prng(seed);
  std::vector<std::byte> content(size);
  prng.fill(content);
  return content;
}

std::string hex(const Digest& digest) {
  std::string text;
  for (const std::byte byte : digest) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", std::to_integer<unsigned>(byte));
    text += two;
  }
  return text;
}

/// A file in memory that records which blocks it is told.
class MemoryFile final : public SinkFile {
 public:
  explicit MemoryFile(const std::vector<std::byte>& content) : content_(content) {}
  std::map<std::uint64_t, Digest> blocks;
  std::uint64_t read_bytes = 0;
  int read_error = 0;

  Status write(std::uint64_t, ConstBytes) override { return {}; }
  Status read(std::uint64_t offset, Bytes out) override {
    if (read_error != 0) {
      return fail(read_error, "told to fail");
    }
    read_bytes += out.size();
    std::copy_n(content_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return {};
  }
  void note_block(std::uint64_t index, const Digest& digest) override {
    EXPECT_TRUE(blocks.emplace(index, digest).second) << "told twice of block " << index;
  }
  Status finalize() override { return {}; }
  Status commit() override { return {}; }
  std::string keep() override { return {}; }

 private:
  const std::vector<std::byte>& content_;
};

/// What an Assembly does for one file.
struct Arrival {
  MemoryFile file;
  std::uint64_t size;
  std::uint32_t slot;
  Slots slots;
  BlockDigests digests;
  std::vector<std::byte> buffer = std::vector<std::byte>(BlockDigests::read_back_bytes);

  Arrival(const std::vector<std::byte>& content, std::uint32_t slot_bytes)
      : file(content),
        size(content.size()),
        slot(slot_bytes),
        slots((content.size() + slot_bytes - 1) / slot_bytes),
        digests(content.size(), slot_bytes) {}

  Status land(std::uint64_t first, std::uint64_t last) {
    mark(first, last);
    return digest(first, last);
  }
  void mark(std::uint64_t first, std::uint64_t last) {
    digests.prepare(slots, first, last);
    digests.landing(slots, first, last);
    slots.mark(first, last);
  }
  Status digest(std::uint64_t first, std::uint64_t last) {
    return digests.due(slots, first, last) ? digests.digest(slots, first, last, file, buffer) : Status();
  }
  /// These slots are written out of memory that is still there, in two pieces. How many bytes that has digested.
  std::uint64_t write(ConstBytes content, std::uint64_t first, std::uint64_t last) {
    const std::uint64_t before = digests.digested_bytes();
    const ConstBytes run = content.subspan(first * slot, std::min((last + 1) * slot, size) - first * slot);
    const std::size_t half = run.size() / 2;
    const ConstBytes pieces[] = {run.first(half), run.subspan(half)};
    digests.written(slots, first * slot, pieces, file);
    return digests.digested_bytes() - before;
  }
};

TEST(FileDigest, OfOneBlockIsThatOfItsBytesAndOfMoreThatOfATree) {
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, digest_block_bytes - 1, digest_block_bytes}) {
    const auto content = drawn_content(size, size);
    EXPECT_EQ(file_digest_of(content), digest_of(content)) << size;
  }
  for (const std::uint64_t size : {digest_block_bytes + 1, 2 * digest_block_bytes, 2 * digest_block_bytes + 77}) {
    const auto content = drawn_content(size, size);
    std::vector<std::byte> tree;
    for (std::uint64_t at = 0; at < size; at += digest_block_bytes) {
      const Digest digest = digest_of(ConstBytes(content).subspan(at, std::min(digest_block_bytes, size - at)));
      tree.insert(tree.end(), digest.begin(), digest.end());
    }
    for (int shift = 56; shift >= 0; shift -= 8) {
      tree.push_back(static_cast<std::byte>(size >> shift));
    }
    EXPECT_EQ(file_digest_of(content), digest_of(tree)) << size;
  }
}

/// docs/formats/ftx.md, "Example".
TEST(FileDigest, IsThatOfTheExample) {
  std::vector<std::byte> content(digest_block_bytes + 2, std::byte{0});
  content[digest_block_bytes] = std::byte{'h'};
  content[digest_block_bytes + 1] = std::byte{'i'};
  EXPECT_EQ(hex(digest_of(ConstBytes(content).first(digest_block_bytes))), "b6ef17a3448492b6918780b90550bf34");
  EXPECT_EQ(hex(digest_of(ConstBytes(content).last(2))), "7d596ce5fcabaf622a2300bbd7ea6e9a");
  EXPECT_EQ(hex(file_digest_of(content)), "17f7713d5333b93062d2dc7d92663184");
}

TEST(FileDigest, DoesNotDependOnThePartsThatItIsGivenIn) {
  const auto content = drawn_content(3 * digest_block_bytes + 1000, 1);
  Prng prng(2);
  FileDigester digester;
  for (int round = 0; round < 2; ++round) {  // a digester starts anew
    for (ConstBytes left = content; !left.empty();) {
      const auto part = std::min<std::size_t>(left.size(), 1 + prng.below(700'000));
      digester.update(left.first(part));
      left = left.subspan(part);
    }
    EXPECT_EQ(digester.finish(), file_digest_of(content));
  }
}

TEST(BlockDigests, InAnyOrderOfAdusOfAnySizeTheyGiveTheDigestOfTheFile) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Prng prng(seed);
    const std::uint64_t sizes[] = {1,
                                   digest_block_bytes,
                                   digest_block_bytes + 1,
                                   3 * digest_block_bytes,
                                   3 * digest_block_bytes - 5,
                                   4 * digest_block_bytes + 12'345};
    const std::uint32_t slot_sizes[] = {4096, 1408, 65'536, 2U << 20, 1U << 20};
    const auto content = drawn_content(sizes[prng.below(std::size(sizes))], seed);
    Arrival arrival(content, slot_sizes[prng.below(std::size(slot_sizes))]);
    const std::uint64_t count = arrival.slots.count();
    std::vector<std::uint64_t> order(count);
    std::iota(order.begin(), order.end(), 0U);
    const std::uint64_t disorder = prng.chance(0.3) ? 1 : prng.chance(0.5) ? 20 : count;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::swap(order[i], order[std::min(count - 1, i + prng.below(disorder))]);
    }
    std::uint64_t from_memory = 0;
    const bool writes = prng.chance(0.7);
    for (const std::uint64_t first : order) {
      if (arrival.slots.marked(first)) {
        continue;  // a longer one held it
      }
      const std::uint64_t last = std::min(count - 1, first + prng.below(4));
      arrival.mark(first, last);
      from_memory += writes && prng.chance(0.9) ? arrival.write(content, first, last) : 0;
      ASSERT_TRUE(arrival.digest(first, last)) << "seed " << seed;
      from_memory += writes && prng.chance(0.1) ? arrival.write(content, first, last) : 0;  // late, or once more
    }
    ASSERT_TRUE(arrival.slots.whole()) << "seed " << seed;
    EXPECT_EQ(arrival.digests.finish(), file_digest_of(content)) << "seed " << seed;
    EXPECT_EQ(arrival.file.read_bytes + from_memory, content.size()) << "each byte is read once, seed " << seed;
    EXPECT_EQ(arrival.digests.memory_bytes(), 0U) << "seed " << seed;
    const std::uint64_t blocks = (content.size() + digest_block_bytes - 1) / digest_block_bytes;
    EXPECT_EQ(arrival.file.blocks.size(), blocks > 1 ? blocks : 0) << "seed " << seed;
    for (const auto& [index, digest] : arrival.file.blocks) {
      const std::uint64_t from = index * digest_block_bytes;
      EXPECT_EQ(digest,
                digest_of(ConstBytes(content).subspan(from, std::min(digest_block_bytes, content.size() - from))))
          << seed;
    }
  }
}

TEST(BlockDigests, WhatIsWrittenInOrderOutOfMemoryIsNotReadBack) {
  const auto content = drawn_content(2 * digest_block_bytes + 100'000, 6);
  Arrival arrival(content, 4096);
  const std::uint64_t count = arrival.slots.count();
  for (std::uint64_t first = 0; first < count; first += 30) {
    const std::uint64_t last = std::min(first + 30, count) - 1;
    arrival.mark(first, last);
    EXPECT_GT(arrival.write(content, first, last), 0U);
    ASSERT_TRUE(arrival.digest(first, last));
  }
  EXPECT_EQ(arrival.file.read_bytes, 0U);
  EXPECT_EQ(arrival.digests.finish(), file_digest_of(content));
}

TEST(BlockDigests, ABlockBehindAGapIsDigestedWhenItIsWhole) {
  const auto content = drawn_content(3 * digest_block_bytes, 3);
  Arrival arrival(content, 4096);
  ASSERT_TRUE(arrival.land(512, 767));
  EXPECT_EQ(arrival.file.blocks.size(), 1U);
  EXPECT_TRUE(arrival.file.blocks.contains(2));
  EXPECT_EQ(arrival.digests.memory_bytes(), BlockDigests::entry_bytes);
}

TEST(BlockDigests, WhatIsKnownIsNotReadAgain) {
  const auto content = drawn_content(4 * digest_block_bytes + 10, 4);
  Arrival arrival(content, 4096);
  for (const std::uint64_t known : {0U, 2U, 4U}) {
    const std::uint64_t from = known * digest_block_bytes;
    arrival.slots.mark(from / 4096, (std::min<std::uint64_t>(from + digest_block_bytes, content.size()) - 1) / 4096);
    arrival.digests.know(
        known, digest_of(ConstBytes(content).subspan(from, std::min(digest_block_bytes, content.size() - from))));
  }
  ASSERT_TRUE(arrival.land(3 * 256, 4 * 256 - 1));
  ASSERT_TRUE(arrival.land(256, 2 * 256 - 1));
  ASSERT_TRUE(arrival.slots.whole());
  EXPECT_EQ(arrival.file.read_bytes, 2 * digest_block_bytes);
  EXPECT_EQ(arrival.digests.finish(), file_digest_of(content));
}

TEST(BlockDigests, AFailedReadIsSaid) {
  const auto content = drawn_content(2 * digest_block_bytes, 5);
  Arrival arrival(content, 4096);
  arrival.file.read_error = EIO;
  EXPECT_FALSE(arrival.land(0, 255));
  EXPECT_FALSE(arrival.land(256, 511));
}

// The size may become known before, while and after the slots land, in any order.
TEST(BlockDigests, ASizeThatIsKnownLate) {
  constexpr std::uint32_t slot = 1024;
  constexpr std::uint64_t per_block = digest_block_bytes / slot;
  for (const std::uint64_t size :
       {0UL, 1UL, 1023UL, 1024UL, digest_block_bytes - 1, digest_block_bytes + 0, digest_block_bytes + 1,
        2 * digest_block_bytes, 2 * digest_block_bytes + 5000, 3 * digest_block_bytes + 512 * 1024}) {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      SCOPED_TRACE(testing::Message() << size << " bytes, seed " << seed);
      const auto content = drawn_content(size, size);
      Arrival arrival(content, slot);
      arrival.slots = Slots(1ULL << 50);
      arrival.digests = BlockDigests(slot * (1ULL << 50), slot);
      const std::uint64_t count = (size + slot - 1) / slot;
      // Runs of slots, in order at first and shuffled later.
      std::vector<std::uint64_t> runs;
      for (std::uint64_t first = 0; first < count; first += per_block / 4) {
        runs.push_back(first);
      }
      Prng prng(seed);
      for (std::size_t i = runs.size(); seed > 2 && i > 1; --i) {
        std::swap(runs[i - 1], runs[prng.below(i)]);
      }
      if (seed == 2) {
        std::ranges::reverse(runs);
      }
      // Whoever sees a slot that is not filled knows the end.
      std::size_t ends_before = prng.below(runs.size() + 1);
      for (std::size_t i = 0; i < runs.size() && size % slot != 0; ++i) {
        ends_before = runs[i] + per_block / 4 >= count ? std::min(ends_before, i) : ends_before;
      }
      const auto end = [&] {
        arrival.slots.end_at(count);
        arrival.digests.end_at(size);
      };
      for (std::size_t i = 0; i < runs.size(); ++i) {
        if (i == ends_before) {
          end();
        }
        ASSERT_TRUE(arrival.land(runs[i], std::min(runs[i] + per_block / 4, count) - 1));
      }
      if (ends_before == runs.size()) {
        end();
      }
      if (count > 0) {
        ASSERT_TRUE(arrival.digests.digest(arrival.slots, 0, count - 1, arrival.file, arrival.buffer));
      }
      EXPECT_EQ(hex(arrival.digests.finish()), hex(file_digest_of(content)));
      EXPECT_EQ(arrival.digests.memory_bytes(), 0U);
    }
  }
}

}  // namespace
}  // namespace sluice::ftx
