// SPDX-License-Identifier: Apache-2.0
#include "stack/core/buffer_pool.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/contract.h"

namespace sluice {
namespace {

constexpr std::size_t alignment = cache_line_bytes;             // slots do not share lines
constexpr std::size_t chunk_bytes_min = std::size_t{64} << 10;  // several small slots are taken at once
constexpr std::size_t rounded_up(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

}  // namespace

void BufferPool::ChunkDeleter::operator()(std::byte* chunk) const {
  ::operator delete[](chunk, std::align_val_t{alignment});
}

BufferPool::BufferPool(std::size_t bytes_max) : bytes_max_(bytes_max) {}

BufferPool::~BufferPool() {
  // Every block must have come home: a block that outlives its pool would point into freed memory.
  SLUICE_REQUIRE(buffers_in_use_ == 0);
}

std::size_t BufferPool::class_capacity(std::size_t capacity) {
  return capacity > capacity_max ? 0 : capacity_of(class_of(capacity));
}

std::byte* BufferPool::take_chunk(std::size_t bytes) {
  if (bytes > bytes_max_ - bytes_reserved_) {
    return nullptr;
  }
  auto* chunk = static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{alignment}, std::nothrow));
  if (chunk != nullptr) {
    chunks_.emplace_back(chunk);
    bytes_reserved_ += bytes;
  }
  return chunk;
}

std::size_t BufferPool::slot_bytes(std::size_t size_class) {
  return header_bytes + rounded_up(capacity_of(size_class));
}

bool BufferPool::grow(std::size_t size_class) {
  const std::size_t slot_bytes = BufferPool::slot_bytes(size_class);
  const std::size_t room = bytes_max_ - bytes_reserved_;
  const std::size_t slots = std::min(std::max<std::size_t>(1, chunk_bytes_min / slot_bytes), room / slot_bytes);
  std::byte* chunk = slots == 0 ? nullptr : take_chunk(slots * slot_bytes);
  if (chunk == nullptr) {
    return false;
  }
  for (std::size_t i = 0; i < slots; ++i) {
    auto* buffer = new (chunk + i * slot_bytes) Buffer;
    buffer->size_class_ = static_cast<std::uint8_t>(size_class);
    buffer->pool_ = this;
    buffer->base_ = memory_of(*buffer);  // of an external one it is what that shows
    buffer->limit_ = buffer->base_ + capacity_of(size_class);
    buffer->next_free_ = free_[size_class];
    free_[size_class] = buffer;
  }
  slots_[size_class] += slots;
  return true;
}

bool BufferPool::grow_blocks() {
  const std::size_t slots = std::min(chunk_bytes_min, bytes_max_ - bytes_reserved_) / sizeof(Block);
  std::byte* chunk = slots == 0 ? nullptr : take_chunk(slots * sizeof(Block));
  if (chunk == nullptr) {
    return false;
  }
  for (std::size_t i = 0; i < slots; ++i) {
    auto* block = new (chunk + i * sizeof(Block)) Block;
    block->next = free_blocks_;
    free_blocks_ = block;
  }
  return true;
}

bool BufferPool::grow_plans() {
  const std::size_t slots = std::min(chunk_bytes_min, bytes_max_ - bytes_reserved_) / sizeof(Plan);
  std::byte* chunk = slots == 0 ? nullptr : take_chunk(slots * sizeof(Plan));
  for (std::size_t i = 0; chunk != nullptr && i < slots; ++i) {
    release(new (chunk + i * sizeof(Plan)) Plan);
  }
  return chunk != nullptr;
}

void BufferPool::fail_when(std::function<bool()> fails) {
  fails_ = std::move(fails);
  capacity_end_ = fails_ ? 0 : capacity_max + 1;
}

bool BufferPool::allows(std::size_t capacity) {
  const bool allowed = capacity <= capacity_max && !(fails_ && fails_());
  allocations_failed_ += allowed ? 0U : 1U;
  return allowed;
}

Block* BufferPool::allocate_external(Bytes memory, bool read_only, ReleaseCallback on_release, void* argument) {
  Buffer* buffer = may_allocate(0) ? take(0) : nullptr;
  if (buffer == nullptr) {
    return nullptr;
  }
  buffer->base_ = memory.data();
  buffer->limit_ = memory.data() + memory.size();
  buffer->read_only_ = read_only;
  buffer->release_ = on_release;
  buffer->release_argument_ = argument;
  Block& block = buffer->first_block_;
  block = Block{.rptr = buffer->base_, .wptr = buffer->limit_, .buffer = buffer};
  return &block;
}

