// SPDX-License-Identifier: Apache-2.0
#pragma once

// A transport provider's stream, spoken to by hand: primitives down, and what comes up in words, for tables of cases.

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "stack/core/chain.h"
#include "stack/wire/network.h"
#include "stack/wire/options.h"
#include "stack/wire/tpi_connection.h"
#include "tests/stack/modules/harness.h"
#include "tests/stack/provider/workshop.h"

namespace sluice::test {

using namespace wire::tpi;
using namespace wire::xti;
using wire::IpAddress;
using wire::TransportAddress;
using wire::network::Sending;

/// A head that records what comes up, and sends the write side of a flush down again as heads do.
class RecordingHead final : public Module {
 public:
  RecordingHead() : Module("head") {}

  void rput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      if (message.type() == MessageType::flush) {
        const std::byte both[] = {std::byte{flush_write}};
        write_queue().put_next(Message::copy_of(set().pool(), both, 0, MessageType::flush));
      }
      arrived.push_back(std::move(message));
    }
  }

  std::deque<Message> arrived;
};

inline std::string name_of(std::int32_t primitive) {
  switch (primitive) {
    case T_INFO_ACK:
      return "T_INFO_ACK";
    case T_BIND_ACK:
      return "T_BIND_ACK";
    case T_OK_ACK:
      return "T_OK_ACK";
    case T_UDERROR_IND:
      return "T_UDERROR_IND";
    case T_UNITDATA_IND:
      return "T_UNITDATA_IND";
    case T_OPTMGMT_ACK:
      return "T_OPTMGMT_ACK";
    case T_ADDR_ACK:
      return "T_ADDR_ACK";
    case T_CAPABILITY_ACK:
      return "T_CAPABILITY_ACK";
    case T_CONN_IND:
      return "T_CONN_IND";
    case T_CONN_CON:
      return "T_CONN_CON";
    case T_DISCON_IND:
      return "T_DISCON_IND";
    case T_DATA_IND:
      return "T_DATA_IND";
    case T_ORDREL_IND:
      return "T_ORDREL_IND";
    default:
      return "primitive " + std::to_string(primitive);
  }
}

/// A message in words: its type unless it is the usual one, the primitive, and what a user would look at.
inline std::string in_words(const Message& message, const Arrangement& arrangement) {
  const ConstBytes bytes = message.bytes();
  if (message.type() == MessageType::error) {
    return "M_ERROR " + std::to_string(std::to_integer<int>(bytes[0])) + " " +
           std::to_string(std::to_integer<int>(bytes[1]));
  }
  if (message.type() == MessageType::flush) {
    return "M_FLUSH " + std::to_string(std::to_integer<int>(bytes[0]));
  }
  if (const auto error = ErrorAck::decode(bytes)) {
    EXPECT_EQ(message.type(), MessageType::pcproto);
    return "error of " + std::to_string(error->error_primitive) + ": " + std::to_string(error->tli_error) + " " +
           std::to_string(error->unix_error);
  }
  const std::int32_t primitive = primitive_of(bytes).value();
  std::string text = name_of(primitive);
  const bool is_acknowledgement = text.ends_with("_ACK");
  if (message.type() != (is_acknowledgement ? MessageType::pcproto : MessageType::proto)) {
    text += message.type() == MessageType::proto ? " in M_PROTO" : " in M_PCPROTO";
  }
  const auto address = [&](ConstBytes encoded) -> std::string {
    const auto decoded = TransportAddress::decode(encoded);
    if (encoded.empty() || !decoded) {
      return encoded.empty() ? " nothing" : " nonsense";
    }
    return std::string(decoded->address == arrangement.address() ? " local" : " other") +
           (decoded->port == 0 ? ":0" : ":port");
  };
  const auto info = [](const InfoAck& ack) {
    std::string fields;
    for (const std::int32_t field :
         {ack.tsdu_size, ack.etsdu_size, ack.cdata_size, ack.ddata_size, ack.addr_size, ack.opt_size, ack.tidu_size,
          ack.serv_type, ack.current_state, ack.provider_flag}) {
      fields += " " + std::to_string(field);
    }
    return fields;
  };
  if (const auto ack = InfoAck::decode(bytes)) {
    text += info(*ack);
  } else if (const auto capability = CapabilityAck::decode(bytes)) {
    text += " " + std::to_string(capability->capabilities) + ":" + info(capability->info);
  } else if (const auto bind = BindAck::decode(bytes)) {
    text += address(bind->address) + " " + std::to_string(bind->connect_indications);
  } else if (const auto ok = OkAck::decode(bytes)) {
    text += " " + std::to_string(ok->correct_primitive);
  } else if (const auto addresses = AddrAck::decode(bytes)) {
    text += address(addresses->local) + address(addresses->remote);
  } else if (const auto options = OptmgmtAck::decode(bytes)) {
    text += " " + std::to_string(options->options.size()) + " " + std::to_string(options->flags);
    wire::xti::OptionReader reader(options->options);
    while (const auto one = reader.next()) {
      text += ", " + std::to_string(one->level) + "/" + std::to_string(one->name) + " " + std::to_string(one->status);
      for (const std::byte octet : one->value) {
        text += " " + std::to_string(std::to_integer<int>(octet));
      }
    }
  } else if (const auto caller = ConnInd::decode(bytes)) {
    text += address(caller->source) + " " + std::to_string(caller->sequence);
  } else if (const auto confirmed = ConnCon::decode(bytes)) {
    text += address(confirmed->address);
  } else if (const auto ended = DisconInd::decode(bytes)) {
    text += " " + std::to_string(ended->reason) + " " + std::to_string(ended->sequence);
  } else if (DataInd::decode(bytes)) {
    text += " " + std::to_string(message.data_size()) + " bytes";
  } else if (const auto failed = UderrorInd::decode(bytes)) {
    text += " " + std::to_string(failed->error_type);
  } else if (const auto unit = UnitdataInd::decode(bytes)) {
    text += address(unit->address) + " " + std::to_string(message.data_size()) + " bytes";
    if (const auto how = wire::network::Received::decode(unit->options)) {
      text += how->local == arrangement.address() ? " to local" : " to other";
      text += how->group ? " group" : "";
      text += ", " + std::to_string(how->hop_limit) + " hops, class " + std::to_string(how->traffic_class);
    } else {
      text += unit->options.empty() ? "" : " nonsense";
    }
  }
  return text;
}

