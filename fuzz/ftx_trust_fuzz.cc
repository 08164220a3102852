// SPDX-License-Identifier: Apache-2.0

// Any bytes as one of the files that say who is trusted; the first byte says which: known hosts, allowed keys, a
// private key. Nothing crashes; a refused file gets a reason with no byte that a terminal would obey; an accepted line
// is spelled so that it reads back as itself.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "apps/ftx/security/known_hosts.h"
#include "base/contract.h"

namespace {

using namespace sluice;
using namespace sluice::ftx;

void check_refusal(const Error& error) {
  SLUICE_REQUIRE(error.code != 0 && !error.text.empty());
  for (const char c : error.text) {
    SLUICE_REQUIRE(c >= ' ' && c <= '~');
  }
}

/// The last word of a line, if it is a key.
Result<KeyPin> key_in(std::string_view text) {
  return KeyPin::parse(text.substr(std::min(text.find("ftx-key:"), text.size()), KeyPin::text_bytes));
}

void known_hosts(std::string_view text) {
  const auto hosts = KnownHosts::parse(text, "fuzz");
  if (!hosts) {
    return check_refusal(hosts.error());
  }
  if (const auto key = key_in(text); key) {
    SLUICE_REQUIRE(key->text() == text.substr(text.find("ftx-key:"), KeyPin::text_bytes));
    SLUICE_REQUIRE(hosts->look_up("not in any file:0", *key) == KnownHosts::Answer::unknown);
  }
}

void allowed_keys(std::string_view text) {
  const auto allowed = AllowedKeys::parse(text, "fuzz");
  if (!allowed) {
    return check_refusal(allowed.error());
  }
  if (const auto key = key_in(text); key && allowed->find(*key) != nullptr) {
    SLUICE_REQUIRE(!allowed->find(*key)->name.empty());
    for (const char c : allowed->find(*key)->name) {
      SLUICE_REQUIRE(c >= ' ' && c <= '~');
    }
  }
}

void private_key(ConstBytes bytes) {
  const auto identity = Identity::parse(bytes);
  if (!identity) {
    return check_refusal(identity.error());
  }
  SLUICE_REQUIRE(KeyPin::parse(identity->pin().text()).value() == identity->pin());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const ConstBytes bytes = std::as_bytes(std::span(data, size)).subspan(1);
  switch (data[0] % 3) {
    case 0:
      known_hosts(as_text(bytes));
      break;
    case 1:
      allowed_keys(as_text(bytes));
      break;
    default:
      private_key(bytes);
      break;
  }
  return 0;
}
