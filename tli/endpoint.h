// SPDX-License-Identifier: Apache-2.0
#pragma once

// A transport endpoint, of either service mode: the calls of TLI/XTI as members of the endpoint that t_open() returns.
//
//     auto endpoint = Endpoint::t_open(std::move(stream), nullptr);
//     t_bind any;
//     (*endpoint)->t_bind(nullptr, &any);
//     (*endpoint)->t_sndudata(unit);                   // connectionless mode
//
//     (*endpoint)->t_connect(call, nullptr);           // connection mode, by the side that calls
//     (*endpoint)->t_snd(bytes, 0);
//     (*endpoint)->t_rcv(place, flags);
//     (*endpoint)->t_sndrel();                         // orderly, with t_rcvrel(); or t_snddis()
//
//     (*listener)->t_listen(call);                     // by the side that is called, bound with a qlen above 0
//     (*listener)->t_accept(**endpoint, call);         // here, or on another endpoint
//
// Calls wait where XTI says so, through the stream's Waiter, unless the stream is non-blocking (O_NONBLOCK) or has no
// waiter: then TNODATA or TFLOW. What else the peer does is an event: a call that it stands in the way of fails with
// TLOOK, t_look() names it, and the call that is for it takes it:
//
//   | event        | TLOOK of                                                                 | taken by             |
//   |--------------|--------------------------------------------------------------------------|----------------------|
//   | T_LISTEN     | t_connect, t_unbind, t_accept on the same endpoint                       | t_listen             |
//   | T_CONNECT    |                                                                          | t_rcvconnect         |
//   | T_DATA       | t_unbind                                                                 | t_rcv, t_rcvudata    |
//   | T_EXDATA     |                                                                          | t_rcv                |
//   | T_DISCONNECT | t_connect, t_rcvconnect, t_listen, t_accept, t_snd, t_rcv, t_sndrel,     | t_rcvdis             |
//   |              | t_rcvrel, t_snddis                                                       |                      |
//   | T_ORDREL     | t_rcv                                                                    | t_rcvrel             |
//   | T_UDERR      | t_sndudata, t_rcvudata, t_unbind                                         | t_rcvuderr           |
//   | T_GODATA, T_GOEXDATA | none                                                             | t_look               |
//
// A T_DISCONNECT of a connection overtakes what has not been received: data is lost with its connection. One about an
// indication that is outstanding keeps its place behind that.
//
// Where this library differs:
//
//   | call          | TLI (SVR4)             | XTI (XNS 5.2)           | here                                     |
//   |---------------|------------------------|-------------------------|------------------------------------------|
//   | all           | int, global t_errno    | int, global t_errno     | Outcome with the t_errno in it           |
//   | t_open        | device name, fd        | device name, fd         | a stream with timod on top               |
//   | t_bind        | busy address: another  | busy address: TADDRBUSY | as XTI                                   |
//   | t_unbind      | flushes what waits     | TLOOK if data waits     | as XTI; and if an error waits            |
//   | t_sndudata    | too long: TSYSERR      | too long: TBADDATA      | as XTI                                   |
//   |               | no TLOOK               | TLOOK if an error waits | as XTI                                   |
//   | t_rcvudata    | state not checked      | wrong state: TOUTSTATE  | as XTI                                   |
//   |               | maxlen 0: TBUFOVFLW    | maxlen 0: not asked for | as XTI; so is t_rcvuderr                 |
//   | t_look        | no T_GODATA            | T_GODATA                | as XTI                                   |
//   | t_alloc       | T_INFINITE: 1024 bytes | T_INFINITE: undefined   | TSYSERR (EINVAL)                         |
//   | t_getprotaddr | none                   | yes                     | as XTI                                   |
//   | t_getstate    | yes                    | yes                     | as XTI                                   |
//   | t_strerror    | none                   | yes                     | as XTI                                   |
//   | t_sndvudata   | none                   | yes                     | as XTI; so are t_rcvvudata, t_sndv,      |
//   |               |                        |                         | t_rcvv                                   |
//   | t_accept      | TLOOK if an event      | TLOOK "may" be          | TLOOK if T_DISCONNECT waits, or, on the  |
//   |               | waits                  |                         | same endpoint, T_LISTEN                  |
//   |               | bound endpoint only    | T_UNBND, too            | as XTI                                   |
//   | t_snd         | state not checked      | TOUTSTATE               | as XTI                                   |
//   |               | T_ORDREL: none         | T_ORDREL: XNS 4 TLOOK,  | no TLOOK, so that what is left may be    |
//   |               |                        | XNS 5 not required      | sent                                     |
//   |               | expedited, unsupported | TNOTSUPPORT             | as XTI                                   |
//   | t_sysconf     | none                   | yes                     | as XTI                                   |
//
// A program that unbinds while peers still send receives until TNODATA and calls again; t_close() discards what waits.
//
// Ownership: an endpoint owns its stream. Threads: the stream set's.

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "stack/head/stream.h"
#include "stack/wire/data_unit.h"
#include "stack/wire/network.h"
#include "tli/alloc.h"
#include "tli/state.h"
#include "tli/xti.h"

