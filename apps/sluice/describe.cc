// SPDX-License-Identifier: Apache-2.0
#include "apps/sluice/describe.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

std::string range_text(const ParameterSpec& spec) {
  if (!spec.choices.empty()) {
    return fmt::format(" (one of {})", fmt::join(spec.choices, ", "));
  }
  const bool from = spec.minimum > std::numeric_limits<double>::lowest();
  const bool to = spec.maximum < std::numeric_limits<double>::max();
  if (from && to) {
    return fmt::format(" ({} .. {})", spec.minimum, spec.maximum);
  }
  return from ? fmt::format(" (at least {})", spec.minimum) : to ? fmt::format(" (at most {})", spec.maximum) : "";
}

std::string_view type_name(ParameterSpec::Type type) {
  switch (type) {
    case ParameterSpec::Type::boolean:
      return "boolean";
    case ParameterSpec::Type::integer:
      return "integer";
    case ParameterSpec::Type::real:
      return "number";
    case ParameterSpec::Type::text:
      return "text";
    case ParameterSpec::Type::texts:
      return "texts";
  }
  return "";
}

}  // namespace

std::string_view kind_name(const Entry& entry) { return entry.kind == Entry::Kind::driver ? "driver" : "module"; }

std::string modules_text(const Registry& registry) {
  std::string text;
  for (const Entry::Kind kind : {Entry::Kind::driver, Entry::Kind::module}) {
    text += kind == Entry::Kind::driver ? "drivers\n" : "modules\n";
    for (const auto& [name, entry] : registry.entries()) {
      if (entry.kind == kind) {
        text += fmt::format("  {:<12} {}\n", name, entry.summary);
      }
    }
  }
  return text + "\n`sluice modules NAME` prints one's manual.\n";
}

std::string modules_json(const Registry& registry) {
  Json list = Json::array();
  for (const auto& [name, entry] : registry.entries()) {
    Json parameters = Json::array();
    for (const ParameterSpec& spec : entry.parameters) {
      parameters.push_back({{"name", spec.name},
                            {"type", type_name(spec.type)},
                            {"meaning", spec.meaning},
                            {"required", spec.required}});
    }
    list.push_back({{"name", name},
                    {"kind", kind_name(entry)},
                    {"summary", entry.summary},
                    {"parameters", std::move(parameters)}});
  }
  return list.dump();
}

std::string manual_text(const Entry& entry, std::string_view manual) {
  std::string text = fmt::format("{} ({}): {}\n\n{}", entry.name, kind_name(entry), entry.summary, manual);
  if (entry.parameters.empty()) {
    return text;
  }
  text += "\nParameters in a stack file\n";
  for (const ParameterSpec& spec : entry.parameters) {
    text += fmt::format("  {:<22} {}{}{}: {}\n", spec.name, type_name(spec.type), spec.required ? ", required" : "",
                        range_text(spec), spec.meaning);
  }
  return text;
}

}  // namespace sluice
