// SPDX-License-Identifier: Apache-2.0
// Readers of connections whose memory is known before they call t_rcv(), or while they wait in it: what a provider puts
// there is delivered without another copy, in its order among all else, and what is not delivered outlives the memory.

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "stack/core/module_handle.h"
#include "tests/tli/connection_harness.h"

namespace sluice::test {
namespace {

using namespace tli;
using enum tpi::TliError;

class WaitingReader : public ConnectionTest {
 protected:
  enum class Of { stream, units };

  void connect(Of provided = Of::stream) {
    bring_to(T_DATAXFER, 0, [provided](ConnectionProvider& at) {
      if (provided == Of::stream) {
        at.info.tsdu_size = 0;
        at.info.etsdu_size = tpi::T_INVALID;
      }
    });
    endpoint->stream().set_mode(ProcessingMode::fused);
  }
  void announce(std::size_t size = 100) { endpoint->t_rcvplace(Bytes(place).first(size)); }
  /// As receive(), at the start of `place`, which holds other bytes afterwards. `copied`: bytes that the call stored.
  std::string receive_here(std::size_t size = 100) {
    int flags = 99;
    const std::uint64_t before = set.pool().touches().stored_bytes;
    const auto got = endpoint->t_rcv(Bytes(place).first(size), flags);
    copied = set.pool().touches().stored_bytes - before;
    const std::string text(as_text(ConstBytes(place).first(got.value_or(0))));
    std::ranges::fill(place, std::byte{'-'});
    return !got ? "error " + std::to_string(got.error().t_errno)
                : text + ((flags & T_MORE) != 0 ? " T_MORE" : "") + ((flags & T_EXPEDITED) != 0 ? " T_EXPEDITED" : "");
  }