/// A provider's stream, spoken to by hand.
class Provider {
 public:
  explicit Provider(const Arrangement& arrangement) : workshop_(arrangement) {
    EXPECT_TRUE(chain_.open_driver(workshop_.driver()));
    for (auto& module : workshop_.modules()) {
      EXPECT_TRUE(chain_.push(std::move(module)));
    }
  }

  /// Sends it and returns all that comes up, in words.
  std::string ask(const Block& request, MessageType type = MessageType::proto, std::size_t data_bytes = 0) {
    Message message = Message::copy_of(workshop_.set().pool(), request, 0, type);
    if (data_bytes > 0) {
      message.link(Message::copy_of(workshop_.set().pool(), Block(data_bytes)));
    }
    head_.write_queue().put_next(std::move(message));
    workshop_.set().scheduler().poll(TimePoint{});
    return arrived();
  }
  /// All that has come up, in words.
  std::string arrived() {
    std::string all;
    for (; !head_.arrived.empty(); head_.arrived.pop_front()) {
      all += (all.empty() ? "" : ", ") + in_words(head_.arrived.front(), workshop_.arrangement());
    }
    return all;
  }

  /// An address of this provider's own, with a port of its choice.
  [[nodiscard]] Block address() const { return encoded(TransportAddress{workshop_.arrangement().address(), 0}); }
  [[nodiscard]] Block peer() const {
    return encoded(TransportAddress{IpAddress::from_text(workshop_.arrangement().peer).value(), 9});
  }
  /// A datagram of five bytes to this very endpoint, and what comes of it.
  std::string ask_itself(const Sending& how) {
    head_.write_queue().put_next(Message::copy_of(workshop_.set().pool(), block(AddrReq{}), 0, MessageType::proto));
    const Message answer = std::move(head_.arrived.front());
    head_.arrived.pop_front();
    const auto bound = AddrAck::decode(answer.bytes());
    Block options(Sending::size);
    how.encode(options);
    std::string all = ask(block(UnitdataReq{.address = bound->local, .options = options}), MessageType::proto, 5);
    for (EventSource* source : workshop_.set().sources()) {
      static_cast<void>(source->on_readable());
    }
    return all + arrived();
  }
  /// What it answers to one after the other.
  std::string ask_in_turn(const std::vector<Block>& requests) {
    std::string all;
    for (const Block& request : requests) {
      all += (all.empty() ? "" : "; ") + ask(request);
    }
    return all;
  }
  /// Waits, a second at most, for what the network has to say, and tells it.
  std::string wait() {
    std::string all = arrived();
    for (int rounds = 0; rounds < 100 && all.empty(); ++rounds) {
      for (EventSource* source : std::vector(workshop_.set().sources())) {
        const short wanted =
            static_cast<short>((source->wants_readable() ? POLLIN : 0) | (source->wants_writable() ? POLLOUT : 0));
        pollfd asked{.fd = source->descriptor(), .events = wanted, .revents = 0};
        if (wanted == 0 || ::poll(&asked, 1, 10) <= 0) {
          continue;
        }
        if (source->wants_writable()) {
          source->on_writable();
        } else {
          static_cast<void>(source->on_readable());
        }
      }
      workshop_.set().scheduler().poll(TimePoint{});
      all = arrived();
    }
    return all;
  }
  /// The number that this provider's stream is accepted on by.
  std::uint32_t acceptor_id() {
    head_.write_queue().put_next(
        Message::copy_of(workshop_.set().pool(), block(CapabilityReq{TC1_ACCEPTOR_ID}), 0, MessageType::pcproto));
    const auto ack = CapabilityAck::decode(head_.arrived.front().bytes());
    const std::uint32_t number = ack ? ack->acceptor_id : 0;
    head_.arrived.pop_front();
    return number;
  }
  /// Where it is bound.
  TransportAddress bound_address() {
    head_.write_queue().put_next(Message::copy_of(workshop_.set().pool(), block(AddrReq{}), 0, MessageType::proto));
    const Message answer = std::move(head_.arrived.front());
    head_.arrived.pop_front();
    const auto ack = AddrAck::decode(answer.bytes());
    return TransportAddress::decode(ack ? ack->local : ConstBytes()).value_or(TransportAddress{});
  }
  [[nodiscard]] IpAddress own() const { return workshop_.arrangement().address(); }
  /// ip_mreq, on this provider's interface.
  [[nodiscard]] Block membership(const wire::Ipv4Address& group) const {
    Block value(2 * wire::Ipv4Address::size);
    group.store(value.data());
    workshop_.arrangement().address().store(value.data() + wire::Ipv4Address::size);
    return value;
  }
  /// MGMT_flags of the answer.
  std::int32_t flags_of(const Block& request) {
    const std::string answer = ask(request);
    int size = 0;
    int flags = -1;
    EXPECT_EQ(std::sscanf(answer.c_str(), "T_OPTMGMT_ACK %d %d", &size, &flags), 2) << answer;
    return flags;
  }
  void bind() { ASSERT_EQ(ask(block(BindReq{.address = address()})), "T_BIND_ACK local:port 0"); }

