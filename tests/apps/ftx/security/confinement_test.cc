// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/security/confinement.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/landlock.h>
#include <linux/sched.h>
#include <net/if.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <thread>

#include "base/sanitizers.h"
#include "tests/apps/ftx/security/confined_process.h"
#include "tests/apps/ftx/security/scratch.h"

namespace sluice::ftx {
namespace {

using test::Attempt;
using test::closed;
using test::errno_of;
using test::opened;
using test::outcomes;
using test::Scratch;

int errno_of_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0) {
  return errno_of(::syscall(number, a, b, c, d, e));
}

int errno_of_socket(int family, int type) { return closed(::socket(family, type, 0)); }

int errno_of_map(int protection) {
  void* const at = ::mmap(nullptr, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? errno : errno_of(::munmap(at, 4096));
}

/// Makes the attempts, confined and then not: what is refused is refused by the confinement alone.
void expect_outcomes(const std::function<Status()>& confine, const std::vector<Attempt>& attempts) {
  const auto confined = outcomes(confine, attempts);
  const auto free = outcomes([] { return Status(); }, attempts);
  ASSERT_EQ(free.size(), attempts.size());
  ASSERT_EQ(confined.size(), attempts.size());
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    EXPECT_EQ(confined[i], attempts[i].expected) << attempts[i].what;
    if (attempts[i].expected != 0 && ::geteuid() == 0) {
      EXPECT_NE(free[i], attempts[i].expected) << attempts[i].what << ", without confinement";
    }
  }
}

class FileConfinement : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::syscall(__NR_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) < 3) {
      GTEST_SKIP() << "this kernel has no Landlock of Linux 6.2";
    }
    for (const char* directory : {"write", "write/sub", "read", "outside"}) {
      std::filesystem::create_directory(scratch_ / directory);
    }
    for (const char* file : {"write/file", "write/other", "read/file", "outside/file", "alone"}) {
      scratch_.write(file, "content", 0600);
    }
    std::filesystem::create_symlink(scratch_ / "outside/file", scratch_ / "write/link out");
  }

  [[nodiscard]] std::string at(const char* name) const { return scratch_ / name; }
  [[nodiscard]] Attempt opens(const char* name, int flags, int expected) const {
    return {std::string("open ") + name + " " + std::to_string(flags),
            [path = at(name), flags] { return opened(path, flags); }, expected};
  }
  [[nodiscard]] Attempt moves(int (*call)(const char*, const char*), const char* from, const char* to,
                              int expected) const {
    return {std::string(from) + " to " + to,
            [call, from = at(from), to = at(to)] { return errno_of(call(from.c_str(), to.c_str())); }, expected};
  }
  [[nodiscard]] Attempt at_path(const char* what, int (*call)(const char*), const char* name, int expected) const {
    return {std::string(what) + " " + name, [call, path = at(name)] { return errno_of(call(path.c_str())); }, expected};
  }
  [[nodiscard]] Status confine() const {
    return restrict_files({.read = {at("read"), at("alone"), at("not there")}, .write = {at("write")}});
  }

  Scratch scratch_;
};

TEST_F(FileConfinement, WhatIsNamedCanBeUsed) {
  const auto make_directory = [](const char* path) { return ::mkdir(path, 0700); };
  const auto truncate = [](const char* path) { return ::truncate(path, 1); };
  // Before and behind the other confinement, which must take away none of it.
  const auto confine_all = [this] {
    for (const auto& one : {restrict_calls({}), confine(), restrict_calls({})}) {
      if (!one) {
        return one;
      }
    }
    return Status();
  };
  expect_outcomes(
      confine_all,
      {opens("read/file", O_RDONLY, 0), opens("read", O_RDONLY | O_DIRECTORY, 0), opens("alone", O_RDONLY, 0),
       opens("write/file", O_RDWR | O_TRUNC, 0), opens("write/new", O_WRONLY | O_CREAT | O_EXCL, 0),
       opens("write/sub", O_RDONLY | O_DIRECTORY, 0), at_path("truncate", truncate, "write/file", 0),
       at_path("mkdir", make_directory, "write/made", 0), moves(::rename, "write/file", "write/sub/file", 0),
       moves(::link, "write/other", "write/sub/two", 0), moves(::symlink, "anything", "write/sub/link", 0),
       moves(::rename, "write/sub", "write/made/sub", 0), at_path("unlink", ::unlink, "write/made/sub/two", 0),
       at_path("mkdir", make_directory, "write/gone", 0), at_path("rmdir", ::rmdir, "write/gone", 0)});
}

