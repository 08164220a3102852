// SPDX-License-Identifier: Apache-2.0
#pragma once

// Two users of `xtp` over a network that loses, doubles, delays and damages packets as a seed says, in simulated time.
// One calls, the other accepts; both send messages and release. What a user gets is checked as it comes: each byte, and
// where messages end.

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stack/modules/xtp.h"
#include "stack/wire/tpi_connection.h"
#include "tests/stack/modules/rmpp_bed.h"

namespace sluice::test::associations {

namespace tpi = wire::tpi;
using messages::Network;
using messages::Packet;
using messages::Weather;
using wire::TransportAddress;

/// A primitive of the test's own: who makes it asks again while the pool refuses.
template <class Primitive>
Message insisted(BufferPool& pool, const Primitive& primitive, MessageType type) {
  Message message;
  for (int attempt = 0; !message && attempt < 1000; ++attempt) {
    message = primitive_message(pool, primitive, type);
  }
  SLUICE_REQUIRE(message);
  return message;
}

/// A connectionless provider that can be bound.
class XtpProvider : public messages::Provider {
 public:
  XtpProvider(Network& network, const TransportAddress& address) : Provider(network, address), bound_to_(address) {}

  void wput(Batch&& batch) override {
    Batch rest;
    while (Message message = batch.pop()) {
      if (message.type() == MessageType::flush) {
        turn_flush(std::move(message));
      } else if (is_protocol(message.type()) && message.native<wire::DataUnit>() == nullptr && manage(message)) {
        continue;
      } else {
        rest.push(std::move(message));
      }
    }
    if (!rest.empty()) {
      Provider::wput(std::move(rest));
    }
  }
  std::int32_t refusal = 0;  // TLI error that answers binds

