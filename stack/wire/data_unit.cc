// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/data_unit.h"

#include <array>
#include <cstring>

#include "stack/wire/network.h"
#include "stack/wire/tpi.h"

namespace sluice::wire {
namespace {

using Kind = DataUnit::Kind;
using Malformed = DataUnit::Malformed;
using Options = DataUnit::Options;

template <class T>
using Decoded = std::expected<T, Malformed>;

constexpr std::size_t options_size_max = network::Received::size_max;

const DataUnit& value_at(const std::byte* native) { return *reinterpret_cast<const DataUnit*>(native); }

std::size_t encoded_size_of(const std::byte* native) {
  const DataUnit& unit = value_at(native);
  switch (unit.kind) {
    case Kind::link_request:
      return dlpi::UnitdataReq::encoded_size_max;
    case Kind::link_indication:
      return dlpi::UnitdataInd::encoded_size_max;
    case Kind::transport_error:
    case Kind::network_error:
      return tpi::UderrorInd::fixed_size + unit.address_size() + unit.options_size();
    default:
      // Addresses are multiples of 4, so that there is no gap before the options.
      return tpi::UnitdataReq::fixed_size + unit.address_size() + unit.options_size();
  }
}

std::size_t encode(const std::byte* native, Bytes out) {
  const DataUnit& unit = value_at(native);
  std::array<std::byte, TransportAddress::encoded_size_max> address_bytes;
  std::array<std::byte, options_size_max> options_bytes;
  ConstBytes address;
  ConstBytes options;
  if (unit.kind < Kind::link_request) {
    address = ConstBytes(address_bytes).first(unit.encode_address(address_bytes));
    options = ConstBytes(options_bytes).first(unit.encode_options(options_bytes));
  }
  switch (unit.kind) {
    case Kind::transport_request:
    case Kind::network_request:
      return tpi::UnitdataReq{.address = address, .options = options}.encode(out);
    case Kind::transport_indication:
    case Kind::network_indication:
      return tpi::UnitdataInd{.address = address, .options = options}.encode(out);
    case Kind::transport_error:
    case Kind::network_error:
      return tpi::UderrorInd{.destination = address, .options = options, .error_type = unit.error}.encode(out);
    case Kind::link_request:
      return dlpi::UnitdataReq{.destination = unit.destination, .priority = {}}.encode(out);
    case Kind::link_indication:
      return dlpi::UnitdataInd{.destination = unit.destination, .source = unit.source, .group_address = unit.group}
          .encode(out);
  }
  return 0;
}

/// The address of a TPI primitive.
bool read_address(ConstBytes bytes, DataUnit& unit) {
  if (unit.is_transport()) {
    const auto address = TransportAddress::decode(bytes);
    if (address) {
      unit.peer = address->address;
      unit.peer_port = address->port;
    }
    return address.has_value();
  }
  const auto address = NetworkAddress::decode(bytes);
  if (address) {
    unit.peer = address->address;
    unit.protocol = address->protocol;
  }
  return address.has_value();
}

bool read_sending(ConstBytes bytes, DataUnit& unit) {
  const auto sending = network::Sending::decode(bytes);
  if (sending) {
    unit.options = Options::sending;
    unit.has_local = sending->source.has_value();
    unit.local = sending->source.value_or(IpAddress());
    unit.hop_limit = sending->hop_limit;
    unit.traffic_class = sending->traffic_class;
    unit.dont_fragment = sending->dont_fragment;
    unit.segment_size = sending->segment_size;
  }
  return sending.has_value();
}

bool read_received(ConstBytes bytes, DataUnit& unit) {
  const auto received = network::Received::decode(bytes);
  if (received) {
    unit.options = Options::received;
    unit.local = received->local;
    unit.hop_limit = received->hop_limit;
    unit.traffic_class = received->traffic_class;
    unit.group = received->group;
    unit.header_size = received->header_size;
    unit.segment_size = received->segment_size;
  }
  return received.has_value();
}

bool read_failure(ConstBytes bytes, DataUnit& unit) {
  const auto failure = network::Failure::decode(bytes);
  if (failure) {
    unit.options = Options::failure;
    unit.has_local = failure->source.has_value();
    unit.local = failure->source.value_or(IpAddress());
    unit.mtu = failure->mtu;
  }
  return failure.has_value();
}

template <class Primitive>
Decoded<DataUnit> decode_unitdata(ConstBytes block, Kind kind) {
  const auto primitive = Primitive::decode(block);
  if (!primitive) {
    return std::unexpected(Malformed::primitive);
  }
  DataUnit unit{.kind = kind};
  const bool read =
      read_address(primitive->address, unit) && (primitive->options.empty() || unit.read_options(primitive->options));
  return read ? Decoded<DataUnit>(unit) : std::unexpected(Malformed::names);
}

Decoded<DataUnit> decode_error(ConstBytes block, Kind kind) {
  const auto primitive = tpi::UderrorInd::decode(block);
  if (!primitive) {
    return std::unexpected(Malformed::primitive);
  }
  DataUnit unit{.kind = kind, .error = primitive->error_type};
  const bool read = read_address(primitive->destination, unit) && unit.read_options(primitive->options);
  return read ? Decoded<DataUnit>(unit) : std::unexpected(Malformed::names);
}

}  // namespace

static_assert(DataUnit::encoded_size_max ==
              tpi::UderrorInd::fixed_size + TransportAddress::encoded_size_max + options_size_max);

constinit const Codec DataUnit::codec{
    .native_size = sizeof(DataUnit), .encoded_size = encoded_size_of, .encode = encode};

std::expected<DataUnit, DataUnit::Malformed> DataUnit::decode(ConstBytes block, Kind kind) {
  switch (kind) {
    case Kind::transport_request:
    case Kind::network_request:
      return decode_unitdata<tpi::UnitdataReq>(block, kind);
    case Kind::transport_indication:
    case Kind::network_indication:
      return decode_unitdata<tpi::UnitdataInd>(block, kind);
    case Kind::transport_error:
    case Kind::network_error:
      return decode_error(block, kind);
    case Kind::link_request:
      if (const auto request = dlpi::UnitdataReq::decode(block); request && request->priority == dlpi::Priority{}) {
        return DataUnit{.kind = kind, .destination = request->destination};
      }
      return std::unexpected(Malformed::primitive);
    case Kind::link_indication:
      if (const auto indication = dlpi::UnitdataInd::decode(block)) {
        return DataUnit{.kind = kind,
                        .group = indication->group_address,
                        .destination = indication->destination,
                        .source = indication->source};
      }
      return std::unexpected(Malformed::primitive);
  }
  return std::unexpected(Malformed::primitive);
}

std::size_t DataUnit::options_size() const {
  static constexpr std::array<std::size_t, 4> sizes{0, network::Sending::size, network::Received::size,
                                                    network::Failure::size};
  static constexpr std::array<std::size_t, 4> segmented_sizes{0, network::Sending::size_max,
                                                              network::Received::size_max, network::Failure::size};
  return (segment_size == 0 ? sizes : segmented_sizes)[static_cast<std::size_t>(options)];
}

std::size_t DataUnit::encode_options(Bytes out) const {
  const auto known_local = has_local ? std::optional(local) : std::nullopt;
  switch (options) {
    case Options::none:
      return 0;
    case Options::sending:
      return network::Sending{known_local, hop_limit, traffic_class, dont_fragment, segment_size}.encode(out);
    case Options::received:
      return network::Received{local, hop_limit, traffic_class, group, header_size, segment_size}.encode(out);
    case Options::failure:
      return network::Failure{known_local, mtu}.encode(out);
  }
  return 0;
}

bool DataUnit::read_options(ConstBytes bytes) {
  switch (kind) {
    case Kind::transport_request:
    case Kind::network_request:
      return read_sending(bytes, *this);
    case Kind::transport_indication:
    case Kind::network_indication:
      return read_received(bytes, *this);
    case Kind::transport_error:
    case Kind::network_error:
      return read_failure(bytes, *this);
    default:
      return false;
  }
}

}  // namespace sluice::wire
