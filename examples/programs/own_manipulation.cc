// SPDX-License-Identifier: Apache-2.0
// A module that defers a manipulation of its own: it enciphers what goes down and deciphers what comes up with ChaCha20
// (OpenSSL), tile by tile, in the one pass that also converts, sums and copies.
//
// Shows: a stage (stack/core/stage.h), a module that asks for it, what `explain` says of the stack.
// Run:   own_manipulation
// Prints what each module does to the payload, then what came through, and exits 0 if that is what was sent. It shows
// how a stage is made, not how a channel is secured: nothing is authenticated, and the key stands in the text.

#include <openssl/evp.h>
#include <openssl/rand.h>

#include "endpoint.h"
#include "stack/head/explanation.h"

using namespace programs;

namespace {

constexpr std::string_view stacks = R"(
[stack.a]
mode   = "fused"
driver = { kind = "wire", name = "lab", end = "a", mtu = 9000 }
push   = ["ip", "udp", "chacha20", "xdr", "timod"]
ip     = { address = "10.79.0.1/24" }

[stack.b]
mode   = "fused"
driver = { kind = "wire", name = "lab", end = "b", mtu = 9000 }
push   = ["ip", "udp", "chacha20", "xdr", "timod"]
ip     = { address = "10.79.0.2/24" }
)";

constexpr std::string_view key = "thirty-two characters are a key.";  // EVP_chacha20 has keys of 32 bytes

/// The stage: one message's bytes at a time, from the first to the last.
class ChaCha20 final : public Stage {
 public:
  static constexpr std::size_t vector_bytes = 16;  // EVP_chacha20: the block counter, then the nonce

  ChaCha20() : Stage({.name = "chacha20", .converts = true}), context_(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free) {
    EVP_EncryptInit_ex(context_.get(), EVP_chacha20(), nullptr, as_unsigned(as_bytes(key).data()), nullptr);
  }
  void begin(ConstBytes vector) override {
    good_ = EVP_EncryptInit_ex(context_.get(), nullptr, nullptr, nullptr, as_unsigned(vector.data())) == 1;
  }
  void run(std::size_t /*offset*/, ConstBytes from, Bytes to) override {
    int written = 0;
    good_ = EVP_EncryptUpdate(context_.get(), reinterpret_cast<unsigned char*>(to.data()), &written,
                              as_unsigned(from.data()), static_cast<int>(from.size())) == 1 &&
            good_;
  }
  bool end(Bytes /*result*/) override { return good_; }

 private:
  static const unsigned char* as_unsigned(const std::byte* bytes) {
    return reinterpret_cast<const unsigned char*>(bytes);
  }

  std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> context_;
  bool good_ = true;
};

/// chacha20 - puts a random vector in front of each data unit and enciphers what is behind it; back again on the way
/// up.
class Cipher final : public Module {
 public:
  Cipher() : Module("chacha20") {}

  [[nodiscard]] bool handles_deferred() const override { return true; }
  [[nodiscard]] std::size_t headroom() const override { return ChaCha20::vector_bytes; }
  [[nodiscard]] PayloadWork payload_work(Side) const override {
    return {.items = {{.kind = PayloadWork::Kind::own, .stage = stage_.get()}}};
  }
  void wput(Batch&& batch) override { write_queue().put_next(passed(std::move(batch), Side::write)); }
  void rput(Batch&& batch) override { read_queue().put_next(passed(std::move(batch), Side::read)); }

 private:
  Batch passed(Batch batch, Side side) {
    Batch out;
    while (Message message = batch.pop()) {
      if (message.type() == MessageType::proto && message.data_block() != nullptr) {
        Message data = message.unlink();
        if (!deferred(data, side)) {
          failed_ += data.failed() ? 0U : 1U;  // else a module below has counted it
          continue;
        }
        message.link(std::move(data));
      }
      out.push(std::move(message));
    }
    return out;
  }
  bool deferred(Message& data, Side side) {
    std::array<std::byte, ChaCha20::vector_bytes> vector{};
    if (side == Side::write) {
      constexpr std::size_t counter_bytes = 4;  // zero; the rest is the nonce
      RAND_bytes(reinterpret_cast<unsigned char*>(vector.data() + counter_bytes), vector.size() - counter_bytes);
      const Bytes header = data.prepend(vector.size());
      if (header.empty()) {
        return false;  // no memory
      }
      std::ranges::copy(vector, header.begin());
    } else if (!data.copy_data_to(0, vector)) {
      return false;  // shorter than a vector
    }
    const OwnStage own{.stage = stage_, .from = vector.size(), .argument = vector};
    if (data.transform(own, handle(), failed_) == TransformResult::failed) {
      return false;
    }
    if (side == Side::read) {
      data.trim_front(vector.size());
    }
    return true;
  }

  std::shared_ptr<ChaCha20> stage_ = std::make_shared<ChaCha20>();
  Counter failed_{*this, "failed", "data units that could not be enciphered or deciphered"};
};

void print(std::string_view title, const ExplainedSide& side) {
  std::cout << title << ", " << side.passes() << " pass, " << side.fused.loads << " load and " << side.fused.stores
            << " store for each byte\n";
  for (const ExplainedModule& module : side.modules) {
    for (const ExplainedItem& item : module.items) {
      std::cout << "  " << module.name << ": " << item.asks << ' '
                << (item.pass       ? item.pass->kernel
                    : item.deferred ? "deferred"
                                    : "")
                << '\n';
    }
  }
}

}  // namespace

int main() {
  Hosts hosts(stacks, {.name = "chacha20",
                       .summary = "enciphers data units",
                       .transparent = true,
                       .make = [](StreamSet&, const Parameters&) { return std::make_unique<Cipher>(); }});
  const Explanation explanation = explain(hosts.a->stream());
  print("down", explanation.down);
  print("up", explanation.up);

  Datagram sent("10.79.0.2:7000", std::vector<std::byte>(8000, std::byte{'x'}));
  must("t_sndudata", hosts.a->t_sndudata(sent.unit));
  Datagram there;
  Datagram back;
  int flags = 0;
  must("t_rcvudata", hosts.b->t_rcvudata(there.unit, flags));
  must("t_sndudata", hosts.b->t_sndudata(there.unit));
  must("t_rcvudata", hosts.a->t_rcvudata(back.unit, flags));
  const bool same = std::ranges::equal(sent.bytes(), there.bytes()) && std::ranges::equal(sent.bytes(), back.bytes());
  std::cout << back.unit.udata.len << " bytes there and back: " << (same ? "the same" : "they differ") << '\n';
  return same ? 0 : 1;
}
