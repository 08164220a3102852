// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/dlpi.h"

#include <limits>

#include "base/contract.h"

namespace sluice::wire::dlpi {
namespace {

constexpr std::size_t sap_size = 2;
constexpr std::uint32_t any = 0xffff'ffffU;

std::uint32_t word_at(ConstBytes block, std::size_t index) { return load_word(block.data() + index * word_size); }

/// Whether a fixed part of `words` words is there and starts with X's number.
template <class X>
std::expected<void, Malformed> check_fixed(ConstBytes block, std::size_t words) {
  if (block.size() < words * word_size) {
    return std::unexpected(Malformed::short_block);
  }
  if (word_at(block, 0) != X::primitive) {
    return std::unexpected(Malformed::wrong_primitive);
  }
  return {};
}

/// The address (or whatever has a size and a load) behind a length and an offset; nothing where the length is 0.
template <class Address>
Decoded<std::optional<Address>> address_at(ConstBytes block, std::size_t fixed, std::uint32_t length,
                                           std::uint32_t offset) {
  const auto bytes = slice(block, fixed, length, offset);
  if (!bytes) {
    return std::unexpected(Malformed::bad_offset);
  }
  if (bytes->empty()) {
    return std::nullopt;
  }
  if (bytes->size() != Address::size) {
    return std::unexpected(Malformed::bad_address);
  }
  return Address::load(bytes->data());
}

/// The same for an address that must be there.
template <class Address>
Decoded<Address> present_address_at(ConstBytes block, std::size_t fixed, std::uint32_t length, std::uint32_t offset) {
  const auto address = address_at<Address>(block, fixed, length, offset);
  if (!address) {
    return std::unexpected(address.error());
  }
  if (!*address) {
    return std::unexpected(Malformed::bad_address);
  }
  return **address;
}

/// A SAP as subsequent binds carry it: two bytes.
Decoded<std::uint16_t> sap_at(ConstBytes block, std::size_t fixed, std::uint32_t length, std::uint32_t offset) {
  const auto bytes = slice(block, fixed, length, offset);
  if (!bytes) {
    return std::unexpected(Malformed::bad_offset);
  }
  if (bytes->size() != sap_size) {
    return std::unexpected(Malformed::bad_address);
  }
  return load_big_endian<std::uint16_t>(bytes->data());
}

Decoded<std::optional<IpAddress>> ip_address_at(ConstBytes block, std::size_t fixed, std::uint32_t length,
                                                std::uint32_t offset) {
  const auto bytes = slice(block, fixed, length, offset);
  if (!bytes) {
    return std::unexpected(Malformed::bad_offset);
  }
  switch (bytes->size()) {
    case 0:
      return std::nullopt;
    case Ipv4Address::size:
      return IpAddress::load(Family::ipv4, bytes->data());
    case Ipv6Address::size:
      return IpAddress::load(Family::ipv6, bytes->data());
    default:
      return std::unexpected(Malformed::bad_address);
  }
}

/// A word that holds a number, or stands for any.
template <class Number>
Decoded<std::optional<Number>> number_or_any(std::uint32_t word) {
  if (word == any) {
    return std::nullopt;
  }
  if (word > std::numeric_limits<Number>::max()) {
    return std::unexpected(Malformed::bad_value);
  }
  return static_cast<Number>(word);
}

}  // namespace

Decoded<UderrorInd> UderrorInd::decode(ConstBytes block) {
  constexpr std::size_t words = 5;
  if (const auto fixed = check_fixed<UderrorInd>(block, words); !fixed) {
    return std::unexpected(fixed.error());
  }
  const auto address = address_at<LinkAddress>(block, words * word_size, word_at(block, 1), word_at(block, 2));
  if (!address) {
    return std::unexpected(address.error());
  }
  return UderrorInd{*address, word_at(block, 3), word_at(block, 4)};
}

std::size_t UderrorInd::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= encoded_size_max);
  const std::size_t size = 5 * word_size;
  if (!destination) {
    return store_words(out, {primitive, 0, 0, unix_errno, error});
  }
  store_words(out, {primitive, LinkAddress::size, size, unix_errno, error});
  destination->store(out.data() + size);
  return size + LinkAddress::size;
}

