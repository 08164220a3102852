// SPDX-License-Identifier: Apache-2.0
#include "stack/head/stack_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "stack/head/chain_check.h"
#include "stack/head/escaped.h"

namespace sluice {
namespace {

using Names = std::vector<std::string_view>;

std::string quoted_list(const Names& names) {
  std::string list;
  for (const std::string_view name : names) {
    list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", name);
  }
  return list;
}

std::string_view type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return "a text";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a real number";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

/// Gathers what is wrong with one file: bounded, and fit for a terminal, whatever the file is.
class Faults {
 public:
  explicit Faults(std::string_view file_name) : file_name_(escaped(file_name)) {}

  void add(int line, std::string_view key, std::string_view what) {
    ++count_;
    if (count_ <= StackFile::faults_max) {
      text_ += fmt::format("{}{}:{}: {}: {}", text_.empty() ? "" : "\n", file_name_, line, escaped(key), escaped(what));
    }
  }
  /// There is no such thing; the nearest spelling, and what there is.
  void add_unknown(int line, std::string_view key, std::string_view kind, std::string_view word, const Names& known) {
    if (count_ >= StackFile::faults_max) {
      ++count_;  // Looking for spellings is the costly part, and nobody would see them.
      return;
    }
    const bool absurd = word.size() > StackFile::name_bytes_max;
    const std::string_view near = absurd ? std::string_view() : nearest_spelling(word, known);
    std::string what = fmt::format("there is no {} \"{}\"", kind, escaped(word, StackFile::name_bytes_max));
    what += near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near);
    what += known.empty() ? "" : fmt::format(" (expected one of {})", quoted_list(known));
    add(line, key, what);
  }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::string text() const {
    return count_ <= StackFile::faults_max
               ? text_
               : fmt::format("{}\n{}: {} more faults are not shown", text_, file_name_, count_ - StackFile::faults_max);
  }

 private:
  std::string file_name_;
  std::string text_;
  std::size_t count_ = 0;
};

int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

/// The TOML value as a parameter of the specification's type; nothing when it has another type.
std::optional<ParameterValue> typed_value(const toml::node& node, ParameterSpec::Type type) {
  switch (type) {
    case ParameterSpec::Type::boolean:
      return node.is_boolean() ? std::optional<ParameterValue>(node.as_boolean()->get()) : std::nullopt;
    case ParameterSpec::Type::integer:
      return node.is_integer() ? std::optional<ParameterValue>(node.as_integer()->get()) : std::nullopt;
    case ParameterSpec::Type::real:
      return node.is_number() ? std::optional<ParameterValue>(*node.value<double>()) : std::nullopt;
    case ParameterSpec::Type::text:
      return node.is_string() ? std::optional<ParameterValue>(node.as_string()->get()) : std::nullopt;
    case ParameterSpec::Type::texts:
      break;
  }
  if (node.is_string()) {
    return std::vector<std::string>{node.as_string()->get()};
  }
  if (!node.is_array() ||
      !std::ranges::all_of(*node.as_array(), [](const toml::node& item) { return item.is_string(); })) {
    return std::nullopt;
  }
  std::vector<std::string> texts;
  for (const toml::node& item : *node.as_array()) {
    texts.push_back(item.as_string()->get());
  }
  return texts;
}

std::string_view expectation(ParameterSpec::Type type) {
  switch (type) {
    case ParameterSpec::Type::boolean:
      return "true or false";
    case ParameterSpec::Type::integer:
      return "an integer";
    case ParameterSpec::Type::real:
      return "a number";
    case ParameterSpec::Type::text:
      return "a text";
    case ParameterSpec::Type::texts:
      return "a text or a list of texts";
  }
  return "";
}

std::string range_of(const ParameterSpec& spec) {
  if (spec.maximum == std::numeric_limits<double>::max()) {
    return fmt::format("at least {}", spec.minimum);
  }
  return spec.minimum == std::numeric_limits<double>::lowest() ? fmt::format("at most {}", spec.maximum)
                                                               : fmt::format("{} .. {}", spec.minimum, spec.maximum);
}

template <class Number>
std::string number_fault(const ParameterSpec& spec, Number number) {
  const auto value = static_cast<double>(number);
  // Written so that "not a number", which TOML can say, is out of range.
  const bool fits = value >= spec.minimum && value <= spec.maximum;
  return fits ? std::string() : fmt::format("expected {}, found {}", range_of(spec), number);
}

std::string choice_fault(const ParameterSpec& spec, std::string_view text) {
  if (spec.choices.empty() || std::ranges::find(spec.choices, text) != spec.choices.end()) {
    return {};
  }
  const bool absurd = text.size() > StackFile::name_bytes_max;
  const std::string_view near = absurd ? std::string_view() : nearest_spelling(text, spec.choices);
  return fmt::format("expected one of {}, found \"{}\"{}", quoted_list(spec.choices),
                     escaped(text, StackFile::name_bytes_max),
                     near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near));
}

