// SPDX-License-Identifier: Apache-2.0
#include "stack/head/loan.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

std::size_t size_of(std::span<const ConstBytes> parts) {
  std::size_t size = 0;
  for (const ConstBytes part : parts) {
    size += part.size();
  }
  return size;
}

}  // namespace

Loan::~Loan() {
  for (const Shown& shown : std::span(shown_).first(count_)) {
    if (shown.block != nullptr) {
      pool_.reclaim(*shown.block);
    }
  }
}

Message Loan::message(std::span<const ConstBytes> parts, std::size_t headroom, std::size_t tail) {
  const auto is_large = [](ConstBytes part) { return part.size() >= shown_bytes_min; };
  const auto first_large = std::ranges::find_if(parts, is_large);
  const bool fused = mode_ == ProcessingMode::fused && size_of(parts) >= defer_bytes_min_;
  if (!fused || first_large == parts.end() || parts.size() > shown_max - count_) {
    Message copy = copy_of(parts, headroom, tail);
    if (copy && fused) {
      copy.defer();
    }
    return copy;
  }
  // One block of our own in front: for the headers below, and for what is small before the first large part.
  const auto front = static_cast<std::size_t>(first_large - parts.begin());
  Message message = copy_of(parts.first(front), headroom, 0);
  if (message) {
    message.defer();
  }
  for (const ConstBytes part : parts.subspan(front)) {
    Message next;
    if (message && !part.empty()) {
      // Without a plan nothing below would know that bytes are borrowed.
      next = message.fused() && is_large(part) ? show(part) : Message::copy_of(pool_, part);
    }
    if (next) {
      message.link(std::move(next));
    } else if (!part.empty()) {
      return {};
    }
  }
  return message;
}

Message Loan::copy_of(std::span<const ConstBytes> parts, std::size_t headroom, std::size_t tail) {
  const std::size_t size = size_of(parts);
  Message message = Message::allocate(pool_, size + tail, headroom);
  if (message) {
    Block& block = message.first();
    for (const ConstBytes part : parts) {
      block.wptr = std::copy_n(part.data(), part.size(), block.wptr);
    }
    pool_.touches().add(size, size);
  }
  return message;
}

Message Loan::show(ConstBytes part) {
  Shown& shown = shown_[count_];
  const Bytes memory(const_cast<std::byte*>(part.data()), part.size());  // never written: the buffer is read-only
  const ReleaseCallback on_release = [](void* slot, ConstBytes) { static_cast<Shown*>(slot)->block = nullptr; };
  shown.block = pool_.borrow(memory, /*read_only=*/true, on_release, &shown);
  if (shown.block != nullptr) {
    ++count_;
  }
  return Message(shown.block);
}

}  // namespace sluice
