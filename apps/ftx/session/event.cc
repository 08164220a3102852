// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/event.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace sluice::ftx {
namespace {

bool may_be_dropped(const Event& event) {
  return event.kind == Event::Kind::progress || event.kind == Event::Kind::repair ||
         event.kind == Event::Kind::rejected;
}

nlohmann::ordered_json fields(const Event& event) {
  switch (event.kind) {
    case Event::Kind::listening:
      return {{"event", "listening"}, {"address", event.path}, {"key", event.text}};
    case Event::Kind::offer:
      return {
          {"event", "offer"},         {"files", event.files},   {"bytes", event.bytes},          {"path", event.path},
          {"address", event.address}, {"cipher", event.cipher}, {"congestion", event.congestion}};
    case Event::Kind::file:
      return {{"event", "file"}, {"path", event.path}, {"bytes", event.bytes}};
    case Event::Kind::change:
      return {{"event", "change"}, {"item", event.item}, {"path", event.path}, {"target", event.target}};
    case Event::Kind::progress:
      return {{"event", "progress"},
              {"bytes", event.bytes},
              {"total_bytes", event.total_bytes},
              {"skipped_files", event.skipped_files},
              {"skipped_bytes", event.skipped_bytes},
              {"files_done", event.files_done},
              {"files", event.files},
              {"adus", event.adus},
              {"repaired", event.repaired}};
    case Event::Kind::fallback:
      return {
          {"event", "fallback"}, {"via", event.path}, {"reason", exit_code_row(event.code).name}, {"text", event.text}};
    case Event::Kind::left_out:
      return {{"event", "left_out"}, {"files", event.files}, {"text", event.text}};
    case Event::Kind::unconfined:
      return {{"event", "unconfined"}, {"text", event.text}};
    case Event::Kind::repair:
      return {{"event", "repair"}, {"adus", event.adus}};
    case Event::Kind::error: {
      const auto code = static_cast<int>(event.code);
      return {{"event", "error"}, {"code", code}, {"name", exit_code_row(event.code).name}, {"text", event.text}};
    }
    case Event::Kind::rejected:
      return {{"event", "rejected"}, {"text", event.text}};
    case Event::Kind::done:
      return {{"event", "done"},
              {"files", event.files},
              {"bytes", event.bytes},
              {"skipped_files", event.skipped_files},
              {"skipped_bytes", event.skipped_bytes},
              {"seconds", event.seconds},
              {"adus", event.adus},
              {"repaired", event.repaired},
              {"copied", event.copied},
              {"out_of_order", event.out_of_order},
              {"path", event.path},
              {"datagram_bytes", event.datagram_bytes},
              {"path_mtu", event.path_mtu},
              {"round_trip_seconds", event.round_trip_seconds},
              {"payload_bytes", event.payload_bytes},
              {"compressed_bytes", event.compressed_bytes},
              {"loaded_bytes", event.loaded_bytes},
              {"stored_bytes", event.stored_bytes}};
  }
  return {};
}

}  // namespace

std::string to_json(const Event& event) {
  nlohmann::ordered_json object = fields(event);
  if (event.connection != 0) {
    object["connection"] = event.connection;
  }
  if (!event.client.empty()) {
    object["client"] = event.client;
  }
  if (event.sent) {
    object["sent"] = true;
  }
  if (event.open_ended && (event.kind == Event::Kind::offer || event.kind == Event::Kind::progress)) {
    object["open_ended"] = true;
  }
  if (event.dry_run) {
    object["dry_run"] = true;
  }
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void EventQueue::push(Event event) {
  if (events_.size() == events_max) {
    auto victim = std::ranges::find_if(events_, may_be_dropped);
    events_.erase(victim != events_.end() ? victim : events_.begin());
  }
  events_.push_back(std::move(event));
}

std::optional<Event> EventQueue::pop() {
  if (events_.empty()) {
    return std::nullopt;
  }
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

}  // namespace sluice::ftx