TEST_F(FileConfinement, NothingElseCan) {
  const auto truncate = [](const char* path) { return ::truncate(path, 1); };
  const auto make_directory = [](const char* path) { return ::mkdir(path, 0700); };
  const auto make_fifo = [](const char* path) { return ::mkfifo(path, 0600); };
  expect_outcomes([this] { return confine(); }, {opens("outside/file", O_RDONLY, EACCES),
                                                 opens("outside/file", O_WRONLY, EACCES),
                                                 opens("outside", O_RDONLY | O_DIRECTORY, EACCES),
                                                 opens("outside/new", O_WRONLY | O_CREAT, EACCES),
                                                 opens("write/../outside/file", O_RDONLY, EACCES),
                                                 opens("write/link out", O_RDONLY, EACCES),
                                                 opens("write/link out", O_WRONLY, EACCES),
                                                 opens("read/file", O_RDWR, EACCES),
                                                 opens("read/new", O_WRONLY | O_CREAT, EACCES),
                                                 opens("alone", O_WRONLY, EACCES),
                                                 at_path("truncate", truncate, "outside/file", EACCES),
                                                 at_path("truncate", truncate, "read/file", EACCES),
                                                 at_path("mkdir", make_directory, "outside/made", EACCES),
                                                 at_path("mkfifo", make_fifo, "write/fifo", EACCES),
                                                 moves(::rename, "write/file", "outside/file2", EACCES),
                                                 moves(::rename, "outside/file", "write/file2", EACCES),
                                                 moves(::link, "write/other", "outside/two", EACCES),
                                                 moves(::link, "outside/file", "write/two", EXDEV),
                                                 moves(::symlink, "anything", "outside/link", EACCES),
                                                 at_path("unlink", ::unlink, "read/file", EACCES),
                                                 at_path("unlink", ::unlink, "outside/file", EACCES)});
}

TEST_F(FileConfinement, ThreadsThatStartLaterAreConfinedAsWell) {
  const auto in_a_thread = [path = at("outside/file")] {
    int code = 0;
    std::thread([&] { code = opened(path, O_RDONLY); }).join();
    return code;
  };
  expect_outcomes([this] { return confine(); }, {{"open outside, in a thread", in_a_thread, EACCES}});
}

TEST_F(FileConfinement, ASecondCallTakesAwayMore) {
  const auto twice = [this] {
    const Status first = confine();
    return first ? restrict_files({.read = {at("outside"), at("read")}, .write = {}}) : first;
  };
  expect_outcomes(twice, {opens("read/file", O_RDONLY, 0), opens("outside/file", O_RDONLY, EACCES),
                          opens("write/file", O_RDONLY, EACCES)});
}

TEST_F(FileConfinement, WhatIsOpenStaysSo) {
  const int directory = ::open(at("outside").c_str(), O_RDONLY | O_DIRECTORY);
  const int file = ::open(at("outside/file").c_str(), O_RDWR);
  expect_outcomes([this] { return confine(); },
                  {{"write to what is open", [file] { return ::pwrite(file, "x", 1, 0) == 1 ? 0 : errno; }, 0},
                   {"open from a directory that is open",
                    [directory] { return closed(::openat(directory, "file", O_RDONLY)); }, EACCES}});
  ::close(file);
  ::close(directory);
}

TEST(CallConfinement, WhatATransferNeedsIsLeft) {
  const auto thread = [] {
    std::thread([] {}).join();
    return 0;
  };
  const auto name = [] {
    std::array<char, IF_NAMESIZE> text{};
    return ::if_indextoname(1, text.data()) != nullptr ? 0 : errno;
  };
  const auto mode = [] {
    std::FILE* const file = std::tmpfile();
    const int code = errno_of(::fchmod(::fileno(file), 0600));
    std::fclose(file);
    return code;
  };
  rlimit limit{};
  expect_outcomes([] { return restrict_calls({}); },
                  {{"a thread", thread, 0},
                   {"datagrams of IPv4", [] { return errno_of_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC); }, 0},
                   {"datagrams of IPv6", [] { return errno_of_socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK); }, 0},
                   {"memory", [] { return errno_of_map(PROT_READ | PROT_WRITE); }, 0},
                   {"the name of a zone", name, 0},
                   {"the mode of what is open", mode, 0},
                   {"a signal to itself", [] { return ::raise(SIGURG); }, 0},
                   {"a limit of its own", [&] { return errno_of(::getrlimit(RLIMIT_NOFILE, &limit)); }, 0}});
}

