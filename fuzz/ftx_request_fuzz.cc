// SPDX-License-Identifier: Apache-2.0
// What is said behind the handshake of a standing server, as arbitrary bytes. What is a message comes back from its
// encoding byte by byte, no part of it is one, and what it holds is within its bounds.
#include <algorithm>
#include <cstdint>
#include <span>

#include "apps/ftx/protocol/message.h"
#include "apps/ftx/protocol/name.h"
#include "apps/ftx/protocol/request.h"
#include "base/contract.h"

using namespace sluice;
using namespace sluice::ftx;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConstBytes bytes = std::as_bytes(std::span(data, size));
  const auto message = parse_pull_message(bytes);
  if (!message) {
    SLUICE_REQUIRE(!message.error().empty() && is_printable(message.error()));
    return 0;
  }
  if (!*message) {
    SLUICE_REQUIRE(size < request_bytes_max);
    return 0;
  }
  for (std::size_t part = 0; part < size; part += 1 + part / 16) {
    const auto less = parse_pull_message(bytes.first(part));
    SLUICE_REQUIRE(less && !*less);
  }
  if (const auto* request = std::get_if<PullRequest>(&**message)) {
    SLUICE_REQUIRE(!request->paths.empty() && request->paths.size() <= request_paths_max);
    for (const std::string& path : request->paths) {
      SLUICE_REQUIRE(!path.empty() && path.size() <= path_bytes_max);
    }
    const auto again = encode(*request);
    SLUICE_REQUIRE(again && std::ranges::equal(*again, bytes));
    return 0;
  }
  const PullRefusal& refusal = std::get<PullRefusal>(**message);
  SLUICE_REQUIRE(refusal.code != ExitCode::ok && refusal.text.size() <= request_text_bytes_max &&
                 is_printable(refusal.text));
  SLUICE_REQUIRE(std::get<PullRefusal>(**parse_pull_message(encode(refusal))) == refusal);
  return 0;
}
