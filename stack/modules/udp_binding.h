// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the user of a udp stream is told of its address. How the stream gets and gives it up is in port_binding.h.
//
// Ownership: a part of the module; talks through the callbacks it is given. Threads: as its module's.

#include <cstdint>
#include <functional>

#include "stack/core/message.h"
#include "stack/modules/port_binding.h"
#include "stack/provider/connectionless.h"
#include "stack/wire/address.h"

namespace sluice::udp {

using provider::State;

class Binding final : public provider::Connectionless {
 public:
  /// 65535 bytes of an IPv4 packet without its header and ours.
  static constexpr std::size_t datagram_bytes_max = 65507;

  struct Hooks {
    std::function<void(Message)> down;  ///< to ip; an empty message as below
    std::function<void(Message)> up;    ///< to the user; an empty message is one that no memory was left for
    provider::OptionStore* options = nullptr;
    std::function<bool()> v6_only = [] { return false; };  ///< T_IPV6_V6ONLY
    std::function<void()> unbinding = [] {};               ///< the user gives up his address
  };

  /// REQUIRES: `module` is part of a stream.
  Binding(Module& module, Hooks hooks);

  // As PortBinding's. The stream is bound when the state is idle.
  void open() { port_.open(); }
  [[nodiscard]] bool acknowledged(const Message& answer) { return port_.acknowledged(answer); }
  [[nodiscard]] bool filter_answered(const Message& answer) { return port_.filter_answered(answer); }
  [[nodiscard]] bool releasing() const { return port_.releasing(); }
  [[nodiscard]] const wire::TransportAddress& local() const { return port_.local(); }
  [[nodiscard]] bool takes(wire::Family family) const { return port_.takes(family); }
  [[nodiscard]] bool filtered() const { return port_.filtered(); }

 private:
  [[nodiscard]] std::int32_t tsdu_bytes_max() const override { return datagram_bytes_max; }
  void bind(ConstBytes address) override;
  void unbind() override;
  void release() override;
  void up(Message message) override { hooks_.up(std::move(message)); }
  [[nodiscard]] provider::OptionStore* options() override { return hooks_.options; }

  Hooks hooks_;
  PortBinding port_;
};

}  // namespace sluice::udp
