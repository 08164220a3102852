// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/protection.h"

#include <algorithm>
#include <utility>

#include "apps/ftx/protocol/cursor.h"
#include "base/contract.h"

namespace sluice::ftx {
namespace {

constexpr std::size_t number_bytes = 8;

bool is_odd(std::uint8_t flags) { return (flags & flag_key_phase) != 0; }

std::uint64_t sequence_of(ConstBytes data_header) { return Reader(data_header.subspan(envelope_bytes)).number48(); }

std::uint8_t flags_of(ConstBytes datagram) { return load_big_endian<std::uint8_t>(datagram.data() + flags_at); }

}  // namespace

Result<Protection> Protection::create(const KeySchedule& schedule, Cipher cipher, Side side,
                                      std::optional<AeadLimits> limits) {
  const bool initiator = side == Side::initiator;
  auto sealing = schedule.keys(initiator ? Way::to_responder : Way::to_initiator, cipher);
  auto opening = schedule.keys(initiator ? Way::to_initiator : Way::to_responder, cipher);
  const auto connection = schedule.identifier();
  if (!sealing || !opening || !connection) {
    return std::unexpected(!sealing ? sealing.error() : !opening ? opening.error() : connection.error());
  }
  const AeadLimits bounds = limits.value_or(limits_of(cipher));
  auto seal = Aead::create(cipher, sealing->key.bytes(), sealing->iv.bytes(), Direction::seal, bounds);
  auto open = Aead::create(cipher, opening->key.bytes(), opening->iv.bytes(), Direction::open, bounds);
  if (!seal || !open) {
    return std::unexpected(!seal ? seal.error() : open.error());
  }
  return Protection(*std::move(sealing), *std::move(opening), *std::move(seal), *std::move(open), *connection, limits);
}

Protection::Protection(DirectionKeys sealing, DirectionKeys opening, Aead seal, Aead open, std::uint64_t connection,
                       std::optional<AeadLimits> limits)
    : limits_(limits),
      connection_(connection),
      sealing_keys_(std::move(sealing)),
      seal_(std::move(seal)),
      opening_keys_(std::move(opening)),
      open_(std::move(open)) {}

Result<Aead> Protection::aead_of(const DirectionKeys& keys, Direction direction) const {
  return Aead::create(keys.cipher, keys.key.bytes(), keys.iv.bytes(), direction,
                      limits_.value_or(limits_of(keys.cipher)));
}

// --- Sealing -------------------------------------------------------------------------------------------------------

std::uint8_t Protection::flags() {
  if (seal_.needs_new_key()) {
    auto keys = sealing_keys_.next();
    auto aead = keys ? aead_of(*keys, Direction::seal) : std::unexpected(keys.error());
    // Without the next key, this one goes on until its limit.
    if (aead) {
      sealing_keys_ = *std::move(keys);
      seal_ = *std::move(aead);
    }
  }
  return static_cast<std::uint8_t>(flag_sealed | (sealing_keys_.generation % 2 == 1 ? flag_key_phase : 0));
}

std::size_t Protection::seal_control(Bytes out, std::size_t size) {
  SLUICE_REQUIRE(size >= envelope_bytes && out.size() >= size + overhead_bytes);
  constexpr std::size_t clear = envelope_bytes + number_bytes;
  const std::size_t body = size - envelope_bytes;
  store_big_endian(out.data() + flags_at, flags());
  std::memmove(out.data() + clear, out.data() + envelope_bytes, body);
  const std::uint64_t number = control_number_++;
  store_big_endian(out.data() + envelope_bytes, number);
  const bool sealed = seal_.seal({control_space, number, out.first(clear)}, out.subspan(clear, body),
                                 out.subspan(clear, body + tag_bytes));
  return sealed ? size + overhead_bytes : 0;
}

bool Protection::seal_payload(ConstBytes header, ConstBytes payload, Bytes sealed) {
  return seal_.seal({data_space, sequence_of(header), header}, payload, sealed);
}

// --- Opening -------------------------------------------------------------------------------------------------------

ConstBytes Protection::open_control(ConstBytes datagram) {
  constexpr std::size_t clear = envelope_bytes + number_bytes;
  if (datagram.size() < envelope_bytes + overhead_bytes) {
    ++forged_;
    return {};
  }
  const auto number = load_big_endian<std::uint64_t>(datagram.data() + envelope_bytes);
  const ConstBytes sealed = datagram.subspan(clear);
  const std::size_t body = sealed.size() - tag_bytes;
  opened_.resize(envelope_bytes + body);
  const Bytes plain = Bytes(opened_).subspan(envelope_bytes);
  if (!control_seen_.fresh(number)) {
    return {};
  }
  if (!open(flags_of(datagram), {control_space, number, datagram.first(clear)}, sealed, plain)) {
    return {};
  }
  control_seen_.mark(number);
  std::memcpy(opened_.data(), datagram.data(), envelope_bytes);
  store_big_endian(opened_.data() + flags_at, std::uint8_t{0});
  return opened_;
}

bool Protection::open_payload(ConstBytes datagram, Bytes payload) {
  const ConstBytes header = datagram.first(data_header_bytes);
  return open(flags_of(header), {data_space, sequence_of(header), header}, datagram.subspan(data_header_bytes),
              payload);
}

/// What is not of the current key may have to be tried with two.
bool Protection::opens_in_parts(ConstBytes header) const {
  return is_odd(flags_of(header)) == (opening_keys_.generation % 2 == 1);
}

void Protection::begin_payload(ConstBytes header) { open_.begin_open({data_space, sequence_of(header), header}); }

bool Protection::end_payload(ConstBytes header, ConstBytes tag) {
  const bool opened = open_.end_open(tag);
  if (opened) {
    first_of_key_[data_space] = std::min(first_of_key_[data_space], sequence_of(header));
  }
  forged_ += opened ? 0 : 1;
  return opened;
}

bool Protection::open(std::uint8_t flags, const AeadName& as, ConstBytes sealed, Bytes plain) {
  bool opened = false;
  if (is_odd(flags) == (opening_keys_.generation % 2 == 1)) {
    opened = open_.open(as, sealed, plain);
    if (opened) {
      first_of_key_[as.space] = std::min(first_of_key_[as.space], as.number);
    }
  } else {
    opened = open_with_before(as, sealed, plain) || open_with_next(as, sealed, plain);
  }
  forged_ += opened ? 0 : 1;
  return opened;
}

/// RFC 9001 section 6.5: "A recovered packet number that is lower than any packet number from the current key phase
/// uses the previous packet protection keys; a recovered packet number that is higher than any packet number from the
/// current key phase requires the use of the next packet protection keys."
bool Protection::open_with_before(const AeadName& as, ConstBytes sealed, Bytes plain) {
  return open_before_ && as.number < first_of_key_[as.space] && open_before_->open(as, sealed, plain);
}

/// The next key counts only once it has opened something: whoever forges the phase bit moves nothing.
bool Protection::open_with_next(const AeadName& as, ConstBytes sealed, Bytes plain) {
  if (!open_next_) {
    auto keys = opening_keys_.next();
    auto aead = keys ? aead_of(*keys, Direction::open) : std::unexpected(keys.error());
    if (!aead) {
      return false;
    }
    next_keys_ = *std::move(keys);
    open_next_ = *std::move(aead);
  }
  if (!open_next_->open(as, sealed, plain)) {
    return false;
  }
  opening_keys_ = *std::exchange(next_keys_, std::nullopt);
  open_before_ = std::exchange(open_, *std::exchange(open_next_, std::nullopt));
  open_.inherit_forged(open_before_->forged());
  first_of_key_ = {UINT64_MAX, UINT64_MAX};
  first_of_key_[as.space] = as.number;
  return true;
}

}  // namespace sluice::ftx
