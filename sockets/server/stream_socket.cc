// SPDX-License-Identifier: Apache-2.0
#include "sockets/server/stream_socket.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "sockets/server/endpoints.h"
#include "sockets/server/listening_socket.h"

namespace sluice::sockets {

using wire::TransportAddress;

StreamSocket::StreamSocket(Host& host, const Identity& identity, Descriptor channel)
    : Socket(host, identity, std::move(channel)), attention_(host.set().scheduler(), [this] { host_.wake(*this); }) {
  watch();
}

StreamSocket::StreamSocket(Host& host, const Identity& identity, Descriptor channel,
                           std::unique_ptr<tli::Endpoint> endpoint, const EndpointOptions& options,
                           Quotas::Connection granted)
    : StreamSocket(host, identity, std::move(channel)) {
  options_ = options;
  granted_ = std::move(granted);
  endpoint_ = std::move(endpoint);
  wake_on_events(*endpoint_, [this] { host_.wake(*this); });
  begin_connection();
}

int StreamSocket::open_endpoint() {
  if (endpoint_ != nullptr) {
    return 0;
  }
  auto opened = host_.open_endpoint(SocketKind::stream);
  if (!opened) {
    return opened.error().code;
  }
  endpoint_ = std::move(*opened);
  wake_on_events(*endpoint_, [this] { host_.wake(*this); });
  options_.apply(*endpoint_);
  return 0;
}

int StreamSocket::bind_to(const TransportAddress& address, std::uint32_t qlen) {
  const auto bound = bind_endpoint(*endpoint_, address, qlen);
  if (!bound) {
    return bound.error();
  }
  local_ = *bound;
  return 0;
}

int StreamSocket::bind_to_any_port(bool v6) {
  TransportAddress local = any_address(v6);
  int error = EADDRINUSE;
  for (int attempt = 0; attempt < port_attempts_max && error == EADDRINUSE; ++attempt) {
    local.port = host_.next_port();
    error = bind_to(local, 0);
  }
  return error;
}

void StreamSocket::learn_names() {
  std::array<std::byte, TransportAddress::encoded_size_max> near{};
  std::array<std::byte, TransportAddress::encoded_size_max> far{};
  tli::t_bind bound{.addr = {.maxlen = near.size(), .len = 0, .buf = near.data()}};
  tli::t_bind connected{.addr = {.maxlen = far.size(), .len = 0, .buf = far.data()}};
  if (!endpoint_->t_getprotaddr(&bound, &connected)) {
    return;
  }
  if (const auto decoded = TransportAddress::decode(ConstBytes(near).first(bound.addr.len))) {
    local_ = *decoded;
  }
  if (const auto decoded = TransportAddress::decode(ConstBytes(far).first(connected.addr.len))) {
    peer_ = *decoded;
  }
}

// ---- What the program asks ----

/// A port whose connections linger can be had again in any case, so nothing need be shared.
Reply StreamSocket::bind(const Address& address, bool) {
  if (phase_ != Phase::fresh) {
    return refusal(EINVAL);
  }
  const auto wanted = transport_address_of(address, identity_.family);
  if (!wanted) {
    return refusal(EAFNOSUPPORT);
  }
  int error = excludes(*wanted) ? EINVAL : open_endpoint();
  error = error == 0 ? bind_to(*wanted, 0) : error;
  phase_ = error == 0 ? Phase::bound : phase_;
  return refusal(error);
}

/// What the program asks for is bounded without a word, as by net.core.rmem_max (socket(7)).
bool StreamSocket::take_memory() {
  const Buffers wanted = buffers_of(*endpoint_);
  granted_.memory = {};
  auto granted = host_.quotas().take_connection(identity_.user, wanted);
  if (!granted) {
    return false;
  }
  granted_ = std::move(*granted);
  if (granted_.buffers != wanted) {
    set_buffers(*endpoint_, granted_.buffers);
  }
  return true;
}

Bytes StreamSocket::piece_of(std::size_t buffer_bytes) {
  const Bytes scratch = host_.scratch();
  return scratch.first(std::clamp(buffer_bytes, Quotas::buffer_bytes_short, scratch.size()));
}

/// A qlen is asked for with the address, so the endpoint is bound once more, to the same one.
Reply StreamSocket::listen(int backlog) {
  if (phase_ != Phase::fresh && phase_ != Phase::bound) {
    return refusal(EINVAL);
  }
  Quotas::Share share = host_.quotas().take(identity_.user, Quotas::What::listening, 1);
  int error = share ? open_endpoint() : ENOBUFS;
  if (error == 0 && phase_ == Phase::bound) {
    const auto unbound = endpoint_->t_unbind();
    error = unbound ? 0 : errno_of(unbound.error());
    phase_ = Phase::fresh;
  }
  int qlen = std::clamp(backlog, 1, ListeningSocket::backlog_max);
  Quotas::Share memory;
  while (qlen > 0 && !(memory = host_.quotas().take(identity_.user, Quotas::What::memory,
                                                    static_cast<std::size_t>(qlen) * Quotas::caller_bytes))) {
    qlen /= 2;
  }
  error = error == 0 && !memory ? ENOBUFS : error;
  error = error == 0 ? bind_to(local_.value_or(any_address(v6())), static_cast<std::uint32_t>(qlen)) : error;
  if (error != 0) {
    return refusal(error);
  }
  auto pair = host_.make_pair(SocketKind::listening);
  if (!pair) {
    return refusal(pair.error().code);
  }
  const Identity listening{
      .inode = pair->inode, .user = identity_.user, .process = identity_.process, .family = identity_.family};
  phase_ = Phase::over;
  error = host_.adopt(std::make_unique<ListeningSocket>(host_, listening, std::move(pair->ours), std::move(endpoint_),
                                                        local_.value_or(any_address(v6())), options_, std::move(share),
                                                        std::move(memory)));
  Reply reply = refusal(error);
  reply.passed = std::move(pair->program);
  return reply;
}

Reply StreamSocket::connect(const Request& request, Asker asker) {
  if (phase_ == Phase::connecting) {
    return refusal(EALREADY);
  }
  if (phase_ == Phase::connected || phase_ == Phase::over) {
    return refusal(phase_ == Phase::over ? ECONNABORTED : EISCONN);
  }
  const auto to = transport_address_of(request.address, identity_.family);
  if (!to) {
    return refusal(EAFNOSUPPORT);
  }
  int error = excludes(*to) ? ENETUNREACH : open_endpoint();
  if (error == 0 && phase_ == Phase::fresh) {
    error = bind_to_any_port(to->address.is_v6());
    phase_ = error == 0 ? Phase::bound : phase_;
  }
  Quotas::Share attempt = host_.quotas().take(identity_.user, Quotas::What::connecting, 1);
  error = error == 0 && (!attempt || !take_memory()) ? ENOBUFS : error;
  if (error != 0) {
    return refusal(error);
  }
  std::array<std::byte, TransportAddress::encoded_size_max> bytes{};
  tli::t_call call;
  call.addr = {.maxlen = bytes.size(), .len = to->encode(bytes), .buf = bytes.data()};
  if (const auto asked = endpoint_->t_connect(call, nullptr); !asked && asked.error().t_errno != wire::tpi::TNODATA) {
    granted_ = {};
    return refusal(errno_of(asked.error()));
  }
  attempt_ = std::move(attempt);
  phase_ = Phase::connecting;
  peer_ = *to;
  background_ = request.background != 0;
  filler_ = request.filler;
  asker_ = background_ ? 0 : asker;
  host_.wake(*this);
  Reply reply = refusal(background_ ? EINPROGRESS : 0);
  reply.later = !background_;
  return reply;
}

/// What a segment carries, and what the buffers are, is told by the connection where there is one.
Reply StreamSocket::get_option(const Request& request) {
  Reply reply = Socket::get_option(request);
  const bool of_buffer = request.name == SO_RCVBUF || request.name == SO_SNDBUF;
  if (request.level == SOL_SOCKET && of_buffer && endpoint_ != nullptr) {
    const Buffers buffers = buffers_of(*endpoint_);
    reply.answer.value = static_cast<std::int32_t>(request.name == SO_RCVBUF ? buffers.receive : buffers.send);
  }
  if (request.level == IPPROTO_TCP && request.name == TCP_MAXSEG) {
    const auto info = connection_info();
    constexpr std::int32_t segment_bytes_default = 536;  // RFC 9293 section 3.7.1
    reply.answer.value = info                      ? static_cast<std::int32_t>(info->segment_bytes)
                         : reply.answer.value == 0 ? segment_bytes_default
                                                   : reply.answer.value;
  }
  return reply;
}

std::optional<wire::ConnectionInfo> StreamSocket::connection_info() {
  wire::ConnectionInfo info;
  if (endpoint_ == nullptr) {
    return std::nullopt;
  }
  const auto told = endpoint_->stream().ioctl(wire::SLIOCCONNECTION, std::as_bytes(std::span(&info, 1)));
  if (!told || told->data.size() != sizeof info) {
    return std::nullopt;
  }
  std::memcpy(&info, told->data.data(), sizeof info);
  return info;
}

SocketRecord StreamSocket::record() {
  SocketRecord record = Socket::record();
  record.kind = SocketKind::stream;
  record.receive_queue = up_.size() - up_sent_;
  record.send_queue = down_.size() - down_sent_;
  if (const auto info = connection_info()) {
    record.state = static_cast<std::uint8_t>(info->state);
    record.round_trip_us = info->round_trip_us;
    record.receive_queue += info->received_waiting;
    record.send_queue += info->unacknowledged + info->unsent;
    record.retransmissions = info->segments_again;
  }
  return record;
}

Reply StreamSocket::connection() {
  const auto info = connection_info();
  if (!info) {
    return refusal(ENOTCONN);
  }
  Reply reply;
  reply.answer.connection = {.state = static_cast<std::uint8_t>(info->state),
                             .options = static_cast<std::uint8_t>(info->options),
                             .send_scale = static_cast<std::uint8_t>(info->send_scale),
                             .receive_scale = static_cast<std::uint8_t>(info->receive_scale),
                             .send_mss = info->segment_bytes,
                             .receive_mss = info->peer_segment_bytes,
                             .round_trip_us = info->round_trip_us,
                             .round_trip_variation_us = info->round_trip_variation_us,
                             .round_trip_least_us = info->round_trip_least_us,
                             .timeout_us = info->timeout_us,
                             .congestion_window = info->congestion_window,
                             .unacknowledged = info->unacknowledged,
                             .unsent = info->unsent,
                             .segments_sent = info->segments_sent,
                             .segments_again = info->segments_again};
  return reply;
}

SocketState StreamSocket::state() const {
  switch (phase_) {
    case Phase::connecting:
      return SocketState::connecting;
    case Phase::connected:
      return SocketState::connected;
    case Phase::over:
      return SocketState::over;
    default:
      return SocketState::idle;
  }
}

/// One that is connecting has what it had before; the rest follows when the connection is there.
void StreamSocket::apply_options() {
  if (endpoint_ != nullptr && phase_ != Phase::connecting && phase_ != Phase::over) {
    options_.apply(*endpoint_);
    if (phase_ == Phase::connected && buffers_of(*endpoint_) != granted_.buffers && !take_memory()) {
      set_buffers(*endpoint_, granted_.buffers);  // what it has had fits again
      static_cast<void>(take_memory());
    }
  }
}

// ---- Turns ----

bool StreamSocket::turn() {
  if (phase_ == Phase::connecting) {
    await_connection();
  }
  bool more = false;
  if (phase_ == Phase::connected) {
    if (const int error = endpoint_->stream().write_refusal(); error != 0) {
      connection_failed(error);
    }
    more = pass_up();
    more = pass_down() || more;
  }
  if (hung_up_) {
    more = orphan() || more;
  }
  return more;
}

bool StreamSocket::finished() const {
  return hung_up_ && (phase_ == Phase::fresh || phase_ == Phase::bound || (phase_ == Phase::over && drained_));
}

void StreamSocket::await_connection() {
  const auto event = endpoint_->t_look();
  if (!event) {
    return connection_failed(errno_of(event.error()));
  }
  if (*event == tli::T_CONNECT) {
    if (const auto taken = endpoint_->t_rcvconnect(nullptr); !taken) {
      return connection_failed(errno_of(taken.error()));
    }
    begin_connection();
  } else if (*event == tli::T_DISCONNECT) {
    take_disconnection();
  } else if (hung_up_) {
    abort(ECONNABORTED);
  }
}

void StreamSocket::begin_connection() {
  phase_ = Phase::connected;
  attempt_ = {};
  learn_names();
  apply_options();
  answer_connect(0);
  host_.wake(*this);
}

void StreamSocket::answer_connect(int error) {
  if (asker_ != 0) {
    host_.answer(std::exchange(asker_, 0), refusal(error).answer);
  }
}

void StreamSocket::take_disconnection() {
  tli::t_discon discon;
  const auto taken = endpoint_->t_rcvdis(&discon);
  drained_ = taken.has_value();  // what has not left will not
  connection_failed(taken ? discon.reason : errno_of(taken.error()));
}

/// One that was asked for in the foreground can be asked for again; whoever waits for it in the background sees both
/// ends of the pair shut, and asks for the error.
void StreamSocket::connection_failed(int error) {
  attempt_ = {};
  if (phase_ == Phase::connecting && !background_) {
    phase_ = Phase::bound;
    granted_ = {};
    peer_.reset();
    return answer_connect(error);
  }
  while (filler_ > 0 && take_filler()) {
  }
  pending_error_ = error;
  end();
}

void StreamSocket::end() {
  phase_ = Phase::over;
  shut_down(SHUT_RDWR);
}

void StreamSocket::abort(int error) {
  static_cast<void>(endpoint_->t_snddis(nullptr));
  connection_failed(error);
  phase_ = Phase::over;
}

/// The program has gone, or the connection is over. What it has sent still leaves, and the peer's end is waited for,
/// but not for ever.
bool StreamSocket::orphan() {
  const TimePoint now = host_.set().now();
  if (orphaned_at_ == never) {
    orphaned_at_ = now;
  }
  const bool waits = now < orphaned_at_ + orphan_time_max && !resets_at_close_;
  if (phase_ == Phase::connecting || (phase_ == Phase::connected && !waits)) {
    abort(ECONNABORTED);
  }
  if (phase_ == Phase::over && !drained_) {
    drained_ = endpoint_ == nullptr || now >= orphaned_at_ + orphan_time_max ||
               endpoint_->stream().drain(Duration::zero()).has_value();
  }
  if (!finished()) {
    attention_.arm_after(phase_ == Phase::over ? drain_interval : orphan_time_max);
  }
  return false;
}

// ---- To the program ----

/// Whether more waits that could be passed on now.
bool StreamSocket::pass_up() {
  std::size_t passed = 0;
  for (int events = 0; phase_ == Phase::connected && !peer_ended_; ++events) {
    if (!write_up()) {
      return false;
    }
    if (passed >= turn_bytes_max || events >= turn_events_max) {
      return true;
    }
    const auto event = endpoint_->t_look();
    if (!event) {
      abort(errno_of(event.error()));
      return false;
    }
    switch (*event) {
      case tli::T_DATA:
      case tli::T_EXDATA:
        passed += receive();
        break;
      case tli::T_ORDREL:
        peer_ended_ = endpoint_->t_rcvrel().has_value();
        break;
      case tli::T_DISCONNECT:
        take_disconnection();
        break;
      default:
        return false;
    }
  }
  if (phase_ != Phase::connected || !write_up()) {
    return false;
  }
  if (!end_told_) {
    end_told_ = true;
    shut_down(SHUT_WR);
    end_if_released();
  }
  // Behind the peer's end a reset may still come.
  if (phase_ == Phase::connected && endpoint_->t_look().value_or(0) == tli::T_DISCONNECT) {
    take_disconnection();
  }
  return false;
}

std::size_t StreamSocket::receive() {
  int flags = 0;
  const Bytes scratch = piece_of(granted_.buffers.receive);
  const auto got = endpoint_->t_rcv(scratch, flags);
  if (!got) {
    if (got.error().t_errno != wire::tpi::TLOOK && got.error().t_errno != wire::tpi::TNODATA) {
      abort(errno_of(got.error()));
    }
    return 0;
  }
  if (hung_up_) {
    abort(ECONNRESET);  // nobody will read it: see the header
    return 0;
  }
  const std::size_t sent = send_up(scratch.first(*got));
  up_.assign(scratch.begin() + static_cast<std::ptrdiff_t>(sent), scratch.begin() + static_cast<std::ptrdiff_t>(*got));
  up_sent_ = 0;
  return *got;
}

/// How many of `bytes` the pair has taken.
std::size_t StreamSocket::send_up(ConstBytes bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size() && writable_) {
    const ssize_t taken = ::send(channel_.get(), bytes.data() + sent, bytes.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (taken > 0) {
      sent += static_cast<std::size_t>(taken);
      received_ += static_cast<std::size_t>(taken);
    } else if (errno == EAGAIN) {
      await_room();
    } else if (errno != EINTR) {
      hung_up_ = true;  // the next turn sees to it
      abort(ECONNRESET);
      break;
    }
  }
  return sent;
}

/// Whether nothing is left that was received.
bool StreamSocket::write_up() {
  up_sent_ += send_up(ConstBytes(up_).subspan(up_sent_));
  if (up_sent_ < up_.size()) {
    return false;
  }
  up_ = {};
  up_sent_ = 0;
  return true;
}

// ---- To the peer ----

bool StreamSocket::pass_down() {
  std::size_t passed = 0;
  while (phase_ == Phase::connected && !released_) {
    if (!send_down()) {
      return false;
    }
    if (program_ended_) {
      release();
      return false;
    }
    if (passed >= turn_bytes_max) {
      return true;
    }
    if (filler_ > 0) {
      if (!take_filler()) {
        return false;
      }
      continue;
    }
    const Bytes scratch = piece_of(granted_.buffers.send);
    const std::size_t got = read_pair(scratch);
    if (got == 0 && !program_ended_) {
      return false;
    }
    passed += got;
    const std::size_t sent = send_to_peer(scratch.first(got));
    if (phase_ == Phase::connected) {
      down_.assign(scratch.begin() + static_cast<std::ptrdiff_t>(sent),
                   scratch.begin() + static_cast<std::ptrdiff_t>(got));
      down_sent_ = 0;
    }
  }
  return false;
}

/// 0: there is nothing now, or the program has ended, or gone.
///
/// epoll(7): "if you call read(2) by asking to read a certain amount of data and read(2) returns a lower number of
/// bytes, you can be sure of having exhausted the read I/O space for the file descriptor." So what comes then is an
/// event of its own, which saves a call for each answer of a program; but an end that is there already is none.
std::size_t StreamSocket::read_pair(Bytes place) {
  while (readable_) {
    const ssize_t got = ::recv(channel_.get(), place.data(), place.size(), MSG_DONTWAIT);
    if (got > 0) {
      readable_ = static_cast<std::size_t>(got) == place.size() || closing_;
      return static_cast<std::size_t>(got);
    }
    if (got == 0) {
      program_ended_ = true;
      if (hung_up_ && resets_at_close_) {
        abort(ECONNABORTED);
      }
      return 0;
    }
    if (errno == EAGAIN) {
      readable_ = false;
    } else if (errno != EINTR) {
      abort(errno);  // it has closed its end, and not read what had come
    }
  }
  return 0;
}

/// Whether some was there.
bool StreamSocket::take_filler() {
  const Bytes scratch = host_.scratch();
  const std::size_t got = read_pair(scratch.first(std::min<std::size_t>(filler_, scratch.size())));
  filler_ -= static_cast<std::uint32_t>(got);
  filler_ = got == 0 && program_ended_ ? 0 : filler_;
  return got > 0 || program_ended_;
}

/// How many of `bytes` the endpoint has taken.
std::size_t StreamSocket::send_to_peer(ConstBytes bytes) {
  if (bytes.empty()) {
    return 0;
  }
  const auto sent = endpoint_->t_snd(bytes, 0);
  if (!sent && sent.error().t_errno != wire::tpi::TFLOW && sent.error().t_errno != wire::tpi::TLOOK) {
    abort(errno_of(sent.error()));
  }
  sent_ += sent.value_or(0);
  return sent.value_or(0);
}

/// Whether nothing is left that was read. What is left goes when the stream has room (S_OUTPUT).
bool StreamSocket::send_down() {
  down_sent_ += send_to_peer(ConstBytes(down_).subspan(down_sent_));
  if (down_sent_ < down_.size()) {
    return false;
  }
  down_ = {};
  down_sent_ = 0;
  return true;
}

void StreamSocket::release() {
  const auto done = endpoint_->t_sndrel();
  released_ = done.has_value();
  if (!done && done.error().t_errno != wire::tpi::TFLOW && done.error().t_errno != wire::tpi::TLOOK) {
    abort(errno_of(done.error()));
  }
  end_if_released();
}

void StreamSocket::end_if_released() {
  if (phase_ == Phase::connected && released_ && end_told_) {
    end();
  }
}

}  // namespace sluice::sockets
