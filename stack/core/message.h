// SPDX-License-Identifier: Apache-2.0
#pragma once

// Messages: what modules pass to each other. A message is a chain of blocks; its first block carries type and band.
//
//     Message ──► [proto: T_UNITDATA_REQ] ──cont──► [data ......] ──cont──► [data ...]
//
// A module never loops over payload bytes. It says what must happen to them,
//
//     message.transform(Swap{4});
//     message.transform(Sum{.initial = pseudo_header, .field = checksum});
//     message.transform(OwnStage{.stage = cipher, .argument = nonce}, handle(), refused);
//
// and the message's path decides when. On a layered path that is now: one pass a call. On a fused path (the maker of
// the message has called defer()) the manipulation joins the message's plan and is carried out when the bytes must move
// anyway: on the way down by the driver (gather()), on the way up by the stream head (land()). Modules are written
// for both: they look at the TransformResult, they do what needs verified bytes in when_verified(), they materialize()
// before they read payload, drop or count a message or act on its being there, and on the way down, if they keep it,
// they keep() it.
//
// Manipulations apply to the data blocks of a message, from each rptr on; protocol blocks in front are left alone.
//
// The first block of a message may be a *native descriptor*: the value of a service primitive, whose bytes are not made
// before somebody looks at them. Modules that know it edit its fields through native(); encode() turns it into the
// primitive's bytes, exactly as the specification has them. Queues do that for modules that do not say that they read
// descriptors, the stream head for getmsg(). The core knows a codec (base/codec.h), not the primitives.
//
// What the calls below do to a message with a plan:
//
//   trim_front, pull_up, make_writable    a copy from the user's memory that is still owed is made first
//   trim_front            a sum over bytes that are trimmed off takes them in first; a conversion or a stage of a
//                         module's own that covers them materializes first
//   pull_up, link, unlink, pop_block, remove_block of protocol blocks    the plan stays with the data
//   duplicate, copy, pulled_up, split, trim_back, append, link of data to data, unlink, pop_block and remove_block of
//   data                  materialize first
//   freeing               deferred work is discarded; nothing is counted
//
// "Materialize first" can fail, as materialize() can: the message is then marked, every later result about it is
// `failed`, and calls that return messages return none.
//
// Ownership: a Message owns its chain; it is moved, never copied by accident (see duplicate() and copy()). A message
// that goes out of scope is freed. Threads: as the pool's.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "base/bytes.h"
#include "ilp/manipulation.h"
#include "stack/core/buffer_pool.h"
#include "stack/core/stage.h"

namespace sluice {

using ilp::Check;
using ilp::Sum;
using ilp::Swap;

/// What became of a manipulation.
enum class TransformResult : std::uint8_t {
  done,      // carried out; every check held
  deferred,  // joined the plan; the module or head that carries it out drops the message if a check fails
  failed,    // a check did not hold, or no memory for a private copy: the caller drops and counts the message
};

class Counter;

class Message {
 public:
  Message() = default;
  explicit Message(Block* chain) : first_(chain) {}
  Message(Message&& other) noexcept : first_(std::exchange(other.first_, nullptr)) {}
  Message& operator=(Message&& other) noexcept {
    if (this != &other) {
      reset();
      first_ = std::exchange(other.first_, nullptr);
    }
    return *this;
  }
  ~Message() { reset(); }

