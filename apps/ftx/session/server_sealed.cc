// SPDX-License-Identifier: Apache-2.0
// The sealed sessions of a Server: how they begin, what opens of what comes in, and where their peers are.
#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "apps/ftx/session/server.h"
#include "base/contract.h"

namespace sluice::ftx {
namespace {

constexpr Duration knock_first = std::chrono::milliseconds(250);
constexpr Duration knock_max = std::chrono::milliseconds(500);

constexpr std::string_view no_read_text = "the server lets this client send files, and not fetch any";
constexpr std::string_view no_write_text = "the server lets this client fetch files, and not send any";

}  // namespace

void Server::expect(Protection protection) {
  const std::uint64_t connection = protection.connection();
  expected_.insert_or_assign(connection, std::move(protection));
}

void Server::invite(TimePoint now, Protection protection, std::vector<Peer> at, Duration timeout) {
  const TimePoint knock_at = at.empty() ? never : now;
  invitations_.push_back({.connection = protection.connection(),
                          .at = std::move(at),
                          .knock_at = knock_at,
                          .interval = knock_first,
                          .timeout = timeout,
                          .until = now + timeout});
  expect(std::move(protection));
}

void Server::give_up_invitations(TimePoint now) {
  std::erase_if(invitations_, [&](const Invitation& invitation) {
    if (now < invitation.until) {
      return false;
    }
    expected_.erase(invitation.connection);
    Event error;
    error.kind = Event::Kind::error;
    error.connection = invitation.connection;
    error.code = ExitCode::no_answer;
    error.text = "no answer";
    events_.push(std::move(error));
    return true;
  });
}

/// Each round of a KNOCK goes to all addresses.
std::size_t Server::transmit_knock(TimePoint now, Bytes out, Peer& to) {
  for (Invitation& invitation : invitations_) {
    if (now < invitation.knock_at) {
      continue;
    }
    to = invitation.at[invitation.next++];
    if (invitation.next == invitation.at.size()) {
      invitation.next = 0;
      invitation.knock_at = now + invitation.interval;
      invitation.interval = std::min(invitation.interval * 2, knock_max);
    }
    const Envelope envelope{Kind::knock, 0, invitation.connection};
    return expected_.at(invitation.connection).seal_control(out, emit_knock(envelope, out));
  }
  return 0;
}

/// A sender that reads its files before it offers says that it is there, or that it cannot.
void Server::on_invited(TimePoint now, const Envelope& envelope, ConstBytes datagram, const Peer& from) {
  const auto invitation = std::ranges::find(invitations_, envelope.connection, &Invitation::connection);
  if (invitation == invitations_.end() || (envelope.kind != Kind::challenge && envelope.kind != Kind::error)) {
    ++drops_.unexpected;
    return;
  }
  Protection& protection = expected_.at(envelope.connection);
  const ConstBytes opened = protection.open_control(datagram);
  if (opened.empty()) {
    ++drops_.forged;
    return;
  }
  if (const auto nonce = parse_nonce(opened); envelope.kind == Kind::challenge && nonce) {
    invitation->answered = true;
    invitation->until = now + invitation->timeout;
    const Envelope response{Kind::response, 0, envelope.connection};
    return answer_sealed(protection, from, response, [&](Bytes out) { return emit_response(response, *nonce, out); });
  }
  const auto error = envelope.kind == Kind::error ? parse_error(opened) : std::nullopt;
  if (!error) {
    ++drops_.malformed;
    return;
  }
  Event event;
  event.kind = Event::Kind::error;
  event.connection = envelope.connection;
  event.code = failure_row(error->code).code;
  event.text = "the sender gave up: " + std::string(error->text);
  events_.push(std::move(event));
  expected_.erase(envelope.connection);
  invitations_.erase(invitation);
}

/// Before its OFFER nothing else of an expected session counts: what overtook that comes again.
void Server::open_expected(TimePoint now, const Envelope& envelope, ConstBytes datagram, const Peer& from) {
  const auto expected = expected_.find(envelope.connection);
  Protection* const protection = expected != expected_.end() ? &expected->second
                                 : handshakes_               ? handshakes_->find(envelope.connection)
                                                             : nullptr;
  if (protection == nullptr) {
    ++drops_.unknown_connection;
    return;
  }
  if (envelope.kind != Kind::offer) {
    return on_invited(now, envelope, datagram, from);
  }
  const ConstBytes opened = protection->open_control(datagram);
  if (opened.empty()) {
    ++drops_.forged;
    return;
  }
  const auto offer = parse_offer(opened);
  if (!offer || offer->adu_bytes > adu_bytes_for(options_.tsdu_bytes, true)) {
    ++drops_.malformed;
    return;
  }
  const Envelope error{Kind::error, 0, envelope.connection};
  if (expected == expected_.end() &&
      !allows(options_.access(handshakes_->client_of(envelope.connection)), Access::write)) {
    ++drops_.unexpected;
    return answer_sealed(*protection, error, from, {ExitCode::not_allowed, std::string(no_write_text)});
  }
  if (!make_room(now, host_of(from))) {
    ++drops_.no_session;
    return answer_sealed(*protection, error, from, {ExitCode::refused, std::string(busy_text)});
  }
  std::erase_if(invitations_, [&](const Invitation& one) { return one.connection == envelope.connection; });
  if (expected == expected_.end()) {
    Handshakes::Taken taken = handshakes_->take(envelope.connection);
    const bool reads = may_read(taken.client);
    return admit(now, envelope, *offer, from, std::move(taken.protection), std::move(taken.client), reads);
  }
  std::optional<Protection> own = std::move(expected->second);
  expected_.erase(expected);
  admit(now, envelope, *offer, from, std::move(own), {}, true);
}

bool Server::may_read(const Client& client) const {
  return options_.provider != nullptr && allows(options_.access(client), Access::read);
}

// --- What clients ask for ------------------------------------------------------------------------------------------

void Server::serve_requests(TimePoint now) {
  while (const auto request = handshakes_->next_request()) {
    if (const auto served = serve(now, *request); !served) {
      handshakes_->refuse_request(request->session, served.error());
    }
  }
}

/// Threat: a client that may not, asks for too much, or asks so often that nobody else is served.
std::expected<void, Failure> Server::serve(TimePoint now, const Handshakes::Request& request) {
  if (!may_read(handshakes_->client_of(request.session))) {
    return std::unexpected(Failure{ExitCode::not_allowed, std::string(no_read_text)});
  }
  if (!pulls_.make_room(now, request.host)) {
    ++drops_.no_session;
    return std::unexpected(Failure{ExitCode::refused, std::string(busy_text)});
  }
  auto pull = options_.provider->open(request.pull, request.peer);
  if (!pull) {
    return std::unexpected(pull.error());
  }
  const std::uint64_t bytes = pull->bytes();
  if (bytes > options_.transfer_bytes_max) {
    return std::unexpected(Failure{
        ExitCode::refused, "larger than a transfer from this server may be: " + std::to_string(bytes) + " bytes"});
  }
  if (!budget_.storage.take(bytes)) {
    return std::unexpected(Failure{ExitCode::refused, "over this server's quota: " + std::to_string(bytes) + " bytes"});
  }
  pulls_.begin(now, *std::move(pull), request.host, handshakes_->take(request.session));
  return {};
}

void Server::receive_sealed(TimePoint now, const Envelope& envelope, ConstBytes datagram, const Peer& from) {
  if (pulls_.knows(envelope.connection)) {
    return pulls_.receive(now, envelope.connection, datagram, from);
  }
  const auto session = sessions_.find(Key{Peer(), envelope.connection});
  if (session == sessions_.end()) {
    return open_expected(now, envelope, datagram, from);
  }
  if (envelope.kind == Kind::data) {
    if (receive_sealed_data(now, session->second, envelope, datagram)) {
      follow_path(now, session->second, envelope, {}, from);
    }
    return;
  }
  const ConstBytes opened = session->second.protection->open_control(datagram);
  if (opened.empty()) {
    ++drops_.forged;
    return;
  }
  follow_path(now, session->second, envelope, opened, from);
  if (envelope.kind != Kind::challenge && envelope.kind != Kind::response) {
    session->second.receiver->receive(now, envelope, opened);
  }
}

/// The payload of a sealed DATA datagram to `place`, which is as long. False: it did not open, and is counted.
bool Server::open_payload(Session& session, ConstBytes datagram, Bytes place) {
  opened_bytes_ += place.size();
  const bool opened = session.protection->open_payload(datagram, place);
  drops_.forged += opened ? 0 : 1;
  return opened;
}

/// One that did not land in the transport's pass: its payload is opened where it belongs; true when it opened. A forged
/// one leaves rubbish there, in a place that nothing has filled yet, and which stays unfilled.
bool Server::receive_sealed_data(TimePoint now, Session& session, const Envelope& envelope, ConstBytes datagram) {
  const auto data = parse_data(datagram, datagram.size());
  if (!data) {
    ++drops_.malformed;
    return false;
  }
  const ConstBytes header = datagram.first(data_header_bytes);
  const Bytes place = session.receiver->memory_for(header, datagram.size());
  if (!place.empty()) {
    if (!open_payload(session, datagram, place)) {
      return false;
    }
    session.receiver->placed(now, header, datagram.size(), place);
    return true;
  }
  opened_.resize(data_header_bytes + data->payload_bytes);
  if (!open_payload(session, datagram, Bytes(opened_).subspan(data_header_bytes))) {
    return false;
  }
  const Envelope plain = plain_of(envelope);
  emit_data_header(plain, *data, opened_);
  session.receiver->receive(now, plain, opened_);
  return true;
}

/// Makes of a sealed DATA datagram what it was before it was sealed. False: dropped and counted.
bool Server::open_in_place(Session& session, const Envelope& envelope, Bytes& datagram) {
  const auto data = parse_data(datagram, datagram.size());
  if (!data) {
    ++drops_.malformed;
    return false;
  }
  const Bytes payload = datagram.subspan(data_header_bytes, data->payload_bytes);
  if (!open_payload(session, datagram, payload)) {
    return false;
  }
  datagram = datagram.first(data_header_bytes + payload.size());
  emit_data_header(plain_of(envelope), *data, datagram);
  return true;
}

/// Makes room in opened_runs_ for a run of `bytes` behind those that wait to be written. REQUIRES: in_run_ receives it.
void Server::make_room_for_run(TimePoint now, std::size_t bytes) {
  if (!in_run_->gathers()) {
    opened_used_ = 0;
  }
  if (opened_used_ + bytes > opened_runs_.size()) {
    in_run_->write_gathered(now);
    opened_used_ = 0;
    opened_runs_.resize(std::max({opened_runs_.size(), opened_runs_bytes, bytes}));
  }
}

/// Opens the payloads of a run, one behind the other, to the room in opened_runs_, up to the first that does not open.
/// How many did.
std::uint32_t Server::open_run(Session& session, std::span<const Bytes> datagrams, std::size_t payload_bytes) {
  const Bytes room = Bytes(opened_runs_).subspan(opened_used_);
  std::uint32_t opened = 0;
  while (opened < datagrams.size() &&
         open_payload(session, datagrams[opened], room.subspan(opened * payload_bytes, payload_bytes))) {
    ++opened;
  }
  return opened;
}

/// Of a run (data_run()) what lies between datagrams that do not open is a run, too.
void Server::receive_sealed_run(TimePoint now, Session& session, const Envelope& envelope,
                                std::span<const Bytes> datagrams, const Peer& from) {
  while (!datagrams.empty()) {
    std::size_t done = 1;
    make_room_for_run(now, datagrams.size() * datagrams.front().size());
    if (const auto first = session.receiver->takes_run(datagrams)) {
      const std::uint32_t opened = open_run(session, datagrams, first->payload_bytes);
      if (opened > 0) {
        follow_path(now, session, envelope, {}, from);
        const ConstBytes payloads = ConstBytes(opened_runs_).subspan(opened_used_, opened * first->payload_bytes);
        opened_used_ += payloads.size();
        session.receiver->land_opened(now, *first, opened, payloads);
      }
      done = std::min<std::size_t>(opened + 1, datagrams.size());  // with the one that did not open
    } else if (Bytes datagram = datagrams.front(); open_in_place(session, envelope, datagram)) {
      run_borrows_ = true;
      follow_path(now, session, envelope, {}, from);
      session.receiver->receive(now, plain_of(envelope), datagram);
    }
    datagrams = datagrams.subspan(done);
  }
}

/// Something that opened came from `from`. `opened`: unless it is DATA.
void Server::follow_path(TimePoint now, Session& session, const Envelope& envelope, ConstBytes opened,
                         const Peer& from) {
  const auto nonce = parse_nonce(opened);
  if (envelope.kind == Kind::challenge && nonce) {
    session.response_due = nonce;
  }
  if (from == session.peer) {
    return;
  }
  if (!session.path) {
    session.path.emplace(
        XXH3_64bits_withSeed(from.address().data(), from.address().size(), options_.seed ^ envelope.connection));
  }
  if (envelope.kind == Kind::response && nonce && session.path->on_response(from, *nonce)) {
    session.peer = from;
  } else {
    session.path->on_other_path(now, from);
  }
}

/// A sealed session takes no other ERROR.
void Server::answer_sealed(Protection& protection, const Envelope& envelope, const Peer& to, const Failure& failure) {
  answer_sealed(protection, to, envelope, [&](Bytes out) {
    return emit_error(envelope, {static_cast<std::uint16_t>(failure.code), failure.text}, out);
  });
}

void Server::answer_sealed(Protection& protection, const Peer& to, const Envelope& envelope,
                           const std::function<std::size_t(Bytes)>& emit) {
  Answer sealed{.to = to, .envelope = envelope};
  sealed.sealed.resize(control_bytes_max);
  sealed.sealed.resize(protection.seal_control(sealed.sealed, emit(sealed.sealed)));
  answer(sealed);
}

/// What the session has to say of its path; 0: nothing.
std::size_t Server::transmit_sealed(Session& session, Bytes out, Peer& to) {
  if (const auto nonce = std::exchange(session.response_due, std::nullopt)) {
    return emit_response(session.receiver->envelope(), *nonce, out);
  }
  const auto challenge = session.path ? session.path->take() : std::nullopt;
  if (!challenge) {
    return 0;
  }
  to = challenge->to;
  return emit_challenge(session.receiver->envelope(), challenge->nonce, out);
}

}  // namespace sluice::ftx
