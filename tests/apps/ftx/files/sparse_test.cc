// SPDX-License-Identifier: Apache-2.0
// Sparse files, from what the file system says of one to the file that arrives with the same holes.
#include "apps/ftx/files/sparse.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "apps/ftx/files/digest.h"
#include "apps/ftx/files/directory.h"
#include "apps/ftx/files/source.h"
#include "tests/apps/ftx/content.h"
#include "tests/apps/ftx/files/faulty_system.h"
#include "tests/apps/ftx/files/served_directory.h"
#include "tests/apps/ftx/files/trees.h"
#include "tests/file_text.h"

namespace sluice::ftx {
namespace {

using test::Content;
using test::random_content;

constexpr std::uint64_t sparse_piece = 1U << 20;  // more than the pages and blocks of any file system here

class SparseFile : public ServedDirectory {
 protected:
  /// Of `size_bytes`, with data in `ranges` and holes elsewhere.
  std::filesystem::path make(const std::string& name, std::uint64_t size_bytes, const std::vector<ByteRange>& ranges) {
    const auto path = base_ / name;
    const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644));
    EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(size_bytes)), 0);
    for (const ByteRange& range : ranges) {
      const Content data = random_content(range.to - range.from, range.from + 1);
      EXPECT_EQ(::pwrite(file.get(), data.data(), data.size(), static_cast<off_t>(range.from)),
                static_cast<ssize_t>(data.size()));
    }
    return path;
  }
  static struct stat status_of(const std::filesystem::path& path) {
    struct stat status{};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status;
  }
  static std::optional<Extents> extents_in(const std::filesystem::path& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY));
    return extents_of(file.get(), static_cast<std::uint64_t>(status_of(path).st_size));
  }
  static std::unique_ptr<FileSource> open(const std::filesystem::path& path, Selection select = {}) {
    const std::string name = path.string();
    return std::move(FileSource::open(std::span(&name, 1), {.pack = true, .select = std::move(select)}).value());
  }
  static Content content_in(FileSource& source) {
    Content content(source.files()[0].content_bytes());
    EXPECT_TRUE(source.read(0, 0, content));
    return content;
  }
};

TEST_F(SparseFile, HolesAreFoundWhereTheFileSystemHasThem) {
  const std::uint64_t size = 20 * sparse_piece;
  struct Row {
    const char* name;
    std::vector<ByteRange> ranges;
  };
  for (const Row& row : std::initializer_list<Row>{
           {"nothing", {}},
           {"front", {{0, sparse_piece}}},
           {"end", {{19 * sparse_piece, size}}},
           {"middle", {{5 * sparse_piece, 6 * sparse_piece}}},
           {"three", {{0, sparse_piece}, {8 * sparse_piece, 10 * sparse_piece}, {19 * sparse_piece, size}}}}) {
    const auto path = make(row.name, size, row.ranges);
    EXPECT_TRUE(looks_sparse(status_of(path))) << row.name;
    const auto extents = extents_in(path);
    ASSERT_TRUE(extents) << row.name;
    EXPECT_EQ(*extents, Extents(row.ranges)) << row.name;
  }
  const auto dense = make("dense", 3 * sparse_piece, {{0, 3 * sparse_piece}});
  EXPECT_FALSE(looks_sparse(status_of(dense)));
  EXPECT_FALSE(extents_in(dense)) << "a file without holes is none with one extent";
}

/// A file system that reports what none should, or a file that changes under the search.
TEST_F(SparseFile, WhatMakesNoSenseIsNoExtent) {
  class Liar final : public System {
   public:
    std::vector<off_t> answers;  // negative: an errno
    std::size_t asked = 0;
    off_t lseek(int, off_t offset, int) override {
      const off_t answer = asked < answers.size() ? answers[asked] : offset;
      ++asked;
      errno = answer < 0 ? static_cast<int>(-answer) : 0;
      return answer < 0 ? -1 : answer;
    }
  };
  for (const std::vector<off_t>& answers : std::initializer_list<std::vector<off_t>>{
           {-EINVAL}, {-EBADF}, {5, -EIO}, {5, 5}, {5, 4}, {200, 300}, {0, 10, 10, 20}}) {
    Liar liar;
    liar.answers = answers;
    const ReplaceSystem replaced(liar);
    EXPECT_FALSE(extents_of(-1, 100)) << answers[0];
    EXPECT_LE(liar.asked, answers.size());
  }
  // A hole behind each byte, for ever: what lies behind the last extent that may be is one with it.
  class Comb final : public System {
   public:
    std::size_t asked = 0;
    off_t lseek(int, off_t offset, int whence) override {
      ++asked;
      return whence == SEEK_DATA ? offset + offset % 2 : offset + 1;
    }
  } comb;
  const ReplaceSystem replaced(comb);
  const auto extents = extents_of(-1, 1U << 30);
  ASSERT_TRUE(extents);
  EXPECT_EQ(extents->count(), Extents::count_max);
  EXPECT_EQ((*extents)[Extents::count_max - 1].to, 1U << 30);
  EXPECT_LE(comb.asked, 2 * Extents::count_max);
}

