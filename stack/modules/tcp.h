// SPDX-License-Identifier: Apache-2.0
#pragma once

// tcp - the Transmission Control Protocol over ip
//
// TCP (RFC 9293) as a connection-mode transport provider with orderly release (TPI, T_COTS_ORD). One stream is one
// endpoint: it listens, or has one connection. What a connection does, and which other RFCs it follows, is
// stack/modules/tcp_connection.h; this is how it is part of a stream.
//
// Accepts and produces
//   From above: TPI requests; addresses are TransportAddress (stack/wire/address.h). What each means, and its answers,
//   are those of every connection-mode provider here (stack/provider/connection_mode.h). A bind address that is empty,
//   or has port 0, asks for a free port of 49152..65535; O_T_BIND_REQ takes such a one where the port asked for is
//   busy. With a CONIND_number above 0 the stream listens: so many T_CONN_IND may be outstanding, and as many callers
//   more wait here; a SYN beyond those is dropped, and so comes again. As many callers again, and 16 at least, may have
//   been answered and not have acknowledged that. Who calls while there are that many is answered with a SYN cookie
//   (stack/modules/tcp_cookie.h) and kept nowhere: he gets through when he acknowledges it, without selective
//   acknowledgement and window scale if he has no timestamps.
//
//   T_CONN_REQ connects: T_OK_ACK, then T_CONN_CON, or T_DISCON_IND where nobody answers within three minutes, a reset
//   comes, or the network says that there is no way. TSYSERR with the errno of ip's route where there is none, with
//   EOPNOTSUPP by a stream that listens, with ENOBUFS for want of memory; TADDRBUSY: that very connection is still
//   closing.
//
//   T_CONN_IND is a connection that has been set up. T_CONN_RES accepts it on the stream whose ACCEPTOR_id it names:
//   the same, if no other is outstanding (TINDOUT), or another one of tcp of the same stream set, idle or unbound
//   (TOUTSTATE), that does not listen (TRESQLEN). TBADF: no stream has that number; TPROVMISMATCH: another provider
//   has. T_DISCON_REQ rejects it, with a reset. One whose caller has gone is taken back with T_DISCON_IND.
//
//   T_DATA_REQ, or M_DATA alone, is bytes of the stream; MORE_flag means nothing. T_DATA_IND brings what came. On a
//   fused path the pass that copies a user's data sums it, too, and data for a reader who waits is verified in the pass
//   that puts it into his memory (stack/core/reader_place.h).
//   T_ORDREL_REQ ends sending behind all that was put before (FIN); T_ORDREL_IND is the peer's end. T_DISCON_REQ ends
//   both at once with a reset, and what waits is lost. DISCON_reason is an errno: ECONNRESET, ECONNREFUSED, ETIMEDOUT,
//   ... T_EXDATA_REQ is fatal. RFC 6093 tells new applications to do without urgent data; what a peer sends as such
//   stays in the stream, where it was sent.
//
//   Below: ip, as stack/wire/network.h says. A segment is a T_UNITDATA_REQ of protocol 6 that is not to be fragmented;
//   when the path's MTU shrinks, so do the segments. A path may also drop what is too large and say nothing: when a
//   full segment was sent again three times in vain, segments are smaller (RFC 4821 section 7.7), until a larger one,
//   which is tried a few times and then every ten minutes, has arrived. Where ip says that its link takes segments
//   together, and nobody between is in the way (`sluice explain`), full ones go down as one message, up to 64 KiB,
//   which the device splits or the driver before it (dlpi/super_frame.h); what the device has put together comes up as
//   one. What is sent again goes one by one. Counters count segments. A T_UDERROR_IND ends a connection that this end
//   is opening, and no other (RFC 5461); ENOBUFS ends none.
//
//   Segments of no connection are answered with a reset (RFC 9293 section 3.5.2) by the stream that has their port, and
//   by one that is unbound, which sees what no other stream of the link claims.
//
//   Options (stack/provider/options.h): T_IPV6_V6ONLY, T_TCP_NODELAY, T_TCP_MAXSEG (of the connection's segments; 536
//   without one), T_TCP_KEEPALIVE, T_TCP_KEEPIDLE, T_TCP_KEEPINTVL, T_TCP_KEEPCNT, T_TCP_MAXSEG_LIMIT, XTI_RCVBUF,
//   XTI_SNDBUF. They are the stream's, and a connection that it makes or accepts has them. A window that is larger than
//   64 KiB needs the scale that the SYN has said, which is that of XTI_RCVBUF then. Keep-alive asks a peer that has
//   been silent for so long, nine times at most, 75 seconds apart, unless the options say otherwise; then the
//   connection ends with ETIMEDOUT.
//
//   The ioctl SLIOCCONNECTION (stack/wire/connection_info.h) tells what is known of the stream's connection.
//
// Parameters
//   receive_buffer_bytes = 4096..1073741824    what may come and wait for the reader; 524288 if absent; of a caller who
//                                              has not been accepted 8192 at most
//   send_buffer_bytes    = 4096..1073741824    what may wait to be acknowledged; 524288 if absent
//
// Counters
//   connections       connections set up, by either side
//   indicated         T_CONN_IND passed up
//   rejected          connections that the user rejected, or that were outstanding when the stream closed
//   withdrawn         callers that had gone before the user answered
//   connect_failures  connections that could not be set up
//   resets            connections that ended with T_DISCON_IND
//   aborted           connections that this side ended with a reset
//   callers_dropped   SYNs, and acknowledgements of cookies, dropped, since too many callers wait
//   cookies_sent      SYNs answered with a cookie
//   cookies_taken     callers who came back with one
//   segments_sent     segments passed to ip
//   segments_again    of these, such as were sent before
//   segments_received segments whose checksum holds
//   timeouts          retransmission timeouts
//   challenges        segments questioned as RFC 5961 asks
//   unacceptable      segments out of the window or too old
//   resets_sent       resets that answer segments of no connection
//   no_connection     segments of no connection that are not answered, dropped
//   malformed         messages dropped, since their primitive or addresses could not be read
//   short_header      segments of under 20 bytes, or whose data offset lies, dropped
//   bad_checksum      segments that do not sum up, dropped
//   errors            errors of the network about segments of this stream
//   foreign_error     errors about segments that this stream did not send, dropped
//   unexpected        acknowledgements and M_CTL that nothing waits for, dropped
//   unsent            messages of data dropped, since their connection had ended
//   no_memory         messages dropped or not answered, since the pool was exhausted
//   out_of_state      primitives refused in this state
//   unsupported       requests that this provider does not know
//   protocol_errors   fatal errors: M_ERROR with EPROTO
//   dropped           messages dropped after a fatal error, or of a type that nobody here takes
//
// Flow control
//   Down: what the send buffer has no room for waits on the write queue, and a full queue stops who asks
//   can_put_next(). Up: while the stream above is full, what comes stays here, and the window closes. Both ends having
//   been released, the stream is idle while the rest leaves; T_UNBIND_REQ is answered when it has, and a stream that
//   drains before it closes waits for that. One that closes in the middle of a connection resets it, so that the peer
//   does not take the part for the whole.
//
// Example
//   push = ["ip", "tcp", "timod"]
//
// Threat: peers may connect and say nothing, send single bytes, never read, or reset at any time; others may send
// segments in their name. Callers are bounded by CONIND_number, and SYNs of callers who never come do not keep others
// out (SYN cookies); what a connection keeps is bounded by its buffers; first sequence numbers are not to be guessed
// (RFC 6528).
//
// Ownership: owns its connections. Threads: as its stream set's.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "stack/core/registry.h"
#include "stack/modules/connection_endpoint.h"
#include "stack/modules/port_binding.h"
#include "stack/modules/tcp_connection.h"
#include "stack/modules/tcp_cookie.h"
#include "stack/provider/connection_mode.h"
#include "stack/wire/data_unit.h"
#include "stack/wire/network.h"

