// SPDX-License-Identifier: Apache-2.0
// Every call to the operating system fails once: the transfer then succeeds or ends with a clear error, on both sides;
// nothing leaks, and what has its final name is whole and durable.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>
#include <set>

#include "apps/ftx/recovery/fixed_rate.h"
#include "apps/ftx/session/sender.h"
#include "apps/ftx/session/server.h"
#include "tests/apps/ftx/files/faulty_system.h"
#include "tests/apps/ftx/files/mapped.h"
#include "tests/apps/ftx/transmit.h"

namespace sluice::ftx {
namespace {

class Faults : public Mapped {
 protected:
  Faults() { send({{"large", FileSource::map_file_bytes_min + 100}, {"small", 70'000}, {"empty", 0}}); }
  void send(const std::vector<std::pair<std::string, std::size_t>>& files) {
    paths_.clear();
    contents_.clear();
    for (const auto& [name, size] : files) {
      paths_.push_back(file(name, size, &contents_[name]).string());
    }
  }

  struct Outcome {
    ExitCode sender = ExitCode::internal;
    Event receiver;    // the last one
    std::string text;  // of the failure, on either side
    std::uint64_t memory_taken = 0;
    std::uint64_t files_open = 0;
  };

  /// Moves everything to the served directory.
  Outcome move(LandBy land_by, ReadBy read_by) {
    Outcome outcome;
    auto destination = DirectoryDestination::serve(root_.string(), 1, land_by);
    if (!destination) {
      outcome.text = destination.error().text;
      outcome.sender = ExitCode::write_failed;
      return outcome;
    }
    auto source = FileSource::open(paths_, {.read_by = read_by});
    if (!source) {
      outcome.text = source.error().text;
      outcome.sender = source.error().code;
      return outcome;
    }
    ServerOptions server_options;
    server_options.seed = 1;
    server_options.insecure = true;
    server_options.tsdu_bytes = 65'507;
    Server server(server_options, **destination);
    FixedRate rate(1'000'000'000);
    TimePoint now{std::chrono::hours(1)};
    SenderOptions options;
    options.tsdu_bytes = 65'507;
    Sender sender(now, options, **source, rate);
    const Peer peer(as_bytes("peer"));
    for (int i = 0; i < 10'000 && !sender.finished(); ++i, now += std::chrono::milliseconds(1)) {
      transmit_all(sender, now, [&](ConstBytes datagram, const Peer&) { server.receive(now, datagram, peer); });
      transmit_all(server, now, [&](ConstBytes datagram, const Peer&) { sender.receive(now, datagram); });
    }
    EXPECT_TRUE(sender.finished());
    outcome.sender = sender.finished() ? sender.exit_code() : ExitCode::internal;
    while (auto event = server.next_event()) {
      outcome.receiver = *event;
      outcome.text += event->text;
    }
    while (auto event = sender.next_event()) {
      outcome.text += event->text;
    }
    outcome.memory_taken = server_options.memory_bytes_max - server.memory_left();
    outcome.files_open = server.open_files();
    return outcome;
  }

  /// What holds after whatever fault. Answers how many files have their names.
  std::size_t check(const FaultySystem& system, const Outcome& outcome, bool may_keep) {
    std::size_t named = 0, temporaries = 0;
    for (const auto& entry : fs::directory_iterator(root_)) {
      const std::string name = entry.path().filename().string();
      if (contents_.contains(name)) {
        ++named;
        EXPECT_EQ(content_of(entry.path()), contents_[name]) << name << " is not whole";
      } else {
        ++temporaries;
      }
    }
    EXPECT_TRUE(may_keep || temporaries == 0) << temporaries << " temporary files are left";
    EXPECT_LE(temporaries, 1U);
    EXPECT_TRUE(system.open_files.empty()) << system.open_files.size() << " descriptors leak";
    EXPECT_EQ(system.windows, 0U) << "windows leak";
    EXPECT_EQ(outcome.memory_taken, 0U);
    EXPECT_EQ(outcome.files_open, 0U);
    if (outcome.sender == ExitCode::ok) {
      EXPECT_EQ(outcome.receiver.kind, Event::Kind::done);
      EXPECT_EQ(named, contents_.size());
    } else {
      EXPECT_NE(outcome.receiver.kind, Event::Kind::done);
      EXPECT_NE(outcome.text, "");
      EXPECT_NE(outcome.sender, ExitCode::internal) << outcome.text;
      EXPECT_NE(outcome.sender, ExitCode::timeout) << outcome.text;
    }
    check_order(system, outcome.sender == ExitCode::ok);
    return named;
  }

  /// A name is given to what is durable, and success is reported when the names are, too.
  static void check_order(const FaultySystem& system, bool ok) {
    const auto renames = system.all("renameat");
    for (const std::size_t rename : renames) {
      const std::string& temporary = system.calls[rename].file;
      const auto syncs = system.all("fsync", temporary);
      ASSERT_EQ(syncs.size(), 1U) << temporary;
      EXPECT_LT(syncs[0], rename);
      for (const char* change : {"pwritev", "ftruncate", "fchmod", "futimens"}) {
        for (const std::size_t at : system.all(change, temporary)) {
          EXPECT_LT(at, syncs[0]) << change << " after fsync";
        }
      }
      EXPECT_EQ(system.all("fchmod", temporary).size(), 1U);
      EXPECT_EQ(system.all("futimens", temporary).size(), 1U);
    }
    const auto directory_syncs = system.all("fsync", ".");
    if (ok) {
      ASSERT_EQ(directory_syncs.size(), 1U);
      EXPECT_LT(renames.back(), directory_syncs[0]);
    }
  }

  void clear() {
    fs::remove_all(root_);
    fs::create_directory(root_);
  }

  /// Each call fails once, one run each.
  void fail_each(LandBy land_by, ReadBy read_by, FaultySystem::Fault fault) {
    if (read_by == ReadBy::read) {
      send({{"medium", 300'000}, {"small", 70'000}, {"empty", 0}});
    } else {
      send({{"large", FileSource::map_file_bytes_min + 100}, {"empty", 0}});
    }
    std::set<std::string> ended;
    bool done = false;
    for (std::size_t number = 1; !done; ++number) {
      ASSERT_LT(number, 2000U);
      FaultySystem system;
      std::string failed;
      system.fault = [&](std::size_t at, const FaultySystem::Call& call) {
        if (at != number) {
          return FaultySystem::Fault{};
        }
        failed = call.name + " of '" + call.file + "'";
        return fault;
      };
      Outcome outcome;
      {
        const ReplaceSystem replaced(system);
        outcome = move(land_by, read_by);
      }
      SCOPED_TRACE("call " + std::to_string(number) + ", " + failed + ": " + outcome.text);
      done = failed.empty();
      const std::string name = failed.substr(0, failed.find(' '));
      check(system, outcome, fault.error == ENOSPC || name == "unlinkat");
      if (done) {
        EXPECT_EQ(outcome.sender, ExitCode::ok) << "without a fault";
      } else if (outcome.sender != ExitCode::ok) {
        EXPECT_NE(fault.error, 0) << "a short read or write is no error";
        EXPECT_TRUE(fault.error != EINTR || name == "renameat") << "what was interrupted is tried again";
        ended.insert(name);
      }
      clear();
    }
    if (fault.error == EIO) {
      for (const char* name : {"openat", "pwritev", "pread", "fsync", "fchmod", "futimens", "renameat", "fstat"}) {
        EXPECT_TRUE(ended.contains(name) || (name == std::string("pwritev") && land_by == LandBy::map)) << name;
      }
    }
  }

  std::vector<std::string> paths_;
  std::map<std::string, Content> contents_;
};

TEST_F(Faults, WithoutFaultsTheOrderIsDurable) {
  for (const LandBy land_by : {LandBy::write, LandBy::map, LandBy::faster}) {
    FaultySystem system;
    Outcome outcome;
    {
      const ReplaceSystem replaced(system);
      outcome = move(land_by, ReadBy::map);
    }
    EXPECT_EQ(outcome.sender, ExitCode::ok);
    EXPECT_EQ(check(system, outcome, false), 3U);
    EXPECT_EQ(system.all("renameat").size(), 3U);
    clear();
  }
}

TEST_F(Faults, EveryCallMayBeInterrupted) {
  fail_each(LandBy::write, ReadBy::read, {.error = EINTR});
  fail_each(LandBy::map, ReadBy::map, {.error = EINTR});
}

TEST_F(Faults, EveryReadAndWriteMayBeShort) {
  fail_each(LandBy::write, ReadBy::read, {.partial = true});
  fail_each(LandBy::map, ReadBy::map, {.partial = true});
}

TEST_F(Faults, EveryCallMayFail) {
  for (const int error : {EIO, ENOSPC, EAGAIN}) {
    SCOPED_TRACE(std::strerror(error));
    fail_each(LandBy::write, ReadBy::read, {.error = error});
    fail_each(LandBy::map, ReadBy::map, {.error = error});
  }
}

/// However little each call takes, all pieces come to lie one behind the other.
TEST_F(Faults, ARunOfPiecesIsWrittenWholeWhateverEachCallTakes) {
  class Slow final : public System {
   public:
    std::size_t at_once = 1;
    ssize_t pwritev(int descriptor, const iovec* pieces, int count, off_t offset) override {
      std::string some;
      for (int i = 0; i < count; ++i) {
        some.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
      }
      some.resize(std::min(some.size(), at_once));
      const iovec part{some.data(), some.size()};
      return System::pwritev(descriptor, &part, 1, offset);
    }
  };
  Slow system;
  const ReplaceSystem replaced(system);
  const auto destination = this->destination(LandBy::write);
  auto sink = destination->open("", {}).value();
  std::vector<std::string> texts;
  for (int i = 0; i < 150; ++i) {
    texts.push_back(std::string(static_cast<std::size_t>(i % 7), static_cast<char>('a' + i % 26)));
  }
  const std::string whole = std::accumulate(texts.begin(), texts.end(), std::string("xyz"));
  std::vector<ConstBytes> pieces;
  for (const std::string& text : texts) {
    pieces.push_back(as_bytes(text));
  }
  for (system.at_once = 1; system.at_once <= 20; ++system.at_once) {
    auto arriving = sink->create({"name", whole.size()}).value();
    ASSERT_TRUE(arriving->write(0, as_bytes("xyz")));
    ASSERT_TRUE(arriving->write_run(3, pieces));
    std::string read(whole.size(), 0);
    ASSERT_TRUE(arriving->read(0, std::as_writable_bytes(std::span(read))));
    EXPECT_EQ(read, whole) << system.at_once;
  }
}

TEST_F(Faults, AWriteOfNothingDoesNotGoOnForEver) {
  class Nothing final : public System {
    ssize_t pwritev(int, const iovec*, int, off_t) override { return 0; }
  };
  Nothing system;
  const ReplaceSystem replaced(system);
  const auto destination = this->destination(LandBy::write);
  auto sink = destination->open("", {}).value();
  auto arriving = sink->create({"name", 3}).value();
  const auto status = arriving->write(0, as_bytes("abc"));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, EIO);
}

// A temporary file is made, not found: nobody may put something else in its place, nor read it before it is whole.
TEST_F(Faults, ATemporaryFileIsNewAndNobodyElses) {
  FaultySystem system;
  std::string planted;
  system.fault = [&](std::size_t, const FaultySystem::Call& call) {
    // Just before the first temporary file is made, somebody plants a link with its name.
    if (call.name == "openat" && (call.flags & O_CREAT) != 0 && planted.empty()) {
      planted = call.file;
      std::ofstream(base_ / "victim") << "untouched";
      fs::create_symlink(base_ / "victim", root_ / planted);
    }
    return FaultySystem::Fault{};
  };
  const ReplaceSystem replaced(system);
  const auto destination = this->destination(LandBy::write);
  auto sink = destination->open("", {}).value();
  auto arriving = sink->create({.name = "name", .size_bytes = 3}).value();
  ASSERT_TRUE(arriving->write(0, as_bytes("abc")));
  ASSERT_FALSE(planted.empty());
  EXPECT_TRUE(fs::is_symlink(root_ / planted)) << "it was not taken, nor replaced";
  fs::remove(root_ / planted);
  // Half written: of its owner only, whatever mode it will have.
  struct stat status{};
  ASSERT_EQ(::stat(only_file().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
  ASSERT_TRUE(arriving->finalize());
  ASSERT_TRUE(arriving->commit());
  EXPECT_EQ(content_of(base_ / "victim").size(), 9U);
  EXPECT_EQ(content_of(root_ / "name").size(), 3U);
  ASSERT_EQ(::stat((root_ / "name").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0644U);
  for (const std::size_t at : system.all("openat")) {
    const FaultySystem::Call& call = system.calls[at];
    EXPECT_NE(call.flags & O_CLOEXEC, 0) << call.file;
    if ((call.flags & O_CREAT) != 0) {
      EXPECT_EQ(call.flags & (O_EXCL | O_NOFOLLOW), O_EXCL | O_NOFOLLOW) << call.file;
    }
  }
}

TEST_F(Faults, NamesThatAreAllTakenEndTheSearch) {
  FaultySystem system;
  std::size_t attempts = 0;
  system.fault = [&](std::size_t, const FaultySystem::Call& call) {
    const bool create = call.name == "openat" && (call.flags & O_CREAT) != 0;
    attempts += create ? 1 : 0;
    return FaultySystem::Fault{.error = create ? EEXIST : 0};
  };
  const ReplaceSystem replaced(system);
  auto sink = destination(LandBy::write)->open("", {}).value();
  EXPECT_EQ(sink->create({"name", 3}).error().code, EEXIST);
  EXPECT_EQ(attempts, 100U);
}

TEST_F(Faults, ASourceWhoseStateIsUnknownIsNotReadTheNextTime) {
  const auto source = source_of(paths_[1], ReadBy::read);
  fs::remove(paths_[1]);
  file("small", 70'000);
  Content out(100);
  EXPECT_EQ(source->read(0, 0, out).error().code, ESTALE);
  EXPECT_EQ(source->read(0, 0, out).error().code, ESTALE) << "the first answer was forgotten";
}

}  // namespace
}  // namespace sluice::ftx
