// SPDX-License-Identifier: Apache-2.0
// read() and write() through tirdwr, over kernel_tcp and over our tcp, on either path.

#include "stack/modules/tirdwr.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "tests/tpi/tli_over_tcp.h"

namespace sluice::tpi {
namespace {

class TirdwrOverTcp : public TliOverTcp {
 protected:
  static std::string read(tli::Endpoint& endpoint, std::size_t size) {
    std::string text(size, '\0');
    const auto got = endpoint.stream().read(std::as_writable_bytes(std::span(text)));
    return got ? text.substr(0, *got) : "errno " + std::to_string(got.error().code);
  }
  static std::string read_all(tli::Endpoint& endpoint, std::size_t size) {
    std::string all;
    for (std::string part = " "; all.size() < size && !part.empty(); all += part) {
      part = read(endpoint, size - all.size());
      if (part.starts_with("errno")) {
        return part;
      }
    }
    return all;
  }
};

TEST_P(TirdwrOverTcp, EveryByteBothWaysThenAnOrderlyEnd) {
  auto [caller, called] = pair();
  ASSERT_TRUE(caller->stream().push(std::make_unique<Tirdwr>()));
  const std::string there = random_text(100'000, 1);
  const std::string back = random_text(60'000, 2);
  ASSERT_EQ(caller->stream().write(as_bytes(there)).value_or(0), there.size());
  EXPECT_EQ(receive_all(*called, there.size()), there);
  ASSERT_EQ(called->t_snd(as_bytes(back), 0).value_or(0), back.size());
  EXPECT_EQ(read_all(*caller, back.size()), back);

  ASSERT_TRUE(called->t_sndrel());
  EXPECT_EQ(read(*caller, 10), "");  // waits for the end of the file
  ASSERT_EQ(caller->stream().write(as_bytes("bye")).value_or(0), 3U);
  ASSERT_TRUE(caller->t_close());
  EXPECT_EQ(receive_all(*called, 3), "bye");
  ASSERT_TRUE(run_until_event(*called, tli::T_ORDREL));
  EXPECT_TRUE(called->t_rcvrel());
  EXPECT_EQ(called->t_getstate(), tli::T_IDLE);
}

// What has come before tirdwr was pushed is read through it.
TEST_P(TirdwrOverTcp, DataThatCameBeforeIsRead) {
  auto [caller, called] = pair();
  ASSERT_EQ(called->t_snd(as_bytes("early"), 0).value_or(0), 5U);
  ASSERT_TRUE(run_until([&stream = caller->stream()] { return stream.poll().readable; }));
  ASSERT_TRUE(caller->stream().push(std::make_unique<Tirdwr>()));
  EXPECT_EQ(read_all(*caller, 5), "early");
}

TEST_P(TirdwrOverTcp, AnAbortIsAHangup) {
  auto [caller, called] = pair();
  ASSERT_TRUE(caller->stream().push(std::make_unique<Tirdwr>()));
  ASSERT_TRUE(called->t_snddis(nullptr));
  ASSERT_TRUE(run_until([&stream = caller->stream()] { return stream.poll().hangup; }));
  EXPECT_EQ(read(*caller, 10), "");
  const auto written = caller->stream().write(as_bytes("late"));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ENXIO);
}

INSTANTIATE_TEST_SUITE_P(Variants, TirdwrOverTcp, testing::ValuesIn(all_variants), name_of_variant);

}  // namespace
}  // namespace sluice::tpi
