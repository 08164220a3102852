// SPDX-License-Identifier: Apache-2.0

// tcp: what its user asks for, and what he is told.

#include "stack/modules/tcp.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "stack/core/ioctl.h"
#include "stack/core/primitive.h"
#include "stack/core/stream_set.h"
#include "stack/wire/connection_info.h"
#include "stack/wire/protocol.h"

namespace sluice {

using namespace wire::tpi;  // the primitives and their numbers
using provider::Setting;

namespace {

constexpr double buffer_bytes_min = 4096;
constexpr double buffer_bytes_max = 1 << 30;

}  // namespace

Tcp::Tcp(const Options& options)
    : ConnectionEndpoint("tcp", {indicated_, rejected_, connect_failures_, resets_, aborted_, unsent_, no_memory_}),
      declared_(options) {}

PayloadWork Tcp::payload_work(Side side) const {
  if (side == Side::write) {
    return {.items = {{.kind = PayloadWork::Kind::sum}},
            .materializes = "holds data until the peer has it",
            .keeps = true,
            .materializes_last = true,
            .makes_sums_known = true};
  }
  return {.items = {{.kind = PayloadWork::Kind::check}},
          .materializes = "acknowledges what it has verified",
          .materializes_last = true,
          .lands = true};
}

Status Tcp::open() {
  cookies_ = tcp::Cookies({set().prng()(), set().prng()()});
  port_ = std::make_unique<PortBinding>(
      *this, wire::protocol_tcp,
      PortBinding::Hooks{
          .down = [this](Message message) { down(std::move(message)); },
          .bound = [this] { port_bound(); },
          .unbound = [this] { port_released(); },
          .refused = [this](std::int32_t tli_error, std::int32_t unix_error) { port_refused(tli_error, unix_error); }});
  port_->open();
  return ConnectionEndpoint::open();
}

/// What was said may be lost, and what was not said is: the peer must not take the part that it has for the whole.
void Tcp::close() {
  const Entered entered(*this);
  if (mine_) {
    end_connection(!(mine_->connection.all_acknowledged() && write_queue().empty() && released_));
  }
  release();
}

void Tcp::release() {
  ConnectionEndpoint::release();
  adopted();
  handed_.clear();
  callee_.reset();
  port_->abandon();
}

// ---- Requests ----

void Tcp::pass_on(Message message) {
  if (message.type() == MessageType::ioctl && ioctl_block(message).command == wire::SLIOCCONNECTION) {
    return answer_ioctl(std::move(message));
  }
  write_queue().put_next(std::move(message));
}

// ---- Options ----

std::optional<std::uint32_t> Tcp::UserOptions::current(Setting setting) {
  switch (setting) {
    case Setting::no_delay:
      return module_.no_delay_ ? wire::xti::T_YES : wire::xti::T_NO;
    case Setting::v6_only:
      return module_.v6_only_ ? 1 : 0;
    case Setting::segment_bytes:
      return module_.mine_ ? static_cast<std::uint32_t>(module_.mine_->connection.segment_data_max())
                           : tcp::Connection::segment_bytes_default_v4;
    case Setting::keep_alive:
      return module_.keeps_alive_ ? (module_.keep_idle_seconds_ + 59) / 60 : 0;
    case Setting::keep_idle:
      return module_.keep_idle_seconds_;
    case Setting::keep_interval:
      return module_.keep_interval_seconds_;
    case Setting::keep_count:
      return module_.keep_count_;
    case Setting::segment_limit:
      return module_.segment_limit_;
    case Setting::receive_buffer:
      return static_cast<std::uint32_t>(module_.buffers_.receive_buffer_bytes);
    case Setting::send_buffer:
      return static_cast<std::uint32_t>(module_.buffers_.send_buffer_bytes);
    default:
      return std::nullopt;
  }
}

std::optional<std::uint32_t> Tcp::UserOptions::initial(Setting setting) {
  switch (setting) {
    case Setting::no_delay:
      return wire::xti::T_NO;
    case Setting::segment_bytes:
      return tcp::Connection::segment_bytes_default_v4;
    case Setting::keep_alive:
    case Setting::v6_only:
      return 0;
    case Setting::keep_idle:
      return keep_idle_seconds_initial;
    case Setting::keep_interval:
      return keep_interval_seconds_initial;
    case Setting::keep_count:
      return tcp::Connection::keep_alive_probes_max;
    case Setting::segment_limit:
      return segment_limit_initial;
    case Setting::receive_buffer:
      return static_cast<std::uint32_t>(module_.declared_.receive_buffer_bytes);
    case Setting::send_buffer:
      return static_cast<std::uint32_t>(module_.declared_.send_buffer_bytes);
    default:
      return std::nullopt;
  }
}

bool Tcp::UserOptions::set(Setting setting, std::uint32_t value) {
  switch (setting) {
    case Setting::no_delay:
      module_.no_delay_ = value == wire::xti::T_YES;
      break;
    case Setting::v6_only:
      module_.v6_only_ = value != 0;
      break;
    case Setting::keep_alive:
      module_.keeps_alive_ = value != 0;
      module_.keep_idle_seconds_ = value != 0 ? 60 * value : module_.keep_idle_seconds_;
      break;
    case Setting::keep_idle:
      module_.keep_idle_seconds_ = value;
      break;
    case Setting::keep_interval:
      module_.keep_interval_seconds_ = value;
      break;
    case Setting::keep_count:
      module_.keep_count_ = value;
      break;
    case Setting::segment_limit:
      module_.segment_limit_ = value;
      break;
    case Setting::receive_buffer:
      module_.buffers_.receive_buffer_bytes = value;
      break;
    case Setting::send_buffer:
      module_.buffers_.send_buffer_bytes = value;
      break;
    default:
      return false;
  }
  if (module_.mine_) {
    module_.apply_options();
    module_.flush(*module_.mine_);
    module_.send_waiting();  // what a larger buffer has room for
  }
  return true;
}

// ---- What is known of the connection ----

void Tcp::answer_ioctl(Message message) {
  const Bytes place = ioctl_argument(message);
  const bool fits = !ioctl_block(message).transparent() && place.size() == sizeof(wire::ConnectionInfo);
  if (!fits || !mine_) {
    return read_queue().put_next(ioctl_refused(std::move(message), fits ? ENOTCONN : EINVAL));
  }
  const wire::ConnectionInfo info = mine_->connection.info();
  std::memcpy(place.data(), &info, sizeof info);
  read_queue().put_next(ioctl_acknowledged(std::move(message)));
}

// ---- Binding ----

void Tcp::bind(ConstBytes address, std::uint32_t connect_indications) {
  const auto wanted = PortBinding::wanted_by(address, v6_only_);
  if (!wanted) {
    return refused(TBADADDR);
  }
  wanted_indications_ = connect_indications;
  purpose_ = Purpose::user;
  port_->bind(*wanted, replaces_busy());
}

void Tcp::port_bound() {
  const Entered entered(*this);
  switch (std::exchange(purpose_, Purpose::none)) {
    case Purpose::none:
      return;
    case Purpose::user:
      return bound(Encoded(port_->local()).bytes(), wanted_indications_);
    case Purpose::connecting:
      return start_connecting();
    case Purpose::adoption:
      if (port_->filtered()) {
        adopted();
      }
      if (mine_) {
        attend(*mine_);
      }
      return go_on();
  }
}

void Tcp::port_refused(std::int32_t tli_error, std::int32_t unix_error) {
  const Entered entered(*this);
  const Purpose purpose = std::exchange(purpose_, Purpose::none);
  if (purpose == Purpose::none || purpose == Purpose::user) {  // unbind(), bind()
    return refused(tli_error, unix_error);
  }
  if (purpose == Purpose::connecting) {
    return refuse_connect(tli_error, unix_error);
  }
  adopted();
  lose_connection(EADDRINUSE);
  go_on();
}

void Tcp::port_released() {
  const Entered entered(*this);
  drop_lingering();
  acknowledged();
}

/// What the user has asked for while the port was being bound.
void Tcp::go_on() {
  unbind_when_done();
  if (callee_) {
    start_connecting();
  }
}

/// TIME-WAIT needs no port.
void Tcp::unbind_when_done() {
  if (!unbind_due_ || purpose_ != Purpose::none || lingers()) {
    return;
  }
  unbind_due_ = false;
  if (port_->held()) {
    port_->unbind();
  } else {
    port_released();
  }
}

// ---- Connecting ----

void Tcp::connect(ConstBytes destination) {
  const auto to = wire::TransportAddress::decode(destination);
  if (!to || to->port == 0 || to->address.is_unspecified()) {
    return refused(TBADADDR);
  }
  if (to->address.is_multicast()) {
    return refused(TBADADDR);  // RFC 9293 section 3.9.2.3: "MUST reject" (MUST-46)
  }
  if (connect_indications() > 0) {
    return refused(TSYSERR, EOPNOTSUPP);
  }
  callee_ = *to;
  if (purpose_ == Purpose::none) {
    start_connecting();
  }
}

void Tcp::start_connecting() {
  const wire::TransportAddress to = *callee_;
  const auto answered = route(to.address);
  if (!answered || answered->error != 0) {
    return refuse_connect(TSYSERR, answered ? static_cast<int>(answered->error) : ENETUNREACH);
  }
  wire::TransportAddress from = wire::TransportAddress::decode(bound_address()).value_or(wire::TransportAddress{});
  from.address = from.address.is_unspecified() ? answered->source : from.address;
  if (from.address.family() != to.address.family()) {
    return refuse_connect(TBADADDR, 0);
  }
  const tcp::Ends ends{.local = from, .remote = to};
  if (find(ends) != nullptr) {
    return refuse_connect(TADDRBUSY, 0);
  }
  // The port of an earlier connection: the driver knows it with that one's other end alone.
  if (!port_->held() || port_->remote().value_or(to) != to) {
    purpose_ = Purpose::connecting;
    return port_->bind_connection(ends.local, to);
  }
  callee_.reset();
  set_connection(make_connection(ends, *answered, secrets_of(ends)));
  acknowledged();
  if (mine_) {
    mine_->connection.connect(set().now());
    attend(*mine_);
  }
}

void Tcp::refuse_connect(std::int32_t tli_error, std::int32_t unix_error) {
  ++connect_failures_;
  callee_.reset();
  refused(tli_error, unix_error);
}

// ---- Accepting ----

void Tcp::respond(std::uint32_t acceptor_id, std::int32_t sequence) {
  Module* const named = set().module_handles().find(acceptor_id);
  auto* const acceptor = dynamic_cast<Tcp*>(named);
  const bool busy = acceptor != nullptr && (acceptor->purpose_ != Purpose::none || acceptor->mine_);
  if (const auto error = acceptance_error(named != nullptr, acceptor, busy)) {
    return refused(*error);
  }
  std::unique_ptr<Held> held = take_caller(sequence);
  if (acceptor == this) {
    set_connection(std::move(held));
    acknowledged();
    return mine_ ? attend(*mine_) : void();
  }
  accepted_elsewhere();
  handed_.push_back({held->connection.ends(), acceptor_id});
  acceptor->take_over(std::move(held), *this);
  indicate_callers();
}

// ---- Sending ----

/// What is lent is copied now, and in that pass summed as segments will need it.
void Tcp::take_data(Message message) {
  if (!message.carries_data()) {
    return;  // no byte, and TCP has nothing that could say so
  }
  if (!mine_) {
    ++unsent_;
    return;
  }
  if (message.type() != MessageType::data) {
    message.pop_block();
  }
  if (keep(message, Side::write, mine_->connection.stretches(write_queue().bytes())) == TransformResult::failed) {
    ++unsent_;
    lose_connection(ENOBUFS);
  } else if (write_queue().empty() && mine_->connection.send_room() > 0) {
    send(std::move(message));
  } else {
    write_queue().enqueue(std::move(message));
  }
}

void Tcp::send(Message data) {
  mine_->connection.send(std::move(data), set().now());
  flush(*mine_);
}

void Tcp::finish() {
  mine_->connection.finish(set().now());
  flush(*mine_);
}

// ---- Receiving ----

void Tcp::pass_up(Message indication) {
  indication.link(mine_->connection.take(set().now(), indication_bytes_max));
  defer_unless_landed(indication);
  read_queue().put_next(std::move(indication));
  if (mine_) {
    flush(*mine_);  // the window that opens: what answers it comes behind this
  }
}

bool Tcp::peer_has_ended() {
  end_came_ = end_came_ || mine_->connection.take_news().ended;
  return end_came_;
}

void Tcp::forget_connection() {
  ConnectionEndpoint::forget_connection();
  end_came_ = false;
}

// ---- Registry ----

Entry tcp_entry() {
  return {
      .name = "tcp",
      .summary = "the Transmission Control Protocol over ip",
      .effect =
          "keeps data until the peer has it, puts a header in front of each segment and sums it; checks the sum on "
          "the way up",
      .lower = accepts(Service::network),
      .upper = Service::transport,
      .parameters = {{.name = "receive_buffer_bytes",
                      .type = ParameterSpec::Type::integer,
                      .meaning = "Bytes that may come and wait for the reader; 524288 if absent.",
                      .minimum = buffer_bytes_min,
                      .maximum = buffer_bytes_max},
                     {.name = "send_buffer_bytes",
                      .type = ParameterSpec::Type::integer,
                      .meaning = "Bytes that may wait to be acknowledged; 524288 if absent.",
                      .minimum = buffer_bytes_min,
                      .maximum = buffer_bytes_max}},
      .make = [](StreamSet&, const Parameters& parameters) -> Result<std::unique_ptr<Module>> {
        const Tcp::Options absent;
        const auto bytes = [&](std::string_view name, std::size_t otherwise) {
          return static_cast<std::size_t>(parameters.integer(name, static_cast<std::int64_t>(otherwise)));
        };
        return std::make_unique<Tcp>(
            Tcp::Options{.receive_buffer_bytes = bytes("receive_buffer_bytes", absent.receive_buffer_bytes),
                         .send_buffer_bytes = bytes("send_buffer_bytes", absent.send_buffer_bytes)});
      },
  };
}

}  // namespace sluice
