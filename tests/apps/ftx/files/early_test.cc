// SPDX-License-Identifier: Apache-2.0
// What comes of files before the list of them is whole, or while the caller has it wait: nothing is made of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "apps/ftx/files/assembly.h"
#include "apps/ftx/files/digest.h"

namespace sluice::ftx {
namespace {

constexpr std::uint32_t early_adu_bytes = 256;

/// Says what it is told to, and counts what is asked of it.
class Guessed final : public Destination {
 public:
  bool nothing = true;
  std::vector<std::string> asked;  // names of nothing_there()
  std::map<std::string, std::vector<std::byte>> files;
  std::size_t opened = 0, finished = 0;

  bool nothing_there(std::string_view, const FileEntry& first) override {
    asked.emplace_back(first.name);
    return nothing;
  }
  Result<std::unique_ptr<Sink>> open(std::string_view, std::span<const FileEntry>) override {
    ++opened;
    return std::make_unique<Files>(*this);
  }

 private:
  class File final : public SinkFile {
   public:
    explicit File(std::vector<std::byte>& content) : content_(content) {}
    Status write(std::uint64_t offset, ConstBytes bytes) override {
      content_.resize(std::max<std::size_t>(content_.size(), offset + bytes.size()));
      std::copy(bytes.begin(), bytes.end(), content_.begin() + static_cast<std::ptrdiff_t>(offset));
      return {};
    }
    Status read(std::uint64_t offset, Bytes out) override {
      std::copy_n(content_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
      return {};
    }
    Status finalize() override { return {}; }
    Status commit() override { return {}; }
    std::string keep() override { return {}; }

   private:
    std::vector<std::byte>& content_;
  };
  class Files final : public Sink {
   public:
    explicit Files(Guessed& owner) : owner_(owner) {}
    Result<std::unique_ptr<SinkFile>> create(const FileEntry& entry) override {
      return std::make_unique<File>(owner_.files[std::string(entry.name)]);
    }
    Status finish() override {
      ++owner_.finished;
      return {};
    }
    std::string path(const FileEntry& entry) const override { return std::string(entry.name); }

   private:
    Guessed& owner_;
  };
};

FileEntry directory_entry(std::string name, std::uint32_t parent = 0) {
  FileEntry entry{std::move(name)};
  entry.kind = EntryKind::directory;
  entry.parent = parent;
  return entry;
}

FileEntry packed_file(std::string name, std::uint64_t size, std::uint32_t parent = 1) {
  FileEntry entry{std::move(name), size};
  entry.kind = EntryKind::packed;
  entry.parent = parent;
  return entry;
}

FileEntry numbered(std::string name, std::uint64_t size) {
  FileEntry entry{std::move(name), size};
  entry.parent = 1;
  return entry;
}

/// A directory and so many packed files in it: a list of several ADUs.
std::vector<FileEntry> tree(std::size_t count = 100, std::uint64_t size = 40) {
  std::vector<FileEntry> entries{directory_entry("tree")};
  for (std::size_t i = 0; i < count; ++i) {
    entries.push_back(packed_file("f" + std::to_string(i), size));
  }
  return entries;
}

/// Content and digest of each packed file, whose bytes are all its place in the list.
std::vector<std::byte> pack_with_contents(const std::vector<FileEntry>& entries) {
  std::vector<std::byte> pack;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].kind == EntryKind::packed) {
      const std::vector<std::byte> content(entries[i].size_bytes, static_cast<std::byte>(i));
      const Digest digest = digest_of(content);
      pack.insert(pack.end(), content.begin(), content.end());
      pack.insert(pack.end(), digest.begin(), digest.end());
    }
  }
  return pack;
}

struct EarlyTransfer {
  Guessed destination;
  Budget budget;
  std::vector<std::byte> manifest;
  std::unique_ptr<Assembly> assembly;

