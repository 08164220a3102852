// SPDX-License-Identifier: Apache-2.0
#pragma once

// What each user may have of the server: sockets, such as listen, connections that are being set up, and memory.
//
//     Quotas::Share share = quotas.take(user, Quotas::What::listening, 1);
//     if (!share) { return ENOBUFS; }                    // ends with `share`
//
// Memory is promised, not counted byte by byte: a connection takes as much as it can ever hold here, which is its two
// buffers and what one turn may leave of each between pair and connection. While a user has promised himself less than
// half of what he may have, a connection has the buffers that the stack or the program wants; from then on it has small
// ones; and when nothing is left, there is no connection. So many idle connections fit, and none that is there can be
// made to hold more than was promised, by its program or by its peer. Who listens takes memory for the callers of his
// backlog, which is shorter where there is less.
//
// Threat: a program opens what it can and fills it, or has its peers fill it; without quotas it would take the pool
// from all others. Users are who the kernel says that they are (SO_PEERCRED), so that a program gains nothing by
// fork(2).
//
// Ownership: shares refer to their quotas, which outlive them. Threads: the stream set's.

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace sluice::sockets {

/// Of a connection; bytes.
struct Buffers {
  std::size_t receive = 0;
  std::size_t send = 0;
  friend bool operator==(const Buffers&, const Buffers&) = default;
};

class Quotas {
 public:
  enum class What : std::uint8_t { sockets, listening, connecting, memory };
  struct Limits {
    std::size_t sockets = 4096;
    std::size_t listening = 256;
    std::size_t connecting = 1024;
    std::size_t memory = std::size_t{128} << 20;  // bytes
  };

  /// Of each direction of a connection, whatever a program asks for; and where memory is short.
  static constexpr std::size_t buffer_bytes_max = std::size_t{4} << 20;
  static constexpr std::size_t buffer_bytes_short = std::size_t{16} << 10;
  /// Of a caller who waits to be accepted (Tcp::caller_receive_bytes_max).
  static constexpr std::size_t caller_bytes = std::size_t{8} << 10;
  /// What a turn moves at most in one piece.
  static constexpr std::size_t turn_piece_bytes_max = std::size_t{256} << 10;

  /// What was taken, until it ends. Empty: nothing.
  class Share {
   public:
    Share() = default;
    ~Share() { give_back(); }
    Share(Share&& other) noexcept { swap(other); }
    Share& operator=(Share&& other) noexcept {
      Share(std::move(other)).swap(*this);
      return *this;
    }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    explicit operator bool() const { return quotas_ != nullptr; }

   private:
    friend class Quotas;
    Share(Quotas& quotas, uid_t user, What what, std::size_t amount)
        : quotas_(&quotas), user_(user), what_(what), amount_(amount) {}
    void swap(Share& other) noexcept;
    void give_back();

    Quotas* quotas_ = nullptr;
    uid_t user_ = 0;
    What what_ = What::sockets;
    std::size_t amount_ = 0;
  };

  struct Connection {
    Buffers buffers;
    Share memory;
  };

  explicit Quotas(const Limits& limits) : limits_{limits.sockets, limits.listening, limits.connecting, limits.memory} {}

  /// Empty where the user would have more than he may.
  [[nodiscard]] Share take(uid_t user, What what, std::size_t amount);
  /// Memory for a connection that wants these buffers; nothing where there is none, even for small ones.
  [[nodiscard]] std::optional<Connection> take_connection(uid_t user, const Buffers& wanted);
  [[nodiscard]] std::size_t taken(uid_t user, What what) const;

 private:
  static constexpr std::size_t kinds = 4;
  using Amounts = std::array<std::size_t, kinds>;

  static std::size_t at(What what) { return static_cast<std::size_t>(what); }

  const Amounts limits_;
  std::map<uid_t, Amounts> users_;  // who have something
};

}  // namespace sluice::sockets