namespace sluice::tli {

class Endpoint {
 public:
  /// Makes a transport endpoint of `stream`. TBADNAME: there is no timod on top. TSYSERR: the provider did not answer.
  [[nodiscard]] static Outcome<std::unique_ptr<Endpoint>> t_open(std::unique_ptr<Stream> stream, t_info* info);
  /// The rest of the object goes with its destructor. TOUTSTATE when closed already.
  Outcome<> t_close();

  /// Binds to `req->addr` (nullptr or empty: the provider chooses); `ret->addr` tells the bound address. TADDRBUSY,
  /// TBADADDR, TNOADDR, TACCES, TBUFOVFLW (bound all the same), TOUTSTATE. A `req->qlen` above 0 is how many connection
  /// indications may be outstanding; `ret->qlen` tells how many the provider allows.
  Outcome<> t_bind(const tli::t_bind* req, tli::t_bind* ret);
  /// TLOOK when an event waits, T_DATA, T_UDERR or T_LISTEN; TOUTSTATE.
  Outcome<> t_unbind();
  /// In this order: TNOTSUPPORT unless connectionless; TOUTSTATE; TBADDATA: empty without SENDZERO, or larger than the
  /// TSDU; TSYSERR after an error or hangup of the stream; TLOOK when a unit data error waits (t_rcvuderr() is due, and
  /// nothing was sent); TFLOW; TBADADDR, TBADOPT: no room for that much; TSYSERR with ENOSR. Options are a
  /// network::Sending, or XTI's: T_IP_TTL and T_IP_TOS to an IPv4 address, T_IPV6_UNICAST_HOPS to an IPv6 one
  /// (tli/options.h).
  Outcome<> t_sndudata(const t_unitdata& unitdata);
  /// As t_sndudata, the data gathered from `parts`. TBADDATA: more than T_IOV_MAX.
  Outcome<> t_sndvudata(const t_unitdata& unitdata, std::span<const t_iovec> parts);
  /// Receives one data unit. What does not fit stays, `flags` has T_MORE, and the next calls bring the rest with empty
  /// address and options. TNODATA, TLOOK (t_rcvuderr() is due), TBUFOVFLW (the data unit is discarded), TOUTSTATE.
  Outcome<> t_rcvudata(t_unitdata& unitdata, int& flags);
  /// As t_rcvudata, the data scattered to `parts`; answers how many bytes. TBADDATA: more than T_IOV_MAX.
  Outcome<std::size_t> t_rcvvudata(t_unitdata& unitdata, std::span<const t_iovec> parts, int& flags);

  // Beyond XTI: many data units in one call, shaped like sendmmsg(2) and recvmmsg(2).

