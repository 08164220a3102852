// SPDX-License-Identifier: Apache-2.0
#include "tests/apps/ftx/session/simulation.h"

#include <algorithm>

#include "tests/apps/ftx/transmit.h"

namespace sluice::ftx::test {

bool Link::lose(TimePoint now, ConstBytes datagram) {
  if (filter_ && !filter_(now, datagram)) {
    return true;
  }
  // Gilbert's model: runs of losses of mean length `burst`, with `loss` of all datagrams lost.
  const double leave = 1 / faults_.burst;
  const double enter = faults_.loss * leave / (1 - faults_.loss);
  const bool goes_on = in_burst_ && now - burst_began_ < faults_.burst_max;
  const bool loses = prng_.chance(goes_on ? 1 - leave : enter);
  if (loses && !goes_on) {
    burst_began_ = now;
  }
  in_burst_ = loses;
  return in_burst_;
}

void Link::send(TimePoint now, ConstBytes datagram, const Peer& from) {
  const auto envelope = parse_envelope(datagram);
  const bool is_data = envelope && envelope->kind == Kind::data;
  ++sent;
  sent_bytes += datagram.size();
  TimePoint leaves = now;
  if (faults_.rate > 0) {
    free_at_ = std::max(free_at_, now);
    const auto waiting = static_cast<std::uint64_t>(static_cast<double>((free_at_ - now).count()) *
                                                    static_cast<double>(faults_.rate) / 1e9);
    if (waiting + datagram.size() > faults_.queue_bytes) {
      ++overflowed;
      overflowed_data += is_data ? 1 : 0;
      return;
    }
    free_at_ += Duration(
        static_cast<Duration::rep>(static_cast<double>(datagram.size()) * 1e9 / static_cast<double>(faults_.rate)));
    leaves = free_at_;
  }
  if (lose(now, datagram)) {
    ++lost;
    lost_data += is_data ? 1 : 0;
    return;
  }
  const auto extra = [&] {
    return Duration(
        static_cast<Duration::rep>(prng_.below(static_cast<std::uint64_t>(faults_.reorder_delay.count()) + 1)));
  };
  travel(leaves + faults_.delay + (prng_.chance(faults_.reorder) ? extra() : 0ns), datagram, from);
  if (prng_.chance(faults_.duplicate)) {
    travel(leaves + faults_.delay + extra(), datagram, from);
  }
}

void Link::travel(TimePoint at, ConstBytes datagram, const Peer& from) {
  Content bytes(datagram.begin(), datagram.end());
  if (prng_.chance(faults_.corrupt)) {
    bytes[prng_.below(bytes.size())] ^= static_cast<std::byte>(1U << prng_.below(8));
  }
  queue_.push({at, order_++, {std::move(bytes), from}});
}

std::optional<Link::Arrival> Link::arrive(TimePoint now) {
  if (queue_.empty() || queue_.top().at > now) {
    return std::nullopt;
  }
  Arrival arrival = std::move(const_cast<Travelling&>(queue_.top()).arrival);  // the order does not depend on it
  queue_.pop();
  return arrival;
}

World::World(WorldOptions world_options)
    : options(std::move(world_options)),
      forward(options.forward, options.seed * 2),
      back(options.back, options.seed * 2 + 1),
      peer(as_bytes("client")),
      server_peer(as_bytes("server")) {
  options.server.seed = options.seed + 1000;
  options.sender.seed = options.seed + 2000;
  options.server.insecure = !options.sealed;
  server = std::make_unique<Server>(options.server, options.to != nullptr ? *options.to : destination);
  if (options.pull) {
    server->invite(now, protection_of(options.seed, Side::initiator, options.cipher, options.limits), {peer},
                   options.invite_timeout);
  } else if (options.sealed) {
    server->expect(protection_of(options.seed, Side::responder, options.cipher, options.limits));
  }
  options.sender.waits_for_knock = options.pull;
  if (options.sender.peer == Peer()) {
    options.sender.peer = server_peer;
  }
  if (options.fixed_rate > 0) {
    congestion = std::make_unique<FixedRate>(options.fixed_rate);
  } else {
    congestion = std::make_unique<Bbr>(options.sender.tsdu_bytes, options.seed);
  }
}

void World::start() {
  if (!sender) {
    std::optional<Protection> protection;
    if (options.sealed) {
      protection =
          protection_of(options.seed, options.pull ? Side::responder : Side::initiator, options.cipher, options.limits);
    }
    Source& from = options.from != nullptr ? *options.from : source;
    sender = std::make_unique<Sender>(now, options.sender, from, *congestion, std::move(protection));
  }
}

void World::deliver(ConstBytes datagram, const Peer& from) {
  if (!options.land_by_hand) {
    return server->receive(now, datagram, from);
  }
  const ConstBytes header = datagram.first(std::min(datagram.size(), data_header_bytes));
  const Server::Inspection inspection = server->inspect(now, header, datagram.size(), from);
  if (inspection.kind == Server::Inspection::Kind::other) {
    return server->receive(now, datagram, from);
  }
  if (inspection.kind == Server::Inspection::Kind::unwanted) {
    return;
  }
  const Placement& place = inspection.landing.place;
  const ConstBytes payload = datagram.subspan(data_header_bytes);
  Status status;
  if (place.kind == Placement::Kind::file) {
    status = place.file->write(place.offset, payload);
  } else {
    std::copy(payload.begin(), payload.end(), place.memory.begin());
  }
  if (status) {
    return inspection.session->landed(now, inspection.landing);
  }
  inspection.session->landing_failed(now, inspection.landing, status.error());
}

bool World::stopped() const {
  const TimePoint from = started_at_ + options.reader.stopped_from;
  return now >= from && now < from + options.reader.stopped_for;
}

void World::arrive(Link::Arrival datagram) {
  if (unread_bytes_ + datagram.bytes.size() > options.reader.room_bytes) {
    ++overrun;
    return;
  }
  unread_bytes_ += datagram.bytes.size();
  unread_.push(std::move(datagram));
}

void World::read() {
  while (!unread_.empty() && now >= reads_at_) {
    const auto [datagram, from] = std::move(unread_.front());
    unread_.pop();
    unread_bytes_ -= datagram.size();
    if (options.reader.rate > 0) {
      const double cost_ns = static_cast<double>(datagram.size()) * 1e9 / static_cast<double>(options.reader.rate);
      reads_at_ = now + Duration(static_cast<Duration::rep>(cost_ns));
    }
    deliver(datagram, from);
  }
}

void World::step() {
  while (auto datagram = forward.arrive(now)) {
    if (server_alive) {
      arrive(std::move(*datagram));
    }
  }
  const bool server_runs = server_alive && !stopped();
  if (server_runs) {
    read();
  }
  while (auto datagram = back.arrive(now)) {
    if (sender_alive) {
      sender->receive(now, datagram->bytes, datagram->from);
    }
  }
  if (sender_alive) {
    transmit_all(*sender, now, [&](ConstBytes datagram, const Peer& to) {
      if (to == server_peer) {
        forward.send(now, datagram, peer);
      } else {
        ++misdirected;
      }
    });
  }
  if (server_runs) {
    transmit_all(*server, now, [&](ConstBytes datagram, const Peer& to) {
      if (to == peer) {
        back.send(now, datagram, server_peer);
      } else {
        ++misdirected;
      }
    });
  }
  spins += sender_alive && sender->next_deadline() <= now ? 1 : 0;
  spins += server_runs && server->next_deadline() <= now ? 1 : 0;
  while (auto event = sender->next_event()) {
    sender_events.push_back(*event);
  }
  while (auto event = server->next_event()) {
    server_events.push_back(*event);
  }
}

TimePoint World::next_event_at() const {
  TimePoint at = std::min(forward.next_arrival(), back.next_arrival());
  if (sender_alive) {
    at = std::min({at, sender->next_deadline(), input_at ? input_at() : never});
  }
  if (server_alive && stopped()) {
    at = std::min(at, started_at_ + options.reader.stopped_from + options.reader.stopped_for);
  } else if (server_alive) {
    at = std::min({at, server->next_deadline(), unread_.empty() ? never : reads_at_});
  }
  return at;
}

void World::run(const std::function<bool()>& stop) {
  start();
  const TimePoint end = now + options.run_max;
  while (now < end) {
    step();
    if (each_step) {
      each_step();
    }
    if (stop && stop()) {
      return;
    }
    const bool sender_done = !sender_alive || sender->finished();
    const bool server_done = !server_alive || server->sessions() == 0;
    if (sender_done && server_done) {
      return;
    }
    const TimePoint next = next_event_at();
    if (next == never) {
      return;
    }
    // A microsecond at least, so that a session that wants to be called at once cannot stop time.
    now = std::max(now + 1us, next);
  }
}

bool World::all_equal() const {
  auto& files = const_cast<MemorySource&>(source);
  std::size_t files_sent = 0;
  for (std::uint32_t i = 0; i < source.files().size(); ++i) {
    if (source.files()[i].kind == EntryKind::directory) {
      continue;
    }
    ++files_sent;
    const auto arrived = destination.files.find(std::string(source.files()[i].name));
    if (arrived == destination.files.end() || arrived->second != files.content(i)) {
      return false;
    }
  }
  return destination.files.size() == files_sent && destination.temporaries.empty();
}

}  // namespace sluice::ftx::test
