// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/accounts.h"

#include <grp.h>
#include <pwd.h>

namespace sluice::ftx {

void Accounts::Table::add(std::string name, std::uint32_t id) {
  if (names_.size() < count_max && ids_.size() < count_max) {
    names_.try_emplace(id, name);
    ids_.try_emplace(std::move(name), id);
  }
}

std::string Accounts::Table::name(std::uint32_t id) const {
  const auto found = names_.find(id);
  return found != names_.end() ? found->second : std::string();
}

std::optional<std::uint32_t> Accounts::Table::id(std::string_view name) const {
  const auto found = ids_.find(name);
  return found != ids_.end() ? std::optional(found->second) : std::nullopt;
}

std::shared_ptr<const Accounts> Accounts::of_this_host() {
  static const std::shared_ptr<const Accounts> accounts = read();
  return accounts;
}

std::shared_ptr<const Accounts> Accounts::read() {
  auto accounts = std::make_shared<Accounts>();
  ::setpwent();
  for (std::size_t i = 0; i < count_max; ++i) {
    const passwd* const user = ::getpwent();
    if (user == nullptr) {
      break;
    }
    accounts->add_user(user->pw_name, user->pw_uid);
  }
  ::endpwent();
  ::setgrent();
  for (std::size_t i = 0; i < count_max; ++i) {
    const ::group* const one = ::getgrent();
    if (one == nullptr) {
      break;
    }
    accounts->add_group(one->gr_name, one->gr_gid);
  }
  ::endgrent();
  return accounts;
}

}  // namespace sluice::ftx
