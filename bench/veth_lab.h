// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where network benchmarks run: two network namespaces of the program's own with a veth pair between them, "near"
// (10.77.0.1, with a loopback device) and "far" (10.77.0.2). Sockets stay in the namespace that they were opened in, so
// one thread can serve both ends. Nothing outside is touched, and the kernel removes all of it with the program.
//
// A benchmark that cannot have its namespaces has failed, not passed: it says why and exits with 1. Who can do without
// asks missing() first.
//
// REQUIRES: the program has one thread, and `ip` (iproute2) is installed. Threads: one.

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "base/descriptor.h"
#include "dlpi/interface.h"
#include "tests/user_namespace.h"

namespace sluice::bench {

/// Ends the program with `what` and the system's error unless `held`.
inline void must(bool held, const char* what) {
  if (!held) {
    std::perror(what);
    std::exit(1);
  }
}

class VethLab {
 public:
  /// What this system lacks for a lab with packet sockets; empty: nothing. Tried in a child, which leaves no trace.
  [[nodiscard]] static std::string missing() {
    const pid_t child = ::fork();
    must(child >= 0, "fork");
    if (child == 0) {
      if (!test::enter_user_namespace(CLONE_NEWNET)) {
        ::_exit(1);
      }
      if (std::system("ip link add near type veth peer name far 2>/dev/null") != 0) {
        ::_exit(2);
      }
      ::_exit(::socket(AF_PACKET, SOCK_RAW, 0) >= 0 ? 0 : 3);
    }
    int status = 0;
    must(::waitpid(child, &status, 0) == child, "waitpid");
    switch (WIFEXITED(status) ? WEXITSTATUS(status) : -1) {
      case 0:
        return "";
      case 1:
        return "user and network namespaces of its own (kernel.unprivileged_userns_clone=1)";
      case 2:
        return "`ip` (iproute2), or veth devices of the kernel";
      default:
        return "packet sockets";
    }
  }

  /// XDP programs are loaded outside of all user namespaces: with `system`, the lab belongs to none, which takes root.
  enum class Rights : std::uint8_t { own, system };

  explicit VethLab(Rights rights = Rights::own) {
    must(rights == Rights::own ? test::enter_user_namespace(CLONE_NEWNET) : ::unshare(CLONE_NEWNET) == 0,
         "this benchmark needs user and network namespaces of its own (kernel.unprivileged_userns_clone=1); unshare");
    near_ = own_network_namespace();
    must(::unshare(CLONE_NEWNET) == 0, "making a second network namespace");
    far_ = own_network_namespace();
    const pid_t holder = ::fork();  // stays in the far namespace, so that `ip` can name it
    must(holder >= 0, "fork");
    if (holder == 0) {
      ::pause();
      ::_exit(0);
    }
    enter_near();
    run("ip link add near type veth peer name far netns " + std::to_string(holder));
    run("ip addr add 10.77.0.1/24 dev near && ip link set near addrgenmode none up && ip link set lo up");
    enter_far();
    run("ip addr add 10.77.0.2/24 dev far && ip link set far addrgenmode none up");
    wait_for("far");
    enter_near();
    wait_for("near");
    ::kill(holder, SIGKILL);
    ::waitpid(holder, nullptr, 0);
  }

  /// A further link, both ends of which are in the near namespace: devices NAME0 and NAME1, up, without addresses. For
  /// packet sockets, which get, and so pay for, whatever passes their device.
  void add_link(const std::string& name, unsigned mtu = 1500) const {
    enter_near();
    const std::string size = " mtu " + std::to_string(mtu);
    run("ip link add " + name + "0" + size + " type veth peer name " + name + "1" + size);
    for (const char* const end : {"0", "1"}) {
      run("ip link set " + name + end + " addrgenmode none up");
    }
    for (const char* const end : {"0", "1"}) {
      wait_for((name + end).c_str());
    }
  }

  /// In the shell, in the namespace that was entered last; the program ends where it fails.
  static void run(const std::string& command) { must(std::system(command.c_str()) == 0, command.c_str()); }

  void enter_near() const { must(::setns(near_.get(), CLONE_NEWNET) == 0, "setns"); }
  void enter_far() const { must(::setns(far_.get(), CLONE_NEWNET) == 0, "setns"); }

 private:
  static Descriptor own_network_namespace() {
    Descriptor own(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
    must(static_cast<bool>(own), "/proc/self/ns/net");
    return own;
  }

  static void wait_for(const char* device) {
    for (int tries = 0; tries < 500 && !dlpi::find_interface(device)->up; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    must(dlpi::find_interface(device)->up, "the link came up");
  }

  Descriptor near_;
  Descriptor far_;
};

}  // namespace sluice::bench