  /// An empty message of one block with room for `capacity` bytes after `headroom` spare ones; empty (false) when the
  /// pool is exhausted.
  [[nodiscard]] static Message allocate(BufferPool& pool, std::size_t capacity, std::size_t headroom = 0,
                                        MessageType type = MessageType::data) {
    Block* const block = pool.allocate(headroom + capacity);
    if (block != nullptr) {
      block->rptr += headroom;
      block->wptr = block->rptr;
      block->type = type;
    }
    return Message(block);
  }
  /// A data message of one block of `size` bytes, which are not initialised, between `headroom` and `tailroom` spare
  /// ones; empty when the pool is exhausted.
  [[nodiscard]] static Message of_size(BufferPool& pool, std::size_t size, std::size_t headroom, std::size_t tailroom) {
    Message message = allocate(pool, size + tailroom, headroom);
    if (message) {
      message.first_->wptr += size;
      message.first_->first_data = message.first_;
      message.first_->data_bytes = static_cast<std::uint32_t>(size);
    }
    return message;
  }
  /// A message that holds a copy of `bytes`: one block, or, beyond `block_bytes_max`, a chain. Only the first block
  /// has the headroom. REQUIRES: block_bytes_max > 0.
  [[nodiscard]] static Message copy_of(BufferPool& pool, ConstBytes bytes, std::size_t headroom = 0,
                                       MessageType type = MessageType::data,
                                       std::size_t block_bytes_max = BufferPool::capacity_max);

  [[nodiscard]] explicit operator bool() const { return first_ != nullptr; }
  void reset() {
    // Inline, since most messages have been moved from when they go out of scope; and no pointer to this message leaves
    // it, so that it need not lie in memory.
    if (Block* const chain = std::exchange(first_, nullptr)) {
      free_chain(chain);
    }
  }
  /// Gives the chain up to the caller, who may chain it behind other blocks. REQUIRES: the message is not empty.
  [[nodiscard]] Block* release() {
    forget_facts();
    return std::exchange(first_, nullptr);
  }

  // REQUIRES for everything below: the message is not empty.

  /// The first block, to be changed: what is known of the message is counted anew afterwards.
  [[nodiscard]] Block& first() {
    forget_facts();
    return *first_;
  }
  [[nodiscard]] const Block& first() const { return *first_; }
  [[nodiscard]] MessageType type() const { return first_->type; }
  [[nodiscard]] std::uint8_t band() const { return first_->band; }
  void set_band(std::uint8_t band) { first_->band = band; }
  [[nodiscard]] BufferPool& pool() const { return first_->buffer->pool(); }
  /// The first block's bytes.
  [[nodiscard]] Bytes bytes() { return first_->bytes(); }
  [[nodiscard]] ConstBytes bytes() const { return first_->bytes(); }

  /// Bytes in all blocks; of a native descriptor, those of its encoded form.
  [[nodiscard]] std::size_t size() const {
    std::size_t total = data_size();
    for (const Block* block = first_; block != first_->first_data; block = block->cont) {
      total += block->codec == nullptr ? block->size() : block->codec->encoded_size(block->buffer->base());
    }
    return total;
  }
  // Invariant: protocol blocks come before data blocks. So what these three answer is known without a walk, once it has
  // been counted.

  /// Bytes in data blocks only. (msgdsize)
  [[nodiscard]] std::size_t data_size() const {
    if (first_->data_bytes == Block::facts_unknown) [[unlikely]] {
      count_facts();
    }
    return first_->data_bytes;
  }
  /// The first data block, or nullptr.
  [[nodiscard]] const Block* data_block() const {
    if (first_->data_bytes == Block::facts_unknown) [[unlikely]] {
      count_facts();
    }
    return first_->first_data;
  }
  [[nodiscard]] bool has_data() const { return data_block() != nullptr; }
  /// Whether it is a user's data, alone or behind a primitive.
  [[nodiscard]] bool carries_data() const { return type() == MessageType::data || (is_protocol(type()) && has_data()); }
  [[nodiscard]] std::size_t block_count() const;

