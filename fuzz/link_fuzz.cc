// SPDX-License-Identifier: Apache-2.0
// A data link provider between a hostile user and a hostile network. The input is a list of records: a kind, a length
// (two bytes, big-endian), and so many bytes, which are
//   0  a message down the stream, M_PROTO       2  a frame from the device
//   1  a message down the stream, M_CTL         3  an offload header, then a frame that a local sender left unfinished
// Whatever they are, every buffer is free in the end, what comes up decodes, and split datagrams verify.

#include <cstring>
#include <memory>
#include <utility>

#include "base/contract.h"
#include "dlpi/link_stream.h"
#include "dlpi/offload.h"
#include "dlpi/super_frame.h"
#include "fuzz/round_trip.h"
#include "stack/core/chain.h"
#include "stack/wire/dlpi.h"

namespace sluice::dlpi {
namespace {

class Device final : public Link {
 public:
  explicit Device(StreamSet& set) : Link(set, "fuzz", {{0x02, 0, 0, 0, 0, 1}}, 1500) {}
  void send(Batch& frames) override { frames.clear(); }
  void bring(Message frame) { receive(Batch(std::move(frame))); }
};

/// Takes what comes up; what carries data must be whole.
class User final : public Module {
 public:
  User() : Module("user") {}
  void rput(Batch&& messages) override {
    while (const Message message = messages.pop()) {
      SLUICE_REQUIRE(is_protocol(message.type()) && wire::dlpi::primitive_of(message.bytes()).has_value());
      if (wire::dlpi::primitive_of(message.bytes()) == wire::dlpi::DL_UNITDATA_IND) {
        SLUICE_REQUIRE(wire::dlpi::UnitdataInd::decode(message.bytes()).has_value());
      }
    }
  }
};

void finish(BufferPool& pool, ConstBytes bytes) {
  OffloadHeader offload;
  if (bytes.size() < sizeof offload) {
    return;
  }
  std::memcpy(&offload, bytes.data(), sizeof offload);
  const ConstBytes frame = bytes.subspan(sizeof offload);
  Message copy = Message::copy_of(pool, frame);
  static_cast<void>(complete_checksum(copy.bytes(), offload));
}

/// A super-frame, if the device may call it one, on either path.
Message super_frame(BufferPool& pool, ConstBytes bytes, bool fused) {
  OffloadHeader offload;
  if (bytes.size() < sizeof offload) {
    return {};
  }
  std::memcpy(&offload, bytes.data(), sizeof offload);
  const ConstBytes frame = bytes.subspan(sizeof offload);
  const auto unitdata = read_super_frame(frame, offload);
  if (!unitdata) {
    return {};
  }
  Message message = Message::of_native(pool, *unitdata);
  message.link(Message::copy_of(pool, frame));
  if (fused) {
    message.defer();
  }
  return message;
}

void split(Message frame) {
  const std::size_t size = frame.data_size();
  const std::size_t count = segments_in(frame);
  Batch segments;
  SLUICE_REQUIRE(split_super_frame(std::move(frame), segments) && segments.size() == count);
  while (const Message segment = segments.pop()) {
    SLUICE_REQUIRE(segment.size() <= size);
  }
}

void play(StreamSet& set, ConstBytes input) {
  const auto device = std::make_shared<Device>(set);
  User user;
  Chain chain(set, user);
  const LinkOpener opener = [&](StreamSet&, std::uint32_t) -> Result<std::shared_ptr<Link>> { return device; };
  SLUICE_REQUIRE(chain.open_driver(std::make_unique<LinkStream>("fuzz", LinkStream::Style::two, opener)).has_value());
  while (input.size() >= 3) {
    const auto kind = std::to_integer<unsigned>(input[0]) % 4;
    const std::size_t size = std::min<std::size_t>(load_big_endian<std::uint16_t>(input.data() + 1), input.size() - 3);
    const ConstBytes record = input.subspan(3, size);
    input = input.subspan(3 + size);
    if (kind == 3) {
      finish(set.pool(), record);
      for (const bool fused : {false, true}) {
        if (Message frame = super_frame(set.pool(), record, fused)) {
          split(std::move(frame));
          device->bring(super_frame(set.pool(), record, fused));
        }
      }
    } else if (kind == 2) {
      device->bring(Message::copy_of(set.pool(), record));
    } else {
      const MessageType type = kind == 0 ? MessageType::proto : MessageType::ctl;
      Message request = Message::copy_of(set.pool(), record, 0, type);
      request.link(Message::copy_of(set.pool(), record, 16));
      user.write_queue().put_next(std::move(request));
    }
  }
}

}  // namespace
}  // namespace sluice::dlpi

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sluice::StreamSet set;
  sluice::dlpi::play(set, sluice::fuzz::input(data, size));
  SLUICE_REQUIRE(set.pool().statistics().buffers_in_use == 0);
  return 0;
}
