// SPDX-License-Identifier: Apache-2.0
// Many data units in one call: t_sndmudata, t_sndmvudata, t_rcvmudata.

#include <array>
#include <deque>

#include "stack/core/module_handle.h"
#include "stack/wire/data_unit.h"
#include "stack/wire/network.h"
#include "tests/tli/harness.h"

namespace sluice::test {
namespace {

using namespace tli;
using enum tpi::TliError;
using std::chrono::seconds;
using Texts = std::vector<std::string>;

std::string data_of(const Message& message) {
  std::string text(message.data_size(), '\0');
  EXPECT_TRUE(message.copy_data_to(0, std::as_writable_bytes(std::span(text))));
  return text;
}

/// Counts the batches that pass, below timod.
class Watch : public Module {
 public:
  Watch() : Module("watch") {}
  [[nodiscard]] bool handles_deferred() const override { return true; }
  void wput(Batch&& batch) override {
    if (batch.front()->type == MessageType::proto) {
      sizes.push_back(batch.size());
    }
    Module::wput(std::move(batch));
  }
  std::vector<std::size_t> sizes;
};

// ---- t_sndmudata ----

class SendMany : public EndpointTest {
 protected:
  SendMany() { open_watched(); }

  /// A bound endpoint that does not wait.
  void open_watched(const std::function<void(Provider&)>& prepare = {}) {
    auto made = std::make_unique<Provider>();
    provider = made.get();
    if (prepare) {
      prepare(*provider);
    }
    auto opened = std::move(*Stream::open(set, std::move(made)));
    auto watching = std::make_unique<Watch>();
    watch = watching.get();
    ASSERT_TRUE(opened->push(std::move(watching)));
    ASSERT_TRUE(opened->push(std::make_unique<Timod>()));
    auto endpoint_made = Endpoint::t_open(std::move(opened), &info);
    ASSERT_TRUE(endpoint_made);
    endpoint = std::move(*endpoint_made);
    ASSERT_TRUE(endpoint->t_bind(nullptr, nullptr));
    endpoint->stream().set_nonblocking(true);
    watch->sizes.clear();
  }
  /// Sends these, to addresses that tell their place: how many went, or the negative t_errno.
  int send_many(const Texts& texts) {
    std::vector<std::string> addresses;
    for (std::size_t at = 0; at < texts.size(); ++at) {
      addresses.push_back("to " + std::to_string(at));
    }
    std::vector<t_unitdata> units;
    for (std::size_t at = 0; at < texts.size(); ++at) {
      units.push_back({in(addresses[at]), {}, in(texts[at])});
    }
    const auto sent = endpoint->t_sndmudata(units);
    failure = sent ? Failure{} : sent.error();
    return sent ? static_cast<int>(*sent) : -sent.error().t_errno;
  }
  /// What the provider has got since it was asked last, each with its address.
  Texts sent() {
    Texts texts;
    for (const Message& message : provider->sent) {
      const auto request = tpi::UnitdataReq::decode(message.bytes());
      EXPECT_TRUE(request);
      texts.push_back(std::string(as_text(request->address)) + ": " + data_of(message));
    }
    provider->sent.clear();
    return texts;
  }
  void stall() {
    provider->stalled = true;
    provider->write_queue().enqueue(Message::copy_of(set.pool(), as_bytes("full")));
  }

