// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/protocol/data_run.h"

#include <algorithm>
#include <cstring>

#include "apps/ftx/protocol/message.h"
#include "base/contract.h"

namespace sluice::ftx {
namespace {

// Where the fields are (docs/formats/ftx.md).
constexpr std::size_t sequence_at = envelope_bytes;
constexpr std::size_t behind_at = 17;
constexpr std::size_t offset_at = 21;
constexpr std::size_t file_at = 27;

bool same(const std::byte* one, const std::byte* other, std::size_t from, std::size_t end) {
  return std::memcmp(one + from, other + from, end - from) == 0;
}

/// REQUIRES: two more bytes of the header behind the field.
std::uint64_t number48(const std::byte* header, std::size_t at) {
  return load_big_endian<std::uint64_t>(header + at) >> 16;
}

/// `behind`, and in its lowest eight bits the round trip, which is the same in a run.
std::uint64_t behind_and_round_trip(const std::byte* header) {
  return load_big_endian<std::uint32_t>(header + behind_at);
}

/// The header `next` is that of the datagram `count` behind the one with the header `first`; the payload of each is
/// `units` of offsets long.
bool follows(const std::byte* first, const std::byte* next, std::uint64_t count, std::uint64_t units) {
  return same(first, next, 0, sequence_at) && number48(next, sequence_at) == number48(first, sequence_at) + count &&
         behind_and_round_trip(next) == behind_and_round_trip(first) + (count << 8) &&
         number48(next, offset_at) == number48(first, offset_at) + count * units &&
         same(first, next, file_at, data_header_bytes);
}

/// Null: no DATA, or a compressed one.
std::optional<std::uint32_t> whole_adu_bytes(ConstBytes datagram) {
  const auto envelope = parse_envelope(datagram);
  const auto data =
      envelope && envelope->kind == Kind::data ? parse_data(datagram, datagram.size()) : std::optional<Data>();
  return data && !data->compressed ? std::optional(data->adu.length) : std::nullopt;
}

}  // namespace

/// What differs within a run grows, and `behind` as much as the sequence; so of what has the fields of a run,
/// parse_data() accepts all if it accepts the first.
std::size_t data_run(std::span<const Bytes> datagrams) {
  SLUICE_REQUIRE(!datagrams.empty());
  const Bytes first = datagrams.front();
  const std::optional<std::uint32_t> length = datagrams.size() > 1 ? whole_adu_bytes(first) : std::nullopt;
  // An ADU that does not end at a slot is the last of its file.
  if (!length || *length % adu_bytes_unit != 0) {
    return 1;
  }
  const std::size_t count_max = std::min(datagrams.size(), data_run_max);
  std::size_t count = 1;
  while (count < count_max && datagrams[count].size() == first.size() &&
         follows(first.data(), datagrams[count].data(), count, *length / adu_bytes_unit)) {
    ++count;
  }
  return count;
}

}  // namespace sluice::ftx
