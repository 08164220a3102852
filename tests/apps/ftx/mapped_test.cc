// SPDX-License-Identifier: Apache-2.0
// Files worked on through maps: what arrives is the same, and what would end in SIGBUS ends in an error.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

#include "apps/ftx/assembly.h"
#include "apps/ftx/congestion.h"
#include "apps/ftx/directory.h"
#include "apps/ftx/mapped_window.h"
#include "apps/ftx/sender.h"
#include "apps/ftx/server.h"
#include "apps/ftx/source.h"
#include "apps/ftx/window_set.h"
#include "base/prng.h"

namespace sluice::ftx {
namespace {

namespace fs = std::filesystem;
using Content = std::vector<std::byte>;

const std::size_t page = MappedWindow::page_bytes();
constexpr std::size_t mebibyte = 1U << 20;
constexpr std::string_view shorter = "it became shorter while it was sent";

Content random_content(std::size_t size, std::uint64_t seed) {
  Prng prng(seed);
  Content content(size);
  for (std::byte& byte : content) byte = static_cast<std::byte>(prng());
  return content;
}

Content content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const ConstBytes bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

bool equal(ConstBytes a, ConstBytes b) { return std::ranges::equal(a, b); }
bool all_zero(ConstBytes bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}
void put(Bytes place, ConstBytes bytes) { std::copy(bytes.begin(), bytes.end(), place.begin()); }

class Mapped : public testing::Test {
 protected:
  Mapped() {
    std::string pattern = (fs::temp_directory_path() / "ftx_mapped.XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    base_ = pattern;
    root_ = base_ / "served";
    fs::create_directory(root_);
  }
  ~Mapped() override { fs::remove_all(base_); }

  /// A file of `size` random bytes, and what is in it.
  fs::path file(const std::string& name, std::size_t size, Content* content = nullptr) {
    const Content bytes = random_content(size, size + name.size());
    std::ofstream(base_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(size));
    if (content != nullptr) *content = bytes;
    return base_ / name;
  }
  static Descriptor open(const fs::path& path) { return Descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC)); }
  static std::unique_ptr<FileSource> source_of(const fs::path& path, ReadBy read_by = ReadBy::map) {
    const std::vector<std::string> paths{path.string()};
    return std::move(FileSource::open(paths, read_by).value());
  }
  std::unique_ptr<DirectoryDestination> destination(LandBy land_by = LandBy::map) {
    return std::move(DirectoryDestination::serve(root_.string(), 1, land_by).value());
  }
  fs::path only_file() const {
    EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), 1);
    return fs::directory_iterator(root_)->path();
  }

  fs::path base_, root_;
};

// --- Windows and their guard ---------------------------------------------------------------------------------------

TEST_F(Mapped, AWindowIsTheFile) {
  Content content;
  const fs::path path = file("f", 5 * page + 100, &content);
  auto window = MappedWindow::map(open(path).get(), page, 4 * page + 100, MappedWindow::Access::write);
  ASSERT_TRUE(window);
  EXPECT_TRUE(equal(window->bytes(), ConstBytes(content).subspan(page)));
  window->bytes()[7] ^= std::byte{1};
  content[page + 7] ^= std::byte{1};
  EXPECT_EQ(content_of(path), content);
  MappedWindow moved = std::move(*window);
  EXPECT_TRUE(window->bytes().empty());
  EXPECT_EQ(moved.bytes()[7], content[page + 7]);
  EXPECT_FALSE(moved.failed());
}

TEST_F(Mapped, ACutFileReadsAsZerosBehindTheCutAndSaysSo) {
  Content content;
  const fs::path path = file("f", 8 * page, &content);
  const Descriptor descriptor = open(path);
  auto window = MappedWindow::map(descriptor.get(), 0, 8 * page, MappedWindow::Access::read).value();
  auto other = MappedWindow::map(descriptor.get(), 0, 8 * page, MappedWindow::Access::read).value();
  fs::resize_file(path, 3 * page);
  EXPECT_TRUE(equal(window.bytes().first(3 * page), ConstBytes(content).first(3 * page)));
  EXPECT_FALSE(window.failed());
  EXPECT_TRUE(all_zero(window.bytes().subspan(3 * page)));
  EXPECT_TRUE(window.failed());
  EXPECT_FALSE(other.failed());
  // What stands in stays, though the file is long again; a new window is the file.
  fs::resize_file(path, 8 * page);
  EXPECT_TRUE(window.failed());
  window = MappedWindow::map(descriptor.get(), 0, 8 * page, MappedWindow::Access::read).value();
  EXPECT_TRUE(equal(window.bytes().first(3 * page), ConstBytes(content).first(3 * page)));
  EXPECT_FALSE(window.failed());
}

