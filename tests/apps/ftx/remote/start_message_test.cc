// SPDX-License-Identifier: Apache-2.0
// What goes through the pipe of a start: encoding, and what is refused.
#include "apps/ftx/remote/start_message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <new>
#include <string>

namespace sluice::ftx {
namespace {

using Stream = std::vector<std::byte>;
using Preamble = StartReader::Preamble;

Secret counting_secret() {
  std::array<std::byte, session_secret_bytes> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i + 1);
  }
  return Secret(bytes);
}

StartRequest push_request() {
  StartRequest request;
  request.secret = counting_secret();
  request.session_version = 1;
  request.datagram_bytes = 1400;
  request.idle_timeout_ms = 30000;
  request.program = "0.1.0";
  request.paths = {"a b/\nc"};
  return request;
}

StartReady ready_message() {
  return {.session_version = 1,
          .udp_port = 40000,
          .datagram_bytes = 1472,
          .address = wire::IpAddress::from_text("192.0.2.7").value(),
          .program = "0.1.0"};
}

Stream text(std::string_view bytes) {
  const ConstBytes view = as_bytes(bytes);
  return {view.begin(), view.end()};
}

Stream joined(Stream first, const Stream& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// Feeds all of it, `step` bytes at a time, and answers the first message or failure.
std::expected<std::optional<StartMessage>, Failure> first_of(StartReader& reader, ConstBytes stream,
                                                             std::size_t step = 1000) {
  while (!stream.empty()) {
    const std::size_t count = std::min({step, stream.size(), reader.room()});
    reader.feed(stream.first(count));
    stream = stream.subspan(count);
    auto message = reader.next();
    if (!message || *message) {
      return message;
    }
  }
  return std::nullopt;
}

ExitCode code_of(const Stream& stream, Preamble preamble = Preamble::none) {
  StartReader reader(preamble);
  const auto message = first_of(reader, stream);
  return message ? ExitCode::ok : message.error().code;
}

bool same(const StartRequest& left, const StartRequest& right) {
  return std::ranges::equal(left.secret.bytes(), right.secret.bytes()) && left.direction == right.direction &&
         left.keep_partial == right.keep_partial && left.verify == right.verify &&
         left.session_version == right.session_version && left.datagram_bytes == right.datagram_bytes &&
         left.idle_timeout_ms == right.idle_timeout_ms && left.cipher == right.cipher &&
         left.congestion == right.congestion && left.compress == right.compress && left.delta == right.delta &&
         left.rate == right.rate && left.ports == right.ports && left.select == right.select &&
         left.program == right.program && left.paths == right.paths;
}

TEST(StartMessage, ARequestIsReadAsItWasWritten) {
  for (const std::size_t step : {1UL, 7UL, 100000UL}) {
    StartReader reader(Preamble::none);
    const auto message = first_of(reader, encode(push_request()).value(), step);
    ASSERT_TRUE(message && *message) << step;
    EXPECT_TRUE(same(std::get<StartRequest>(**message), push_request())) << step;
  }
  StartRequest pull = push_request();
  pull.direction = StartDirection::pull;
  pull.keep_partial = false;
  pull.verify = true;
  pull.cipher = Cipher::chacha20_poly1305;
  pull.congestion = AskedCongestion::fixed_rate;
  pull.rate = 12'500'000;
  pull.compress = Compress::when_it_pays;
  pull.delta = true;
  pull.ports = {40000, 40100};
  pull.select = {.rules = {{.pattern = "*.o"}}, .hard_links = true, .names = {{"x/y"}}, .recursive = true};
  pull.paths = {"a", "", "*"};
  StartReader reader(Preamble::none);
  const auto message = first_of(reader, encode(pull).value());
  ASSERT_TRUE(message && *message);
  EXPECT_TRUE(same(std::get<StartRequest>(**message), pull));
}

TEST(StartMessage, AnAnswerIsReadAsItWasWritten) {
  StartReady ready = ready_message();
  for (const char* address : {"192.0.2.7", "2001:db8::7", ""}) {
    ready.address = *address == '\0' ? std::nullopt : std::optional(wire::IpAddress::from_text(address).value());
    StartReader reader(Preamble::none);
    const auto message = first_of(reader, encode(ready));
    ASSERT_TRUE(message && *message) << address;
    EXPECT_EQ(std::get<StartReady>(**message), ready);
  }
  const StartFailure failure{ExitCode::no_such_path, "no such directory: 'x'"};
  StartReader reader(Preamble::none);
  const auto message = first_of(reader, encode(failure));
  ASSERT_TRUE(message && *message);
  EXPECT_EQ(std::get<StartFailure>(**message), failure);
}

TEST(StartMessage, EchoAndSwitchAreReadAsTheyWereWritten) {
  StartReader reader(Preamble::none);
  const auto echo = first_of(reader, encode(StartEcho{}), 1);
  ASSERT_TRUE(echo && *echo && std::holds_alternative<StartEcho>(**echo));
  const auto change = first_of(reader, encode(StartSwitch{counting_secret()}), 1);
  ASSERT_TRUE(change && *change && std::holds_alternative<StartSwitch>(**change));
  EXPECT_TRUE(std::ranges::equal(std::get<StartSwitch>(**change).secret.bytes(), counting_secret().bytes()));
  const auto changed = first_of(reader, encode(StartSwitched{}), 1);
  ASSERT_TRUE(changed && *changed && std::holds_alternative<StartSwitched>(**changed));
  EXPECT_FALSE(reader.holds_more());
}

TEST(StartMessage, WhatSaysMoreThanItsKindIsMalformed) {
  for (Stream bytes : {encode(StartEcho{}), encode(StartSwitched{}), encode(StartSwitch{counting_secret()})}) {
    bytes.push_back(std::byte{0});
    store_big_endian(bytes.data() + start_header_bytes - 4,
                     static_cast<std::uint32_t>(bytes.size() - start_header_bytes));
    EXPECT_EQ(code_of(bytes), ExitCode::protocol_error);
  }
}

TEST(StartMessage, PortsAreOneOrARange) {
  EXPECT_EQ(parse_ports("40000"), (PortRange{40000, 40000}));
  EXPECT_EQ(parse_ports("40000-40100"), (PortRange{40000, 40100}));
  EXPECT_EQ(parse_ports("1-65535"), (PortRange{1, 65535}));
  for (const char* text : {"", "-", "0", "0-1", "2-1", "1-", "-1", "65536", "1-65536", "1 -2", "1-2-3", "x", "+1"}) {
    EXPECT_FALSE(parse_ports(text)) << text;
  }
}

/// docs/formats/ftx-start.md has this example.
TEST(StartMessage, TheWorkedExample) {
  const Stream bytes = encode(ready_message());
  const char example[] =
      "\xf7"
      "ftx-start\r\n"
      "\x02"
      "\x02"
      "\x00\x00\x00\x12"
      "\x01"
      "\x9c\x40"
      "\x00\x00\x05\xc0"
      "\x04"
      "\xc0\x00\x02\x07"
      "\x05"
      "0.1.0";
  EXPECT_EQ(as_text(bytes), std::string_view(example, sizeof example - 1));
}

TEST(StartMessage, SeveralFollowEachOther) {
  const Stream both = joined(encode(ready_message()), encode(StartFailure{ExitCode::disk_full, "full"}));
  StartReader reader(Preamble::skipped);
  const auto first = first_of(reader, both, both.size());
  ASSERT_TRUE(first && *first && std::holds_alternative<StartReady>(**first));
  const auto second = reader.next();
  ASSERT_TRUE(second && *second);
  EXPECT_EQ(std::get<StartFailure>(**second).text, "full");
  EXPECT_FALSE(reader.in_message());
}

TEST(StartMessage, CutShortAnywhereItIsNoMessage) {
  for (const Stream& whole : {encode(push_request()).value(), encode(ready_message()),
                              encode(StartFailure{ExitCode::usage, "text"}), encode(StartSwitch{counting_secret()})}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      StartReader reader(Preamble::none);
      const auto message = first_of(reader, ConstBytes(whole).first(size));
      ASSERT_TRUE(message) << size;
      EXPECT_FALSE(*message) << size;
    }
  }
}

