// SPDX-License-Identifier: Apache-2.0
// The server of sockets meets a program that asks for anything, in any order, and does anything to its ends of the
// pairs. The stack is ours, on a wire whose other end is nobody's. Each step is a byte that says what, one that says to
// which socket, and what the step takes of the rest:
//
//   0  a request: its fields from the bytes; 1  as many bytes that are none as the next one says
//   2  bytes into a socket; 3  it is read; 4  closed; 5  shut down; 6  time passes
//
// Whoever asks is answered or turned away, nobody has more sockets than he may, and in the end all are gone.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "apps/common/registry.h"
#include "base/contract.h"
#include "base/passing.h"
#include "edge/run_loop.h"
#include "sockets/server/server.h"
#include "stack/head/stream.h"
#include "tli/endpoint.h"

namespace {

using namespace sluice;
using namespace sluice::sockets;

class Input {
 public:
  explicit Input(ConstBytes bytes) : rest_(bytes) {}
  [[nodiscard]] bool empty() const { return rest_.empty(); }
  std::uint8_t byte() {
    const std::uint8_t value = rest_.empty() ? std::uint8_t{0} : std::to_integer<std::uint8_t>(rest_.front());
    rest_ = rest_.subspan(rest_.empty() ? 0 : 1);
    return value;
  }
  ConstBytes take(std::size_t count) {
    const ConstBytes taken = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

 private:
  ConstBytes rest_;
};

class World {
 public:
  static constexpr std::size_t sockets_max = 8;
  static constexpr int answer_turns_max = 64;

  World() : path_(std::filesystem::temp_directory_path() / ("sluice-fuzz-" + std::to_string(::getpid()))) {
    const auto opener = [this](const char* transport) { return [this, transport] { return endpoint(transport); }; };
    constexpr Quotas::Limits per_user{.sockets = sockets_max, .listening = 2, .connecting = 3, .memory = 256 << 10};
    auto opened =
        Server::open(set_, {.path = path_, .per_user = per_user, .clients_max = 4}, opener("tcp"), opener("udp"));
    SLUICE_REQUIRE(opened.has_value());
    server_ = std::move(*opened);
  }

