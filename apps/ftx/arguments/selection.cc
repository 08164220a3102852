// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/arguments/selection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>

#include "apps/ftx/files/name_list.h"
#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

constexpr std::size_t list_bytes_max = std::size_t{256} << 20;

/// All of a file that the user names; "-" is standard input.
std::expected<std::string, std::string> read_list(const std::string& path) {
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
  const File opened(path == "-" ? nullptr : std::fopen(path.c_str(), "rbe"),
                    [](std::FILE* file) { return std::fclose(file); });
  std::FILE* const file = path == "-" ? stdin : opened.get();
  if (file == nullptr) {
    return std::unexpected(std::strerror(errno));
  }
  std::string content;
  std::array<char, 64 * 1024> piece;
  for (;;) {
    const std::size_t got = std::fread(piece.data(), 1, piece.size(), file);
    content.append(piece.data(), got);
    if (content.size() > list_bytes_max) {
      return std::unexpected("it is larger than " + std::to_string(list_bytes_max) + " bytes");
    }
    if (got == 0) {
      break;
    }
  }
  return std::ferror(file) == 0 ? std::expected<std::string, std::string>(std::move(content))
                                : std::unexpected(std::strerror(errno));
}

}  // namespace

SelectionArguments::SelectionArguments() : rules_(read_list) {}

void SelectionArguments::add_metadata_to(CLI::App& app) {
  app.add_flag("-X,--xattrs", attributes_, "keep extended attributes (user.*) of files and directories");
  auto* owner = app.add_flag("-o,--owner", owner_, "keep the user who owns what is sent, where root receives");
  auto* group = app.add_flag("-g,--group", group_, "keep the group, where root or a member of that group receives");
  app.add_flag("--no-owner", no_owner_, "of what -a means not -o")->excludes(owner);
  app.add_flag("--no-group", no_group_, "of what -a means not -g")->excludes(group);
  app.add_flag("--numeric-ids", numeric_ids_, "owners by number, whatever their names are");
}

void SelectionArguments::add_to(CLI::App& app) {
  add_metadata_to(app);
  const auto add = [&app](const char* name, const char* text, auto take) {
    app.add_option_function<std::string>(
           name,
           [take](const std::string& value) {
             if (const auto taken = take(value); !taken) {
               throw CLI::ValidationError(taken.error());
             }
           },
           text)
        ->trigger_on_parse();
  };
  add("-f,--filter", "a filter rule, as rsync has it: '- PATTERN', '+ PATTERN', '. FILE', ...",
      [this](const std::string& rule) { return rules_.add_rule(rule); });
  add("--exclude", "leave out what matches this pattern",
      [this](const std::string& pattern) { return rules_.add_pattern(pattern, false); });
  add("--include", "do not leave out what matches this pattern",
      [this](const std::string& pattern) { return rules_.add_pattern(pattern, true); });
  add("--exclude-from", "patterns to exclude, one a line; -: standard input",
      [this](const std::string& path) { return rules_.add_patterns_of(path, false); });
  add("--include-from", "patterns to include, one a line; -: standard input",
      [this](const std::string& path) { return rules_.add_patterns_of(path, true); });
  app.add_option("--files-from", files_from_,
                 "send only what this file names, one a line, relative to the one source; -: standard input");
  app.add_flag("-0,--from0", from0_, "a NUL is behind each name of --files-from, instead of the end of the line");
  app.add_flag("--delete", deletes_,
               "remove from the directories that are sent what the source does not have, when all files are in place");
  app.add_flag("--delete-excluded", delete_excluded_, "as --delete, and also what filter rules leave out");
  app.add_option("--max-delete", delete_max_, "remove nothing at all where it would be more than so many");
  app.add_flag("--force-delete", force_delete_, "with --delete: also where a source is empty");
}

std::expected<void, std::string> SelectionArguments::put(PushOptions& options) const {
  options.select.rules = rules_.rules(delete_excluded_);
  options.select.attributes = attributes_;
  options.select.user = (archive_ || owner_) && !no_owner_;
  options.select.group = (archive_ || group_) && !no_group_;
  options.numeric_ids = numeric_ids_;
  auto done = put_deletion(options);
  return done && files_from_ ? put_names(options) : done;
}

std::expected<void, std::string> SelectionArguments::put_deletion(PushOptions& options) const {
  if (!deletes_ && !delete_excluded_) {
    return delete_max_ || force_delete_
               ? std::expected<void, std::string>(std::unexpected("--max-delete and --force-delete go with --delete"))
               : std::expected<void, std::string>();
  }
  if (options.trees == Trees::none || files_from_) {
    return std::unexpected("--delete goes with -a or -r, and not with --files-from: it needs directories as a whole");
  }
  Deletion& deletion = options.deletion.emplace();
  deletion.empty_sources = force_delete_;
  deletion.files_max = delete_max_;
  std::ranges::copy_if(options.select.rules, std::back_inserter(deletion.rules), &FilterRule::receives);
  options.select.left_out = true;
  return {};
}

std::expected<void, std::string> SelectionArguments::put_names(PushOptions& options) const {
  if (options.trees == Trees::none || options.sources.size() != 1) {
    return std::unexpected("--files-from: name one source, a directory, and say -a or -r");
  }
  const auto list = read_list(*files_from_);
  if (!list) {
    return std::unexpected("--files-from: cannot read '" + printable(*files_from_) + "': " + list.error());
  }
  auto names = parse_name_list(*list, from0_ ? NameEnd::nul : NameEnd::line);
  if (!names) {
    return std::unexpected("--files-from: '" + printable(*files_from_) + "', " + names.error());
  }
  options.select.names = *std::move(names);
  options.select.recursive = recursive_;
  return {};
}

}  // namespace sluice::ftx
