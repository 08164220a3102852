// SPDX-License-Identifier: Apache-2.0
#pragma once

// An endpoint of connection mode to test with: a provider that the test commands, timod over it, and time that only
// passes when asked. Addresses and options are words.

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stack/core/reader_place.h"
#include "stack/wire/tpi_connection.h"
#include "tests/tli/harness.h"

namespace sluice::test {

/// The provider. It does what it is asked, and keeps the requests, in words; while stalled, data and release wait on
/// its write queue.
class ConnectionProvider : public Module {
 public:
  ConnectionProvider() : Module("provider", Services::write) {
    write_queue().set_marks({.high_bytes = 1, .low_bytes = 1});
  }

  void wput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      const bool bare = message.type() == MessageType::data;
      const std::int32_t primitive = bare ? tpi::T_DATA_REQ : tpi::primitive_of(message.bytes()).value_or(-1);
      const bool waits =
          primitive == tpi::T_DATA_REQ || primitive == tpi::T_EXDATA_REQ || primitive == tpi::T_ORDREL_REQ;
      if (message.type() == MessageType::flush) {
        turn_flush(std::move(message));
      } else if (message.type() == MessageType::ioctl) {
        read_queue().put_next(ioctl_refused(std::move(message), EINVAL));
      } else if (!waits) {
        manage(message);
      } else if (stalled) {
        write_queue().enqueue(std::move(message));
      } else {
        take(message);
      }
    }
  }
  void wsrv() override {
    while (!stalled) {
      const Message message = write_queue().dequeue();
      if (!message) {
        return;
      }
      take(message);
    }
  }
  void resume() {
    stalled = false;
    write_queue().enable();
  }

  void indicates(std::int32_t sequence, std::string_view source = "caller", std::string_view data = {}) {
    up(tpi::ConnInd{.source = as_bytes(source), .options = as_bytes("option"), .sequence = sequence}, data);
  }
  void confirms(std::string_view responder = "responder", std::string_view data = {}) {
    up(tpi::ConnCon{as_bytes(responder), as_bytes("option")}, data);
  }
  /// Of the connection, whose data goes with it.
  void disconnects(std::int32_t reason, std::string_view data = {}) {
    const std::byte both[] = {std::byte{flush_read | flush_write}};
    read_queue().put_next(Message::copy_of(set().pool(), both, 0, MessageType::flush));
    up(tpi::DisconInd{.reason = reason}, data);
  }
  void withdraws(std::int32_t sequence) { up(tpi::DisconInd{.reason = ECONNRESET, .sequence = sequence}, {}); }
  void sends(std::string_view data, std::int32_t more = 0) { up(tpi::DataInd{more}, data); }
  /// As sends() on a fused path, but puts the data where the reader waits, if he does; whether it did.
  bool lands(std::string_view data, std::int32_t more = 0) {
    Message message = message_of(set().pool(), tpi::DataInd{more}, MessageType::proto);
    ReaderPlace* const reader = waiting_reader();
    Message shown =
        reader != nullptr && data.size() <= reader->room().size() ? reader->take_room(data.size()) : Message();
    const bool landed = static_cast<bool>(shown);
    if (landed) {
      std::ranges::copy(as_bytes(data), shown.bytes().begin());
    } else {
      shown = Message::copy_of(set().pool(), as_bytes(data));
    }
    message.link(std::move(shown));
    defer_unless_landed(message);
    if (reader != nullptr && info.tsdu_size != 0 && more == 0) {
      reader->end_room();
    }
    read_queue().put_next(std::move(message));
    return landed;
  }
  void sends_bare(std::string_view data) { read_queue().put_next(Message::copy_of(set().pool(), as_bytes(data))); }
  void expedites(std::string_view data, std::int32_t more = 0) { up(tpi::ExdataInd{more}, data, 1); }
  void releases() { up(tpi::OrdrelInd{}, {}); }
  template <class Primitive>
  void up(const Primitive& primitive, std::string_view data, std::uint8_t band = 0,
          MessageType type = MessageType::proto) {
    Message message = message_of(set().pool(), primitive, type);
    if (!data.empty()) {
      message.link(Message::copy_of(set().pool(), as_bytes(data)));
    }
    message.set_band(band);
    read_queue().put_next(std::move(message));
  }

  tpi::InfoAck info{.tsdu_size = 100,
                    .etsdu_size = 10,
                    .cdata_size = 8,
                    .ddata_size = 8,
                    .addr_size = 16,
                    .opt_size = 32,
                    .tidu_size = 100,
                    .serv_type = tpi::T_COTS_ORD,
                    .current_state = tpi::TS_UNBND,
                    .provider_flag = 0};
  bool stalled = false;
  std::map<std::int32_t, tpi::ErrorAck> refusals;          // of requests with these numbers
  std::optional<std::int32_t> silent_to;                   // a request that is not answered
  std::function<void(std::int32_t primitive)> on_request;  // called before the answer
  std::uint32_t capabilities = tpi::TC1_INFO | tpi::TC1_ACCEPTOR_ID;
  std::uint32_t acceptor_id = 7;
  std::string peer;
  std::vector<std::string> sent;

 private:
  static std::string text_of(const Message& message) {
    std::string text(message.data_size(), '\0');
    EXPECT_TRUE(message.copy_data_to(0, std::as_writable_bytes(std::span(text))));
    return text;
  }
  void take(const Message& message) {
    const std::string data = text_of(message);
    const std::string band = message.band() == 0 ? "" : " in band " + std::to_string(message.band());
    if (message.type() == MessageType::data) {
      sent.push_back("M_DATA " + data);
    } else if (const auto request = tpi::DataReq::decode(message.bytes())) {
      sent.push_back("T_DATA_REQ " + data + (request->more != 0 ? " more" : "") + band);
    } else if (const auto expedited = tpi::ExdataReq::decode(message.bytes())) {
      sent.push_back("T_EXDATA_REQ " + data + (expedited->more != 0 ? " more" : "") + band);
    } else {
      sent.push_back("T_ORDREL_REQ");
    }
  }
  template <class Answer>
  void answer(std::int32_t primitive, const Answer& given) {
    if (on_request) {
      on_request(primitive);
    }
    const auto refusal = refusals.find(primitive);
    if (silent_to == primitive) {
      return;
    }
    if (refusal != refusals.end()) {
      up(refusal->second, {}, 0, MessageType::pcproto);
    } else {
      up(given, {}, 0, MessageType::pcproto);
    }
  }
  void manage(const Message& message) {
    const ConstBytes block = message.bytes();
    if (const auto bind = tpi::BindReq::decode(block)) {
      info.current_state = tpi::TS_IDLE;
      return answer(tpi::T_BIND_REQ, tpi::BindAck{as_bytes("bound"), bind->connect_indications});
    }
    if (tpi::UnbindReq::decode(block)) {
      info.current_state = tpi::TS_UNBND;
      return answer(tpi::T_UNBIND_REQ, tpi::OkAck{tpi::T_UNBIND_REQ});
    }
    if (const auto options = tpi::OptmgmtReq::decode(block)) {
      return answer(tpi::T_OPTMGMT_REQ, tpi::OptmgmtAck{options->options, tpi::T_SUCCESS});
    }
    if (tpi::AddrReq::decode(block)) {
      return answer(tpi::T_ADDR_REQ, tpi::AddrAck{as_bytes("bound"), as_bytes(peer)});
    }
    if (const auto asked = tpi::CapabilityReq::decode(block)) {
      return answer(tpi::T_CAPABILITY_REQ, tpi::CapabilityAck{asked->capabilities & capabilities, info, acceptor_id});
    }
    if (const auto connect = tpi::ConnReq::decode(block)) {
      sent.push_back("T_CONN_REQ to " + std::string(as_text(connect->address)) + " " +
                     std::string(as_text(connect->options)) + " " + text_of(message));
      return answer(tpi::T_CONN_REQ, tpi::OkAck{tpi::T_CONN_REQ});
    }
    if (const auto response = tpi::ConnRes::decode(block)) {
      sent.push_back("T_CONN_RES of " + std::to_string(response->sequence) + " on " +
                     std::to_string(response->acceptor_id) + " " + std::string(as_text(response->options)) + " " +
                     text_of(message));
      return answer(tpi::T_CONN_RES, tpi::OkAck{tpi::T_CONN_RES});
    }
    if (const auto disconnect = tpi::DisconReq::decode(block)) {
      sent.push_back("T_DISCON_REQ of " + std::to_string(disconnect->sequence) + " " + text_of(message));
      return answer(tpi::T_DISCON_REQ, tpi::OkAck{tpi::T_DISCON_REQ});
    }
    answer(tpi::T_INFO_REQ, info);
  }
};

