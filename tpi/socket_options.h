// SPDX-License-Identifier: Apache-2.0
#pragma once

// The options of a kernel_udp endpoint (stack/provider/options.h), as options of its socket. What is set before there
// is a socket, or of a family that it has not, is remembered and set when one is bound. Memberships end with the
// socket.
//
// IP_MULTICAST_ALL and IPV6_MULTICAST_ALL are switched off: a socket of the kernel's would else get what any socket of
// the host has joined.
//
// Ownership: a part of the driver; borrows the descriptor, and what the stack file declares. Threads: one.

#include <array>
#include <cstdint>
#include <optional>

#include "stack/provider/options.h"
#include "tpi/udp_socket.h"

namespace sluice::tpi {

class SocketOptions final : public provider::OptionStore {
 public:
  explicit SocketOptions(const UdpSocket::Options& declared) : declared_(declared) {}

  [[nodiscard]] std::optional<std::uint32_t> current(provider::Setting setting) override;
  [[nodiscard]] std::optional<std::uint32_t> initial(provider::Setting setting) override;
  [[nodiscard]] bool set(provider::Setting setting, std::uint32_t value) override;
  [[nodiscard]] bool join(const provider::Membership& membership, bool check) override;
  [[nodiscard]] bool leave(const provider::Membership& membership, bool check) override;

  /// Whether no datagram of that family is fragmented.
  [[nodiscard]] bool never_fragments(bool v6) {
    return current(v6 ? provider::Setting::dont_fragment_v6 : provider::Setting::dont_fragment) == 1U;
  }

  /// There is a socket now, of IPv6 or not.
  void attach(int descriptor, bool v6);
  /// There is none any more.
  void detach();

 private:
  [[nodiscard]] std::optional<std::uint32_t> buffer(provider::Setting setting, std::size_t bytes) const;
  [[nodiscard]] bool apply(provider::Setting setting, std::uint32_t value) const;
  [[nodiscard]] bool apply_received(bool wanted) const;
  [[nodiscard]] bool apply(const provider::Membership& membership, bool join) const;

  const UdpSocket::Options& declared_;
  int descriptor_ = -1;
  bool v6_ = false;
  std::array<std::optional<std::uint32_t>, provider::setting_count> set_{};  // by the user
  provider::JoinedGroups joined_;
};

}  // namespace sluice::tpi
