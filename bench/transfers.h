// SPDX-License-Identifier: Apache-2.0
#pragma once

// Transfers of one file of 4 MiB, in messages of a size, from user memory to user memory: as document 004 measured TCP,
// UDP and IP, and document 000 its lightweight transport. Both ends are in one thread, whose CPU time is what the
// transfer costs both of them, with the kernel's part in it. A window of messages is sent, then received.
//
// Threads: one. What cannot be opened ends the program.

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "base/descriptor.h"
#include "bench/arena.h"
#include "bench/ports.h"
#include "bench/stack_pair.h"
#include "libdlpi/dlpi_handle.h"
#include "stack/wire/tpi.h"

namespace sluice::bench {

inline constexpr std::size_t file_bytes = std::size_t{4} << 20;

class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual void set_mode(ProcessingMode /*mode*/) {}

  /// Moves the file in messages of `size` bytes, the last perhaps shorter. Once one is lost, nothing moves any more.
  void move(std::size_t size) {
    const std::size_t window = std::max(window_bytes(), size);
    std::size_t sent = 0;
    std::size_t received = 0;
    while (whole_ && received < file_bytes) {
      for (std::size_t messages = 0; sent < file_bytes && sent - received < window && messages < window_messages_max;
           ++messages) {
        const std::size_t taken = send(piece(memory().from, sent, size));
        if (taken == 0) {
          break;
        }
        sent += taken;
      }
      run();
      const std::size_t before = received;
      for (std::size_t got = 1; got > 0 && received < sent; received += got) {
        got = receive(piece(memory().to, received, size));
      }
      whole_ = whole_ && (received > before || wait());
    }
  }
  /// Whether every byte has come so far.
  [[nodiscard]] bool whole() const { return whole_; }
  /// Moves the file once, and looks whether it has arrived as it is.
  [[nodiscard]] bool is_faithful(std::size_t size) {
    std::ranges::fill(memory().to, std::byte{0});
    move(size);
    return whole_ && std::ranges::equal(memory().from, memory().to);
  }

 protected:
  static constexpr std::size_t window_messages_max = 128;

  /// What is under way at most, where a message is no longer.
  [[nodiscard]] virtual std::size_t window_bytes() const { return std::size_t{96} * 1024; }
  /// How many bytes of `message` were taken: of datagrams all or none.
  [[nodiscard]] virtual std::size_t send(Bytes message) = 0;
  /// How many bytes have come to `place`; 0: none yet.
  [[nodiscard]] virtual std::size_t receive(Bytes place) = 0;
  virtual void run() {}
  /// Until something has happened; false: nothing did for silence_max.
  [[nodiscard]] virtual bool wait() = 0;
  void lose() { whole_ = false; }

 private:
  struct Memory {
    Arena arena{2 * file_bytes};
    Bytes from{arena.start(), file_bytes};
    Bytes to{arena.start() + file_bytes, file_bytes};
  };
  /// One for all transfers, so that none has better memory than another.
  static const Memory& memory() {
    static const Memory one;
    return one;
  }
  /// What is left at `offset` of the message that it lies in.
  static Bytes piece(Bytes file, std::size_t offset, std::size_t size) {
    return file.subspan(offset).first(std::min(size - offset % size, file_bytes - offset));
  }

  bool whole_ = true;
};

/// On stacks of ours, in one stream set with one run loop.
class StackTransfer : public Transfer {
 protected:
  StackTransfer() : set_({.defer_bytes_min = afar_defer_bytes_min}), loop_(needed(RunLoop::open(set_))) {}

  std::unique_ptr<Stream> stream(const std::string& stack) {
    auto made = opened(set_, stack);
    made->set_nonblocking(true);
    return made;
  }
  /// By a datagram, which must arrive.
  void find_neighbour() {
    std::array<std::byte, smallest> byte{};
    SLUICE_REQUIRE(send(byte) > 0);
    for (int tries = 0; receive(byte) == 0; ++tries) {
      SLUICE_REQUIRE(tries < 1000);
      static_cast<void>(loop_->wait(loop_->now() + std::chrono::milliseconds(1)));
    }
  }
  void run() override { set_.scheduler().poll(set_.now()); }
  [[nodiscard]] bool wait() override { return loop_->wait(loop_->now() + silence_max); }

