// SPDX-License-Identifier: Apache-2.0
#include "stack/core/reader_place.h"

#include <algorithm>

#include "base/contract.h"

namespace sluice {

void ReaderPlace::open(Bytes place) {
  close();
  place_ = place;
}

void ReaderPlace::close() {
  while (!shown_.empty()) {
    pool_.reclaim(*shown_.back());  // which gives it back
  }
  place_ = {};
  filled_ = passed_ = 0;
}

Message ReaderPlace::take_room(std::size_t size) {
  SLUICE_REQUIRE(size <= room().size());
  Block* const block = pool_.borrow(room().first(size), false, &given_back, this);
  if (block != nullptr) {
    shown_.push_back(block);
    filled_ += size;
  }
  return Message(block);
}

Message ReaderPlace::take_room_for(std::size_t size) {
  const bool may_be_small = filled_ > 0 && shown_.size() < small_shown_max;
  const bool worth_it = size > (may_be_small ? 0 : small_bytes_max) && size <= room().size();
  return worth_it ? take_room(size) : Message();
}

bool ReaderPlace::pass(const Message& message) {
  const std::byte* const begin = place_.data() + passed_;
  for (const Block* block = message.data_block(); block != nullptr; block = block->cont) {
    if (block->rptr != place_.data() + passed_ || block->size() > waiting()) {
      end_room();
      break;
    }
    passed_ += block->size();
  }
  return begin != place_.data() + passed_;
}

void ReaderPlace::given_back(void* self, ConstBytes memory) {
  std::erase_if(static_cast<ReaderPlace*>(self)->shown_,
                [memory](const Block* block) { return block->buffer->base() == memory.data(); });
}

}  // namespace sluice
