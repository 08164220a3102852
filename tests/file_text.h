// SPDX-License-Identifier: Apache-2.0
#pragma once

// What is in a file, at once: an iterator over its characters takes longer than most tests do, without optimisation.

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace sluice {

/// Empty where there is no such file.
inline std::string file_text(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

}  // namespace sluice
