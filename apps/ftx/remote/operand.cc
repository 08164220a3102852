// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/remote/operand.h"

#include <fmt/format.h>

#include <cerrno>

#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

/// Where the ':' between host and path is; npos: the text is a local path.
std::size_t colon_of(std::string_view text) {
  // The colons between brackets belong to an IPv6 address.
  const bool brackets = text.starts_with('[') || text.substr(0, text.find_first_of("/:")).find("@[") != text.npos;
  for (std::size_t at = 0; at < text.size() && text[at] != '/'; ++at) {
    if (text[at] == ':' && (!brackets || text[at - 1] == ']')) {
      return at == 0 ? text.npos : at;
    }
  }
  return text.npos;
}

bool may_be_a_name(std::string_view name) {
  return is_printable(name) && !name.starts_with('-') && name.find_first_of(" \t") == std::string_view::npos;
}

}  // namespace

Result<Operand> parse_operand(std::string_view text) {
  Operand operand;
  if (text.starts_with("ftx://")) {
    operand.kind = Operand::Kind::url;
    operand.path = text;
    return operand;
  }
  const std::size_t colon = colon_of(text);
  if (colon == std::string_view::npos) {
    operand.path = text;
    return operand;
  }
  operand.kind = Operand::Kind::remote;
  operand.path = text.substr(colon + 1);
  if (operand.path.starts_with("//")) {
    return fail(EINVAL, fmt::format("'{}': expected ftx://HOST:PORT/PATH or [user@]host:path", printable(text)));
  }
  std::string_view login = text.substr(0, colon);
  const std::size_t at = login.rfind('@');
  if (at != std::string_view::npos) {
    operand.user = login.substr(0, at);
    login.remove_prefix(at + 1);
  }
  if (login.starts_with('[') && login.ends_with(']')) {
    login = login.substr(1, login.size() - 2);
  }
  operand.host = login;
  const bool user_is_missing = at != std::string_view::npos && operand.user.empty();
  if (operand.host.empty() || user_is_missing || !may_be_a_name(operand.host) || !may_be_a_name(operand.user)) {
    return fail(EINVAL, fmt::format("'{}': expected [user@]host:path; write ./{} for a local file of that name",
                                    printable(text), printable(text)));
  }
  return operand;
}

}  // namespace sluice::ftx
