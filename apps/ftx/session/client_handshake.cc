// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/client_handshake.h"

#include <algorithm>
#include <utility>

#include "base/contract.h"
#include "base/prng.h"

namespace sluice::ftx {
namespace {

using std::chrono::milliseconds;

constexpr Duration repeat_first = milliseconds(250);
constexpr Duration repeat_max = milliseconds(500);
// A segment is sent again after twice the round trip of HELLO and COOKIE, which the server's work does not delay.
constexpr Duration segment_repeat_min = milliseconds(50);
constexpr Duration segment_repeat_max = ControlStream::interval_max;

constexpr std::string_view label = "EXPERIMENTAL ftx2 session";

std::uint64_t nanoseconds(TimePoint time) { return static_cast<std::uint64_t>(time.time_since_epoch().count()); }

}  // namespace

Result<Protection> protection_of(const Handshake& handshake, Cipher cipher, Side side) {
  const std::array<std::byte, 1> context{static_cast<std::byte>(cipher)};
  auto secret = handshake.export_secret(label, context);
  if (!secret) {
    return std::unexpected(secret.error());
  }
  return Protection::create(KeySchedule(*std::move(secret)), cipher, side);
}

ClientHandshake::ClientHandshake(TimePoint now, ClientHandshakeOptions options, Handshake handshake)
    : options_(std::move(options)),
      handshake_(std::move(handshake)),
      started_at_(now),
      repeat_at_(now),
      repeat_interval_(repeat_first),
      adu_bytes_(adu_bytes_for(options_.tsdu_bytes, true)) {
  SLUICE_REQUIRE(adu_bytes_ > 0);
  Prng prng(options_.seed);
  envelope_.transfer = 1;
  envelope_.connection = prng();
}

// --- What comes in -------------------------------------------------------------------------------------------------

void ClientHandshake::receive(TimePoint now, ConstBytes datagram, const Peer& /*from*/) {
  const auto envelope = parse_envelope(datagram);
  const bool ours = envelope && !envelope->sealed() && envelope->connection == envelope_.connection &&
                    envelope->transfer == envelope_.transfer;
  if (ours && envelope->kind == Kind::cookie && state_ == State::greeting) {
    return on_cookie(now, datagram);
  }
  const bool shaking = state_ == State::shaking || state_ == State::settling;
  if (ours && envelope->kind == Kind::control && shaking) {
    return on_control(now, datagram);
  }
  if (ours && envelope->kind == Kind::error && shaking) {
    return on_error(datagram);
  }
  ++dropped_;
}

void ClientHandshake::on_cookie(TimePoint now, ConstBytes datagram) {
  const auto reply = parse_cookie(datagram);
  // The nonce is the time of one of our HELLOs, so it lies between the first and the last.
  const bool carries = reply && reply->adu_bytes >= adu_bytes_for(control_bytes_max, true);
  if (!carries || reply->nonce < nanoseconds(started_at_) || reply->nonce > nanoseconds(asked_at_)) {
    ++dropped_;
    return;
  }
  const Duration round_trip(static_cast<Duration::rep>(nanoseconds(now) - reply->nonce));
  stream_ = ControlStream(std::clamp<Duration>(2 * round_trip, segment_repeat_min, segment_repeat_max));
  adu_bytes_ = std::min(adu_bytes_, reply->adu_bytes);
  cookie_ = reply->cookie;
  state_ = State::shaking;
  advance();
}

void ClientHandshake::on_control(TimePoint now, ConstBytes datagram) {
  const auto control = parse_control(datagram);
  if (!control || !stream_.receive(now, *control)) {
    ++dropped_;
    return;
  }
  handshake_.accept(stream_.take_received());
  advance();
}

void ClientHandshake::advance() {
  const bool sent = stream_.send(handshake_.take_output());
  if (handshake_.state() == Handshake::State::failed) {
    refused_ = state_ == State::settling;
    return fail({refused_ ? ExitCode::not_allowed : ExitCode::protocol_error, handshake_.error()});
  }
  if (!sent) {
    return fail({ExitCode::internal, "the TLS handshake is longer than ftx allows"});
  }
  if (handshake_.state() == Handshake::State::in_progress) {
    return;
  }
  state_ = State::settling;
  if (!stream_.all_acknowledged()) {
    return;
  }
  auto protection = protection_of(handshake_, options_.cipher, Side::initiator);
  if (!protection) {
    return fail({ExitCode::internal, "the session's keys cannot be made: " + protection.error().text});
  }
  protection_ = *std::move(protection);
  state_ = State::complete;
}

void ClientHandshake::on_error(ConstBytes datagram) {
  const auto error = parse_error(datagram);
  if (!error) {
    ++dropped_;
    return;
  }
  const ExitCodeRow& row = failure_row(error->code);
  failure_ = {row.code, std::string(error->text.empty() ? row.meaning : error->text)};
  state_ = State::failed;
}

void ClientHandshake::unreachable(TimePoint /*now*/, const Peer& peer) {
  // Once a peer has answered, an ICMP message proves nothing: it may be forged or transient.
  if (state_ == State::greeting && peer == options_.peer) {
    failure_ = {ExitCode::no_answer, "connection refused: nothing listens there"};
    state_ = State::failed;
  }
}

void ClientHandshake::interrupt(TimePoint /*now*/) {
  if (!over()) {
    fail({ExitCode::interrupted, "interrupted"});
  }
}

/// The server is told, by what TLS has to say, once.
void ClientHandshake::fail(Failure failure) {
  failure_ = std::move(failure);
  state_ = state_ == State::greeting ? State::failed : State::failing;
}

// --- What goes out -------------------------------------------------------------------------------------------------

void ClientHandshake::transmit(TimePoint now, Burst& burst) {
  burst.clear();
  if (!over() && now - started_at_ >= options_.timeout) {
    const bool answered = state_ != State::greeting;
    failure_ = {answered ? ExitCode::timeout : ExitCode::no_answer,
                answered ? "the server fell silent during the handshake" : "no answer"};
    state_ = State::failed;
  }
  while (!over() && !burst.full()) {
    const Bytes out = burst.header_room();
    const std::size_t size = next(now, out);
    if (size == 0) {
      return;
    }
    burst.add({options_.peer, out.first(size), {}});
  }
}

std::size_t ClientHandshake::next(TimePoint now, Bytes out) {
  if (state_ == State::greeting) {
    if (now < repeat_at_) {
      return 0;
    }
    asked_at_ = now;
    repeat_at_ = now + repeat_interval_;
    repeat_interval_ = std::min(repeat_interval_ * 2, repeat_max);
    return emit_hello(envelope_, {nanoseconds(now), adu_bytes_for(options_.tsdu_bytes, true)}, out);
  }
  auto control = stream_.next(now);
  if (!control) {
    if (state_ == State::failing) {
      state_ = State::failed;
    }
    return 0;
  }
  control->cookie = cookie_;
  control->cipher = static_cast<std::uint8_t>(options_.cipher);
  return emit_control(envelope_, *control, out);
}

TimePoint ClientHandshake::next_deadline() const {
  if (over()) {
    return never;
  }
  if (state_ == State::failing) {
    return TimePoint::min();
  }
  return std::min(started_at_ + options_.timeout, state_ == State::greeting ? repeat_at_ : stream_.next_deadline());
}

}  // namespace sluice::ftx
