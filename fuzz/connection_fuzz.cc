// SPDX-License-Identifier: Apache-2.0
// Two transport endpoints of connection mode meet a program, or one that speaks TPI, and a network that do anything in
// any order. The first byte chooses who speaks: the calls of XTI, or blocks of bytes; then each four bytes are a step:
// of the user of one endpoint, or something that happens on its provider.
//
// With XTI: what the library takes for the user's state is the provider's, whenever nothing waits to be received. With
// blocks: each request that TPI has acknowledged is, once, unless its stream has failed. In the end nothing is left.
#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/contract.h"
#include "fuzz/round_trip.h"
#include "stack/head/stream.h"
#include "stack/modules/timod.h"
#include "stack/provider/connection_mode.h"
#include "tli/endpoint.h"

namespace {

using namespace sluice;
using namespace sluice::wire::tpi;
using provider::ConnectionEvent;

const std::vector<std::byte> an_address(5, std::byte{'n'});

/// A provider without a network. What is to be answered, and what happens, its owner says.
class Machine final : public Module, public provider::ConnectionMode {
 public:
  Machine() : Module("machine", Services::both), ConnectionMode(static_cast<Module&>(*this)) {
    set_remote_address({wire::Ipv4Address{{10, 0, 0, 2}}, 9000});
  }

  [[nodiscard]] bool is_driver() const override { return true; }
  void wput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      if (message.type() == MessageType::flush) {
        turn_flush(std::move(message));
      } else if (message.type() != MessageType::ioctl) {
        const Message data = accept(std::move(message));
      }
    }
  }
  /// Number `what` of what may happen on a connection; nothing where it may not.
  void happens(unsigned what, unsigned argument) {
    switch (what % 6) {
      case 0:
        if (may(ConnectionEvent::conn_ind) && outstanding() < connect_indications()) {
          waiting.push_back(next_sequence);
          indicate_connection(an_address, next_sequence++);
        }
        return;
      case 1:
        return may(ConnectionEvent::conn_con) ? confirm_connection(an_address) : void();
      case 2:
        return may(ConnectionEvent::ordrel_ind) ? indicate_release() : void();
      case 3:
        return may(ConnectionEvent::discon_ind1) ? indicate_disconnection(ECONNRESET) : void();
      case 4:
        if (!waiting.empty() && may(outstanding() > 1 ? ConnectionEvent::discon_ind3 : ConnectionEvent::discon_ind2)) {
          const auto chosen = waiting.begin() + argument % static_cast<unsigned>(waiting.size());
          const std::int32_t sequence = *chosen;
          waiting.erase(chosen);
          indicate_withdrawal(ECONNRESET, sequence);
        }
        return;
      default:
        if (may(ConnectionEvent::data_ind)) {
          const std::vector<std::byte> data(argument % 8);
          Message indication = primitive_message(set().pool(), DataInd{}, MessageType::proto);
          indication.link(Message::copy_of(set().pool(), data));
          read_queue().put_next(std::move(indication));
        }
    }
  }
  [[nodiscard]] std::uint32_t number() const { return acceptor_id(); }
  [[nodiscard]] std::size_t indications() const { return outstanding(); }
  [[nodiscard]] std::uint32_t queue_length() const { return connect_indications(); }

  bool refuses = false;               // the next request
  std::vector<std::int32_t> waiting;  // indications that are outstanding
  std::int32_t next_sequence = 1;

 private:
  void done() { std::exchange(refuses, false) ? refused(TSYSERR, EIO) : acknowledged(); }
  void bind(ConstBytes /*address*/, std::uint32_t connect_indications) override {
    std::exchange(refuses, false) ? refused(TNOADDR) : bound(an_address, connect_indications);
  }
  void unbind() override { done(); }
  void connect(ConstBytes /*destination*/) override { done(); }
  void respond(std::uint32_t acceptor_id, std::int32_t sequence) override {
    auto* const acceptor = dynamic_cast<Machine*>(set().module_handles().find(acceptor_id));
    if (acceptor == nullptr || std::exchange(refuses, false)) {
      return refused(TBADF);
    }
    if (acceptor == this) {
      if (outstanding() > 1) {
        return refused(TINDOUT);
      }
      std::erase(waiting, sequence);
      return acknowledged();
    }
    if (!acceptor->may(ConnectionEvent::pass_conn) || acceptor->connect_indications() > 0) {
      return refused(TOUTSTATE);
    }
    acceptor->take_connection(an_address);
    std::erase(waiting, sequence);
    accepted_elsewhere();
  }
  void reject(std::int32_t sequence) override {
    if (std::exchange(refuses, false)) {
      return refused(TSYSERR, EIO);
    }
    std::erase(waiting, sequence);
    acknowledged();
  }
  void disconnect() override { done(); }
  void release() override { waiting.clear(); }
  [[nodiscard]] std::int32_t tidu_bytes_max() const override { return 4; }
};

