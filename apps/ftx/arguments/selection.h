// SPDX-License-Identifier: Apache-2.0
#pragma once

// SelectionArguments: the options of the command line that say what of the sources is sent, and what of each file. The
// order of filter options counts, so each is taken when it is read.
//
// Not thread-safe. The options refer to it: it must outlive the parse.

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "apps/ftx/files/filter_syntax.h"
#include "apps/ftx/jobs/jobs.h"

namespace sluice::ftx {

class SelectionArguments {
 public:
  SelectionArguments();
  SelectionArguments(const SelectionArguments&) = delete;
  SelectionArguments& operator=(const SelectionArguments&) = delete;

  void add_to(CLI::App& app);
  /// -r was said, which -a alone does not mean where files are named.
  void recursive() { recursive_ = true; }
  /// -a was said, which means -o and -g, too.
  void archive() { archive_ = true; }
  /// Puts what the command line said into `options`. The error is a usage error, for people.
  [[nodiscard]] std::expected<void, std::string> put(PushOptions& options) const;

 private:
  void add_metadata_to(CLI::App& app);
  [[nodiscard]] std::expected<void, std::string> put_names(PushOptions& options) const;
  [[nodiscard]] std::expected<void, std::string> put_deletion(PushOptions& options) const;

  FilterSyntax rules_;
  std::optional<std::string> files_from_;
  bool from0_ = false;
  bool recursive_ = false;
  bool archive_ = false;
  bool owner_ = false;
  bool no_owner_ = false;
  bool group_ = false;
  bool no_group_ = false;
  bool attributes_ = false;
  bool numeric_ids_ = false;
  bool deletes_ = false;
  bool delete_excluded_ = false;
  bool force_delete_ = false;
  std::optional<std::uint32_t> delete_max_;
};

}  // namespace sluice::ftx
