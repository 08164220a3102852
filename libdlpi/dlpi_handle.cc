// SPDX-License-Identifier: Apache-2.0
#include "libdlpi/dlpi_handle.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <utility>

#include "stack/wire/ethernet.h"

namespace sluice::dlpi {
namespace {

using namespace wire::dlpi;  // NOLINT: the specification's names

constexpr std::uint32_t notes_known = DL_NOTE_PHYS_ADDR | DL_NOTE_PROMISC_ON_PHYS | DL_NOTE_PROMISC_OFF_PHYS |
                                      DL_NOTE_LINK_DOWN | DL_NOTE_LINK_UP | DL_NOTE_SDU_SIZE | DL_NOTE_SPEED;

/// The primitive of a message's control part, if it has one.
std::optional<std::uint32_t> primitive_in(const Message& message) {
  return is_protocol(message.type()) ? primitive_of(message.bytes()) : std::nullopt;
}

bool is_for_receiver(const Message& message) {
  const std::optional<std::uint32_t> primitive = primitive_in(message);
  return message.type() == MessageType::data || primitive == DL_UNITDATA_IND || primitive == DL_UDERROR_IND;
}

bool is_acknowledgement(std::optional<std::uint32_t> primitive) {
  constexpr std::array known{DL_OK_ACK, DL_ERROR_ACK, DL_INFO_ACK, DL_BIND_ACK, DL_PHYS_ADDR_ACK, DL_NOTIFY_ACK};
  return primitive && std::ranges::find(known, *primitive) != known.end();
}

/// What an acknowledgement says about the request `asked`.
enum class Answer : std::uint8_t { granted, refused, of_another };

Answer answer_in(const Message& message, std::uint32_t asked, std::uint32_t acknowledgement) {
  if (const auto error = ErrorAck::decode(message.bytes()); error && error->error_primitive == asked) {
    return Answer::refused;
  }
  if (const auto ok = OkAck::decode(message.bytes())) {
    return acknowledgement == DL_OK_ACK && ok->value == asked ? Answer::granted : Answer::of_another;
  }
  return primitive_in(message) == acknowledgement ? Answer::granted : Answer::of_another;
}

std::unexpected<Failure> failure_of(const Error& error) { return system_failure(error.code, error.text); }

std::unexpected<Failure> open_failure(const Error& error) {
  const bool no_such = error.code == ENODEV || error.code == ENXIO || error.code == ENOENT;
  return no_such ? failed(DLPI_ENOLINK, 0, error.text) : failure_of(error);
}

/// The PPA at the end of a style 2 link's name.
std::optional<std::uint32_t> ppa_in(std::string_view linkname) {
  const std::size_t last_other = linkname.find_last_not_of("0123456789");
  const std::string_view digits = linkname.substr(last_other == std::string_view::npos ? 0 : last_other + 1);
  std::uint32_t ppa = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), ppa);
  const bool whole = parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size();
  return whole ? std::optional(ppa) : std::nullopt;
}

}  // namespace

// ---- Opening ----

Outcome<std::unique_ptr<Handle>> Handle::dlpi_open(const Links& links, std::string_view linkname, unsigned flags) {
  if (linkname.empty() || linkname.size() >= DLPI_LINKNAME_MAX) {
    return failed(DLPI_ELINKNAMEINVAL);
  }
  if ((flags & ~DLPI_RAW) != 0) {
    return failed(DLPI_EINVAL);
  }
  Result<std::unique_ptr<Stream>> stream = links.open(linkname);
  if (!stream) {
    return open_failure(stream.error());
  }
  std::unique_ptr<Handle> handle(new Handle(std::move(*stream), linkname));
  if (const Outcome<> attached = handle->attach_if_needed(); !attached) {
    return std::unexpected(attached.error());
  }
  if ((flags & DLPI_RAW) != 0) {
    if (const Outcome<> raw = handle->enter_raw_mode(); !raw) {
      return std::unexpected(raw.error());
    }
  }
  return handle;
}

/// "If a DL_STYLE2 link is opened, dlpi_open() automatically performs the necessary DLPI operations to place the DLPI
/// link instance and the associated DLPI handle in the DL_UNBOUND state." (dlpi_open(3DLPI))
Outcome<> Handle::attach_if_needed() {
  Outcome<Info> info = dlpi_info();
  if (!info) {
    return info.error().error == DLPI_EBADMSG ? failed(DLPI_EBADLINK) : std::unexpected(info.error());
  }
  if (info->state != DL_UNATTACHED) {
    return {};
  }
  const std::optional<std::uint32_t> ppa = ppa_in(linkname_);
  if (!ppa) {
    return failed(DLPI_ELINKNAMEINVAL);
  }
  if (const Outcome<> attached = command(AttachReq{*ppa}); !attached) {
    return attached;
  }
  info = dlpi_info();
  return info ? Outcome<>() : std::unexpected(info.error());
}

