// SPDX-License-Identifier: Apache-2.0
#pragma once

// A link: one device, shared by the streams that are attached to it. What every driver has in common is here; a driver
// derives from Link and adds how frames leave and enter.
//
//        LinkStream   LinkStream   LinkStream      one a stream: the DLPI state machine (dlpi/link_stream.h)
//              └─────────┬┴────────────┘
//                      Link                        device, demultiplexer, flow control, counts
//                        │  send() ▼   ▲ receive()
//                      device
//
// Frames are messages of M_DATA blocks that start at the Ethernet header, without the frame check sequence.
//
// VLANs. A frame with a priority tag (IEEE 802.1Q, VLAN identifier 0) is one of ours: it is delivered without the tag.
// Frames of other VLANs, with a service tag (802.1ad) or with two tags are dropped, `vlan_frame`.
//
// Which counter a frame ends under that no stream gets: dlpi/link_counter.h. What the kernel drops is asked for when a
// driver has read (drops_possible()), and again soon after: also while a stream is full and nothing is read.
//
// Flow control
//   down  send() takes what the device has room for. What it leaves waits on the stream's write queue, which stops the
//         modules above at its high-water mark; transmit_ready() says that there is room again and enables those
//         queues.
//   up    before it reads the device a driver asks may_receive(). With one stream on the link, or one that has a
//         filter beside streams of the same SAPs that have none (the host's, which answers ping, and whose user takes
//         nothing), the answer is no when that stream is full: frames wait in the device. The stream's read service
//         procedure is back-enabled when there is room again and calls on_room(). With several others one that is full
//         must not stop the rest: its frames are dropped and counted `flow_dropped`.
//
// Super-frames
//   Several datagrams behind one header (dlpi/super_frame.h) go to the device whole where it takes them and up whole to
//   a stream that does; else they are split here. What was split counts as the frames it became, and so does what
//   passes whole.
//
// Answers
//   Frames that every stream needs (ARP, neighbour discovery, ICMP) go to each; which one answers, for each address
//   that several have, is decided here and told (stack/wire/answering.h, dlpi/answering.h).
//
// Loop
//   A datagram for this host itself (DL_LOOPBACK, stack/wire/loopback.h) goes to the streams of the link that a frame
//   of its SAP to this station would go to, but for raw ones, in M_CTL; it is `looped`, or `unclaimed`. The device does
//   not see it, and it goes while the link is down, too. One for a group goes to the streams that a frame to the
//   group's address would go to; what there is no room for is dropped (`flow_dropped`), so that a member that does not
//   read stops no sender, as on the link. A service procedure delivers a burst a turn, never the sender's put, so that
//   a port that answers itself neither recurses nor keeps others from running. At most loop_frames_max datagrams or
//   loop_bytes_max wait for it; beyond, the sender's write queue fills.
//
// Ownership: the streams on a link share it; it goes with the last. Threads: one stream set, one thread.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "dlpi/answering.h"
#include "dlpi/demultiplexer.h"
#include "dlpi/interests.h"
#include "dlpi/link_counter.h"
#include "dlpi/offload.h"
#include "stack/core/message.h"
#include "stack/core/scheduler.h"
#include "stack/core/stream_set.h"
#include "stack/wire/address.h"

namespace sluice::dlpi {

/// What DL_GET_STATISTICS_ACK carries, as it lies in memory.
struct LinkStatistics {
  std::uint64_t frames_received = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t frames_sent = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t frames_unclaimed = 0;
};

class Link {
 public:
  /// One Ethernet header is not part of the MTU.
  static constexpr std::size_t mtu_max = std::size_t{2} << 20;
  /// A burst: what a driver takes from its device before the streams get it.
  static constexpr std::size_t burst_frames_max = 64;
  /// How long after a driver has read the kernel is asked again what it dropped.
  static constexpr Duration drops_delay = std::chrono::milliseconds(100);

  static constexpr std::size_t loop_frames_max = 256;
  static constexpr std::size_t loop_bytes_max = 256 * 1024;

  using Interests = dlpi::Interests;

