// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/security/handshake.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "apps/ftx/security/known_hosts.h"
#include "tests/apps/ftx/security/handshakes.h"

namespace sluice::ftx {
namespace {

using namespace test;

constexpr std::string_view label = "EXPERIMENTAL ftx2 session";

const Identity& server_key() {
  static const Identity identity = Identity::create().value();
  return identity;
}
const Identity& client_key() {
  static const Identity identity = Identity::create().value();
  return identity;
}
const Identity& stranger() {
  static const Identity identity = Identity::create().value();
  return identity;
}

enum class Shared : std::uint8_t { none, right, wrong };

Secret secret(Shared shared) {
  return shared == Shared::none ? Secret() : Secret(counting(32, shared == Shared::right ? 1 : 2));
}

/// What a server of `ftx serve` asks: a client's key on the list.
std::function<Status(const KeyPin&)> allow(const KeyPin& key) {
  const auto allowed = AllowedKeys::parse(key.text() + " somebody", "allowed").value();
  return [allowed](const KeyPin& shown) -> Status {
    return allowed.find(shown) != nullptr ? Status{} : fail(EPERM, "this key is not on the list");
  };
}

bool is_a_sentence(const std::string& text) {
  return text.size() > 5 && std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

Options of_server() { return {.identity = server_key(), .check_peer = allow(client_key().pin())}; }
Options of_client() { return {.identity = client_key(), .check_peer = expect_key(server_key().pin())}; }

/// Both ends have the same secret, or none has one.
void expect_agreement(const Handshake& client, const Handshake& server) {
  const auto mine = client.export_secret(label);
  const auto yours = server.export_secret(label);
  ASSERT_TRUE(mine.has_value() && yours.has_value());
  EXPECT_EQ(mine->size(), 32U);
  EXPECT_TRUE(*mine == *yours);
  EXPECT_FALSE(*mine == Secret::of_size(32));
}

/// Every way to show who one is, against every way to ask.
TEST(Handshake, EveryCombination) {
  enum class Pin : std::uint8_t { none, right, wrong };
  enum class Key : std::uint8_t { none, allowed, unknown };
  for (const Pin pin : {Pin::none, Pin::right, Pin::wrong}) {
    for (const Key key : {Key::none, Key::allowed, Key::unknown}) {
      for (const Shared of_client : {Shared::none, Shared::right, Shared::wrong}) {
        for (const Shared of_server : {Shared::none, Shared::right}) {
          for (const bool server_has_key : {true, false}) {
            for (const bool anonymous : {true, false}) {
              if ((pin == Pin::none && of_client == Shared::none) || (!server_has_key && of_server == Shared::none)) {
                continue;  // refused when the context is made
              }
              SCOPED_TRACE(testing::Message() << "pin " << int(pin) << " key " << int(key) << " client's secret "
                                              << int(of_client) << " server's " << int(of_server) << " server's key "
                                              << server_has_key << " anonymous " << anonymous);
              Options client_options{.shared_secret = secret(of_client)};
              if (pin != Pin::none) {
                client_options.check_peer = expect_key((pin == Pin::right ? server_key() : stranger()).pin());
              }
              if (key != Key::none) {
                client_options.identity = key == Key::allowed ? client_key() : stranger();
              }
              Options server_options{.anonymous_clients = anonymous, .shared_secret = secret(of_server)};
              if (server_has_key) {
                server_options.identity = server_key();
                server_options.check_peer = allow(client_key().pin());
              }
              Handshake client = begin(Role::client, std::move(client_options));
              Handshake server = begin(Role::server, std::move(server_options));
              run(client, server);

              const bool by_secret = of_client == Shared::right && of_server == Shared::right;
              const bool by_keys = pin == Pin::right && server_has_key && (anonymous || key == Key::allowed);
              if (by_secret || by_keys) {
                EXPECT_EQ(client.state(), State::complete) << client.error();
                EXPECT_EQ(server.state(), State::complete) << server.error();
                EXPECT_EQ(client.used_shared_secret(), by_secret);
                EXPECT_EQ(server.used_shared_secret(), by_secret);
                EXPECT_EQ(client.peer(), by_secret ? std::nullopt : std::optional(server_key().pin()));
                EXPECT_EQ(server.peer(), by_secret || anonymous ? std::nullopt : std::optional(client_key().pin()));
                expect_agreement(client, server);
              } else {
                // The client hears of the server's refusal by its alert, and the server of the client's.
                EXPECT_EQ(client.state(), State::failed);
                EXPECT_EQ(server.state(), State::failed);
                EXPECT_TRUE(is_a_sentence(client.error())) << client.error();
                EXPECT_TRUE(is_a_sentence(server.error())) << server.error();
                EXPECT_FALSE(client.export_secret(label).has_value());
                EXPECT_FALSE(server.export_secret(label).has_value());
                EXPECT_EQ(client.peer(), std::nullopt);
                EXPECT_EQ(server.peer(), std::nullopt);
              }
            }
          }
        }
      }
    }
  }
}

TEST(Handshake, SaysWhyItFailed) {
  struct Case {
    Options client, server;
    std::string client_error, server_error;
  };
  std::vector<Case> cases;
  cases.push_back({{.check_peer = expect_key(stranger().pin())},
                   {.identity = server_key(), .anonymous_clients = true},
                   "the peer's key is " + server_key().pin().text() + ", not " + stranger().pin().text(),
                   "TLS handshake with the client: "});
  cases.push_back({{.identity = stranger(), .check_peer = expect_key(server_key().pin())},
                   of_server(),
                   "TLS handshake with the server: ",
                   "this key is not on the list"});
  cases.push_back({{.check_peer = expect_key(server_key().pin())},
                   of_server(),
                   "TLS handshake with the server: tlsv13 alert certificate required",
                   "TLS handshake with the client: peer did not return a certificate"});
  cases.push_back({{.shared_secret = secret(Shared::wrong)},
                   {.identity = server_key(), .anonymous_clients = true, .shared_secret = secret(Shared::right)},
                   "the server does not know the shared secret",
                   "TLS handshake with the client: "});
  for (Case& one : cases) {
    Handshake client = begin(Role::client, std::move(one.client));
    Handshake server = begin(Role::server, std::move(one.server));
    run(client, server);
    EXPECT_EQ(client.error().substr(0, one.client_error.size()), one.client_error);
    EXPECT_EQ(server.error().substr(0, one.server_error.size()), one.server_error);
  }
}

TEST(Handshake, OptionsThatCannotSucceedAreRefused) {
  EXPECT_EQ(HandshakeContext::create(Role::client, {}).error().code, EINVAL);
  EXPECT_EQ(HandshakeContext::create(Role::server, {}).error().code, EINVAL);
  EXPECT_EQ(HandshakeContext::create(Role::server, {.identity = server_key()}).error().code, EINVAL);
  EXPECT_EQ(HandshakeContext::create(Role::client, {.shared_secret = Secret(counting(31))}).error().code, EINVAL);
}

/// RFC 8446 section 7.5: each session's exporter is its own; label and context are bound.
TEST(Handshake, ExportsAnotherSecretForEachSessionLabelAndContext) {
  for (const bool by_secret : {true, false}) {
    const auto both = [by_secret](Options options) {
      options.shared_secret = secret(by_secret ? Shared::right : Shared::none);
      return options;
    };
    const auto client_context = HandshakeContext::create(Role::client, both(of_client())).value();
    const auto server_context = HandshakeContext::create(Role::server, both(of_server())).value();
    std::vector<Secret> secrets;
    for (int session = 0; session < 3; ++session) {
      Handshake client = client_context.begin().value();
      Handshake server = server_context.begin().value();
      run(client, server);
      expect_agreement(client, server);
      EXPECT_TRUE(*client.export_secret(label, as_bytes("a")) == *server.export_secret(label, as_bytes("a")));
      secrets.push_back(client.export_secret(label).value());
      secrets.push_back(client.export_secret(label, as_bytes("a")).value());
      secrets.push_back(client.export_secret(label, as_bytes("b")).value());
      secrets.push_back(client.export_secret("EXPERIMENTAL other").value());
    }
    for (std::size_t a = 0; a < secrets.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        EXPECT_FALSE(secrets[a] == secrets[b]) << a << " and " << b;
      }
    }
  }
}

TEST(Handshake, AnyPortionsWillDo) {
  for (const std::size_t portion : {1U, 2U, 5U, 100U}) {
    Handshake client = begin(Role::client, of_client());
    Handshake server = begin(Role::server, of_server());
    run(client, server, portion);
    EXPECT_EQ(client.state(), State::complete) << client.error();
    EXPECT_EQ(server.state(), State::complete) << server.error();
    expect_agreement(client, server);
  }
}

TEST(Handshake, SendsNoTickets) {
  Handshake client = begin(Role::client, of_client());
  Handshake server = begin(Role::server, of_server());
  server.accept(client.take_output());
  client.accept(server.take_output());
  server.accept(client.take_output());
  EXPECT_EQ(server.state(), State::complete);
  EXPECT_TRUE(server.take_output().empty());
}

/// The flights of an honest handshake, changed or cut at one place: client's, server's, client's.
class Spoiled {
 public:
  explicit Spoiled(bool by_secret)
      : client_(HandshakeContext::create(Role::client, options(of_client(), by_secret)).value()),
        server_(HandshakeContext::create(Role::server, options(of_server(), by_secret)).value()) {}

