// SPDX-License-Identifier: Apache-2.0
// The pool fails in every place, one after the other: a whole scenario is played with its n-th allocation failing, for
// n = 1 and so on until none is left to fail. Each time, what is refused is refused as documented and done when it is
// asked for again, what is owed comes, nothing takes long, and nothing is lost but datagrams (docs/streams.md, "When
// the pool is exhausted").
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "stack/head/stream.h"
#include "stack/wire/dlpi.h"
#include "stack/wire/options.h"
#include "stack/wire/timod.h"
#include "stack/wire/tpi.h"
#include "tests/stack/head/simulated_waiter.h"
#include "tests/stack/modules/harness.h"
#include "tests/stack/provider/workshop.h"
#include "tli/endpoint.h"

namespace sluice::test {
namespace {

using namespace wire::tpi;
using std::chrono::seconds;
namespace dl = wire::dlpi;

/// Allocations that fail: from the first on so many, or, with `until_wait`, all until somebody waits.
struct Drought {
  std::uint64_t first;
  std::uint64_t length;
  static constexpr std::uint64_t until_wait = 0;
};

/// Lets simulated time pass, which ends a drought.
class EndingWaiter final : public SimulatedWaiter {
 public:
  using SimulatedWaiter::SimulatedWaiter;
  bool wait(TimePoint deadline) override {
    rained = true;
    return SimulatedWaiter::wait(deadline);
  }
  bool rained = false;
};

/// How often a call may be refused before it must succeed.
constexpr int attempts_max = 6;
/// All that a scenario may take. Well below every time-out there is: what comes with one was lost.
constexpr Duration time_max = seconds(1);

class World {
 public:
  World(const Arrangement& arrangement, ProcessingMode mode, const Drought& drought)
      : workshop_(
            arrangement,
            {.defer_bytes_min = mode == ProcessingMode::fused ? 0 : StreamSet::Options{}.defer_bytes_min, .seed = 1}),
        mode_(mode),
        drought_(drought) {
    set().pool().fail_when([this] { return fails(); });
  }

  StreamSet& set() { return workshop_.set(); }
  Workshop& workshop() { return workshop_; }
  EndingWaiter& waiter() { return waiter_; }
  /// Whether the drought has come.
  [[nodiscard]] bool came() const { return asked_ >= drought_.first; }

  /// A stream on the driver, with these pushed on it.
  std::unique_ptr<Stream> open(const std::vector<std::string>& modules) {
    std::unique_ptr<Stream> stream;
    repeat("open", {ENOSR}, [&] {
      auto opened = Stream::open(set(), workshop_.driver());
      stream = opened ? std::move(*opened) : nullptr;
      return opened ? 0 : opened.error().code;
    });
    stream->set_mode(mode_);
    for (const std::string& name : modules) {
      repeat(name.c_str(), {ENOSR}, [&] {
        const Status pushed = stream->push(workshop_.module(name));
        return pushed ? 0 : pushed.error().code;
      });
    }
    stream->set_waiter(&waiter_);
    return stream;
  }

  /// Repeats `call` until it answers 0: what it answers else must be one of `documented`.
  void repeat(const char* what, const std::vector<int>& documented, const std::function<int()>& call) {
    for (int attempt = 1;; ++attempt) {
      const int code = call();
      run();
      if (code == 0) {
        return;
      }
      EXPECT_GT(std::ranges::count(documented, code), 0)
          << what << " answered errno " << code << " to its attempt " << attempt;
      if (attempt == attempts_max) {
        ADD_FAILURE() << what << " is still refused: errno " << code;
        return;
      }
    }
  }

  /// Lets everybody do what is to be done now. It rains again.
  void run() {
    waiter_.rained = true;
    constexpr int rounds = 8;
    for (int round = 0; round < rounds; ++round) {
      set().scheduler().poll(waiter_.now());
      for (EventSource* source : std::vector(set().sources())) {
        static_cast<void>(source->on_readable());
      }
    }
  }

 private:
  bool fails() {
    ++asked_;
    if (asked_ <= drought_.first) {
      waiter_.rained = false;
    }
    const bool over =
        drought_.length == Drought::until_wait ? waiter_.rained : asked_ >= drought_.first + drought_.length;
    return came() && !over;
  }

