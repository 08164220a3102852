// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/server.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "apps/ftx/protocol/data_run.h"
#include "base/contract.h"

namespace sluice::ftx {
namespace {

constexpr std::string_view plain_text = "this server begins every session with a handshake, and this client does not";
constexpr std::string_view insecure_text = "this server runs with --insecure: it neither encrypts nor authenticates";

/// An ERROR without text is shorter than a PROBE, the shortest datagram of a sender, so it never amplifies. Who gets a
/// text has shown a cookie.
std::string_view answer_text(ExitCode code, bool standing) {
  if (code == ExitCode::not_allowed) {
    return standing ? plain_text : insecure_text;
  }
  return code == ExitCode::refused ? Server::busy_text : std::string_view();
}

}  // namespace

std::size_t Server::KeyHash::operator()(const Key& key) const {
  const ConstBytes address = key.peer.address();
  return XXH3_64bits_withSeed(address.data(), address.size(), key.connection);
}

Server::Server(ServerOptions options, Destination& destination)
    : options_(options),
      destination_(destination),
      jar_(options.seed),
      budget_(options.memory_bytes_max, options.open_files_max, nullptr, options.quota_bytes, options.quota_entries),
      pulls_(options.pull_limits, events_) {
  SLUICE_REQUIRE(adu_bytes_for(options.tsdu_bytes) > 0 && options.session_limits.sessions_max > 0 &&
                 options.session_limits.per_host_max > 0 && !(options.insecure && options.handshake));
  options_.receiver.storage_bytes_max = std::min(options.receiver.storage_bytes_max, options.transfer_bytes_max);
  options_.receiver.entries_max = std::min(options.receiver.entries_max, options.transfer_entries_max);
  if (options.handshake) {
    handshakes_.emplace(*options.handshake, options.handshake_limits);
  }
}

std::size_t Server::open_sessions() const { return open_receivers() + pulls_.open(); }

std::size_t Server::unclosed_sessions() const {
  return pulls_.size() + static_cast<std::size_t>(std::ranges::count_if(
                             sessions_, [](const auto& entry) { return !entry.second.receiver->closed(); }));
}

std::size_t Server::open_receivers() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(sessions_, [](const auto& entry) { return !entry.second.receiver->over(); }));
}

// --- What comes in -------------------------------------------------------------------------------------------------

void Server::receive(TimePoint now, ConstBytes datagram, const Peer& from) {
  end_run(now);
  const auto envelope = parse_envelope(datagram);
  if (!envelope) {
    ++drops_.malformed;
    return;
  }
  if (envelope->sealed()) {
    return receive_sealed(now, *envelope, datagram, from);
  }
  const auto session = sessions_.find(Key{from, envelope->connection});
  if (session != sessions_.end()) {
    return session->second.receiver->receive(now, *envelope, datagram);
  }
  receive_stranger(now, *envelope, datagram, from);
}

void Server::receive_run(TimePoint now, std::span<const Bytes> datagrams, const Peer& from) {
  while (!datagrams.empty()) {
    const auto envelope = parse_envelope(datagrams.front());
    const bool is_data = envelope && envelope->kind == Kind::data;
    const auto session = is_data ? sessions_.find(key_of(*envelope, from)) : sessions_.end();
    if (session == sessions_.end()) {
      receive(now, datagrams.front(), from);
      datagrams = datagrams.subspan(1);
      continue;
    }
    const std::span<const Bytes> run = datagrams.first(data_run(datagrams));
    datagrams = datagrams.subspan(run.size());
    begin_run(now, *session->second.receiver);
    if (envelope->sealed()) {
      receive_sealed_run(now, session->second, *envelope, run, from);
    } else {
      run_borrows_ = true;
      in_run_->receive_run(now, plain_of(*envelope), run);
    }
  }
  if (std::exchange(run_borrows_, false)) {
    end_run(now);
  }
}

/// Goes on with the run that this receiver may have already; another's ends.
void Server::begin_run(TimePoint now, Receiver& receiver) {
  if (in_run_ != &receiver) {
    end_run(now);
  }
  in_run_ = &receiver;
  receiver.begin_run();
}

/// Writes what the run has left to write. Stands before everything that could look at a file or end a session.
void Server::end_run(TimePoint now) {
  if (Receiver* const receiver = std::exchange(in_run_, nullptr)) {
    receiver->end_run(now);
  }
}

