// SPDX-License-Identifier: Apache-2.0
// The ip module's part in early demultiplexing: completes the user's filter and passes it to the driver.

#include <utility>

#include "stack/core/primitive.h"
#include "stack/core/stream_set.h"
#include "stack/modules/ip.h"
#include "stack/wire/ethernet.h"

namespace sluice {

namespace dlpi = wire::dlpi;
using wire::Family;

/// A filter is per SAP: one that names no SAP and is for any address needs one request for each family we have, that of
/// a connection is for its family.
void Ip::complete_filter(Message request) {
  const auto wanted = dlpi::FilterReq::decode(request.bytes());
  if (!wanted || !bound_) {
    ++count_.bad_request;
    return answer_filter(wanted ? dlpi::DL_OUTSTATE : dlpi::DL_BADPRIM, &request);
  }
  dlpi::FilterReq filter = *wanted;
  filter.protocol = bound_->protocol;
  if (!bound_->address.is_unspecified()) {
    filter.local = bound_->address;
  }
  const auto concerns = [&](Family family) {
    const std::uint16_t sap = family == Family::ipv4 ? wire::ethertype_ipv4 : wire::ethertype_ipv6;
    return routes_.has(family) && (wanted->sap == 0 || wanted->sap == sap) &&
           (!filter.local || filter.local->family() == family) && (!filter.remote || filter.remote->family() == family);
  };
  if (!concerns(Family::ipv4) && !concerns(Family::ipv6)) {
    ++count_.bad_request;
    return answer_filter(dlpi::DL_BADADDR, &request);
  }
  filter_error_.reset();
  filters_pending_ = 0;
  filtered_ = filter.local_port.has_value();
  for (const Family family : {Family::ipv4, Family::ipv6}) {
    if (concerns(family)) {
      filter.sap = family == Family::ipv4 ? wire::ethertype_ipv4 : wire::ethertype_ipv6;
      filters_pending_ += ask_filter(filter, &request) ? 1 : 0;
    }
  }
}

bool Ip::ask_filter(const dlpi::FilterReq& filter, Message* spent) { return ask_link(filter, MessageType::ctl, spent); }

/// Asks for what no other stream claims, again. A filter without any condition removes those of its SAP.
void Ip::remove_filters() {
  filtered_ = false;
  for (const std::uint16_t sap : {wire::ethertype_ipv4, wire::ethertype_ipv6}) {
    ask_filter({.sap = sap, .local = {}, .protocol = {}, .local_port = {}});
  }
}

/// Passes the outcome up, once all have answered. Half a filter is none.
void Ip::filter_answered(const std::optional<std::uint32_t>& error) {
  filter_error_ = filter_error_ ? filter_error_ : error;
  if (--filters_pending_ > 0) {
    return;
  }
  if (filter_error_) {
    remove_filters();
  }
  answer_filter(filter_error_);
}

void Ip::answer_filter(const std::optional<std::uint32_t>& error, Message* spent) {
  if (error) {
    tell(dlpi::ErrorAck{dlpi::DL_FILTER_REQ, *error, 0}, MessageType::ctl, spent);
  } else {
    tell(dlpi::OkAck{dlpi::DL_FILTER_REQ}, MessageType::ctl, spent);
  }
}

}  // namespace sluice
