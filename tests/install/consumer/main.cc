// SPDX-License-Identifier: Apache-2.0
// A program outside of the project: a module of its own, pushed on a stream over the `wire` driver, and a message
// through it.
#include <array>
#include <iostream>
#include <memory>
#include <string>

#include "dlpi/register.h"
#include "libdlpi/dlpi_handle.h"
#include "stack/head/stream.h"

namespace {

using namespace sluice;

/// Counts the messages on their way down.
class Meter final : public Module {
 public:
  Meter() : Module("meter") {}
  void wput(Batch&& batch) override {
    down += batch.size();
    write_queue().put_next(std::move(batch));
  }

  static inline std::size_t down = 0;
};

/// A stream on one end of the wire, with a meter on it.
Result<std::unique_ptr<Stream>> open_end(StreamSet& set, const Registry& registry, std::string_view end) {
  Parameters parameters;
  parameters.set("name", "lab");
  parameters.set("end", std::string(end));
  auto driver = registry.find("wire")->make(set, parameters);
  if (!driver) {
    return std::unexpected(driver.error());
  }
  auto stream = Stream::open(set, std::move(*driver));
  if (stream) {
    if (Status pushed = (*stream)->push(std::make_unique<Meter>()); !pushed) {
      return std::unexpected(pushed.error());
    }
  }
  return stream;
}

int fail(std::string_view what, const dlpi::Failure& failure) {
  std::cerr << what << ": " << dlpi::dlpi_strerror(failure) << '\n';
  return 1;
}

}  // namespace

int main() {
  StreamSet set;
  Registry registry;
  dlpi::add_drivers(registry);
  const dlpi::Links links{.open = [&](std::string_view end) { return open_end(set, registry, end); },
                          .names = [] { return std::vector<std::string>{"a", "b"}; }};
  auto a = dlpi::Handle::dlpi_open(links, "a");
  auto b = dlpi::Handle::dlpi_open(links, "b");
  if (!a || !b) {
    return fail("open", (a ? b : a).error());
  }
  constexpr std::uint32_t experimental = 0x88b5;
  for (dlpi::Handle* handle : {a->get(), b->get()}) {
    if (const auto bound = handle->dlpi_bind(experimental, nullptr); !bound) {
      return fail("bind", bound.error());
    }
  }
  const std::size_t before = Meter::down;
  if (const auto sent = (*a)->dlpi_send(wire::mac_broadcast, as_bytes("hello")); !sent) {
    return fail("send", sent.error());
  }
  set.scheduler().poll(TimePoint());
  std::array<std::byte, 64> buffer{};
  const auto received = (*b)->dlpi_recv(buffer, 0);
  if (!received) {
    return fail("receive", received.error());
  }
  std::cout << as_text(ConstBytes(buffer).first(received->bytes)) << ", " << Meter::down - before
            << " message through the meter\n";
}
