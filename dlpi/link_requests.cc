// SPDX-License-Identifier: Apache-2.0
// The requests of local management, each answered at once; dlpi/link_stream.cc has the data path.
#include "dlpi/link_stream.h"
#include "dlpi/super_frame.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "stack/core/stream_set.h"

namespace sluice::dlpi {
namespace {

using namespace wire::dlpi;  // NOLINT: the specification's names

constexpr std::uint32_t notifications_supported =
    DL_NOTE_PHYS_ADDR | DL_NOTE_LINK_DOWN | DL_NOTE_LINK_UP | DL_NOTE_SDU_SIZE;

bool is_sap(std::uint32_t sap) { return sap == 0 || (sap >= wire::ethertype_min && sap <= 0xffff); }

/// What a malformed block is refused with.
std::uint32_t error_for(Malformed malformed) {
  switch (malformed) {
    case Malformed::bad_offset:
    case Malformed::bad_address:
      return DL_BADADDR;
    case Malformed::bad_value:
      return DL_UNSUPPORTED;
    case Malformed::short_block:
    case Malformed::wrong_primitive:
      break;
  }
  return DL_BADPRIM;
}

/// Whether a filter that names the remote end is that of a connection.
bool is_whole(const FilterReq& filter) {
  if (!filter.remote && !filter.remote_port) {
    return true;
  }
  return filter.remote && filter.remote_port && filter.protocol && filter.local_port && filter.local &&
         filter.local->family() == filter.remote->family();
}

}  // namespace

void LinkStream::request(Message message) {
  const std::optional<std::uint32_t> primitive = primitive_of(message.bytes());
  if (!primitive) {
    count(LinkCounter::malformed);
    return;
  }
  const Rule* rule = find_rule(*primitive);
  if (rule == nullptr) {
    // "DL_BADPRIM: primitive not known by provider"; those of the other services are known.
    const bool known = *primitive <= last_standard_primitive;
    refuse(message, *primitive, {known ? std::uint32_t{DL_NOTSUPPORTED} : std::uint32_t{DL_BADPRIM}});
    return;
  }
  if (!rule->valid_in(state_)) {
    refuse(message, *primitive, {DL_OUTSTATE});
    return;
  }
  Answer answered = answer(*primitive, message.bytes());
  if (!answered) {
    refuse(message, *primitive, answered.error());
    return;
  }
  state_ = rule->next.value_or(state_);
  if (!put_up(*answered, &message)) {
    refuse(message, *primitive, {DL_SYSERR, ENOSR});
  }
  if (*primitive == DL_NOTIFY_REQ) {
    notify(link_->up() ? DL_NOTE_LINK_UP : DL_NOTE_LINK_DOWN);
    notify(DL_NOTE_SDU_SIZE);
    notify(DL_NOTE_PHYS_ADDR);
  }
}

LinkStream::Answer LinkStream::answer(std::uint32_t primitive, ConstBytes block) {
  switch (primitive) {
    case DL_INFO_REQ:
      return on_info();
    case DL_ATTACH_REQ:
      return on_attach(block);
    case DL_DETACH_REQ:
      return on_detach();
    case DL_BIND_REQ:
      return on_bind(block);
    case DL_UNBIND_REQ:
      return on_unbind();
    case DL_SUBS_BIND_REQ:
      return on_subs_bind(block);
    case DL_SUBS_UNBIND_REQ:
      return on_subs_unbind(block);
    case DL_ENABMULTI_REQ:
      return on_multicast(block, true);
    case DL_DISABMULTI_REQ:
      return on_multicast(block, false);
    case DL_PROMISCON_REQ:
      return on_promiscuous(block, true);
    case DL_PROMISCOFF_REQ:
      return on_promiscuous(block, false);
    case DL_PHYS_ADDR_REQ:
      return on_phys_addr(block);
    case DL_SET_PHYS_ADDR_REQ:
      return on_set_phys_addr(block);
    case DL_GET_STATISTICS_REQ:
      return on_statistics();
    case DL_NOTIFY_REQ:
      return on_notify(block);
    case DL_CAPABILITY_REQ:
      return on_capability(block);
    case DL_FILTER_REQ:
      return on_filter(block);
    default:
      return std::unexpected(Refusal{DL_BADPRIM});
  }
}

void LinkStream::refuse(Message& request, std::uint32_t primitive, const Refusal& refusal) {
  put_up(ErrorAck{.error_primitive = primitive, .error = refusal.error, .unix_errno = refusal.unix_errno},
         MessageType::pcproto, &request);
}

LinkStream::Answer LinkStream::on_info() {
  InfoAck ack;
  ack.current_state = state_;
  ack.provider_style = style_ == Style::one ? DL_STYLE1 : DL_STYLE2;
  if (link_ != nullptr) {
    ack.max_sdu = static_cast<std::uint32_t>(link_->mtu());
    ack.min_sdu = 1;
    ack.broadcast = wire::mac_broadcast;
  }
  if (state_ == DL_IDLE) {
    ack.address = LinkAddress{link_->address(), subscription_.saps.front()};
  }
  return make(ack, MessageType::pcproto);
}

LinkStream::Answer LinkStream::on_attach(ConstBytes block) {
  const Decoded<AttachReq> decoded = AttachReq::decode(block);
  if (!decoded) {
    return std::unexpected(Refusal{error_for(decoded.error())});
  }
  if (const Status attached = attach(decoded->value); !attached) {
    const int code = attached.error().code;
    const bool no_such = code == ENODEV || code == ENXIO;
    return std::unexpected(no_such ? Refusal{DL_BADPPA} : Refusal{DL_SYSERR, static_cast<std::uint32_t>(code)});
  }
  return ok(DL_ATTACH_REQ);
}

LinkStream::Answer LinkStream::on_detach() {
  if (style_ == Style::one) {
    return std::unexpected(Refusal{DL_NOTSUPPORTED});
  }
  detach();
  return ok(DL_DETACH_REQ);
}

LinkStream::Answer LinkStream::on_bind(ConstBytes block) {
  const Decoded<BindReq> decoded = BindReq::decode(block);
  if (!decoded) {
    return std::unexpected(Refusal{error_for(decoded.error())});
  }
  if (!is_sap(decoded->sap)) {
    return std::unexpected(Refusal{DL_BADADDR});
  }
  if (decoded->service_mode != DL_CLDLS || decoded->connection_management != 0) {
    return std::unexpected(Refusal{DL_UNSUPPORTED});
  }
  if (decoded->xid_test != 0) {
    return std::unexpected(Refusal{DL_NOAUTO});
  }
  const auto sap = static_cast<std::uint16_t>(decoded->sap);
  Subscription wanted = subscription_;
  wanted.saps = {sap};
  if (const Answer subscribed = resubscribe(std::move(wanted), DL_BIND_REQ); !subscribed) {
    return std::unexpected(subscribed.error());
  }
  return make(BindAck{.sap = sap, .address = {link_->address(), sap}}, MessageType::pcproto);
}

/// "the DL_UNBIND_REQ will unbind all the subsequent DLSAPs for that stream along with the DLSAP bound using the
/// previous DL_BIND_REQ."
LinkStream::Answer LinkStream::on_unbind() {
  Subscription wanted = subscription_;
  wanted.saps.clear();
  wanted.filters.clear();
  return resubscribe(std::move(wanted), DL_UNBIND_REQ);
}

LinkStream::Answer LinkStream::on_subs_bind(ConstBytes block) {
  const Decoded<SubsBindReq> decoded = SubsBindReq::decode(block);
  if (!decoded) {
    return std::unexpected(Refusal{error_for(decoded.error())});
  }
  if (decoded->bind_class != DL_PEER_BIND) {
    return std::unexpected(Refusal{DL_UNSUPPORTED});
  }
  if (decoded->sap < wire::ethertype_min) {
    return std::unexpected(Refusal{DL_BADADDR});
  }
  Subscription wanted = subscription_;
  if (!wanted.has_sap(decoded->sap)) {
    if (wanted.saps.size() == Subscription::saps_max) {
      return std::unexpected(Refusal{DL_TOOMANY});
    }
    wanted.saps.push_back(decoded->sap);
  }
  if (const Answer subscribed = resubscribe(std::move(wanted), DL_SUBS_BIND_REQ); !subscribed) {
    return std::unexpected(subscribed.error());
  }
  return make(SubsBindAck{.sap = decoded->sap}, MessageType::pcproto);
}

LinkStream::Answer LinkStream::on_subs_unbind(ConstBytes block) {
  const Decoded<SubsUnbindReq> decoded = SubsUnbindReq::decode(block);
  if (!decoded) {
    return std::unexpected(Refusal{error_for(decoded.error())});
  }
  Subscription wanted = subscription_;
  const auto at = std::ranges::find(wanted.saps, decoded->sap);
  // The SAP of DL_BIND_REQ goes with DL_UNBIND_REQ only.
  if (at == wanted.saps.end() || at == wanted.saps.begin()) {
    return std::unexpected(Refusal{DL_BADADDR});
  }
  wanted.saps.erase(at);
  std::erase_if(wanted.filters, [&](const FilterReq& filter) { return filter.sap == decoded->sap; });
  return resubscribe(std::move(wanted), DL_SUBS_UNBIND_REQ);
}

LinkStream::Answer LinkStream::on_multicast(ConstBytes block, bool enable) {
  // DL_ENABMULTI_REQ and DL_DISABMULTI_REQ have one layout.
  const Decoded<EnabmultiReq> enabling = EnabmultiReq::decode(block);
  const Decoded<DisabmultiReq> disabling = DisabmultiReq::decode(block);
  if (enable ? !enabling : !disabling) {
    return std::unexpected(Refusal{error_for(enable ? enabling.error() : disabling.error())});
  }
  const wire::MacAddress group = enable ? enabling->address : disabling->address;
  if (!group.is_multicast()) {
    return std::unexpected(Refusal{DL_BADADDR});
  }
  Subscription wanted = subscription_;
  const auto at = std::ranges::find(wanted.groups, group);
  if (!enable) {
    if (at == wanted.groups.end()) {
      return std::unexpected(Refusal{DL_NOTENAB});
    }
    wanted.groups.erase(at);
  } else if (at == wanted.groups.end()) {
    if (wanted.groups.size() == Subscription::groups_max) {
      return std::unexpected(Refusal{DL_TOOMANY});
    }
    wanted.groups.push_back(group);
  }
  return resubscribe(std::move(wanted), enable ? DL_ENABMULTI_REQ : DL_DISABMULTI_REQ);
}

LinkStream::Answer LinkStream::on_promiscuous(ConstBytes block, bool enable) {
  const Decoded<PromisconReq> on = PromisconReq::decode(block);
  const Decoded<PromiscoffReq> off = PromiscoffReq::decode(block);
  if (enable ? !on : !off) {
    return std::unexpected(Refusal{error_for(enable ? on.error() : off.error())});
  }
  Subscription wanted = subscription_;
  bool* level = nullptr;
  switch (enable ? on->value : off->value) {
    case DL_PROMISC_PHYS:
      level = &wanted.promiscuous_phys;
      break;
    case DL_PROMISC_SAP:
      level = &wanted.promiscuous_sap;
      break;
    case DL_PROMISC_MULTI:
      level = &wanted.promiscuous_multi;
      break;
    default:
      return std::unexpected(Refusal{DL_UNSUPPORTED});
  }
  if (!enable && !*level) {
    return std::unexpected(Refusal{DL_NOTENAB});
  }
  *level = enable;
  return resubscribe(std::move(wanted), enable ? DL_PROMISCON_REQ : DL_PROMISCOFF_REQ);
}

LinkStream::Answer LinkStream::on_phys_addr(ConstBytes block) {
  const Decoded<PhysAddrReq> decoded = PhysAddrReq::decode(block);
  if (!decoded) {
    return std::unexpected(Refusal{error_for(decoded.error())});
  }
  switch (decoded->value) {
    case DL_CURR_PHYS_ADDR:
      return make(PhysAddrAck{link_->address()}, MessageType::pcproto);
    case DL_FACT_PHYS_ADDR:
      return make(PhysAddrAck{link_->factory_address()}, MessageType::pcproto);
    default:
      return std::unexpected(Refusal{DL_UNSUPPORTED});
  }
}

LinkStream::Answer LinkStream::on_set_phys_addr(ConstBytes block) {
  const Decoded<SetPhysAddrReq> decoded = SetPhysAddrReq::decode(block);
  if (!decoded) {
    return std::unexpected(Refusal{error_for(decoded.error())});
  }
  if (decoded->address.is_multicast() || decoded->address.is_unspecified()) {
    return std::unexpected(Refusal{DL_BADADDR});
  }
  if (const Status set = link_->set_address(decoded->address); !set) {
    const int code = set.error().code;
    return std::unexpected(code == ENOTSUP ? Refusal{DL_NOTSUPPORTED}
                                           : Refusal{DL_SYSERR, static_cast<std::uint32_t>(code)});
  }
  return ok(DL_SET_PHYS_ADDR_REQ);
}

LinkStream::Answer LinkStream::on_statistics() {
  return make(GetStatisticsAck{std::as_bytes(std::span(&link_->statistics(), 1))}, MessageType::pcproto);
}

LinkStream::Answer LinkStream::on_notify(ConstBytes block) {
  const Decoded<NotifyReq> decoded = NotifyReq::decode(block);
  if (!decoded) {
    return std::unexpected(Refusal{error_for(decoded.error())});
  }
  notifications_ = decoded->notifications & notifications_supported;
  return make(NotifyAck{notifications_supported}, MessageType::proto);
}

LinkStream::Answer LinkStream::on_capability(ConstBytes block) {
  const Decoded<CapabilityReq> decoded = CapabilityReq::decode(block);
  if (!decoded) {
    return std::unexpected(Refusal{error_for(decoded.error())});
  }
  segments_wanted_ = segments_wanted_ || decoded->segments;
  return make(
      CapabilityAck{SegmentsCapability{
          .packet_bytes_max = super_frame_packet_max,
          .flags = link_->takes_super_frames(wire::protocol_udp) ? SegmentsCapability::by_device : std::uint32_t{0}}},
      MessageType::proto);
}

LinkStream::Answer LinkStream::on_filter(ConstBytes block) {
  const Decoded<FilterReq> decoded = FilterReq::decode(block);
  if (!decoded) {
    return std::unexpected(Refusal{error_for(decoded.error())});
  }
  if (!subscription_.has_sap(decoded->sap)) {
    return std::unexpected(Refusal{DL_BADSAP});
  }
  if (!is_whole(*decoded)) {
    return std::unexpected(Refusal{DL_BADADDR});
  }
  Subscription wanted = subscription_;
  const FilterKey key = FilterKey::of(*decoded);
  if (key.shape() == 0) {
    std::erase_if(wanted.filters, [&](const FilterReq& filter) { return filter.sap == decoded->sap; });
    return resubscribe(std::move(wanted), DL_FILTER_REQ);
  }
  if (link_->taken(key, this)) {
    return std::unexpected(Refusal{DL_BOUND});
  }
  if (std::ranges::find(wanted.filters, key, FilterKey::of) == wanted.filters.end()) {
    if (wanted.filters.size() == Subscription::filters_max) {
      return std::unexpected(Refusal{DL_TOOMANY});
    }
    wanted.filters.push_back(*decoded);
  }
  return resubscribe(std::move(wanted), DL_FILTER_REQ);
}

/// Wants something else from now on; what was wanted before stays when the device refuses.
LinkStream::Answer LinkStream::resubscribe(Subscription wanted, std::uint32_t acknowledged) {
  std::swap(subscription_, wanted);
  if (const Status changed = link_->subscription_changed(*this, wanted); !changed) {
    std::swap(subscription_, wanted);
    static_cast<void>(link_->subscription_changed(*this, wanted));
    return std::unexpected(Refusal{DL_SYSERR, static_cast<std::uint32_t>(changed.error().code)});
  }
  return ok(acknowledged);
}

LinkStream::Answer LinkStream::ok(std::uint32_t primitive) { return make(OkAck{primitive}, MessageType::pcproto); }

}  // namespace sluice::dlpi
