// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cctype>
#include <string>

#include "apps/ftx/files/system.h"

namespace sluice::ftx::test {

/// A file system to which upper and lower case are the same.
class FoldsCase final : public System {
 public:
  int openat(int directory, const char* path, int flags, mode_t mode) override {
    return System::openat(directory, folded(path).c_str(), flags, mode);
  }
  int fstatat(int directory, const char* path, struct stat* status, int flags) override {
    return System::fstatat(directory, folded(path).c_str(), status, flags);
  }
  int renameat(int directory, const char* from, int to_directory, const char* to) override {
    return System::renameat(directory, folded(from).c_str(), to_directory, folded(to).c_str());
  }
  int unlinkat(int directory, const char* path, int flags) override {
    return System::unlinkat(directory, folded(path).c_str(), flags);
  }
  int mkdirat(int directory, const char* path, mode_t mode) override {
    return System::mkdirat(directory, folded(path).c_str(), mode);
  }
  int symlinkat(const char* target, int directory, const char* path) override {
    return System::symlinkat(target, directory, folded(path).c_str());
  }
  ssize_t readlinkat(int directory, const char* path, char* out, std::size_t size) override {
    return System::readlinkat(directory, folded(path).c_str(), out, size);
  }
  int utimensat(int directory, const char* path, const timespec times[2], int flags) override {
    return System::utimensat(directory, folded(path).c_str(), times, flags);
  }

 private:
  static std::string folded(std::string name) {
    std::ranges::transform(name, name.begin(), [](unsigned char letter) { return std::tolower(letter); });
    return name;
  }
};

}  // namespace sluice::ftx::test
