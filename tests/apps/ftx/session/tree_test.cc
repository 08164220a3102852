// SPDX-License-Identifier: Apache-2.0
// Trees drawn at random, from one real directory to another over lossy links: what arrives is what was sent, in
// content, modes, times, links, extended attributes and, as root, owners. SLUICE_TREES says how many (100 if absent),
// SLUICE_TREE_SEED the first seed; one that fails prints its own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "apps/ftx/files/directory.h"
#include "apps/ftx/files/system.h"
#include "tests/apps/ftx/files/hasty_system.h"
#include "tests/apps/ftx/files/served_directory.h"
#include "tests/apps/ftx/files/trees.h"
#include "tests/apps/ftx/session/simulation.h"

namespace sluice::ftx::test {
namespace {

/// Draws a tree in a directory.
class Painter {
 public:
  Painter(std::uint64_t seed, std::uint32_t adu_bytes) : prng_(seed), adu_bytes_(adu_bytes) {}

  void paint(const fs::path& directory, int depth = 0) {
    const std::uint64_t entries = prng_.chance(0.2) ? 0 : prng_.below(depth == 0 ? 30 : 8);
    for (std::uint64_t i = 0; i < entries; ++i) {
      const fs::path path = directory / name(i);
      const double kind = prng_.unit();
      if (kind < 0.25 && depth < 6) {
        fs::create_directory(path);
        paint(path, depth + 1);
        attributes(path, prng_.chance(0.3) ? 0500 | prng_.below(2) * 055 : 0700 | prng_.below(0100));
      } else if (kind < 0.4) {
        const char* const targets[] = {"nowhere", "/etc/passwd", "..", ".", "../../../../..", "a\nb"};
        fs::create_symlink(targets[prng_.below(std::size(targets))], path);
        own(path);
        time(path);
      } else {
        const std::size_t bytes = size();
        const Content content = random_content(bytes, prng_());
        write_file(path, std::string(as_text(content)));
        if (prng_.chance(0.1)) {
          spread(path);
        }
        attributes(path, 0400 | prng_.below(01000));
      }
    }
    if (depth == 0 && prng_.chance(0.2)) {
      chain(directory);
    }
  }
  /// Of the directory that is sent, at last.
  void attributes(const fs::path& path, std::uint64_t mode) {
    own(path);
    for (std::uint64_t left = prng_.chance(0.2) ? prng_.below(4) : 0; left > 0; --left) {
      const std::string name = "user." + std::to_string(prng_.below(5)) + (prng_.chance(0.1) ? "\x1b[2J" : "");
      const Content value = random_content(prng_.below(prng_.chance(0.1) ? 2000 : 20), prng_());
      // Not where the file system has none.
      [[maybe_unused]] const int set = ::setxattr(path.c_str(), name.c_str(), value.data(), value.size(), 0);
    }
    ASSERT_EQ(::chmod(path.c_str(), static_cast<mode_t>(mode)), 0);
    time(path);
  }