namespace sluice {

class Tcp;

namespace tcp {

/// A connection, its timer, and the stream it is part of now.
struct Held {
  Held(Tcp& first_owner, const Ends& ends, const Connection::Settings& settings, const Connection::Secrets& secrets);
  Tcp* owner;
  Connection connection;
  Timer timer;
  bool ended = false;              // the peer ended sending before the connection was anybody's
  Connection::Statistics counted;  // by the owners' counters
  bool touched = false;            // among its owner's
};

}  // namespace tcp

class Tcp final : public ConnectionEndpoint<tcp::Held> {
 public:
  static constexpr std::size_t indication_bytes_max = 64 * 1024;
  /// What may come of a caller before he is accepted.
  static constexpr std::size_t caller_receive_bytes_max = 8 * 1024;
  static constexpr std::size_t half_open_min = 16;
  /// RFC 9293 section 3.8.4: "This interval MUST be configurable (MUST-27) and MUST default to no less than two hours
  /// (MUST-28)."
  static constexpr std::uint32_t keep_idle_seconds_initial = 7200;
  static constexpr std::uint32_t keep_interval_seconds_initial = 75;
  static constexpr std::uint32_t segment_limit_initial = 32767;

  struct Options {
    std::size_t receive_buffer_bytes = std::size_t{512} * 1024;
    std::size_t send_buffer_bytes = std::size_t{512} * 1024;
  };

