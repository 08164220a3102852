// SPDX-License-Identifier: Apache-2.0
#pragma once

// Buffers and the pool they come from.
//
// A buffer (STREAMS: data block, dblk) is a reference-counted run of bytes; a block (message block, mblk) is a window
// `rptr..wptr` on one. Several blocks may share a buffer. The pool hands out slots of best-fit size classes; one slot
// holds the buffer's bookkeeping, a first block for it, and its bytes, so that an allocation is one pop from a free
// list and a release one push:
//
//       slot ──► ┌──────────┬────────────┬───────────────────────────────────┐
//                │ Buffer   │ Block      │ base                        limit │
//                │ refs     │ rptr, wptr │ ◄── headroom ──►│ data │◄─ tail ─►│
//                └──────────┴─────┬──────┴───────────────────────────────────┘
//                                 └──────── rptr ─────────►      ▲
//                                           wptr ────────────────┘
//
// External buffers describe memory that somebody else owns (a mapped file, a ring slot): the slot then has no bytes of
// its own, and a release callback runs when the last block that shows the memory is freed. Borrowed ones describe
// memory that its owner may reclaim at any time: one block shows it, duplicates are copies, and
// reclaim() moves what is still shown to memory of ours.
//
// The pool takes memory from the system in chunks, on demand, up to `bytes_max`, and returns it when it is destroyed:
// in steady state there is no malloc. When the bound is reached an allocation fails, which is an operating error that
// the caller must handle: it drops and counts, refuses, or waits until a buffer has come back (BufferCall in
// stack/core/scheduler.h). Memory never changes its class, so only a buffer of the class that was wanted helps.
//
// Ownership: the pool must outlive every block from it. Threads: one pool belongs to one stream set and one thread;
// reference counts are plain integers. Data that crosses threads is copied.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/codec.h"
#include "stack/core/known_sums.h"
#include "stack/core/plan.h"

namespace sluice {

class BufferPool;

/// Message types (STREAMS Programmer's Guide, "Message Types"). High priority is a property of the type.
enum class MessageType : std::uint8_t {
  data,     // M_DATA    user data
  proto,    // M_PROTO   a service primitive
  ioctl,    // M_IOCTL   a request to modules and driver, id-matched
  ctl,      // M_CTL     between neighbours that know each other
  setopts,  // M_SETOPTS options for the stream head
  // High priority from here on.
  pcproto,  // M_PCPROTO a service primitive that overtakes
  iocack,   // M_IOCACK
  iocnak,   // M_IOCNAK
  flush,    // M_FLUSH
  error,    // M_ERROR   two bytes: read side and write side errno
  hangup,   // M_HANGUP
};

[[nodiscard]] constexpr bool is_high_priority(MessageType type) { return type >= MessageType::pcproto; }
[[nodiscard]] constexpr bool is_protocol(MessageType type) {
  return type == MessageType::proto || type == MessageType::pcproto;
}

class Buffer;

/// A window on a buffer, and a link of a message (mblk_t). Plain data; owned through Message.
/// Invariants: buffer->base() <= rptr <= wptr <= buffer->limit(). With a codec the block is a native descriptor: the
/// value lies at the buffer's base, nobody else shows the buffer, and the window is empty.
struct Block {
  Block* next = nullptr;  // next message in a batch or queue; meaningful in a message's first block only
  Block* cont = nullptr;  // next block of this message
  std::byte* rptr = nullptr;
  std::byte* wptr = nullptr;
  Buffer* buffer = nullptr;
  Plan* plan = nullptr;          // what is owed to the message's data; in its first data block only
  const Codec* codec = nullptr;  // of a native descriptor
  // Facts of a message, in its first block only; Message keeps them (stack/core/message.h).
  Block* first_data = nullptr;
  std::uint32_t data_bytes = facts_unknown;
  MessageType type = MessageType::data;
  std::uint8_t band = 0;  // 0 for high-priority types

  static constexpr std::uint32_t facts_unknown = 0xffff'ffff;

  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(wptr - rptr); }
  [[nodiscard]] Bytes bytes() const { return {rptr, size()}; }
};

/// Runs when the last reference to external memory goes. `argument` is what was given with it.
using ReleaseCallback = void (*)(void* argument, ConstBytes memory);

/// Passes over payload bytes, as the memory sees them: what layered and fused paths differ in.
struct Touches {
  std::uint64_t loaded_bytes = 0;
  std::uint64_t stored_bytes = 0;

  void add(std::size_t loaded, std::size_t stored) {
    loaded_bytes += loaded;
    stored_bytes += stored;
  }
};

