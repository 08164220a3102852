// SPDX-License-Identifier: Apache-2.0
#pragma once

// Accounts: the users and groups of this host, by name and by number. All are read at once, while the process may still
// read them: confined (apps/ftx/security/confinement.h), it neither opens the list of users nor asks a service for it.
//
// So a name that only a directory on the network knows, which lists no users, is not known here, and its number counts.
//
// Values do not change once made, and any thread may read them.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::ftx {

class Accounts {
 public:
  /// Of users and of groups, each. More are not known.
  static constexpr std::size_t count_max = 65536;

  /// Those of this host, read by the first call.
  [[nodiscard]] static std::shared_ptr<const Accounts> of_this_host();

  /// Of one number or name the first that is added counts.
  void add_user(std::string name, std::uint32_t id) { users_.add(std::move(name), id); }
  void add_group(std::string name, std::uint32_t id) { groups_.add(std::move(name), id); }

  /// Empty: it has none.
  [[nodiscard]] std::string user_name(std::uint32_t id) const { return users_.name(id); }
  [[nodiscard]] std::string group_name(std::uint32_t id) const { return groups_.name(id); }
  [[nodiscard]] std::optional<std::uint32_t> user(std::string_view name) const { return users_.id(name); }
  [[nodiscard]] std::optional<std::uint32_t> group(std::string_view name) const { return groups_.id(name); }

 private:
  [[nodiscard]] static std::shared_ptr<const Accounts> read();

  class Table {
   public:
    void add(std::string name, std::uint32_t id);
    [[nodiscard]] std::string name(std::uint32_t id) const;
    [[nodiscard]] std::optional<std::uint32_t> id(std::string_view name) const;

   private:
    std::map<std::uint32_t, std::string> names_;
    std::map<std::string, std::uint32_t, std::less<>> ids_;
  };

  Table users_;
  Table groups_;
};

}  // namespace sluice::ftx
