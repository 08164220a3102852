// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/security/aead.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <vector>

#include "base/contract.h"

namespace sluice::ftx {
namespace {

struct FreeCipher {
  void operator()(EVP_CIPHER* cipher) const { EVP_CIPHER_free(cipher); }
};

unsigned char* chars(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* chars(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }

bool fits_int(std::size_t size) { return size <= static_cast<std::size_t>(std::numeric_limits<int>::max()); }

}  // namespace

void Aead::FreeContext::operator()(evp_cipher_ctx_st* context) const { EVP_CIPHER_CTX_free(context); }  // wipes the key

Aead::Aead(Cipher cipher, Direction direction, AeadLimits limits, ConstBytes iv)
    : context_(EVP_CIPHER_CTX_new()), cipher_(cipher), direction_(direction), limits_(limits) {
  std::copy(iv.begin(), iv.end(), iv_.begin());
}

Aead::~Aead() { OPENSSL_cleanse(iv_.data(), iv_.size()); }

Result<Aead> Aead::create(Cipher cipher, ConstBytes key, ConstBytes iv, Direction direction, AeadLimits limits) {
  SLUICE_REQUIRE(key.size() == key_bytes(cipher) && iv.size() == aead_iv_bytes);
  const char* const algorithm = cipher == Cipher::aes_128_gcm ? "AES-128-GCM" : "ChaCha20-Poly1305";
  const std::unique_ptr<EVP_CIPHER, FreeCipher> fetched(EVP_CIPHER_fetch(nullptr, algorithm, nullptr));
  Aead aead(cipher, direction, limits, iv);
  if (aead.context_ == nullptr || fetched == nullptr ||
      EVP_CipherInit_ex2(aead.context_.get(), fetched.get(), chars(key.data()), chars(iv.data()),
                         direction == Direction::seal ? 1 : 0, nullptr) != 1) {
    return fail(ENOTSUP, "OpenSSL offers no " + std::string(name(cipher)));
  }
  return aead;
}

Aead::Nonce Aead::nonce(std::uint32_t space, std::uint64_t number) const {
  std::array<std::byte, aead_iv_bytes> padded;
  store_big_endian(padded.data(), space);
  store_big_endian(padded.data() + sizeof space, number);
  Nonce nonce;
  for (std::size_t i = 0; i < nonce.size(); ++i) {
    nonce[i] = std::to_integer<unsigned char>(padded[i] ^ iv_[i]);
  }
  return nonce;
}

bool Aead::seal(std::uint32_t space, std::uint64_t number, ConstBytes associated, std::span<const ConstBytes> plain,
                Bytes sealed) {
  SLUICE_REQUIRE(direction_ == Direction::seal && sealed.size() >= aead_tag_bytes && fits_int(sealed.size()) &&
                 fits_int(associated.size()));
  if (exhausted()) {
    return false;
  }
  ++sealed_;  // whatever comes of it, the nonce is used
  EVP_CIPHER_CTX* const context = context_.get();
  const Nonce iv = nonce(space, number);
  int size = 0;
  bool good = EVP_EncryptInit_ex(context, nullptr, nullptr, nullptr, iv.data()) == 1;
  if (!associated.empty()) {
    good = good && EVP_EncryptUpdate(context, nullptr, &size, chars(associated.data()),
                                     static_cast<int>(associated.size())) == 1;
  }
  std::byte* to = sealed.data();
  std::size_t room = sealed.size() - aead_tag_bytes;
  for (const ConstBytes run : plain) {
    SLUICE_REQUIRE(run.size() <= room);
    if (!run.empty()) {
      good = good && EVP_EncryptUpdate(context, chars(to), &size, chars(run.data()), static_cast<int>(run.size())) == 1;
      to += run.size();
      room -= run.size();
    }
  }
  SLUICE_REQUIRE(room == 0);
  return good && EVP_EncryptFinal_ex(context, chars(to), &size) == 1 &&
         EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, static_cast<int>(aead_tag_bytes), to) == 1;
}

bool Aead::open(std::uint32_t space, std::uint64_t number, ConstBytes associated, ConstBytes sealed, Bytes plain) {
  SLUICE_REQUIRE(direction_ == Direction::open && fits_int(sealed.size()) && fits_int(associated.size()));
  if (exhausted()) {
    return false;
  }
  if (sealed.size() < aead_tag_bytes) {
    ++forged_;
    return false;
  }
  SLUICE_REQUIRE(plain.size() + aead_tag_bytes == sealed.size());
  EVP_CIPHER_CTX* const context = context_.get();
  const Nonce iv = nonce(space, number);
  std::array<unsigned char, aead_tag_bytes> tag;
  std::memcpy(tag.data(), sealed.data() + plain.size(), tag.size());
  int size = 0;
  bool good = EVP_DecryptInit_ex(context, nullptr, nullptr, nullptr, iv.data()) == 1;
  if (!associated.empty()) {
    good = good && EVP_DecryptUpdate(context, nullptr, &size, chars(associated.data()),
                                     static_cast<int>(associated.size())) == 1;
  }
  if (!plain.empty()) {
    good = good && EVP_DecryptUpdate(context, chars(plain.data()), &size, chars(sealed.data()),
                                     static_cast<int>(plain.size())) == 1;
  }
  unsigned char none = 0;  // final makes no byte
  good = good && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, static_cast<int>(tag.size()), tag.data()) == 1 &&
         EVP_DecryptFinal_ex(context, &none, &size) == 1;
  forged_ += good ? 0 : 1;
  return good;
}

Cipher choose_cipher(const std::function<TimePoint()>& clock) {
  constexpr std::size_t datagram_bytes = 1408;
  constexpr int datagrams_per_turn = 12;  // about 16 KiB
  constexpr int turns = 16;
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
  for (int turn = 0; turn < turns; ++turn) {
    for (std::size_t i = 0; i < aeads.size(); ++i) {
      const TimePoint before = clock();
      for (int n = 0; n < datagrams_per_turn; ++n) {
        static_cast<void>(aeads[i].seal(0, number++, {}, ConstBytes(datagram).first(datagram_bytes), datagram));
      }
      least[i] = std::min(least[i], Duration(clock() - before));
    }
    if (clock() - begin >= long_enough) {
      break;
    }
  }
  return least[1] < least[0] ? ciphers[1] : ciphers[0];
}

}  // namespace sluice::ftx
