// SPDX-License-Identifier: Apache-2.0
#include "apps/sluice/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "apps/sluice/describe.h"
#include "stack/head/escaped.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t name_columns_max = 24;
constexpr std::size_t cost_columns = 15;  // "  loads  stores"
constexpr std::size_t left_columns = text_columns_max - cost_columns;

struct Layer {
  const ModuleDeclaration* declaration;
  Service offers;
};

/// From the driver up, with the service that each offers where it stands.
std::vector<Layer> layers_of(const StackDeclaration& stack) {
  std::vector<Layer> layers{{&stack.driver, stack.driver.entry->upper}};
  for (const ModuleDeclaration& module : stack.push) {
    layers.push_back({&module, module.entry->transparent ? layers.back().offers : module.entry->upper});
  }
  return layers;
}

Json value_json(const ParameterValue& value) {
  return std::visit([](const auto& held) { return Json(held); }, value);
}

/// Text of the file may be any: what is no UTF-8 is replaced.
std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string parameters_text(const Parameters& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters.values()) {
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, escaped(dumped(value_json(value))));
  }
  return text;
}

/// Lines of at most text_columns_max, broken at spaces; all but the first are indented.
std::string wrapped(std::string_view text, std::size_t indent) {
  std::string lines;
  const std::size_t room = text_columns_max - indent;
  while (text.size() > room) {
    const std::size_t before = text.rfind(' ', room);
    const std::size_t cut = before != std::string_view::npos && before > 0 ? before : text.find(' ');
    if (cut == std::string_view::npos) {
      break;
    }
    lines += fmt::format("{}\n{:{}}", text.substr(0, cut), "", indent);
    text.remove_prefix(cut + 1);
  }
  return lines + std::string(text) + "\n";
}

std::string chain_text(const StackDeclaration& stack) {
  constexpr std::size_t indent = 17;
  std::string text = "  stream head    the user's calls: read write putmsg getmsg poll, or a library on top\n";
  const std::vector<Layer> layers = layers_of(stack);
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    const ModuleDeclaration& declaration = *layer->declaration;
    text += fmt::format("  {:-<14} offers the {}\n", "", service_name(layer->offers));
    text += fmt::format("  {:<14} {}", escaped(declaration.instance), wrapped(declaration.entry->effect, indent));
    if (!declaration.parameters.values().empty()) {
      text += fmt::format("{:{}}{}", "", indent, wrapped(parameters_text(declaration.parameters), indent));
    }
  }
  return text;
}

std::string pass_text(const ExplainedItem& item) {
  if (!item.pass) {
    return item.deferred ? "deferred" : "nothing is owed";
  }
  const std::string_view where = item.pass->in_place          ? " in place"
                                 : item.asks == "materialize" ? " to memory of our own"
                                                              : "";
  return fmt::format("{}{}", item.pass->kernel, where);
}

/// One line, or two where it would be too long.
std::vector<std::string> item_lines(const ExplainedItem& item, std::size_t room) {
  const std::string why = fmt::format("{:<11} {}{}", item.asks, item.why, item.why.empty() ? "" : ":");
  const std::string pass = pass_text(item);
  std::vector<std::string> lines{why};
  if (why.size() + 1 + pass.size() > room) {
    lines.push_back(fmt::format("{:12}{}", "", pass));
  } else {
    lines.back() += (item.why.empty() ? "" : " ") + pass;
  }
  if (item.pass) {
    lines.back() = fmt::format("{:<{}}{:>7}{:>8}", lines.back(), room, item.pass->cost.loads, item.pass->cost.stores);
  }
  return lines;
}

/// What stands beside a module's name, a line each; costs at the end.
std::vector<std::string> lines_of(const ExplainedModule& module, std::size_t room) {
  std::vector<std::string> lines;
  if (module.lent_here) {
    lines.emplace_back("shows the bytes where they lie");
  }
  for (const ExplainedItem& item : module.items) {
    for (std::string& line : item_lines(item, room)) {
      lines.push_back(std::move(line));
    }
  }
  if (module.materialized > 0) {
    lines.push_back(fmt::format("({} messages materialized here so far)", module.materialized));
  }
  if (!module.uncounted.empty()) {
    lines.push_back(fmt::format("({}: not counted)", module.uncounted));
  }
  if (lines.empty()) {
    lines.emplace_back("touches no payload");
  }
  return lines;
}