TEST_F(SparseFile, ASourceReadsTheDataAlone) {
  const auto path =
      make("f", 20 * sparse_piece, {{sparse_piece, 2 * sparse_piece}, {7 * sparse_piece, 9 * sparse_piece}});
  const auto source = open(path);
  const FileEntry& entry = source->files()[0];
  ASSERT_TRUE(entry.extents() != nullptr);
  EXPECT_EQ(entry.size_bytes, 20 * sparse_piece);
  EXPECT_EQ(entry.content_bytes(), 3 * sparse_piece);
  const std::string all = file_text(path);
  EXPECT_EQ(as_text(content_in(*source)),
            all.substr(sparse_piece, sparse_piece) + all.substr(7 * sparse_piece, 2 * sparse_piece));
  EXPECT_EQ(source->view(0, 0, 1000).error().code, ENOTSUP) << "a window would read the holes as well";
}

TEST_F(SparseFile, ItsDigestInTheListIsThatOfAllBytes) {
  const auto path = make("f", 5 * sparse_piece, {{sparse_piece, 2 * sparse_piece}});
  const auto source = open(path, {.digests = true});
  while (!source->digest_some(sparse_piece).value()) {
  }
  EXPECT_EQ(*source->files()[0].digest, file_digest_of(as_bytes(file_text(path))));
}

TEST_F(SparseFile, SmallOnesArePackedWithTheirHoles) {
  const auto source = open(make("f", packed_bytes_max, {}));
  EXPECT_EQ(source->files()[0].kind, EntryKind::packed);
  EXPECT_TRUE(source->files()[0].extents() == nullptr);
}

TEST_F(SparseFile, AHoleThatIsMadeMeanwhileIsAChange) {
  const auto path = make("f", 5 * sparse_piece, {{0, 3 * sparse_piece}});
  const auto source = open(path);
  const auto status = status_of(path);
  {
    const Descriptor file(::open(path.c_str(), O_RDWR));
    if (::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, sparse_piece) != 0) {
      ASSERT_EQ(::pwrite(file.get(), "x", 1, 4 * sparse_piece), 1);  // where holes cannot be made, one is filled
    }
    const timespec times[2] = {status.st_mtim, status.st_mtim};
    ASSERT_EQ(::futimens(file.get(), times), 0);
  }
  EXPECT_EQ(source->unchanged(0).error().code, ESTALE);
}

