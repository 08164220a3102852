// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/ownership.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <fstream>

#include "apps/ftx/files/system.h"

namespace sluice::ftx {
namespace {

/// capabilities(7): "CAP_CHOWN: Make arbitrary changes to file UIDs and GIDs".
bool may_chown() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  return ::syscall(SYS_capget, &header, data.data()) == 0 && (data[0].effective & (1U << CAP_CHOWN)) != 0;
}

std::vector<gid_t> own_groups() {
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(0, count)));
  groups.push_back(::getegid());
  return groups;
}

/// Calls chown(user, group) for what is wanted. chown(2) answers EINVAL to an id that a mount does not map, too
/// (mount_setattr(2), "ID-mapped mounts"): the other one is set all the same. False, and errno.
template <class Chown>
bool set_each(const Ownership::Ids& ids, Chown chown) {
  const auto set = [&](uid_t user, gid_t group) { return retried([&] { return chown(user, group); }) == 0; };
  if (ids == Ownership::Ids{} || set(ids.user, ids.group)) {
    return true;
  }
  return errno == EINVAL && (set(ids.user, Ownership::same_group) || errno == EINVAL) &&
         (set(Ownership::same_user, ids.group) || errno == EINVAL);
}

}  // namespace

MappedIds::MappedIds(const std::string& path) {
  std::ifstream file(path);
  std::uint32_t outside = 0;
  for (Range range; file >> range.first >> outside >> range.count;) {
    ranges_.push_back(range);
  }
}

bool MappedIds::contain(std::uint32_t id) const {
  return ranges_.empty() || std::ranges::any_of(ranges_, [id](const Range& range) {
           return id >= range.first && id - range.first < range.count;
         });
}

Ownership::Ownership(Kept kept) : kept_(std::move(kept)) {
  if (kept_.user || kept_.group) {
    rights_ = {.privileged = may_chown(),
               .groups = own_groups(),
               .mapped_users = MappedIds("/proc/self/uid_map"),
               .mapped_groups = MappedIds("/proc/self/gid_map")};
  }
}

Ownership::Ids Ownership::ids_of(const FileEntry& entry) const {
  Ids ids;
  if (entry.metadata && kept_.user && entry.metadata->user) {
    ids.user = user_of(*entry.metadata->user);
  }
  if (entry.metadata && kept_.group && entry.metadata->group) {
    ids.group = group_of(*entry.metadata->group);
  }
  return ids;
}

// rsync(1): "The special uid 0 and the special group 0 are never mapped via user/group names".

uid_t Ownership::user_of(const Principal& user) const {
  const bool by_name = kept_.accounts != nullptr && user.id != 0;
  const uid_t id = by_name ? kept_.accounts->user(user.name).value_or(user.id) : user.id;
  return rights_.privileged && rights_.mapped_users.contain(id) ? id : same_user;
}

gid_t Ownership::group_of(const Principal& group) const {
  const bool by_name = kept_.accounts != nullptr && group.id != 0;
  const gid_t id = by_name ? kept_.accounts->group(group.name).value_or(group.id) : group.id;
  const bool member = std::ranges::find(rights_.groups, id) != rights_.groups.end();
  return member || (rights_.privileged && rights_.mapped_groups.contain(id)) ? id : same_group;
}

bool Ownership::same_user_of(const struct stat& status, const FileEntry& entry) const {
  const uid_t user = ids_of(entry).user;
  return user == same_user || user == status.st_uid;
}

bool Ownership::same_group_of(const struct stat& status, const FileEntry& entry) const {
  const gid_t group = ids_of(entry).group;
  return group == same_group || group == status.st_gid;
}

bool Ownership::set(int descriptor, const FileEntry& entry) const {
  return set_each(ids_of(entry), [&](uid_t user, gid_t group) { return os().fchown(descriptor, user, group); });
}

bool Ownership::set_of_link(int directory, const std::string& name, const FileEntry& entry) const {
  return set_each(ids_of(entry), [&](uid_t user, gid_t group) {
    return os().fchownat(directory, name.c_str(), user, group, AT_SYMLINK_NOFOLLOW);
  });
}

}  // namespace sluice::ftx
