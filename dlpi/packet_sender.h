// SPDX-License-Identifier: Apache-2.0
#pragma once

// A packet socket that sends frames by sendmmsg: one system call for many frames, each gathered from its blocks.
//
// A transmit ring (PACKET_TX_RING) was measured against it on a veth pair, 1442-byte frames, arms interleaved, medians
// of 7 runs, frames per CPU second relative to kernel UDP sendmmsg of the same datagrams: sendmmsg 1.45, with
// PACKET_QDISC_BYPASS 1.44, TPACKET_V2 ring 1.30, TPACKET_V3 ring 1.25. So sendmmsg, and no bypass: frames stay
// visible to captures and subject to traffic control. The virtio header that the receiving socket wants would cost 4 %
// here, hence a socket of its own; it gets one with the first super-frame.
//
// A super-frame (dlpi/super_frame.h) goes to the kernel whole, with a virtio header that says how it is divided, and
// its bytes are read where they lie, the user's memory as a rule. The kernel splits it as late as it can: between two
// ends of a veth pair never. Kernels before 6.2 refuse one of UDP (EINVAL): then it is for the caller to split, and no
// other of its protocol comes.
//
// Ownership: owns its socket. Threads: as its stream set.

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <functional>
#include <memory>

#include "base/descriptor.h"
#include "base/result.h"
#include "dlpi/interface.h"
#include "dlpi/offload.h"
#include "dlpi/super_frame_pieces.h"
#include "stack/core/message.h"
#include "stack/core/stream_set.h"
#include "stack/wire/protocol.h"

namespace sluice::dlpi {

class PacketSender final : public EventSource {
 public:
  static constexpr std::size_t frames_per_call_max = 64;
  static constexpr std::size_t blocks_per_frame_max = 8;

  /// sendmsg, for super-frames, or what a test puts in its place.
  using SendCall = ssize_t (*)(int descriptor, const msghdr* message, int flags);

  /// `on_room` is called when the socket has room again after a refusal.
  [[nodiscard]] static Result<std::unique_ptr<PacketSender>> open(StreamSet& set, const Interface& interface,
                                                                  bool bypass_qdisc, std::function<void()> on_room,
                                                                  SendCall call = ::sendmsg);
  ~PacketSender() override;

  /// What send() has done.
  struct Sent {
    std::size_t frames = 0;
    std::size_t bytes = 0;
    std::size_t refused = 0;       // for good: freed
    std::size_t no_memory = 0;     // could not be made contiguous: freed
    std::size_t super_frames = 0;  // of the frames sent
    Batch to_split = {};           // the kernel knows no such super-frames: those behind it wait
  };
  /// Takes frames from the front until the socket is full.
  [[nodiscard]] Sent send(Batch& frames);
  /// Whether the kernel takes super-frames of that IP protocol, as far as it is known.
  [[nodiscard]] bool takes_super_frames(std::uint8_t protocol) const { return takes_[index_of(protocol)] != Takes::no; }

  [[nodiscard]] int descriptor() const override { return socket_.get(); }
  bool on_readable() override { return false; }  // bound to no protocol: nothing arrives here
  [[nodiscard]] bool wants_readable() const override { return false; }
  [[nodiscard]] bool wants_writable() const override { return full_; }
  void on_writable() override;

 private:
  enum class Takes : std::uint8_t { unknown, yes, no };
  /// Of a transport protocol in takes_.
  [[nodiscard]] static std::size_t index_of(std::uint8_t protocol) { return protocol == wire::protocol_tcp ? 1 : 0; }

  PacketSender(StreamSet& set, Descriptor socket, std::function<void()> on_room, SendCall call);
  std::size_t gather(Batch& frames, Sent& done);
  bool describe(Message& frame, std::size_t at);
  bool enable_offload_headers();
  void send_super_frame(Message frame, Batch& frames, Sent& done);
  void put_back(Batch& frames, std::size_t from, std::size_t to);

  StreamSet& set_;
  Descriptor socket_;
  std::function<void()> on_room_;
  SendCall call_;
  bool full_ = false;
  std::array<Takes, 2> takes_{};  // super-frames
  bool offload_headers_ = false;  // each frame has one in front
  OffloadHeader plain_;           // of a frame that nobody splits
  msghdr super_header_{};
  std::array<Message, frames_per_call_max> held_;
  std::array<mmsghdr, frames_per_call_max> headers_{};
  // One for the offload header, and the blocks.
  std::array<std::array<iovec, 1 + blocks_per_frame_max>, frames_per_call_max> pieces_{};
  SuperFramePieces super_pieces_;
};

}  // namespace sluice::dlpi
