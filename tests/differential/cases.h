// SPDX-License-Identifier: Apache-2.0
#pragma once

// A case: two worlds, one layered, one with fused paths, the same things done to both; what they show is compared after
// each.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>

#include "tests/differential/world.h"

namespace sluice::differential {

inline std::vector<Drawn> draw_modules(Choices& choices, std::size_t count_max, std::uint64_t kinds_of) {
  std::vector<Drawn> drawn(choices.below(count_max + 1));
  for (Drawn& module : drawn) {
    module = {static_cast<Kind>(choices.below(kinds_of)), choices.seed()};
  }
  return drawn;
}

inline Setup draw_setup(Choices& choices) {
  Setup setup;
  setup.raw = choices.percent(30);
  setup.seed = choices.seed();
  setup.v6 = choices.percent(70);
  setup.mtu = setup.v6 ? choices.one_of<std::size_t>({1280, 1500, 1501, 4000, 9001, 65535})
                       : choices.one_of<std::size_t>({576, 577, 1500, 4000, 9000, 65535});
  setup.wire.memory = static_cast<WireSettings::Memory>(choices.below(4));
  setup.wire.damaged_percent = static_cast<unsigned>(choices.one_of<std::size_t>({0, 0, 5, 30}));
  setup.wire.seed = choices.seed();
  setup.wire.segments = !setup.raw && choices.percent(50);
  setup.wire.super_frames = setup.wire.segments && choices.percent(70);
  setup.wire.lent_memory = setup.wire.super_frames && choices.percent(50);
  setup.head.read_marks = {.high_bytes = std::size_t{1} << 27, .low_bytes = std::size_t{1} << 25};
  setup.head.write_offset = choices.one_of<std::size_t>({0, 0, 7, 64});
  setup.head.write_tail = choices.one_of<std::size_t>({0, 0, 13});
  setup.head.block_bytes_max = choices.one_of<std::size_t>({65536, 1000, 333});
  const bool symmetric = choices.percent(80);
  for (std::size_t side = 0; side < 2; ++side) {
    Setup::Side& drawn = setup.sides[side];
    drawn.checksum = choices.percent(85);
    drawn.bound = choices.percent(90) || setup.wire.segments;
    drawn.mode = choices.percent(80) ? ProcessingMode::fused : ProcessingMode::layered;
    drawn.low = draw_modules(choices, setup.raw ? 5 : 2, setup.raw ? kinds : kinds_anywhere);
    drawn.middle = draw_modules(choices, 1, kinds_anywhere);
    drawn.high = draw_modules(choices, 4, kinds);
  }
  if (symmetric) {
    setup.sides[1].high = setup.sides[0].high;
    setup.sides[1].low = setup.sides[0].low;
  }
  return setup;
}

/// Datagrams of 1 byte, small ones, some about the MTU and beyond it; the last one odd, mostly.
inline void draw_segments(Choices& choices, const Setup& setup, Operation& operation) {
  constexpr std::size_t headers = 28;
  const std::size_t fitting = setup.mtu - headers;
  operation.segment = std::max<std::size_t>(1, choices.percent(20)   ? 1
                                               : choices.percent(20) ? choices.size(fitting, 9000)
                                               : choices.percent(50) ? fitting / (1 + choices.below(4))
                                                                     : 8 * choices.below(fitting / 8 + 1));
  const std::size_t count = 1 + choices.below(tli::Endpoint::segments_max);
  const std::size_t shorter = choices.percent(60) ? choices.below(operation.segment) : 0;
  operation.size = std::min(count * operation.segment - shorter, tli::Endpoint::segments_bytes_max);
}

inline Operation draw_operation(Choices& choices, const Setup& setup) {
  using Act = Operation::Act;
  constexpr std::size_t tsdu_max = 65507;
  Operation operation;
  const std::uint64_t lot = choices.below(100);
  operation.act = lot < 35   ? Act::send
                  : lot < 55 ? Act::receive
                  : lot < 62 ? Act::look
                  : lot < 67 ? Act::pass_time
                  : lot < 78 ? Act::run
                  : lot < 82 ? Act::damage
                  : lot < 84 ? Act::repeat
                  : lot < 87 ? Act::push
                  : lot < 90 ? Act::pop
                  : lot < 93 ? Act::set_mode
                  : lot < 96 ? Act::set_room
                  : lot < 97 ? Act::flush
                  : lot < 98 ? Act::options
                             : Act::compare_counters;
  operation.side = choices.below(2);
  operation.how = choices.below(256);
  operation.seed = choices.seed();
  if (operation.act == Act::send) {
    operation.size = choices.size(setup.mtu, tsdu_max);
    operation.size -= choices.percent(80) ? operation.size % 8 : 0;  // whole units, mostly
    if (setup.wire.segments && choices.percent(60)) {
      draw_segments(choices, setup, operation);
    }
  } else if (operation.act == Act::receive) {
    operation.size = choices.percent(60) ? 70'000 : choices.size(setup.mtu, 2000);
  } else if (operation.act == Act::pass_time) {
    // Where datagrams go in one message neighbours stay known: an error for one that is not there is for all of them.
    operation.size = choices.below(!choices.percent(20) ? 10 : setup.wire.segments ? 300 : 5000);
  } else if (operation.act == Act::push) {
    operation.module = {static_cast<Kind>(choices.below(kinds)), choices.seed()};
  }
  return operation;
}

inline std::string readable(std::string_view entry) {
  constexpr std::size_t shown_max = 400;
  std::string text;
  for (const char character : entry.substr(0, shown_max)) {
    text += std::isprint(static_cast<unsigned char>(character)) != 0
                ? std::string(1, character)
                : fmt::format("\\{:02x}", static_cast<unsigned char>(character));
  }
  return text + fmt::format(" ({} bytes)", entry.size());
}

/// The first difference of two logs; empty when they are the same.
inline std::string difference(const Log& layered, std::string_view name, const Log& other) {
  if (layered.entries == other.entries) {
    return {};
  }
  const auto [one, two] = std::ranges::mismatch(layered.entries, other.entries);
  return fmt::format("layered: {}\n {}: {}\n", one == layered.entries.end() ? "nothing more" : readable(*one), name,
                     two == other.entries.end() ? "nothing more" : readable(*two));
}

/// What the first host did and saw, in order, and then what the second did.
inline void by_host(std::vector<std::string>& entries) {
  std::vector<std::string> first;
  std::vector<std::string> second;
  for (std::string& entry : entries) {
    (entry.starts_with("frame b") || entry.starts_with("b ") ? second : first).push_back(std::move(entry));
  }
  std::ranges::move(second, std::back_inserter(first));
  entries = std::move(first);
}

/// Three worlds that must not differ: layered, with native descriptors; the paths that were drawn; and those again,
/// every primitive encoded at every queue.
class Worlds {
 public:
  explicit Worlds(const Setup& setup)
      : segments_(setup.wire.segments),
        layered_(setup, World::Variant::layered),
        tested_(setup, World::Variant::tested),
        encoded_(setup, World::Variant::encoded) {}