  StreamSet set_;
  std::unique_ptr<RunLoop> loop_;
};

/// Frames: dlpi_send and dlpi_recv on two drivers, as in a stack file.
class FrameTransfer final : public StackTransfer {
 public:
  /// So many bytes are under way at most.
  FrameTransfer(const std::string& near, const std::string& far, std::size_t window_bytes)
      : window_bytes_(window_bytes), near_(open(near)), far_(open(far)) {
    const auto address = far_->dlpi_get_physaddr(wire::dlpi::DL_CURR_PHYS_ADDR);
    SLUICE_REQUIRE(address.has_value());
    to_ = *address;
    std::array<std::byte, smallest> byte{};
    for (int tries = 0; receive(byte) == 0; ++tries) {  // until the link is up, and all that was sent before has come
      SLUICE_REQUIRE(tries < 1000);
      static_cast<void>(send(byte));
      static_cast<void>(loop_->wait(loop_->now() + std::chrono::milliseconds(1)));
    }
    while (loop_->wait(loop_->now() + std::chrono::milliseconds(1)) || receive(byte) > 0) {
    }
  }
  void set_mode(ProcessingMode mode) override {
    near_->stream().set_mode(mode);
    far_->stream().set_mode(mode);
  }

 private:
  static constexpr std::uint16_t sap = 0x88b5;

  std::unique_ptr<dlpi::Handle> open(const std::string& driver) {
    const dlpi::Links links{.open = [&](std::string_view) -> Result<std::unique_ptr<Stream>> {
                              return stream("driver = " + driver + "\n");
                            },
                            .names = {}};
    auto handle = dlpi::Handle::dlpi_open(links, "link");
    SLUICE_REQUIRE(handle.has_value() && (*handle)->dlpi_bind(sap, nullptr).has_value());
    return std::move(*handle);
  }
  [[nodiscard]] std::size_t window_bytes() const override { return window_bytes_; }
  std::size_t send(Bytes message) override { return near_->dlpi_send(to_, message) ? message.size() : 0; }
  std::size_t receive(Bytes place) override {
    const auto received = far_->dlpi_recv(place, 0);
    if (!received) {
      return 0;
    }
    received->total_bytes == place.size() ? void() : lose();
    return place.size();
  }

  std::size_t window_bytes_;
  std::unique_ptr<dlpi::Handle> near_;
  std::unique_ptr<dlpi::Handle> far_;
  wire::MacAddress to_;
};

/// Where our own stacks stand: drivers, as in a stack file.
struct Drivers {
  std::string near;
  std::string far;
};

inline Host host_on(const std::string& driver, int number) {
  const std::string address = "10.78.0." + std::to_string(number);
  return {.driver = driver,
          .modules = "'ip'",
          .settings = "ip = { address = '" + address + "/24' }\n",
          .address = *wire::IpAddress::from_text(address)};
}

/// ip and udp, as TLI has them.
class UdpTransfer final : public StackTransfer {
 public:
  explicit UdpTransfer(const Drivers& drivers) : peer_({host_on("", 2).address, port}) {
    const Protocol udp{.name = "udp", .transport = "udp"};
    far_ = bound(stream(udp.stack(host_on(drivers.far, 2))), {host_on("", 2).address, port});
    near_ = bound(stream(udp.stack(host_on(drivers.near, 1))), {host_on("", 1).address, port});
    find_neighbour();
  }
  void set_mode(ProcessingMode mode) override {
    near_->stream().set_mode(mode);
    far_->stream().set_mode(mode);
  }

 private:
  static constexpr std::uint16_t port = 7000;

  std::size_t send(Bytes message) override { return near_->t_sndudata(unit_of(peer_, message)) ? message.size() : 0; }
  std::size_t receive(Bytes place) override {
    Name sender;
    tli::t_unitdata unit = unit_of(sender, place);
    int flags = 0;
    if (!far_->t_rcvudata(unit, flags)) {
      return 0;
    }
    flags == 0 && unit.udata.len == place.size() ? void() : lose();
    return place.size();
  }