  /// A message whose first block is `value`, a native descriptor; empty when the pool is exhausted.
  template <class Native>
  [[nodiscard]] static Message of_native(BufferPool& pool, const Native& value) {
    static_assert(std::is_trivially_copyable_v<Native> && alignof(Native) <= cache_line_bytes);
    Message message(pool.allocate(std::max(sizeof(Native), Native::encoded_size_max)));
    if (message) {
      message.first_->type = MessageType::proto;
      message.become_native(value);
      message.first_->data_bytes = 0;
    }
    return message;
  }
  /// The native descriptor in front, or nullptr where there is none of that type.
  template <class Native>
  [[nodiscard]] Native* native() {
    return first_->codec == &Native::codec ? std::launder(reinterpret_cast<Native*>(first_->buffer->base())) : nullptr;
  }
  template <class Native>
  [[nodiscard]] const Native* native() const {
    return const_cast<Message*>(this)->native<Native>();
  }
  /// Puts `value` in the place of the first block's bytes. False when the pool is exhausted: the message is then as it
  /// was. REQUIRES: a protocol block. `value` may have been read from those bytes.
  template <class Native>
  [[nodiscard]] bool set_native(const Native& value) {
    const std::size_t size = std::max(sizeof(Native), Native::encoded_size_max);
    const Buffer& buffer = *first_->buffer;
    const bool fits = buffer.writable() && buffer.pooled() && buffer.capacity() >= size;
    if (!fits && !replace_first_block(size)) {
      return false;
    }
    become_native(value);
    return true;
  }
  /// Makes of a message that is done with another one, of `bytes` alone, in its first block's memory: so an
  /// acknowledgement needs none. False where that is too small, or not ours alone: the message is then as it was.
  /// REQUIRES: `bytes` lie elsewhere.
  [[nodiscard]] bool become(ConstBytes bytes, MessageType type);
  /// Makes the bytes of a native descriptor; does nothing where there is none.
  void encode() {
    if (first_->codec != nullptr) {
      encode_native();
    }
  }

  /// The first `size` bytes of the data: where they lie, if nothing is owed to them, else copied to `scratch`,
  /// converted but not verified. nullptr when there are fewer. REQUIRES: `scratch` has room.
  [[nodiscard]] const std::byte* front(std::size_t size, std::byte* scratch) const {
    const Block* const block = data_block();
    if (block != nullptr && block->size() >= size && owing() == nullptr) [[likely]] {
      return block->rptr;
    }
    return copy_data_to(0, Bytes(scratch, size)) ? scratch : nullptr;
  }

  /// `size` new bytes in front of the first block: in its headroom when nobody else shows that buffer, else in a new
  /// block. Empty when the pool is exhausted. The bytes are not initialised.
  [[nodiscard]] Bytes prepend(std::size_t size);
  /// As prepend(), in front of the first data block. REQUIRES: there is one.
  [[nodiscard]] Bytes prepend_data(std::size_t size) {
    Block* const block = mutable_data_block();
    const auto headroom = static_cast<std::size_t>(block->rptr - block->buffer->base());
    if (headroom < size || !block->buffer->writable()) [[unlikely]] {
      return prepend_data_block(size);
    }
    block->rptr -= size;
    first_->data_bytes += static_cast<std::uint32_t>(size);
    return {block->rptr, size};
  }
  /// `size` new bytes after the last block's: in its tail room, else in a new block. Not initialised; empty when
  /// the pool is exhausted.
  [[nodiscard]] Bytes append(std::size_t size);
  /// Chains `tail` behind the last block. (linkb) REQUIRES: no protocol block comes behind data.
  void link(Message&& tail) {
    if (first_->cont == nullptr && type() != MessageType::data) [[likely]] {  // a primitive and its data, as a rule
      Block* const rest = std::exchange(tail.first_, nullptr);
      first_->first_data = rest->first_data;
      first_->data_bytes = std::exchange(rest->data_bytes, Block::facts_unknown);
      first_->cont = rest;
    } else {
      link_slowly(std::move(tail));
    }
  }
  /// Takes off everything behind the first block. (unlinkb)
  [[nodiscard]] Message unlink() {
    if (type() == MessageType::data) [[unlikely]] {
      return unlink_data();
    }
    Message rest(std::exchange(first_->cont, nullptr));
    if (rest) {
      rest.first_->data_bytes = first_->data_bytes;
      rest.first_->first_data = std::exchange(first_->first_data, nullptr);
    }
    first_->data_bytes = first_->data_bytes == Block::facts_unknown ? Block::facts_unknown : 0;
    return rest;
  }
  /// Frees the first block; the message continues with the rest, or is empty.
  void pop_block() {
    const bool of_data = type() == MessageType::data;
    Block* const rest = first_->cont;
    if (of_data && (rest != nullptr || first_->plan != nullptr)) [[unlikely]] {
      *this = unlink_data();
      return;
    }
    if (rest != nullptr) {
      rest->data_bytes = first_->data_bytes;
      rest->first_data = first_->first_data;
    }
    pool().release(std::exchange(first_, rest));
  }