  /// Sends `units`, in order, as batches that cross the stack together; answers how many were sent. What stops the
  /// first is the answer, as of t_sndudata(); what stops a later one, the next call's. Waits, where that is allowed,
  /// before each batch of batch_units_max. Of a batch, joined_units_min or more that follow each other to one place in
  /// one way, all of one size but for a shorter last one, cross the stack together, as those of t_sndsudata() do: the
  /// provider may then tell of one error for all of them.
  Outcome<std::size_t> t_sndmudata(std::span<const t_unitdata> units);
  /// As t_sndmudata, but each crosses alone, its data gathered from the parts at its place in `parts`, as t_sndvudata()
  /// does. REQUIRES: as many of these as units.
  Outcome<std::size_t> t_sndmvudata(std::span<const t_unitdata> units, std::span<const std::span<const t_iovec>> parts);
  static constexpr std::size_t batch_units_max = 32;
  static constexpr std::size_t joined_units_min = wire::network::joined_min;
  /// Sends several data units of `segment` bytes each, the last perhaps shorter, to one place: the data is gathered
  /// from `parts`, which need not be cut where data units are. They cross the stack as one message as far down as its
  /// provider and device can take them so: one descent for all (what UDP_SEGMENT is to sendmsg(2)). As t_sndudata(),
  /// but all go, or none. TBADDATA: no segment size, one above the TSDU, more than segments_max data units,
  /// segments_bytes_max bytes or segments_parts_max parts, or no data.
  Outcome<> t_sndsudata(const t_unitdata& unitdata, std::span<const t_iovec> parts, std::size_t segment);
  static constexpr std::size_t segments_max = wire::network::segments_max;
  static constexpr std::size_t segments_bytes_max = 65487;  // fits an IPv4 and an IPv6 packet
  static constexpr std::size_t segments_parts_max = 256;
  /// Receives the data units that came together from one sender, up to as many as `parts` have room for; answers the
  /// bytes, and in `segment` the size of each but the last. As t_rcvvudata() where one came alone. A data unit
  /// that does not fit stays, and only the first may be delivered in part, with T_MORE.
  Outcome<std::size_t> t_rcvsudata(t_unitdata& unitdata, std::span<const t_iovec> parts, std::size_t& segment,
                                   int& flags);
  /// Receives up to units.size() data units, as t_rcvudata() each, and waits for the first of them only; answers how
  /// many. Ends early at one that does not fit (`flags` has T_MORE, of the last), and before an error that waits.
  Outcome<std::size_t> t_rcvmudata(std::span<t_unitdata> units, int& flags);

  // Beyond XTI: the application names the place. The data unit that waits is looked at, and then taken, in one pass
  // from where it arrived to where the application says it belongs (application level framing: Clark and Tennenhouse,
  // "Architectural Considerations for a New Generation of Protocols", 1990, section 6).

  /// Shows the data unit that waits: addr and opt as t_rcvudata(), and the first udata.maxlen bytes of its data, if it
  /// has so many. Answers the bytes in all. On a fused path nothing is verified yet: what is shown is good for naming a
  /// place, and for nothing else. TNODATA, TLOOK, TBUFOVFLW (the data unit is discarded), TOUTSTATE.
  Outcome<std::size_t> t_lookudata(t_unitdata& unitdata);
  /// Takes the data unit that t_lookudata() showed into `parts`, whole, and answers its bytes. TNODATA: its checksum
  /// does not hold; it is gone and counted, and the places hold bytes that mean nothing. TBADDATA: more than T_IOV_MAX
  /// parts, or less room than bytes; it still waits. TOUTSTATE: none has been shown.
  Outcome<std::size_t> t_landudata(std::span<const t_iovec> parts);
  /// As t_landudata(), through a stage of the caller's (stack/core/stage.h), which joins what is owed to the bytes: it
  /// opens what is sealed, say, in the pass that lands them. TPROTO: it refuses them; the data unit is gone, and what
  /// the stack below owed was good. TNOTSUPPORT: the data unit is one of several that came together; it still waits.
  /// The stage has nothing else to do until the call returns.
  Outcome<std::size_t> t_landudata(std::span<const t_iovec> parts, const OwnStage& stage);
  /// Shows the data units that came together from one sender, as t_rcvsudata() would deliver them, where they lie: all
  /// that is left of them, in one piece, and in `segment` the size of each but the last. The bytes are the caller's to
  /// change until t_endsudata(), which is due next. Empty where one came alone, where something is still owed to the
  /// bytes, or where they are not in one piece: take them in another way. TNODATA, TLOOK, TBUFOVFLW, TOUTSTATE.
  Outcome<Bytes> t_showsudata(t_unitdata& unitdata, std::size_t& segment);
  /// The caller is done with what t_showsudata() showed.
  void t_endsudata();
  /// Discards the data unit that t_lookudata() showed; one whose checksum does not hold is counted all the same.
  void t_skipudata();

  /// Tells about a data unit sent before that failed; nullptr only clears it. TNOUDERR, TBUFOVFLW, TOUTSTATE.
  Outcome<> t_rcvuderr(t_uderr* uderr);
  // Connection mode. Every call: TNOTSUPPORT where the provider is connectionless (t_sndrel() and t_rcvrel() also where
  // it has no orderly release), TOUTSTATE, TSYSERR after an error or a hangup of the stream; and TLOOK, see above.

