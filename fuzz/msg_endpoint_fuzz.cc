// SPDX-License-Identifier: Apache-2.0
// An endpoint of the message library over a module that says anything. The first byte sets the bounds; then each eight
// bytes are a step: an indication of fields out of a small range, so that they meet, or bytes as they are; an error; a
// receive, a send, a cancellation. Nothing may be held beyond the bounds, or be left in the end.
#include <array>
#include <cstring>
#include <list>
#include <memory>
#include <vector>

#include "base/contract.h"
#include "msg/endpoint.h"
#include "stack/core/primitive.h"
#include "stack/modules/timod.h"
#include "stack/wire/data_unit.h"
#include "stack/wire/tpi.h"

namespace {

using namespace sluice;
using wire::message::Indication;
namespace tpi = wire::tpi;

/// In the place of a message module and its provider: answers what opening asks, and keeps what is sent.
class Talker : public Module {
 public:
  Talker() : Module("rmpp", Services::write) {}
  [[nodiscard]] bool is_driver() const override { return true; }
  void wput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      message.encode();
      if (message.type() == MessageType::ctl) {
        continue;  // what the endpoint decides
      }
      const auto primitive = tpi::primitive_of(message.bytes());
      if (primitive == tpi::T_BIND_REQ) {
        const auto bind = tpi::BindReq::decode(message.bytes());
        answer(tpi::BindAck{bind->address, 0});
      } else if (primitive == tpi::T_UNITDATA_REQ) {
        if (sent.size() < 8) {
          sent.push_back(std::move(message));
        }
      } else {
        answer(tpi::InfoAck{
            .tsdu_size = 4096 + 16, .addr_size = 20, .opt_size = 0, .tidu_size = 4096, .current_state = tpi::TS_UNBND});
      }
    }
  }
  template <class Primitive>
  void answer(const Primitive& primitive) {
    read_queue().put_next(primitive_message(set().pool(), primitive, MessageType::pcproto));
  }
  void up(const wire::TransportAddress& from, ConstBytes bytes) {
    Message message =
        Message::of_native(set().pool(), wire::DataUnit{.kind = wire::DataUnit::Kind::transport_indication,
                                                        .peer = from.address,
                                                        .peer_port = from.port});
    message.link(Message::copy_of(set().pool(), bytes));
    read_queue().put_next(std::move(message));
  }
  void error(const wire::TransportAddress& of, int code) {
    Message message = Message::of_native(
        set().pool(),
        wire::DataUnit{
            .kind = wire::DataUnit::Kind::transport_error, .peer = of.address, .peer_port = of.port, .error = code});
    read_queue().put_next(std::move(message));
  }
  std::vector<Message> sent;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 4096) {
    return 0;
  }
  StreamSet set;
  auto made = std::make_unique<Talker>();
  Talker& talker = *made;
  auto stream = std::move(*Stream::open(set, std::move(made)));
  SLUICE_REQUIRE(stream->push(std::make_unique<Timod>()).has_value());
  const msg::Options options{.local = wire::TransportAddress{wire::Ipv4Address{{10, 0, 0, 9}}, 7000},
                             .unexpected_bytes_max = data[0] * std::size_t{16},
                             .unexpected_messages_max = 1 + data[0] % 4U,
                             .receives_max = 8,
                             .sends_max = 8};
  auto opened = msg::Endpoint::open(std::move(stream), options);
  SLUICE_REQUIRE(opened.has_value());
  std::unique_ptr<msg::Endpoint> endpoint = std::move(*opened);
  std::array<std::byte, 300> buffer{};
  std::list<msg::Handle> handles;
  for (const std::uint8_t* at = data + 1; at + 8 <= data + size; at += 8) {
    const wire::TransportAddress peer{wire::Ipv4Address{{10, 0, 0, static_cast<std::uint8_t>(at[0] % 3)}}, 7000};
    switch (at[1] % 8) {
      case 0: {
        const auto receive = endpoint->post(Bytes(buffer).first(at[2]), {.bits = at[3] % 4U, .ignore = at[4]});
        if (receive) {
          handles.push_back(*receive);
        }
        break;
      }
      case 1: {
        const auto send = endpoint->send(peer, at[3], Bytes(buffer).first(at[2]));
        if (send) {
          handles.push_back(*send);
        }
        break;
      }
      case 2:
        if (!handles.empty() && endpoint->cancel(handles.front())) {
          handles.pop_front();
        }
        break;
      case 3:
        talker.error(peer, at[2]);
        break;
      case 4:
        talker.up(peer, std::as_bytes(std::span(at, 8)));  // no indication at all
        break;
      case 5:
        if (!talker.sent.empty()) {
          talker.sent.pop_back();  // what was lent is given back
        }
        break;
      default: {
        Indication said{.kind = static_cast<Indication::Kind>(at[2] % 6),
                        .incarnation = at[3] / 128U,
                        .number = at[3] % 4U,
                        .error = at[4] % 3,
                        .tag = at[4] % 4U,
                        .total_bytes = at[5] * std::uint64_t{8},
                        .offset = at[6] * std::uint64_t{8},
                        .handle = at[4]};
        if (at[3] == 0x7f) {
          said.total_bytes = ~std::uint64_t{0} - at[5];  // lies about lengths
          said.offset = ~std::uint64_t{0} - at[6];
        }
        std::vector<std::byte> bytes(Indication::size + at[7]);
        said.store(bytes.data());
        talker.up(peer, bytes);
      }
    }
    if ((at[7] & 1) != 0) {
      endpoint->progress();
    }
    const msg::Statistics& now = endpoint->statistics();
    SLUICE_REQUIRE(now.unexpected_bytes <= options.unexpected_bytes_max);
    SLUICE_REQUIRE(now.unexpected_messages <= options.unexpected_messages_max);
    std::erase_if(handles, [&](const msg::Handle handle) { return endpoint->test(handle).has_value(); });
  }
  while (endpoint->progress()) {
  }
  talker.sent.clear();
  endpoint.reset();
  SLUICE_REQUIRE(set.pool().statistics().buffers_in_use == 0);
  return 0;
}
