// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/ip_options.h"

#include <algorithm>

namespace sluice::ip {
namespace {

using wire::Ipv4Address;

enum Kind : std::uint8_t {
  end_of_list = 0,
  no_operation = 1,
  record_route = 7,
  timestamp = 68,
  loose_source_route = 131,
  strict_source_route = 137,
};

constexpr std::size_t route_data = 3;      // kind, length, pointer
constexpr std::size_t timestamp_data = 4;  // and overflow and flag
constexpr std::size_t address_size = Ipv4Address::size;

std::size_t octet(ConstBytes bytes, std::size_t at) { return std::to_integer<std::size_t>(bytes[at]); }

/// The option at the front of `options`, which is cut off them; empty at the end of the list, or where the next one
/// does not fit. No operation is passed over.
ConstBytes next_option(ConstBytes& options) {
  while (!options.empty() && octet(options, 0) == no_operation) {
    options = options.subspan(1);
  }
  if (options.size() < 2 || octet(options, 0) == end_of_list || octet(options, 1) < 2 ||
      octet(options, 1) > options.size()) {
    return {};
  }
  const ConstBytes option = options.first(octet(options, 1));
  options = options.subspan(option.size());
  return option;
}

bool is_source_route(ConstBytes option) {
  return octet(option, 0) == loose_source_route || octet(option, 0) == strict_source_route;
}

/// Whether a route, or a source route, is whole: RFC 791 section 3.1, "the smallest legal value for the pointer is 4",
/// and addresses of 4 bytes.
bool is_route(ConstBytes option) {
  return option.size() >= route_data && (option.size() - route_data) % address_size == 0 && octet(option, 2) >= 4 &&
         octet(option, 2) % address_size == 0;
}

/// RFC 791 section 3.1, Record Route: "If the pointer is greater than the length the route data area is full [...] the
/// datagram is forwarded without inserting the address".
void update_route(Bytes option, const Ipv4Address& local) {
  const std::size_t at = octet(option, 2) - 1;
  if (is_route(option) && at + address_size <= option.size()) {
    local.store(option.data() + at);
    option[2] = static_cast<std::byte>(at + 1 + address_size);
  }
}

/// RFC 791 section 3.1, Internet Timestamp: "If the time is not available in milliseconds or cannot be provided with
/// respect to midnight UT then any time may be inserted as a timestamp provided the high order bit of the timestamp
/// field is set to one to indicate the use of a non-standard value."
void update_timestamp(Bytes option, const Ipv4Address& local, std::uint32_t milliseconds) {
  enum Flag : std::uint8_t { times_only = 0, with_addresses = 1, prespecified = 3 };
  if (option.size() < timestamp_data || octet(option, 2) < timestamp_data + 1) {
    return;
  }
  const std::size_t flag = octet(option, 3) & 0xfU;
  const std::size_t at = octet(option, 2) - 1;
  const std::size_t size = flag == times_only ? 4 : 8;
  if ((flag != times_only && flag != with_addresses && flag != prespecified) || at % 4 != 0) {
    return;
  }
  if (at + size > option.size()) {
    // "the overflow count is incremented by one", in the four bits above the flag.
    const std::size_t overflow = octet(option, 3) >> 4;
    option[3] = static_cast<std::byte>((std::min<std::size_t>(overflow + 1, 15) << 4) | flag);
    return;
  }
  if (flag == prespecified && Ipv4Address::load(option.data() + at) != local) {
    return;  // "an IP module only registers its timestamp if it matches its own address with the next specified"
  }
  if (flag == with_addresses) {
    local.store(option.data() + at);
  }
  store_big_endian(option.data() + at + size - 4, 0x8000'0000U | milliseconds);
  option[2] = static_cast<std::byte>(at + 1 + size);
}

/// The route back: the recorded addresses from the last to the first, then who asked. The last is the next hop.
std::optional<Ipv4Address> reverse_route(Bytes option, const Ipv4Address& source) {
  const std::size_t recorded = (option.size() - route_data) / address_size;
  if (recorded == 0) {
    return std::nullopt;
  }
  const auto at = [&](std::size_t index) { return option.data() + route_data + index * address_size; };
  const Ipv4Address first_hop = Ipv4Address::load(at(recorded - 1));
  for (std::size_t low = 0, high = recorded - 1; low < high; ++low) {
    --high;
    const Ipv4Address lower = Ipv4Address::load(at(low));
    Ipv4Address::load(at(high)).store(at(low));
    lower.store(at(high));
  }
  source.store(at(recorded - 1));
  option[2] = std::byte{4};
  return first_hop;
}

}  // namespace

bool has_unfinished_source_route(ConstBytes options) {
  for (ConstBytes option = next_option(options); !option.empty(); option = next_option(options)) {
    if (is_source_route(option) && (!is_route(option) || octet(option, 2) <= option.size())) {
      return true;
    }
  }
  return false;
}

EchoOptions options_of_reply(ConstBytes options, const Ipv4Address& source, const Ipv4Address& local,
                             std::uint32_t milliseconds) {
  EchoOptions reply;
  for (ConstBytes option = next_option(options); !option.empty(); option = next_option(options)) {
    const std::size_t kind = octet(option, 0);
    const bool reverses = is_source_route(option) && is_route(option) && !reply.first_hop;
    if (!reverses && kind != record_route && kind != timestamp) {
      continue;
    }
    // All options together fit, since those of the request did.
    const Bytes copy = Bytes(reply.bytes).subspan(reply.size, option.size());
    std::ranges::copy(option, copy.begin());
    reply.size += option.size();
    if (reverses) {
      reply.first_hop = reverse_route(copy, source);
    } else if (kind == record_route && option.size() >= route_data) {
      update_route(copy, local);
    } else if (kind == timestamp) {
      update_timestamp(copy, local, milliseconds);
    }
  }
  reply.size = (reply.size + 3) / 4 * 4;  // end_of_list is zero
  return reply;
}

}  // namespace sluice::ip
