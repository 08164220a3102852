// SPDX-License-Identifier: Apache-2.0
#pragma once

// Aead: seals or opens datagrams with one key, in one direction (authenticated encryption with associated data, RFC
// 5116).
//
// Threats: a datagram read, changed or made by somebody on the path; a nonce used twice, which with AES-GCM gives away
// the plaintexts' difference and the authentication key; a key used for so long that its bounds no longer hold.
//
// The nonce is made of the IV, a number space and a number:
//     RFC 9001 section 5.3: "The nonce, N, is formed by combining the packet protection IV with the packet number."
//     RFC 8446 section 5.3: "The 64-bit record sequence number is encoded in network byte order and padded to the left
//     with zeros to iv_length. The padded sequence number is XORed with either the static client_write_iv or
//     server_write_iv"
// Where RFC 8446 pads with zeros, the number space stands (u32), so that each space may count from 0.
//
// Guarantees that a caller must give: it seals each (space, number) at most once with a key, also over Aeads.
//
// The cipher is a library's (aead_engine.h), keyed once; a datagram costs a new IV and the bytes. Not thread-safe.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"

namespace sluice::ftx {

class AeadEngine;

/// The numbers are those of the wire.
enum class Cipher : std::uint8_t { aes_128_gcm = 1, chacha20_poly1305 = 2 };

enum class Direction : std::uint8_t { seal, open };

/// Whose code does it; what comes out is the same.
enum class AeadLibrary : std::uint8_t { fastest, openssl };

inline constexpr std::size_t aead_tag_bytes = 16;
inline constexpr std::size_t aead_iv_bytes = 12;

[[nodiscard]] constexpr bool is_cipher(std::uint8_t number) { return number == 1 || number == 2; }
[[nodiscard]] constexpr std::size_t key_bytes(Cipher cipher) { return cipher == Cipher::aes_128_gcm ? 16 : 32; }
[[nodiscard]] constexpr std::string_view name(Cipher cipher) {
  return cipher == Cipher::aes_128_gcm ? "aes-128-gcm" : "chacha20-poly1305";
}

/// RFC 9001 section 6.6: "If the total number of encrypted packets with the same key exceeds the confidentiality limit
/// for the selected AEAD, the endpoint MUST stop using those keys."
struct AeadLimits {
  std::uint64_t sealed_max;
  std::uint64_t forged_max;
};

/// RFC 9001 section 6.6: "For AEAD_AES_128_GCM and AEAD_AES_256_GCM, the confidentiality limit is 2^23 encrypted
/// packets; see Appendix B.1. For AEAD_CHACHA20_POLY1305, the confidentiality limit is greater than the number of
/// possible packets (2^62) and so can be disregarded." and "For AEAD_AES_128_GCM and AEAD_AES_256_GCM, the integrity
/// limit is 2^52 invalid packets; see Appendix B.1. For AEAD_CHACHA20_POLY1305, the integrity limit is 2^36 invalid
/// packets; see [AEBounds]." The limits hold for packets of up to 2^16 bytes; a UDP datagram is no longer.
[[nodiscard]] constexpr AeadLimits limits_of(Cipher cipher) {
  return cipher == Cipher::aes_128_gcm ? AeadLimits{std::uint64_t{1} << 23, std::uint64_t{1} << 52}
                                       : AeadLimits{std::uint64_t{1} << 62, std::uint64_t{1} << 36};
}

/// What one call seals or opens: the datagram `number` of `space`, which make the nonce, and what is bound to it but
/// not sent. One reference instead of four words, so that what a call gets fits the registers: a span that is passed on
/// by way of the stack is loaded as a whole right behind the stores of its halves, and has to wait for them. At four
/// calls for a datagram that was a fiftieth of a receiver's time.
struct AeadName {
  std::uint32_t space = 0;
  std::uint64_t number = 0;
  ConstBytes associated{};
};

class Aead {
 public:
  /// REQUIRES: key.size() == key_bytes(cipher), iv.size() == aead_iv_bytes. Fails with ENOTSUP where OpenSSL lacks the
  /// cipher. Both are copied. `limits` and `library` are for tests.
  static Result<Aead> create(Cipher cipher, ConstBytes key, ConstBytes iv, Direction direction, AeadLimits limits,
                             AeadLibrary library = AeadLibrary::fastest);
  static Result<Aead> create(Cipher cipher, ConstBytes key, ConstBytes iv, Direction direction) {
    return create(cipher, key, iv, direction, limits_of(cipher));
  }

