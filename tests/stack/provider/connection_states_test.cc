// SPDX-License-Identifier: Apache-2.0
// The state table of connection-mode providers: each state x each event, each state x each primitive; then a provider
// that is in each state in turn, and what its user gets for each primitive.
#include "stack/provider/connection_states.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <set>
#include <string>
#include <vector>

#include "stack/provider/connection_mode.h"
#include "tests/stack/modules/harness.h"

namespace sluice::test {
namespace {

using namespace wire::tpi;
using provider::ConnectionAction;
using provider::ConnectionEvent;
using provider::next_state;

constexpr std::array states{TS_UNBND,      TS_WACK_BREQ,  TS_WACK_UREQ,  TS_IDLE,        TS_WACK_OPTREQ, TS_WACK_CREQ,
                            TS_WCON_CREQ,  TS_WRES_CIND,  TS_WACK_CRES,  TS_DATA_XFER,   TS_WIND_ORDREL, TS_WREQ_ORDREL,
                            TS_WACK_DREQ6, TS_WACK_DREQ7, TS_WACK_DREQ9, TS_WACK_DREQ10, TS_WACK_DREQ11};

/// A row an event, a column a state: the number of the next one, 99 where it may not happen.
struct EventRow {
  ConnectionEvent event;
  std::array<int, states.size()> next;
};

constexpr int no = 99;

// The columns of the text's tables: sta_0 .. sta_16.
constexpr auto event_rows = std::to_array<EventRow>({
    {ConnectionEvent::bind_req, {1, no, no, no, no, no, no, no, no, no, no, no, no, no, no, no, no}},
    {ConnectionEvent::unbind_req, {no, no, no, 2, no, no, no, no, no, no, no, no, no, no, no, no, no}},
    {ConnectionEvent::conn_req, {no, no, no, 5, no, no, no, no, no, no, no, no, no, no, no, no, no}},
    {ConnectionEvent::conn_res, {no, no, no, no, no, no, no, 8, no, no, no, no, no, no, no, no, no}},
    {ConnectionEvent::discon_req, {no, no, no, no, no, no, 12, 13, no, 14, 15, 16, no, no, no, no, no}},
    {ConnectionEvent::data_req, {no, no, no, no, no, no, no, no, no, 9, no, 11, no, no, no, no, no}},
    {ConnectionEvent::exdata_req, {no, no, no, no, no, no, no, no, no, 9, no, 11, no, no, no, no, no}},
    {ConnectionEvent::ordrel_req, {no, no, no, no, no, no, no, no, no, 10, no, 3, no, no, no, no, no}},
    {ConnectionEvent::bind_ack, {no, 3, no, no, no, no, no, no, no, no, no, no, no, no, no, no, no}},
    {ConnectionEvent::error_ack, {no, 0, 3, no, no, 3, no, no, 7, no, no, no, 6, 7, 9, 10, 11}},
    {ConnectionEvent::ok_ack1, {no, no, 0, no, no, 6, no, no, no, no, no, no, 3, no, 3, 3, 3}},
    {ConnectionEvent::ok_ack2, {no, no, no, no, no, no, no, no, 9, no, no, no, no, 3, no, no, no}},
    {ConnectionEvent::ok_ack3, {no, no, no, no, no, no, no, no, 3, no, no, no, no, no, no, no, no}},
    {ConnectionEvent::ok_ack4, {no, no, no, no, no, no, no, no, 7, no, no, no, no, 7, no, no, no}},
    {ConnectionEvent::conn_con, {no, no, no, no, no, no, 9, no, no, no, no, no, no, no, no, no, no}},
    {ConnectionEvent::conn_ind, {no, no, no, 7, no, no, no, 7, no, no, no, no, no, no, no, no, no}},
    {ConnectionEvent::data_ind, {no, no, no, no, no, no, no, no, no, 9, 10, no, no, no, no, no, no}},
    {ConnectionEvent::exdata_ind, {no, no, no, no, no, no, no, no, no, 9, 10, no, no, no, no, no, no}},
    {ConnectionEvent::ordrel_ind, {no, no, no, no, no, no, no, no, no, 11, 3, no, no, no, no, no, no}},
    {ConnectionEvent::discon_ind1, {no, no, no, no, no, no, 3, no, no, 3, 3, 3, no, no, no, no, no}},
    {ConnectionEvent::discon_ind2, {no, no, no, no, no, no, no, 3, no, no, no, no, no, no, no, no, no}},
    {ConnectionEvent::discon_ind3, {no, no, no, no, no, no, no, 7, no, no, no, no, no, no, no, no, no}},
    {ConnectionEvent::pass_conn, {9, no, no, 9, no, no, no, no, no, no, no, no, no, no, no, no, no}},
});
static_assert(event_rows.size() == provider::connection_event_count);

TEST(ConnectionStates, EveryStateAndEvent) {
  std::set<ConnectionEvent> seen;
  for (const EventRow& row : event_rows) {
    EXPECT_TRUE(seen.insert(row.event).second);
    for (const State state : states) {
      const auto next = next_state(state, row.event);
      EXPECT_EQ(next ? int{*next} : no, row.next[static_cast<std::size_t>(state)])
          << "event " << static_cast<int>(row.event) << " in state " << int{state};
    }
  }
}

/// A letter a state: i information, o options, s as its event says, x TOUTSTATE, . ignored, ! fatal, ? TNOTSUPPORT.
struct PrimitiveRow {
  std::int32_t primitive;
  const char* actions;
};

constexpr auto primitive_rows = std::to_array<PrimitiveRow>({
    {T_INFO_REQ, "iiiiiiiiiiiiiiiii"},    {T_CAPABILITY_REQ, "iiiiiiiiiiiiiiiii"},
    {T_ADDR_REQ, "iiiiiiiiiiiiiiiii"},    {T_BIND_REQ, "sxxxxxxxxxxxxxxxx"},
    {O_T_BIND_REQ, "sxxxxxxxxxxxxxxxx"},  {T_UNBIND_REQ, "xxxsxxxxxxxxxxxxx"},
    {T_OPTMGMT_REQ, "oxxoxxooxoooxxxxx"}, {T_SVR4_OPTMGMT_REQ, "oxxoxxooxoooxxxxx"},
    {T_CONN_REQ, "xxxsxxxxxxxxxxxxx"},    {T_CONN_RES, "xxxxxxxsxxxxxxxxx"},
    {O_T_CONN_RES, "xxxxxxxsxxxxxxxxx"},  {T_DISCON_REQ, "xxxxxxssxsssxxxxx"},
    {T_DATA_REQ, "!!!.!!!!!s!s!!!!!"},    {T_EXDATA_REQ, "!!!.!!!!!s!s!!!!!"},
    {T_ORDREL_REQ, "!!!.!!!!!s!s!!!!!"},  {T_UNITDATA_REQ, "!!!!!!!!!!!!!!!!!"},
    {T_OPTDATA_REQ, "!!!!!!!!!!!!!!!!!"}, {T_CONN_IND, "?????????????????"},
    {T_OK_ACK, "?????????????????"},      {-1, "?????????????????"},
    {12345, "?????????????????"},
});

char letter(ConnectionAction action) {
  switch (action) {
    case ConnectionAction::info:
    case ConnectionAction::capability:
    case ConnectionAction::addresses:
      return 'i';
    case ConnectionAction::options:
      return 'o';
    case ConnectionAction::step:
      return 's';
    case ConnectionAction::ignore:
      return '.';
    case ConnectionAction::out_of_state:
      return 'x';
    case ConnectionAction::unsupported:
      return '?';
    case ConnectionAction::fatal:
      return '!';
  }
  return ' ';
}

TEST(ConnectionStates, EveryStateAndPrimitive) {
  for (const PrimitiveRow& row : primitive_rows) {
    std::string actions;
    for (const State state : states) {
      actions += letter(provider::connection_action(row.primitive, state));
    }
    EXPECT_EQ(actions, row.actions) << "primitive " << row.primitive;
  }
}

const std::vector<std::byte> own_address = encoded(wire::TransportAddress{wire::Ipv4Address{{10, 0, 0, 1}}, 7000});
const std::vector<std::byte> peer_address = encoded(wire::TransportAddress{wire::Ipv4Address{{10, 0, 0, 2}}, 9000});

/// Answers at once, or owes the answer.
class ConnectionProvider final : public Module, public provider::ConnectionMode {
 public:
  ConnectionProvider() : Module("provider"), ConnectionMode(static_cast<Module&>(*this)) {}

