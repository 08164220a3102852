// SPDX-License-Identifier: Apache-2.0
#pragma once

// The options of a kernel_tcp endpoint (stack/provider/options.h), as options of its socket: those of T_INET_TCP, the
// hop limit and the type of service, and the buffers. What is set before there is a socket, or of a family that it has
// not, is remembered and set on each that comes.
//
// Ownership: a part of the driver; borrows the descriptor. Threads: one.

#include <array>
#include <cstdint>
#include <optional>

#include "stack/provider/options.h"

namespace sluice::tpi {

class TcpOptions final : public provider::OptionStore {
 public:
  [[nodiscard]] std::optional<std::uint32_t> current(provider::Setting setting) override;
  [[nodiscard]] std::optional<std::uint32_t> initial(provider::Setting setting) override;
  [[nodiscard]] bool set(provider::Setting setting, std::uint32_t value) override;
  /// Nobody joins a group here.
  [[nodiscard]] bool join(const provider::Membership&, bool) override { return false; }
  [[nodiscard]] bool leave(const provider::Membership&, bool) override { return false; }

  /// Writes wire::ConnectionInfo; 0, ENOTCONN, or EINVAL: it does not fit.
  [[nodiscard]] int tell_connection(Bytes place) const;

  /// There is a socket now, of IPv6 or not; and none any more.
  void attach(int descriptor, bool v6);
  void detach() { descriptor_ = -1; }

 private:
  int descriptor_ = -1;
  bool v6_ = false;
  std::array<std::optional<std::uint32_t>, provider::setting_count> set_{};  // by the user
};

}  // namespace sluice::tpi
