// SPDX-License-Identifier: Apache-2.0
#include "sockets/server/listening_socket.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/passing.h"
#include "sockets/server/endpoints.h"
#include "sockets/server/stream_socket.h"

namespace sluice::sockets {

using wire::TransportAddress;

ListeningSocket::ListeningSocket(Host& host, const Identity& identity, Descriptor channel,
                                 std::unique_ptr<tli::Endpoint> endpoint, const TransportAddress& local,
                                 const EndpointOptions& options, Quotas::Share share, Quotas::Share memory)
    : Socket(host, identity, std::move(channel)), share_(std::move(share)), memory_(std::move(memory)) {
  options_ = options;
  endpoint_ = std::move(endpoint);
  wake_on_events(*endpoint_, [this] { host_.wake(*this); });
  local_ = local;
  watch();
}

Reply ListeningSocket::bind(const Address&, bool) { return refusal(EINVAL); }

Reply ListeningSocket::listen(int) { return {}; }

Reply ListeningSocket::connect(const Request&, Asker) { return refusal(EISCONN); }

SocketRecord ListeningSocket::record() {
  SocketRecord record = Socket::record();
  record.kind = SocketKind::listening;
  record.state = TCP_LISTEN;
  return record;
}

bool ListeningSocket::turn() {
  for (int taken = 0; taken < turn_callers_max; ++taken) {
    if (hung_up_ || !deliver() || !take_caller()) {
      return false;
    }
  }
  return true;
}

/// Whether there was one, or something else that waited.
bool ListeningSocket::take_caller() {
  const auto event = endpoint_->t_look();
  if (!event) {
    return false;
  }
  if (*event == tli::T_DISCONNECT) {
    return endpoint_->t_rcvdis(nullptr).has_value();  // a caller that is gone
  }
  if (*event != tli::T_LISTEN) {
    return false;
  }
  std::array<std::byte, TransportAddress::encoded_size_max> bytes{};
  tli::t_call call;
  call.addr = {.maxlen = bytes.size(), .len = 0, .buf = bytes.data()};
  if (!endpoint_->t_listen(call)) {
    return false;
  }
  accept(call);
  return true;
}

/// A caller whom the system has no descriptor for, or the program may have no more of or no memory for, is rejected.
void ListeningSocket::accept(const tli::t_call& call) {
  auto endpoint = host_.open_endpoint(SocketKind::stream);
  auto pair = host_.make_pair(SocketKind::stream);
  if (!endpoint || !pair) {
    return reject(call);
  }
  options_.apply(**endpoint);
  const Buffers wanted = buffers_of(**endpoint);
  auto granted = host_.quotas().take_connection(identity_.user, wanted);
  if (!granted) {
    return reject(call);
  }
  if (granted->buffers != wanted) {
    set_buffers(**endpoint, granted->buffers);
  }
  if (!endpoint_->t_accept(**endpoint, call)) {
    return;  // T_DISCONNECT waits: the caller has gone
  }
  const Identity identity{
      .inode = pair->inode, .user = identity_.user, .process = identity_.process, .family = identity_.family};
  auto socket = std::make_unique<StreamSocket>(host_, identity, std::move(pair->ours), std::move(*endpoint), options_,
                                               std::move(*granted));
  const Reply names = socket->names();
  if (host_.adopt(std::move(socket)) == 0) {
    caller_ = {.local = names.answer.local, .peer = names.answer.peer};
    waiting_ = std::move(pair->program);
  }
}

void ListeningSocket::reject(const tli::t_call& call) { static_cast<void>(endpoint_->t_snddis(&call)); }

/// Whether nobody waits for room any more.
bool ListeningSocket::deliver() {
  while (waiting_ && writable_) {
    const int error = send_message(channel_.get(), std::as_bytes(std::span(&caller_, 1)), waiting_.get());
    if (error == EAGAIN) {
      await_room();
    } else if (error != EINTR) {
      waiting_ = Descriptor();  // delivered, or the program has gone
    }
  }
  return !waiting_;
}

}  // namespace sluice::sockets
