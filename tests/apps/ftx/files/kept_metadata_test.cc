// SPDX-License-Identifier: Apache-2.0
// Owners and extended attributes on a file system: what a source reads, what a sink sets, and what it leaves.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <cerrno>
#include <map>
#include <utility>

#include "apps/ftx/files/attributes.h"
#include "apps/ftx/files/directory.h"
#include "apps/ftx/files/source.h"
#include "tests/apps/ftx/files/faulty_system.h"
#include "tests/apps/ftx/files/served_directory.h"
#include "tests/apps/ftx/files/trees.h"

namespace sluice::ftx {
namespace {

namespace fs = std::filesystem;
using test::write_file;

using Values = std::map<std::string, std::string>;

Values values_of(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY);
  Values values;
  const auto read = read_extended_attributes(file);
  EXPECT_TRUE(read && *read) << path;
  for (const ExtendedAttribute& one : (**read).all()) {
    values[one.name] = one.value;
  }
  ::close(file);
  return values;
}
bool set(const fs::path& path, const std::string& name, const std::string& value) {
  return ::setxattr(path.c_str(), name.c_str(), value.data(), value.size(), 0) == 0;
}
Shared<Metadata> attributes(const Values& values) {
  std::vector<ExtendedAttribute> all;
  for (const auto& [name, value] : values) {
    all.push_back({name, value});
  }
  return Shared<Metadata>({.attributes = ExtendedAttributes::of(all).value()});
}
Shared<Metadata> owner(std::uint32_t user, std::uint32_t group) {
  return Shared<Metadata>({.user = Principal{user, ""}, .group = Principal{group, ""}});
}
struct stat status_of(const fs::path& path) {
  struct stat status{};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
  return status;
}

class KeptMetadata : public ServedDirectory {
 protected:
  KeptMetadata() { destination_ = std::move(DirectoryDestination::serve(root_.string(), 1).value()); }
  ~KeptMetadata() override { test::remove_tree(root_); }

  /// Whether the file system of the test has extended attributes.
  [[nodiscard]] bool has_attributes() const { return set(base_, "user.probe", "x"); }

  /// The outcome of a transfer of `entries`, each file of one byte.
  Status receive(std::vector<FileEntry> entries) {
    auto sink = destination_->open("", entries);
    if (!sink) {
      return std::unexpected(sink.error());
    }
    for (const FileEntry& entry : entries) {
      if (entry.kind != EntryKind::packed || (*sink)->present(entry)) {
        continue;
      }
      if (Status stored = (*sink)->store(entry, as_bytes("x")); !stored) {
        return stored;
      }
    }
    return (*sink)->finish();
  }
  static FileEntry file(std::string name, Shared<Metadata> metadata, std::uint16_t mode = 0644) {
    return {.name = std::move(name),
            .size_bytes = 1,
            .mtime_s = 1'600'000'000,
            .mode = mode,
            .kind = EntryKind::packed,
            .metadata = std::move(metadata)};
  }
  static FileEntry directory(std::string name, Shared<Metadata> metadata) {
    return {.name = std::move(name),
            .mtime_s = 1'500'000'000,
            .mode = 0555,
            .kind = EntryKind::directory,
            .metadata = std::move(metadata)};
  }
  /// How the survey has it, by name.
  std::map<std::string, unsigned> differences(const std::vector<FileEntry>& entries) {
    auto survey = destination_->survey("", entries, {}, {});
    EXPECT_TRUE(survey) << survey.error().text;
    std::vector<Change> changes;
    EXPECT_TRUE((*survey)->look(100, changes).value());
    std::map<std::string, unsigned> found;
    for (const Change& change : changes) {
      found[std::string(entries[change.entry - 1].name)] = change.differences;
    }
    return found;
  }

