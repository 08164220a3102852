// SPDX-License-Identifier: Apache-2.0
// Every state of a connection, either way, with every frame that does not fit it (docs/formats/msg.md: it "ends the
// connection with a reset"), and with an end at a bad time; and every state of a message with what a module may say of
// it that is not so. Each is counted, what was held is given back, and everything else goes on.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "stack/core/primitive.h"
#include "stack/modules/timod.h"
#include "stack/wire/data_unit.h"
#include "stack/wire/tpi.h"
#include "tests/msg/callers.h"

namespace sluice::test::msgs {
namespace {

/// A good frame, and one byte of it another one.
std::vector<std::byte> spoiled(const MsgFrame& frame, std::size_t at, unsigned value) {
  auto bytes = frames({frame});
  bytes[at] = static_cast<std::byte>(value);
  return bytes;
}

struct BadFrame {
  std::string name;
  std::vector<std::byte> bytes;
};

class MsgBadPeers : public testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] Arrangement arrangement() const { return {.name = "bad_peers", .module = GetParam()}; }
};

INSTANTIATE_TEST_SUITE_P(Over, MsgBadPeers, testing::Values("tcp", "xtp"), [](const auto& one) { return one.param; });

// ---- Connections that others have made ----

enum class CallerState : std::uint8_t { greeting, open, after_a_message, after_a_refusal };

/// Frames for a caller in this state, who has said `number` messages.
std::vector<BadFrame> bad_frames_of_a_caller(CallerState state, std::uint64_t number) {
  constexpr std::uint64_t taken_max = 1 << 20;
  const bool greeted = state != CallerState::greeting;
  const MsgFrame good = greeted ? MsgFrame{.type = FrameKind::message, .number = number + 1, .tag = 1} : hello;
  std::vector<BadFrame> all = {{"no magic", spoiled(good, 0, 0)},
                               {"another version", spoiled(good, 2, 2)},
                               {"no type", spoiled(good, 3, 0)},
                               {"no type either", spoiled(good, 3, 5)},
                               {"a field that it does not have", spoiled(good, greeted ? 5 : 31, 1)},
                               {"an answer", frames({{.type = FrameKind::done, .number = number + 1}})},
                               {"a refusal", frames({{.type = FrameKind::refused, .number = number + 1}})},
                               {"a port of zero", spoiled(hello, 5, 0)}};
  const auto add_message = [&all](std::string name, std::uint64_t of_number, std::uint64_t length) {
    all.push_back({std::move(name), frames({{.type = FrameKind::message, .number = of_number, .length = length}})});
  };
  if (!greeted) {
    add_message("a message before hello", 1, 0);
    return all;
  }
  all.push_back({"hello again", frames({hello})});
  add_message("a message of the number before", number, 0);
  add_message("a message of a later number", number + 2, 0);
  add_message("a message of number 0", 0, 0);
  add_message("a message of the last number", ~std::uint64_t{0}, 0);
  add_message("a message that is too long", number + 1, taken_max + 1);
  add_message("a message of half of all lengths", number + 1, std::uint64_t{1} << 63);
  add_message("a message of all lengths", number + 1, ~std::uint64_t{0});
  return all;
}

TEST_P(MsgBadPeers, AFrameThatDoesNotFitEndsACallersConnectionAndNothingElse) {
  for (const CallerState state :
       {CallerState::greeting, CallerState::open, CallerState::after_a_message, CallerState::after_a_refusal}) {
    const std::uint64_t number = state == CallerState::after_a_message || state == CallerState::after_a_refusal ? 1 : 0;
    for (const BadFrame& bad : bad_frames_of_a_caller(state, number)) {
      SCOPED_TRACE(bad.name + ", state " + std::to_string(static_cast<int>(state)));
      Bed bed(arrangement(), 1, {.unexpected_bytes_max = 100, .connection_message_bytes_max = std::uint64_t{1} << 20});
      std::vector<std::byte> buffer(10);
      const Handle receive = *bed[0].post(buffer, {.bits = 5});
      const WireCaller other(bed);
      other.say(frames({hello}));
      const WireCaller liar(bed);
      if (state != CallerState::greeting) {
        liar.say(frames({hello}));
      }
      if (number == 1) {
        const std::size_t length = state == CallerState::after_a_message ? 100 : 101;
        liar.say(frames({{.type = FrameKind::message, .number = 1, .tag = 1, .length = length}}, length));
      }
      bed.pass(100ms);
      const msg::Statistics before = bed[0].statistics();
      EXPECT_EQ(before.malformed, 0U);
      EXPECT_EQ(before.refused, state == CallerState::after_a_refusal ? 1U : 0U);
      // In two parts: it is looked at when all of it has come.
      liar.say(ConstBytes(bad.bytes).first(17));
      bed.pass(100ms);
      EXPECT_EQ(bed[0].statistics().malformed, 0U);
      liar.say(ConstBytes(bad.bytes).subspan(17));
      bed.pass(100ms);
      EXPECT_EQ(bed[0].statistics().malformed, 1U);
      EXPECT_EQ(liar.ended(), ECONNRESET);
      // What has come whole stays, and nothing more is held.
      EXPECT_EQ(bed[0].statistics().unexpected_bytes, before.unexpected_bytes);
      EXPECT_EQ(bed[0].statistics().unexpected_messages, before.unexpected_messages);
      EXPECT_EQ(bed[0].statistics().lost, 0U);
      EXPECT_EQ(bed[0].test(receive).error().code, EAGAIN);
      other.say(frames({{.type = FrameKind::message, .number = 1, .tag = 5, .length = 10}}, 10));
      EXPECT_EQ(bed[0].wait(receive, bed.soon())->bytes, 10U);
      EXPECT_EQ(other.ended(), 0);
      bed.close_all();
    }
  }
}

