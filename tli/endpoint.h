// SPDX-License-Identifier: Apache-2.0
#pragma once

// A transport endpoint, connectionless mode: the calls of TLI/XTI as members of the endpoint that t_open() returns.
//
//     auto endpoint = Endpoint::t_open(std::move(stream), nullptr);
//     t_bind any;
//     (*endpoint)->t_bind(nullptr, &any);
//     (*endpoint)->t_sndudata(unit);
//
// Calls wait where XTI says so, through the stream's Waiter, unless the stream is non-blocking (O_NONBLOCK).
//
// Where this library differs:
//
//   | call        | TLI (SVR4)                         | XTI (XNS 5.2)              | here                                   |
//   |-------------|------------------------------------|----------------------------|----------------------------------------|
//   | all         | int, global t_errno                | int, global t_errno        | Outcome with the t_errno in it         |
//   | t_open      | device name, fd                    | device name, fd            | a stream with timod on top             |
//   | t_bind      | busy address: another is bound     | busy address: TADDRBUSY    | as XTI                                 |
//   | t_sndudata  | too long: TSYSERR (EPROTO)         | too long: TBADDATA         | as XTI                                 |
//   | t_rcvudata  | wrong state: not checked           | wrong state: TOUTSTATE     | as XTI                                 |
//   | t_unbind    | flushes what waits                 | TLOOK if an event waits    | as XTI; data may be left, it is flushed |
//   | t_getprotaddr, t_getstate, t_strerror | none     | yes                        | as XTI                                 |
//   | t_sndvudata, t_rcvvudata | none                  | yes                        | as XTI                                 |
//
// Ownership: an endpoint owns its stream. Threads: the stream set's.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stack/head/stream.h"
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
  /// TBADADDR, TNOADDR, TACCES, TBUFOVFLW (bound all the same), TOUTSTATE.
  Outcome<> t_bind(const tli::t_bind* req, tli::t_bind* ret);
  /// TLOOK when an event waits, TOUTSTATE.
  Outcome<> t_unbind();
  /// TNOTSUPPORT unless connectionless; TBADDATA: empty without SENDZERO, or larger than the TSDU; TFLOW; TOUTSTATE; TLOOK
  /// when a unit data error waits; TBADADDR.
  Outcome<> t_sndudata(const t_unitdata& unitdata);
  /// As t_sndudata, the data gathered from `parts` (at most T_IOV_MAX).
  Outcome<> t_sndvudata(const t_unitdata& unitdata, std::span<const t_iovec> parts);
  /// Receives one data unit. What does not fit stays, `flags` has T_MORE, and the next calls bring the rest with empty
  /// address and options. TNODATA, TLOOK (t_rcvuderr() is due), TBUFOVFLW (the data unit is discarded), TOUTSTATE.
  Outcome<> t_rcvudata(t_unitdata& unitdata, int& flags);
  /// As t_rcvudata, the data scattered to `parts`; answers how many bytes.
  Outcome<std::size_t> t_rcvvudata(t_unitdata& unitdata, std::span<const t_iovec> parts, int& flags);
  /// Tells about a data unit sent before that failed; nullptr only clears it. TNOUDERR, TBUFOVFLW, TOUTSTATE.
  Outcome<> t_rcvuderr(t_uderr* uderr);
  Outcome<> t_optmgmt(const tli::t_optmgmt& req, tli::t_optmgmt& ret);
  Outcome<> t_getinfo(t_info& info);
  /// T_UNBND or T_IDLE; T_UNINIT after t_close().
  [[nodiscard]] State t_getstate() const { return state_; }
  /// Asks the provider and takes its state over. TOUTSTATE when closed, TSYSERR.
  Outcome<State> t_sync();
  /// The event that waits, or 0. TOUTSTATE when closed.
  Outcome<std::uint16_t> t_look();
  /// The bound address; `boundaddr->addr.len` is 0 when unbound. The peer's is always empty here. TBUFOVFLW.
  Outcome<> t_getprotaddr(tli::t_bind* boundaddr, tli::t_bind* peeraddr);

  /// "message: text" for a failure, with the system error where there is one. (t_error)
  [[nodiscard]] static std::string t_error(std::string_view message, const Failure& failure);

  [[nodiscard]] Stream& stream() { return *stream_; }
  [[nodiscard]] const t_info& info() const { return info_; }

 private:
  explicit Endpoint(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}

  Outcome<> require(Call call) const;
  Outcome<std::vector<std::byte>> request(std::int32_t command, ConstBytes primitive);
  Outcome<> learn_info(State* state);
  /// Fills next_ with the next indication, waiting where that is allowed.
  Outcome<> next_indication();
  bool take_indication();
  Outcome<> deliver_names(t_unitdata& unitdata);
  std::size_t deliver_data(std::span<const t_iovec> parts);

  std::unique_ptr<Stream> stream_;
  State state_ = T_UNBND;
  t_info info_;
  Message next_;           // the first indication that was not delivered whole
  bool names_told_ = false;  // its address and options have been delivered: the rest is T_MORE
};

/// A structure for a call with buffers of the sizes that `info` asks for (t_alloc); freed with the owner (t_free).
template <class T>
struct Allocated {
  T value;
  std::vector<std::byte> storage;
};

/// Which buffers t_alloc() provides.
inline constexpr unsigned T_ADDR = 0x01;
inline constexpr unsigned T_OPT = 0x02;
inline constexpr unsigned T_UDATA = 0x04;
inline constexpr unsigned T_ALL = 0xffff;

[[nodiscard]] Outcome<std::unique_ptr<Allocated<t_bind>>> t_alloc_bind(const t_info& info, unsigned fields);
[[nodiscard]] Outcome<std::unique_ptr<Allocated<t_unitdata>>> t_alloc_unitdata(const t_info& info, unsigned fields);
[[nodiscard]] Outcome<std::unique_ptr<Allocated<t_uderr>>> t_alloc_uderr(const t_info& info, unsigned fields);
[[nodiscard]] Outcome<std::unique_ptr<Allocated<t_optmgmt>>> t_alloc_optmgmt(const t_info& info, unsigned fields);

}  // namespace sluice::tli
