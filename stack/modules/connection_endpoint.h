// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the modules that carry out a connection-mode protocol themselves (`tcp`, `xtp`) do alike, whatever the protocol:
// one stream is one transport endpoint.
//
//     connection   its user's, if it has one. What the connection has no room for waits on the write queue; what has
//                  come stays in the connection while the stream above is full
//     callers      wait to be accepted where the endpoint listens; the module keeps them its own way
//     lingering    connections that both ends have released: the endpoint is idle, and they stay until the peer has
//                  acknowledged everything
//     dropped      connections that have ended. A call to a neighbour may come back here, and what an outer call works
//                  on must not go: they are destroyed when the outermost procedure has ended
//
// A module derives from it and has its protocol send, receive, connect and accept. `HeldConnection` has a member
// `connection`, the protocol without a stream: may_send(), send_room(), has_ready(), is_done(), is_closed() and
// all_acknowledged() say how it is, take_news() what has happened.
//
// Ownership: a base of a module; owns its connections. Threads: as its module's.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "stack/core/module.h"
#include "stack/core/primitive.h"
#include "stack/core/scheduler.h"
#include "stack/core/stream_set.h"
#include "stack/provider/connection_mode.h"
#include "stack/wire/address.h"
#include "stack/wire/tpi.h"
#include "stack/wire/tpi_connection.h"

namespace sluice {

template <class HeldConnection>
class ConnectionEndpoint : public Module, protected provider::ConnectionMode {
 public:
  static constexpr WaterMarks write_marks{.high_bytes = 256 * 1024, .low_bytes = 64 * 1024};

  [[nodiscard]] bool handles_deferred() const final { return true; }
  /// What the peer has not acknowledged; of a connection that both ends have released, the release included.
  [[nodiscard]] bool holds_data() const final { return (mine_ && !mine_->connection.all_acknowledged()) || lingers(); }
  Status open() override;
  void wput(Batch&& batch) final;
  void wsrv() final;
  void rsrv() final;

 protected:
  using Held = HeldConnection;
  using News = typename decltype(Held::connection)::News;
  /// While one runs, what was dropped is kept. A timer that runs may not be destroyed: what a timer of a connection has
  /// begun drops nothing.
  class Entered {
   public:
    enum class By : std::uint8_t { call, timer };

    explicit Entered(ConnectionEndpoint& endpoint, By by = By::call) : endpoint_(endpoint), by_(by) {
      ++endpoint_.entered_;
    }
    ~Entered() {
      if (endpoint_.entered_ == 1) {
        endpoint_.leave();
      }
      if (--endpoint_.entered_ == 0 && by_ == By::call) {
        endpoint_.dropped_.clear();
      }
    }
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;

   private:
    ConnectionEndpoint& endpoint_;
    By by_;
  };
  /// The module's counters that are incremented here.
  struct Counts {
    Counter& indicated;
    Counter& rejected;
    Counter& connect_failures;
    Counter& resets;
    Counter& aborted;
    Counter& unsent;
    Counter& no_memory;
  };
  /// A caller whom the user is to be told of.
  struct Indication {
    wire::TransportAddress source;
    std::int32_t sequence = 0;  // SEQ_number
  };

  ConnectionEndpoint(std::string_view name, const Counts& counts)
      : Module(name, Services::both), ConnectionMode(static_cast<Module&>(*this)), counts_(counts) {
    write_queue().set_marks(write_marks);
  }
  ~ConnectionEndpoint() override = default;

  // ConnectionMode
  void unbind() final;
  void reject(std::int32_t sequence) final;
  void disconnect() final;
  void release() override;
  void answer_lost() final { ++counts_.no_memory; }

  /// Passes a request down; an empty message is one that no memory was left for.
  void down(Message message);
  void send_waiting();
  /// Sends what waits, room or not, and then the release, which comes behind it.
  void start_release();
  /// Passes up what has come, as long as the stream above takes it, and then that nothing more will.
  void deliver();
  /// Tells the user of those who wait, as many as may be outstanding.
  void indicate_callers();
  [[nodiscard]] bool listens() const { return !failed() && connect_indications() > 0; }
  /// The connection is gone, or cannot go on.
  void lose_connection(int error);
  /// Ends what there is, and forgets what was to be sent.
  void end_connection(bool abortive);
  /// Something has happened to the user's connection. REQUIRES: there is one.
  void news_of_mine();
  /// Something has happened to one that lingers.
  void news_of_lingering(Held& held);
  /// Whether a connection that both ends have released has something left that its peer is to acknowledge.
  [[nodiscard]] bool lingers() const;
  void drop_lingering();