  explicit EarlyTransfer(std::vector<FileEntry> entries, Update update = {}, bool early = true,
                         std::uint64_t memory = 64U << 20, std::uint64_t open_files = 256)
      : EarlyTransfer(encode_manifest(entries), entries, update, early, memory, open_files) {}
  EarlyTransfer(std::vector<std::byte> list, const std::vector<FileEntry>& entries, Update update = {},
                bool early = true, std::uint64_t memory = 64U << 20, std::uint64_t open_files = 256)
      : budget(memory, open_files), manifest(std::move(list)) {
    Assembly::Head head;
    head.adu_bytes = early_adu_bytes;
    head.files = static_cast<std::uint32_t>(entries.size());
    head.manifest_bytes = static_cast<std::uint32_t>(manifest.size());
    head.manifest_digest = digest_of(manifest);
    head.update = update;
    head.early = early;
    for (const FileEntry& file : entries) {
      head.total_bytes += file.size_bytes;
    }
    auto started = Assembly::start(head, destination, budget);
    EXPECT_TRUE(started);
    assembly = std::move(*started);
  }

  std::expected<Placement::Kind, Failure> land(const AduName& adu, ConstBytes payload) {
    const auto place = assembly->place(adu);
    if (!place) {
      return std::unexpected(place.error());
    }
    Status written;
    if (place->kind == Placement::Kind::memory) {
      std::copy(payload.begin(), payload.end(), place->memory.begin());
    } else if (place->kind == Placement::Kind::file) {
      written = place->file->write(place->offset, payload);
    } else {
      return place->kind;
    }
    EXPECT_TRUE(written);
    const auto landed = assembly->landed(adu);
    return landed ? std::expected<Placement::Kind, Failure>(place->kind) : std::unexpected(landed.error());
  }
  /// The ADUs of a stream from number `first` to before `end`.
  std::expected<Placement::Kind, Failure> land_part(std::uint32_t file, ConstBytes bytes, std::size_t first,
                                                    std::size_t end = SIZE_MAX) {
    std::expected<Placement::Kind, Failure> last = Placement::Kind::misplaced;
    for (std::size_t at = first * early_adu_bytes; last && at < bytes.size() && at / early_adu_bytes < end;
         at += early_adu_bytes) {
      const auto length = static_cast<std::uint32_t>(std::min<std::size_t>(early_adu_bytes, bytes.size() - at));
      last = land({file, length, at}, bytes.subspan(at, length));
    }
    return last;
  }
  std::expected<void, Failure> land_what_waits() {
    while (assembly->early_waits()) {
      const auto landed = assembly->land_early(1000);
      if (!landed) {
        return std::unexpected(landed.error());
      }
      if (*landed == Assembly::Landed::nothing) {
        break;
      }
    }
    return {};
  }
};

TEST(EarlyAdus, WaitForTheListAndThenLand) {
  const auto entries = tree();
  EarlyTransfer transfer(entries);
  const auto pack = pack_with_contents(entries);
  EXPECT_EQ(transfer.land_part(pack_file, pack, 0, 3), Placement::Kind::memory) << "nothing of the list is there";
  EXPECT_FALSE(transfer.assembly->early());
  ASSERT_TRUE(transfer.land_part(manifest_file, transfer.manifest, 0, 1));
  EXPECT_TRUE(transfer.assembly->early());
  EXPECT_EQ(transfer.destination.asked, std::vector<std::string>{"tree"});
  EXPECT_EQ(transfer.land_part(pack_file, pack, 3), Placement::Kind::memory);
  EXPECT_EQ(transfer.assembly->phase(), Phase::manifest);
  EXPECT_FALSE(transfer.assembly->early_waits()) << "not before the list is whole";
  EXPECT_EQ(transfer.destination.opened, 0U);
  ASSERT_TRUE(transfer.land_part(manifest_file, transfer.manifest, 1));
  EXPECT_EQ(transfer.destination.opened, 1U);
  EXPECT_TRUE(transfer.destination.files.empty());
  ASSERT_TRUE(transfer.assembly->early_waits());
  ASSERT_TRUE(transfer.land_what_waits());
  EXPECT_EQ(transfer.assembly->phase(), Phase::finished);
  EXPECT_EQ(transfer.destination.finished, 1U);
  ASSERT_EQ(transfer.destination.files.size(), entries.size() - 1);
  for (std::size_t i = 1; i < entries.size(); ++i) {
    EXPECT_EQ(transfer.destination.files[std::string(entries[i].name)],
              std::vector<std::byte>(entries[i].size_bytes, static_cast<std::byte>(i)));
  }
  transfer.assembly.reset();
  EXPECT_EQ(transfer.budget.memory.used(), 0U);
}