/// Wherever the parts of a content are cut, they come to the extents where they belong, and the holes stay holes.
TEST_F(SparseFile, ArrivesWithItsHoles) {
  const std::vector<ByteRange> ranges{{sparse_piece, 2 * sparse_piece},
                                      {7 * sparse_piece, 9 * sparse_piece},
                                      {12 * sparse_piece, 12 * sparse_piece + 5000}};
  const auto path = make("f", 20 * sparse_piece, ranges);
  const auto source = open(path);
  const Content content = content_in(*source);
  for (const LandBy land_by : {LandBy::write, LandBy::map, LandBy::faster}) {
    for (const std::size_t part : {std::size_t{1000}, std::size_t{100'000}, content.size()}) {
      const auto destination = DirectoryDestination::serve(root_.string(), 1, land_by).value();
      auto sink = destination->open("", source->files()).value();
      auto file = sink->create(source->files()[0]).value();
      const auto parts = (content.size() + part - 1) / part;
      for (std::size_t i = parts; i-- > 0;) {  // from the end
        const ConstBytes bytes = ConstBytes(content).subspan(i * part, std::min(part, content.size() - i * part));
        EXPECT_FALSE(file->place(i * part, bytes.size())) << "a window has the pages of holes as well";
        const ConstBytes pieces[] = {bytes.first(bytes.size() / 3), bytes.subspan(bytes.size() / 3)};
        ASSERT_TRUE(file->write_run(i * part, pieces));
      }
      Content back(content.size());
      ASSERT_TRUE(file->read(0, back));
      EXPECT_EQ(back, content);
      ASSERT_TRUE(file->finalize());
      ASSERT_TRUE(file->commit());
      ASSERT_TRUE(sink->finish());
      EXPECT_EQ(file_text(root_ / "f"), file_text(path));
      EXPECT_LE(status_of(root_ / "f").st_blocks, status_of(path).st_blocks + 64);
    }
  }
}

/// Threat: a list of a few bytes that announces files without end.
TEST_F(SparseFile, AHugeHoleTakesNoRoom) {
  const FileEntry huge{.name = "huge", .size_bytes = 100ULL << 30, .form = Extents({})};
  const FileEntry impossible{.name = "impossible", .size_bytes = file_bytes_max - 1, .form = Extents({})};
  const auto destination = DirectoryDestination::serve(root_.string(), 1).value();
  const std::vector<FileEntry> entries{huge, impossible};
  auto sink = destination->open("", entries).value();
  auto file = sink->create(entries[0]).value();
  ASSERT_TRUE(file->finalize());
  ASSERT_TRUE(file->commit());
  EXPECT_EQ(status_of(root_ / "huge").st_size, 100LL << 30);
  EXPECT_LE(status_of(root_ / "huge").st_blocks, 64);
  const Status status = sink->create(entries[1]).value()->finalize();
  ASSERT_FALSE(status) << "no file system has files of 2^62 bytes";
  EXPECT_EQ(status.error().code, EFBIG);
  EXPECT_NE(status.error().text.find("impossible"), std::string::npos) << status.error().text;
}

TEST_F(SparseFile, WhatAnEarlierTransferHasLeftIsOfTheSameExtents) {
  // Three blocks of content; the last ones lie behind holes.
  const FileEntry entry{.name = "f",
                        .size_bytes = 100 * sparse_piece,
                        .mtime_s = 5,
                        .form = Extents(std::vector<ByteRange>{{sparse_piece, 2 * sparse_piece},
                                                               {50 * sparse_piece, 51 * sparse_piece},
                                                               {80 * sparse_piece, 81 * sparse_piece}})};
  const auto serve = [&] {
    return std::move(DirectoryDestination::serve(root_.string(), 1, LandBy::write, {.keep = true}).value());
  };
  const Content content = random_content(2 * sparse_piece, 1);
  {
    const std::vector<FileEntry> entries{entry};
    const auto destination = serve();
    auto sink = destination->open("", entries).value();
    auto file = sink->create(entries[0]).value();
    ASSERT_TRUE(file->write(0, content));
    for (std::uint64_t block = 0; block < 2; ++block) {
      file->note_block(block, digest_of(ConstBytes(content).subspan(block * sparse_piece, sparse_piece)));
    }
  }
  const auto known = [&](const FileEntry& wanted, bool verify = false) {
    const std::vector<FileEntry> entries{wanted};
    const auto destination =
        DirectoryDestination::serve(root_.string(), 1, LandBy::write, {.keep = true, .verify = verify}).value();
    auto sink = destination->open("", entries).value();
    auto file = sink->resume(entries[0]);
    return file ? file->known_blocks().value().size() : 0;
  };
  EXPECT_EQ(known(entry), 2U);
  EXPECT_EQ(known(entry, true), 2U);
  FileEntry other = entry;
  other.form =
      Extents(std::vector<ByteRange>{{sparse_piece, 2 * sparse_piece}, {50 * sparse_piece, 52 * sparse_piece}});
  EXPECT_EQ(other.content_bytes(), entry.content_bytes());
  EXPECT_EQ(known(other), 0U) << "its blocks lie elsewhere";
  other.form = {};
  EXPECT_EQ(known(other), 0U);
  other = entry;
  other.size_bytes += 1;
  EXPECT_EQ(known(other), 0U);
  ASSERT_EQ(::truncate((root_ / ".f.ftx-part").c_str(), static_cast<off_t>(51 * sparse_piece - 1)), 0);
  EXPECT_EQ(known(entry), 1U) << "the second block is cut off";
}

}  // namespace
}  // namespace sluice::ftx