  Name peer_;
  std::unique_ptr<tli::Endpoint> near_;
  std::unique_ptr<tli::Endpoint> far_;
};

/// ip alone, as its user has it: service primitives by putmsg() and getmsg(), for a protocol of ours.
class IpTransfer final : public StackTransfer {
 public:
  explicit IpTransfer(const Drivers& drivers)
      : far_(bound_to(drivers.far, 2)), near_(bound_to(drivers.near, 1)), request_bytes_(request(request_)) {
    find_neighbour();
  }
  void set_mode(ProcessingMode mode) override {
    near_->set_mode(mode);
    far_->set_mode(mode);
  }

 private:
  static constexpr std::uint8_t experimental_protocol = 253;  // RFC 3692
  using Block = std::array<std::byte, 128>;

  static std::size_t address(int number, Bytes out) {
    return wire::NetworkAddress{host_on("", number).address, experimental_protocol}.encode(out);
  }
  static std::size_t request(Block& block) {
    Block to;
    return wire::tpi::UnitdataReq{Bytes(to).first(address(2, to)), {}}.encode(block);
  }
  std::unique_ptr<Stream> bound_to(const std::string& driver, int number) {
    const Host host = host_on(driver, number);
    auto one = stream("driver = " + driver + "\npush = [" + host.modules + "]\n" + host.settings);
    Block own;
    Block block;
    const std::size_t size = wire::tpi::BindReq{Bytes(own).first(address(number, own)), 0}.encode(block);
    SLUICE_REQUIRE(one->putmsg(Bytes(block).first(size), std::nullopt).has_value());
    for (int tries = 0;; ++tries) {
      const auto answer = one->getmsg(Bytes(block), std::nullopt);
      if (answer) {
        SLUICE_REQUIRE(wire::tpi::primitive_of(Bytes(block).first(answer->control.value_or(0))) ==
                       wire::tpi::T_BIND_ACK);
        return one;
      }
      SLUICE_REQUIRE(tries < 1000);
      static_cast<void>(loop_->wait(loop_->now() + std::chrono::milliseconds(1)));
    }
  }
  std::size_t send(Bytes message) override {
    return near_->putmsg(Bytes(request_).first(request_bytes_), message) ? message.size() : 0;
  }
  std::size_t receive(Bytes place) override {
    Block block;
    const auto received = far_->getmsg(Bytes(block), place);
    if (!received) {
      return 0;
    }
    received->data == place.size() && !received->more_data ? void() : lose();
    return place.size();
  }

  std::unique_ptr<Stream> far_;
  std::unique_ptr<Stream> near_;
  Block request_{};
  std::size_t request_bytes_;
};

/// A connection of our own, by tcp if nothing else is said.
class ConnectionTransfer final : public StackTransfer {
 public:
  explicit ConnectionTransfer(const Drivers& drivers, const Protocol& protocol = {.name = "tcp", .transport = "tcp"}) {
    const auto made = [&](const std::string& driver, int number) {
      auto one = opened(set_, protocol.stack(host_on(driver, number)));
      one->set_waiter(loop_.get());
      return one;
    };
    const wire::TransportAddress address{host_on("", 2).address, 7000};
    listener_ = bound(made(drivers.far, 2), address, 1);
    auto called = made(drivers.far, 2);
    const wire::TransportAddress from{host_on("", 1).address, 0};
    both_ = protocol.is_tcp() ? connected_by_tcp(made(drivers.near, 1), from, *listener_, address, std::move(called))
                              : connected(made(drivers.near, 1), from, *listener_, address,
                                          bound(std::move(called), {address.address, 0}));
    both_.caller->stream().set_nonblocking(true);
    both_.called->stream().set_nonblocking(true);
  }
  void set_mode(ProcessingMode mode) override {
    both_.caller->stream().set_mode(mode);
    both_.called->stream().set_mode(mode);
  }

