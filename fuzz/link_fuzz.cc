// SPDX-License-Identifier: Apache-2.0
// A data link provider between a hostile user and a hostile network. The input is a list of records: a kind, a length
// (two bytes, big-endian), and so many bytes, which are
//   0  a message down the stream, M_PROTO       2  a frame from the device
//   1  a message down the stream, M_CTL         3  an offload header, then a frame that a local sender left unfinished
// Whatever they are, every buffer is free in the end, what comes up decodes, and split datagrams verify and are the
// same on either path.

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/contract.h"
#include "dlpi/link_stream.h"
#include "dlpi/offload.h"
#include "dlpi/super_frame.h"
#include "fuzz/round_trip.h"
#include "ilp/scalar.h"
#include "stack/core/chain.h"
#include "stack/wire/checksum.h"
#include "stack/wire/dlpi.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"

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

/// RFC 768: "Checksum is the 16-bit one's complement of the one's complement sum of a pseudo header of information from
/// the IP header, the UDP header, and the data". A split datagram's is right, whatever the whole had, and so is its
/// header's.
void verify(ConstBytes frame) {
  const ConstBytes packet = frame.subspan(wire::EthernetHeader::size);
  const bool v4 = wire::EthernetHeader::parse(frame)->type == wire::ethertype_ipv4;
  const std::size_t header = v4 ? wire::Ipv4Header::size : wire::Ipv6Header::size;
  SLUICE_REQUIRE(!v4 || checksum_of(ilp::scalar::sum(packet.first(header))) == 0);
  const wire::IpAddress source = v4 ? wire::IpAddress(wire::Ipv4Address::load(packet.data() + 12))
                                    : wire::IpAddress(wire::Ipv6Address::load(packet.data() + 8));
  const wire::IpAddress destination = v4 ? wire::IpAddress(wire::Ipv4Address::load(packet.data() + 16))
                                         : wire::IpAddress(wire::Ipv6Address::load(packet.data() + 24));
  const ConstBytes udp = packet.subspan(header);
  SLUICE_REQUIRE(load_big_endian<std::uint16_t>(packet.data() + (v4 ? 2 : 4)) == (v4 ? packet.size() : udp.size()));
  SLUICE_REQUIRE(load_big_endian<std::uint16_t>(udp.data() + 4) == udp.size());
  SLUICE_REQUIRE(load_big_endian<std::uint16_t>(udp.data() + 6) != 0);
  const std::uint16_t pseudo =
      wire::pseudo_header_sum(source, destination, wire::protocol_udp, static_cast<std::uint16_t>(udp.size()));
  SLUICE_REQUIRE(checksum_of(add_sums(pseudo, ilp::scalar::sum(udp))) == 0);
}

/// The frames that it stands for, which verify, and whose data is its own.
std::vector<std::vector<std::byte>> split(Message frame, ConstBytes data) {
  const std::size_t headers = header_bytes_in(frame);
  const std::size_t count = segments_in(frame);
  Batch segments;
  SLUICE_REQUIRE(split_super_frame(std::move(frame), segments) && segments.size() == count);
  std::vector<std::vector<std::byte>> frames;
  while (Message segment = segments.pop()) {
    SLUICE_REQUIRE(segment.materialize() != TransformResult::failed && segment.pull_up(segment.data_size()));
    const ConstBytes bytes = std::as_const(segment).bytes();
    verify(bytes);
    SLUICE_REQUIRE(std::ranges::equal(bytes.subspan(headers), data.first(bytes.size() - headers)));
    data = data.subspan(bytes.size() - headers);
    frames.emplace_back(bytes.begin(), bytes.end());
  }
  SLUICE_REQUIRE(data.empty());
  return frames;
}

/// On either path the same frames come of it.
void compare(BufferPool& pool, ConstBytes record) {
  Message layered = super_frame(pool, record, false);
  if (layered) {
    const ConstBytes data = record.subspan(sizeof(OffloadHeader) + header_bytes_in(layered));
    SLUICE_REQUIRE(split(std::move(layered), data) == split(super_frame(pool, record, true), data));
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
      compare(set.pool(), record);
      for (const bool fused : {false, true}) {
        if (Message frame = super_frame(set.pool(), record, fused)) {
          device->bring(std::move(frame));
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