Outcome<> Handle::enter_raw_mode() {
  const auto entered = stream_->ioctl(DLIOCRAW, {}, std::chrono::seconds(timeout_s_));
  if (!entered) {
    return entered.error().code == ETIME ? failed(DLPI_ETIMEDOUT) : failed(DLPI_ERAWNOTSUP);
  }
  raw_ = true;
  return {};
}

void Handle::dlpi_walk(const Links& links, const std::function<bool(std::string_view)>& visit) {
  for (const std::string& name : links.names()) {
    if (visit(name)) {
      return;
    }
  }
}

// ---- Requests and their acknowledgements ----

TimePoint Handle::deadline_after(Duration duration) const {
  return waiter() == nullptr ? TimePoint() : waiter()->now() + duration;
}

template <class Ack, class Request>
Outcome<Ack> Handle::exchange(const Request& request) {
  std::array<std::byte, Request::encoded_size_max> block;
  const std::size_t size = request.encode(block);
  const TimePoint deadline = deadline_after(std::chrono::seconds(timeout_s_));
  if (const Outcome<> put = put_request(ConstBytes(block).first(size), deadline); !put) {
    return std::unexpected(put.error());
  }
  const Outcome<Message> answer = await(Request::primitive, Ack::primitive, deadline);
  if (!answer) {
    return std::unexpected(answer.error());
  }
  const Decoded<Ack> ack = Ack::decode(answer->bytes());
  return ack ? Outcome<Ack>(*ack) : failed(DLPI_EBADMSG);
}

template <class Request>
Outcome<> Handle::command(const Request& request) {
  const Outcome<OkAck> ok = exchange<OkAck>(request);
  return ok ? Outcome<>() : std::unexpected(ok.error());
}

Outcome<> Handle::put_request(ConstBytes request, TimePoint deadline) {
  if (calling_back_) {
    return failed(DLPI_FAILURE);
  }
  while (!stream_->can_put()) {
    if (waiter() == nullptr || past(deadline) || !waiter()->wait(deadline)) {
      return failed(DLPI_ETIMEDOUT);
    }
  }
  const Status put = stream_->putmsg(request, std::nullopt);
  return put ? Outcome<>() : failure_of(put.error());
}

Outcome<Message> Handle::take(TimePoint deadline) {
  for (bool expired = false;;) {
    if (Message message = stream_->receive()) {
      return message;
    }
    if (const int error = stream_->head().read_error(); error != 0) {
      return system_failure(error);
    }
    if (stream_->head().hung_up()) {
      return system_failure(ENXIO);
    }
    if (expired || waiter() == nullptr) {
      return failed(DLPI_ETIMEDOUT);
    }
    expired = !waiter()->wait(deadline) || waiter()->now() >= deadline;
  }
}

Outcome<Message> Handle::await(std::uint32_t request, std::uint32_t acknowledgement, TimePoint deadline) {
  for (;;) {
    Outcome<Message> message = take(deadline);
    if (!message) {
      return message;
    }
    if (!is_acknowledgement(primitive_in(*message))) {
      if (!is_for_receiver(*message) && primitive_in(*message) != DL_NOTIFY_IND) {
        return failed(DLPI_EBADMSG);
      }
      set_aside(std::move(*message));
      if (past(deadline)) {
        return failed(DLPI_ETIMEDOUT);
      }
      continue;
    }
    const Answer answer = answer_in(*message, request, acknowledgement);
    if (answer == Answer::granted) {
      return message;
    }
    if (answer == Answer::refused) {
      const auto refusal = ErrorAck::decode(message->bytes());
      return failed(static_cast<int>(refusal->error), static_cast<int>(refusal->unix_errno));
    }
    // Of a request that timed out: nobody waits for it any more.
  }
}

void Handle::set_aside(Message message) {
  if (!is_for_receiver(message)) {
    notify(message);
  } else if (kept_.size() < messages_kept_max) {
    kept_.push(std::move(message));
  } else {
    ++messages_dropped_;
  }
}

Outcome<> Handle::dlpi_bind(std::uint32_t sap, std::uint32_t* bound_sap) {
  const bool any = sap == DLPI_ANY_SAP;
  // SAP 0 stands for none of the protocols.
  const Outcome<BindAck> ack = exchange<BindAck>(BindReq{.sap = any ? 0 : sap, .service_mode = DL_CLDLS});
  if (!ack) {
    return std::unexpected(ack.error());
  }
  state_ = DL_IDLE;
  sap_ = ack->sap;
  if (bound_sap != nullptr) {
    *bound_sap = ack->sap;
  } else if (!any && ack->sap != sap) {
    // "If boundsap is set to NULL, dlpi_bind() fails if the bound SAP does not match the requested SAP."
    // (dlpi_bind(3DLPI))
    const Outcome<> unbound = dlpi_unbind();
    return unbound ? failed(DLPI_EUNAVAILSAP) : unbound;
  }
  return {};
}