TEST(CallConfinement, NoProgramAndNoProcessStarts) {
  std::vector<Attempt> attempts{
      {"execve", [] { return errno_of_call(SYS_execve, reinterpret_cast<long>("/not/there")); }, EPERM},
      {"execveat", [] { return errno_of_call(SYS_execveat, -1, reinterpret_cast<long>("x")); }, EPERM}};
  if (!sanitized) {
    attempts.push_back({"fork",
                        [] {
                          const pid_t child = ::fork();
                          if (child == 0) {
                            ::_exit(0);
                          }
                          return child < 0 ? errno : errno_of(::waitpid(child, nullptr, 0));
                        },
                        EPERM});
    attempts.push_back({"posix_spawn",
                        [] {
                          pid_t child = -1;
                          std::array<char*, 1> none{};
                          return ::posix_spawn(&child, "/not/there", nullptr, nullptr, none.data(), none.data());
                        },
                        EPERM});
  }
  // Its flags may say that it makes a thread, or not: no filter sees them.
  attempts.push_back({"clone3", [] { return errno_of_call(SYS_clone3, 0, CLONE_ARGS_SIZE_VER0); }, ENOSYS});
  expect_outcomes([] { return restrict_calls({}); }, attempts);
}

TEST(CallConfinement, NoOtherProcessIsReached) {
  std::vector<Attempt> attempts{
      {"kill", [] { return errno_of(::kill(::getppid(), 0)); }, EPERM},
      {"kill a group", [] { return errno_of(::kill(0, 0)); }, EPERM},
      {"tgkill", [] { return errno_of_call(SYS_tgkill, ::getppid(), ::getppid(), 0); }, EPERM},
      {"pidfd_send_signal", [] { return errno_of_call(SYS_pidfd_send_signal, -1, SIGURG); }, EPERM},
      {"process_vm_readv", [] { return errno_of_call(SYS_process_vm_readv, ::getppid()); }, EPERM},
      {"pidfd_getfd", [] { return errno_of_call(SYS_pidfd_getfd, -1, 0); }, EPERM},
      {"prlimit", [] { return errno_of(::prlimit(::getppid(), RLIMIT_CORE, nullptr, nullptr)); }, EPERM},
      {"typing into the terminal", [] { return errno_of(::ioctl(-1, TIOCSTI, "x")); }, EPERM}};
  if (!sanitized) {
    attempts.push_back(
        {"ptrace", [] { return errno_of_call(SYS_ptrace, 0x4206 /* PTRACE_SEIZE */, 0x7fffffff); }, EPERM});
  }
  expect_outcomes([] { return restrict_calls({}); }, attempts);
}

TEST(CallConfinement, OneProcessMayBeSignalled) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  expect_outcomes([child] { return restrict_calls({.child = child, .drivers = false}); },
                  {{"the child", [child] { return errno_of(::kill(child, SIGURG)); }, 0},
                   {"another", [] { return errno_of(::kill(::getppid(), 0)); }, EPERM},
                   {"a group", [] { return errno_of(::kill(0, 0)); }, EPERM}});
  ::kill(child, SIGKILL);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST(CallConfinement, NoServiceIsReached) {
  std::array<int, 2> ends{};
  expect_outcomes([] { return restrict_calls({}); },
                  {{"AF_UNIX", [] { return errno_of_socket(AF_UNIX, SOCK_STREAM); }, EPERM},
                   {"AF_UNIX, datagrams", [] { return errno_of_socket(AF_UNIX, SOCK_DGRAM); }, EPERM},
                   {"a pair", [&] { return errno_of(::socketpair(AF_UNIX, SOCK_DGRAM, 0, ends.data())); }, EPERM},
                   {"TCP", [] { return errno_of_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC); }, EPERM},
                   {"TCP over IPv6", [] { return errno_of_socket(AF_INET6, SOCK_STREAM); }, EPERM},
                   {"raw IPv4", [] { return errno_of_socket(AF_INET, SOCK_RAW); }, EPERM},
                   {"a family between", [] { return errno_of_socket(AF_INET + 1, SOCK_DGRAM); }, EPERM},
                   {"rtnetlink", [] { return errno_of_socket(AF_NETLINK, SOCK_RAW); }, EPERM},
                   {"rtnetlink, as datagrams", [] { return errno_of_socket(AF_NETLINK, SOCK_DGRAM); }, EPERM},
                   {"frames", [] { return errno_of_socket(AF_PACKET, SOCK_DGRAM); }, EPERM},
                   {"no family", [] { return errno_of_socket(AF_UNSPEC, SOCK_DGRAM); }, EPERM}});
}

TEST(CallConfinement, DriversAskTheKernel) {
  expect_outcomes([] { return restrict_calls({.child = {}, .drivers = true}); },
                  {{"rtnetlink", [] { return errno_of_socket(AF_NETLINK, SOCK_RAW); }, 0},
                   {"interfaces", [] { return errno_of_socket(AF_INET, SOCK_DGRAM); }, 0},
                   {"TCP", [] { return errno_of_socket(AF_INET, SOCK_STREAM); }, EPERM},
                   {"AF_UNIX", [] { return errno_of_socket(AF_UNIX, SOCK_DGRAM); }, EPERM}});
}