  Link(StreamSet& set, std::string name, const wire::MacAddress& address, std::size_t mtu);
  virtual ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  [[nodiscard]] StreamSet& set() const { return set_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const wire::MacAddress& address() const { return address_; }
  [[nodiscard]] const wire::MacAddress& factory_address() const { return factory_address_; }
  [[nodiscard]] std::size_t mtu() const { return mtu_; }
  [[nodiscard]] bool up() const { return up_; }
  [[nodiscard]] const LinkStatistics& statistics() const { return statistics_; }
  [[nodiscard]] const std::vector<LinkStream*>& streams() const { return streams_; }

  // For streams.

  /// Puts a stream on the link or takes it off.
  void attach(LinkStream& stream);
  void detach(LinkStream& stream);
  /// Must be called when an attached stream's subscription was `before` and is another now.
  Status subscription_changed(LinkStream& stream, const Subscription& before);
  [[nodiscard]] bool taken(const FilterKey& filter, const LinkStream* asker) const {
    return demultiplexer_.taken(filter, asker);
  }
  /// A stream that has none has got frames, which receive() or serve_loop() will ask it to deliver.
  /// Answers the one that got its first frame before.
  [[nodiscard]] LinkStream* note_receiver(LinkStream& stream) { return std::exchange(receivers_, &stream); }
  /// A stream has an address, or has it no longer: who answers for it is decided anew, and told.
  void note_address(LinkStream& stream, const wire::dlpi::AddressReq& request);
  /// Sends frames from the front, as many as the device has room for; the rest stays in `frames`, and transmit_ready()
  /// follows, after this call. What the device refuses for good is freed and counted.
  virtual void send(Batch& frames) = 0;
  /// Takes a message with a DL_LOOPBACK in front and data behind it, which nothing is owed to. False, and the message
  /// stays, when there is no room; transmit_ready() follows.
  [[nodiscard]] bool loop(Message& message);
  [[nodiscard]] bool has_looped() const { return !looped_.empty(); }
  /// Delivers a burst of what loops.
  void serve_loop();
  /// Whether frames wait in the device while `stream` is full.
  [[nodiscard]] bool waits_for(const LinkStream& stream) const { return &stream == reader_; }
  /// Whether send() takes super-frames of that IP protocol (dlpi/super_frame.h); otherwise the stream splits them
  /// first.
  [[nodiscard]] virtual bool takes_super_frames(std::uint8_t protocol) const {
    static_cast<void>(protocol);
    return false;
  }
  /// Whether send() has read a frame's bytes when it returns, so that they may lie in the user's memory till then.
  [[nodiscard]] virtual bool reads_lent_memory() const { return false; }
  /// Bytes of frames that wait here at least, while no stream has room for them, before frames are lost; 0: not known.
  [[nodiscard]] virtual std::size_t receive_room() const { return 0; }
  /// The same frames, with those split that stand for several.
  [[nodiscard]] Batch split_super_frames(Batch frames);
  /// A stream that was full has room.
  virtual void on_room() {}
  /// Changes the station's address. ENOTSUP where the device does not let us.
  virtual Status set_address(const wire::MacAddress& address);

 protected:
  /// Tells the device what is wanted from now on, and what was until now.
  virtual Status set_interests(const Interests& wanted, const Interests& before) {
    static_cast<void>(wanted);
    static_cast<void>(before);
    return {};
  }

  // For drivers.

  /// What set_interests() took last.
  [[nodiscard]] const Interests& interests_told() const { return interests_; }
  /// Delivers a burst. Frames above the MTU, too short or of a VLAN are dropped and counted.
  void receive(Batch frames);
  /// Adds a frame to `burst` that came with an offload header, one block or several: a partial checksum is completed,
  /// a super-frame described. What is wrong with it is counted.
  void accept(Message frame, const OffloadHeader& offload, Batch& burst);
  /// A frame of `size` bytes came, and ends here.
  void refuse(LinkCounter why, std::size_t size);
  /// A frame of `size` bytes came, of which the driver has the first, since no stream wants it: counted under what it
  /// is.
  void refuse_unwanted(ConstBytes head, std::size_t size);
  /// The driver has read, and the kernel may have dropped. While nothing is read and nothing comes, it is asked again.
  void drops_possible();
  /// How many frames the kernel has dropped since this was last asked. `late`: asked some time after the driver read.
  [[nodiscard]] virtual std::uint64_t take_drops(bool late) {
    static_cast<void>(late);
    return 0;
  }
  [[nodiscard]] bool may_receive() const;
  /// Whether every stream of the link defers its passes.
  [[nodiscard]] bool fused() const;
  void transmit_ready();
  /// The device's state changed; streams that asked for it are told.
  void set_up(bool up);
  void set_mtu(std::size_t mtu);
  void change_address(const wire::MacAddress& address);
  void count(LinkCounter counter, std::uint64_t occurrences = 1);
  /// So many frames with so many bytes in all have gone.
  void sent(std::size_t frames, std::size_t bytes) {
    statistics_.frames_sent += frames;
    statistics_.bytes_sent += bytes;
  }

 private:
  inline void receive_one(Message frame);
  void accept_super_frame(Message frame, const OffloadHeader& offload, Batch& burst);
  void receive_super_frame(Message frame);
  void receive_untagged(Message frame, ConstBytes head);
  void receive_tagged(Message frame, ConstBytes head);
  void give(Message frame, const FrameKey& key, ConstBytes head);
  void count_unwanted(const FrameKey& key, Demultiplexer::Fate fate);
  void ask_drops();
  void tell_answering();
  /// After the tables have changed.
  Status follow();
  Status follow_interests();
  void deliver();
  void choose_reader();
  void deliver_looped(Message message);
  void notify(std::uint32_t notification);
  [[nodiscard]] Interests interests() const;

  StreamSet& set_;
  std::string name_;
  wire::MacAddress address_;
  wire::MacAddress factory_address_;
  std::size_t mtu_;
  bool up_ = true;
  LinkStatistics statistics_;
  std::vector<LinkStream*> streams_;  // in the order of attachment
  LinkStream* reader_ = nullptr;      // the device waits for it; none: for nobody
  Demultiplexer demultiplexer_;
  Answering answering_;
  InterestCounts wanted_;
  std::vector<LinkStream*> chosen_;    // by the frame at hand; a member so that its memory stays
  FrameTemplate last_;                 // of the last frame that went to one stream,
  LinkStream* last_stream_ = nullptr;  // which this is
  LinkStream* receivers_ =
      nullptr;  // have frames to deliver: the one that got its first last, and on (next_receiver())
  Interests interests_;
  Timer drops_timer_;
  Batch looped_;
  std::size_t looped_bytes_ = 0;
  bool loop_refused_ = false;  // a message, for want of room
};

/// Opens the link that a stream attaches to. Called at open (style 1, `ppa` is 0) or for DL_ATTACH_REQ (style 2).
using LinkOpener = std::function<Result<std::shared_ptr<Link>>(StreamSet&, std::uint32_t ppa)>;

}  // namespace sluice::dlpi
