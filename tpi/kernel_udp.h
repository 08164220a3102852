// SPDX-License-Identifier: Apache-2.0
#pragma once

// kernel_udp - driver: connectionless transport service (TPI, T_CLTS) over UDP sockets of the kernel.
//
//     [stack.default]
//     driver = { kind = "kernel_udp", gso = true }
//     push   = ["timod"]
//
// PURPOSE      A stack for everybody: no privileges, every network that the host has. Below this driver is the kernel's
//              IP.
//
// ABOVE        TPI primitives in M_PROTO and M_PCPROTO; addresses are TransportAddress (stack/wire/address.h).
//              T_BIND_REQ    binds a socket. An empty address means [::]:0 (0.0.0.0:0 on a host without IPv6); port 0
//                            means any free port; `::` serves IPv6 and IPv4, and IPv4 peers then appear with IPv4
//                            addresses. O_T_BIND_REQ differs in one thing: where the port is busy, it takes a free one.
//              T_UNITDATA_REQ  sends one datagram, T_UNITDATA_IND is one received. Options of a request, if any, are
//                              network::Sending: source, hop limit and traffic class go as control messages of the
//                              socket. T_UNITDATA_IND has network::Received where T_UDP_RECEIVED asked for it.
//              T_UDERROR_IND   tells what became of a datagram: ERROR_type is an errno value. From ICMP: ECONNREFUSED
//                              (port unreachable), EHOSTUNREACH, ... From here: EINVAL (malformed address or
//                              primitive or options), EMSGSIZE, EAFNOSUPPORT (the endpoint has no such addresses),
//                              EADDRNOTAVAIL (a source that is none of this host's), ENOPROTOOPT (not to be fragmented,
//                              where others may be: that is the socket's, see `fragment` and T_IP_DONTFRAG).
//              Options are those of stack/provider/options.h, as far as the kernel takes them (tpi/socket_options.h); a
//              broadcast without T_IP_BROADCAST is answered with EACCES.
//              Local management, and what is allowed when, are those of every connectionless provider here:
//              stack/provider/connectionless.h, states.h. After a fatal error (M_ERROR with EPROTO) the stream is good
//              for nothing but close.
//
// PARAMETERS   gso = true                   send runs of equal datagrams in one call (UDP_SEGMENT), where the kernel
//                                           can
//              gro = true                   receive such runs in one call (UDP_GRO), where the kernel can
//              fragment = true              unless T_IP_DONTFRAG or T_IPV6_DONTFRAG says otherwise. false: no datagram
//                                           is fragmented; one larger than the interface's MTU is
//                                           refused with EMSGSIZE, and what ICMP says of the path's is T_UDERROR_IND
//              receive_buffer_bytes = 4 MiB, send_buffer_bytes = 4 MiB    of the socket; what the system allows of it
//
// SEGMENTS     A request with a segment size goes to the kernel as one run, at once where nothing waits, then from
// where the
//              user's bytes lie. Where the kernel takes no run it is taken apart, datagram by datagram; one error
//              answers what is left of it. What the kernel has coalesced is one indication where the whole stream
//              handles that.
//
// FLOW         Down: datagrams wait on the write queue; its service procedure sends bursts. What the kernel does not
//              take stays there, first in first out, until the socket is writable; a full queue stops who asks
//              can_put_next(). Up: a full stream head stops reading, at most one burst beyond its mark; what then
//              exceeds the socket's receive buffer the kernel drops (counter kernel_drops). Back-enabling resumes.
//
// COUNTERS     See the members below; each dropped or refused message is counted under a name.
//
// Ownership: owns its socket. Threads: that of its stream set. A link-local IPv6 address holds its zone itself
// (stack/wire/zone.h).

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "stack/core/scheduler.h"
#include "stack/provider/connectionless.h"
#include "stack/wire/data_unit.h"
#include "tpi/socket_driver.h"
#include "tpi/socket_options.h"
#include "tpi/udp_receiver.h"
#include "tpi/udp_sender.h"
#include "tpi/udp_socket.h"

namespace sluice::tpi {

class KernelUdp final : public SocketDriver, private provider::Connectionless {
 public:
  static constexpr WaterMarks write_marks{.high_bytes = 512 * 1024, .low_bytes = 128 * 1024};
  static constexpr std::size_t bursts_per_service_max = 8;
  static constexpr Duration retry_delay = std::chrono::milliseconds(1);
  /// The largest datagram of IPv4 (65535 - 20 - 8), and of IPv6 without jumbograms (65535 - 8).
  static constexpr std::int32_t tsdu_bytes_max_v4 = 65507;
  static constexpr std::int32_t tsdu_bytes_max_v6 = 65527;