  Watch* watch = nullptr;
  Failure failure;
};

const std::string too_long(101, 'x');

TEST_F(SendMany, AllInOneBatchAndInOrder) {
  EXPECT_EQ(send_many({"a", "bc", "def"}), 3);
  EXPECT_EQ(watch->sizes, std::vector<std::size_t>{3});
  EXPECT_EQ(sent(), (Texts{"to 0: a", "to 1: bc", "to 2: def"}));
  EXPECT_EQ(send_many({}), 0);
  EXPECT_EQ(watch->sizes.size(), 1U);
}

TEST_F(SendMany, GathersEachFromItsParts) {
  std::vector<std::string> texts{"a", "bc", "def", "gh"};
  const auto part = [&](std::size_t at) {
    return t_iovec{reinterpret_cast<std::byte*>(texts[at].data()), texts[at].size()};
  };
  std::vector<std::string> addresses{"to 0", "to 1", "to 2"};
  std::vector<t_unitdata> units;
  for (std::string& address : addresses) {
    units.push_back({in(address), {}, {}});
  }
  const std::vector<std::vector<t_iovec>> parts{{part(0), part(1)}, {part(2)}, {part(3), part(0), part(3)}};
  std::vector<std::span<const t_iovec>> lists(parts.begin(), parts.end());
  EXPECT_EQ(endpoint->t_sndmvudata(units, lists), std::size_t{3});
  EXPECT_EQ(watch->sizes, std::vector<std::size_t>{3});
  EXPECT_EQ(sent(), (Texts{"to 0: abc", "to 1: def", "to 2: ghagh"}));

  // "[TBADDATA] iovcount is greater than T_IOV_MAX." (t_sndvudata(3NSL)): of a later unit, the next call's answer.
  const std::vector<t_iovec> too_many(T_IOV_MAX + 1, part(0));
  lists[1] = too_many;
  EXPECT_EQ(endpoint->t_sndmvudata(units, lists), std::size_t{1});
  EXPECT_EQ(sent(), (Texts{"to 0: abc"}));
  EXPECT_EQ(error_of(endpoint->t_sndmvudata(std::span(units).subspan(1), std::span(lists).subspan(1))), TBADDATA);
  stall();
  EXPECT_EQ(error_of(endpoint->t_sndmvudata(std::span(units).first(1), std::span(lists).first(1))), TFLOW);
}

TEST_F(SendMany, MoreThanABatch) {
  constexpr std::size_t max = Endpoint::batch_units_max;
  for (const std::size_t count : {max - 1, max, max + 1, 2 * max, 2 * max + 3}) {
    watch->sizes.clear();
    Texts texts(count, "text");
    Texts expected;
    for (std::size_t at = 0; at < count; ++at) {
      texts[at] += std::to_string(at);
      expected.push_back("to " + std::to_string(at) + ": " + texts[at]);
    }
    EXPECT_EQ(send_many(texts), static_cast<int>(count));
    std::vector<std::size_t> sizes(count / max, max);
    if (count % max > 0) {
      sizes.push_back(count % max);
    }
    EXPECT_EQ(watch->sizes, sizes);
    EXPECT_EQ(sent(), expected);
  }
}

TEST_F(SendMany, WhatStopsALaterOneIsTheNextCallsAnswer) {
  EXPECT_EQ(send_many({"a", "b", too_long, "d"}), 2);
  EXPECT_EQ(sent(), (Texts{"to 0: a", "to 1: b"}));
  EXPECT_EQ(send_many({too_long, "d"}), -TBADDATA);
  EXPECT_EQ(sent(), Texts());
  EXPECT_EQ(send_many({"a", "", "c"}), 1) << "there is no SENDZERO";
  EXPECT_EQ(send_many({""}), -TBADDATA);
  sent();
  // In the second batch.
  Texts texts(Endpoint::batch_units_max + 5, "x");
  texts[Endpoint::batch_units_max + 2] = too_long;
  EXPECT_EQ(send_many(texts), static_cast<int>(Endpoint::batch_units_max + 2));
  EXPECT_EQ(sent().size(), Endpoint::batch_units_max + 2);
}

TEST_F(SendMany, NamesTooLongStopIt) {
  const std::string large(2000, 'x');
  const std::array units{t_unitdata{in("peer"), {}, in("a")}, t_unitdata{in(large), {}, in("b")}};
  EXPECT_EQ(endpoint->t_sndmudata(units), std::size_t{1});
  EXPECT_EQ(error_of(endpoint->t_sndmudata(std::span(units).subspan(1))), TBADADDR);
  const std::array options{t_unitdata{in("peer"), in(large), in("a")}};
  EXPECT_EQ(error_of(endpoint->t_sndmudata(options)), TBADOPT);
  EXPECT_EQ(sent(), (Texts{"peer: a"}));
}

TEST_F(SendMany, FirstThingsFirst) {
  provider->fails("peer", "", ECONNREFUSED);
  stall();
  EXPECT_EQ(send_many({too_long}), -TBADDATA);
  EXPECT_EQ(send_many({"a", "b"}), -TLOOK) << "an error waits";
  ASSERT_TRUE(endpoint->t_rcvuderr(nullptr));
  EXPECT_EQ(send_many({"a", "b"}), -TFLOW);
  EXPECT_EQ(look(), 0);
  provider->resume();
  set.scheduler().poll({});
  provider->sent.clear();
  EXPECT_EQ(look(), T_GODATA);
  EXPECT_EQ(send_many({"a", "b"}), 2);
  EXPECT_EQ(sent(), (Texts{"to 0: a", "to 1: b"}));
  ASSERT_TRUE(endpoint->t_unbind());
  EXPECT_EQ(send_many({"a"}), -TOUTSTATE);
}

TEST_F(SendMany, ABrokenStreamIsTold) {
  provider->up(Message::copy_of(set.pool(), as_bytes("\x05"), 0, MessageType::error));
  EXPECT_EQ(send_many({"a", "b"}), -TSYSERR);
  EXPECT_EQ(failure.system_errno, 5);
  EXPECT_EQ(sent(), Texts());
}

TEST_F(SendMany, StopsWhereTheProviderIsFullAndCountsWhatWent) {
  provider->stalled = true;  // the first batch fills its queue
  EXPECT_EQ(send_many(Texts(Endpoint::batch_units_max + 1, "x")), static_cast<int>(Endpoint::batch_units_max));
  EXPECT_EQ(send_many({"x"}), -TFLOW);
  provider->resume();
  set.scheduler().poll({});
  EXPECT_EQ(sent().size(), Endpoint::batch_units_max);
}

/// Where everybody in the stream is made for several data units in one message.
class SendSegments : public SendMany {
 protected:
  SendSegments() { open_segments(65487); }