/// What is wrong with a value of the right type; empty when nothing is.
std::string value_fault(const ParameterSpec& spec, const ParameterValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    return number_fault(spec, *integer);
  }
  if (const auto* real = std::get_if<double>(&value)) {
    return number_fault(spec, *real);
  }
  if (const auto* text = std::get_if<std::string>(&value)) {
    return choice_fault(spec, *text);
  }
  std::string fault;
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    for (std::size_t i = 0; i < texts->size() && fault.empty(); ++i) {
      fault = choice_fault(spec, (*texts)[i]);
    }
  }
  return fault;
}

/// Turns one parsed document into declarations.
class Reader {
 public:
  Reader(std::string_view file_name, const Registry& registry) : registry_(registry), faults_(file_name) {}

  std::vector<StackDeclaration> read(const toml::table& root) {
    for (const auto& [key, node] : root) {
      if (key != "stack" && key != "autopush") {
        faults_.add_unknown(line_of(node), key.str(), "key", key.str(), {"stack", "autopush"});
      }
    }
    read_autopush(root);
    std::vector<StackDeclaration> stacks;
    const toml::table* declared = root["stack"].as_table();
    if (declared == nullptr || declared->empty()) {
      faults_.add(root.contains("stack") ? line_of(*root.get("stack")) : 1, "stack",
                  "expected at least one table [stack.NAME]");
      return stacks;
    }
    for (const auto& [name, node] : *declared) {
      if (name.str().size() > StackFile::name_bytes_max) {
        faults_.add(line_of(node), "stack", fmt::format("a name has at most {} bytes", StackFile::name_bytes_max));
      } else if (const toml::table* table = node.as_table()) {
        stacks.push_back(read_stack(name.str(), *table));
      } else {
        faults_.add(line_of(node), fmt::format("stack.{}", name.str()),
                    fmt::format("expected a table, found {}", type_name(node)));
      }
    }
    std::ranges::sort(stacks, {}, [](const StackDeclaration& stack) { return std::pair(stack.line, stack.name); });
    return stacks;
  }

  [[nodiscard]] const Faults& faults() const { return faults_; }

 private:
  void read_autopush(const toml::table& root) {
    const toml::table* lists = root["autopush"].as_table();
    if (lists == nullptr) {
      if (root.contains("autopush")) {
        faults_.add(line_of(*root.get("autopush")), "autopush",
                    "expected a table of lists, one for each kind of driver");
      }
      return;
    }
    for (const auto& [kind, node] : *lists) {
      const std::string key = fmt::format("autopush.{}", kind.str());
      if (entry_of(kind.str(), Entry::Kind::driver, line_of(node), key) != nullptr) {
        read_push(key, node, autopush_[std::string(kind.str())]);
      }
    }
  }

  StackDeclaration read_stack(std::string_view name, const toml::table& table) {
    StackDeclaration stack;
    stack.name = name;
    stack.line = line_of(table);
    const std::string prefix = fmt::format("stack.{}", name);
    const std::size_t faults_before = faults_.count();
    read_mode(prefix, table, stack);
    read_driver(prefix, table, stack);
    if (const auto automatic = autopush_.find(stack.driver.instance); automatic != autopush_.end()) {
      stack.push = automatic->second;
    }
    if (const toml::node* push = table.get("push")) {
      read_push(prefix + ".push", *push, stack.push);
    }
    read_parameters(prefix, table, stack);
    // A chain of which a part is unknown would only be found wrong a second time.
    if (faults_.count() == faults_before) {
      check_chain(prefix, stack);
    }
    read_host(prefix, table, stack);
    return stack;
  }