/// Bookkeeping for one run of bytes (dblk_t).
class Buffer {
 public:
  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] std::byte* limit() const { return limit_; }
  [[nodiscard]] std::size_t capacity() const { return static_cast<std::size_t>(limit_ - base_); }
  [[nodiscard]] std::uint32_t references() const { return references_; }
  /// Whether a holder may write: it is the only one and the memory is not read-only.
  [[nodiscard]] bool writable() const { return references_ == 1 && !read_only_; }
  /// Whether the memory's owner wants it back.
  [[nodiscard]] bool borrowed() const { return borrowed_; }
  /// Whether the bytes are the pool's own, and so start on a cache line.
  [[nodiscard]] bool pooled() const { return size_class_ != 0; }
  [[nodiscard]] BufferPool& pool() const { return *pool_; }
  /// Known sums of its bytes, or nullptr.
  [[nodiscard]] const KnownSums* known_sums() const { return has_known_sums_ ? known_sums_ : nullptr; }

 private:
  friend class BufferPool;

  std::byte* base_ = nullptr;
  std::byte* limit_ = nullptr;
  std::uint32_t references_ = 0;  // blocks that show it, and what is known of its sums
  std::uint8_t size_class_ = 0;
  bool read_only_ = false;
  bool borrowed_ = false;
  bool has_known_sums_ = false;
  BufferPool* pool_ = nullptr;
  ReleaseCallback release_ = nullptr;
  void* release_argument_ = nullptr;
  union {
    Buffer* next_free_ = nullptr;  // in a free list
    const KnownSums* known_sums_;  // has_known_sums_; owned
  };
  Block first_block_;
};

/// Buffers start on a cache line.
inline constexpr std::size_t cache_line_bytes = 64;

class BufferPool {
 public:
  static constexpr std::size_t bytes_max_default = std::size_t{256} << 20;
  static constexpr std::size_t capacity_max = std::size_t{4} << 20;  // one buffer

  explicit BufferPool(std::size_t bytes_max = bytes_max_default);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// A block whose buffer holds at least `capacity` bytes, rptr == wptr == base; nullptr when the bound is reached or
  /// `capacity` exceeds capacity_max. (allocb)
  [[nodiscard]] Block* allocate(std::size_t capacity) {
    if (!may_allocate(capacity)) [[unlikely]] {
      return nullptr;
    }
    const std::size_t size_class = class_of(capacity);
    Buffer* const buffer = take(size_class);
    if (buffer == nullptr) [[unlikely]] {
      return nullptr;
    }
    std::byte* const base = memory_of(*buffer);
    Block& block = buffer->first_block_;
    block = Block{.rptr = base, .wptr = base, .buffer = buffer};
    return &block;
  }

  /// A block that shows `memory`, which stays the caller's until `on_release(argument, memory)` is called. With
  /// `read_only` nothing writes to it: a writer copies first. (esballoc)
  [[nodiscard]] Block* allocate_external(Bytes memory, bool read_only, ReleaseCallback on_release, void* argument);

  /// As allocate_external, for memory that its owner wants back: reclaim() may be called on the block until
  /// `on_release` has been.
  [[nodiscard]] Block* borrow(Bytes memory, bool read_only, ReleaseCallback on_release, void* argument);
  /// Copies what `block` shows to other memory, which it shows from then on, and gives the borrowed memory back.
  /// REQUIRES: it comes from borrow(), and is in use.
  void reclaim(Block& block);

  /// Has the block's buffer keep `sums` of its bytes; from now on nobody may write to them. REQUIRES: the buffer is the
  /// pool's own memory, only this block shows it, and it has no known sums yet.
  static void remember(const Block& block, std::unique_ptr<const KnownSums> sums);

  /// Makes a deferred copy, and nothing else that is owed.
  void complete(DeferredCopy& copy);

  /// Another block that shows the same bytes of the same buffer. REQUIRES: it is not borrowed. (dupb)
  [[nodiscard]] Block* duplicate(const Block& block);

  /// Frees one block (not its cont) and the buffer when this was its last reference. (freeb)
  void release(Block* block) {
    Buffer& buffer = *block->buffer;
    if (buffer.references_ != 1 || !buffer.pooled() || block != &buffer.first_block_ || block->plan != nullptr)
        [[unlikely]] {
      return release_slowly(block);
    }
    put_away(buffer);
  }

  /// Whether allocate(capacity) would find memory, as far as the bound goes. (testb)
  [[nodiscard]] bool available(std::size_t capacity) const {
    return capacity <= capacity_max && class_available(class_of(capacity));
  }
  /// Likewise for allocate_external() and borrow().
  [[nodiscard]] bool external_available() const { return class_available(0); }
  /// Whether it would, once all buffers are back. If not, nobody need wait for it.
  [[nodiscard]] bool ever_available(std::size_t capacity) const {
    return capacity <= capacity_max && (slots_[class_of(capacity)] > 0 || available(capacity));
  }
  [[nodiscard]] bool external_ever_available() const { return slots_[0] > 0 || external_available(); }

