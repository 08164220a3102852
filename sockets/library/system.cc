// SPDX-License-Identifier: Apache-2.0
#include "sockets/library/system.h"

#include <dlfcn.h>
#include <pthread.h>

namespace sluice::sockets {
namespace {

template <class Function>
void find(Function& function, const char* name) {
  function = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

constinit SystemCalls calls{};
constinit pthread_once_t found = PTHREAD_ONCE_INIT;

void find_all() {
  find(calls.socket, "socket");
  find(calls.bind, "bind");
  find(calls.listen, "listen");
  find(calls.accept4, "accept4");
  find(calls.connect, "connect");
  find(calls.getsockname, "getsockname");
  find(calls.getpeername, "getpeername");
  find(calls.getsockopt, "getsockopt");
  find(calls.setsockopt, "setsockopt");
  find(calls.close, "close");
  find(calls.close_range, "close_range");
  find(calls.closefrom, "closefrom");
  find(calls.dup, "dup");
  find(calls.dup2, "dup2");
  find(calls.dup3, "dup3");
  find(calls.fcntl, "fcntl");
  find(calls.prctl, "prctl");
  find(calls.read, "read");
  find(calls.readv, "readv");
  find(calls.recv, "recv");
  find(calls.recvfrom, "recvfrom");
  find(calls.recvmsg, "recvmsg");
  find(calls.write, "write");
  find(calls.writev, "writev");
  find(calls.send, "send");
  find(calls.sendto, "sendto");
  find(calls.sendmsg, "sendmsg");
  find(calls.recvmmsg, "recvmmsg");
  find(calls.sendmmsg, "sendmmsg");
}

}  // namespace

const SystemCalls& system_calls() {
  static_cast<void>(::pthread_once(&found, find_all));
  return calls;
}

}  // namespace sluice::sockets