Decoded<InfoAck> InfoAck::decode(ConstBytes block) {
  if (const auto fixed = check_fixed<InfoAck>(block, fixed_size / word_size); !fixed) {
    return std::unexpected(fixed.error());
  }
  const auto bound = address_at<LinkAddress>(block, fixed_size, word_at(block, 3), word_at(block, 14));
  if (!bound) {
    return std::unexpected(bound.error());
  }
  const auto group = address_at<MacAddress>(block, fixed_size, word_at(block, 16), word_at(block, 17));
  if (!group) {
    return std::unexpected(group.error());
  }
  return InfoAck{word_at(block, 1),
                 word_at(block, 2),
                 word_at(block, 4),
                 word_at(block, 6),
                 word_at(block, 8),
                 word_at(block, 13),
                 *bound,
                 *group};
}

std::size_t InfoAck::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= encoded_size_max);
  constexpr auto sap_behind_address = static_cast<std::uint32_t>(-static_cast<int>(sap_size));
  const std::uint32_t address_length = address ? LinkAddress::size : 0;
  const std::uint32_t address_offset = address ? fixed_size : 0;
  const std::uint32_t broadcast_length = broadcast ? MacAddress::size : 0;
  const std::uint32_t broadcast_offset = broadcast ? fixed_size + address_length : 0;
  store_words(
      out, {primitive, max_sdu, min_sdu, address_length, mac_type, 0, current_state, sap_behind_address, service_mode,
            0, 0, 0, 0, provider_style, address_offset, DL_CURRENT_VERSION, broadcast_length, broadcast_offset, 0});
  if (address) {
    address->store(out.data() + address_offset);
  }
  if (broadcast) {
    broadcast->store(out.data() + broadcast_offset);
  }
  return fixed_size + address_length + broadcast_length;
}

Decoded<BindReq> BindReq::decode(ConstBytes block) {
  if (const auto fixed = check_fixed<BindReq>(block, 5); !fixed) {
    return std::unexpected(fixed.error());
  }
  BindReq request{word_at(block, 1), word_at(block, 2), 0, 0, word_at(block, 4)};
  std::memcpy(&request.service_mode, block.data() + 12, 2);
  std::memcpy(&request.connection_management, block.data() + 14, 2);
  return request;
}

std::size_t BindReq::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= encoded_size_max);
  store_words(out, {primitive, sap, max_connect_indications, 0, xid_test});
  std::memcpy(out.data() + 12, &service_mode, 2);
  std::memcpy(out.data() + 14, &connection_management, 2);
  return encoded_size_max;
}

Decoded<BindAck> BindAck::decode(ConstBytes block) {
  constexpr std::size_t words = 6;
  if (const auto fixed = check_fixed<BindAck>(block, words); !fixed) {
    return std::unexpected(fixed.error());
  }
  const auto bound = present_address_at<LinkAddress>(block, words * word_size, word_at(block, 2), word_at(block, 3));
  if (!bound) {
    return std::unexpected(bound.error());
  }
  return BindAck{word_at(block, 1), *bound, word_at(block, 4), word_at(block, 5)};
}

std::size_t BindAck::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= encoded_size_max);
  const std::size_t size =
      store_words(out, {primitive, sap, LinkAddress::size, 6 * word_size, max_connect_indications, xid_test});
  address.store(out.data() + size);
  return encoded_size_max;
}

Decoded<SubsBindReq> SubsBindReq::decode(ConstBytes block) {
  constexpr std::size_t words = 4;
  if (const auto fixed = check_fixed<SubsBindReq>(block, words); !fixed) {
    return std::unexpected(fixed.error());
  }
  // In this primitive and its kin the offset comes before the length.
  const auto subsequent = sap_at(block, words * word_size, word_at(block, 2), word_at(block, 1));
  if (!subsequent) {
    return std::unexpected(subsequent.error());
  }
  const std::uint32_t bind = word_at(block, 3);
  if (bind != DL_PEER_BIND && bind != DL_HIERARCHICAL_BIND) {
    return std::unexpected(Malformed::bad_value);
  }
  return SubsBindReq{*subsequent, bind};
}

