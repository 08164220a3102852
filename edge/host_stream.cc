// SPDX-License-Identifier: Apache-2.0
#include "edge/host_stream.h"

#include <utility>

namespace sluice {

void attend_unread(RunLoop& loop, Stream& stream) {
  loop.attend(stream, [&stream] {
    constexpr int turn_messages_max = 256;
    int taken = 0;
    while (taken < turn_messages_max && stream.receive()) {
      ++taken;
    }
    return taken > 0;
  });
}

HostStream::HostStream(RunLoop& loop, std::unique_ptr<Stream> stream) : loop_(loop), stream_(std::move(stream)) {
  stream_->set_waiter(&loop_);
  attend_unread(loop_, *stream_);
}

HostStream::~HostStream() { loop_.unattend(*stream_); }

Result<std::unique_ptr<HostStream>> HostStream::open(StreamSet& set, RunLoop& loop, const StackDeclaration& stack) {
  auto stream = open_host(set, stack);
  if (!stream) {
    return std::unexpected(stream.error());
  }
  return *stream == nullptr ? nullptr : std::unique_ptr<HostStream>(new HostStream(loop, *std::move(stream)));
}

}  // namespace sluice