  void open_segments(std::int32_t tsdu) {
    struct Segments : Provider {
      [[nodiscard]] bool handles_segments() const override { return true; }
    };
    auto made = std::make_unique<Segments>();
    provider = made.get();
    provider->info.tsdu_size = tsdu;
    provider->info.provider_flag = tpi::SENDZERO;
    HeadOptions options;
    options.segments = true;
    auto opened = std::move(*Stream::open(set, std::move(made), options));
    EXPECT_TRUE(opened->push(std::make_unique<Timod>()));
    endpoint = std::move(*Endpoint::t_open(std::move(opened), &info));
    EXPECT_TRUE(endpoint->t_bind(nullptr, nullptr));
    EXPECT_TRUE(endpoint->stream().head().segments());
    endpoint->stream().set_nonblocking(true);
  }

  using Encoded = std::array<std::byte, 32>;
  /// A data unit to 10.0.0.`host`, the hop limit as an option where it is not 0.
  t_unitdata unit_to(std::uint8_t host, std::string& text, std::uint8_t hop_limit = 0) {
    Encoded& address = bytes_.emplace_back();
    t_unitdata unit;
    unit.addr.len = wire::TransportAddress{wire::Ipv4Address{{10, 0, 0, host}}, 7}.encode(address);
    unit.addr.buf = address.data();
    if (hop_limit != 0) {
      Encoded& options = bytes_.emplace_back();
      unit.opt = {
          .maxlen = 0, .len = wire::network::Sending{.hop_limit = hop_limit}.encode(options), .buf = options.data()};
    }
    unit.udata = in(text);
    return unit;
  }
  /// What the provider has got: "HOST/HOPS: DATA", in front of it "SEGMENT*" where the data is that of several units.
  Texts messages() {
    Texts texts;
    for (const Message& message : std::exchange(provider->sent, {})) {
      const auto request = tpi::UnitdataReq::decode(message.bytes());
      const auto peer = wire::TransportAddress::decode(request.value().address);
      const auto options = wire::network::Sending::decode(request->options).value_or(wire::network::Sending());
      const std::string segment =
          options.segment_size == 0 ? std::string() : std::to_string(options.segment_size) + "*";
      texts.push_back(segment + std::to_string(std::to_integer<int>(peer.value().address.bytes().back())) + "/" +
                      std::to_string(options.hop_limit) + ": " + data_of(message));
    }
    return texts;
  }

