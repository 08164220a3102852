// SPDX-License-Identifier: Apache-2.0
#pragma once

// A world: two hosts on one wire, what a program does to them, and what it sees. Worlds that differ in their paths, or
// in whether primitives travel as native descriptors or as bytes, must see the same.
//
// What is not compared, since it differs for good reasons:
//   - what a module has counted of data that nobody has read: it is verified when it is read. Counters are compared
//     once everything has been read
//   - the order in which messages are verified: those that somebody materializes early are before those that wait to be
//   read
//   - what waits: until it is read, a message whose checksum does not hold is among those that wait (poll() calls the
//     stream readable, marks count it). Marks are far away here, and poll() is asked after nread(), which looks first
//   - several datagrams in one message are one where messages wait, and get one error: the driver's marks are far away,
//     too, they go to a port and a host that are there, and neighbours are known. Where one is forgotten in the end and
//     does not answer, how often that is said. Nor is what says that a super-frame came whole or was split; nor, since
//     a queue is served some messages at a time, which host acts before the other
//   - memory: what fault's in_flight_bytes and ip's reassembly_bytes_max bound is larger here than what there is
//   - passes: touches, `materialized`

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "stack/head/stream.h"
#include "stack/modules/ip.h"
#include "stack/modules/timod.h"
#include "stack/modules/udp.h"
#include "tests/differential/choices.h"
#include "tests/differential/devices.h"
#include "tests/differential/modules.h"
#include "tli/endpoint.h"

namespace sluice::differential {

/// Everything about a world but its path.
struct Setup {
  bool raw = false;  // streams without protocols, through read and putmsg; else TLI over udp and ip
  std::uint64_t seed = 0;
  std::size_t mtu = 1500;
  WireSettings wire;
  bool v6 = true;
  HeadOptions head;
  struct Side {
    bool checksum = true;
    bool bound = true;
    ProcessingMode mode = ProcessingMode::fused;  // of the world that is tested
    std::vector<Drawn> low;                       // from the driver up
    std::vector<Drawn> middle;                    // between ip and udp
    std::vector<Drawn> high;                      // above udp
  };
  std::array<Side, 2> sides;
};

/// One thing that a program does, or that happens.
struct Operation {
  enum class Act : std::uint8_t {
    send,
    receive,
    look,
    pass_time,
    run,
    damage,
    repeat,
    push,
    pop,
    set_mode,
    set_room,
    flush,
    options,
    compare_counters,
  };
  Act act = Act::run;
  std::size_t side = 0;
  std::size_t size = 0;
  std::size_t segment = 0;  // send: of so many bytes each; 0: one datagram
  std::size_t how = 0;      // a variant of it
  std::uint64_t seed = 0;
  Drawn module;
};

class World {
 public:
  static constexpr int rounds_max = 2000;

  /// What a world differs in: its paths, and whether primitives are bytes at every queue.
  enum class Variant : std::uint8_t { layered, tested, encoded };

  World(const Setup& setup, Variant variant)
      : setup_(setup),
        tested_(variant != Variant::layered),
        set_({.defer_bytes_min = setup.seed % 4 == 0 ? std::size_t{1024} : 0,
              .encode_primitives = variant == Variant::encoded,
              .seed = setup.seed}) {
    for (std::size_t side = 0; side < 2; ++side) {
      open(side);
    }
    for (std::size_t side = 0; side < 2; ++side) {
      hosts_[side].end->connect(log, wires_[side], wires_[1 - side]);
    }
    if (!setup_.raw) {
      open_transport();
    }
    run();
    if (setup_.wire.segments) {
      meet();
    }
  }