 private:
  template <class Primitive>
  void answer(const Primitive& primitive) {
    read_queue().put_next(insisted(set().pool(), primitive, MessageType::pcproto));
  }
  bool manage(const Message& message) {
    const std::int32_t primitive = tpi::primitive_of(message.bytes()).value_or(-1);
    if (primitive == tpi::T_BIND_REQ || primitive == tpi::O_T_BIND_REQ) {
      const Encoded address(bound_to_);
      refusal != 0 ? answer(tpi::ErrorAck{.error_primitive = primitive, .tli_error = refusal})
                   : answer(tpi::BindAck{.address = address.bytes(), .connect_indications = 0});
      return true;
    }
    if (primitive == tpi::T_UNBIND_REQ) {
      const std::array both{std::byte{flush_read | flush_write}};
      read_queue().put_next(Message::copy_of(set().pool(), both, 0, MessageType::flush));
      answer(tpi::OkAck{.correct_primitive = primitive});
      return true;
    }
    return false;
  }
  TransportAddress bound_to_;
};

/// What one end is to send: messages one after the other, the bytes of all as one stream.
struct Plan {
  std::uint64_t pattern = 0;        // which bytes
  std::vector<std::uint64_t> ends;  // of messages
  [[nodiscard]] std::uint64_t size() const { return ends.empty() ? 0 : ends.back(); }
};

/// The head of a stream and its user.
class XtpUser : public Module {
 public:
  XtpUser() : Module("user") { read_queue().set_marks({.high_bytes = 64 * 1024, .low_bytes = 16 * 1024}); }
  [[nodiscard]] bool handles_deferred() const override { return true; }
  void rput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      if (message.type() == MessageType::flush) {
        flush_queues(message);
      } else {
        read_queue().enqueue(std::move(message));
      }
    }
  }

  void bind(std::uint32_t connect_indications) {
    down(tpi::CapabilityReq{.capabilities = tpi::TC1_ACCEPTOR_ID});
    down(tpi::BindReq{.address = {}, .connect_indications = connect_indications});
  }
  void call(const TransportAddress& to) { down(tpi::ConnReq{Encoded(to).bytes(), {}}); }
  template <class Primitive>
  void down(const Primitive& primitive) {
    write_queue().put_next(insisted(set().pool(), primitive, MessageType::proto));
  }
  void send(std::string_view text, bool more = false) {
    Message request = primitive_message(set().pool(), tpi::DataReq{.more = more ? 1 : 0}, MessageType::proto);
    request.link(Message::copy_of(set().pool(), as_bytes(text)));
    write_queue().put_next(std::move(request));
  }

  /// Reads at most `count` messages, and sends what it may.
  void run(std::size_t count) {
    for (; count > 0; --count) {
      Message message = read_queue().dequeue();
      if (!message) {
        break;
      }
      take(message);
    }
    pump();
  }

  // What it does.
  Plan sends;
  std::optional<Plan> expects;  // nothing: whatever comes
  bool whole_messages = true;   // false: some may lack (NOERR), each of one packet
  bool accepts = true;
  bool releases = true;  // when all has been sent

  // What has happened.
  bool bound = false;
  bool connected = false;
  int connections = 0;
  bool released = false;
  bool peer_released = false;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::vector<std::string> got;  // messages, where nothing is expected
  std::vector<std::int32_t> disconnections;
  std::vector<std::int32_t> withdrawals;
  std::vector<std::int32_t> errors;  // of T_ERROR_ACK
  std::optional<TransportAddress> responder;
  std::vector<std::int32_t> outstanding;
  std::uint64_t acknowledged = 0;
  bool fatal = false;
  std::string wrong;

 private:
  void pump() {
    while (connected && !released && wrong.empty()) {
      const auto next = std::ranges::upper_bound(sends.ends, sent);
      if (next == sends.ends.end()) {
        break;
      }
      if (!write_queue().can_put_next()) {
        return;
      }
      // In parts, as large as they come.
      const std::uint64_t part_max = whole_messages ? 1 + (sent * 7919) % 3000 : UINT64_MAX;
      const std::uint64_t size = std::min<std::uint64_t>(*next - sent, part_max);
      const bool more = sent + size < *next;
      Message request = primitive_message(set().pool(), tpi::DataReq{.more = more ? 1 : 0}, MessageType::proto);
      std::vector<std::byte> bytes(size);
      for (std::size_t at = 0; at < size; ++at) {
        bytes[at] = messages::byte_of(sends.pattern, sent + at);
      }
      Message data = Message::copy_of(set().pool(), bytes, 0, MessageType::data, 700);
      if (!request || !data) {
        return;
      }
      request.link(std::move(data));
      sent += size;
      write_queue().put_next(std::move(request));
    }
    if (connected && !released && releases && sent == sends.size()) {
      released = true;
      down(tpi::OrdrelReq{});
    }
  }
  void take(Message& message) {
    if (message.type() == MessageType::error) {
      fatal = true;
      return;
    }
    if (!is_protocol(message.type())) {
      wrong = "no primitive";
      return;
    }
    const ConstBytes bytes = std::as_const(message).bytes();
    if (const auto capability = tpi::CapabilityAck::decode(bytes)) {
      acceptor_id_ = capability->acceptor_id;
    } else if (tpi::BindAck::decode(bytes)) {
      bound = true;
    } else if (const auto call_came = tpi::ConnInd::decode(bytes)) {
      outstanding.push_back(call_came->sequence);
      if (accepts) {
        accept(call_came->sequence);
      }
    } else if (const auto confirmed = tpi::ConnCon::decode(bytes)) {
      responder = TransportAddress::decode(confirmed->address).value();
      begin();
    } else if (const auto data = tpi::DataInd::decode(bytes)) {
      data_came(message, data->more != 0);
    } else if (tpi::OrdrelInd::decode(bytes)) {
      peer_released = true;
      if (expects && whole_messages && received != expects->size()) {
        wrong = "released before everything came";
      }
    } else if (const auto gone = tpi::DisconInd::decode(bytes)) {
      if (gone->sequence != tpi::no_sequence) {
        withdrawals.push_back(gone->sequence);
        std::erase(outstanding, gone->sequence);
      } else {
        connected = false;
        disconnections.push_back(gone->reason);
      }
    } else if (const auto ok = tpi::OkAck::decode(bytes)) {
      ++acknowledged;
      if (ok->correct_primitive == tpi::T_CONN_RES) {
        begin();
      }
    } else if (const auto error = tpi::ErrorAck::decode(bytes)) {
      errors.push_back(error->tli_error);
    }
  }
  void begin() {
    connected = true;
    ++connections;
    released = peer_released = false;
    sent = received = 0;
    partial_.clear();
  }
  void data_came(Message& message, bool more) {
    Message data = message.unlink();
    std::vector<std::byte> bytes(data.data_size());
    const std::array places{Bytes(bytes)};
    if (data.land(places) == TransformResult::failed) {
      wrong = "data that is no good";
      return;
    }
    if (peer_released) {
      wrong = "data behind the release";
    }
    if (!expects) {
      partial_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      if (!more) {
        got.push_back(std::exchange(partial_, {}));
      }
      return;
    }
    if (!whole_messages && !skip_to(bytes)) {
      wrong = "a message that was not sent, or not now";
      return;
    }
    const auto message_end = std::ranges::upper_bound(expects->ends, received);
    if (message_end == expects->ends.end() || received + bytes.size() > *message_end) {
      wrong = "more than the message at " + std::to_string(received);
      return;
    }
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      if (bytes[at] != messages::byte_of(expects->pattern, received + at)) {
        wrong = "wrong byte at " + std::to_string(received + at);
        return;
      }
    }
    received += bytes.size();
    if (more == (received == *message_end)) {
      wrong = "a message's end is not at " + std::to_string(received);
    }
  }
  /// Leaves out messages that lack, up to one that begins with these bytes.
  [[nodiscard]] bool skip_to(const std::vector<std::byte>& bytes) {
    for (std::uint64_t begin = received; begin < expects->size();) {
      const std::uint64_t end = *std::ranges::upper_bound(expects->ends, begin);
      bool same = end - begin == bytes.size();
      for (std::size_t at = 0; same && at < bytes.size(); ++at) {
        same = bytes[at] == messages::byte_of(expects->pattern, begin + at);
      }
      if (same) {
        received = begin;
        return true;
      }
      begin = end;
    }
    return false;
  }

 public:
  void accept(std::int32_t sequence) {
    std::erase(outstanding, sequence);
    down(tpi::ConnRes{.acceptor_id = acceptor_id_, .options = {}, .sequence = sequence});
  }

 private:
  std::uint32_t acceptor_id_ = 0;
  std::string partial_;
};

