// SPDX-License-Identifier: Apache-2.0

// xtp: what its user asks for, and what he is told.

#include "stack/modules/xtp.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "stack/core/primitive.h"
#include "stack/core/reader_place.h"
#include "stack/core/stream_set.h"

namespace sluice {

using namespace wire::tpi;  // the primitives and their numbers
using provider::ConnectionEvent;
using wire::XtpMalformed;

namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(XtpMalformed::count_)> xtp_malformed_meanings = {
    "packets shorter than a header",
    "packets of another version",
    "packets of no type that is known here",
    "packets with options that are not known here",
    "packets that are not as long as they say",
    "packets that do not sum up",
    "packets without a key",
    "packets with numbers beyond the space, or an allocation before what has come",
    "packets whose segment is shorter or longer than their type asks for",
    "packets whose spans lie",
    "packets with an address segment of another form",
    "packets with a traffic specification of another form"};

}  // namespace

Xtp::Xtp(const xtp::Options& options)
    : ConnectionEndpoint("xtp", {indicated_, rejected_, connect_failures_, resets_, aborted_, unsent_, no_memory_}),
      options_(options) {
  for (std::size_t at = 0; at < xtp_malformed_meanings.size(); ++at) {
    malformed_packets_.push_back(
        std::make_unique<Counter>(*this, wire::name_of(static_cast<XtpMalformed>(at)), xtp_malformed_meanings[at]));
  }
}

PayloadWork Xtp::payload_work(Side side) const {
  PayloadWork work{.items = {}, .keeps = side == Side::write, .lands = side == Side::read};
  if (options_.checksum) {
    work.items.push_back({.kind = side == Side::write ? PayloadWork::Kind::sum : PayloadWork::Kind::check});
  }
  work.materializes = side == Side::write ? "holds data until the peer has it" : "acknowledges what it has verified";
  work.materializes_last = true;
  work.makes_sums_known = side == Side::write;
  return work;
}

Status Xtp::open() {
  timer_ = std::make_unique<Timer>(set().scheduler(), [this] { on_timer(); });
  return ConnectionEndpoint::open();
}

/// What was said may be lost, and what was not said is: the peer must not take the part that it has for the whole.
void Xtp::close() {
  const Entered entered(*this);
  if (mine_) {
    end_connection(!(mine_->connection.is_done() && released_));
  }
  release();
}

// ---- Binding ----

void Xtp::bind(ConstBytes address, std::uint32_t connect_indications) {
  wanted_indications_ = connect_indications;
  Message request = replaces_busy()
                        ? primitive_message(set().pool(), OldBindReq{.address = address}, MessageType::proto)
                        : primitive_message(set().pool(), BindReq{.address = address}, MessageType::proto);
  if (!request) {
    return refused(TSYSERR, ENOSR);
  }
  asked_ = Asked::bind;
  down(std::move(request));
}

void Xtp::unbind_when_done() {
  if (!unbind_due_ || lingers()) {
    return;
  }
  drop_lingering();
  answered_.clear();
  unbind_due_ = false;
  Message request = primitive_message(set().pool(), UnbindReq{}, MessageType::proto);
  if (!request) {
    return refused(TSYSERR, ENOSR);
  }
  asked_ = Asked::unbind;
  flush_packets();
  down(std::move(request));
}

// ---- Calling and accepting ----

std::unique_ptr<Xtp::Held> Xtp::make_association(const wire::TransportAddress& remote) {
  Prng& prng = set().prng();
  xtp::Association::Secrets secrets;
  do {
    secrets.key = prng() & ~wire::XtpHeader::return_key;
  } while (secrets.key == 0 || find(secrets.key) != nullptr);
  secrets.first = 1 + prng.below(UINT32_MAX);
  return std::make_unique<Held>(Held{xtp::Association(set().pool(), local_, remote, options_, secrets), {}});
}

void Xtp::connect(ConstBytes destination) {
  const auto to = wire::TransportAddress::decode(destination);
  if (!to || to->port == 0 || to->address.is_unspecified() || to->address.is_multicast()) {
    return refused(TBADADDR);
  }
  if (connect_indications() > 0) {
    return refused(TSYSERR, EOPNOTSUPP);
  }
  mine_ = make_association(*to);
  set_remote_address(*to);
  acknowledged();
  mine_->connection.connect(set().now());
  attend(*mine_);
}

void Xtp::respond(std::uint32_t acceptor_id, std::int32_t sequence) {
  Module* const named = set().module_handles().find(acceptor_id);
  auto* const acceptor = dynamic_cast<Xtp*>(named);
  const bool busy = acceptor != nullptr && (!acceptor->is_bound_ || acceptor->mine_);
  if (const auto error = acceptance_error(named != nullptr, acceptor, busy)) {
    return refused(*error);
  }
  const xtp::Call call = take_caller(sequence);
  answered_.push_back({call.from, call.key, false});
  if (acceptor == this) {
    acknowledged();
    return accept_call(call);
  }
  accepted_elsewhere();
  acceptor->take_connection(acceptor->bound_address());
  acceptor->accept_call(call);
  indicate_callers();
}

