// SPDX-License-Identifier: Apache-2.0
#include "apps/sluice/bridge.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>

#include "apps/sluice/exit_code.h"
#include "apps/sluice/program.h"
#include "edge/bridge.h"
#include "stack/wire/dlpi.h"

namespace sluice {
namespace {

/// Sends one DLPI request and takes its answer, which must be `expected`.
template <class Request>
bool request(Stream& stream, const Request& primitive, std::uint32_t expected) {
  std::array<std::byte, 128> block{};
  const ConstBytes content = std::span(block).first(primitive.encode(block));
  if (!stream.putmsg(content, std::nullopt)) {
    return false;
  }
  std::array<std::byte, 256> answer{};
  const auto received = stream.getmsg(answer, std::nullopt);
  return received && received->control &&
         wire::dlpi::primitive_of(ConstBytes(answer).first(*received->control)) == expected;
}

/// Makes the stream take every frame of its link, whole.
bool take_everything(Stream& stream) {
  namespace dlpi = wire::dlpi;
  // SAP 0 stands for none of the protocols: what comes is what promiscuous mode brings.
  return request(stream, dlpi::BindReq{.sap = 0, .service_mode = dlpi::DL_CLDLS}, dlpi::DL_BIND_ACK) &&
         request(stream, dlpi::PromisconReq{dlpi::DL_PROMISC_PHYS}, dlpi::DL_OK_ACK) &&
         request(stream, dlpi::PromisconReq{dlpi::DL_PROMISC_SAP}, dlpi::DL_OK_ACK) &&
         stream.ioctl(dlpi::DLIOCRAW).has_value();
}

}  // namespace

int run_bridge(const StackDeclaration& first, const StackDeclaration& second, const BridgeOptions& options) {
  const std::unique_ptr<Program> program = Program::start();
  const std::unique_ptr<Stream> a = program == nullptr ? nullptr : program->open(first);
  const std::unique_ptr<Stream> b = a == nullptr ? nullptr : program->open(second);
  if (b == nullptr) {
    return exit_open;
  }
  for (const auto& [stream, declaration] : {std::pair{a.get(), &first}, std::pair{b.get(), &second}}) {
    if (!take_everything(*stream)) {
      fmt::print(stderr,
                 "sluice: stack '{}': its driver does not hand out whole frames; a bridge needs a DLPI driver\n",
                 declaration->name);
      return exit_open;
    }
  }
  fmt::print("{}\n", options.json ? nlohmann::ordered_json{{"event", "running"}}.dump()
                                  : fmt::format("bridging {} and {}", first.name, second.name));
  std::fflush(stdout);
  {
    const Bridge bridge(program->loop(), *a, *b);
    program->loop().run_until([&] { return program->stopped(); });
  }
  print_statistics(first, *a, options.json);
  print_statistics(second, *b, options.json);
  return exit_ok;
}

}  // namespace sluice
