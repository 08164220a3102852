// SPDX-License-Identifier: Apache-2.0
#pragma once

// Config: defaults for the flags of transfers, in a TOML file of the user's:
//
//     congestion = "cubic"        a flag's long name, without the dashes
//     progress   = false
//
//     [host.backup]               for this host alone, as the command line names it
//     rate = 200
//
// A flag of the command line wins, then the host's section, then the rest. `ftx remote`, which ssh starts, reads none
// of it: the near side asks for what it wants, so that a file there changes nothing here. Nor does `ftx serve`.
//
// Threats: another user who writes the file, and with it the program that --ssh starts: it must be this user's or
// root's, and no others' to write (apps/ftx/security/private_file.h). A default that turns protection off without a
// word: the caller says which flags may be set.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice::ftx {

/// What one line sets.
struct Setting {
  std::string key;
  std::string value;     // "true" and "false" of a flag
  bool is_flag = false;  // it was true or false, without quotes
  std::string origin;    // "FILE:LINE", for errors

  bool operator==(const Setting&) const = default;
};

class Config {
 public:
  struct Section {
    std::string host;  // empty: for all
    std::vector<Setting> settings;
  };

  /// The file that $FTX_CONFIG names, none where that is empty; without it config.toml in the configuration directory,
  /// if it is there. EINVAL and what the operating system says, with a text that names file, line and key.
  [[nodiscard]] static Result<Config> load(std::span<const std::string> keys);
  /// `keys`: those that may be set. `file`: for errors.
  [[nodiscard]] static Result<Config> parse(std::string_view text, std::string_view file,
                                            std::span<const std::string> keys);

  /// What each section that counts for `host` sets, in the order in which they win.
  [[nodiscard]] std::vector<std::span<const Setting>> sections_for(std::string_view host) const;

 private:
  std::vector<Section> sections_;
};

}  // namespace sluice::ftx
