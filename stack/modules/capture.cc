// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/capture.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "base/contract.h"
#include "stack/core/stream_set.h"
#include "stack/modules/capture_file.h"
#include "stack/wire/dlpi.h"
#include "stack/wire/protocol.h"

namespace sluice {
namespace {

using pcapng::Direction;
using pcapng::LinkType;

constexpr std::string_view interface_name(LinkType link) {
  switch (link) {
    case LinkType::ethernet:
      return "dlpi";
    case LinkType::raw_ip:
      return "ip";
    case LinkType::user0:
      return "data";
  }
  return "";
}

}  // namespace

Capture::Capture(Options options) : Module("capture"), options_(std::move(options)) {
  SLUICE_REQUIRE(options_.sink || options_.open_sink);
}

Status Capture::open() {
  if (!options_.sink) {
    Result<CaptureSink> opened = options_.open_sink();
    if (!opened) {
      return std::unexpected(std::move(opened.error()));
    }
    options_.sink = std::move(*opened);
  }
  timer_ = std::make_unique<Timer>(set().scheduler(), [this] { flush(); });
  buffer_.reserve(2 * buffer_bytes_max);
  interfaces_.reserve(link_types_max);
  pcapng::append_section_header(buffer_, "sluice");
  flush();
  return {};
}

void Capture::close() { flush(); }

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
  if (failed_) {
    ++not_written_;
    return;
  }
  const std::uint32_t interface = interface_for(shape->link);
  pcapng::append_packet(buffer_, {.interface_id = interface,
                                  .time_ns = time_ns(),
                                  .direction = direction,
                                  .header = ConstBytes(shape->header).first(shape->header_size),
                                  .message = &message,
                                  .data_size = message.data_size(),
                                  .snap_bytes = options_.snap_bytes});
  ++captured_;
  if (buffer_.size() >= buffer_bytes_max) {
    flush();
  } else if (!timer_->armed()) {
    timer_->arm_after(write_delay_max);
  }
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

/// The number of the interface of this kind; described in the file when it is first needed.
std::uint32_t Capture::interface_for(LinkType link) {
  const auto known = std::ranges::find(interfaces_, link);
  const auto number = static_cast<std::uint32_t>(known - interfaces_.begin());
  if (known == interfaces_.end()) {
    interfaces_.push_back(link);
    pcapng::append_interface(buffer_, link, interface_name(link), options_.snap_bytes);
  }
  return number;
}

std::uint64_t Capture::time_ns() {
  const Duration now = set().now().time_since_epoch();
  if (!epoch_) {
    epoch_ = options_.wall_clock() - now;
  }
  return static_cast<std::uint64_t>((*epoch_ + now).count());
}

void Capture::flush() {
  timer_->cancel();
  if (!buffer_.empty() && !failed_) {
    failed_ = !options_.sink(buffer_);
  }
  buffer_.clear();
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
  Capture::Options options{.sink = {},
                           .open_sink = [file = parameters.text("file", "")] { return open_capture_file(file); },
                           .wall_clock = [] { return Duration(std::chrono::system_clock::now().time_since_epoch()); }};
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
