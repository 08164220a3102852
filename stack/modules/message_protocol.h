// SPDX-License-Identifier: Apache-2.0
#pragma once

// What `rmpp` and `utopia` have in common: messages of any length as packets over a connectionless transport provider.
// The manuals of both say what it does; this says how.
//
// One message at a time is on its way from each node to each other in each direction: so order needs no bookkeeping,
// and what a peer can make us keep is one ReceiveSide. A message to be sent stays where it is, by reference; each
// packet shows its part of it behind a header of its own.
//
// What came in has, on a fused path, a header that protects itself (stack/wire/rmpp.h) and a payload that nobody has
// verified. So there are two records of a window: `seen` is what has gone up, which keeps a duplicate from landing
// where something lies, and `held` is what when_verified() has confirmed. Only `held` moves the state machine. A packet
// whose check fails later leaves a gap in `held`, as if it had been lost. A short one comes verified on any path, and
// may overtake those before it in that (`early`). When packets are asked for again, those of
// the round before no longer count, even if they prove good: a later copy may land, damaged, where they lie. What
// when_verified() causes (a grant, the message end) is done by the read service procedure, since it may be called from
// within the user's read.
//
// What has become of a message is said once, and somebody may wait for it: without memory it waits for some, and what
// comes in meanwhile is as good as lost, so that it does not overtake.
//
// Threads: as its stream set's.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stack/core/module.h"
#include "stack/core/registry.h"
#include "stack/modules/message_states.h"
#include "stack/wire/address.h"
#include "stack/wire/data_unit.h"
#include "stack/wire/rmpp.h"

namespace sluice::rmpp {

/// What happens to packets that are lost.
enum class Recovery : std::uint8_t {
  none,       // utopia: nothing
  message,    // rmpp: the message is begun again
  selective,  // rmpp: they are sent again
};

/// The same as packets say it.
[[nodiscard]] std::uint8_t flags_of(Recovery recovery);

struct Options {
  Recovery recovery = Recovery::message;
  std::uint16_t packet_bytes = 1400;     // payload of a packet
  std::uint32_t grant_packets_max = 16;  // 1 .. 16
  std::uint32_t buffers = 1024;          // packets granted to all peers together; at least one a message
  std::size_t peers_max = 1024;
  std::size_t messages_max = 1024;  // that wait to be sent, to all peers together
  std::uint64_t message_bytes_max = std::uint64_t{1} << 30;
  Duration timeout = std::chrono::milliseconds(20);  // doubled with each attempt in a row, at most 64 times as long
  std::uint32_t attempts_max = 16;
  Duration dead_time = std::chrono::minutes(2);
};

class Protocol : public Module {
 public:
  Protocol(std::string_view name, const Options& options);

  [[nodiscard]] std::size_t headroom() const override { return wire::RmppHeader::size; }
  [[nodiscard]] bool handles_deferred() const override { return true; }
  [[nodiscard]] PayloadWork payload_work(Side side) const override {
    const bool keeps = side == Side::write;
    return {.items = {}, .materializes = keeps ? "holds messages until the receiver has them" : "", .keeps = keeps};
  }
  Status open() override;
  void wput(Batch&& batch) override;
  void rput(Batch&& batch) override;
  void wsrv() override;
  void rsrv() override;

  /// For tests: what is kept.
  [[nodiscard]] std::size_t peers() const { return peers_.size(); }
  [[nodiscard]] std::uint32_t granted_packets() const { return granted_packets_; }
  [[nodiscard]] std::size_t messages_waiting() const { return messages_waiting_; }
  [[nodiscard]] std::uint32_t incarnation() const { return incarnation_; }

 private:
  using DataUnit = wire::DataUnit;
  using Kind = DataUnit::Kind;
  using Header = wire::RmppHeader;
  using Type = Header::Type;
  using Malformed = wire::RmppMalformed;
  using Indication = wire::message::Indication;

