// SPDX-License-Identifier: Apache-2.0
// An endpoint of the message library over connections, of our own TCP in simulated time, among strangers: such as call
// it, and one that it calls, which may say anything. The first byte sets the bounds; then each eight bytes are a step:
// a stranger calls, says a frame of fields out of a small range, with its payload or a part of it, or bytes as they
// are, answers, ends or resets its connection; the endpoint's user posts, sends or cancels; time passes, beyond the one
// for hello, too.
//
// Nothing may be held beyond the bounds; what is done is done as its receive allows; while nobody has lied, what has
// arrived is what was sent; and nothing is left in the end.
#include <algorithm>
#include <array>
#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/common/registry.h"
#include "base/contract.h"
#include "msg/endpoint.h"
#include "stack/head/stack_file.h"
#include "stack/wire/msg_frame.h"
#include "tests/stack/head/simulated_waiter.h"
#include "tli/endpoint.h"

namespace {

using namespace sluice;
using namespace std::chrono_literals;
using wire::MsgFrame;
using wire::TransportAddress;
using Octets = std::vector<std::byte>;

constexpr std::string_view stacks = R"(
[stack.tested]
driver = { kind = "wire", name = "fuzz", end = "a" }
push   = ["ip", "tcp", "timod"]
ip     = { address = "10.80.0.1/24" }

[stack.strange]
driver = { kind = "wire", name = "fuzz", end = "b" }
push   = ["ip", "tcp", "timod"]
ip     = { address = "10.80.0.2/24" }
)";

constexpr TransportAddress tested_address{wire::Ipv4Address{{10, 80, 0, 1}}, 7000};
constexpr TransportAddress strange_address{wire::Ipv4Address{{10, 80, 0, 2}}, 7000};
constexpr std::uint64_t message_bytes_max = 2000;
constexpr std::size_t strangers_max = 6;
constexpr int turns_max = 64;

const StackDeclaration& declared(std::string_view name) {
  static const Registry registry = standard_registry();
  static const StackFile file = *StackFile::parse(stacks, "fuzz", registry);
  return **file.find(name);
}

std::byte byte_of(std::uint64_t tag, std::uint64_t offset) {
  return static_cast<std::byte>((tag * 7 + offset * 131 + (offset >> 8)) & 0xff);
}

/// What the endpoint sends: it may be shown by the wire until the stream set ends.
ConstBytes sent_bytes(std::size_t size) {
  static const std::array<std::byte, 256> bytes{};
  return ConstBytes(bytes).first(size);
}

class Game {
 public:
  explicit Game(unsigned bounds)
      : options_{.local = tested_address,
                 .unexpected_bytes_max = bounds * std::size_t{16},
                 .unexpected_messages_max = 1 + bounds % 4U,
                 .receives_max = 8,
                 .sends_max = 8,
                 .another_stream = [this] { return open("tested"); },
                 .connections_max = 1 + bounds % 3U,
                 .calls_max = 3,
                 .connection_message_bytes_max = message_bytes_max},
        endpoint_(std::move(*msg::Endpoint::open(std::move(*open("tested")), options_))),
        listener_(bound(strange_address, 4)) {}

  ~Game() {
    strangers_.clear();
    listener_.reset();
    run();
    endpoint_.reset();
    pass(300s);
    SLUICE_REQUIRE(set_.pool().statistics().buffers_in_use == 0);
  }
  Game(const Game&) = delete;
  Game& operator=(const Game&) = delete;

  void step(std::span<const std::uint8_t, 8> at) {
    switch (at[0] % 12) {
      case 0:
        return call();
      case 1:
      case 2:
      case 3:
        return say_frame(at);
      case 4:
        honest_ = false;
        return say(stranger(at[1]), std::as_bytes(at.subspan(2)));
      case 5:
        if (tli::Endpoint* const one = stranger(at[1])) {
          static_cast<void>((at[2] & 1) != 0 ? one->t_snddis(nullptr) : one->t_sndrel());
        }
        return;
      case 6:
      case 7:
        return post(at);
      case 8:
        if (const auto sending = endpoint_->send(strange_address, at[1], sent_bytes(at[2]))) {
          sends_.push_back(*sending);
        }
        return;
      case 9:
        return cancel((at[1] & 1) != 0);
      case 10:
        return pass(std::chrono::milliseconds(at[1] * 100));
      default:
        return answer(at);
    }
  }

  /// What there is to do, a bounded amount of it.
  void run() {
    for (int turn = 0; turn < turns_max; ++turn) {
      bool moved = endpoint_ && endpoint_->progress();
      if (listener_) {
        moved |= attend(*listener_);
      }
      for (const auto& one : strangers_) {
        moved |= attend(*one);
      }
      moved |= waiter_.wait(waiter_.now() + 1ms);
      if (!moved) {
        break;
      }
    }
  }

