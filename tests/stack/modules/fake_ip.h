// SPDX-License-Identifier: Apache-2.0
#pragma once

// What stands below udp and tcp in their tests: answers binds, routes and filters as ip does, and passes datagrams on
// to the driver of the harness unchanged.

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "stack/core/primitive.h"
#include "stack/core/stream_set.h"
#include "stack/wire/network.h"
#include "tests/stack/modules/harness.h"

namespace sluice::test {

class FakeIp : public Module {
 public:
  FakeIp() : Module("fake_ip") {}

  // What it is to answer.
  wire::IpAddress source_v4 = wire::Ipv4Address{{10, 0, 0, 1}};
  wire::IpAddress source_v6 = wire::Ipv6Address{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  bool answers = true;
  bool answers_filters = true;
  std::uint32_t route_error = 0;
  std::int32_t bind_error = 0;  // a TLI error, for addresses that are not unspecified
  unsigned ports_busy = 0;      // refuse that many filters with DL_BOUND
  std::optional<std::uint32_t> filter_error = {};

  std::function<void()> when_passed = {};  // once, after something went on to the driver

  bool answering = false;  // it allocates: for tests whose pool fails, but not for it

  // What it has been asked.
  std::vector<wire::IpAddress> routes_asked;
  std::vector<wire::dlpi::FilterReq> filters_asked;
  std::optional<wire::NetworkAddress> bound;

  /// As an ACCEPTOR_id would be.
  [[nodiscard]] std::uint32_t number() { return set().module_handles().number(handle()); }

  void wput(Batch&& batch) override {
    Batch out;
    while (Message message = batch.pop()) {
      if (!answered(message)) {
        out.push(std::move(message));
      }
    }
    if (!out.empty()) {
      write_queue().put_next(std::move(out));
      if (const auto then = std::exchange(when_passed, nullptr)) {
        then();
      }
    }
  }

 private:
  template <class Primitive>
  void up(const Primitive& primitive, MessageType type) {
    up([&] { return primitive_message(set().pool(), primitive, type); });
  }
  template <std::invocable Make>
  void up(const Make& make) {
    answering = true;
    Message answer = make();
    answering = false;
    read_queue().put_next(std::move(answer));
  }

  bool answered(const Message& message) {
    if (message.type() == MessageType::ctl) {
      return answered_control(message);
    }
    if (message.type() != MessageType::proto) {
      return false;
    }
    if (const auto bind = wire::tpi::BindReq::decode(message.bytes())) {
      answer_bind(*bind);
    } else if (wire::tpi::UnbindReq::decode(message.bytes())) {
      bound.reset();
      if (answers) {
        const std::byte both[] = {std::byte{flush_read | flush_write}};
        up([&] { return Message::copy_of(set().pool(), both, 0, MessageType::flush); });
        up(wire::tpi::OkAck{wire::tpi::T_UNBIND_REQ}, MessageType::pcproto);
      }
    } else {
      return false;
    }
    return true;
  }

  void answer_bind(const wire::tpi::BindReq& request) {
    const wire::NetworkAddress wanted = wire::NetworkAddress::decode(request.address).value();
    if (!answers) {
      return;
    }
    if (bound || (bind_error != 0 && !wanted.address.is_unspecified())) {
      up(wire::tpi::ErrorAck{wire::tpi::T_BIND_REQ, bound ? wire::tpi::TOUTSTATE : bind_error, 0},
         MessageType::pcproto);
      return;
    }
    bound = wanted;
    up(wire::tpi::BindAck{.address = request.address}, MessageType::pcproto);
  }

  bool answered_control(const Message& message) {
    if (const auto route = wire::network::RouteReq::decode(message.bytes())) {
      routes_asked.push_back(route->destination);
      const wire::IpAddress& source = route->destination.is_v4() ? source_v4 : source_v6;
      up(wire::network::RouteAck{route->destination, source, 1500, route_error}, MessageType::ctl);
      return true;
    }
    if (const auto filter = wire::dlpi::FilterReq::decode(message.bytes())) {
      filters_asked.push_back(*filter);
      answer_filter();
      return true;
    }
    return false;
  }

  void answer_filter() {
    namespace dl = wire::dlpi;
    if (!answers_filters) {
      return;
    }
    if (ports_busy > 0) {
      --ports_busy;
      up(dl::ErrorAck{dl::DL_FILTER_REQ, dl::DL_BOUND, 0}, MessageType::ctl);
    } else if (filter_error) {
      up(dl::ErrorAck{dl::DL_FILTER_REQ, *filter_error, 0}, MessageType::ctl);
    } else {
      up(dl::OkAck{dl::DL_FILTER_REQ}, MessageType::ctl);
    }
  }
};

}  // namespace sluice::test
