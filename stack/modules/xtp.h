// SPDX-License-Identifier: Apache-2.0
#pragma once

// xtp - the Xpress Transport Protocol over datagrams
//
// The unicast data path of XTP 4.0 as a connection-mode transport provider with orderly release and messages (TPI,
// T_COTS_ORD), over any connectionless one: udp, kernel_udp. What is lost is sent again alone, as control packets list
// it; the sender says when it wants to know; a rate and a burst are kept. docs/formats/xtp.md has the packets, and says
// which rule is from where. Wireshark knows XTP in IP; tools/wireshark/sluice.lua (installed in share/sluice/wireshark)
// shows it in UDP, too.
//
// Accepts and produces
//   From above: TPI requests; addresses are those of the provider below. What each means, and its answers, are those of
//   every connection-mode provider here (stack/provider/connection_mode.h). T_BIND_REQ and T_UNBIND_REQ are asked of
//   the provider below. With a CONIND_number above 0 the stream listens: so many T_CONN_IND may be outstanding; a FIRST
//   beyond those is dropped, and comes again.
//
//   T_CONN_REQ calls (FIRST): T_OK_ACK, then T_CONN_CON when the called user has accepted, or T_DISCON_IND. T_CONN_RES
//   accepts on this stream, if no other indication is outstanding (TINDOUT), or on another one of xtp of the same
//   stream set that is idle and bound (TOUTSTATE), and does not listen (TRESQLEN): the caller learns that one's address
//   with T_CONN_CON. T_DISCON_REQ rejects (DIAG). A call that its caller has given up is taken back with T_DISCON_IND.
//
//   T_DATA_REQ, or M_DATA alone, is part of a message, its last where MORE_flag is 0 (EOM); TSDU_size is T_INFINITE.
//   Packets of a message end where whole ones would, also behind one that was cut short. T_DATA_IND brings what came,
//   message by message. Data of no bytes is nothing. On a fused path the pass that copies a user's data sums it, too,
//   and data for a reader who waits is verified in the pass that puts it into his memory (stack/core/reader_place.h).
//   T_ORDREL_REQ ends sending behind all that was put before (WCLOSE); T_ORDREL_IND is the peer's end. T_DISCON_REQ
//   ends both at once (END), and what waits is lost. DISCON_reason is an errno: ECONNRESET, ECONNREFUSED, ETIMEDOUT,
//   EMSGSIZE (packets larger than the provider below takes). T_EXDATA_REQ is fatal.
//
//   Below: a T_UNITDATA_REQ a packet. T_UDERROR_IND ends a call that this end makes, and no association, EMSGSIZE
//   excepted.
//
// Parameters
//   recovery             "selective": what comes behind a gap is kept; "go_back_n": it is not; "selective" if absent
//   error_control        false: nothing is sent again (NOERR), bytes may lack; true if absent
//   flow_control         false: the peer's allocation is not heeded (NOFLOW); true if absent
//   fast_nak             the peer says at once what lacks (FASTNAK), good where nothing is reordered; true if absent
//   checksum             false: it covers headers alone (NOCHECK), for a provider below that has one; true if absent
//   packet_bytes         data of a packet; 1400 if absent
//   status_packets       a status is asked for after so many (SREQ); 16 if absent
//   rate                 bytes a second that leave; 0 for no limit, as if absent
//   burst                of them, bytes at once; those of a packet if absent
//   in_rate              the rate that is asked of the peer
//   in_burst             the burst that is asked of the peer
//   receive_buffer_bytes what may come and wait for the reader; 524288 if absent
//   send_buffer_bytes    what may wait to be acknowledged; 524288 if absent
//   wtimer_ms            the least time in which an answer is awaited; 20 if absent
//   ctimer_ms            after so long without a packet the peer is asked; 60000 if absent
//   attempts             questions without an answer, before an association is given up; 10 if absent
//
// Counters
//   associations      associations set up, by either side
//   indicated         T_CONN_IND passed up
//   rejected          calls that the user rejected, or that were outstanding when the stream closed
//   withdrawn         calls that their callers gave up
//   connect_failures  calls that did not lead to an association
//   resets            associations that ended with T_DISCON_IND
//   aborted           associations that this side ended with END
//   callers_dropped   FIRSTs dropped, since too many callers wait
//   packets_out       packets passed down
//   packets_in        packets whose checksum holds
//   data_sent         packets of data sent
//   data_again        of these, such as were sent before
//   controls_sent     packets without data sent, diagnoses excepted
//   timeouts          WTIMERs that expired
//   duplicates        packets of data that had come before, dropped
//   behind_gaps       go-back-N: packets behind a gap, dropped
//   beyond            packets beyond the allocation, or beyond the room for pieces, dropped
//   skipped_bytes     NOERR: bytes that will not come
//   contradictions    packets that contradict what was sent or said before, dropped
//   strangers         packets of an association from another address than its peer's, dropped
//   no_association    packets of no association, dropped
//   diagnoses_sent    DIAG packets sent
//   short_header, bad_version, bad_type, bad_options, bad_length, bad_checksum, bad_key, bad_sequence, bad_segment,
//   bad_spans, bad_address, bad_traffic
//                     packets dropped, since they are malformed
//   malformed         messages dropped, since their primitive or addresses could not be read
//   errors            errors of the provider below
//   unexpected        acknowledgements that nothing waits for, dropped
//   unsent            messages of data dropped, since their association had ended
//   no_memory         messages dropped or not answered, since the pool was exhausted
//   out_of_state      primitives refused in this state
//   unsupported       requests that this provider does not know
//   protocol_errors   fatal errors: M_ERROR with EPROTO
//   dropped           messages dropped after a fatal error, or of a type that nobody here takes
//
// Flow control
//   Down: what the send buffer has no room for waits on the write queue, and a full queue stops who asks
//   can_put_next(). Up: while the stream above is full, what comes stays here, and the allocation ends. Both ends
//   having been released, the stream is idle while the rest leaves; T_UNBIND_REQ is answered when it has, and a stream
//   that drains before it closes waits for that.
//
// Threats
//   Packets come from anybody who can reach the port. Those of an association carry a key of 63 bits drawn at random,
//   so that only who sees its packets can speak in it. Calls are bounded by CONIND_number, what is kept of each is its
//   FIRST, and nothing is sent to a caller that is more than what came; no address is verified before the user accepts.
//   What an association keeps is bounded by its buffers. There is no congestion control: a rate is the user's to give.
//
// Example
//   driver = { kind = "kernel_udp" }
//   push   = ["xtp", "timod"]
//   xtp    = { packet_bytes = 8192, rate = 100000000, burst = 65536 }
//
// Why so. Alternatives: (1) accepted associations that share the listener's port would end with its stream, and need it
// to pass their packets on; (2) an association set up before its user accepts would be known to the caller sooner, and
// cost memory and a timer for everybody who calls; (3) a connectionless service with messages in front would need its
// own header for what TPI's connection mode says already.
//
// Ownership: owns its associations. Threads: as its stream set's.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "stack/core/registry.h"
#include "stack/modules/connection_endpoint.h"
#include "stack/modules/xtp_association.h"
#include "stack/provider/connection_mode.h"
#include "stack/wire/data_unit.h"

