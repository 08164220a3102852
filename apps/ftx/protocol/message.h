// SPDX-License-Identifier: Apache-2.0
#pragma once

// The datagrams of the ftx protocol, version 3: values, and their parse and emit functions. docs/formats/ftx.md has
// the grammar. A parse function checks everything that it can check without knowing the transfer. No sum of two fields
// of a parsed value overflows. No parse function allocates but those of CHANGES and SIGN.
//
// Thread safety: the functions have no state.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "apps/ftx/protocol/byte_range.h"
#include "apps/ftx/protocol/change.h"
#include "apps/ftx/protocol/digest.h"
#include "apps/ftx/protocol/signature.h"
#include "apps/ftx/protocol/update.h"
#include "base/bytes.h"

namespace sluice::ftx {

inline constexpr std::uint8_t protocol_version = 3;

/// The size of the largest control message, which every endpoint must carry. HELLO is padded to exactly this size, so
/// no answer to an unvalidated address is larger than the datagram it answers.
inline constexpr std::size_t control_bytes_max = 1200;

inline constexpr std::size_t envelope_bytes = 11;
inline constexpr std::size_t flags_at = 2;  // within it
inline constexpr std::size_t data_header_bytes = 32;
inline constexpr std::size_t probe_bytes = 21;
inline constexpr std::size_t tag_bytes = 16;   // behind what is sealed
inline constexpr std::size_t seal_bytes = 24;  // what sealing adds to a control datagram: a number, a tag
inline constexpr std::size_t cookie_bytes = 24;
inline constexpr std::size_t error_text_bytes_max = 512;
inline constexpr std::size_t path_bytes_max = 1024;
inline constexpr std::size_t control_header_bytes = 44;  // of CONTROL, with its envelope
inline constexpr std::uint32_t control_offset_max = 1U << 20;

/// Payload bytes of a full ADU: a multiple of 16, so that a digest never straddles two ADUs. Those of an OFFER may be
/// as few as adu_bytes_unit.
inline constexpr std::uint32_t adu_bytes_min = 256;
inline constexpr std::uint32_t adu_bytes_max = 1U << 21;
inline constexpr std::uint32_t adu_bytes_unit = 16;

/// The most bytes of a file that a compressed ADU stands for.
inline constexpr std::uint32_t compressed_adu_bytes_max = 1U << 16;

/// File numbers that name the transfer's own lists, or the files that travel together, rather than one file
/// (docs/formats/ftx.md, "Streams").
inline constexpr std::uint32_t manifest_file = 0xff'ffff;
inline constexpr std::uint32_t digest_file = 0xff'fffe;
inline constexpr std::uint32_t no_file = 0xff'fffd;
inline constexpr std::uint32_t pack_file = 0xff'fffc;
inline constexpr std::uint32_t signature_file = 0xff'fffb;
/// Streams that are no content of files.
[[nodiscard]] constexpr bool is_list(std::uint32_t file) {
  return file == manifest_file || file == digest_file || file == signature_file;
}
inline constexpr std::uint32_t files_max = 1U << 23;  // so that a manifest's size fits 32 bits, and a number 24

/// Sizes stay below 2^62, so that their sums cannot overflow.
inline constexpr std::uint64_t file_bytes_max = std::uint64_t{1} << 62;
/// What travels of a file, its content, is less than this: DATA counts offsets in units of 16 bytes, in 48 bits.
inline constexpr std::uint64_t file_content_max = std::uint64_t{adu_bytes_unit} << 48;
/// Sequences are less than this.
inline constexpr std::uint64_t sequence_max = std::uint64_t{1} << 48;
/// How far Stamp::behind reaches.
inline constexpr std::uint64_t behind_max = (std::uint64_t{1} << 24) - 1;
/// Places in the contents: those of the files, and a digest of each.
inline constexpr std::uint64_t place_max = file_bytes_max + std::uint64_t{files_max} * digest_bytes;

/// The largest ADU that a transport of `tsdu_bytes` a datagram carries; 0 when it cannot carry the protocol at all.
[[nodiscard]] constexpr std::uint32_t adu_bytes_for(std::size_t tsdu_bytes, bool sealed = false) {
  if (tsdu_bytes < control_bytes_max) {
    return 0;
  }
  const std::size_t room = tsdu_bytes - data_header_bytes - (sealed ? tag_bytes : 0);
  const std::size_t limited = room < adu_bytes_max ? room : adu_bytes_max;
  return static_cast<std::uint32_t>(limited / adu_bytes_unit * adu_bytes_unit);
}

enum class Kind : std::uint8_t {
  hello = 1,
  cookie,
  offer,
  data,
  probe,
  report,
  error,
  close,
  knock,
  challenge,
  response,
  control,
  have,
  taken,
  changes,
  noted,
  sign
};

/// The name of an application data unit: where its bytes belong, whichever datagram carries them.
struct AduName {
  std::uint32_t file = no_file;
  std::uint32_t length = 0;
  std::uint64_t offset = 0;
  bool operator==(const AduName&) const = default;
};

inline constexpr std::uint8_t flag_repair = 1;      // DATA only
inline constexpr std::uint8_t flag_sealed = 2;      // apps/ftx/session/protection.h
inline constexpr std::uint8_t flag_key_phase = 4;   // sealed only: the generation of the keys is odd
inline constexpr std::uint8_t flag_compressed = 8;  // DATA only

struct Envelope {
  Kind kind{};
  std::uint8_t flags = 0;
  std::uint64_t connection = 0;
  [[nodiscard]] bool sealed() const { return (flags & flag_sealed) != 0; }
};

using Cookie = std::array<std::byte, cookie_bytes>;

struct Hello {
  std::uint64_t nonce = 0;
  std::uint32_t adu_bytes = 0;
};

struct CookieReply {
  std::uint64_t nonce = 0;
  std::uint32_t adu_bytes = 0;
  Cookie cookie{};
};

struct Offer {
  Cookie cookie{};
  std::uint64_t total_bytes = 0;
  std::uint32_t adu_bytes = 0;
  std::uint32_t files = 0;
  std::uint32_t manifest_bytes = 0;
  Digest manifest_digest{};
  Update update{};          // for a receiver that did not begin the transfer itself
  std::string_view path{};  // borrows the datagram
};

/// The fields that DATA and PROBE share. Each datagram has its own sequence number; none is used twice.
struct Stamp {
  std::uint64_t sequence = 0;       // 1 .. sequence_max - 1
  std::uint32_t behind = 0;         // sequence - behind: the oldest sequence that the sender still needs reported
  std::uint64_t round_trip_us = 0;  // 0: the sender does not know it yet; as it arrives: within 1/16
};

struct Data {
  Stamp stamp;
  AduName adu;
  bool repair = false;
  bool compressed = false;  // what travels is a zstd frame of the ADU's bytes
  /// What travels of the ADU, without a tag: its length, or less where it is compressed. emit_data_header() ignores it.
  std::uint32_t payload_bytes = 0;
};

enum class Phase : std::uint8_t { manifest = 0, data = 1, finished = 2 };

/// Sequences [first, first + count).
struct SequenceRange {
  std::uint64_t first = 0;
  std::uint32_t count = 0;
};

/// Covers the sequences from..to: those in `missing` did not arrive, all others did. Says nothing about later ones.
struct Report {
  Phase phase = Phase::manifest;
  std::uint32_t window_adus = 0;   // how many unreported sequences the sender may have
  std::uint64_t credit_bytes = 0;  // payload that may be sent beyond `highest`: what the receiver can hold unread
  std::uint64_t highest = 0;       // the highest sequence that arrived
  std::uint64_t from = 1;
  std::uint64_t to = 0;              // from - 1: the report covers none
  std::uint64_t received_bytes = 0;  // payload bytes, each sequence once
  std::uint64_t out_of_order = 0;
  std::uint64_t held_ns = 0;   // between the arrival of `highest` and this report
  std::uint64_t clock_ns = 0;  // the receiver's clock, for differences only
  std::size_t range_count = 0;
  static constexpr std::size_t ranges_max = 88;
  std::array<SequenceRange, ranges_max> missing{};
};

/// A piece of one direction's bytes of the handshake (apps/ftx/session/control_stream.h).
struct Control {
  Cookie cookie{};  // of the client's; zero in the server's
  std::uint8_t cipher = 0;
  std::uint32_t offset = 0;
  std::uint32_t acknowledged = 0;
  ConstBytes bytes{};  // borrows the datagram; empty: an acknowledgement
};

/// What a receiver has already, and so need not be sent, in places of the contents (apps/ftx/protocol/contents.h).
/// Covers [from, to): what is in `ranges` is there, all else is not.
struct Have {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::size_t range_count = 0;
  static constexpr std::size_t ranges_max = 64;
  std::array<ByteRange, ranges_max> ranges{};  // ascending, disjoint, not empty
};

/// What a receiver will change, counted from the first that it says.
struct Changes {
  std::uint64_t from = 0;
  std::vector<Change> changes{};  // one at least
};
/// Changes that fit one datagram fit so many bytes, sealed or not.
inline constexpr std::size_t changes_bytes_max = control_bytes_max - envelope_bytes - seal_bytes - 8;

/// Files with numbers of their own, of which the receiver wants the signatures: ascending, one at least.
using SignedNumbers = std::vector<std::uint32_t>;

struct ErrorMessage {
  std::uint16_t code = 0;
  std::string_view text;  // borrows the datagram; printable characters only
};

/// Null: too short, another version, an unknown kind, or a reserved bit set.
[[nodiscard]] std::optional<Envelope> parse_envelope(ConstBytes datagram);

// Each parses a whole datagram, whose envelope has this kind. Null: malformed.
[[nodiscard]] std::optional<Hello> parse_hello(ConstBytes datagram);
[[nodiscard]] std::optional<CookieReply> parse_cookie(ConstBytes datagram);
[[nodiscard]] std::optional<Offer> parse_offer(ConstBytes datagram);
[[nodiscard]] std::optional<Stamp> parse_probe(ConstBytes datagram);
[[nodiscard]] std::optional<Report> parse_report(ConstBytes datagram);
[[nodiscard]] std::optional<ErrorMessage> parse_error(ConstBytes datagram);
[[nodiscard]] std::optional<Control> parse_control(ConstBytes datagram);
[[nodiscard]] std::optional<Have> parse_have(ConstBytes datagram);
/// The place up to which the sender has taken what a HAVE said.
[[nodiscard]] std::optional<std::uint64_t> parse_taken(ConstBytes datagram);
[[nodiscard]] std::optional<Changes> parse_changes(ConstBytes datagram);
/// How many changes the sender has noted.
[[nodiscard]] std::optional<std::uint64_t> parse_noted(ConstBytes datagram);
[[nodiscard]] std::optional<SignedNumbers> parse_sign(ConstBytes datagram);
/// Of CHALLENGE and RESPONSE.
[[nodiscard]] std::optional<std::uint64_t> parse_nonce(ConstBytes datagram);

/// `datagram` may end after the header, so a caller can name the payload's place before it reads the payload.
/// `datagram_bytes` is the size of the whole datagram.
[[nodiscard]] std::optional<Data> parse_data(ConstBytes datagram, std::size_t datagram_bytes);

// Each returns the bytes written. REQUIRES: `out` holds control_bytes_max (data: data_header_bytes).
std::size_t emit_hello(const Envelope& envelope, const Hello& hello, Bytes out);
std::size_t emit_cookie(const Envelope& envelope, const CookieReply& reply, Bytes out);
std::size_t emit_offer(const Envelope& envelope, const Offer& offer, Bytes out);
/// REQUIRES: the offset is a multiple of adu_bytes_unit; a compressed ADU has compressed_adu_bytes_max at most.
std::size_t emit_data_header(const Envelope& envelope, const Data& data, Bytes out);
/// With `bytes` padded up to that size, which `out` then holds; else probe_bytes.
std::size_t emit_probe(const Envelope& envelope, const Stamp& stamp, Bytes out, std::size_t bytes = probe_bytes);
std::size_t emit_report(const Envelope& envelope, const Report& report, Bytes out);
std::size_t emit_error(const Envelope& envelope, const ErrorMessage& error, Bytes out);
std::size_t emit_close(const Envelope& envelope, Bytes out);
/// Padded, so that sealed it has control_bytes_max.
std::size_t emit_knock(const Envelope& envelope, Bytes out);
/// REQUIRES: control.bytes.size() <= control_bytes_max - control_header_bytes.
std::size_t emit_control(const Envelope& envelope, const Control& control, Bytes out);
std::size_t emit_have(const Envelope& envelope, const Have& have, Bytes out);
std::size_t emit_taken(const Envelope& envelope, std::uint64_t to, Bytes out);
/// `records` are changes as put() has written them, changes_bytes_max at most.
std::size_t emit_changes(const Envelope& envelope, std::uint64_t from, ConstBytes records, Bytes out);
std::size_t emit_noted(const Envelope& envelope, std::uint64_t to, Bytes out);
/// REQUIRES: as parse_sign() answers.
std::size_t emit_sign(const Envelope& envelope, std::span<const std::uint32_t> numbers, Bytes out);
std::size_t emit_challenge(const Envelope& envelope, std::uint64_t nonce, Bytes out);
std::size_t emit_response(const Envelope& envelope, std::uint64_t nonce, Bytes out);

}  // namespace sluice::ftx
