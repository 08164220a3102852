// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/ipv6.h"

#include "base/contract.h"

namespace sluice::wire {
namespace {

constexpr std::uint8_t option_pad1 = 0;
constexpr std::uint8_t option_padn = 1;
constexpr std::size_t payload_end_max = 65535;

std::unexpected<Ipv6ExtensionError> problem_at(Ipv6ExtensionProblem problem, std::size_t payload_offset) {
  return std::unexpected(Ipv6ExtensionError{problem, static_cast<std::uint32_t>(Ipv6Header::size + payload_offset)});
}

/// RFC 8200 section 4.2: the two highest bits of an option's type say what to do with one that is not recognised.
std::optional<Ipv6ExtensionProblem> problem_of_option(std::uint8_t type) {
  if (type == option_padn) {
    return std::nullopt;
  }
  switch (type >> 6) {
    case 0:
      return std::nullopt;  // "skip over this option and continue processing the header."
    case 1:
      return Ipv6ExtensionProblem::option_discard;
    case 2:
      return Ipv6ExtensionProblem::option_report;
    default:
      return Ipv6ExtensionProblem::option_report_unicast;
  }
}

/// Looks at every option of the options header that fills payload[start, end).
std::expected<void, Ipv6ExtensionError> check_options(ConstBytes payload, std::size_t start, std::size_t end) {
  std::size_t at = start + 2;
  while (at < end) {
    const auto type = static_cast<std::uint8_t>(payload[at]);
    if (type == option_pad1) {
      ++at;
      continue;
    }
    if (const auto problem = problem_of_option(type)) {
      return problem_at(*problem, at);
    }
    if (end - at < 2) {
      return problem_at(Ipv6ExtensionProblem::short_header, at);
    }
    at += 2 + static_cast<std::size_t>(payload[at + 1]);
  }
  if (at != end) {
    return problem_at(Ipv6ExtensionProblem::short_header, start);
  }
  return {};
}

/// Where the walk is. Each step reads the header at `found.offset`, which is of type `found.protocol`.
class Walk {
 public:
  Walk(std::uint8_t next_header, ConstBytes payload, std::size_t payload_size, bool reassembled)
      : payload_(payload), payload_size_(payload_size), hop_by_hop_allowed_(!reassembled) {
    found_.protocol = next_header;
  }

  [[nodiscard]] const Ipv6Extensions& found() const { return found_; }

  [[nodiscard]] bool done() const {
    if (found_.fragment) {
      return true;
    }
    switch (found_.protocol) {
      case protocol_hop_by_hop:
      case protocol_ipv6_destination:
      case protocol_ipv6_route:
      case protocol_ipv6_fragment:
        return false;
      default:
        return true;
    }
  }

  std::expected<void, Ipv6ExtensionError> step() {
    if (found_.protocol == protocol_ipv6_fragment) {
      return step_fragment();
    }
    const std::size_t start = found_.offset;
    // RFC 8200 section 4.3: "Length of the Hop-by-Hop Options header in 8-octet units, not including the first 8
    // octets", and so for the others.
    if (payload_.size() - start < 8) {
      return problem_at(Ipv6ExtensionProblem::short_header, start);
    }
    const std::size_t end = start + 8 + 8 * static_cast<std::size_t>(payload_[start + 1]);
    if (end > payload_.size()) {
      return problem_at(Ipv6ExtensionProblem::short_header, start);
    }
    if (const auto checked = check(start, end); !checked) {
      return checked;
    }
    advance(static_cast<std::uint8_t>(payload_[start]), end);
    return {};
  }

 private:
  std::expected<void, Ipv6ExtensionError> check(std::size_t start, std::size_t end) const {
    if (found_.protocol == protocol_ipv6_route) {
      // RFC 8200 section 4.4: "If Segments Left is zero, the node must ignore the Routing header".
      if (payload_[start + 3] != std::byte{0}) {
        return problem_at(Ipv6ExtensionProblem::routing, start + 2);
      }
      return {};
    }
    // RFC 8200 section 4: hop-by-hop options "must immediately follow the IPv6 header"; the offending byte is the
    // next-header field that named them.
    if (found_.protocol == protocol_hop_by_hop && !hop_by_hop_allowed_) {
      return std::unexpected(Ipv6ExtensionError{Ipv6ExtensionProblem::misplaced_hop_by_hop, found_.protocol_field});
    }
    return check_options(payload_, start, end);
  }