  void read_host(const std::string& prefix, const toml::table& table, StackDeclaration& stack) {
    stack.host = std::ranges::any_of(
        stack.push, [](const ModuleDeclaration& module) { return module.entry->upper == Service::network; });
    const toml::node* host = table.get("host");
    if (host == nullptr) {
      return;
    }
    const auto wanted = host->value_exact<bool>();
    if (!wanted) {
      faults_.add(line_of(*host), prefix + ".host", fmt::format("expected true or false, found {}", type_name(*host)));
    } else if (*wanted && !stack.host) {
      faults_.add(line_of(*host), prefix + ".host", "expected \"ip\" in push, which answers");
    }
    stack.host = stack.host && wanted.value_or(false);
  }

  /// `path` is the key's former name.
  void read_mode(const std::string& prefix, const toml::table& table, StackDeclaration& stack) {
    const std::string_view key = table.contains("mode") ? "mode" : "path";
    const toml::node* mode = table.get(key);
    if (mode == nullptr) {
      return;
    }
    const std::string name = mode->value_or(std::string());
    if (const std::optional<ProcessingMode> known = mode_named(name)) {
      stack.mode = *known;
      return;
    }
    const std::string_view near = nearest_spelling(name, Names{"layered", "fused"});
    faults_.add(line_of(*mode), fmt::format("{}.{}", prefix, key),
                fmt::format("expected \"layered\" or \"fused\"{}",
                            near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near)));
  }

  const Entry* entry_of(std::string_view name, Entry::Kind kind, int line, std::string_view key) {
    const std::string_view word = kind == Entry::Kind::driver ? "driver" : "module";
    const Entry* entry = registry_.find(name);
    if (entry != nullptr && entry->kind == kind) {
      return entry;
    }
    if (entry != nullptr) {
      faults_.add(line, key,
                  fmt::format("\"{}\" is a {}, and a {} is expected here", name,
                              kind == Entry::Kind::driver ? "module" : "driver", word));
      return nullptr;
    }
    Names known;
    for (const auto& [candidate, other] : registry_.entries()) {
      if (other.kind == kind) {
        known.push_back(candidate);
      }
    }
    faults_.add_unknown(line, key, word, name, known);
    return nullptr;
  }

  void read_driver(const std::string& prefix, const toml::table& table, StackDeclaration& stack) {
    const toml::node* node = table.get("driver");
    const toml::table* driver = node == nullptr ? nullptr : node->as_table();
    const toml::node* kind = driver == nullptr ? nullptr : driver->get("kind");
    if (kind == nullptr || !kind->is_string()) {
      faults_.add(node == nullptr ? stack.line : line_of(*node), prefix + ".driver",
                  "expected a table that names a driver, such as { kind = \"packet\", device = \"veth0\" }");
      return;
    }
    stack.driver.instance = kind->as_string()->get();
    stack.driver.line = line_of(*node);
    stack.driver.entry = entry_of(stack.driver.instance, Entry::Kind::driver, line_of(*kind), prefix + ".driver.kind");
    if (stack.driver.entry != nullptr) {
      read_values(prefix + ".driver", *driver, stack.driver, "kind");
    }
  }

  void read_push(const std::string& key, const toml::node& node, std::vector<ModuleDeclaration>& push) {
    const toml::array* list = node.as_array();
    if (list == nullptr) {
      faults_.add(line_of(node), key, fmt::format("expected a list of modules, found {}", type_name(node)));
      return;
    }
    for (const toml::node& item : *list) {
      if (!item.is_string()) {
        faults_.add(line_of(item), key, fmt::format("expected the name of a module, found {}", type_name(item)));
        continue;
      }
      add_module(key, item.as_string()->get(), line_of(item), push);
    }
  }

  void add_module(const std::string& key, const std::string& instance, int line, std::vector<ModuleDeclaration>& push) {
    if (instance.size() > StackFile::name_bytes_max) {
      faults_.add(line, key, fmt::format("a name has at most {} bytes", StackFile::name_bytes_max));
      return;
    }
    if (std::ranges::find(push, instance, &ModuleDeclaration::instance) != push.end()) {
      faults_.add(line, key,
                  fmt::format("\"{0}\" is pushed twice; give each a name of its own, such as \"{0}:low\"", instance));
      return;
    }
    // Bounded like the stream itself, which says the same to a program that pushes by hand.
    if (push.size() + 1 >= Chain::modules_max) {
      faults_.add(line, key, fmt::format("a stream has at most {} modules", Chain::modules_max));
      return;
    }
    const Entry* entry = entry_of(instance.substr(0, instance.find(':')), Entry::Kind::module, line, key);
    if (entry != nullptr) {
      push.push_back({instance, entry, {}, line});
    }
  }

  void read_parameters(const std::string& prefix, const toml::table& table, StackDeclaration& stack) {
    Names known{"mode", "path", "driver", "push", "host"};
    const toml::table no_parameters;  // a copy of a table would forget its lines
    for (ModuleDeclaration& module : stack.push) {
      known.push_back(module.instance);
      const toml::node* node = table.get(module.instance);
      const toml::table* parameters = node == nullptr ? nullptr : node->as_table();
      const std::string key = fmt::format("{}.{}", prefix, module.instance);
      if (node != nullptr && parameters == nullptr) {
        faults_.add(line_of(*node), key, fmt::format("expected a table of parameters, found {}", type_name(*node)));
      } else {
        read_values(key, parameters == nullptr ? no_parameters : *parameters, module, "");
      }
    }
    for (const auto& [key, node] : table) {
      if (std::ranges::find(known, key.str()) != known.end()) {
        continue;
      }
      if (registry_.find(key.str().substr(0, key.str().find(':'))) != nullptr) {
        faults_.add(line_of(node), fmt::format("{}.{}", prefix, key.str()),
                    fmt::format("parameters for \"{}\", which `push` does not name", key.str()));
      } else {
        faults_.add_unknown(line_of(node), fmt::format("{}.{}", prefix, key.str()), "key", key.str(), known);
      }
    }
  }

  void read_values(const std::string& prefix, const toml::table& table, ModuleDeclaration& module,
                   std::string_view besides) {
    const std::vector<ParameterSpec>& specs = module.entry->parameters;
    Names known;
    for (const ParameterSpec& spec : specs) {
      known.push_back(spec.name);
      if (spec.required && !table.contains(spec.name)) {
        faults_.add(module.line, fmt::format("{}.{}", prefix, spec.name),
                    fmt::format("\"{}\" needs this parameter: {}", module.instance, spec.meaning));
      }
    }
    for (const auto& [key, node] : table) {
      const std::string name = fmt::format("{}.{}", prefix, key.str());
      const auto spec = std::ranges::find(specs, key.str(), &ParameterSpec::name);
      if (spec != specs.end()) {
        read_value(name, *spec, node, module.parameters);
      } else if (key.str() != besides) {
        faults_.add_unknown(line_of(node), name, "parameter", key.str(), known);
      }
    }
  }

  void read_value(const std::string& key, const ParameterSpec& spec, const toml::node& node, Parameters& parameters) {
    std::optional<ParameterValue> value = typed_value(node, spec.type);
    if (!value) {
      faults_.add(line_of(node), key, fmt::format("expected {}, found {}", expectation(spec.type), type_name(node)));
      return;
    }
    if (const std::string fault = value_fault(spec, *value); !fault.empty()) {
      faults_.add(line_of(node), key, fault);
      return;
    }
    parameters.set(std::string(spec.name), std::move(*value));
  }

  void check_chain(const std::string& prefix, const StackDeclaration& stack) {
    std::vector<const Entry*> chain{stack.driver.entry};
    for (const ModuleDeclaration& module : stack.push) {
      chain.push_back(module.entry);
    }
    if (const auto fault = chain_fault(chain, registry_)) {
      faults_.add(stack.push[fault->position - 1].line, prefix + ".push", fault->text);
    }
  }

  const Registry& registry_;
  Faults faults_;
  std::map<std::string, std::vector<ModuleDeclaration>, std::less<>> autopush_;
};

