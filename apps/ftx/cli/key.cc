// SPDX-License-Identifier: Apache-2.0
// `ftx key`: this user's own key, as the other end's files name it.
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <array>

#include "apps/ftx/cli/commands.h"
#include "apps/ftx/jobs/trust.h"
#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {

ExitCode show_key(const TrustOptions& options) {
  [[maybe_unused]] const Status undumpable = forbid_core_dumps();
  const auto identity = own_identity(options);
  if (!identity) {
    fmt::print(stderr, "ftx: {}\n", identity.error().text);
    return identity.error().code;
  }
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const passwd* const user = ::getpwuid(::getuid());
  fmt::print("{} {}@{}\n", identity->pin().text(), user != nullptr ? printable(user->pw_name) : "user",
             printable(host.data()));
  return ExitCode::ok;
}

}  // namespace sluice::ftx