Outcome<> Handle::dlpi_unbind() {
  const Outcome<> done = command(UnbindReq{});
  if (!done) {
    return done;
  }
  state_ = DL_UNBOUND;
  sap_ = 0;
  // "Upon success, the caller will no longer be able to send or receive data" (dlpi_unbind(3DLPI)); a later bind must
  // not find what an earlier one left.
  while (const Message message = stream_->receive()) {
    notify(message);
  }
  kept_.clear();
  return {};
}

Outcome<Info> Handle::dlpi_info() {
  const Outcome<InfoAck> ack = exchange<InfoAck>(InfoReq{});
  if (!ack) {
    return std::unexpected(ack.error());
  }
  if ((ack->service_mode & DL_CLDLS) == 0) {
    return failed(DLPI_EMODENOTSUP);
  }
  state_ = static_cast<State>(ack->current_state);
  sap_ = ack->address ? ack->address->sap : 0U;
  max_sdu_ = ack->max_sdu;
  Info info{.max_sdu = ack->max_sdu,
            .min_sdu = ack->min_sdu,
            .state = state_,
            .mac_type = ack->mac_type,
            .linkname = linkname_,
            .physical_address = {},
            .broadcast_address = ack->broadcast,
            .sap = sap_,
            .timeout_s = timeout_s_};
  if (ack->address) {
    info.physical_address = ack->address->mac;
  }
  return info;
}

Outcome<wire::MacAddress> Handle::dlpi_get_physaddr(std::uint32_t type) {
  const Outcome<PhysAddrAck> ack = exchange<PhysAddrAck>(PhysAddrReq{type});
  return ack ? Outcome<wire::MacAddress>(ack->address) : std::unexpected(ack.error());
}

Outcome<> Handle::dlpi_set_physaddr(const wire::MacAddress& address) { return command(SetPhysAddrReq{address}); }
Outcome<> Handle::dlpi_enabmulti(const wire::MacAddress& group) { return command(EnabmultiReq{group}); }
Outcome<> Handle::dlpi_disabmulti(const wire::MacAddress& group) { return command(DisabmultiReq{group}); }
Outcome<> Handle::dlpi_promiscon(std::uint32_t level) { return command(PromisconReq{level}); }
Outcome<> Handle::dlpi_promiscoff(std::uint32_t level) { return command(PromiscoffReq{level}); }

Outcome<> Handle::dlpi_set_timeout(int seconds) {
  // "Attempts to set the timeout value to less than 1 second will fail." (dlpi_set_timeout(3DLPI))
  if (seconds < 1) {
    return failed(DLPI_EINVAL);
  }
  timeout_s_ = seconds;
  return {};
}

// ---- Data ----

/// dlpi_send(3DLPI): "The attempt will fail if [...] msglen is outside the range reported by dlpi_info". The range may
/// have grown since it was last told, so a message is refused on fresh information only.
Outcome<> Handle::check_size(std::size_t bytes) {
  const std::size_t header = raw_ ? wire::EthernetHeader::size : 0;
  if (bytes <= header) {
    return failed(DL_BADDATA);
  }
  if (bytes - header <= max_sdu_) {
    return {};
  }
  const Outcome<Info> info = dlpi_info();
  if (!info) {
    return std::unexpected(info.error());
  }
  return bytes - header <= max_sdu_ ? Outcome<>() : failed(DL_BADDATA);
}

Outcome<> Handle::dlpi_send(const wire::MacAddress& destination, ConstBytes message, const SendInfo* info) {
  if (state_ != DL_IDLE) {
    return failed(DL_OUTSTATE);
  }
  if (const Outcome<> fits = check_size(message.size()); !fits) {
    return fits;
  }
  if (raw_) {
    const Status put = stream_->putmsg(std::nullopt, message);
    return put ? Outcome<>() : failure_of(put.error());
  }
  const SendInfo how = info != nullptr ? *info : SendInfo{.sap = sap_};
  if (how.sap == 0 || how.sap > 0xffff) {
    return failed(DLPI_EINVAL);
  }
  const UnitdataReq request{{destination, static_cast<std::uint16_t>(how.sap)}, how.priority};
  std::array<std::byte, UnitdataReq::encoded_size_max> block;
  const std::size_t size = request.encode(block);
  const Status put = stream_->putmsg(ConstBytes(block).first(size), message);
  return put ? Outcome<>() : failure_of(put.error());
}