/// What repairs the list brings comes before or after, in any order, and twice.
TEST(EarlyAdus, MayComeTwiceAndBeforeTheListInAnyOrder) {
  const auto entries = tree(300);
  const auto pack = pack_with_contents(entries);
  EarlyTransfer transfer(entries);
  ASSERT_TRUE(transfer.land_part(manifest_file, transfer.manifest, 0, 1));
  ASSERT_TRUE(transfer.land_part(pack_file, pack, 40));
  ASSERT_TRUE(transfer.land_part(manifest_file, transfer.manifest, 3));
  ASSERT_TRUE(transfer.land_part(pack_file, pack, 30));
  ASSERT_TRUE(transfer.land_part(manifest_file, transfer.manifest, 1));
  ASSERT_EQ(transfer.assembly->phase(), Phase::data);
  ASSERT_TRUE(transfer.land_part(pack_file, pack, 0, 35)) << "beside what waits";
  ASSERT_TRUE(transfer.land_what_waits());
  EXPECT_EQ(transfer.assembly->phase(), Phase::finished);
  EXPECT_EQ(transfer.destination.files.size(), entries.size() - 1);
}

TEST(EarlyAdus, TheEndOfTheDataIsNoticed) {
  const auto entries = tree();
  const auto pack = pack_with_contents(entries);
  for (const bool all : {false, true}) {
    EarlyTransfer transfer(entries);
    ASSERT_TRUE(transfer.land_part(manifest_file, transfer.manifest, 0, 1));
    ASSERT_TRUE(transfer.land_part(pack_file, pack, 1, all ? SIZE_MAX : 3));
    ASSERT_TRUE(transfer.land_part(manifest_file, transfer.manifest, 1));
    EXPECT_EQ(transfer.assembly->land_early(1U << 20), all ? Assembly::Landed::with_the_end : Assembly::Landed::some);
  }
}

/// A file of its own, and no descriptor for it: it waits on.
TEST(EarlyAdus, WhatHasNoRoomWaitsOn) {
  std::vector<FileEntry> entries = tree(100);
  entries.push_back(numbered("a", early_adu_bytes));
  entries.push_back(numbered("b", early_adu_bytes));
  EarlyTransfer transfer(entries, {}, true, 64U << 20, 1);
  const std::vector<std::byte> content(early_adu_bytes);
  const Digest digest = digest_of(content);
  std::vector<std::byte> digests(digest.begin(), digest.end());
  digests.insert(digests.end(), digest.begin(), digest.end());
  ASSERT_TRUE(transfer.land_part(manifest_file, transfer.manifest, 0, 1));
  ASSERT_TRUE(transfer.land({0, early_adu_bytes, 0}, content));
  ASSERT_TRUE(transfer.land({1, early_adu_bytes, 0}, content));
  ASSERT_TRUE(transfer.budget.files.take(1));  // somebody else's
  ASSERT_TRUE(transfer.land_part(manifest_file, transfer.manifest, 1));
  EXPECT_EQ(transfer.assembly->land_early(1U << 20), Assembly::Landed::nothing);
  EXPECT_TRUE(transfer.assembly->early_waits());
  transfer.budget.files.give_back(1);
  EXPECT_EQ(transfer.assembly->land_early(1U << 20), Assembly::Landed::some);
  EXPECT_FALSE(transfer.assembly->early_waits());
  ASSERT_TRUE(transfer.land_part(pack_file, pack_with_contents(entries), 0));
  ASSERT_TRUE(transfer.land_part(digest_file, digests, 0));
  EXPECT_EQ(transfer.assembly->phase(), Phase::finished);
}

// --- When ----------------------------------------------------------------------------------------------------------