  void wput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      if (message.type() == MessageType::flush) {
        turn_flush(std::move(message));
      } else if (Message data = accept(std::move(message))) {
        write_queue().put_next(std::move(data));
      }
    }
  }
  void call_in(std::int32_t sequence) { indicate_connection(peer_address, sequence); }
  void confirm() { confirm_connection(peer_address); }
  void peer_releases() { indicate_release(); }
  void peer_resets(std::int32_t reason) { indicate_disconnection(reason); }
  void withdraw(std::int32_t sequence) { indicate_withdrawal(ECONNRESET, sequence); }
  void pass() { take_connection(own_address); }
  [[nodiscard]] std::uint32_t own_number() const { return acceptor_id(); }
  [[nodiscard]] std::int32_t number_of_indication() { return new_sequence(); }
  void connects(const wire::TransportAddress& local, const wire::TransportAddress& remote) {
    set_local_address(local);
    set_remote_address(remote);
  }
  void forgets() { forget_addresses(); }
  void acknowledge() { acknowledged(); }
  void refuse(std::int32_t error) { refused(error); }

  bool answers = true;
  bool released = false;
  std::uint32_t accepting = 0;

 private:
  void bind(ConstBytes /*address*/, std::uint32_t connect_indications) override {
    if (answers) {
      bound(own_address, connect_indications);
    }
  }
  void unbind() override { owe(); }
  void connect(ConstBytes /*destination*/) override { owe(); }
  void respond(std::uint32_t acceptor_id, std::int32_t /*sequence*/) override {
    accepting = acceptor_id;
    if (answers) {
      acceptor_id == own_number() ? acknowledged() : accepted_elsewhere();
    }
  }
  void reject(std::int32_t /*sequence*/) override { owe(); }
  void disconnect() override { owe(); }
  void release() override { released = true; }
  void owe() {
    if (answers) {
      acknowledged();
    }
  }
  [[nodiscard]] std::int32_t tidu_bytes_max() const override { return 1000; }
};

