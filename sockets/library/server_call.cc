// SPDX-License-Identifier: Apache-2.0
#include "sockets/library/server_call.h"

#include <pthread.h>
#include <sys/un.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "sockets/library/system.h"

namespace sluice::sockets {
namespace {

constinit sockaddr_un server{};
constinit pthread_once_t looked = PTHREAD_ONCE_INIT;

/// As the environment was when the program began: some programs make themselves a new one.
void look_for_server() {
  const char* const path = std::getenv(path_variable);
  if (path != nullptr && std::strlen(path) < sizeof server.sun_path) {
    server.sun_family = AF_UNIX;
    std::strcpy(server.sun_path, path);
  }
}

__attribute__((constructor)) void look_in_time() { static_cast<void>(has_server()); }

/// The room for one descriptor beside a message.
struct Rights {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int))] = {};
};

bool send_request(int channel, const Request& request, int shown) {
  iovec part{.iov_base = const_cast<Request*>(&request), .iov_len = sizeof request};
  Rights room;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (shown >= 0) {
    header.msg_control = room.bytes;
    header.msg_controllen = sizeof room.bytes;
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof shown);
    std::memcpy(CMSG_DATA(rights), &shown, sizeof shown);
  }
  ssize_t sent = 0;
  do {
    sent = system_calls().sendmsg(channel, &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof request);
}

int connect_to_server() {
  if (!has_server()) {
    return -1;
  }
  const int channel = system_calls().socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  int connected = -1;
  do {
    connected = system_calls().connect(channel, reinterpret_cast<const sockaddr*>(&server), sizeof server);
  } while (channel >= 0 && connected != 0 && errno == EINTR);
  if (channel >= 0 && connected != 0) {
    system_calls().close(channel);
    return -1;
  }
  return channel;
}

}  // namespace

bool has_server() {
  static_cast<void>(::pthread_once(&looked, look_for_server));
  return server.sun_family == AF_UNIX;
}

bool receive_passed(int channel, void* place, std::size_t size, int flags, std::size_t& got, int& descriptor) {
  iovec part{.iov_base = place, .iov_len = size};
  Rights room;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = room.bytes;
  header.msg_controllen = sizeof room.bytes;
  const ssize_t received = system_calls().recvmsg(channel, &header, flags);
  if (received < 0) {
    return false;
  }
  got = static_cast<std::size_t>(received);
  descriptor = -1;
  for (cmsghdr* one = CMSG_FIRSTHDR(&header); one != nullptr; one = CMSG_NXTHDR(&header, one)) {
    if (one->cmsg_level == SOL_SOCKET && one->cmsg_type == SCM_RIGHTS) {
      std::memcpy(&descriptor, CMSG_DATA(one), sizeof descriptor);
    }
  }
  return true;
}

void ask_server(const Request& request, int shown, Answer& answer, int* passed) {
  answer = Answer{};
  answer.error = ECONNRESET;
  int descriptor = -1;
  const int kept = errno;
  const int channel = connect_to_server();
  if (channel >= 0) {
    std::size_t got = 0;
    bool heard = false;
    if (send_request(channel, request, shown)) {
      do {
        heard = receive_passed(channel, &answer, sizeof answer, MSG_CMSG_CLOEXEC, got, descriptor);
      } while (!heard && errno == EINTR);
    }
    system_calls().close(channel);
    if (!heard || got != sizeof answer || answer.version != protocol_version) {
      answer = Answer{};
      answer.error = ECONNRESET;
    }
  }
  if (passed != nullptr) {
    *passed = descriptor;
  } else if (descriptor >= 0) {
    system_calls().close(descriptor);
  }
  errno = kept;
}

}  // namespace sluice::sockets
