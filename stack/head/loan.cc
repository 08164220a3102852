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

Message Loan::message(std::span<const ConstBytes> parts, std::size_t headroom, std::size_t tail) {
  std::size_t size = 0;
  const ConstBytes* largest = nullptr;
  for (const ConstBytes& part : parts) {
    size += part.size();
    largest = largest == nullptr || part.size() > largest->size() ? &part : largest;
  }
  Message message = Message::of_size(pool_, size, headroom, tail);
  if (!message) {
    return message;
  }
  std::byte* at = message.bytes().data();
  if (mode_ == ProcessingMode::fused && size >= defer_bytes_min_) {
    message.defer();
  }
  const bool lends = message.fused() && largest != nullptr && largest->size() >= lent_bytes_min;
  for (const ConstBytes& part : parts) {
    if (lends && &part == largest) {
      message.defer_copy(part, at, owed_);
    } else if (!part.empty()) {
      std::memcpy(at, part.data(), part.size());
    }
    at += part.size();
  }
  const std::size_t copied = size - (lends ? largest->size() : 0);
  pool_.touches().add(copied, copied);
  return message;
}

}  // namespace sluice
