// SPDX-License-Identifier: Apache-2.0
// Whole transfers through maps, with files that are cut and disks that fill up on the way.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <functional>

#include "apps/ftx/files/assembly.h"
#include "apps/ftx/files/directory.h"
#include "apps/ftx/files/source.h"
#include "apps/ftx/recovery/fixed_rate.h"
#include "apps/ftx/session/sender.h"
#include "apps/ftx/session/server.h"
#include "base/prng.h"
#include "tests/apps/ftx/files/mapped.h"
#include "tests/apps/ftx/session/simulation.h"
#include "tests/apps/ftx/transmit.h"
#include "tests/user_namespace.h"

namespace sluice::ftx {
namespace {

// --- Whole transfers -----------------------------------------------------------------------------------------------

struct Way {
  ReadBy read_by = ReadBy::map;
  LandBy land_by = LandBy::map;
  std::size_t tsdu_bytes = 1472;
  bool sealed = false;
};

/// A sender and a server without a link in between; `damage` of the payloads are found damaged after they were put in
/// their place, and the sender learns it as it learns of a loss.
struct Transfer {
  Event sender_end, server_end;

  Transfer(const fs::path& path, Destination& destination, Way way, double damage = 0,
           const std::function<void(std::uint64_t sent)>& each = {}) {
    const std::vector<std::string> paths{path.string()};
    auto source = FileSource::open(paths, {.read_by = way.read_by}).value();
    Server server({.seed = 1, .tsdu_bytes = way.tsdu_bytes, .insecure = !way.sealed}, destination);
    std::optional<Protection> protection;
    if (way.sealed) {
      server.expect(test::protection_of(1, Side::responder));
      protection = test::protection_of(1, Side::initiator);
    }
    FixedRate rate(400'000'000);
    TimePoint now{std::chrono::hours(1)};
    SenderOptions options;
    options.tsdu_bytes = way.tsdu_bytes;
    Sender sender(now, options, *source, rate, std::move(protection));
    const Peer peer(as_bytes("peer"));
    Burst burst;
    std::uint64_t sent = 0;
    const auto answer = [&] {
      transmit_all(server, now, [&](ConstBytes datagram, const Peer&) { sender.receive(now, datagram); });
    };
    for (int i = 0; i < 200'000 && !sender.finished(); ++i, now += std::chrono::microseconds(100)) {
      for (sender.transmit(now, burst); !burst.left().empty(); sender.transmit(now, burst)) {
        // As to a transport that takes half of a burst now and the rest after more has arrived.
        for (const std::size_t half = burst.left().size() / 2; !burst.left().empty(); burst.sent(1)) {
          if (burst.left().size() == half) {
            answer();
          }
          const Outgoing& datagram = burst.left().front();
          if (each) {
            each(sent);
          }
          sent += datagram.size();
          deliver(server, now, datagram, peer, prng.chance(0.5), damage);
        }
      }
      answer();
    }
    EXPECT_TRUE(sender.finished());
    while (auto event = server.next_event()) {
      server_end = *event;
    }
    while (auto event = sender.next_event()) {
      sender_end = *event;
    }
  }

  static ConstBytes header_of(const Outgoing& datagram) {
    return datagram.front.first(std::min(datagram.front.size(), data_header_bytes));
  }
  /// In the mapped source, or sealed.
  static ConstBytes payload_of(const Outgoing& datagram) {
    return datagram.rest.empty() ? datagram.front.subspan(header_of(datagram).size()) : datagram.rest;
  }

  static void opens(Protection& protection, const Outgoing& datagram, Bytes place) {
    const ConstBytes sealed = payload_of(datagram);
    protection.begin_payload(header_of(datagram));
    protection.open_part(sealed.first(place.size()), place);
    EXPECT_TRUE(protection.end_payload(header_of(datagram), sealed.subspan(place.size())));
  }

