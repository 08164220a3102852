// SPDX-License-Identifier: Apache-2.0
// Two ends of a link in shared memory, in stream sets of their own, and peers that lie.
#include "dlpi/shared_link.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <new>
#include <optional>
#include <string>

#include "base/local_socket.h"
#include "base/prng.h"
#include "edge/run_loop.h"
#include "tests/dlpi/test_stream.h"

namespace sluice::dlpi::test {
namespace {

using namespace std::chrono_literals;

/// One end, with a stream set and a run loop of its own, as a process has it.
struct Process {
  StreamSet set;
  std::unique_ptr<RunLoop> loop = std::move(RunLoop::open(set)).value();
  Stream stream{set};

  Status open(const Registry& registry, const std::string& path, const char* end, std::int64_t mtu) {
    Parameters parameters;
    parameters.set("path", path);
    parameters.set("end", end);
    parameters.set("mtu", mtu);
    Status opened = stream.open(registry, "shm", parameters);
    if (opened) {
      stream.bind(test_sap);
    }
    return opened;
  }
  void turn() { static_cast<void>(loop->wait(loop->now() + 1ms)); }
  [[nodiscard]] bool up() { return stream.driver().link()->up(); }
  /// The data of the next indication; nothing: none waits.
  std::optional<std::vector<std::byte>> next() {
    Message up = stream.next();
    if (!up) {
      return std::nullopt;
    }
    const Message data = up.unlink();
    std::vector<std::byte> bytes(data ? data.data_size() : 0);
    EXPECT_TRUE(!data || data.copy_data_to(0, bytes));
    return bytes;
  }
};

class SharedLinkTest : public testing::Test {
 protected:
  SharedLinkTest() {
    add_drivers(registry_);
    std::filesystem::remove(path_);
  }
  ~SharedLinkTest() override { std::filesystem::remove(path_); }

  /// Lets processes run until `done`; false after ten seconds.
  static bool run_until(std::initializer_list<Process*> processes, const std::function<bool()>& done) {
    for (int turns = 0; turns < 5000; ++turns) {
      if (done()) {
        return true;
      }
      for (Process* const process : processes) {
        process->turn();
      }
    }
    return false;
  }
  void open(Process& process, const char* end, std::int64_t mtu = 1500) {
    const Status opened = process.open(registry_, path_, end, mtu);
    ASSERT_TRUE(opened) << opened.error().text;
  }
  void meet(Process& a, Process& b, std::int64_t mtu = 1500) {
    open(a, "a", mtu);
    open(b, "b", mtu);
    ASSERT_TRUE(run_until({&a, &b}, [&] { return a.up() && b.up(); }));
  }
  static LinkAddress everybody() { return {wire::mac_broadcast, test_sap}; }
  static std::vector<std::byte> some(std::size_t size, std::uint64_t seed) {
    Prng prng(seed);
    std::vector<std::byte> bytes(size);
    for (std::size_t at = 0; at < size; at += 8) {
      const std::uint64_t word = prng();
      std::memcpy(bytes.data() + at, &word, std::min<std::size_t>(8, size - at));
    }
    return bytes;
  }