  std::unique_ptr<DirectoryDestination> destination_;
};

#define NEEDS_ATTRIBUTES                                 \
  if (!has_attributes()) {                               \
    GTEST_SKIP() << "the file system has no attributes"; \
  }

TEST_F(KeptMetadata, WhatArrivesHasTheAttributesOfItsSource) {
  NEEDS_ATTRIBUTES
  destination_->keep({.attributes = true});
  const Values values{{"user.a", "1"}, {"user.b", std::string("\0\xff", 2)}, {"user.empty", ""}};
  const std::vector<FileEntry> entries{file("f", attributes(values)), file("read-only", attributes(values), 0444),
                                       directory("d", attributes({{"user.d", "x"}})), file("none", attributes({}))};
  EXPECT_EQ(differences(entries), (std::map<std::string, unsigned>{{"f", 1}, {"read-only", 1}, {"d", 1}, {"none", 1}}));
  ASSERT_TRUE(receive(entries));
  EXPECT_EQ(values_of(root_ / "f"), values);
  EXPECT_EQ(values_of(root_ / "read-only"), values);
  EXPECT_EQ(values_of(root_ / "d"), (Values{{"user.d", "x"}}));
  EXPECT_EQ(values_of(root_ / "none"), Values{});
  EXPECT_EQ(status_of(root_ / "d").st_mtim.tv_sec, 1'500'000'000) << "attributes come before times";
  EXPECT_TRUE(differences(entries).empty());
}

/// A file that need not be sent, a file that may not be written to, a directory: what is beside goes.
TEST_F(KeptMetadata, WhatIsThereGetsThemAndLosesOthers) {
  NEEDS_ATTRIBUTES
  destination_->keep({.attributes = true});
  const Values values{{"user.a", "1"}};
  const std::vector<FileEntry> entries{file("f", attributes(values)), file("read-only", attributes(values), 0444),
                                       directory("d", attributes(values)), file("same", attributes(values))};
  ASSERT_TRUE(receive(entries));
  for (const char* name : {"f", "read-only", "d"}) {
    ASSERT_EQ(::chmod((root_ / name).c_str(), 0700), 0);
    ASSERT_TRUE(set(root_ / name, "user.a", "2") && set(root_ / name, "user.z", "")) << name;
    ASSERT_EQ(::chmod((root_ / name).c_str(), name == std::string("f") ? 0644 : name[0] == 'd' ? 0555 : 0444), 0);
  }
  const auto inode = status_of(root_ / "read-only").st_ino;
  const auto changed = status_of(root_ / "same").st_ctim;
  const unsigned extended = Change::extended;
  EXPECT_EQ(differences(entries),
            (std::map<std::string, unsigned>{{"f", extended}, {"read-only", extended}, {"d", extended}}));
  ASSERT_TRUE(receive(entries));
  for (const char* name : {"f", "read-only", "d"}) {
    EXPECT_EQ(values_of(root_ / name), values) << name;
  }
  EXPECT_EQ(status_of(root_ / "read-only").st_mode & 0777U, 0444U);
  EXPECT_EQ(status_of(root_ / "read-only").st_ino, inode) << "it was not sent";
  EXPECT_EQ(status_of(root_ / "same").st_ctim.tv_nsec, changed.tv_nsec) << "what is as it should be is not touched";
  // Where the list does not speak of them they stay.
  ASSERT_TRUE(receive({file("f", {}, 0600)}));
  EXPECT_EQ(values_of(root_ / "f"), values);
}

TEST_F(KeptMetadata, AFileHasItsAttributesBeforeItHasItsName) {
  NEEDS_ATTRIBUTES
  destination_->keep({.attributes = true});
  FaultySystem system;
  const ReplaceSystem replaced(system);
  ASSERT_TRUE(receive({file("f", attributes({{"user.a", "1"}}))}));
  const auto sets = system.all("fsetxattr");
  ASSERT_EQ(sets.size(), 1U);
  EXPECT_TRUE(system.calls[sets[0]].file.starts_with(".f.ftx-")) << system.calls[sets[0]].file;
  EXPECT_LT(sets[0], system.all("renameat").at(0));
}

TEST_F(KeptMetadata, AFileSystemWithoutAttributesIsAnErrorThatSaysSo) {
  destination_->keep({.attributes = true});
  FaultySystem system;
  system.fault = [](std::size_t, const FaultySystem::Call& call) -> FaultySystem::Fault {
    return {.error = call.name.ends_with("xattr") ? EOPNOTSUPP : 0};
  };
  const ReplaceSystem replaced(system);
  EXPECT_TRUE(receive({file("none", attributes({}))})) << "nothing to set";
  const Status refused = receive({file("f", attributes({{"user.a\x1b[2J", "1"}}))});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EOPNOTSUPP);
  EXPECT_NE(refused.error().text.find("leave -X away"), std::string::npos) << refused.error().text;
  EXPECT_EQ(refused.error().text.find('\x1b'), std::string::npos);
  EXPECT_FALSE(fs::exists(root_ / "f"));
}

/// Threat: a client that sets what other programs of a server's host believe.
TEST_F(KeptMetadata, AttributesThatNobodyAskedForAreRefused) {
  const std::vector<FileEntry> entries{file("f", {}), file("g", attributes({{"user.a", "1"}}))};
  EXPECT_EQ(destination_->open("", entries).error().code, EPERM);
  EXPECT_EQ(destination_->survey("", entries, {}, {}).error().code, EPERM);
  EXPECT_TRUE(fs::is_empty(root_));
}

/// Threat: a client that gives files to root, or to anybody else, on a server that runs as root.
TEST_F(KeptMetadata, WhoWasNotAskedChangesNoOwner) {
  FaultySystem system;
  const ReplaceSystem replaced(system);
  const std::vector<FileEntry> entries{
      file("f", owner(0, 0)),
      file("g", owner(1234, 1234)),
      directory("d", owner(1234, 1234)),
      {.name = "l", .kind = EntryKind::link, .form = "f", .metadata = owner(1234, 1234)}};
  for (const Kept& kept : {Kept{}, Kept{.attributes = true}}) {
    destination_->keep(kept);
    ASSERT_TRUE(receive(entries));
    EXPECT_TRUE(differences(entries).empty());
  }
  EXPECT_TRUE(system.all("fchown").empty() && system.all("fchownat").empty());
  EXPECT_EQ(status_of(root_ / "f").st_uid, ::geteuid());
}

TEST_F(KeptMetadata, OwnersAreSetOfWhatIsMadeAndOfWhatIsThere) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root gives files away";
  }
  destination_->keep({.user = true, .group = true});
  const std::vector<FileEntry> entries{file("f", owner(1234, 4321)),
                                       directory("d", owner(1234, 5)),
                                       {.name = "l", .kind = EntryKind::link, .form = "f", .metadata = owner(77, 78)}};
  for (const bool again : {false, true}) {
    ASSERT_TRUE(receive(entries));
    EXPECT_EQ(status_of(root_ / "f").st_uid, 1234U);
    EXPECT_EQ(status_of(root_ / "f").st_gid, 4321U);
    EXPECT_EQ(status_of(root_ / "d").st_gid, 5U);
    EXPECT_EQ(status_of(root_ / "d").st_mode & 0777U, 0555U);
    EXPECT_EQ(status_of(root_ / "l").st_uid, 77U);
    EXPECT_TRUE(differences(entries).empty());
    if (again) {
      break;
    }
    for (const char* name : {"f", "d", "l"}) {
      ASSERT_EQ(::lchown((root_ / name).c_str(), 1, 1), 0);
    }
    ASSERT_EQ(::chmod((root_ / "f").c_str(), 04755), 0);
    const unsigned both = Change::user | Change::group;
    EXPECT_EQ(differences(entries),
              (std::map<std::string, unsigned>{{"f", both | Change::mode}, {"d", both}, {"l", both}}));
  }
  EXPECT_EQ(status_of(root_ / "f").st_mode & 07777U, 0644U) << "no set-user-ID bit comes through";
}