Result<toml::table> parse_toml(std::string_view text, std::string_view file_name) {
  try {
    return toml::parse(text, file_name);
  } catch (const toml::parse_error& error) {
    return fail(EINVAL, fmt::format("{}:{}: syntax: {}", escaped(file_name), error.source().begin.line,
                                    escaped(error.description())));
  }
}

}  // namespace

Error in_stack(const StackDeclaration& declaration, const ModuleDeclaration& module, const Error& error) {
  const std::string what = error.text.empty() ? std::generic_category().message(error.code) : error.text;
  return {error.code,
          fmt::format("stack '{}': {}: {}", escaped(declaration.name), escaped(module.instance), escaped(what))};
}

Result<StackFile> StackFile::load(const std::filesystem::path& path, const Registry& registry) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  char chunk[4096];
  while (file && text.size() <= file_bytes_max) {
    file.read(chunk, sizeof chunk);
    text.append(chunk, static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof() && text.size() <= file_bytes_max) {
    const int code = errno != 0 ? errno : EIO;
    return fail(code, fmt::format("cannot read the stack file {}: {}", escaped(path.string()),
                                  std::generic_category().message(code)));
  }
  return parse(text, path.string(), registry);
}

Result<StackFile> StackFile::parse(std::string_view text, std::string_view file_name, const Registry& registry) {
  if (text.size() > file_bytes_max) {
    return fail(EINVAL, fmt::format("{}:1: the file is larger than {} bytes", escaped(file_name), file_bytes_max));
  }
  Result<toml::table> root = parse_toml(text, file_name);
  if (!root) {
    return std::unexpected(root.error());
  }
  Reader reader(file_name, registry);
  StackFile file;
  file.file_name_ = file_name;
  file.stacks_ = reader.read(*root);
  if (reader.faults().count() > 0) {
    return fail(EINVAL, reader.faults().text());
  }
  return file;
}

