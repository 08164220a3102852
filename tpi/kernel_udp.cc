// SPDX-License-Identifier: Apache-2.0
#include "tpi/kernel_udp.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "stack/core/ioctl.h"
#include "stack/core/primitive.h"
#include "stack/wire/data_unit.h"
#include "stack/wire/network.h"
#include "stack/wire/receive_room.h"
#include "tpi/socket_binding.h"

namespace sluice::tpi {
namespace {

using namespace wire::tpi;  // the primitives and their numbers
using wire::DataUnit;

/// How often a datagram is offered to the kernel before an error counts as its own.
constexpr std::size_t attempts_max = 16;
constexpr std::size_t queued_errors_per_call_max = 64;

bool is_request(const Message& message) {
  const DataUnit* const unit = message.native<DataUnit>();
  return unit != nullptr && unit->kind == DataUnit::Kind::transport_request;
}

/// The segment size of a request that is several datagrams, else 0.
std::uint16_t segment_of(const Message& request) {
  const DataUnit* const unit = request.native<DataUnit>();
  return unit != nullptr && request.data_size() > unit->segment_size ? unit->segment_size : std::uint16_t{0};
}

/// What a request asks for besides a destination.
wire::network::Sending asked_of(const DataUnit& unit) {
  return {.source = unit.has_local ? std::optional(unit.local) : std::nullopt,
          .hop_limit = unit.hop_limit,
          .traffic_class = unit.traffic_class};
}

/// What the kernel's `error` means. For a source that is none of this host's it says EINVAL or, Linux 6.18 of IPv4,
/// ENETUNREACH, which have other causes, too; whether it is one, bind(2) tells.
int reason_of(const Message& request, int error) {
  const DataUnit* const unit = request.native<DataUnit>();
  if (unit == nullptr || !unit->has_local || (error != EINVAL && error != ENETUNREACH)) {
    return error;
  }
  const Result<UdpSocket> probe = UdpSocket::bind({unit->local, 0}, {});
  return !probe && probe.error().code == EADDRNOTAVAIL ? EADDRNOTAVAIL : error;
}

std::size_t datagrams_in(const Message& request) {
  return wire::network::segments_in(request.data_size(), segment_of(request));
}

}  // namespace

KernelUdp::KernelUdp(StreamSet& set, const UdpSocket::Options& options, UdpSender::SendCall send_call)
    : SocketDriver("kernel_udp", write_marks),
      Connectionless(static_cast<Module&>(*this)),
      options_(options),
      socket_options_(options_),
      sender_(send_call),
      retry_(set.scheduler(), [this] {
        reading_stopped_ = false;
        resume_writing();
      }) {}

/// Down, datagrams wait on the write queue (Queue::enqueue); up, they are shown where the kernel put them.
PayloadWork KernelUdp::payload_work(Side side) const {
  if (side == Side::read) {
    return {.items = {}, .uncounted = "recvmmsg copies into the message"};
  }
  return {.items = {{.kind = PayloadWork::Kind::gather, .where = "message to the write queue", .layered = false}},
          .uncounted = "sendmmsg copies from the message",
          .segments = options_.gso
                          ? std::string_view("the kernel splits and sums them: no pass of ours, and none counted above")
                          : std::string_view("the driver sends each by itself, and the kernel sums it")};
}

void KernelUdp::close() {
  send_waiting();
  release_socket();
}

void KernelUdp::release_socket() {
  if (socket_) {
    set().remove_source(*this);
    socket_options_.detach();
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

void KernelUdp::take_request(Message message) {
  Message datagram =
      is_request(message) && state() == provider::State::idle ? std::move(message) : accept(std::move(message));
  if (!datagram) {
    return;
  }
  if (segment_of(datagram) != 0 && write_queue().empty() && !writing_blocked_ && !retry_.armed()) {
    send_at_once(std::move(datagram));
  } else {
    write_queue().enqueue(std::move(datagram));
  }
}

void KernelUdp::answer_ioctl(Message message) {
  if (is_ioctl(message, wire::SLIOCRECEIVEROOM) && socket_) {
    read_queue().put_next(ioctl_acknowledged(std::move(message), wire::receive_room_value(socket_->receive_room())));
    return;
  }
  refuse_ioctl(std::move(message));
}

/// T_BIND_REQ: "request that the transport provider bind a protocol address to the stream [...] and activate the stream
/// associated with the protocol address."
void KernelUdp::bind(ConstBytes address) {
  const auto wanted = BindRequest::of(address, replaces_busy());
  if (!wanted) {
    return refused(TBADADDR);
  }
  Result<UdpSocket> opened =
      bind_socket(*wanted, [this](const wire::TransportAddress& to) { return UdpSocket::bind(to, options_); });
  if (!opened) {
    const auto [tli_error, unix_error] = bind_error(opened.error().code, wanted->any_port());
    return refused(tli_error, unix_error);
  }
  socket_.emplace(std::move(*opened));
  socket_options_.attach(socket_->descriptor(), socket_->local().address.is_v6());
  sender_.enable_segmentation(socket_->segments());
  set().add_source(*this);
  bound(Encoded(socket_->local()).bytes());
}

/// What was sent before and the kernel takes at once still goes.
void KernelUdp::unbind() {
  send_waiting();
  release_socket();
  write_queue().flush(FlushKind::data);
  write_queue().set_enabled(true);
  write_queue().enable();
  unbound();
}

void KernelUdp::release() {
  release_socket();
  write_queue().flush(FlushKind::all);
}

std::int32_t KernelUdp::tsdu_bytes_max() const {
  // What every destination takes: a dual-stack endpoint has IPv4 destinations, too.
  const bool v6_only = socket_ && socket_->local().address.is_v6() && !socket_->dual_stack();
  return v6_only ? tsdu_bytes_max_v6 : tsdu_bytes_max_v4;
}

// ---- Answers ----

void KernelUdp::count_error(int error, std::size_t datagrams) {
  switch (error) {
    case ECONNREFUSED:
      refused_ += datagrams;
      break;
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
      unreachable_ += datagrams;
      break;
    case EMSGSIZE:
      too_big_ += datagrams;
      break;
    case EACCES:
    case EPERM:
      denied_ += datagrams;
      break;
    case EINVAL:
    case EAFNOSUPPORT:
    case EADDRNOTAVAIL:
    case ENOPROTOOPT:
      bad_requests_ += datagrams;
      break;
    default:
      other_errors_ += datagrams;
  }
}

/// T_UNITDATA_REQ: "If a non-fatal error occurs, it is the responsibility of the transport provider to report it via
/// the T_UDERROR_IND indication."
void KernelUdp::report(Message indication, int error, std::size_t datagrams) {
  count_error(error, datagrams);
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
  const std::size_t datagrams = datagrams_in(request);
  static_cast<void>(request.unlink());
  if (DataUnit* const unit = request.native<DataUnit>()) {
    unit->kind = DataUnit::Kind::transport_error;
    unit->segment_size = 0;
    unit->error = error;
    return report(std::move(request), error, datagrams);
  }
  const auto unreadable = UnitdataReq::decode(request.bytes());
  const UderrorInd indication{.destination = unreadable ? unreadable->address : ConstBytes{},
                              .options = unreadable ? unreadable->options : ConstBytes{},
                              .error_type = error};
  report(primitive_message(set().pool(), indication, MessageType::proto), error);
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

/// Several datagrams while nothing waits: the user's bytes go from where they lie.
void KernelUdp::send_at_once(Message request) {
  prepare(std::move(request));
  if (!sender_.empty()) {
    static_cast<void>(send_burst());
  }
  update_counters();
}

/// Why `request`, of a known destination, is not sent; 0: it is. TPI would have a datagram above the TSDU size end the
/// stream; here, as in `udp`, it is an error of that datagram. So are the options; whether one datagram may be
/// fragmented is the only thing that a socket cannot say of it.
int KernelUdp::refusal(const Message& request, const DataUnit& unit) {
  const std::size_t segment = segment_of(request);
  if ((segment == 0 ? request.data_size() : segment) > static_cast<std::size_t>(tsdu_bytes_max())) {
    return EMSGSIZE;
  }
  if (segment != 0 && !UdpSender::fits_run(request.data_size(), segment)) {
    return EINVAL;
  }
  if (unit.dont_fragment && !socket_options_.never_fragments(unit.peer.is_v6())) {
    return ENOPROTOOPT;
  }
  if (unit.has_local && unit.local.family() != unit.peer.family()) {
    return EAFNOSUPPORT;
  }
  return resolve({unit.peer, unit.peer_port});
}

void KernelUdp::prepare(Message request) {
  const auto unit = native_of<DataUnit>(request, DataUnit::Kind::transport_request);
  if (!unit) {
    const bool names = unit.error().malformed == DataUnit::Malformed::names;
    const bool large = request.data_size() > static_cast<std::size_t>(tsdu_bytes_max());
    return refuse_datagram(std::move(request), names && large ? EMSGSIZE : unit.error().malformed ? EINVAL : ENOBUFS);
  }
  if (const int error = refusal(request, **unit); error != 0) {
    return refuse_datagram(std::move(request), error);
  }
  const std::uint16_t segment = segment_of(request);
  const bool run = segment != 0 && sender_.sends_runs();
  if (!(run && request.owes_copy_only()) && request.materialize() == TransformResult::failed) {
    return refuse_datagram(std::move(request), ENOBUFS);
  }
  if (segment != 0 && !run) {
    return take_apart(std::move(request));
  }
  if (request.block_count() > UdpSender::iovecs_max) {
    Message data = request.unlink();
    if (!data.pull_up(data.size())) {
      return refuse_datagram(std::move(request), ENOBUFS);
    }
    request.link(std::move(data));
  }
  sender_.add(std::move(request), destination_, segment, asked_of(**unit));
}

/// Several datagrams, one by one. REQUIRES: `request` is sound, and its destination resolved.
void KernelUdp::take_apart(Message request) {
  DataUnit single = *request.native<DataUnit>();
  const std::size_t segment = std::exchange(single.segment_size, std::uint16_t{0});
  Message data = request.unlink();
  while (data) {
    const bool more = data.data_size() > segment;
    Message rest = more ? data.split(segment) : Message();
    Message datagram = Message::of_native(set().pool(), single);
    if (!datagram || (more && !rest)) {
      request.link(std::move(data));
      return refuse_datagram(std::move(request), ENOBUFS);
    }
    datagram.link(std::move(data));
    sender_.add(std::move(datagram), destination_, 0, asked_of(single));
    data = std::move(rest);
  }
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
        account_failure(attempts);
        if (!socket_) {
          return false;
        }
        break;
      case UdpSender::Progress::no_run: {
        Message run = sender_.take_front();
        put_back_unsent();
        prepare(std::move(run));
      }
    }
  }
}

/// The kernel tells the error of an earlier datagram, which an ICMP message caused, in the next call and then forgets
/// it: only an error that comes again, while nothing else was reported, is the datagram's own.
void KernelUdp::account_failure(std::size_t& attempts) {
  const int error = sender_.error();
  const bool others = report_queued_errors() > 0;
  if (!socket_ || (++attempts < attempts_max && (attempts == 1 || others))) {
    return;
  }
  attempts = 0;
  Message refused = sender_.take_front();
  const int reason = reason_of(refused, error);
  refuse_datagram(std::move(refused), reason);
}

/// Puts back what is left, in order, and keeps the service procedure from being scheduled by it.
void KernelUdp::stop_writing(bool until_writable) {
  ++write_waits_;
  write_queue().set_enabled(false);
  put_back_unsent();
  writing_blocked_ = until_writable;
  if (!until_writable) {
    retry_.arm_after(retry_delay);
  }
}

/// What is still the user's is copied now, to the memory that its message has for that.
void KernelUdp::put_back_unsent() {
  while (!sender_.empty()) {
    Message message = sender_.take_back();
    static_cast<void>(message.materialize());
    write_queue().put_back(std::move(message));
  }
  sender_.clear();
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
  const UdpReceiver::Outcome outcome = receiver_.receive(socket_->descriptor(), set().pool(), segments(), batch);
  update_counters();
  if (outcome.error != 0) {
    receive_failed(outcome.error);
    return false;
  }
  if (!batch.empty()) {
    if (mode() == ProcessingMode::fused) {
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