class ConnectionProviderStack : public Stack {
 public:
  ConnectionProviderStack() : provider_(push<ConnectionProvider>()) {}
  ConnectionProvider& provider() { return provider_; }

  template <class Primitive>
  void request(const Primitive& primitive) {
    down(primitive_message(set().pool(), primitive, MessageType::proto));
  }
  /// Well formed for every primitive that is to be carried out; sequence number 1 is outstanding in TS_WRES_CIND.
  void request_any(std::int32_t primitive) {
    switch (primitive) {
      case T_CONN_REQ:
        return request(ConnReq{peer_address, {}});
      case T_CONN_RES:
        return request(ConnRes{provider_.own_number(), {}, 1});
      case O_T_CONN_RES:
        return request(OldConnRes{provider_.own_number(), {}, 1});
      case T_DISCON_REQ:
        return request(DisconReq{1});
      case T_BIND_REQ:
        return request(BindReq{own_address, 5});
      case T_OPTMGMT_REQ:
        return request(OptmgmtReq{{}, T_CURRENT});
      case T_SVR4_OPTMGMT_REQ:
        return request(Svr4OptmgmtReq{{}, T_CURRENT});
      default:
        return down(raw_proto(*this, {static_cast<std::uint32_t>(primitive), 0, 0, 0, 0}));
    }
  }
  /// TS_WACK_OPTREQ is no state of this provider: options are answered at once.
  void enter(State state) {
    ConnectionProvider& at = provider_;
    const auto bind = [&] { request(BindReq{own_address, 5}); };
    const auto connect = [&] {
      bind();
      request(ConnReq{peer_address, {}});
      at.confirm();
    };
    const auto owing = [&](std::int32_t primitive) {
      at.answers = false;
      request_any(primitive);
    };
    switch (state) {
      case TS_UNBND:
      case TS_WACK_OPTREQ:
        break;
      case TS_WACK_BREQ:
        owing(T_BIND_REQ);
        break;
      case TS_IDLE:
        bind();
        break;
      case TS_WACK_UREQ:
        bind();
        owing(T_UNBIND_REQ);
        break;
      case TS_WACK_CREQ:
        bind();
        owing(T_CONN_REQ);
        break;
      case TS_WCON_CREQ:
      case TS_WACK_DREQ6:
        bind();
        request(ConnReq{peer_address, {}});
        break;
      case TS_WRES_CIND:
      case TS_WACK_CRES:
      case TS_WACK_DREQ7:
        bind();
        at.call_in(1);
        break;
      case TS_DATA_XFER:
      case TS_WACK_DREQ9:
        connect();
        break;
      case TS_WIND_ORDREL:
      case TS_WACK_DREQ10:
        connect();
        request(OrdrelReq{});
        break;
      case TS_WREQ_ORDREL:
      case TS_WACK_DREQ11:
        connect();
        at.peer_releases();
        break;
    }
    if (state >= TS_WACK_DREQ6) {
      owing(T_DISCON_REQ);
    } else if (state == TS_WACK_CRES) {
      owing(T_CONN_RES);
    }
    if (state != TS_WACK_OPTREQ) {
      SLUICE_REQUIRE(at.state() == state);
    }
    clear();
  }
  void clear() {
    while (head().count() > 0) {
      head().take().reset();
    }
    while (driver().count() > 0) {
      driver().take().reset();
    }
  }
  /// What has come up, a word each, and "sent" for what went down.
  std::string outcome() {
    std::string all;
    const auto say = [&](const std::string& word) { all += (all.empty() ? "" : " ") + word; };
    while (head().count() > 0) {
      const Message message = head().take();
      if (message.type() == MessageType::flush) {
        say("flush");
      } else if (message.type() == MessageType::error) {
        say("M_ERROR");
      } else if (const auto error = ErrorAck::decode(message.bytes())) {
        say("error" + std::to_string(error->tli_error));
      } else {
        say(std::to_string(primitive_of(message.bytes()).value_or(-1)));
      }
    }
    while (driver().count() > 0) {
      driver().take().reset();
      say("sent");
    }
    return all;
  }

