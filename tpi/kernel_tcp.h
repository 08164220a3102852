// SPDX-License-Identifier: Apache-2.0
#pragma once

// kernel_tcp - driver: connection-mode transport service with orderly release (TPI, T_COTS_ORD) over TCP sockets of the
// kernel.
//
//     [stack.default]
//     driver = { kind = "kernel_tcp" }
//     push   = ["timod"]
//
// PURPOSE      Connections for everybody: no privileges, every network that the host has, every peer that speaks TCP.
//
// ABOVE        TPI primitives in M_PROTO and M_PCPROTO; addresses are TransportAddress (stack/wire/address.h).
//              T_BIND_REQ    binds a socket. An empty address means [::]:0 (0.0.0.0:0 on a host without IPv6); port 0
//                            means any free port; `::` serves IPv6 and IPv4. With a CONIND_number above 0 the socket
//                            listens: so many T_CONN_IND may be outstanding, and as many connections more wait in the
//                            kernel. O_T_BIND_REQ takes a free port where the one asked for is busy.
//              T_CONN_REQ    connects: T_OK_ACK, then T_CONN_CON, or T_DISCON_IND where nobody answers. TSYSERR with
//                            EOPNOTSUPP by a stream that listens. TADDRBUSY: that address is connected already, or
//                            was given to others since the last connection ended: between connections a stream that
//                            does not listen has its address by name only.
//              T_CONN_IND    a connection that the kernel has set up. T_CONN_RES accepts it on the stream whose
//                            ACCEPTOR_id (T_CAPABILITY_ACK, TC1_ACCEPTOR_ID) it names: the same, if no other is
//                            outstanding (TINDOUT), or another one of kernel_tcp of the same stream set, idle or
//                            unbound (TOUTSTATE), that does not listen (TRESQLEN). TBADF: no stream has that number;
//                            TPROVMISMATCH: another provider has. T_DISCON_REQ rejects it, with a reset. One whose
//                            peer has gone is taken back within a second: T_DISCON_IND with its SEQ_number; or, where
//                            it is accepted before, T_DISCON_IND of the connection follows.
//              T_DATA_REQ    or M_DATA alone: bytes of the stream. T_DATA_IND brings what came. MORE_flag means
//                            nothing, since TCP keeps no boundaries.
//              T_ORDREL_REQ  ends sending when all that was put before has left (FIN). T_ORDREL_IND: the peer's end.
//              T_DISCON_REQ  ends both at once with a reset (RST), and what waits is lost.
//              T_DISCON_IND  DISCON_reason is an errno value: ECONNRESET, ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH, ...
//              T_EXDATA_REQ  is fatal: ETSDU_size is T_INVALID. RFC 6093 tells new applications to do without
//                            urgent data; what a peer sends as such stays in the stream, where it was sent.
//              Options are those of T_INET_TCP, T_IP_TTL, T_IP_TOS, T_IPV6_UNICAST_HOPS, XTI_RCVBUF and XTI_SNDBUF
//              (stack/provider/options.h); those of T_CONN_REQ are negotiated likewise. The ioctl SLIOCCONNECTION
//              (stack/wire/connection_info.h) tells what the kernel knows of the connection.
//              Local management, and what is allowed when, are those of every connection-mode provider here:
//              stack/provider/connection_mode.h, connection_states.h.
//
// PARAMETERS   receive_buffer_bytes, send_buffer_bytes    of the socket; if absent the system adapts them to the path
//
// FLOW         Down: what the socket does not take waits on the write queue until it is writable; a full queue stops
//              who asks can_put_next(). What is put while nothing waits goes to the kernel from where it lies. Up:
//              while the stream above is full the socket is not read, and the peer's window closes. Back-enabling
//              resumes. A reset is found with the next attempt to read or to send, or, while the stream above is full,
//              within a second; what waits there goes then. Both ends having been released, the stream is idle while
//              the rest of its data leaves; other requests wait for that.
//
// CLOSE        A stream that closes with data that the kernel has not taken resets its connection, so that the peer
// does
//              not take the part for the whole; else it ends as sockets do.
//
// COUNTERS     See the members below; each refused or dropped message is counted under a name.
//
// Threat: peers may connect and say nothing, send single bytes, never read, or reset at any time. Connections that wait
// are bounded by CONIND_number, what is read by the stream's marks, what is kept for one message by what came.
//
// Ownership: owns its sockets. Threads: that of its stream set.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "stack/core/scheduler.h"
#include "stack/provider/connection_mode.h"
#include "tpi/socket_driver.h"
#include "tpi/tcp_options.h"
#include "tpi/tcp_socket.h"

namespace sluice::tpi {

class KernelTcp final : public SocketDriver, private provider::ConnectionMode {
 public:
  static constexpr WaterMarks write_marks{.high_bytes = 256 * 1024, .low_bytes = 64 * 1024};
  static constexpr std::size_t read_bytes_max = 64 * 1024;
  static constexpr std::size_t reads_per_turn_max = 4;
  static constexpr std::size_t accepts_per_turn_max = 16;
  static constexpr std::size_t waiting_requests_max = 16;
  static constexpr Duration retry_delay = std::chrono::milliseconds(1);
  static constexpr Duration accept_retry_delay = std::chrono::milliseconds(100);
  static constexpr Duration watch_interval = std::chrono::seconds(1);