  /// Asks for a connection with `sndcall.addr`, and waits for it: `rcvcall`, where given, tells of who answers.
  /// TNODATA: it has been asked for, and t_rcvconnect() is due (non-blocking, always so). TLOOK with T_DISCONNECT: it
  /// is refused, t_rcvdis() tells why. TBADADDR, TBADOPT, TBADDATA, TACCES, TADDRBUSY; TBUFOVFLW (connected all the
  /// same).
  Outcome<> t_connect(const t_call& sndcall, t_call* rcvcall);
  /// Waits for the connection that t_connect() has asked for. TNODATA, TBUFOVFLW (connected all the same).
  Outcome<> t_rcvconnect(t_call* call);
  /// Waits for a connection indication. TBADQLEN: bound with a qlen of 0; TQFULL: so many are outstanding; TNODATA;
  /// TBUFOVFLW: it is outstanding all the same, and `call.sequence` is good.
  Outcome<> t_listen(t_call& call);
  /// Accepts the connection indication of `call.sequence` on `resfd`: this endpoint, if no other is outstanding
  /// (TINDOUT), or another one, in T_UNBND or T_IDLE (TOUTSTATE), without a qlen (TRESQLEN), of the same kind of
  /// provider (TPROVMISMATCH) and stream set (TBADF). TBADSEQ, TBADDATA, TBADOPT.
  Outcome<> t_accept(Endpoint& resfd, const t_call& call);
  /// Sends, and answers how many bytes the provider has taken: all, or fewer where the stream is non-blocking or
  /// something came between. Flags: T_MORE (the data unit goes on; means nothing where the provider knows none: tsdu is
  /// 0), T_EXPEDITED (TNOTSUPPORT: etsdu is T_INVALID), T_PUSH (everything leaves at once in any case); TBADFLAG.
  /// TBADDATA: empty without T_SENDZERO or with T_MORE, or larger than the TSDU. TFLOW.
  Outcome<std::size_t> t_snd(ConstBytes data, int flags);
  /// As t_snd(), the data gathered from `parts`. TBADDATA: more than T_IOV_MAX.
  Outcome<std::size_t> t_sndv(std::span<const t_iovec> parts, int flags);
  /// Receives what waits, as much as there is room for and at most one data unit's. Answers how many bytes. `flags`:
  /// T_EXPEDITED, T_MORE (the data unit goes on; of a provider that knows none: a rest is still there). TNODATA.
  Outcome<std::size_t> t_rcv(Bytes place, int& flags);
  /// An extension: announces the (first) buffer of the next t_rcv() or t_rcvv(). On a fused path the provider may put
  /// data there before that call, which then copies nothing: so a reader that waits for events, and not in t_rcv(),
  /// saves a copy, too. Replaces what was announced before; an empty place withdraws it. Without effect while something
  /// is unread. REQUIRES: the caller leaves the place alone until the next t_rcv(), t_rcvv() or t_rcvplace(), or until
  /// the endpoint is gone.
  void t_rcvplace(Bytes place);
  /// As t_rcv(), the data scattered to `parts`. TBADDATA: more than T_IOV_MAX.
  Outcome<std::size_t> t_rcvv(std::span<const t_iovec> parts, int& flags);
  /// Says that nothing more will be sent; what was sent before still arrives. TFLOW.
  Outcome<> t_sndrel();
  /// Takes the peer's release. TNOREL: none waits.
  Outcome<> t_rcvrel();
  /// Ends the connection, or what is being connected, at once: data may be lost; `call` may be nullptr. In T_INCON
  /// rejects the indication of `call->sequence` (TBADSEQ). TBADDATA.
  Outcome<> t_snddis(const t_call* call);
  /// Takes the disconnection and tells of it; nullptr only clears it. TNODIS: none waits. TBUFOVFLW: its data is
  /// discarded.
  Outcome<> t_rcvdis(t_discon* discon);