std::unique_ptr<Stream> stream_on(StreamSet& set, Machine*& machine) {
  auto made = std::make_unique<Machine>();
  machine = made.get();
  auto stream = std::move(*Stream::open(set, std::move(made)));
  SLUICE_REQUIRE(stream->push(std::make_unique<Timod>()));
  return stream;
}

// ---- XTI ----

struct User {
  Machine* machine = nullptr;
  std::unique_ptr<tli::Endpoint> endpoint;
  std::vector<std::int32_t> heard;  // sequence numbers of t_listen()
};

tli::State state_of(State state) {
  switch (state) {
    case TS_UNBND:
      return tli::T_UNBND;
    case TS_IDLE:
      return tli::T_IDLE;
    case TS_WCON_CREQ:
      return tli::T_OUTCON;
    case TS_WRES_CIND:
      return tli::T_INCON;
    case TS_DATA_XFER:
      return tli::T_DATAXFER;
    case TS_WIND_ORDREL:
      return tli::T_OUTREL;
    default:
      SLUICE_REQUIRE(state == TS_WREQ_ORDREL);
      return tli::T_INREL;
  }
}

void agree(User& user) {
  const auto event = user.endpoint->t_look();
  SLUICE_REQUIRE(event.has_value());
  if (*event == 0) {
    SLUICE_REQUIRE(user.endpoint->t_getstate() == state_of(user.machine->state()));
    SLUICE_REQUIRE(user.endpoint->t_sync() == state_of(user.machine->state()));
  }
}

void call(User& user, User& other, unsigned what, unsigned argument) {
  tli::Endpoint& at = *user.endpoint;
  std::vector<std::byte> bytes(argument % 16);
  tli::netbuf buffer{.maxlen = bytes.size(), .len = bytes.size(), .buf = bytes.data()};
  const std::int32_t sequence = user.heard.empty() ? std::int32_t{7} : user.heard[argument % user.heard.size()];
  tli::t_call named{.addr = buffer, .opt = {}, .udata = {}, .sequence = sequence};
  int flags = 0;
  switch (what % 15) {
    case 0: {
      const tli::t_bind wanted{{}, argument % 4};
      static_cast<void>(at.t_bind(&wanted, nullptr));
      return;
    }
    case 1:
      static_cast<void>(at.t_unbind());
      return;
    case 2:
      static_cast<void>(at.t_connect(named, nullptr));
      return;
    case 3:
      static_cast<void>(at.t_rcvconnect(&named));
      return;
    case 4: {
      const auto heard = at.t_listen(named);
      if (heard || heard.error().t_errno == TBUFOVFLW) {
        user.heard.push_back(named.sequence);
      }
      return;
    }
    case 5:
      static_cast<void>(at.t_accept((argument & 16) != 0 ? at : *other.endpoint, named));
      return;
    case 6:
      static_cast<void>(at.t_snd(bytes, static_cast<int>(argument >> 4)));
      return;
    case 7: {
      const auto got = at.t_rcv(bytes, flags);
      SLUICE_REQUIRE(!got || *got <= bytes.size());
      return;
    }
    case 8:
      static_cast<void>(at.t_sndrel());
      return;
    case 9:
      static_cast<void>(at.t_rcvrel());
      return;
    case 10:
      static_cast<void>(at.t_snddis((argument & 16) != 0 ? nullptr : &named));
      return;
    case 11: {
      tli::t_discon discon;
      static_cast<void>(at.t_rcvdis(&discon));
      return;
    }
    case 12: {
      tli::t_bind peer{buffer, 0};
      static_cast<void>(at.t_getprotaddr(nullptr, &peer));
      return;
    }
    case 13: {
      tli::t_optmgmt managed;
      static_cast<void>(at.t_optmgmt({{}, static_cast<std::int32_t>(argument)}, managed));
      return;
    }
    default:
      static_cast<void>(at.t_sync());
  }
}

/// Takes all that waits.
void take_all(User& user) {
  tli::Endpoint& at = *user.endpoint;
  std::vector<std::byte> bytes(100);
  int flags = 0;
  for (int events = 0; events < 10000; ++events) {
    const auto event = at.t_look();
    SLUICE_REQUIRE(event.has_value());
    tli::t_call indicated;
    switch (*event) {
      case tli::T_LISTEN:
        SLUICE_REQUIRE(at.t_listen(indicated));
        break;
      case tli::T_CONNECT:
        SLUICE_REQUIRE(at.t_rcvconnect(nullptr));
        break;
      case tli::T_DATA:
        SLUICE_REQUIRE(at.t_rcv(bytes, flags));
        break;
      case tli::T_DISCONNECT:
        SLUICE_REQUIRE(at.t_rcvdis(nullptr));
        break;
      case tli::T_ORDREL:
        SLUICE_REQUIRE(at.t_rcvrel());
        break;
      default:
        return;
    }
  }
}