PayloadPlace Server::memory_for(ConstBytes header, std::size_t datagram_bytes, const Peer& from) {
  const auto envelope = parse_envelope(header);
  if (!envelope || envelope->kind != Kind::data) {
    return {};
  }
  const auto session = sessions_.find(key_of(*envelope, from));
  if (session == sessions_.end()) {
    return {};
  }
  Protection* const opens = envelope->sealed() ? &*session->second.protection : nullptr;
  if (opens != nullptr && !opens->opens_in_parts(header)) {
    return {};
  }
  return {session->second.receiver->memory_for(header, datagram_bytes), opens};
}

void Server::placed(TimePoint now, ConstBytes header, std::size_t datagram_bytes, const Peer& from, Bytes memory) {
  const auto envelope = parse_envelope(header);
  SLUICE_REQUIRE(envelope.has_value());
  const auto session = sessions_.find(key_of(*envelope, from));
  SLUICE_REQUIRE(session != sessions_.end());
  session->second.receiver->placed(now, header, datagram_bytes, memory);
  if (envelope->sealed()) {
    follow_path(now, session->second, *envelope, {}, from);
  }
}

/// A sealed session is where its peer is, wherever that may be.
Server::Key Server::key_of(const Envelope& envelope, const Peer& from) {
  return {envelope.sealed() ? Peer() : from, envelope.connection};
}

Server::Inspection Server::inspect(TimePoint now, ConstBytes header, std::size_t datagram_bytes, const Peer& from) {
  end_run(now);
  const auto envelope = parse_envelope(header);
  if (!envelope || envelope->kind != Kind::data || envelope->sealed()) {
    return {};
  }
  const auto session = sessions_.find(Key{from, envelope->connection});
  const bool compressed = (envelope->flags & flag_compressed) != 0;
  if (session == sessions_.end() || session->second.receiver->over() || compressed) {
    return {};
  }
  auto landing = session->second.receiver->inspect(now, header, datagram_bytes);
  if (!landing) {
    return {.kind = Inspection::Kind::unwanted};
  }
  // inspect() changed nothing: receive() names the same place once the datagram is verified.
  if (landing->place.verified_only) {
    return {};
  }
  return {Inspection::Kind::land, session->second.receiver.get(), *landing};
}

void Server::unreachable(TimePoint now, const Peer& peer) {
  end_run(now);
  for (auto& [key, session] : sessions_) {
    if (session.peer == peer) {
      session.receiver->sender_refuses(now);
    }
  }
}

void Server::interrupt(TimePoint now) {
  end_run(now);
  for (const auto& [key, session] : sessions_) {
    session.receiver->interrupt(now);
  }
  pulls_.interrupt(now);
}

void Server::receive_stranger(TimePoint now, const Envelope& envelope, ConstBytes datagram, const Peer& from) {
  if (!options_.insecure && !handshakes_) {
    ++drops_.unexpected;
    return;
  }
  switch (envelope.kind) {
    case Kind::hello:
      return greet(envelope, datagram, from);
    case Kind::control:
      return on_control(now, envelope, datagram, from);
    case Kind::offer:
      return open(now, envelope, datagram, from);
    case Kind::data:
    case Kind::probe: {
      const bool sound = envelope.kind == Kind::data ? parse_data(datagram, datagram.size()).has_value()
                                                     : parse_probe(datagram).has_value();
      ++(sound ? drops_.unknown_connection : drops_.malformed);
      if (!sound) {
        return;
      }
      // Tells a sender at once that this server has restarted.
      return answer({.to = from, .envelope = envelope, .code = ExitCode::connection_lost});
    }
    case Kind::cookie:
    case Kind::report:
    case Kind::error:
    case Kind::close:
    case Kind::knock:
    case Kind::challenge:
    case Kind::response:
    case Kind::have:
    case Kind::taken:
    case Kind::changes:
    case Kind::noted:
    case Kind::sign:
      ++drops_.unexpected;
      return;
  }
}

void Server::greet(const Envelope& envelope, ConstBytes datagram, const Peer& from) {
  const auto hello = parse_hello(datagram);
  if (!hello) {
    ++drops_.malformed;
    return;
  }
  const std::uint32_t adu_bytes =
      std::min(hello->adu_bytes, adu_bytes_for(options_.tsdu_bytes, handshakes_.has_value()));
  answer({.to = from, .envelope = envelope, .nonce = hello->nonce, .adu_bytes = adu_bytes});
}