TEST(EarlyAdus, AreForTreesOfWhichNothingIsThere) {
  Update told, digests, delta, existing;
  told.told = true;
  digests.compare = Update::Compare::digest;
  delta.delta = true;
  existing.existing = true;
  std::vector<FileEntry> files;
  for (int i = 0; i < 100; ++i) {
    files.push_back({"f" + std::to_string(i), 10});
  }
  std::vector<FileEntry> top = tree();
  top[0].name = "";
  for (std::size_t i = 1; i < top.size(); ++i) {
    top[i].parent = 0;
  }
  struct Row {
    const char* what;
    std::vector<FileEntry> entries;
    Update update;
    bool may, nothing, asks, early;
  };
  const Row rows[] = {
      {"a tree", tree(), {}, true, true, true, true},
      {"the content of a directory", top, {}, true, true, true, true},
      {"a tree that is there", tree(), {}, true, false, true, false},
      {"files", files, {}, true, true, false, false},
      {"who may not know", tree(), {}, false, true, false, false},
      {"changes are to be told", tree(), told, true, true, false, false},
      {"contents are compared", tree(), digests, true, true, false, false},
      {"blocks are looked for", tree(), delta, true, true, false, false},
      {"nothing new is made", tree(), existing, true, true, false, false},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    EarlyTransfer transfer(row.entries, row.update, row.may);
    transfer.destination.nothing = row.nothing;
    ASSERT_TRUE(transfer.land_part(manifest_file, transfer.manifest, 0, 3));
    EXPECT_EQ(transfer.destination.asked.size(), row.asks ? 1U : 0U);
    EXPECT_EQ(transfer.assembly->early(), row.early);
  }
}

/// Also of a list that has come, while what is there is looked for. Signatures come before any file.
TEST(EarlyAdus, WaitWhileTheyAreHeld) {
  std::vector<FileEntry> entries = tree(20);
  entries.push_back(numbered("a", 2 * early_adu_bytes));
  const std::vector<std::byte> content(2 * early_adu_bytes);
  for (const bool holds : {true, false}) {
    SCOPED_TRACE(holds);
    EarlyTransfer transfer(entries);
    ASSERT_TRUE(transfer.land_part(manifest_file, transfer.manifest, 0));
    if (holds) {
      transfer.assembly->hold();
    }
    const AduName run{0, early_adu_bytes, early_adu_bytes};
    ASSERT_EQ(transfer.land({0, early_adu_bytes, 0}, ConstBytes(content).first(early_adu_bytes)),
              holds ? Placement::Kind::memory : Placement::Kind::file);
    EXPECT_EQ(transfer.assembly->takes_run(run, early_adu_bytes), !holds);
    EXPECT_EQ(transfer.destination.files.contains("a"), !holds);
    EXPECT_FALSE(transfer.assembly->early_waits());
    EXPECT_EQ(transfer.land({manifest_file, early_adu_bytes, 0}, content), Placement::Kind::duplicate);
    EXPECT_EQ(transfer.land({signature_file, early_adu_bytes, 0}, content), Placement::Kind::misplaced)
        << "none wanted";
    if (!holds) {
      continue;
    }
    transfer.assembly->release();
    ASSERT_TRUE(transfer.assembly->early_waits());
    ASSERT_TRUE(transfer.land_what_waits());
    EXPECT_EQ(transfer.destination.files["a"].size(), early_adu_bytes);
    EXPECT_TRUE(transfer.assembly->takes_run(run, early_adu_bytes));
  }
}

/// Threat: a sender that sends files in a dry run, of which nobody knows whether anything is to be made.
TEST(EarlyAdus, DoNotWaitInADryRun) {
  EarlyTransfer transfer(tree(), {.told = true, .dry_run = true});
  EXPECT_EQ(transfer.land_part(pack_file, std::vector<std::byte>(early_adu_bytes), 0), Placement::Kind::misplaced);
}

/// The front of a list decides nothing but when a sender begins; even so only a name that a list may have is looked at.
TEST(EarlyAdus, OnlyAGoodNameIsLookedAt) {
  for (const char* const name : {"..", ".", "a/b", "/etc", "a\nb", "\x1b[2J"}) {
    SCOPED_TRACE(name);
    std::vector<FileEntry> entries = tree();
    entries[0].name = name;
    EarlyTransfer transfer(entries);
    ASSERT_TRUE(transfer.land_part(manifest_file, transfer.manifest, 0, 1));
    EXPECT_TRUE(transfer.destination.asked.empty());
    EXPECT_FALSE(transfer.assembly->early());
  }
}

