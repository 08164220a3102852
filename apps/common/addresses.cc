// SPDX-License-Identifier: Apache-2.0
#include "apps/common/addresses.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "stack/modules/ip.h"

namespace sluice {

AddressWatch::AddressWatch(Stream& stream, std::string_view program) : program_(program) {
  for (const auto& module : stream.chain().modules()) {
    if (const auto* const ip = dynamic_cast<const Ip*>(module.get())) {
      watched_.push_back({ip});
    }
  }
}

bool AddressWatch::settle(RunLoop& loop, const std::function<bool()>& stopped) {
  const auto settling = [](const Watched& at) { return at.ip->settling(); };
  loop.run_until([&] { return stopped() || std::ranges::none_of(watched_, settling); });
  tell();
  for (const Watched& at : watched_) {
    if (!at.ip->addresses().any_usable()) {
      fmt::print(stderr, "{}: no address is left: other hosts have them all\n", program_);
      return false;
    }
  }
  return true;
}

void AddressWatch::tell() {
  for (const std::string& sentence : news()) {
    fmt::print(stderr, "{}: {}\n", program_, sentence);
  }
}

std::vector<std::string> AddressWatch::news() {
  std::vector<std::string> sentences;
  for (Watched& at : watched_) {
    const std::vector<wire::Ipv6Address> formed = at.ip->autoconfiguration().addresses();
    for (const wire::Ipv6Address& address : formed) {
      if (std::ranges::find(at.formed, address) == at.formed.end()) {
        sentences.push_back(fmt::format("address {} is used: a router advertised its prefix", address.to_text()));
      }
    }
    for (const wire::Ipv6Address& address : at.formed) {
      if (std::ranges::find(formed, address) == formed.end()) {
        sentences.push_back(fmt::format("address {} is no longer used", address.to_text()));
      }
    }
    at.formed = formed;
    const std::vector<ip::AddressConflict>& conflicts = at.ip->addresses().conflicts();
    for (; at.told < conflicts.size(); ++at.told) {
      const ip::AddressConflict& conflict = conflicts[at.told];
      sentences.push_back(
          fmt::format("address {} {} by the host with MAC address {}{}", conflict.address.to_text(),
                      conflict.given_up ? "is in use" : "is claimed, too,", conflict.other.to_text(),
                      conflict.given_up ? ": it is not used here" : ": one of the two hosts must get another"));
    }
  }
  return sentences;
}

}  // namespace sluice
