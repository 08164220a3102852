// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the sockets library in a program and the server that owns the stack (`sluice serve`) say to each other.
//
// A socket of a program is one end of a pair of Unix sockets; the server has the other end. So it is a real descriptor:
// poll, select, epoll, dup, fork, exec, read, write and sendfile are the kernel's, and either side sees at once that
// the other one has gone. What a Unix socket does not know is asked of the server:
//
//   | socket      | type           | what crosses the pair                                              |
//   |-------------|----------------|--------------------------------------------------------------------|
//   | stream      | SOCK_STREAM    | the bytes of the connection, each way; shutdown(2) ends either     |
//   | datagram    | SOCK_SEQPACKET | DatagramHeader and the datagram, each way                          |
//   | that listens| SOCK_SEQPACKET | to the program: Caller, with the descriptor of the connection      |
//
// A request is one message on a connection to the server's own socket (SOCK_SEQPACKET, a path in the file system), and
// shows the descriptor that it is about (SCM_RIGHTS): who has a socket may do with it what he likes, and nobody needs
// another name for it. The answer is one message. The library connects anew for each request, so that it keeps nothing
// that a program could close, inherit or share by mistake.
//
// The program's end is bound to an abstract name, `name_prefix`, its kind and a number: so the library knows a socket
// of ours, wherever it came from (fork, exec, dup), by getsockname(2) alone. The name is no secret and gives no right.
//
// A connection that is being set up in the background must not look writable: before it asks for it the library fills
// its end with bytes that mean nothing (`Request::filler`), and the server takes them out when the connection is there,
// or has failed.
//
// All numbers are of the host's order: both ends are on one host. Plain values; thread-safe as such.

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice::sockets {

inline constexpr std::uint32_t protocol_version = 2;

/// The environment's variable with the path of the server's socket.
inline constexpr const char* path_variable = "SLUICE_SOCKETS";

/// Of the abstract name of a program's end, behind the zero byte; then a SocketKind, and digits.
inline constexpr char name_prefix[] = "sluice-socket-";

enum class SocketKind : char {
  stream = 's',
  datagram = 'd',
  listening = 'l',
};

enum class Operation : std::uint32_t {
  open = 1,    ///< a socket of `kind` and `family`; the answer brings its descriptor
  bind,        ///< to `address`
  listen,      ///< `value`: the backlog; the answer brings the descriptor that callers come on
  connect,     ///< to `address`; `background`: the answer is EINPROGRESS, `filler` bytes wait in the pair
  names,       ///< the local address and the peer's; `value`: a SocketState
  take_error,  ///< `value` of the answer: the error that is pending (SO_ERROR), which is cleared
  set_option,  ///< `level`, `name`, `value`
  get_option,  ///< `level`, `name`; `value` of the answer
  connection,  ///< `connection` of the answer: what is known of the socket's connection
  statistics,  ///< the answer brings a file: Totals, and a SocketRecord for each socket
};

enum class SocketState : std::int32_t {
  idle,  ///< neither connected nor connecting
  connecting,
  connected,  ///< or the peer of its datagrams has been named
  over,       ///< its connection has ended, or could not be set up in the background
};

/// An address as the kernel has it, of AF_INET or AF_INET6; size 0: none.
struct Address {
  std::uint32_t size = 0;
  std::byte bytes[sizeof(sockaddr_in6)] = {};
};

struct Request {
  std::uint32_t version = protocol_version;
  Operation operation = Operation::open;
  SocketKind kind = SocketKind::stream;
  std::uint8_t background = 0;
  std::uint16_t family = 0;
  std::int32_t level = 0;
  std::int32_t name = 0;
  std::int32_t value = 0;
  std::uint32_t filler = 0;
  Address address{};
};

/// Of a connection, as struct tcp_info has it (tcp(7)); zeros where the provider does not know it.
struct Connection {
  std::uint8_t state = 0;
  std::uint8_t options = 0;
  std::uint8_t send_scale = 0;
  std::uint8_t receive_scale = 0;
  std::uint32_t send_mss = 0;       ///< bytes
  std::uint32_t receive_mss = 0;    ///< bytes
  std::uint32_t round_trip_us = 0;  ///< smoothed
  std::uint32_t round_trip_variation_us = 0;
  std::uint32_t round_trip_least_us = 0;
  std::uint32_t timeout_us = 0;
  std::uint64_t congestion_window = 0;  ///< bytes
  std::uint64_t unacknowledged = 0;     ///< bytes
  std::uint64_t unsent = 0;             ///< bytes
  std::uint64_t segments_sent = 0;
  std::uint64_t segments_again = 0;
};

struct Answer {
  std::uint32_t version = protocol_version;
  std::int32_t error = 0;  ///< an errno value
  std::int32_t value = 0;
  Address local;
  Address peer;
  Connection connection;
};

/// In front of each datagram. To the program: its sender; or an error that was reported of one sent before, with the
/// address it went to and no data. To the server: where it goes; none: to the peer.
struct DatagramHeader {
  std::int32_t error = 0;
  Address address{};
};

/// Of all sockets, in a file in memory that nobody can change any more (memfd_create(2), sealed): so who asks for it
/// can keep nobody waiting. One that is made anew a few times a second serves everybody.
struct Totals {
  std::uint32_t version = protocol_version;
  std::uint32_t records = 0;  ///< that follow: those of the first sockets where there are more than `records_max`
  std::uint64_t sockets = 0;
  std::uint64_t requests = 0;
  std::uint64_t refused = 0;
  std::uint64_t malformed = 0;
  std::uint64_t crowded_out = 0;
};
inline constexpr std::size_t records_max = 4096;

struct SocketRecord {
  std::int32_t pid = 0;  ///< of the process that opened it, or whose socket accepted it
  std::uint32_t uid = 0;
  SocketKind kind = SocketKind::stream;
  std::uint8_t state = 0;  ///< of a connection, as tcpi_state; 0: none
  std::uint16_t family = 0;
  std::uint32_t round_trip_us = 0;
  Address local;
  Address peer;
  std::uint64_t received = 0;       ///< bytes of the peer's that were given to the program
  std::uint64_t sent = 0;           ///< bytes of the program's that were given to the stack
  std::uint64_t receive_queue = 0;  ///< bytes that wait for the program
  std::uint64_t send_queue = 0;     ///< bytes that wait to be sent, or to be acknowledged
  std::uint64_t retransmissions = 0;
};

/// What comes on a socket that listens, beside a descriptor.
struct Caller {
  Address local;
  Address peer;
};

/// The longest datagram of UDP over IPv4.
inline constexpr std::size_t datagram_bytes_max = 65507;

}  // namespace sluice::sockets
