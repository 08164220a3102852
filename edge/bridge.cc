// SPDX-License-Identifier: Apache-2.0
#include "edge/bridge.h"

#include <utility>

#include "stack/core/message.h"

namespace sluice {
namespace {

/// Moves what has come up `from` down `to`, as much as `to` accepts, up to a turn's worth; whether that was anything.
bool forward(Stream& from, Stream& to) {
  constexpr int turn_messages_max = 256;
  Batch batch;
  int moved = 0;
  for (; moved < turn_messages_max && to.can_put(); ++moved) {
    Message message = from.receive();
    if (!message) {
      break;
    }
    if (message.type() == MessageType::data) {
      batch.push(std::move(message));
    }
    if (batch.size() == 32) {
      [[maybe_unused]] const Status sent = to.send(std::exchange(batch, Batch()));
    }
  }
  if (!batch.empty()) {
    [[maybe_unused]] const Status sent = to.send(std::move(batch));
  }
  return moved > 0;
}

}  // namespace

Bridge::Bridge(RunLoop& loop, Stream& one, Stream& other) : loop_(loop), one_(one), other_(other) {
  loop.attend(one, [this] { return forward(one_, other_); });
  loop.attend(other, [this] { return forward(other_, one_); });
}

Bridge::~Bridge() {
  loop_.unattend(one_);
  loop_.unattend(other_);
}

}  // namespace sluice