/// Of a mount that does not map an id, and of a file system that gives nothing away.
TEST_F(KeptMetadata, AnIdThatTheMountDoesNotMapIsLeftAndARefusalIsAnError) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root gives files away";
  }
  destination_->keep({.user = true, .group = true});
  FaultySystem system;
  int code = EINVAL;
  system.fault = [&code](std::size_t, const FaultySystem::Call& call) -> FaultySystem::Fault {
    return {.error = call.name.starts_with("fchown") ? std::exchange(code, code == EINVAL ? 0 : code) : 0};
  };
  const ReplaceSystem replaced(system);
  ASSERT_TRUE(receive({file("f", owner(1234, 4321))}));
  EXPECT_EQ(system.all("fchown").size(), 2U) << "one by one";
  code = EPERM;
  const Status refused = receive({file("g", owner(1234, 4321))});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EPERM);
  EXPECT_NE(refused.error().text.find("--no-owner"), std::string::npos) << refused.error().text;
  EXPECT_FALSE(fs::exists(root_ / "g"));
}

/// Threat: somebody swaps a file that is there for a symbolic link, at the last moment.
TEST_F(KeptMetadata, ALinkSwappedInGivesNothingAway) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root gives files away";
  }
  destination_->keep({.user = true, .group = true, .attributes = true});
  const fs::path outside = base_ / "outside";
  write_file(outside, "x");
  ASSERT_TRUE(receive({file("f", owner(1, 1)), directory("d", {})}));
  FaultySystem system;
  std::size_t swaps = 0;
  system.fault = [&](std::size_t, const FaultySystem::Call& call) -> FaultySystem::Fault {
    if (call.name == "openat" && call.file == "f") {
      fs::remove(root_ / "f");
      fs::create_symlink(outside, root_ / "f");
      ++swaps;
    }
    return {};
  };
  {
    const ReplaceSystem replaced(system);
    ASSERT_TRUE(receive({file("f", owner(1234, 1234))}));
  }
  EXPECT_GT(swaps, 0U);
  EXPECT_EQ(status_of(outside).st_uid, 0U);
  EXPECT_EQ(status_of(root_ / "f").st_uid, 1234U) << "it came anew";
  EXPECT_TRUE(system.all("fchownat").empty());
}