namespace sluice {

namespace xtp {

struct Held {
  Association connection;
  Association::Statistics counted;  // by the owner's counters
};

}  // namespace xtp

class Xtp final : public ConnectionEndpoint<xtp::Held> {
 public:
  static constexpr std::size_t answered_calls_max = 256;

  explicit Xtp(const xtp::Options& options);

  [[nodiscard]] PayloadWork payload_work(Side side) const override;
  [[nodiscard]] std::size_t headroom() const override { return wire::XtpHeader::size; }
  Status open() override;
  void close() override;
  void rput(Batch&& batch) override;

  /// For tests: what is kept.
  [[nodiscard]] std::size_t lingering() const { return lingering_.size(); }
  [[nodiscard]] std::size_t callers() const { return callers_.size(); }

 private:
  struct Caller {
    xtp::Call call;
    std::optional<std::int32_t> sequence;  // SEQ_number of its T_CONN_IND
  };
  /// A call that was answered: its FIRST may come again.
  struct Answered {
    wire::TransportAddress from;
    std::uint64_t key = 0;
    bool refused = false;
  };
  /// What the provider below has been asked.
  enum class Asked : std::uint8_t { nothing, bind, unbind };

  // ConnectionMode
  void bind(ConstBytes address, std::uint32_t connect_indications) override;
  void connect(ConstBytes destination) override;
  void respond(std::uint32_t acceptor_id, std::int32_t sequence) override;
  [[nodiscard]] std::int32_t tsdu_size() const override { return wire::tpi::T_INFINITE; }
  [[nodiscard]] std::int32_t tidu_bytes_max() const override { return xtp::Inbox::piece_bytes_max; }

  // ConnectionEndpoint
  void opened() override;
  void take_data(Message message) override;
  void send(Message message) override;
  void finish() override;
  void pass_up(Message indication) override;
  [[nodiscard]] bool peer_has_ended() override { return mine_->connection.has_ended(); }
  void abort(std::unique_ptr<Held> held) override;
  void forget_connection() override;
  [[nodiscard]] std::optional<Indication> next_caller() override;
  void refuse_caller(std::int32_t sequence) override;
  void drop_callers() override;
  void unbind_when_done() override;
  /// What is to leave has waited.
  void leave() override;

  // The user (xtp.cc)
  [[nodiscard]] std::unique_ptr<Held> make_association(const wire::TransportAddress& remote);
  void accept_call(const xtp::Call& call);
  void attend(Held& held);
  void count(Held& held);
  [[nodiscard]] xtp::Call take_caller(std::int32_t sequence);
  void on_timer();
  void arm();

