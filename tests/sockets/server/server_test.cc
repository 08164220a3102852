// SPDX-License-Identifier: Apache-2.0

// The server of sockets: what programs do through the library, and what hostile ones do without it.

#include "sockets/server/server.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <set>
#include <vector>

#include "sockets/server/snapshot.h"
#include "tests/sockets/server/server_fixture.h"

namespace sluice::sockets {
namespace {

// ---- Connections ----

TEST_F(SocketServer, PassesBytesAndEndsEachWay) {
  auto [ours, theirs] = connection();
  ASSERT_TRUE(write_all(ours, "question"));
  run_for(std::chrono::milliseconds(20));
  EXPECT_EQ(read_some(theirs), "question");
  ASSERT_EQ(::shutdown(ours.get(), SHUT_WR), 0);
  run_for(std::chrono::milliseconds(20));
  EXPECT_EQ(read_some(theirs), "");
  ASSERT_TRUE(write_all(theirs, "reply"));
  ASSERT_TRUE(run_until([&, &end = ours] { return (events_of(end) & POLLIN) != 0; }));
  EXPECT_EQ(read_some(ours), "reply");
  theirs = Descriptor();
  ASSERT_TRUE(run_until([&, &end = ours] { return (events_of(end) & POLLRDHUP) != 0; }));
  EXPECT_EQ(read_some(ours), "");
  EXPECT_EQ(pending_error(ours), 0);
}

/// The end of a program's bytes is no event of its own where it came with the last of them.
TEST_F(SocketServer, AnEndThatCameWithTheLastBytesIsPassedOn) {
  auto [ours, theirs] = connection();
  ASSERT_TRUE(write_all(ours, "all of it"));
  ASSERT_EQ(::shutdown(ours.get(), SHUT_WR), 0);
  run_for(std::chrono::milliseconds(20));
  EXPECT_EQ(read_some(theirs), "all of it");
  EXPECT_EQ(read_some(theirs), "");
}

TEST_F(SocketServer, TellsTheNamesOfAConnection) {
  auto [listener, at] = kernel_listener();
  const Descriptor ours = open(SocketKind::stream);
  EXPECT_EQ(ask({.operation = Operation::names}, ours.get()).answer.peer.size, 0U);
  ASSERT_EQ(ask_error({.operation = Operation::connect, .address = at}, ours.get()), 0);
  const Answer names = ask({.operation = Operation::names}, ours.get()).answer;
  EXPECT_EQ(static_cast<SocketState>(names.value), SocketState::connected);
  EXPECT_EQ(port_of(names.peer), port_of(at));
  EXPECT_NE(port_of(names.local), 0);
  EXPECT_EQ(ask_error({.operation = Operation::connect, .address = at}, ours.get()), EISCONN);
}

/// A peer may still have the end of a connection that is over here: one from the same port would be refused.
TEST_F(SocketServer, APortComesAgainOnlyAfterHundredsOfOthers) {
  server.reset();
  start({.path = path()});
  auto [listener, at] = kernel_listener();
  std::set<std::uint16_t> ports;
  for (int count = 0; count < 300; ++count) {
    const Descriptor ours = open(SocketKind::stream);
    ASSERT_EQ(ask_error({.operation = Operation::connect, .address = at}, ours.get()), 0);
    const Descriptor theirs(::accept(listener.get(), nullptr, nullptr));
    const std::uint16_t port = port_of(ask({.operation = Operation::names}, ours.get()).answer.local);
    EXPECT_GE(port, 49152);
    EXPECT_TRUE(ports.insert(port).second) << port << " after " << count;
  }
}

TEST_F(SocketServer, ARefusedConnectionCanBeAskedForAgain) {
  auto [listener, at] = kernel_listener();
  const Descriptor ours = open(SocketKind::stream);
  Address closed = loopback(1);
  EXPECT_EQ(ask_error({.operation = Operation::connect, .address = closed}, ours.get()), ECONNREFUSED);
  EXPECT_EQ(ask_error({.operation = Operation::connect, .address = at}, ours.get()), 0);
}

TEST_F(SocketServer, AConnectionInTheBackgroundIsNotWritableBeforeItIsThere) {
  auto [listener, at] = kernel_listener();
  const Descriptor ours = open(SocketKind::stream);
  const std::string filler(65536, 'x');
  ASSERT_TRUE(write_all(ours, filler));
  EXPECT_EQ(events_of(ours) & POLLOUT, 0);
  EXPECT_EQ(ask_error({.operation = Operation::connect,
                       .background = 1,
                       .filler = static_cast<std::uint32_t>(filler.size()),
                       .address = at},
                      ours.get()),
            EINPROGRESS);
  ASSERT_TRUE(run_until([&] { return (events_of(ours) & POLLOUT) != 0; }));
  EXPECT_EQ(pending_error(ours), 0);
  ASSERT_TRUE(write_all(ours, "data"));
  run_for(std::chrono::milliseconds(20));
  const Descriptor theirs(::accept(listener.get(), nullptr, nullptr));
  EXPECT_EQ(read_some(theirs), "data");
}

TEST_F(SocketServer, AFailureInTheBackgroundShutsThePairAndIsToldOnce) {
  const Descriptor ours = open(SocketKind::stream);
  const std::string filler(65536, 'x');
  ASSERT_TRUE(write_all(ours, filler));
  EXPECT_EQ(ask_error({.operation = Operation::connect,
                       .background = 1,
                       .filler = static_cast<std::uint32_t>(filler.size()),
                       .address = loopback(1)},
                      ours.get()),
            EINPROGRESS);
  ASSERT_TRUE(run_until([&] { return (events_of(ours) & POLLHUP) != 0; }));
  EXPECT_NE(events_of(ours) & POLLOUT, 0);
  EXPECT_EQ(pending_error(ours), ECONNREFUSED);
  EXPECT_EQ(pending_error(ours), 0);
}

TEST_F(SocketServer, AResetEndsThePairAndIsTold) {
  auto [ours, theirs] = connection();
  const linger now{.l_onoff = 1, .l_linger = 0};
  ASSERT_EQ(::setsockopt(theirs.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
  theirs = Descriptor();
  ASSERT_TRUE(run_until([&, &end = ours] { return (events_of(end) & POLLHUP) != 0; }));
  EXPECT_EQ(pending_error(ours), ECONNRESET);
}

/// "If such a host issues a CLOSE call while received data is still pending in TCP [...] its TCP SHOULD send a RST"
/// (RFC 1122 section 4.2.2.13).
TEST_F(SocketServer, AProgramThatClosesWithDataUnreadResets) {
  auto [ours, theirs] = connection();
  ASSERT_TRUE(write_all(theirs, "nobody reads this"));
  ASSERT_TRUE(run_until([&, &end = ours] { return (events_of(end) & POLLIN) != 0; }));
  ours = Descriptor();
  ASSERT_TRUE(run_until([&] { return server->statistics().sockets == 0; }));
  EXPECT_EQ(read_some(theirs), "errno " + std::to_string(ECONNRESET));
}

TEST_F(SocketServer, WhatAProgramSentBeforeItClosedArrives) {
  auto [ours, theirs] = connection();
  ASSERT_TRUE(write_all(ours, "last words"));
  ours = Descriptor();
  run_for(std::chrono::milliseconds(20));
  EXPECT_EQ(read_some(theirs), "last words");
  EXPECT_EQ(read_some(theirs), "");
  theirs = Descriptor();
  EXPECT_TRUE(run_until([&] { return server->statistics().sockets == 0; }));
}

TEST_F(SocketServer, AProgramThatDoesNotReadHoldsThePeerBackAndNobodyElse) {
  auto [slow, flood] = connection();
  auto [quick, friendly] = connection();
  const std::size_t sent = fill(flood);
  ASSERT_GT(sent, piece_bytes);
  ASSERT_TRUE(write_all(friendly, "through"));
  ASSERT_TRUE(run_until([&, &end = quick] { return (events_of(end) & POLLIN) != 0; }));
  EXPECT_EQ(read_some(quick), "through");
  std::size_t got = 0;
  ASSERT_TRUE(run_until([&, &end = slow] {
    const std::string some = read_some(end);
    got += some.starts_with("errno") ? 0 : some.size();
    return got >= sent;
  }));
  EXPECT_EQ(got, sent);
  ASSERT_TRUE(write_all(slow, "and back"));
  run_for(std::chrono::milliseconds(20));
  EXPECT_EQ(read_some(slow), "errno " + std::to_string(EAGAIN)) << "nothing comes twice";
  EXPECT_EQ(read_some(flood), "and back");
}

/// Likewise the other way.
TEST_F(SocketServer, APeerThatDoesNotReadHoldsTheProgramBackAndGetsEveryByteOnce) {
  auto [flood, slow] = connection();
  const std::size_t sent = fill(flood);
  ASSERT_GT(sent, piece_bytes);
  std::size_t got = 0;
  const auto take = [&, &end = slow] {
    const std::string some = read_some(end);
    got += some.starts_with("errno") ? 0 : some.size();
  };
  ASSERT_TRUE(run_until([&] {
    take();
    return got >= sent;
  }));
  ASSERT_TRUE(write_all(slow, "and back"));
  run_for(std::chrono::milliseconds(20));
  take();
  EXPECT_EQ(got, sent);
  EXPECT_EQ(read_some(flood), "and back");
}

/// "or if new data is received after CLOSE is called, its TCP SHOULD send a RST to show that data was lost" (RFC 1122
/// section 4.2.2.13).
TEST_F(SocketServer, WhatComesForAProgramThatHasClosedIsReset) {
  auto [ours, theirs] = connection();
  ours = Descriptor();
  run_for(std::chrono::milliseconds(20));
  ASSERT_EQ(read_some(theirs), "");
  ASSERT_TRUE(write_all(theirs, "too late"));
  ASSERT_TRUE(
      run_until([&, &end = theirs] { return (events_of(end) & POLLERR) != 0 || (events_of(end) & POLLHUP) != 0; }));
  EXPECT_TRUE(run_until([&] { return server->statistics().sockets == 0; }));
}

/// SO_LINGER is of close(2), not of shutdown(2).
TEST_F(SocketServer, AnEndOfSendingIsNoResetWhateverLingers) {
  auto [ours, theirs] = connection();
  const Request linger_none{.operation = Operation::set_option, .level = SOL_SOCKET, .name = SO_LINGER, .value = 0};
  ASSERT_EQ(ask_error(linger_none, ours.get()), 0);
  ASSERT_TRUE(write_all(ours, "question"));
  ASSERT_EQ(::shutdown(ours.get(), SHUT_WR), 0);
  run_for(std::chrono::milliseconds(20));
  EXPECT_EQ(read_some(theirs), "question");
  EXPECT_EQ(read_some(theirs), "");
  ASSERT_TRUE(write_all(theirs, "reply"));
  ASSERT_TRUE(run_until([&, &end = ours] { return (events_of(end) & POLLIN) != 0; }));
  EXPECT_EQ(read_some(ours), "reply");
  ours = Descriptor();
  EXPECT_TRUE(run_until([&] { return server->statistics().sockets == 0; })) << "but its close is one";
}

// ---- Listening ----

TEST_F(SocketServer, CallersComeWithTheirNames) {
  const Descriptor ours = open(SocketKind::stream);
  ASSERT_EQ(ask_error({.operation = Operation::bind, .address = loopback(0)}, ours.get()), 0);
  Answered listening = ask({.operation = Operation::listen, .value = 5}, ours.get());
  ASSERT_EQ(listening.answer.error, 0);
  const Answer names = ask({.operation = Operation::names}, listening.passed.get()).answer;
  const Descriptor caller(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(caller.get(), reinterpret_cast<const sockaddr*>(names.local.bytes), names.local.size), 0);
  ASSERT_TRUE(run_until([&] { return (events_of(listening.passed) & POLLIN) != 0; }));
  Caller told;
  const Passed accepted = receive_message(listening.passed.get(), std::as_writable_bytes(std::span(&told, 1)));
  ASSERT_TRUE(accepted.descriptor);
  sockaddr_in caller_name{};
  socklen_t size = sizeof caller_name;
  ASSERT_EQ(::getsockname(caller.get(), reinterpret_cast<sockaddr*>(&caller_name), &size), 0);
  EXPECT_EQ(port_of(told.peer), ntohs(caller_name.sin_port));
  EXPECT_EQ(port_of(told.local), port_of(names.local));
  ASSERT_TRUE(write_all(caller, "hello"));
  ASSERT_TRUE(run_until([&] { return (events_of(accepted.descriptor) & POLLIN) != 0; }));
  EXPECT_EQ(read_some(accepted.descriptor), "hello");
}

TEST_F(SocketServer, AListenerThatEndsFreesItsPort) {
  Address at = loopback(0);
  for (int round = 0; round < 2; ++round) {
    const Descriptor ours = open(SocketKind::stream);
    ASSERT_EQ(ask_error({.operation = Operation::bind, .address = at}, ours.get()), 0);
    const Answered listening = ask({.operation = Operation::listen, .value = 5}, ours.get());
    ASSERT_EQ(listening.answer.error, 0);
    at = ask({.operation = Operation::names}, listening.passed.get()).answer.local;
    const Descriptor other = open(SocketKind::stream);
    EXPECT_EQ(ask_error({.operation = Operation::bind, .address = at}, other.get()), EADDRINUSE);
    EXPECT_EQ(ask_error({.operation = Operation::bind, .address = at}, listening.passed.get()), EINVAL);
    EXPECT_EQ(ask_error({.operation = Operation::connect, .address = at}, listening.passed.get()), EISCONN);
  }
  EXPECT_TRUE(run_until([&] { return server->statistics().sockets == 0; }));
}

// ---- Datagrams ----

std::string datagram(const Address& to, std::string_view text) {
  DatagramHeader header;
  header.address = to;
  std::string message(sizeof header, '\0');
  std::memcpy(message.data(), &header, sizeof header);
  return message.append(text);
}
std::string text_of(const std::string& message) {
  return message.size() < sizeof(DatagramHeader) ? message : message.substr(sizeof(DatagramHeader));
}

TEST_F(SocketServer, DatagramsHaveTheirSenderAndTheirPlace) {
  const Descriptor one = open(SocketKind::datagram);
  const Descriptor other = open(SocketKind::datagram);
  ASSERT_EQ(ask_error({.operation = Operation::bind, .address = loopback(0)}, one.get()), 0);
  const Address at = ask({.operation = Operation::names}, one.get()).answer.local;
  ASSERT_TRUE(write_all(other, datagram(at, "to you")));
  ASSERT_TRUE(run_until([&] { return (events_of(one) & POLLIN) != 0; }));
  const std::string message = read_some(one);
  EXPECT_EQ(text_of(message), "to you");
  DatagramHeader header;
  std::memcpy(&header, message.data(), sizeof header);
  EXPECT_EQ(port_of(header.address), port_of(ask({.operation = Operation::names}, other.get()).answer.local));
  ASSERT_TRUE(write_all(one, datagram(header.address, "and back")));
  ASSERT_TRUE(run_until([&] { return (events_of(other) & POLLIN) != 0; }));
  EXPECT_EQ(text_of(read_some(other)), "and back");
}

TEST_F(SocketServer, SocketsThatShareAPortGetWhatTheirPeersSend) {
  const Descriptor first = open(SocketKind::datagram);
  const Descriptor second = open(SocketKind::datagram);
  const Descriptor peer = open(SocketKind::datagram);
  ASSERT_EQ(ask_error({.operation = Operation::bind, .value = 1, .address = loopback(0)}, first.get()), 0);
  const Address at = ask({.operation = Operation::names}, first.get()).answer.local;
  ASSERT_EQ(ask_error({.operation = Operation::bind, .address = at}, second.get()), EADDRINUSE);
  ASSERT_EQ(ask_error({.operation = Operation::bind, .value = 1, .address = at}, second.get()), 0);
  ASSERT_TRUE(write_all(peer, datagram(at, "open")));
  ASSERT_TRUE(run_until([&] { return (events_of(second) & POLLIN) != 0; }));
  const std::string message = read_some(second);
  EXPECT_EQ(text_of(message), "open") << "the one that was bound last gets it";
  DatagramHeader header;
  std::memcpy(&header, message.data(), sizeof header);
  ASSERT_EQ(ask_error({.operation = Operation::connect, .address = header.address}, first.get()), 0);
  ASSERT_TRUE(write_all(peer, datagram(at, "named")));
  ASSERT_TRUE(run_until([&] { return (events_of(first) & POLLIN) != 0; }));
  EXPECT_EQ(text_of(read_some(first)), "named");
  EXPECT_EQ(events_of(second) & POLLIN, 0);
  const Descriptor stranger = open(SocketKind::datagram);
  ASSERT_TRUE(write_all(stranger, datagram(at, "of another")));
  ASSERT_TRUE(run_until([&] { return ((events_of(first) | events_of(second)) & POLLIN) != 0; }));
  EXPECT_EQ(events_of(first) & POLLIN, 0) << "it has named its peer";
}

TEST_F(SocketServer, ANamedPeerThatIsNotThereIsTold) {
  const Descriptor ours = open(SocketKind::datagram);
  ASSERT_EQ(ask_error({.operation = Operation::connect, .address = loopback(1)}, ours.get()), 0);
  ASSERT_TRUE(write_all(ours, datagram({}, "anybody?")));
  ASSERT_TRUE(run_until([&] { return (events_of(ours) & POLLIN) != 0; }));
  const std::string message = read_some(ours);
  DatagramHeader header;
  ASSERT_EQ(message.size(), sizeof header);
  std::memcpy(&header, message.data(), sizeof header);
  EXPECT_EQ(header.error, ECONNREFUSED);
}

TEST_F(SocketServer, DatagramsThatCannotBeSentHarmNobody) {
  const Descriptor ours = open(SocketKind::datagram);
  Address unspeakable = loopback(9);
  unspeakable.bytes[0] = std::byte{77};
  Address endless = loopback(9);
  endless.size = 0xffff'ffff;
  Address small = loopback(9);
  small.size = 3;
  for (const Address& to : {unspeakable, endless, small, Address{}}) {
    ASSERT_TRUE(write_all(ours, datagram(to, "x")));
    ASSERT_TRUE(run_until([&] { return pending_error(ours) == EDESTADDRREQ; }));
  }
  ASSERT_TRUE(write_all(ours, "short"));
  EXPECT_EQ(ask_error({.operation = Operation::bind, .address = loopback(0)}, ours.get()), 0);
  const Address at = ask({.operation = Operation::names}, ours.get()).answer.local;
  ASSERT_TRUE(write_all(ours, datagram(at, "to myself")));
  ASSERT_TRUE(run_until([&] { return (events_of(ours) & POLLIN) != 0; }));
  EXPECT_EQ(text_of(read_some(ours)), "to myself");
}

// ---- Hostile programs ----

TEST_F(SocketServer, RefusesWhatItDoesNotHave) {
  const Descriptor stream = open(SocketKind::stream);
  const Descriptor datagrams = open(SocketKind::datagram);
  struct Case {
    const char* what;
    Request request;
    int shown;
    int error;
  };
  Address wrong_family = loopback(1);
  wrong_family.bytes[0] = std::byte{AF_INET6};
  Address short_address = loopback(1);
  short_address.size = 4;
  Address long_address = loopback(1);
  long_address.size = 1000;
  const std::vector<Case> cases{
      {"a family", {.operation = Operation::open, .family = AF_UNIX}, -1, EAFNOSUPPORT},
      {"a kind", {.operation = Operation::open, .kind = SocketKind{'x'}, .family = AF_INET}, -1, EPROTONOSUPPORT},
      {"a listening kind",
       {.operation = Operation::open, .kind = SocketKind::listening, .family = AF_INET},
       -1,
       EPROTONOSUPPORT},
      {"no socket", {.operation = Operation::names}, -1, ENOTSOCK},
      {"an operation", {.operation = Operation{99}}, stream.get(), EOPNOTSUPP},
      {"another family's address", {.operation = Operation::bind, .address = wrong_family}, stream.get(), EAFNOSUPPORT},
      {"a short address", {.operation = Operation::connect, .address = short_address}, stream.get(), EAFNOSUPPORT},
      {"a long address", {.operation = Operation::connect, .address = long_address}, stream.get(), EAFNOSUPPORT},
      {"no address", {.operation = Operation::bind}, datagrams.get(), EAFNOSUPPORT},
      {"a datagram socket listens", {.operation = Operation::listen, .value = 1}, datagrams.get(), EOPNOTSUPP},
      {"an option", {.operation = Operation::set_option, .level = 77, .name = 1}, stream.get(), ENOPROTOOPT},
      {"an option's value", {.operation = Operation::get_option, .level = 77, .name = 1}, datagrams.get(), ENOPROTOOPT},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(ask_error(one.request, one.shown), one.error) << one.what;
  }
}

// ---- Statistics ----

TEST_F(SocketServer, StatisticsTellOfEverySocket) {
  auto [ours, theirs] = connection();
  const Descriptor datagrams = open(SocketKind::datagram);
  ASSERT_TRUE(write_all(ours, "question"));
  ASSERT_TRUE(write_all(theirs, "reply"));
  run_for(std::chrono::milliseconds(300));
  const Answered told = ask({.operation = Operation::statistics});
  ASSERT_EQ(told.answer.error, 0);
  const auto read = read_snapshot(told.passed);
  ASSERT_TRUE(read) << read.error().text;
  const auto& [totals, records] = *read;
  EXPECT_EQ(totals.sockets, 2U);
  ASSERT_EQ(records.size(), 2U);
  const SocketRecord& stream = records[records[0].kind == SocketKind::stream ? 0 : 1];
  const SocketRecord& datagram = records[records[0].kind == SocketKind::stream ? 1 : 0];
  EXPECT_EQ(datagram.kind, SocketKind::datagram);
  EXPECT_EQ(stream.pid, ::getpid());
  EXPECT_EQ(stream.uid, ::getuid());
  EXPECT_EQ(stream.state, TCP_ESTABLISHED);
  EXPECT_EQ(stream.sent, 8U);
  EXPECT_EQ(stream.received, 5U);
  EXPECT_NE(port_of(stream.peer), 0);
}

/// Threat: who asks for statistics without end, and reads none of them, would keep the server busy; and who gets them
/// would change what others read.
TEST_F(SocketServer, StatisticsAreOneFileThatNobodyCanChange) {
  const auto inode_of = [](const Descriptor& file) {
    struct stat status{};
    EXPECT_EQ(::fstat(file.get(), &status), 0);
    return status.st_ino;
  };
  const Answered first = ask({.operation = Operation::statistics});
  ASSERT_EQ(first.answer.error, 0);
  EXPECT_EQ(inode_of(ask({.operation = Operation::statistics}).passed), inode_of(first.passed)) << "soon after";
  EXPECT_LT(::pwrite(first.passed.get(), "x", 1, 0), 0);
  EXPECT_EQ(errno, EPERM);
  EXPECT_NE(::ftruncate(first.passed.get(), 0), 0);
  run_for(std::chrono::milliseconds(300));
  EXPECT_NE(inode_of(ask({.operation = Operation::statistics}).passed), inode_of(first.passed)) << "later";
}

TEST_F(SocketServer, AFileThatIsNoStatisticsIsRefused) {
  const Descriptor empty(::memfd_create("empty", MFD_CLOEXEC));
  EXPECT_EQ(read_snapshot(empty).error().code, EPROTO);
  const Totals lying{.records = 4};
  const Descriptor short_file(::memfd_create("short", MFD_CLOEXEC));
  ASSERT_EQ(::write(short_file.get(), &lying, sizeof lying), static_cast<ssize_t>(sizeof lying));
  EXPECT_EQ(read_snapshot(short_file).error().code, EPROTO);
  const auto good = make_snapshot({.records = 1, .sockets = 7}, std::array<SocketRecord, 1>{});
  ASSERT_TRUE(good);
  EXPECT_EQ(read_snapshot(*good)->first.sockets, 7U);
}

// ---- Options ----

Request setting(std::int32_t level, std::int32_t name, std::int32_t value) {
  return {.operation = Operation::set_option, .level = level, .name = name, .value = value};
}

TEST_F(SocketServer, OptionsReachTheConnection) {
  auto [listener, at] = kernel_listener();
  const Descriptor ours = open(SocketKind::stream);
  const auto get = [&](std::int32_t level, std::int32_t name) {
    const Answer answer = ask({.operation = Operation::get_option, .level = level, .name = name}, ours.get()).answer;
    return answer.error == 0 ? answer.value : -answer.error;
  };
  EXPECT_EQ(get(IPPROTO_TCP, TCP_KEEPIDLE), 7200);
  EXPECT_EQ(ask({.operation = Operation::connection}, ours.get()).answer.error, ENOTCONN);
  EXPECT_EQ(ask_error(setting(IPPROTO_TCP, TCP_MAXSEG, 1000), ours.get()), 0);
  EXPECT_EQ(ask_error(setting(IPPROTO_TCP, TCP_KEEPIDLE, 100), ours.get()), 0);
  ASSERT_EQ(ask_error({.operation = Operation::connect, .address = at}, ours.get()), 0);
  const Descriptor theirs(::accept(listener.get(), nullptr, nullptr));
  EXPECT_EQ(ask_error(setting(IPPROTO_TCP, TCP_NODELAY, 5), ours.get()), 0) << "any number switches it on";
  EXPECT_EQ(get(IPPROTO_TCP, TCP_NODELAY), 1);
  EXPECT_EQ(get(IPPROTO_TCP, TCP_KEEPIDLE), 100);
  EXPECT_LE(get(IPPROTO_TCP, TCP_MAXSEG), 1000) << "of the connection";
  EXPECT_GT(get(IPPROTO_TCP, TCP_MAXSEG), 500);
  const Answer told = ask({.operation = Operation::connection}, ours.get()).answer;
  EXPECT_EQ(told.error, 0);
  EXPECT_EQ(told.connection.state, TCP_ESTABLISHED);
  EXPECT_EQ(static_cast<int>(told.connection.send_mss), get(IPPROTO_TCP, TCP_MAXSEG));
  EXPECT_GT(told.connection.congestion_window, 0U);
  for (const auto& [name, value] : {std::pair{TCP_KEEPCNT, 0}, {TCP_KEEPCNT, 128}, {TCP_KEEPINTVL, -1}}) {
    EXPECT_EQ(ask_error(setting(IPPROTO_TCP, name, value), ours.get()), EINVAL);
  }
  EXPECT_EQ(ask_error(setting(IPPROTO_TCP, 12345, 1), ours.get()), ENOPROTOOPT);
}

TEST_F(SocketServer, ACallersConnectionHasTheListenersOptions) {
  const Descriptor ours = open(SocketKind::stream);
  ASSERT_EQ(ask_error({.operation = Operation::bind, .address = loopback(0)}, ours.get()), 0);
  EXPECT_EQ(ask_error(setting(IPPROTO_TCP, TCP_KEEPCNT, 3), ours.get()), 0);
  const Answered listening = ask({.operation = Operation::listen, .value = 1}, ours.get());
  ASSERT_EQ(listening.answer.error, 0);
  const Address at = ask({.operation = Operation::names}, listening.passed.get()).answer.local;
  const Descriptor theirs(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(theirs.get(), reinterpret_cast<const sockaddr*>(at.bytes), at.size), 0);
  Passed caller;
  Caller names;
  ASSERT_TRUE(run_until([&] {
    caller = receive_message(listening.passed.get(), std::as_writable_bytes(std::span(&names, 1)));
    return caller.error == 0;
  }));
  const Request count{.operation = Operation::get_option, .level = IPPROTO_TCP, .name = TCP_KEEPCNT};
  EXPECT_EQ(ask(count, caller.descriptor.get()).answer.value, 3);
}

/// RFC 3493 section 5.3. Linux lets it be changed only before the socket is bound.
TEST_F(SocketServer, IpVersion6AloneIsSettledWithTheAddress) {
  Address mapped;
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  ASSERT_EQ(::inet_pton(AF_INET6, "::ffff:127.0.0.1", &in6.sin6_addr), 1);
  in6.sin6_port = htons(9);
  mapped.size = sizeof in6;
  std::memcpy(mapped.bytes, &in6, sizeof in6);
  for (const SocketKind kind : {SocketKind::stream, SocketKind::datagram}) {
    EXPECT_EQ(ask_error(setting(IPPROTO_IPV6, IPV6_V6ONLY, 1), open(kind).get()), ENOPROTOOPT) << "of an IPv4 socket";
    const Descriptor ours = open(kind, AF_INET6);
    EXPECT_EQ(ask_error(setting(IPPROTO_IPV6, IPV6_V6ONLY, 1), ours.get()), 0);
    EXPECT_EQ(ask_error({.operation = Operation::connect, .address = mapped}, ours.get()), ENETUNREACH);
    EXPECT_EQ(ask_error({.operation = Operation::bind, .address = mapped}, ours.get()), EINVAL);
    EXPECT_EQ(ask_error(setting(IPPROTO_IPV6, IPV6_V6ONLY, 0), ours.get()), 0);
    mapped.bytes[2] = mapped.bytes[3] = std::byte{};  // port 0
    EXPECT_EQ(ask_error({.operation = Operation::bind, .address = mapped}, ours.get()), 0);
    EXPECT_EQ(ask_error(setting(IPPROTO_IPV6, IPV6_V6ONLY, 1), ours.get()), EINVAL) << "it is bound";
    mapped.bytes[3] = std::byte{9};
  }
}

TEST_F(SocketServer, ASocketIsNamedByShowingItAndByNothingElse) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const Descriptor read_end(pipe[0]);
  const Descriptor write_end(pipe[1]);
  const Descriptor stranger(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Descriptor own = client();
  for (const int shown : {read_end.get(), stranger.get(), own.get()}) {
    EXPECT_EQ(ask_error({.operation = Operation::names}, shown), ENOTSOCK);
  }
}

TEST_F(SocketServer, WhatIsNoRequestEndsItsClientAlone) {
  Request request{.operation = Operation::open, .family = AF_INET};
  request.version = protocol_version + 1;
  const std::string nothing = "GET / HTTP/1.0\r\n\r\n";
  const std::string much(4096, 'x');
  const Descriptor friendly = client();
  for (const ConstBytes message :
       {std::as_bytes(std::span(&request, 1)), std::as_bytes(std::span(nothing)), std::as_bytes(std::span(much))}) {
    const Descriptor hostile = client();
    ASSERT_EQ(send_message(hostile.get(), message, -1), 0);
    ASSERT_TRUE(run_until([&] { return (events_of(hostile) & POLLHUP) != 0; }));
  }
  EXPECT_EQ(server->statistics().malformed, 3U);
  request.version = protocol_version;
  ASSERT_EQ(send_message(friendly.get(), std::as_bytes(std::span(&request, 1)), -1), 0);
  Answered answered;
  ASSERT_TRUE(hear(friendly, answered));
  EXPECT_EQ(answered.answer.error, 0);
  EXPECT_TRUE(answered.passed);
}

TEST_F(SocketServer, ClientsThatSayNothingKeepNobodyOut) {
  std::vector<Descriptor> silent;
  for (int at = 0; at < 20; ++at) {
    silent.push_back(client());
    run_for(std::chrono::milliseconds(1));
  }
  EXPECT_GE(server->statistics().crowded_out, 16U);
  EXPECT_TRUE(open(SocketKind::stream));
}

TEST_F(SocketServer, SocketsMayCloseInAnyState) {
  auto [listener, at] = kernel_listener();
  for (int round = 0; round < 3; ++round) {
    open(SocketKind::stream);
    open(SocketKind::datagram);
    const Descriptor bound = open(SocketKind::stream);
    EXPECT_EQ(ask_error({.operation = Operation::bind, .address = loopback(0)}, bound.get()), 0);
    const Descriptor connecting = open(SocketKind::stream);
    EXPECT_EQ(ask_error({.operation = Operation::connect, .background = 1, .address = at}, connecting.get()),
              EINPROGRESS);
  }
  listener = Descriptor();  // what it has not accepted is reset
  EXPECT_TRUE(run_until([&] { return server->statistics().sockets == 0; }));
}

TEST_F(SocketServer, WhatIsOverIsRemembered) {
  auto [ours, theirs] = connection();
  const Answer names = ask({.operation = Operation::names}, ours.get()).answer;
  ASSERT_EQ(::shutdown(ours.get(), SHUT_WR), 0);
  theirs = Descriptor();
  ASSERT_TRUE(run_until([&] { return server->statistics().sockets == 0; }));
  const Answer later = ask({.operation = Operation::names}, ours.get()).answer;
  EXPECT_EQ(later.error, 0);
  EXPECT_EQ(static_cast<SocketState>(later.value), SocketState::over);
  EXPECT_EQ(port_of(later.local), port_of(names.local));
  EXPECT_EQ(pending_error(ours), 0);
  EXPECT_EQ(ask_error({.operation = Operation::set_option, .level = IPPROTO_TCP, .name = 1}, ours.get()), 0);
  EXPECT_EQ(ask_error({.operation = Operation::listen, .value = 1}, ours.get()), EINVAL);
}

// ---- The server's own socket ----

TEST_F(SocketServer, TakesThePlaceOfOneThatIsGoneAndOfNothingElse) {
  EXPECT_EQ(Server::open(set, {.path = path()}, {}, {}).error().code, EADDRINUSE);
  server.reset();
  EXPECT_FALSE(std::filesystem::exists(path()));
  {
    // Left behind, as by a kill.
    const Descriptor left(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path().c_str());
    ASSERT_EQ(::bind(left.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  start({.path = path(), .mode = 0640});
  EXPECT_EQ(std::filesystem::status(path()).permissions(), std::filesystem::perms(0640));
  EXPECT_EQ(Server::open(set, {.path = std::string(200, 'p')}, {}, {}).error().code, ENAMETOOLONG);
  EXPECT_EQ(Server::open(set, {.path = directory.string()}, {}, {}).error().code, EEXIST);
}

TEST_F(SocketServer, OneWithoutDatagramsSaysSo) {
  server.reset();
  auto opened = Server::open(set, {.path = path()}, {}, {});
  ASSERT_TRUE(opened);
  server = std::move(*opened);
  EXPECT_EQ(ask_error({.operation = Operation::open, .kind = SocketKind::datagram, .family = AF_INET}),
            EPROTONOSUPPORT);
  EXPECT_EQ(ask_error({.operation = Operation::open, .family = AF_INET}), EPROTONOSUPPORT);
}

}  // namespace
}  // namespace sluice::sockets
