// SPDX-License-Identifier: Apache-2.0
// Files put together from ADUs: what is taken from the budget, and how each failure of the sink ends it.
#include "apps/ftx/files/assembly.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <set>

#include "apps/ftx/session/adu_scheduler.h"
#include "base/prng.h"

namespace sluice::ftx {
namespace {

/// Files of zeros, whatever is written; each call may fail.
class ZeroDestination final : public Destination {
 public:
  int create_error = 0, finalize_error = 0, commit_error = 0, finish_error = 0;
  std::size_t created = 0, committed = 0, finished = 0, kept = 0, alive = 0;
  struct Written {
    std::string file;
    std::uint64_t offset;
    std::size_t pieces;
    bool operator==(const Written&) const = default;
  };
  std::vector<Written> runs;  // that were written
  std::uint64_t read_bytes = 0;
  std::set<std::string> left_alone;
  int write_error = 0;
  std::set<std::string> earlier;  // files that lie in the places of others
  ComparedContents compared;      // by a survey
  ComparedContents believed;      // by a sink

  Result<std::unique_ptr<Survey>> survey(std::string_view, std::span<const FileEntry>, const Update&,
                                         const std::optional<Deletion>&) override {
    return std::make_unique<NoSurvey>(*this);
  }
  Result<std::unique_ptr<Sink>> open(std::string_view, std::span<const FileEntry>) override {
    return std::make_unique<ZeroSink>(*this);
  }

 private:
  static Status status(int error) { return error == 0 ? Status() : Status(fail(error, "told to fail")); }

  class ZeroFile final : public SinkFile {
   public:
    ZeroFile(ZeroDestination& owner, std::string name) : owner_(owner), name_(std::move(name)) { ++owner_.alive; }
    ~ZeroFile() override { --owner_.alive; }
    Status write(std::uint64_t, ConstBytes) override { return {}; }
    Status write_run(std::uint64_t offset, std::span<const ConstBytes> pieces) override {
      owner_.runs.push_back({name_, offset, pieces.size()});
      return status(owner_.write_error);
    }
    Status read(std::uint64_t, Bytes out) override {
      owner_.read_bytes += out.size();
      std::ranges::fill(out, std::byte{0});
      return {};
    }
    Status finalize() override { return status(owner_.finalize_error); }
    Status commit() override {
      owner_.committed += owner_.commit_error == 0 ? 1 : 0;
      return status(owner_.commit_error);
    }
    std::string keep() override {
      ++owner_.kept;
      return ".kept";
    }

   private:
    ZeroDestination& owner_;
    std::string name_;
  };
  class Nothing final : public EarlierFile {
   public:
    Result<std::size_t> read_on(Bytes) override { return 0; }
  };
  class NoSurvey final : public Survey {
   public:
    explicit NoSurvey(ZeroDestination& owner) : owner_(owner) {}
    Result<bool> look(std::size_t, std::vector<Change>&) override { return true; }
    ComparedContents compared() override { return owner_.compared; }

   private:
    ZeroDestination& owner_;
  };
  class ZeroSink final : public Sink {
   public:
    explicit ZeroSink(ZeroDestination& owner) : owner_(owner) {}
    Result<std::unique_ptr<SinkFile>> create(const FileEntry& entry) override {
      if (owner_.create_error != 0) {
        return fail(owner_.create_error, "told to fail");
      }
      ++owner_.created;
      return std::make_unique<ZeroFile>(owner_, std::string(entry.name));
    }
    std::unique_ptr<EarlierFile> earlier(const FileEntry& entry) override {
      return owner_.earlier.contains(std::string(entry.name)) ? std::make_unique<Nothing>() : nullptr;
    }
    void believe(ComparedContents contents) override { owner_.believed = std::move(contents); }
    bool present(const FileEntry& entry) override { return owner_.left_alone.contains(std::string(entry.name)); }
    Status finish() override {
      ++owner_.finished;
      return status(owner_.finish_error);
    }
    std::string path(const FileEntry& entry) const override { return std::string(entry.name); }

   private:
    ZeroDestination& owner_;
  };
};

constexpr std::uint32_t assembly_adu_bytes = 256;

/// A transfer of files of zeros.
struct Transfer {
  ZeroDestination destination;
  Budget budget;
  std::vector<FileEntry> files;
  std::vector<std::byte> manifest;
  std::unique_ptr<Assembly> assembly;

