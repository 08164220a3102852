// SPDX-License-Identifier: Apache-2.0
#pragma once

// A tcp module over an ip that answers, a user whose news are told in words, and peers that are scripted segment by
// segment.
//
//     TcpStack stack;
//     stack.bind();
//     Peer peer(stack);
//     stack.connect(peer.address());
//     EXPECT_EQ(peer.heard(), "SYN");
//     peer.says(tcp_syn | tcp_ack);
//     EXPECT_EQ(stack.told(), "ok connect, confirmed");

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stack/modules/tcp.h"
#include "stack/wire/protocol.h"
#include "tests/stack/modules/fake_ip.h"
#include "tests/stack/modules/harness.h"
#include "tests/stack/modules/tcp_pair.h"

namespace sluice::test::tcp_stack {

using namespace wire::tpi;
using namespace std::chrono_literals;
using wire::DataUnit;
using wire::IpAddress;
using wire::Ipv4Address;
using wire::Ipv6Address;
using wire::tcp_ack;
using wire::tcp_fin;
using wire::tcp_psh;
using wire::tcp_rst;
using wire::tcp_syn;
using wire::TransportAddress;

inline const IpAddress here_v4 = Ipv4Address{{10, 0, 0, 1}};
inline const IpAddress there_v4 = Ipv4Address{{10, 0, 0, 2}};
inline const IpAddress there_v6 = Ipv6Address{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
inline constexpr std::uint16_t here_port = 7000;
inline constexpr std::uint16_t there_port = 9;

/// A segment that the module gave to ip, and how.
struct Sent {
  DataUnit request;
  tcp::Segment segment;
  std::string text;
};

class TcpStack : public Stack {
 public:
  explicit TcpStack(const Tcp::Options& options = {}) : ip_(push<FakeIp>()), tcp_(push<Tcp>(options)) {}
  /// Beside others of the same stream set.
  explicit TcpStack(StreamSet& shared, const Tcp::Options& options = {})
      : Stack(shared), ip_(push<FakeIp>()), tcp_(push<Tcp>(options)) {}

  FakeIp& ip() { return ip_; }
  Tcp& tcp() { return tcp_; }
  [[nodiscard]] std::uint64_t counted(std::string_view name) const { return count(tcp_, name); }
  /// Its ACCEPTOR_id. REQUIRES: nothing waits to be told.
  std::uint32_t number() {
    down(proto(*this, CapabilityReq{TC1_ACCEPTOR_ID}));
    const Message answer = head().take();
    return CapabilityAck::decode(answer.bytes()).value().acceptor_id;
  }

  // ---- The user asks ----

  void bind(std::uint32_t connect_indications = 0, const TransportAddress& address = {Ipv6Address{}, here_port}) {
    down(proto(*this, BindReq{.address = encoded(address), .connect_indications = connect_indications}));
    EXPECT_EQ(told(), "bound");
  }
  void connect(const TransportAddress& to) { down(proto(*this, ConnReq{.address = encoded(to), .options = {}})); }
  void accept(std::int32_t sequence) { accept(sequence, number()); }
  void accept(std::int32_t sequence, std::uint32_t acceptor) {
    down(proto(*this, ConnRes{.acceptor_id = acceptor, .options = {}, .sequence = sequence}));
  }
  void disconnect(std::int32_t sequence = no_sequence) { down(proto(*this, DisconReq{sequence})); }
  void send(std::string_view text) { down(with_data(proto(*this, DataReq{}), data(*this, text))); }
  void finish() { down(proto(*this, OrdrelReq{})); }
  void unbind() { down(proto(*this, UnbindReq{})); }

  // ---- And is told ----

  /// What has come up, in words; data that follows data is one.
  std::string told() {
    std::string all;
    bool was_data = false;
    while (head().count() > 0) {
      const auto [words, text] = told_next();
      const bool is_data = words.empty();
      all += all.empty() || (is_data && was_data) ? "" : ", ";
      all += is_data ? (was_data ? "" : "data ") + text : words;
      was_data = is_data;
    }
    return all;
  }
  /// The next of it: words, or data. REQUIRES: something has come up.
  std::pair<std::string, std::string> told_next() {
    const Message message = head().take();
    const bool is_data = is_protocol(message.type()) && primitive_of(message.bytes()) == T_DATA_IND;
    return is_data ? std::pair(std::string(), data_text(message)) : std::pair(words_of(message), std::string());
  }

  // ---- What goes down ----

  /// The segments since the last time, as bytes.
  std::vector<std::pair<DataUnit, std::string>> take_messages() {
    std::vector<std::pair<DataUnit, std::string>> all;
    while (driver().count() > 0) {
      const Message message = driver().take();
      if (message.type() == MessageType::flush) {
        continue;
      }
      const auto request = DataUnit::decode(message.bytes(), DataUnit::Kind::network_request);
      SLUICE_REQUIRE(request.has_value());
      EXPECT_EQ(request->protocol, wire::protocol_tcp);
      EXPECT_TRUE(request->dont_fragment);
      all.emplace_back(*request, data_text(message));
    }
    return all;
  }
  /// The segments since the last time.
  std::vector<Sent> take_sent() {
    std::vector<Sent> all;
    for (auto& [request, bytes] : take_messages()) {
      const tcp::Ends at_peer{{request.peer, 0}, {request.local, 0}};
      auto segment = tcp_pair::segment_of(pool(), at_peer, as_bytes(bytes));
      SLUICE_REQUIRE(segment.has_value());
      bytes.erase(0, segment->header.header_size);
      all.push_back({request, std::move(*segment), std::move(bytes)});
    }
    return all;
  }

  // ---- What comes from the network ----

  /// What ip passes up of a segment from `from`.
  Message indication(const IpAddress& from, const IpAddress& to, std::string_view bytes, bool group = false) {
    Message message = Message::of_native(pool(), DataUnit{.kind = DataUnit::Kind::network_indication,
                                                          .options = DataUnit::Options::received,
                                                          .protocol = wire::protocol_tcp,
                                                          .group = group,
                                                          .peer = from,
                                                          .local = to,
                                                          .header_size = 20});
    message.link(Message::copy_of(pool(), as_bytes(bytes)));
    return message;
  }
  /// ip says that a segment which began with `quote` has not got to `to`.
  void fails(const TransportAddress& to, std::string_view quote, int error, std::uint32_t mtu = 0) {
    Message message = Message::of_native(pool(), DataUnit{.kind = DataUnit::Kind::network_error,
                                                          .options = DataUnit::Options::failure,
                                                          .protocol = wire::protocol_tcp,
                                                          .has_local = true,
                                                          .peer = to.address,
                                                          .local = here_v4,
                                                          .error = error,
                                                          .mtu = mtu});
    message.link(data(*this, quote));
    up(std::move(message));
  }

 private:
  static std::string name_of_request(std::int32_t primitive) {
    static const std::map<std::int32_t, const char*> names{{T_BIND_REQ, "bind"},         {T_UNBIND_REQ, "unbind"},
                                                           {T_CONN_REQ, "connect"},      {T_CONN_RES, "accept"},
                                                           {T_DISCON_REQ, "disconnect"}, {T_OPTMGMT_REQ, "options"}};
    const auto name = names.find(primitive);
    return name == names.end() ? std::to_string(primitive) : name->second;
  }
  static std::string words_of(const Message& message) {
    if (!is_protocol(message.type())) {
      return message.type() == MessageType::flush ? "flush" : message.type() == MessageType::error ? "fatal" : "else";
    }
    const ConstBytes block = message.bytes();
    if (const auto ok = OkAck::decode(block)) {
      return "ok " + name_of_request(ok->correct_primitive);
    }
    if (const auto error = ErrorAck::decode(block)) {
      return "refused " + name_of_request(error->error_primitive) + " " + std::to_string(error->tli_error) +
             (error->tli_error == TSYSERR ? "/" + std::to_string(error->unix_error) : "");
    }
    if (const auto called = ConnInd::decode(block)) {
      return "called " + std::to_string(called->sequence);
    }
    if (const auto gone = DisconInd::decode(block)) {
      return "gone " + std::to_string(gone->reason) +
             (gone->sequence == no_sequence ? "" : " of " + std::to_string(gone->sequence));
    }
    switch (primitive_of(block).value_or(-1)) {
      case T_BIND_ACK:
        return "bound";
      case T_CONN_CON:
        return "confirmed";
      case T_ORDREL_IND:
        return "end";
      case T_OPTMGMT_ACK:
        return "managed";
      default:
        return "else";
    }
  }

  FakeIp& ip_;
  Tcp& tcp_;
};

/// One who speaks with the module: knows where his numbers and its are.
class Peer {
 public:
  explicit Peer(TcpStack& stack, const TransportAddress& address = {there_v4, there_port},
                std::uint16_t to_port = here_port)
      : stack_(stack),
        ends_{address, {address.address.is_v4() ? stack.ip().source_v4 : stack.ip().source_v6, to_port}} {}

  [[nodiscard]] const TransportAddress& address() const { return ends_.local; }

  /// The segment's bytes: its checksum holds.
  [[nodiscard]] std::string bytes_of(std::uint8_t flags, std::string_view text = {}) const {
    const wire::TcpHeader header{
        .sequence = next, .acknowledgment = expected, .flags = flags, .window = window, .urgent_pointer = 0};
    return data_text(tcp::make_segment(stack_.pool(), ends_, header, options,
                                       text.empty() ? Message() : Message::copy_of(stack_.pool(), as_bytes(text))));
  }
  void arrives(std::string_view bytes, bool group = false) const {
    stack_.up(stack_.indication(ends_.local.address, ends_.remote.address, bytes, group));
  }
  /// A segment in its place.
  void says(std::uint8_t flags, std::string_view text = {}) { arrives(next_bytes_of(flags, text)); }
  /// As says(), of one that comes with those of the batch.
  void says(Batch& batch, std::uint8_t flags, std::string_view text = {}) {
    batch.push(stack_.indication(ends_.local.address, ends_.remote.address, next_bytes_of(flags, text)));
  }
  /// One in the name of this peer, that many places off.
  void forged(std::uint8_t flags, std::uint32_t sequence_off, std::uint32_t acknowledgment_off = 0,
              std::string_view text = {}) const {
    Peer other = *this;
    other.next += sequence_off;
    other.expected += acknowledgment_off;
    other.says(flags, text);
  }
  /// The first bytes of what the module sent to it: as ICMP quotes them.
  [[nodiscard]] std::string quote_at(std::uint32_t sequence) const {
    const wire::TcpHeader header{
        .source_port = ends_.remote.port, .destination_port = ends_.local.port, .sequence = sequence};
    std::array<std::byte, wire::TcpHeader::size_min> bytes{};
    header.emit(bytes);
    return std::string(as_text(bytes).substr(0, 8));
  }

  /// What the module has sent to it since, in words, and it has heard it.
  std::string heard() {
    std::string all;
    for (const Sent& sent : stack_.take_sent()) {
      if (sent.request.peer == ends_.local.address && sent.segment.header.destination_port == ends_.local.port) {
        all += (all.empty() ? "" : ", ") + hear(sent);
      }
    }
    return all;
  }

  /// The bytes that have come in order since, each once; and it has heard them, and the end.
  std::string read() {
    std::string all;
    for (const Sent& sent : stack_.take_sent()) {
      const std::uint32_t known = expected - sent.segment.header.sequence;
      if (known <= sent.text.size()) {
        all += sent.text.substr(known);
        expected += static_cast<std::uint32_t>(sent.text.size()) - known;
        if (sent.segment.header.has(tcp_fin)) {
          ended = true;
          ++expected;
        }
      }
    }
    return all;
  }

  std::uint32_t next = 500'000;
  std::uint32_t expected = 0;  // of the module
  std::uint16_t window = 60'000;
  bool ended = false;  // by the module
  wire::TcpOptions options;

 private:
  std::string next_bytes_of(std::uint8_t flags, std::string_view text) {
    const std::string bytes = bytes_of(flags, text);
    next += static_cast<std::uint32_t>(text.size()) + ((flags & (tcp_syn | tcp_fin)) != 0 ? 1U : 0U);
    return bytes;
  }
  std::string hear(const Sent& sent) {
    const wire::TcpHeader& header = sent.segment.header;
    std::string words;
    for (const auto& [flag, name] : {std::pair{tcp_syn, "SYN"}, {tcp_fin, "FIN"}, {tcp_rst, "RST"}, {tcp_ack, "ACK"}}) {
      words += !header.has(flag) ? "" : (words.empty() ? "" : "+") + std::string(name);
    }
    const std::uint32_t until =
        header.sequence + static_cast<std::uint32_t>(sent.text.size()) + (header.has(tcp_syn | tcp_fin) ? 1U : 0U);
    if (header.has(tcp_syn) || static_cast<std::int32_t>(until - expected) > 0) {
      expected = until;
    }
    return words + (sent.text.empty() ? "" : " " + sent.text);
  }

  TcpStack& stack_;
  tcp::Ends ends_;
};

}  // namespace sluice::test::tcp_stack