 private:
  ConnectionProvider& provider_;
};

std::string expected_of(char action, std::int32_t primitive) {
  switch (action) {
    case 'i':
      return primitive == T_INFO_REQ   ? std::to_string(T_INFO_ACK)
             : primitive == T_ADDR_REQ ? std::to_string(T_ADDR_ACK)
                                       : std::to_string(T_CAPABILITY_ACK);
    case 'o':
      return std::to_string(T_OPTMGMT_ACK);
    case 'x':
      return "error" + std::to_string(TOUTSTATE);
    case '?':
      return "error" + std::to_string(TNOTSUPPORT);
    case '!':
      return "M_ERROR";
    default:
      return "";
  }
}

TEST(ConnectionMode, EveryStateAndPrimitive) {
  for (const PrimitiveRow& row : primitive_rows) {
    for (const State state : states) {
      const char action = row.actions[state];
      if (state == TS_WACK_OPTREQ) {
        continue;
      }
      SCOPED_TRACE(testing::Message() << "primitive " << row.primitive << " in state " << int{state});
      ConnectionProviderStack stack;
      stack.enter(state);
      stack.request_any(row.primitive);
      const std::string outcome = stack.outcome();
      const bool fatal = action == '!' || (action == 's' && row.primitive == T_EXDATA_REQ);
      if (fatal) {
        EXPECT_EQ(outcome, "M_ERROR");
        EXPECT_TRUE(stack.provider().released);
        stack.request_any(T_INFO_REQ);
        EXPECT_EQ(stack.outcome(), "") << "after a fatal error nothing is answered";
      } else if (action == 's') {
        const auto event = provider::event_of(row.primitive);
        const auto next = next_state(state, *event);
        if (*event == ConnectionEvent::data_req || *event == ConnectionEvent::ordrel_req) {
          EXPECT_EQ(outcome, "sent");
          EXPECT_EQ(stack.provider().state(), *next);
        } else {
          EXPECT_FALSE(outcome.empty());
          EXPECT_FALSE(provider::awaits_acknowledgement(stack.provider().state()));
        }
      } else {
        EXPECT_EQ(outcome, expected_of(action, row.primitive));
        EXPECT_EQ(stack.provider().state(), state);
      }
    }
  }
}

