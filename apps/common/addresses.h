// SPDX-License-Identifier: Apache-2.0
#pragma once

// What becomes of a host's addresses, told to people: whether the link has another host with one of them (the manual of
// `ip`: duplicate_address_detection), and which ones routers gave it (autoconfigure). A stream without `ip`, over the
// kernel's UDP, has nothing to tell.
//
// Borrows the stream, whose modules must stay while this lives. Not thread-safe.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "edge/run_loop.h"
#include "stack/head/stream.h"
#include "stack/wire/address.h"

namespace sluice {

class Ip;

class AddressWatch {
 public:
  /// `program`: what its lines on standard error begin with.
  AddressWatch(Stream& stream, std::string_view program);

  /// Runs the loop while addresses are tentative and `stopped()` does not hold, and tells what came of it. False when
  /// no address is left to use; that is told, too.
  [[nodiscard]] bool settle(RunLoop& loop, const std::function<bool()>& stopped);

  /// Tells on standard error what is new.
  void tell();
  /// What is new: a sentence for each conflict since the last call, and for each address that was formed of a router's
  /// prefix or has expired. Bounded: ip::Addresses::conflicts(), ip::Autoconfiguration::addresses_max.
  [[nodiscard]] std::vector<std::string> news();

 private:
  struct Watched {
    const Ip* ip;
    std::size_t told = 0;                     // of its conflicts
    std::vector<wire::Ipv6Address> formed{};  // that were told
  };

  std::vector<Watched> watched_;
  std::string_view program_;
};

}  // namespace sluice
