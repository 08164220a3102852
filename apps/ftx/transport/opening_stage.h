// SPDX-License-Identifier: Apache-2.0
#pragma once

// OpeningStage: opens the sealed payload of a DATA datagram while it lands, tile by tile in the pass that also verifies
// the datagram (stack/core/stage.h). So a sealed payload, too, is loaded once and stored once, from where the datagram
// arrived to the file's page.
//
//     header (32, in the clear) | sealed payload ......... | tag (16)
//                               ◄──── the stage covers ─────────────►
//     the session's             | the file's page ........ | set aside
//
// Threat: the bytes lie in the file's page before their tag is known to hold. Nobody believes them: the place is not
// marked as filled, and one that is filled is never named again (apps/ftx/session/server.h, memory_for()).
//
// It is for one datagram at a time, which is landed before the next is begun; so begin() need not tell it which.
// Threads: its transport's.

#include <algorithm>
#include <array>
#include <cstring>

#include "apps/ftx/protocol/message.h"
#include "apps/ftx/session/protection.h"
#include "stack/core/stage.h"

namespace sluice::ftx {

class OpeningStage final : public Stage {
 public:
  OpeningStage() : Stage({.name = "open", .converts = true, .verifies = true}) {}

  /// What the next message is. REQUIRES: a whole DATA header that `protection` opens in parts; both stay until the
  /// datagram has landed.
  void expect(Protection& protection, ConstBytes header, std::size_t payload_bytes) {
    protection_ = &protection;
    header_ = header;
    payload_bytes_ = payload_bytes;
    refused_ = false;
  }
  /// Whether the tag of that message did not hold.
  [[nodiscard]] bool refused() const { return refused_; }

  void begin(ConstBytes /*argument*/) override { protection_->begin_payload(header_); }
  void run(std::size_t offset, ConstBytes from, Bytes to) override {
    const std::size_t payload = offset < payload_bytes_ ? std::min(payload_bytes_ - offset, from.size()) : 0;
    protection_->open_part(from.first(payload), to.first(payload));
    if (payload < from.size()) {  // the tag, or a part of it
      std::memcpy(tag_.data() + (offset + payload - payload_bytes_), from.data() + payload, from.size() - payload);
      std::ranges::fill(to.subspan(payload), std::byte{0});
    }
  }
  bool end(Bytes /*result*/) override {
    refused_ = !protection_->end_payload(header_, tag_);
    return !refused_;
  }

 private:
  Protection* protection_ = nullptr;
  ConstBytes header_;
  std::size_t payload_bytes_ = 0;
  std::array<std::byte, tag_bytes> tag_{};
  bool refused_ = false;
};

}  // namespace sluice::ftx