void Server::open(TimePoint now, const Envelope& envelope, ConstBytes datagram, const Peer& from) {
  const auto offer = parse_offer(datagram);
  if (!offer || offer->adu_bytes > adu_bytes_for(options_.tsdu_bytes)) {
    ++drops_.malformed;
    return;
  }
  if (handshakes_) {
    return refuse_plain(now, envelope, offer->cookie, from);
  }
  if (!jar_.accepts(now, from, envelope.connection, offer->cookie)) {
    ++drops_.bad_cookie;
    return;
  }
  if (!make_room(now, host_of(from))) {
    ++drops_.no_session;
    return answer({.to = from, .envelope = envelope, .code = ExitCode::refused});
  }
  admit(now, envelope, *offer, from, std::nullopt, {}, false);
}

/// A client that wants to begin otherwise than this server is told so, if it is where it says.
void Server::refuse_plain(TimePoint now, const Envelope& envelope, const Cookie& cookie, const Peer& from) {
  ++drops_.unexpected;
  if (jar_.accepts(now, from, envelope.connection, cookie)) {
    answer({.to = from, .envelope = envelope, .code = ExitCode::not_allowed});
  }
}

/// Threat: handshakes begun from false addresses. What begins one has a cookie, and what has none gets no answer.
void Server::on_control(TimePoint now, const Envelope& envelope, ConstBytes datagram, const Peer& from) {
  const auto control = parse_control(datagram);
  if (!control) {
    ++drops_.malformed;
    return;
  }
  if (!handshakes_) {
    return refuse_plain(now, envelope, control->cookie, from);
  }
  if (!handshakes_->knows(from, envelope.connection)) {
    const auto cipher = static_cast<Cipher>(control->cipher);
    const bool known = cipher == Cipher::aes_128_gcm || cipher == Cipher::chacha20_poly1305;
    if (control->offset != 0 || control->bytes.empty() || !known) {
      ++drops_.unexpected;
      return;
    }
    if (!jar_.accepts(now, from, envelope.connection, control->cookie)) {
      ++drops_.bad_cookie;
      return;
    }
    if (!handshakes_->begin(now, from, host_of(from), envelope.connection, cipher)) {
      ++drops_.no_handshake;
      return;
    }
  }
  if (!handshakes_->receive(now, from, envelope.connection, *control)) {
    ++drops_.unexpected;
  }
  serve_requests(now);
  while (auto why = handshakes_->next_refusal()) {
    Event rejected;
    rejected.kind = Event::Kind::rejected;
    rejected.text = *std::move(why);
    events_.push(std::move(rejected));
  }
}

/// REQUIRES: make_room() has said yes.
void Server::admit(TimePoint now, const Envelope& envelope, const Offer& offer, const Peer& from,
                   std::optional<Protection> protection, Client client, bool may_read) {
  const Peer host = host_of(from);
  Host& holder = hosts_.try_emplace(host, options_, budget_).first->second;
  ++holder.sessions;
  ReceiverOptions options = options_.receiver;
  options.tells_equal = may_read;
  auto receiver = std::make_unique<Receiver>(now, plain_of(envelope), offer, options, destination_, holder.budget,
                                             decompressor_, events_, drops_);
  const Key key{protection ? Peer() : from, envelope.connection};
  sessions_.emplace(key, Session{std::move(receiver), from, host, std::move(protection), std::move(client), {}, {}});
}

bool Server::make_room(TimePoint now, const Peer& host) {
  std::vector<Sessions::iterator> sessions;
  std::vector<Holder> holders;
  for (auto at = sessions_.begin(); at != sessions_.end(); ++at) {
    const Session& session = at->second;
    sessions.push_back(at);
    holders.push_back({.host = &session.host,
                       .last_progress_at = session.receiver->last_progress_at(),
                       .dispensable = session.receiver->dispensable()});
  }
  const Admission verdict = admission(now, host, holders, options_.session_limits);
  if (verdict.gives_way) {
    displace(now, sessions[*verdict.gives_way]);
  }
  return verdict.granted;
}

void Server::displace(TimePoint now, Sessions::iterator session) {
  Receiver& receiver = *session->second.receiver;
  if (!receiver.over()) {
    ++drops_.displaced;
    receiver.give_way(now);
    if (session->second.protection) {
      answer_sealed(*session->second.protection, receiver.envelope(), session->second.peer,
                    {ExitCode::refused, std::string(busy_text)});
    } else {
      answer({.to = session->second.peer, .envelope = receiver.envelope(), .code = ExitCode::refused});
    }
  }
  erase(session);
}