TEST_F(KeptMetadata, ASourceReadsWhatIsAskedForAndNothingElse) {
  NEEDS_ATTRIBUTES
  const fs::path from = base_ / "from";
  fs::create_directories(from / "d");
  for (const char* name : {"a", "b", "d/c"}) {
    write_file(from / name, "x");
    ASSERT_TRUE(set(from / name, "user.k", name == std::string("b") ? "2" : "1"));
  }
  ASSERT_TRUE(set(from / "d", "user.d", "x"));
  if (::geteuid() == 0) {
    ASSERT_TRUE(set(from / "a", "trusted.k", "no"));
  }
  Accounts accounts;
  accounts.add_user("me", ::geteuid());
  const auto list = [&](Selection select, bool names) {
    const std::vector<std::string> paths{from.string()};
    return FileSource::open(paths, {.trees = Trees::with_links,
                                    .pack = true,
                                    .select = std::move(select),
                                    .accounts = names ? std::make_shared<const Accounts>(accounts) : nullptr})
        .value()
        ->files();
  };
  for (const FileEntry& entry : list({}, true)) {
    EXPECT_FALSE(entry.metadata) << entry.name.view();
  }
  for (const FileEntry& entry : list({.user = true}, true)) {
    EXPECT_EQ(entry.metadata->user, (Principal{::geteuid(), "me"}));
    EXPECT_FALSE(entry.metadata->group || entry.metadata->attributes);
  }
  EXPECT_EQ(list({.user = true}, false)[0].metadata->user, (Principal{::geteuid(), ""}));
  std::map<std::string, std::size_t> found;
  Selection named{.attributes = true};
  named.names = std::vector<std::string>{"a", "b", "d/"};
  const auto entries = list(named, false);
  for (const FileEntry& entry : entries) {
    ASSERT_NE(entry.attributes(), nullptr) << entry.name.view();
    for (const ExtendedAttribute& one : entry.attributes()->all()) {
      ++found[entry.name + ":" + one.name + "=" + one.value];
    }
  }
  EXPECT_EQ(found, (std::map<std::string, std::size_t>{
                       {"a:user.k=1", 1}, {"b:user.k=2", 1}, {"c:user.k=1", 1}, {"d:user.d=x", 1}}));
  // A file with several attributes that change meanwhile, and one of a file system that fails.
  FaultySystem system;
  system.fault = [](std::size_t, const FaultySystem::Call& call) -> FaultySystem::Fault {
    return {.error = call.name == "fgetxattr" ? EIO : 0};
  };
  const ReplaceSystem replaced(system);
  const std::vector<std::string> paths{from.string()};
  const auto broken = FileSource::open(paths, {.trees = Trees::with_links, .select = {.attributes = true}});
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, ExitCode::source_unreadable);
}