 private:
  /// Data here and there behind what the file has, and holes between.
  void spread(const fs::path& path) {
    std::uint64_t size = fs::file_size(path);
    for (std::uint64_t left = prng_.below(4); left > 0; --left) {
      size += prng_.below(500'000);
      const Content data = random_content(prng_.below(20'000), prng_());
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(size));
      file << as_text(data);
      size += data.size();
    }
    fs::resize_file(path, size + prng_.below(1'000'000));
  }
  /// Somebody's, where this process may give it away.
  void own(const fs::path& path) {
    if (::geteuid() == 0 && prng_.chance(0.3)) {
      const auto user = static_cast<uid_t>(prng_.below(3) * 1000);
      ASSERT_EQ(::lchown(path.c_str(), user, static_cast<gid_t>(prng_.below(70'000))), 0);
    }
  }
  void time(const fs::path& path) {
    const timespec when{static_cast<time_t>(prng_.below(4'000'000'000)), static_cast<long>(prng_.below(1'000'000'000))};
    const timespec times[2] = {when, when};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW), 0);
  }
  /// One directory in another, with a file at the end.
  void chain(fs::path directory) {
    directory /= "chain";
    for (int depth = 0; depth < 60; ++depth) {
      directory /= "x";
    }
    fs::create_directories(directory);
    write_file(directory / "end", "end");
  }
  /// Any bytes but control characters; not only text.
  std::string name(std::uint64_t number) {
    static const std::string parts[] = {" ", "-", "~", "*", "'", "\"", "\\", "\xff", "\xc3\xa9", ".", "\xe2\x80\xae",
                                        "$"};
    std::string name;
    for (std::uint64_t i = prng_.below(4); i > 0; --i) {
      name += parts[prng_.below(std::size(parts))];
    }
    name += std::to_string(number);
    return prng_.chance(0.05) ? std::string(component_bytes - name.size(), 'n') + name : name;
  }
  /// Around the bounds: of the pack, of ADUs with and without digests in front of them, of slots.
  std::size_t size() {
    const std::uint64_t bounds[] = {
        0, 16, adu_bytes_ - 16, adu_bytes_, 2 * std::uint64_t{adu_bytes_}, packed_bytes_max};
    const double kind = prng_.unit();
    if (kind < 0.5) {
      return prng_.below(6000);
    }
    if (kind < 0.55) {
      return packed_bytes_max + prng_.below(300'000);
    }
    return bounds[prng_.below(std::size(bounds))] + prng_.below(3);
  }

  static constexpr std::size_t component_bytes = 255;
  Prng prng_;
  std::uint32_t adu_bytes_;
};

class Trees : public ServedDirectory {
 protected:
  Trees() { fs::create_directory(base_ / "from"); }
  ~Trees() override {
    remove_tree(base_ / "from");
    remove_tree(root_);
  }
  void clear() {
    content_ = {};
    for (const fs::path& path : {base_ / "from", root_}) {
      remove_tree(path);
      fs::create_directory(path);
    }
  }

  WorldOptions link(std::uint64_t seed) {
    Prng prng(seed);
    WorldOptions options;
    options.seed = seed;
    options.sealed = prng.chance(0.5);
    options.pull = options.sealed && prng.chance(0.5);
    options.land_by_hand = !options.sealed && prng.chance(0.5);
    options.sender.tsdu_bytes = prng.chance(0.3) ? 1472 : prng.chance(0.5) ? 65'000 : 1200 + prng.below(8000);
    options.server.tsdu_bytes = 65'507;
    if (prng.chance(0.5)) {
      options.sender.ip_header_bytes = 28;  // ADUs of several sizes, and slots that files share with no other
    }
    options.sender.connect_timeout = options.invite_timeout = 60s;
    for (LinkFaults* faults : {&options.forward, &options.back}) {
      faults->loss = prng.chance(0.7) ? prng.unit() * 0.2 : 0;
      faults->reorder = prng.unit() * 0.5;
      faults->duplicate = prng.unit() * 0.1;
    }
    return options;
  }
  void send(WorldOptions options, const std::vector<std::string>& paths) {
    const auto source = FileSource::open(paths, {.trees = sluice::ftx::Trees::with_links,
                                                 .pack = true,
                                                 .select = {.attributes = true, .user = true, .group = true}});
    ASSERT_TRUE(source) << source.error().text;
    const auto destination = DirectoryDestination::serve(root_.string(), options.seed).value();
    destination->keep({.user = true, .group = true, .attributes = true});
    options.from = source->get();
    options.to = destination.get();
    World world(options);
    const std::uint64_t memory = world.server->memory_left();
    world.run();
    ASSERT_TRUE(world.sender->finished());
    ASSERT_EQ(world.sender->exit_code(), ExitCode::ok) << world.sender_event(Event::Kind::error)->text;
    ASSERT_NE(world.server_event(Event::Kind::done), nullptr);
    // A sender may have sent what it did not hear in time that the receiver has.
    EXPECT_LE(world.server_event(Event::Kind::done)->bytes, world.sender_event(Event::Kind::done)->bytes);
    for (const Event* done : {world.server_event(Event::Kind::done), world.sender_event(Event::Kind::done)}) {
      EXPECT_EQ(done->bytes + done->skipped_bytes, done->total_bytes);
    }
    for (const FileEntry& entry : (*source)->files()) {
      content_[path_of((*source)->files(), entry)] = entry.content_bytes();
    }
    skipped_ = {world.server_event(Event::Kind::done)->skipped_files,
                world.server_event(Event::Kind::done)->skipped_bytes};
    EXPECT_EQ(world.server->memory_left(), memory);
    EXPECT_EQ(world.server->open_files(), 0U);
    EXPECT_EQ(world.spins, 0U);
  }

  /// Files that are as they were sent.
  struct Kept {
    std::map<fs::path, ino_t> inodes;
    std::uint64_t bytes = 0;
  };
  static ino_t inode_of(const fs::path& path) {
    struct stat status{};
    EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
    return status.st_ino;
  }
  /// Changes some of the files below `top`, in each way that a transfer has to make good, and answers the others.
  Kept alter(const fs::path& top, std::uint64_t seed) const {
    Prng prng(seed);
    std::vector<fs::path> files;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(top)) {
      if (entry.is_regular_file() && !entry.is_symlink()) {
        files.push_back(entry.path());
      }
    }
    std::ranges::sort(files);
    const double changed = prng.chance(0.3) ? 0 : prng.unit();
    Kept kept;
    for (const fs::path& path : files) {
      if (prng.chance(changed)) {
        alter_file(path, prng.below(5));
      } else {
        kept.inodes[path] = inode_of(path);
        kept.bytes += content_.at(path.lexically_relative(root_));
        if (prng.chance(0.2)) {  // its attributes alone are set again
          EXPECT_EQ(::chmod(path.c_str(), 0644), 0);
          [[maybe_unused]] const int set = ::setxattr(path.c_str(), "user.beside", "x", 1, 0);
          [[maybe_unused]] const int removed = ::removexattr(path.c_str(), "user.1");
          EXPECT_TRUE(::geteuid() != 0 || ::lchown(path.c_str(), 1, 2) == 0);
        }
      }
    }
    return kept;
  }
  static void alter_file(const fs::path& path, std::uint64_t how) {
    const timespec other[2] = {{1, 2}, {1, 2}};
    struct stat before{};
    ASSERT_EQ(::lstat(path.c_str(), &before), 0);
    const timespec same[2] = {before.st_mtim, before.st_mtim};
    fs::permissions(path.parent_path(), fs::perms::owner_all, fs::perm_options::add);
    if (how == 0) {
      ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), other, 0), 0);
      return;
    }
    fs::remove(path);
    if (how == 1) {
      return;
    }
    if (how == 2) {
      fs::create_symlink("elsewhere", path);
      ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), same, AT_SYMLINK_NOFOLLOW), 0);
      return;
    }
    // Another size, or another nanosecond.
    write_file(path, std::string(static_cast<std::size_t>(before.st_size) + (how == 3 ? 1 : 0), 'x'));
    // Not what a coarser file system would keep of it: that counts as the same.
    const long nanoseconds = same[0].tv_nsec ^ ((same[0].tv_nsec ^ 1) % 100 == 0 ? 3 : 1);
    const timespec near[2] = {{same[0].tv_sec, nanoseconds}, {same[0].tv_sec, nanoseconds}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), how == 3 ? same : near, 0), 0);
  }

  Contents::Amount skipped_;                   // of the last send()
  std::map<fs::path, std::uint64_t> content_;  // that send() has sent, below root_
  Hasty system_;
  ReplaceSystem replaced_{system_};
};