  void step(Input& input) {
    const std::uint8_t what = input.byte();
    const std::size_t which = input.byte();
    const int shown = ends_.empty() ? -1 : ends_[which % ends_.size()].get();
    std::array<std::byte, 4096> place{};
    switch (what % 7) {
      case 0:
        return ask(request_of(input), shown);
      case 1:
        return say(input.take(input.byte()), shown);
      case 2: {
        const ConstBytes bytes = input.take(input.byte());
        static_cast<void>(::send(shown, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
        return;
      }
      case 3:
        static_cast<void>(::recv(shown, place.data(), place.size(), MSG_DONTWAIT));
        return;
      case 4:
        if (!ends_.empty()) {
          ends_.erase(ends_.begin() + static_cast<std::ptrdiff_t>(which % ends_.size()));
        }
        return;
      case 5:
        static_cast<void>(::shutdown(shown, input.byte() % 3));
        return;
      default:
        return run();
    }
  }
  /// All sockets end with their descriptors, though a connection that nobody answers takes its time.
  void end() {
    ends_.clear();
    for (int turn = 0; turn < 4; ++turn) {
      run();
    }
    SLUICE_REQUIRE(server_->statistics().sockets <= sockets_max);
  }

 private:
  Result<std::unique_ptr<tli::Endpoint>> endpoint(const char* transport) {
    const auto make = [&](const char* name, const Parameters& parameters) {
      return std::move(registry_.find(name)->make(set_, parameters)).value();
    };
    Parameters wire;
    wire.set("name", std::string("sockets"));
    wire.set("end", std::string("a"));
    Parameters ip;
    ip.set("address", std::vector<std::string>{"10.77.0.1/24", "fd00:77::1/64"});
    auto stream = Stream::open(set_, make("wire", wire));
    if (!stream || !(*stream)->push(make("ip", ip)) || !(*stream)->push(make(transport, {})) ||
        !(*stream)->push(make("timod", {}))) {
      return fail(EIO);
    }
    (*stream)->set_waiter(loop_.get());
    auto opened = tli::Endpoint::t_open(std::move(*stream), nullptr);
    if (!opened) {
      return fail(EIO);
    }
    (*opened)->stream().set_nonblocking(true);
    return std::move(*opened);
  }

  void run() {
    for (int turn = 0; turn < 3; ++turn) {
      static_cast<void>(loop_->wait(TimePoint::min()));
      server_->turn();
    }
  }

  static Request request_of(Input& input) {
    constexpr std::array<std::pair<int, int>, 8> options{{{SOL_SOCKET, SO_LINGER},
                                                          {SOL_SOCKET, SO_KEEPALIVE},
                                                          {SOL_SOCKET, SO_RCVBUF},
                                                          {IPPROTO_TCP, 1},
                                                          {IPPROTO_TCP, 2},
                                                          {IPPROTO_TCP, 4},
                                                          {IPPROTO_IPV6, 26},
                                                          {IPPROTO_IP, 4}}};
    Request request;
    request.operation = static_cast<Operation>(input.byte() % 12);
    const std::uint8_t kind = input.byte();
    request.kind = kind % 3 == 0   ? SocketKind::stream
                   : kind % 3 == 1 ? SocketKind::datagram
                                   : static_cast<SocketKind>(kind);
    request.background = kind & 64U;
    request.family = static_cast<std::uint16_t>(kind & 128U ? AF_INET6 : AF_INET);
    std::tie(request.level, request.name) = options[input.byte() % options.size()];
    request.value = static_cast<std::int8_t>(input.byte());
    request.filler = input.byte();
    const ConstBytes address = input.take(input.byte() % sizeof request.address.bytes);
    request.address.size = static_cast<std::uint32_t>(address.size()) + (kind & 32U ? 1000U : 0U);
    std::ranges::copy(address, request.address.bytes);
    return request;
  }

  Descriptor client() {
    Descriptor channel(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    SLUICE_REQUIRE(::connect(channel.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    return channel;
  }

  /// The answer may come later, as that of a connect does.
  void ask(const Request& request, int shown) {
    const Descriptor channel = client();
    SLUICE_REQUIRE(send_message(channel.get(), std::as_bytes(std::span(&request, 1)), shown) == 0);
    Answer answer;
    Passed passed;
    for (int turns = 0; turns < answer_turns_max; ++turns) {
      run();
      passed = receive_message(channel.get(), std::as_writable_bytes(std::span(&answer, 1)));
      if (passed.error != EAGAIN || request.operation == Operation::connect) {
        break;
      }
    }
    SLUICE_REQUIRE(passed.error == EAGAIN ? request.operation == Operation::connect : passed.size == sizeof answer);
    if (passed.descriptor && request.operation != Operation::statistics) {
      ends_.push_back(std::move(passed.descriptor));
    }
    SLUICE_REQUIRE(server_->statistics().sockets <= sockets_max);
  }

  void say(ConstBytes bytes, int shown) {
    if (bytes.size() == sizeof(Request) || bytes.empty()) {
      return;
    }
    const Descriptor channel = client();
    static_cast<void>(send_message(channel.get(), bytes, shown));
    run();
    std::array<std::byte, sizeof(Answer)> place{};
    SLUICE_REQUIRE(receive_message(channel.get(), place).size == 0);
  }

  StreamSet set_;
  std::unique_ptr<RunLoop> loop_ = std::move(*RunLoop::open(set_));
  Registry registry_ = standard_registry();
  std::string path_;
  std::unique_ptr<Server> server_;
  std::vector<Descriptor> ends_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr int steps_max = 64;
  Input input(std::as_bytes(std::span(data, size)));
  World world;
  for (int step = 0; step < steps_max && !input.empty(); ++step) {
    world.step(input);
  }
  world.end();
  return 0;
}