  /// By either of the two ways to land a payload.
  void deliver(Server& server, TimePoint now, const Outgoing& datagram, const Peer& peer, bool name, double damage) {
    const auto damaged = [&](Bytes place) {
      const bool hit = prng.chance(damage);
      if (hit) {
        place[prng.below(place.size())] ^= std::byte{0x10};
      }
      return hit;
    };
    const PayloadPlace place = name ? server.memory_for(header_of(datagram), datagram.size(), peer) : PayloadPlace();
    if (!place.memory.empty()) {
      if (place.opens != nullptr) {
        opens(*place.opens, datagram, place.memory);
      } else {
        put(place.memory, payload_of(datagram));
      }
      if (!damaged(place.memory)) {
        ++in_place;
        ++named;
        server.placed(now, header_of(datagram), datagram.size(), peer, place.memory);
      }
      return;
    }
    const auto inspection = server.inspect(now, header_of(datagram), datagram.size(), peer);
    if (inspection.kind == Server::Inspection::Kind::unwanted) {
      return;
    }
    const bool land = inspection.kind == Server::Inspection::Kind::land;
    if (land && inspection.landing.place.kind == Placement::Kind::memory) {
      // One pass, from the mapped source into the mapped file.
      put(inspection.landing.place.memory, payload_of(datagram));
      if (!damaged(inspection.landing.place.memory)) {
        ++in_place;
        inspection.session->landed(now, inspection.landing);
      }
      return;
    }
    Content whole(datagram.front.begin(), datagram.front.end());
    whole.insert(whole.end(), datagram.rest.begin(), datagram.rest.end());
    server.receive(now, whole, peer);
  }