 private:
  [[nodiscard]] std::size_t window_bytes() const override { return file_bytes; }
  std::size_t send(Bytes message) override { return both_.caller->t_snd(message, 0).value_or(0); }
  std::size_t receive(Bytes place) override {
    int flags = 0;
    return both_.called->t_rcv(place, flags).value_or(0);
  }
  /// What was sent crosses in turns of the run loop, which also tells the time.
  void run() override { static_cast<void>(loop_->wait(loop_->now())); }

  std::unique_ptr<tli::Endpoint> listener_;
  Connected both_;
};

/// Sockets of the kernel's, of its TCP, UDP or raw IP, between two of its addresses.
class KernelTransfer final : public Transfer {
 public:
  enum class Kind : std::uint8_t { tcp, udp, raw };
  struct Place {
    std::uint32_t address;                // in host byte order
    std::function<void()> enter = [] {};  // into its network namespace
  };

  KernelTransfer(Kind kind, const Place& near, const Place& far) : kind_(kind) {
    sockaddr_in at{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(far.address)}, .sin_zero = {}};
    sockaddr* const name = reinterpret_cast<sockaddr*>(&at);
    far.enter();
    far_ = made();
    must(::bind(far_.get(), name, sizeof at) == 0, "bind");
    socklen_t size = sizeof at;
    must(::getsockname(far_.get(), name, &size) == 0, "getsockname");
    must(kind != Kind::tcp || ::listen(far_.get(), 1) == 0, "listen");
    near.enter();
    near_ = made();
    must(::connect(near_.get(), name, sizeof at) == 0, "connect");
    if (kind == Kind::tcp) {
      far_ = Descriptor(::accept4(far_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      must(static_cast<bool>(far_), "accept");
    }
  }

 private:
  static constexpr int experimental_protocol = 253;  // RFC 3692
  static constexpr std::size_t ip_header_bytes = 20;
  static constexpr std::size_t datagrams_bytes_max = 64 * 1024;  // fits the receive buffer with what the kernel counts

  [[nodiscard]] Descriptor made() const {
    const int type = kind_ == Kind::tcp ? SOCK_STREAM : kind_ == Kind::udp ? SOCK_DGRAM : SOCK_RAW;
    Descriptor one(::socket(AF_INET, type | SOCK_CLOEXEC, kind_ == Kind::raw ? experimental_protocol : 0));
    must(static_cast<bool>(one), "socket");
    constexpr int buffer_bytes = 212'992;  // the most that a kernel left as it is allows
    must(kind_ == Kind::tcp || ::setsockopt(one.get(), SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes) == 0,
         "SO_RCVBUF");
    return one;
  }
  [[nodiscard]] std::size_t window_bytes() const override {
    return kind_ == Kind::tcp ? file_bytes : datagrams_bytes_max;
  }
  std::size_t send(Bytes message) override {
    const ssize_t taken = ::send(near_.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    return taken > 0 ? static_cast<std::size_t>(taken) : 0;
  }
  /// A raw socket shows the IP header, too: it goes to a place of its own.
  std::size_t receive(Bytes place) override {
    std::array<std::byte, ip_header_bytes> header;
    std::array<iovec, 2> parts{iovec{header.data(), header.size()}, iovec{place.data(), place.size()}};
    const bool raw = kind_ == Kind::raw;
    msghdr message{};
    message.msg_iov = parts.data() + (raw ? 0 : 1);
    message.msg_iovlen = raw ? 2 : 1;
    const ssize_t got = ::recvmsg(far_.get(), &message, MSG_DONTWAIT);
    const std::size_t bytes = got > 0 ? static_cast<std::size_t>(got) - (raw ? ip_header_bytes : 0) : 0;
    kind_ == Kind::tcp || got <= 0 || bytes == place.size() ? void() : lose();
    return bytes;
  }
  [[nodiscard]] bool wait() override {
    pollfd waits{.fd = far_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&waits, 1,
                  static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(silence_max).count())) == 1;
  }

  Kind kind_;
  Descriptor near_;
  Descriptor far_;
};

}  // namespace sluice::bench
