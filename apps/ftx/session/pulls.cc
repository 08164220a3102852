// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/pulls.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/contract.h"

namespace sluice::ftx {
std::uint64_t OpenedPull::bytes() const {
  std::uint64_t total = 0;
  for (const FileEntry& file : source->files()) {
    total += file.content_bytes();
  }
  return total;
}

bool Pulls::make_room(TimePoint now, const Peer& host) {
  std::vector<Entry*> staying;
  std::vector<Holder> holders;
  for (Entry& entry : pulls_) {
    if (!entry.leaving) {
      staying.push_back(&entry);
      holders.push_back({.host = &entry.host, .last_progress_at = entry.sender->last_progress_at()});
    }
  }
  const Admission verdict = admission(now, host, holders, limits_);
  if (verdict.gives_way) {
    // It stays to tell its client, for as long as a few ERRORs take.
    Entry& entry = *staying[*verdict.gives_way];
    entry.leaving = true;
    entry.sender->stop(now, {ExitCode::refused, std::string(busy_text)});
  }
  return verdict.granted;
}

void Pulls::begin(TimePoint now, OpenedPull pull, const Peer& host, Handshakes::Taken taken) {
  Entry& entry = pulls_.emplace_back();
  entry.connection = taken.protection.connection();
  entry.host = host;
  entry.client = taken.client.text();
  entry.total_bytes = pull.bytes();
  entry.source = std::move(pull.source);
  entry.congestion = std::move(pull.congestion);
  entry.path = entry.source->path(0);
  if (const std::size_t files = entry.source->files().size(); files > 1) {
    entry.path += " and " + std::to_string(files - 1) + " more";
  }
  pull.options.peer = taken.peer;
  pull.options.path.clear();
  entry.sender = std::make_unique<Sender>(now, std::move(pull.options), *entry.source, *entry.congestion,
                                          std::move(taken.protection));
}

bool Pulls::knows(std::uint64_t connection) const {
  return std::ranges::find(pulls_, connection, &Entry::connection) != pulls_.end();
}

void Pulls::receive(TimePoint now, std::uint64_t connection, ConstBytes datagram, const Peer& from) {
  const auto entry = std::ranges::find(pulls_, connection, &Entry::connection);
  SLUICE_REQUIRE(entry != pulls_.end());
  entry->sender->receive(now, datagram, from);
  take_events(*entry);
}

void Pulls::interrupt(TimePoint now) {
  for (Entry& entry : pulls_) {
    entry.sender->interrupt(now);
    take_events(entry);
  }
}

void Pulls::too_big(TimePoint now) {
  for (Entry& entry : pulls_) {
    entry.sender->too_big(now);
  }
}

void Pulls::take_events(Entry& entry) {
  while (auto event = entry.sender->next_event()) {
    event->connection = entry.connection;
    event->client = entry.client;
    event->path = entry.path;
    event->sent = true;
    entry.leaving |= event->kind == Event::Kind::done || event->kind == Event::Kind::error;
    events_.push(*std::move(event));
  }
}

void Pulls::transmit(TimePoint now, Burst& burst) {
  for (std::size_t asked = pulls_.size(); asked > 0 && burst.left().empty(); --asked) {
    Entry& entry = pulls_.front();
    entry.sender->transmit(now, burst);
    take_events(entry);
    if (entry.sender->finished() && burst.left().empty()) {
      ended_cipher_bytes_ += entry.sender->cipher_bytes();
      unsent_bytes_ += entry.total_bytes - std::min(entry.sender->sent_bytes(), entry.total_bytes);
      pulls_.pop_front();
    } else {
      pulls_.splice(pulls_.end(), pulls_, pulls_.begin());  // the next one's turn
    }
  }
}

std::uint64_t Pulls::cipher_bytes() const {
  std::uint64_t bytes = ended_cipher_bytes_;
  for (const Entry& entry : pulls_) {
    bytes += entry.sender->cipher_bytes();
  }
  return bytes;
}

TimePoint Pulls::next_deadline() const {
  TimePoint next = never;
  for (const Entry& entry : pulls_) {
    // What has finished is forgotten by the next transmit().
    next = std::min(next, entry.sender->finished() ? TimePoint::min() : entry.sender->next_deadline());
  }
  return next;
}

std::size_t Pulls::open() const {
  return static_cast<std::size_t>(std::ranges::count_if(pulls_, [](const Entry& entry) { return !entry.leaving; }));
}

}  // namespace sluice::ftx
