// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/capture.h"

#include <string>
#include <utility>

#include "base/contract.h"
#include "stack/core/stream_set.h"
#include "stack/wire/dlpi.h"
#include "stack/wire/protocol.h"

namespace sluice {
namespace {

using pcapng::Direction;
using pcapng::LinkType;

}  // namespace

Capture::Capture(Options options) : Module("capture"), options_(std::move(options)) { SLUICE_REQUIRE(options_.open); }

Status Capture::open() {
  Result<std::shared_ptr<CaptureRecording>> opened = options_.open(set());
  if (!opened) {
    return std::unexpected(std::move(opened.error()));
  }
  recording_ = std::move(*opened);
  return {};
}

/// Others may go on writing: what this one has written is in the file now.
void Capture::close() {
  recording_->flush();
  recording_ = nullptr;
}

void Capture::wput(Batch&& batch) {
  look_at(batch, Direction::outbound);
  write_queue().put_next(std::move(batch));
}

void Capture::rput(Batch&& batch) {
  look_at(batch, Direction::inbound);
  read_queue().put_next(std::move(batch));
}

void Capture::look_at(Batch& batch, Direction direction) {
  Batch seen;
  while (Message message = batch.pop()) {
    if (message.carries_data()) {
      if (materialize(message, direction == Direction::outbound ? Side::write : Side::read) ==
          TransformResult::failed) {
        continue;  // counted where the check belongs: nobody above has seen it either
      }
      message.encode();
      write(message, direction);
    } else if (direction == Direction::inbound && is_protocol(message.type())) {
      learn_address(message);
    }
    seen.push(std::move(message));
  }
  batch = std::move(seen);
}

void Capture::learn_address(const Message& message) {
  if (const auto bound = wire::dlpi::BindAck::decode(message.bytes())) {
    own_address_ = bound->address.mac;
  } else if (const auto physical = wire::dlpi::PhysAddrAck::decode(message.bytes())) {
    own_address_ = physical->address;
  }
}

void Capture::write(Message& message, Direction direction) {
  const std::optional<Shape> shape = shape_of(message, direction);
  if (!shape) {
    return;
  }
  const bool written = recording_->write(shape->link, {.direction = direction,
                                                       .header = ConstBytes(shape->header).first(shape->header_size),
                                                       .message = &message,
                                                       .data_size = message.data_size(),
                                                       .snap_bytes = options_.snap_bytes});
  ++(written ? captured_ : not_written_);
}

/// A primitive with data is DLPI's or TPI's by its number and direction: 7 goes down as DL_UNITDATA_REQ only
/// (T_UNBIND_REQ has no data), and 8 comes up as DL_UNITDATA_IND only.
std::optional<Capture::Shape> Capture::shape_of(const Message& message, Direction direction) {
  if (is_protocol(message.type()) && options_.link != Link::user) {
    if (direction == Direction::outbound) {
      if (const auto request = wire::dlpi::UnitdataReq::decode(message.bytes())) {
        return link_shape(request->destination.mac, own_address_, request->destination.sap);
      }
    } else if (const auto indication = wire::dlpi::UnitdataInd::decode(message.bytes())) {
      return link_shape(indication->destination.mac, indication->source.mac, indication->destination.sap);
    }
  }
  return plain_shape();
}

std::optional<Capture::Shape> Capture::link_shape(const wire::MacAddress& to, const wire::MacAddress& from,
                                                  std::uint16_t sap) {
  if (options_.link == Link::ip) {
    if (sap != wire::ethertype_ipv4 && sap != wire::ethertype_ipv6) {
      ++not_ip_;
      return std::nullopt;
    }
    return Shape{.link = LinkType::raw_ip};
  }
  Shape shape{.link = LinkType::ethernet, .header_size = ethernet_header_size};
  to.store(shape.header.data());
  from.store(shape.header.data() + wire::MacAddress::size);
  store_big_endian(shape.header.data() + 2 * wire::MacAddress::size, sap);
  return shape;
}

Capture::Shape Capture::plain_shape() const {
  switch (options_.link) {
    case Link::ethernet:
      return {.link = LinkType::ethernet};
    case Link::ip:
      return {.link = LinkType::raw_ip};
    default:
      return {.link = LinkType::user0};
  }
}

namespace {

Capture::Link link_of(const std::string& text) {
  if (text == "ethernet") {
    return Capture::Link::ethernet;
  }
  if (text == "ip") {
    return Capture::Link::ip;
  }
  return text == "user" ? Capture::Link::user : Capture::Link::automatic;
}

Result<std::unique_ptr<Module>> make_capture(StreamSet&, const Parameters& parameters) {
  Capture::Options options{
      .open = [file = parameters.text("file", "")](StreamSet& set) { return open_recording(set, file); }};
  options.snap_bytes = static_cast<std::uint32_t>(parameters.integer("snap_bytes", options.snap_bytes));
  options.link = link_of(parameters.text("link", ""));
  return std::make_unique<Capture>(std::move(options));
}

}  // namespace

Entry capture_entry() {
  using enum ParameterSpec::Type;
  return {
      .name = "capture",
      .summary = "writes what passes to a pcapng file",
      .effect = "materializes, and copies the data to the file",
      .transparent = true,
      .parameters = {{.name = "file", .type = text, .meaning = "Path of the pcapng file to write.", .required = true},
                     {.name = "snap_bytes",
                      .type = integer,
                      .meaning = "The most written of each message, in bytes; 262144 if absent.",
                      .minimum = 64,
                      .maximum = 4 << 20},
                     {.name = "link",
                      .type = text,
                      .meaning = "How messages look in the file; by what flows if absent.",
                      .choices = {"ethernet", "ip", "user"}}},
      .make = make_capture,
  };
}

}  // namespace sluice
