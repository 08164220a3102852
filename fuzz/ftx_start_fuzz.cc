// SPDX-License-Identifier: Apache-2.0
// The reader of an ftx start: the first byte says whether a preamble is skipped and how many bytes arrive at a time.
// Whatever comes, it stays within its buffer, answers the same however the bytes are cut, and what it accepts is
// written again as it was.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "apps/ftx/protocol/name.h"
#include "apps/ftx/remote/start_message.h"
#include "fuzz/round_trip.h"

namespace {

using namespace sluice;
using namespace sluice::ftx;

std::vector<std::byte> encoded(const StartMessage& message) {
  if (const auto* request = std::get_if<StartRequest>(&message)) {
    const auto bytes = encode(*request);
    SLUICE_REQUIRE(bytes);
    return *bytes;
  }
  if (const auto* ready = std::get_if<StartReady>(&message)) {
    return encode(*ready);
  }
  if (const auto* echo = std::get_if<StartEcho>(&message)) {
    return encode(*echo);
  }
  if (const auto* change = std::get_if<StartSwitch>(&message)) {
    return encode(*change);
  }
  if (const auto* changed = std::get_if<StartSwitched>(&message)) {
    return encode(*changed);
  }
  const auto& failure = std::get<StartFailure>(message);
  SLUICE_REQUIRE(is_printable(failure.text) && failure.code != ExitCode::ok);
  return encode(failure);
}

/// Everything that was accepted, and the failure that ended it.
struct Outcome {
  std::vector<std::byte> accepted;
  std::optional<Failure> failure;
};

Outcome read(ConstBytes stream, StartReader::Preamble preamble, std::size_t step) {
  StartReader reader(preamble);
  Outcome outcome;
  while (!stream.empty() && !outcome.failure) {
    SLUICE_REQUIRE(reader.room() > 0);
    const std::size_t count = std::min({step, stream.size(), reader.room()});
    reader.feed(stream.first(count));
    stream = stream.subspan(count);
    for (auto message = reader.next();; message = reader.next()) {
      if (!message) {
        SLUICE_REQUIRE(is_printable(message.error().text));
        outcome.failure = message.error();
        break;
      }
      if (!*message) {
        break;
      }
      const auto bytes = encoded(**message);
      outcome.accepted.insert(outcome.accepted.end(), bytes.begin(), bytes.end());
    }
  }
  SLUICE_REQUIRE(is_printable(reader.preamble()));
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const auto preamble = (data[0] & 1) != 0 ? StartReader::Preamble::skipped : StartReader::Preamble::none;
  const ConstBytes stream = fuzz::input(data + 1, size - 1);
  const Outcome whole = read(stream, preamble, size);
  const Outcome cut = read(stream, preamble, 1 + data[0] / 2U);
  SLUICE_REQUIRE(whole.accepted == cut.accepted && whole.failure.has_value() == cut.failure.has_value());
  SLUICE_REQUIRE(!whole.failure || whole.failure->code == cut.failure->code);
  // A failure's code may be one of a newer version, which is read as protocol_error; all else stays.
  const Outcome again = read(whole.accepted, StartReader::Preamble::none, size);
  SLUICE_REQUIRE(again.accepted == whole.accepted && !again.failure);
  return 0;
}