 private:
  std::deque<Encoded> bytes_;
};

TEST_F(SendSegments, ABatchIsJoinedWhereSizesAndNamesAgree) {
  struct Unit {
    std::uint8_t host;
    std::string text;
    std::uint8_t hop_limit = 0;
  };
  const std::vector<std::pair<std::vector<Unit>, Texts>> rows{
      {{{1, "aa"}, {1, "bb"}, {1, "cc"}, {1, "dd"}}, {"2*1/0: aabbccdd"}},
      {{{1, "aa"}, {1, "bb"}, {1, "cc"}}, {"1/0: aa", "1/0: bb", "1/0: cc"}},
      {{{1, "aa"}, {1, "bb"}, {1, "cc"}, {1, "d"}, {1, "ee"}}, {"2*1/0: aabbccd", "1/0: ee"}},
      {{{1, "aa"}, {1, "bb"}, {1, "cc"}, {1, "d"}, {1, "e"}}, {"2*1/0: aabbccd", "1/0: e"}},
      {{{1, "a"}, {1, "bb"}, {1, "cc"}, {1, "dd"}, {1, "ee"}}, {"1/0: a", "2*1/0: bbccddee"}},
      {{{1, "aa"}, {1, "bb"}, {2, "cc"}, {1, "dd"}, {1, "ee"}},
       {"1/0: aa", "1/0: bb", "2/0: cc", "1/0: dd", "1/0: ee"}},
      {{{1, "aa", 9}, {1, "bb", 9}, {1, "cc", 9}, {1, "dd", 9}, {1, "ee", 8}}, {"2*1/9: aabbccdd", "1/8: ee"}},
      {{{1, "aa"}, {1, "bb"}, {1, "cc"}, {1, "dd"}, {1, ""}, {1, "ee"}}, {"2*1/0: aabbccdd", "1/0: ", "1/0: ee"}},
      {{{1, ""}, {1, ""}, {1, ""}, {1, ""}}, {"1/0: ", "1/0: ", "1/0: ", "1/0: "}},
  };
  for (auto [given, expected] : rows) {
    std::vector<t_unitdata> units;
    for (Unit& unit : given) {
      units.push_back(unit_to(unit.host, unit.text, unit.hop_limit));
    }
    EXPECT_EQ(endpoint->t_sndmudata(units), units.size());
    EXPECT_EQ(messages(), expected);
  }
}

TEST_F(SendSegments, WhatIsJoinedIsBounded) {
  std::string text(20000, 'x');
  std::vector<t_unitdata> units(5, unit_to(1, text));
  EXPECT_EQ(endpoint->t_sndmudata(units), units.size());
  EXPECT_EQ(messages().size(), 5U) << "three would fit, which are too few";
  text.resize(16000);
  units.assign(5, unit_to(1, text));
  EXPECT_EQ(endpoint->t_sndmudata(units), units.size());
  EXPECT_EQ(messages().size(), 2U) << "four fit in segments_bytes_max";
  text.resize(2);
  units.assign(2 * Endpoint::batch_units_max + 1, unit_to(1, text));
  EXPECT_EQ(endpoint->t_sndmudata(units), units.size());
  EXPECT_EQ(messages().size(), 3U) << "no more than a batch";
  text.resize(65488);
  units.assign(4, unit_to(1, text));
  EXPECT_EQ(error_of(endpoint->t_sndmudata(units)), TBADDATA) << "above the TSDU";
}

/// The largest datagram over IPv4 is larger than what segments may be together.
TEST_F(SendSegments, WhatIsTooLargeForSegmentsCrossesAlone) {
  open_segments(65507);
  std::string text(65507, 'x');
  const std::vector<t_unitdata> units(5, unit_to(1, text));
  EXPECT_EQ(endpoint->t_sndmudata(units), units.size());
  EXPECT_EQ(messages(), Texts(5, "1/0: " + text));
}

TEST_F(SendSegments, WithPartsOrStrangeNamesEachCrossesAlone) {
  std::string text = "aa";
  std::vector<t_unitdata> units(4, unit_to(1, text));
  const t_iovec part{reinterpret_cast<std::byte*>(text.data()), text.size()};
  const std::vector<std::span<const t_iovec>> parts(units.size(), std::span(&part, 1));
  EXPECT_EQ(endpoint->t_sndmvudata(units, parts), units.size());
  EXPECT_EQ(messages(), Texts(4, "1/0: aa"));
  std::string nowhere = "nowhere";
  for (t_unitdata& unit : units) {
    unit.addr = in(nowhere);
  }
  EXPECT_EQ(endpoint->t_sndmudata(units), units.size());
  EXPECT_EQ(sent(), Texts(4, "nowhere: aa"));
}

TEST_F(SendSegments, HeedFlowControl) {
  std::string text = "onetwo";
  const t_unitdata unit = unit_to(1, text);
  const t_iovec part{std::as_writable_bytes(std::span(text)).data(), text.size()};
  provider->stalled = true;
  EXPECT_EQ(error_of(endpoint->t_sndsudata(unit, std::span(&part, 1), 3)), 0);
  EXPECT_EQ(error_of(endpoint->t_sndsudata(unit, std::span(&part, 1), 3)), TFLOW);
}

TEST_F(SendMany, SegmentsAreBounded) {
  std::string address = "to all";
  const t_unitdata unit{in(address), {}, {}};
  std::string bytes(Endpoint::segments_bytes_max + 1, 'x');
  const auto tsdu = static_cast<std::size_t>(endpoint->info().tsdu);
  struct Row {
    std::size_t size;
    std::size_t segment;
    std::size_t units;  // 0: refused
  };
  for (const auto& [size, segment, units] : std::to_array<Row>({{0, 1, 0},
                                                                {1, 0, 0},
                                                                {1, tsdu + 1, 0},
                                                                {Endpoint::segments_max, 1, Endpoint::segments_max},
                                                                {Endpoint::segments_max + 1, 1, 0},
                                                                {2 * Endpoint::segments_max, 2, Endpoint::segments_max},
                                                                {2 * Endpoint::segments_max + 1, 2, 0}})) {
    const t_iovec part{std::as_writable_bytes(std::span(bytes)).data(), size};
    EXPECT_EQ(error_of(endpoint->t_sndsudata(unit, std::span(&part, 1), segment)), units == 0 ? TBADDATA : 0)
        << size << " in " << segment;
    set.scheduler().poll({});
    EXPECT_EQ(sent().size(), units) << size << " in " << segment;
  }
}

TEST_F(SendMany, ABlockingEndpointWaits) {
  endpoint->stream().set_nonblocking(false);
  SimulatedWaiter waiter(set);
  wait_with(waiter);
  provider->stalled = true;
  waiter.after(seconds(1), [&] { provider->resume(); });
  EXPECT_EQ(send_many(Texts(2 * Endpoint::batch_units_max, "x")), static_cast<int>(2 * Endpoint::batch_units_max));
  EXPECT_GT(waiter.waits, 0);
  set.scheduler().poll(waiter.now());
  EXPECT_EQ(sent().size(), 2 * Endpoint::batch_units_max);
}

/// Keeps what is sent as it came: nobody between may have copied it, but who keeps it.
TEST_F(SendMany, TheMemoryIsTheCallersAgainAfterwards) {
  for (const ProcessingMode mode : {ProcessingMode::layered, ProcessingMode::fused}) {
    for (const bool stalled : {false, true}) {
      open_watched([&](Provider& at) { at.info.tsdu_size = 5000; });
      endpoint->stream().set_mode(mode);
      provider->stalled = stalled;
      Texts texts{std::string(3000, 'a'), std::string(10, 'b'), std::string(4000, 'c')};
      const Texts before = texts;
      std::vector<t_unitdata> units;
      for (const std::string& text : texts) {
        units.push_back({in("peer"), {}, in(text)});
      }
      EXPECT_EQ(endpoint->t_sndmudata(units), std::size_t{3});
      for (std::string& text : texts) {
        std::ranges::fill(text, '!');
      }
      provider->resume();
      set.scheduler().poll({});
      EXPECT_EQ(sent(), (Texts{"peer: " + before[0], "peer: " + before[1], "peer: " + before[2]}));
    }
  }
}

// ---- t_rcvmudata ----

class ReceiveMany : public EndpointTest {
 protected:
  ReceiveMany() {
    open_bound();
    endpoint->stream().set_nonblocking(true);
  }

