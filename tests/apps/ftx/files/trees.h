// SPDX-License-Identifier: Apache-2.0
#pragma once

// For tests: what a directory tree holds, as a value that can be compared and printed.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <string>

#include "tests/file_text.h"

namespace sluice::ftx::test {

namespace fs = std::filesystem;

inline void write_file(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

/// One entry of a tree.
struct Node {
  mode_t mode = 0;  // with its type
  std::int64_t mtime_s = 0, mtime_ns = 0;
  std::string content;  // of a file; of a link its target
  uid_t user = ::geteuid();
  gid_t group = ::getegid();
  std::map<std::string, std::string> attributes{};  // of its own, user.*
  bool operator==(const Node&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const Node& node) {
  return out << std::oct << node.mode << std::dec << " " << node.mtime_s << "." << node.mtime_ns << " "
             << node.content.size() << " bytes of " << node.user << ":" << node.group << ", " << node.attributes.size()
             << " attributes";
}

using Tree = std::map<std::string, Node>;  // by path below the top

/// The extended attributes of what is no link; none where the file system has none.
inline std::map<std::string, std::string> attributes_of(const fs::path& path) {
  std::map<std::string, std::string> found;
  std::string names(65536, '\0');
  const ssize_t size = ::llistxattr(path.c_str(), names.data(), names.size());
  names.resize(static_cast<std::size_t>(std::max<ssize_t>(0, size)));
  for (std::size_t from = 0; from < names.size(); from = names.find('\0', from) + 1) {
    const std::string name = names.c_str() + from;
    std::string value(65536, '\0');
    const ssize_t got = ::lgetxattr(path.c_str(), name.c_str(), value.data(), value.size());
    value.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
    if (name.starts_with("user.")) {
      found[name] = value;
    }
  }
  return found;
}

/// The top itself is "".
inline Tree tree_of(const fs::path& top) {
  Tree tree;
  const auto add = [&](const fs::path& path, const std::string& name) {
    struct stat status{};
    ASSERT_EQ(::lstat(path.c_str(), &status), 0) << path;
    // The permissions of a link are no property of it.
    const bool link = S_ISLNK(status.st_mode);
    tree[name] = {link ? S_IFLNK : status.st_mode,
                  status.st_mtim.tv_sec,
                  status.st_mtim.tv_nsec,
                  link                      ? fs::read_symlink(path).string()
                  : S_ISREG(status.st_mode) ? file_text(path)
                                            : std::string(),
                  status.st_uid,
                  status.st_gid,
                  attributes_of(path)};
  };
  add(top, "");
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(top)) {
    add(entry.path(), entry.path().lexically_relative(top).string());
  }
  return tree;
}

/// Where two trees differ; empty: nowhere.
inline std::string difference(const Tree& left, const Tree& right) {
  for (const auto& [path, node] : left) {
    if (!right.contains(path)) {
      return "'" + path + "' is missing";
    }
    if (right.at(path) != node) {
      return "'" + path + "' differs: " + testing::PrintToString(node) + ", " + testing::PrintToString(right.at(path));
    }
  }
  for (const auto& [path, node] : right) {
    if (!left.contains(path)) {
      return "'" + path + "' is too much";
    }
  }
  return {};
}

/// Also what may not be written.
inline void remove_tree(const fs::path& top) {
  std::error_code ignored;
  for (auto at = fs::recursive_directory_iterator(top, ignored); at != fs::recursive_directory_iterator(); ++at) {
    if (at->is_directory() && !at->is_symlink()) {
      fs::permissions(at->path(), fs::perms::owner_all, fs::perm_options::add, ignored);
    }
  }
  fs::remove_all(top);
}

}  // namespace sluice::ftx::test
