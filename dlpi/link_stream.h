// SPDX-License-Identifier: Apache-2.0
#pragma once

// The driver at the bottom of a stream: a DLPI 2.0.0 data link provider, connectionless mode, over one Link.
//
// Manual
//   above     DLPI. M_PROTO and M_PCPROTO carry the primitives of stack/wire/dlpi.h; DL_UNITDATA_REQ and
//             DL_UNITDATA_IND have their data, which starts at the network header, in M_DATA blocks behind.
//             Acknowledgements are M_PCPROTO, everything else M_PROTO. DL_FILTER_REQ may come in M_CTL. A DLSAP address
//             is MAC address and EtherType.
//   requests  INFO ATTACH DETACH BIND UNBIND SUBS_BIND (peer) SUBS_UNBIND UNITDATA ENABMULTI DISABMULTI PROMISCON
//             PROMISCOFF PHYS_ADDR SET_PHYS_ADDR GET_STATISTICS NOTIFY CAPABILITY, and FILTER, our own. In which
//             states: dlpi/state_table.h. Each is answered before put returns, or when there is memory for the
//             answer, which needs none where it fits in its request's block (stack/core/owed.h).
//   style     1 where the stack file names a device: the stream opens attached, DL_UNBOUND. 2 where it does not: it
//             opens DL_UNATTACHED, and DL_ATTACH_REQ names the device by PPA, which is the kernel's interface index.
//   bind      DL_BIND_REQ's SAP is an EtherType (0x600..0xffff), or 0: no traffic but what promiscuous mode brings.
//             More are added by DL_SUBS_BIND_REQ, at most Subscription::saps_max. Several streams may bind a SAP; each
//             gets a copy.
//   unitdata  a bad DL_UNITDATA_REQ is answered with DL_UDERROR_IND, never with DL_ERROR_ACK: DL_OUTSTATE, DL_BADADDR
//             (format, or a SAP that is no EtherType), DL_BADDATA (no data, or more than the MTU), DL_UNSUPPORTED (a
//             priority outside 0..100), DL_UNDELIVERABLE (the link is down).
//   filter    DL_FILTER_REQ narrows a bound SAP (dlpi/demultiplexer.h). One without address, protocol and port
//             removes the stream's filters on that SAP. A filter that another stream has is refused with DL_BOUND;
//             one with a remote end is another than that of its port alone. A remote address or port without the other,
//             without local address, protocol and local port, or of another family is refused with DL_BADADDR.
//   loop      DL_LOOPBACK, our own, in M_CTL with its datagram in M_DATA blocks behind: to this host itself,
//             without the device (stack/wire/loopback.h, dlpi/link.h). Taken from a stream that has the SAP, DL_IDLE;
//             else `unexpected`. What the link has no room for waits on the write queue
//   answers   DL_ADDRESS_REQ, our own, in M_CTL: an address that the stream's user has; DL_ANSWER_IND tells it when
//             another stream of the link is to answer for it (stack/wire/answering.h)
//   promiscuous DL_PROMISC_PHYS: every frame the device sees; _SAP: those to this station, of any SAP; _MULTI: all
//             group addresses, any SAP. Frames that this station sends are not shown.
//   raw       ioctl DLIOCRAW: from then on data is M_DATA with the Ethernet header, up and down.
//   notify    DL_NOTE_LINK_UP, _LINK_DOWN, _SDU_SIZE, _PHYS_ADDR; what is asked for is told once at once, as on
//             illumos.
//   flow      see dlpi/link.h. Frames that wait for the device are bounded even if the writer ignores flow control:
//             beyond `overrun_factor` times the high-water mark they are dropped, `transmit_overrun`.
//   counters  dlpi/link_counter.h
//
// Ownership: shares its Link. Threads: as its stream set.

#include <array>
#include <deque>
#include <expected>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "dlpi/demultiplexer.h"
#include "dlpi/link.h"
#include "dlpi/link_counter.h"
#include "dlpi/state_table.h"
#include "stack/core/module.h"
#include "stack/core/owed.h"
#include "stack/core/primitive.h"
#include "stack/core/stream_set.h"
#include "stack/wire/data_unit.h"
#include "stack/wire/ethernet.h"

namespace sluice::dlpi {

/// What a link does to the bytes of frames, for `sluice explain`.
struct LinkWork {
  std::vector<PayloadWork::Item> up;         // on their way out of the device
  std::vector<PayloadWork::Item> down = {};  // on their way into it, from the frame on
  std::string_view uncounted_down = {};      // what the operating system does to them
  std::string_view uncounted_up = {};
  std::string_view segments = driver_splits;  // who splits and sums several datagrams in one message

  static constexpr std::string_view driver_splits = "the driver splits them and sums each, in the passes shown above";
  static constexpr std::string_view kernel_splits =
      "the kernel, its device or the receiver splits and sums them: no pass of ours, and none counted above";
  static constexpr std::string_view nobody_splits = "nobody splits or sums them, so that no sum above counts for them";
};

class LinkStream final : public Module {
 public:
  enum class Style : std::uint8_t { one, two };

  static constexpr std::size_t high_water_bytes_min = 256 * 1024;
  static constexpr std::size_t overrun_factor = 4;

  /// `kind` is the driver's name in the stack file; a string literal.
  LinkStream(std::string_view kind, Style style, LinkOpener opener, LinkWork work = {});

  [[nodiscard]] bool handles_deferred() const override { return true; }
  [[nodiscard]] bool handles_segments() const override { return true; }
  [[nodiscard]] bool is_driver() const override { return true; }
  [[nodiscard]] PayloadWork payload_work(Side side) const override;
  [[nodiscard]] std::size_t headroom() const override { return wire::EthernetHeader::size; }
  Status open() override;
  void close() override;
  void wput(Batch&& batch) override;
  void wsrv() override;
  void rsrv() override;

