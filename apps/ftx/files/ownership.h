// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ownership: which user and group a receiver gives to what it makes, and whether what is there has them already.
//
// As rsync has it, only a privileged process (CAP_CHOWN) sets the user, and the group, too, who is a member of it; what
// this process may not set stays as it is. A name counts where this host knows it, else the number; 0 is 0 everywhere.
// An id that the user namespace of this process does not map stays as it is, too: nobody here could have it.
//
// Threats: a peer that gives files to whomever it likes. What it says of owners counts only as far as Kept says, which
// whoever started this process has said. A symbolic link that is swapped in: an owner is set through a descriptor, or
// of a link itself. Set-user-ID bits: there are none in a list, and chown(2) clears those that a file has.
//
// Not thread-safe.

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/ftx/files/accounts.h"
#include "apps/ftx/protocol/manifest.h"

namespace sluice::ftx {

/// What a receiver sets of the metadata in a list.
struct Kept {
  bool user = false;
  bool group = false;
  bool attributes = false;                     // else a list that has extended attributes is refused
  std::shared_ptr<const Accounts> accounts{};  // null: numbers alone count
};

/// The ids that the user namespace of a process maps, of users or of groups (user_namespaces(7)).
class MappedIds {
 public:
  /// All of them.
  MappedIds() = default;
  /// What /proc/self/uid_map or gid_map says: lines of the first id inside, the first outside, and how many. All, where
  /// it says nothing.
  explicit MappedIds(const std::string& path);

  [[nodiscard]] bool contain(std::uint32_t id) const;

 private:
  struct Range {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  std::vector<Range> ranges_;  // none: all
};

class Ownership {
 public:
  /// What a process may set.
  struct Rights {
    bool privileged = false;
    std::vector<gid_t> groups{};  // that it is a member of
    MappedIds mapped_users{};
    MappedIds mapped_groups{};
  };

  /// The rights are those of this process now.
  explicit Ownership(Kept kept = {});
  /// For tests: of a process with other rights.
  Ownership(Kept kept, Rights rights) : kept_(std::move(kept)), rights_(std::move(rights)) {}

  static constexpr uid_t same_user = static_cast<uid_t>(-1);  // as chown(2) has it
  static constexpr gid_t same_group = static_cast<gid_t>(-1);
  struct Ids {
    uid_t user = same_user;
    gid_t group = same_group;
    bool operator==(const Ids&) const = default;
  };
  /// What is set of `entry`.
  [[nodiscard]] Ids ids_of(const FileEntry& entry) const;
  [[nodiscard]] bool same_user_of(const struct stat& status, const FileEntry& entry) const;
  [[nodiscard]] bool same_group_of(const struct stat& status, const FileEntry& entry) const;
  [[nodiscard]] bool same(const struct stat& status, const FileEntry& entry) const {
    return same_user_of(status, entry) && same_group_of(status, entry);
  }

  /// Of what is open. False, and errno.
  [[nodiscard]] bool set(int descriptor, const FileEntry& entry) const;
  /// Of a symbolic link itself. False, and errno.
  [[nodiscard]] bool set_of_link(int directory, const std::string& name, const FileEntry& entry) const;

 private:
  [[nodiscard]] uid_t user_of(const Principal& user) const;
  [[nodiscard]] gid_t group_of(const Principal& group) const;

  Kept kept_;
  Rights rights_;
};

}  // namespace sluice::ftx