  void check() {
    const msg::Statistics& now = endpoint_->statistics();
    SLUICE_REQUIRE(now.unexpected_bytes <= options_.unexpected_bytes_max);
    SLUICE_REQUIRE(now.unexpected_messages <= options_.unexpected_messages_max);
    SLUICE_REQUIRE(now.stray == 0);
    SLUICE_REQUIRE(!honest_ || now.malformed == 0 || waiter_.now() >= TimePoint(10s));  // that long to say hello
    std::erase_if(sends_, [this](msg::Handle handle) { return endpoint_->test(handle).has_value(); });
    std::erase_if(receives_, [this](const Receive& receive) {
      const auto done = endpoint_->test(receive.handle);
      if (done) {
        check(receive, *done);
      }
      return done.has_value();
    });
  }

 private:
  struct Receive {
    msg::Handle handle;
    Octets buffer;
  };

  void check(const Receive& receive, const msg::Completion& done) const {
    SLUICE_REQUIRE(done.bytes <= receive.buffer.size() && done.total_bytes <= message_bytes_max);
    SLUICE_REQUIRE(done.error == 0 || done.error == EMSGSIZE || done.error == ECONNABORTED);
    SLUICE_REQUIRE(done.peer.address == strange_address.address);
    if (done.error == ECONNABORTED) {
      return;
    }
    SLUICE_REQUIRE((done.error == EMSGSIZE) == (done.total_bytes > receive.buffer.size()));
    SLUICE_REQUIRE(done.bytes == std::min<std::uint64_t>(receive.buffer.size(), done.total_bytes));
    for (std::size_t offset = 0; honest_ && offset < done.bytes; ++offset) {
      SLUICE_REQUIRE(receive.buffer[offset] == byte_of(done.bits, offset));
    }
  }

  Result<std::unique_ptr<Stream>> open(std::string_view name) {
    auto stream = open_stack(set_, declared(name));
    (*stream)->set_waiter(&waiter_);
    return stream;
  }
  std::unique_ptr<tli::Endpoint> bound(const TransportAddress& to, std::uint32_t qlen) {
    auto made = std::move(*tli::Endpoint::t_open(std::move(*open("strange")), nullptr));
    made->stream().set_nonblocking(true);
    std::array<std::byte, TransportAddress::encoded_size_max> address;
    const tli::t_bind bind{.addr = {.maxlen = 0, .len = to.encode(address), .buf = address.data()}, .qlen = qlen};
    SLUICE_REQUIRE(made->t_bind(&bind, nullptr).has_value());
    return made;
  }

  tli::Endpoint* stranger(unsigned which) const {
    return strangers_.empty() ? nullptr : strangers_[which % strangers_.size()].get();
  }

  void call() {
    if (strangers_.size() == strangers_max) {
      strangers_.erase(strangers_.begin());
      honest_ = false;  // perhaps in the middle of a message
    }
    strangers_.push_back(bound({strange_address.address, 0}, 0));
    said_[strangers_.back().get()] = 0;  // whoever had this place in memory before
    std::array<std::byte, TransportAddress::encoded_size_max> address;
    const tli::t_call to{
        .addr = {.maxlen = 0, .len = tested_address.encode(address), .buf = address.data()}, .opt = {}, .udata = {}};
    static_cast<void>(strangers_.back()->t_connect(to, nullptr));
  }

  void say(tli::Endpoint* one, ConstBytes bytes) {
    const auto sent = one == nullptr ? tli::Outcome<std::size_t>(0) : one->t_snd(bytes, 0);
    honest_ = honest_ && sent && *sent == bytes.size();
  }

  /// A caller's frame. It is an honest one if it is the first, hello, or the next message, with all of its payload.
  void say_frame(std::span<const std::uint8_t, 8> at) {
    if (strangers_.empty()) {
      return;
    }
    const std::size_t which = at[1] % strangers_.size();
    tli::Endpoint* const one = strangers_[which].get();
    std::uint64_t& said = said_[one];  // frames
    const bool hello = said == 0 ? (at[2] & 15) != 1 : (at[2] & 15) == 1;
    MsgFrame frame{.type = hello ? MsgFrame::Type::hello : MsgFrame::Type::message};
    if (hello) {
      frame.port = static_cast<std::uint16_t>(7000 + at[3] % 2U);
      honest_ = honest_ && said == 0;
    } else {
      frame.number = (at[2] & 16) != 0 ? at[3] % 4U : said;
      frame.tag = at[4] % 4U;
      frame.length = (at[2] & 0xe0) == 0xe0 ? ~std::uint64_t{0} - at[5] : at[5] * std::uint64_t{8};
      honest_ = honest_ && said > 0 && frame.number == said && frame.length <= message_bytes_max;
    }
    Octets bytes(MsgFrame::size);
    frame.emit(bytes);
    const bool part = (at[2] & 0xe0) == 0xc0;
    const std::size_t payload = std::min<std::uint64_t>(part ? at[6] : frame.length, message_bytes_max);
    honest_ = honest_ && payload == frame.length;
    for (std::size_t offset = 0; offset < payload; ++offset) {
      bytes.push_back(byte_of(frame.tag, offset));
    }
    ++said;
    say(one, bytes);
  }