/// The length in the header agrees with a body that ends early, at every byte of it.
TEST(StartMessage, ABodyThatEndsEarlyIsMalformed) {
  for (const Stream& whole : {encode(push_request()).value(), encode(ready_message()),
                              encode(StartFailure{ExitCode::usage, "text"}), encode(StartSwitch{counting_secret()})}) {
    for (std::size_t size = 0; start_header_bytes + size < whole.size(); ++size) {
      Stream cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(start_header_bytes + size));
      store_big_endian(cut.data() + start_header_bytes - 4, static_cast<std::uint32_t>(size));
      EXPECT_EQ(code_of(cut), ExitCode::protocol_error) << size;
    }
  }
}

TEST(StartMessage, BytesBehindTheLastFieldAreMalformed) {
  Stream longer = encode(ready_message());
  longer.push_back(std::byte{0});
  store_big_endian(longer.data() + start_header_bytes - 4,
                   static_cast<std::uint32_t>(longer.size() - start_header_bytes));
  EXPECT_EQ(code_of(longer), ExitCode::protocol_error);
}

TEST(StartMessage, ALengthThatLiesIsRefusedBeforeAnythingIsStored) {
  Stream huge = encode(ready_message());
  store_big_endian(huge.data() + start_header_bytes - 4, std::uint32_t{start_body_bytes_max + 1});
  huge.resize(start_header_bytes);
  EXPECT_EQ(code_of(huge), ExitCode::protocol_error);
  store_big_endian(huge.data() + start_header_bytes - 4, 0xffff'ffffU);
  EXPECT_EQ(code_of(huge), ExitCode::protocol_error);
}

TEST(StartMessage, AnotherVersionIsNamed) {
  Stream other = encode(ready_message());
  other[12] = std::byte{9};
  StartReader reader(Preamble::skipped);
  const auto message = first_of(reader, other);
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().code, ExitCode::remote_version);
  EXPECT_NE(message.error().text.find("version 9"), std::string::npos) << message.error().text;
}