  struct Outgoing {
    Message data;  // without blocks: a message without bytes
    std::uint64_t total_bytes = 0;
    std::uint64_t tag = 0;
    std::uint64_t handle = 0;
  };
  struct SendSide {
    SendState state = SendState::idle;
    std::uint32_t number = 0;
    std::uint32_t to = 0;  // the receiver's incarnation, as it was when the message began
    std::uint16_t attempt = 0;
    std::uint32_t attempts = 0;    // in a row
    std::uint64_t next = 0;        // first packet that has never been granted in this attempt
    std::uint64_t first = 0;       // of what is to leave now
    bool all_left = false;         // in some attempt every packet has left
    std::uint32_t pending = 0;     // bit i: packet first + i
    std::deque<Outgoing> waiting;  // the first one is on its way unless idle
    std::unique_ptr<Timer> timer;
  };
  struct ReceiveSide {
    ReceiveState state = ReceiveState::none;
    bool delivered = false;     // the message `header.number`
    bool accepted = false;      // likewise, by a user who decides
    Header header;              // of its request
    std::uint64_t base = 0;     // first packet of the window
    std::uint32_t granted = 0;  // bit i: packet base + i
    std::uint32_t seen = 0;
    std::uint32_t held = 0;
    std::uint32_t early = 0;     // verified, behind some that are not yet; of a message that comes in turn
    std::uint32_t round = 0;     // grows with everything that lets a packet come again
    std::uint32_t reserved = 0;  // of Options::buffers
    bool attention = false;
  };
  struct Peer {
    wire::TransportAddress address;
    std::uint32_t id = 0;
    std::uint32_t incarnation = 0;                       // 0: not known
    std::array<std::uint32_t, 4> former_incarnations{};  // the last ones first
    bool has_number = false;                             // receive.header.number is one of this incarnation
    TimePoint last_heard{};
    SendSide send;
    ReceiveSide receive;
  };

  // Sending (message_sending.cc)
  [[nodiscard]] bool request(Message& message);
  void refuse(Message message, int error);
  void decide(const wire::message::Decision& decision);
  void start(Peer& peer);
  void send_event(Peer& peer, SendEvent event, const Header* header = nullptr);
  void grant_received(Peer& peer, const Header& header);
  void send_request(Peer& peer);
  void pump(Peer& peer);
  [[nodiscard]] Message packet_of(const Peer& peer, std::uint64_t index);
  [[nodiscard]] Message slice(const Message& data, std::uint64_t offset, std::size_t size);
  void finish(Peer& peer, Indication::Kind kind, int error);
  void timed_out(Peer& peer);
  void arm(Peer& peer);
  [[nodiscard]] Header header_of(const Peer& peer, Type type) const;

  // Receiving (message_receiving.cc)
  [[nodiscard]] bool receive(Message& message);
  void control(Peer& peer, const Header& header);
  [[nodiscard]] bool answers(Peer& peer, const Header& header);
  void meet(Peer& peer, std::uint32_t incarnation);
  /// Whether its sender means a process that was here before.
  [[nodiscard]] bool is_for_another(const Header& header) const {
    return header.destination_incarnation != 0 && header.destination_incarnation != incarnation_;
  }
  [[nodiscard]] bool admit(Peer& peer, const Header& header);
  [[nodiscard]] bool request_received(Peer& peer, const Header& header);
  [[nodiscard]] static bool is_wanted(const ReceiveSide& side, const Header& header);
  [[nodiscard]] bool is_welcome(const Peer& peer, const Header& header);
  [[nodiscard]] static bool is_of_unacknowledged_end(const Peer& peer, const Header& header);
  [[nodiscard]] bool data_received(Peer& peer, const Header& header);
  void receive_event(Peer& peer, ReceiveEvent event, const Header* header = nullptr);
  void begin_window(Peer& peer, std::uint64_t base, std::uint32_t granted);
  void verified(std::uint32_t id, std::uint32_t index, std::uint32_t round, bool at_once);
  void attend();
  void attend(Peer& peer);
  void grant(Peer& peer);
  void grant_again(Peer& peer);
  void lose(Peer& peer);
  void indicate_end(const Peer& peer, Indication::Kind kind, int error);
  void release_buffers(ReceiveSide& side);
  [[nodiscard]] bool has_room();
  void drop(Message& message, Counter& counter);