  explicit Tcp(const Options& options);

  [[nodiscard]] bool handles_segments() const override { return true; }
  [[nodiscard]] bool ends_segments() const override { return true; }
  [[nodiscard]] PayloadWork payload_work(Side side) const override;
  [[nodiscard]] std::size_t headroom() const override { return wire::TcpHeader::size_max; }
  Status open() override;
  void close() override;
  void rput(Batch&& batch) override;

 private:
  friend struct tcp::Held;
  /// One that came to a stream that listens, and has not been accepted.
  struct Caller {
    std::unique_ptr<Held> held;
    std::optional<std::int32_t> sequence;  // SEQ_number of its T_CONN_IND
    bool opened = false;
  };
  /// One that was accepted on another stream, which the driver does not know of yet.
  struct Handed {
    tcp::Ends ends;
    std::uint32_t acceptor = 0;  // ModuleHandleTable::number()
  };
  /// Why the stream's port is being bound.
  enum class Purpose : std::uint8_t { none, user, adoption, connecting };
  class UserOptions final : public provider::OptionStore {
   public:
    explicit UserOptions(Tcp& module) : module_(module) {}
    [[nodiscard]] std::optional<std::uint32_t> current(provider::Setting setting) override;
    [[nodiscard]] std::optional<std::uint32_t> initial(provider::Setting setting) override;
    [[nodiscard]] bool set(provider::Setting setting, std::uint32_t value) override;
    /// Nobody joins a group here.
    [[nodiscard]] bool join(const provider::Membership&, bool) override { return false; }
    [[nodiscard]] bool leave(const provider::Membership&, bool) override { return false; }

   private:
    Tcp& module_;
  };

  // ConnectionMode
  void bind(ConstBytes address, std::uint32_t connect_indications) override;
  void connect(ConstBytes destination) override;
  void respond(std::uint32_t acceptor_id, std::int32_t sequence) override;
  void release() override;
  [[nodiscard]] provider::OptionStore* options() override { return &options_; }
  [[nodiscard]] std::int32_t tidu_bytes_max() const override { return indication_bytes_max; }

  // ConnectionEndpoint
  void pass_on(Message message) override;
  void opened() override { ++connections_; }
  void note(const News& news) override { end_came_ = end_came_ || news.ended; }
  void take_data(Message message) override;
  void send(Message data) override;
  void finish() override;
  void pass_up(Message indication) override;
  [[nodiscard]] bool peer_has_ended() override;
  void abort(std::unique_ptr<Held> held) override;
  void drop(std::unique_ptr<Held> held) override;
  void forget_connection() override;
  [[nodiscard]] std::optional<Indication> next_caller() override;
  void refuse_caller(std::int32_t sequence) override;
  void drop_callers() override;
  void unbind_when_done() override;

  // The user (tcp.cc)
  void answer_ioctl(Message message);
  void port_bound();
  void port_refused(std::int32_t tli_error, std::int32_t unix_error);
  void port_released();
  void go_on();
  void start_connecting();
  void refuse_connect(std::int32_t tli_error, std::int32_t unix_error);

  // Connections (tcp_connections.cc)
  [[nodiscard]] tcp::Connection::Secrets secrets_of(const tcp::Ends& ends) const;
  [[nodiscard]] std::unique_ptr<Held> make_connection(const tcp::Ends& ends, const wire::network::RouteAck& route,
                                                      const tcp::Connection::Secrets& secrets);
  void set_connection(std::unique_ptr<Held> held);
  void apply_options();
  void attend(Held& held);
  void touch(Held& held);
  void untouch(Held& held);
  void attend_touched();
  void flush(Held& held);
  [[nodiscard]] bool has(const Held& held) const;
  void on_timer(Held& held);
  void news_of_caller(Caller& caller);
  void count(Held& held);
  [[nodiscard]] std::unique_ptr<Held> take_caller(std::int32_t sequence);
  [[nodiscard]] Held* find(const tcp::Ends& ends);
  void take_over(std::unique_ptr<Held> held, Tcp& from);
  void adopted();