  KernelTcp(StreamSet& set, const TcpSocket::Options& options, const TcpCalls& calls = {});

  void close() override;
  [[nodiscard]] PayloadWork payload_work(Side side) const override;
  void wsrv() override;
  void rsrv() override;

 private:
  /// What the socket that is not listening is.
  enum class Phase : std::uint8_t { none, reserved, connecting, connected };
  /// The socket that listens, as a source of its own.
  class Listener final : public EventSource {
   public:
    explicit Listener(KernelTcp& driver) : driver_(driver) {}
    [[nodiscard]] int descriptor() const override { return socket->descriptor(); }
    bool on_readable() override { return driver_.accept_waiting(); }
    [[nodiscard]] bool wants_readable() const override { return driver_.wants_connections(); }
    std::optional<TcpSocket> socket;

   private:
    KernelTcp& driver_;
  };
  struct Pending {
    std::int32_t sequence;
    TcpSocket socket;
  };

  // SocketDriver
  void take_request(Message message) override;
  void answer_ioctl(Message message) override;
  void flushed() override { end_if_released(); }
  void drop(Message /*message*/) override { ++dropped_; }

  // EventSource
  [[nodiscard]] int descriptor() const override { return socket_->descriptor(); }
  bool on_readable() override;
  [[nodiscard]] bool wants_readable() const override;
  [[nodiscard]] bool wants_writable() const override { return phase_ == Phase::connecting || writing_blocked_; }
  void on_writable() override;

  // ConnectionMode
  void bind(ConstBytes address, std::uint32_t connect_indications) override;
  void unbind() override;
  void connect(ConstBytes destination) override;
  void respond(std::uint32_t acceptor_id, std::int32_t sequence) override;
  void reject(std::int32_t sequence) override;
  void disconnect() override;
  void release() override;
  void answer_lost() override { ++answers_lost_; }
  [[nodiscard]] provider::OptionStore* options() override { return &socket_options_; }
  [[nodiscard]] std::int32_t tidu_bytes_max() const override { return read_bytes_max; }

  // Requests.
  void start_release();

  // Connections.
  [[nodiscard]] bool wants_connections() const;
  bool accept_waiting();
  [[nodiscard]] std::vector<Pending>::iterator pending(std::int32_t sequence);
  void watch_unread();
  void look_after_unread();
  void withdraw(std::int32_t sequence);
  void refuse_connect(int error);
  void finish_connect();
  void adopt(TcpSocket socket);
  void connection_is_up();
  void drop_connection(bool reset);
  void lose_connection(int error);
  void end_if_released();

  // Data.
  [[nodiscard]] bool sendable() const { return phase_ == Phase::connected && !writing_blocked_ && !retry_.armed(); }
  [[nodiscard]] bool send(Message& message);
  void wait(Message message);
  [[nodiscard]] bool send_gathered();
  void stop_writing(int error);
  void resume_writing();
  [[nodiscard]] bool read_once();

  TcpSocket::Options options_;
  TcpCalls calls_;
  TcpOptions socket_options_;
  Listener listener_{*this};
  std::optional<TcpSocket> socket_;
  Phase phase_ = Phase::none;
  std::vector<Pending> pending_;
  wire::TransportAddress bound_;
  Message room_;        // what the next read goes to
  Batch requests_;      // that wait until the last connection's data has left
  Timer retry_;         // the kernel was short of memory
  Timer accept_retry_;  // the process is out of descriptors
  Timer watch_;         // while there are sockets that nobody reads from
  bool listens_watched_ = false;
  bool reading_stopped_ = false;
  bool writing_blocked_ = false;
  bool peer_ended_ = false;   // sending: nothing more comes
  bool release_due_ = false;  // T_ORDREL_REQ has come; what was put before it has not left yet
  bool closing_ = false;      // and the peer has ended: the connection is over when that has left

  Counter connections_{*this, "connections", "connections set up, by either side"};
  Counter indicated_{*this, "indicated", "T_CONN_IND passed up"};
  Counter rejected_{*this, "rejected", "connections that the user rejected, or that were outstanding when it closed"};
  Counter withdrawn_{*this, "withdrawn", "connections whose peers had gone before the user answered"};
  Counter connect_failures_{*this, "connect_failures", "connections that could not be set up"};
  Counter accept_failures_{*this, "accept_failures", "connections that came and could not be taken"};
  Counter resets_{*this, "resets", "connections that ended with T_DISCON_IND"};
  Counter aborted_{*this, "aborted", "connections that this side ended with a reset"};
  Counter bytes_sent_{*this, "bytes_sent", "bytes that the kernel took"};
  Counter send_calls_{*this, "send_calls", "system calls that sent them"};
  Counter write_waits_{*this, "write_waits", "times the kernel took no more and sending had to wait"};
  Counter bytes_received_{*this, "bytes_received", "bytes passed up"};
  Counter receive_calls_{*this, "receive_calls", "system calls that received them"};
  Counter read_stops_{*this, "read_stops", "times reading stopped because the stream above was full"};
  Counter no_buffer_{*this, "no_buffer", "times reading waited because the buffer pool was exhausted"};
  Counter unsent_{*this, "unsent", "messages of data dropped because their connection had ended"};
  Counter answers_lost_{*this, "answers_lost", "answers not given because the buffer pool was exhausted"};
};

}  // namespace sluice::tpi
