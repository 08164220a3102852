// SPDX-License-Identifier: Apache-2.0
#pragma once

// The dialogue with the DLPI driver by which the ip module gets its link: one request at a time, the next when the
// last is answered, whether that happens at once or later.
//
//     DL_INFO_REQ   DL_BIND_REQ 0x0800   DL_SUBS_BIND_REQ 0x0806, 0x86dd   DL_NOTIFY_REQ   DL_PHYS_ADDR_REQ
//     DL_CAPABILITY_REQ
//     and, when the address is known, DL_ENABMULTI_REQ for each group
//
// Not thread-safe; sends nothing itself.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "stack/core/message.h"
#include "stack/wire/address.h"

namespace sluice::ip {

class LinkSetup {
 public:
  LinkSetup();

  /// The request to send now, once; empty while an answer is outstanding and when there is nothing to ask (or no
  /// memory, in which case it is asked again next time).
  [[nodiscard]] Message next_request(BufferPool& pool);
  /// Whether there is something to ask.
  [[nodiscard]] bool asks() const { return !waiting_ && !steps_.empty() && error_ == 0; }
  static constexpr std::size_t request_bytes_max = 64;

  enum class Answer : std::uint8_t {
    foreign,  ///< not an answer to any request of this dialogue
    accepted,
    refused,  ///< the driver cannot do it, and we can do without
    fatal,    ///< and we cannot: errno in error()
  };
  Answer answer(ConstBytes primitive);

  /// Asks for the frames of a group. REQUIRES: a multicast address.
  void join(const wire::MacAddress& group);

  /// Whether packets can be sent: every request that is needed has been granted.
  [[nodiscard]] bool ready() const { return mac_.has_value() && error_ == 0; }
  [[nodiscard]] int error() const { return error_; }

  /// Set from answers and notifications; bytes.
  [[nodiscard]] std::uint32_t mtu() const { return mtu_; }
  void set_mtu(std::uint32_t mtu) { mtu_ = mtu; }
  /// The largest packet that may stand for several datagrams; 0: none may.
  [[nodiscard]] std::uint32_t segments_bytes_max() const { return segments_bytes_max_; }
  [[nodiscard]] const std::optional<wire::MacAddress>& mac() const { return mac_; }
  void set_mac(const wire::MacAddress& mac) { mac_ = mac; }

 private:
  struct Step {
    std::uint32_t primitive = 0;
    std::uint16_t sap = 0;
    wire::MacAddress group;
    bool needed = false;
  };

  Answer refused(ConstBytes primitive);

  std::deque<Step> steps_;
  bool waiting_ = false;  // for the answer to the first of them
  int error_ = 0;
  std::uint32_t mtu_ = 0;
  std::uint32_t segments_bytes_max_ = 0;
  std::optional<wire::MacAddress> mac_;
};

}  // namespace sluice::ip