  // The network (tcp_network.cc)
  [[nodiscard]] bool from_network(Message& message);
  void receive(Message message);
  [[nodiscard]] std::optional<tcp::Segment> verified(Message message, const wire::DataUnit& unitdata, Message place);
  [[nodiscard]] Message place_for(const Message& message, const wire::DataUnit& unitdata) const;
  void arrived(const tcp::Ends& ends, tcp::Segment segment);
  void called(const tcp::Ends& ends, const tcp::Segment& syn);
  void bound_caller(Held& held);
  [[nodiscard]] std::size_t caller_buffer_bytes() const {
    return std::min(buffers_.receive_buffer_bytes, caller_receive_bytes_max);
  }
  void answer_with_cookie(const tcp::Ends& ends, const tcp::Segment& syn, std::uint16_t segment_bytes);
  [[nodiscard]] bool came_back(const tcp::Ends& ends, tcp::Segment& segment);
  [[nodiscard]] std::size_t callers_open() const;
  [[nodiscard]] bool callers_full() const { return callers_open() >= 2 * std::size_t{connect_indications()}; }
  void unclaimed(const tcp::Ends& ends, const tcp::Segment& segment);
  void report(Message& message);
  void control(const Message& message);
  [[nodiscard]] Message request_of(const tcp::Ends& ends, Message segment);
  [[nodiscard]] std::optional<wire::network::RouteAck> route(const wire::IpAddress& destination);
  [[nodiscard]] std::uint16_t segment_bytes_of(const wire::IpAddress& remote, std::uint32_t mtu) const;
  [[nodiscard]] std::size_t together_bytes_of(const wire::network::RouteAck& route) const;
  void path_changed(const wire::network::RouteAck& route);

  const Options declared_;
  Options buffers_ = declared_;
  UserOptions options_{*this};
  bool no_delay_ = false;
  bool v6_only_ = false;
  bool keeps_alive_ = false;
  std::uint32_t keep_idle_seconds_ = keep_idle_seconds_initial;
  std::uint32_t keep_interval_seconds_ = keep_interval_seconds_initial;
  std::uint32_t keep_count_ = tcp::Connection::keep_alive_probes_max;
  std::uint32_t segment_limit_ = segment_limit_initial;
  std::unique_ptr<PortBinding> port_;
  Purpose purpose_ = Purpose::none;
  std::optional<wire::TransportAddress> callee_;  // of the connect in hand
  std::vector<Caller> callers_;
  tcp::Cookies cookies_;
  TimePoint cookies_until_{};   // those that were sent are good
  std::vector<Held*> touched_;  // to which segments have come that are not attended to yet
  std::vector<Handed> handed_;
  std::uint32_t adopted_from_ = 0;  // number of the stream that listens
  bool end_came_ = false;           // the peer's
  std::optional<wire::network::RouteAck> answered_route_;

  Counter connections_{*this, "connections", "connections set up, by either side"};
  Counter indicated_{*this, "indicated", "T_CONN_IND passed up"};
  Counter rejected_{*this, "rejected", "connections that the user rejected, or that were outstanding when it closed"};
  Counter withdrawn_{*this, "withdrawn", "callers that had gone before the user answered"};
  Counter connect_failures_{*this, "connect_failures", "connections that could not be set up"};
  Counter resets_{*this, "resets", "connections that ended with T_DISCON_IND"};
  Counter aborted_{*this, "aborted", "connections that this side ended with a reset"};
  Counter callers_dropped_{*this, "callers_dropped", "SYNs, and answers of callers, dropped since too many wait"};
  Counter cookies_sent_{*this, "cookies_sent", "SYNs answered with a cookie"};
  Counter cookies_taken_{*this, "cookies_taken", "callers who came back with one"};
  Counter segments_sent_{*this, "segments_sent", "segments passed to ip"};
  Counter segments_again_{*this, "segments_again", "of these, such as were sent before"};
  Counter segments_received_{*this, "segments_received", "segments whose checksum holds"};
  Counter timeouts_{*this, "timeouts", "retransmission timeouts"};
  Counter challenges_{*this, "challenges", "segments questioned as RFC 5961 asks"};
  Counter unacceptable_{*this, "unacceptable", "segments out of the window or too old"};
  Counter resets_sent_{*this, "resets_sent", "resets that answer segments of no connection"};
  Counter no_connection_{*this, "no_connection", "segments of no connection that are not answered, dropped"};
  Counter malformed_{*this, "malformed", "messages whose primitive or addresses could not be read"};
  Counter short_header_{*this, "short_header", "segments of under 20 bytes, or whose data offset lies"};
  Counter bad_checksum_{*this, "bad_checksum", "segments that do not sum up"};
  Counter errors_{*this, "errors", "errors of the network about segments of this stream"};
  Counter foreign_error_{*this, "foreign_error", "errors about segments that this stream did not send"};
  Counter unexpected_{*this, "unexpected", "acknowledgements and M_CTL that nothing waits for"};
  Counter unsent_{*this, "unsent", "messages of data dropped, since their connection had ended"};
  Counter no_memory_{*this, "no_memory", "messages dropped or not answered, since the pool was exhausted"};
};

[[nodiscard]] Entry tcp_entry();

}  // namespace sluice
