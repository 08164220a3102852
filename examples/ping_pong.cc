// SPDX-License-Identifier: Apache-2.0

// Two processes, here two endpoints of one program, send each other a message back and forth through the kernel's UDP
// on loopback: `rmpp` makes messages of datagrams, and msg/endpoint.h is the library. Each side posts the receive for
// the answer before it sends, so every message lands in its buffer. The program prints the time of a round trip for
// some lengths, and exits 0 if every byte came back, else 1.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/common/entropy.h"
#include "apps/common/registry.h"
#include "edge/run_loop.h"
#include "msg/endpoint.h"
#include "stack/head/stack_file.h"

namespace {

using namespace sluice;

constexpr std::string_view stacks = R"(
[stack.messages]
driver = { kind = "kernel_udp" }
push   = ["rmpp", "timod"]
rmpp   = { packet_bytes = 8192 }
)";

// A receive matches these bits, whoever sends them.
constexpr std::uint64_t ping = 1;
constexpr std::uint64_t pong = 2;

struct Process {
  std::unique_ptr<msg::Endpoint> endpoint;
  std::vector<std::byte> buffer;
};

/// The end of an error: the program has nothing to fall back on.
template <class T>
T must(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "{} (errno {})\n", result.error().text, result.error().code);
    std::exit(1);
  }
  return std::move(*result);
}

Process open_process(StreamSet& set, RunLoop& loop, const StackFile& file) {
  std::unique_ptr<Stream> stream = must(open_stack(set, *must(file.find("messages"))));
  stream->set_waiter(&loop);
  Process made{must(msg::Endpoint::open(std::move(stream), {.local = must(msg::Peer::from_text("127.0.0.1:0"))})), {}};
  // Whoever waits in the loop lets this endpoint read and send, too.
  loop.attend(made.endpoint->stream(), [endpoint = made.endpoint.get()] { return endpoint->progress(); });
  return made;
}

/// One message there and back. Whether it came back as it was.
bool round_trip(Process& here, Process& there, const std::vector<std::byte>& bytes, TimePoint deadline) {
  const msg::Handle arrives = must(there.endpoint->post(there.buffer, {.bits = ping}));
  const msg::Handle returns = must(here.endpoint->post(here.buffer, {.bits = pong}));
  const msg::Handle sent = must(here.endpoint->send(there.endpoint->address(), ping, bytes));
  const msg::Completion came = must(there.endpoint->wait(arrives, deadline));
  const ConstBytes received = ConstBytes(there.buffer).first(came.bytes);
  const msg::Handle answered = must(there.endpoint->send(came.peer, pong, received));
  const msg::Completion back = must(here.endpoint->wait(returns, deadline));
  const bool good = came.error == 0 && back.error == 0 && back.bytes == bytes.size() &&
                    std::equal(bytes.begin(), bytes.end(), here.buffer.begin());
  // Until then the stack may show the bytes.
  return good && must(here.endpoint->wait(sent, deadline)).error == 0 &&
         must(there.endpoint->wait(answered, deadline)).error == 0;
}

}  // namespace

int main() {
  constexpr std::size_t bytes_max = 1 << 20;
  constexpr int rounds = 20;
  StreamSet set({.seed = entropy()});  // what others must not guess is drawn from it
  const Registry registry = standard_registry();
  const std::unique_ptr<RunLoop> loop = must(RunLoop::open(set));
  const StackFile file = must(StackFile::parse(stacks, "ping_pong", registry));
  Process here = open_process(set, *loop, file);
  Process there = open_process(set, *loop, file);
  here.buffer.resize(bytes_max);
  there.buffer.resize(bytes_max);
  bool good = true;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{100'000}, bytes_max}) {
    std::vector<std::byte> bytes(size);
    for (std::size_t at = 0; at < size; ++at) {
      bytes[at] = static_cast<std::byte>(at * 131 >> 3);
    }
    const TimePoint start = loop->now();
    for (int round = 0; good && round < rounds; ++round) {
      good = round_trip(here, there, bytes, loop->now() + std::chrono::seconds(10));
    }
    const auto each = std::chrono::duration<double, std::micro>(loop->now() - start) / rounds;
    fmt::print("{:>8} bytes: {:8.1f} us there and back\n", size, each.count());
  }
  loop->unattend(here.endpoint->stream());
  loop->unattend(there.endpoint->stream());
  fmt::print("{}\n", good ? "all came back as it was" : "a message did not come back as it was");
  return good ? 0 : 1;
}
