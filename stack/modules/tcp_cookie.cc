// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/tcp_cookie.h"

#include <algorithm>

#include "base/bytes.h"
#include "stack/modules/siphash.h"

namespace sluice::tcp {
namespace {

constexpr unsigned ticks_shift = 27;
constexpr std::uint32_t ticks_mask = 31;
constexpr unsigned index_shift = 24;
constexpr std::uint32_t index_mask = 7;
constexpr std::uint32_t sum_mask = (1U << index_shift) - 1;

constexpr std::uint32_t scale_mask = 15;
constexpr std::uint32_t no_scale = 15;
constexpr std::uint32_t selective_bit = 16;
constexpr std::uint32_t remembered_count = 64;
constexpr unsigned scale_max = 14;  // RFC 7323 section 2.3

/// What callers have: those of small and of common paths, of tunnels, of Ethernet and of its jumbo frames. The nearest
/// one below is remembered.
constexpr std::array<std::uint16_t, 8> segment_bytes{64, 256, 536, 1220, 1360, 1440, 1460, 8940};

/// RFC 9293 section 3.7.1: without an MSS option 536 bytes, or 1220 over IPv6.
unsigned segment_bytes_index_of(const Ends& ends, const wire::TcpOptions& syn) {
  const unsigned offered = syn.segment_bytes_max.value_or(ends.remote.address.is_v4() ? 536 : 1220);
  const auto* const above = std::ranges::upper_bound(segment_bytes, offered);
  return above == segment_bytes.begin() ? 0 : static_cast<unsigned>(above - segment_bytes.begin() - 1);
}

/// The last bits of the timestamp; none without one.
std::uint32_t remembered_of(const wire::TcpOptions& syn) {
  if (!syn.timestamps) {
    return no_scale;
  }
  const std::uint32_t scale = syn.window_scale ? std::min<unsigned>(*syn.window_scale, scale_max) : no_scale;
  return scale | (syn.sack_permitted ? selective_bit : 0);
}

std::uint64_t ticks_at(TimePoint now) { return static_cast<std::uint64_t>(now.time_since_epoch() / Cookies::tick); }

}  // namespace

std::uint32_t Cookies::sum(const Ends& ends, std::uint32_t callers_first, std::uint64_t ticks,
                           unsigned segment_bytes_index, unsigned remembered, unsigned own_scale) const {
  constexpr std::size_t numbers_size = 4 + 8 + 3;
  std::array<std::byte, 2 * wire::TransportAddress::encoded_size_max + numbers_size> bytes{};
  std::size_t size = ends.local.encode(bytes);
  size += ends.remote.encode(Bytes(bytes).subspan(size));
  store_big_endian(bytes.data() + size, callers_first);
  store_big_endian(bytes.data() + size + 4, ticks);
  bytes[size + 12] = static_cast<std::byte>(segment_bytes_index);
  bytes[size + 13] = static_cast<std::byte>(remembered);
  bytes[size + 14] = static_cast<std::byte>(own_scale);
  return static_cast<std::uint32_t>(siphash(secret_[0], secret_[1], ConstBytes(bytes).first(size + numbers_size))) &
         sum_mask;
}

std::uint32_t Cookies::sequence(const Ends& ends, const Segment& syn, unsigned own_scale, TimePoint now) const {
  const std::uint64_t ticks = ticks_at(now);
  const unsigned index = segment_bytes_index_of(ends, syn.options);
  const std::uint32_t proof = sum(ends, syn.header.sequence, ticks, index, remembered_of(syn.options), own_scale);
  return syn.header.sequence + ((static_cast<std::uint32_t>(ticks) & ticks_mask) << ticks_shift) +
         (index << index_shift) + proof;
}

wire::TcpOptions Cookies::answer(const wire::TcpOptions& syn, unsigned own_scale, std::uint32_t timestamp) {
  wire::TcpOptions options;
  if (!syn.timestamps) {
    return options;
  }
  if (syn.window_scale) {
    options.window_scale = static_cast<std::uint8_t>(own_scale);
  }
  options.sack_permitted = syn.sack_permitted;
  // Never ahead of the clock: the connection's stamps go on from here.
  std::uint32_t stamp = (timestamp & ~(remembered_count - 1)) | remembered_of(syn);
  stamp -= static_cast<std::int32_t>(stamp - timestamp) > 0 ? remembered_count : 0;
  options.timestamps = {.value = stamp, .echo = syn.timestamps->value};
  return options;
}

std::optional<Segment> Cookies::syn_of(const Ends& ends, const Segment& acknowledgment, unsigned own_scale,
                                       TimePoint now) const {
  const wire::TcpOptions& options = acknowledgment.options;
  const std::uint32_t callers_first = acknowledgment.header.sequence - 1;
  const std::uint32_t cookie = acknowledgment.header.acknowledgment - 1 - callers_first;
  const std::uint64_t age = (ticks_at(now) - (cookie >> ticks_shift)) & ticks_mask;
  const unsigned index = (cookie >> index_shift) & index_mask;
  const std::uint32_t remembered = options.timestamps ? options.timestamps->echo % remembered_count : no_scale;
  if (age > 1 || (cookie & sum_mask) != sum(ends, callers_first, ticks_at(now) - age, index, remembered, own_scale)) {
    return std::nullopt;
  }
  Segment syn{.header = {.sequence = callers_first, .flags = wire::tcp_syn, .window = acknowledgment.header.window},
              .options = {},
              .data = {}};
  syn.options.segment_bytes_max = segment_bytes[index];
  if (options.timestamps) {
    syn.options.timestamps = {.value = options.timestamps->value, .echo = 0};
    syn.options.sack_permitted = (remembered & selective_bit) != 0;
    if ((remembered & scale_mask) != no_scale) {
      syn.options.window_scale = static_cast<std::uint8_t>(remembered & scale_mask);
    }
  }
  return syn;
}

}  // namespace sluice::tcp