  /// An empty plan; nullptr when the pool is exhausted.
  [[nodiscard]] Plan* allocate_plan() {
    if (free_plans_ == nullptr && !grow_plans()) [[unlikely]] {
      ++allocations_failed_;
      return nullptr;
    }
    Plan* const plan = free_plans_;
    free_plans_ = plan->next_free;
    return plan;
  }
  void release(Plan* plan) {
    plan->failed = false;
    plan->clear();
    plan->next_free = free_plans_;
    free_plans_ = plan;
  }

  /// For tests: before a buffer or a block is handed out `fails` is asked, and where it answers true there is none, as
  /// if the bound had been reached; nullptr ends that. It is not asked about plans.
  void fail_when(std::function<bool()> fails);

  /// Payload passes made with this pool's messages.
  [[nodiscard]] Touches& touches() { return touches_; }

  struct Statistics {
    std::size_t bytes_reserved = 0;  // taken from the system
    std::size_t bytes_max = 0;       // the bound
    std::uint64_t allocations_failed = 0;
    std::uint64_t buffers_in_use = 0;
    std::uint64_t reclaimed = 0;  // blocks whose memory was wanted back before the message was done with
  };
  [[nodiscard]] Statistics statistics() const;

  /// The capacity that allocate(capacity) would really give; 0 when it exceeds capacity_max.
  [[nodiscard]] static std::size_t class_capacity(std::size_t capacity);

 private:
  static constexpr std::size_t class_count = 34;   // 0: external; then 64, 96, 128, 192, ... 4 MiB
  static constexpr std::size_t smallest_bits = 6;  // the smallest class holds 64 bytes
  static constexpr std::size_t header_bytes =
      (sizeof(Buffer) + cache_line_bytes - 1) / cache_line_bytes * cache_line_bytes;

  /// Classes alternate between powers of two and three quarters of the next: 64, 96, 128, 192, 256, ...
  static constexpr std::size_t capacity_of(std::size_t size_class) {
    const std::size_t bits = smallest_bits + size_class / 2;
    return size_class == 0 ? 0 : size_class % 2 == 1 ? std::size_t{1} << bits : std::size_t{3} << (bits - 2);
  }
  static constexpr std::size_t class_of(std::size_t capacity) {
    if (capacity <= (std::size_t{1} << smallest_bits)) {
      return 1;
    }
    const auto bits = static_cast<std::size_t>(std::bit_width(capacity - 1));
    const std::size_t power_class = 1 + 2 * (bits - smallest_bits);
    return capacity <= (std::size_t{3} << (bits - 2)) ? power_class - 1 : power_class;
  }

  /// Where the memory of a buffer lies that is not external.
  static std::byte* memory_of(Buffer& buffer) { return reinterpret_cast<std::byte*>(&buffer) + header_bytes; }

  struct ChunkDeleter {
    void operator()(std::byte* chunk) const;
  };

  /// Whether a buffer of `capacity` may be handed out, memory apart; counted, if not.
  [[nodiscard]] bool may_allocate(std::size_t capacity) { return capacity < capacity_end_ || allows(capacity); }
  [[nodiscard]] bool allows(std::size_t capacity);
  Buffer* take(std::size_t size_class) {
    if (free_[size_class] == nullptr && !grow(size_class)) [[unlikely]] {
      ++allocations_failed_;
      return nullptr;
    }
    Buffer* const buffer = free_[size_class];
    free_[size_class] = buffer->next_free_;
    buffer->references_ = 1;
    ++buffers_in_use_;
    return buffer;
  }
  /// What one buffer of the class takes from the bound.
  [[nodiscard]] static std::size_t slot_bytes(std::size_t size_class);
  [[nodiscard]] bool class_available(std::size_t size_class) const {
    return free_[size_class] != nullptr || slot_bytes(size_class) <= bytes_max_ - bytes_reserved_;
  }
  std::byte* take_chunk(std::size_t bytes);
  bool grow(std::size_t size_class);
  bool grow_blocks();
  bool grow_plans();
  void release_slowly(Block* block);
  void put_away(Buffer& buffer) {
    buffer.next_free_ = free_[buffer.size_class_];
    free_[buffer.size_class_] = &buffer;
    --buffers_in_use_;
  }

  std::size_t capacity_end_ = capacity_max + 1;  // what is smaller is allowed; 0 while somebody is asked about each
  std::function<bool()> fails_;
  std::size_t bytes_max_;
  std::size_t bytes_reserved_ = 0;
  std::uint64_t allocations_failed_ = 0;
  std::uint64_t buffers_in_use_ = 0;
  std::uint64_t reclaimed_ = 0;
  std::array<Buffer*, class_count> free_{};
  std::array<std::size_t, class_count> slots_{};  // made so far
  Block* free_blocks_ = nullptr;                  // for duplicates
  Plan* free_plans_ = nullptr;
  Touches touches_;
  std::vector<std::unique_ptr<std::byte, ChunkDeleter>> chunks_;
};

}  // namespace sluice