  /// A message that shows the same bytes (of borrowed memory: copies). Empty when the pool is exhausted. (dupmsg)
  [[nodiscard]] Message duplicate();
  /// A message with its own copy of the bytes, block for block, with the headroom of the first. (copymsg)
  [[nodiscard]] Message copy();
  /// Makes the first `size` bytes contiguous in the first block. False when the message holds fewer bytes of the first
  /// block's type, or the pool is exhausted; the message is then unchanged. (pullupmsg)
  [[nodiscard]] bool pull_up(std::size_t size);
  /// A message with its own copy of the bytes, the first `size` of them contiguous in its first block (without `size`:
  /// all of the leading blocks of one type), and the rest block for block. A native descriptor's copy is encoded; this
  /// message keeps its own. Empty when the leading blocks hold fewer bytes, or the pool is exhausted. (msgpullup)
  [[nodiscard]] Message pulled_up(std::optional<std::size_t> size);
  /// Takes `block` out, whose place the blocks behind it take; this message is empty where it was the only one. Empty
  /// where `block` is none of this message's, which is then unchanged. (rmvb)
  [[nodiscard]] Message remove_block(const Block& block);
  /// Removes `size` bytes at the front; emptied blocks are freed, all but the last. REQUIRES: size <= size().
  void trim_front(std::size_t size);
  /// As trim_front(), of the data. REQUIRES: size <= data_size().
  void trim_data_front(std::size_t size) {
    Block* const block = mutable_data_block();
    if (size < block->size() && owing() == nullptr) [[likely]] {
      block->rptr += size;
      first_->data_bytes -= static_cast<std::uint32_t>(size);
    } else {
      trim_data_front_slowly(size);
    }
  }
  /// Removes `size` bytes at the end. REQUIRES: size <= size().
  void trim_back(std::size_t size);
  /// Of the leading blocks of one type, removes bytes at the front (size > 0) or at the end (size < 0). False when
  /// these hold fewer: the message is then unchanged. (adjmsg)
  [[nodiscard]] bool adjust(std::ptrdiff_t size);
  /// Takes off everything behind the first `size` bytes, without copying (the block at the cut is shared), as a message
  /// of the same band. Empty when the pool is exhausted; the message is then unchanged. REQUIRES: size <= size().
  [[nodiscard]] Message split(std::size_t size);
  /// Copies data bytes [offset, offset + out.size()) to `out`, converted as far as that is owed (which runs the stages
  /// over all bytes up to there), but not verified: everything is still owed. False when there are fewer.
  [[nodiscard]] bool copy_data_to(std::size_t offset, Bytes out) const;
  /// Gives every data block that is shared or read-only a private copy of its bytes. False when the pool is exhausted.
  [[nodiscard]] bool make_writable();

