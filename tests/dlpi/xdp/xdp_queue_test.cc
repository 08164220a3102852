// SPDX-License-Identifier: Apache-2.0
// What comes out of the kernel's rings is checked before it is used: the test writes into them in the kernel's place.
#include "dlpi/xdp_queue.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "tests/dlpi/test_stream.h"
#include "tests/dlpi/xdp/xdp_namespace.h"

namespace sluice::dlpi::test {
namespace {

constexpr std::size_t slots = 64;

/// A ring of a socket's, mapped once more.
template <class Entry>
class Forged {
 public:
  Forged(int socket, off_t which, const xdp_ring_offset& offsets, std::size_t entries)
      : offsets_(offsets), entries_(entries), size_(offsets.desc + entries * sizeof(Entry)) {
    void* const mapped = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, socket, which);
    EXPECT_NE(mapped, MAP_FAILED);
    memory_ = static_cast<std::byte*>(mapped);
  }
  ~Forged() { ::munmap(memory_, size_); }
  Forged(const Forged&) = delete;
  Forged& operator=(const Forged&) = delete;

  void produce(const Entry& entry) {
    const std::atomic_ref producer(*reinterpret_cast<std::uint32_t*>(memory_ + offsets_.producer));
    const std::uint32_t at = producer.load();
    std::memcpy(memory_ + offsets_.desc + at % entries_ * sizeof(Entry), &entry, sizeof entry);
    producer.store(at + 1);
  }
  void consume() { ++std::atomic_ref(*reinterpret_cast<std::uint32_t*>(memory_ + offsets_.consumer)); }

 private:
  xdp_ring_offset offsets_;
  std::size_t entries_;
  std::size_t size_;
  std::byte* memory_;
};

class XdpQueueTest : public XdpVethTest {
 protected:
  void SetUp() override {
    XdpVethTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    XdpQueue::Options options;
    options.receive_slots = slots;
    options.send_slots = slots;
    options.copies = XdpQueue::Copies::always;
    auto opened = XdpQueue::open(*find_interface("near"), options);
    ASSERT_TRUE(opened) << opened.error().text;
    queue_ = std::move(*opened);
    socklen_t size = sizeof offsets_;
    ASSERT_EQ(::getsockopt(queue_->descriptor(), SOL_XDP, XDP_MMAP_OFFSETS, &offsets_, &size), 0);
  }

  StreamSet set_;
  std::unique_ptr<XdpQueue> queue_;
  xdp_mmap_offsets offsets_{};
};

TEST_F(XdpQueueTest, FramesOutsideTheReceivingSlotsAreNone) {
  Forged<xdp_desc> ring(queue_->descriptor(), XDP_PGOFF_RX_RING, offsets_.rx, slots);
  constexpr std::uint64_t slot = XdpQueue::slot_bytes;
  const std::vector<xdp_desc> bad{
      {slots * slot, 60, 0},                                       // a slot to send from
      {(slots - 1) * slot, 4097, 0},                               // longer than its slot
      {3 * slot + 256, 4096 - 255, 0},                             // over its end by one
      {3 * slot + 4095, 2, 0},         {2 * slots * slot, 60, 0},  // behind the memory
      {~std::uint64_t{0}, 60, 0},                                  // and far
      {std::uint64_t{1} << 63, 60, 0}, {5 * slot + 256, ~std::uint32_t{0}, 0},
  };
  for (const xdp_desc& each : bad) {
    ring.produce(each);
  }
  EXPECT_FALSE(queue_->next());
  EXPECT_EQ(queue_->take_drops(false), bad.size());
  ring.produce({5 * slot + 256, 4096 - 256, 0});
  const auto good = queue_->next();
  ASSERT_TRUE(good);
  EXPECT_EQ(good->size(), 4096U - 256);
}

// Else a frame that the reader holds could change while it is looked at, and a slot be given back twice.
TEST_F(XdpQueueTest, ASlotThatIsLentIsNoFrame) {
  Forged<xdp_desc> ring(queue_->descriptor(), XDP_PGOFF_RX_RING, offsets_.rx, slots);
  Forged<std::uint64_t> fill(queue_->descriptor(), static_cast<off_t>(XDP_UMEM_PGOFF_FILL_RING), offsets_.fr, slots);
  fill.consume();
  ring.produce({256, 1000, 0});
  const auto frame = queue_->next();
  ASSERT_TRUE(frame);
  Message held = queue_->lend(set_.pool(), *frame);
  ASSERT_TRUE(held);
  ring.produce({256, 1000, 0});
  EXPECT_FALSE(queue_->next());
  EXPECT_EQ(queue_->take_drops(false), 1U);
  held.reset();
  ring.produce({256, 1000, 0});
  EXPECT_TRUE(queue_->next());
}

// Else two frames would share a slot.
TEST_F(XdpQueueTest, CompletionsOfWhatWasNotSentAreIgnored) {
  Forged<std::uint64_t> ring(queue_->descriptor(), static_cast<off_t>(XDP_UMEM_PGOFF_COMPLETION_RING), offsets_.cr,
                             slots);
  const auto send = [&](std::size_t count) {
    Batch frames;
    for (std::size_t at = 0; at < count; ++at) {
      frames.push(Message::copy_of(set_.pool(), std::vector<std::byte>(100, std::byte{1})));
    }
    return queue_->send(frames).frames;
  };
  const auto forge = [&] {
    ring.produce(0);                                   // a slot to receive into
    ring.produce(~std::uint64_t{0});                   // no slot
    ring.produce((slots + 5) * XdpQueue::slot_bytes);  // one that is free already
    return queue_->continue_sending();
  };
  EXPECT_EQ(forge(), 0U);
  EXPECT_FALSE(queue_->sending());
  run_command("ip link set near down");  // what is sent now stays under way
  EXPECT_EQ(send(4), 4U);
  EXPECT_TRUE(queue_->sending());
  EXPECT_EQ(forge(), 0U);
  EXPECT_EQ(send(2 * slots), slots - 4);
}

}  // namespace
}  // namespace sluice::dlpi::test
