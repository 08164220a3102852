// SPDX-License-Identifier: Apache-2.0
#pragma once

// OpenDirectories: descriptors of the directories of a tree, opened when they are asked for. The few that were used
// last stay open, since the entries of a directory follow each other in a list. Any other is found again from the
// nearest one that is open, component by component.
//
// Threat: somebody swaps a directory of the tree for a symbolic link while it is read or written. Each step goes from
// an open descriptor to one component, and whoever supplies the step does not follow links (apps/ftx/files/walk.h).
//
// Borrows the list. Not thread-safe. at() is O(open_max), and O(depth) steps for a directory that is not open.

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "apps/ftx/files/descriptor.h"
#include "apps/ftx/protocol/manifest.h"

namespace sluice::ftx {

class OpenDirectories {
 public:
  static constexpr std::size_t open_max = 16;
  /// Opens the directory `index` of the list, which lies in the open directory `parent`. Invalid, and errno: it cannot.
  using Enter = std::function<Descriptor(int parent, std::uint32_t index)>;

  /// `root` is where entries without a parent lie; it may be invalid where `enter` needs none.
  OpenDirectories(std::span<const FileEntry> entries, Descriptor root, Enter enter)
      : entries_(entries), root_(std::move(root)), enter_(std::move(enter)) {}

  /// The directory that FileEntry::parent names, valid until the next call. -1, and errno: one on the way cannot be
  /// opened.
  [[nodiscard]] int at(std::uint32_t parent);
  [[nodiscard]] int root() const { return root_.get(); }

 private:
  struct Open {
    std::uint32_t parent = 0;  // 0: unused
    std::uint64_t used = 0;    // larger: more recently
    Descriptor descriptor{};
  };

  [[nodiscard]] Open* find(std::uint32_t parent);

  std::span<const FileEntry> entries_;
  Descriptor root_;
  Enter enter_;
  std::array<Open, open_max> open_{};
  std::uint64_t uses_ = 0;
  std::vector<std::uint32_t> way_;
};

}  // namespace sluice::ftx
