// SPDX-License-Identifier: Apache-2.0
#pragma once

// A peer of ours that is a TCP socket of the kernel on 127.0.0.1.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "stack/wire/address.h"

namespace sluice {

class KernelPeer {
 public:
  KernelPeer() : KernelPeer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  explicit KernelPeer(int descriptor) : descriptor_(descriptor) { EXPECT_GE(descriptor_, 0); }
  KernelPeer(KernelPeer&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  KernelPeer& operator=(KernelPeer&&) = delete;
  ~KernelPeer() { close(); }

  void close() {
    if (descriptor_ >= 0) {
      ::close(std::exchange(descriptor_, -1));
    }
  }
  void reset() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    EXPECT_EQ(::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    close();
  }
  /// Where it listens.
  [[nodiscard]] wire::TransportAddress listen() const {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(descriptor_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(descriptor_, 8), 0);
    EXPECT_EQ(::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    return {wire::Ipv4Address{{127, 0, 0, 1}}, ntohs(address.sin_port)};
  }
  [[nodiscard]] KernelPeer accept() const { return KernelPeer(::accept(descriptor_, nullptr, nullptr)); }
  void connect(const wire::TransportAddress& to) const {
    const sockaddr_in address = loopback(to.port);
    EXPECT_EQ(::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  void send(std::string_view text) const {
    EXPECT_EQ(::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  /// As much as the socket takes now.
  [[nodiscard]] std::size_t offer(std::string_view text) const {
    const ssize_t sent = ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent > 0 ? static_cast<std::size_t>(sent) : 0;
  }
  /// What is there; `ended` tells of the end, `error` of an error.
  std::string take() {
    std::string all;
    std::string part(65536, '\0');
    for (;;) {
      const ssize_t received = ::recv(descriptor_, part.data(), part.size(), MSG_DONTWAIT);
      if (received <= 0) {
        ended = ended || received == 0;
        error = received < 0 && errno != EAGAIN ? errno : error;
        return all;
      }
      all.append(part, 0, static_cast<std::size_t>(received));
    }
  }
  void end() const { EXPECT_EQ(::shutdown(descriptor_, SHUT_WR), 0); }
  [[nodiscard]] int descriptor() const { return descriptor_; }

  bool ended = false;
  int error = 0;

 private:
  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
  }

  int descriptor_;
};

}  // namespace sluice