class XtpNode {
 public:
  XtpNode(Network& network, const TransportAddress& address, const xtp::Options& options, ProcessingMode mode,
          std::uint64_t seed, std::size_t pool_bytes_max)
      : set_({.pool_bytes_max = pool_bytes_max, .defer_bytes_min = 1, .seed = seed}) {
    auto provider = std::make_unique<XtpProvider>(network, address);
    provider_ = provider.get();
    SLUICE_REQUIRE(chain_.open_driver(std::move(provider)).has_value());
    auto module = std::make_unique<Xtp>(options);
    module_ = module.get();
    SLUICE_REQUIRE(chain_.push(std::move(module)).has_value());
    chain_.set_mode(mode);
  }
  StreamSet& set() { return set_; }
  XtpUser& user() { return user_; }
  XtpProvider& provider() { return *provider_; }
  Xtp& module() { return *module_; }
  void close() {
    if (module_ != nullptr) {
      module_ = nullptr;
      SLUICE_REQUIRE(chain_.pop().has_value());
    }
  }
  [[nodiscard]] bool is_open() const { return module_ != nullptr; }

 private:
  StreamSet set_;
  XtpUser user_;
  Chain chain_{set_, user_};
  XtpProvider* provider_ = nullptr;
  Xtp* module_ = nullptr;
};

class XtpBed : public messages::Nodes<XtpNode> {
 public:
  XtpBed(const std::array<xtp::Options, 2>& options, ProcessingMode mode, std::uint64_t seed,
         const Weather& weather = {}, bool checked_below = true,
         std::size_t pool_bytes_max = BufferPool::bytes_max_default)
      : Nodes(seed, weather),
        options_(options),
        mode_(mode),
        checked_below_(checked_below),
        pool_bytes_max_(pool_bytes_max) {
    make(options_.size());
  }

  /// Node 0 listens, node 1 calls.
  void connect() {
    (*this)[0].user().bind(4);
    (*this)[1].user().bind(0);
    (*this)[1].user().call(address(0));
  }
  void deliver(Packet packet) {
    if (!checked_below_) {
      packet.sum = header_sum(packet.bytes);
    }
    Nodes::deliver(packet);
  }

  std::function<bool(const Packet&)> loses;  // on its way; asked in the order of arrival

 private:
  std::unique_ptr<XtpNode> made(std::size_t at, std::uint64_t seed) override {
    return std::make_unique<XtpNode>(network, address(at), options_[at], mode_, seed, pool_bytes_max_);
  }
  void arrive(Packet packet, bool /*lazy_readers*/) override {
    if (!loses || !loses(packet)) {
      deliver(std::move(packet));
    }
  }

  std::array<xtp::Options, 2> options_;
  ProcessingMode mode_;
  bool checked_below_;
  std::size_t pool_bytes_max_;
};

// ---- A peer that is the test ----

/// The same packet with a checksum that holds.
inline std::vector<std::byte> summed(std::vector<std::byte> bytes) {
  std::byte* const field = bytes.data() + wire::XtpHeader::checksum_offset;
  store_checksum(field, 0);
  store_checksum(field, checksum_of(header_sum(bytes)));
  return bytes;
}

inline std::vector<std::byte> packet_of(wire::XtpHeader header, ConstBytes segment) {
  std::vector<std::byte> bytes(wire::XtpHeader::size + segment.size());
  header.length = static_cast<std::uint32_t>(segment.size());
  header.emit(bytes);
  std::copy(segment.begin(), segment.end(), bytes.begin() + wire::XtpHeader::size);
  return summed(std::move(bytes));
}

inline std::vector<std::byte> packet_of(const wire::XtpHeader& header, const wire::XtpControl& control) {
  std::vector<std::byte> segment(control.encoded_size(header.type));
  control.emit(segment, header.type);
  return packet_of(header, segment);
}

constexpr std::uint64_t first_sequence = 1000;

/// A call with this key.
inline std::vector<std::byte> first_of(std::uint64_t key) {
  const wire::XtpFirst first{.to = {}, .from = {}, .traffic = {}};
  std::vector<std::byte> segment(first.encoded_size());
  first.emit(segment);
  return packet_of({.key = key, .type = wire::XtpHeader::Type::first, .sync = 1, .sequence = first_sequence}, segment);
}

}  // namespace sluice::test::associations
