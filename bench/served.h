// SPDX-License-Identifier: Apache-2.0
#pragma once

// A transfer between two sockets of the T-server (sockets/server/server.h), whose stack is one host of ours: what
// `sluice serve` does for two programs that call each other on it. The programs' ends speak the server's protocol
// themselves, as the preloaded library would for them. Programs and server are in one thread, which so pays for all of
// them.
//
// Threads: one. What cannot be opened ends the program.

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "base/passing.h"
#include "bench/transfers.h"
#include "sockets/protocol/protocol.h"
#include "sockets/server/server.h"

namespace sluice::bench {

class ServedTransfer final : public StackTransfer {
 public:
  /// On `driver`, as in a stack file; the server's socket is at `path`.
  ServedTransfer(const std::string& driver, const std::string& path) : path_(path) {
    const auto endpoint = [this, stack = Protocol{.name = "tcp", .transport = "tcp"}.stack(
                                     host_on(driver, 1))]() -> Result<std::unique_ptr<tli::Endpoint>> {
      auto one = stream(stack);
      one->set_waiter(loop_.get());
      auto made = tli::Endpoint::t_open(std::move(one), nullptr);
      SLUICE_REQUIRE(made.has_value());
      return std::move(*made);
    };
    server_ = needed(sockets::Server::open(set_, {.path = path}, endpoint, {}));
    using sockets::Operation;
    const Passed socket = ask({.operation = Operation::open, .family = AF_INET}).passed;
    static_cast<void>(ask({.operation = Operation::bind, .address = address()}, socket.descriptor.get()));
    const Passed listening = ask({.operation = Operation::listen, .value = 1}, socket.descriptor.get()).passed;
    near_ = ask({.operation = Operation::open, .family = AF_INET}).passed.descriptor;
    static_cast<void>(ask({.operation = Operation::connect, .address = address()}, near_.get()));
    sockets::Caller caller;
    far_ = heard(listening.descriptor.get(), std::as_writable_bytes(std::span(&caller, 1))).descriptor;
    SLUICE_REQUIRE(static_cast<bool>(near_) && static_cast<bool>(far_));
  }
  ~ServedTransfer() override {
    near_ = Descriptor();
    far_ = Descriptor();
    server_.reset();
    std::filesystem::remove(path_);
  }
  ServedTransfer(const ServedTransfer&) = delete;
  ServedTransfer& operator=(const ServedTransfer&) = delete;

 private:
  static sockets::Address address() {
    sockaddr_in at{.sin_family = AF_INET, .sin_port = htons(7000), .sin_addr = {}, .sin_zero = {}};
    must(::inet_pton(AF_INET, host_on("", 1).address.to_text().c_str(), &at.sin_addr) == 1, "inet_pton");
    sockets::Address made{.size = sizeof at};
    std::memcpy(made.bytes, &at, sizeof at);
    return made;
  }
  struct Answered {
    sockets::Answer answer;
    Passed passed;
  };
  /// Asks the server for what it cannot refuse, about the socket that `shown` is.
  Answered ask(const sockets::Request& request, int shown = -1) {
    const Descriptor channel(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un at{.sun_family = AF_UNIX, .sun_path = {}};
    must(path_.size() < sizeof at.sun_path, "a path of the server's");
    std::memcpy(at.sun_path, path_.data(), path_.size());
    must(::connect(channel.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0, "connect");
    must(send_message(channel.get(), std::as_bytes(std::span(&request, 1)), shown) == 0, "send_message");
    Answered answered;
    answered.passed = heard(channel.get(), std::as_writable_bytes(std::span(&answered.answer, 1)));
    SLUICE_REQUIRE(answered.answer.error == 0);
    return answered;
  }
  Passed heard(int channel, Bytes place) {
    for (;;) {
      Passed passed = receive_message(channel, place);
      if (passed.error != EAGAIN) {
        SLUICE_REQUIRE(passed.size == place.size());
        return passed;
      }
      SLUICE_REQUIRE(wait());
    }
  }
  [[nodiscard]] std::size_t window_bytes() const override { return file_bytes; }
  std::size_t send(Bytes message) override {
    const ssize_t taken = ::send(near_.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    return taken > 0 ? static_cast<std::size_t>(taken) : 0;
  }
  std::size_t receive(Bytes place) override {
    const ssize_t got = ::recv(far_.get(), place.data(), place.size(), MSG_DONTWAIT);
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  void run() override {
    static_cast<void>(loop_->wait(loop_->now()));
    server_->turn();
  }
  [[nodiscard]] bool wait() override {
    const bool busy = server_->busy();
    const bool happened = loop_->wait(busy ? TimePoint::min() : loop_->now() + silence_max);
    server_->turn();
    return busy || happened;
  }

  std::string path_;
  std::unique_ptr<sockets::Server> server_;
  Descriptor near_;
  Descriptor far_;
};

}  // namespace sluice::bench