  /// The called says what has become of a message, or what is no answer.
  void answer(std::span<const std::uint8_t, 8> at) {
    constexpr std::array types = {MsgFrame::Type::done, MsgFrame::Type::refused, MsgFrame::Type::message,
                                  MsgFrame::Type::hello};
    Octets bytes(MsgFrame::size);
    MsgFrame{.type = types[at[2] % types.size()], .port = at[3], .number = at[3]}.emit(bytes);
    honest_ = false;
    say(stranger(at[1]), bytes);
  }

  void post(std::span<const std::uint8_t, 8> at) {
    Octets buffer(at[2] * std::size_t{8});
    const Bytes place = buffer;
    const msg::Match match{.bits = at[3] % 4U, .ignore = at[4] % 4U, .from = {}};
    const auto handle = endpoint_->post(place, match);
    SLUICE_REQUIRE(handle.has_value() || receives_.size() == options_.receives_max);
    if (handle) {
      receives_.push_back({*handle, std::move(buffer)});
    }
  }

  void cancel(bool receive) {
    if (receive && !receives_.empty() && endpoint_->cancel(receives_.front().handle)) {
      receives_.pop_front();
    } else if (!receive && !sends_.empty() && endpoint_->cancel(sends_.back())) {
      sends_.pop_back();
    }
  }

  void pass(Duration time) {
    const TimePoint end = waiter_.now() + time;
    for (int turn = 0; turn < turns_max && waiter_.now() < end; ++turn) {
      static_cast<void>(waiter_.wait(end));
      run();
    }
  }

  /// A stranger takes what comes, and the listening one whoever calls.
  bool attend(tli::Endpoint& one) {
    const auto event = one.t_look();
    if (!event || *event == 0) {
      return false;
    }
    switch (*event) {
      case tli::T_LISTEN:
        accept();
        break;
      case tli::T_CONNECT:
        static_cast<void>(one.t_rcvconnect(nullptr));
        break;
      case tli::T_DATA: {
        std::array<std::byte, 4096> place;
        int flags = 0;
        static_cast<void>(one.t_rcv(place, flags));
        break;
      }
      case tli::T_ORDREL:
        static_cast<void>(one.t_rcvrel());
        break;
      default:
        static_cast<void>(one.t_rcvdis(nullptr));
    }
    return true;
  }

  void accept() {
    std::array<std::byte, TransportAddress::encoded_size_max> address;
    tli::t_call call{.addr = {.maxlen = address.size(), .len = 0, .buf = address.data()}, .opt = {}, .udata = {}};
    if (!listener_->t_listen(call)) {
      return;
    }
    auto made = std::move(*tli::Endpoint::t_open(std::move(*open("strange")), nullptr));
    made->stream().set_nonblocking(true);
    if (strangers_.size() < strangers_max && listener_->t_accept(*made, call)) {
      strangers_.push_back(std::move(made));
      said_[strangers_.back().get()] = 0;
      honest_ = false;  // it may be made to speak as a caller does
    } else {
      static_cast<void>(listener_->t_snddis(&call));
    }
  }

  StreamSet set_{{.seed = 1}};
  test::SimulatedWaiter waiter_{set_};
  const msg::Options options_;
  std::list<Receive> receives_;  // their buffers outlive the endpoint
  std::vector<msg::Handle> sends_;
  std::unique_ptr<msg::Endpoint> endpoint_;
  std::unique_ptr<tli::Endpoint> listener_;
  std::vector<std::unique_ptr<tli::Endpoint>> strangers_;
  std::map<const tli::Endpoint*, std::uint64_t> said_;
  bool honest_ = true;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 1024) {
    return 0;
  }
  Game game(data[0]);
  for (const std::uint8_t* at = data + 1; at + 8 <= data + size; at += 8) {
    game.step(std::span<const std::uint8_t, 8>(at, 8));
    game.run();
    game.check();
  }
  return 0;
}