  void apply(const Operation& operation) {
    using enum Operation::Act;
    Host& host = hosts_[operation.side];
    Prng prng(operation.seed);
    switch (operation.act) {
      case send:
        setup_.raw ? write(host, operation, prng) : send_unit(host, operation, prng);
        break;
      case receive:
        receive_some(host, operation, prng);
        break;
      case look:
        look_at(host, prng);
        break;
      case pass_time:
        pass(std::chrono::milliseconds(operation.size));
        break;
      case run:
        this->run();
        break;
      case damage:
        host.end->out().damage_next();
        break;
      case repeat:
        if (!setup_.raw) {
          host.end->in().repeat();
        }
        break;
      case push:
        add(host, operation.module);
        break;
      case pop:
        remove(host, operation.how);
        break;
      case set_mode:
        if (tested_) {
          host.stream->set_mode(operation.how % 2 == 0 ? ProcessingMode::fused : ProcessingMode::layered);
        }
        break;
      case set_room:
        host.end->set_room(operation.how % 2 == 0);
        break;
      case flush:
        log.add(fmt::format("flush {}", host.stream->flush(flush_write).has_value()));
        break;
      case options:
        host.stream->set_read_options(
            {static_cast<ReadMode>(operation.how % 3), static_cast<ProtocolMode>(operation.seed % 3)});
        break;
      case compare_counters:
        compare();
        break;
    }
  }

  /// Everything arrives and is read, and what has been counted goes to the log.
  void finish() {
    for (Host& host : hosts_) {
      host.end->set_room(true);
    }
    for (const int seconds : {0, 1, 1, 1, 1, 10, 120}) {
      pass(std::chrono::seconds(seconds));
      drain();
    }
    tell_counters();
  }
  void tell_captures() {
    for (Host& host : hosts_) {
      log.add("captured", host.captured);
    }
  }
  /// Takes all down: every buffer must have come home.
  void close() {
    for (Host& host : hosts_) {
      host.endpoint.reset();
      host.owned.reset();
    }
    tell_captures();
  }

  Log log;

 private:
  static constexpr std::uint16_t port = 5000;
  static constexpr std::size_t control_size = 12;

  struct Host {
    std::vector<std::byte> captured;
    std::shared_ptr<RecordingLink> link;  // unless raw
    End* end = nullptr;
    std::unique_ptr<Stream> owned;  // raw
    std::unique_ptr<tli::Endpoint> endpoint;
    Stream* stream = nullptr;
    std::size_t pushed = 0;  // above what it was opened with
    std::string_view name;
  };

  void require(bool good, const char* what) {
    if (!good) {
      log.add(fmt::format("could not {}", what));
    }
  }

  void open(std::size_t side) {
    Host& host = hosts_[side];
    host.name = side == 0 ? "a" : "b";
    std::unique_ptr<Module> bottom;
    if (setup_.raw) {
      auto driver = std::make_unique<RecordingDriver>(host.name);
      host.end = driver.get();
      if (side == 1) {
        driver->meet(static_cast<RecordingDriver&>(*hosts_[0].end));
        static_cast<RecordingDriver&>(*hosts_[0].end).meet(*driver);
      }
      bottom = std::move(driver);
    } else {
      host.link = std::make_shared<RecordingLink>(set_, host.name, setup_.mtu, setup_.wire);
      host.end = host.link.get();
      bottom = std::make_unique<dlpi::LinkStream>("recording", dlpi::LinkStream::Style::one,
                                                  [link = host.link](StreamSet&, std::uint32_t) { return link; });
    }
    host.owned = std::move(*Stream::open(set_, std::move(bottom), setup_.head));
    host.stream = host.owned.get();
    host.stream->set_nonblocking(true);
    host.stream->head().read_queue().set_marks(setup_.head.read_marks);
    if (setup_.wire.segments) {
      host.stream->chain().modules().back()->write_queue().set_marks(setup_.head.read_marks);
    }
    host.stream->set_mode(tested_ ? setup_.sides[side].mode : ProcessingMode::layered);
    for (const Drawn& drawn : setup_.sides[side].low) {
      push(host, make_module(drawn, host.captured));
    }
  }

  void push(Host& host, std::unique_ptr<Module> module) {
    if (setup_.wire.segments) {
      module->write_queue().set_marks(setup_.head.read_marks);
    }
    require(host.stream->push(std::move(module)).has_value(), "push");
  }

