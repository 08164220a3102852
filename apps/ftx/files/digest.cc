// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/digest.h"

#include <hwy/cache_control.h>
#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // the same calls, by the widest vectors of this processor
#endif

#include <algorithm>
#include <array>
#include <utility>

#include "base/contract.h"

namespace sluice::ftx {
namespace {

Digest canonical(XXH128_hash_t hash) {
  Digest digest;
  store_big_endian<std::uint64_t>(digest.data(), hash.high64);
  store_big_endian<std::uint64_t>(digest.data() + 8, hash.low64);
  return digest;
}

// What a processor fetches by itself ends with a page, and begins anew behind it.
constexpr std::size_t page_bytes = 4096;
constexpr std::size_t cache_line_bytes = 64;

void fetch(ConstBytes bytes) {
  for (std::size_t line = 0; line < bytes.size(); line += cache_line_bytes) {
    hwy::Prefetch(bytes.data() + line);
  }
}

/// As digester.update(), with the next page on its way meanwhile: of bytes that are in no cache it takes 0.6 of the
/// time, 0.13 s a GiB instead of 0.2 (family 6 model 167).
void update_fetched(Digester& digester, ConstBytes bytes) {
  while (!bytes.empty()) {
    const ConstBytes page = bytes.first(std::min(bytes.size(), page_bytes));
    bytes = bytes.subspan(page.size());
    fetch(bytes.first(std::min(bytes.size(), page_bytes)));
    digester.update(page);
  }
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

void DigestTree::add(const Digest& block) {
  blocks_.update(block);
  last_ = block;
}

Digest DigestTree::finish(std::uint64_t size_bytes) {
  Digest root = last_;
  if (size_bytes > digest_block_bytes) {
    std::array<std::byte, sizeof size_bytes> size;
    store_big_endian<std::uint64_t>(size.data(), size_bytes);
    blocks_.update(size);
    root = blocks_.value();
  }
  blocks_.reset();
  return root;
}

void FileDigester::update(ConstBytes bytes) {
  while (!bytes.empty()) {
    const std::uint64_t left = digest_block_bytes - size_bytes_ % digest_block_bytes;
    const ConstBytes part = bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(left, bytes.size())));
    update_fetched(block_, part);
    size_bytes_ += part.size();
    bytes = bytes.subspan(part.size());
    if (part.size() == left) {
      tree_.add(block_.value());
      block_.reset();
    }
  }
}

Digest FileDigester::finish() {
  if (size_bytes_ % digest_block_bytes != 0 || size_bytes_ == 0) {
    tree_.add(block_.value());
    block_.reset();
  }
  return tree_.finish(std::exchange(size_bytes_, 0));
}

Digest file_digest_of(ConstBytes content) {
  FileDigester digester;
  digester.update(content);
  return digester.finish();
}

}  // namespace sluice::ftx
