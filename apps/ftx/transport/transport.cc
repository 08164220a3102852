// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/transport/transport.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "apps/ftx/protocol/message.h"
#include "stack/wire/receive_room.h"
#include "tli/options.h"

namespace sluice::ftx {
namespace {

using enum wire::tpi::TliError;

Failure open_failure(const Error& error) {
  const bool privilege = error.code == EPERM || error.code == EACCES;
  return {privilege ? ExitCode::missing_privilege : ExitCode::stack_unusable, error.text};
}

/// What every driver holds of whose room nothing is known: a tenth of a queue of a thousand frames, the usual one.
constexpr std::size_t receive_room_least = 100 * 1472;

std::size_t receive_room_of(Stream& stream) {
  const auto room = stream.ioctl(wire::SLIOCRECEIVEROOM);
  return room && room->return_value > 0 ? static_cast<std::size_t>(room->return_value) : receive_room_least;
}

/// Asks the provider to fragment no datagram of either family. False where it does not know how: then it may.
bool forbid_fragments(tli::Endpoint& endpoint) {
  using namespace wire::xti;
  std::vector<std::byte> wanted;
  tli::put_option(wanted, T_INET_IP, T_IP_DONTFRAG, T_YES);
  tli::put_option(wanted, T_INET_IPV6, T_IPV6_DONTFRAG, T_YES);
  std::vector<std::byte> outcome(wanted.size());
  tli::t_optmgmt answer{.opt = tli::buffer_of(outcome)};
  const auto set = endpoint.t_optmgmt({.opt = tli::buffer_of(wanted), .flags = wire::tpi::T_NEGOTIATE}, answer);
  return set && answer.flags == wire::tpi::T_SUCCESS;
}

}  // namespace

Transport::Transport(std::unique_ptr<tli::Endpoint> endpoint, const wire::TransportAddress& local, bool never_fragments)
    : endpoint_(std::move(endpoint)),
      local_(local),
      never_fragments_(never_fragments),
      receive_room_(receive_room_of(endpoint_->stream())),
      buffer_(65536) {
  endpoint_->stream().set_nonblocking(true);
}

std::expected<std::unique_ptr<Transport>, Failure> Transport::open(StreamSet& set, Waiter& waiter,
                                                                   const StackDeclaration& stack,
                                                                   const wire::TransportAddress& local) {
  auto stream = open_stack(set, stack);
  if (!stream) {
    return std::unexpected(open_failure(stream.error()));
  }
  (*stream)->set_waiter(&waiter);
  auto endpoint = tli::Endpoint::t_open(std::move(*stream), nullptr);
  if (!endpoint) {
    return std::unexpected(
        Failure{ExitCode::bad_stack_file,
                tli::Endpoint::t_error("stack '" + stack.name + "' offers no transport service", endpoint.error())});
  }
  const bool never_fragments = forbid_fragments(**endpoint);
  std::array<std::byte, wire::TransportAddress::encoded_size_max> bytes{};
  tli::t_bind request;
  request.addr = {.maxlen = bytes.size(), .len = local.encode(bytes), .buf = bytes.data()};
  std::array<std::byte, wire::TransportAddress::encoded_size_max> answer{};
  tli::t_bind bound;
  bound.addr = {.maxlen = answer.size(), .len = 0, .buf = answer.data()};
  if (const auto done = (*endpoint)->t_bind(&request, &bound); !done) {
    const bool privilege = done.error().t_errno == TACCES;
    return std::unexpected(Failure{privilege ? ExitCode::missing_privilege : ExitCode::stack_unusable,
                                   tli::Endpoint::t_error("cannot bind to " + local.to_text(), done.error())});
  }
  const auto address = wire::TransportAddress::decode(ConstBytes(answer).first(bound.addr.len));
  return std::unique_ptr<Transport>(new Transport(std::move(*endpoint), address.value_or(local), never_fragments));
}

std::size_t Transport::tsdu_bytes() const {
  const std::int32_t tsdu = endpoint_->info().tsdu;
  return tsdu > 0 ? static_cast<std::size_t>(tsdu) : std::size_t{0};
}

namespace {

// XTI's buffers are not const; a call that sends does not write to them.
std::byte* writable(ConstBytes bytes) { return const_cast<std::byte*>(bytes.data()); }

/// Behind the first `count` of `parts`. What lies behind the last of them is one part with it. How many there are then.
std::size_t add_part(ConstBytes part, std::span<tli::t_iovec> parts, std::size_t count) {
  if (part.empty()) {
    return count;
  }
  if (count > 0 && parts[count - 1].iov_base + parts[count - 1].iov_len == part.data()) {
    parts[count - 1].iov_len += part.size();
    return count;
  }
  parts[count] = {writable(part), part.size()};
  return count + 1;
}

/// How many datagrams in front have one destination and one size, but for the last, which may be shorter, and can go in
/// one call.
std::size_t run_in(std::span<const Outgoing> datagrams) {
  const std::size_t size = datagrams.front().size();
  std::size_t bytes = size;
  std::size_t count = 1;
  while (count < datagrams.size() && count < tli::Endpoint::segments_max && datagrams[count - 1].size() == size &&
         datagrams[count].size() <= size && bytes + datagrams[count].size() <= tli::Endpoint::segments_bytes_max &&
         datagrams[count].to == datagrams.front().to) {
    bytes += datagrams[count++].size();
  }
  return count;
}

}  // namespace

bool Transport::send(Burst& burst) {
  std::array<tli::t_iovec, 2 * Burst::datagrams_max> parts;
  for (int errors = 0; !burst.left().empty();) {
    const std::span<const Outgoing> run = burst.left().first(run_in(burst.left()));
    std::size_t count = 0;
    for (const Outgoing& datagram : run) {
      count = add_part(datagram.front, parts, count);
      count = add_part(datagram.rest, parts, count);
    }
    const ConstBytes to = run.front().to.address();
    tli::t_unitdata unit;
    unit.addr = {.maxlen = to.size(), .len = to.size(), .buf = writable(to)};
    const auto sent = endpoint_->t_sndsudata(unit, std::span(parts).first(count), run.front().size());
    // TLI reports an error about an earlier datagram, perhaps another peer's, before it sends the next one.
    if (!sent && sent.error().t_errno == TLOOK && errors < burst_max) {
      take_error();
      ++errors;
    } else if (!sent && sent.error().t_errno == TFLOW) {
      return false;
    } else {
      burst.sent(run.size());
    }
  }
  return true;
}

void Transport::take_error() {
  std::array<std::byte, wire::TransportAddress::encoded_size_max> address{};
  tli::t_uderr error;
  error.addr = {.maxlen = address.size(), .len = 0, .buf = address.data()};
  const bool received = endpoint_->t_rcvuderr(&error).has_value();
  too_big_ |= received && error.error == EMSGSIZE;
  if (received && error.error == ECONNREFUSED && refused_.size() < burst_max) {
    refused_.emplace_back(ConstBytes(address).first(error.addr.len));
  }
}

bool Transport::receive(DatagramHandler& handler) {
  bool more = handler.takes_more();
  std::size_t bytes = 0;
  for (int count = 0; count < burst_max && bytes < burst_bytes && handler.takes_more(); ++count) {
    if (const std::size_t taken = take_run(handler); taken > 0) {
      bytes += taken;
      count += static_cast<int>(run_.size()) - 1;
      continue;
    }
    std::array<std::byte, wire::TransportAddress::encoded_size_max> address{};
    std::array<std::byte, data_header_bytes> header{};
    tli::t_unitdata unit;
    unit.addr = {.maxlen = address.size(), .len = 0, .buf = address.data()};
    unit.udata = {.maxlen = header.size(), .len = 0, .buf = header.data()};
    if (const auto shown = endpoint_->t_lookudata(unit); shown) {
      take_shown(handler, unit, *shown);
    } else if (shown.error().t_errno == TLOOK) {
      take_error();
    } else {
      more = false;
      break;
    }
  }
  for (const Peer& peer : std::exchange(refused_, {})) {
    handler.on_refused(peer);
  }
  if (std::exchange(too_big_, false)) {
    handler.on_too_big();
  }
  return more;
}

std::size_t Transport::take_run(DatagramHandler& handler) {
  std::array<std::byte, wire::TransportAddress::encoded_size_max> address{};
  tli::t_unitdata unit;
  unit.addr = {.maxlen = address.size(), .len = 0, .buf = address.data()};
  std::size_t segment = 0;
  const auto shown = endpoint_->t_showsudata(unit, segment);
  if (!shown || shown->empty()) {
    return 0;
  }
  run_.clear();
  for (Bytes left = *shown; !left.empty(); left = left.subspan(run_.back().size())) {
    run_.push_back(left.first(std::min(segment, left.size())));
    // The header, which may lie in two lines: the kernel has just written it, perhaps on another processor.
    hwy::Prefetch(left.data());
    hwy::Prefetch(left.data() + std::min(run_.back().size(), data_header_bytes) - 1);
  }
  handler.on_run(run_, Peer(ConstBytes(unit.addr.buf, unit.addr.len)));
  endpoint_->t_endsudata();
  return shown->size();
}

bool Transport::land(DatagramHandler& handler, const PayloadPlace& place, Bytes header, std::size_t datagram_bytes,
                     const Peer& from) {
  const std::size_t tag = place.opens != nullptr ? tag_bytes : 0;
  if (place.memory.empty() || place.memory.size() + tag != datagram_bytes - header.size()) {
    return false;
  }
  std::array<std::byte, tag_bytes> aside;  // what becomes of the tag
  const std::array parts{tli::t_iovec{header.data(), header.size()},
                         tli::t_iovec{place.memory.data(), place.memory.size()}, tli::t_iovec{aside.data(), tag}};
  if (place.opens == nullptr) {
    if (endpoint_->t_landudata(std::span(parts).first(2))) {
      handler.on_placed(header, datagram_bytes, from);
    }
    return true;
  }
  opening_->expect(*place.opens, header, place.memory.size());
  const auto landed = endpoint_->t_landudata(parts, OwnStage{.stage = opening_, .from = header.size()});
  if (landed) {
    handler.on_placed(header, datagram_bytes, from);
  } else if (landed.error().t_errno == TPROTO && opening_->refused()) {
    handler.on_forged();
  }
  return landed || landed.error().t_errno != TNOTSUPPORT;
}

void Transport::take_shown(DatagramHandler& handler, const tli::t_unitdata& unit, std::size_t datagram_bytes) {
  const Peer from(ConstBytes(unit.addr.buf, unit.addr.len));
  const Bytes header(unit.udata.buf, unit.udata.len);
  const PayloadPlace place =
      datagram_bytes > data_header_bytes ? handler.place(header, datagram_bytes, from) : PayloadPlace{};
  if (land(handler, place, header, datagram_bytes, from)) {
    return;
  }
  const tli::t_iovec whole{buffer_.data(), buffer_.size()};
  if (endpoint_->t_landudata(std::span(&whole, 1))) {
    handler.on_datagram(ConstBytes(buffer_).first(datagram_bytes), from);
  } else {
    endpoint_->t_skipudata();  // larger than any datagram of ours, if it is still there
  }
}

void Transport::drain(Duration time) {
  endpoint_->stream().set_nonblocking(false);
  [[maybe_unused]] const Status drained = endpoint_->stream().drain(time);
  endpoint_->stream().set_nonblocking(true);
}

ConstBytes host_of(ConstBytes address) {
  const auto decoded = wire::TransportAddress::decode(address);
  if (!decoded) {
    return address;
  }
  const ConstBytes ip = address.last(decoded->address.size());
  if (decoded->address.is_v4() || decoded->address.v6().is_ipv4_mapped()) {
    return ip.last(4);
  }
  return decoded->address.v6().is_link_local() ? ip : ip.first(8);
}

Peer peer_of(const wire::TransportAddress& address) {
  std::array<std::byte, wire::TransportAddress::encoded_size_max> bytes{};
  return Peer(ConstBytes(bytes).first(address.encode(bytes)));
}

}  // namespace sluice::ftx