/// Whoever receives may set owners and extended attributes of what is open, where they are kept, and of nothing else.
TEST(CallConfinement, MetadataOfWhatIsOpenIsSetWhereItIsKept) {
  std::FILE* const file = std::tmpfile();
  const int open = ::fileno(file);
  // Not what becomes of it, which depends on the file system, but whether it may be tried.
  const auto tried = [](int answer) { return errno_of(answer) == EPERM ? EPERM : 0; };
  const auto owner = [&] { return tried(::fchown(open, ::getuid(), ::getgid())); };
  const auto of_link = [&] {
    return tried(::fchownat(AT_FDCWD, "/not/there", ::getuid(), ::getgid(), AT_SYMLINK_NOFOLLOW));
  };
  const auto followed = [&] { return tried(::fchownat(AT_FDCWD, "/not/there", ::getuid(), ::getgid(), 0)); };
  const auto set = [&] { return tried(::fsetxattr(open, "user.a", "x", 1, 0)); };
  const auto remove = [&] { return tried(::fremovexattr(open, "user.a")); };
  const auto by_name = [&] { return tried(::setxattr("/not/there", "user.a", "x", 1, 0)); };
  expect_outcomes([] { return restrict_calls({}); }, {{"fchown", owner, EPERM},
                                                      {"fchownat", of_link, EPERM},
                                                      {"fsetxattr", set, EPERM},
                                                      {"fremovexattr", remove, EPERM}});
  expect_outcomes([] { return restrict_calls({.owners = true}); }, {{"fchown", owner, 0},
                                                                    {"fchownat", of_link, 0},
                                                                    {"fchownat, followed", followed, EPERM},
                                                                    {"fsetxattr", set, EPERM}});
  expect_outcomes(
      [] { return restrict_calls({.attributes = true}); },
      {{"fchown", owner, EPERM}, {"fsetxattr", set, 0}, {"fremovexattr", remove, 0}, {"setxattr", by_name, EPERM}});
  std::fclose(file);
}

TEST(CallConfinement, NoCodeIsAdded) {
  const auto make_code = [] {
    void* const at = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const int code = errno_of(::mprotect(at, 4096, PROT_READ | PROT_EXEC));
    ::munmap(at, 4096);
    return code;
  };
  expect_outcomes([] { return restrict_calls({}); },
                  {{"mmap", [] { return errno_of_map(PROT_READ | PROT_EXEC); }, EPERM},
                   {"mmap, writable", [] { return errno_of_map(PROT_READ | PROT_WRITE | PROT_EXEC); }, EPERM},
                   {"mprotect", make_code, EPERM}});
}

TEST(CallConfinement, TheSystemStaysAsItIs) {
  const auto path = reinterpret_cast<long>("/not/there");
  expect_outcomes([] { return restrict_calls({}); },
                  {{"chmod", [&] { return errno_of(::chmod("/not/there", 0777)); }, EPERM},
                   {"fchmodat2", [&] { return errno_of_call(452, -1, path, 0777, 0); }, EPERM},
                   {"chown", [&] { return errno_of(::lchown("/not/there", 1, 1)); }, EPERM},
                   {"setxattr", [&] { return errno_of_call(SYS_setxattr, path, path, path, 1, 0); }, EPERM},
                   {"mount", [&] { return errno_of(::mount("none", "/not/there", "tmpfs", 0, nullptr)); }, EPERM},
                   {"chroot", [] { return errno_of(::chroot("/not/there")); }, EPERM},
                   {"unshare", [] { return errno_of_call(SYS_unshare, 0); }, EPERM},
                   {"setns", [] { return errno_of_call(SYS_setns, -1, 0); }, EPERM},
                   {"setuid", [] { return errno_of(::setuid(::getuid())); }, EPERM},
                   {"personality", [] { return errno_of_call(SYS_personality, 0xffffffff); }, EPERM},
                   {"keyctl", [] { return errno_of_call(SYS_keyctl, 0, -3, 0); }, EPERM},
                   {"io_uring", [] { return errno_of_call(SYS_io_uring_setup, 1, 0); }, EPERM},
                   {"userfaultfd", [] { return errno_of_call(SYS_userfaultfd, -1); }, EPERM},
                   {"perf_event_open", [] { return errno_of_call(SYS_perf_event_open); }, EPERM},
                   {"bpf", [] { return errno_of_call(SYS_bpf, -1); }, EPERM},
                   {"open_by_handle_at", [] { return errno_of_call(SYS_open_by_handle_at, -1); }, EPERM}});
}

TEST(CallConfinement, IsSeenFromOutsideAndGivesUpNewPrivileges) {
  expect_outcomes([] { return restrict_calls({}); },
                  {{"seccomp", [] { return ::prctl(PR_GET_SECCOMP); }, 2},
                   {"no_new_privs", [] { return ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); }, 1}});
}

}  // namespace
}  // namespace sluice::ftx
