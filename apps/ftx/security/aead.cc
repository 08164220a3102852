// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/security/aead.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "apps/ftx/security/aead_engine.h"
#include "base/contract.h"

namespace sluice::ftx {
namespace {

// What a call of OpenSSL takes.
bool fits_int(std::size_t size) { return size <= static_cast<std::size_t>(std::numeric_limits<int>::max()); }

std::unique_ptr<AeadEngine> engine_for(Cipher cipher, ConstBytes key, Direction direction, AeadLibrary library) {
  if (library == AeadLibrary::fastest) {
    if (auto engine = ipsec_mb_engine(cipher, key)) {
      return engine;
    }
  }
  return openssl_engine(cipher, key, direction);
}

}  // namespace

Aead::Aead(std::unique_ptr<AeadEngine> engine, Cipher cipher, Direction direction, AeadLimits limits, ConstBytes iv)
    : engine_(std::move(engine)), cipher_(cipher), direction_(direction), limits_(limits) {
  std::copy(iv.begin(), iv.end(), iv_.begin());
}

Aead::Aead(Aead&&) noexcept = default;
Aead& Aead::operator=(Aead&&) noexcept = default;
Aead::~Aead() { OPENSSL_cleanse(iv_.data(), iv_.size()); }

Result<Aead> Aead::create(Cipher cipher, ConstBytes key, ConstBytes iv, Direction direction, AeadLimits limits,
                          AeadLibrary library) {
  SLUICE_REQUIRE(key.size() == key_bytes(cipher) && iv.size() == aead_iv_bytes);
  auto engine = engine_for(cipher, key, direction, library);
  if (engine == nullptr) {
    return fail(ENOTSUP, "OpenSSL offers no " + std::string(name(cipher)));
  }
  return Aead(std::move(engine), cipher, direction, limits, iv);
}

AeadEngine::Nonce Aead::nonce(const AeadName& as) const {
  // As the engines load it, in eight bytes and four: smaller stores would have to be done before.
  const std::uint64_t front = std::uint64_t{as.space} << 32 | as.number >> 32;
  const auto back = static_cast<std::uint32_t>(as.number);
  AeadEngine::Nonce nonce;
  std::byte* const at = std::as_writable_bytes(std::span(nonce)).data();
  store_big_endian(at, front ^ load_big_endian<std::uint64_t>(iv_.data()));
  store_big_endian(at + sizeof front, back ^ load_big_endian<std::uint32_t>(iv_.data() + sizeof front));
  return nonce;
}

bool Aead::seal(const AeadName& as, std::span<const ConstBytes> plain, Bytes sealed) {
  SLUICE_REQUIRE(direction_ == Direction::seal && sealed.size() >= aead_tag_bytes && fits_int(sealed.size()) &&
                 fits_int(as.associated.size()));
  if (exhausted()) {
    return false;
  }
  std::size_t room = sealed.size() - aead_tag_bytes;
  for (const ConstBytes run : plain) {
    SLUICE_REQUIRE(run.size() <= room);
    room -= run.size();
  }
  SLUICE_REQUIRE(room == 0);
  ++sealed_;  // whatever comes of it, the nonce is used
  return engine_->seal(nonce(as), as.associated, plain, sealed);
}

bool Aead::open(const AeadName& as, ConstBytes sealed, Bytes plain) {
  SLUICE_REQUIRE(direction_ == Direction::open && fits_int(sealed.size()) && fits_int(as.associated.size()));
  if (exhausted()) {
    return false;
  }
  if (sealed.size() < aead_tag_bytes) {
    ++forged_;
    return false;
  }
  SLUICE_REQUIRE(plain.size() + aead_tag_bytes == sealed.size());
  const bool good = engine_->open(nonce(as), as.associated, sealed, plain);
  forged_ += good ? 0 : 1;
  return good;
}

void Aead::begin_open(const AeadName& as) {
  SLUICE_REQUIRE(direction_ == Direction::open && fits_int(as.associated.size()));
  opening_ = !exhausted() && engine_->begin_open(nonce(as), as.associated);
}

void Aead::open_part(ConstBytes sealed, Bytes plain) {
  SLUICE_REQUIRE(sealed.size() == plain.size() && fits_int(sealed.size()));
  opening_ = opening_ && engine_->open_part(sealed, plain);
  if (!opening_) {
    std::ranges::fill(plain, std::byte{0});
  }
}

bool Aead::end_open(ConstBytes tag) {
  SLUICE_REQUIRE(tag.size() == aead_tag_bytes);
  if (exhausted()) {
    return false;
  }
  const bool good = std::exchange(opening_, false) && engine_->end_open(tag);
  forged_ += good ? 0 : 1;
  return good;
}

Cipher choose_cipher(const std::function<TimePoint()>& clock) {
  constexpr std::size_t datagram_bytes = 1408;
  constexpr int datagrams_per_turn = 12;  // about 16 KiB
  constexpr int turns_min = 4;            // the first are cold, and any may be interrupted
  constexpr int turns_max = 16;
  constexpr Duration long_enough = std::chrono::milliseconds(2);
  constexpr std::array ciphers{Cipher::aes_128_gcm, Cipher::chacha20_poly1305};

  const std::array<std::byte, 32> key{};  // seals zeros that nobody gets
  std::vector<std::byte> datagram(datagram_bytes + aead_tag_bytes);
  std::array<Duration, ciphers.size()> least{Duration::max(), Duration::max()};
  const TimePoint begin = clock();
  std::vector<Aead> aeads;
  for (const Cipher cipher : ciphers) {
    auto aead = Aead::create(cipher, ConstBytes(key).first(key_bytes(cipher)), ConstBytes(key).first(aead_iv_bytes),
                             Direction::seal);
    if (!aead) {
      return cipher == ciphers[0] ? ciphers[1] : ciphers[0];
    }
    aeads.push_back(std::move(*aead));
  }
  std::uint64_t number = 0;
  for (int turn = 1; turn <= turns_max; ++turn) {
    for (std::size_t i = 0; i < aeads.size(); ++i) {
      const TimePoint before = clock();
      for (int n = 0; n < datagrams_per_turn; ++n) {
        static_cast<void>(aeads[i].seal({.number = number++}, ConstBytes(datagram).first(datagram_bytes), datagram));
      }
      least[i] = std::min(least[i], Duration(clock() - before));
    }
    if (clock() - begin >= long_enough && turn >= turns_min) {
      break;
    }
  }
  // Where AES has instructions it takes less than half of ChaCha20's time, elsewhere several times as long.
  return least[1] < least[0] / 4 * 3 ? ciphers[1] : ciphers[0];
}

}  // namespace sluice::ftx