TEST(Ownership, WhoMaySetWhat) {
  auto accounts = std::make_shared<Accounts>();
  accounts->add_user("anna", 2000);
  accounts->add_group("crew", 3000);
  const FileEntry by_name{.name = "f",
                          .metadata = Shared<Metadata>({.user = Principal{1, "anna"}, .group = Principal{2, "crew"}})};
  const FileEntry by_number{.name = "f",
                            .metadata = Shared<Metadata>({.user = Principal{1, "bob"}, .group = Principal{2, ""}})};
  const FileEntry root{.name = "f",
                       .metadata = Shared<Metadata>({.user = Principal{0, "anna"}, .group = Principal{0, "crew"}})};
  const Kept both{.user = true, .group = true, .accounts = accounts};
  const Kept numbers{.user = true, .group = true};
  const Kept user_alone{.user = true};
  const Kept group_alone{.group = true};
  const Kept nothing{};
  const uid_t no_user = Ownership::same_user;
  const gid_t no_group = Ownership::same_group;
  struct Row {
    const char* what;
    Kept kept;
    bool privileged;
    std::vector<gid_t> groups;
    FileEntry entry;
    Ownership::Ids ids;
  };
  for (const Row& row :
       std::initializer_list<Row>{{"names that are known", both, true, {}, by_name, {2000, 3000}},
                                  {"names that are not", both, true, {}, by_number, {1, 2}},
                                  {"0 is 0", both, true, {}, root, {0, 0}},
                                  {"--numeric-ids", numbers, true, {}, by_name, {1, 2}},
                                  {"-o alone", user_alone, true, {}, by_name, {1, no_group}},
                                  {"-g alone", group_alone, true, {}, by_name, {no_user, 2}},
                                  {"neither", nothing, true, {}, by_name, {no_user, no_group}},
                                  {"nobody in particular", both, false, {7}, by_name, {no_user, no_group}},
                                  {"a member", both, false, {7, 3000}, by_name, {no_user, 3000}},
                                  {"root's group", both, false, {7}, root, {no_user, no_group}},
                                  {"a list that does not say", both, true, {}, FileEntry(), {no_user, no_group}}}) {
    EXPECT_EQ(Ownership(row.kept, {row.privileged, row.groups}).ids_of(row.entry), row.ids) << row.what;
  }
}

TEST_F(KeptMetadata, IdsThatTheNamespaceDoesNotMapStayAsTheyAre) {
  const fs::path map = base_ / "map";
  write_file(map, "         0       1000          1\n       100     100000         10\n");
  const MappedIds mapped(map.string());
  const Kept numbers{.user = true, .group = true};
  const Ownership ownership(numbers, {.privileged = true, .mapped_users = mapped, .mapped_groups = mapped});
  for (const auto& [id, is_mapped] : std::initializer_list<std::pair<std::uint32_t, bool>>{
           {0, true}, {1, false}, {99, false}, {100, true}, {109, true}, {110, false}, {0xfffffffe, false}}) {
    const FileEntry entry{.name = "f",
                          .metadata = Shared<Metadata>({.user = Principal{id, ""}, .group = Principal{id, ""}})};
    const Ownership::Ids stays;
    EXPECT_EQ(ownership.ids_of(entry), is_mapped ? (Ownership::Ids{id, id}) : stays) << id;
    struct stat status{};
    status.st_uid = status.st_gid = 4711;
    EXPECT_EQ(ownership.same(status, entry), !is_mapped) << id;
  }
  EXPECT_TRUE(MappedIds((base_ / "none").string()).contain(4711)) << "no /proc: the kernel answers";
}

}  // namespace
}  // namespace sluice::ftx