Block* BufferPool::borrow(Bytes memory, bool read_only, ReleaseCallback on_release, void* argument) {
  Block* block = allocate_external(memory, read_only, on_release, argument);
  if (block != nullptr) {
    block->buffer->borrowed_ = true;
  }
  return block;
}

namespace {

/// The owner of memory that a borrowing block was moved to.
void free_home(void*, ConstBytes memory) { ::operator delete[](const_cast<std::byte*>(memory.data())); }

}  // namespace

/// From the system and not from the pool: its owner takes the memory back whether or not we have room. The bytes count
/// as the message's: each place that keeps messages bounds them.
void BufferPool::reclaim(Block& block) {
  Buffer& buffer = *block.buffer;
  SLUICE_REQUIRE(buffer.borrowed_ && buffer.references_ == 1);
  const auto headroom = static_cast<std::size_t>(block.rptr - buffer.base_);  // headers may be gone back to
  const std::size_t size = headroom + block.size();
  auto* home = static_cast<std::byte*>(::operator new[](std::max<std::size_t>(size, 1)));
  std::copy(buffer.base_, block.wptr, home);
  touches_.add(size, size);
  if (buffer.release_ != nullptr) {
    buffer.release_(buffer.release_argument_, {buffer.base_, buffer.capacity()});
  }
  buffer.base_ = home;
  block.rptr = home + headroom;
  buffer.limit_ = block.wptr = home + size;
  buffer.release_ = free_home;
  buffer.borrowed_ = buffer.read_only_ = false;
  ++reclaimed_;
}

void BufferPool::complete(DeferredCopy& copy) {
  std::byte* at = std::copy_n(copy.source, copy.first_size, copy.place);
  for (const ConstBytes run : copy.more) {
    at = std::copy(run.begin(), run.end(), at);
  }
  touches_.add(copy.size, copy.size);
  copy.end();
  ++reclaimed_;
}

void BufferPool::remember(const Block& block, std::unique_ptr<const KnownSums> sums) {
  Buffer& buffer = *block.buffer;
  SLUICE_REQUIRE(buffer.pooled() && buffer.references_ == 1 && sums != nullptr);
  buffer.known_sums_ = sums.release();
  buffer.has_known_sums_ = true;
  ++buffer.references_;  // so that it is not writable, and is not put away without it
}

Block* BufferPool::duplicate(const Block& block) {
  SLUICE_REQUIRE(!block.buffer->borrowed_);
  if (!may_allocate(0)) [[unlikely]] {
    return nullptr;
  }
  if (free_blocks_ == nullptr && !grow_blocks()) [[unlikely]] {
    ++allocations_failed_;
    return nullptr;
  }
  Block* copy = free_blocks_;
  free_blocks_ = copy->next;
  *copy = block;
  copy->next = nullptr;
  copy->cont = nullptr;
  copy->plan = nullptr;
  copy->data_bytes = Block::facts_unknown;
  ++copy->buffer->references_;
  return copy;
}

void BufferPool::release_slowly(Block* block) {
  Buffer& buffer = *block->buffer;
  if (block->plan != nullptr) {
    release(block->plan);
    block->plan = nullptr;
  }
  if (block != &buffer.first_block_) {
    block->next = free_blocks_;
    free_blocks_ = block;
  }
  if (--buffer.references_ > (buffer.has_known_sums_ ? 1U : 0U)) {
    return;
  }
  if (std::exchange(buffer.has_known_sums_, false)) {
    delete buffer.known_sums_;
  }
  if (buffer.release_ != nullptr) {
    buffer.release_(buffer.release_argument_, {buffer.base_, buffer.capacity()});
    buffer.release_ = nullptr;
  }
  buffer.read_only_ = buffer.borrowed_ = false;
  put_away(buffer);
}

BufferPool::Statistics BufferPool::statistics() const {
  return {bytes_reserved_, bytes_max_, allocations_failed_, buffers_in_use_, reclaimed_};
}

}  // namespace sluice