  /// Puts the message on a fused path: from here on manipulations join its plan. Without memory for a plan, or without
  /// data, the message stays on the layered path.
  void defer();
  /// The data bytes from `place` on are yet to be copied from `lent`: with all else that is owed or, at the latest,
  /// when the lender completes what is left in `list`. REQUIRES: fused(); nothing is owed; so many bytes of the
  /// first data block.
  void defer_copy(ConstBytes lent, std::byte* place, DeferredCopy*& list) {
    plan()->copy.begin(lent, place, data_block(), list);
  }
  /// As defer_copy(), of `runs`, which follow each other. REQUIRES: the list outlives the loan.
  void defer_copies(std::span<const ConstBytes> runs, std::byte* place, DeferredCopy*& list);
  /// Where the data lies now, in order: in the blocks, and in the user's memory where only the copy is owed. Nothing
  /// when more is owed, or `out` has too little room.
  [[nodiscard]] std::optional<std::size_t> runs(std::span<ConstBytes> out) const;

  /// Reverses each unit of the data. `failed` when the data is not a whole number of units.
  TransformResult transform(const Swap& swap);
  /// Stores the complement of the sum over the data at `sum.field`. REQUIRES: the field may be written: it lies in a
  /// header that the caller has just prepended, or outside the message.
  TransformResult transform(const Sum& sum);
  /// `failed` when the sum over the data is not all ones. When that comes out later, the message is dropped and
  /// `refused`, a counter of `owner`'s, counts it; when it comes out now, that is the caller's business.
  TransformResult transform(const Check& check, const ModuleHandle& owner, Counter& refused);
  /// Runs a stage of the caller's over the data (stack/core/stage.h). `failed` when it refuses the message, or there is
  /// no memory for a private copy; when that comes out later, as for a Check. REQUIRES: as OwnStage says.
  TransformResult transform(const OwnStage& own, const ModuleHandle& owner, Counter& refused);

  /// Whether manipulations are deferred.
  [[nodiscard]] bool fused() const { return plan() != nullptr; }
  /// Whether a check has been deferred: no state may change yet because of this message (see when_verified()).
  [[nodiscard]] bool unverified() const {
    const Plan* const planned = plan();
    return planned != nullptr && planned->check_count > 0;
  }
  /// Whether the bytes are what they should be: nothing is owed.
  [[nodiscard]] bool materialized() const { return owing() == nullptr; }
  /// Whether a copy from the user's memory is owed, and nothing else.
  [[nodiscard]] bool owes_copy_only() const {
    const Plan* const planned = plan();
    return planned != nullptr && planned->copy.source != nullptr && planned->step_count == 0 && !planned->failed;
  }
  /// Whether a deferred check has failed: the message is good for nothing.
  [[nodiscard]] bool failed() const {
    const Plan* const planned = plan();
    return planned != nullptr && planned->failed;
  }
  /// Carries out what is still owed: in place where the bytes may be written, else into memory of our own.
  TransformResult materialize() { return carry_out(false); }
  /// As materialize(), and whatever was borrowed is memory of our own then: for who keeps a message beyond the call it
  /// came in.
  TransformResult keep() { return carry_out(true); }
  /// As that; and where all of the data is still to be copied from the user's memory, the same pass sums the stretches,
  /// and the buffer remembers these sums (KnownSums). REQUIRES: 0 < first <= each.
  TransformResult keep(const Stretches& stretches);
  /// Makes a frame of the data: carries out what is owed and, where memory is borrowed or read-only bytes must be
  /// converted, puts everything into one new block in that same pass. A frame owes nothing any more: it is on the
  /// layered path. `failed`: a check, or no memory.
  TransformResult gather();
  /// Carries out what is owed on the way to `places`, filled one after the other; the message's own bytes are not to be
  /// used afterwards, and it is on the layered path. REQUIRES: the places have room for the data.
  TransformResult land(std::span<const Bytes> places);
  /// As land(), and sums[i] is the sum of the bytes that have come to lie in places[i]: taken in the same pass, where
  /// nothing is owed but copies and a conversion. REQUIRES: as many sums as places.
  TransformResult land_summed(std::span<const Bytes> places, std::span<std::uint16_t> sums);

