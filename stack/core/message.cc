// SPDX-License-Identifier: Apache-2.0
#include "stack/core/message.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/contract.h"
#include "ilp/kernels.h"
#include "stack/core/pass.h"

namespace sluice {
namespace {

/// Counts `size` bytes copied to `block`; of headers and primitives nobody keeps count.
void count_copy(const Block& block, std::size_t size) {
  if (block.type == MessageType::data) {
    block.buffer->pool().touches().add(size, size);
  }
}

/// Room for the headers that layers below will want, too.
constexpr std::size_t headroom_of_new_block = 64;

/// The last block of a chain.
Block* last_of(Block* block) {
  while (block->cont != nullptr) {
    block = block->cont;
  }
  return block;
}

/// A native descriptor's own copy, which it always gets: the holder of one may edit it.
Block* copy_native(const Block& block) {
  Block* copy = block.buffer->pool().allocate(block.buffer->capacity());
  if (copy != nullptr) {
    copy->type = block.type;
    copy->band = block.band;
    copy->codec = block.codec;
    std::memcpy(copy->buffer->base(), block.buffer->base(), block.codec->native_size);
  }
  return copy;
}

/// A private copy of one block, with its headroom and what is there: headers may be gone back to. nullptr when the pool
/// is exhausted.
Block* copy_block(const Block& block) {
  if (block.codec != nullptr) {
    return copy_native(block);
  }
  const auto headroom = static_cast<std::size_t>(block.rptr - block.buffer->base());
  Block* copy = block.buffer->pool().allocate(headroom + block.size());
  if (copy != nullptr) {
    copy->rptr += headroom;
    copy->wptr = copy->rptr + block.size();
    copy->type = block.type;
    copy->band = block.band;
    ilp::copy(ConstBytes(block.buffer->base(), block.wptr), Bytes(copy->buffer->base(), copy->wptr));
    count_copy(*copy, block.size());
  }
  return copy;
}

/// Another block that shows the same bytes; of borrowed ones, which one block only may show, and of native descriptors
/// a copy.
Block* duplicate_block(const Block& block) {
  const bool alone = block.buffer->borrowed() || block.codec != nullptr;
  return alone ? copy_block(block) : block.buffer->pool().duplicate(block);
}

/// A chain of what `clone` makes of each block; empty when one could not be made.
template <class Clone>
Message clone_chain(const Block* block, Clone clone) {
  Message result;
  for (; block != nullptr; block = block->cont) {
    Message cloned(clone(*block));
    if (!cloned) {
      return {};
    }
    if (result) {
      result.link(std::move(cloned));
    } else {
      result = std::move(cloned);
    }
  }
  return result;
}

/// The same of a message, on the path that it is on. Materializes it.
template <class Clone>
Message clone_of(Message& message, Clone clone) {
  Message cloned = message.materialize() == TransformResult::failed ? Message() : clone_chain(&message.first(), clone);
  if (cloned && message.fused()) {
    cloned.defer();
  }
  return cloned;
}

}  // namespace

Message Message::copy_of(BufferPool& pool, ConstBytes bytes, std::size_t headroom, MessageType type,
                         std::size_t block_bytes_max) {
  SLUICE_REQUIRE(block_bytes_max > 0);
  Message message;
  do {
    const std::size_t space = message ? 0 : headroom;
    const std::size_t part = std::min(bytes.size(), std::min(block_bytes_max, BufferPool::capacity_max - space));
    Message next = allocate(pool, part, space, type);
    if (!next) {
      return {};
    }
    next.first_->wptr += part;
    ilp::copy(bytes.first(part), next.bytes());
    count_copy(*next.first_, part);
    bytes = bytes.subspan(part);
    if (message) {
      message.link(std::move(next));
    } else {
      message = std::move(next);
    }
  } while (!bytes.empty());
  return message;
}

void Message::free_chain(Block* block) {
  while (block != nullptr) {
    Block* rest = block->cont;
    block->buffer->pool().release(block);
    block = rest;
  }
}

void Message::count_facts() const {
  Block* block = first_;
  while (block != nullptr && block->type != MessageType::data) {
    block = block->cont;
  }
  first_->first_data = block;
  std::size_t bytes = 0;
  for (; block != nullptr; block = block->cont) {
    SLUICE_REQUIRE(block->type == MessageType::data);
    bytes += block->size();
  }
  SLUICE_REQUIRE(bytes < Block::facts_unknown);
  first_->data_bytes = static_cast<std::uint32_t>(bytes);
}

/// There is room: a native descriptor's buffer holds its encoded form, too, and shows it to nobody else.
void Message::encode_native() {
  constexpr std::size_t native_size_max = 256;
  const Codec& codec = *std::exchange(first_->codec, nullptr);
  SLUICE_REQUIRE(codec.native_size <= native_size_max);
  std::array<std::byte, native_size_max> native;
  std::memcpy(native.data(), first_->buffer->base(), codec.native_size);
  first_->wptr = first_->rptr + codec.encode(native.data(), {first_->buffer->base(), first_->buffer->capacity()});
}

/// A first block of `capacity` and no bytes in the place of the one that is there.
bool Message::replace_first_block(std::size_t capacity) {
  Block* const fresh = pool().allocate(capacity);
  if (fresh == nullptr) {
    return false;
  }
  fresh->type = first_->type;
  fresh->band = first_->band;
  fresh->next = first_->next;
  fresh->cont = first_->cont;
  fresh->first_data = first_->first_data;
  fresh->data_bytes = first_->data_bytes;
  pool().release(std::exchange(first_, fresh));
  return true;
}

std::size_t Message::block_count() const {
  std::size_t count = 0;
  for (const Block* block = first_; block != nullptr; block = block->cont) {
    ++count;
  }
  return count;
}

Bytes Message::prepend(std::size_t size) {
  if (type() == MessageType::data) {
    return prepend_data(size);
  }
  encode();
  const auto headroom = static_cast<std::size_t>(first_->rptr - first_->buffer->base());
  if (headroom >= size && first_->buffer->writable()) {
    first_->rptr -= size;
    return {first_->rptr, size};
  }
  Message header = allocate(pool(), size, headroom_of_new_block, type());
  if (!header) {
    return {};
  }
  header.first_->wptr += size;
  header.first_->band = band();
  header.first_->cont = release();
  first_ = header.release();
  return {first_->rptr, size};
}

/// In a new block.
Bytes Message::prepend_data_block(std::size_t size) {
  Block* const header = pool().allocate(headroom_of_new_block + size);
  if (header == nullptr) {
    return {};
  }
  header->rptr += headroom_of_new_block;
  header->wptr = header->rptr + size;
  header->band = band();
  forget_facts();
  Block** at = &first_;
  while ((*at)->type != MessageType::data) {
    at = &(*at)->cont;
  }
  header->plan = std::exchange((*at)->plan, nullptr);
  header->cont = std::exchange(*at, header);
  return {header->rptr, size};
}

Bytes Message::append(std::size_t size) {
  materialize_before_cut();
  Block* end = last_of(first_);
  if (end == first_) {
    encode();
  }
  forget_facts();
  if (static_cast<std::size_t>(end->buffer->limit() - end->wptr) >= size && end->buffer->writable()) {
    end->wptr += size;
    return {end->wptr - size, size};
  }
  Message more = allocate(pool(), size, 0, end->type);
  if (!more) {
    return {};
  }
  more.first_->wptr += size;
  end->cont = more.release();
  return end->cont->bytes();
}

void Message::link_slowly(Message tail) {
  if (has_data() && tail.has_data()) {
    materialize_before_cut();
    tail.materialize_before_cut();
    if (Plan* const ended = tail.take_plan()) {
      take_over(*ended);
    }
  }
  const std::size_t bytes = data_size() + tail.data_size();
  if (!has_data()) {
    first_->first_data = tail.first_->first_data;
  }
  first_->data_bytes = static_cast<std::uint32_t>(bytes);
  last_of(first_)->cont = tail.release();
}

Message Message::unlink_data() {
  materialize_before_cut();
  if (failed()) {
    return {};  // what is behind would not know
  }
  forget_facts();
  return Message(std::exchange(first_->cont, nullptr));
}

bool Message::become(ConstBytes bytes, MessageType type) {
  const Buffer& buffer = *first_->buffer;
  if (first_->plan != nullptr || !buffer.writable() || !buffer.pooled() || buffer.capacity() < bytes.size()) {
    return false;
  }
  Block& block = first();
  if (Block* const rest = std::exchange(block.cont, nullptr)) {
    free_chain(rest);
  }
  block.codec = nullptr;
  block.rptr = buffer.base();
  block.wptr = std::copy(bytes.begin(), bytes.end(), block.rptr);
  block.type = type;
  block.band = 0;
  return true;
}

Message Message::duplicate() { return clone_of(*this, duplicate_block); }

Message Message::copy() { return clone_of(*this, copy_block); }

bool Message::pull_up(std::size_t size) {
  complete_copy();
  if (first_->size() >= size) {
    return true;
  }
  encode();
  std::size_t available = 0;
  for (const Block* block = first_; block != nullptr && block->type == type(); block = block->cont) {
    available += block->size();
  }
  if (available < size) {
    return false;
  }
  const auto headroom = static_cast<std::size_t>(first_->rptr - first_->buffer->base());
  Message gathered = allocate(pool(), size, headroom, type());
  if (!gathered) {
    return false;
  }
  ilp::copy(ConstBytes(first_->buffer->base(), headroom), Bytes(gathered.first_->buffer->base(), headroom));
  gathered.first_->band = band();
  if (type() == MessageType::data) {
    gathered.first_->plan = take_plan();
  }
  while (gathered.first_->size() < size) {
    const std::size_t part = std::min(first_->size(), size - gathered.first_->size());
    ilp::copy(ConstBytes(first_->rptr, part), Bytes(gathered.first_->wptr, part));
    gathered.first_->wptr += part;
    first_->rptr += part;
    if (first_->size() == 0) {
      pop_block();
    }
    if (first_ == nullptr) {
      break;
    }
  }
  gathered.first_->cont = first_ == nullptr ? nullptr : release();
  gathered.forget_facts();
  *this = std::move(gathered);
  return true;
}

/// msgpullup(9F): "concatenates and aligns the first len data bytes of the message pointed to by mp, copying the data
/// into a new message. Any remaining bytes in the remaining message blocks will be copied and linked onto the new
/// message. The original message is unaltered. If len equals -1, all data are concatenated. If len bytes of the same
/// message type cannot be found, msgpullup() fails and returns NULL."
Message Message::pulled_up(std::optional<std::size_t> size) {
  if (materialize() == TransformResult::failed) {
    return {};
  }
  Message encoded;  // of the native descriptor, which this message keeps
  if (first_->codec != nullptr) {
    encoded = Message(copy_native(*first_));
    if (!encoded) {
      return {};
    }
    encoded.encode();
  }
  const Block* const start = encoded ? encoded.first_ : first_;
  std::size_t leading = start->size();
  const Block* behind = first_->cont;  // of the blocks that lead
  for (; behind != nullptr && behind->type == type(); behind = behind->cont) {
    leading += behind->size();
  }
  std::size_t left = size.value_or(leading);
  const auto headroom = static_cast<std::size_t>(start->rptr - start->buffer->base());
  Message result = left > leading ? Message() : allocate(pool(), left, headroom, type());
  if (!result) {
    return {};
  }
  result.first_->band = band();
  count_copy(*result.first_, left);
  bool leads = true;
  for (const Block* block = start; block != nullptr; block = block == start ? first_->cont : block->cont) {
    leads = leads && block != behind;
    const std::size_t part = leads ? std::min(left, block->size()) : 0;
    ilp::copy(ConstBytes(block->rptr, part), Bytes(result.first_->wptr, part));
    result.first_->wptr += part;
    left -= part;
    const bool consumed = leads && part == block->size() && (part > 0 || left > 0 || block == start || !size);
    Message rest = consumed ? Message() : copy_of(pool(), block->bytes().subspan(part), 0, block->type);
    if (!consumed && !rest) {
      return {};
    }
    if (rest) {
      rest.first_->band = block->band;
      result.link(std::move(rest));
    }
  }
  if (fused()) {
    result.defer();
  }
  return result;
}

/// rmvb(9F): "removes a message block (bp) from a message (mp) [...]. The message block is not freed, merely removed
/// from the message. It is the module or driver's responsibility to free the message block."
Message Message::remove_block(const Block& block) {
  std::size_t index = 0;
  const Block* at = first_;
  for (; at != nullptr && at != &block; at = at->cont) {
    ++index;
  }
  if (at == nullptr) {
    return {};
  }
  if (block.type == MessageType::data) {
    materialize_before_cut();
    if (failed()) {
      return {};  // the cut might take away the only block that knows
    }
  }
  forget_facts();
  Block** link = &first_;  // what is owed may have been carried out to another block than `block`
  for (; index > 0; --index) {
    link = &(*link)->cont;
  }
  Message removed(std::exchange(*link, (*link)->cont));
  removed.first_->cont = nullptr;
  removed.forget_facts();
  if (Block* const rest = *link; rest != nullptr) {
    if (removed.first_->plan != nullptr) {  // it owes nothing, and says that the data is on a fused path
      std::swap(removed.first_->plan, rest->plan);
    }
    if (rest == first_) {
      rest->next = std::exchange(removed.first_->next, nullptr);
      rest->band = is_high_priority(rest->type) ? std::uint8_t{0} : removed.band();
    }
  }
  if (first_ != nullptr) {
    forget_facts();
  }
  return removed;
}

void Message::trim_data_front_slowly(std::size_t size) {
  if (owing() != nullptr) {
    plan_trimmed(size);
  }
  if (Block* const block = mutable_data_block(); size < block->size()) {
    block->rptr += size;
    first_->data_bytes -= static_cast<std::uint32_t>(size);
    return;
  }
  if (type() == MessageType::data) {
    return drop_front(size);
  }
  Block* last = first_;  // the protocol blocks in front are put aside
  while (last->cont->type != MessageType::data) {
    last = last->cont;
  }
  Message data(std::exchange(last->cont, nullptr));
  data.drop_front(size);
  last->cont = data.release();
  forget_facts();
}

void Message::trim_front(std::size_t size) {
  if (size == 0) {
    return;
  }
  encode();
  if (owing() != nullptr) {
    const std::size_t control = this->size() - data_size();
    plan_trimmed(size - std::min(size, control));
  }
  drop_front(size);
}

/// Of which the plan knows already.
void Message::drop_front(std::size_t size) {
  forget_facts();
  while (size > 0) {
    const std::size_t part = std::min(size, first_->size());
    first_->rptr += part;
    size -= part;
    if (first_->size() == 0 && first_->cont != nullptr) {
      first_->cont->band = first_->band;
      Plan* const kept = std::exchange(first_->plan, nullptr);
      *this = Message(std::exchange(first_->cont, nullptr));
      if (kept != nullptr) {
        // Data that was linked behind by hand may have brought a plan of its own, which owes nothing.
        if (Plan* const idle = std::exchange(first_->plan, kept)) {
          pool().release(idle);
        }
      }
    } else {
      SLUICE_REQUIRE(size == 0);
    }
  }
}

void Message::trim_back(std::size_t size) {
  if (size == 0) {
    return;
  }
  materialize_before_cut();
  if (failed()) {
    return;  // the cut might take away the only block that knows
  }
  const bool of_data = size <= data_size();
  if (!of_data) {
    encode();
  }
  const std::size_t total = of_data ? data_size() : this->size();
  SLUICE_REQUIRE(size <= total);
  std::size_t keep = total - size;
  Block* const from = of_data ? mutable_data_block() : first_;
  forget_facts();
  for (Block* block = from;; block = block->cont) {
    if (block->size() >= keep) {
      block->wptr = block->rptr + keep;
      Message cut(std::exchange(block->cont, nullptr));
      return;
    }
    keep -= block->size();
  }
}

/// adjmsg(9F): "The adjmsg() function finds the maximal leading sequence of message blocks of the same type as that of
/// mp and starts removing bytes either from the head of that sequence or from the tail of that sequence."
bool Message::adjust(std::ptrdiff_t size) {
  encode();
  const bool at_front = size > 0;
  std::size_t left = static_cast<std::size_t>(at_front ? size : -size);
  const bool of_data = type() == MessageType::data;
  const std::size_t there = of_data ? data_size() : this->size() - data_size();
  if (left > there) {
    return false;
  }
  if (of_data) {
    at_front ? trim_front(left) : trim_back(left);
    return true;
  }
  // The primitive stays in front of its data, if only as an empty block.
  std::size_t keep = there - left;
  for (Block* block = first_; block != nullptr && block->type != MessageType::data; block = block->cont) {
    const std::size_t part = at_front ? std::min(left, block->size()) : block->size() - std::min(keep, block->size());
    keep -= at_front ? 0 : block->size() - part;
    left -= at_front ? part : 0;
    block->rptr += at_front ? part : 0;
    block->wptr -= at_front ? 0 : part;
  }
  return true;
}

Message Message::split(std::size_t size) {
  if (keep() == TransformResult::failed) {
    return {};
  }
  encode();
  Block* block = first_;
  while (size > block->size()) {
    size -= block->size();
    SLUICE_REQUIRE(block->cont != nullptr);
    block = block->cont;
  }
  const bool between_blocks = size == block->size() && block->cont != nullptr;
  Message rest(between_blocks ? std::exchange(block->cont, nullptr) : duplicate_block(*block));
  if (!rest) {
    return rest;
  }
  rest.first_->band = band();
  if (plan() != nullptr) {
    rest.defer();
  }
  if (!between_blocks) {
    rest.first_->rptr += size;
    rest.first_->cont = std::exchange(block->cont, nullptr);
    block->wptr = block->rptr + size;
  }
  forget_facts();
  rest.forget_facts();
  return rest;
}

bool Message::copy_data_to(std::size_t offset, Bytes out) const {
  if (const Plan* const plan = owing(); plan != nullptr && (plan->converts() || plan->copy.source != nullptr)) {
    const bool present = offset + out.size() <= data_size();
    if (present) {
      pass_over_front(*plan, first_, data_size(), offset, out);
    }
    return present;
  }
  for (const Block* block = first_; block != nullptr && !out.empty(); block = block->cont) {
    if (block->type != MessageType::data) {
      continue;
    }
    if (offset >= block->size()) {
      offset -= block->size();
      continue;
    }
    const std::size_t part = std::min(out.size(), block->size() - offset);
    ilp::copy(ConstBytes(block->rptr + offset, part), out.first(part));
    out = out.subspan(part);
    offset = 0;
  }
  return out.empty();
}

void Batch::free_all(Block* first) {
  while (first != nullptr) {
    Message::free_chain(std::exchange(first, first->next));
  }
}

/// The messages from `first` to `last`, which are no longer linked to this batch but still counted.
Batch Batch::cut(Block* first, Block* last) {
  Batch rest;
  rest.first_ = first;
  rest.last_ = last;
  for (; first != nullptr; first = first->next) {
    ++rest.count_;
    --count_;
  }
  return rest;
}

void Batch::insert(const Block* before, Message message) {
  if (before == nullptr) {
    return push(std::move(message));
  }
  Block** link = &first_;
  while (*link != before) {
    SLUICE_REQUIRE(*link != nullptr);
    link = &(*link)->next;
  }
  Block* const block = std::exchange(message.first_, nullptr);
  block->next = *link;
  *link = block;
  ++count_;
}

Message Batch::remove(const Block& message) {
  Block** link = &first_;
  Block* previous = nullptr;
  while (*link != &message) {
    SLUICE_REQUIRE(*link != nullptr);
    previous = *link;
    link = &previous->next;
  }
  Block* const block = *link;
  *link = std::exchange(block->next, nullptr);
  last_ = last_ == block ? previous : last_;
  --count_;
  return Message(block);
}

bool Message::make_writable() { return own_blocks(false); }

/// Gives data blocks that cannot be written, and `borrowed` ones where asked, a private copy of their bytes.
bool Message::own_blocks(bool borrowed) {
  complete_copy();
  for (Block** at = &first_; *at != nullptr; at = &(*at)->cont) {
    const Buffer& shown = *(*at)->buffer;
    if ((*at)->type != MessageType::data || (shown.writable() && !(borrowed && shown.borrowed()))) {
      continue;
    }
    Plan* const plan = std::exchange((*at)->plan, nullptr);
    Block* copy = copy_block(**at);
    (copy == nullptr ? *at : copy)->plan = plan;
    if (copy == nullptr) {
      return false;
    }
    copy->next = (*at)->next;
    copy->cont = (*at)->cont;
    forget_facts();
    std::swap(*at, copy);
    copy->buffer->pool().release(copy);
  }
  return true;
}

}  // namespace sluice
