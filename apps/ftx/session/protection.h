// SPDX-License-Identifier: Apache-2.0
#pragma once

// Protection: seals what one session sends and opens what it receives. Both ends have the session's secret from
// somewhere else (ssh's pipe, a TLS handshake); nothing on the wire negotiates whether a session is sealed.
//
//   DATA      header (32 bytes, in the clear)  | sealed payload | tag         space 0, number: the sequence
//   others    envelope (11, in the clear) number:u64 | sealed body | tag      space 1, number: counts this side's
//
// What is in the clear is bound by the tag (associated data). The header of DATA is in the clear so that a receiver
// knows the payload's place before it opens it, and opens it there. It shows an observer file numbers and offsets; the
// list of names and the digests are payload.
//
// A sequence or number is never used twice with a key, since each direction has a key of its own, DATA has a sequence
// of its own each time, and the counter only grows.
//
// Key update: a direction changes to its next generation when half of what a key may seal is sealed, and says so by the
// key phase bit. The other end opens with the next key what has the other phase; from the first datagram that this
// opens on, the old key counts only for lower sequences.
//
// Threats: datagrams forged, changed, truncated, reflected, of another session or replayed. They fail to open, or
// fresh() tells a control datagram that has been; a repeated sequence is the session's to notice (ReceiveTracker).
// Nothing changes here for a datagram that does not open, but for the count of forgeries.
//
// Not thread-safe.

#include <optional>
#include <vector>

#include "apps/ftx/protocol/message.h"
#include "apps/ftx/security/aead.h"
#include "apps/ftx/security/key_schedule.h"
#include "apps/ftx/security/replay_window.h"

namespace sluice::ftx {

/// Who begins a session: the initiator sends the first datagram.
enum class Side : std::uint8_t { initiator, responder };

class Protection {
 public:
  /// What sealing adds to a control datagram.
  static constexpr std::size_t overhead_bytes = seal_bytes;

  /// Keys of generation 0. `limits`: for tests.
  static Result<Protection> create(const KeySchedule& schedule, Cipher cipher, Side side,
                                   std::optional<AeadLimits> limits = std::nullopt);

  /// The session's connection identifier: both ends have it from the secret.
  [[nodiscard]] std::uint64_t connection() const { return connection_; }

  [[nodiscard]] Cipher cipher() const { return seal_.cipher(); }

  // ---- Sealing ----

  /// Seals the control datagram in the first `size` bytes of `out`. Answers the new size; 0 when this session can seal
  /// no more. REQUIRES: out.size() >= size + overhead_bytes.
  [[nodiscard]] std::size_t seal_control(Bytes out, std::size_t size);
  /// The flags of the envelope of the next DATA. Changes to the next key where that is due.
  [[nodiscard]] std::uint8_t flags();
  /// Seals the payload behind a DATA header, whose envelope has flags(). False when this session can seal no more.
  /// REQUIRES: sealed.size() == payload.size() + tag_bytes; they do not overlap.
  [[nodiscard]] bool seal_payload(ConstBytes header, ConstBytes payload, Bytes sealed);

  // ---- Opening ----

  /// The control datagram as it was before it was sealed, with no flags, in memory that is valid until the next call.
  /// Empty: forged, or has been here before.
  [[nodiscard]] ConstBytes open_control(ConstBytes datagram);
  /// Opens the payload of a DATA datagram; false: forged, and the contents of `payload` mean nothing.
  /// REQUIRES: parse_data() accepts it; data_header_bytes + payload.size() + tag_bytes == datagram.size(); `payload`
  /// begins where that of the datagram begins, or does not overlap it.
  [[nodiscard]] bool open_payload(ConstBytes datagram, Bytes payload);

  /// As open_payload(), in parts, for a payload that is opened while it lands: of a header that opens_in_parts(),
  /// begin_payload(), open_part() of each stretch in order, and end_payload(), without another call in between.
  /// REQUIRES: parse_data() accepts the header; as Aead::open_part().
  [[nodiscard]] bool opens_in_parts(ConstBytes header) const;
  void begin_payload(ConstBytes header);
  void open_part(ConstBytes sealed, Bytes payload) { open_.open_part(sealed, payload); }
  [[nodiscard]] bool end_payload(ConstBytes header, ConstBytes tag);

  /// Datagrams that did not open.
  [[nodiscard]] std::uint64_t forged() const { return forged_; }
  [[nodiscard]] std::uint32_t sealing_generation() const { return sealing_keys_.generation; }
  [[nodiscard]] std::uint32_t opening_generation() const { return opening_keys_.generation; }

 private:
  enum Space : std::uint32_t { data_space = 0, control_space = 1 };

  Protection(DirectionKeys sealing, DirectionKeys opening, Aead seal, Aead open, std::uint64_t connection,
             std::optional<AeadLimits> limits);
  [[nodiscard]] Result<Aead> aead_of(const DirectionKeys& keys, Direction direction) const;
  [[nodiscard]] bool open(std::uint8_t flags, const AeadName& as, ConstBytes sealed, Bytes plain);
  [[nodiscard]] bool open_with_before(const AeadName& as, ConstBytes sealed, Bytes plain);
  [[nodiscard]] bool open_with_next(const AeadName& as, ConstBytes sealed, Bytes plain);

  std::optional<AeadLimits> limits_;
  std::uint64_t connection_;
  DirectionKeys sealing_keys_;
  Aead seal_;
  std::uint64_t control_number_ = 0;

  DirectionKeys opening_keys_;
  Aead open_;
  std::optional<Aead> open_before_;  // of the generation before
  std::optional<Aead> open_next_;    // made when a datagram of the other phase first comes
  std::optional<DirectionKeys> next_keys_;
  std::array<std::uint64_t, 2> first_of_key_{};  // by space: the lowest number that the current key opened
  ReplayWindow control_seen_;
  std::uint64_t forged_ = 0;
  std::vector<std::byte> opened_;
};

}  // namespace sluice::ftx