  /// ip talks to the driver when it is pushed, so the ends must be connected.
  void open_transport() {
    for (std::size_t side = 0; side < 2; ++side) {
      Host& host = hosts_[side];
      const Setup::Side& drawn_side = setup_.sides[side];
      ip::Config config{.addresses = {*wire::IpPrefix::from_text(fmt::format("10.80.0.{}/24", side + 1))},
                        .gateway_v4 = {},
                        .gateway_v6 = {}};
      if (setup_.v6) {
        config.addresses.push_back(*wire::IpPrefix::from_text(fmt::format("fd00:80::{}/64", side + 1)));
      }
      config.reassembly_bytes_max = std::size_t{1} << 30;
      push(host, std::make_unique<Ip>(set_, config));
      for (const Drawn& drawn : drawn_side.middle) {
        push(host, make_module(drawn, host.captured));
      }
      push(host, std::make_unique<Udp>(drawn_side.checksum));
      for (const Drawn& drawn : drawn_side.high) {
        push(host, make_module(drawn, host.captured));
      }
      push(host, std::make_unique<Timod>());
      auto opened = tli::Endpoint::t_open(std::move(host.owned), nullptr);
      require(opened.has_value(), "open an endpoint");
      host.endpoint = std::move(*opened);
      if (drawn_side.bound) {
        bind(host, port);
      }
    }
  }

  void bind(Host& host, std::uint16_t wanted) {
    std::array<std::byte, wire::TransportAddress::encoded_size_max> address;
    const wire::IpAddress any = setup_.v6 ? wire::IpAddress(wire::Ipv6Address{}) : wire::IpAddress();
    const std::size_t size = wire::TransportAddress{any, wanted}.encode(address);
    const tli::t_bind request{.addr = {.maxlen = 0, .len = size, .buf = address.data()}, .qlen = 0};
    log.add(fmt::format("bind {}", host.endpoint->t_bind(&request, nullptr).has_value()));
  }

  /// Everybody gets datagrams from everybody, over either protocol and undamaged, so that neighbours are known.
  void meet() {
    constexpr std::uint64_t rounds = 6;
    for (std::uint64_t seed = 0; seed < 2 * rounds; ++seed) {
      for (Host& host : hosts_) {
        Prng prng(seed);
        send_unit(host, {.act = Operation::Act::send, .size = 1, .segment = 1, .module = {}}, prng);
      }
      pass(std::chrono::seconds(1));
    }
    drain();
    for (Host& host : hosts_) {
      host.end->out().begin_damage();
    }
  }

  // ---- Time ----

  void run() {
    for (int round = 0; round < rounds_max; ++round) {
      bool moved = false;
      for (Host& host : hosts_) {
        moved = host.end->deliver() || moved;
      }
      moved = set_.scheduler().poll(now_) || moved;
      if (!moved) {
        return;
      }
    }
  }
  void pass(Duration time) {
    const TimePoint end = now_ + time;
    for (int round = 0; round < rounds_max && set_.scheduler().next_deadline() <= end; ++round) {
      now_ = std::max(now_, set_.scheduler().next_deadline());
      run();
    }
    now_ = end;
    run();
  }

  // ---- TLI ----

  wire::TransportAddress target(const Host& host, Prng& prng, bool there) const {
    const std::uint64_t kind = there ? 2 : prng.below(16);
    const std::size_t peer = host.name == "a" ? 2 : 1;
    const std::size_t number = kind == 0 ? 9 : peer;  // 9: nobody
    const bool v6 = setup_.v6 && prng.below(2) == 0;
    const std::string text = v6 ? fmt::format("fd00:80::{}", number) : fmt::format("10.80.0.{}", number);
    return {*wire::IpAddress::from_text(text), kind == 1 ? std::uint16_t{7} : port};
  }

