// SPDX-License-Identifier: Apache-2.0
#include "msg/connections.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "msg/failure.h"

namespace sluice::msg {

using enum wire::tpi::TliError;

/// A stream like the endpoint's own, for one connection.
Result<std::unique_ptr<tli::Endpoint>> Endpoint::Connections::open_another() {
  auto stream = endpoint_.options_.another_stream();
  if (!stream) {
    return std::unexpected(std::move(stream.error()));
  }
  (*stream)->set_waiter(endpoint_.stream().waiter());
  auto opened = tli::Endpoint::t_open(std::move(*stream), nullptr);
  if (!opened) {
    return failed_in("t_open", opened.error());
  }
  (*opened)->stream().set_nonblocking(true);
  return std::move(*opened);
}

/// Whether what failed is to be tried again: the provider is busy, an event comes first, or the pool is exhausted, for
/// which no connection ends. "TSYSERR with ENOSR" leaves everything as it was.
bool Endpoint::Connections::passes(const tli::Failure& failure) {
  if (failure.t_errno == TSYSERR && failure.system_errno == ENOSR) {
    memory_awaited_.arm_after(memory_retry);
    return true;
  }
  return failure.t_errno == TFLOW || failure.t_errno == TLOOK || failure.t_errno == TNODATA;
}

/// At the endpoint's address, and any port.
tli::Outcome<void> Endpoint::Connections::bind_any(tli::Endpoint& stream) {
  std::array<std::byte, Peer::encoded_size_max> here;
  const tli::t_bind bind{
      .addr = {.maxlen = 0, .len = Peer{endpoint_.address_.address, 0}.encode(here), .buf = here.data()}, .qlen = 0};
  return stream.t_bind(&bind, nullptr);
}

Endpoint::Connections::~Connections() {
  farewell();
  for (Incoming& incoming : incoming_) {
    if (incoming.now) {
      endpoint_.lose(*incoming.now);
    }
  }
}

/// What has been answered must arrive, and what comes back be read: a connection that is closed earlier is reset, and
/// takes with it what its other end has not read.
void Endpoint::Connections::farewell() {
  Waiter* const waiter = endpoint_.stream().waiter();
  for (auto& [to, outgoing] : outgoing_) {
    if (outgoing.open && outgoing.waiting.empty() && outgoing.left.empty()) {
      static_cast<void>(outgoing.tli->t_sndrel());
    }
  }
  const auto speaks = [](const Incoming& incoming) {
    return incoming.tli->t_getstate() == tli::T_DATAXFER && incoming.number > 0 && !incoming.now;
  };
  for (Incoming& incoming : incoming_) {
    if (speaks(incoming) && incoming.answers.empty()) {
      static_cast<void>(incoming.tli->t_sndrel());
    }
  }
  if (waiter == nullptr) {
    return;
  }
  const TimePoint end_time = waiter->now() + farewell_time;
  const auto waits = [this] {
    return std::ranges::any_of(incoming_, [](Incoming& incoming) {
      const auto event = incoming.tli->t_look();
      if (event && *event == tli::T_ORDREL) {
        static_cast<void>(incoming.tli->t_rcvrel());
      }
      return incoming.tli->t_getstate() == tli::T_OUTREL && event && *event != tli::T_DISCONNECT;
    });
  };
  while (waits() && waiter->now() < end_time && waiter->wait(end_time)) {
  }
}

bool Endpoint::Connections::progress() {
  bool moved = accept();
  for (auto at = incoming_.begin(); at != incoming_.end();) {
    if (std::exchange(at->expired, false)) {
      malformed(*at);
    }
    moved |= !at->ended && read(*at);
    moved |= !at->ended && write_answers(*at);
    at = at->ended ? incoming_.erase(at) : std::next(at);
  }
  for (auto at = outgoing_.begin(); at != outgoing_.end();) {
    moved |= advance(at->second);
    at = at->second.ended != 0 ? outgoing_.erase(at) : std::next(at);
  }
  return moved;
}

// ---- Those who call ----

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
  return moved;
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
    const Bytes whole = Endpoint::place_of(inbound);
    Bytes place = whole.subspan(std::min<std::uint64_t>(incoming.offset, whole.size()));
    if (place.empty()) {
      thrown_away_.resize(64 * 1024);
      place = thrown_away_;
    }
    const auto got = receive(incoming, place.first(std::min<std::uint64_t>(place.size(), lacking)));
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

// ---- Those who are called ----

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
    const auto sent = outgoing.tli->t_sndv(std::span(parts).first(piece.empty() ? 1 : 2), 0);
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