/// What a caller has said before it ends its connection; `message` is one of 100 bytes, of which 50 have come.
struct EndedEarly {
  std::string_view name;
  bool greeted;
  std::size_t header_bytes;  // of the next frame
  bool message;
  std::size_t held_max;  // Options::unexpected_bytes_max
  bool posted;
  std::uint64_t lost;
};

TEST_P(MsgBadPeers, AnEndAtABadTimeLosesTheMessageOnItsWayAndGivesBackItsMemory) {
  for (const EndedEarly& early : {EndedEarly{"nothing", false, 0, false, 100, false, 0},
                                  EndedEarly{"half of hello", false, 16, false, 100, false, 0},
                                  EndedEarly{"hello", true, 0, false, 100, false, 0},
                                  EndedEarly{"half of a message's header", true, 16, false, 100, false, 0},
                                  EndedEarly{"a message that is expected", true, 0, true, 100, true, 1},
                                  EndedEarly{"a message that is held", true, 0, true, 100, false, 1},
                                  EndedEarly{"a message that is refused", true, 0, true, 99, false, 0}}) {
    for (const bool resets : {false, true}) {
      SCOPED_TRACE(std::string(early.name) + (resets ? ", reset" : ", released"));
      Bed bed(arrangement(), 1, {.unexpected_bytes_max = early.held_max});
      std::vector<std::byte> buffer(100);
      const Handle receive = early.posted ? *bed[0].post(buffer, {.bits = 1}) : Handle{};
      const WireCaller caller(bed);
      if (early.greeted) {
        caller.say(frames({hello}));
      }
      if (early.header_bytes > 0) {
        caller.say(ConstBytes(frames({hello})).first(early.header_bytes));
      }
      if (early.message) {
        caller.say(frames({{.type = FrameKind::message, .number = 1, .tag = 1, .length = 100}}, 50));
      }
      bed.pass(100ms);
      EXPECT_EQ(bed[0].statistics().unexpected_bytes, early.lost > 0 && !early.posted ? 100U : 0U);
      resets ? caller.reset() : caller.release();
      bed.pass(1s);
      EXPECT_EQ(bed[0].statistics().lost, early.lost);
      EXPECT_EQ(bed[0].statistics().malformed, 0U);
      EXPECT_EQ(bed[0].statistics().unexpected_bytes, 0U);
      EXPECT_EQ(bed[0].statistics().unexpected_messages, 0U);
      EXPECT_FALSE(bed[0].probe({.ignore = any_bits}));
      if (early.posted) {
        EXPECT_EQ(bed[0].test(receive)->error, ECONNABORTED);
      }
      const WireCaller next(bed);
      const Handle after = *bed[0].post(buffer, {.bits = 2});
      next.say(frames({hello, {.type = FrameKind::message, .number = 1, .tag = 2, .length = 100}}, 100));
      EXPECT_EQ(bed[0].wait(after, bed.soon())->bytes, 100U);
      bed.close_all();
    }
  }
}

// ---- Connections that the endpoint makes ----

enum class CalledState : std::uint8_t {
  idle,     // the answer to message 1 has come
  leaving,  // message 2 has left in part
  left,     // messages 2 and 3 have left
};

