// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/ownership.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

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

/// Calls chown(user, group) for what is wanted. chown(2) answers EINVAL to an id that the user namespace does not map:
/// the other one is set all the same. False, and errno.
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

Ownership::Ownership(Kept kept) : kept_(std::move(kept)) {
  if (kept_.user || kept_.group) {
    privileged_ = may_chown();
    groups_ = own_groups();
  }
}

Ownership::Ids Ownership::ids_of(const FileEntry& entry) const {
  Ids ids;
  if (!entry.metadata) {
    return ids;
  }
  const auto& [user, group, attributes] = *entry.metadata;
  // rsync(1): "The special uid 0 and the special group 0 are never mapped via user/group names".
  const bool by_name = kept_.accounts != nullptr;
  if (kept_.user && user && privileged_) {
    ids.user = by_name && user->id != 0 ? kept_.accounts->user(user->name).value_or(user->id) : user->id;
  }
  if (kept_.group && group) {
    const gid_t id = by_name && group->id != 0 ? kept_.accounts->group(group->name).value_or(group->id) : group->id;
    ids.group = privileged_ || std::ranges::find(groups_, id) != groups_.end() ? id : same_group;
  }
  return ids;
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
