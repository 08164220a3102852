// SPDX-License-Identifier: Apache-2.0
// A module of this program's own: it numbers datagrams, and counts where they arrive which numbers are missing. A bad
// link between two stacks loses some.
//
// Shows: put procedures, a header, counters, a change of state that waits until a message is verified, the line in the
//        registry, a stack file that names the module.
// Run:   own_module
// Prints how many datagrams arrived and how many are missing, and exits 0 if that adds up.

#include <cstdint>

#include "endpoint.h"

using namespace programs;

namespace {

constexpr std::string_view stacks = R"(
[stack.a]
driver = { kind = "wire", name = "lab", end = "a" }
push   = ["ip", "udp", "fault", "numbered", "timod"]
ip     = { address = "10.79.0.1/24" }
fault  = { loss = 30, seed = 7 }

[stack.b]
driver = { kind = "wire", name = "lab", end = "b" }
push   = ["ip", "udp", "numbered", "timod"]
ip     = { address = "10.79.0.2/24" }
)";

/// numbered - puts a number of four bytes in front of each data unit; takes it off on the way up, and counts gaps.
class Numbered final : public Module {
 public:
  Numbered() : Module("numbered") {}

  // It neither reads nor keeps payload, so what is owed to the bytes may stay owed.
  [[nodiscard]] bool handles_deferred() const override { return true; }
  [[nodiscard]] std::size_t headroom() const override { return number_bytes; }

  void wput(Batch&& batch) override {
    Batch out;
    while (Message message = batch.pop()) {
      if (message.type() == MessageType::proto && message.data_block() != nullptr) {
        Message data = message.unlink();  // the primitive stays in front
        const Bytes header = data.prepend(number_bytes);
        if (header.empty()) {
          ++no_memory_;
          continue;
        }
        store_big_endian(header.data(), next_down_++);
        message.link(std::move(data));
      }
      out.push(std::move(message));
    }
    write_queue().put_next(std::move(out));
  }

  void rput(Batch&& batch) override {
    Batch out;
    while (Message message = batch.pop()) {
      if (message.type() == MessageType::proto && message.data_block() != nullptr) {
        Message data = message.unlink();
        std::array<std::byte, number_bytes> header{};
        if (!data.copy_data_to(0, header)) {
          ++short_;  // bytes from outside may be anything
          continue;
        }
        data.trim_front(number_bytes);
        // udp's check may still be owed: until it has held, the number is only a claim.
        data.when_verified(handle(), [this, number = load_big_endian<std::uint32_t>(header.data())] {
          missing_ += number - next_up_;
          next_up_ = number + 1;
        });
        if (data.failed()) {
          continue;  // counted by the module whose check it was
        }
        message.link(std::move(data));
      }
      out.push(std::move(message));
    }
    read_queue().put_next(std::move(out));
  }

 private:
  static constexpr std::size_t number_bytes = 4;

  std::uint32_t next_down_ = 0;
  std::uint32_t next_up_ = 0;
  Counter missing_{*this, "missing", "numbers that did not arrive"};
  Counter short_{*this, "short", "data units without room for a number"};
  Counter no_memory_{*this, "no_memory", "data units without memory for a number"};
};

std::uint64_t count(Stream& stream, std::string_view module_name, std::string_view counter_name) {
  for (const auto& module : stream.chain().modules()) {
    for (const Counter* counter : module->counters()) {
      if (module->name() == module_name && counter->name() == counter_name) {
        return counter->value();
      }
    }
  }
  give_up("no such counter");
}

}  // namespace

int main() {
  Hosts hosts(stacks, {.name = "numbered",
                       .summary = "numbers data units",
                       .transparent = true,
                       .make = [](StreamSet&, const Parameters&) { return std::make_unique<Numbered>(); }});
  constexpr std::uint64_t sent = 50;
  Datagram datagram("10.79.0.2:7000", as_bytes("data"));
  for (std::uint64_t i = 0; i < sent; ++i) {
    must("t_sndudata", hosts.a->t_sndudata(datagram.unit));
  }
  const std::uint64_t lost = count(hosts.a->stream(), "fault", "down_lost");
  std::uint64_t arrived = 0;
  for (int flags = 0; arrived < sent - lost; ++arrived) {
    must("t_rcvudata", hosts.b->t_rcvudata(datagram.unit, flags));
  }
  const std::uint64_t missing = count(hosts.b->stream(), "numbered", "missing");
  std::cout << sent << " sent, " << arrived << " arrived, " << missing << " missing before the last of them\n";
  return missing > 0 && missing <= lost && as_text(datagram.bytes()) == "data" ? 0 : 1;
}
