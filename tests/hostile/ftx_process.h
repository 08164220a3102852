// SPDX-License-Identifier: Apache-2.0
#pragma once

// FtxProcess: the real ftx as a child: started, watched, ended. Every wait is bounded.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace sluice::ftx::hostile {

using namespace std::chrono_literals;
using Millis = std::chrono::milliseconds;

class FtxProcess {
 public:
  /// Runs ftx with HOME and the working directory `folder`. Its input and output are pipes to this process.
  FtxProcess(const std::vector<std::string>& arguments, const std::filesystem::path& folder);
  ~FtxProcess();
  FtxProcess(const FtxProcess&) = delete;
  FtxProcess& operator=(const FtxProcess&) = delete;

  void write(ConstBytes bytes);
  void close_input();
  /// What it wrote next; empty: nothing within `timeout`, or the end.
  [[nodiscard]] std::vector<std::byte> read(Millis timeout);
  /// All that it has written until now, and what was read before.
  const std::string& output();
  /// Its exit code, minus the signal that killed it; null: it still runs after `timeout`.
  [[nodiscard]] std::optional<int> wait(Millis timeout);
  void signal(int number) const;
  /// The most memory of its own that it was seen with.
  [[nodiscard]] std::uint64_t own_kib_most() const { return own_kib_most_; }
  void look_at_memory();

 private:
  int pid_ = -1;
  int input_ = -1;
  int output_ = -1;
  std::string text_;
  std::uint64_t own_kib_most_ = 0;
};

}  // namespace sluice::ftx::hostile