  void send_unit(Host& host, const Operation& operation, Prng& prng) {
    std::vector<std::byte> memory(operation.size + 16);
    prng.fill(memory);
    const std::size_t offset = prng.below(16);
    std::vector<tli::t_iovec> parts;
    std::size_t left = operation.size;
    for (std::size_t count = 1 + operation.how % 9; count > 0; --count) {
      const std::size_t size = count == 1 ? left : prng.below(left + 1);
      parts.push_back({memory.data() + offset + (operation.size - left), size});
      left -= size;
    }
    std::array<std::byte, wire::TransportAddress::encoded_size_max> address;
    const std::size_t address_size = target(host, prng, operation.segment != 0).encode(address);
    tli::t_unitdata unit;
    unit.addr = {.maxlen = 0, .len = address_size, .buf = address.data()};
    const bool as_units = operation.segment != 0 && prng.below(3) == 0;
    const tli::Outcome<> sent =
        as_units ? send_units(host, unit, Bytes(memory).subspan(offset, operation.size), operation.segment)
        : operation.segment != 0 ? host.endpoint->t_sndsudata(unit, parts, operation.segment)
                                 : host.endpoint->t_sndvudata(unit, parts);
    std::ranges::fill(memory, std::byte{0xee});  // it is the program's again
    log.add(fmt::format("{} sends {}: {}", host.name, operation.size, sent ? 0 : sent.error().t_errno));
    if (!sent && sent.error().t_errno == wire::tpi::TLOOK) {
      take_error(host);
    }
  }

  /// In one call, as data units of `segment` bytes each.
  tli::Outcome<> send_units(Host& host, tli::t_unitdata unit, Bytes data, std::size_t segment) {
    std::vector<tli::t_unitdata> units;
    for (std::size_t at = 0; at < data.size(); at += segment) {
      const Bytes piece = data.subspan(at, std::min(segment, data.size() - at));
      unit.udata = {.maxlen = 0, .len = piece.size(), .buf = piece.data()};
      units.push_back(unit);
    }
    const auto sent = host.endpoint->t_sndmudata(units);
    log.add(fmt::format("{} of {} went", sent.value_or(0), units.size()));
    return sent ? tli::Outcome<>() : std::unexpected(sent.error());
  }

  /// Several datagrams in one message get one error: where there are such, all that are there are taken, and those that
  /// say the same as the one before are told once.
  void take_error(Host& host) {
    std::string before;
    for (int count = 0; count < (setup_.wire.segments ? 5000 : 1); ++count) {
      std::array<std::byte, 64> address;
      std::array<std::byte, 64> options;
      tli::t_uderr error{.addr = {.maxlen = 64, .len = 0, .buf = address.data()},
                         .opt = {.maxlen = 64, .len = 0, .buf = options.data()},
                         .error = 0};
      const auto taken = host.endpoint->t_rcvuderr(&error);
      if (!taken && count > 0) {
        return;
      }
      const ConstBytes from = ConstBytes(address).first(error.addr.len);
      std::string said =
          fmt::format("{} error {} {} {}", host.name, taken ? 0 : taken.error().t_errno, error.error, as_text(from));
      if (said != before) {
        log.add(said);
      }
      before = std::move(said);
    }
  }

  /// Of its own, so that a sanitizer knows its ends, and with whatever it held before: clearing it would take longer
  /// than all else.
  static std::unique_ptr<std::byte[]> memory_of(std::size_t size) {
    return std::make_unique_for_overwrite<std::byte[]>(size);
  }

  /// The places that `prng` draws for up to `room` bytes in `memory`, which has 64 more.
  static std::vector<tli::t_iovec> places(std::byte* memory, std::size_t room, Prng& prng) {
    std::vector<tli::t_iovec> parts;
    std::size_t at = prng.below(8);
    for (std::size_t count = 1 + prng.below(5); count > 0; --count) {
      const std::size_t left = room + 8 - at;
      const std::size_t size = count == 1 ? left : prng.below(left + 1);
      parts.push_back({memory + at, size});
      at += size;
    }
    return parts;
  }
  static std::vector<std::byte> gathered(const std::vector<tli::t_iovec>& parts, std::size_t size) {
    std::vector<std::byte> bytes;
    for (const tli::t_iovec& part : parts) {
      const std::size_t take = std::min(part.iov_len, size - bytes.size());
      bytes.insert(bytes.end(), part.iov_base, part.iov_base + take);
    }
    return bytes;
  }

