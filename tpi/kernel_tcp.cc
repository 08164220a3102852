// SPDX-License-Identifier: Apache-2.0
#include "tpi/kernel_tcp.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "stack/core/ioctl.h"
#include "stack/core/primitive.h"
#include "stack/wire/connection_info.h"
#include "tpi/socket_binding.h"

namespace sluice::tpi {
namespace {

using namespace wire::tpi;  // the primitives and their numbers

/// A connect that fails at once for what the network says, as one that fails later, is told by T_DISCON_IND.
bool is_of_the_network(int error) {
  return error == ECONNREFUSED || error == ENETUNREACH || error == EHOSTUNREACH || error == ETIMEDOUT ||
         error == ECONNRESET || error == ENETDOWN || error == EHOSTDOWN;
}

}  // namespace

KernelTcp::KernelTcp(StreamSet& set, const TcpSocket::Options& options, const TcpCalls& calls)
    : SocketDriver("kernel_tcp", write_marks),
      ConnectionMode(static_cast<Module&>(*this)),
      options_(options),
      calls_(calls),
      retry_(set.scheduler(),
             [this] {
               reading_stopped_ = false;
               resume_writing();
             }),
      accept_retry_(set.scheduler(), [] {}),
      watch_(set.scheduler(), [this] { look_after_unread(); }) {}

PayloadWork KernelTcp::payload_work(Side side) const {
  if (side == Side::read) {
    return {.items = {}, .uncounted = "recv copies into the message"};
  }
  return {.items = {{.kind = PayloadWork::Kind::gather, .where = "message to the write queue", .layered = false}},
          .uncounted = "sendmsg copies from the message"};
}

void KernelTcp::close() {
  rejected_ += pending_.size();
  const bool cut_short = phase_ == Phase::connected && !write_queue().empty();
  aborted_ += cut_short ? 1U : 0U;
  drop_connection(cut_short);
  release();
}

void KernelTcp::release() {
  drop_connection(true);
  for (Pending& one : pending_) {
    one.socket.abort();
  }
  pending_.clear();
  if (std::exchange(listens_watched_, false)) {
    set().remove_source(listener_);
  }
  listener_.socket.reset();
  accept_retry_.cancel();
  watch_.cancel();
  requests_.clear();
  room_.reset();
  write_queue().flush(FlushKind::all);
}

// ---- Requests ----

void KernelTcp::take_request(Message message) {
  if (closing_ && message.type() != MessageType::pcproto) {
    if (requests_.size() < waiting_requests_max) {
      requests_.push(std::move(message));
    } else {
      ++dropped_;
    }
    return;
  }
  Message accepted = accept(std::move(message));
  if (!accepted) {
    return;
  }
  if (accepted.type() != MessageType::data && primitive_of(accepted.bytes()) == T_ORDREL_REQ) {
    start_release();
  } else if (accepted.type() != MessageType::data && !accepted.has_data()) {
    return;  // no byte, and TCP has nothing that could say so
  } else if (!write_queue().empty() || !sendable() || !send(accepted)) {
    wait(std::move(accepted));
  }
}

void KernelTcp::answer_ioctl(Message message) {
  if (is_ioctl(message, wire::SLIOCCONNECTION)) {
    const int error = socket_options_.tell_connection(ioctl_argument(message));
    return read_queue().put_next(error == 0 ? ioctl_acknowledged(std::move(message))
                                            : ioctl_refused(std::move(message), error));
  }
  refuse_ioctl(std::move(message));
}

void KernelTcp::bind(ConstBytes address, std::uint32_t connect_indications) {
  const auto wanted = BindRequest::of(address, replaces_busy());
  if (!wanted) {
    return refused(TBADADDR);
  }
  const bool listens = connect_indications > 0;
  Result<TcpSocket> opened =
      bind_socket(*wanted, [&](const wire::TransportAddress& to) { return TcpSocket::bind(to, options_, listens); });
  int error = !opened ? opened.error().code : listens ? opened->listen(connect_indications) : 0;
  const auto at = error == 0 ? opened->local() : fail(error);
  error = at ? 0 : at.error().code;
  if (error != 0) {
    const auto [tli_error, unix_error] = bind_error(error, wanted->any_port());
    return refused(tli_error, unix_error);
  }
  bound_ = *at;
  if (listens) {
    socket_options_.attach(opened->descriptor(), opened->is_v6());
    socket_options_.detach();
    listener_.socket.emplace(std::move(*opened));
    set().add_source(listener_);
    listens_watched_ = true;
  } else {
    socket_.emplace(std::move(*opened));
    phase_ = Phase::reserved;
    socket_options_.attach(socket_->descriptor(), socket_->is_v6());
  }
  bound(Encoded(bound_).bytes(), connect_indications);
}

void KernelTcp::unbind() {
  release();
  acknowledged();
}

// ---- Connections ----

/// A socket whose connection has ended connects no more: each connection has a socket of its own, and the first has the
/// one that was bound.
void KernelTcp::connect(ConstBytes destination) {
  const auto to = wire::TransportAddress::decode(destination);
  if (!to) {
    return refused(TBADADDR);
  }
  if (listener_.socket) {
    return refused(TSYSERR, EOPNOTSUPP);
  }
  if (phase_ == Phase::none) {
    Result<TcpSocket> opened = TcpSocket::bind(bound_, options_, true);
    if (!opened) {
      return refuse_connect(opened.error().code);
    }
    socket_.emplace(std::move(*opened));
    socket_options_.attach(socket_->descriptor(), socket_->is_v6());
  }
  const int error = socket_->connect(*to, calls_);
  if (error != 0 && error != EINPROGRESS && !is_of_the_network(error)) {
    phase_ = Phase::connecting;
    drop_connection(false);
    return refuse_connect(error);
  }
  phase_ = Phase::connecting;
  set().add_source(*this);
  acknowledged();
  if (error == 0) {
    finish_connect();
  } else if (error != EINPROGRESS) {
    ++connect_failures_;
    drop_connection(false);
    indicate_disconnection(error);
  }
}

void KernelTcp::refuse_connect(int error) {
  ++connect_failures_;
  const auto [tli_error, unix_error] = bind_error(error, false);
  refused(tli_error, unix_error);
}

/// The kernel says by writability that it knows.
void KernelTcp::finish_connect() {
  if (const int error = socket_->take_error(); error != 0) {
    ++connect_failures_;
    socket_->abort();  // should there be a connection, the peer must not take it for one that says nothing
    drop_connection(false);
    return indicate_disconnection(error);
  }
  connection_is_up();
  confirm_connection(remote_address());
}

void KernelTcp::connection_is_up() {
  ++connections_;
  phase_ = Phase::connected;
  socket_->share_address();  // it may linger (LAST-ACK, TIME-WAIT) when the stream connects again from that address
  set_local_address(socket_->local().value_or(bound_));
  set_remote_address(socket_->remote());
}

bool KernelTcp::wants_connections() const {
  return !reading_stopped_ && !accept_retry_.armed() && may(provider::ConnectionEvent::conn_ind) && !closing_ &&
         outstanding() < connect_indications();
}

/// accept(2): "Linux accept() (and accept4()) passes already-pending network errors on the new socket as an error code
/// from accept()", to be treated like EAGAIN; those of descriptors and memory only time cures.
bool KernelTcp::accept_waiting() {
  for (std::size_t taken = 0; taken < accepts_per_turn_max && wants_connections(); ++taken) {
    if (!read_queue().can_put_next()) {
      ++read_stops_;
      reading_stopped_ = true;
      return false;
    }
    Result<TcpSocket> accepted = listener_.socket->accept(calls_);
    if (!accepted) {
      const int error = accepted.error().code;
      if (would_block(error)) {
        return false;
      }
      ++accept_failures_;
      if (error == EMFILE || error == ENFILE || is_shortage(error)) {
        accept_retry_.arm_after(accept_retry_delay);
        return false;
      }
      continue;
    }
    const std::int32_t sequence = new_sequence();
    const wire::TransportAddress source = accepted->remote();
    pending_.push_back({sequence, std::move(*accepted)});
    ++indicated_;
    indicate_connection(Encoded(source).bytes(), sequence);
    watch_unread();
  }
  return wants_connections();
}

void KernelTcp::watch_unread() {
  if (!watch_.armed()) {
    watch_.arm_after(watch_interval);
  }
}

/// What nobody reads from has no readiness to tell of its end: a connection while the stream above is full, and callers
/// that are not answered. The threat: callers that connect and reset would fill the queue of those that may be
/// outstanding until the user has answered each.
void KernelTcp::look_after_unread() {
  if (phase_ == Phase::connected && reading_stopped_) {
    if (const int error = socket_->take_error(); error != 0) {
      lose_connection(error);
    }
  }
  std::vector<std::int32_t> gone;
  for (const Pending& one : pending_) {
    if (one.socket.take_error() != 0) {
      gone.push_back(one.sequence);
    }
  }
  for (const std::int32_t sequence : gone) {
    withdraw(sequence);
  }
  if (!pending_.empty() || (phase_ == Phase::connected && reading_stopped_)) {
    watch_unread();
  }
}

void KernelTcp::withdraw(std::int32_t sequence) {
  using enum provider::ConnectionEvent;
  const auto chosen = pending(sequence);
  if (chosen != pending_.end() && may(outstanding() > 1 ? discon_ind3 : discon_ind2)) {
    ++withdrawn_;
    pending_.erase(chosen);
    indicate_withdrawal(ECONNRESET, sequence);
  }
}

std::vector<KernelTcp::Pending>::iterator KernelTcp::pending(std::int32_t sequence) {
  return std::ranges::find(pending_, sequence, &Pending::sequence);
}

void KernelTcp::respond(std::uint32_t acceptor_id, std::int32_t sequence) {
  Module* const named = set().module_handles().find(acceptor_id);
  auto* const acceptor = dynamic_cast<KernelTcp*>(named);
  if (const auto error = acceptance_error(named != nullptr, acceptor, acceptor != nullptr && acceptor->closing_)) {
    return refused(*error);
  }
  const auto chosen = pending(sequence);
  if (acceptor == this) {
    adopt(std::move(chosen->socket));
    pending_.erase(chosen);
    return acknowledged();
  }
  acceptor->adopt(std::move(chosen->socket));
  if (acceptor->bound_address().empty()) {
    acceptor->bound_ = acceptor->socket_->local().value_or(wire::TransportAddress{});
  }
  acceptor->take_connection(acceptor->local_address());
  pending_.erase(chosen);
  accepted_elsewhere();
}

/// The connection becomes this stream's; a socket that it was bound with is given up.
void KernelTcp::adopt(TcpSocket socket) {
  drop_connection(false);
  socket_.emplace(std::move(socket));
  socket_options_.attach(socket_->descriptor(), socket_->is_v6());
  connection_is_up();
  set().add_source(*this);
}

void KernelTcp::reject(std::int32_t sequence) {
  ++rejected_;
  const auto chosen = pending(sequence);
  chosen->socket.abort();
  pending_.erase(chosen);
  acknowledged();
}

void KernelTcp::disconnect() {
  aborted_ += phase_ == Phase::connected ? 1U : 0U;
  drop_connection(true);
  acknowledged();
}

/// Ends what the socket is, and forgets what was to be sent.
void KernelTcp::drop_connection(bool reset) {
  if (socket_) {
    if (phase_ == Phase::connecting || phase_ == Phase::connected) {
      set().remove_source(*this);
    }
    if (reset && phase_ == Phase::connected) {
      socket_->abort();
    }
    socket_options_.detach();
    socket_.reset();
  }
  unsent_ += write_queue().messages();
  write_queue().flush(FlushKind::all);
  write_queue().set_enabled(true);
  retry_.cancel();
  phase_ = Phase::none;
  forget_addresses();
  reading_stopped_ = writing_blocked_ = peer_ended_ = release_due_ = closing_ = false;
}

/// The connection is gone, or cannot go on: the peer must not take the part that it has for the whole. Where both sides
/// had been released the user has no more to hear of it.
void KernelTcp::lose_connection(int error) {
  drop_connection(true);
  if (may(provider::ConnectionEvent::discon_ind1)) {
    ++resets_;
    indicate_disconnection(error == EPIPE ? ECONNRESET : error);
  }
  while (Message request = requests_.pop()) {
    take_request(std::move(request));
  }
}

}  // namespace sluice::tpi