Server::Sessions::iterator Server::erase(Sessions::iterator session) {
  const auto host = hosts_.find(session->second.host);
  const auto next = sessions_.erase(session);  // the session gives back before its host goes
  if (--host->second.sessions == 0) {
    hosts_.erase(host);
  }
  return next;
}

void Server::answer(const Answer& answer) {
  if (answers_.size() == answers_max) {
    ++drops_.unsent;
    return;
  }
  answers_.push(answer);
}

std::optional<Event> Server::next_event() {
  auto event = events_.pop();
  if (event && event->connection != 0) {
    if (const auto session = sessions_.find(Key{Peer(), event->connection}); session != sessions_.end()) {
      event->client = session->second.client.text();
      event->peer = session->second.peer;
      event->cipher = plain_cipher;
      if (const auto& protection = session->second.protection) {
        event->cipher = name(protection->cipher());
        event->datagram_bytes += event->datagram_bytes > 0 ? tag_bytes : 0;
      }
    }
  }
  return event;
}

// --- What goes out -------------------------------------------------------------------------------------------------

void Server::transmit(TimePoint now, Burst& burst) {
  burst.clear();
  while (!burst.full()) {
    Peer to;
    const Bytes out = burst.room();
    const std::size_t size = transmit(now, out, to);
    if (size == 0) {
      break;
    }
    burst.add({to, out.first(size), {}});
  }
  // What a session sends is valid until it transmits again, so a burst is of one.
  if (burst.left().empty()) {
    pulls_.transmit(now, burst);
    budget_.storage.give_back(pulls_.take_unsent());
  }
}

std::size_t Server::transmit(TimePoint now, Bytes out, Peer& to) {
  end_run(now);
  SLUICE_REQUIRE(out.size() >= control_bytes_max);
  if (!answers_.empty()) {
    return transmit_answer(now, out, to);
  }
  give_up_invitations(now);
  if (const std::size_t size = transmit_knock(now, out, to); size > 0) {
    return size;
  }
  if (const std::size_t size = handshakes_ ? handshakes_->transmit(now, out, to) : 0; size > 0) {
    return size;
  }
  const std::uint64_t credit = credit_bytes();
  // Sessions take turns: the one after the last that transmitted comes first.
  auto at = sessions_.find(turn_);
  if (at != sessions_.end()) {
    ++at;
  }
  for (std::size_t asked = sessions_.size(); asked > 0; --asked) {
    if (at == sessions_.end()) {
      at = sessions_.begin();
    }
    Session& session = at->second;
    to = session.peer;
    std::size_t size = transmit_sealed(session, out, to);
    if (size == 0) {
      size = session.receiver->transmit(now, out, credit);
    }
    if (size > 0 && session.protection) {
      size = session.protection->seal_control(out, size);
    }
    if (session.receiver->forgettable()) {
      at = erase(at);
      continue;
    }
    if (size > 0) {
      turn_ = at->first;
      return size;
    }
    ++at;
  }
  return 0;
}

/// Each open session's part of what the transport holds. All of them always get something, so a crowd may overrun it.
std::uint64_t Server::credit_bytes() const {
  return std::max(options_.receive_room_bytes / std::max<std::uint64_t>(open_receivers(), 1),
                  Receiver::credit_bytes_min);
}

std::size_t Server::transmit_answer(TimePoint now, Bytes out, Peer& to) {
  const Answer answer = std::move(answers_.front());
  answers_.pop();
  to = answer.to;
  if (!answer.sealed.empty()) {
    std::ranges::copy(answer.sealed, out.begin());
    return answer.sealed.size();
  }
  if (answer.code != ExitCode::ok) {
    const std::string_view text = answer_text(answer.code, handshakes_.has_value());
    return emit_error(answer.envelope, {static_cast<std::uint16_t>(answer.code), text}, out);
  }
  return emit_cookie(answer.envelope,
                     {answer.nonce, answer.adu_bytes, jar_.issue(now, answer.to, answer.envelope.connection)}, out);
}

TimePoint Server::next_deadline() const {
  if (!answers_.empty()) {
    return TimePoint::min();
  }
  TimePoint deadline = std::min(handshakes_ ? handshakes_->next_deadline() : never, pulls_.next_deadline());
  for (const Invitation& invitation : invitations_) {
    deadline = std::min({deadline, invitation.knock_at, invitation.until});
  }
  for (const auto& [key, session] : sessions_) {
    deadline = std::min(deadline, session.receiver->next_deadline());
    if (session.response_due || (session.path && session.path->due())) {
      return TimePoint::min();
    }
  }
  return deadline;
}

}  // namespace sluice::ftx