std::string side_text(std::string_view title, const ExplainedSide& side) {
  std::vector<std::string> names;
  std::size_t width = 0;
  for (const ExplainedModule& module : side.modules) {
    names.push_back(escaped(module.name, name_columns_max));
    width = std::max(width, names.back().size());
  }
  const std::size_t indent = 2 + width + 2;
  std::string text = fmt::format("{:<{}}  loads  stores\n", title, left_columns);
  for (std::size_t at = 0; at < names.size(); ++at) {
    std::string_view name = names[at];
    for (const std::string& line : lines_of(side.modules[at], left_columns - std::min(indent, left_columns))) {
      text += fmt::format("  {:<{}}  {}\n", name, width, line);
      name = "";
    }
  }
  return text + fmt::format("  {} over the payload\n",
                            side.passes() == 1 ? "one pass" : fmt::format("{} passes", side.passes()));
}

/// What becomes of several datagrams (tli/endpoint.h, t_sndsudata) or segments in one message.
std::string segments_text(const Explanation& explanation) {
  const std::string& from = explanation.segments_from;
  const bool by_head = from.empty();
  std::string text =
      by_head ? "several datagrams in one message\n" : fmt::format("several segments of {} in one message\n", from);
  if (explanation.not_for_segments.empty()) {
    return text +
           fmt::format("  cross the stream{} whole, one descent for all; at its end\n  ",
                       by_head ? "" : fmt::format(" below {}", from)) +
           wrapped(explanation.segments_summed_by, 2);
  }
  text += by_head ? "  are taken apart at the stream's ends, since these are made for one at a time:"
                  : "  there are none, since these are made for one at a time:";
  for (const std::string& name : explanation.not_for_segments) {
    text += "\n    " + escaped(name, name_columns_max);
  }
  return text + "\n";
}

std::string cost_text(const ByteCost& cost) { return fmt::format("{} + {}", cost.loads, cost.stores); }

Json cost_json(const ByteCost& cost) { return {{"loads", cost.loads}, {"stores", cost.stores}}; }

Json item_json(const ExplainedItem& item) {
  const std::size_t space = item.asks.find(' ');
  Json json{{"asks", item.asks.substr(0, space)}};
  if (space != std::string::npos) {
    json["unit"] = std::stoul(item.asks.substr(space));
  }
  json["why"] = item.why;
  json["outcome"] = item.deferred ? "deferred" : item.pass ? "pass" : "nothing";
  json["pass"] = nullptr;
  if (item.pass) {
    json["pass"] = Json{{"kernel", item.pass->kernel},
                        {"in_place", item.pass->in_place},
                        {"loads", item.pass->cost.loads},
                        {"stores", item.pass->cost.stores}};
  }
  return json;
}

Json side_json(const ExplainedSide& side, bool live) {
  Json modules = Json::array();
  for (const ExplainedModule& module : side.modules) {
    Json work = Json::array();
    for (const ExplainedItem& item : module.items) {
      work.push_back(item_json(item));
    }
    Json json{{"instance", module.name},
              {"shows_lent", module.lent_here},
              {"work", std::move(work)},
              {"uncounted", module.uncounted.empty() ? Json() : Json(module.uncounted)}};
    if (live) {
      json["materialized"] = module.materialized;
    }
    modules.push_back(std::move(json));
  }
  Json blocked = cost_json(side.layered);
  blocked["memory_loads"] = side.cache_blocked_memory().loads;
  blocked["memory_stores"] = side.cache_blocked_memory().stores;
  Json cost{
      {"layered", cost_json(side.layered)}, {"cache_blocked", std::move(blocked)}, {"fused", cost_json(side.fused)}};
  if (side.awaited != side.fused) {
    cost["fused_reader_waits"] = cost_json(side.awaited);
  }
  return {{"modules", std::move(modules)}, {"passes", side.passes()}, {"cost", std::move(cost)}};
}

/// Only its nature is asked for.
class Cipher final : public Stage {
 public:
  explicit Cipher(const Nature& nature) : Stage(nature) {}
  void begin(ConstBytes) override {}
  void run(std::size_t, ConstBytes, Bytes) override {}
};

