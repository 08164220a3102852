// SPDX-License-Identifier: Apache-2.0
#include "stack/core/message.h"

#include <algorithm>
#include <array>

#include "base/contract.h"
#include "ilp/kernels.h"

namespace sluice {
namespace {

/// A private copy of one block, with its headroom; nullptr when the pool is exhausted.
Block* copy_block(const Block& block) {
  const auto headroom = static_cast<std::size_t>(block.rptr - block.buffer->base());
  Block* copy = block.buffer->pool().allocate(headroom + block.size());
  if (copy != nullptr) {
    copy->rptr += headroom;
    copy->wptr = copy->rptr + block.size();
    copy->type = block.type;
    copy->band = block.band;
    copy->flags = block.flags;
    ilp::copy(block.bytes(), copy->bytes());
  }
  return copy;
}

Block* duplicate_block(const Block& block) { return block.buffer->pool().duplicate(block); }

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

}  // namespace

Message Message::allocate(BufferPool& pool, std::size_t capacity, std::size_t headroom, MessageType type) {
  Block* block = pool.allocate(headroom + capacity);
  if (block != nullptr) {
    block->rptr += headroom;
    block->wptr = block->rptr;
    block->type = type;
  }
  return Message(block);
}

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
    bytes = bytes.subspan(part);
    if (message) {
      message.link(std::move(next));
    } else {
      message = std::move(next);
    }
  } while (!bytes.empty());
  return message;
}

void Message::free_chain() {
  Block* block = std::exchange(first_, nullptr);
  while (block != nullptr) {
    Block* rest = block->cont;
    block->buffer->pool().release(block);
    block = rest;
  }
}

std::size_t Message::size() const {
  std::size_t total = 0;
  for (const Block* block = first_; block != nullptr; block = block->cont) {
    total += block->size();
  }
  return total;
}

std::size_t Message::data_size() const {
  std::size_t total = 0;
  for (const Block* block = first_; block != nullptr; block = block->cont) {
    total += block->type == MessageType::data ? block->size() : 0;
  }
  return total;
}

std::size_t Message::block_count() const {
  std::size_t count = 0;
  for (const Block* block = first_; block != nullptr; block = block->cont) {
    ++count;
  }
  return count;
}

Block* Message::data_block() {
  Block* block = first_;
  while (block != nullptr && block->type != MessageType::data) {
    block = block->cont;
  }
  return block;
}

Block* Message::last() const {
  Block* block = first_;
  while (block->cont != nullptr) {
    block = block->cont;
  }
  return block;
}

Bytes Message::prepend(std::size_t size) {
  const auto headroom = static_cast<std::size_t>(first_->rptr - first_->buffer->base());
  if (headroom >= size && first_->buffer->writable()) {
    first_->rptr -= size;
    return {first_->rptr, size};
  }
  // Room for the headers that layers below will want, too.
  constexpr std::size_t headroom_of_new_block = 64;
  Message header = allocate(pool(), size, headroom_of_new_block, type());
  if (!header) {
    return {};
  }
  header.first_->wptr += size;
  header.first_->band = band();
  header.first_->flags = first_->flags;
  header.first_->cont = first_;
  first_ = header.release();
  return {first_->rptr, size};
}

Bytes Message::append(std::size_t size) {
  Block* end = last();
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

void Message::link(Message tail) { last()->cont = tail.release(); }

Message Message::unlink() { return Message(std::exchange(first_->cont, nullptr)); }

void Message::pop_block() {
  Message rest = unlink();
  *this = std::move(rest);
}

Message Message::duplicate() const { return clone_chain(first_, duplicate_block); }

Message Message::copy() const { return clone_chain(first_, copy_block); }

bool Message::pull_up(std::size_t size) {
  if (first_->size() >= size) {
    return true;
  }
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
  gathered.first_->band = band();
  gathered.first_->flags = first_->flags;
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
  gathered.first_->cont = release();
  *this = std::move(gathered);
  return true;
}

void Message::trim_front(std::size_t size) {
  while (size > 0) {
    const std::size_t part = std::min(size, first_->size());
    first_->rptr += part;
    size -= part;
    if (first_->size() == 0 && first_->cont != nullptr) {
      first_->cont->band = first_->band;
      first_->cont->flags = first_->flags;
      pop_block();
    } else {
      SLUICE_REQUIRE(size == 0);
    }
  }
}

void Message::trim_back(std::size_t size) {
  const std::size_t total = this->size();
  SLUICE_REQUIRE(size <= total);
  std::size_t keep = total - size;
  for (Block* block = first_;; block = block->cont) {
    if (block->size() >= keep) {
      block->wptr = block->rptr + keep;
      Message cut(std::exchange(block->cont, nullptr));
      return;
    }
    keep -= block->size();
  }
}

Message Message::split(std::size_t size) {
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
  if (!between_blocks) {
    rest.first_->rptr += size;
    rest.first_->cont = std::exchange(block->cont, nullptr);
    block->wptr = block->rptr + size;
  }
  return rest;
}

bool Message::copy_data_to(std::size_t offset, Bytes out) const {
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

bool Message::make_writable() {
  for (Block** at = &first_; *at != nullptr; at = &(*at)->cont) {
    if ((*at)->type != MessageType::data || (*at)->buffer->writable()) {
      continue;
    }
    Block* copy = copy_block(**at);
    if (copy == nullptr) {
      return false;
    }
    copy->next = (*at)->next;
    copy->cont = (*at)->cont;
    std::swap(*at, copy);
    copy->buffer->pool().release(copy);
  }
  return true;
}

Verdict Message::transform(const Swap& swap) {
  if (data_size() % swap.unit != 0 || !make_writable()) {
    return Verdict::failed;
  }
  // A unit may straddle blocks. `straddling` gathers where its bytes lie until it is whole.
  std::array<std::byte*, 8> straddling{};
  std::size_t gathered = 0;
  for (Block* block = first_; block != nullptr; block = block->cont) {
    if (block->type != MessageType::data) {
      continue;
    }
    std::byte* at = block->rptr;
    while (gathered != 0 && at != block->wptr) {
      straddling[gathered++] = at++;
      if (gathered == swap.unit) {
        for (std::size_t i = 0; i < swap.unit / 2; ++i) {
          std::swap(*straddling[i], *straddling[swap.unit - 1 - i]);
        }
        gathered = 0;
      }
    }
    const auto whole = static_cast<std::size_t>(block->wptr - at) / swap.unit * swap.unit;
    ilp::swap(swap.unit, {at, whole});
    for (at += whole; gathered < swap.unit && at != block->wptr; ++at) {
      straddling[gathered++] = at;
    }
  }
  return Verdict::done;
}

std::uint16_t Message::data_sum() const {
  std::uint16_t total = 0;
  bool odd = false;
  for (const Block* block = first_; block != nullptr; block = block->cont) {
    if (block->type == MessageType::data) {
      total = ilp::sum_add(total, odd ? ilp::sum_at_odd_offset(block->bytes()) : ilp::sum(block->bytes()));
      odd ^= block->size() % 2 != 0;
    }
  }
  return total;
}

Verdict Message::transform(const Sum& sum) {
  auto checksum = static_cast<std::uint16_t>(~ilp::sum_add(sum.initial, data_sum()));
  if (checksum == 0 && sum.zero_is_sent_as_ones) {
    checksum = 0xffff;
  }
  std::memcpy(sum.field, &checksum, sizeof checksum);
  return Verdict::done;
}

Verdict Message::transform(const Check& check) {
  return ilp::sum_add(check.initial, data_sum()) == 0xffff ? Verdict::done : Verdict::failed;
}

}  // namespace sluice