  std::expected<void, Ipv6ExtensionError> step_fragment() {
    const std::size_t start = found_.offset;
    const auto header = Ipv6FragmentHeader::parse(payload_.subspan(start));
    if (!header) {
      return problem_at(Ipv6ExtensionProblem::short_header, start);
    }
    const std::size_t end = start + Ipv6FragmentHeader::size;
    const std::size_t length = payload_size_ - end;
    // RFC 8200 section 4.5: "the length of a fragment [...] is not a multiple of 8 octets and the M flag of that
    // fragment is 1 [...] pointing to the Payload Length field"; "the Payload Length of the packet reassembled from
    // that fragment would exceed 65,535 octets [...] pointing to the Fragment Offset field".
    if (header->more_fragments && (length % 8 != 0 || length == 0)) {
      return std::unexpected(Ipv6ExtensionError{Ipv6ExtensionProblem::bad_fragment, 4});
    }
    if (start + header->offset + length > payload_end_max) {
      return problem_at(Ipv6ExtensionProblem::bad_fragment, start + 2);
    }
    found_.fragment = header;
    advance(header->next_header, end);
    return {};
  }

  void advance(std::uint8_t next_header, std::size_t end) {
    found_.protocol_field = static_cast<std::uint32_t>(Ipv6Header::size + found_.offset);
    found_.protocol = next_header;
    found_.offset = end;
    hop_by_hop_allowed_ = false;
  }

  ConstBytes payload_;
  std::size_t payload_size_;
  bool hop_by_hop_allowed_;
  Ipv6Extensions found_;
};

}  // namespace

std::expected<Ipv6View, Ipv6Malformed> Ipv6View::check_quoted(ConstBytes bytes) {
  if (bytes.size() < header_size) {
    return std::unexpected(Ipv6Malformed::short_header);
  }
  if (static_cast<unsigned>(bytes[0]) >> 4 != 6) {
    return std::unexpected(Ipv6Malformed::bad_version);
  }
  return Ipv6View(bytes.data());
}

std::expected<Ipv6View, Ipv6Malformed> Ipv6View::check(ConstBytes bytes, std::size_t packet_size) {
  const auto view = check_quoted(bytes);
  if (view && header_size + view->payload_length() > packet_size) {
    return std::unexpected(Ipv6Malformed::bad_payload_length);
  }
  return view;
}

Ipv6Header Ipv6Header::of(const Ipv6View& view) {
  return {view.traffic_class(), view.flow_label(), view.payload_length(), view.next_header(),
          view.hop_limit(),     view.source(),     view.destination()};
}

std::expected<Ipv6Header, Ipv6Malformed> Ipv6Header::parse(ConstBytes packet) {
  const auto view = Ipv6View::check(packet);
  if (!view) {
    return std::unexpected(view.error());
  }
  return of(*view);
}

void Ipv6Header::emit(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= size && flow_label < (1U << 20));
  std::byte* at = out.data();
  store_big_endian(at, (6U << 28) | (static_cast<std::uint32_t>(traffic_class) << 20) | flow_label);
  store_big_endian(at + Ipv6View::payload_length_offset, payload_length);
  at[Ipv6View::next_header_offset] = std::byte{next_header};
  at[Ipv6View::hop_limit_offset] = std::byte{hop_limit};
  source.store(at + Ipv6View::source_offset);
  destination.store(at + Ipv6View::destination_offset);
}

std::optional<Ipv6FragmentHeader> Ipv6FragmentHeader::parse(ConstBytes bytes) {
  if (bytes.size() < size) {
    return std::nullopt;
  }
  const auto offset_and_flags = load_big_endian<std::uint16_t>(bytes.data() + 2);
  return Ipv6FragmentHeader{static_cast<std::uint8_t>(bytes[0]), static_cast<std::uint16_t>(offset_and_flags & 0xfff8U),
                            (offset_and_flags & 1U) != 0, load_big_endian<std::uint32_t>(bytes.data() + 4)};
}

void Ipv6FragmentHeader::emit(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= size && offset % 8 == 0);
  out[0] = std::byte{next_header};
  out[1] = std::byte{0};
  store_big_endian(out.data() + 2, static_cast<std::uint16_t>(offset | (more_fragments ? 1U : 0U)));
  store_big_endian(out.data() + 4, identification);
}

std::expected<Ipv6Extensions, Ipv6ExtensionError> walk_extensions(std::uint8_t next_header, ConstBytes payload,
                                                                  std::size_t payload_size, bool reassembled) {
  SLUICE_REQUIRE(payload_size >= payload.size());
  Walk walk(next_header, payload, payload_size, reassembled);
  for (int headers = 0; headers < extension_headers_max; ++headers) {
    if (walk.done()) {
      return walk.found();
    }
    if (const auto stepped = walk.step(); !stepped) {
      return std::unexpected(stepped.error());
    }
  }
  if (walk.done()) {
    return walk.found();
  }
  return problem_at(Ipv6ExtensionProblem::too_many, walk.found().offset);
}

}  // namespace sluice::wire