TEST(ConnectionMode, AcknowledgementsLeadToTheirStates) {
  struct Case {
    State owing;
    State acknowledged;
    State refused;
  };
  for (const Case& one :
       {Case{TS_WACK_UREQ, TS_UNBND, TS_IDLE}, Case{TS_WACK_CREQ, TS_WCON_CREQ, TS_IDLE},
        Case{TS_WACK_CRES, TS_DATA_XFER, TS_WRES_CIND}, Case{TS_WACK_DREQ6, TS_IDLE, TS_WCON_CREQ},
        Case{TS_WACK_DREQ7, TS_IDLE, TS_WRES_CIND}, Case{TS_WACK_DREQ9, TS_IDLE, TS_DATA_XFER},
        Case{TS_WACK_DREQ10, TS_IDLE, TS_WIND_ORDREL}, Case{TS_WACK_DREQ11, TS_IDLE, TS_WREQ_ORDREL}}) {
    SCOPED_TRACE(int{one.owing});
    ConnectionProviderStack done;
    done.enter(one.owing);
    done.provider().acknowledge();
    EXPECT_EQ(done.provider().state(), one.acknowledged);
    ConnectionProviderStack not_done;
    not_done.enter(one.owing);
    not_done.provider().refuse(TPROTO);
    EXPECT_EQ(not_done.provider().state(), one.refused);
    EXPECT_EQ(not_done.outcome(), "error" + std::to_string(TPROTO));
  }
}

TEST(ConnectionMode, OneOfSeveralIndicationsIsAcceptedElsewhereRejectedOrTakenBack) {
  ConnectionProviderStack stack;
  stack.enter(TS_IDLE);
  for (const std::int32_t sequence : {1, 2, 3, 4}) {
    stack.provider().call_in(sequence);
  }
  EXPECT_EQ(stack.outcome(), "11 11 11 11");
  stack.request(ConnRes{5, {}, 9});
  EXPECT_EQ(stack.outcome(), "error" + std::to_string(TBADSEQ));
  stack.request(DisconReq{});
  EXPECT_EQ(stack.outcome(), "error" + std::to_string(TBADSEQ));
  stack.request(ConnRes{5, {}, 3});
  EXPECT_EQ(stack.outcome(), std::to_string(T_OK_ACK));
  EXPECT_EQ(stack.provider().accepting, 5U);
  EXPECT_EQ(stack.provider().state(), TS_WRES_CIND);
  stack.request(DisconReq{1});
  EXPECT_EQ(stack.outcome(), std::to_string(T_OK_ACK)) << "no flush: others are outstanding";
  stack.provider().withdraw(4);
  EXPECT_EQ(stack.outcome(), std::to_string(T_DISCON_IND));
  EXPECT_EQ(stack.provider().state(), TS_WRES_CIND);
  stack.request(ConnRes{5, {}, 4});
  EXPECT_EQ(stack.outcome(), "error" + std::to_string(TBADSEQ));
  stack.request(ConnRes{5, {}, 2});
  EXPECT_EQ(stack.outcome(), std::to_string(T_OK_ACK));
  EXPECT_EQ(stack.provider().state(), TS_IDLE);
}

TEST(ConnectionMode, ADisconnectionFlushesBeforeItIsTold) {
  for (const State state : {TS_WCON_CREQ, TS_DATA_XFER, TS_WIND_ORDREL, TS_WREQ_ORDREL}) {
    ConnectionProviderStack stack;
    stack.enter(state);
    stack.provider().peer_resets(ECONNRESET);
    if (state != TS_WCON_CREQ) {  // no data yet, and the acknowledgement of T_CONN_REQ may still wait
      EXPECT_EQ(stack.head().take().type(), MessageType::flush);
    }
    const auto indication = DisconInd::decode(stack.head().take().bytes());
    ASSERT_TRUE(indication);
    EXPECT_EQ(*indication, (DisconInd{.reason = ECONNRESET, .sequence = no_sequence}));
    EXPECT_EQ(stack.provider().state(), TS_IDLE);
  }
}