  /// Manages options (T_NEGOTIATE, T_CHECK, T_DEFAULT, T_CURRENT in `req.flags`): `ret` has each of them with its
  /// status, and the worst of these in `flags`. Which there are: stack/provider/options.h; how to write and read them:
  /// tli/options.h. TBADOPT, TBADFLAG, TBUFOVFLW (done all the same), TOUTSTATE.
  Outcome<> t_optmgmt(const tli::t_optmgmt& req, tli::t_optmgmt& ret);
  Outcome<> t_getinfo(t_info& info);
  /// T_UNINIT after t_close().
  [[nodiscard]] State t_getstate() const { return state_; }
  /// Asks the provider and takes its state over, but for what waits to be received. TOUTSTATE when closed, TSTATECHNG,
  /// TSYSERR.
  Outcome<State> t_sync();
  /// The event that waits, or 0: whichever came first; else T_GODATA or T_GOEXDATA, once after TFLOW. TOUTSTATE when
  /// closed; TPROTO: what waited was nothing that TPI knows, and is discarded.
  Outcome<std::uint16_t> t_look();
  /// The bound address; `boundaddr->addr.len` is 0 when unbound. The peer's, while there is a connection. TBUFOVFLW.
  Outcome<> t_getprotaddr(tli::t_bind* boundaddr, tli::t_bind* peeraddr);

  /// "message: text" for a failure, with the system error where there is one. (t_error)
  [[nodiscard]] static std::string t_error(std::string_view message, const Failure& failure);

  /// REQUIRES: not closed.
  [[nodiscard]] Stream& stream() { return *stream_; }
  [[nodiscard]] const t_info& info() const { return info_; }

 private:
  explicit Endpoint(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}

  [[nodiscard]] Outcome<> require(Call call) const {
    return next_state(state_, call) ? Outcome<>() : failed(wire::tpi::TOUTSTATE);
  }
  [[nodiscard]] Outcome<> require_connectionless(Call call) const {
    return info_.servtype == wire::tpi::T_CLTS ? require(call) : failed(wire::tpi::TNOTSUPPORT);
  }
  [[nodiscard]] Outcome<> require_connections(Call call) const {
    return info_.servtype == wire::tpi::T_CLTS ? failed(wire::tpi::TNOTSUPPORT) : require(call);
  }
  /// Expedited data overtakes, unless the provider has it in its place among the rest.
  [[nodiscard]] std::uint8_t expedited_band() const {
    return (info_.flags & wire::tpi::EXPINLINE) != 0 ? std::uint8_t{0} : std::uint8_t{1};
  }
  /// REQUIRES: it is valid in this state.
  void step(Call call) { state_ = *next_state(state_, call); }
  Outcome<std::vector<std::byte>> ask(std::int32_t command, ConstBytes primitive);
  template <class Primitive>
  Outcome<std::vector<std::byte>> request(std::int32_t command, const Primitive& primitive,
                                          wire::tpi::TliError too_large);
  Outcome<> learn_info(State* state);
  [[nodiscard]] State state_of(std::int32_t provider_state);

  // sending.cc
  [[nodiscard]] bool may_send(std::size_t size) const;
  Outcome<> wait_until_sendable();
  bool read_names(const t_unitdata& unitdata);
  bool read_other_names(ConstBytes address, ConstBytes options);
  struct Data {
    std::size_t size;
    std::span<const ConstBytes> parts;
    std::size_t units;
  };
  std::size_t joined(std::span<const t_unitdata> units);
  Outcome<> send_one(const t_unitdata& unitdata, std::size_t size, std::span<const ConstBytes> parts);
  template <class DataOf>
  Outcome<std::size_t> send_many(std::span<const t_unitdata> units, DataOf data_of);
  Outcome<> add_segments(const t_unitdata& unitdata, std::size_t size, std::span<const ConstBytes> parts,
                         std::size_t segment, Loan& loan, Batch& batch);
  Outcome<> add_one_by_one(const t_unitdata& unitdata, std::size_t size, std::span<const ConstBytes> parts,
                           std::size_t segment, Loan& loan, Batch& batch);
  Outcome<> add_request(const t_unitdata& unitdata, std::size_t size, std::span<const ConstBytes> parts, Loan& loan,
                        Batch& batch);

  Outcome<std::size_t> send_stream(std::span<const ConstBytes> parts, std::size_t size, int flags);
  [[nodiscard]] Outcome<> may_send_stream(std::size_t size, int flags) const;
  Outcome<> wait_until_connection_takes(std::uint8_t band);
  Outcome<> put_piece(std::span<const ConstBytes> parts, std::size_t offset, std::size_t size, int flags);