  /// Runs `change`, a change of `owner`'s protocol state, once the bytes are known to be good: at once unless a check
  /// has been deferred; never if `owner` is gone by then. REQUIRES: what it captures is trivially copyable and small.
  template <class Change>
  void when_verified(const ModuleHandle& owner, Change change) {
    static_assert(std::is_trivially_copyable_v<Change> && sizeof(Change) <= PlannedChange::captured_bytes_max);
    if (!unverified()) {
      if (!failed()) {
        change();
      }
    } else if (PlannedChange* const planned = plan_change(owner)) {
      new (planned->captured.data()) Change(change);
      planned->run = [](const std::byte* captured) { (*std::launder(reinterpret_cast<const Change*>(captured)))(); };
    } else if (materialize() == TransformResult::done) {
      change();
    }
  }

  /// The internet checksum's partial sum over the data (ilp::sum across blocks). Loads the data where its sum is not
  /// known (KnownSums).
  [[nodiscard]] std::uint16_t data_sum() const;

 private:
  friend class Batch;
  static void free_chain(Block* block);
  [[nodiscard]] Block* mutable_data_block() const { return const_cast<Block*>(data_block()); }
  void forget_facts() const { first_->data_bytes = Block::facts_unknown; }
  void count_facts() const;
  template <class Native>
  void become_native(const Native& value) {
    static_assert(sizeof(Native) <= BufferPool::capacity_max);
    Block& block = *first_;
    new (block.buffer->base()) Native(value);
    block.rptr = block.wptr = block.buffer->base();
    block.codec = &Native::codec;
  }
  void encode_native();
  void link_slowly(Message tail);
  [[nodiscard]] Message unlink_data();
  [[nodiscard]] bool replace_first_block(std::size_t capacity);
  [[nodiscard]] Bytes prepend_data_block(std::size_t size);
  void trim_data_front_slowly(std::size_t size);
  void drop_front(std::size_t size);
  [[nodiscard]] Plan* plan() const {
    const Block* const block = data_block();
    return block == nullptr ? nullptr : block->plan;
  }
  /// The plan, if it owes anything or has failed.
  [[nodiscard]] Plan* owing() const {
    Plan* const planned = plan();
    return planned != nullptr && (planned->owes() || planned->failed) ? planned : nullptr;
  }
  /// Takes the plan off its block, for another first data block.
  [[nodiscard]] Plan* take_plan() {
    Block* const block = mutable_data_block();
    return block == nullptr ? nullptr : std::exchange(block->plan, nullptr);
  }
  TransformResult end_plan();
  [[nodiscard]] bool is_all_lent() const;
  bool pass_to(Plan* plan, std::span<const Bytes> places);
  [[nodiscard]] bool lies_in_one_writable_block() const;
  /// Where a new step goes; nullptr when it is to be carried out now.
  [[nodiscard]] PlannedStep* plan_step(PlannedStep::Kind kind);
  [[nodiscard]] PlannedChange* plan_change(const ModuleHandle& owner);
  void complete_copy();
  void place_field(PlannedStep& step, std::byte* field) const;
  void materialize_before_cut();
  void take_over(Plan& ended);
  void plan_trimmed(std::size_t trimmed);
  TransformResult swap_any(const Swap& swap);
  TransformResult carry_out(bool keep);
  TransformResult gather_into_frame();
  TransformResult carry_out_copying(Plan* plan, bool converted, bool keep);
  bool own_blocks(bool borrowed);

  Block* first_ = nullptr;
};

/// Messages linked through `next`: what put procedures take, so that one virtual call serves many. Owns them; FIFO.
class Batch {
 public:
  Batch() = default;
  explicit Batch(Message message) { push(std::move(message)); }
  Batch(Batch&& other) noexcept
      : first_(std::exchange(other.first_, nullptr)),
        last_(std::exchange(other.last_, nullptr)),
        count_(std::exchange(other.count_, 0)) {}
  Batch& operator=(Batch&& other) noexcept {
    if (this != &other) {
      clear();
      first_ = std::exchange(other.first_, nullptr);
      last_ = std::exchange(other.last_, nullptr);
      count_ = std::exchange(other.count_, 0);
    }
    return *this;
  }
  ~Batch() { clear(); }

  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  [[nodiscard]] std::size_t size() const { return count_; }