  // What derived classes extend.
  /// What was dropped may be in use further up in this very call.
  virtual void drop(std::unique_ptr<Held> held) { dropped_.push_back(std::move(held)); }
  virtual void forget_connection();

  std::unique_ptr<Held> mine_;
  std::vector<std::unique_ptr<Held>> lingering_;  // released by both ends
  std::uint32_t wanted_indications_ = 0;          // of the bind in hand
  bool unbind_due_ = false;
  bool released_ = false;    // by the user
  bool peer_ended_ = false;  // and the user has been told

 private:
  /// A message from above that is neither data nor a primitive.
  virtual void pass_on(Message message) { write_queue().put_next(std::move(message)); }
  /// The user's connection, which he has asked for, has been set up.
  virtual void opened() = 0;
  /// What has happened to the user's connection, before anything comes of it.
  virtual void note(const News& /*news*/) {}
  /// Data, behind its primitive or alone.
  virtual void take_data(Message message) = 0;
  /// As take_data() has put it on the write queue. REQUIRES: there is a connection.
  virtual void send(Message message) = 0;
  /// The user sends no more. REQUIRES: there is a connection.
  virtual void finish() = 0;
  /// Passes the next data up behind `indication`, T_DATA_IND. REQUIRES: the connection has some.
  virtual void pass_up(Message indication) = 0;
  /// Of the connection. REQUIRES: there is one.
  [[nodiscard]] virtual bool peer_has_ended() = 0;
  /// Ends one, telling its peer, and drops it.
  virtual void abort(std::unique_ptr<Held> held) = 0;
  /// The next caller whom the user has not been told of.
  [[nodiscard]] virtual std::optional<Indication> next_caller() = 0;
  virtual void refuse_caller(std::int32_t sequence) = 0;
  virtual void drop_callers() = 0;
  /// Gives the port up when nothing of it is needed any more: what waits to be acknowledged is.
  virtual void unbind_when_done() = 0;
  /// The outermost procedure ends.
  virtual void leave() {}

  void take(Message message);
  void linger_if_released();