void Xtp::accept_call(const xtp::Call& call) {
  const Entered entered(*this);
  ++associations_;
  mine_ = make_association(call.from);
  set_remote_address(call.from);
  mine_->connection.accept(call, set().now());
  attend(*mine_);
}

void Xtp::refuse_caller(std::int32_t sequence) {
  const xtp::Call call = take_caller(sequence);
  answered_.push_back({call.from, call.key, true});
  refuse(call.from, call.key, wire::XtpDiagnosis::Value::unspecified);
}

// ---- Callers ----

/// REQUIRES: its indication is outstanding.
xtp::Call Xtp::take_caller(std::int32_t sequence) {
  const auto chosen = std::ranges::find(callers_, std::optional(sequence), &Caller::sequence);
  const xtp::Call call = chosen->call;
  callers_.erase(chosen);
  if (answered_.size() >= answered_calls_max) {
    answered_.pop_front();
  }
  return call;
}

std::optional<Xtp::Indication> Xtp::next_caller() {
  const auto next = std::ranges::find(callers_, std::optional<std::int32_t>(), &Caller::sequence);
  if (next == callers_.end()) {
    return std::nullopt;
  }
  next->sequence = new_sequence();
  return Indication{.source = next->call.from, .sequence = *next->sequence};
}

void Xtp::drop_callers() {
  for (const Caller& one : std::exchange(callers_, {})) {
    ++rejected_;
    refuse(one.call.from, one.call.key, wire::XtpDiagnosis::Value::no_listener);
  }
}

// ---- Sending ----

namespace {

bool ends_message(const Message& message) {
  if (message.type() == MessageType::data) {
    return true;
  }
  const auto request = DataReq::decode(message.bytes());
  return !request || request->more == 0;
}

}  // namespace

/// What is lent is copied now, and in that pass summed as packets will need it.
void Xtp::take_data(Message message) {
  if (message.data_size() == 0) {
    return;  // no byte, and no packet that could say so
  }
  if (!mine_ || !mine_->connection.may_send()) {
    ++unsent_;
    return;
  }
  const Stretches stretches = mine_->connection.stretches(message_bytes_);
  message_bytes_ = ends_message(message) ? 0 : message_bytes_ + message.data_size();
  if (keep(message, Side::write, stretches) == TransformResult::failed) {
    ++unsent_;
    return lose_connection(ENOBUFS);
  }
  if (write_queue().empty() && mine_->connection.send_room() > 0) {
    return send(std::move(message));
  }
  message.first().type = message.type() == MessageType::data ? MessageType::data : MessageType::proto;
  write_queue().enqueue(std::move(message));
}

void Xtp::send(Message message) {
  const bool ends = ends_message(message);
  if (message.type() != MessageType::data) {
    message.pop_block();
  }
  mine_->connection.send(std::move(message), ends, set().now());
  attend(*mine_);
}

void Xtp::finish() {
  mine_->connection.finish(set().now());
  attend(*mine_);
}

// ---- Receiving ----

void Xtp::pass_up(Message indication) {
  xtp::Inbox::Piece piece = mine_->connection.take(set().now());
  DataInd{.more = piece.ends_message ? 0 : 1}.encode(indication.bytes());
  indication.link(std::move(piece.data));
  count(*mine_);
  defer_unless_landed(indication);
  if (ReaderPlace* const place = piece.ends_message ? waiting_reader() : nullptr) {
    place->end_room();
  }
  read_queue().put_next(std::move(indication));
}

// ---- What comes of associations ----

/// After everything that happens to one.
void Xtp::attend(Held& held) {
  count(held);
  if (mine_.get() == &held) {
    return news_of_mine();
  }
  if (std::ranges::any_of(lingering_, [&](const auto& one) { return one.get() == &held; })) {
    news_of_lingering(held);
  }
}

/// Takes what it has to send, and what it has counted.
void Xtp::count(Held& held) {
  Batch packets = held.connection.take_packets();
  while (Message packet = packets.pop()) {
    send_packet(held.connection.remote(), std::move(packet));
  }
  const xtp::Association::Statistics now = held.connection.statistics();
  const xtp::Association::Statistics before = std::exchange(held.counted, now);
  data_sent_ += now.sent - before.sent;
  data_again_ += now.again - before.again;
  controls_sent_ += now.controls - before.controls;
  timeouts_ += now.timeouts - before.timeouts;
  duplicates_ += now.duplicates - before.duplicates;
  behind_gaps_ += now.behind_gaps - before.behind_gaps;
  beyond_ += now.beyond - before.beyond;
  skipped_bytes_ += now.skipped - before.skipped;
  contradictions_ += now.contradictions - before.contradictions;
  strangers_ += now.strangers - before.strangers;
  no_memory_ += now.no_memory - before.no_memory;
}

void Xtp::opened() {
  ++associations_;
  set_remote_address(mine_->connection.remote());
}

void Xtp::abort(std::unique_ptr<Held> held) {
  held->connection.abort(set().now());
  count(*held);
  drop(std::move(held));
}

void Xtp::forget_connection() {
  ConnectionEndpoint::forget_connection();
  message_bytes_ = 0;
}