std::vector<BadFrame> bad_answers_in(CalledState state) {
  const auto answer = [](FrameKind type, std::uint64_t number) { return frames({{.type = type, .number = number}}); };
  const MsgFrame good{.type = FrameKind::done, .number = 2};
  std::vector<BadFrame> all = {{"no magic", spoiled(good, 0, 0)},
                               {"another version", spoiled(good, 2, 2)},
                               {"no type", spoiled(good, 3, 9)},
                               {"a field that it does not have", spoiled(good, 31, 1)},
                               {"hello", frames({hello})},
                               {"a message", frames({{.type = FrameKind::message, .number = 2}})},
                               {"done 1 again", answer(FrameKind::done, 1)},
                               {"refused 1, too", answer(FrameKind::refused, 1)},
                               {"done of the last number", answer(FrameKind::done, ~std::uint64_t{0})}};
  if (state != CalledState::left) {
    all.push_back({"done 2, which has not left", answer(FrameKind::done, 2)});
    all.push_back({"refused 3, which has not begun", answer(FrameKind::refused, 3)});
  } else {
    all.push_back({"done 3 before 2", answer(FrameKind::done, 3)});
    all.push_back({"refused 3 before 2", answer(FrameKind::refused, 3)});
    all.push_back({"done 4", answer(FrameKind::done, 4)});
  }
  if (state == CalledState::idle) {
    all.push_back({"refused 2, which has not begun", answer(FrameKind::refused, 2)});
  }
  return all;
}

/// A message for which the endpoint makes a connection, and all that its peer should do.
void is_sent_and_answered(Bed& bed, WireCalled& called, std::uint64_t bits) {
  const auto bytes = content(1, 10);
  const Handle sending = *bed[0].send(WireCalled::address(), bits, bytes);
  called.accept();
  bed.pass(100ms);
  EXPECT_EQ(called.hear(), 2 * MsgFrame::size + bytes.size());
  called.say(frames({{.type = FrameKind::done, .number = 1}}));
  EXPECT_EQ(bed[0].wait(sending, bed.soon())->error, 0);
}

TEST_P(MsgBadPeers, AnAnswerThatDoesNotFitEndsTheConnectionAndTheNextMessageMakesAnother) {
  for (const CalledState state : {CalledState::idle, CalledState::leaving, CalledState::left}) {
    for (const BadFrame& bad : bad_answers_in(state)) {
      SCOPED_TRACE(bad.name + ", state " + std::to_string(static_cast<int>(state)));
      const auto bytes = content(1, state == CalledState::leaving ? 20'000'000 : 10);  // more than fits between the two
      Bed bed(arrangement(), 1);
      WireCalled called(bed);
      const auto small = content(1, 10);
      is_sent_and_answered(bed, called, 1);
      std::vector<Handle> sendings;
      if (state != CalledState::idle) {
        sendings.push_back(*bed[0].send(WireCalled::address(), 2, bytes));
        sendings.push_back(*bed[0].send(WireCalled::address(), 3, small));
      }
      bed.pass(100ms);
      called.say(bad.bytes);
      bed.pass(100ms);
      EXPECT_EQ(bed[0].statistics().malformed, 1U);
      for (const Handle sending : sendings) {
        const auto done = bed[0].test(sending);
        ASSERT_TRUE(done);
        EXPECT_EQ(done->error, EPROTO);
      }
      static_cast<void>(called.hear());
      EXPECT_EQ(called.ended(), ECONNRESET);
      is_sent_and_answered(bed, called, 4);
      bed.close_all();
    }
  }
}

// ---- Modules that say what is not so ----

using wire::message::Indication;

/// In the place of a message module and its provider.
class LyingModule : public Module {
 public:
  LyingModule() : Module("rmpp", Services::write) {}
  [[nodiscard]] bool is_driver() const override { return true; }
  void wput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      message.encode();
      if (message.type() == MessageType::ctl) {
        continue;
      }
      const auto primitive = wire::tpi::primitive_of(message.bytes());
      if (primitive == wire::tpi::T_BIND_REQ) {
        answer(wire::tpi::BindAck{wire::tpi::BindReq::decode(message.bytes())->address, 0});
      } else if (primitive == wire::tpi::T_UNITDATA_REQ) {
        requests.push_back(std::move(message));
      } else {
        answer(wire::tpi::InfoAck{.tsdu_size = 4096 + 16,
                                  .addr_size = 20,
                                  .opt_size = 0,
                                  .tidu_size = 4096,
                                  .current_state = wire::tpi::TS_UNBND});
      }
    }
  }
  void says(const Indication& said, std::size_t payload = 0) {
    std::vector<std::byte> bytes(Indication::size + payload, std::byte{0x77});
    said.store(bytes.data());
    says(bytes);
  }
  void says(const std::vector<std::byte>& bytes) {
    Message message = Message::of_native(set().pool(), unit(wire::DataUnit::Kind::transport_indication, 0));
    message.link(Message::copy_of(set().pool(), bytes));
    read_queue().put_next(std::move(message));
  }
  void fails(int error) {
    read_queue().put_next(Message::of_native(set().pool(), unit(wire::DataUnit::Kind::transport_error, error)));
  }
  [[nodiscard]] static Peer peer() { return {*wire::IpAddress::from_text("10.80.0.2"), 7000}; }
  std::vector<Message> requests;

 private:
  static wire::DataUnit unit(wire::DataUnit::Kind kind, int error) {
    return {.kind = kind, .peer = peer().address, .peer_port = peer().port, .error = error};
  }
  template <class Primitive>
  void answer(const Primitive& primitive) {
    read_queue().put_next(primitive_message(set().pool(), primitive, MessageType::pcproto));
  }
};

