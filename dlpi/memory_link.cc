// SPDX-License-Identifier: Apache-2.0
#include "dlpi/memory_link.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/contract.h"
#include "dlpi/link_stream.h"
#include "dlpi/open_links.h"
#include "dlpi/wire_address.h"

namespace sluice::dlpi {
namespace {

std::string end_name(const std::string& wire, std::string_view end) { return "wire:" + wire + ":" + std::string(end); }

}  // namespace

MemoryLink::MemoryLink(StreamSet& set, const std::string& wire, End end, std::size_t mtu, bool offload)
    : Link(set, end_name(wire, end == End::a ? "a" : "b"), wire_address(wire, end == End::a), mtu), offload_(offload) {
  set_up(false);
}

MemoryLink::~MemoryLink() {
  if (peer_ != nullptr) {
    peer_->peer_ = nullptr;
    peer_->set_up(false);
  }
}

void MemoryLink::connect(MemoryLink& one, MemoryLink& other) {
  SLUICE_REQUIRE(one.peer_ == nullptr && other.peer_ == nullptr && one.mtu() == other.mtu());
  one.peer_ = &other;
  other.peer_ = &one;
  one.set_up(true);
  other.set_up(true);
}

std::size_t MemoryLink::capacity_bytes() const { return std::max(std::size_t{256} * 1024, 4 * mtu()); }

void MemoryLink::send(Batch& frames) {
  if (peer_ == nullptr) {
    count(LinkCounter::link_down, frames.size());
    frames.clear();
    return;
  }
  const std::size_t frames_before = peer_->inbound_.size();
  const std::size_t bytes_before = peer_->inbound_bytes_;
  frames.retain([&peer = *peer_, capacity = peer_->capacity_bytes()](Message& frame) {
    if (peer.inbound_bytes_ >= capacity || peer.inbound_.size() >= frames_max) {
      return true;
    }
    peer.inbound_bytes_ += frame.data_size();
    peer.inbound_.push(std::move(frame));
    return false;
  });
  sent(peer_->inbound_.size() - frames_before, peer_->inbound_bytes_ - bytes_before);
  peer_->peer_waits_ = peer_->peer_waits_ || !frames.empty();
  peer_->schedule();
}

/// The service procedure of the first stream takes the frames for all.
void MemoryLink::schedule() {
  if (!streams().empty()) {
    streams().front()->read_queue().enable();
  }
}

Batch MemoryLink::next_burst() {
  if (inbound_.size() <= burst_frames_max && inbound_bytes_ < burst_bytes_max) [[likely]] {
    inbound_bytes_ = 0;
    return std::move(inbound_);
  }
  Batch burst;
  std::size_t bytes = 0;
  while (!inbound_.empty() && burst.size() < burst_frames_max && bytes < burst_bytes_max) {
    Message frame = inbound_.pop();
    bytes += frame.data_size();
    burst.push(std::move(frame));
  }
  inbound_bytes_ -= bytes;
  return burst;
}

void MemoryLink::on_room() {
  while (!inbound_.empty() && may_receive()) {
    receive(next_burst());
  }
  if (peer_waits_ && peer_ != nullptr && inbound_bytes_ < capacity_bytes() / 2 && inbound_.size() < frames_max / 2) {
    peer_waits_ = false;
    peer_->transmit_ready();
  }
}

Status MemoryLink::set_address(const wire::MacAddress& address) {
  change_address(address);
  return {};
}

namespace {

Result<std::shared_ptr<Link>> make_end(StreamSet& set, const Parameters& parameters) {
  const std::string wire = parameters.text("name", "");
  const bool is_a = parameters.text("end", "a") == "a";
  const auto mtu = static_cast<std::size_t>(parameters.integer("mtu", MemoryLink::mtu_default));
  const auto other = std::static_pointer_cast<MemoryLink>(find_link(set, end_name(wire, is_a ? "b" : "a")));
  if (other != nullptr && other->mtu() != mtu) {
    return fail(EINVAL, "wire '" + wire + "' has an MTU of " + std::to_string(other->mtu()) + " at its other end and " +
                            std::to_string(mtu) + " here; both must be the same");
  }
  auto end = std::make_shared<MemoryLink>(set, wire, is_a ? MemoryLink::End::a : MemoryLink::End::b, mtu,
                                          parameters.boolean("offload", true));
  if (other != nullptr) {
    MemoryLink::connect(*end, *other);
  }
  return end;
}

}  // namespace

Entry memory_link_entry() {
  return Entry{
      .name = "wire",
      .summary = "a link in memory between two ends in one program",
      .effect = "passes frames by reference",
      .kind = Entry::Kind::driver,
      .upper = Service::link,
      .parameters =
          {
              {.name = "name", .meaning = "which wire: the streams that name one are joined", .required = true},
              {.name = "end", .meaning = "which end of it", .required = true, .choices = {"a", "b"}},
              {.name = "mtu",
               .type = ParameterSpec::Type::integer,
               .meaning = "largest data unit in bytes, the same at both ends; absent: 1500",
               .minimum = MemoryLink::mtu_min,
               .maximum = Link::mtu_max},
              {.name = "offload",
               .type = ParameterSpec::Type::boolean,
               .meaning = "pass datagrams that are sent together as one, unsummed; absent: true"},
          },
      .make = [](StreamSet&, const Parameters& parameters) -> Result<std::unique_ptr<Module>> {
        const LinkOpener opener = [parameters](StreamSet& set, std::uint32_t) {
          const std::string name = end_name(parameters.text("name", ""), parameters.text("end", "a"));
          return open_link(set, name, parameters, [&] { return make_end(set, parameters); });
        };
        const bool whole = parameters.boolean("offload", true);
        return std::make_unique<LinkStream>(
            "wire", LinkStream::Style::one, opener,
            LinkWork{.up = {}, .segments = whole ? LinkWork::nobody_splits : LinkWork::driver_splits});
      },
  };
}

}  // namespace sluice::dlpi
