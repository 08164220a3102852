// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/digest.h"

#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // the same calls, by the widest vectors of this processor
#endif

#include "base/contract.h"

namespace sluice::ftx {
namespace {

Digest canonical(XXH128_hash_t hash) {
  Digest digest;
  store_big_endian<std::uint64_t>(digest.data(), hash.high64);
  store_big_endian<std::uint64_t>(digest.data() + 8, hash.low64);
  return digest;
}

}  // namespace

void Digester::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Digester::Digester() : state_(XXH3_createState()) {
  SLUICE_REQUIRE(state_ != nullptr);
  reset();
}
Digester::~Digester() = default;
Digester::Digester(Digester&&) noexcept = default;
Digester& Digester::operator=(Digester&&) noexcept = default;

void Digester::reset() { SLUICE_REQUIRE(XXH3_128bits_reset(state_.get()) == XXH_OK); }

void Digester::update(ConstBytes bytes) {
  SLUICE_REQUIRE(XXH3_128bits_update(state_.get(), bytes.data(), bytes.size()) == XXH_OK);
}

Digest Digester::value() const { return canonical(XXH3_128bits_digest(state_.get())); }

Digest digest_of(ConstBytes bytes) { return canonical(XXH3_128bits(bytes.data(), bytes.size())); }

}  // namespace sluice::ftx