  Aead(Aead&&) noexcept;
  Aead& operator=(Aead&&) noexcept;
  ~Aead();

  [[nodiscard]] Cipher cipher() const { return cipher_; }

  /// Ciphertext and tag of `plain` to `sealed`; in place where plain.data() == sealed.data(). False, and nothing
  /// sealed, when exhausted() or when the library fails. REQUIRES: made to seal, sealed.size() == plain.size() +
  /// aead_tag_bytes.
  [[nodiscard]] bool seal(const AeadName& as, ConstBytes plain, Bytes sealed) {
    return seal(as, std::span(&plain, 1), sealed);
  }
  /// The same of several runs, one after the other: a header here and a file's bytes there cost no copy.
  /// REQUIRES: no run lies in `sealed` but a first one at its beginning.
  [[nodiscard]] bool seal(const AeadName& as, std::span<const ConstBytes> plain, Bytes sealed);

  /// The plaintext of `sealed` to `plain`; in place where both begin at the same byte. False when the tag does not
  /// hold, or `sealed` is shorter than a tag: `plain` then holds meaningless bytes, which nobody may look at. A byte
  /// counts only after true has come back. REQUIRES: made to open; plain.size() + aead_tag_bytes == sealed.size()
  /// unless `sealed` is shorter than a tag.
  [[nodiscard]] bool open(const AeadName& as, ConstBytes sealed, Bytes plain);

  /// As open(), in parts, for bytes that are opened while they move: begin_open(), then open_part() of each stretch in
  /// order, then end_open(), whose answer is that of open(). No other call in between; what was begun and not ended is
  /// forgotten. REQUIRES: made to open; sealed.size() == plain.size(), in place where both begin at the same byte;
  /// tag.size() == aead_tag_bytes.
  void begin_open(const AeadName& as);
  void open_part(ConstBytes sealed, Bytes plain);
  [[nodiscard]] bool end_open(ConstBytes tag);

  [[nodiscard]] std::uint64_t sealed() const { return sealed_; }
  [[nodiscard]] std::uint64_t forged() const { return forged_; }
  /// The limit of forgeries is one of the connection, not of a key:
  /// RFC 9001 section 6.6: "In addition to counting packets sent, endpoints MUST count the number of received packets
  /// that fail authentication during the lifetime of a connection." So the Aead of the next key begins with what failed
  /// before.
  void inherit_forged(std::uint64_t forged) { forged_ += forged; }

  /// Half of what one key may seal is sealed: time for the next key. (RFC 9001 section 6.6: "Endpoints MUST initiate a
  /// key update before sending more protected packets than the confidentiality limit for the selected AEAD permits.")
  [[nodiscard]] bool needs_new_key() const { return sealed_ >= limits_.sealed_max / 2; }
  /// A limit is reached: seal() and open() refuse from now on. When it is that of forgeries, the session must end:
  /// RFC 9001 section 6.6: "the endpoint MUST immediately close the connection with a connection error of type
  /// AEAD_LIMIT_REACHED and not process any more packets."
  [[nodiscard]] bool exhausted() const { return sealed_ >= limits_.sealed_max || forged_ >= limits_.forged_max; }

 private:
  Aead(std::unique_ptr<AeadEngine> engine, Cipher cipher, Direction direction, AeadLimits limits, ConstBytes iv);
  [[nodiscard]] std::array<unsigned char, aead_iv_bytes> nonce(const AeadName& as) const;

  std::unique_ptr<AeadEngine> engine_;
  std::array<std::byte, aead_iv_bytes> iv_{};
  Cipher cipher_;
  Direction direction_;
  AeadLimits limits_;
  std::uint64_t sealed_ = 0;
  std::uint64_t forged_ = 0;
  bool opening_ = false;  // what was begun is good so far
};

/// The cipher that seals faster here: AES where the processor has instructions for it, else ChaCha20. Seals a few
/// hundred KB with each, in turns, until about 2 ms have passed by `clock` and at least four turns (or the bytes are
/// sealed: a clock that stands still ends it, too), and compares their best ones. AES-128-GCM unless ChaCha20 takes
/// less than three quarters of its time: a wrong choice of it costs more than it could save.
[[nodiscard]] Cipher choose_cipher(const std::function<TimePoint()>& clock);

}  // namespace sluice::ftx