std::size_t SubsBindReq::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= encoded_size_max);
  const std::size_t size = store_words(out, {primitive, 4 * word_size, sap_size, bind_class});
  store_big_endian(out.data() + size, sap);
  return encoded_size_max;
}

template <std::uint32_t Number>
Decoded<SubsSap<Number>> SubsSap<Number>::decode(ConstBytes block) {
  constexpr std::size_t words = 3;
  if (const auto fixed = check_fixed<SubsSap>(block, words); !fixed) {
    return std::unexpected(fixed.error());
  }
  const auto subsequent = sap_at(block, words * word_size, word_at(block, 2), word_at(block, 1));
  if (!subsequent) {
    return std::unexpected(subsequent.error());
  }
  return SubsSap{*subsequent};
}

template <std::uint32_t Number>
std::size_t SubsSap<Number>::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= encoded_size_max);
  const std::size_t size = store_words(out, {primitive, 3 * word_size, sap_size});
  store_big_endian(out.data() + size, sap);
  return encoded_size_max;
}

template struct SubsSap<DL_SUBS_BIND_ACK>;
template struct SubsSap<DL_SUBS_UNBIND_REQ>;

Decoded<ErrorAck> ErrorAck::decode(ConstBytes block) {
  if (const auto fixed = check_fixed<ErrorAck>(block, 4); !fixed) {
    return std::unexpected(fixed.error());
  }
  return ErrorAck{word_at(block, 1), word_at(block, 2), word_at(block, 3)};
}

std::size_t ErrorAck::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= encoded_size_max);
  return store_words(out, {primitive, error_primitive, error, unix_errno});
}

template <std::uint32_t Number>
Decoded<Physical<Number>> Physical<Number>::decode(ConstBytes block) {
  constexpr std::size_t words = 3;
  if (const auto fixed = check_fixed<Physical>(block, words); !fixed) {
    return std::unexpected(fixed.error());
  }
  const auto mac = present_address_at<MacAddress>(block, words * word_size, word_at(block, 1), word_at(block, 2));
  if (!mac) {
    return std::unexpected(mac.error());
  }
  return Physical{*mac};
}

template <std::uint32_t Number>
std::size_t Physical<Number>::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= encoded_size_max);
  const std::size_t size = store_words(out, {primitive, MacAddress::size, 3 * word_size});
  address.store(out.data() + size);
  return encoded_size_max;
}

template struct Physical<DL_ENABMULTI_REQ>;
template struct Physical<DL_DISABMULTI_REQ>;
template struct Physical<DL_PHYS_ADDR_ACK>;
template struct Physical<DL_SET_PHYS_ADDR_REQ>;

Decoded<NotifyReq> NotifyReq::decode(ConstBytes block) {
  if (const auto fixed = check_fixed<NotifyReq>(block, 3); !fixed) {
    return std::unexpected(fixed.error());
  }
  return NotifyReq{word_at(block, 1), word_at(block, 2)};
}

std::size_t NotifyReq::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= encoded_size_max);
  return store_words(out, {primitive, notifications, time_limit_ms});
}

Decoded<NotifyInd> NotifyInd::decode(ConstBytes block) {
  constexpr std::size_t words = 5;
  if (const auto fixed = check_fixed<NotifyInd>(block, words); !fixed) {
    return std::unexpected(fixed.error());
  }
  const auto changed = address_at<LinkAddress>(block, words * word_size, word_at(block, 3), word_at(block, 4));
  if (!changed) {
    return std::unexpected(changed.error());
  }
  return NotifyInd{word_at(block, 1), word_at(block, 2), *changed};
}

std::size_t NotifyInd::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= encoded_size_max);
  constexpr std::size_t size = 5 * word_size;
  if (!address) {
    return store_words(out, {primitive, notification, data, 0, 0});
  }
  store_words(out, {primitive, notification, data, LinkAddress::size, size});
  address->store(out.data() + size);
  return encoded_size_max;
}