TEST_F(Trees, ArriveAsTheyWereSent) {
  const std::uint64_t first = number_from("SLUICE_TREE_SEED", 1);
  const std::uint64_t trees = number_from("SLUICE_TREES", 100);
  for (std::uint64_t seed = first; seed < first + trees; ++seed) {
    SCOPED_TRACE("SLUICE_TREES=1 SLUICE_TREE_SEED=" + std::to_string(seed));
    clear();
    const fs::path from = base_ / "from/tree";
    fs::create_directory(from);
    WorldOptions options = link(seed);
    Painter painter(seed, adu_bytes_for(options.sender.tsdu_bytes, options.sealed));
    painter.paint(from);
    painter.attributes(from, 0500 + seed % 64);
    ASSERT_NO_FATAL_FAILURE(send(options, {from.string()}));
    ASSERT_EQ(difference(tree_of(from), tree_of(root_ / "tree")), "");
    // Once more over what is there, some of it altered.
    if (seed % 2 == 0) {
      const Kept kept = alter(root_ / "tree", seed);
      ++options.seed;
      ASSERT_NO_FATAL_FAILURE(send(options, {from.string()}));
      ASSERT_EQ(difference(tree_of(from), tree_of(root_ / "tree")), "");
      EXPECT_EQ(skipped_.files, kept.inodes.size());
      EXPECT_EQ(skipped_.bytes, kept.bytes);
      for (const auto& [path, inode] : kept.inodes) {
        EXPECT_EQ(inode_of(path), inode) << path << " was there and was written anew";
      }
    }
  }
}

TEST_F(Trees, OfDirectoriesAloneArrive) {
  for (const bool sealed : {false, true}) {
    clear();
    fs::create_directories(base_ / "from/a/b");
    fs::create_symlink("b", base_ / "from/a/l");
    WorldOptions options;
    options.sealed = sealed;
    ASSERT_NO_FATAL_FAILURE(send(options, {(base_ / "from/a").string()}));
    EXPECT_EQ(difference(tree_of(base_ / "from/a"), tree_of(root_ / "a")), "");
  }
}

/// 2,000 files in a window that is smaller than their pack, whose last ADU finds it full.
TEST_F(Trees, OfManySmallFilesArrive) {
  const fs::path from = base_ / "from/many";
  fs::create_directory(from);
  for (int i = 0; i < 2000; ++i) {
    write_file(from / std::to_string(i), std::string(static_cast<std::size_t>(i % 50), 'x'));
  }
  WorldOptions options;
  options.forward.loss = options.back.loss = 0.1;
  options.fixed_rate = 10'000'000;
  ASSERT_NO_FATAL_FAILURE(send(options, {from.string()}));
  EXPECT_EQ(difference(tree_of(from), tree_of(root_ / "many")), "");
}

}  // namespace
}  // namespace sluice::ftx::test