class ConnectionTest : public TliTest {
 protected:
  ConnectionTest() { open(); }

  std::unique_ptr<tli::Endpoint> make(ConnectionProvider*& at,
                                      const std::function<void(ConnectionProvider&)>& prepare = {}) {
    auto made = std::make_unique<ConnectionProvider>();
    at = made.get();
    auto stream = std::move(*Stream::open(set, std::move(made)));
    EXPECT_TRUE(stream->push(std::make_unique<Timod>()));
    if (prepare) {
      prepare(*at);
    }
    auto opened = tli::Endpoint::t_open(std::move(stream), &info);
    EXPECT_TRUE(opened);
    return opened ? std::move(*opened) : nullptr;
  }
  /// An endpoint in T_UNBND whose provider is what `prepare` makes of it.
  void open(const std::function<void(ConnectionProvider&)>& prepare = {}) { endpoint = make(provider, prepare); }
  /// As open(), then brings it to `state`, with `outstanding` indications in T_INCON: 1 and so on; without a queue
  /// where that is 0.
  void bring_to(tli::State state, std::uint32_t outstanding = 1,
                const std::function<void(ConnectionProvider&)>& prepare = {}) {
    using namespace tli;
    open(prepare);
    if (state == T_UNINIT) {
      ASSERT_TRUE(endpoint->t_close());
      provider = nullptr;  // it went with the stream
    } else if (state != T_UNBND) {
      t_bind bind;
      bind.qlen = state <= T_INCON && state != T_OUTCON && outstanding > 0 ? 5 : 0;
      ASSERT_TRUE(endpoint->t_bind(&bind, nullptr));
    }
    t_call call;
    if (state == T_INCON) {
      for (std::uint32_t number = 1; number <= outstanding; ++number) {
        provider->indicates(static_cast<std::int32_t>(number));
        ASSERT_TRUE(endpoint->t_listen(call));
      }
    } else if (state >= T_OUTCON) {
      call.addr = in("peer");
      ASSERT_EQ(error_of(endpoint->t_connect(call, nullptr)), tpi::TNODATA);
      if (state >= T_DATAXFER) {
        provider->confirms();
        ASSERT_TRUE(endpoint->t_rcvconnect(nullptr));
      }
      if (state == T_OUTREL) {
        ASSERT_TRUE(endpoint->t_sndrel());
      } else if (state == T_INREL) {
        provider->releases();
        ASSERT_TRUE(endpoint->t_rcvrel());
      }
    }
    ASSERT_EQ(endpoint->t_getstate(), state);
    if (provider != nullptr) {
      provider->sent.clear();
    }
  }
  /// What one t_rcv() with so much room brings, or its t_errno.
  std::string receive(std::size_t size) {
    std::string text(size, '\0');
    int flags = 99;
    const auto got = endpoint->t_rcv(std::as_writable_bytes(std::span(text)), flags);
    if (!got) {
      EXPECT_EQ(flags, 0);
      return "error " + std::to_string(got.error().t_errno);
    }
    return text.substr(0, *got) + ((flags & tli::T_MORE) != 0 ? " T_MORE" : "") +
           ((flags & tli::T_EXPEDITED) != 0 ? " T_EXPEDITED" : "");
  }

  ConnectionProvider* provider = nullptr;
};

inline constexpr std::array all_states{tli::T_UNINIT, tli::T_UNBND,    tli::T_IDLE,   tli::T_OUTCON,
                                       tli::T_INCON,  tli::T_DATAXFER, tli::T_OUTREL, tli::T_INREL};

}  // namespace sluice::test