  Transfer(std::vector<FileEntry> entries, std::uint64_t memory, std::uint64_t open_files = 256, Update update = {})
      : budget(memory, open_files), files(std::move(entries)), manifest(encode_manifest(files)) {
    Assembly::Head head;
    head.adu_bytes = assembly_adu_bytes;
    head.files = static_cast<std::uint32_t>(files.size());
    head.manifest_bytes = static_cast<std::uint32_t>(manifest.size());
    head.manifest_digest = digest_of(manifest);
    head.update = update;
    for (const FileEntry& file : files) {
      head.total_bytes += file.size_bytes;
    }
    auto started = Assembly::start(head, destination, budget);
    EXPECT_TRUE(started);
    assembly = std::move(*started);
  }

  /// Lands it where it belongs; the failure, or what place() said.
  std::expected<Placement::Kind, Failure> land(const AduName& adu, ConstBytes payload = {}) {
    const auto place = assembly->place(adu);
    if (!place) {
      return std::unexpected(place.error());
    }
    if (place->kind == Placement::Kind::memory) {
      std::copy(payload.begin(), payload.end(), place->memory.begin());
    }
    if (place->kind == Placement::Kind::memory || place->kind == Placement::Kind::file) {
      if (auto landed = assembly->landed(adu); !landed) {
        return std::unexpected(landed.error());
      }
    }
    return place->kind;
  }
  std::expected<Placement::Kind, Failure> land_list(std::uint32_t file, ConstBytes list) {
    std::expected<Placement::Kind, Failure> last = Placement::Kind::misplaced;
    for (std::size_t at = 0; at < list.size() && last; at += assembly_adu_bytes) {
      const auto length = static_cast<std::uint32_t>(std::min<std::size_t>(assembly_adu_bytes, list.size() - at));
      last = land({file, length, at}, list.subspan(at, length));
    }
    return last;
  }
  std::expected<Placement::Kind, Failure> land_digests() {
    std::vector<std::byte> list;
    for (const FileEntry& file : files) {
      const Digest digest = digest_of(std::vector<std::byte>(file.size_bytes));
      list.insert(list.end(), digest.begin(), digest.end());
    }
    return land_list(digest_file, list);
  }
  std::expected<Placement::Kind, Failure> land_file(std::uint32_t file) {
    std::expected<Placement::Kind, Failure> last = Placement::Kind::misplaced;
    for (std::uint64_t at = 0; at < files[file].size_bytes && last; at += assembly_adu_bytes) {
      const auto length =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(assembly_adu_bytes, files[file].size_bytes - at));
      last = land({file, length, at});
    }
    return last;
  }
};

std::vector<FileEntry> many(std::size_t count, std::uint64_t size) {
  std::vector<FileEntry> files;
  for (std::size_t i = 0; i < count; ++i) {
    files.push_back({"f" + std::to_string(i), size});
  }
  return files;
}

constexpr std::uint64_t read_back = 256 * 1024;

TEST(Assembly, SlotsAndOpenFilesComeBackWithEachFile) {
  // Room for the lists and for the slots of one file, which has more than 64 ADUs; one file open.
  constexpr std::size_t count = 50;
  constexpr std::uint64_t lists = count * (912 + 31 + 16) + read_back;
  Transfer transfer(many(count, 100 * assembly_adu_bytes), lists + Slots::page_bytes, 1);
  ASSERT_TRUE(transfer.land_list(manifest_file, transfer.manifest));
  const std::uint64_t before = transfer.budget.memory.used();
  for (std::uint32_t file = 0; file < count; ++file) {
    const auto landed = transfer.land_file(file);
    ASSERT_TRUE(landed) << file << ": " << landed.error().text;
    ASSERT_EQ(*landed, Placement::Kind::file) << file;
    ASSERT_EQ(transfer.budget.memory.used(), before) << file;
    ASSERT_EQ(transfer.budget.files.used(), 0U) << file;
  }
  ASSERT_TRUE(transfer.land_digests());
  EXPECT_EQ(transfer.assembly->phase(), Phase::finished);
  EXPECT_EQ(transfer.destination.committed, count);
  EXPECT_EQ(transfer.destination.alive, 0U);
  transfer.assembly.reset();
  EXPECT_EQ(transfer.budget.memory.used(), 0U);
}

TEST(Assembly, ATransferMayBeNoLargerThanAllowedHolesIncluded) {
  const std::vector<FileEntry> files{{"dense", 100}, {.name = "sparse", .size_bytes = 1'000'000, .form = Extents({})}};
  const std::vector<std::byte> manifest = encode_manifest(files);
  const auto size = static_cast<std::uint32_t>(manifest.size());
  for (const std::uint64_t most : {1'000'099U, 1'000'100U}) {
    ZeroDestination destination;
    Budget budget(1U << 20, 1, nullptr, most);
    auto assembly = Assembly::start({.path = "",
                                     .total_bytes = 100,
                                     .adu_bytes = 256,
                                     .files = 2,
                                     .manifest_bytes = size,
                                     .manifest_digest = digest_of(manifest),
                                     .update = {}},
                                    destination, budget);
    ASSERT_TRUE(assembly) << assembly.error().text;
    const AduName adu{manifest_file, size, 0};
    std::ranges::copy(manifest, (*assembly)->place(adu).value().memory.begin());
    const auto landed = (*assembly)->landed(adu);
    ASSERT_EQ(landed.has_value(), most == 1'000'100);
    if (!landed) {
      EXPECT_EQ(landed.error().code, ExitCode::refused);
      EXPECT_NE(landed.error().text.find("1000100 bytes of 1000099"), std::string::npos) << landed.error().text;
    }
  }
}

/// Threat: a list of few bytes each of whose entries has metadata of its own.
TEST(Assembly, MetadataTakesFromTheBudget) {
  constexpr std::size_t count = 1000;
  const auto used_with = [](std::size_t different, std::uint64_t memory) -> std::optional<std::uint64_t> {
    std::vector<FileEntry> entries = many(count, 0);
    for (std::size_t i = 0; i < count; ++i) {
      const auto user = static_cast<std::uint32_t>(std::min(i, different - 1));
      entries[i].metadata = Shared<Metadata>({.user = Principal{user, ""}});
    }
    Transfer transfer(entries, memory);
    return transfer.land_list(manifest_file, transfer.manifest) ? std::optional(transfer.budget.memory.used())
                                                                : std::nullopt;
  };
  constexpr std::uint64_t plenty = 8 << 20;
  const std::uint64_t one = used_with(1, plenty).value();
  const std::uint64_t all = used_with(count, plenty).value();
  EXPECT_GE(all - one, (count - 1) * metadata_memory_bytes);
  EXPECT_TRUE(used_with(1, one + 30'000)) << "lists take a little more while they arrive";
  EXPECT_FALSE(used_with(count, one + 30'000));
}

TEST(Assembly, AFileOfAnySizeTakesMemoryWhereItsAdusLand) {
  constexpr std::uint64_t size = file_content_max - 1;
  Transfer transfer(many(1, size), 1 << 20);
  ASSERT_TRUE(transfer.land_list(manifest_file, transfer.manifest));
  const std::uint64_t before = transfer.budget.memory.used();
  Prng prng(1);
  for (std::uint64_t i = 1; i <= 200; ++i) {
    const std::uint64_t offset = prng.below(size / assembly_adu_bytes) * assembly_adu_bytes;
    ASSERT_TRUE(transfer.land({0, assembly_adu_bytes, offset}));
    ASSERT_LE(transfer.budget.memory.used() - before, i * (Slots::page_bytes + BlockDigests::entry_bytes));
  }
  // Near each other they share what they take.
  const std::uint64_t far = transfer.budget.memory.used();
  for (std::uint64_t slot = 0; slot < 1000; ++slot) {
    ASSERT_TRUE(transfer.land({0, assembly_adu_bytes, slot * assembly_adu_bytes}));
  }
  EXPECT_EQ(transfer.budget.memory.used() - far, Slots::page_bytes);
  // Until there is none left; then the transfer is refused.
  std::expected<Placement::Kind, Failure> last = Placement::Kind::file;
  for (int i = 0; i < 10'000 && last; ++i) {
    last = transfer.land({0, assembly_adu_bytes, prng.below(size / assembly_adu_bytes) * assembly_adu_bytes});
  }
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().code, ExitCode::refused);
}

TEST(Assembly, APlaceForUnverifiedBytesTakesNothing) {
  Transfer transfer(many(1, 1ULL << 40), 1 << 20);
  ASSERT_TRUE(transfer.land_list(manifest_file, transfer.manifest));
  ASSERT_TRUE(transfer.land({0, assembly_adu_bytes, 0}));
  const std::uint64_t before = transfer.budget.memory.used();
  for (std::uint64_t page = 0; page < 100; ++page) {
    EXPECT_TRUE(
        transfer.assembly->memory_for({0, assembly_adu_bytes, page * Slots::page_slots * assembly_adu_bytes}).empty());
  }
  EXPECT_EQ(transfer.budget.memory.used(), before);
}

TEST(Assembly, AListMayComeBackwardsAsFarAsItMayRunAhead) {
  Transfer transfer(many(5000, 0), 64 << 20);
  const std::size_t last = (transfer.manifest.size() - 1) / assembly_adu_bytes * assembly_adu_bytes;
  ASSERT_LT(last, Assembly::list_ahead_bytes);
  for (std::size_t at = last + assembly_adu_bytes; at > 0; at -= assembly_adu_bytes) {
    const std::size_t from = at - assembly_adu_bytes;
    const auto length =
        static_cast<std::uint32_t>(std::min<std::size_t>(assembly_adu_bytes, transfer.manifest.size() - from));
    ASSERT_EQ(transfer.land({manifest_file, length, from}, ConstBytes(transfer.manifest).subspan(from, length)),
              Placement::Kind::memory);
  }
  EXPECT_EQ(transfer.assembly->phase(), Phase::data);
  ASSERT_TRUE(transfer.land_digests());
  EXPECT_EQ(transfer.assembly->phase(), Phase::finished);
  EXPECT_EQ(transfer.destination.committed, 5000U);
}

TEST(Assembly, EachFailureOfTheSinkEndsItAndSuccessNeedsTheFlush) {
  const auto run = [](const std::function<void(ZeroDestination&)>& change) {
    Transfer transfer({{"a", 1000}, {"b", 0}}, 1 << 20);
    change(transfer.destination);
    std::expected<Placement::Kind, Failure> last = transfer.land_list(manifest_file, transfer.manifest);
    if (last) {
      last = transfer.land_file(0);
    }
    if (last) {
      last = transfer.land_digests();
    }
    EXPECT_EQ(transfer.assembly->phase() == Phase::finished, last.has_value());
    const bool kept = transfer.destination.kept > 0;
    transfer.assembly.reset();
    EXPECT_EQ(transfer.budget.memory.used(), 0U);
    EXPECT_EQ(transfer.budget.files.used(), 0U);
    EXPECT_EQ(transfer.destination.alive, 0U);
    return std::pair(last ? ExitCode::ok : last.error().code, kept);
  };
  EXPECT_EQ(run([](ZeroDestination& d) { EXPECT_EQ(d.finished, 0U); }), std::pair(ExitCode::ok, false));
  EXPECT_EQ(run([](ZeroDestination& d) { d.create_error = EIO; }), std::pair(ExitCode::write_failed, false));
  EXPECT_EQ(run([](ZeroDestination& d) { d.create_error = ENOSPC; }), std::pair(ExitCode::disk_full, false));
  EXPECT_EQ(run([](ZeroDestination& d) { d.finalize_error = EIO; }), std::pair(ExitCode::write_failed, false));
  EXPECT_EQ(run([](ZeroDestination& d) { d.finalize_error = EDQUOT; }), std::pair(ExitCode::disk_full, true));
  EXPECT_EQ(run([](ZeroDestination& d) { d.commit_error = EIO; }), std::pair(ExitCode::write_failed, false));
  EXPECT_EQ(run([](ZeroDestination& d) { d.commit_error = ENOSPC; }), std::pair(ExitCode::disk_full, true));
  EXPECT_EQ(run([](ZeroDestination& d) { d.finish_error = EIO; }), std::pair(ExitCode::write_failed, false));
  EXPECT_EQ(run([](ZeroDestination& d) { d.finish_error = ENOSPC; }), std::pair(ExitCode::disk_full, false));
}

// --- The pack ------------------------------------------------------------------------------------------------------

std::vector<FileEntry> packed(std::size_t count, std::uint64_t size) {
  std::vector<FileEntry> files = many(count, size);
  for (FileEntry& file : files) {
    file.kind = EntryKind::packed;
  }
  return files;
}

/// The pack of files of zeros.
std::vector<std::byte> pack_of(const std::vector<FileEntry>& files) {
  std::vector<std::byte> pack;
  for (const FileEntry& file : files) {
    const Digest digest = digest_of(std::vector<std::byte>(file.size_bytes));
    pack.resize(pack.size() + file.size_bytes);
    pack.insert(pack.end(), digest.begin(), digest.end());
  }
  return pack;
}

TEST(Assembly, PackedFilesAreStoredInWhateverOrderAndSizesTheirAdusCome) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Prng prng(seed);
    std::vector<FileEntry> files = packed(40, 0);
    for (FileEntry& file : files) {
      file.size_bytes = prng.chance(0.3) ? 0 : prng.below(prng.chance(0.2) ? 5000 : 300);
    }
    Transfer transfer(files, 1 << 20);
    ASSERT_TRUE(transfer.land_list(manifest_file, transfer.manifest));
    const std::uint64_t before = transfer.budget.memory.used();
    const std::vector<std::byte> pack = pack_of(files);
    const std::uint64_t slots = (pack.size() + assembly_adu_bytes - 1) / assembly_adu_bytes;
    for (int i = 0; i < 100'000 && transfer.assembly->phase() != Phase::finished; ++i) {
      const std::uint64_t from = prng.below(slots) * assembly_adu_bytes;
      const auto length = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(assembly_adu_bytes * (1 + prng.below(8)), pack.size() - from));
      ASSERT_TRUE(transfer.land({pack_file, length, from}, ConstBytes(pack).subspan(from, length))) << seed;
    }
    EXPECT_EQ(transfer.assembly->phase(), Phase::finished) << seed;
    EXPECT_EQ(transfer.destination.created, files.size()) << "each once, seed " << seed;
    EXPECT_EQ(transfer.destination.committed, files.size());
    EXPECT_EQ(transfer.assembly->landed_bytes(), transfer.assembly->total_bytes());
    EXPECT_LE(transfer.budget.memory.used() - before, 8 * assembly_adu_bytes + Slots::page_bytes) << "no part is left";
  }
}

/// Threat: a few bytes of each of many files, each of which then takes the memory of a whole one.
TEST(Assembly, PartsOfPackedFilesTakeFromTheBudget) {
  Transfer transfer(packed(100, packed_bytes_max), 2 << 20);
  ASSERT_TRUE(transfer.land_list(manifest_file, transfer.manifest));
  const std::vector<std::byte> pack = pack_of(transfer.files);
  const auto land = [&](std::uint64_t from) {
    return *transfer.land({pack_file, assembly_adu_bytes, from}, ConstBytes(pack).subspan(from, assembly_adu_bytes));
  };
  std::size_t taken = 0;
  std::uint64_t refused = 0;
  for (std::uint64_t file = 0; file < 100; ++file) {
    const std::uint64_t from = (file * (packed_bytes_max + 16) + 5000) / assembly_adu_bytes * assembly_adu_bytes;
    const bool landed = land(from) == Placement::Kind::memory;
    taken += landed ? 1 : 0;
    refused = landed || refused != 0 ? refused : from;
  }
  EXPECT_LT(taken, (2U << 20) / packed_bytes_max);
  EXPECT_GT(taken, 20U);
  EXPECT_LE(transfer.budget.memory.used(), 2U << 20);
  // A file that becomes whole makes room again.
  for (std::uint64_t from = 0; from <= packed_bytes_max; from += assembly_adu_bytes) {
    land(from);
  }
  EXPECT_EQ(transfer.destination.committed, 1U);
  EXPECT_EQ(land(refused), Placement::Kind::memory);
  transfer.assembly.reset();
  EXPECT_EQ(transfer.budget.memory.used(), 0U);
}

TEST(Assembly, APackedFileThatIsNotWhatItsDigestSaysIsNotStored) {
  Transfer transfer(packed(3, 100), 1 << 20);
  ASSERT_TRUE(transfer.land_list(manifest_file, transfer.manifest));
  std::vector<std::byte> pack = pack_of(transfer.files);
  pack[116 + 50] ^= std::byte{1};
  ASSERT_TRUE(transfer.land({pack_file, 92, 256}, ConstBytes(pack).subspan(256)));
  const auto landed = transfer.land({pack_file, 256, 0}, ConstBytes(pack).first(256));
  ASSERT_FALSE(landed);
  EXPECT_EQ(landed.error().code, ExitCode::digest_mismatch);
  EXPECT_EQ(transfer.destination.committed, 1U) << "the one before it";
}

TEST(Assembly, WhatIsNowhereInThePackIsMisplaced) {
  Transfer transfer(packed(3, 100), 1 << 20);
  ASSERT_TRUE(transfer.land_list(manifest_file, transfer.manifest));
  EXPECT_EQ(transfer.land({pack_file, 256, 512}), Placement::Kind::misplaced);
  EXPECT_EQ(transfer.land({pack_file, 256, 256}), Placement::Kind::misplaced) << "beyond its end";
  EXPECT_EQ(transfer.land({pack_file, 16, 16}), Placement::Kind::misplaced) << "at no slot";
  EXPECT_EQ(transfer.land({0, 100, 0}), Placement::Kind::misplaced) << "a packed file has no number";
  EXPECT_EQ(transfer.land({digest_file, 16, 0}), Placement::Kind::misplaced);
}

// --- What is left alone --------------------------------------------------------------------------------------------

// --- What --delta is done for ----------------------------------------------------------------------------------------

/// The numbers of the files that are to be signed, of files that all have earlier versions.
std::vector<std::uint32_t> signed_of(const std::vector<std::uint64_t>& sizes,
                                     std::uint64_t memory = std::uint64_t{1} << 30) {
  std::vector<FileEntry> files;
  for (const std::uint64_t size : sizes) {
    files.push_back({std::to_string(files.size()), size});
  }
  Transfer transfer(files, memory, 256, {.delta = true});
  for (const FileEntry& file : files) {
    transfer.destination.earlier.emplace(file.name);
  }
  EXPECT_TRUE(transfer.land_list(manifest_file, transfer.manifest));
  while (transfer.assembly->looks_for_earlier()) {
    transfer.assembly->look_for_earlier(100);
  }
  return transfer.assembly->to_sign();
}

/// docs/formats/ftx.md, "Changed files": 64 MiB of signatures, 24 bytes a block of 1 MiB: 2.66 TiB, and less than a
/// block more.
TEST(DeltaBounds, TheLargestFile) {
  constexpr std::uint64_t blocks = signatures_bytes_max / block_signature_bytes;
  constexpr std::uint64_t most = (blocks + 1) * block_bytes_max - 1;
  static_assert(most >> 30 == 2730);
  using Numbers = std::vector<std::uint32_t>;
  EXPECT_EQ(signed_of({most}), Numbers{0});
  EXPECT_EQ(signed_of({most + 1}), Numbers{}) << "it is sent as a whole";
  EXPECT_EQ(signed_of({1 << 20, most + 1, 1 << 20}), (Numbers{0, 2})) << "and leaves the room to others";
  EXPECT_EQ(signed_of({1 << 20, most, 1 << 20}), Numbers{1}) << "the largest first";
  EXPECT_EQ(signed_of({most / 2, most / 2, most / 4}), (Numbers{0, 1}));
}

TEST(DeltaBounds, TheSmallestFileHasOneBlock) {
  EXPECT_EQ(signed_of({block_bytes_min - 1, block_bytes_min}), std::vector<std::uint32_t>{1});
}

TEST(DeltaBounds, SoManyFilesTheLargestOfThem) {
  std::vector<std::uint64_t> sizes(signed_files_max + 3, 100'000);
  sizes[1] = sizes[5] = 99'999;
  sizes.back() = 200'000;
  const auto numbers = signed_of(sizes);
  ASSERT_EQ(numbers.size(), signed_files_max);
  EXPECT_EQ(numbers.back(), sizes.size() - 1);
  EXPECT_FALSE(std::ranges::count(numbers, 1U) + std::ranges::count(numbers, 5U) > 0);
  EXPECT_TRUE(std::ranges::is_sorted(numbers));
}

/// Signatures that a session has no memory for are not asked for.
TEST(DeltaBounds, SignaturesThatThereIsNoRoomForAreNotAskedFor) {
  constexpr std::uint64_t size = std::uint64_t{16} << 30;
  const std::uint64_t needed = 2 * signature_bytes(size);
  EXPECT_EQ(signed_of({size}, needed + (4 << 20)), std::vector<std::uint32_t>{0});
  EXPECT_EQ(signed_of({size}, needed - 1), std::vector<std::uint32_t>{});
}

TEST(DeltaBounds, ASearchTakesTwoMebibytesAndThirtyBytesABlock) {
  for (std::uint64_t size = block_bytes_min; size < std::uint64_t{1} << 42; size = size * 3 + 1) {
    const std::uint64_t blocks = signature_blocks(size);
    const std::uint64_t memory =
        BlockSearch::memory_bytes(blocks, signature_block_bytes(size)) + blocks * sizeof(ByteRange);
    EXPECT_LE(memory, (std::uint64_t{2} << 20) + 30 * blocks) << size;
  }
}

TEST(ComparedBefore, WhatASurveyHasReadTheSinkIsTold) {
  Transfer transfer({{"own", 300}}, 1 << 20, 256, {.compare = Update::Compare::digest, .told = true});
  transfer.destination.compared = {7};
  ASSERT_TRUE(transfer.land_list(manifest_file, transfer.manifest));
  std::vector<Change> changes;
  ASSERT_TRUE(transfer.assembly->survey(1, changes));
  ASSERT_TRUE(transfer.assembly->begin());
  EXPECT_EQ(transfer.destination.believed, ComparedContents{7});
}

/// Data may come before compare() has looked: with a rule that leaves files alone that would otherwise be lost.
TEST(LeftAlone, AlsoWhereItsDataComesFirst) {
  std::vector<FileEntry> files = packed(4, 300);
  files.push_back({"own", 300});
  files.push_back({"other", 300});
  Transfer transfer(files, 1 << 20, 256, {.ignore_existing = true});
  transfer.destination.left_alone = {std::string(files[0].name), std::string(files[2].name), "own"};
  ASSERT_TRUE(transfer.land_list(manifest_file, transfer.manifest));
  // Parts of packed files first, whose ends come later.
  const std::vector<std::byte> pack = pack_of(packed(4, 300));
  for (const std::uint64_t from : {1U, 3U, 0U, 2U, 4U}) {
    const ConstBytes part = ConstBytes(pack).subspan(from * assembly_adu_bytes);
    const auto length = static_cast<std::uint32_t>(std::min<std::size_t>(assembly_adu_bytes, part.size()));
    ASSERT_TRUE(transfer.land({pack_file, length, from * assembly_adu_bytes}, part.first(length)));
  }
  EXPECT_EQ(transfer.destination.created, 2U);
  EXPECT_EQ(transfer.land({0, assembly_adu_bytes, 0}), Placement::Kind::duplicate);
  EXPECT_EQ(transfer.destination.created, 2U);
  EXPECT_EQ(transfer.land({1, assembly_adu_bytes, 0}), Placement::Kind::file);
  EXPECT_EQ(transfer.land({1, 300 - assembly_adu_bytes, assembly_adu_bytes}), Placement::Kind::file);
  std::vector<std::byte> digests;
  for (int i = 0; i < 2; ++i) {
    std::ranges::copy(digest_of(std::vector<std::byte>(300)), std::back_inserter(digests));
  }
  ASSERT_TRUE(transfer.land_list(digest_file, digests));
  EXPECT_EQ(transfer.assembly->phase(), Phase::finished);
  EXPECT_EQ(transfer.destination.created, 3U);
  EXPECT_EQ(transfer.assembly->skipped().files, 3U);
  EXPECT_EQ(transfer.assembly->skipped().bytes, 900U);
  EXPECT_EQ(transfer.assembly->landed_bytes(), 900U);
}

// --- The other side: repairs ---------------------------------------------------------------------------------------

class OneSource final : public Source {
 public:
  bool changed = false;
  const std::vector<FileEntry>& files() const override { return entries_; }
  Status read(std::uint32_t, std::uint64_t, Bytes out) override {
    std::ranges::fill(out, std::byte{1});
    return {};
  }
  Status unchanged(std::uint32_t) override { return changed ? Status(fail(ESTALE, "changed")) : Status(); }
  std::string path(std::uint32_t) const override { return "f"; }

 private:
  std::vector<FileEntry> entries_{{"f", 10'000}, {"g", 10}};
};

TEST(AduScheduler, ARepairComesFromTheFileThatWasOffered) {
  OneSource source;
  AduScheduler scheduler(source, assembly_adu_bytes);
  (void)scheduler.next();
  scheduler.accept();
  ASSERT_TRUE(*scheduler.next());
  EXPECT_TRUE(scheduler.retransmit({0, assembly_adu_bytes, 0}));
  scheduler.release();
  source.changed = true;
  const auto repair = scheduler.retransmit({0, assembly_adu_bytes, 0});
  ASSERT_FALSE(repair);
  EXPECT_EQ(repair.error().code, ExitCode::source_changed);
  // The lists are the scheduler's own.
  EXPECT_TRUE(scheduler.retransmit({manifest_file, 16, 0}));
}

// --- Payloads that are written together ---

/// As land(), leaving the writing to write_gathered().
std::expected<void, Failure> gather(Transfer& transfer, std::uint32_t file, std::uint64_t adu) {
  static const std::vector<std::byte> zeros(assembly_adu_bytes);
  const AduName name{file, assembly_adu_bytes, adu * assembly_adu_bytes};
  const auto place = transfer.assembly->place(name, Assembly::Prefer::file);
  if (!place || place->kind != Placement::Kind::file) {
    ADD_FAILURE() << "no place for ADU " << adu;
    return {};
  }
  auto gathered = transfer.assembly->gather(name, zeros);
  return gathered ? transfer.assembly->landed(name) : gathered;
}

TEST(Gathered, WhatFollowsEachOtherInAFileIsWrittenByOneCall) {
  Transfer transfer({{"a", 1000 * assembly_adu_bytes}, {"b", 1000 * assembly_adu_bytes}}, 1 << 20);
  ASSERT_TRUE(transfer.land_list(manifest_file, transfer.manifest));
  auto& runs = transfer.destination.runs;
  using Runs = std::vector<ZeroDestination::Written>;
  for (const std::uint64_t adu : {5U, 6U, 7U, 9U, 8U}) {
    ASSERT_TRUE(gather(transfer, 0, adu));
  }
  ASSERT_TRUE(gather(transfer, 1, 9));
  EXPECT_EQ(
      runs,
      (Runs{{"a", 5 * assembly_adu_bytes, 3}, {"a", 9 * assembly_adu_bytes, 1}, {"a", 8 * assembly_adu_bytes, 1}}));
  ASSERT_TRUE(transfer.assembly->write_gathered());
  EXPECT_EQ(runs.back(), (ZeroDestination::Written{"b", 9 * assembly_adu_bytes, 1}));
  runs.clear();
  ASSERT_TRUE(transfer.assembly->write_gathered());
  EXPECT_TRUE(runs.empty()) << "it is written once";
  for (std::uint64_t adu = 100; adu < 165; ++adu) {
    ASSERT_TRUE(gather(transfer, 1, adu));
  }
  ASSERT_TRUE(transfer.assembly->write_gathered());
  EXPECT_EQ(runs, (Runs{{"b", 100 * assembly_adu_bytes, 64}, {"b", 164 * assembly_adu_bytes, 1}}));
}

/// The digest is of what was written, so writing comes first; what is in order is not read back for it.
TEST(Gathered, IsWrittenBeforeItIsDigested) {
  Transfer transfer({{"a", 3 * assembly_adu_bytes}}, 1 << 20);
  ASSERT_TRUE(transfer.land_list(manifest_file, transfer.manifest));
  for (const std::uint64_t adu : {0U, 1U}) {
    ASSERT_TRUE(gather(transfer, 0, adu));
  }
  EXPECT_TRUE(transfer.destination.runs.empty());
  ASSERT_TRUE(gather(transfer, 0, 2));
  EXPECT_EQ(transfer.destination.runs, (std::vector<ZeroDestination::Written>{{"a", 0, 3}}));
  EXPECT_EQ(transfer.destination.read_bytes, 0U);
  ASSERT_TRUE(transfer.land_digests());
  EXPECT_EQ(transfer.destination.committed, 1U);
}

TEST(Gathered, BehindAGapItIsReadBack) {
  Transfer transfer({{"a", 3 * assembly_adu_bytes}}, 1 << 20);
  ASSERT_TRUE(transfer.land_list(manifest_file, transfer.manifest));
  for (const std::uint64_t adu : {2U, 0U, 1U}) {
    ASSERT_TRUE(gather(transfer, 0, adu));
  }
  EXPECT_EQ(transfer.destination.read_bytes, assembly_adu_bytes);
  ASSERT_TRUE(transfer.land_digests());
  EXPECT_EQ(transfer.destination.committed, 1U);
}

/// A run lands with what it continues, so that all of it has landed when it is written.
TEST(Gathered, ARunIsWrittenWhenAllOfItHasLanded) {
  Transfer transfer({{"a", 104 * assembly_adu_bytes}}, 1 << 20);
  ASSERT_TRUE(transfer.land_list(manifest_file, transfer.manifest));
  for (std::uint64_t adu = 0; adu < 40; ++adu) {
    ASSERT_TRUE(gather(transfer, 0, adu));
  }
  const AduName run{0, 64 * assembly_adu_bytes, 40 * assembly_adu_bytes};
  ASSERT_TRUE(transfer.assembly->takes_run(run, assembly_adu_bytes));
  static const std::vector<std::byte> zeros(assembly_adu_bytes);
  for (std::uint64_t adu = 40; adu < 104; ++adu) {
    ASSERT_TRUE(transfer.assembly->gather({0, assembly_adu_bytes, adu * assembly_adu_bytes}, zeros));
    EXPECT_TRUE(transfer.destination.runs.empty());
  }
  ASSERT_TRUE(transfer.assembly->landed(run));
  EXPECT_EQ(transfer.destination.runs, (std::vector<ZeroDestination::Written>{{"a", 0, 104}}));
  EXPECT_EQ(transfer.destination.read_bytes, 0U);
}

TEST(Gathered, AFailedWriteIsTheFilesFailure) {
  for (const int error : {EIO, ENOSPC}) {
    Transfer transfer({{"a", 10 * assembly_adu_bytes}}, 1 << 20);
    ASSERT_TRUE(transfer.land_list(manifest_file, transfer.manifest));
    transfer.destination.write_error = error;
    ASSERT_TRUE(gather(transfer, 0, 1));
    ASSERT_TRUE(gather(transfer, 0, 2));
    const auto written = transfer.assembly->write_gathered();
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, error == ENOSPC ? ExitCode::disk_full : ExitCode::write_failed);
    EXPECT_EQ(transfer.destination.kept, error == ENOSPC ? 1U : 0U);
  }
}

}  // namespace
}  // namespace sluice::ftx