  enum class Took { one, none };

  Took receive_unit(Host& host, std::size_t how, std::size_t room, Prng& prng) {
    std::array<std::byte, 64> address;
    std::array<std::byte, 64> options;
    const std::unique_ptr<std::byte[]> memory = memory_of(room + 64);
    const std::vector<tli::t_iovec> parts = places(memory.get(), room, prng);
    tli::t_unitdata unit{.addr = {.maxlen = how % 16 == 15 ? 3U : 64U, .len = 0, .buf = address.data()},
                         .opt = {.maxlen = 64, .len = 0, .buf = options.data()},
                         .udata = {.maxlen = prng.below(64), .len = 0, .buf = memory.get()}};
    int flags = 0;
    tli::Outcome<std::size_t> received;
    if (how % 2 == 0) {
      received = host.endpoint->t_rcvvudata(unit, parts, flags);
    } else {
      received = look_then_take(host, how, unit, parts, flags);
    }
    if (!received && received.error().t_errno == wire::tpi::TNODATA) {
      return Took::none;
    }
    if (received) {
      log.add(fmt::format("{} gets {} flags {} from {} {}", host.name, *received, flags,
                          as_text(ConstBytes(address).first(unit.addr.len)),
                          as_text(ConstBytes(options).first(unit.opt.len))),
              gathered(parts, *received));
      return Took::one;
    }
    log.add(fmt::format("{} gets error {} {}", host.name, static_cast<int>(received.error().t_errno),
                        received.error().system_errno));
    if (received.error().t_errno == wire::tpi::TLOOK) {
      take_error(host);
      return Took::one;
    }
    return received.error().t_errno == wire::tpi::TBUFOVFLW ? Took::one : Took::none;
  }

  /// The data units that are there, several at once where they came together.
  void receive_segments(Host& host, const Operation& operation) {
    const bool shows = operation.how % 3 == 1;
    const std::size_t room = shows ? 70'000 : operation.size;  // showing needs none, so that parts would not compare
    // All that is there, since how many calls take it depends on what came together.
    for (int count = 0; count < 10'000'000; ++count) {
      Prng prng(operation.seed);  // the same room however many calls it takes
      std::array<std::byte, 64> address;
      std::array<std::byte, 64> options;
      const std::unique_ptr<std::byte[]> memory = memory_of(room + 64);
      const std::vector<tli::t_iovec> parts = places(memory.get(), room, prng);
      tli::t_unitdata unit{.addr = {.maxlen = 64, .len = 0, .buf = address.data()},
                           .opt = {.maxlen = 64, .len = 0, .buf = options.data()},
                           .udata = {}};
      const auto told = [&](std::size_t segment, int flags, std::span<const std::byte> bytes) {
        do {
          const std::size_t size = std::min(segment, bytes.size());
          log.add(fmt::format("{} gets {} flags {} from {} {}", host.name, size, flags,
                              as_text(ConstBytes(address).first(unit.addr.len)),
                              as_text(ConstBytes(options).first(unit.opt.len))),
                  bytes.first(size));
          bytes = bytes.subspan(size);
        } while (!bytes.empty());
      };
      std::size_t segment = 0;
      if (shows) {
        const auto shown = host.endpoint->t_showsudata(unit, segment);
        if (shown && !shown->empty()) {
          told(segment, 0, *shown);
          std::ranges::fill(*shown, std::byte{0xdd});  // "The bytes are the caller's to change"
          host.endpoint->t_endsudata();
          continue;
        }
      }
      int flags = 0;
      const auto received = host.endpoint->t_rcvsudata(unit, parts, segment, flags);
      if (received) {
        told(segment, flags, gathered(parts, *received));
        if (*received == 0 && (flags & tli::T_MORE) != 0) {
          return;  // there is no room
        }
        continue;
      }
      if (received.error().t_errno != wire::tpi::TLOOK) {
        log.add(fmt::format("{} gets error {}", host.name, static_cast<int>(received.error().t_errno)));
        return;
      }
      take_error(host);
    }
  }