TEST(StartMessage, UnknownKindsAreRefused) {
  Stream other = encode(ready_message());
  for (const int kind : {0, 7, 255}) {
    other[13] = static_cast<std::byte>(kind);
    EXPECT_EQ(code_of(other), ExitCode::protocol_error) << kind;
  }
}

TEST(StartMessage, FieldsOutOfRangeAreRefused) {
  StartReady ready = ready_message();
  ready.udp_port = 0;
  EXPECT_EQ(code_of(encode(ready)), ExitCode::protocol_error);
  ready = ready_message();
  ready.datagram_bytes = 0;
  EXPECT_EQ(code_of(encode(ready)), ExitCode::protocol_error);
  Stream family = encode(ready_message());
  family[start_header_bytes + 7] = std::byte{5};
  EXPECT_EQ(code_of(family), ExitCode::protocol_error);

  StartRequest request = push_request();
  for (const int cipher : {0, 3, 255}) {
    request.cipher = static_cast<Cipher>(cipher);
    EXPECT_EQ(code_of(encode(request).value()), ExitCode::protocol_error);
  }
  request = push_request();
  request.paths = {"a", "b"};
  EXPECT_EQ(code_of(encode(request).value()), ExitCode::protocol_error);
  request.paths = {};
  EXPECT_EQ(code_of(encode(request).value()), ExitCode::protocol_error);
  request.direction = StartDirection::pull;
  EXPECT_EQ(code_of(encode(request).value()), ExitCode::protocol_error);
  request = push_request();
  request.direction = StartDirection{3};
  EXPECT_EQ(code_of(encode(request).value()), ExitCode::protocol_error);
  request = push_request();
  request.idle_timeout_ms = 0;
  EXPECT_EQ(code_of(encode(request).value()), ExitCode::protocol_error);
  for (const auto& [bits, code] : {std::pair(3, ExitCode::ok), std::pair(4, ExitCode::protocol_error)}) {
    Stream partial = encode(push_request()).value();
    partial[start_header_bytes + session_secret_bytes + 1] = static_cast<std::byte>(bits);
    EXPECT_EQ(code_of(partial), code) << bits;
  }
  for (const int congestion : {0, 5, 255}) {
    request = push_request();
    request.congestion = static_cast<AskedCongestion>(congestion);
    EXPECT_EQ(code_of(encode(request).value()), ExitCode::protocol_error) << congestion;
  }
  request = push_request();
  request.compress = Compress{3};
  EXPECT_EQ(code_of(encode(request).value()), ExitCode::protocol_error);
  request = push_request();
  request.rate = 1;  // of no fixed rate
  EXPECT_EQ(code_of(encode(request).value()), ExitCode::protocol_error);
  request.congestion = AskedCongestion::fixed_rate;
  EXPECT_EQ(code_of(encode(request).value()), ExitCode::ok);
  request.rate = 0;
  EXPECT_EQ(code_of(encode(request).value()), ExitCode::protocol_error);
  for (const PortRange ports : {PortRange{0, 1}, PortRange{2, 1}, PortRange{1, 0}}) {
    request = push_request();
    request.ports = ports;
    EXPECT_EQ(code_of(encode(request).value()), ExitCode::protocol_error) << ports.first << '-' << ports.last;
  }
}