Outcome<RecvInfo> Handle::dlpi_recv(Bytes buffer, int timeout_ms) {
  if (timeout_ms < -1) {
    return failed(DLPI_EINVAL);
  }
  if (calling_back_) {
    return failed(DLPI_FAILURE);
  }
  const bool only_events = buffer.empty() || state_ != DL_IDLE;
  const Duration wait = std::chrono::milliseconds(only_events ? 0 : timeout_ms);
  const TimePoint deadline = timeout_ms < 0 && !only_events ? never : deadline_after(wait);
  const Failure nothing{state_ == DL_IDLE ? int{DLPI_ETIMEDOUT} : int{DL_OUTSTATE}};
  for (;;) {
    if (!only_events && !kept_.empty()) {
      return deliver(kept_.pop(), buffer);
    }
    if (kept_.size() == messages_kept_max || past(deadline)) {
      return std::unexpected(nothing);
    }
    Outcome<Message> taken = take(deadline);
    if (!taken) {
      return std::unexpected(taken.error().error == DLPI_ETIMEDOUT ? nothing : taken.error());
    }
    if (!is_acknowledgement(primitive_in(*taken))) {
      set_aside(std::move(*taken));
    }
  }
}

Outcome<RecvInfo> Handle::deliver(const Message& message, Bytes buffer) const {
  if (primitive_in(message) == DL_UDERROR_IND) {
    const Decoded<UderrorInd> error = UderrorInd::decode(message.bytes());
    return error ? failed(static_cast<int>(error->error), static_cast<int>(error->unix_errno)) : failed(DLPI_EBADMSG);
  }
  RecvInfo info;
  info.total_bytes = message.data_size();
  info.bytes = std::min(info.total_bytes, buffer.size());
  if (!message.copy_data_to(0, buffer.first(info.bytes))) {
    return failed(DLPI_EBADMSG);
  }
  if (raw_) {
    return info;
  }
  const Decoded<UnitdataInd> indication = UnitdataInd::decode(message.bytes());
  if (message.type() == MessageType::data || !indication) {
    return failed(DLPI_EBADMSG);
  }
  info.source = indication->source.mac;
  info.destination = indication->destination.mac;
  info.group_address = indication->group_address;
  return info;
}

// ---- Notifications ----

std::uint32_t Handle::wanted_notes() const {
  std::uint32_t notes = 0;
  for (const Registration& registration : registrations_) {
    notes |= registration.notes;
  }
  return notes;
}

Outcome<Handle::NotifyId> Handle::dlpi_enabnotify(std::uint32_t notes, NotifyFunction callback) {
  if (notes == 0 || (notes & ~notes_known) != 0) {
    return failed(DLPI_ENOTEINVAL);
  }
  if (!callback) {
    return failed(DLPI_EINVAL);
  }
  if (registrations_.size() == registrations_max) {
    return failed(DLPI_FAILURE);
  }
  const std::uint32_t all = wanted_notes() | notes;
  const Outcome<NotifyAck> ack = exchange<NotifyAck>(NotifyReq{.notifications = all});
  if (!ack) {
    return std::unexpected(ack.error());
  }
  if ((notes & ~ack->value) != 0) {
    return failed(DLPI_ENOTENOTSUP);
  }
  registrations_.push_back({++last_id_, notes, std::move(callback)});
  return last_id_;
}

Outcome<> Handle::dlpi_disabnotify(NotifyId id) {
  const std::size_t removed = std::erase_if(registrations_, [&](const Registration& each) { return each.id == id; });
  return removed == 0 ? failed(DLPI_ENOTEIDINVAL) : Outcome<>();
}

/// Calls back if this is a notification.
void Handle::notify(const Message& message) {
  const Decoded<NotifyInd> indication = NotifyInd::decode(message.bytes());
  if (primitive_in(message) != DL_NOTIFY_IND || !indication) {
    return;
  }
  NotifyInfo info{.note = indication->notification, .physical_address = {}};
  if (info.note == DL_NOTE_SPEED) {
    info.speed_kbit = indication->data;
  } else if (info.note == DL_NOTE_SDU_SIZE) {
    info.max_sdu = indication->data;
  } else if (info.note == DL_NOTE_PHYS_ADDR && indication->address) {
    info.physical_address = indication->address->mac;
  }
  calling_back_ = true;
  // A callback may take registrations away, its own as well: what is called is a copy.
  for (const Registration& each : std::vector<Registration>(registrations_)) {
    const bool still_there = std::ranges::find(registrations_, each.id, &Registration::id) != registrations_.end();
    if (still_there && (each.notes & info.note) != 0) {
      each.callback(*this, info);
    }
  }
  calling_back_ = false;
}

}  // namespace sluice::dlpi