class SealingProgram final : public Module {
 public:
  SealingProgram() : Module("program") {}
  [[nodiscard]] bool handles_deferred() const override { return true; }
  [[nodiscard]] PayloadWork payload_work(Side side) const override {
    using Kind = PayloadWork::Kind;
    if (side == Side::read) {
      return {.items = {{.kind = Kind::own, .stage = &open_}}};
    }
    return {.items = {{.kind = Kind::copy, .layered = false, .fused = false},
                      {.kind = Kind::own, .stage = &seal_},
                      {.kind = Kind::gather, .where = "file's page to a buffer", .layered = false}}};
  }

 private:
  Cipher seal_{{.name = "seal", .converts = true}};
  Cipher open_{{.name = "open", .converts = true, .verifies = true}};
};

}  // namespace

std::unique_ptr<Module> sealing_program() { return std::make_unique<SealingProgram>(); }

std::string payload_text(const Explanation& explanation) {
  const ExplainedSide& down = explanation.down;
  const ExplainedSide& up = explanation.up;
  std::string text = side_text("down, from the head to the driver", down) + "\n";
  text += side_text("up, from the driver to the head", up) + "\n";
  const auto row = [&](std::string_view name, const ByteCost& below, const ByteCost& above) {
    text += fmt::format("  {:<52}{:>8}{:>10}\n", name, cost_text(below), cost_text(above));
  };
  text += fmt::format("{:<54}{:>8}{:>10}\n", "loads + stores for each payload byte", "down", "up");
  row("layered: each manipulation a pass", down.layered, up.layered);
  row("cache-blocked: the same passes, tile by tile", down.layered, up.layered);
  row("  of which reach memory", down.cache_blocked_memory(), up.cache_blocked_memory());
  row("fused: together, when the bytes must move anyway", down.fused, up.fused);
  if (up.awaited != up.fused) {
    row("  while the reader waits for them", down.fused, up.awaited);
  }
  if (explanation.measured) {
    text += fmt::format("  {:<52}{:>18}\n", "measured, both ways together",
                        fmt::format("{:.2f} + {:.2f}", explanation.measured->loads, explanation.measured->stores));
  }
  return text;
}

Json payload_json(const Explanation& explanation) {
  Json json{{"down", side_json(explanation.down, explanation.live)},
            {"up", side_json(explanation.up, explanation.live)},
            {"segments",
             {{"whole", explanation.not_for_segments.empty()},
              {"from", explanation.segments_from},
              {"because", explanation.not_for_segments},
              {"summed_by", explanation.segments_summed_by}}}};
  if (explanation.measured) {
    json["measured"] = Json{{"loads", explanation.measured->loads}, {"stores", explanation.measured->stores}};
  }
  return json;
}

std::string explain_text(const StackDeclaration& stack, const Explanation& explanation) {
  const bool declared = explanation.mode == stack.mode;
  return fmt::format("stack {}, mode {}{}\n\n{}\n{}\n{}", escaped(stack.name), name_of(explanation.mode),
                     declared ? "" : fmt::format(" (declared: {})", name_of(stack.mode)), chain_text(stack),
                     payload_text(explanation), segments_text(explanation));
}

std::string explain_json(const StackDeclaration& stack, const Explanation& explanation) {
  Json modules = Json::array();
  const std::vector<Layer> layers = layers_of(stack);
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    const ModuleDeclaration& declaration = *layer->declaration;
    Json parameters = Json::object();
    for (const auto& [name, value] : declaration.parameters.values()) {
      parameters[name] = value_json(value);
    }
    modules.push_back({{"name", declaration.entry->name},
                       {"instance", declaration.instance},
                       {"kind", kind_name(*declaration.entry)},
                       {"effect", declaration.entry->effect},
                       {"service", service_name(layer->offers)},
                       {"parameters", std::move(parameters)}});
  }
  return dumped({{"stack", stack.name},
                 {"mode", name_of(explanation.mode)},
                 {"declared_mode", name_of(stack.mode)},
                 {"modules", std::move(modules)},
                 {"payload", payload_json(explanation)}});
}

}  // namespace sluice