  /// Does the same to all; answers what they showed differently, or nothing.
  template <class Act>
  std::string apply(Act act) {
    for (World* const world : {&layered_, &tested_, &encoded_}) {
      act(*world);
    }
    if (segments_) {
      for (World* const world : {&layered_, &tested_, &encoded_}) {
        by_host(world->log.entries);
      }
    }
    std::string differs = difference(layered_.log, "tested", tested_.log);
    differs += difference(layered_.log, "encoded", encoded_.log);
    for (World* const world : {&layered_, &tested_, &encoded_}) {
      world->log.entries.clear();
    }
    return differs;
  }

 private:
  bool segments_;
  World layered_;
  World tested_;
  World encoded_;
};

inline std::string described(const Setup& setup) {
  std::string text =
      fmt::format("{} mtu {} memory {} damaged {} % segments {} super-frames {} lent {}", setup.raw ? "raw" : "TLI",
                  setup.mtu, static_cast<int>(setup.wire.memory), setup.wire.damaged_percent, setup.wire.segments,
                  setup.wire.super_frames, setup.wire.lent_memory);
  for (const Setup::Side& side : setup.sides) {
    text += fmt::format("\n  side: {}, checksum {}", sluice::name_of(side.mode), side.checksum);
    for (const auto& [where, modules] : {std::pair{"low", &side.low}, {"middle", &side.middle}, {"high", &side.high}}) {
      text += fmt::format(", {}:", where);
      for (const Drawn& module : *modules) {
        text += fmt::format(" {}({})", name_of(module.kind), module.seed);
      }
    }
  }
  return text + "\n";
}

/// Runs a case; answers what differs, or nothing.
inline std::string run_case(Choices& choices, std::size_t operations_max) {
  const Setup setup = draw_setup(choices);
  Worlds worlds(setup);
  std::string done;
  std::string differs = worlds.apply([](World&) {});
  const std::size_t operations = 1 + choices.below(operations_max);
  for (std::size_t at = 0; at < operations && differs.empty() && !choices.exhausted(); ++at) {
    const Operation operation = draw_operation(choices, setup);
    done += fmt::format("  {}: act {} side {} size {} segment {} how {} seed {} module {}({})\n", at,
                        static_cast<int>(operation.act), operation.side, operation.size, operation.segment,
                        operation.how, operation.seed, name_of(operation.module.kind), operation.module.seed);
    differs = worlds.apply([&operation](World& world) { world.apply(operation); });
  }
  if (differs.empty()) {
    done += "  finish\n";
    differs = worlds.apply([](World& world) { world.finish(); });
  }
  if (differs.empty()) {
    done += "  close\n";
    differs = worlds.apply([](World& world) { world.close(); });
  }
  return differs.empty() ? std::string() : described(setup) + done + differs;
}

}  // namespace sluice::differential
