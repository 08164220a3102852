// SPDX-License-Identifier: Apache-2.0
// Moves datagrams over a memory wire between two stacks, and does nothing else: what callgrind counts of it, and what
// one commit is timed against another with.
//
//     datagram_cost ARM PATH BYTES COUNT
//
// ARM is `batch` (ip, udp; 32 at a time through the stream) or `single` (ip, udp, xdr, timod; one at a time through
// TLI). Prints nanoseconds of CPU time a datagram, both ends together, set-up left out.

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/registry.h"
#include "base/contract.h"
#include "bench/samples.h"
#include "stack/head/stack_file.h"
#include "stack/wire/address.h"
#include "stack/wire/tpi.h"
#include "tli/endpoint.h"

namespace sluice::bench {
namespace {

using AddressBytes = std::array<std::byte, 8>;

AddressBytes address_of(unsigned number, std::uint16_t port) {
  AddressBytes bytes{};
  wire::TransportAddress{wire::Ipv4Address{{10, 78, 0, static_cast<std::uint8_t>(number)}}, port}.encode(bytes);
  return bytes;
}

std::unique_ptr<tli::Endpoint> open(StreamSet& set, unsigned number, const std::string& modules, Path path) {
  static const Registry registry = standard_registry();
  const std::string text = "[stack.end]\ndriver = { kind = 'wire', name = 'lab', end = '" +
                           std::string(number == 1 ? "a" : "b") + "', mtu = 65535 }\nip = { address = '10.78.0." +
                           std::to_string(number) + "/24' }\npush = [" + modules + "]\n";
  const Result<StackFile> file = StackFile::parse(text, "datagram_cost", registry);
  SLUICE_REQUIRE(file.has_value());
  Result<std::unique_ptr<Stream>> stream = open_stack(set, file->stacks().front());
  SLUICE_REQUIRE(stream.has_value());
  (*stream)->set_nonblocking(true);
  (*stream)->set_path(path);
  auto endpoint = std::move(tli::Endpoint::t_open(std::move(*stream), nullptr).value());
  AddressBytes address = address_of(number, 7000);
  const tli::t_bind bind{.addr = {address.size(), address.size(), address.data()}};
  SLUICE_REQUIRE(endpoint->t_bind(&bind, nullptr).has_value());
  return endpoint;
}

struct Lab {
  Lab(const std::string& modules, Path path, std::size_t bytes)
      : far(open(set, 2, modules, path)), near(open(set, 1, modules, path)), out(bytes), in(bytes) {}

  void single() {
    const tli::t_unitdata unit{
        .addr = {peer.size(), peer.size(), peer.data()}, .opt = {}, .udata = {out.size(), out.size(), out.data()}};
    SLUICE_REQUIRE(near->t_sndudata(unit).has_value());
    set.scheduler().poll(set.now());
    tli::t_unitdata taken{.addr = {from.size(), 0, from.data()}, .opt = {}, .udata = {in.size(), 0, in.data()}};
    int flags = 0;
    SLUICE_REQUIRE(far->t_rcvudata(taken, flags).has_value() && flags == 0 && taken.udata.len == in.size());
  }

  void batch(std::size_t count) {
    Batch requests;
    const wire::tpi::UnitdataReq primitive{.address = peer, .options = {}};
    for (std::size_t at = 0; at < count; ++at) {
      Message message = Message::allocate(set.pool(), 64, 0, MessageType::proto);
      Message data = near->stream().allocate(out.size());
      message.first().wptr += primitive.encode({message.first().wptr, 64});
      std::memcpy(data.append(out.size()).data(), out.data(), out.size());
      message.link(std::move(data));
      requests.push(std::move(message));
    }
    SLUICE_REQUIRE(near->stream().send(std::move(requests)).has_value());
    set.scheduler().poll(set.now());
    std::size_t received = 0;
    while (const Message message = far->stream().receive()) {
      received += message.copy_data_to(0, in) ? 1U : 0U;
    }
    SLUICE_REQUIRE(received == count);
  }

  StreamSet set{{.defer_bytes_min = 0}};
  std::unique_ptr<tli::Endpoint> far;
  std::unique_ptr<tli::Endpoint> near;
  std::vector<std::byte> out;
  std::vector<std::byte> in;
  AddressBytes peer = address_of(2, 7000);
  AddressBytes from{};
};

int run(std::string_view arm, Path path, std::size_t bytes, std::size_t count) {
  Lab lab(arm == "batch" ? "'ip', 'udp', 'timod'" : "'ip', 'udp', 'xdr', 'timod'", path, bytes);
  const auto move = [&](std::size_t datagrams) {
    if (arm == "batch") {
      for (std::size_t moved = 0; moved < datagrams; moved += 32) {
        lab.batch(32);
      }
    } else {
      for (std::size_t moved = 0; moved < datagrams; ++moved) {
        lab.single();
      }
    }
  };
  move(64);
  const double before = thread_cpu_ns();
  move(count);
  std::printf("%.1f\n", (thread_cpu_ns() - before) / static_cast<double>(count));
  return 0;
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("datagram_cost ARM PATH BYTES COUNT\n", stderr);
    return 2;
  }
  return sluice::bench::run(argv[1], sluice::path_named(argv[2]).value_or(sluice::Path::layered),
                            static_cast<std::size_t>(std::atoi(argv[3])), static_cast<std::size_t>(std::atoi(argv[4])));
}