Result<const StackDeclaration*> StackFile::find(std::string_view name) const {
  if (name.empty() && stacks_.size() == 1) {
    return &stacks_.front();
  }
  Names known;
  for (const StackDeclaration& stack : stacks_) {
    if (stack.name == name) {
      return &stack;
    }
    known.push_back(stack.name);
  }
  if (name.empty()) {
    return fail(EINVAL, fmt::format("{} declares several stacks; name one of {}", escaped(file_name_),
                                    escaped(quoted_list(known))));
  }
  const std::string_view near = nearest_spelling(name, known);
  return fail(ENOENT, fmt::format("{}: there is no stack \"{}\"{} (it declares {})", escaped(file_name_), escaped(name),
                                  near.empty() ? "" : fmt::format("; did you mean \"{}\"?", escaped(near)),
                                  escaped(quoted_list(known))));
}

Result<std::unique_ptr<Stream>> open_stack(StreamSet& set, const StackDeclaration& declaration,
                                           const HeadOptions& options) {
  auto driver = declaration.driver.entry->make(set, declaration.driver.parameters);
  if (!driver) {
    return std::unexpected(in_stack(declaration, declaration.driver, driver.error()));
  }
  auto stream = Stream::open(set, std::move(*driver), options);
  if (!stream) {
    return std::unexpected(in_stack(declaration, declaration.driver, stream.error()));
  }
  (*stream)->set_mode(declaration.mode);
  for (const ModuleDeclaration& module : declaration.push) {
    auto made = module.entry->make(set, module.parameters);
    Status pushed = made ? (*stream)->push(std::move(*made)) : std::unexpected(made.error());
    if (!pushed) {
      return std::unexpected(in_stack(declaration, module, pushed.error()));
    }
  }
  return stream;
}

Result<std::unique_ptr<Stream>> open_host(StreamSet& set, const StackDeclaration& declaration) {
  if (!declaration.host) {
    return nullptr;
  }
  StackDeclaration host = declaration;
  host.name += ", host";
  // What writes a file or spoils frames stays with the stream that it was declared for.
  std::erase_if(host.push, [](const ModuleDeclaration& module) {
    return module.entry->transparent ||
           (module.entry->upper != Service::network && module.entry->upper != Service::transport);
  });
  return open_stack(set, host);
}

}  // namespace sluice