 private:
  Workshop workshop_;
  RecordingHead head_;
  Chain chain_{workshop_.set(), head_};
};

/// Of which providers a case is.
enum class Mode : std::uint8_t { connectionless, connections, every };

struct Case {
  const char* name;
  bool bound;
  std::function<std::string(Provider&)> ask;
  std::string answer;
  Mode mode = Mode::connectionless;
};

/// Those of connection mode alone (connection_cases.cc).
const std::vector<Case>& connection_cases();

inline const Block foreign = encoded(TransportAddress{wire::Ipv4Address{{192, 0, 2, 1}}, 7000});

inline std::function<std::string(Provider&)> asking(const Block& request, MessageType type = MessageType::proto) {
  return [=](Provider& provider) { return provider.ask(request, type); };
}

inline Block optmgmt(std::int32_t flags, std::size_t option_bytes = 0) {
  const Block options(option_bytes);
  return block(OptmgmtReq{.options = options, .flags = flags});
}
/// One option, with its status as T_OPTMGMT_ACK brings it.
inline Block option(std::uint32_t level, std::uint32_t name, const Block& value = {}, std::int32_t status = 0) {
  Block bytes;
  wire::xti::append(bytes,
                    {.level = level, .name = name, .status = static_cast<std::uint32_t>(status), .value = value});
  return bytes;
}
inline Block operator+(Block left, const Block& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}
inline Block scalar(std::uint32_t level, std::uint32_t name, std::uint32_t value) {
  return option(level, name, words({value}));
}
inline Block managing(std::int32_t flags, const Block& options) {
  return block(OptmgmtReq{.options = options, .flags = flags});
}
inline Block svr4_optmgmt(std::int32_t flags, std::size_t option_bytes = 0) {
  const Block options(option_bytes);
  return block(Svr4OptmgmtReq{.options = options, .flags = flags});
}

}  // namespace sluice::test