enum class InboundState : std::uint8_t { none, expected, held, refused, whole };
constexpr std::array inbound_states{InboundState::none, InboundState::expected, InboundState::held,
                                    InboundState::refused, InboundState::whole};

/// An endpoint over it. Message 7 of the peer, of 100 bytes, is in a state; message 6 of the endpoint's is sent.
class LiedTo {
 public:
  explicit LiedTo(InboundState state) : state_(state) {
    auto made = std::make_unique<LyingModule>();
    module = made.get();
    auto stream = std::move(*Stream::open(set_, std::move(made)));
    EXPECT_TRUE(stream->push(std::make_unique<Timod>()));
    endpoint = std::move(
        *Endpoint::open(std::move(stream), {.local = Peer{*wire::IpAddress::from_text("10.80.0.1"), 7000},
                                            .unexpected_bytes_max = state == InboundState::refused ? 99U : 100U}));
    if (state == InboundState::expected) {
      receive_ = *endpoint->post(buffer_, {.bits = 3});
    }
    if (state != InboundState::none) {
      module->says(first(), 50);
      endpoint->progress();
    }
    if (state == InboundState::whole) {
      finish();
    }
  }
  [[nodiscard]] static Indication first() {
    return {.kind = Indication::Kind::payload, .incarnation = 1, .number = 7, .tag = 3, .total_bytes = 100};
  }
  [[nodiscard]] static Indication of(Indication::Kind kind) {
    Indication said = first();
    said.kind = kind;
    return said;
  }
  void progress() {
    while (endpoint->progress()) {
    }
  }
  /// What is held, and how far it is.
  [[nodiscard]] std::string has() const {
    const msg::Statistics& now = endpoint->statistics();
    const auto shown = endpoint->probe({.ignore = any_bits});
    return std::to_string(now.unexpected_bytes) + " bytes in " + std::to_string(now.unexpected_messages) +
           " messages, lost " + std::to_string(now.lost) + ", refused " + std::to_string(now.refused) +
           (shown ? shown->whole ? ", whole" : ", begun" : "") + ", broken " + std::to_string(endpoint->broken());
  }
  /// The rest comes, as it should.
  void go_on() {
    if (state_ == InboundState::none) {
      module->says(first(), 50);
      progress();
    }
    if (state_ != InboundState::whole) {
      finish();
    }
    if (state_ == InboundState::refused) {
      EXPECT_EQ(endpoint->statistics().refused, 1U);
      return;
    }
    if (state_ != InboundState::expected) {
      receive_ = *endpoint->post(buffer_, {.bits = 3});
    }
    const auto done = endpoint->test(receive_);
    ASSERT_TRUE(done);
    EXPECT_EQ(done->error, 0);
    EXPECT_EQ(done->bytes, 100U);
    EXPECT_TRUE(buffer_ == std::vector<std::byte>(100, std::byte{0x77}));
  }

 private:
  StreamSet set_;

 public:
  LyingModule* module = nullptr;
  std::unique_ptr<Endpoint> endpoint;

 private:
  void finish() {
    Indication rest = first();
    rest.offset = 50;
    module->says(rest, 50);
    module->says(of(Indication::Kind::received));
    progress();
  }

  InboundState state_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(100);
  Handle receive_;
};

struct Lie {
  std::string name;
  std::function<void(LiedTo&)> say;
  std::uint32_t states = 0x1f;  // bit i: inbound_states[i]
};

