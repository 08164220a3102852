// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/block_digests.h"

#include <algorithm>

#include "base/contract.h"

namespace sluice::ftx {

std::uint64_t BlockDigests::end_of(std::uint64_t block) const {
  return std::min((block + 1) * digest_block_bytes, size_bytes_);
}

BlockDigests::Range BlockDigests::slots_of(std::uint64_t block) const {
  return {block * digest_block_bytes / slot_bytes_, (end_of(block) - 1) / slot_bytes_};
}

std::uint64_t BlockDigests::prefix_bytes(const Slots& slots) const {
  return std::min(slots.prefix() * slot_bytes_, size_bytes_);
}

BlockDigests::Range BlockDigests::behind_prefix(const Slots& slots, std::uint64_t first, std::uint64_t last) const {
  const std::uint64_t end = std::min((last + 1) * slot_bytes_, size_bytes_);
  return {std::max(first * slot_bytes_ / digest_block_bytes, prefix_bytes(slots) / digest_block_bytes + 1),
          (end - 1) / digest_block_bytes};
}

bool BlockDigests::complete(std::uint64_t block, const Ahead& ahead) const {
  const Range range = slots_of(block);
  return ahead.slots == range.last + 1 - range.first;
}

bool BlockDigests::whole(const Slots& slots, std::uint64_t block) const {
  const Range range = slots_of(block);
  return slots.marked(range.first, range.last) == range.last + 1 - range.first;
}

std::uint64_t BlockDigests::wanted_bytes(const Slots& slots, std::uint64_t first, std::uint64_t last) const {
  const Range blocks = behind_prefix(slots, first, last);
  std::uint64_t wanted = 0;
  for (std::uint64_t block = blocks.first; block <= blocks.last; ++block) {
    wanted += ahead_.contains(block) ? 0 : entry_bytes;
  }
  return wanted;
}

void BlockDigests::prepare(const Slots& slots, std::uint64_t first, std::uint64_t last) {
  const Range blocks = behind_prefix(slots, first, last);
  for (std::uint64_t block = blocks.first; block <= blocks.last; ++block) {
    ahead_.try_emplace(block);
  }
}

void BlockDigests::landing(const Slots& slots, std::uint64_t first, std::uint64_t last) {
  const Range blocks = behind_prefix(slots, first, last);
  for (std::uint64_t block = blocks.first; block <= blocks.last; ++block) {
    const Range range = slots_of(block);
    const std::uint64_t from = std::max(first, range.first);
    const std::uint64_t to = std::min(last, range.last);
    // Parts of it may have landed in ADUs of another size.
    ahead_[block].slots += to + 1 - from - slots.marked(from, to);
  }
}

bool BlockDigests::due(const Slots& slots, std::uint64_t first, std::uint64_t last, std::uint64_t written_bytes) const {
  if (slots.whole() || std::min(prefix_bytes(slots), written_bytes) >= digested_bytes_ + read_back_bytes) {
    return true;
  }
  const Range blocks = behind_prefix(slots, first, last);
  for (std::uint64_t block = blocks.first; block <= blocks.last; ++block) {
    const auto ahead = ahead_.find(block);
    if (ahead != ahead_.end() && !ahead->second.digested && complete(block, ahead->second)) {
      return true;
    }
  }
  return false;
}

Status BlockDigests::digest(const Slots& slots, std::uint64_t first, std::uint64_t last, SinkFile& file, Bytes buffer) {
  const std::uint64_t prefix = prefix_bytes(slots);
  if (slots.whole() || prefix - digested_bytes_ >= read_back_bytes) {
    if (Status digested = digest_prefix(prefix, file, buffer); !digested) {
      return digested;
    }
  }
  const Range blocks = behind_prefix(slots, first, last);
  for (std::uint64_t block = blocks.first; block <= blocks.last; ++block) {
    const auto found = ahead_.find(block);
    if (found == ahead_.end() || found->second.digested || !complete(block, found->second)) {
      continue;
    }
    Digester digester;
    if (Status read = update(digester, block * digest_block_bytes, end_of(block), file, buffer); !read) {
      return read;
    }
    found->second.digest = digester.value();
    found->second.digested = true;
    tell(file, block, found->second.digest);
  }
  return {};
}

Status BlockDigests::digest_prefix(std::uint64_t prefix, SinkFile& file, Bytes buffer) {
  while (digested_bytes_ < prefix) {
    const std::uint64_t block = digested_bytes_ / digest_block_bytes;
    const std::uint64_t block_end = end_of(block);
    const auto ahead = ahead_.find(block);
    if (ahead != ahead_.end() && ahead->second.digested) {
      // Of its bytes none has been read for the prefix: a block counts as behind it until the prefix reaches it.
      SLUICE_REQUIRE(digested_bytes_ % digest_block_bytes == 0);
      if (prefix < block_end) {
        return {};
      }
      tree_.add(ahead->second.digest);
      ahead_.erase(ahead);
      digested_bytes_ = block_end;
      continue;
    }
    const std::uint64_t end = std::min(prefix, block_end);
    if (Status read = update(block_, digested_bytes_, end, file, buffer); !read) {
      return read;
    }
    advance_to(end, file);
  }
  return {};
}

void BlockDigests::written(const Slots& slots, std::uint64_t from, std::span<const ConstBytes> pieces, SinkFile& file) {
  if (from != digested_bytes_) {
    return;
  }
  const std::uint64_t prefix = prefix_bytes(slots);
  for (ConstBytes piece : pieces) {
    if (digested_bytes_ + piece.size() > prefix) {
      return;
    }
    while (!piece.empty()) {
      const std::uint64_t block = digested_bytes_ / digest_block_bytes;
      if (digested_bytes_ % digest_block_bytes == 0) {
        if (const auto ahead = ahead_.find(block); ahead != ahead_.end() && ahead->second.digested) {
          return;  // digest_prefix() takes it as it is
        }
      }
      const std::uint64_t left = end_of(block) - digested_bytes_;
      const ConstBytes part = piece.first(static_cast<std::size_t>(std::min<std::uint64_t>(left, piece.size())));
      block_.update(part);
      advance_to(digested_bytes_ + part.size(), file);
      piece = piece.subspan(part.size());
    }
  }
}

/// block_ has got the bytes up to `end`, which lies in its block or ends it.
void BlockDigests::advance_to(std::uint64_t end, SinkFile& file) {
  const std::uint64_t block = digested_bytes_ / digest_block_bytes;
  digested_bytes_ = end;
  if (end == end_of(block)) {
    const Digest digest = block_.value();
    block_.reset();
    tree_.add(digest);
    tell(file, block, digest);
    ahead_.erase(block);
  }
}

/// Reads the file back.
Status BlockDigests::update(Digester& digester, std::uint64_t from, std::uint64_t end, SinkFile& file, Bytes buffer) {
  while (from < end) {
    const Bytes part = buffer.first(static_cast<std::size_t>(std::min<std::uint64_t>(end - from, buffer.size())));
    if (Status read = file.read(from, part); !read) {
      return read;
    }
    digester.update(part);
    from += part.size();
  }
  return {};
}

void BlockDigests::tell(SinkFile& file, std::uint64_t block, const Digest& digest) const {
  if (size_bytes_ > digest_block_bytes) {
    file.note_block(block, digest);
  }
}

void BlockDigests::know(std::uint64_t block, const Digest& digest) {
  const Range range = slots_of(block);
  ahead_[block] = {.slots = range.last + 1 - range.first, .digested = true, .digest = digest};
}

void BlockDigests::end_at(std::uint64_t size_bytes) {
  SLUICE_REQUIRE(digested_bytes_ <= size_bytes && size_bytes <= size_bytes_);
  size_bytes_ = size_bytes;
  std::erase_if(ahead_, [&](const auto& ahead) { return ahead.first * digest_block_bytes >= size_bytes; });
  // The last block is shorter than it could have been, and has been read to its end.
  if (digested_bytes_ == size_bytes && size_bytes % digest_block_bytes != 0) {
    tree_.add(block_.value());
    block_.reset();
  }
}

Digest BlockDigests::finish() {
  SLUICE_REQUIRE(digested_bytes_ == size_bytes_);
  if (size_bytes_ == 0) {
    tree_.add(block_.value());
  }
  return tree_.finish(size_bytes_);
}

}  // namespace sluice::ftx
