// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/ip_link.h"

#include <cerrno>

#include "stack/core/primitive.h"
#include "stack/wire/dlpi.h"
#include "stack/wire/protocol.h"

namespace sluice::ip {
namespace {

namespace dlpi = wire::dlpi;

/// Which request `block` answers; nothing when it is no answer.
std::optional<std::uint32_t> answered_by(ConstBytes block) {
  switch (dlpi::primitive_of(block).value_or(dlpi::DL_UNITDATA_IND)) {
    case dlpi::DL_INFO_ACK:
      return dlpi::DL_INFO_REQ;
    case dlpi::DL_BIND_ACK:
      return dlpi::DL_BIND_REQ;
    case dlpi::DL_SUBS_BIND_ACK:
      return dlpi::DL_SUBS_BIND_REQ;
    case dlpi::DL_PHYS_ADDR_ACK:
      return dlpi::DL_PHYS_ADDR_REQ;
    case dlpi::DL_NOTIFY_ACK:
      return dlpi::DL_NOTIFY_REQ;
    case dlpi::DL_CAPABILITY_ACK:
      return dlpi::DL_CAPABILITY_REQ;
    case dlpi::DL_OK_ACK: {
      const auto ack = dlpi::OkAck::decode(block);
      return ack ? std::optional(ack->value) : std::nullopt;
    }
    case dlpi::DL_ERROR_ACK: {
      const auto ack = dlpi::ErrorAck::decode(block);
      return ack ? std::optional(ack->error_primitive) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

LinkSetup::LinkSetup()
    : steps_{{dlpi::DL_INFO_REQ, 0, {}, true},
             {dlpi::DL_BIND_REQ, wire::ethertype_ipv4, {}, true},
             {dlpi::DL_SUBS_BIND_REQ, wire::ethertype_arp, {}, true},
             {dlpi::DL_SUBS_BIND_REQ, wire::ethertype_ipv6, {}, true},
             {dlpi::DL_NOTIFY_REQ, 0, {}, false},
             {dlpi::DL_PHYS_ADDR_REQ, 0, {}, true},
             {dlpi::DL_CAPABILITY_REQ, 0, {}, false}} {}

Message LinkSetup::next_request(BufferPool& pool) {
  if (!asks()) {
    return {};
  }
  const Step& step = steps_.front();
  Message message;
  switch (step.primitive) {
    case dlpi::DL_INFO_REQ:
      message = primitive_message(pool, dlpi::InfoReq{}, MessageType::proto);
      break;
    case dlpi::DL_BIND_REQ:
      message = primitive_message(pool, dlpi::BindReq{.sap = step.sap}, MessageType::proto);
      break;
    case dlpi::DL_SUBS_BIND_REQ:
      message = primitive_message(pool, dlpi::SubsBindReq{.sap = step.sap, .bind_class = dlpi::DL_PEER_BIND},
                                  MessageType::proto);
      break;
    case dlpi::DL_NOTIFY_REQ:
      message = primitive_message(pool,
                                  dlpi::NotifyReq{.notifications = dlpi::DL_NOTE_LINK_DOWN | dlpi::DL_NOTE_LINK_UP |
                                                                   dlpi::DL_NOTE_SDU_SIZE | dlpi::DL_NOTE_PHYS_ADDR},
                                  MessageType::proto);
      break;
    case dlpi::DL_PHYS_ADDR_REQ:
      message = primitive_message(pool, dlpi::PhysAddrReq{dlpi::DL_CURR_PHYS_ADDR}, MessageType::proto);
      break;
    case dlpi::DL_CAPABILITY_REQ:
      message = primitive_message(pool, dlpi::CapabilityReq{dlpi::SegmentsCapability{}}, MessageType::proto);
      break;
    default:
      message = primitive_message(pool, dlpi::EnabmultiReq{step.group}, MessageType::proto);
      break;
  }
  waiting_ = static_cast<bool>(message);
  return message;
}

LinkSetup::Answer LinkSetup::answer(ConstBytes primitive) {
  const auto answered = answered_by(primitive);
  if (!waiting_ || !answered || *answered != steps_.front().primitive) {
    return Answer::foreign;
  }
  if (dlpi::primitive_of(primitive) == dlpi::DL_ERROR_ACK) {
    return refused(primitive);
  }
  if (const auto info = dlpi::InfoAck::decode(primitive)) {
    mtu_ = info->max_sdu;
  }
  if (const auto capabilities = dlpi::CapabilityAck::decode(primitive)) {
    segments_bytes_max_ = capabilities->segments ? capabilities->segments->packet_bytes_max : 0;
  }
  if (const auto address = dlpi::PhysAddrAck::decode(primitive)) {
    mac_ = address->address;
  }
  steps_.pop_front();
  waiting_ = false;
  return Answer::accepted;
}

LinkSetup::Answer LinkSetup::refused(ConstBytes primitive) {
  const auto ack = dlpi::ErrorAck::decode(primitive);
  const bool needed = steps_.front().needed;
  if (needed) {
    error_ = ack->error == dlpi::DL_SYSERR && ack->unix_errno != 0 ? static_cast<int>(ack->unix_errno) : ENXIO;
  }
  steps_.pop_front();
  waiting_ = false;
  return needed ? Answer::fatal : Answer::refused;
}

void LinkSetup::join(const wire::MacAddress& group) {
  steps_.push_back({wire::dlpi::DL_ENABMULTI_REQ, 0, group, false});
}

}  // namespace sluice::ip