  [[nodiscard]] const Subscription& subscription() const { return subscription_; }
  [[nodiscard]] wire::dlpi::State state() const { return state_; }
  [[nodiscard]] Link* link() const { return link_.get(); }

  // For the link.

  /// Adds a frame to those of the burst. REQUIRES: it has an Ethernet header.
  void take(Message frame);
  /// Whether a super-frame may be given to it whole.
  [[nodiscard]] bool takes_super_frames() const { return segments_wanted_ && !raw_ && segments(); }
  /// As take(), of one. REQUIRES: takes_super_frames().
  void take_super_frame(Message frame);
  /// Whether a datagram of this host for itself can go to this stream.
  [[nodiscard]] bool takes_looped(std::uint16_t sap) const { return !raw_ && subscription_.has_sap(sap); }
  /// Adds one, with its DL_LOOPBACK in front, to the burst.
  void take_looped(Message message) { pend(std::move(message)); }
  /// Of the streams of the link that have a burst, the next.
  [[nodiscard]] LinkStream* next_receiver() const { return next_receiver_; }
  /// `stream` leaves the link; it may be the next one.
  void skip_receiver(const LinkStream& stream) {
    next_receiver_ = next_receiver_ == &stream ? stream.next_receiver_ : next_receiver_;
  }
  /// Puts the burst up the stream.
  void deliver_pending();
  /// Sends DL_ANSWER_IND. False without memory.
  bool tell(const wire::dlpi::AnswerInd& answering);
  /// Sends DL_NOTIFY_IND if the user asked for it.
  void notify(std::uint32_t notification);
  void count(LinkCounter counter, std::uint64_t occurrences = 1) {
    counters_[static_cast<std::size_t>(counter)] += occurrences;
  }

 private:
  /// Why a request is refused: DL_ERROR_ACK's two errors.
  struct Refusal {
    std::uint32_t error = 0;
    std::uint32_t unix_errno = 0;
  };
  /// The acknowledgement, before it is a message.
  struct Reply {
    std::vector<std::byte> bytes;
    MessageType type;
  };
  using Answer = std::expected<Reply, Refusal>;

  Status attach(std::uint32_t ppa);
  void detach();

  void control(Message message);
  void request(Message message);
  Answer answer(std::uint32_t primitive, ConstBytes block);
  void refuse(Message& request, std::uint32_t primitive, const Refusal& refusal);
  void ioctl(Message message);

  Answer on_info();
  Answer on_attach(ConstBytes block);
  Answer on_detach();
  Answer on_bind(ConstBytes block);
  Answer on_unbind();
  Answer on_subs_bind(ConstBytes block);
  Answer on_subs_unbind(ConstBytes block);
  Answer on_multicast(ConstBytes block, bool enable);
  Answer on_promiscuous(ConstBytes block, bool enable);
  Answer on_phys_addr(ConstBytes block);
  Answer on_set_phys_addr(ConstBytes block);
  Answer on_statistics();
  Answer on_notify(ConstBytes block);
  Answer on_capability(ConstBytes block);
  Answer on_filter(ConstBytes block);
  Answer resubscribe(Subscription wanted, std::uint32_t acknowledged);

  /// A DL_UNITDATA_REQ becomes the frame that it asks for. False when it was answered with DL_UDERROR_IND.
  [[nodiscard]] bool make_frame(Message& request);
  bool unitdata_error(Message& request, std::uint32_t error);
  [[nodiscard]] bool make_raw_frame(Message& message);
  [[nodiscard]] inline bool complete(Message& frame);
  [[nodiscard]] bool make_super_frame(Message& request);
  void send(Batch&& frames);
  void loop(Message message);
  void note_address(const Message& message);
  void hold(Batch frames);
  void pend(Message message) {
    if (pending_.empty()) {
      next_receiver_ = link_->note_receiver(*this);
    }
    pending_.push(std::move(message));
  }

  template <class Primitive>
  [[nodiscard]] static Answer make(const Primitive& primitive, MessageType type) {
    return Reply{Owed::bytes_of(primitive), type};
  }
  [[nodiscard]] static Answer ok(std::uint32_t primitive);
  /// In the block of `spent`, where it fits; false where there will never be memory for it.
  template <class Primitive>
  bool put_up(const Primitive& primitive, MessageType type, Message* spent = nullptr) {
    return put_up(Reply{Owed::bytes_of(primitive), type}, spent);
  }
  bool put_up(const Reply& reply, Message* spent);
  void up(Message message);

  Style style_;
  LinkOpener opener_;
  LinkWork work_;
  std::shared_ptr<Link> link_;
  wire::dlpi::State state_ = wire::dlpi::DL_UNATTACHED;
  Subscription subscription_;
  bool raw_ = false;
  bool segments_wanted_ = false;  // DL_CAPABILITY_REQ said so
  bool splits_ = false;           // the frames that send() is about to get: some are not for the device as they are
  std::uint32_t notifications_ = 0;
  Batch pending_;  // received in this burst
  LinkStream* next_receiver_ = nullptr;
  Owed owed_{*this, [this](Message message) { up(std::move(message)); }};
  // The header of the last frame, and what is said of a frame that has it: the next one's is the same as a rule.
  std::array<std::byte, wire::EthernetHeader::size> last_header_{};
  wire::DataUnit last_indication_{.kind = wire::DataUnit::Kind::link_indication};
  std::deque<Counter> counters_;
};

}  // namespace sluice::dlpi