void Xtp::leave() {
  flush_packets();
  arm();
}

// ---- Time ----

void Xtp::on_timer() {
  const Entered entered(*this);
  std::vector<Held*> due;
  const auto note = [&](const std::unique_ptr<Held>& held) {
    if (held && held->connection.next_deadline() <= set().now()) {
      due.push_back(held.get());
    }
  };
  note(mine_);
  std::ranges::for_each(lingering_, note);
  for (Held* const held : due) {  // one that is dropped meanwhile stays until this returns, and is closed
    held->connection.on_timer(set().now());
    attend(*held);
  }
}

void Xtp::arm() {
  TimePoint next = mine_ ? mine_->connection.next_deadline() : never;
  for (const auto& one : lingering_) {
    next = std::min(next, one->connection.next_deadline());
  }
  if (next == never) {
    timer_->cancel();
  } else {
    timer_->arm(next);
  }
}

// ---- Registry ----

namespace {

std::vector<ParameterSpec> xtp_specs() {
  using enum ParameterSpec::Type;
  const auto number = [](std::string_view name, std::string_view meaning, double minimum, double maximum) {
    return ParameterSpec{.name = name, .type = integer, .meaning = meaning, .minimum = minimum, .maximum = maximum};
  };
  const auto flag = [](std::string_view name, std::string_view meaning) {
    return ParameterSpec{.name = name, .type = boolean, .meaning = meaning};
  };
  constexpr double rate_max = 4294967295.0;
  return {
      {.name = "recovery",
       .type = text,
       .meaning = "What comes behind a gap is kept (selective), or not (go_back_n); selective if absent.",
       .choices = {"selective", "go_back_n"}},
      flag("error_control", "Whether what is lost is sent again; true if absent."),
      flag("flow_control", "Whether the peer's allocation is heeded; true if absent."),
      flag("fast_nak", "Whether the peer is to say at once what lacks; true if absent."),
      flag("checksum", "Whether the checksum covers data, not headers alone; true if absent."),
      number("packet_bytes", "Data of a packet, in bytes; 1400 if absent.", wire::XtpTraffic::data_bytes_min, 65000),
      number("status_packets", "After so many packets a status is asked for; 16 if absent.", 1, 4096),
      number("rate", "Bytes a second that leave; 0: no limit, as if absent.", 0, rate_max),
      number("burst", "Bytes that leave at once; those of a packet if absent.", 0, rate_max),
      number("in_rate", "The rate that is asked of the peer.", 0, rate_max),
      number("in_burst", "The burst that is asked of the peer.", 0, rate_max),
      number("receive_buffer_bytes", "Bytes that may come and wait for the reader; 524288 if absent.", 4096, 1 << 30),
      number("send_buffer_bytes", "Bytes that may wait to be acknowledged; 524288 if absent.", 4096, 1 << 30),
      number("wtimer_ms", "The least time in which an answer is awaited, in ms; 20 if absent.", 1, 5000),
      number("ctimer_ms", "After so many ms without a packet the peer is asked; 60000 if absent.", 10, 3600000),
      number("attempts", "Questions without an answer, before an association is given up; 10 if absent.", 1, 1000),
  };
}

xtp::Options xtp_options_of(const Parameters& parameters) {
  xtp::Options options;
  const auto whole = [&]<class T>(std::string_view name, T& value) {
    value = static_cast<T>(parameters.integer(name, static_cast<std::int64_t>(value)));
  };
  const auto milliseconds = [&](std::string_view name, Duration& value) {
    value = std::chrono::milliseconds(parameters.integer(name, value / std::chrono::milliseconds(1)));
  };
  options.selective = parameters.text("recovery", "selective") == "selective";
  options.error_control = parameters.boolean("error_control", true);
  options.flow_control = parameters.boolean("flow_control", true);
  options.fast_nak = parameters.boolean("fast_nak", true);
  options.checksum = parameters.boolean("checksum", true);
  whole("packet_bytes", options.packet_bytes);
  whole("status_packets", options.status_packets);
  whole("rate", options.rate);
  whole("burst", options.burst);
  whole("in_rate", options.in_rate);
  whole("in_burst", options.in_burst);
  whole("receive_buffer_bytes", options.receive_buffer_bytes);
  whole("send_buffer_bytes", options.send_buffer_bytes);
  milliseconds("wtimer_ms", options.wtimer_min);
  milliseconds("ctimer_ms", options.ctimer);
  whole("attempts", options.attempts);
  return options;
}

}  // namespace

Entry xtp_entry() {
  return {
      .name = "xtp",
      .summary = "the Xpress Transport Protocol over datagrams",
      .effect =
          "keeps data until the peer has it, puts a header in front of each packet and sums it; checks the sum on the "
          "way up",
      .lower = accepts(Service::transport),
      .upper = Service::transport,
      .parameters = xtp_specs(),
      .make = [](StreamSet&, const Parameters& parameters) -> Result<std::unique_ptr<Module>> {
        return std::make_unique<Xtp>(xtp_options_of(parameters));
      },
  };
}

}  // namespace sluice
