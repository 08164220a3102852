// SPDX-License-Identifier: Apache-2.0
// Blocks of a new file, found in an earlier version of it.
#include "apps/ftx/files/block_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/prng.h"
#include "tests/apps/ftx/content.h"

namespace sluice::ftx::test {
namespace {

constexpr std::uint64_t search_block = block_bytes_min;

Content signatures_of(ConstBytes content, std::uint64_t block_bytes = search_block) {
  Content signatures(content.size() / block_bytes * block_signature_bytes);
  for (std::uint64_t i = 0; i < content.size() / block_bytes; ++i) {
    sign_block(content.subspan(i * block_bytes, block_bytes),
               Bytes(signatures).subspan(i * block_signature_bytes, block_signature_bytes));
  }
  return signatures;
}

/// In pieces of `piece` bytes; an error behind `error_at`.
class Earlier final : public EarlierFile {
 public:
  explicit Earlier(Content content, std::size_t piece = SIZE_MAX, std::uint64_t error_at = UINT64_MAX)
      : content_(std::move(content)), piece_(piece), error_at_(error_at) {}
  Result<std::size_t> read_on(Bytes out) override {
    if (at_ >= error_at_) {
      return fail(EIO);
    }
    const std::size_t size = std::min({out.size(), piece_, content_.size() - at_});
    std::copy_n(content_.begin() + static_cast<std::ptrdiff_t>(at_), size, out.begin());
    at_ += size;
    return size;
  }