  // connecting.cc, releasing.cc
  static constexpr std::int32_t nothing_waits = -1;
  static constexpr std::size_t piece_bytes_default = 64 * 1024;
  [[nodiscard]] Outcome<> require_release(Call call) const;
  template <class Primitive>
  Outcome<> put(const Primitive& primitive, ConstBytes data, wire::tpi::TliError too_large);
  Outcome<> acknowledged(std::int32_t primitive);
  Outcome<std::uint32_t> acceptor_id();
  Outcome<> accept_on(Endpoint& acceptor, const t_call& call);
  Outcome<> receive_confirmation(t_call* call);

  // receiving.cc
  /// The primitive of the first event of a connection: T_DATA_IND for data whatever it came in, nothing_waits. What is
  /// none of TPI's is discarded: TPROTO.
  Outcome<std::int32_t> first_event();
  Outcome<std::int32_t> next_event(bool may_wait);
  Outcome<std::size_t> receive_stream(std::span<const t_iovec> parts, int& flags);
  Outcome<std::size_t> receive_stream_in(std::span<t_iovec> room, int& flags);
  [[nodiscard]] bool data_follows() const;
  void note_flags(bool expedited);
  void open_reader_place(Bytes place);
  std::optional<std::size_t> deliver_stream(std::span<t_iovec>& parts);
  std::size_t deliver_landed(Bytes place);
  std::size_t deliver(std::span<const t_iovec> parts, bool landed);
  bool take_indication() {
    if (!next_) {
      next_ = stream_->receive_native();
      names_told_ = shown_ = false;
      segment_ = 0;  // until tell_names() has looked
    }
    return static_cast<bool>(next_);
  }
  /// The bytes of the data unit at hand, or what is left of them.
  [[nodiscard]] std::size_t unit_size() const {
    const std::size_t size = next_.data_size();
    return segment_ == 0 ? size : names_told_ ? unit_left_ : std::min(segment_, size);
  }
  /// The data unit at hand, of a message of several, has been delivered or is not wanted.
  void finish_segment(std::size_t size);
  bool copy_segment(std::span<const t_iovec> parts, std::size_t size);
  bool good_indication();
  [[nodiscard]] bool is_error() const;
  bool next_is_error();
  bool error_waits() { return (next_ || !stream_->head().read_queue().empty()) && next_is_error(); }
  /// Fills next_ with the next indication. TLOOK when it is an error.
  Outcome<> next_indication(bool may_wait);
  /// As next_indication(), and stores address and options.
  Outcome<> next_data_unit(t_unitdata& unitdata, bool first);
  wire::tpi::TliError tell_names(t_unitdata& unitdata);
  bool land(std::span<const t_iovec> parts);
  [[nodiscard]] Outcome<std::size_t> may_land(std::span<const t_iovec> parts) const;
  std::optional<std::size_t> receive_segment(std::span<const t_iovec> parts, int& flags);
  Outcome<std::size_t> receive(t_unitdata& unitdata, std::span<const t_iovec> parts, int& flags, bool first);

  std::unique_ptr<Stream> stream_;
  State state_ = T_UNBND;
  t_info info_;
  Message next_;               // the first indication that was not delivered whole
  std::size_t segment_ = 0;    // next_ has several data units of so many bytes each, the last perhaps shorter
  std::size_t unit_left_ = 0;  // of the one at hand, when its beginning has been delivered
  bool shown_ = false;         // by t_lookudata()
  bool names_told_ = false;    // its address and options have been delivered: the rest is T_MORE
  bool flow_refused_ = false;  // the last send met TFLOW: T_GODATA is due when the way is free again
  // Connection mode.
  bool expedited_refused_ = false;                     // likewise: T_GOEXDATA
  int rest_flags_ = 0;                                 // of the data at hand, when its beginning has been delivered
  std::uint32_t qlen_ = 0;                             // connection indications that may be outstanding
  std::uint32_t outstanding_ = 0;                      // that are: ocnt
  std::size_t piece_bytes_max_ = piece_bytes_default;  // TIDU_size
  // The last request, and its address as the program wrote it; no address where it had options.
  wire::DataUnit request_;
  std::array<std::byte, wire::TransportAddress::encoded_size_max> peer_;
  std::size_t peer_size_ = 0;
};

}  // namespace sluice::tli
