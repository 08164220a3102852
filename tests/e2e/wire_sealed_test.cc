// SPDX-License-Identifier: Apache-2.0
// Sealed files over two whole stacks: what a payload byte costs is what `sluice explain --sealed` says, since it is
// opened in the pass that lands it; and what is forged is refused there as anywhere.
#include "apps/sluice/explain.h"
#include "tests/e2e/wire_transfer.h"
#include "tests/file_text.h"

namespace sluice::ftx {
namespace {

/// Passes on, and is not made for several datagrams in one message: so the stream's ends take them apart.
class OneByOne : public Module {
 public:
  OneByOne() : Module("one_by_one") {}
  [[nodiscard]] bool handles_deferred() const override { return true; }
};

template <class Made>
Entry entry_of(std::string_view name) {
  return {.name = name,
          .summary = "as the test says",
          .transparent = true,
          .make = [](StreamSet&, const Parameters&) -> Result<std::unique_ptr<Module>> {
            return std::make_unique<Made>();
          }};
}

class WireSealed : public WireTransfer {
 protected:
  WireSealed() {
    sealed_ = true;
    registry_.add(entry_of<OneByOne>("one_by_one"));
  }

  static std::string stacks(const std::string& pushed, std::string_view mode) {
    return two_hosts(1500, "\"" + pushed + "\", ", "", mode);
  }

  Event move(const std::string& pushed, std::string_view mode) {
    const Event done = transfer(stacks(pushed, mode), *wire::IpAddress::from_text("10.79.0.2"), 1472);
    EXPECT_EQ(done.kind, Event::Kind::done);
    EXPECT_TRUE(file_text(directory_ / "big.bin") == file_text(directory_ / "in" / "big.bin"));
    fs::remove(directory_ / "in" / "big.bin");
    return done;
  }
};

TEST_F(WireSealed, APayloadByteCostsWhatIsExplained) {
  constexpr std::size_t size = 3'000'000;
  write_source(size);
  const std::unique_ptr<Module> program = sealing_program();
  for (const ProcessingMode mode : {ProcessingMode::layered, ProcessingMode::fused}) {
    SCOPED_TRACE(name_of(mode));
    StreamSet set;
    const auto file = StackFile::parse(stacks("one_by_one", name_of(mode)), "test", registry_);
    ASSERT_TRUE(file) << file.error().text;
    const auto explained = explain(set, **file->find("a"), mode, program.get());
    ASSERT_TRUE(explained) << explained.error().text;
    const bool fused = mode == ProcessingMode::fused;
    ByteCost cost = fused ? explained->down.fused : explained->down.layered;
    cost += fused ? explained->up.fused : explained->up.layered;
    EXPECT_EQ(explained->up.fused, (ByteCost{1, 1})) << "opened in the pass that checks and lands";

    move("one_by_one", name_of(mode));
    EXPECT_GE(sealed_bytes_, size);
    EXPECT_LT(opened_bytes_, size / 100) << "outside of that pass: the list of files, digests";
    const auto counted = [&](std::uint64_t touched) {
      return static_cast<double>(touched + sealed_bytes_ + opened_bytes_) / size;
    };
    // The headers' share: 56 bytes in front of 1400 pass through the stack as payload does.
    EXPECT_GE(counted(touches_.loaded_bytes), cost.loads);
    EXPECT_LE(counted(touches_.loaded_bytes), cost.loads * 1.1 + 0.1);
    EXPECT_GE(counted(touches_.stored_bytes), cost.stores);
    EXPECT_LE(counted(touches_.stored_bytes), cost.stores * 1.1 + 0.1);
  }
}

/// Somebody on the path: of every tenth large datagram he exchanges two words of the payload, so that its checksum
/// holds.
class Forger final : public Module {
 public:
  Forger() : Module("forger") {}

  void wput(Batch&& batch) override {
    Batch out;
    while (Message message = batch.pop()) {
      if (message.data_size() > 1000 && ++seen_ % 10 == 0) {
        const Block& block = message.first().type == MessageType::data ? message.first() : *message.first().cont;
        const std::size_t at = block.size() - 200;
        std::swap_ranges(block.rptr + at, block.rptr + at + 2, block.rptr + at + 2);
      }
      out.push(std::move(message));
    }
    write_queue().put_next(std::move(out));
  }

 private:
  std::uint64_t seen_ = 0;
};

TEST_F(WireSealed, WhatIsForgedIsRefusedInThePassAsOutsideOfIt) {
  registry_.add(entry_of<Forger>("forger"));
  land_by_ = LandBy::map;
  write_source(3'000'000);
  std::vector<std::uint64_t> forged;
  for (const std::string_view mode : {"layered", "fused"}) {
    SCOPED_TRACE(mode);
    const Event done = move("forger", mode);
    forged.push_back(drops_.forged);
    EXPECT_GT(drops_.forged, 200U);
    EXPECT_EQ(drops_.malformed, 0U);
    EXPECT_GT(done.repaired, 150U);
    EXPECT_LT(opened_bytes_, 100'000U);
  }
  EXPECT_EQ(forged[0], forged[1]);
}

}  // namespace
}  // namespace sluice::ftx
