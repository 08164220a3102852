// SPDX-License-Identifier: Apache-2.0
#pragma once

// A stream socket: unconnected, connecting, or one end of a connection whose bytes it passes on each way.
//
//   program ──► pair ──► t_snd        shutdown(SHUT_WR), close ──► t_sndrel
//   program ◄── pair ◄── t_rcv        end of the pair          ◄── T_ORDREL
//                                     both ends, and SO_ERROR  ◄── T_DISCONNECT
//
// A program that closes its end without reading what has come resets the connection, as one does that closes it and
// then gets more (RFC 1122 section 4.2.2.13: "If such a host issues a CLOSE call while received data is still pending
// in TCP, or if new data is received after CLOSE is called, its TCP SHOULD send a RST to show that data was lost.").

#include <memory>
#include <vector>

#include "sockets/server/socket.h"
#include "stack/core/scheduler.h"
#include "stack/wire/connection_info.h"

namespace sluice::sockets {

class StreamSocket final : public Socket {
 public:
  /// How long a connection is kept for the peer's end when the program has gone.
  static constexpr Duration orphan_time_max = std::chrono::seconds(60);

  StreamSocket(Host& host, const Identity& identity, Descriptor channel);
  /// One that is connected, with the options of the socket that accepted it.
  StreamSocket(Host& host, const Identity& identity, Descriptor channel, std::unique_ptr<tli::Endpoint> endpoint,
               const EndpointOptions& options, Quotas::Connection granted);

  Reply bind(const Address& address, bool shared) override;
  /// The endpoint moves to a socket of its own, which listens; this one is done.
  Reply listen(int backlog) override;
  Reply connect(const Request& request, Asker asker) override;
  Reply get_option(const Request& request) override;
  Reply connection() override;
  /// The connection ends with a reset when the program closes it: SO_LINGER with a time of zero.
  void set_reset_at_close(bool resets) override { resets_at_close_ = resets; }
  [[nodiscard]] SocketState state() const override;
  [[nodiscard]] SocketRecord record() override;
  bool turn() override;
  [[nodiscard]] bool finished() const override;

 private:
  enum class Phase : std::uint8_t { fresh, bound, connecting, connected, over };
  static constexpr Duration drain_interval = std::chrono::milliseconds(20);
  static constexpr std::size_t turn_bytes_max = Quotas::turn_piece_bytes_max;
  static constexpr int turn_events_max = 64;
  static constexpr int port_attempts_max = 64;

  /// 0, or an errno.
  [[nodiscard]] int open_endpoint();
  [[nodiscard]] int bind_to(const wire::TransportAddress& address, std::uint32_t qlen);
  [[nodiscard]] int bind_to_any_port(bool v6);
  /// Takes the addresses of the connection from the endpoint.
  void learn_names();

  /// Memory for the connection, before there is one, or anew; and its buffers accordingly. False: there is none.
  bool take_memory();
  /// Where a piece of a turn is put that comes from either side: not more than was promised may be left of it.
  [[nodiscard]] Bytes piece_of(std::size_t buffer_bytes);

  void apply_options() override;
  [[nodiscard]] bool is_bound() const override { return phase_ != Phase::fresh; }
  [[nodiscard]] std::optional<wire::ConnectionInfo> connection_info();
  void await_connection();
  void begin_connection();
  void answer_connect(int error);
  void take_disconnection();
  void connection_failed(int error);
  /// Neither side sends any more.
  void end();
  void end_if_released();
  /// The connection ends at once, with a reset; `error` is what the program is told.
  void abort(int error);
  bool orphan();

  bool pass_up();
  std::size_t receive();
  std::size_t send_up(ConstBytes bytes);
  bool write_up();

  bool pass_down();
  std::size_t read_pair(Bytes place);
  bool take_filler();
  std::size_t send_to_peer(ConstBytes bytes);
  bool send_down();
  void release();

  std::unique_ptr<tli::Endpoint> endpoint_;
  Quotas::Connection granted_;
  Quotas::Share attempt_;  // to connect, while it lasts
  Phase phase_ = Phase::fresh;
  Asker asker_ = 0;               // waits for the connection
  bool background_ = false;       // nobody waits for it
  std::uint32_t filler_ = 0;      // bytes of the pair that mean nothing
  std::vector<std::byte> up_;     // received, not yet taken by the pair
  std::size_t up_sent_ = 0;       // of up_
  std::vector<std::byte> down_;   // read from the pair, not yet taken by the endpoint
  std::size_t down_sent_ = 0;     // of down_
  bool program_ended_ = false;    // it sends no more
  bool released_ = false;         // and the peer has been told
  bool peer_ended_ = false;       // the peer sends no more
  bool end_told_ = false;         // and the program has been told
  bool resets_at_close_ = false;  // SO_LINGER with a time of zero
  bool drained_ = false;          // everything has left, or has had its time
  TimePoint orphaned_at_ = never;
  Timer attention_;
};

}  // namespace sluice::sockets