  /// What one call for `count` units brings, with room for so many bytes of each: the units, or the t_errno.
  std::string receive_many(std::size_t count, std::size_t size = 20, std::size_t address_size = 16,
                           std::size_t options_size = 32) {
    std::vector<std::string> addresses(count, std::string(address_size, '\0'));
    std::vector<std::string> options(count, std::string(options_size, '\0'));
    Texts texts(count, std::string(size, '\0'));
    std::vector<t_unitdata> units;
    for (std::size_t at = 0; at < count; ++at) {
      units.push_back({out(addresses[at]), out(options[at]), out(texts[at])});
    }
    int flags = 99;
    const bool nonblocking = endpoint->stream().nonblocking();
    const auto got = endpoint->t_rcvmudata(units, flags);
    EXPECT_EQ(endpoint->stream().nonblocking(), nonblocking);
    if (!got) {
      EXPECT_EQ(flags, 0);
      return "error " + std::to_string(got.error().t_errno);
    }
    std::string all;
    for (const t_unitdata& unit : std::span(units).first(*got)) {
      all += (all.empty() ? "" : " ") + std::string(text_of(unit.addr)) + "/" + std::string(text_of(unit.opt)) + ":" +
             std::string(text_of(unit.udata));
    }
    return all + (flags == T_MORE ? " T_MORE" : "");
  }
  void arrive(std::initializer_list<std::string_view> texts) {
    for (const std::string_view text : texts) {
      provider->arrives("p", "o", {text});
    }
  }
};

TEST_F(ReceiveMany, AsManyAsWaitOrAreAskedFor) {
  EXPECT_EQ(receive_many(3), error(TNODATA));
  arrive({"a", "bc"});
  EXPECT_EQ(receive_many(3), "p/o:a p/o:bc") << "fewer wait";
  arrive({"a", "bc", "def", "g"});
  EXPECT_EQ(receive_many(3), "p/o:a p/o:bc p/o:def");
  EXPECT_EQ(receive_many(3), "p/o:g");
  EXPECT_EQ(receive_many(3), error(TNODATA));
  arrive({"a"});
  EXPECT_EQ(receive_many(0), "");
  EXPECT_EQ(receive_many(1), "p/o:a");
}

TEST_F(ReceiveMany, UnitsWithoutOctets) {
  arrive({"", "a", ""});
  EXPECT_EQ(receive_many(3), "p/o: p/o:a p/o:");
}

TEST_F(ReceiveMany, EndsAtOneThatDoesNotFitAndGoesOnThere) {
  arrive({"ab", "cdefg", "hi"});
  EXPECT_EQ(receive_many(3, 2), "p/o:ab p/o:cd T_MORE");
  EXPECT_EQ(receive_many(3, 2), "/:ef T_MORE");
  EXPECT_EQ(receive_many(3, 2), "/:g p/o:hi");
}

TEST_F(ReceiveMany, AnErrorEndsItAndIsDueNext) {
  arrive({"a"});
  provider->fails("peer", "", ECONNREFUSED);
  arrive({"b"});
  EXPECT_EQ(receive_many(3), "p/o:a");
  EXPECT_EQ(receive_many(3), error(TLOOK));
  EXPECT_EQ(look(), T_UDERR);
  ASSERT_TRUE(endpoint->t_rcvuderr(nullptr));
  EXPECT_EQ(receive_many(3), "p/o:b");
}

TEST_F(ReceiveMany, NamesThatDoNotFitEndItAndTheUnitIsNotLost) {
  provider->arrives("p", "o", {"a"});
  provider->arrives("a long one", "o", {"b"});
  provider->arrives("p", "options", {"c"});
  EXPECT_EQ(receive_many(3, 20, 4, 4), "p/o:a");
  EXPECT_EQ(receive_many(3, 20, 16, 4), "a long one/o:b");
  EXPECT_EQ(receive_many(3), "p/options:c");
  provider->arrives("a long one", "o", {"b"});
  EXPECT_EQ(receive_many(3, 20, 4, 4), error(TBUFOVFLW)) << "of the first it is told";
  EXPECT_EQ(receive_many(3), error(TNODATA));
}

TEST_F(ReceiveMany, NativeNamesAreTheSame) {
  wire::DataUnit unit{
      .kind = wire::DataUnit::Kind::transport_indication, .peer = wire::Ipv4Address{{10, 0, 0, 2}}, .peer_port = 9};
  const auto arrives = [&](std::string_view text) {
    Message message = Message::of_native(set.pool(), unit);
    message.link(Message::copy_of(set.pool(), as_bytes(text)));
    provider->up(std::move(message));
  };
  std::string address(unit.address_size(), '\0');
  unit.encode_address(std::as_writable_bytes(std::span(address)));
  arrives("a");
  arrives("b");
  EXPECT_EQ(receive_many(3), address + "/:a " + address + "/:b");
  arrive({"a"});
  arrives("b");
  EXPECT_EQ(receive_many(3, 20, 7), "p/o:a") << "the address has 8 octets";
  EXPECT_EQ(receive_many(3, 20, 8), address + "/:b");
  unit.options = wire::DataUnit::Options::received;
  arrive({"a"});
  arrives("b");
  EXPECT_EQ(receive_many(3, 20, 16, wire::network::Received::size - 1), "p/o:a");
  EXPECT_EQ(receive_many(3, 20, 0, 0), "/:b") << "no room asks for nothing";
}

TEST_F(ReceiveMany, WaitsForTheFirstOnly) {
  endpoint->stream().set_nonblocking(false);
  SimulatedWaiter waiter(set);
  wait_with(waiter);
  waiter.after(seconds(1), [&] { arrive({"a", "b"}); });
  waiter.after(seconds(2), [&] { arrive({"c"}); });
  EXPECT_EQ(receive_many(3), "p/o:a p/o:b");
  EXPECT_EQ(receive_many(3), "p/o:c");
}

TEST_F(ReceiveMany, OnlyWhereDataUnitsMayBeReceived) {
  ASSERT_TRUE(endpoint->t_unbind());
  EXPECT_EQ(receive_many(3), error(TOUTSTATE));
  open([](Provider& at) { at.info.serv_type = tpi::T_COTS; });
  EXPECT_EQ(receive_many(3), error(TNOTSUPPORT));
}

/// Data units whose checks are still owed.
class ReceiveManyUnverified : public ReceiveMany {
 protected:
  void arrives(std::string_view from, std::string_view text, bool good) {
    provider->up(watcher.data_unit(from, text, good));
  }

  CheckWatcher watcher{set};
};

TEST_F(ReceiveManyUnverified, BadOnesAreAsIfTheyHadNeverCome) {
  for (const bool good : {true, false, true, false, false, true, false}) {
    arrives("p", good ? "good" : "bad!", good);
  }
  EXPECT_EQ(receive_many(9), "p/:good p/:good p/:good");
  EXPECT_EQ(watcher.refused.value(), 4U);
  EXPECT_EQ(receive_many(9), error(TNODATA));
}

// What comes behind a bad one meets the same conditions as any other.
TEST_F(ReceiveManyUnverified, BehindABadOneNothingIsLostEither) {
  arrives("p", "good", true);
  arrives("p", "bad!", false);
  arrives("a long one", "good", true);
  EXPECT_EQ(receive_many(3, 20, 4), "p/:good");
  EXPECT_EQ(receive_many(3), "a long one/:good");
  arrives("p", "good", true);
  arrives("p", "bad!", false);
  provider->fails("peer", "", ECONNREFUSED);
  EXPECT_EQ(receive_many(3), "p/:good");
  EXPECT_EQ(receive_many(3), error(TLOOK));
}

}  // namespace
}  // namespace sluice::test