  /// What is shown of a unit that is refuted is nobody's business; of a good one it is its front.
  tli::Outcome<std::size_t> look_then_take(Host& host, std::size_t how, tli::t_unitdata& unit,
                                           const std::vector<tli::t_iovec>& parts, int& flags) {
    for (int tries = 0; tries < 1000; ++tries) {
      auto shown = host.endpoint->t_lookudata(unit);
      if (!shown) {
        if (shown.error().t_errno == wire::tpi::TOUTSTATE) {
          return host.endpoint->t_rcvvudata(unit, parts, flags);  // the rest of one that did not fit
        }
        return shown;
      }
      const std::vector<std::byte> front(unit.udata.buf, unit.udata.buf + unit.udata.len);
      const std::size_t room = std::transform_reduce(parts.begin(), parts.end(), std::size_t{0}, std::plus<>{},
                                                     std::mem_fn(&tli::t_iovec::iov_len));
      if (how % 8 == 7) {
        host.endpoint->t_skipudata();
        continue;
      }
      auto landed = room < *shown ? host.endpoint->t_rcvvudata(unit, parts, flags) : host.endpoint->t_landudata(parts);
      if (!landed && landed.error().t_errno == wire::tpi::TNODATA && room >= *shown) {
        continue;
      }
      const bool whole = landed && room >= *shown;
      require(!whole || *landed == *shown, "land what was shown");
      require(!whole || front == gathered(parts, front.size()), "show the front");
      return landed;
    }
    return tli::failed(wire::tpi::TNODATA);
  }

  void look_at(Host& host, Prng& prng) {
    if (setup_.raw) {
      std::vector<std::byte> control(prng.below(20));
      std::vector<std::byte> data(prng.below(300));
      const auto peeked = host.stream->peek(Bytes(control), Bytes(data), prng.below(4) == 0);
      const std::optional<Received> seen = peeked.value_or(std::nullopt);
      tell(host, "peeks", seen, control, data);
      const Stream::Waiting waiting = host.stream->nread();
      log.add(fmt::format("{} nread {}", host.name, waiting.first_data_bytes));
      const Events events = host.stream->poll();
      log.add(fmt::format("{} poll {} {} {}", host.name, events.readable, events.urgent, events.writable));
      return;
    }
    if (host.endpoint->t_getstate() == tli::T_UNBND) {
      bind(host, port);
    }
    log.add(fmt::format("{} look {}", host.name, host.endpoint->t_look().value_or(99)));
  }

  // ---- Raw ----

  void write(Host& host, const Operation& operation, Prng& prng) {
    std::vector<std::byte> memory(operation.size + control_size);
    prng.fill(memory);
    const Bytes control = Bytes(memory).first(prng.below(control_size) + 1);
    const Bytes data = Bytes(memory).subspan(control_size);
    int result = 0;
    const auto told = [&result](const auto& outcome) { result = outcome ? 0 : outcome.error().code; };
    const auto band = static_cast<std::uint8_t>(prng.below(3));
    switch (operation.how % 5) {
      case 0:
      case 1:
        told(host.stream->write(data));
        break;
      case 2:
        told(host.stream->putmsg(ConstBytes(control), ConstBytes(data), prng.below(3) == 0));
        break;
      case 3:
        told(host.stream->putpmsg(std::nullopt, ConstBytes(data), false, band));
        break;
      default:
        told(host.stream->putpmsg(ConstBytes(control), ConstBytes(data), false, band));
    }
    std::ranges::fill(memory, std::byte{0xee});
    log.add(fmt::format("{} writes {}: {}", host.name, operation.size, result));
  }

  template <class Seen>
  void tell(Host& host, const char* what, const Seen& seen, ConstBytes control, ConstBytes data) {
    if (!seen) {
      log.add(fmt::format("{} {} nothing", host.name, what));
      return;
    }
    log.add(fmt::format("{} {} {} {} {} {} {} {}", host.name, what, seen->control.value_or(9999),
                        seen->data.value_or(9999), seen->more_control, seen->more_data, seen->high_priority,
                        seen->band));
    log.add("control", control.first(seen->control.value_or(0)));
    log.add("data", data.first(seen->data.value_or(0)));
  }

