// SPDX-License-Identifier: Apache-2.0
#include "tpi/register.h"

#include <memory>

#include "tpi/kernel_tcp.h"
#include "tpi/kernel_udp.h"

namespace sluice::tpi {
namespace {

constexpr double buffer_bytes_max = 1 << 30;

std::size_t bytes_of(const Parameters& parameters, std::string_view name, std::size_t otherwise) {
  return static_cast<std::size_t>(parameters.integer(name, static_cast<std::int64_t>(otherwise)));
}

Result<std::unique_ptr<Module>> make_kernel_udp(StreamSet& set, const Parameters& parameters) {
  UdpSocket::Options options;
  options.gso = parameters.boolean("gso", options.gso);
  options.gro = parameters.boolean("gro", options.gro);
  options.fragment = parameters.boolean("fragment", options.fragment);
  options.receive_buffer_bytes = bytes_of(parameters, "receive_buffer_bytes", options.receive_buffer_bytes);
  options.send_buffer_bytes = bytes_of(parameters, "send_buffer_bytes", options.send_buffer_bytes);
  return std::make_unique<KernelUdp>(set, options);
}

Result<std::unique_ptr<Module>> make_kernel_tcp(StreamSet& set, const Parameters& parameters) {
  TcpSocket::Options options;
  options.receive_buffer_bytes = bytes_of(parameters, "receive_buffer_bytes", options.receive_buffer_bytes);
  options.send_buffer_bytes = bytes_of(parameters, "send_buffer_bytes", options.send_buffer_bytes);
  return std::make_unique<KernelTcp>(set, options);
}

}  // namespace

void add_providers(Registry& registry) {
  using Type = ParameterSpec::Type;
  registry.add(Entry{
      .name = "kernel_tcp",
      .summary = "TCP through the kernel's sockets: TPI connection-mode service with orderly release",
      .effect = "hands bytes to the kernel from where they lie; received ones are shown where the kernel put them",
      .kind = Entry::Kind::driver,
      .upper = Service::transport,
      .parameters = {{.name = "receive_buffer_bytes",
                      .type = Type::integer,
                      .meaning = "socket receive buffer, in bytes, as far as the system allows; what the system adapts "
                                 "to the path if absent",
                      .minimum = 4096,
                      .maximum = buffer_bytes_max},
                     {.name = "send_buffer_bytes",
                      .type = Type::integer,
                      .meaning = "socket send buffer, in bytes, as far as the system allows; what the system adapts to "
                                 "the path if absent",
                      .minimum = 4096,
                      .maximum = buffer_bytes_max}},
      .make = make_kernel_tcp});
  registry.add(Entry{
      .name = "kernel_udp",
      .summary = "UDP through the kernel's sockets: TPI connectionless service, no privileges needed",
      .effect = "hands datagrams to the kernel from where they lie; received ones are shown where the kernel put them",
      .kind = Entry::Kind::driver,
      .upper = Service::transport,
      .parameters = {{.name = "gso",
                      .type = Type::boolean,
                      .meaning = "send runs of equal datagrams in one call where the kernel can; true if absent"},
                     {.name = "gro",
                      .type = Type::boolean,
                      .meaning = "receive such runs in one call where the kernel can; true if absent"},
                     {.name = "fragment",
                      .type = Type::boolean,
                      .meaning = "let IP fragment datagrams larger than the path MTU; false: no router fragments them "
                                 "either, and EMSGSIZE refuses those larger than the interface's; true if absent"},
                     {.name = "receive_buffer_bytes",
                      .type = Type::integer,
                      .meaning = "socket receive buffer, in bytes, as far as the system allows; 4 MiB if absent",
                      .minimum = 4096,
                      .maximum = buffer_bytes_max},
                     {.name = "send_buffer_bytes",
                      .type = Type::integer,
                      .meaning = "socket send buffer, in bytes, as far as the system allows; 4 MiB if absent",
                      .minimum = 4096,
                      .maximum = buffer_bytes_max}},
      .make = make_kernel_udp});
}

}  // namespace sluice::tpi
