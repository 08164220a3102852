// SPDX-License-Identifier: Apache-2.0
#include "stack/head/loan.h"

#include <algorithm>
#include <cstring>

namespace sluice {

Loan::~Loan() {
  while (owed_ != nullptr) {
    pool_.complete(*owed_);
  }
}

namespace {

std::size_t size_of(std::span<const ConstBytes> parts) {
  std::size_t size = 0;
  for (const ConstBytes& part : parts) {
    size += part.size();
  }
  return size;
}

}  // namespace

Message Loan::segmented(std::span<const ConstBytes> parts, std::size_t headroom) {
  const std::size_t size = size_of(parts);
  if (size < defer_bytes_min_ || mode_ != ProcessingMode::fused) {
    return message(parts, headroom);
  }
  Message message = Message::allocate(pool_, size, headroom);
  const Bytes place = message ? message.append(size) : Bytes();
  if (message) {
    message.defer();
  }
  if (message && message.fused()) {
    message.defer_copies(parts, place.data(), owed_);
    return message;
  }
  message.reset();  // without memory for a plan
  return this->message(parts, headroom);
}

Message Loan::message(std::span<const ConstBytes> parts, std::size_t headroom, std::size_t tail) {
  const std::size_t size = size_of(parts);
  Message message = Message::of_size(pool_, size, headroom, tail);
  if (!message) {
    return message;
  }
  std::byte* at = message.bytes().data();
  const ConstBytes* lent = nullptr;
  if (size >= defer_bytes_min_ && mode_ == ProcessingMode::fused) {
    message.defer();
    const auto largest = std::ranges::max_element(parts, {}, [](ConstBytes part) { return part.size(); });
    lent = message.fused() && largest != parts.end() && largest->size() >= lent_bytes_min ? &*largest : nullptr;
  }
  for (const ConstBytes& part : parts) {
    if (&part == lent) {
      message.defer_copy(part, at, owed_);
    } else if (!part.empty()) {
      std::memcpy(at, part.data(), part.size());
      pool_.touches().add(part.size(), part.size());
    }
    at += part.size();
  }
  return message;
}

}  // namespace sluice
