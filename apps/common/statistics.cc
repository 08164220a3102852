// SPDX-License-Identifier: Apache-2.0
#include "apps/common/statistics.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

namespace sluice {
namespace {

std::vector<Module*> modules_of(Stream& stream) {
  std::vector<Module*> modules{&stream.head()};
  for (const auto& module : stream.chain().modules()) {
    modules.push_back(module.get());
  }
  return modules;
}

nlohmann::ordered_json queue_json(const Queue& queue) {
  const Queue::Statistics& statistics = queue.statistics();
  return {{"batches", statistics.batches},           {"messages", statistics.messages},
          {"enqueued", statistics.enqueued},         {"refused", statistics.refused},
          {"materialized", statistics.materialized}, {"waiting_messages", queue.messages()},
          {"waiting_bytes", queue.bytes()},          {"waiting_bytes_max", statistics.bytes_max}};
}

std::string queue_text(std::string_view side, const Queue& queue) {
  const Queue::Statistics& statistics = queue.statistics();
  return fmt::format(
      "    {:<5} {:>10} messages in {} batches, {} had to wait (at most {} bytes), {} refusals{}\n", side,
      statistics.messages, statistics.batches, statistics.enqueued, statistics.bytes_max, statistics.refused,
      statistics.materialized == 0 ? "" : fmt::format(", {} materialized here", statistics.materialized));
}

}  // namespace

nlohmann::ordered_json statistics_json(std::string_view stack, Stream& stream) {
  const BufferPool::Statistics pool = stream.set().pool().statistics();
  const Touches& touches = stream.set().pool().touches();
  nlohmann::ordered_json modules = nlohmann::ordered_json::array();
  for (Module* module : modules_of(stream)) {
    nlohmann::ordered_json counters = nlohmann::ordered_json::object();
    for (const Counter* counter : module->counters()) {
      counters[std::string(counter->name())] = counter->value();
    }
    modules.push_back({{"name", module->name()},
                       {"counters", std::move(counters)},
                       {"write", queue_json(module->write_queue())},
                       {"read", queue_json(module->read_queue())}});
  }
  return {{"stack", stack},
          {"pool",
           {{"bytes_reserved", pool.bytes_reserved},
            {"bytes_max", pool.bytes_max},
            {"buffers_in_use", pool.buffers_in_use},
            {"allocations_failed", pool.allocations_failed},
            {"reclaimed", pool.reclaimed}}},
          {"touches", {{"loaded_bytes", touches.loaded_bytes}, {"stored_bytes", touches.stored_bytes}}},
          {"modules", std::move(modules)}};
}

std::string statistics_text(std::string_view stack, Stream& stream) {
  const Touches& touches = stream.set().pool().touches();
  const std::uint64_t reclaimed = stream.set().pool().statistics().reclaimed;
  std::string text = fmt::format(
      "stack {}: payload passes loaded {} and stored {} bytes{}\n", stack, touches.loaded_bytes, touches.stored_bytes,
      reclaimed == 0 ? "" : fmt::format(", {} borrowed blocks were wanted back early", reclaimed));
  for (Module* module : modules_of(stream)) {
    text += fmt::format("  {}\n", module->name());
    text += queue_text("write", module->write_queue());
    text += queue_text("read", module->read_queue());
    for (const Counter* counter : module->counters()) {
      if (counter->value() != 0) {
        text += fmt::format("    {:>16} {} ({})\n", counter->value(), counter->name(), counter->meaning());
      }
    }
  }
  return text;
}

}  // namespace sluice