  /// Runs a handshake in which spoil(flight) is called on flight number `number`. Ends both sides' input.
  template <class Spoil>
  std::pair<Handshake, Handshake> run(int number, Spoil&& spoil) const {
    Handshake client = client_.begin().value();
    Handshake server = server_.begin().value();
    for (int flight = 0; flight < 5; ++flight) {
      Handshake& from = flight % 2 == 0 ? client : server;
      Handshake& to = flight % 2 == 0 ? server : client;
      Flight bytes = from.take_output();
      if (flight == number) {
        spoil(bytes);
      }
      to.accept(bytes);
    }
    client.end_input();
    server.end_input();
    return {std::move(client), std::move(server)};
  }

  std::size_t size_of(int number) const {
    std::size_t size = 0;
    run(number, [&size](const Flight& bytes) { size = bytes.size(); });
    return size;
  }

 private:
  static Options options(Options options, bool by_secret) {
    options.shared_secret = secret(by_secret ? Shared::right : Shared::none);
    return options;
  }

  HandshakeContext client_;
  HandshakeContext server_;
};

void expect_failure(const Handshake& side) {
  EXPECT_EQ(side.state(), State::failed);
  EXPECT_TRUE(is_a_sentence(side.error())) << side.error();
}

/// A byte changed anywhere never ends in a session: who received it fails, or finds that the peer saw something else.
/// RFC 8446 section 5.1: "legacy_record_version: [...] This field is deprecated and MUST be ignored for all purposes."
TEST(Handshake, AChangedByteIsNoticed) {
  for (const bool by_secret : {true, false}) {
    const Spoiled handshakes(by_secret);
    for (const int flight : {0, 1, 2}) {
      const std::size_t size = handshakes.size_of(flight);
      ASSERT_GT(size, 50U);
      for (std::size_t at = 0; at < size; ++at) {
        SCOPED_TRACE(testing::Message() << "byte " << at << " of " << size << " of flight " << flight);
        const auto [client, server] = handshakes.run(flight, [at, size](Flight& bytes) {
          if (at < bytes.size() && bytes.size() + 8 > size) {  // sizes may differ by little between sessions
            bytes[at] ^= std::byte{0x10};
          }
        });
        const bool is_ignored_version = flight != 2 && (at == 1 || at == 2);
        const Handshake& receiver = flight == 1 ? client : server;
        if (receiver.state() == State::complete) {
          EXPECT_TRUE(is_ignored_version);
          continue;
        }
        expect_failure(receiver);
        if (flight != 2) {  // of the last flight the client hears only by an alert
          expect_failure(flight == 1 ? server : client);
        }
      }
    }
  }
}

TEST(Handshake, ACutFlightIsNoHandshake) {
  const Spoiled handshakes(false);
  for (const int flight : {0, 1, 2}) {
    const std::size_t size = handshakes.size_of(flight);
    for (std::size_t keep = 0; keep < size; ++keep) {
      const auto [client, server] = handshakes.run(flight, [keep](Flight& bytes) { bytes.resize(keep); });
      expect_failure(flight == 1 ? client : server);
      if (flight != 2) {
        expect_failure(flight == 1 ? server : client);
      }
    }
  }
}

TEST(Handshake, NoiseIsNoHandshake) {
  for (const Role role : {Role::client, Role::server}) {
    for (const std::string_view noise :
         {"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\x16\x03\x01\xff\xff\x01", "\x80\x2e\x01\x03\x01",
          "\x15\x03\x03\x00\x02\x02\x28"}) {
      Handshake side = begin(role, role == Role::client ? of_client() : of_server());
      side.accept(as_bytes(noise));
      side.end_input();
      expect_failure(side);
      side.accept(as_bytes(noise));  // ignored
      expect_failure(side);
    }
  }
}

/// A ClientHello said to be of 128 KiB, which OpenSSL would wait for, in full records.
Flight endless_hello() {
  Flight flight;
  for (int record = 0; record < 5; ++record) {
    const Flight header = from_hex("1603014000");
    flight.insert(flight.end(), header.begin(), header.end());
    flight.resize(flight.size() + 0x4000);
  }
  const Flight message = from_hex("0101ffff0303");
  std::copy(message.begin(), message.end(), flight.begin() + 5);
  return flight;
}

TEST(Handshake, InputIsBounded) {
  Handshake server = begin(Role::server, of_server());
  const Flight hello = endless_hello();
  std::size_t sent = 0;
  while (server.state() == State::in_progress && sent + 1000 <= hello.size()) {
    server.accept(ConstBytes(hello).subspan(sent, 1000));
    sent += 1000;
  }
  expect_failure(server);
  EXPECT_EQ(sent, 66'000U);  // all was good up to the limit
  EXPECT_NE(server.error().find("65536"), std::string::npos) << server.error();

  Handshake at_once = begin(Role::server, of_server());
  at_once.accept(hello);
  expect_failure(at_once);
  EXPECT_EQ(at_once.error(), server.error());
}

TEST(Handshake, NothingButAlertsComesBehind) {
  Handshake client = begin(Role::client, of_client());
  Handshake server = begin(Role::server, of_server());
  run(client, server);
  ASSERT_EQ(client.state(), State::complete);
  client.accept(Flight(40, std::byte{0x17}));
  expect_failure(client);
  EXPECT_FALSE(client.export_secret(label).has_value());
}

/// OpenSSL itself as a peer, of any version.
class Other {
 public:
  Other(bool is_server, int version, const char* protocol)
      : context_(SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method())), ssl_(nullptr) {
    SSL_CTX_set_min_proto_version(context_, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(context_, version);
    SSL_CTX_set_verify(context_, SSL_VERIFY_NONE, nullptr);
    SSL_CTX_use_certificate(context_, (is_server ? server_key() : client_key()).certificate());
    SSL_CTX_use_PrivateKey(context_, (is_server ? server_key() : client_key()).key());
    if (protocol != nullptr) {
      const std::string list = static_cast<char>(std::string_view(protocol).size()) + std::string(protocol);
      SSL_CTX_set_alpn_protos(context_, reinterpret_cast<const unsigned char*>(list.data()),
                              static_cast<unsigned>(list.size()));
    }
    ssl_ = SSL_new(context_);
    SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    is_server ? SSL_set_accept_state(ssl_) : SSL_set_connect_state(ssl_);
  }
  ~Other() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;

  void run_with(Handshake& side) {
    for (int round = 0; round < 6; ++round) {
      SSL_do_handshake(ssl_);
      Flight bytes(BIO_ctrl_pending(SSL_get_wbio(ssl_)));
      if (!bytes.empty()) {
        BIO_read(SSL_get_wbio(ssl_), bytes.data(), static_cast<int>(bytes.size()));
      }
      side.accept(bytes);
      bytes = side.take_output();
      if (!bytes.empty()) {
        BIO_write(SSL_get_rbio(ssl_), bytes.data(), static_cast<int>(bytes.size()));
      }
    }
  }
  SSL* ssl() { return ssl_; }

 private:
  SSL_CTX* context_;
  SSL* ssl_;
};

TEST(Handshake, SpeaksNoOlderVersion) {
  Handshake server = begin(Role::server, of_server());
  Other client(false, TLS1_2_VERSION, "ftx/2");
  client.run_with(server);
  expect_failure(server);
  EXPECT_NE(server.error().find("unsupported protocol"), std::string::npos) << server.error();

  Handshake of_ours = begin(Role::client, of_client());
  Other old_server(true, TLS1_2_VERSION, nullptr);
  old_server.run_with(of_ours);
  expect_failure(of_ours);
}

/// A client that speaks another protocol over TLS is no client of ours, and the other way round.
TEST(Handshake, SpeaksOneProtocol) {
  for (const char* protocol : {static_cast<const char*>(nullptr), "http/1.1", "ftx/3"}) {
    Handshake server = begin(Role::server, of_server());
    Other client(false, TLS1_3_VERSION, protocol);
    client.run_with(server);
    expect_failure(server);
  }
  Handshake server = begin(Role::server, of_server());
  Other client(false, TLS1_3_VERSION, "ftx/2");
  client.run_with(server);
  EXPECT_EQ(server.state(), State::complete) << server.error();
  EXPECT_EQ(server.peer(), client_key().pin());

  Handshake of_ours = begin(Role::client, of_client());
  Other silent_server(true, TLS1_3_VERSION, nullptr);  // chooses no protocol at all
  silent_server.run_with(of_ours);
  expect_failure(of_ours);
  EXPECT_EQ(of_ours.error(), "the server does not speak this version of ftx");
}

/// What a client wants to fetch goes behind its own last flight, and only the server can read it.
TEST(Handshake, AClientMaySendDataTogetherWithItsLastFlight) {
  Handshake client = begin(Role::client, of_client()), server = begin(Role::server, of_server());
  EXPECT_FALSE(client.write(as_bytes("too early")));
  server.accept(client.take_output());
  client.accept(server.take_output());
  ASSERT_EQ(client.state(), State::complete);
  const std::string text(9000, 'x');  // more than one record
  ASSERT_TRUE(client.write(as_bytes(text)));
  const Flight flight = client.take_output();
  EXPECT_EQ(std::string_view(as_text(flight)).find("xxxx"), std::string_view::npos);
  server.accept(flight);
  ASSERT_EQ(server.state(), State::complete);
  EXPECT_EQ(as_text(server.take_data()), text);
  EXPECT_TRUE(server.take_data().empty()) << "once";
  ASSERT_TRUE(server.write(as_bytes("no")));
  client.accept(server.take_output());
  EXPECT_EQ(as_text(client.take_data()), "no");
  EXPECT_EQ(client.state(), State::complete);
}

/// Threat: data of somebody who is not the peer.
TEST(Handshake, AChangedByteOfTheDataIsNoticed) {
  for (std::size_t at = 0; at < 25; ++at) {
    SCOPED_TRACE(at);
    Handshake client = begin(Role::client, of_client()), server = begin(Role::server, of_server());
    run(client, server);
    ASSERT_TRUE(client.write(as_bytes("abc")));
    Flight flight = client.take_output();
    ASSERT_EQ(flight.size(), 5U + 3 + 1 + 16) << "one record";
    flight[at] ^= std::byte{1};
    server.accept(flight);
    EXPECT_TRUE(server.take_data().empty());
    EXPECT_TRUE(server.state() == State::failed || at == 3 || at == 4) << "but for a longer record, which never comes";
    EXPECT_FALSE(server.write(as_bytes("abc")) && server.state() == State::failed);
  }
}

TEST(Handshake, APeersGoodbyeIsSeen) {
  Handshake server = begin(Role::server, of_server());
  Other client(false, TLS1_3_VERSION, "ftx/2");
  client.run_with(server);
  ASSERT_EQ(server.state(), State::complete);
  SSL_shutdown(client.ssl());
  client.run_with(server);
  expect_failure(server);
  EXPECT_EQ(server.error(), "the client ended the session");
}

/// Takes every offered secret for the right one of these tests.
int find_right_secret(SSL* ssl, const unsigned char* /*name*/, std::size_t /*size*/, SSL_SESSION** session) {
  const Secret right = secret(Shared::right);
  const unsigned char suite[] = {0x13, 0x01};
  *session = SSL_SESSION_new();
  SSL_SESSION_set1_master_key(*session, reinterpret_cast<const unsigned char*>(right.bytes().data()), right.size());
  SSL_SESSION_set_cipher(*session, SSL_CIPHER_find(ssl, suite));
  SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION);
  return 1;
}

int choose_ftx(SSL* /*ssl*/, const unsigned char** chosen, unsigned char* size, const unsigned char* offered,
               unsigned /*offered_size*/, void* /*argument*/) {
  *chosen = offered + 1;
  *size = offered[0];
  return SSL_TLSEXT_ERR_OK;
}

/// RFC 8446 section 4.1.4: "The server will send this message in response to a ClientHello message if it is able to
/// find an acceptable set of parameters but the ClientHello does not contain sufficient information to proceed with the
/// handshake."
TEST(Handshake, GoesOnAfterAHelloRetryRequest) {
  Handshake server = begin(Role::server, of_server());
  Other client(false, TLS1_3_VERSION, "ftx/2");
  SSL_set1_groups_list(client.ssl(), "P-384:X25519");  // its only key share is of a group that the server lacks
  client.run_with(server);
  EXPECT_EQ(server.state(), State::complete) << server.error();

  for (const bool by_secret : {true, false}) {
    Options options = of_client();
    options.shared_secret = secret(by_secret ? Shared::right : Shared::none);
    Handshake of_ours = begin(Role::client, std::move(options));
    Other retrying(true, TLS1_3_VERSION, nullptr);
    SSL_set1_groups_list(retrying.ssl(), "P-256");
    SSL_CTX_set_alpn_select_cb(SSL_get_SSL_CTX(retrying.ssl()), choose_ftx, nullptr);
    SSL_set_psk_find_session_callback(retrying.ssl(), by_secret ? find_right_secret : nullptr);
    retrying.run_with(of_ours);
    EXPECT_EQ(of_ours.state(), State::complete) << of_ours.error();
    EXPECT_EQ(of_ours.used_shared_secret(), by_secret);
  }
}

}  // namespace
}  // namespace sluice::ftx
