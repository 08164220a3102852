// SPDX-License-Identifier: Apache-2.0
// Sources shown where they lie and files that land in place: the same content, and the same errors.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "apps/ftx/files/assembly.h"
#include "apps/ftx/files/directory.h"
#include "apps/ftx/files/source.h"
#include "apps/ftx/session/adu_scheduler.h"
#include "base/prng.h"
#include "tests/apps/ftx/files/mapped.h"

namespace sluice::ftx {
namespace {

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
  auto sink = destination->open("", {}).value();
  auto arriving = sink->create({"name", 64 * mebibyte}).value();
  const auto blocks = [&] {
    struct stat status{};
    EXPECT_EQ(::stat(only_file().c_str(), &status), 0);
    return static_cast<std::uint64_t>(status.st_blocks) * 512;
  };
  for (std::uint64_t at = 1000; at < 64 * mebibyte; at += mebibyte) {
    EXPECT_FALSE(land(*arriving, at, 1400));
  }
  EXPECT_LE(blocks(), 64 * 2 * page);
  // In order, and backwards by less than what is ready: in place, but for the beginning.
  std::uint64_t in_place = 0;
  const std::uint64_t adus = 2 * mebibyte / 1400;
  for (std::uint64_t i = 0; i < adus; ++i) {
    in_place += land(*arriving, (i ^ 7U) * 1400, 1400) ? 1 : 0;
  }
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
  EXPECT_FALSE(source->damaged());
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
  EXPECT_FALSE(source->damaged());
  EXPECT_TRUE(all_zero(view.subspan(2 * page)));
  const auto damage = source->damaged();
  ASSERT_TRUE(damage);
  EXPECT_EQ(damage->index, 0U);
  EXPECT_EQ(damage->error.code, ESTALE);
  EXPECT_EQ(damage->error.text, shorter);
}

TEST_F(Mapped, ViewsOfManyWindowsLastTogetherAndACutOfAnyIsNoticed) {
  constexpr std::uint64_t windows = 7;  // more than a source keeps
  const fs::path path = file("f", windows * WindowSet::window_bytes);
  const auto source = source_of(path);
  std::vector<ConstBytes> views;
  for (std::uint64_t window = 0; window < windows; ++window) {
    views.push_back(*source->view(0, window * WindowSet::window_bytes, 1400));
  }
  fs::resize_file(path, WindowSet::window_bytes);
  EXPECT_FALSE(all_zero(views[0]));
  EXPECT_FALSE(source->damaged());
  EXPECT_TRUE(all_zero(views[1])) << "of a window that gave way";
  source->release();
  const auto damage = source->damaged();
  ASSERT_TRUE(damage);
  EXPECT_EQ(damage->error.text, shorter);
  for (const ConstBytes view : std::span(views).last(4)) {
    EXPECT_TRUE(all_zero(view));
  }
}

TEST_F(Mapped, ASupplyGivesPayloadsWhereTheyLie) {
  Content content;
  const fs::path path = file("f", FileSource::map_file_bytes_min, &content);
  const auto source = source_of(path);
  AduScheduler scheduler(*source, 65'536);
  (void)scheduler.next();
  scheduler.accept();
  const auto adu = scheduler.next();
  ASSERT_TRUE(adu && *adu);
  // Not a copy: what is written to the file shows in it.
  const Descriptor descriptor = open(path);
  const std::byte other = ~content[100];
  ASSERT_EQ(::pwrite(descriptor.get(), &other, 1, 100), 1);
  EXPECT_EQ((*adu)->payload[100], other);
}

TEST_F(Mapped, EveryByteIsDigestedOnceWhereverBurstsEnd) {
  Content content;
  const fs::path path = file("f", FileSource::map_file_bytes_min + 777, &content);
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    const auto source = source_of(path);
    AduScheduler scheduler(*source, 1440);
    (void)scheduler.next();
    scheduler.accept();
    std::uint64_t sent = 0;
    bool digested = false;
    for (bool more = true; more;) {
      scheduler.release();
      std::vector<AduScheduler::Adu> burst;
      for (std::uint64_t left = 1 + prng.below(100); more && left > 0 && !scheduler.full(); --left) {
        const auto adu = scheduler.next();
        ASSERT_TRUE(adu);
        more = adu->has_value();
        burst.insert(burst.end(), more ? 1 : 0, adu->value_or(AduScheduler::Adu{}));
      }
      for (const AduScheduler::Adu& adu : burst) {  // payloads are valid together
        if (adu.name.file == digest_file) {
          digested = equal(adu.payload, file_digest_of(content));
          continue;
        }
        ASSERT_EQ(adu.name.offset, sent);
        ASSERT_TRUE(equal(adu.payload, ConstBytes(content).subspan(sent, adu.name.length)));
        sent += adu.name.length;
      }
    }
    EXPECT_EQ(sent, content.size());
    EXPECT_TRUE(digested);
  }
}

TEST_F(Mapped, APayloadThatIsCutAfterItWasGivenFailsTheNextCall) {
  const fs::path path = file("f", FileSource::map_file_bytes_min);
  const auto source = source_of(path);
  AduScheduler scheduler(*source, 65'536);
  (void)scheduler.next();
  scheduler.accept();
  ASSERT_TRUE(scheduler.next());
  const auto last = scheduler.next();
  ASSERT_TRUE(last && *last);
  fs::resize_file(path, 65'536);
  EXPECT_TRUE(all_zero((*last)->payload));  // the pass: it does not crash
  const auto next = scheduler.next();
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code, ExitCode::source_changed);
  EXPECT_EQ(next.error().text, "source '" + path.string() + "': " + std::string(shorter));
  EXPECT_EQ(scheduler.retransmit({manifest_file, 16, 0}).error().text, next.error().text);
}

TEST_F(Mapped, ARepairThatIsCutWhileItIsSentFailsTheNextCall) {
  const fs::path path = file("f", FileSource::map_file_bytes_min);
  const auto source = source_of(path);
  AduScheduler scheduler(*source, 65'536);
  (void)scheduler.next();
  scheduler.accept();
  for (int i = 0; i < 64; ++i) {
    ASSERT_TRUE(scheduler.next());
  }
  const auto repair = scheduler.retransmit({0, 65'536, 65'536});
  ASSERT_TRUE(repair);
  fs::resize_file(path, 100);
  EXPECT_TRUE(all_zero(repair->payload));
  EXPECT_EQ(scheduler.next().error().code, ExitCode::source_changed);
}

// --- Files that arrive ---------------------------------------------------------------------------------------------

TEST_F(Mapped, AFileThatLandedInPlaceHasItsNameModeAndTime) {
  const auto destination = this->destination();
  auto sink = destination->open("", {}).value();
  const Content content = random_content(20 * mebibyte + 77, 1);
  auto arriving = sink->create({"name", content.size(), 1'600'000'000, 5, 0640}).value();
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
  ASSERT_TRUE(arriving->finalize());
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
    auto sink = destination->open("", {}).value();
    auto arriving = sink->create({"n", file_bytes}).value();
    std::uint64_t count = 0;
    for (std::uint64_t at = 0; at + size <= file_bytes; at += size) {
      count += land(*arriving, at, size) ? 1 : 0;
    }
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
  auto sink = destination->open("", {}).value();
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
  auto sink = destination->open("", {}).value();
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
    const Digest digest = file_digest_of(content_);
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
    for (std::byte& byte : place.memory) {
      byte = static_cast<std::byte>(prng());  // a damaged ADU: never landed
    }
    if (prng.chance(0.5)) {
      file.land(adu);
    }
  }
  for (std::uint64_t at = 0; at < content.size(); at += 1408) {
    if (file.place(file.adu(at, 1408)).kind != Placement::Kind::duplicate) {
      file.land(file.adu(at, 1408));
    }
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
  for (std::uint64_t at = 2 * 1408; at < content.size(); at += 1408) {
    file.land(file.adu(at, 1408));
  }
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

}  // namespace
}  // namespace sluice::ftx