  Took read_some(Host& host, std::size_t how, std::size_t room, Prng& prng) {
    const std::unique_ptr<std::byte[]> memory = memory_of(room);
    const Bytes data(memory.get(), room);
    if (how % 3 == 0) {
      const auto got = host.stream->read(data);
      log.add(fmt::format("{} reads {} {}", host.name, got.value_or(9999), got ? 0 : got.error().code),
              ConstBytes(data).first(got.value_or(0)));
      return got ? Took::one : Took::none;
    }
    std::vector<std::byte> control(control_size + prng.below(2) - prng.below(8));
    const std::optional<Bytes> wanted_control = prng.below(5) == 0 ? std::nullopt : std::optional<Bytes>(control);
    const std::optional<Bytes> wanted_data = prng.below(5) == 0 ? std::nullopt : std::optional(data);
    const auto got = host.stream->getmsg(wanted_control, wanted_data, prng.below(6) == 0);
    tell(host, "gets", got, control, data);
    return got ? Took::one : Took::none;
  }

  // ---- Both ----

  void receive_some(Host& host, const Operation& operation, Prng& prng) {
    if (setup_.wire.segments && operation.how % 3 != 0) {
      return receive_segments(host, operation);
    }
    for (int count = 0; count < 16; ++count) {
      const Took took = setup_.raw ? read_some(host, operation.how, operation.size, prng)
                                   : receive_unit(host, operation.how, operation.size, prng);
      if (took == Took::none) {
        return;
      }
    }
  }

  void drain() {
    for (Host& host : hosts_) {
      Prng prng(1);
      if (!setup_.raw) {
        for (int count = 0; count < 5000 && receive_unit(host, 0, 70'000, prng) == Took::one; ++count) {
        }
        continue;
      }
      std::array<std::byte, 64> control;
      constexpr std::size_t room = 140'000;
      const std::unique_ptr<std::byte[]> memory = memory_of(room);
      const Bytes data(memory.get(), room);
      for (int count = 0; count < 5000; ++count) {
        const auto got = host.stream->getmsg(Bytes(control), data);
        tell(host, "drains", got, control, data);
        if (!got) {
          break;
        }
      }
    }
  }

  void compare() {
    run();
    drain();
    tell_counters();
  }
  void tell_counters() {
    for (Host& host : hosts_) {
      for (const auto& module : host.stream->chain().modules()) {
        for (const Counter* counter : module->counters()) {
          if (counter->name().starts_with("super_frame")) {
            continue;
          }
          // How often an error was said is not compared where there are messages of several datagrams; whether it was,
          // is.
          const bool once = setup_.wire.segments && module->name() == "udp" && counter->name() == "errors";
          const std::uint64_t value = once ? std::min<std::uint64_t>(counter->value(), 1) : counter->value();
          log.add(fmt::format("{} {}.{} = {}", host.name, module->name(), counter->name(), value));
        }
      }
      for (const Counter* counter : host.stream->head().counters()) {
        log.add(fmt::format("{} head.{} = {}", host.name, counter->name(), counter->value()));
      }
    }
  }

  void add(Host& host, const Drawn& drawn) {
    constexpr std::size_t pushed_max = 6;
    if (host.pushed < pushed_max) {
      push(host, make_module(drawn, host.captured));
      ++host.pushed;
    }
  }
  /// Every other time all has been read before, so that the module's last counts can be compared.
  void remove(Host& host, std::size_t how) {
    if (host.pushed == 0) {
      return;
    }
    if (how % 2 == 0) {
      compare();
    }
    log.add(fmt::format("pop {}", host.stream->pop().has_value()));
    --host.pushed;
  }

  const Setup setup_;
  const bool tested_;
  StreamSet set_;
  TimePoint now_{std::chrono::seconds(1)};
  std::array<Wire, 2> wires_{Wire(set_.pool(), setup_.wire, 0), Wire(set_.pool(), setup_.wire, 1)};
  std::array<Host, 2> hosts_;
};

}  // namespace sluice::differential