template <std::uint32_t Number>
Decoded<Capability<Number>> Capability<Number>::decode(ConstBytes block) {
  if (const auto fixed = check_fixed<Capability>(block, 3); !fixed) {
    return std::unexpected(fixed.error());
  }
  const auto listed = slice(block, fixed_size, word_at(block, 2), word_at(block, 1));
  if (!listed) {
    return std::unexpected(Malformed::bad_offset);
  }
  Capability capability;
  for (ConstBytes rest = *listed; !rest.empty();) {
    if (rest.size() < 2 * word_size || word_at(rest, 1) > rest.size() - 2 * word_size ||
        word_at(rest, 1) % word_size != 0) {
      return std::unexpected(Malformed::bad_offset);
    }
    const ConstBytes value = rest.subspan(2 * word_size, word_at(rest, 1));
    if (word_at(rest, 0) == SegmentsCapability::number && value.size() >= 2 * word_size) {
      capability.segments = SegmentsCapability{word_at(value, 0), word_at(value, 1)};
    }
    rest = rest.subspan(2 * word_size + value.size());
  }
  return capability;
}

template <std::uint32_t Number>
std::size_t Capability<Number>::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= encoded_size_max);
  if (!segments) {
    return store_words(out, {primitive, 0, 0});
  }
  return store_words(out, {primitive, fixed_size, 4 * word_size, SegmentsCapability::number, 2 * word_size,
                           segments->packet_bytes_max, segments->flags});
}

template struct Capability<DL_CAPABILITY_REQ>;
template struct Capability<DL_CAPABILITY_ACK>;

Decoded<GetStatisticsAck> GetStatisticsAck::decode(ConstBytes block) {
  if (const auto fixed = check_fixed<GetStatisticsAck>(block, 3); !fixed) {
    return std::unexpected(fixed.error());
  }
  const auto bytes = slice(block, fixed_size, word_at(block, 1), word_at(block, 2));
  if (!bytes) {
    return std::unexpected(Malformed::bad_offset);
  }
  return GetStatisticsAck{*bytes};
}

std::size_t GetStatisticsAck::encode(Bytes out) const {
  const Tail tail(fixed_size, statistics, {});
  SLUICE_REQUIRE(out.size() >= tail.size());
  store_words(out, {primitive, tail.first_length(), tail.first_offset()});
  tail.store(out);
  return tail.size();
}

Decoded<FilterReq> FilterReq::decode(ConstBytes block) {
  if (const auto fixed = check_fixed<FilterReq>(block, fixed_size / word_size); !fixed) {
    return std::unexpected(fixed.error());
  }
  const bool more = (word_at(block, 1) & with_remote) != 0;
  const std::size_t fixed = more ? fixed_size_with_remote : fixed_size;
  if (block.size() < fixed) {
    return std::unexpected(Malformed::short_block);
  }
  const std::uint32_t sap = word_at(block, 1) & ~with_remote;
  const auto protocol = number_or_any<std::uint8_t>(word_at(block, 4));
  const auto local_port = number_or_any<std::uint16_t>(word_at(block, 5));
  const auto remote_port = number_or_any<std::uint16_t>(more ? word_at(block, 8) : any);
  if (sap > 0xffff || !protocol || !local_port || !remote_port) {
    return std::unexpected(Malformed::bad_value);
  }
  const auto local = ip_address_at(block, fixed, word_at(block, 2), word_at(block, 3));
  if (!local) {
    return std::unexpected(local.error());
  }
  const auto remote = ip_address_at(block, fixed, more ? word_at(block, 6) : 0, more ? word_at(block, 7) : 0);
  if (!remote) {
    return std::unexpected(remote.error());
  }
  return FilterReq{static_cast<std::uint16_t>(sap), *local, *protocol, *local_port, *remote, *remote_port};
}

std::size_t FilterReq::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= encoded_size_max);
  const bool more = remote || remote_port;
  const Tail tail(more ? fixed_size_with_remote : fixed_size, local ? local->bytes() : ConstBytes{},
                  remote ? remote->bytes() : ConstBytes{});
  store_words(out, {primitive, sap | (more ? with_remote : 0U), tail.first_length(), tail.first_offset(),
                    protocol ? *protocol : any, local_port ? *local_port : any});
  if (more) {
    store_words(out.subspan(fixed_size),
                {tail.second_length(), tail.second_offset(), remote_port ? *remote_port : any});
  }
  tail.store(out);
  return tail.size();
}

}  // namespace sluice::wire::dlpi