  /// Appends. REQUIRES: message is not empty.
  void push(Message message) {
    Block* block = std::exchange(message.first_, nullptr);
    block->next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = block;
    last_ = block;
    ++count_;
  }
  /// Puts `message` in front.
  void push_front(Message message) {
    Block* block = std::exchange(message.first_, nullptr);
    block->next = first_;
    first_ = block;
    last_ = last_ == nullptr ? block : last_;
    ++count_;
  }
  /// Puts `message` just before `before`, or at the end where that is nullptr. REQUIRES: `before` is of this batch.
  void insert(const Block* before, Message message);
  /// Takes `message` out. REQUIRES: it is of this batch.
  [[nodiscard]] Message remove(const Block& message);
  /// Takes the first message; empty when there is none.
  [[nodiscard]] Message pop() {
    Block* block = first_;
    if (block != nullptr) {
      first_ = std::exchange(block->next, nullptr);
      last_ = first_ == nullptr ? nullptr : last_;
      --count_;
    }
    return Message(block);
  }
  /// Appends all of `other`.
  void splice(Batch other) {
    if (other.empty()) {
      return;
    }
    (first_ == nullptr ? first_ : last_->next) = other.first_;
    last_ = other.last_;
    count_ += other.count_;
    other.first_ = other.last_ = nullptr;
    other.count_ = 0;
  }
  [[nodiscard]] Block* front() const { return first_; }
  /// Whether a message of `type` is among them.
  [[nodiscard]] bool has(MessageType type) const {
    const Block* message = first_;
    while (message != nullptr && message->type != type) {
      message = message->next;
    }
    return message != nullptr;
  }
  /// Calls `keep(message)` with each message in turn, which may change it. Where the answer is false, or `keep` has
  /// taken the message, it leaves the batch. REQUIRES: nobody else uses the batch meanwhile.
  template <class Keep>
  void retain(Keep keep) {
    const Batch none = retain_until([&keep](Message& message) { return keep(message) ? Step::keep : Step::drop; });
  }
  /// What becomes of a message that retain_until() shows: it stays, it leaves, or the walk ends before it.
  enum class Step : std::uint8_t { keep, drop, stop };
  /// As retain(), in front of the first message for which `step` answers `stop`, and that has been left as it was: this
  /// one and those behind it leave the batch, and are the answer. So a module does in one walk what it does to most
  /// messages, and what came before another kind of message can go before it.
  template <class StepOf>
  [[nodiscard]] Batch retain_until(StepOf step) {
    Block** link = &first_;
    Block* last = nullptr;
    Block* block = first_;
    Step taken = Step::keep;
    while (block != nullptr) {
      Block* const next = block->next;
      Message message(block);
      taken = step(message);
      if (taken == Step::stop) [[unlikely]] {
        message.first_ = nullptr;
        break;
      }
      if (taken == Step::keep && message) [[likely]] {
        last = *link = std::exchange(message.first_, nullptr);
        link = &last->next;
      } else {
        --count_;
      }
      block = next;
    }
    *link = nullptr;
    Block* const end = std::exchange(last_, last);
    return taken == Step::stop ? cut(block, end) : Batch();
  }
  void clear() {
    if (Block* const all = std::exchange(first_, nullptr)) {
      last_ = nullptr;
      count_ = 0;
      free_all(all);
    }
  }

 private:
  static void free_all(Block* first);
  [[nodiscard]] Batch cut(Block* first, Block* last);

  Block* first_ = nullptr;
  Block* last_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace sluice