/// Threat: a sender that has a name looked up again and again, by beginnings of different lengths.
TEST(EarlyAdus, OneNameIsLookedAtOnce) {
  EarlyTransfer transfer(tree());
  transfer.destination.nothing = false;
  for (std::uint32_t slots = 1; slots < 5; ++slots) {
    const AduName front{manifest_file, slots * early_adu_bytes, 0};
    ASSERT_TRUE(transfer.land(front, ConstBytes(transfer.manifest).first(front.length)));
  }
  EXPECT_EQ(transfer.destination.asked.size(), 1U);
}

// --- Threats -------------------------------------------------------------------------------------------------------

/// Whatever is wrong with a list, it is refused before anything is made of what came early.
TEST(EarlyAdus, OfAListThatIsRefusedNothingIsMade) {
  struct Row {
    const char* what;
    void (*spoil)(std::vector<FileEntry>&);
    ExitCode code;
  };
  const Row rows[] = {
      {"a name twice", [](auto& all) { all[90].name = all[3].name; }, ExitCode::refused},
      {"a name that leads out", [](auto& all) { all[90].name = ".."; }, ExitCode::refused},
      {"a name with a slash", [](auto& all) { all[90].name = "a/b"; }, ExitCode::refused},
      {"no name", [](auto& all) { all[90].name = ""; }, ExitCode::protocol_error},
      {"in what comes later", [](auto& all) { all[50].parent = 91; }, ExitCode::protocol_error},
      {"in a file", [](auto& all) { all[90].parent = 50; }, ExitCode::protocol_error},
      {"in itself", [](auto& all) { all[90].parent = 91; }, ExitCode::protocol_error},
      {"another name of nothing",
       [](auto& all) {
         all[90] = FileEntry{"h"};
         all[90].kind = EntryKind::hard_link;
         all[90].original = 95;
       },
       ExitCode::protocol_error},
      {"a stream among files",
       [](auto& all) {
         all[90] = FileEntry{"s"};
         all[90].kind = EntryKind::stream;
       },
       ExitCode::protocol_error},
      {"too much in the pack", [](auto& all) { all[90].size_bytes = packed_bytes_max + 1; }, ExitCode::protocol_error},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    std::vector<FileEntry> entries = tree();
    const auto pack = pack_with_contents(entries);
    row.spoil(entries);
    EarlyTransfer transfer(entries);
    ASSERT_TRUE(transfer.land_part(manifest_file, transfer.manifest, 0, 1));
    ASSERT_TRUE(transfer.assembly->early());
    ASSERT_EQ(transfer.land_part(pack_file, pack, 0), Placement::Kind::memory);
    const auto refused = transfer.land_part(manifest_file, transfer.manifest, 1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, row.code) << refused.error().text;
    EXPECT_EQ(transfer.destination.opened, 0U);
    EXPECT_TRUE(transfer.destination.files.empty());
    transfer.assembly.reset();
    EXPECT_EQ(transfer.budget.memory.used(), 0U);
  }
}

TEST(EarlyAdus, OfAListThatIsNotTheOneThatWasOfferedNothingIsMade) {
  const auto entries = tree();
  EarlyTransfer transfer(entries);
  ASSERT_TRUE(transfer.land_part(manifest_file, transfer.manifest, 0, 1));
  ASSERT_TRUE(transfer.land_part(pack_file, pack_with_contents(entries), 0));
  transfer.manifest.back() ^= std::byte{1};
  const auto refused = transfer.land_part(manifest_file, transfer.manifest, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ExitCode::digest_mismatch);
  EXPECT_EQ(transfer.destination.opened, 0U);
}