  Prng prng{7};
  std::uint64_t in_place = 0;
  std::uint64_t named = 0;  // of these, by memory_for()
};

TEST_F(Mapped, EveryWayMovesTheSameFile) {
  Content content;
  const fs::path path = file("name", 5 * mebibyte + 17, &content);
  for (const ReadBy read_by : {ReadBy::map, ReadBy::read}) {
    for (const LandBy land_by : {LandBy::map, LandBy::write, LandBy::faster}) {
      for (const std::size_t tsdu : {1472UL, 65'000UL}) {
        SCOPED_TRACE(testing::Message() << static_cast<int>(read_by) << static_cast<int>(land_by) << " " << tsdu);
        const auto destination = this->destination(land_by);
        const Transfer transfer(path, *destination, {read_by, land_by, tsdu});
        EXPECT_EQ(transfer.server_end.kind, Event::Kind::done);
        EXPECT_EQ(transfer.server_end.adus, transfer.sender_end.adus);
        EXPECT_EQ(content_of(root_ / "name"), content);
        EXPECT_EQ(transfer.named > 5, transfer.in_place > 10);
        EXPECT_EQ(transfer.in_place > 10, land_by == LandBy::map || (land_by == LandBy::faster && tsdu == 1472));
        fs::remove(root_ / "name");
      }
    }
  }
}

TEST_F(Mapped, EveryWayMovesTheSameFileSealed) {
  Content content;
  const fs::path path = file("name", 5 * mebibyte + 17, &content);
  for (const ReadBy read_by : {ReadBy::map, ReadBy::read}) {
    for (const LandBy land_by : {LandBy::map, LandBy::write}) {
      for (const std::size_t tsdu : {1472UL, 65'000UL}) {
        SCOPED_TRACE(testing::Message() << static_cast<int>(read_by) << static_cast<int>(land_by) << " " << tsdu);
        const auto destination = this->destination(land_by);
        const Transfer transfer(path, *destination, {read_by, land_by, tsdu, true});
        EXPECT_EQ(transfer.server_end.kind, Event::Kind::done);
        EXPECT_EQ(transfer.sender_end.repaired, 0U);
        EXPECT_EQ(transfer.named > 5, land_by == LandBy::map) << "opened on its way to the page";
        EXPECT_EQ(content_of(root_ / "name"), content);
        fs::remove(root_ / "name");
      }
    }
  }
}

TEST_F(Mapped, PayloadsDamagedInTheirPlaceAreRepaired) {
  Content content;
  const fs::path path = file("name", 5 * mebibyte + 17, &content);
  const auto destination = this->destination();
  const Transfer transfer(path, *destination, {}, 0.2);
  EXPECT_EQ(transfer.server_end.kind, Event::Kind::done);
  EXPECT_GT(transfer.sender_end.repaired, 100U);
  EXPECT_EQ(content_of(root_ / "name"), content);
}

TEST_F(Mapped, ASourceCutWhileItIsSentIsSaidHoweverItIsRead) {
  for (const ReadBy read_by : {ReadBy::map, ReadBy::read}) {
    const fs::path path = file("name", 8 * mebibyte);
    const auto destination = this->destination();
    bool cut = false;
    const Transfer transfer(path, *destination, {.read_by = read_by}, 0, [&](std::uint64_t sent) {
      if (sent > 2 * mebibyte && !std::exchange(cut, true)) {
        fs::resize_file(path, 3 * mebibyte);
      }
    });
    EXPECT_EQ(transfer.sender_end.code, ExitCode::source_changed);
    EXPECT_TRUE(transfer.sender_end.text.ends_with(shorter)) << transfer.sender_end.text;
    EXPECT_EQ(transfer.server_end.code, ExitCode::source_changed);
    EXPECT_TRUE(fs::is_empty(root_));
  }
}

TEST_F(Mapped, AnArrivingFileCutInTheMiddleFailsTheTransfer) {
  const fs::path path = file("name", 8 * mebibyte);
  const auto destination = this->destination();
  bool cut = false;
  const Transfer transfer(path, *destination, {}, 0, [&](std::uint64_t sent) {
    if (sent > 2 * mebibyte && !std::exchange(cut, true)) {
      fs::resize_file(only_file(), mebibyte);
    }
  });
  EXPECT_EQ(transfer.server_end.code, ExitCode::write_failed);
  EXPECT_EQ(transfer.sender_end.code, ExitCode::write_failed);
  EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(Mapped, AFileSizeLimitLeadsToAWriteThatSaysSo) {
  const fs::path path = file("name", 2 * mebibyte);
  const auto destination = this->destination();
  void (*const handler)(int) = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit limited{mebibyte, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
  const Transfer transfer(path, *destination, {});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(transfer.in_place, 1U);  // the manifest
  EXPECT_EQ(transfer.server_end.code, ExitCode::disk_full);
  EXPECT_EQ(fs::file_size(only_file()), mebibyte);
}

// --- A full disk ---------------------------------------------------------------------------------------------------

/// Runs `body` in a process whose `directory` is a file system of `bytes`, and passes on what failed there.
void on_a_small_disk(const fs::path& directory, std::size_t bytes, const std::function<void()>& body) {
  constexpr int skipped = 77;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool apart = ::unshare(CLONE_NEWNS) == 0 || sluice::test::enter_user_namespace(CLONE_NEWNS);
    const bool mounted =
        apart && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
        ::mount("tmpfs", directory.c_str(), "tmpfs", 0, ("size=" + std::to_string(bytes)).c_str()) == 0;
    if (!mounted) {
      std::_Exit(skipped);
    }
    body();
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == skipped) {
    GTEST_SKIP() << "cannot mount a small tmpfs in a namespace of its own";
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "what failed is printed above; status " << status;
}

TEST_F(Mapped, AFullDiskUnderAMapIsSaidAndThePartIsKept) {
  const fs::path path = file("name", 3 * mebibyte);
  on_a_small_disk(root_, mebibyte, [&] {
    for (const LandBy land_by : {LandBy::map, LandBy::write}) {
      const auto destination = this->destination(land_by);
      const Transfer transfer(path, *destination, {});
      EXPECT_EQ(transfer.server_end.code, ExitCode::disk_full);
      EXPECT_EQ(transfer.sender_end.code, ExitCode::disk_full);
      EXPECT_NE(transfer.sender_end.text.find(only_file().filename().string()), std::string::npos);
      // As much as the disk holds, but for the ADU that did not fit.
      EXPECT_LE(fs::file_size(only_file()), mebibyte);
      EXPECT_GE(fs::file_size(only_file()), mebibyte - 2 * page);
      const Content kept = content_of(only_file()), sent = content_of(path);
      EXPECT_TRUE(equal(ConstBytes(kept).first(kept.size() / page * page - page),
                        ConstBytes(sent).first(kept.size() / page * page - page)));
      fs::remove(only_file());
    }
  });
}

TEST_F(Mapped, AHoleThatTheDiskCannotFillIsFoundOutAfterThePass) {
  on_a_small_disk(root_, 16 * page, [&] {
    const auto destination = this->destination();
    auto sink = destination->open("", {}).value();
    auto arriving = sink->create({"name", 1280 * page}).value();
    std::uint64_t landed = 0;
    Status status;
    // Far apart, so that each is a hole that is filled by a fault.
    for (std::uint64_t at = 0; at < 1280 * page && status; at += 40 * page) {
      auto place = arriving->place(at, page);
      ASSERT_TRUE(place);
      std::ranges::fill(*place, std::byte{1});
      status = arriving->placed(at, *place);
      landed += status ? 1 : 0;
    }
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ENOSPC);
    EXPECT_EQ(status.error().text, "cannot write 'name': No space left on device");
    EXPECT_GE(landed, 8U);
    // Room again: the same place is asked for anew and takes it.
    fs::resize_file(only_file(), 0);
    fs::resize_file(only_file(), 1280 * page);
    auto place = arriving->place(40 * page, page);
    ASSERT_TRUE(place);
    std::ranges::fill(*place, std::byte{2});
    ASSERT_TRUE(arriving->placed(40 * page, *place));
    Content back(page);
    ASSERT_TRUE(arriving->read(40 * page, back));
    EXPECT_EQ(back, Content(page, std::byte{2}));
  });
}

}  // namespace
}  // namespace sluice::ftx