  Workshop workshop_;
  ProcessingMode mode_;
  Drought drought_;
  EndingWaiter waiter_{set()};
  std::uint64_t asked_ = 0;
};

/// A call of the transport library as an errno: TSYSERR's own, else 1000 and the t_errno.
template <class T>
int code_of(const tli::Outcome<T>& outcome) {
  constexpr int tli_errors = 1000;
  return outcome                              ? 0
         : outcome.error().t_errno == TSYSERR ? outcome.error().system_errno
                                              : tli_errors + outcome.error().t_errno;
}

/// A small request for a large answer.
Block all_of_ip() {
  Block asked;
  wire::xti::append(asked, {.level = wire::xti::T_INET_IP, .name = wire::xti::T_ALLOPT, .status = 0, .value = {}});
  return asked;
}

using Scenario = std::function<void(World&)>;

/// Sends `size` bytes to the endpoint itself until they come. A datagram may be lost, and an error may tell so:
/// "[TLOOK] An asynchronous event has occurred on this transport endpoint", for which t_rcvuderr() is due.
void send_and_receive(World& world, tli::Endpoint& endpoint, const Block& own, std::size_t size) {
  Block payload(size, std::byte{7});
  Block address = own;
  const tli::t_unitdata unit{
      .addr = {0, address.size(), address.data()}, .opt = {}, .udata = {0, size, payload.data()}};
  constexpr int lost = 2000;
  world.repeat("a datagram", {ENOSR, lost}, [&] {
    const auto sent = endpoint.t_sndudata(unit);
    world.run();
    if (!sent) {
      return code_of(sent);
    }
    Block in(size);
    tli::t_unitdata received{.addr = {}, .opt = {}, .udata = {in.size(), 0, in.data()}};
    int flags = 0;
    const auto came = endpoint.t_rcvudata(received, flags);
    if (came) {
      EXPECT_EQ(received.udata.len, size);
      EXPECT_EQ(in, payload);
      return 0;
    }
    if (came.error().t_errno == TLOOK) {
      tli::t_uderr why;
      EXPECT_TRUE(endpoint.t_rcvuderr(&why));
      EXPECT_EQ(why.error, ENOBUFS) << "T_UDERROR_IND says something else";
      return lost;
    }
    return came.error().t_errno == TNODATA ? lost : code_of(came);
  });
}

/// A program of the transport library, from t_open() to t_close().
void use_the_library(World& world) {
  std::vector<std::string> modules = world.workshop().module_names();
  modules.emplace_back("timod");
  std::unique_ptr<tli::Endpoint> endpoint;
  // t_open(): "[TSYSERR] A system error has occurred during execution of this function."
  world.repeat("t_open", {ENOSR}, [&] {
    auto opened = tli::Endpoint::t_open(world.open(modules), nullptr);
    endpoint = opened ? std::move(*opened) : nullptr;
    return code_of(opened);
  });
  ASSERT_NE(endpoint, nullptr);
  Stream& stream = endpoint->stream();
  stream.set_nonblocking(false);

  Block wanted = encoded(wire::TransportAddress{world.workshop().arrangement().address(), 0});
  Block own(wire::TransportAddress::encoded_size_max);
  world.repeat("t_bind", {ENOSR}, [&] {
    const tli::t_bind request{{0, wanted.size(), wanted.data()}, 0};
    tli::t_bind bound{{own.size(), 0, own.data()}, 0};
    const auto outcome = endpoint->t_bind(&request, &bound);
    own.resize(outcome ? bound.addr.len : own.size());
    return code_of(outcome);
  });
  world.repeat("t_getprotaddr", {ENOSR}, [&] {
    tli::t_bind address;
    return code_of(endpoint->t_getprotaddr(&address, nullptr));
  });
  // Where nobody can be asked, the negotiation of this option fails.
  Block option;
  wire::xti::append(option,
                    {.level = wire::xti::T_INET_IP, .name = wire::xti::T_IP_TTL, .status = 0, .value = words({9})});
  world.repeat("t_optmgmt", {ENOSR, T_FAILURE, T_NOTSUPPORT}, [&] {
    Block outcome(option.size());
    tli::t_optmgmt answer{.opt = {outcome.size(), 0, outcome.data()}};
    const auto managed =
        endpoint->t_optmgmt({.opt = {option.size(), option.size(), option.data()}, .flags = T_NEGOTIATE}, answer);
    return !managed ? code_of(managed) : answer.flags == T_SUCCESS ? 0 : answer.flags;
  });
  world.repeat("t_optmgmt of all", {ENOSR}, [&] {
    Block all(static_cast<std::size_t>(endpoint->info().options));
    tli::t_optmgmt answer{.opt = {all.size(), 0, all.data()}};
    Block asked = all_of_ip();
    return code_of(
        endpoint->t_optmgmt({.opt = {asked.size(), asked.size(), asked.data()}, .flags = T_DEFAULT}, answer));
  });

  stream.set_nonblocking(true);
  for (const std::size_t size : {0U, 100U, 5000U}) {
    send_and_receive(world, *endpoint, own, size);
  }
  stream.set_nonblocking(false);

  // streamio(7), I_STR: "ENOSR Unable to allocate buffers"; of what nobody knows, EINVAL.
  constexpr std::int32_t unknown = 0x7777;
  world.repeat("I_STR", {ENOSR}, [&] {
    const auto refused = stream.ioctl(unknown, words({1, 2}));
    EXPECT_FALSE(refused);
    return refused || refused.error().code == EINVAL ? 0 : refused.error().code;
  });
  world.repeat("I_FLUSH", {ENOSR}, [&] {
    const Status flushed = stream.flush(flush_read | flush_write);
    return flushed ? 0 : flushed.error().code;
  });
  world.repeat("t_unbind", {ENOSR}, [&] { return code_of(endpoint->t_unbind()); });
  world.repeat("t_sync", {ENOSR}, [&] { return code_of(endpoint->t_sync()); });
  EXPECT_EQ(endpoint->t_getstate(), tli::T_UNBND);
  EXPECT_TRUE(endpoint->t_close());
}

/// What comes to a request by putmsg(): the primitive in front.
std::int32_t ask(World& world, Stream& stream, const Block& request) {
  world.repeat("putmsg", {ENOSR}, [&] {
    const Status put = stream.putmsg(ConstBytes(request), std::nullopt);
    return put ? 0 : put.error().code;
  });
  std::int32_t primitive = -1;
  // Its answer is owed, and has come by now: there is nothing to wait for.
  Block control(512);
  const auto got = stream.getmsg(Bytes(control), std::nullopt);
  EXPECT_TRUE(got) << "no answer: errno " << got.error().code;
  if (got && got->control.value_or(0) >= sizeof primitive) {
    std::memcpy(&primitive, control.data(), sizeof primitive);
  }
  return primitive;
}

/// A program that speaks TPI, as far as a fatal error: "This is indicated via a M_ERROR message type which results in
/// the failure of all operating system service routines on the stream" (T_DATA_REQ).
void speak_tpi(World& world) {
  const std::unique_ptr<Stream> stream = world.open(world.workshop().module_names());
  stream->set_nonblocking(true);
  const Block own = encoded(wire::TransportAddress{world.workshop().arrangement().address(), 0});
  EXPECT_EQ(ask(world, *stream, block(InfoReq{})), T_INFO_ACK);
  EXPECT_EQ(ask(world, *stream, block(CapabilityReq{TC1_INFO})), T_CAPABILITY_ACK);
  EXPECT_EQ(ask(world, *stream, block(UnbindReq{})), T_ERROR_ACK);
  EXPECT_EQ(ask(world, *stream, block(BindReq{.address = own})), T_BIND_ACK);
  EXPECT_EQ(ask(world, *stream, block(BindReq{.address = own})), T_ERROR_ACK);
  EXPECT_EQ(ask(world, *stream, block(AddrReq{})), T_ADDR_ACK);
  EXPECT_EQ(ask(world, *stream, block(OptmgmtReq{.options = all_of_ip(), .flags = T_DEFAULT})), T_OPTMGMT_ACK);
  EXPECT_EQ(ask(world, *stream, block(UnbindReq{})), T_OK_ACK);
  world.repeat("putmsg of data", {ENOSR}, [&] {
    const Status put = stream->putmsg(std::nullopt, as_bytes("unbound"));
    return put ? 0 : put.error().code;
  });
  EXPECT_TRUE(stream->poll().error) << "no M_ERROR";
}

/// A program that speaks DLPI to the link driver.
void speak_dlpi(World& world) {
  const std::unique_ptr<Stream> stream = world.open({});
  stream->set_nonblocking(true);
  const auto answers = [&](const auto& request) {
    return static_cast<std::uint32_t>(ask(world, *stream, block(request)));
  };
  constexpr std::uint32_t sap = 0x88b5;
  EXPECT_EQ(answers(dl::InfoReq{}), dl::DL_INFO_ACK);
  EXPECT_EQ(answers(dl::UnbindReq{}), dl::DL_ERROR_ACK);
  EXPECT_EQ(answers(dl::BindReq{.sap = sap}), dl::DL_BIND_ACK);
  EXPECT_EQ(answers(dl::PhysAddrReq{dl::DL_CURR_PHYS_ADDR}), dl::DL_PHYS_ADDR_ACK);
  EXPECT_EQ(answers(dl::GetStatisticsReq{}), dl::DL_GET_STATISTICS_ACK);
  EXPECT_EQ(answers(dl::PromisconReq{dl::DL_PROMISC_SAP}), dl::DL_OK_ACK);
  EXPECT_EQ(answers(dl::NotifyReq{.notifications = dl::DL_NOTE_SDU_SIZE}), dl::DL_NOTIFY_ACK);
  Block indication(64);
  const auto notified = stream->getmsg(Bytes(indication), std::nullopt);
  EXPECT_TRUE(notified) << "what is asked for is told once at once";
  // DL_UNITDATA_REQ: "If the request is erroneous, message DL_UDERROR_IND is returned".
  EXPECT_EQ(answers(dl::UnitdataReq{}), dl::DL_UDERROR_IND);
  EXPECT_EQ(answers(dl::UnbindReq{}), dl::DL_OK_ACK);
}

struct Row {
  const char* name;
  Scenario play;
};

using Parameter = std::tuple<Row, Arrangement, ProcessingMode>;

class Exhaustion : public testing::TestWithParam<Parameter> {};

// Tru64, bufcall(9r): "serves as a timeout call of indeterminate length". What waits with it is owed and comes; what
// does not is refused with ENOSR.
TEST_P(Exhaustion, LosesNothingThatIsOwed) {
  const auto& [row, arrangement, mode] = GetParam();
  constexpr std::uint64_t places_max = 2000;
  for (const std::uint64_t length : {std::uint64_t{1}, std::uint64_t{4}, Drought::until_wait}) {
    bool came = true;
    std::uint64_t first = 1;
    for (; came && first < places_max && !HasFailure(); ++first) {
      SCOPED_TRACE("allocation " + std::to_string(first) + " fails, and " + std::to_string(length) + " in all");
      World world(arrangement, mode, {first, length});
      row.play(world);
      world.run();
      came = world.came();
      EXPECT_LT(world.waiter().now() - TimePoint{}, time_max) << "something was waited for in vain";
      EXPECT_EQ(world.set().pool().statistics().buffers_in_use, 0U) << "a leak";
    }
    EXPECT_LT(first, places_max) << "the scenario never ends";
    EXPECT_GT(first, 10U) << "it allocates next to nothing";
  }
}

std::string name_of_case(const testing::TestParamInfo<Parameter>& chosen) {
  const auto& [row, arrangement, mode] = chosen.param;
  return row.name + std::string("_") + arrangement.name + "_" + std::string(name_of(mode));
}

constexpr std::array modes{ProcessingMode::layered, ProcessingMode::fused};

INSTANTIATE_TEST_SUITE_P(Providers, Exhaustion,
                         testing::Combine(testing::Values(Row{"Library", use_the_library}, Row{"Tpi", speak_tpi}),
                                          testing::ValuesIn(arrangements), testing::ValuesIn(modes)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Link, Exhaustion,
                         testing::Combine(testing::Values(Row{"Dlpi", speak_dlpi}), testing::Values(arrangements[0]),
                                          testing::ValuesIn(modes)),
                         name_of_case);

/// A pool whose memory has all become buffers of the smallest size, three of which are free.
class NoLargeBuffers : public testing::TestWithParam<Arrangement> {};

// T_OPTMGMT_REQ: "TSYSERR: A system error has occurred and the UNIX system error is indicated in the primitive". Its
// answer is larger than the request, and there will never be memory for it.
TEST_P(NoLargeBuffers, TheAnswerIsAnErrorThatFits) {
  Workshop workshop(GetParam(), {.pool_bytes_max = std::size_t{1} << 20, .seed = 1});
  StreamSet& set = workshop.set();
  const auto stream = Stream::open(set, workshop.driver()).value();
  for (auto& module : workshop.modules()) {
    ASSERT_TRUE(stream->push(std::move(module)));
  }
  stream->set_nonblocking(true);
  std::vector<Message> held;
  held.emplace_back(set.pool().allocate(1));
  for (std::size_t size = 4096; size > 0; size -= 32) {  // of every size
    while (sluice::Block* const taken = set.pool().allocate(size)) {
      held.emplace_back(taken);
    }
  }
  held.resize(held.size() - 3);
  ASSERT_TRUE(stream->putmsg(ConstBytes(block(OptmgmtReq{.options = all_of_ip(), .flags = T_DEFAULT})), std::nullopt));
  Block control(512);
  const auto got = stream->getmsg(Bytes(control), std::nullopt);
  ASSERT_TRUE(got);
  const auto error = ErrorAck::decode(ConstBytes(control).first(*got->control));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->error_primitive, T_OPTMGMT_REQ);
  EXPECT_EQ(error->tli_error, TSYSERR);
  EXPECT_EQ(error->unix_error, ENOSR);
}

INSTANTIATE_TEST_SUITE_P(Providers, NoLargeBuffers, testing::ValuesIn(arrangements),
                         [](const testing::TestParamInfo<Arrangement>& chosen) {
                           return std::string(chosen.param.name);
                         });

}  // namespace
}  // namespace sluice::test