  // The provider below (xtp_network.cc)
  [[nodiscard]] bool from_provider(Message& message);
  [[nodiscard]] bool acknowledged_below(const Message& message);
  void receive(Message message);
  [[nodiscard]] const std::byte* verified(Message& message, Message& place, Bytes scratch);
  [[nodiscard]] Message place_for(const wire::TransportAddress& from, const Message& message);
  void dispatch(const wire::TransportAddress& from, const wire::XtpHeader& header, Message data);
  void called(const wire::TransportAddress& from, const wire::XtpHeader& header, ConstBytes segment);
  void diagnosed(const wire::TransportAddress& from, const wire::XtpHeader& header, ConstBytes segment);
  void arrived(const wire::TransportAddress& from, const wire::XtpHeader& header, ConstBytes segment, Message data);
  void unclaimed(const wire::TransportAddress& from, const wire::XtpHeader& header);
  [[nodiscard]] bool withdrawn(const wire::TransportAddress& from, const wire::XtpHeader& header);
  void report(Message& message);
  void refuse(const wire::TransportAddress& to, std::uint64_t key, wire::XtpDiagnosis::Value value);
  void consider(const xtp::Call& call);
  void diagnose(const wire::TransportAddress& to, std::uint64_t key, const wire::XtpDiagnosis& diagnosis);
  void send_packet(const wire::TransportAddress& to, Message packet);
  [[nodiscard]] bool seal(Message& packet);
  void flush_packets();
  [[nodiscard]] Held* find(std::uint64_t key);
  [[nodiscard]] Held* addressee(const wire::TransportAddress& from, const wire::XtpHeader& header);
  [[nodiscard]] Held* find_by_peer(const wire::TransportAddress& from, std::uint64_t peer_key);
  void refuse_malformed(wire::XtpMalformed malformed);

  xtp::Options options_;
  Asked asked_ = Asked::nothing;
  bool is_bound_ = false;  // below
  wire::TransportAddress local_;
  std::vector<Caller> callers_;
  std::deque<Answered> answered_;
  std::uint64_t message_bytes_ = 0;  // of the message that the user is giving, so far
  Batch packets_;
  std::unique_ptr<Timer> timer_;

  Counter associations_{*this, "associations", "associations set up, by either side"};
  Counter indicated_{*this, "indicated", "T_CONN_IND passed up"};
  Counter rejected_{*this, "rejected", "calls that the user rejected, or that were outstanding when the stream closed"};
  Counter withdrawn_{*this, "withdrawn", "calls that their callers gave up"};
  Counter connect_failures_{*this, "connect_failures", "calls that did not lead to an association"};
  Counter resets_{*this, "resets", "associations that ended with T_DISCON_IND"};
  Counter aborted_{*this, "aborted", "associations that this side ended with END"};
  Counter callers_dropped_{*this, "callers_dropped", "FIRSTs dropped, since too many callers wait"};
  Counter packets_out_{*this, "packets_out", "packets passed down"};
  Counter packets_in_{*this, "packets_in", "packets whose checksum holds"};
  Counter data_sent_{*this, "data_sent", "packets of data sent"};
  Counter data_again_{*this, "data_again", "of these, such as were sent before"};
  Counter controls_sent_{*this, "controls_sent", "packets without data sent, diagnoses excepted"};
  Counter timeouts_{*this, "timeouts", "WTIMERs that expired"};
  Counter duplicates_{*this, "duplicates", "packets of data that had come before"};
  Counter behind_gaps_{*this, "behind_gaps", "go-back-N: packets behind a gap"};
  Counter beyond_{*this, "beyond", "packets beyond the allocation, or beyond the room for pieces"};
  Counter skipped_bytes_{*this, "skipped_bytes", "NOERR: bytes that will not come"};
  Counter contradictions_{*this, "contradictions", "packets that contradict what was sent or said before"};
  Counter strangers_{*this, "strangers", "packets of an association from another address than its peer's"};
  Counter no_association_{*this, "no_association", "packets of no association"};
  Counter diagnoses_sent_{*this, "diagnoses_sent", "DIAG packets sent"};
  std::vector<std::unique_ptr<Counter>> malformed_packets_;
  Counter malformed_{*this, "malformed", "messages whose primitive or addresses could not be read"};
  Counter errors_{*this, "errors", "errors of the provider below"};
  Counter unexpected_{*this, "unexpected", "acknowledgements that nothing waits for"};
  Counter unsent_{*this, "unsent", "messages of data dropped, since their association had ended"};
  Counter no_memory_{*this, "no_memory", "messages dropped or not answered, since the pool was exhausted"};
};

[[nodiscard]] Entry xtp_entry();

}  // namespace sluice
