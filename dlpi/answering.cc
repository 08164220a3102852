// SPDX-License-Identifier: Apache-2.0
#include "dlpi/answering.h"

#include <algorithm>

#include "dlpi/demultiplexer.h"
#include "stack/wire/protocol.h"

namespace sluice::dlpi {

using wire::dlpi::AnswerInd;

void Answering::add(LinkStream& stream) { members_[&stream].serial = ++serial_; }

void Answering::forget(LinkStream& stream) {
  const auto at = members_.find(&stream);
  if (at == members_.end()) {
    return;
  }
  const Member member = std::move(at->second);
  members_.erase(at);
  open_ -= member.is_open() ? 1U : 0U;
  for (const wire::IpAddress& address : member.addresses) {
    change_claim(address, stream, member, member.binding, std::nullopt);
  }
}

void Answering::renew(LinkStream& stream, const Subscription& wanted) {
  const auto kind_of = [&wanted](std::uint16_t sap) {
    const Kind bound = wanted.has_filter(sap) ? Kind::with_filter : Kind::without_filter;
    return wanted.has_sap(sap) ? bound : Kind::unbound;
  };
  Member& member = members_.at(&stream);
  const Binding now{.v4 = kind_of(wire::ethertype_ipv4), .v6 = kind_of(wire::ethertype_ipv6)};
  if (now == member.binding) {
    return;
  }
  open_ -= member.is_open() ? 1U : 0U;
  const Binding before = std::exchange(member.binding, now);
  open_ += member.is_open() ? 1U : 0U;
  for (const wire::IpAddress& address : member.addresses) {
    change_claim(address, stream, member, before, member.binding);
  }
}

bool Answering::set(LinkStream& stream, const wire::dlpi::AddressReq& request) {
  Member& member = members_.at(&stream);
  const auto at = std::ranges::find(member.addresses, request.address);
  if (request.ours == (at != member.addresses.end())) {
    return true;
  }
  if (request.ours && member.addresses.size() == addresses_max) {
    return false;
  }
  open_ -= member.is_open() ? 1U : 0U;
  if (request.ours) {
    member.addresses.push_back(request.address);
    change_claim(request.address, stream, member, std::nullopt, member.binding);
  } else {
    member.addresses.erase(at);
    change_claim(request.address, stream, member, member.binding, std::nullopt);
  }
  open_ += member.is_open() ? 1U : 0U;
  return true;
}

void Answering::change_claim(const wire::IpAddress& address, LinkStream& stream, const Member& member,
                             const std::optional<Binding>& from, const std::optional<Binding>& to) {
  Host& host = hosts_[address];
  const Decision before = decision_of(host);
  Claim claim{.stream = &stream, .told = AnswerInd{.address = address}};
  if (from) {
    const auto at = host.claims.find(rank_at(address, *from, member.serial));
    claim = at->second;
    host.sharing -= shares(address, at->first) ? 1U : 0U;
    host.bound -= from->is_bound() ? 1U : 0U;
    host.claims.erase(at);
  }
  if (to) {
    const Rank rank = rank_at(address, *to, member.serial);
    host.claims.emplace(rank, claim);
    host.sharing += shares(address, rank) ? 1U : 0U;
    host.bound += to->is_bound() ? 1U : 0U;
    due_.emplace_back(address, &stream);
  }
  compare(address, host, before);
  if (host.claims.empty()) {
    hosts_.erase(address);
  }
}

Answering::Decision Answering::decision_of(const Host& host) {
  const bool questioned = !host.claims.empty() && host.claims.begin()->first.kind != Kind::unbound;
  return {questioned ? host.claims.begin()->second.stream : nullptr, std::min<std::size_t>(host.sharing, 2)};
}

void Answering::compare(const wire::IpAddress& address, const Host& host, const Decision& before) {
  const Decision now = decision_of(host);
  if (now.sharing != before.sharing || (now.answers == nullptr) != (before.answers == nullptr)) {
    for (const auto& [rank, claim] : host.claims) {
      due_.emplace_back(address, claim.stream);
    }
  } else if (now.answers != before.answers) {
    due_.emplace_back(address, before.answers);
    due_.emplace_back(address, now.answers);
  }
}

Answering::Claim* Answering::find_claim(const wire::IpAddress& address, const LinkStream* stream) {
  const auto member = members_.find(stream);
  const auto host = hosts_.find(address);
  if (member == members_.end() || host == hosts_.end()) {
    return nullptr;
  }
  const auto claim = host->second.claims.find(rank_at(address, member->second.binding, member->second.serial));
  return claim == host->second.claims.end() ? nullptr : &claim->second;
}

std::optional<Answering::Change> Answering::next() {
  while (!due_.empty()) {
    const auto [address, stream] = due_.front();
    due_.pop_front();
    Claim* const claim = find_claim(address, stream);
    if (claim == nullptr) {
      continue;
    }
    const Decision decision = decision_of(hosts_.at(address));
    const bool shares_it = shares(address, rank_at(address, members_.at(stream).binding, 0));
    const AnswerInd told{.address = address,
                         .answers = decision.answers == nullptr || decision.answers == stream,
                         .shared = decision.sharing > (shares_it ? 1U : 0U)};
    if (claim->told != told) {
      claim->told = told;
      return Change{claim->stream, told};
    }
  }
  return std::nullopt;
}

void Answering::not_told(const Change& change) {
  if (Claim* const claim = find_claim(change.told.address, change.stream)) {
    claim->told.reset();
    due_.emplace_back(change.told.address, change.stream);
  }
}

std::optional<std::vector<wire::IpAddress>> Answering::hosts() const {
  if (open_ > 0) {
    return std::nullopt;
  }
  std::vector<wire::IpAddress> all;
  for (const auto& [address, host] : hosts_) {
    if (host.bound > 0 && !address.is_multicast()) {
      all.push_back(address);
    }
  }
  return all;
}

}  // namespace sluice::dlpi