std::vector<Lie> lies_of_a_module() {
  using Kind = Indication::Kind;
  std::vector<Lie> all;
  const auto add = [&all](std::string name, Indication said, std::size_t payload, std::uint32_t states) {
    all.push_back({std::move(name), [said, payload](LiedTo& scene) { scene.module->says(said, payload); }, states});
  };
  constexpr std::uint32_t any = 0x1f;
  constexpr std::uint32_t on_its_way = 0b01110;  // expected, held, refused
  constexpr std::uint32_t not_on_its_way = 0b10001;
  for (const Kind kind : {Kind::received, Kind::lost}) {
    Indication said = LiedTo::of(kind);
    add("the end of a message that is not on its way", said, 0, not_on_its_way);
    said.number = 8;
    add("the end of another message", said, 0, any);
    said = LiedTo::of(kind);
    said.incarnation = 2;
    add("the end of another process's message", said, 0, any);
  }
  for (const Kind kind : {Kind::sent, Kind::failed}) {
    Indication said = LiedTo::of(kind);
    said.handle = 999;
    add("what became of a message that was never sent", said, 0, any);
    said.handle = 0;
    add("what became of a message without a handle", said, 0, any);
  }
  Indication payload = LiedTo::first();
  payload.offset = 51;
  add("payload beyond the message", payload, 50, on_its_way);
  payload.offset = 101;
  add("payload that begins beyond the message", payload, 0, on_its_way);
  payload.offset = ~std::uint64_t{0};
  add("payload at the last offset", payload, 50, on_its_way);
  payload.offset = 50;
  payload.total_bytes = 10'000;  // what was said first counts
  add("payload beyond the message, with another total", payload, 60, on_its_way);
  all.push_back({"no kind of indication", [](LiedTo& scene) {
                   std::vector<std::byte> bytes(Indication::size);
                   LiedTo::first().store(bytes.data());
                   bytes[0] = bytes[3] = std::byte{9};
                   scene.module->says(bytes);
                 }});
  all.push_back({"too short for an indication",
                 [](LiedTo& scene) { scene.module->says(std::vector<std::byte>(Indication::size - 1)); }});
  all.push_back({"no bytes", [](LiedTo& scene) { scene.module->says(std::vector<std::byte>{}); }});
  all.push_back({"an error of what was not asked for", [](LiedTo& scene) { scene.module->fails(ENOBUFS); }});
  return all;
}

TEST(MsgLyingModule, WhatIsNotSoIsStrayAndChangesNothing) {
  for (std::size_t at = 0; at < inbound_states.size(); ++at) {
    for (const Lie& lie : lies_of_a_module()) {
      if ((lie.states >> at & 1) == 0) {
        continue;
      }
      SCOPED_TRACE(lie.name + ", state " + std::to_string(at));
      LiedTo scene(inbound_states[at]);
      const std::string before = scene.has();
      for (std::uint64_t repeated = 1; repeated <= 2; ++repeated) {
        lie.say(scene);
        scene.progress();
        EXPECT_EQ(scene.endpoint->statistics().stray, repeated);
        EXPECT_EQ(scene.has(), before);
      }
      scene.go_on();
    }
  }
}

// Of a message that has been sent the end is told once.
TEST(MsgLyingModule, ASendEndsOnce) {
  for (const bool error_first : {false, true}) {
    LiedTo scene(InboundState::none);
    const std::vector<std::byte> bytes(10);
    const Handle sending = *scene.endpoint->send(LyingModule::peer(), 1, bytes);
    const Handle next = *scene.endpoint->send(LyingModule::peer(), 2, bytes);
    ASSERT_EQ(scene.module->requests.size(), 1U);
    Indication sent = LiedTo::of(Indication::Kind::sent);
    sent.handle = next.value;  // it has not left
    scene.module->says(sent);
    scene.progress();
    EXPECT_EQ(scene.endpoint->statistics().stray, 1U);
    sent.handle = sending.value;
    error_first ? scene.module->fails(EMSGSIZE) : scene.module->says(sent);
    scene.progress();
    EXPECT_EQ(scene.module->requests.size(), 2U);
    scene.module->says(sent);  // again, while the next one is with the module
    scene.progress();
    EXPECT_EQ(scene.endpoint->statistics().stray, 2U);
    scene.module->requests.clear();
    EXPECT_EQ(scene.endpoint->test(sending)->error, error_first ? EMSGSIZE : 0);
    EXPECT_EQ(scene.endpoint->test(next).error().code, EAGAIN);
    sent.handle = next.value;
    scene.module->says(sent);
    scene.progress();
    EXPECT_EQ(scene.endpoint->test(next)->error, 0);
  }
}

}  // namespace
}  // namespace sluice::test::msgs
