// SPDX-License-Identifier: Apache-2.0

// tcp: the connections of a stream. One is its user's; callers wait to be accepted where it listens; those that both
// ends have released linger until the last of them has been acknowledged.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "stack/core/primitive.h"
#include "stack/core/stream_set.h"
#include "stack/modules/siphash.h"
#include "stack/modules/tcp.h"

namespace sluice {

using namespace wire::tpi;  // the primitives and their numbers

tcp::Held::Held(Tcp& first_owner, const Ends& ends, const Connection::Settings& settings,
                const Connection::Secrets& secrets)
    : owner(&first_owner),
      connection(first_owner.set().pool(), ends, settings, secrets),
      timer(first_owner.set().scheduler(), [this] { owner->on_timer(*this); }) {}

/// RFC 6528 section 3: "ISN = M + F(localip, localport, remoteip, remoteport, secretkey)", where M "is the 4
/// microsecond timer"; so RFC 7323 section 5.4 would have timestamps begin. The key is the set's: the same ends may be
/// another stream's the next time, and a peer in TIME-WAIT compares its numbers with the last ones (RFC 6191).
tcp::Connection::Secrets Tcp::secrets_of(const tcp::Ends& ends) const {
  std::array<std::byte, 2 * wire::TransportAddress::encoded_size_max> bytes{};
  const std::size_t local_size = ends.local.encode(bytes);
  const std::size_t remote_size = ends.remote.encode(Bytes(bytes).subspan(local_size));
  const auto& [key0, key1] = set().secret();
  const std::uint64_t hash = siphash(key0, key1, ConstBytes(bytes).first(local_size + remote_size));
  const auto ticks = std::chrono::duration_cast<std::chrono::microseconds>(set().now().time_since_epoch()).count() / 4;
  return {.first_sequence_number = static_cast<std::uint32_t>(hash) + static_cast<std::uint32_t>(ticks),
          .timestamp_offset = static_cast<std::uint32_t>(hash >> 32)};
}

std::unique_ptr<Tcp::Held> Tcp::make_connection(const tcp::Ends& ends, const wire::network::RouteAck& route,
                                                const tcp::Connection::Secrets& secrets) {
  return std::make_unique<Held>(
      *this, ends,
      tcp::Connection::Settings{.send_buffer_bytes = buffers_.send_buffer_bytes,
                                .receive_buffer_bytes = buffers_.receive_buffer_bytes,
                                .segment_bytes = segment_bytes_of(ends.remote.address, route.mtu),
                                .no_delay = no_delay_,
                                .together_bytes = together_bytes_of(route)},
      secrets);
}

void Tcp::set_connection(std::unique_ptr<Held> held) {
  mine_ = std::move(held);
  mine_->owner = this;
  end_came_ = mine_->ended;
  mine_->connection.bound_receive_buffer(buffers_.receive_buffer_bytes);
  apply_options();
  set_local_address(mine_->connection.ends().local);
  set_remote_address(mine_->connection.ends().remote);
}

/// To the stream's connection. REQUIRES: there is one.
void Tcp::apply_options() {
  tcp::Connection& connection = mine_->connection;
  connection.set_no_delay(no_delay_);
  connection.set_keep_alive({.after = std::chrono::seconds(keeps_alive_ ? keep_idle_seconds_ : 0),
                             .pause = std::chrono::seconds(keep_interval_seconds_),
                             .probes_max = keep_count_},
                            set().now());
  connection.set_buffers(buffers_.send_buffer_bytes, buffers_.receive_buffer_bytes, set().now());
}

// ---- What comes of them ----

void Tcp::on_timer(Held& held) {
  const Entered entered(*this, Entered::By::timer);
  held.connection.on_timer(set().now());
  attend(held);
}

/// Sends what a connection has to send, and watches its time.
void Tcp::flush(Held& held) {
  Batch segments = held.connection.take_segments();
  Batch requests;
  while (Message segment = segments.pop()) {
    if (Message request = request_of(held.connection.ends(), std::move(segment))) {
      requests.push(std::move(request));
    }
  }
  const tcp::Connection::Statistics now = held.connection.statistics();
  const tcp::Connection::Statistics before = std::exchange(held.counted, now);
  segments_sent_ += now.segments_sent - before.segments_sent;
  segments_again_ += now.segments_again - before.segments_again;
  timeouts_ += now.timeouts - before.timeouts;
  challenges_ += now.challenges - before.challenges;
  unacceptable_ += now.unacceptable - before.unacceptable;
  no_memory_ += now.no_memory - before.no_memory;
  const TimePoint deadline = held.connection.next_deadline();
  if (deadline == never) {
    held.timer.cancel();
  } else {
    held.timer.arm(deadline);
  }
  if (!requests.empty()) {
    write_queue().put_next(std::move(requests));  // which may come back here
  }
}

bool Tcp::has(const Held& held) const {
  const auto is_it = [&](const auto& one) { return one.get() == &held; };
  return is_it(mine_) || std::ranges::any_of(lingering_, is_it) ||
         std::ranges::any_of(callers_, [&](const Caller& one) { return is_it(one.held); });
}

/// After everything that happens to a connection.
void Tcp::attend(Held& held) {
  flush(held);
  if (mine_.get() == &held) {
    return news_of_mine();
  }
  const auto calling = std::ranges::find_if(callers_, [&](const Caller& one) { return one.held.get() == &held; });
  if (calling != callers_.end()) {
    return news_of_caller(*calling);
  }
  if (has(held)) {
    news_of_lingering(held);
  }
}

/// Of the segments that come in one batch, each connection is attended to once: what it acknowledges leaves together,
/// and what it has for its user goes up together.
void Tcp::touch(Held& held) {
  if (!held.touched) {
    held.touched = true;
    touched_.push_back(&held);
  }
}

void Tcp::untouch(Held& held) {
  if (held.touched) {
    held.touched = false;
    std::erase(touched_, &held);
  }
}

void Tcp::attend_touched() {
  const Entered entered(*this);
  while (!touched_.empty()) {
    Held& held = *touched_.front();
    untouch(held);
    held.connection.settle(set().now());
    attend(held);
  }
}

void Tcp::news_of_caller(Caller& calling) {
  const tcp::Connection::News news = calling.held->connection.take_news();
  calling.opened = calling.opened || news.opened;
  calling.held->ended = calling.held->ended || news.ended;  // who accepts it is told
  if (!news.closed) {
    return indicate_callers();
  }
  const auto sequence = calling.sequence;
  std::unique_ptr<Held> gone = std::move(calling.held);
  std::erase_if(callers_, [](const Caller& one) { return one.held == nullptr; });
  drop(std::move(gone));
  if (sequence) {
    ++withdrawn_;
    indicate_withdrawal(ECONNRESET, *sequence);
  }
  indicate_callers();
}

void Tcp::drop(std::unique_ptr<Held> held) {
  untouch(*held);
  held->timer.cancel();
  ConnectionEndpoint::drop(std::move(held));
}

void Tcp::abort(std::unique_ptr<Held> held) {
  held->connection.abort();
  flush(*held);
  drop(std::move(held));
}

// ---- Callers ----

/// REQUIRES: its indication is outstanding.
std::unique_ptr<Tcp::Held> Tcp::take_caller(std::int32_t sequence) {
  const auto chosen = std::ranges::find(callers_, std::optional(sequence), &Caller::sequence);
  std::unique_ptr<Held> held = std::move(chosen->held);
  callers_.erase(chosen);
  if (held->touched) {
    untouch(*held);
    held->connection.settle(set().now());
  }
  return held;
}

void Tcp::refuse_caller(std::int32_t sequence) { abort(take_caller(sequence)); }

std::optional<Tcp::Indication> Tcp::next_caller() {
  const auto next = std::ranges::find_if(callers_, [](const Caller& one) { return one.opened && !one.sequence; });
  if (next == callers_.end()) {
    return std::nullopt;
  }
  ++connections_;
  next->sequence = new_sequence();
  return Indication{.source = next->held->connection.ends().remote, .sequence = *next->sequence};
}

void Tcp::drop_callers() {
  std::vector<Caller> callers = std::move(callers_);
  callers_.clear();
  for (Caller& one : callers) {
    rejected_ += one.opened ? 1U : 0U;
    abort(std::move(one.held));
  }
}

// ---- Accepting on another stream ----

/// A connection that another stream has accepted for this one. Until the driver gives this one what comes, that one
/// passes it on.
void Tcp::take_over(std::unique_ptr<Held> held, Tcp& from) {
  const Entered entered(*this);
  const tcp::Ends ends = held->connection.ends();
  adopted();
  set_connection(std::move(held));
  adopted_from_ = from.acceptor_id();
  take_connection(local_address());
  mine_->connection.set_together(together_bytes_of(route(ends.remote.address).value_or(wire::network::RouteAck{})));
  purpose_ = Purpose::adoption;
  port_->bind_connection(ends.local, ends.remote);
  if (mine_) {
    attend(*mine_);
  }
}

/// The driver has said that it gives this stream what comes, or has given it something: nothing is passed on any more.
void Tcp::adopted() {
  auto* const from = dynamic_cast<Tcp*>(set().module_handles().find(std::exchange(adopted_from_, 0)));
  if (from != nullptr) {
    const std::uint32_t number = acceptor_id();
    std::erase_if(from->handed_, [&](const Handed& one) { return one.acceptor == number; });
  }
}

Tcp::Held* Tcp::find(const tcp::Ends& ends) {
  const auto has_them = [&](const auto& held) { return held && held->connection.ends() == ends; };
  if (has_them(mine_)) {
    return mine_.get();
  }
  for (const Caller& one : callers_) {
    if (has_them(one.held)) {
      return one.held.get();
    }
  }
  for (const auto& one : lingering_) {
    if (has_them(one)) {
      return one.get();
    }
  }
  return nullptr;
}

}  // namespace sluice