  Counts counts_;
  std::unique_ptr<BufferCall> memory_;
  std::vector<std::unique_ptr<Held>> dropped_;
  unsigned entered_ = 0;
};

template <class Held>
Status ConnectionEndpoint<Held>::open() {
  memory_ = std::make_unique<BufferCall>(set().scheduler(), set().pool(), [this] {
    const Entered entered(*this);
    deliver();
  });
  return {};
}

// ---- Requests ----

template <class Held>
void ConnectionEndpoint<Held>::wput(Batch&& batch) {
  const Entered entered(*this);
  while (Message message = batch.pop()) {
    take(std::move(message));
  }
}

template <class Held>
void ConnectionEndpoint<Held>::take(Message message) {
  if (message.type() == MessageType::flush) {
    flush_queues(message);
    write_queue().put_next(std::move(message));
    return;
  }
  if (message.type() != MessageType::data && !is_protocol(message.type())) {
    return pass_on(std::move(message));
  }
  Message accepted = accept(std::move(message));
  if (!accepted) {
    return;
  }
  if (accepted.type() != MessageType::data && wire::tpi::primitive_of(accepted.bytes()) == wire::tpi::T_ORDREL_REQ) {
    start_release();
  } else {
    take_data(std::move(accepted));
  }
}

template <class Held>
void ConnectionEndpoint<Held>::down(Message message) {
  if (message) {
    write_queue().put_next(std::move(message));
  } else {
    ++counts_.no_memory;
  }
}

template <class Held>
void ConnectionEndpoint<Held>::unbind() {
  drop_callers();
  unbind_due_ = true;
  unbind_when_done();
}

template <class Held>
void ConnectionEndpoint<Held>::reject(std::int32_t sequence) {
  ++counts_.rejected;
  refuse_caller(sequence);
  acknowledged();
  indicate_callers();
}

template <class Held>
void ConnectionEndpoint<Held>::disconnect() {
  end_connection(true);
  acknowledged();
  indicate_callers();
}

template <class Held>
void ConnectionEndpoint<Held>::release() {
  end_connection(true);
  drop_callers();
  for (auto& one : lingering_) {
    abort(std::move(one));
  }
  lingering_.clear();
  unbind_due_ = false;
}

template <class Held>
void ConnectionEndpoint<Held>::indicate_callers() {
  while (listens() && outstanding() < connect_indications() && may(provider::ConnectionEvent::conn_ind) &&
         read_queue().can_put_next()) {
    const std::optional<Indication> next = next_caller();
    if (!next) {
      return;
    }
    ++counts_.indicated;
    indicate_connection(Encoded(next->source).bytes(), next->sequence);
  }
}

// ---- Sending ----

template <class Held>
void ConnectionEndpoint<Held>::wsrv() {
  const Entered entered(*this);
  send_waiting();
}

template <class Held>
void ConnectionEndpoint<Held>::send_waiting() {
  while (mine_ && mine_->connection.may_send() && mine_->connection.send_room() > 0) {
    Message message = write_queue().dequeue();
    if (!message) {
      return;
    }
    send(std::move(message));
  }
}

template <class Held>
void ConnectionEndpoint<Held>::start_release() {
  while (mine_) {
    Message message = write_queue().dequeue();
    if (!message) {
      break;
    }
    send(std::move(message));
  }
  if (mine_) {
    released_ = true;
    finish();
    linger_if_released();
  }
}

// ---- Receiving ----

template <class Held>
void ConnectionEndpoint<Held>::rsrv() {
  const Entered entered(*this);
  indicate_callers();
  deliver();
}

template <class Held>
void ConnectionEndpoint<Held>::deliver() {
  using enum provider::ConnectionEvent;
  while (mine_ && mine_->connection.has_ready() && may(data_ind)) {
    if (!read_queue().can_put_next()) {
      return;
    }
    Message indication = primitive_message(set().pool(), wire::tpi::DataInd{}, MessageType::proto);
    if (!indication) {
      static_cast<void>(memory_->await(encoded_size_of(wire::tpi::DataInd{})));
      return;
    }
    pass_up(std::move(indication));
  }
  if (mine_ && peer_has_ended() && !peer_ended_ && may(ordrel_ind)) {
    peer_ended_ = true;
    indicate_release();
    linger_if_released();
  }
}

// ---- What comes of connections ----

template <class Held>
void ConnectionEndpoint<Held>::news_of_mine() {
  const News news = mine_->connection.take_news();
  note(news);
  if (news.opened && state() == wire::tpi::TS_WCON_CREQ) {
    opened();
    confirm_connection(remote_address());
  }
  if (news.closed && *news.closed != 0) {
    return lose_connection(*news.closed);
  }
  if (news.acknowledged) {
    send_waiting();
  }
  deliver();
}

/// Both ends have been released: the stream is idle, and what is left of the connection is not the user's business.
template <class Held>
void ConnectionEndpoint<Held>::linger_if_released() {
  if (!mine_ || !released_ || !peer_ended_) {
    return;
  }
  lingering_.push_back(std::move(mine_));
  forget_connection();
  news_of_lingering(*lingering_.back());
  indicate_callers();
}

template <class Held>
void ConnectionEndpoint<Held>::news_of_lingering(Held& held) {
  static_cast<void>(held.connection.take_news());
  if (held.connection.is_closed()) {
    const auto one = std::ranges::find_if(lingering_, [&](const auto& kept) { return kept.get() == &held; });
    std::unique_ptr<Held> over = std::move(*one);
    lingering_.erase(one);
    drop(std::move(over));
  }
  unbind_when_done();
}

template <class Held>
bool ConnectionEndpoint<Held>::lingers() const {
  return std::ranges::any_of(lingering_, [](const auto& one) { return !one->connection.is_done(); });
}

template <class Held>
void ConnectionEndpoint<Held>::drop_lingering() {
  for (auto& one : lingering_) {
    drop(std::move(one));
  }
  lingering_.clear();
}

template <class Held>
void ConnectionEndpoint<Held>::lose_connection(int error) {
  const bool opening = state() == wire::tpi::TS_WCON_CREQ;
  end_connection(true);
  if (may(provider::ConnectionEvent::discon_ind1)) {
    ++(opening ? counts_.connect_failures : counts_.resets);
    indicate_disconnection(error);
  }
  indicate_callers();
}

template <class Held>
void ConnectionEndpoint<Held>::end_connection(bool abortive) {
  counts_.unsent += write_queue().messages();
  write_queue().flush(FlushKind::all);
  if (!mine_) {
    return;
  }
  std::unique_ptr<Held> ended = std::move(mine_);
  forget_connection();
  if (abortive && !ended->connection.is_closed()) {
    ++counts_.aborted;
    abort(std::move(ended));
  } else {
    drop(std::move(ended));
  }
}

template <class Held>
void ConnectionEndpoint<Held>::forget_connection() {
  forget_addresses();
  released_ = peer_ended_ = false;
}

}  // namespace sluice
