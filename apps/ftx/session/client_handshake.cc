// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/client_handshake.h"

#include <algorithm>
#include <utility>

#include "base/contract.h"
#include "base/prng.h"

namespace sluice::ftx {
namespace {

using std::chrono::milliseconds;

// A segment is sent again after twice the round trip of HELLO and COOKIE, which the server's work does not delay.
constexpr Duration segment_repeat_min = milliseconds(50);
constexpr Duration segment_repeat_max = ControlStream::interval_max;

constexpr std::string_view label = "EXPERIMENTAL ftx2 session";

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
      attempts_(now, options_.peer, options_.others),
      adu_bytes_(adu_bytes_for(options_.tsdu_bytes, true)) {
  SLUICE_REQUIRE(adu_bytes_ > 0);
  Prng prng(options_.seed);
  envelope_.connection = prng();
}

// --- What comes in -------------------------------------------------------------------------------------------------

void ClientHandshake::receive(TimePoint now, ConstBytes datagram, const Peer& from) {
  const auto envelope = parse_envelope(datagram);
  const bool ours = envelope && owns(*envelope);
  if (ours && envelope->kind == Kind::cookie && state_ == State::greeting) {
    return on_cookie(now, datagram, from);
  }
  const bool shaking = state_ == State::shaking;
  const bool listens = shaking || state_ == State::settling || (state_ == State::complete && !settled_);
  if (ours && envelope->kind == Kind::control && listens) {
    return on_control(now, datagram);
  }
  if (ours && envelope->kind == Kind::error && shaking) {
    return on_error(datagram);
  }
  ++dropped_;
}

void ClientHandshake::on_cookie(TimePoint now, ConstBytes datagram, const Peer& from) {
  const auto reply = parse_cookie(datagram);
  const auto peer = attempts_.answered(from);
  // The nonce is the time of one of our HELLOs, so it lies between the first and the last.
  const bool carries = reply && reply->adu_bytes >= adu_bytes_for(control_bytes_max, true);
  const bool asked = reply && reply->nonce >= nanoseconds(started_at_) && reply->nonce <= nanoseconds(asked_at_);
  if (!carries || !asked || !peer) {
    ++dropped_;
    return;
  }
  const Duration round_trip(static_cast<Duration::rep>(nanoseconds(now) - reply->nonce));
  stream_ = ControlStream(std::clamp<Duration>(2 * round_trip, segment_repeat_min, segment_repeat_max));
  adu_bytes_ = std::min(adu_bytes_, reply->adu_bytes);
  cookie_ = reply->cookie;
  options_.peer = *peer;
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
  if (handshake_.state() == Handshake::State::complete && !keyed_) {
    take_keys();
  }
  const bool sent = stream_.send(handshake_.take_output());
  if (state_ == State::failing) {
    return;
  }
  if (handshake_.state() == Handshake::State::failed) {
    refused_ = keyed_;
    return fail({refused_ ? ExitCode::not_allowed : ExitCode::protocol_error, handshake_.error()});
  }
  if (!sent) {
    return fail({ExitCode::internal, "the TLS handshake is longer than ftx allows"});
  }
  if (!keyed_) {
    return;
  }
  take_refusal();
  if (state_ == State::settling && stream_.all_acknowledged()) {
    state_ = State::complete;
  }
}

/// The server has proved who it is. What is wanted of it goes with the last flight.
void ClientHandshake::take_keys() {
  auto protection = protection_of(handshake_, options_.cipher, Side::initiator);
  if (!protection) {
    return fail({ExitCode::internal, "the session's keys cannot be made: " + protection.error().text});
  }
  if (options_.request) {
    const auto request = encode(*options_.request);
    SLUICE_REQUIRE(request.has_value());
    if (!handshake_.write(*request)) {
      return fail({ExitCode::internal, "OpenSSL does not send the request"});
    }
  }
  protection_ = *std::move(protection);
  keyed_ = true;
  state_ = State::settling;
}

void ClientHandshake::take_refusal() {
  const std::vector<std::byte> data = handshake_.take_data();
  refusal_.insert(refusal_.end(), data.begin(), data.end());
  if (refusal_.empty()) {
    return;
  }
  const auto message = parse_pull_message(refusal_);
  if (!message) {
    return fail({ExitCode::protocol_error, "the server broke the protocol: " + message.error()});
  }
  if (!*message) {
    return;
  }
  const auto* refusal = std::get_if<PullRefusal>(&**message);
  if (refusal == nullptr || !options_.request) {
    return fail({ExitCode::protocol_error, "the server broke the protocol: it answers what nobody asked"});
  }
  fail({refusal->code, refusal->text.empty() ? std::string(exit_code_row(refusal->code).meaning) : refusal->text});
}

void ClientHandshake::settle() {
  if (state_ == State::settling || state_ == State::complete) {
    state_ = State::complete;
    settled_ = true;
  }
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

void ClientHandshake::unreachable(TimePoint now, const Peer& peer) {
  // Once a peer has answered, an ICMP message proves nothing: it may be forged or transient.
  if (state_ == State::greeting && !attempts_.refused(now, peer)) {
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
  while (state_ != State::failed && !burst.full()) {
    Peer to;
    const Bytes out = burst.room();
    const std::size_t size = next(now, out, to);
    if (size == 0) {
      return;
    }
    burst.add({to, out.first(size), {}});
  }
}

std::size_t ClientHandshake::next_hello(TimePoint now, Bytes out, Peer& to) {
  const auto due = attempts_.next(now);
  if (!due) {
    return 0;
  }
  asked_at_ = now;
  to = *due;
  return emit_hello(envelope_, {nanoseconds(now), adu_bytes_for(options_.tsdu_bytes, true)}, out);
}

std::size_t ClientHandshake::next(TimePoint now, Bytes out, Peer& to) {
  if (state_ == State::greeting) {
    return next_hello(now, out, to);
  }
  auto control = settled_ ? std::nullopt : stream_.next(now);
  if (!control) {
    if (state_ == State::failing) {
      state_ = State::failed;
    }
    return 0;
  }
  to = options_.peer;
  control->cookie = cookie_;
  control->cipher = static_cast<std::uint8_t>(options_.cipher);
  return emit_control(envelope_, *control, out);
}

TimePoint ClientHandshake::next_deadline() const {
  if (state_ == State::failed) {
    return never;
  }
  if (state_ == State::failing) {
    return TimePoint::min();
  }
  if (state_ == State::complete) {
    return settled_ ? never : stream_.next_deadline();
  }
  return std::min(started_at_ + options_.timeout,
                  state_ == State::greeting ? attempts_.next_deadline() : stream_.next_deadline());
}

}  // namespace sluice::ftx