  Registry registry_;
  std::string path_ = testing::TempDir() + "shm_" + std::to_string(::getpid());
};

TEST_F(SharedLinkTest, EveryFrameBothWaysInOrder) {
  for (const std::int64_t mtu : {std::int64_t{1500}, std::int64_t{2} << 20}) {
    SCOPED_TRACE(mtu);
    Process a;
    Process b;
    meet(a, b, mtu);
    const auto mtu_bytes = static_cast<std::size_t>(mtu);
    std::vector<std::vector<std::byte>> frames{some(1, 2), some(mtu_bytes, 3), some(mtu_bytes - 1, 4)};
    Prng prng(5);
    for (std::uint64_t at = 0; at < 40; ++at) {
      frames.push_back(some(1 + prng.below(mtu_bytes), at));
    }
    for (auto [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      std::size_t sent = 0;
      std::size_t received = 0;
      ASSERT_TRUE(run_until({&a, &b},
                            [&] {
                              if (sent < frames.size() && from->stream.head().write_queue().can_put_next()) {
                                from->stream.send({to->stream.driver().link()->address(), test_sap}, frames[sent++]);
                              }
                              while (auto got = to->next()) {
                                EXPECT_TRUE(*got == frames[received]) << received;
                                ++received;
                              }
                              return received == frames.size();
                            }))
          << received << " of " << sent << "; " << from->stream.counts() << to->stream.counts();
    }
    EXPECT_EQ(a.stream.counts() + b.stream.counts(), "");
  }
}

// A reader that does not read stops the writer, and nothing is lost.
TEST_F(SharedLinkTest, AFullRingIsFlowControl) {
  Process a;
  Process b;
  meet(a, b);
  std::uint32_t sent = 0;
  const auto number = [](std::uint32_t value) {
    std::vector<std::byte> bytes(1400);
    store_big_endian(bytes.data(), value);
    return bytes;
  };
  for (; a.stream.head().write_queue().can_put_next(); ++sent) {
    ASSERT_LT(sent, 10'000U);
    a.stream.send(everybody(), number(sent));
  }
  EXPECT_GT(sent * std::size_t{1400}, SharedLink::ring_bytes(1500) - 4096);
  std::uint32_t received = 0;
  EXPECT_TRUE(run_until({&a, &b},
                        [&] {
                          while (const auto got = b.next()) {
                            EXPECT_EQ(load_big_endian<std::uint32_t>(got->data()), received);
                            ++received;
                          }
                          return received == sent;
                        }))
      << received << " of " << sent;
  EXPECT_TRUE(a.stream.head().write_queue().can_put_next());
  EXPECT_EQ(a.stream.counts() + b.stream.counts(), "");
}

TEST_F(SharedLinkTest, TheLinkIsUpWhileBothAreThereInAnyOrder) {
  auto b = std::make_unique<Process>();
  open(*b, "b");
  for (int turns = 0; turns < 3; ++turns) {
    b->turn();
  }
  EXPECT_FALSE(b->up());
  b->stream.send(everybody(), bytes_of("too early"));
  EXPECT_EQ(b->stream.expect<UderrorInd>().error, DL_UNDELIVERABLE);

  auto a = std::make_unique<Process>();
  open(*a, "a");
  ASSERT_TRUE(run_until({a.get(), b.get()}, [&] { return a->up() && b->up(); }));
  b.reset();
  ASSERT_TRUE(run_until({a.get()}, [&] { return !a->up(); }));
  b = std::make_unique<Process>();
  open(*b, "b");
  ASSERT_TRUE(run_until({a.get(), b.get()}, [&] { return a->up() && b->up(); }));
  a.reset();
  ASSERT_TRUE(run_until({b.get()}, [&] { return !b->up(); }));
  a = std::make_unique<Process>();
  open(*a, "a");
  ASSERT_TRUE(run_until({a.get(), b.get()}, [&] { return a->up() && b->up(); }));
  b->stream.send(everybody(), bytes_of("hello"));
  std::optional<std::vector<std::byte>> got;
  EXPECT_TRUE(run_until({a.get(), b.get()}, [&] { return (got = a->next()).has_value(); }));
  EXPECT_EQ(got, bytes_of("hello"));
}

TEST_F(SharedLinkTest, BothEndsAgreeOnTheMtu) {
  Process a;
  Process b;
  open(a, "a", 1500);
  open(b, "b", 9000);
  ASSERT_TRUE(run_until({&a, &b}, [&] { return b.stream.counted("peer_refused") > 0; }));
  EXPECT_FALSE(b.up());
}

TEST_F(SharedLinkTest, ThePathIsItsOwnersAlone) {
  Process a;
  open(a, "a");
  struct stat found{};
  ASSERT_EQ(::stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777U, 0600U);
  Process second;
  const Status opened = second.open(registry_, path_, "a", 1500);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, EADDRINUSE);
}

TEST_F(SharedLinkTest, WhatIsNoSocketStays) {
  std::ofstream(path_) << "precious";
  Process a;
  const Status opened = a.open(registry_, path_, "a", 1500);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, EEXIST);
  EXPECT_EQ(std::filesystem::file_size(path_), 8U);
  Process long_path;
  EXPECT_EQ(long_path.open(registry_, std::string(200, 'x'), "b", 1500).error().code, ENAMETOOLONG);
}

// ---- A real second process ----

TEST_F(SharedLinkTest, AnotherProcessEchoesAndIsKilled) {
  Process a;
  open(a, "a", 100'000);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Process b;
    if (!b.open(registry_, path_, "b", 100'000)) {
      ::_exit(1);
    }
    for (int turns = 0; turns < 20'000; ++turns) {
      b.turn();
      while (const auto got = b.next()) {
        b.stream.send(everybody(), *got);
      }
    }
    ::_exit(2);
  }
  EXPECT_TRUE(run_until({&a}, [&] { return a.up(); }));
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<std::byte> frame = some(seed * 5000, seed);
    a.stream.send(everybody(), frame);
    std::optional<std::vector<std::byte>> got;
    EXPECT_TRUE(run_until({&a}, [&] { return (got = a.next()).has_value(); })) << seed;
    EXPECT_TRUE(got == frame);
  }
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(run_until({&a}, [&] { return !a.up(); }));
}

// ---- Peers that lie ----

/// Somebody who has connected as end b, and does as he likes.
class Intruder {
 public:
  explicit Intruder(const std::string& path) : connection_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    const auto [address, size] = local_address(path).value();
    EXPECT_EQ(::connect(connection_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  }
  ~Intruder() {
    if (memory_ != nullptr) {
      ::munmap(memory_, bytes_);
    }
  }
  /// Takes the hello. REQUIRES: it has been sent.
  void take_memory() {
    SharedHello hello;
    iovec part{&hello, sizeof hello};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ASSERT_EQ(::recvmsg(connection_.get(), &message, 0), static_cast<ssize_t>(sizeof hello));
    int number = -1;
    std::memcpy(&number, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof number);
    memory_descriptor_ = Descriptor(number);
    bytes_ = SharedMemory::words_bytes + 2 * SharedLink::ring_bytes(hello.mtu);
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, number, 0);
    ASSERT_NE(memory_, MAP_FAILED);
  }
  [[nodiscard]] SharedRingWords& words(bool from_a) const {
    return std::launder(reinterpret_cast<SharedRingWords*>(memory_))[from_a ? 0 : 1];
  }
  [[nodiscard]] std::byte* ring_to_a() const {
    const std::size_t ring = (bytes_ - SharedMemory::words_bytes) / 2;
    return static_cast<std::byte*>(memory_) + SharedMemory::words_bytes + ring;
  }
  void tell_size(std::uint32_t size) const { std::memcpy(ring_to_a(), &size, sizeof size); }
  void ring(std::size_t bytes = 1) const {
    const std::vector<std::byte> doorbell(bytes);
    static_cast<void>(::send(connection_.get(), doorbell.data(), doorbell.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  }
  [[nodiscard]] int memory_descriptor() const { return memory_descriptor_.get(); }

 private:
  Descriptor connection_;
  Descriptor memory_descriptor_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

TEST_F(SharedLinkTest, APeerThatBreaksTheRulesLosesTheLinkAndNobodyElseDoes) {
  struct Row {
    const char* name;
    std::function<void(const Intruder&)> attack;
    std::uint64_t refused;
  };
  const std::vector<Row> attacks{
      {"a position beyond the ring", [](const Intruder& x) { x.words(false).written = std::uint64_t{1} << 60; }, 1},
      {"a position that ends in a header", [](const Intruder& x) { x.words(false).written = 4; }, 1},
      {"a frame above the MTU",
       [](const Intruder& x) {
         x.tell_size(1515);
         x.words(false).written = 4096;
       },
       1},
      {"a frame that is longer than what is there",
       [](const Intruder& x) {
         x.tell_size(100);
         x.words(false).written = 64;
       },
       1},
      {"taken before it was written", [](const Intruder& x) { x.words(true).taken = 4096; }, 1},
      {"noise in all of the memory",
       [](const Intruder& x) {
         std::memset(static_cast<void*>(&x.words(true)), 0xa5, 2 * sizeof(SharedRingWords));
         std::memset(x.ring_to_a(), 0xa5, 1 << 20);
       },
       1},
      {"frames without a header",
       [](const Intruder& x) {
         x.tell_size(3);
         x.words(false).written = 16;
       },
       0},
      {"doorbells without a reason",
       [](const Intruder& x) {
         for (int at = 0; at < 1000; ++at) {
           x.ring(64);
         }
       },
       0},
      {"the end of the memory",
       [](const Intruder& x) { EXPECT_NE(::ftruncate(x.memory_descriptor(), 0), 0) << "it is sealed"; }, 0},
      {"a message of no bytes", [](const Intruder& x) { x.ring(0); }, 0},
  };
  Process a;
  open(a, "a");
  std::uint64_t refused = 0;
  for (const Row& row : attacks) {
    SCOPED_TRACE(row.name);
    {
      Intruder intruder(path_);
      ASSERT_TRUE(run_until({&a}, [&] { return a.up(); }));
      intruder.take_memory();
      row.attack(intruder);
      intruder.ring();
      a.stream.send(everybody(), bytes_of("to whom it may concern"));
      for (int turns = 0; turns < 20; ++turns) {
        a.turn();
      }
      refused += row.refused;
      EXPECT_EQ(a.stream.counted("peer_refused"), refused);
      if (row.refused > 0) {
        EXPECT_FALSE(a.up());
      }
    }
    ASSERT_TRUE(run_until({&a}, [&] { return !a.up(); }));
    a.stream.forget();
  }
  EXPECT_EQ(a.stream.counted("short_frame"), 1U);
  // After all of them an honest peer is served.
  Process b;
  open(b, "b");
  ASSERT_TRUE(run_until({&a, &b}, [&] { return a.up() && b.up(); }));
  b.stream.send(everybody(), bytes_of("hello"));
  std::optional<std::vector<std::byte>> got;
  EXPECT_TRUE(run_until({&a, &b}, [&] { return (got = a.next()).has_value(); }));
  EXPECT_EQ(got, bytes_of("hello"));
}

// While one peer is there others are turned away, without harm to him.
TEST_F(SharedLinkTest, AThirdIsTurnedAway) {
  Process a;
  Process b;
  meet(a, b);
  const Intruder third(path_);
  for (int turns = 0; turns < 10; ++turns) {
    a.turn();
    b.turn();
  }
  EXPECT_TRUE(a.up() && b.up());
  EXPECT_EQ(a.stream.counts() + b.stream.counts(), "");
}

/// What a false end a says to whoever connects.
struct Welcome {
  const char* name;
  SharedHello hello;
  std::size_t hello_bytes = sizeof(SharedHello);
  std::function<int()> memory = [] { return -1; };
};

int memory_of(std::size_t bytes, int seals) {
  const int memory = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(::ftruncate(memory, static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::fcntl(memory, F_ADD_SEALS, seals), 0);
  return memory;
}

TEST_F(SharedLinkTest, AFalseEndAIsRefused) {
  constexpr std::size_t good = SharedMemory::words_bytes + 2 * SharedLink::ring_bytes(1500);
  const auto sealed = [] { return memory_of(good, F_SEAL_SHRINK); };
  const std::vector<Welcome> welcomes{
      {"no memory", {.mtu = 1500}},
      {"another magic", {.magic = 1, .mtu = 1500}, sizeof(SharedHello), sealed},
      {"another version", {.version = 2, .mtu = 1500}, sizeof(SharedHello), sealed},
      {"another MTU", {.mtu = 1499}, sizeof(SharedHello), sealed},
      {"half a hello", {.mtu = 1500}, 8, sealed},
      {"memory that may shrink", {.mtu = 1500}, sizeof(SharedHello), [] { return memory_of(good, F_SEAL_GROW); }},
      {"less memory", {.mtu = 1500}, sizeof(SharedHello), [] { return memory_of(good - 1, F_SEAL_SHRINK); }},
      {"more memory", {.mtu = 1500}, sizeof(SharedHello), [] { return memory_of(2 * good, F_SEAL_SHRINK); }},
      {"no memory at all", {.mtu = 1500}, sizeof(SharedHello), [] { return ::open("/dev/null", O_RDWR | O_CLOEXEC); }},
  };
  const Descriptor listening = std::move(listen_at(path_, 0600)).value();
  Process b;
  open(b, "b");
  std::uint64_t refused = 0;
  for (const Welcome& welcome : welcomes) {
    SCOPED_TRACE(welcome.name);
    Descriptor connection;
    ASSERT_TRUE(run_until({&b}, [&] {
      connection = Descriptor(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
      return static_cast<bool>(connection);
    }));
    const Descriptor memory(welcome.memory());
    SharedHello hello = welcome.hello;
    iovec part{&hello, welcome.hello_bytes};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (memory) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      *header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
      const int number = memory.get();
      std::memcpy(CMSG_DATA(header), &number, sizeof number);
    }
    ASSERT_EQ(::sendmsg(connection.get(), &message, 0), static_cast<ssize_t>(welcome.hello_bytes));
    ++refused;
    EXPECT_TRUE(run_until({&b}, [&] { return b.stream.counted("peer_refused") == refused; }));
    EXPECT_FALSE(b.up());
  }
}

}  // namespace
}  // namespace sluice::dlpi::test
