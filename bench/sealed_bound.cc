// SPDX-License-Identifier: Apache-2.0
// What no sealed transfer over the kernel's UDP can do without, and nothing else: one file, in order, from one process
// to another. The sender maps it, digests it, seals it into datagrams of 1,472 bytes and sends 44 with a call; the
// receiver takes them with a call, opens them behind each other, digests and writes them. No session, no names, no
// repair: a datagram that is lost ends it. So its time is the bound that scripts/peers measures ftx against.
//
//     sealed_bound receive FILE ADDRESS PORT    says "listening", takes one file, ends
//     sealed_bound send FILE ADDRESS PORT
//
// Both print the file's digest. Exit status 0, or 1 with a line that says what failed. ADDRESS is an IPv4 address.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/ftx/files/digest.h"
#include "apps/ftx/security/aead.h"
#include "apps/ftx/session/endpoint.h"
#include "base/bytes.h"
#include "base/descriptor.h"

namespace sluice::ftx {
namespace {

// A datagram of ftx: header, payload, tag.
constexpr std::size_t datagram_bytes = 1472;
constexpr std::size_t payload_bytes = datagram_bytes - data_header_bytes - tag_bytes;
constexpr std::size_t datagrams_a_call = Burst::datagrams_max;
constexpr std::size_t written_at_once = 1024 * 1024;  // ftx: what a turn brings; here 256 KiB take 1.05 times as long
constexpr int socket_bytes = 16 << 20;                // asked for; the kernel has a limit (net.core.rmem_max)
// What the receiver tells: up to where the sender may send, or that all is written.
constexpr std::uint64_t at_first = payload_bytes * datagrams_a_call;
constexpr std::uint64_t all_written = UINT64_MAX;
constexpr std::size_t populated_at_once = 1U << 20;
constexpr timeval patience{5, 0};

[[noreturn]] void fail(std::string_view what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

struct Header {
  std::uint64_t number;
  std::uint64_t offset;
  std::uint64_t size_bytes;  // of the file

  void store(std::byte* at) const {
    std::memset(at, 0, data_header_bytes);
    store_big_endian(at, number);
    store_big_endian(at + 8, offset);
    store_big_endian(at + 16, size_bytes);
  }
  static Header load(const std::byte* at) {
    return {load_big_endian<std::uint64_t>(at), load_big_endian<std::uint64_t>(at + 8),
            load_big_endian<std::uint64_t>(at + 16)};
  }
};

Aead aead(Direction direction) {
  constexpr std::array<std::byte, 16> key{std::byte{1}};  // it measures, and protects nothing
  auto made = Aead::create(Cipher::aes_128_gcm, key, ConstBytes(key).first(aead_iv_bytes), direction);
  if (!made) {
    throw std::runtime_error(made.error().text);
  }
  return *std::move(made);
}

Descriptor udp_socket() {
  Descriptor made(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!made) {
    fail("cannot make a socket");
  }
  static_cast<void>(::setsockopt(made.get(), SOL_SOCKET, SO_RCVBUF, &socket_bytes, sizeof socket_bytes));
  static_cast<void>(::setsockopt(made.get(), SOL_SOCKET, SO_SNDBUF, &socket_bytes, sizeof socket_bytes));
  static_cast<void>(::setsockopt(made.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience));
  return made;
}

void print(const Digest& digest) {
  std::string text;
  for (const std::byte byte : digest) {
    text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  }
  fmt::print("{}\n", text);
}

/// What the socket holds of payload: half of what it counts, which is more than the bytes.
std::uint64_t room_bytes(const Descriptor& socket) {
  int bytes = 0;
  socklen_t size = sizeof bytes;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &bytes, &size) != 0) {
    fail("cannot ask for a socket's buffer");
  }
  return static_cast<std::uint64_t>(bytes) / 2;
}

/// Waits where `wait`. What the receiver tells, or told before.
std::uint64_t heard(const Descriptor& socket, std::uint64_t before, bool wait) {
  std::array<std::byte, 8> told;
  const ssize_t size = ::recv(socket.get(), told.data(), told.size(), wait ? 0 : MSG_DONTWAIT);
  if (size < 0 && wait) {
    fail("the receiver says nothing");
  }
  return size == static_cast<ssize_t>(told.size()) ? std::max(before, load_big_endian<std::uint64_t>(told.data()))
                                                   : before;
}

void send(const char* path, const sockaddr_in& to) {
  const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  struct stat status;
  if (!file || ::fstat(file.get(), &status) != 0) {
    fail(path);
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  const Descriptor socket = udp_socket();
  constexpr int segment = datagram_bytes;
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 ||
      ::setsockopt(socket.get(), SOL_UDP, UDP_SEGMENT, &segment, sizeof segment) != 0) {
    fail("cannot send datagrams together");
  }
  auto* const mapped = static_cast<std::byte*>(::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0));
  if (mapped == MAP_FAILED) {
    fail("cannot map the file");
  }
  Aead seal = aead(Direction::seal);
  Digester digester;
  std::vector<std::byte> burst(datagram_bytes * datagrams_a_call);
  std::uint64_t number = 0;
  std::uint64_t populated = 0;
  std::uint64_t told = at_first;
  for (std::uint64_t offset = 0; offset < size;) {
    if (offset + burst.size() > populated && populated < size) {
      const std::size_t more = std::min<std::uint64_t>(populated_at_once, size - populated);
      static_cast<void>(::madvise(mapped + populated, more, MADV_POPULATE_READ));
      populated += more;
    }
    const auto together = std::min<std::uint64_t>(payload_bytes * datagrams_a_call, size - offset);
    digester.update({mapped + offset, together});
    std::size_t filled = 0;
    for (const std::uint64_t end = offset + together; offset < end;) {
      const auto length = std::min<std::uint64_t>(payload_bytes, end - offset);
      const Bytes datagram = Bytes(burst).subspan(filled, data_header_bytes + length + tag_bytes);
      Header{number, offset, size}.store(datagram.data());
      if (seal.needs_new_key()) {
        seal = aead(Direction::seal);  // as ftx, which derives another
      }
      if (!seal.seal({0, number++, datagram.first(data_header_bytes)}, ConstBytes(mapped + offset, length),
                     datagram.subspan(data_header_bytes))) {
        throw std::runtime_error("cannot seal");
      }
      filled += datagram.size();
      offset += length;
    }
    if (::send(socket.get(), burst.data(), filled, 0) < 0) {
      fail("cannot send");
    }
    const auto next = std::min<std::uint64_t>(offset + at_first, size);
    do {
      told = heard(socket, told, told < next);
    } while (told < next);
  }
  while (told != all_written) {
    told = heard(socket, told, true);
  }
  print(digester.value());
}

