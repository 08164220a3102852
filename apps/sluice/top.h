// SPDX-License-Identifier: Apache-2.0
#pragma once

// `sluice top`: the sockets of a server (`sluice serve`), asked through its own socket. On a terminal a screen that is
// drawn anew every now and then; else one line a socket, or JSON, once.
//
// Threat: what is shown are numbers and addresses, which are made into text here; nothing of a program's own making
// reaches the terminal.

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "sockets/protocol/protocol.h"

namespace sluice {

struct TopOptions {
  std::string path;         // of the server's socket; empty: default_server_path()
  unsigned interval_s = 1;  // between screens
  bool json = false;
};

/// What a server had at one time.
struct TopView {
  sockets::Totals totals;
  std::vector<sockets::SocketRecord> records;
};

/// What of it changes: its own, and how fast since the view before; zero where there was none.
struct TopRates {
  double received = 0;  // bytes a second
  double sent = 0;
};
[[nodiscard]] TopRates rates_between(const TopView& before, const TopView& now, std::chrono::duration<double> time);

/// In the order in which they are shown: by process, then by address, so that a row stays where it is.
void sort_for_top(TopView& view);
/// At most `height` lines of at most `width` columns. Columns that have no room go from the right, and then the line is
/// cut; what there is no line for is counted in the last one.
[[nodiscard]] std::vector<std::string> top_screen(const TopView& view, const TopRates& rates, std::size_t width,
                                                  std::size_t height);
/// The table without bounds.
[[nodiscard]] std::vector<std::string> top_lines(const TopView& view);
/// One line for each client, one for each socket, and one for all.
[[nodiscard]] std::vector<std::string> top_json(const TopView& view);

/// Answers an exit code.
int run_top(const TopOptions& options);

}  // namespace sluice