/// It counts as received, so it will not come again.
TEST(EarlyAdus, WhatIsInNoFileOfTheListEndsTheTransfer) {
  const auto pack_bytes = static_cast<std::uint32_t>(pack_with_contents(tree()).size());
  const AduName nowhere[] = {
      {0, early_adu_bytes, 0},  // no file of its own
      {no_file, early_adu_bytes, 0},
      {digest_file, early_adu_bytes, 0},
      {pack_file, early_adu_bytes, std::uint64_t{pack_bytes} / early_adu_bytes * early_adu_bytes},  // beyond its end
      {pack_file, early_adu_bytes - 1, 0},  // short, and not the last
      {pack_file, early_adu_bytes, std::uint64_t{early_adu_bytes} << 40},
  };
  for (const AduName& adu : nowhere) {
    SCOPED_TRACE(adu.file);
    EarlyTransfer transfer(tree());
    ASSERT_TRUE(transfer.land_part(manifest_file, transfer.manifest, 0, 1));
    ASSERT_TRUE(transfer.land(adu, std::vector<std::byte>(adu.length)));
    ASSERT_TRUE(transfer.land_part(manifest_file, transfer.manifest, 1));
    const auto refused = transfer.land_what_waits();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ExitCode::protocol_error);
    EXPECT_TRUE(transfer.destination.files.empty());
  }
  EarlyTransfer transfer(tree());
  ASSERT_TRUE(transfer.land_part(manifest_file, transfer.manifest, 0, 1));
  for (const AduName& adu : {AduName{pack_file, early_adu_bytes, 1}, AduName{signature_file, early_adu_bytes, 0}}) {
    EXPECT_EQ(transfer.land(adu, std::vector<std::byte>(adu.length)), Placement::Kind::misplaced);
  }
}

TEST(EarlyAdus, APackedFileThatIsNotWhatItsDigestSaysIsNotMade) {
  const auto entries = tree();
  auto pack = pack_with_contents(entries);
  pack[5] ^= std::byte{1};
  EarlyTransfer transfer(entries);
  ASSERT_TRUE(transfer.land_part(manifest_file, transfer.manifest, 0, 1));
  ASSERT_TRUE(transfer.land_part(pack_file, pack, 0));
  ASSERT_TRUE(transfer.land_part(manifest_file, transfer.manifest, 1));
  const auto refused = transfer.land_what_waits();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ExitCode::digest_mismatch);
  EXPECT_TRUE(transfer.destination.files.empty());
}

/// However small they are, and however often they come: what waits takes bytes_max, and of memory that is spare.
TEST(EarlyAdus, TakeBoundedMemory) {
  for (const auto& [length, memory] : {std::pair{16U, 64U << 20}, {65536U, 64U << 20}, {1024U, 1U << 20}}) {
    SCOPED_TRACE(length);
    std::vector<FileEntry> entries = tree();
    EarlyTransfer transfer(entries, {}, true, memory);
    ASSERT_TRUE(transfer.land_part(manifest_file, transfer.manifest, 0, 1));
    const std::uint64_t before = transfer.budget.memory.used();
    const std::vector<std::byte> bytes(length);
    std::uint64_t room = transfer.assembly->room_bytes();
    EXPECT_EQ(room, EarlyAdus::bytes_max);
    std::uint64_t landed = 0;
    std::expected<Placement::Kind, Failure> last = Placement::Kind::memory;
    for (int i = 0; i < 1'000'000 && last == Placement::Kind::memory; ++i) {
      last = transfer.land({pack_file, length, 0}, bytes);
      landed += last == Placement::Kind::memory ? length : 0;
      ASSERT_LE(transfer.assembly->room_bytes(), room);
      room = transfer.assembly->room_bytes();
    }
    EXPECT_EQ(last, Placement::Kind::no_room);
    EXPECT_GT(landed, 0U);
    EXPECT_LE(transfer.budget.memory.used() - before, EarlyAdus::bytes_max);
    EXPECT_LE(transfer.budget.memory.used(), memory / 2) << "half of it is for those who wait for it";
    EXPECT_EQ(transfer.land_part(manifest_file, transfer.manifest, 1), Placement::Kind::memory);
    transfer.assembly.reset();
    EXPECT_EQ(transfer.budget.memory.used(), 0U);
  }
}

}  // namespace
}  // namespace sluice::ftx