TEST_F(Mapped, WritingBehindTheCutGoesNowhereAndSaysSo) {
  const fs::path path = file("f", 4 * page);
  auto window = MappedWindow::map(open(path).get(), 0, 4 * page, MappedWindow::Access::write).value();
  fs::resize_file(path, page);
  std::ranges::fill(window.bytes(), std::byte{1});
  EXPECT_TRUE(window.failed());
  EXPECT_EQ(content_of(path), Content(page, std::byte{1}));
}

TEST_F(Mapped, ASystemCallMeetsNoSignal) {
  const fs::path path = file("f", 2 * page);
  auto window = MappedWindow::map(open(path).get(), 0, 2 * page, MappedWindow::Access::read).value();
  fs::resize_file(path, 0);
  const Descriptor out = open(file("out", 1));
  EXPECT_EQ(::pwrite(out.get(), window.bytes().data(), page, 0), -1);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_FALSE(window.failed());
}

TEST_F(Mapped, WindowsHaveABoundAndAreGivenBack) {
  const Descriptor descriptor = open(file("f", page));
  for (int round = 0; round < 2; ++round) {
    std::vector<MappedWindow> all;
    for (std::size_t i = 0; i < MappedWindow::windows_max; ++i) {
      all.push_back(MappedWindow::map(descriptor.get(), 0, page, MappedWindow::Access::read).value());
    }
    EXPECT_EQ(MappedWindow::map(descriptor.get(), 0, page, MappedWindow::Access::read).error().code, ENFILE);
  }
}

TEST_F(Mapped, WhatCannotBeMappedIsAnErrorAndCostsNoEntry) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const Descriptor in(ends[0]), out(ends[1]);
  for (std::size_t i = 0; i <= MappedWindow::windows_max; ++i) {
    EXPECT_EQ(MappedWindow::map(in.get(), 0, page, MappedWindow::Access::read).error().code, ENODEV);
  }
}

/// Touches a page of a cut file that no MappedWindow knows of, while one exists.
void fault_outside(const fs::path& path) {
  const Descriptor descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  const auto window = MappedWindow::map(descriptor.get(), 0, page, MappedWindow::Access::read);
  void* const at = ::mmap(nullptr, 2 * page, PROT_READ, MAP_SHARED, descriptor.get(), 0);
  fs::resize_file(path, page);
  const volatile std::byte* const byte = static_cast<std::byte*>(at) + page;
  [[maybe_unused]] const std::byte value = *byte;
}

using MappedDeathTest = Mapped;

TEST_F(MappedDeathTest, AFaultElsewhereEndsTheProcessAsBefore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const fs::path path = file("f", 2 * page);
  const auto by_signal = testing::KilledBySignal(SIGBUS);
  // A sanitizer that was there before us reports it and exits.
  const auto ended = [&](int status) { return by_signal(status) || (WIFEXITED(status) && WEXITSTATUS(status) != 0); };
  EXPECT_EXIT(
      {
        fault_outside(path);
        std::_Exit(0);
      },
      ended, "");
}

TEST_F(MappedDeathTest, AFaultElsewhereReachesTheHandlerThatWasThereBefore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const fs::path path = file("f", 2 * page);
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, [](int) { std::_Exit(42); });
        fault_outside(path);
        std::_Exit(0);
      },
      testing::ExitedWithCode(42), "");
}

TEST_F(MappedDeathTest, ASignalThatWasSentIsNotAFault) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const fs::path path = file("f", page);
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, SIG_DFL);
        const auto window = MappedWindow::map(open(path).get(), 0, page, MappedWindow::Access::read);
        ::kill(::getpid(), SIGBUS);
        std::_Exit(0);
      },
      testing::KilledBySignal(SIGBUS), "");
}