  KernelUdp(StreamSet& set, const UdpSocket::Options& options, UdpSender::SendCall send_call = ::sendmmsg);

  void close() override;
  [[nodiscard]] bool handles_segments() const override { return true; }
  [[nodiscard]] PayloadWork payload_work(Side side) const override;
  void wsrv() override;
  void rsrv() override;

 private:
  // SocketDriver
  void take_request(Message message) override;
  void answer_ioctl(Message message) override;
  void drop(Message /*message*/) override { ++dropped_; }

  // EventSource
  [[nodiscard]] int descriptor() const override { return socket_->descriptor(); }
  bool on_readable() override;
  [[nodiscard]] bool wants_readable() const override { return !reading_stopped_; }
  [[nodiscard]] bool wants_writable() const override { return writing_blocked_; }
  void on_writable() override { resume_writing(); }

  // Connectionless
  [[nodiscard]] std::int32_t tsdu_bytes_max() const override;
  void bind(ConstBytes address) override;
  void unbind() override;
  void release() override;
  void answer_lost() override { ++answers_lost_; }
  [[nodiscard]] provider::OptionStore* options() override { return &socket_options_; }

  // Requests and errors.
  void report(Message indication, int error, std::size_t datagrams = 1);
  void refuse_datagram(Message request, int error);
  void count_error(int error, std::size_t datagrams);

  // Sending.
  void send_waiting();
  void fill_burst();
  void send_at_once(Message request);
  void prepare(Message request);
  [[nodiscard]] int refusal(const Message& request, const wire::DataUnit& unit);
  void take_apart(Message request);
  void put_back_unsent();
  [[nodiscard]] int resolve(const wire::TransportAddress& address);
  [[nodiscard]] bool send_burst();
  void account_failure(std::size_t& attempts);
  void stop_writing(bool until_writable);
  void resume_writing();

  // Receiving.
  std::size_t report_queued_errors();
  void receive_failed(int error);
  void update_counters();
  void release_socket();

  UdpSocket::Options options_;
  SocketOptions socket_options_;
  std::optional<UdpSocket> socket_;
  UdpSender sender_;
  UdpReceiver receiver_;
  std::optional<wire::TransportAddress> resolved_;  // the address that destination_ stands for
  SocketAddress destination_;
  Timer retry_;
  bool reading_stopped_ = false;
  bool writing_blocked_ = false;

  Counter sent_{*this, "sent", "datagrams that the kernel took"};
  Counter send_calls_{*this, "send_calls", "system calls that sent them"};
  Counter segmented_runs_{*this, "segmented_runs", "runs of datagrams sent as one (GSO)"};
  Counter refused_runs_{*this, "refused_runs", "runs that the kernel refused and that were sent one by one"};
  Counter write_waits_{*this, "write_waits", "times the kernel took no more and sending had to wait"};
  Counter received_{*this, "received", "datagrams passed up"};
  Counter receive_calls_{*this, "receive_calls", "system calls that received them"};
  Counter coalesced_{*this, "coalesced", "datagrams received in runs (GRO)"};
  Counter read_stops_{*this, "read_stops", "times reading stopped because the stream head was full"};
  Counter kernel_drops_{*this, "kernel_drops", "datagrams lost because the socket's receive buffer was full"};
  Counter truncated_{*this, "truncated", "datagrams dropped because they were larger than any may be"};
  Counter no_buffer_{*this, "no_buffer", "received datagrams dropped because the buffer pool was exhausted"};
  Counter answers_lost_{*this, "answers_lost", "answers not given because the buffer pool was exhausted"};
  Counter refused_{*this, "refused", "datagrams answered by ECONNREFUSED: no such port at the destination"};
  Counter unreachable_{*this, "unreachable", "datagrams with no way to their host or network"};
  Counter too_big_{*this, "too_big", "datagrams larger than the path or the protocol allows"};
  Counter denied_{*this, "denied", "datagrams that the system forbade to send"};
  Counter bad_requests_{*this, "bad_requests", "T_UNITDATA_REQ with malformed or unsupported contents"};
  Counter other_errors_{*this, "other_errors", "datagrams with any other error"};
  Counter reports_dropped_{*this, "reports_dropped", "T_UDERROR_IND not passed up because the stream head was full"};
};

}  // namespace sluice::tpi
