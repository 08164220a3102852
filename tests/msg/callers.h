// SPDX-License-Identifier: Apache-2.0
#pragma once

// Those who call an endpoint, as docs/formats/msg.md says or not: frames, and a caller at the other end of a bed's
// wire.

#include <gtest/gtest.h>

#include <array>
#include <initializer_list>
#include <memory>
#include <vector>

#include "stack/wire/msg_frame.h"
#include "tests/msg/bed.h"
#include "tli/endpoint.h"

namespace sluice::test::msgs {

using wire::MsgFrame;
using FrameKind = MsgFrame::Type;

/// The frames, and so many bytes of payload.
inline std::vector<std::byte> frames(std::initializer_list<MsgFrame> list, std::size_t payload = 0) {
  std::vector<std::byte> bytes;
  for (const MsgFrame& frame : list) {
    bytes.resize(bytes.size() + MsgFrame::size);
    frame.emit(Bytes(bytes).last(MsgFrame::size));
  }
  bytes.resize(bytes.size() + payload);
  return bytes;
}

inline constexpr MsgFrame hello{.type = FrameKind::hello, .port = 7};

/// A caller at the other end of a bed's wire, in simulated time.
class WireCaller {
 public:
  explicit WireCaller(Bed& bed) {
    tli_ = std::move(*tli::Endpoint::t_open(std::move(*bed.open_stream(1)), nullptr));
    EXPECT_TRUE(tli_->t_bind(nullptr, nullptr));
    std::array<std::byte, Peer::encoded_size_max> to;
    const tli::t_call call{
        .addr = {.maxlen = 0, .len = bed.peer(0).encode(to), .buf = to.data()}, .opt = {}, .udata = {}};
    EXPECT_TRUE(tli_->t_connect(call, nullptr));
    tli_->stream().set_nonblocking(true);
  }
  void say(ConstBytes bytes) const { EXPECT_EQ(tli_->t_snd(bytes, 0), bytes.size()); }
  /// How many of the bytes have been taken; 0: none for now.
  [[nodiscard]] std::size_t try_to_say(ConstBytes bytes) const { return tli_->t_snd(bytes, 0).value_or(0); }
  /// How many bytes have come; 0: none for now.
  [[nodiscard]] std::size_t hear(Bytes place) const {
    int flags = 0;
    return tli_->t_rcv(place, flags).value_or(0);
  }
  /// 0, or the errno with which the connection has ended.
  [[nodiscard]] int ended() const { return ended_with(*tli_); }
  void reset() const { EXPECT_TRUE(tli_->t_snddis(nullptr)); }
  /// Says nothing more.
  void release() const { EXPECT_TRUE(tli_->t_sndrel()); }

  static int ended_with(tli::Endpoint& connection) {
    tli::t_discon why{};
    return connection.t_look() == tli::T_DISCONNECT && connection.t_rcvdis(&why) ? why.reason : 0;
  }

 private:
  std::unique_ptr<tli::Endpoint> tli_;
};

/// Who is called at the other end of a bed's wire: it accepts, and answers what the test says.
class WireCalled {
 public:
  explicit WireCalled(Bed& bed) : bed_(bed), listener_(opened()) {
    std::array<std::byte, Peer::encoded_size_max> bytes;
    const tli::t_bind bind{.addr = {.maxlen = 0, .len = address().encode(bytes), .buf = bytes.data()}, .qlen = 4};
    EXPECT_TRUE(listener_->t_bind(&bind, nullptr));
  }
  [[nodiscard]] static Peer address() { return {*wire::IpAddress::from_text("10.80.0.2"), 7009}; }
  /// Waits for a call, and takes it instead of the one before.
  void accept() {
    std::array<std::byte, Peer::encoded_size_max> address;
    tli::t_call call{.addr = {.maxlen = address.size(), .len = 0, .buf = address.data()}, .opt = {}, .udata = {}};
    for (int turn = 0; turn < 1000 && listener_->t_look() != tli::T_LISTEN; ++turn) {
      bed_.pass(10ms);
    }
    ASSERT_TRUE(listener_->t_listen(call));
    connection_ = opened();
    if (!listener_->t_accept(*connection_, call)) {  // `xtp`: on a stream that has an address
      EXPECT_TRUE(connection_->t_bind(nullptr, nullptr));
      ASSERT_TRUE(listener_->t_accept(*connection_, call));
    }
    bed_.pass(10ms);
  }
  void say(ConstBytes bytes) const { EXPECT_EQ(connection_->t_snd(bytes, 0), bytes.size()); }
  /// Reads what has come; how many bytes.
  [[nodiscard]] std::size_t hear() const {
    std::vector<std::byte> place(std::size_t{64} * 1024);
    std::size_t bytes = 0;
    int flags = 0;
    for (auto got = connection_->t_rcv(place, flags); got; got = connection_->t_rcv(place, flags)) {
      bytes += *got;
    }
    return bytes;
  }
  [[nodiscard]] int ended() const { return WireCaller::ended_with(*connection_); }

 private:
  [[nodiscard]] std::unique_ptr<tli::Endpoint> opened() const {
    auto made = std::move(*tli::Endpoint::t_open(std::move(*bed_.open_stream(1)), nullptr));
    made->stream().set_nonblocking(true);
    return made;
  }

  Bed& bed_;
  std::unique_ptr<tli::Endpoint> listener_;
  std::unique_ptr<tli::Endpoint> connection_;
};

}  // namespace sluice::test::msgs