TEST_F(Mapped, AnyRangeOfAFileOfManyWindows) {
  Content content;
  const std::size_t size = 3 * WindowSet::window_bytes + 12'345;
  const fs::path path = file("f", size, &content);
  const Descriptor descriptor = open(path);
  WindowSet set(2, MappedWindow::Access::read, WindowSet::Far::map);
  Prng prng(3);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t near =
        prng.chance(0.5) ? WindowSet::window_bytes * (1 + prng.below(3)) - 70'000 : prng.below(size);
    const std::uint64_t offset = std::min<std::uint64_t>(near + prng.below(70'000), size - 1);
    const std::size_t length = 1 + prng.below(std::min<std::uint64_t>(size - offset, 66'000));
    const auto range = set.range({7, descriptor.get(), size}, offset, length);
    ASSERT_TRUE(range) << offset << " " << length;
    ASSERT_TRUE(equal(*range, ConstBytes(content).subspan(offset, length))) << offset << " " << length;
  }
  const auto largest = set.range({7, descriptor.get(), size}, WindowSet::window_bytes - 1, WindowSet::range_bytes_max);
  EXPECT_TRUE(equal(*largest, ConstBytes(content).subspan(WindowSet::window_bytes - 1, WindowSet::range_bytes_max)));
}

/// Lands `size` bytes of ones at `offset`, in whichever way the file wants it; answers whether in place.
bool land(SinkFile& file, std::uint64_t offset, std::size_t size) {
  const Content ones(size, std::byte{1});
  const auto place = file.place(offset, size);
  if (!place) {
    EXPECT_EQ(place.error().code, ENOTSUP);
    EXPECT_TRUE(file.write(offset, ones));
    return false;
  }
  put(*place, ones);
  EXPECT_TRUE(file.placed(offset, *place));
  return true;
}

TEST_F(Mapped, APeerThatNamesPlacesFarApartDoesNotFillTheDisk) {
  const auto destination = this->destination(LandBy::faster);
  auto sink = destination->open("", 1).value();
  auto arriving = sink->create({"name", 64 * mebibyte}).value();
  const auto blocks = [&] {
    struct stat status{};
    EXPECT_EQ(::stat(only_file().c_str(), &status), 0);
    return static_cast<std::uint64_t>(status.st_blocks) * 512;
  };
  for (std::uint64_t at = 1000; at < 64 * mebibyte; at += mebibyte) EXPECT_FALSE(land(*arriving, at, 1400));
  EXPECT_LE(blocks(), 64 * 2 * page);
  // In order, and backwards by less than what is ready: in place, but for the beginning.
  std::uint64_t in_place = 0;
  const std::uint64_t adus = 2 * mebibyte / 1400;
  for (std::uint64_t i = 0; i < adus; ++i) in_place += land(*arriving, (i ^ 7U) * 1400, 1400) ? 1 : 0;
  EXPECT_GE(in_place, adus - 2 * 65'536 / 1400);
  EXPECT_LE(blocks(), 64 * 2 * page + 6 * mebibyte);
  // Before what came in order: the run is not lost over it.
  EXPECT_FALSE(land(*arriving, 40 * mebibyte, 1400));
  EXPECT_FALSE(land(*arriving, 30 * mebibyte, 1400));
}

// --- Sources -------------------------------------------------------------------------------------------------------

TEST_F(Mapped, AViewOfASourceIsWhatAReadGives) {
  Content content;
  const std::size_t size_bytes = FileSource::map_file_bytes_min + 5;
  const fs::path path = file("f", size_bytes, &content);
  const auto source = source_of(path);
  for (const auto& [offset, size] :
       {std::pair<std::size_t, std::size_t>{0, 1400}, {mebibyte - 1, 65'000}, {size_bytes - 5, 5}}) {
    Content read(size);
    ASSERT_TRUE(source->read(0, offset, read));
    const auto view = source->view(0, offset, size);
    ASSERT_TRUE(view);
    EXPECT_TRUE(equal(*view, read));
    EXPECT_TRUE(equal(*view, ConstBytes(content).subspan(offset, size)));
  }
  EXPECT_TRUE(source->intact(0));
  EXPECT_EQ(source_of(path, ReadBy::read)->view(0, 0, 1400).error().code, ENOTSUP);
  EXPECT_EQ(source_of(file("small", 1000))->view(0, 0, 1000).error().code, ENOTSUP);
}

TEST_F(Mapped, AViewOfASourceThatWasCutIsNoticedWhenItIsTouched) {
  Content content;
  const fs::path path = file("f", FileSource::map_file_bytes_min, &content);
  const auto source = source_of(path);
  const ConstBytes view = *source->view(0, mebibyte - 2 * page, 4 * page);
  fs::resize_file(path, mebibyte);
  EXPECT_TRUE(equal(view.first(2 * page), ConstBytes(content).subspan(mebibyte - 2 * page, 2 * page)));
  EXPECT_TRUE(source->intact(0));
  EXPECT_TRUE(all_zero(view.subspan(2 * page)));
  ASSERT_FALSE(source->intact(0));
  EXPECT_EQ(source->intact(0).error().code, ESTALE);
  EXPECT_EQ(source->intact(0).error().text, shorter);
}

TEST_F(Mapped, ASupplyGivesPayloadsWhereTheyLie) {
  Content content;
  const fs::path path = file("f", FileSource::map_file_bytes_min, &content);
  const auto source = source_of(path);
  Supply supply(*source, 65'536);
  (void)supply.next();
  supply.accept();
  const auto adu = supply.next();
  ASSERT_TRUE(adu && *adu);
  // Not a copy: what is written to the file shows in it.
  const Descriptor descriptor = open(path);
  const std::byte other = ~content[100];
  ASSERT_EQ(::pwrite(descriptor.get(), &other, 1, 100), 1);
  EXPECT_EQ((*adu)->payload[100], other);
}

TEST_F(Mapped, APayloadThatIsCutAfterItWasGivenFailsTheNextCall) {
  const fs::path path = file("f", FileSource::map_file_bytes_min);
  const auto source = source_of(path);
  Supply supply(*source, 65'536);
  (void)supply.next();
  supply.accept();
  ASSERT_TRUE(supply.next());
  const auto last = supply.next();
  ASSERT_TRUE(last && *last);
  fs::resize_file(path, 65'536);
  EXPECT_TRUE(all_zero((*last)->payload));  // the pass: it does not crash
  const auto next = supply.next();
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code, ExitCode::source_changed);
  EXPECT_EQ(next.error().text, "source '" + path.string() + "': " + std::string(shorter));
  EXPECT_EQ(supply.again({manifest_file, 16, 0}).error().text, next.error().text);
}

TEST_F(Mapped, ARepairThatIsCutWhileItIsSentFailsTheNextCall) {
  const fs::path path = file("f", FileSource::map_file_bytes_min);
  const auto source = source_of(path);
  Supply supply(*source, 65'536);
  (void)supply.next();
  supply.accept();
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(supply.next());
  const auto repair = supply.again({0, 65'536, 65'536});
  ASSERT_TRUE(repair);
  fs::resize_file(path, 100);
  EXPECT_TRUE(all_zero(repair->payload));
  EXPECT_EQ(supply.next().error().code, ExitCode::source_changed);
}

// --- Files that arrive ---------------------------------------------------------------------------------------------

TEST_F(Mapped, AFileThatLandedInPlaceHasItsNameModeAndTime) {
  const auto destination = this->destination();
  auto sink = destination->open("", 1).value();
  const Content content = random_content(20 * mebibyte + 77, 1);
  auto arriving = sink->create({"name", content.size(), 0640, 1'600'000'000, 5}).value();
  // From the back, so that every window is come back to.
  for (std::uint64_t at = content.size() / 60'000 * 60'000 + 60'000; at > 0; at -= 60'000) {
    const ConstBytes part =
        ConstBytes(content).subspan(at - 60'000).first(std::min<std::size_t>(60'000, content.size() - at + 60'000));
    const auto place = arriving->place(at - 60'000, part.size());
    ASSERT_TRUE(place);
    put(*place, part);
    ASSERT_TRUE(arriving->placed(at - 60'000, *place));
  }
  Content back(1000);
  ASSERT_TRUE(arriving->read(16 * mebibyte - 500, back));
  EXPECT_TRUE(equal(back, ConstBytes(content).subspan(16 * mebibyte - 500, 1000)));
  ASSERT_TRUE(arriving->settle());
  ASSERT_TRUE(arriving->commit());
  EXPECT_EQ(content_of(root_ / "name"), content);
  struct stat status{};
  ASSERT_EQ(::stat((root_ / "name").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0640U);
  EXPECT_EQ(status.st_mtim.tv_sec, 1'600'000'000);
  EXPECT_EQ(status.st_mtim.tv_nsec, 5);
}

TEST_F(Mapped, WhichWayAPayloadLandsIsSaidOrFollowsFromItsSize) {
  const auto in_place = [&](LandBy land_by, std::uint64_t file_bytes, std::size_t size) {
    const auto destination = this->destination(land_by);
    auto sink = destination->open("", 1).value();
    auto arriving = sink->create({"n", file_bytes}).value();
    std::uint64_t count = 0;
    for (std::uint64_t at = 0; at + size <= file_bytes; at += size) count += land(*arriving, at, size) ? 1 : 0;
    return count;
  };
  EXPECT_EQ(in_place(LandBy::map, 100, 100), 1U);
  EXPECT_EQ(in_place(LandBy::map, 65'000 * 20, 65'000), 20U);
  EXPECT_EQ(in_place(LandBy::map, 1400 * 1000, 1400), 1000U);
  EXPECT_EQ(in_place(LandBy::write, 1400 * 1000, 1400), 0U);
  EXPECT_GE(in_place(LandBy::faster, 1400 * 1000, 1400), 950U);
  EXPECT_EQ(in_place(LandBy::faster, 65'000 * 20, 65'000), 0U);
  EXPECT_EQ(in_place(LandBy::faster, 1400 * 100, 1400), 0U);
}

TEST_F(Mapped, AnArrivingFileThatSomebodyCutsIsAnErrorNotACrash) {
  const auto destination = this->destination();
  auto sink = destination->open("", 1).value();
  auto arriving = sink->create({"name", 16 * page}).value();
  auto place = arriving->place(0, page).value();
  std::ranges::fill(place, std::byte{1});
  ASSERT_TRUE(arriving->placed(0, place));
  place = arriving->place(4 * page, page).value();
  fs::resize_file(only_file(), 2 * page);
  std::ranges::fill(place, std::byte{1});
  const auto status = arriving->placed(4 * page, place);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, EIO);
  EXPECT_EQ(status.error().text, "'name' was cut short by someone else");
}

TEST_F(Mapped, WhatIsKeptEndsWhereTheLastAduEnds) {
  const auto destination = this->destination();
  auto sink = destination->open("", 1).value();
  auto arriving = sink->create({"name", 16 * page}).value();
  const auto place = arriving->place(page, 100).value();
  std::ranges::fill(place, std::byte{1});
  ASSERT_TRUE(arriving->placed(page, place));
  EXPECT_EQ(fs::file_size(only_file()), 16 * page);
  const std::string kept = arriving->keep();
  arriving.reset();
  EXPECT_EQ(fs::file_size(root_ / kept), page + 100);
}

/// The assembly of one file of `content`, past its manifest.
class OneFile {
 public:
  OneFile(Destination& destination, const Content& content, std::uint32_t adu_bytes) : content_(content) {
    const std::vector<FileEntry> files{{"name", content.size()}};
    const std::vector<std::byte> manifest = encode_manifest(files);
    assembly_ = std::move(Assembly::start({"", content.size(), adu_bytes, 1,
                                           static_cast<std::uint32_t>(manifest.size()), digest_of(manifest)},
                                          destination, budget_)
                              .value());
    land({manifest_file, static_cast<std::uint32_t>(manifest.size()), 0}, manifest);
  }

  AduName adu(std::uint64_t offset, std::size_t length) const {
    return {0, static_cast<std::uint32_t>(std::min<std::uint64_t>(length, content_.size() - offset)), offset};
  }
  Placement place(const AduName& adu) { return assembly_->place(adu).value(); }
  void land(const AduName& adu, ConstBytes payload) {
    const Placement at = place(adu);
    if (at.kind == Placement::Kind::memory) {
      put(at.memory, payload);
      const Status placed = at.file != nullptr ? at.file->placed(at.offset, at.memory) : Status();
      ASSERT_TRUE(placed);
    } else {
      ASSERT_EQ(at.kind, Placement::Kind::file);
      ASSERT_TRUE(at.file->write(at.offset, payload));
    }
    ASSERT_TRUE(assembly_->landed(adu));
  }
  void land(const AduName& adu) { land(adu, ConstBytes(content_).subspan(adu.offset, adu.length)); }
  void finish() {
    const Digest digest = digest_of(content_);
    land({digest_file, digest_bytes, 0}, digest);
    EXPECT_EQ(assembly_->phase(), Phase::finished);
  }

 private:
  const Content& content_;
  Budget budget_{1U << 30};
  std::unique_ptr<Assembly> assembly_;
};

TEST_F(Mapped, GarbageInAPlaceThatIsNotMarkedIsWrittenOver) {
  const auto destination = this->destination();
  const Content content = random_content(mebibyte + 100, 4);
  OneFile file(*destination, content, 1408);
  Prng prng(4);
  for (std::uint64_t at = 0; at < content.size(); at += 1408) {
    const AduName adu = file.adu(at, 1408);
    const Placement place = file.place(adu);
    ASSERT_EQ(place.kind, Placement::Kind::memory);
    ASSERT_EQ(place.memory.size(), adu.length);
    for (std::byte& byte : place.memory) byte = static_cast<std::byte>(prng());  // a damaged ADU: never landed
    if (prng.chance(0.5)) file.land(adu);
  }
  for (std::uint64_t at = 0; at < content.size(); at += 1408) {
    if (file.place(file.adu(at, 1408)).kind != Placement::Kind::duplicate) file.land(file.adu(at, 1408));
  }
  file.finish();
  EXPECT_EQ(content_of(root_ / "name"), content);
}

TEST_F(Mapped, WhatLandedNeverGetsAPlaceInMemoryAgain) {
  const auto destination = this->destination();
  const Content content = random_content(100 * 1408, 5);
  OneFile file(*destination, content, 1408);
  file.land(file.adu(0, 1408));
  EXPECT_EQ(file.place(file.adu(0, 1408)).kind, Placement::Kind::duplicate);
  // Two at once, of which one is there: only what is known to be right may be written over it.
  EXPECT_EQ(file.place(file.adu(0, 2 * 1408)).kind, Placement::Kind::file);
  EXPECT_TRUE(file.place(file.adu(0, 2 * 1408)).verified_only);
  EXPECT_FALSE(file.place(file.adu(1408, 2 * 1408)).verified_only);
  EXPECT_EQ(file.place(file.adu(1408, 2 * 1408)).kind, Placement::Kind::memory);
  file.land(file.adu(0, 2 * 1408));
  EXPECT_EQ(file.place(file.adu(0, 2 * 1408)).kind, Placement::Kind::duplicate);
  for (std::uint64_t at = 2 * 1408; at < content.size(); at += 1408) file.land(file.adu(at, 1408));
  EXPECT_EQ(file.place(file.adu(0, 1408)).kind, Placement::Kind::duplicate);  // whole
  file.finish();
  EXPECT_EQ(content_of(root_ / "name"), content);
}

TEST_F(Mapped, WhatLandedOfAListIsNotForUnverifiedBytes) {
  const auto destination = this->destination();
  const std::vector<std::byte> manifest = encode_manifest(std::vector<FileEntry>{{std::string(255, 'n'), 1}});
  const auto size = static_cast<std::uint32_t>(manifest.size());
  ASSERT_GT(size, 256U);
  Budget budget(1U << 30);
  const auto assembly =
      std::move(Assembly::start({"", 1, 256, 1, size, digest_of(manifest)}, *destination, budget).value());
  const Placement whole = assembly->place({manifest_file, size, 0}).value();
  EXPECT_EQ(whole.kind, Placement::Kind::memory);
  EXPECT_FALSE(whole.verified_only);
  put(whole.memory, ConstBytes(manifest).first(256));
  ASSERT_TRUE(assembly->landed({manifest_file, 256, 0}));
  EXPECT_TRUE(assembly->place({manifest_file, size, 0})->verified_only);
  EXPECT_EQ(assembly->place({manifest_file, 256, 0})->kind, Placement::Kind::duplicate);
}

// --- Whole transfers -----------------------------------------------------------------------------------------------

struct Way {
  ReadBy read_by = ReadBy::map;
  LandBy land_by = LandBy::map;
  std::size_t tsdu_bytes = 1472;
};

/// A sender and a server without a link in between; `damage` of the payloads are found damaged after they were put in
/// their place, and the sender learns it as it learns of a loss.
struct Transfer {
  Event sender_end, server_end;

  Transfer(const fs::path& path, Destination& destination, Way way, double damage = 0,
           const std::function<void(std::uint64_t sent)>& each = {}) {
    const std::vector<std::string> paths{path.string()};
    auto source = FileSource::open(paths, way.read_by).value();
    Server server({.seed = 1, .tsdu_bytes = way.tsdu_bytes}, destination);
    FixedRate rate(400'000'000);
    TimePoint now{std::chrono::hours(1)};
    SenderOptions options;
    options.tsdu_bytes = way.tsdu_bytes;
    Sender sender(now, options, *source, rate);
    Prng prng(7);
    const Peer peer(as_bytes("peer"));
    Peer to;
    std::array<std::byte, control_bytes_max> header{};
    Content buffer(std::max(way.tsdu_bytes, control_bytes_max));
    std::uint64_t sent = 0;
    for (int i = 0; i < 200'000 && !sender.finished(); ++i, now += std::chrono::microseconds(100)) {
      while (const auto out = sender.next(now, header)) {
        if (each) each(sent);
        sent += out->payload.size();
        // Either of the two ways to land a payload.
        const ConstBytes datagram_header = ConstBytes(header).first(out->header_bytes);
        const Bytes memory = prng.chance(0.5) ? server.memory_for(datagram_header, out->size(), peer) : Bytes();
        if (!memory.empty()) {
          put(memory, out->payload);
          if (prng.chance(damage)) {
            memory[prng.below(memory.size())] ^= std::byte{0x10};
            continue;
          }
          ++in_place;
          ++named;
          server.placed(now, datagram_header, out->size(), peer, memory);
          continue;
        }
        const auto inspection = server.inspect(now, ConstBytes(header).first(out->header_bytes), out->size(), peer);
        if (inspection.kind == Server::Inspection::Kind::unwanted) continue;
        const bool land = inspection.kind == Server::Inspection::Kind::land;
        if (land && inspection.landing.place.kind == Placement::Kind::memory) {
          // One pass, from the mapped source into the mapped file.
          const Bytes place = inspection.landing.place.memory;
          put(place, out->payload);
          if (prng.chance(damage)) {
            place[prng.below(place.size())] ^= std::byte{0x10};
            continue;
          }
          ++in_place;
          inspection.session->landed(now, inspection.landing);
          continue;
        }
        put(buffer, ConstBytes(header).first(out->header_bytes));
        put(Bytes(buffer).subspan(out->header_bytes), out->payload);
        server.receive(now, ConstBytes(buffer).first(out->size()), peer);
      }
      while (const std::size_t size = server.transmit(now, buffer, to))
        sender.receive(now, ConstBytes(buffer).first(size));
    }
    EXPECT_TRUE(sender.finished());
    while (auto event = server.next_event()) server_end = *event;
    while (auto event = sender.next_event()) sender_end = *event;
  }

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
      if (sent > 2 * mebibyte && !std::exchange(cut, true)) fs::resize_file(path, 3 * mebibyte);
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
    if (sent > 2 * mebibyte && !std::exchange(cut, true)) fs::resize_file(only_file(), mebibyte);
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

/// Without privileges: this process becomes root of namespaces of its own, where it may mount.
bool as_root_of_a_user_namespace() {
  const std::string user = "0 " + std::to_string(::getuid()) + " 1", group = "0 " + std::to_string(::getgid()) + " 1";
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << user;
  std::ofstream("/proc/self/gid_map") << group;
  return ::getuid() == 0;
}

/// Runs `body` in a process whose `directory` is a file system of `bytes`, and passes on what failed there.
void on_a_small_disk(const fs::path& directory, std::size_t bytes, const std::function<void()>& body) {
  constexpr int skipped = 77;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool apart = ::unshare(CLONE_NEWNS) == 0 || as_root_of_a_user_namespace();
    const bool mounted =
        apart && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
        ::mount("tmpfs", directory.c_str(), "tmpfs", 0, ("size=" + std::to_string(bytes)).c_str()) == 0;
    if (!mounted) std::_Exit(skipped);
    body();
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == skipped)
    GTEST_SKIP() << "cannot mount a small tmpfs in a namespace of its own";
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
    auto sink = destination->open("", 1).value();
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
