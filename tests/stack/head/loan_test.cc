// SPDX-License-Identifier: Apache-2.0

// Which parts of a message are lent, on which path, and what has become of them when the call returns.

#include "stack/head/loan.h"

#include "tests/stack/head/harness.h"

namespace sluice::test {
namespace {

class LoanTest : public testing::Test {
 protected:
  /// How many copies were still owed when the loan ended: 1 where a part was lent, 0 where all was copied at once.
  std::uint64_t lent(ProcessingMode mode, const std::vector<std::size_t>& sizes, std::size_t defer_bytes_min = 0) {
    std::vector<std::string> texts;
    std::vector<ConstBytes> parts;
    std::string whole;
    for (const std::size_t size : sizes) {
      texts.emplace_back(size, static_cast<char>('a' + texts.size()));
      whole += texts.back();
    }
    for (const std::string& text : texts) {
      parts.push_back(as_bytes(text));
    }
    const std::uint64_t before = pool.statistics().reclaimed;
    Message message;
    {
      Loan loan(pool, mode, defer_bytes_min);
      message = loan.message(parts, 64, 8);
    }
    const std::uint64_t completed = pool.statistics().reclaimed - before;
    for (std::string& text : texts) {
      text.assign(text.size(), '-');  // the caller uses its memory again
    }
    EXPECT_EQ(as_text(message.bytes()), whole);
    EXPECT_EQ(message.first().rptr - message.first().buffer->base(), 64);
    EXPECT_GE(message.first().buffer->limit() - message.first().wptr, 8);
    return completed;
  }

  BufferPool pool;
};

// "Smaller parts are copied at once": of parts of lent_bytes_min and more, the largest is lent.
TEST_F(LoanTest, TheLargestPartIsLentFromTheLeastSizeOn) {
  constexpr std::size_t least = Loan::lent_bytes_min;
  EXPECT_EQ(lent(ProcessingMode::fused, {least}), 1U);
  EXPECT_EQ(lent(ProcessingMode::fused, {least - 1}), 0U);
  EXPECT_EQ(lent(ProcessingMode::fused, {least - 1, least - 1}), 0U);
  EXPECT_EQ(lent(ProcessingMode::fused, {3, least, 5}), 1U);
  EXPECT_EQ(lent(ProcessingMode::fused, {2 * least, least, 3 * least}), 1U) << "one part only";
  EXPECT_EQ(lent(ProcessingMode::fused, {}), 0U);
}

TEST_F(LoanTest, NothingIsLentOnALayeredPathOrInASmallMessage) {
  EXPECT_EQ(lent(ProcessingMode::layered, {1000}), 0U);
  EXPECT_EQ(lent(ProcessingMode::fused, {1000}, 1000), 1U);
  EXPECT_EQ(lent(ProcessingMode::fused, {999}, 1000), 0U);
  EXPECT_EQ(lent(ProcessingMode::fused, {600, 400}, 1000), 1U) << "what counts is the message";
}

}  // namespace
}  // namespace sluice::test