  // Both
  [[nodiscard]] Peer* find(const wire::TransportAddress& address);
  [[nodiscard]] Peer* find_or_make(const wire::TransportAddress& address);
  [[nodiscard]] Message packet_of(const Peer& peer, const Header& header, Message payload);
  void transmit(const Peer& peer, const Header& header);
  void answer(const Peer& peer, const Header& about, Type type);
  void indicate(const Peer& peer, const Indication& indication);
  [[nodiscard]] Message indication_of(const wire::TransportAddress& peer, const Indication& indication);
  void await_memory();
  void indicate_owed();
  void tell_limits(Message& message) const;
  [[nodiscard]] std::int32_t tsdu_size(std::int32_t below) const;
  void collect();

  Options options_;
  std::uint32_t incarnation_ = 0;
  std::uint32_t next_peer_id_ = 1;
  std::uint32_t numbers_used_ = 0;  // for nodes that have been forgotten
  bool user_decides_ = false;
  Batch* upward_ = nullptr;                                         // what a batch of packets has given so far
  std::deque<std::pair<wire::TransportAddress, Indication>> owed_;  // that wait for memory
  std::unique_ptr<BufferCall> memory_;
  std::uint32_t granted_packets_ = 0;
  std::size_t messages_waiting_ = 0;
  std::map<wire::TransportAddress, std::unique_ptr<Peer>> peers_;
  std::unordered_map<std::uint32_t, Peer*> by_id_;
  std::vector<std::uint32_t> attention_;  // peers whose receiving side has something to do
  std::deque<std::uint32_t> withheld_;    // peers that wait for a grant, in turn
  std::unique_ptr<Timer> collector_;

  std::vector<std::unique_ptr<Counter>> malformed_;  // by RmppMalformed
  Counter packets_out_{*this, "packets_out", "packets sent, of all types"};
  Counter packets_in_{*this, "packets_in", "packets received whose header is good"};
  Counter messages_sent_{*this, "messages_sent", "messages that the receiver has (utopia: that have left)"};
  Counter messages_received_{*this, "messages_received", "messages received whole"};
  Counter messages_failed_{*this, "messages_failed", "messages to be sent that were given up"};
  Counter messages_lost_{*this, "messages_lost", "messages on their way in that were given up"};
  Counter messages_refused_{*this, "messages_refused", "messages on their way in that the user did not take"};
  Counter repeated_{*this, "repeated", "requests sent again, since nothing came in time"};
  Counter out_of_order_{*this, "out_of_order", "data packets behind a gap, again, or not granted"};
  Counter stale_{*this, "stale", "packets of an earlier process, message or attempt"};
  Counter contradictions_{*this, "contradictions", "packets that say otherwise of a message than its request did"};
  Counter stray_{*this, "stray", "answers that do not fit the message being sent"};
  Counter bad_grants_{*this, "bad_grants", "grants of packets whose turn it is not"};
  Counter strangers_{*this, "strangers", "packets, other than requests, from nodes that are not known"};
  Counter peers_refused_{*this, "peers_refused", "requests of more nodes than peers_max"};
  Counter head_full_{*this, "head_full", "new messages dropped, since what came before has not been read"};
  Counter too_long_{*this, "too_long", "requests for messages longer than message_bytes_max"};
  Counter requests_refused_{*this, "requests_refused", "messages of the user that could not be taken"};
  Counter provider_errors_{*this, "provider_errors", "packets that the provider below could not send"};
  Counter no_memory_{*this, "no_memory", "packets dropped, since the pool was exhausted"};
  Counter collected_{*this, "collected", "nodes forgotten, since they were silent for dead_ms"};
};

/// The parameters that both modules have, and what they say; `recovery` is the caller's.
[[nodiscard]] std::vector<ParameterSpec> parameter_specs();
[[nodiscard]] Options options_of(const Parameters& parameters, Recovery recovery);

}  // namespace sluice::rmpp
