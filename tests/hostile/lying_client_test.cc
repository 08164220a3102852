// SPDX-License-Identifier: Apache-2.0
// A client that lies to the real `ftx serve` in its handshake: in the datagrams that carry TLS, in TLS itself, in who
// it is, and in what it asks for. One row, one lie, with the sentence of docs/formats/ftx.md that it breaks. Whatever
// it says, the server goes on: a good client fetches and sends afterwards, nothing else is written, nothing gets out.
#include <gtest/gtest.h>

#include <functional>

#include "tests/hostile/far_side.h"
#include "tests/hostile/standing_server.h"

namespace sluice::ftx::hostile {
namespace {

struct ClientLie {
  const char* name;
  const char* sentence;
  std::function<void(TlsLiar&)> tell;
  TlsLiar::Key key = TlsLiar::Key::allowed;
};

constexpr const char* rule_stream =
    "An end drops what begins beyond what it has, more than 16 KiB in all, and sends no more than 128";
constexpr const char* rule_envelope = "The envelope is that of the HELLO throughout";
constexpr const char* rule_cookie =
    "The server keeps nothing and answers nothing before a CONTROL of offset 0 whose "
    "cookie is good";
constexpr const char* rule_tls = "TLS: version 1.3 alone";
constexpr const char* rule_key = "The client knows the server's pin, the server those of its clients";
constexpr const char* rule_request = "A client says one PULL, and nothing else";
constexpr const char* rule_path = "A path names a regular file below the served directory, by components alone";

Content of(std::string_view text) {
  const ConstBytes bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

/// The session begins: the server offers.
void expect_offer(TlsLiar& liar) {
  liar.use_keys();
  EXPECT_TRUE(liar.liar.hear(Kind::offer, 5s).has_value());
  liar.liar.control(
      emit_error(liar.liar.envelope, {static_cast<std::uint16_t>(ExitCode::interrupted), "enough"}, liar.liar.out));
}

void expect_no_offer(TlsLiar& liar) {
  liar.use_keys();
  EXPECT_FALSE(liar.liar.hear(Kind::offer, 400ms).has_value());
}

/// Nothing at all is answered.
void expect_silence(TlsLiar& liar) {
  EXPECT_FALSE(liar.liar.hear(Kind::control, 300ms).has_value());
  EXPECT_EQ(liar.liar.errors, 0U);
}

void ask(TlsLiar& liar, std::vector<std::string> paths) {
  ASSERT_TRUE(liar.shake());
  liar.say(*encode(PullRequest{.paths = std::move(paths)}));
}

void expect_refusal(TlsLiar& liar, ExitCode code) {
  const auto refusal = liar.refusal();
  ASSERT_TRUE(refusal.has_value()) << liar.handshake.error();
  EXPECT_EQ(refusal->code, code) << refusal->text;
  expect_no_offer(liar);
}

void asked(TlsLiar& liar, const std::string& path, ExitCode code) {
  ask(liar, {"a.bin", path});
  expect_refusal(liar, code);
}

void said(TlsLiar& liar, ConstBytes bytes) {
  ASSERT_TRUE(liar.shake());
  liar.say(bytes);
  expect_refusal(liar, ExitCode::protocol_error);
}

/// The ClientHello, changed, and the honest rest where there is one.
void hello(TlsLiar& liar, const std::function<void(Content&)>& change) {
  liar.greet();
  Content bytes = liar.handshake.take_output();
  change(bytes);
  for (std::size_t at = 0; at < bytes.size(); at += 1000) {
    liar.segment(at, ConstBytes(bytes).subspan(at, std::min<std::size_t>(1000, bytes.size() - at)));
  }
  liar.listen(200ms);
}

constexpr auto unreadable = ExitCode::source_unreadable;

const std::vector<ClientLie>& client_lies() {
  static const std::vector<ClientLie> table{
      {"TheTruth", "", [](TlsLiar& liar) { ask(liar, {"a.bin", "sub/b"}), expect_offer(liar); }},

      // --- The stream of CONTROLs
      {"NoCookie", rule_cookie,
       [](TlsLiar& liar) { liar.segment(0, liar.handshake.take_output()), expect_silence(liar); }},
      {"CookieOfAnotherConnection", rule_cookie,
       [](TlsLiar& liar) {
         liar.greet();
         ++liar.liar.envelope.connection;
         liar.segment(0, liar.handshake.take_output());
         expect_silence(liar);
       }},
      {"BeginsInTheMiddle", rule_cookie,
       [](TlsLiar& liar) {
         liar.greet();
         liar.segment(1, liar.handshake.take_output());
         expect_silence(liar);
       }},
      {"BeginsWithNothing", rule_cookie,
       [](TlsLiar& liar) { liar.greet(), liar.segment(0, {}), expect_silence(liar); }},
      {"NoSuchCipher", "`cipher`, the client's choice for the session (1 AES-128-GCM, 2 ChaCha20-Poly1305)",
       [](TlsLiar& liar) {
         liar.greet();
         liar.segment(0, liar.handshake.take_output(), 0, 3);
         expect_silence(liar);
       }},
      {"TheCipherChanges", "is the same in all",
       [](TlsLiar& liar) {
         EXPECT_TRUE(liar.shake(false));
         const Content flight = liar.handshake.take_output();
         liar.segment(0, flight, liar.stream.received(), 2);
         expect_no_offer(liar);
       }},
      {"TheHelloTwentyTimes", rule_stream,
       [](TlsLiar& liar) {
         liar.greet();
         const Content flight = liar.handshake.take_output();
         EXPECT_TRUE(liar.stream.send(flight));
         for (int i = 0; i < 20; ++i) {
           liar.segment(0, flight);
         }
         ask(liar, {"a.bin"});
         expect_offer(liar);
       }},
      {"SegmentsInReverse", rule_stream,
       [](TlsLiar& liar) {
         liar.greet();
         const Content flight = liar.handshake.take_output();
         EXPECT_TRUE(liar.stream.send(flight));
         for (std::size_t at = flight.size(); at-- > 0;) {
           liar.segment(at, ConstBytes(flight).subspan(at, 1));
         }
         ask(liar, {"a.bin"});
         expect_offer(liar);
       }},
      {"HalfAHello", rule_stream,
       [](TlsLiar& liar) { hello(liar, [](Content& bytes) { bytes.resize(bytes.size() / 2); }); }},
      {"SegmentsFarBeyond", rule_stream,
       [](TlsLiar& liar) {
         liar.greet();
         liar.segment(0, ConstBytes(liar.handshake.take_output()).first(10));
         for (const std::size_t offset : {11UL, 16384UL, (1UL << 20) - 1, 1UL << 20, 0xffff'ffffUL}) {
           liar.segment(offset, Content(1000));
           liar.segment(offset, Content(1000), 1UL << 20);
         }
         liar.listen(200ms);
       }},
      {"AStreamWithoutEnd", rule_stream,
       [](TlsLiar& liar) {
         hello(liar, [](Content& bytes) {
           bytes[3] = std::byte{0x3f}, bytes[4] = std::byte{0xff};  // the record's length
           bytes.resize(100'000);
         });
       }},
      {"AcknowledgesWhatWasNeverSent", rule_stream,
       [](TlsLiar& liar) {
         liar.greet();
         const Content flight = liar.handshake.take_output();
         EXPECT_TRUE(liar.stream.send(flight));
         liar.segment(0, flight, 100'000);
         ask(liar, {"a.bin"});
         expect_offer(liar);
       }},
      {"AcknowledgesByteByByte", rule_stream,
       [](TlsLiar& liar) {
         liar.greet();
         liar.segment(0, liar.handshake.take_output());
         std::size_t datagrams = 0;
         for (std::size_t at = 1; at < 600; ++at) {
           liar.segment(0, {}, at);
           while (liar.liar.hear(Kind::control, 1ms)) {
             ++datagrams;
           }
         }
         EXPECT_LE(datagrams, 128U);
       }},

      // --- TLS
      {"ALineOfHttp", rule_tls,
       [](TlsLiar& liar) { hello(liar, [](Content& bytes) { bytes = of("GET / HTTP/1.1\r\n\r\n"); }); }},
      {"RandomBytes", rule_tls,
       [](TlsLiar& liar) { hello(liar, [](Content& bytes) { bytes = random_content(900); }); }},
      {"ARecordThatIsLongerThanAny", rule_tls,
       [](TlsLiar& liar) { hello(liar, [](Content& bytes) { bytes[3] = bytes[4] = std::byte{0xff}; }); }},
      {"AnEmptyRecord", rule_tls,
       [](TlsLiar& liar) {
         hello(liar, [](Content& bytes) { bytes = Content{std::byte{22}, std::byte{3}, std::byte{1}, {}, {}}; });
       }},
      {"AHelloThatIsLongerThanItsRecords", rule_tls,
       [](TlsLiar& liar) { hello(liar, [](Content& bytes) { bytes[6] = std::byte{0xff}; }); }},
      {"AFinishedFirst", rule_tls,
       [](TlsLiar& liar) { hello(liar, [](Content& bytes) { bytes[5] = std::byte{20}; }); }},
      {"AHelloRequestFirst", rule_tls,
       [](TlsLiar& liar) { hello(liar, [](Content& bytes) { bytes[5] = std::byte{0}; }); }},
      {"DataFirst", rule_tls, [](TlsLiar& liar) { hello(liar, [](Content& bytes) { bytes[0] = std::byte{23}; }); }},
      {"AnAlertFirst", rule_tls, [](TlsLiar& liar) { hello(liar, [](Content& bytes) { bytes[0] = std::byte{21}; }); }},
      {"TwoHellos", rule_tls,
       [](TlsLiar& liar) {
         hello(liar, [](Content& bytes) { bytes.insert(bytes.end(), bytes.begin(), bytes.end()); });
       }},
      {"AnotherProtocol", "ALPN `ftx/2`",
       [](TlsLiar& liar) {
         hello(liar, [](Content& bytes) {
           const auto at = as_text(bytes).find("ftx/2");
           ASSERT_NE(at, std::string_view::npos);
           bytes[at + 4] = std::byte{'1'};
         });
       }},
      {"TheLastFlightIsRubbish", rule_tls,
       [](TlsLiar& liar) {
         EXPECT_TRUE(liar.shake(false));
         Content flight = liar.handshake.take_output();
         flight[flight.size() / 2] ^= std::byte{1};
         liar.segment(0, flight, liar.stream.received());
         expect_no_offer(liar);
       }},

      // --- Who it is
      {"AForeignKey", rule_key, [](TlsLiar& liar) { EXPECT_TRUE(liar.shake()), expect_no_offer(liar); },
       TlsLiar::Key::foreign},
      {"AForeignKeyThatAsks", rule_key,
       [](TlsLiar& liar) {
         ask(liar, {"a.bin"});
         EXPECT_FALSE(liar.refusal().has_value()) << "an alert, and no word about files";
         EXPECT_EQ(liar.handshake.state(), Handshake::State::failed);
       },
       TlsLiar::Key::foreign},
      {"AForeignKeyThatOffers", rule_key,
       [](TlsLiar& liar) {
         EXPECT_TRUE(liar.shake());
         liar.use_keys();
         liar.liar.add("a.bin", Content(1000));
         EXPECT_FALSE(liar.liar.begin());
       },
       TlsLiar::Key::foreign},
      {"NoKey", rule_key, [](TlsLiar& liar) { EXPECT_TRUE(liar.shake()), expect_no_offer(liar); }, TlsLiar::Key::none},

      // --- What it asks for
      {"TwoRequests", rule_request,
       [](TlsLiar& liar) {
         Content twice = *encode(PullRequest{.paths = {"sub/b"}});
         twice.insert(twice.end(), twice.begin(), twice.end());
         said(liar, twice);
       }},
      {"AnotherRequestLater", rule_request,
       [](TlsLiar& liar) {
         ask(liar, {"a.bin"});
         liar.say(*encode(PullRequest{.paths = {"sub/b"}}));
         expect_offer(liar);
       }},
      {"HalfARequest", rule_request,
       [](TlsLiar& liar) {
         EXPECT_TRUE(liar.shake());
         liar.say(ConstBytes(*encode(PullRequest{.paths = {"a.bin"}})).first(10));
         expect_no_offer(liar);
       }},
      {"ARequestByteByByte", rule_request,
       [](TlsLiar& liar) {
         EXPECT_TRUE(liar.shake());
         const Content request = *encode(PullRequest{.paths = {"a.bin"}});
         for (std::size_t at = 0; at < request.size(); ++at) {
           liar.say(ConstBytes(request).subspan(at, 1));
         }
         expect_offer(liar);
       }},
      {"ARefusal", rule_request, [](TlsLiar& liar) { said(liar, encode(PullRefusal{refused, "no"})); }},
      {"AnUnknownKind", rule_request, [](TlsLiar& liar) { said(liar, Content(5, std::byte{7})); }},
      {"ARequestLongerThanAny", rule_request,
       [](TlsLiar& liar) { said(liar, Content{std::byte{1}, std::byte{0xff}, std::byte{0xff}}); }},
      {"MorePathsThanThereAre", rule_request,
       [](TlsLiar& liar) {
         Content request = *encode(PullRequest{.paths = {"a.bin"}});
         request[18] = std::byte{200};
         said(liar, request);
       }},
      {"DatagramsOfOneByte", rule_request,
       [](TlsLiar& liar) {
         EXPECT_TRUE(liar.shake());
         liar.say(*encode(PullRequest{.datagram_bytes = 1, .paths = {"a.bin"}}));
         expect_refusal(liar, ExitCode::usage);
       }},
      {"DatagramsWithoutBound", rule_request,
       [](TlsLiar& liar) {
         EXPECT_TRUE(liar.shake());
         liar.say(*encode(PullRequest{.datagram_bytes = UINT32_MAX, .paths = {"a.bin"}}));
         expect_offer(liar);
       }},
      {"OneNameTwice", rule_request, [](TlsLiar& liar) { asked(liar, "a.bin", ExitCode::usage); }},
      {"UpAndOut", rule_path, [](TlsLiar& liar) { asked(liar, "../outside", refused); }},
      {"DownUpAndOut", rule_path, [](TlsLiar& liar) { asked(liar, "sub/../../outside", refused); }},
      {"Absolute", rule_path, [](TlsLiar& liar) { asked(liar, "/etc/passwd", refused); }},
      {"TwoDots", rule_path, [](TlsLiar& liar) { asked(liar, "..", refused); }},
      {"TheDirectoryItself", rule_path, [](TlsLiar& liar) { asked(liar, ".", refused); }},
      {"AnEmptyComponent", rule_path, [](TlsLiar& liar) { asked(liar, "sub//b", refused); }},
      {"ASlashBehind", rule_path, [](TlsLiar& liar) { asked(liar, "sub/", refused); }},
      {"AnEndInTheName", rule_path, [](TlsLiar& liar) { asked(liar, std::string("sub/b\0x", 7), refused); }},
      {"AnEscapeInTheName", rule_path, [](TlsLiar& liar) { asked(liar, "\x1b[2J", refused); }},
      {"ANameLongerThanAny", rule_path, [](TlsLiar& liar) { asked(liar, std::string(256, 'x'), refused); }},
      {"ANameAsLongAsAny", rule_path, [](TlsLiar& liar) { asked(liar, std::string(255, 'x'), unreadable); }},
      {"AThousandComponents", rule_path,
       [](TlsLiar& liar) {
         std::string path = "x";
         while (path.size() < 1023) {
           path += "/x";
         }
         asked(liar, path, unreadable);
       }},
      {"ALinkOut", rule_path, [](TlsLiar& liar) { asked(liar, "link", unreadable); }},
      {"AThroughALink", rule_path, [](TlsLiar& liar) { asked(liar, "up/outside", unreadable); }},
      {"AFifo", rule_path, [](TlsLiar& liar) { asked(liar, "fifo", unreadable); }},
      {"ADirectory", rule_path, [](TlsLiar& liar) { asked(liar, "sub", unreadable); }},
      {"AFileAsADirectory", rule_path, [](TlsLiar& liar) { asked(liar, "a.bin/x", unreadable); }},
      {"NotThere", rule_path, [](TlsLiar& liar) { asked(liar, "missing", unreadable); }},
      {"AskingFromTheSessionItself", "1, 3, 4, 5 go to the receiver",
       [](TlsLiar& liar) {
         ask(liar, {"a.bin"});
         liar.use_keys();
         EXPECT_TRUE(liar.liar.hear(Kind::offer, 5s).has_value());
         liar.liar.add("b.bin", Content(1000));
         liar.liar.offer(liar.liar.honest_offer());
         liar.liar.manifest();
         EXPECT_FALSE(liar.liar.hear(Kind::report, 300ms).has_value()) << "it sends, and takes nothing";
       }},
  };
  return table;
}

class LyingClient : public testing::TestWithParam<std::size_t> {};

TEST_P(LyingClient, ChangesNothing) {
  const ClientLie& lie = client_lies()[GetParam()];
  SCOPED_TRACE(testing::Message() << lie.name << ": " << lie.sentence);
  StandingServer server;
  ASSERT_GT(server.port(), 0);
  TlsLiar liar(server, lie.key);
  lie.tell(liar);
  server.expect_well();
}

INSTANTIATE_TEST_SUITE_P(Table, LyingClient, testing::Range<std::size_t>(0, client_lies().size()),
                         [](const auto& instance) { return std::string(client_lies()[instance.param].name); });

// Threat: a crowd of handshakes that nobody finishes, each with its cookie, while a good client transfers.
TEST(LyingClients, TenThousandHalfOpenHandshakesDoNotStopAGoodClient) {
  StandingServer server;
  ASSERT_GT(server.port(), 0);
  const auto good = server.fetch("beside", 12);  // two seconds
  TlsLiar liar(server, TlsLiar::Key::foreign, 0);
  const Content flight = liar.handshake.take_output();
  std::size_t cookies = 0;
  for (std::uint64_t i = 1; i <= 10'000; ++i) {
    liar.liar.envelope.connection = i;
    liar.liar.control(emit_hello(liar.liar.envelope, {1, adu_bytes}, liar.liar.out));
    const auto heard = liar.liar.hear(Kind::cookie, i % 64 == 0 ? 20ms : 2ms);
    if (!heard) {
      continue;
    }
    ++cookies;
    liar.liar.cookie = parse_cookie(heard->datagram)->cookie;
    liar.liar.envelope.connection = heard->envelope.connection;
    liar.segment(0, flight);
  }
  EXPECT_GT(cookies, 5'000U) << "else nothing was tried";
  EXPECT_TRUE(server.fetched(*good, "beside")) << good->output();
  server.expect_well(10);
}

// Threat: a client that may come, and asks again and again without ever taking anything.
TEST(LyingClients, AFloodOfRequestsLeavesRoomForAGoodClient) {
  StandingServer server;
  ASSERT_GT(server.port(), 0);
  std::size_t sent = 0, busy = 0;
  for (std::uint64_t i = 1; i <= 40; ++i) {
    TlsLiar liar(server, TlsLiar::Key::allowed, i);
    ASSERT_TRUE(liar.shake()) << i;
    liar.say(*encode(PullRequest{.congestion = AskedCongestion::fixed_rate, .rate = 1'000'000, .paths = {"a.bin"}}));
    for (int tries = 0; tries < 20; ++tries) {
      const auto heard = liar.liar.hear(50ms);
      if (heard && heard->envelope.sealed()) {
        ++sent;
        break;
      }
      const auto control = heard ? parse_control(heard->datagram) : std::nullopt;
      if (control && !control->bytes.empty() && heard->envelope.kind == Kind::control) {
        liar.stream.receive(TimePoint{}, *control);
        liar.handshake.accept(liar.stream.take_received());
        if (!liar.handshake.take_data().empty()) {
          ++busy;
          break;
        }
      }
    }
  }
  EXPECT_GE(sent, 8U);
  EXPECT_GT(busy, 0U) << "a host has a part";
  server.expect_well(15);
}

}  // namespace
}  // namespace sluice::ftx::hostile