  std::vector<std::byte> place = std::vector<std::byte>(100);
  std::uint64_t copied = 0;
};

TEST_F(WaitingReader, FindsInItsPlaceWhatCameMeanwhile) {
  SimulatedWaiter waiter(set);
  connect();
  endpoint->stream().set_waiter(&waiter);
  waiter.after(std::chrono::seconds(3), [&] { EXPECT_TRUE(provider->lands("late")); });
  EXPECT_EQ(receive_here(), "late");
  EXPECT_EQ(copied, 0U);
  EXPECT_FALSE(provider->lands("later")) << "nobody waits any more";
  EXPECT_EQ(receive_here(), "later");
  EXPECT_EQ(copied, 5U);
}

TEST_F(WaitingReader, MayAnnounceItsPlace) {
  connect();
  announce();
  EXPECT_TRUE(provider->lands("data"));
  EXPECT_EQ(receive_here(), "data");
  EXPECT_EQ(copied, 0U);
  EXPECT_FALSE(provider->lands("more")) << "the place was for one call";
  EXPECT_EQ(receive_here(), "more");
}

TEST_F(WaitingReader, MayWithdrawItsPlace) {
  connect();
  announce();
  announce(0);
  EXPECT_FALSE(provider->lands("data"));
  EXPECT_EQ(receive_here(), "data");
}

TEST_F(WaitingReader, OfALayeredPathCopies) {
  connect();
  endpoint->stream().set_mode(ProcessingMode::layered);
  announce();
  EXPECT_FALSE(provider->lands("data"));
  EXPECT_EQ(receive_here(), "data");
}

TEST_F(WaitingReader, OfAStreamTakesWhatHasCome) {
  connect();
  announce();
  EXPECT_TRUE(provider->lands("one, "));
  EXPECT_TRUE(provider->lands("two, "));
  EXPECT_TRUE(provider->lands("three"));
  EXPECT_EQ(receive_here(), "one, two, three");
  EXPECT_EQ(copied, 0U);
  EXPECT_EQ(receive_here(), error(TNODATA));
}

TEST_F(WaitingReader, CopiesWhatHadNoRoom) {
  connect();
  announce(10);
  EXPECT_TRUE(provider->lands("01234567"));
  EXPECT_FALSE(provider->lands("too large"));
  EXPECT_FALSE(provider->lands("x")) << "it would come before that";
  EXPECT_EQ(receive_here(), "01234567too largex");
  EXPECT_EQ(copied, 10U);
}

TEST_F(WaitingReader, MayReadLessThanItAnnounced) {
  connect();
  announce();
  EXPECT_TRUE(provider->lands("0123"));
  EXPECT_TRUE(provider->lands("456789"));
  EXPECT_EQ(receive_here(6), "012345 T_MORE");
  EXPECT_EQ(receive_here(), "6789");
}

/// Wherever that is: the bytes move aside first.
TEST_F(WaitingReader, MayReadElsewhere) {
  connect();
  announce();
  EXPECT_TRUE(provider->lands("data"));
  EXPECT_EQ(receive(10), "data");
  endpoint->t_rcvplace(Bytes(place).subspan(4));
  EXPECT_TRUE(provider->lands("0123"));
  EXPECT_TRUE(provider->lands("456789"));
  EXPECT_EQ(receive_here(), "0123456789");
  announce();
  EXPECT_TRUE(provider->lands("0123456789"));
  endpoint->t_rcvplace(Bytes(place).subspan(50));
  std::ranges::fill(place, std::byte{'-'});
  EXPECT_FALSE(provider->lands("next")) << "something is unread";
  EXPECT_EQ(receive_here(), "0123456789next");
}

TEST_F(WaitingReader, MayScatter) {
  connect();
  announce(4);
  EXPECT_TRUE(provider->lands("0123"));
  EXPECT_FALSE(provider->lands("456789"));
  std::array<std::byte, 6> second{};
  const std::array parts{t_iovec{place.data(), 4}, t_iovec{second.data(), second.size()}};
  int flags = 0;
  const std::uint64_t before = set.pool().touches().stored_bytes;
  EXPECT_EQ(endpoint->t_rcvv(parts, flags), 10U);
  EXPECT_EQ(set.pool().touches().stored_bytes - before, 6U);
  EXPECT_EQ(as_text(ConstBytes(place).first(4)), "0123");
  EXPECT_EQ(as_text(second), "456789");
  announce();
  EXPECT_TRUE(provider->lands("0123456789"));
  const std::array overlapping{t_iovec{place.data(), 4}, t_iovec{place.data() + 5, 6}};
  EXPECT_EQ(endpoint->t_rcvv(overlapping, flags), 10U);
  EXPECT_EQ(as_text(ConstBytes(place).first(4)), "0123");
  EXPECT_EQ(as_text(ConstBytes(place).subspan(5, 6)), "456789");
}

TEST_F(WaitingReader, TakesWhatHasComeOfOneUnit) {
  connect(Of::units);
  announce();
  EXPECT_TRUE(provider->lands("one, ", 1));
  EXPECT_TRUE(provider->lands("two, ", 1));
  EXPECT_EQ(receive_here(), "one, two,  T_MORE");
  EXPECT_EQ(copied, 0U);
  announce();
  EXPECT_TRUE(provider->lands("three, ", 1));
  EXPECT_TRUE(provider->lands("four"));
  EXPECT_FALSE(provider->lands("the next")) << "the unit has ended";
  EXPECT_EQ(receive_here(), "three, four");
  EXPECT_EQ(copied, 0U);
  EXPECT_EQ(receive_here(), "the next");
}

TEST_F(WaitingReader, TakesExpeditedDataFirst) {
  connect(Of::units);
  announce();
  EXPECT_TRUE(provider->lands("normal"));
  provider->expedites("now");
  EXPECT_EQ(receive_here(), "now T_EXPEDITED");
  EXPECT_EQ(receive_here(), "normal");
}

TEST_F(WaitingReader, HearsOfTheReleaseBehindTheData) {
  connect();
  announce();
  EXPECT_TRUE(provider->lands("last"));
  provider->releases();
  EXPECT_EQ(receive_here(), "last");
  EXPECT_EQ(receive_here(), error(TLOOK));
  EXPECT_TRUE(endpoint->t_rcvrel());
}

/// An empty indication is nothing to a stream, and hides nothing.
TEST_F(WaitingReader, HearsOfTheReleaseBehindAnEmptyIndication) {
  connect();
  announce();
  EXPECT_TRUE(provider->lands("last"));
  provider->sends("");
  provider->releases();
  EXPECT_EQ(receive_here(), "last");
  EXPECT_EQ(receive_here(), error(TLOOK));
}

TEST_F(WaitingReader, HearsOfTheDisconnection) {
  SimulatedWaiter waiter(set);
  connect();
  announce();
  EXPECT_TRUE(provider->lands("lost"));
  provider->disconnects(ECONNRESET);
  EXPECT_EQ(receive_here(), error(TLOOK));
  ASSERT_TRUE(endpoint->t_rcvdis(nullptr));
  EXPECT_EQ(set.pool().statistics().buffers_in_use, 0U);
  connect();
  endpoint->stream().set_waiter(&waiter);
  waiter.after(std::chrono::seconds(3), [&] {
    EXPECT_TRUE(provider->lands("lost"));
    provider->disconnects(ECONNRESET);
  });
  EXPECT_EQ(receive_here(), error(TLOOK));
}

TEST_F(WaitingReader, MayLookBefore) {
  connect();
  announce();
  EXPECT_TRUE(provider->lands("data"));
  EXPECT_EQ(look(), T_DATA);
  EXPECT_TRUE(provider->lands("more"));
  EXPECT_EQ(receive_here(), "datamore");
  EXPECT_EQ(copied, 0U);
}

TEST_F(WaitingReader, MayGo) {
  connect();
  announce();
  EXPECT_TRUE(provider->lands("data"));
  EXPECT_EQ(look(), T_DATA);
  EXPECT_TRUE(provider->lands("more"));
  endpoint.reset();
  EXPECT_EQ(set.pool().statistics().buffers_in_use, 0U);
}

TEST_F(WaitingReader, CopiesWhereThereWasNoMemoryToShowItsPlace) {
  connect();
  announce();
  int asked = 0;
  set.pool().fail_when([&] { return ++asked == 2; });  // the first is the primitive's
  EXPECT_FALSE(provider->lands("data"));
  set.pool().fail_when({});
  EXPECT_FALSE(provider->lands("next")) << "it would come before that";
  EXPECT_EQ(receive_here(), "datanext");
  EXPECT_EQ(copied, 8U);
}

/// A check that does not hold after all: those behind it are delivered, and no call fails because of it.
TEST_F(WaitingReader, MissesWhatIsNotGood) {
  CheckWatcher watcher(set);
  connect();
  const auto arrives = [&](std::string_view text, bool good) {
    Message message = message_of(set.pool(), tpi::DataInd{}, MessageType::proto);
    Message unit = watcher.data_unit("peer", text, good);
    message.link(unit.unlink());
    endpoint->stream().head().rput(Batch(std::move(message)));
  };
  announce();
  EXPECT_TRUE(provider->lands("data"));
  arrives("bad!", false);
  arrives("good", true);
  EXPECT_EQ(receive_here(), "datagood");
  EXPECT_EQ(watcher.refused.value(), 1U);
  arrives("good", true);
  arrives("bad!", false);
  EXPECT_EQ(receive_here(), "good");
  EXPECT_EQ(receive_here(), error(TNODATA));
  EXPECT_EQ(watcher.refused.value(), 2U);
}

}  // namespace
}  // namespace sluice::test