 private:
  Content content_;
  std::size_t piece_;
  std::uint64_t error_at_;
  std::size_t at_ = 0;
};

/// All that is found of `content` in `earlier`, `turn` bytes a turn; holds it against the content.
std::set<std::uint64_t> found_in(Earlier& earlier, const Content& content, std::uint64_t turn = UINT64_MAX) {
  const Content signatures = signatures_of(content);
  BlockSearch search(signatures, search_block, earlier);
  std::set<std::uint64_t> found;
  for (int turns = 0;; ++turns) {
    EXPECT_LT(turns, 100'000);
    std::uint64_t bytes = turn;
    const auto all = search.search(bytes, [&](std::uint64_t index, ConstBytes bytes_found) -> Result<bool> {
      EXPECT_TRUE(std::ranges::equal(bytes_found, ConstBytes(content).subspan(index * search_block, search_block)))
          << index;
      EXPECT_TRUE(found.insert(index).second) << "twice: " << index;
      return true;
    });
    EXPECT_TRUE(all);
    if (!all || *all) {
      break;
    }
    EXPECT_EQ(bytes, 0U) << "a turn that ends has used what it had";
  }
  for (std::uint64_t i = 0; i < search.blocks(); ++i) {
    EXPECT_EQ(search.found(i), found.contains(i));
  }
  return found;
}

TEST(BlockSignature, IsWhatTheSpecificationSays) {
  std::array<std::byte, block_signature_bytes> signature{};
  sign_block(as_bytes("abc"), signature);
  EXPECT_EQ(load_big_endian<std::uint64_t>(signature.data()), 0x2a11b332e3ed7f86U);
  // FIPS 180-4, example of SHA-256 for "abc": ba7816bf 8f01cfea 414140de 5dae2223 ...
  const std::array<unsigned, 16> strong{0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea,
                                        0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23};
  for (std::size_t i = 0; i < strong.size(); ++i) {
    EXPECT_EQ(std::to_integer<unsigned>(signature[8 + i]), strong[i]) << i;
  }
}

TEST(BlockSignature, BlocksGrowWithTheRootOfTheSize) {
  const std::uint64_t mib = 1U << 20;
  struct Row {
    std::uint64_t size, block_bytes, blocks;
  };
  for (const Row& row : std::initializer_list<Row>{{0, 2048, 0},
                                                   {2047, 2048, 0},
                                                   {2048, 2048, 1},
                                                   {4 * mib, 2048, 2048},
                                                   {8 * mib - 1, 2048, 4095},
                                                   {8 * mib, 4096, 2048},
                                                   {100 * mib, 8192, 12'800},
                                                   {mib * mib, mib, mib},
                                                   {file_bytes_max - 1, mib, (std::uint64_t{1} << 42) - 1}}) {
    EXPECT_EQ(signature_block_bytes(row.size), row.block_bytes) << row.size;
    EXPECT_EQ(signature_blocks(row.size), row.blocks) << row.size;
    EXPECT_EQ(signature_bytes(row.size), row.blocks * block_signature_bytes) << row.size;
  }
}

TEST(RollingSum, RollsToWhatItWouldBegin) {
  const Content content = random_content(1000, 1);
  for (const std::size_t size : {1U, 7U, 64U, 500U}) {
    RollingSum rolling(size), begun(size);
    rolling.begin(ConstBytes(content).first(size));
    for (std::size_t at = 1; at + size <= content.size(); ++at) {
      rolling.roll(content[at - 1], content[at - 1 + size]);
      begun.begin(ConstBytes(content).subspan(at, size));
      ASSERT_EQ(rolling.value(), begun.value()) << size << " at " << at;
    }
  }
}

TEST(BlockSearch, FindsWhatHasMoved) {
  const Content content = random_content(100 * search_block + 77, 2);
  Content moved = random_content(12'345, 3);
  moved.insert(moved.end(), content.begin() + 50 * search_block, content.end());
  moved.insert(moved.end(), content.begin(), content.begin() + 50 * search_block);
  Earlier earlier(moved);
  EXPECT_EQ(found_in(earlier, content).size(), 100U);
}

TEST(BlockSearch, ABlockThatIsThereOnceIsFoundWhereverItBelongs) {
  const Content one = random_content(search_block, 4);
  Content content;
  for (int i = 0; i < 10; ++i) {
    content.insert(content.end(), one.begin(), one.end());
    content.resize(content.size() + search_block);
  }
  Content had = random_content(1000, 5);
  had.insert(had.end(), one.begin(), one.end());
  Earlier earlier(had);
  EXPECT_EQ(found_in(earlier, content, 3 * search_block).size(), 10U);
  Earlier zeros(Content(search_block + 10));
  EXPECT_EQ(found_in(zeros, content).size(), 10U);
}

/// Any edits: what no edit has touched is found, whatever the pieces in which the earlier version is read and however
/// short a turn is.
TEST(BlockSearch, WhatNobodyHasTouchedIsFound) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Prng prng(seed);
    const Content content = random_content(search_block * (1 + prng.below(400)) + prng.below(search_block), seed);
    // The earlier version has runs of it, with other bytes between them.
    Content had;
    std::set<std::uint64_t> whole;
    for (std::uint64_t at = 0; at < content.size();) {
      const std::uint64_t to = std::min<std::uint64_t>(content.size(), at + prng.below(20 * search_block));
      had.insert(had.end(), content.begin() + static_cast<std::ptrdiff_t>(at),
                 content.begin() + static_cast<std::ptrdiff_t>(to));
      for (std::uint64_t i = (at + search_block - 1) / search_block; (i + 1) * search_block <= to; ++i) {
        whole.insert(i);
      }
      at = to + prng.below(3);
      const Content other = random_content(prng.below(2 * search_block), seed + at);
      had.insert(had.end(), other.begin(), other.end());
    }
    Earlier earlier(had, 1 + prng.below(10'000));
    const auto found = found_in(earlier, content, 1 + prng.below(100'000));
    // A run may begin inside of a window that was taken for another block; not in bytes that are random.
    EXPECT_EQ(found, whole);
  }
}

TEST(BlockSearch, AnEarlierVersionThatCannotBeReadEndsThere) {
  const Content content = random_content(200 * search_block, 6);
  Earlier earlier(content, 16 * search_block, 96 * search_block);
  EXPECT_EQ(found_in(earlier, content).size(), 96U);
  Earlier nothing(Content{});
  EXPECT_TRUE(found_in(nothing, content).empty());
  Earlier shorter(Content(search_block - 1));
  EXPECT_TRUE(found_in(shorter, Content(search_block)).empty());
}

TEST(BlockSearch, WhatIsLeftOutOrNotKeptIsNotFound) {
  const Content content = random_content(4 * search_block, 7);
  const Content signatures = signatures_of(content);
  Earlier earlier(content);
  BlockSearch search(signatures, search_block, earlier);
  search.leave_out(1);
  std::vector<std::uint64_t> given;
  std::uint64_t bytes = UINT64_MAX;
  const auto all = search.search(bytes, [&](std::uint64_t index, ConstBytes) -> Result<bool> {
    given.push_back(index);
    return index != 2;
  });
  ASSERT_TRUE(all && *all);
  EXPECT_EQ(given, (std::vector<std::uint64_t>{0, 2, 3}));
  EXPECT_TRUE(search.found(0) && !search.found(1) && !search.found(2) && search.found(3));

  Earlier again(content);
  BlockSearch failing(signatures, search_block, again);
  const auto failed = failing.search(bytes, [](std::uint64_t, ConstBytes) -> Result<bool> { return fail(ENOSPC); });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ENOSPC);
}

/// Threat: signatures that every window has to be held against, and that none equals.
TEST(BlockSearch, SignaturesThatCostMuchAndHoldNothingAreGivenUp) {
  constexpr std::uint64_t size = 1U << 20;
  const Content zeros(4 * size);
  Content signatures = signatures_of(Content(size), size);
  signatures.back() ^= std::byte{1};  // the rolling sum of zeros, and another strong one
  Earlier earlier(zeros);
  BlockSearch search(signatures, size, earlier);
  std::uint64_t spent = 0;
  for (bool all = false; !all;) {
    std::uint64_t bytes = size;
    const auto answer = search.search(bytes, [](std::uint64_t, ConstBytes) -> Result<bool> {
      ADD_FAILURE() << "found";
      return true;
    });
    ASSERT_TRUE(answer);
    all = *answer;
    spent += size - bytes;
    ASSERT_LE(spent, 2 * zeros.size() + (72U << 20)) << "it goes on for ever";
  }
  EXPECT_GE(spent, 64U << 20) << "it gives up too early";
}

}  // namespace
}  // namespace sluice::ftx::test
