// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/security/confinement.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <openssl/ssl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "apps/ftx/security/open_file.h"
#include "base/retried.h"
#include "base/sanitizers.h"

namespace sluice::ftx {
namespace {

std::unexpected<Error> failed(const char* what, int code) {
  return fail(code, std::string(what) + ": " + std::strerror(code));
}

/// landlock_restrict_self(2): "The calling thread must either have CAP_SYS_ADMIN in its user namespace or have already
/// set the no_new_privs bit"; likewise seccomp(2).
Status give_up_new_privileges() {
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? Status() : failed("no_new_privs", errno);
}

// ---- Landlock ----

// What a <linux/landlock.h> of Linux 6.1 lacks, with the sentences of the kernel's
// Documentation/userspace-api/landlock.rst, and the version of the ABI that has it.
//
// ABI 3, Linux 6.2: "LANDLOCK_ACCESS_FS_TRUNCATE: Truncate a file with truncate(2), ftruncate(2), creat(2), or open(2)
// with O_TRUNC."
constexpr std::uint64_t truncate_file = 1U << 14;
// ABI 5, Linux 6.10: "LANDLOCK_ACCESS_FS_IOCTL_DEV: Invoke ioctl(2) commands on an opened character or block device."
constexpr std::uint64_t control_device = 1U << 15;
// ABI 4, Linux 6.7: "LANDLOCK_ACCESS_NET_BIND_TCP: Bind a TCP socket to a local port. LANDLOCK_ACCESS_NET_CONNECT_TCP:
// Connect an active TCP socket to a remote port."
constexpr std::uint64_t bind_tcp = 1U << 0;
constexpr std::uint64_t connect_tcp = 1U << 1;
// ABI 6, Linux 6.12: "LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET: Restrict a sandboxed process from connecting to an abstract
// UNIX socket created by a process outside the related Landlock domain. LANDLOCK_SCOPE_SIGNAL: Restrict a sandboxed
// process from sending a signal to another process outside the domain."
constexpr std::uint64_t abstract_sockets = 1U << 0;
constexpr std::uint64_t signals = 1U << 1;

constexpr std::uint64_t all_of_abi_2 = (LANDLOCK_ACCESS_FS_REFER << 1) - 1;
constexpr std::uint64_t to_read = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
// "LANDLOCK_ACCESS_FS_REFER: Link or rename a file from or to a different directory": hard links of a transfer.
constexpr std::uint64_t to_write = to_read | truncate_file | LANDLOCK_ACCESS_FS_WRITE_FILE |
                                   LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                                   LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                                   LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER;
/// What a rule for a file, and no directory, may grant.
constexpr std::uint64_t of_files = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | truncate_file;

/// struct landlock_ruleset_attr of ABI 6. A kernel that knows less of it takes it all the same, as long as the rest is
/// zero.
struct Ruleset {
  std::uint64_t handled_access_fs = 0;
  std::uint64_t handled_access_net = 0;
  std::uint64_t scoped = 0;
};

/// The version that the running kernel has. 1, which moves no file between directories, counts for none.
Result<int> landlock_abi() {
  const long abi = ::syscall(__NR_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (abi < 0) {
    return failed("no Landlock", errno);
  }
  return abi < 2 ? fail(EOPNOTSUPP, "no Landlock of Linux 5.19 or later") : Result<int>(static_cast<int>(abi));
}

void allow(int ruleset, int file, std::uint64_t rights) {
  landlock_path_beneath_attr rule{};
  rule.allowed_access = rights;
  rule.parent_fd = file;
  // Without its rule the path cannot be opened later, which then says so.
  static_cast<void>(::syscall(__NR_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0));
}

void allow_below(int ruleset, const std::string& path, std::uint64_t rights) {
  const OpenFile file(retried([&] { return ::open(path.c_str(), O_PATH | O_CLOEXEC); }));
  struct stat status{};
  if (file.get() >= 0 && ::fstat(file.get(), &status) == 0) {
    allow(ruleset, file.get(), S_ISDIR(status.st_mode) ? rights : rights & of_files);
  }
}

/// `add_rules` gets the ruleset's descriptor.
template <class AddRules>
Status enforce(const Ruleset& ruleset, AddRules&& add_rules) {
  const OpenFile made(static_cast<int>(::syscall(__NR_landlock_create_ruleset, &ruleset, sizeof ruleset, 0)));
  if (made.get() < 0) {
    return failed("Landlock", errno);
  }
  add_rules(made.get());
  return ::syscall(__NR_landlock_restrict_self, made.get(), 0) == 0 ? Status() : failed("Landlock", errno);
}

/// Sockets and signals, as far as the kernel has it. Not all have: seccomp refuses most of it, too.
void restrict_sockets_and_signals(const CallRights& rights) {
  const auto abi = landlock_abi();
  Ruleset ruleset;
  ruleset.handled_access_net = abi.value_or(0) >= 4 ? bind_tcp | connect_tcp : 0;
  if (abi.value_or(0) >= 6) {
    // The child is no part of our domain: it must be able to do more than we.
    ruleset.scoped = rights.child ? abstract_sockets : abstract_sockets | signals;
  }
  if (ruleset.handled_access_net == 0) {
    return;
  }
  // <linux/landlock.h>, LANDLOCK_ACCESS_FS_REFER: "This is the only access right which is always considered handled by
  // any ruleset in such a way that reparenting a file hierarchy is always denied by default." What is linked and moved
  // where is a matter of restrict_files().
  ruleset.handled_access_fs = LANDLOCK_ACCESS_FS_REFER;
  [[maybe_unused]] const Status beside =
      enforce(ruleset, [](int made) { allow_below(made, "/", LANDLOCK_ACCESS_FS_REFER); });
}

// ---- seccomp ----

/// Calls that are refused whatever their arguments are.
constexpr std::array refused{
    // Programs and processes. io_uring makes calls that no filter sees.
    "execve", "execveat", "fork", "vfork", "io_uring_setup", "io_uring_enter", "io_uring_register",
    // Other processes: what they have in memory, what they have open, what they do.
    "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp", "process_madvise", "process_mrelease", "tkill",
    "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal",
    // Who this process is, and what it sees of the system.
    "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "setfsuid", "setfsgid", "capset",
    "personality", "chroot", "pivot_root", "unshare", "setns", "mount", "umount", "umount2", "open_tree", "move_mount",
    "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "open_tree_attr",
    // Files past Landlock: by handle, by owner, mode and attributes of a name.
    "open_by_handle_at", "name_to_handle_at", "mknod", "mknodat", "chmod", "fchmodat", "fchmodat2", "chown", "lchown",
    "setxattr", "lsetxattr", "setxattrat", "removexattr", "lremovexattr", "removexattrat", "file_setattr",
    "fanotify_init", "quotactl", "quotactl_fd",
    // The kernel: code in it, its keys, its clocks, and where faults of it were found most.
    "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff",
    "acct", "syslog", "iopl", "ioperm", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname",
    "setdomainname", "vhangup", "modify_ldt", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key",
    "lookup_dcookie", "migrate_pages", "move_pages",
    // AF_UNIX leads to services that start programs for the user; a pair of such sockets can be connected anew.
    "socketpair"};

/// Calls that are younger than a libseccomp of Debian 12; since Linux 5.1 all architectures count alike.
struct NewCall {
  std::string_view name;
  int number;
};
constexpr std::array new_calls{NewCall{"fchmodat2", 452}, NewCall{"setxattrat", 463}, NewCall{"removexattrat", 466},
                               NewCall{"open_tree_attr", 467}, NewCall{"file_setattr", 469}};

/// Less than 0: this architecture has no such call.
int number_of(const char* call) {
  const int known = ::seccomp_syscall_resolve_name(call);
  for (const NewCall& one : new_calls) {
    if (known < 0 && one.name == call) {
      return one.number;
    }
  }
  return known;
}

/// A list of refused calls that grows, and then is the process's. Not thread-safe.
class Refusals {
 public:
  Refusals() : context_(::seccomp_init(SCMP_ACT_ALLOW)) { error_ = context_ == nullptr ? ENOMEM : 0; }
  ~Refusals() { ::seccomp_release(context_); }
  Refusals(const Refusals&) = delete;
  Refusals& operator=(const Refusals&) = delete;

  /// Each `when` is about another argument; all of them must hold.
  template <class... When>
  void add(const char* call, When... when) {
    answer(EPERM, call, when...);
  }
  template <class... When>
  void answer(int code, const char* call, When... when) {
    const int number = number_of(call);
    if (error_ == 0 && number >= 0) {
      const std::array<scmp_arg_cmp, sizeof...(when)> all{when...};
      error_ = -::seccomp_rule_add_array(context_, SCMP_ACT_ERRNO(static_cast<std::uint16_t>(code)), number,
                                         static_cast<unsigned>(all.size()), all.data());
    }
  }
  /// Where the kernel has it.
  void wish(scmp_filter_attr attribute, std::uint32_t value) {
    if (context_ != nullptr) {
      static_cast<void>(::seccomp_attr_set(context_, attribute, value));
    }
  }
  Status load() {
    error_ = error_ == 0 ? -::seccomp_load(context_) : error_;
    return error_ == 0 ? Status() : failed("no seccomp filter", error_);
  }

 private:
  scmp_filter_ctx context_;
  int error_;
};

/// The kernel takes 32 bits of what is an int.
scmp_arg_cmp is(unsigned argument, std::uint64_t value) { return {argument, SCMP_CMP_MASKED_EQ, 0xffffffffU, value}; }
scmp_arg_cmp has(unsigned argument, std::uint64_t bit) { return {argument, SCMP_CMP_MASKED_EQ, bit, bit}; }
scmp_arg_cmp lacks(unsigned argument, std::uint64_t bit) { return {argument, SCMP_CMP_MASKED_EQ, bit, 0}; }
scmp_arg_cmp differs(unsigned argument, std::uint64_t value) { return {argument, SCMP_CMP_NE, value, 0}; }

void refuse_sockets(Refusals& refusals, const CallRights& rights) {
  // "AF_UNIX: Local communication" (address_families(7)): D-Bus, containers' daemons, agents.
  refusals.add("socket", is(0, AF_UNIX));
  // The low four bits (SOCK_TYPE_MASK of the kernel); flags lie above.
  constexpr std::uint64_t type_mask = 0xf;
  for (unsigned type = 0; type <= type_mask; ++type) {
    if (type != SOCK_DGRAM && (type != SOCK_RAW || !rights.drivers)) {
      refusals.add("socket", scmp_arg_cmp{1, SCMP_CMP_MASKED_EQ, type_mask, type});
    }
  }
  if (rights.drivers) {
    return;
  }
  refusals.add("bpf");
  refusals.add("socket", is(0, AF_UNSPEC));
  refusals.add("socket", scmp_arg_cmp{0, SCMP_CMP_GT, AF_INET6, 0});
  for (unsigned between = AF_INET + 1; between < AF_INET6; ++between) {
    refusals.add("socket", is(0, between));
  }
}

void refuse_processes(Refusals& refusals, const CallRights& rights) {
  if (rights.child) {
    refusals.add("kill", differs(0, static_cast<std::uint64_t>(*rights.child)));
  } else {
    refusals.add("kill");
  }
  // abort() and raise() signal the process itself.
  refusals.add("tgkill", differs(0, static_cast<std::uint64_t>(::getpid())));
  refusals.add("prlimit64", differs(0, 0));
  // Its flags lie in memory, which a filter does not see. Who gets this answer uses clone().
  refusals.answer(ENOSYS, "clone3");
  // At the end LeakSanitizer looks for leaks from a process of its own, which traces this one. Nothing else differs
  // with a sanitizer, but what restrict_files() says.
  if (!sanitized) {
    refusals.add("clone", lacks(0, CLONE_THREAD));
    refusals.add("ptrace");
  }
}

/// Owners and extended attributes of what is open, unless they are kept.
void refuse_metadata(Refusals& refusals, const CallRights& rights) {
  if (rights.owners) {
    refusals.add("fchownat", differs(4, AT_SYMLINK_NOFOLLOW));
  } else {
    refusals.add("fchown");
    refusals.add("fchownat");
  }
  if (!rights.attributes) {
    refusals.add("fsetxattr");
    refusals.add("fremovexattr");
  }
}

/// No code but what is loaded.
void refuse_new_code(Refusals& refusals) {
  refusals.add("mmap", has(2, PROT_EXEC));
  refusals.add("mprotect", has(2, PROT_EXEC));
  refusals.add("pkey_mprotect", has(2, PROT_EXEC));
  refusals.add("shmat", has(2, SHM_EXEC));
}

/// ioctl_tty(2): "TIOCSTI: Insert the given byte in the input queue", which the user's shell then reads; likewise what
/// TIOCLINUX pastes.
void refuse_typing(Refusals& refusals) {
  refusals.add("ioctl", is(1, TIOCSTI));
  refusals.add("ioctl", is(1, TIOCLINUX));
}

}  // namespace

Status restrict_files(const FileRights& rights) {
  // OpenSSL reads its configuration, and what that names, when it is first used: now, since later it may not.
  ::OPENSSL_init_ssl(OPENSSL_INIT_LOAD_CONFIG, nullptr);
  const auto abi = landlock_abi();
  if (!abi) {
    return std::unexpected(abi.error());
  }
  if (Status given_up = give_up_new_privileges(); !given_up) {
    return given_up;
  }
  Ruleset ruleset;
  ruleset.handled_access_fs = all_of_abi_2 | (*abi >= 3 ? truncate_file : 0) | (*abi >= 5 ? control_device : 0);
  return enforce(ruleset, [&](int made) {
    for (const std::string& path : rights.read) {
      allow_below(made, path, to_read);
    }
    for (const std::string& path : rights.write) {
      allow_below(made, path, to_write & ruleset.handled_access_fs);
    }
    if (sanitized) {
      // Where LeakSanitizer finds threads and memory. By a call that no test lets fail: it is none of the program's.
      const OpenFile proc(static_cast<int>(::syscall(SYS_openat, AT_FDCWD, "/proc", O_PATH | O_CLOEXEC)));
      allow(made, proc.get(), to_read);
    }
  });
}

Status restrict_calls(const CallRights& rights) {
  if (Status given_up = give_up_new_privileges(); !given_up) {
    return given_up;
  }
  restrict_sockets_and_signals(rights);
  Refusals refusals;
  for (const char* const call : refused) {
    refusals.add(call);
  }
  refuse_processes(refusals, rights);
  refuse_sockets(refusals, rights);
  refuse_metadata(refusals, rights);
  refuse_new_code(refusals);
  refuse_typing(refusals);
  // All threads; there is one, unless a sanitizer has its own.
  refusals.wish(SCMP_FLTATR_CTL_TSYNC, 1);
  // Kernels before 5.16 otherwise turn on what protects a sandbox from reading this process's memory by speculation,
  // and costs time. Nobody else's code runs here.
  refusals.wish(SCMP_FLTATR_CTL_SSB, 1);
  refusals.wish(SCMP_FLTATR_CTL_OPTIMIZE, 2);
  return refusals.load();
}

}  // namespace sluice::ftx
