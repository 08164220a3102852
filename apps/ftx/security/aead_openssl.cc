// SPDX-License-Identifier: Apache-2.0
// OpenSSL as AeadEngine.
#include <openssl/evp.h>

#include <cstring>

#include "apps/ftx/security/aead_engine.h"

namespace sluice::ftx {
namespace {

struct FreeCipher {
  void operator()(EVP_CIPHER* cipher) const { EVP_CIPHER_free(cipher); }
};
struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }  // wipes the key
};
using Context = std::unique_ptr<EVP_CIPHER_CTX, FreeContext>;

unsigned char* chars(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* chars(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }

/// Keyed once; a datagram costs a new IV and the bytes.
class OpensslEngine final : public AeadEngine {
 public:
  explicit OpensslEngine(Context context) : context_(std::move(context)) {}

  bool seal(const Nonce& nonce, ConstBytes associated, std::span<const ConstBytes> plain, Bytes sealed) override {
    int size = 0;
    bool good = EVP_EncryptInit_ex(context_.get(), nullptr, nullptr, nullptr, nonce.data()) == 1;
    if (!associated.empty()) {
      good = good && EVP_EncryptUpdate(context_.get(), nullptr, &size, chars(associated.data()),
                                       static_cast<int>(associated.size())) == 1;
    }
    std::byte* to = sealed.data();
    for (const ConstBytes run : plain) {
      if (!run.empty()) {
        good = good && EVP_EncryptUpdate(context_.get(), chars(to), &size, chars(run.data()),
                                         static_cast<int>(run.size())) == 1;
        to += run.size();
      }
    }
    return good && EVP_EncryptFinal_ex(context_.get(), chars(to), &size) == 1 &&
           EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, static_cast<int>(aead_tag_bytes), to) == 1;
  }

  bool open(const Nonce& nonce, ConstBytes associated, ConstBytes sealed, Bytes plain) override {
    std::array<std::byte, aead_tag_bytes> tag;  // in place, opening may not be the last to read it
    std::memcpy(tag.data(), sealed.data() + plain.size(), tag.size());
    return begin_open(nonce, associated) && open_part(sealed.first(plain.size()), plain) && end_open(tag);
  }

  bool begin_open(const Nonce& nonce, ConstBytes associated) override {
    int size = 0;
    const bool good = EVP_DecryptInit_ex(context_.get(), nullptr, nullptr, nullptr, nonce.data()) == 1;
    return good && (associated.empty() || EVP_DecryptUpdate(context_.get(), nullptr, &size, chars(associated.data()),
                                                            static_cast<int>(associated.size())) == 1);
  }

  bool open_part(ConstBytes sealed, Bytes plain) override {
    int size = 0;
    return plain.empty() || EVP_DecryptUpdate(context_.get(), chars(plain.data()), &size, chars(sealed.data()),
                                              static_cast<int>(plain.size())) == 1;
  }

  bool end_open(ConstBytes tag) override {
    std::array<std::byte, aead_tag_bytes> own;  // the call takes no const pointer
    std::memcpy(own.data(), tag.data(), own.size());
    int size = 0;
    unsigned char none = 0;  // final makes no byte
    return EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, static_cast<int>(own.size()), own.data()) == 1 &&
           EVP_DecryptFinal_ex(context_.get(), &none, &size) == 1;
  }

 private:
  Context context_;
};

}  // namespace

std::unique_ptr<AeadEngine> openssl_engine(Cipher cipher, ConstBytes key, Direction direction) {
  const char* const algorithm = cipher == Cipher::aes_128_gcm ? "AES-128-GCM" : "ChaCha20-Poly1305";
  const std::unique_ptr<EVP_CIPHER, FreeCipher> fetched(EVP_CIPHER_fetch(nullptr, algorithm, nullptr));
  Context context(EVP_CIPHER_CTX_new());
  const int encrypt = direction == Direction::seal ? 1 : 0;
  if (context == nullptr || fetched == nullptr ||
      EVP_CipherInit_ex2(context.get(), fetched.get(), chars(key.data()), nullptr, encrypt, nullptr) != 1) {
    return nullptr;
  }
  return std::make_unique<OpensslEngine>(std::move(context));
}

}  // namespace sluice::ftx
