// SPDX-License-Identifier: Apache-2.0
#include "dlpi/answering.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "dlpi/link_stream.h"
#include "stack/wire/protocol.h"

namespace sluice::dlpi {

using wire::dlpi::AnswerInd;

namespace {

template <class Entry>
std::uint16_t sap_of(const Entry& entry) {
  return entry.told.address.is_v4() ? wire::ethertype_ipv4 : wire::ethertype_ipv6;
}

}  // namespace

bool Answering::set(LinkStream& stream, const wire::dlpi::AddressReq& request) {
  const auto same = [&](const Entry& entry) {
    return entry.stream == &stream && entry.told.address == request.address;
  };
  if (!request.ours) {
    std::erase_if(entries_, same);
    return true;
  }
  if (std::ranges::any_of(entries_, same)) {
    return true;
  }
  if (std::ranges::count(entries_, &stream, &Entry::stream) >= static_cast<std::ptrdiff_t>(addresses_max)) {
    return false;
  }
  entries_.push_back({.stream = &stream, .told = {.address = request.address}});
  return true;
}

void Answering::forget(const LinkStream& stream) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.stream == &stream; });
}

std::vector<Answering::Change> Answering::assign(std::span<LinkStream* const> streams) const {
  struct Choice {
    std::size_t rank = 0;  // of the stream that answers: less is better
    LinkStream* answers = nullptr;
    std::size_t sharing = 0;
  };
  std::unordered_map<const LinkStream*, std::size_t> order;
  for (std::size_t at = 0; at < streams.size(); ++at) {
    order.emplace(streams[at], at);
  }
  const auto filters = [](const Entry& entry) { return entry.stream->subscription().has_filter(sap_of(entry)); };
  // Who has a group is a member, with a filter or without.
  const auto shares = [&](const Entry& entry) { return entry.told.address.is_multicast() || filters(entry); };
  std::unordered_map<wire::IpAddress, Choice> choices;
  for (const Entry& entry : entries_) {
    const auto place = order.find(entry.stream);
    if (place == order.end() || !entry.stream->subscription().has_sap(sap_of(entry))) {
      continue;
    }
    Choice& choice = choices[entry.told.address];
    const std::size_t rank = place->second + (filters(entry) ? streams.size() : 0);
    if (choice.answers == nullptr || rank < choice.rank) {
      choice.answers = entry.stream;
      choice.rank = rank;
    }
    choice.sharing += shares(entry) ? 1U : 0U;
  }
  std::vector<Change> changes;
  for (const Entry& entry : entries_) {
    const Choice& choice = choices[entry.told.address];
    const AnswerInd told{.address = entry.told.address,
                         .answers = choice.answers == nullptr || choice.answers == entry.stream,
                         .shared = choice.sharing > (shares(entry) ? 1U : 0U)};
    if (told != entry.told) {
      changes.push_back({entry.stream, told});
    }
  }
  return changes;
}

std::optional<std::vector<wire::IpAddress>> Answering::hosts(std::span<LinkStream* const> streams) const {
  std::vector<wire::IpAddress> all;
  for (const LinkStream* stream : streams) {
    const Subscription& wanted = stream->subscription();
    if (!wanted.has_sap(wire::ethertype_ipv4) && !wanted.has_sap(wire::ethertype_ipv6)) {
      continue;
    }
    std::size_t told = 0;
    for (const Entry& entry : entries_) {
      if (entry.stream == stream) {
        ++told;
        if (!entry.told.address.is_multicast()) {
          all.push_back(entry.told.address);
        }
      }
    }
    if (told == 0 || told == addresses_max) {
      return std::nullopt;
    }
  }
  return all;
}

void Answering::told(const Change& change) {
  for (Entry& entry : entries_) {
    if (entry.stream == change.stream && entry.told.address == change.told.address) {
      entry.told = change.told;
    }
  }
}

}  // namespace sluice::dlpi
