// SPDX-License-Identifier: Apache-2.0
#include "tpi/kernel_udp.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "stack/core/ioctl.h"
#include "stack/core/primitive.h"
#include "stack/wire/data_unit.h"

namespace sluice::tpi {
namespace {

using namespace wire::tpi;  // the primitives and their numbers
using wire::DataUnit;

/// How often a datagram is offered to the kernel before an error counts as its own.
constexpr std::size_t attempts_max = 16;
constexpr std::size_t queued_errors_per_call_max = 64;

/// The address of either bind request; they have one layout. Nothing where the block is malformed.
std::optional<ConstBytes> requested_address(std::int32_t primitive, ConstBytes block) {
  if (primitive == T_BIND_REQ) {
    const auto request = BindReq::decode(block);
    return request ? std::optional(request->address) : std::nullopt;
  }
  const auto request = OldBindReq::decode(block);
  return request ? std::optional(request->address) : std::nullopt;
}

/// Either option management request, as the newer one.
std::optional<OptmgmtReq> requested_options(std::int32_t primitive, ConstBytes block) {
  if (primitive == T_OPTMGMT_REQ) {
    const auto request = OptmgmtReq::decode(block);
    return request ? std::optional(*request) : std::nullopt;
  }
  const auto request = Svr4OptmgmtReq::decode(block);
  return request ? std::optional(OptmgmtReq{request->options, request->flags}) : std::nullopt;
}

/// The error of T_ERROR_ACK for a bind that the kernel refused; TSYSERR where TLI has no name for it.
std::int32_t bind_error(int code, bool any_port) {
  switch (code) {
    case EADDRINUSE:
      return any_port ? TNOADDR : TADDRBUSY;
    case EACCES:
      return TACCES;
    case EADDRNOTAVAIL:  // not an address of this host
    case EINVAL:         // not an address that can be bound
    case EAFNOSUPPORT:
      return TBADADDR;
    default:
      return TSYSERR;
  }
}

/// Binds to an address of the provider's choice.
Result<UdpSocket> bind_anywhere(const UdpSocket::Options& options) {
  Result<UdpSocket> dual_stack = UdpSocket::bind({wire::Ipv6Address{}, 0}, options);
  return dual_stack ? std::move(dual_stack) : UdpSocket::bind({wire::Ipv4Address{}, 0}, options);
}

}  // namespace

KernelUdp::KernelUdp(StreamSet& set, const UdpSocket::Options& options, UdpSender::SendCall send_call)
    : Module("kernel_udp", Services::both), options_(options), sender_(send_call), retry_(set.scheduler(), [this] {
        reading_stopped_ = false;
        resume_writing();
      }) {
  write_queue().set_marks(write_marks);
}

/// Down, datagrams wait on the write queue (Queue::enqueue); up, they are shown where the kernel put them.
PayloadWork KernelUdp::payload_work(Side side) const {
  if (side == Side::read) {
    return {.items = {}, .uncounted = "recvmmsg copies into the message"};
  }
  return {.items = {{.kind = PayloadWork::Kind::gather, .where = "message to the write queue", .layered = false}},
          .uncounted = "sendmmsg copies from the message"};
}

void KernelUdp::close() {
  send_waiting();
  release_socket();
}

void KernelUdp::release_socket() {
  if (socket_) {
    set().remove_source(*this);
    socket_.reset();
  }
  update_counters();
  sender_.clear();
  receiver_.clear();
  resolved_.reset();
  retry_.cancel();
  reading_stopped_ = writing_blocked_ = false;
}

// ---- Requests ----

void KernelUdp::wput(Batch batch) {
  while (Message message = batch.pop()) {
    accept(std::move(message));
  }
}

void KernelUdp::accept(Message message) {
  switch (message.type()) {
    case MessageType::proto:
    case MessageType::pcproto:
      accept_primitive(std::move(message));
      break;
    case MessageType::data:
      // Data without a T_UNITDATA_REQ belongs to connection mode, as T_DATA_REQ does.
      carry_out(action_for(T_DATA_REQ, state_), T_DATA_REQ, std::move(message));
      break;
    case MessageType::flush:
      turn_flush(std::move(message));
      break;
    case MessageType::ioctl:
      answer_ioctl(std::move(message));
      break;
    default:
      ++dropped_;
  }
}

void KernelUdp::accept_primitive(Message message) {
  if (const DataUnit* const unit = message.native<DataUnit>();
      unit != nullptr && unit->kind == DataUnit::Kind::transport_request) {
    return carry_out(action_for(T_UNITDATA_REQ, state_), T_UNITDATA_REQ, std::move(message));
  }
  // A block too short to name a primitive is an unknown one; no primitive has a negative number.
  const std::int32_t primitive = primitive_of(std::as_const(message).bytes()).value_or(-1);
  carry_out(action_for(primitive, state_), primitive, std::move(message));
}

void KernelUdp::carry_out(Action action, std::int32_t primitive, Message message) {
  switch (action) {
    case Action::send:
      message.first().type = MessageType::proto;  // never overtakes
      write_queue().enqueue(std::move(message));
      break;
    case Action::info:
      put_up(info(), MessageType::pcproto);
      break;
    case Action::capability:
      answer_capability(message.bytes());
      break;
    case Action::addresses:
      answer_addresses();
      break;
    case Action::bind:
      bind(primitive, message.bytes());
      break;
    case Action::unbind:
      unbind();
      break;
    case Action::options:
      manage_options(primitive, message.bytes());
      break;
    case Action::out_of_state:
      ++out_of_state_;
      refuse(primitive, TOUTSTATE);
      break;
    case Action::unsupported:
      ++unsupported_;
      refuse(primitive, TNOTSUPPORT);
      break;
    case Action::fatal:
      fail_fatally();
      break;
    case Action::drop:
      ++dropped_;
  }
}

void KernelUdp::answer_ioctl(Message message) {
  if (message.bytes().size() < sizeof(IoctlBlock)) {
    ++dropped_;
    return;
  }
  ++unsupported_;
  read_queue().put_next(ioctl_refused(std::move(message), EINVAL));
}

/// T_BIND_REQ: "request that the transport provider bind a protocol address to the stream [...] and activate the stream
/// associated with the protocol address." "Note that the CONIND_number should be ignored by those providing a
/// connectionless transport service."
void KernelUdp::bind(std::int32_t primitive, ConstBytes block) {
  const std::optional<ConstBytes> address = requested_address(primitive, block);
  if (!address) {
    return refuse(primitive, TBADADDR);
  }
  if (address->empty()) {
    return finish_bind(primitive, true, bind_anywhere(options_));
  }
  const auto local = wire::TransportAddress::decode(*address);
  if (!local) {
    return refuse(primitive, TBADADDR);
  }
  Result<UdpSocket> opened = UdpSocket::bind(*local, options_);
  const bool any_port = local->port == 0;
  if (primitive == O_T_BIND_REQ && !opened && opened.error().code == EADDRINUSE && !any_port) {
    return finish_bind(primitive, true, UdpSocket::bind({local->address, 0}, options_));
  }
  finish_bind(primitive, any_port, std::move(opened));
}

void KernelUdp::finish_bind(std::int32_t primitive, bool any_port, Result<UdpSocket> opened) {
  if (!opened) {
    const std::int32_t error = bind_error(opened.error().code, any_port);
    return refuse(primitive, error, error == TSYSERR ? opened.error().code : 0);
  }
  socket_.emplace(std::move(*opened));
  sender_.enable_segmentation(socket_->segments());
  set().add_source(*this);
  state_ = State::idle;
  std::array<std::byte, wire::TransportAddress::encoded_size_max> bound;
  const std::size_t size = socket_->local().encode(bound);
  put_up(BindAck{.address = ConstBytes(bound).first(size)}, MessageType::pcproto);
}

/// TPI version 2, "Rules for Flushing Queues": "The transport provider must send up a M_FLUSH message to flush both the
/// read and write queues after receiving a successful T_UNBIND_REQ message and before issuing the T_OK_ACK primitive."
/// What was sent before and the kernel takes at once still goes.
void KernelUdp::unbind() {
  send_waiting();
  release_socket();
  state_ = State::unbound;
  write_queue().flush(FlushKind::data);
  write_queue().set_enabled(true);
  write_queue().enable();
  Message flush = Message::allocate(set().pool(), 1, 0, MessageType::flush);
  if (!flush) {
    ++answers_lost_;
    return;
  }
  flush.append(1)[0] = std::byte{flush_read | flush_write};
  read_queue().put_next(std::move(flush));
  put_up(OkAck{.correct_primitive = T_UNBIND_REQ}, MessageType::pcproto);
}

/// There are no options: the defaults, and what is current, are none, and none can be negotiated. T_OPTMGMT_ACK:
/// "MGMT_flags should be the same as those specified in the T_OPTMGMT_REQ primitive with any additional flags as
/// specified below." Errors: "TBADOPT: the options as specified were in an incorrect format, or they contained invalid
/// information", "TBADFLAG: the flags as specified were incorrect or invalid."
void KernelUdp::manage_options(std::int32_t primitive, ConstBytes block) {
  const std::optional<OptmgmtReq> request = requested_options(primitive, block);
  if (!request || !request->options.empty()) {
    return refuse(primitive, TBADOPT);
  }
  switch (request->flags) {
    case T_NEGOTIATE:
    case T_CHECK:
      return put_up(OptmgmtAck{.options = {}, .flags = request->flags | T_SUCCESS}, MessageType::pcproto);
    case T_DEFAULT:
    case T_CURRENT:
      return put_up(OptmgmtAck{.options = {}, .flags = request->flags}, MessageType::pcproto);
    default:
      return refuse(primitive, TBADFLAG);
  }
}

std::int32_t KernelUdp::tsdu_bytes_max() const {
  // What every destination takes: a dual-stack endpoint has IPv4 destinations, too.
  const bool v6_only = socket_ && socket_->local().address.is_v6() && !socket_->dual_stack();
  return v6_only ? tsdu_bytes_max_v6 : tsdu_bytes_max_v4;
}

InfoAck KernelUdp::info() const {
  return {.tsdu_size = tsdu_bytes_max(),
          .addr_size = wire::TransportAddress::encoded_size_max,
          .opt_size = T_INVALID,
          .tidu_size = tsdu_bytes_max(),
          .serv_type = T_CLTS,
          .current_state = state_ == State::idle ? TS_IDLE : TS_UNBND,
          .provider_flag = SENDZERO | XPG4_1};
}

void KernelUdp::answer_capability(ConstBytes block) {
  const Decoded<CapabilityReq> request = CapabilityReq::decode(block);
  if (!request) {
    return refuse(T_CAPABILITY_REQ, TSYSERR, EPROTO);
  }
  put_up(CapabilityAck{.capabilities = request->capabilities & TC1_INFO, .info = info()}, MessageType::pcproto);
}

void KernelUdp::answer_addresses() {
  std::array<std::byte, wire::TransportAddress::encoded_size_max> address;
  const std::size_t size = socket_ ? socket_->local().encode(address) : 0;
  put_up(AddrAck{.local = ConstBytes(address).first(size), .remote = {}}, MessageType::pcproto);
}

// ---- Answers ----

template <class Primitive>
void KernelUdp::put_up(const Primitive& primitive, MessageType type) {
  const std::size_t size = primitive.encoded_size();
  Message message = Message::allocate(set().pool(), size, 0, type);
  if (!message) {
    ++answers_lost_;
    return;
  }
  primitive.encode(message.append(size));
  read_queue().put_next(std::move(message));
}

void KernelUdp::refuse(std::int32_t primitive, std::int32_t tli_error, std::int32_t unix_error) {
  put_up(ErrorAck{.error_primitive = primitive, .tli_error = tli_error, .unix_error = unix_error},
         MessageType::pcproto);
}

void KernelUdp::count_error(int error) {
  switch (error) {
    case ECONNREFUSED:
      ++refused_;
      break;
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
      ++unreachable_;
      break;
    case EMSGSIZE:
      ++too_big_;
      break;
    case EACCES:
    case EPERM:
      ++denied_;
      break;
    case EINVAL:
    case EAFNOSUPPORT:
    case ENOPROTOOPT:
      ++bad_requests_;
      break;
    default:
      ++other_errors_;
  }
}

/// T_UNITDATA_REQ: "If a non-fatal error occurs, it is the responsibility of the transport provider to report it via
/// the T_UDERROR_IND indication."
void KernelUdp::report(Message indication, int error) {
  count_error(error);
  if (!read_queue().can_put_next()) {
    ++reports_dropped_;
  } else if (indication) {
    read_queue().put_next(std::move(indication));
  } else {
    ++answers_lost_;
  }
}

/// The request becomes the indication; its data goes.
void KernelUdp::refuse_datagram(Message request, int error) {
  static_cast<void>(request.unlink());
  if (DataUnit* const unit = request.native<DataUnit>()) {
    unit->kind = DataUnit::Kind::transport_error;
    unit->error = error;
    return report(std::move(request), error);
  }
  const auto unreadable = UnitdataReq::decode(request.bytes());
  const UderrorInd indication{.destination = unreadable ? unreadable->address : ConstBytes{},
                              .options = unreadable ? unreadable->options : ConstBytes{},
                              .error_type = error};
  report(primitive_message(set().pool(), indication, MessageType::proto), error);
}

/// T_UNITDATA_REQ: "Fatal errors are indicated via a M_ERROR message type which results in the failure of all operating
/// system service routines on the stream."
void KernelUdp::fail_fatally() {
  ++protocol_errors_;
  state_ = State::failed;
  release_socket();
  write_queue().flush(FlushKind::all);
  Message error = Message::allocate(set().pool(), 2, 0, MessageType::error);
  if (!error) {
    ++answers_lost_;
    return;
  }
  const Bytes sides = error.append(2);
  sides[0] = sides[1] = std::byte{EPROTO};
  read_queue().put_next(std::move(error));
}

// ---- Sending ----

void KernelUdp::wsrv() {
  for (std::size_t burst = 0; burst < bursts_per_service_max; ++burst) {
    fill_burst();
    if (sender_.empty() || !send_burst()) {
      return update_counters();
    }
  }
  update_counters();
  write_queue().enable();
}

/// Sends what waits as far as the kernel takes it now. Bounded by what the queue holds.
void KernelUdp::send_waiting() {
  while (socket_ && !write_queue().empty() && !writing_blocked_ && !retry_.armed()) {
    wsrv();
  }
}

/// Takes from the queue until it is found empty, so that the next message schedules the service procedure again.
void KernelUdp::fill_burst() {
  while (sender_.has_room()) {
    Message request = write_queue().dequeue();
    if (!request) {
      return;
    }
    prepare(std::move(request));
  }
}

/// Makes `destination_` the kernel's form of `address`, or says why not. Most datagrams go where the last one went.
int KernelUdp::resolve(const wire::TransportAddress& address) {
  if (resolved_ == address) {
    return 0;
  }
  const std::optional<SocketAddress> known = socket_->socket_address(address);
  if (!known) {
    return EAFNOSUPPORT;
  }
  destination_ = *known;
  resolved_ = address;
  return 0;
}

/// T_UNITDATA_REQ, fatal errors: "The amount of transport user data associated with the primitive defines an transport
/// service data unit larger than that allowed by the transport provider."
void KernelUdp::prepare(Message request) {
  const auto unit = native_of<DataUnit>(request, DataUnit::Kind::transport_request);
  if (!unit && unit.error().malformed != DataUnit::Malformed::names) {
    return refuse_datagram(std::move(request), unit.error().malformed ? EINVAL : ENOBUFS);
  }
  if (request.data_size() > static_cast<std::size_t>(tsdu_bytes_max())) {
    return fail_fatally();
  }
  if (unit ? (*unit)->options != DataUnit::Options::none : !UnitdataReq::decode(request.bytes())->options.empty()) {
    return refuse_datagram(std::move(request), ENOPROTOOPT);
  }
  if (const int error = unit ? resolve({(*unit)->peer, (*unit)->peer_port}) : EINVAL; error != 0) {
    return refuse_datagram(std::move(request), error);
  }
  if (request.settle() == Verdict::failed) {
    return refuse_datagram(std::move(request), ENOBUFS);
  }
  if (request.block_count() > UdpSender::iovecs_max) {
    Message data = request.unlink();
    if (!data.pull_up(data.size())) {
      return refuse_datagram(std::move(request), ENOBUFS);
    }
    request.link(std::move(data));
  }
  sender_.add(std::move(request), destination_);
}

/// False when sending has to wait.
bool KernelUdp::send_burst() {
  for (std::size_t attempts = 0;;) {
    switch (sender_.send(socket_->descriptor())) {
      case UdpSender::Progress::done:
        return true;
      case UdpSender::Progress::blocked:
        stop_writing(true);
        return false;
      case UdpSender::Progress::failed:
        // The device's queue was full, or memory is short: the socket stays writable, only time helps.
        if (sender_.error() == ENOBUFS || sender_.error() == ENOMEM) {
          stop_writing(false);
          return false;
        }
        settle_failure(attempts);
        if (!socket_) {
          return false;
        }
    }
  }
}

/// The kernel tells the error of an earlier datagram, which an ICMP message caused, in the next call and then forgets
/// it: only an error that comes again, while nothing else was reported, is the datagram's own.
void KernelUdp::settle_failure(std::size_t& attempts) {
  const int error = sender_.error();
  const bool others = report_queued_errors() > 0;
  if (!socket_ || (++attempts < attempts_max && (attempts == 1 || others))) {
    return;
  }
  attempts = 0;
  refuse_datagram(sender_.take_front(), error);
}

/// Puts back what is left, in order, and keeps the service procedure from being scheduled by it.
void KernelUdp::stop_writing(bool until_writable) {
  ++write_waits_;
  write_queue().set_enabled(false);
  while (!sender_.empty()) {
    write_queue().put_back(sender_.take_back());
  }
  sender_.clear();
  writing_blocked_ = until_writable;
  if (!until_writable) {
    retry_.arm_after(retry_delay);
  }
}

void KernelUdp::resume_writing() {
  writing_blocked_ = false;
  write_queue().set_enabled(true);
  write_queue().enable();
}

// ---- Receiving ----

bool KernelUdp::on_readable() {
  if (!read_queue().can_put_next()) {
    ++read_stops_;
    reading_stopped_ = true;
    return false;
  }
  Batch batch;
  const UdpReceiver::Outcome outcome = receiver_.receive(socket_->descriptor(), set().pool(), batch);
  update_counters();
  if (outcome.error != 0) {
    receive_failed(outcome.error);
    return false;
  }
  if (!batch.empty()) {
    if (path() == Path::fused) {
      Batch deferred;
      while (Message message = batch.pop()) {
        defer_if_fused(message);
        deferred.push(std::move(message));
      }
      batch = std::move(deferred);
    }
    read_queue().put_next(std::move(batch));
  }
  return outcome.more && socket_.has_value();
}

/// Errors of datagrams sent earlier wake the reader, too, and are told by its call.
void KernelUdp::receive_failed(int error) {
  report_queued_errors();
  if (error == ENOBUFS && !reading_stopped_) {
    reading_stopped_ = true;
    retry_.arm_after(retry_delay);
  }
}

void KernelUdp::rsrv() { reading_stopped_ = false; }

std::size_t KernelUdp::report_queued_errors() {
  std::size_t reported = 0;
  while (socket_ && reported < queued_errors_per_call_max) {
    const auto error = socket_->take_error();
    if (!error) {
      break;
    }
    ++reported;
    report(Message::of_native(set().pool(), DataUnit{.kind = DataUnit::Kind::transport_error,
                                                     .peer = error->destination.address,
                                                     .peer_port = error->destination.port,
                                                     .error = error->code}),
           error->code);
  }
  return reported;
}

/// Carries what sender and receiver counted since the last time over to the counters.
void KernelUdp::update_counters() {
  const auto carry = [](Counter& counter, std::uint64_t value) { counter += value - counter.value(); };
  const UdpSender::Statistics& sent = sender_.statistics();
  carry(sent_, sent.datagrams);
  carry(send_calls_, sent.calls);
  carry(segmented_runs_, sent.runs);
  carry(refused_runs_, sent.refused_runs);
  const UdpReceiver::Statistics& received = receiver_.statistics();
  carry(received_, received.datagrams);
  carry(receive_calls_, received.calls);
  carry(coalesced_, received.coalesced);
  carry(truncated_, received.truncated);
  carry(no_buffer_, received.no_buffer);
  carry(kernel_drops_, received.kernel_drops);
}

}  // namespace sluice::tpi