void play_xti(const std::uint8_t* at, const std::uint8_t* end) {
  StreamSet set;
  User users[2];
  for (User& user : users) {
    user.endpoint = std::move(*tli::Endpoint::t_open(stream_on(set, user.machine), nullptr));
  }
  for (; at + 4 <= end; at += 4) {
    User& user = users[at[0] & 1];
    User& other = users[1 - (at[0] & 1)];
    user.machine->refuses = (at[0] & 6) == 6;
    if ((at[0] & 8) != 0) {
      user.machine->happens(at[1], at[2]);
    } else {
      call(user, other, at[1], at[2] | std::uint32_t{at[3]} << 8U);
    }
    user.machine->refuses = false;
    set.scheduler().poll(TimePoint{});
    SLUICE_REQUIRE(!user.machine->failed());  // the library keeps to TPI
    for (User& one : users) {
      agree(one);
    }
  }
  for (User& user : users) {
    take_all(user);
    agree(user);
  }
  for (User& user : users) {
    user.endpoint.reset();
  }
  SLUICE_REQUIRE(set.pool().statistics().buffers_in_use == 0);
}

// ---- TPI ----

/// Whether TPI has an acknowledgement for it.
bool is_acknowledged(std::int32_t primitive) {
  return primitive != T_DATA_REQ && primitive != T_EXDATA_REQ && primitive != T_UNITDATA_REQ &&
         primitive != T_ORDREL_REQ && primitive != T_OPTDATA_REQ;
}

bool is_acknowledgement(std::int32_t primitive) {
  return primitive == T_INFO_ACK || primitive == T_BIND_ACK || primitive == T_ERROR_ACK || primitive == T_OK_ACK ||
         primitive == T_OPTMGMT_ACK || primitive == T_ADDR_ACK || primitive == T_CAPABILITY_ACK;
}

void play_tpi(const std::uint8_t* at, const std::uint8_t* end) {
  StreamSet set;
  Machine* machines[2];
  std::unique_ptr<Stream> streams[2];
  for (std::size_t i = 0; i < 2; ++i) {
    streams[i] = stream_on(set, machines[i]);
  }
  for (; at + 4 <= end; at += 4) {
    const std::size_t chosen = at[0] & 1;
    Machine& machine = *machines[chosen];
    Stream& stream = *streams[chosen];
    machine.refuses = (at[0] & 6) == 6;
    bool asked = false;
    const bool failed = machine.failed();
    if ((at[0] & 8) != 0) {
      machine.happens(at[1], at[2]);
    } else {
      // A primitive's words, and perhaps an address: of the size that is said, or of another.
      const std::uint32_t number = (at[1] & 128) != 0 ? at[1] : at[1] % 32;
      const std::uint32_t first = (at[0] & 16) != 0 ? machines[at[3] & 1]->number() : std::uint32_t{at[2]};
      std::vector<std::byte> block(7 * wire::word_size + 8);
      wire::store_words(block, {number, first, at[3] % 40U, at[2] % 4U, at[3], at[2] % 8U, at[3]});
      block.resize(std::max<std::size_t>(wire::word_size, (at[0] >> 5) * std::size_t{5}));
      asked = is_acknowledged(static_cast<std::int32_t>(number));
      const std::size_t data_bytes = at[2] % 3;
      static_cast<void>(stream.putmsg(block, ConstBytes(an_address).first(data_bytes), (at[2] & 64) != 0));
    }
    machine.refuses = false;
    set.scheduler().poll(TimePoint{});
    int acknowledgements = 0;
    for (Message message = stream.receive(); message; message = stream.receive()) {
      const auto primitive = primitive_of(message.bytes());
      acknowledgements += message.type() != MessageType::data && primitive && is_acknowledgement(*primitive) ? 1 : 0;
    }
    SLUICE_REQUIRE(acknowledgements == (asked && !failed && !machine.failed() ? 1 : 0));
    SLUICE_REQUIRE(machine.failed() || machine.indications() == machine.waiting.size());
    SLUICE_REQUIRE(machine.indications() <= machine.queue_length());
  }
  for (auto& stream : streams) {
    stream.reset();
  }
  SLUICE_REQUIRE(set.pool().statistics().buffers_in_use == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 4096) {
    return 0;
  }
  (data[0] & 1) != 0 ? play_xti(data + 1, data + size) : play_tpi(data + 1, data + size);
  return 0;
}
