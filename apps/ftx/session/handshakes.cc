// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/handshakes.h"

#include <algorithm>
#include <utility>

#include "apps/ftx/protocol/name.h"
#include "apps/ftx/session/client_handshake.h"
#include "base/contract.h"

namespace sluice::ftx {

Handshakes::Entries::iterator Handshakes::find(const Peer& peer, std::uint64_t connection) {
  return std::ranges::find_if(entries_,
                              [&](const Entry& entry) { return entry.connection == connection && entry.peer == peer; });
}

bool Handshakes::knows(const Peer& peer, std::uint64_t connection) { return find(peer, connection) != entries_.end(); }

bool Handshakes::make_room(TimePoint now, const Peer& host) {
  const auto yields = [&](Entries::iterator oldest) {
    if (now - oldest->began_at < limits_.yields_after) {
      return false;
    }
    entries_.erase(oldest);
    ++displaced_;
    return true;
  };
  const auto of_host = [&](const Entry& entry) { return entry.host == host; };
  if (static_cast<std::size_t>(std::ranges::count_if(entries_, of_host)) >= limits_.per_host_max) {
    return yields(std::ranges::find_if(entries_, of_host));
  }
  if (entries_.size() < limits_.handshakes_max) {
    return true;
  }
  if (now - displaced_at_ < limits_.yields_after / limits_.handshakes_max) {
    return false;
  }
  // Who has proved himself gives way last.
  const auto unproven = std::ranges::find_if(entries_, [](const Entry& entry) { return !entry.protection; });
  if (!yields(unproven != entries_.end() ? unproven : entries_.begin())) {
    return false;
  }
  displaced_at_ = now;
  return true;
}

bool Handshakes::begin(TimePoint now, const Peer& peer, const Peer& host, std::uint64_t connection, Cipher cipher) {
  SLUICE_REQUIRE(!knows(peer, connection));
  if (!make_room(now, host)) {
    return false;
  }
  auto handshake = context_.begin();
  if (!handshake) {
    return false;
  }
  Entry& entry = entries_.emplace_back();
  entry.peer = peer;
  entry.host = host;
  entry.connection = connection;
  entry.cipher = cipher;
  entry.began_at = now;
  entry.until = now + limits_.timeout;
  entry.handshake = *std::move(handshake);
  next_ = TimePoint::min();
  return true;
}

bool Handshakes::receive(TimePoint now, const Peer& peer, std::uint64_t connection, const Control& control) {
  const auto entry = find(peer, connection);
  SLUICE_REQUIRE(entry != entries_.end());
  if (control.cipher != static_cast<std::uint8_t>(entry->cipher)) {
    return false;
  }
  next_ = TimePoint::min();
  const bool useful = entry->stream.receive(now, control);
  if (entry->handshake) {
    advance(now, *entry);
  } else if (entry->stream.all_acknowledged()) {
    entries_.erase(entry);  // it has heard the refusal
  }
  return useful;
}

void Handshakes::advance(TimePoint now, Entry& entry) {
  Handshake& handshake = *entry.handshake;
  const std::vector<std::byte> received = entry.stream.take_received();
  if (received.empty()) {
    return;
  }
  handshake.accept(received);
  if (!entry.stream.send(handshake.take_output())) {
    return refuse(entry, "its TLS handshake is longer than ftx allows");
  }
  if (handshake.state() == Handshake::State::failed) {
    return refuse(entry, handshake.error());
  }
  if (handshake.state() == Handshake::State::in_progress) {
    return;
  }
  if (!entry.protection) {
    take_keys(now, entry);
  }
  if (entry.protection) {
    take_message(entry);
  }
}

void Handshakes::take_keys(TimePoint now, Entry& entry) {
  auto protection = protection_of(*entry.handshake, entry.cipher, Side::responder);
  if (!protection) {
    return refuse(entry, protection.error().text);
  }
  entry.protection = *std::move(protection);
  entry.client = {entry.handshake->peer(), entry.handshake->used_shared_secret()};
  entry.until = now + limits_.timeout;
}

/// Threat: a client that says more than one request, or something else: it gets nothing.
void Handshakes::take_message(Entry& entry) {
  const std::vector<std::byte> data = entry.handshake->take_data();
  if (data.empty()) {
    return;
  }
  entry.message.insert(entry.message.end(), data.begin(), data.end());
  const auto message = parse_pull_message(entry.message);
  if (message && !*message) {
    return;
  }
  if (!message || !std::holds_alternative<PullRequest>(**message)) {
    return tell(entry, {ExitCode::protocol_error,
                        "the client broke the protocol: " + (message ? "it is no server" : message.error())});
  }
  entry.request = std::get<PullRequest>(**message);
}

std::optional<Handshakes::Request> Handshakes::next_request() {
  for (Entry& entry : entries_) {
    if (entry.protection && entry.request) {
      return Request{entry.protection->connection(), entry.peer, entry.host,
                     *std::exchange(entry.request, std::nullopt)};
    }
  }
  return std::nullopt;
}

void Handshakes::refuse_request(std::uint64_t session, const Failure& failure) {
  const auto entry = entry_of(session);
  SLUICE_REQUIRE(entry != entries_.end());
  tell(*entry, failure);
}

/// Repeated as an alert is.
void Handshakes::tell(Entry& entry, const Failure& failure) {
  if (entry.handshake->write(encode(PullRefusal{failure.code, failure.text}))) {
    static_cast<void>(entry.stream.send(entry.handshake->take_output()));
  }
  next_ = TimePoint::min();
  refuse(entry, entry.client.text() + ": " + printable(failure.text));
}

/// Its alert is repeated until the client has it, or until the time is up.
void Handshakes::refuse(Entry& entry, std::string why) {
  entry.handshake.reset();
  entry.protection.reset();
  if (refusals_.size() < refusals_max) {
    refusals_.push_back(std::move(why));
  }
}

Handshakes::Entries::iterator Handshakes::entry_of(std::uint64_t session) {
  return std::ranges::find_if(
      entries_, [&](const Entry& one) { return one.protection && one.protection->connection() == session; });
}

Protection* Handshakes::find(std::uint64_t session) {
  const auto entry = entry_of(session);
  return entry != entries_.end() ? &*entry->protection : nullptr;
}

const Client& Handshakes::client_of(std::uint64_t session) {
  const auto entry = entry_of(session);
  SLUICE_REQUIRE(entry != entries_.end());
  return entry->client;
}

Handshakes::Taken Handshakes::take(std::uint64_t session) {
  const auto entry = entry_of(session);
  SLUICE_REQUIRE(entry != entries_.end());
  Taken taken{*std::move(entry->protection), std::move(entry->client), entry->peer};
  entries_.erase(entry);
  return taken;
}

std::size_t Handshakes::transmit(TimePoint now, Bytes out, Peer& to) {
  if (now < next_) {
    return 0;
  }
  std::erase_if(entries_, [&](const Entry& entry) { return now >= entry.until; });
  next_ = never;
  for (Entry& entry : entries_) {
    if (const auto control = entry.stream.next(now)) {
      Control segment = *control;
      segment.cipher = static_cast<std::uint8_t>(entry.cipher);
      to = entry.peer;
      next_ = TimePoint::min();
      return emit_control({Kind::control, 0, entry.connection}, segment, out);
    }
    next_ = std::min({next_, entry.until, entry.stream.next_deadline()});
  }
  return 0;
}

std::optional<std::string> Handshakes::next_refusal() {
  if (refusals_.empty()) {
    return std::nullopt;
  }
  std::string why = std::move(refusals_.front());
  refusals_.pop_front();
  return why;
}

}  // namespace sluice::ftx
