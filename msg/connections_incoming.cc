// SPDX-License-Identifier: Apache-2.0
// Connections that others have made: their calls, their messages on the way in, and the answers to these.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "msg/connections.h"

namespace sluice::msg {

using enum wire::tpi::TliError;

bool Endpoint::Connections::accept() {
  bool moved = false;
  for (std::uint32_t turn = 0; turn < calls_waiting_max; ++turn) {
    const auto event = endpoint_.tli_->t_look();
    if (event && *event != 0 && *event != tli::T_LISTEN) {  // a caller that has gone again
      tli::t_discon why;
      const bool told = endpoint_.tli_->t_rcvdis(&why).has_value();
      if (told && call_ && call_->sequence == why.sequence) {
        call_.reset();
      }
      moved = true;
      continue;
    }
    if (!call_) {
      if (!event || *event == 0) {
        endpoint_.broken_ = endpoint_.stream().write_refusal();
        break;
      }
      std::array<std::byte, Peer::encoded_size_max> address;
      tli::t_call call{.addr = {.maxlen = address.size(), .len = 0, .buf = address.data()}, .opt = {}, .udata = {}};
      if (const auto listened = endpoint_.tli_->t_listen(call); !listened) {
        static_cast<void>(passes(listened.error()));
        break;
      }
      call_ = Call{.from = Peer::decode(ConstBytes(address).first(call.addr.len)).value_or(Peer{}),
                   .sequence = call.sequence};
    }
    if (!answer_call()) {
      break;
    }
    moved = true;
  }
  return moved;
}

/// Accepts the call that is at hand, or refuses it. False: it waits for memory, since who called takes a refusal for
/// the end.
bool Endpoint::Connections::answer_call() {
  tli::t_call call{.addr = {}, .opt = {}, .udata = {}, .sequence = call_->sequence};
  const bool admits = call_->from.port != 0 && incoming_.size() < endpoint_.options_.connections_max;
  auto made = admits ? open_another() : fail(ENOBUFS);
  if (!made && made.error().code == ENOSR) {
    memory_awaited_.arm_after(memory_retry);
    return false;
  }
  if (made) {
    const auto accepted = accept_on(**made, call);
    if (!accepted && accepted.error().t_errno == TSYSERR && passes(accepted.error())) {
      return false;
    }
    if (!accepted) {
      made = fail(ECONNABORTED);
    }
  }
  const Peer from = std::exchange(call_, std::nullopt)->from;
  if (!made) {
    ++endpoint_.statistics_.callers_refused;
    static_cast<void>(endpoint_.tli_->t_snddis(&call));  // unless it has gone: the next event says so
    return true;
  }
  Incoming& incoming = incoming_.emplace_back();
  incoming.tli = std::move(*made);
  incoming.from = {from.address, 0};
  incoming.hello =
      std::make_unique<Timer>(endpoint_.stream().set().scheduler(), [&incoming] { incoming.expired = true; });
  incoming.hello->arm_after(hello_time);
  return true;
}

/// Some providers (`xtp`) accept only on a stream that has an address of its own; others have the listener's there.
tli::Outcome<void> Endpoint::Connections::accept_on(tli::Endpoint& accepting, tli::t_call& call) {
  auto accepted = endpoint_.tli_->t_accept(accepting, call);
  if (accepted || accepted.error().t_errno != TOUTSTATE || accepting.t_getstate() != tli::T_UNBND) {
    return accepted;
  }
  const auto bound = bind_any(accepting);
  return bound ? endpoint_.tli_->t_accept(accepting, call) : bound;
}

/// Ends the connection: its peer does not speak as docs/formats/msg.md says.
void Endpoint::Connections::malformed(Incoming& incoming) {
  ++endpoint_.statistics_.malformed;
  static_cast<void>(incoming.tli->t_snddis(nullptr));
  end(incoming);
}

void Endpoint::Connections::end(Incoming& incoming) {
  incoming.ended = true;
  incoming.tli->t_rcvplace({});
  if (const auto now = std::exchange(incoming.now, std::nullopt)) {
    endpoint_.lose(*now);
  }
}

/// What has come, at most a turn of it. Nothing is read from a peer that does not read its answers.
bool Endpoint::Connections::read(Incoming& incoming) {
  bool moved = false;
  std::uint64_t bytes = 0;
  for (std::size_t turn = 0; turn < turn_reads_max && bytes < turn_bytes_max && !incoming.ended; ++turn) {
    if (incoming.answers.size() >= answers_bytes_max) {
      break;
    }
    const std::uint64_t before = incoming.offset;
    if (!(incoming.now ? read_payload(incoming) : read_header(incoming))) {
      break;
    }
    bytes += incoming.offset > before ? incoming.offset - before : 0;
    moved = true;
  }
  if (incoming.now) {
    incoming.tli->t_rcvplace(place_of_next(incoming));
  }
  return moved;
}

/// Where the rest of the message goes; empty when it is thrown away.
Bytes Endpoint::Connections::place_of_next(const Incoming& incoming) const {
  Inbound& inbound = **incoming.now;
  const Bytes whole = Endpoint::place_of(inbound);
  const Bytes rest = whole.subspan(std::min<std::uint64_t>(incoming.offset, whole.size()));
  return rest.first(std::min<std::uint64_t>(rest.size(), inbound.total_bytes - incoming.offset));
}

/// How many bytes came; nothing when none did, and the connection may be at its end.
std::optional<std::size_t> Endpoint::Connections::receive(Incoming& incoming, Bytes place) {
  int flags = 0;
  const auto got = incoming.tli->t_rcv(place, flags);
  if (got) {
    return *got;
  }
  if (got.error().t_errno != TLOOK && passes(got.error())) {
    return std::nullopt;
  }
  if (got.error().t_errno == TLOOK) {
    const auto event = incoming.tli->t_look();
    if (event && *event == tli::T_ORDREL && incoming.tli->t_rcvrel()) {
      static_cast<void>(incoming.tli->t_sndrel());
    } else {
      static_cast<void>(incoming.tli->t_rcvdis(nullptr));
    }
  }
  end(incoming);
  return std::nullopt;
}

bool Endpoint::Connections::read_header(Incoming& incoming) {
  const auto got = receive(incoming, Bytes(incoming.header).subspan(incoming.header_bytes));
  if (!got) {
    return false;
  }
  incoming.header_bytes += *got;
  if (incoming.header_bytes == Frame::size) {
    incoming.header_bytes = 0;
    const auto frame = Frame::parse(incoming.header);
    frame ? act(incoming, *frame) : malformed(incoming);
  }
  return true;
}

void Endpoint::Connections::act(Incoming& incoming, const Frame& frame) {
  const bool greeted = incoming.from.port != 0;
  if (!greeted && frame.type == Frame::Type::hello) {
    incoming.from.port = frame.port;
    incoming.hello->cancel();
    return;
  }
  if (!greeted || frame.type != Frame::Type::message || frame.number != incoming.number + 1 ||
      frame.length > endpoint_.message_bytes_max_) {
    return malformed(incoming);
  }
  incoming.number = frame.number;
  incoming.offset = 0;
  incoming.now = endpoint_.admit({.peer = incoming.from, .bits = frame.tag, .total_bytes = frame.length});
  if ((*incoming.now)->refused) {
    answer(incoming, Frame::Type::refused);
  }
  if (frame.length == 0) {
    static_cast<void>(read_payload(incoming));
  }
}

bool Endpoint::Connections::read_payload(Incoming& incoming) {
  Inbound& inbound = **incoming.now;
  const std::uint64_t lacking = inbound.total_bytes - incoming.offset;
  if (lacking > 0) {
    Bytes place = place_of_next(incoming);
    if (place.empty()) {
      thrown_away_.resize(64 * 1024);
      place = Bytes(thrown_away_).first(std::min<std::uint64_t>(lacking, thrown_away_.size()));
    }
    const auto got = receive(incoming, place);
    if (!got) {
      return false;
    }
    incoming.offset += *got;
  }
  if (incoming.offset == inbound.total_bytes) {
    if (!inbound.refused) {
      answer(incoming, Frame::Type::done);
    }
    endpoint_.finish(*std::exchange(incoming.now, std::nullopt));
  }
  return true;
}

void Endpoint::Connections::refuse(const Inbound& inbound) {
  for (Incoming& incoming : incoming_) {
    if (incoming.now && &**incoming.now == &inbound) {
      incoming.tli->t_rcvplace({});
      answer(incoming, Frame::Type::refused);
    }
  }
}

void Endpoint::Connections::answer(Incoming& incoming, Frame::Type type) {
  FrameBytes bytes;
  Frame{.type = type, .number = incoming.number}.emit(bytes);
  incoming.answers.insert(incoming.answers.end(), bytes.begin(), bytes.end());
}

bool Endpoint::Connections::write_answers(Incoming& incoming) {
  if (incoming.answers.empty()) {
    return false;
  }
  const auto sent = incoming.tli->t_snd(incoming.answers, 0);
  if (!sent) {
    if (!passes(sent.error())) {
      end(incoming);
    }
    return false;
  }
  incoming.answers.erase(incoming.answers.begin(), incoming.answers.begin() + static_cast<std::ptrdiff_t>(*sent));
  return *sent > 0;
}

}  // namespace sluice::msg
