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
constexpr std::size_t sent_at = 24;
constexpr std::size_t behind_at = 36;
constexpr std::size_t offset_at = 40;
constexpr std::size_t file_at = 48;

bool same(const std::byte* one, const std::byte* other, std::size_t from, std::size_t end) {
  return std::memcmp(one + from, other + from, end - from) == 0;
}

/// The header `next` is that of the datagram `count` behind the one with the header `first`, which has this `length`.
bool follows(const std::byte* first, const std::byte* next, std::uint64_t count, std::uint64_t length) {
  const auto number = [](const std::byte* header, std::size_t at) {
    return load_big_endian<std::uint64_t>(header + at);
  };
  const auto behind = [](const std::byte* header) -> std::uint64_t {
    return load_big_endian<std::uint32_t>(header + behind_at);
  };
  return same(first, next, 0, sequence_at) && number(next, sequence_at) == number(first, sequence_at) + count &&
         same(first, next, sent_at, behind_at) && behind(next) == behind(first) + count &&
         number(next, offset_at) == number(first, offset_at) + count * length &&
         same(first, next, file_at, data_header_bytes);
}

bool is_whole_adu(ConstBytes datagram) {
  const auto envelope = parse_envelope(datagram);
  const auto data =
      envelope && envelope->kind == Kind::data ? parse_data(datagram, datagram.size()) : std::optional<Data>();
  return data && !data->compressed;
}

}  // namespace

/// The fields that differ within a run only grow, so what parse_data() accepts of the first and of the last it accepts
/// of those between them.
std::size_t data_run(std::span<const Bytes> datagrams) {
  SLUICE_REQUIRE(!datagrams.empty());
  const Bytes first = datagrams.front();
  if (datagrams.size() == 1 || !is_whole_adu(first)) {
    return 1;
  }
  const std::uint64_t length = load_big_endian<std::uint32_t>(first.data() + file_at + sizeof(AduName::file));
  const std::size_t count_max = std::min(datagrams.size(), data_run_max);
  std::size_t count = 1;
  while (count < count_max && datagrams[count].size() == first.size() &&
         follows(first.data(), datagrams[count].data(), count, length)) {
    ++count;
  }
  return count > 1 && is_whole_adu(datagrams[count - 1]) ? count : 1;
}

}  // namespace sluice::ftx
