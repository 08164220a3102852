// SPDX-License-Identifier: Apache-2.0
// A client and a server that speak TLI (XTI), each on a stack of its own, joined by a wire in memory. The server sends
// back what it receives, in capitals.
//
// Shows: a stack file in the program's text, t_open (endpoint.h), t_bind, t_sndudata, t_rcvudata.
// Run:   tli_echo
// Prints what the server and the client received, and exits 0 if that is right.

#include <cctype>

#include "dlpi/register.h"
#include "edge/run_loop.h"
#include "endpoint.h"
#include "stack/modules/register.h"

using namespace programs;

namespace {

// To use devices instead of the wire, change `driver`; to do all work on the payload in one pass, add mode = "fused".
constexpr std::string_view stacks = R"(
[stack.client]
driver = { kind = "wire", name = "lab", end = "a" }
push   = ["ip", "udp", "timod"]
ip     = { address = "10.79.0.1/24" }

[stack.server]
driver = { kind = "wire", name = "lab", end = "b" }
push   = ["ip", "udp", "timod"]
ip     = { address = "10.79.0.2/24" }
)";

}  // namespace

int main() {
  StreamSet set;
  Registry registry;  // what a stack file may name
  add_modules(registry);
  dlpi::add_drivers(registry);
  const auto loop = must(RunLoop::open(set));
  const StackFile file = must(StackFile::parse(stacks, "tli_echo", registry));
  const auto client = open_endpoint(set, *loop, file, "client");
  const auto server = open_endpoint(set, *loop, file, "server");

  Datagram request("10.79.0.2:7", as_bytes("hello, server"));
  const tli::t_bind echo_port{.addr = request.unit.addr, .qlen = 0};
  must("t_bind", server->t_bind(&echo_port, nullptr));
  must("t_bind", client->t_bind(nullptr, nullptr));  // any port
  must("t_sndudata", client->t_sndudata(request.unit));

  Datagram received;
  int flags = 0;
  must("t_rcvudata", server->t_rcvudata(received.unit, flags));  // waits until it is there
  std::cout << "server: " << as_text(received.bytes()) << '\n';
  for (std::byte& byte : received.bytes()) {
    byte = static_cast<std::byte>(std::toupper(std::to_integer<int>(byte)));
  }
  must("t_sndudata", server->t_sndudata(received.unit));  // to where it came from

  Datagram answer;
  must("t_rcvudata", client->t_rcvudata(answer.unit, flags));
  std::cout << "client: " << as_text(answer.bytes()) << '\n';
  return as_text(answer.bytes()) == "HELLO, SERVER" ? 0 : 1;
}
