// SPDX-License-Identifier: Apache-2.0
#pragma once

// A server of sockets, asked in its own protocol. The stack is the kernel's, on loopback, so that the other end is a
// socket of the kernel's.

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/passing.h"
#include "edge/run_loop.h"
#include "sockets/server/server.h"
#include "stack/modules/timod.h"
#include "tpi/kernel_tcp.h"
#include "tpi/kernel_udp.h"

namespace sluice::sockets {

inline Address loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Address answer;
  answer.size = sizeof address;
  std::memcpy(answer.bytes, &address, sizeof address);
  return answer;
}

inline std::uint16_t port_of(const Address& address) {
  sockaddr_in in{};
  std::memcpy(&in, address.bytes, sizeof in);
  return ntohs(in.sin_port);
}

struct Answered {
  Answer answer;
  Descriptor passed;
};

class SocketServer : public testing::Test {
 protected:
  void SetUp() override {
    directory = std::filesystem::temp_directory_path() / ("sluice-sockets-" + std::to_string(::getpid()));
    std::filesystem::create_directories(directory);
    start({.path = path(), .per_user = {.sockets = 8}, .clients_max = 4});
  }
  void TearDown() override {
    server.reset();
    std::filesystem::remove_all(directory);
  }
  [[nodiscard]] std::string path() const { return (directory / "server").string(); }

  void start(const Server::Options& options) {
    const auto opener = [this](bool datagrams) {
      return [this, datagrams]() -> Result<std::unique_ptr<tli::Endpoint>> {
        std::unique_ptr<Module> driver;
        if (datagrams) {
          driver = std::make_unique<tpi::KernelUdp>(set, tpi::UdpSocket::Options{});
        } else {
          driver = std::make_unique<tpi::KernelTcp>(set, tpi::TcpSocket::Options{});
        }
        auto stream = Stream::open(set, std::move(driver));
        if (!stream || !(*stream)->push(std::make_unique<Timod>())) {
          return fail(EIO);
        }
        (*stream)->set_waiter(loop.get());
        (*stream)->set_nonblocking(true);
        auto endpoint = tli::Endpoint::t_open(std::move(*stream), nullptr);
        return endpoint ? Result<std::unique_ptr<tli::Endpoint>>(std::move(*endpoint)) : fail(EIO);
      };
    };
    auto opened = Server::open(set, options, opener(false), opener(true));
    ASSERT_TRUE(opened) << opened.error().text;
    server = std::move(*opened);
  }

  /// Lets the server work until `predicate` holds; false after twenty seconds.
  template <class Predicate>
  bool run_until(Predicate predicate) {
    const TimePoint deadline = loop->now() + std::chrono::seconds(20);
    while (!predicate()) {
      if (loop->now() > deadline) {
        return false;
      }
      static_cast<void>(loop->wait(server->busy() ? TimePoint::min() : loop->now() + std::chrono::milliseconds(5)));
      server->turn();
    }
    return true;
  }
  void run_for(Duration time) {
    const TimePoint end = loop->now() + time;
    ASSERT_TRUE(run_until([&] { return loop->now() >= end; }));
  }

  [[nodiscard]] Descriptor client() const {
    Descriptor channel(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path().c_str());
    EXPECT_EQ(::connect(channel.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return channel;
  }
  bool hear(const Descriptor& channel, Answered& answered) {
    Passed passed;
    const bool heard = run_until([&] {
      passed = receive_message(channel.get(), std::as_writable_bytes(std::span(&answered.answer, 1)));
      return passed.error != EAGAIN;
    });
    answered.passed = std::move(passed.descriptor);
    return heard && passed.size == sizeof answered.answer;
  }
  Answered ask(const Request& request, int shown = -1) {
    const Descriptor channel = client();
    EXPECT_EQ(send_message(channel.get(), std::as_bytes(std::span(&request, 1)), shown), 0);
    Answered answered;
    answered.answer.error = -1;
    EXPECT_TRUE(hear(channel, answered));
    return answered;
  }
  int ask_error(const Request& request, int shown = -1) { return ask(request, shown).answer.error; }
  Descriptor open(SocketKind kind, int family = AF_INET) {
    Answered answered = ask({.operation = Operation::open, .kind = kind, .family = static_cast<std::uint16_t>(family)});
    EXPECT_EQ(answered.answer.error, 0);
    return std::move(answered.passed);
  }
  /// A socket of the kernel's, and its address.
  static std::pair<Descriptor, Address> kernel_socket(int type) {
    Descriptor socket(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
    const Address any = loopback(0);
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(any.bytes), any.size), 0);
    Address at;
    socklen_t size = sizeof at.bytes;
    EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(at.bytes), &size), 0);
    at.size = size;
    return {std::move(socket), at};
  }
  /// One that listens, and where.
  static std::pair<Descriptor, Address> kernel_listener() {
    auto [listener, at] = kernel_socket(SOCK_STREAM);
    EXPECT_EQ(::listen(listener.get(), 8), 0);
    return {std::move(listener), at};
  }
  /// Two ends of a connection: the program's, and the kernel's.
  std::pair<Descriptor, Descriptor> connection() {
    auto [listener, at] = kernel_listener();
    Descriptor ours = open(SocketKind::stream);
    EXPECT_EQ(ask_error({.operation = Operation::connect, .address = at}, ours.get()), 0);
    return {std::move(ours), Descriptor(::accept(listener.get(), nullptr, nullptr))};
  }
  static short events_of(const Descriptor& descriptor) {
    pollfd one{.fd = descriptor.get(), .events = POLLIN | POLLOUT | POLLRDHUP, .revents = 0};
    EXPECT_GE(::poll(&one, 1, 0), 0);
    return one.revents;
  }
  static std::string read_some(const Descriptor& descriptor, int flags = MSG_DONTWAIT) {
    std::array<char, 65536> room{};
    const ssize_t got = ::recv(descriptor.get(), room.data(), room.size(), flags);
    return got < 0 ? "errno " + std::to_string(errno) : std::string(room.data(), static_cast<std::size_t>(got));
  }
  static bool write_all(const Descriptor& descriptor, std::string_view text) {
    return ::send(descriptor.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  static constexpr std::size_t piece_bytes = 65536;
  /// Writes to `end` until it takes no more, however long the server works; how many bytes it has taken.
  std::size_t fill(const Descriptor& end) {
    EXPECT_EQ(::fcntl(end.get(), F_SETFL, O_NONBLOCK), 0);
    const std::string piece(piece_bytes, 'm');
    std::size_t sent = 0;
    for (int quiet = 0; quiet < 20; ++quiet) {
      for (ssize_t taken = 1; taken > 0;) {
        taken = ::send(end.get(), piece.data(), piece.size(), MSG_NOSIGNAL);
        sent += taken > 0 ? static_cast<std::size_t>(taken) : 0;
        quiet = taken > 0 ? 0 : quiet;
      }
      run_for(std::chrono::milliseconds(2));
    }
    return sent;
  }
  int pending_error(const Descriptor& socket) {
    return ask({.operation = Operation::take_error}, socket.get()).answer.value;
  }

  StreamSet set;
  std::unique_ptr<RunLoop> loop = std::move(*RunLoop::open(set));
  std::filesystem::path directory;
  std::unique_ptr<Server> server;
};

}  // namespace sluice::sockets