void receive(const char* path, const sockaddr_in& at) {
  const Descriptor file(::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file) {
    fail(path);
  }
  const Descriptor socket = udp_socket();
  constexpr int yes = 1;
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 ||
      ::setsockopt(socket.get(), SOL_UDP, UDP_GRO, &yes, sizeof yes) != 0) {
    fail("cannot take datagrams together");
  }
  fmt::print("listening\n");
  std::fflush(stdout);
  Aead open = aead(Direction::open);
  Digester digester;
  std::vector<std::byte> arrived(65536);
  std::vector<std::byte> opened(written_at_once + arrived.size());
  std::size_t waiting = 0;
  std::uint64_t written = 0;
  std::uint64_t told = 0;
  const std::uint64_t room = room_bytes(socket);
  for (std::uint64_t size = 1; written < size;) {
    sockaddr_in from{};
    socklen_t from_size = sizeof from;
    const ssize_t taken =
        ::recvfrom(socket.get(), arrived.data(), arrived.size(), 0, reinterpret_cast<sockaddr*>(&from), &from_size);
    if (taken < 0) {
      fail(fmt::format("the sender says nothing after {} bytes", written + waiting));
    }
    for (Bytes left = Bytes(arrived).first(static_cast<std::size_t>(taken)); !left.empty();) {
      const Bytes datagram = left.first(std::min(left.size(), datagram_bytes));
      left = left.subspan(datagram.size());
      if (datagram.size() <= data_header_bytes + tag_bytes) {
        throw std::runtime_error("not a datagram of the sender's");
      }
      const Header header = Header::load(datagram.data());
      if (header.offset != written + waiting) {
        throw std::runtime_error(fmt::format("a datagram is missing after {} bytes", written + waiting));
      }
      const std::size_t length = datagram.size() - data_header_bytes - tag_bytes;
      if (!open.open({0, header.number, datagram.first(data_header_bytes)}, datagram.subspan(data_header_bytes),
                     Bytes(opened).subspan(waiting, length))) {
        throw std::runtime_error("a datagram does not open");
      }
      size = header.size_bytes;
      waiting += length;
    }
    if (waiting >= written_at_once || written + waiting == size) {
      digester.update(ConstBytes(opened).first(waiting));
      if (::pwrite(file.get(), opened.data(), waiting, static_cast<off_t>(written)) != static_cast<ssize_t>(waiting)) {
        fail("cannot write");
      }
      written += std::exchange(waiting, 0);
    }
    const std::uint64_t until = written == size ? all_written : written + waiting + room;
    if (until - told >= room / 4) {
      told = until;
      std::array<std::byte, 8> word;
      store_big_endian(word.data(), told);
      static_cast<void>(
          ::sendto(socket.get(), word.data(), word.size(), 0, reinterpret_cast<sockaddr*>(&from), from_size));
    }
  }
  print(digester.value());
}

}  // namespace
}  // namespace sluice::ftx

int main(int count, char** words) {
  const std::string_view way = count == 5 ? words[1] : "";
  sockaddr_in address{};
  address.sin_family = AF_INET;
  std::uint16_t port = 0;
  const std::string_view port_text = count == 5 ? words[4] : "";
  const bool is_port = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port).ec == std::errc();
  address.sin_port = htons(port);
  if ((way != "send" && way != "receive") || ::inet_pton(AF_INET, words[3], &address.sin_addr) != 1 || !is_port) {
    fmt::print(stderr, "usage: sealed_bound send|receive FILE IPV4-ADDRESS PORT\n");
    return 2;
  }
  try {
    way == "send" ? sluice::ftx::send(words[2], address) : sluice::ftx::receive(words[2], address);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "sealed_bound: {}\n", error.what());
    return 1;
  }
}