TEST(ConnectionMode, RequestsThatLieAreRefused) {
  ConnectionProviderStack stack;
  stack.down(raw_proto(stack, {T_BIND_REQ, 8, 1000, 0}));
  EXPECT_EQ(stack.outcome(), "error" + std::to_string(TBADADDR));
  stack.enter(TS_IDLE);
  stack.down(raw_proto(stack, {T_CONN_REQ, 8, 1000, 0, 0}));
  EXPECT_EQ(stack.outcome(), "error" + std::to_string(TBADADDR));
  stack.down(raw_proto(stack, {T_CONN_REQ}));
  EXPECT_EQ(stack.outcome(), "error" + std::to_string(TBADADDR));
  stack.request(ConnReq{peer_address, peer_address});
  EXPECT_EQ(stack.outcome(), "error" + std::to_string(TBADOPT));
  stack.provider().call_in(1);
  stack.clear();
  stack.down(raw_proto(stack, {T_CONN_RES, 77}));
  EXPECT_EQ(stack.outcome(), "error" + std::to_string(TSYSERR));
  stack.down(raw_proto(stack, {T_DISCON_REQ}));
  EXPECT_EQ(stack.outcome(), "error" + std::to_string(TSYSERR));
  EXPECT_EQ(stack.provider().state(), TS_WRES_CIND);
}

TEST(ConnectionMode, SaysWhatItIs) {
  ConnectionProviderStack stack;
  stack.enter(TS_DATA_XFER);
  stack.request(CapabilityReq{TC1_INFO | TC1_ACCEPTOR_ID});
  const auto ack = CapabilityAck::decode(stack.head().take().bytes());
  ASSERT_TRUE(ack);
  EXPECT_EQ(ack->capabilities, TC1_INFO | TC1_ACCEPTOR_ID);
  EXPECT_EQ(stack.set().module_handles().find(ack->acceptor_id), &stack.provider());
  EXPECT_EQ(ack->info.serv_type, T_COTS_ORD);
  EXPECT_EQ(ack->info.current_state, TS_DATA_XFER);
  EXPECT_EQ(ack->info.tsdu_size, 0);
  EXPECT_EQ(ack->info.etsdu_size, T_INVALID);
  EXPECT_EQ(ack->info.tidu_size, 1000);
}

TEST(ConnectionMode, AConnectionIsPassedToAStreamThatIsIdleOrUnbound) {
  for (const State state : {TS_UNBND, TS_IDLE}) {
    ConnectionProviderStack stack;
    stack.enter(state);
    stack.provider().pass();
    EXPECT_EQ(stack.provider().state(), TS_DATA_XFER);
    stack.request(AddrReq{});
    const Message answer = stack.head().take();
    const auto addresses = AddrAck::decode(answer.bytes());
    ASSERT_TRUE(addresses);
    EXPECT_EQ(std::vector<std::byte>(addresses->local.begin(), addresses->local.end()), own_address);
  }
}

TEST(ConnectionMode, TellsTheEndsOfTheConnectionAndElseTheBoundAddress) {
  ConnectionProviderStack stack;
  stack.enter(TS_DATA_XFER);
  const auto told = [&] {
    stack.request(AddrReq{});
    const Message answer = stack.head().take();
    const auto addresses = *AddrAck::decode(answer.bytes());
    return std::pair(std::vector(addresses.local.begin(), addresses.local.end()),
                     std::vector(addresses.remote.begin(), addresses.remote.end()));
  };
  const wire::TransportAddress local{wire::Ipv4Address{{10, 0, 0, 7}}, 1};
  const wire::TransportAddress remote{wire::Ipv4Address{{10, 0, 0, 8}}, 2};
  EXPECT_EQ(told(), std::pair(own_address, std::vector<std::byte>{}));
  stack.provider().connects(local, remote);
  EXPECT_EQ(told(), std::pair(encoded(local), encoded(remote)));
  stack.provider().forgets();
  EXPECT_EQ(told(), std::pair(own_address, std::vector<std::byte>{}));
}

TEST(ConnectionMode, NumbersIndicationsFromOne) {
  ConnectionProviderStack stack;
  for (const std::int32_t number : {1, 2, 3}) {
    EXPECT_EQ(stack.provider().number_of_indication(), number);
  }
}

}  // namespace
}  // namespace sluice::test
