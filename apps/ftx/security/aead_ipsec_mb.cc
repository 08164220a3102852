// SPDX-License-Identifier: Apache-2.0
// Intel's ipsec-mb as AeadEngine: AES-128-GCM by its direct calls, which keep nothing between messages.
#include "apps/ftx/security/aead_engine.h"

#ifdef SLUICE_IPSEC_MB

#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>

#include <algorithm>

namespace sluice::ftx {
namespace {

struct FreeManager {
  void operator()(IMB_MGR* manager) const { free_mb_mgr(manager); }
};

/// The calls of this processor; null where it has no instructions for what GCM does. The direct calls only read it.
const IMB_MGR* manager() {
  static const std::unique_ptr<IMB_MGR, FreeManager> made = [] {
    std::unique_ptr<IMB_MGR, FreeManager> manager(alloc_mb_mgr(0));
    constexpr std::uint64_t needed = IMB_FEATURE_AESNI | IMB_FEATURE_PCLMULQDQ;
    if (manager != nullptr && (manager->features & needed) == needed) {
      IMB_ARCH architecture = IMB_ARCH_NONE;
      init_mb_mgr_auto(manager.get(), &architecture);
      if (architecture >= IMB_ARCH_SSE && manager->imb_errno == 0) {
        return manager;
      }
    }
    return std::unique_ptr<IMB_MGR, FreeManager>();
  }();
  return made.get();
}

class IpsecMbEngine final : public AeadEngine {
 public:
  explicit IpsecMbEngine(const IMB_MGR& calls, ConstBytes key) : calls_(calls) {
    IMB_AES128_GCM_PRE(&calls_, key.data(), &key_);
  }
  ~IpsecMbEngine() override {
    OPENSSL_cleanse(&key_, sizeof key_);
    OPENSSL_cleanse(&context_, sizeof context_);
  }

  bool seal(const Nonce& nonce, ConstBytes associated, std::span<const ConstBytes> plain, Bytes sealed) override {
    std::byte* to = sealed.data();
    std::byte* const tag = sealed.data() + (sealed.size() - aead_tag_bytes);
    if (plain.size() == 1) {
      IMB_AES128_GCM_ENC(&calls_, &key_, &context_, bytes(to), bytes(plain[0].data()), plain[0].size(), nonce.data(),
                         bytes(associated.data()), associated.size(), bytes(tag), aead_tag_bytes);
      return true;
    }
    IMB_AES128_GCM_INIT(&calls_, &key_, &context_, nonce.data(), bytes(associated.data()), associated.size());
    for (const ConstBytes run : plain) {
      if (!run.empty()) {
        IMB_AES128_GCM_ENC_UPDATE(&calls_, &key_, &context_, bytes(to), bytes(run.data()), run.size());
        to += run.size();
      }
    }
    IMB_AES128_GCM_ENC_FINALIZE(&calls_, &key_, &context_, bytes(tag), aead_tag_bytes);
    return true;
  }

  bool open(const Nonce& nonce, ConstBytes associated, ConstBytes sealed, Bytes plain) override {
    std::array<std::byte, aead_tag_bytes> received;
    std::copy_n(sealed.data() + plain.size(), received.size(), received.begin());
    std::array<std::byte, aead_tag_bytes> computed;
    IMB_AES128_GCM_DEC(&calls_, &key_, &context_, bytes(plain.data()), bytes(sealed.data()), plain.size(), nonce.data(),
                       bytes(associated.data()), associated.size(), bytes(computed.data()), computed.size());
    return CRYPTO_memcmp(computed.data(), received.data(), computed.size()) == 0;
  }

  bool begin_open(const Nonce& nonce, ConstBytes associated) override {
    IMB_AES128_GCM_INIT(&calls_, &key_, &context_, nonce.data(), bytes(associated.data()), associated.size());
    return true;
  }

  bool open_part(ConstBytes sealed, Bytes plain) override {
    if (!plain.empty()) {
      IMB_AES128_GCM_DEC_UPDATE(&calls_, &key_, &context_, bytes(plain.data()), bytes(sealed.data()), plain.size());
    }
    return true;
  }

  bool end_open(ConstBytes tag) override {
    std::array<std::byte, aead_tag_bytes> computed;
    IMB_AES128_GCM_DEC_FINALIZE(&calls_, &key_, &context_, bytes(computed.data()), computed.size());
    return CRYPTO_memcmp(computed.data(), tag.data(), computed.size()) == 0;
  }

 private:
  // The library refuses null pointers, also where no byte lies behind them.
  static std::uint8_t* bytes(std::byte* at) { return at == nullptr ? &nothing : reinterpret_cast<std::uint8_t*>(at); }
  static const std::uint8_t* bytes(const std::byte* at) {
    return at == nullptr ? &nothing : reinterpret_cast<const std::uint8_t*>(at);
  }
  inline static std::uint8_t nothing = 0;

  const IMB_MGR& calls_;
  alignas(64) gcm_key_data key_;
  alignas(64) gcm_context_data context_;
};

}  // namespace

std::unique_ptr<AeadEngine> ipsec_mb_engine(Cipher cipher, ConstBytes key) {
  const IMB_MGR* const calls = cipher == Cipher::aes_128_gcm ? manager() : nullptr;
  return calls == nullptr ? nullptr : std::make_unique<IpsecMbEngine>(*calls, key);
}

}  // namespace sluice::ftx

#else

namespace sluice::ftx {

std::unique_ptr<AeadEngine> ipsec_mb_engine(Cipher /*cipher*/, ConstBytes /*key*/) { return nullptr; }

}  // namespace sluice::ftx

#endif
