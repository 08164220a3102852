// SPDX-License-Identifier: Apache-2.0
// Connections that this endpoint makes: calls, messages on their way out, and the answers of the called.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "msg/connections.h"
#include "msg/failure.h"

namespace sluice::msg {

using enum wire::tpi::TliError;

void Endpoint::Connections::send(Send& send) {
  auto found = outgoing_.find(send.peer);
  if (found == outgoing_.end()) {
    if (outgoing_.size() >= endpoint_.options_.connections_max && !make_room()) {
      return endpoint_.decide(send, ENOBUFS);
    }
    found = outgoing_.try_emplace(send.peer).first;
    Outgoing& made = found->second;
    made.to = send.peer;
    made.due = true;
    made.retry = std::make_unique<Timer>(endpoint_.stream().set().scheduler(), [&made] { made.due = true; });
  }
  found->second.waiting.push_back(&send);
  static_cast<void>(advance(found->second));
  if (found->second.ended != 0) {
    outgoing_.erase(found);
  }
}

/// Closes a connection that has nothing to do.
bool Endpoint::Connections::make_room() {
  const auto idle = std::ranges::find_if(
      outgoing_, [](const auto& each) { return each.second.waiting.empty() && each.second.left.empty(); });
  if (idle == outgoing_.end()) {
    return false;
  }
  outgoing_.erase(idle);
  return true;
}

bool Endpoint::Connections::withdraw(Send& send) {
  const auto found = outgoing_.find(send.peer);
  if (found == outgoing_.end()) {
    return false;
  }
  Outgoing& outgoing = found->second;
  const auto place = std::ranges::find(outgoing.waiting, &send);
  if (place == outgoing.waiting.end() || (place == outgoing.waiting.begin() && outgoing.begun)) {
    return false;
  }
  outgoing.waiting.erase(place);
  return true;
}

void Endpoint::Connections::call(Outgoing& outgoing) {
  outgoing.due = false;
  ++outgoing.calls;
  auto made = open_another();
  if (!made) {
    return made.error().code == ENOSR ? call_again(outgoing, ENOSR) : end(outgoing, made.error().code);
  }
  if (const auto bound = bind_any(**made); !bound) {
    const int error = code_of(bound.error());
    return error == ENOSR ? call_again(outgoing, error) : end(outgoing, error);
  }
  std::array<std::byte, Peer::encoded_size_max> there;
  const tli::t_call request{
      .addr = {.maxlen = 0, .len = outgoing.to.encode(there), .buf = there.data()}, .opt = {}, .udata = {}};
  const auto asked = (*made)->t_connect(request, nullptr);
  outgoing.tli = std::move(*made);
  if (!asked && asked.error().t_errno != TNODATA && asked.error().t_errno != TLOOK) {
    call_again(outgoing, code_of(asked.error()));
  }
}

/// Nobody listens there yet, perhaps: it is tried as often as the module `rmpp` tries, and for as long.
void Endpoint::Connections::call_again(Outgoing& outgoing, int error) {
  if (outgoing.calls >= endpoint_.options_.calls_max) {
    return end(outgoing, error);
  }
  outgoing.tli.reset();
  outgoing.retry->arm_after(first_retry * (1 << std::min(outgoing.calls - 1, retry_doublings_max)));
}

bool Endpoint::Connections::advance(Outgoing& outgoing) {
  bool moved = false;
  if (outgoing.due) {
    call(outgoing);
    moved = true;
  }
  for (std::size_t turn = 0; turn < turn_reads_max && outgoing.ended == 0 && outgoing.tli && event(outgoing); ++turn) {
    moved = true;
  }
  return (outgoing.ended == 0 && outgoing.open && write(outgoing)) || moved;
}

/// Takes what the called has done; whether it has done anything.
bool Endpoint::Connections::event(Outgoing& outgoing) {
  const auto event = outgoing.tli->t_look();
  if (!event) {
    end(outgoing, ECONNRESET);
    return false;
  }
  switch (*event) {
    case tli::T_CONNECT:
      if (const auto done = outgoing.tli->t_rcvconnect(nullptr); !done) {
        if (passes(done.error())) {
          return false;
        }
        end(outgoing, code_of(done.error()));
        return false;
      }
      outgoing.open = true;
      Frame{.type = Frame::Type::hello, .port = endpoint_.address_.port}.emit(outgoing.header);
      outgoing.header_left = Frame::size;
      return true;
    case tli::T_DATA:
      return read_answers(outgoing);
    case tli::T_ORDREL:
      static_cast<void>(outgoing.tli->t_rcvrel());
      static_cast<void>(outgoing.tli->t_sndrel());
      end(outgoing, ECONNRESET);
      return false;
    case tli::T_DISCONNECT: {
      tli::t_discon why;
      static_cast<void>(outgoing.tli->t_rcvdis(&why));
      const int error = why.reason != 0 ? why.reason : ECONNRESET;
      outgoing.open ? end(outgoing, error) : call_again(outgoing, error);
      return true;
    }
    default:
      if (const int error = outgoing.tli->stream().write_refusal(); error != 0) {
        end(outgoing, error);
      }
      return false;
  }
}

bool Endpoint::Connections::read_answers(Outgoing& outgoing) {
  int flags = 0;
  const auto got = outgoing.tli->t_rcv(Bytes(outgoing.in).subspan(outgoing.in_bytes), flags);
  if (!got) {
    return false;
  }
  outgoing.in_bytes += *got;
  if (outgoing.in_bytes == Frame::size) {
    outgoing.in_bytes = 0;
    const auto frame = Frame::parse(outgoing.in);
    if (!frame || !take_answer(outgoing, *frame)) {
      ++endpoint_.statistics_.malformed;
      static_cast<void>(outgoing.tli->t_snddis(nullptr));
      end(outgoing, EPROTO);
    }
  }
  return true;
}

/// False for what is no answer that is due.
bool Endpoint::Connections::take_answer(Outgoing& outgoing, const Frame& frame) {
  const bool refused = frame.type == Frame::Type::refused;
  if (!refused && frame.type != Frame::Type::done) {
    return false;
  }
  if (!outgoing.left.empty()) {
    if (frame.number != outgoing.number - (outgoing.begun ? 1 : 0) - (outgoing.left.size() - 1)) {
      return false;
    }
    Send& send = *outgoing.left.front();
    outgoing.left.pop_front();
    endpoint_.decide(send, refused ? EXFULL : 0);
    return true;
  }
  // Only a refusal comes before all has left, and once. The rest of it goes on: the next header is behind it.
  if (!refused || !outgoing.begun || outgoing.answer || frame.number != outgoing.number) {
    return false;
  }
  outgoing.answer = EXFULL;
  return true;
}

void Endpoint::Connections::begin_next(Outgoing& outgoing) {
  const Send& send = *outgoing.waiting.front();
  outgoing.begun = true;
  outgoing.offset = 0;
  Frame{.type = Frame::Type::message, .number = ++outgoing.number, .tag = send.bits, .length = send.data.size()}.emit(
      outgoing.header);
  outgoing.header_left = Frame::size;
}

void Endpoint::Connections::has_left(Outgoing& outgoing) {
  Send& send = *outgoing.waiting.front();
  outgoing.waiting.pop_front();
  outgoing.begun = false;
  if (const auto answer = std::exchange(outgoing.answer, std::nullopt)) {
    endpoint_.decide(send, *answer);
  } else {
    outgoing.left.push_back(&send);
  }
}

/// Sends what the provider takes, at most a turn of it.
bool Endpoint::Connections::write(Outgoing& outgoing) {
  bool moved = false;
  std::size_t bytes = 0;
  for (std::size_t turn = 0; turn < turn_reads_max && bytes < turn_bytes_max; ++turn) {
    if (outgoing.header_left == 0 && !outgoing.begun) {
      if (outgoing.waiting.empty()) {
        break;
      }
      begin_next(outgoing);
    }
    std::array<std::byte, Frame::size> header = outgoing.header;
    const ConstBytes data = outgoing.begun ? outgoing.waiting.front()->data.subspan(outgoing.offset) : ConstBytes();
    const ConstBytes piece = data.first(std::min(data.size(), turn_bytes_max));
    // Nothing writes to it: XTI's t_iovec knows no const.
    const std::array<tli::t_iovec, 2> parts = {
        tli::t_iovec{header.data() + Frame::size - outgoing.header_left, outgoing.header_left},
        tli::t_iovec{const_cast<std::byte*>(piece.data()), piece.size()}};
    // A message is one data unit where the provider has such.
    const int flags = piece.size() < data.size() ? tli::T_MORE : 0;
    const auto sent = outgoing.tli->t_sndv(std::span(parts).first(piece.empty() ? 1 : 2), flags);
    if (!sent) {
      if (!passes(sent.error())) {
        end(outgoing, code_of(sent.error()));
      }
      break;
    }
    moved = true;
    const std::size_t of_header = std::min(*sent, outgoing.header_left);
    outgoing.header_left -= of_header;
    outgoing.offset += *sent - of_header;
    bytes += *sent;
    if (outgoing.begun && outgoing.header_left == 0 && outgoing.offset == outgoing.waiting.front()->data.size()) {
      has_left(outgoing);
    }
    if (*sent < parts[0].iov_len + piece.size()) {
      break;
    }
  }
  return moved;
}

/// What has no answer ends with the connection.
void Endpoint::Connections::end(Outgoing& outgoing, int error) {
  outgoing.ended = error != 0 ? error : ECONNRESET;
  for (std::deque<Send*>* const sends : {&outgoing.left, &outgoing.waiting}) {
    for (Send* const send : std::exchange(*sends, {})) {
      endpoint_.decide(*send, outgoing.ended);
    }
  }
}

}  // namespace sluice::msg
