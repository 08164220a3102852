// SPDX-License-Identifier: Apache-2.0
#pragma once

// What transport providers of either mode answer alike: capability and option management, errors, and the order of
// answers. Connectionless and ConnectionMode add their states to it.
//
// An answer is made in the block of its request, where that has room, else in new memory, else when there is memory
// (stack/core/owed.h). One that will never have any, which may happen to T_OPTMGMT_ACK alone, is T_ERROR_ACK with
// ENOSR instead: "TSYSERR: A system error has occurred and the UNIX system error is indicated in the primitive".
//
// Ownership: a base of a module, or a part of one, which outlives it. Threads: as its module's.

#include <array>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "stack/core/counter.h"
#include "stack/core/message.h"
#include "stack/core/module.h"
#include "stack/core/owed.h"
#include "stack/provider/options.h"
#include "stack/wire/tpi.h"

namespace sluice::provider {

class Management {
 public:
  Management(const Management&) = delete;
  Management& operator=(const Management&) = delete;

 protected:
  explicit Management(Module& module)
      : module_(module), owed_(module, [this](Message message) { up(std::move(message)); }, [this] { came_late(); }) {}
  ~Management() = default;

  /// Puts `primitive`, or bytes, up, in order with the answers; in the block of `spent`, a request, where it fits.
  /// False where that is impossible, see Owed::send().
  template <class Primitive>
  bool tell(const Primitive& primitive, MessageType type, Message* spent = nullptr) {
    const bool told = owed_.send(primitive, type, spent);
    if (!told) {
      up({});
    }
    return told;
  }
  template <class Primitive>
  bool answer(Message& request, const Primitive& primitive, MessageType type = MessageType::pcproto) {
    return tell(primitive, type, &request);
  }
  void answer_error(Message& request, std::int32_t primitive, std::int32_t tli_error, std::int32_t unix_error = 0);
  /// `supported`: the Capability bits of this provider.
  void answer_capability(Message& request, std::uint32_t supported, std::uint32_t acceptor_id = 0);
  void manage_options(std::int32_t primitive, Message& request);
  /// Nothing: no option is supported.
  [[nodiscard]] virtual OptionStore* options() { return nullptr; }
  /// Whether `message` is an ioctl of that command.
  [[nodiscard]] static bool is_ioctl(const Message& message, std::int32_t command);
  /// An M_IOCTL whose command is none of this provider's: EINVAL. One too short to have a command is dropped.
  void refuse_ioctl(Message message);
  /// M_FLUSH of both sides.
  void tell_flush();
  /// M_ERROR with EPROTO for both sides, in the place of `request`.
  void tell_fatal_error(Message& request);

  Module& module_;
  Counter out_of_state_{module_, "out_of_state", "primitives refused in this state"};
  Counter unsupported_{module_, "unsupported", "requests that this provider does not know"};
  Counter protocol_errors_{module_, "protocol_errors", "fatal errors: M_ERROR with EPROTO"};
  Counter dropped_{module_, "dropped", "messages dropped after a fatal error, or of a type that nobody here takes"};

 private:
  [[nodiscard]] virtual wire::tpi::InfoAck info() const = 0;
  /// Puts an answer up; an empty message is one that no memory was left for.
  virtual void up(Message message);
  /// What up() does with such a one.
  virtual void answer_lost() {}
  /// Called after up() was, for answers that had waited: nobody called us.
  virtual void came_late() {}

  Owed owed_;
};

/// A request that XTI and TLI have, as XTI's: they differ in number only. Nothing when the block is malformed.
template <class Xti, class Tli>
[[nodiscard]] std::optional<Xti> either(ConstBytes block) {
  if (const auto request = Xti::decode(block)) {
    return *request;
  }
  const auto request = Tli::decode(block);
  if (!request) {
    return std::nullopt;
  }
  const auto& [bytes, number] = *request;
  return Xti{bytes, number};
}

}  // namespace sluice::provider