TEST(StartMessage, WhatDoesNotFitIsNotWritten) {
  StartRequest request = push_request();
  request.paths = {std::string(start_path_bytes_max + 1, 'a')};
  EXPECT_FALSE(encode(request));
  request.paths = {std::string("a\0b", 3)};
  EXPECT_FALSE(encode(request));
  request.paths.assign(20, std::string(start_path_bytes_max, 'a'));
  EXPECT_FALSE(encode(request));
  request.paths.assign(start_paths_max + 1, "a");
  EXPECT_FALSE(encode(request));
  request.paths.assign(1, std::string(start_path_bytes_max, 'a'));
  EXPECT_TRUE(encode(request));
}

TEST(StartMessage, APathWithANulIsRefused) {
  Stream bytes = encode(push_request()).value();
  bytes.back() = std::byte{0};
  EXPECT_EQ(code_of(bytes), ExitCode::protocol_error);
}

TEST(StartMessage, TextHasNoControlCharacters) {
  // Ours is cleaned, theirs is refused.
  StartReader reader(Preamble::none);
  const auto message = first_of(reader, encode(StartFailure{ExitCode::usage, "a\x1b[31mb\n"}));
  ASSERT_TRUE(message && *message);
  EXPECT_EQ(std::get<StartFailure>(**message).text, "a?[31mb?");
  Stream bytes = encode(StartFailure{ExitCode::usage, "abc"});
  bytes.back() = std::byte{0x1b};
  EXPECT_EQ(code_of(bytes), ExitCode::protocol_error);
  Stream program = encode(ready_message());
  program.back() = std::byte{'\r'};
  EXPECT_EQ(code_of(program), ExitCode::protocol_error);
}

TEST(StartMessage, ALongTextIsCut) {
  StartReader reader(Preamble::none);
  const auto message = first_of(reader, encode(StartFailure{ExitCode::usage, std::string(5000, 'x')}));
  ASSERT_TRUE(message && *message);
  EXPECT_EQ(std::get<StartFailure>(**message).text.size(), start_text_bytes_max);
}

/// "An ERROR is never a success" (docs/formats/ftx.md); so it is here.
TEST(StartMessage, AFailureIsNoSuccess) {
  StartReader reader(Preamble::none);
  const auto message = first_of(reader, encode(StartFailure{ExitCode::ok, "x"}));
  ASSERT_TRUE(message && *message);
  EXPECT_EQ(std::get<StartFailure>(**message).code, ExitCode::protocol_error);
}

TEST(StartPreamble, WhatALoginShellPrintsIsSkipped) {
  for (const std::string& banner :
       {std::string("Welcome!\r\n"), std::string("no newline"), std::string(preamble_bytes_max, 'x'),
        std::string("\xf7"
                    "ftx-star\xf7"),
        std::string("\xf7\xf7\xf7"
                    "ftx-start\r")}) {
    for (const std::size_t step : {1UL, 3UL, 4096UL}) {
      StartReader reader(Preamble::skipped);
      const auto message = first_of(reader, joined(text(banner), encode(ready_message())), step);
      ASSERT_TRUE(message && *message) << banner.substr(0, 20) << ", " << step;
      EXPECT_EQ(std::get<StartReady>(**message), ready_message());
    }
  }
}

TEST(StartPreamble, TooMuchOfItIsNamed) {
  StartReader reader(Preamble::skipped);
  const auto message =
      first_of(reader, joined(text("Hello\x1b" + std::string(preamble_bytes_max, 'x')), encode(ready_message())));
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().code, ExitCode::protocol_error);
  EXPECT_NE(message.error().text.find("Hello?xx"), std::string::npos) << message.error().text;
  EXPECT_LT(message.error().text.size(), 300U);
}

TEST(StartPreamble, TheFarSideSkipsNothing) {
  EXPECT_EQ(code_of(joined(text("x"), encode(push_request()).value())), ExitCode::protocol_error);
  EXPECT_EQ(code_of(text("GET / HTTP/1.0\r\n")), ExitCode::protocol_error);
}

TEST(StartPreamble, NothingIsSkippedBetweenMessages) {
  const Stream stream = joined(joined(encode(ready_message()), text("x")), encode(ready_message()));
  StartReader reader(Preamble::skipped);
  const auto first = first_of(reader, stream, stream.size());
  ASSERT_TRUE(first && *first);
  EXPECT_FALSE(reader.next());
}

TEST(StartPreamble, LineEndsThatAreConvertedAreNoticed) {
  Stream damaged = encode(ready_message());
  damaged.erase(damaged.begin() + 10);  // CR LF has become LF
  StartReader reader(Preamble::skipped);
  const auto message = first_of(reader, damaged);
  ASSERT_TRUE(message);
  EXPECT_FALSE(*message);
}

}  // namespace
}  // namespace sluice::ftx
