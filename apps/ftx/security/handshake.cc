// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/security/handshake.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "apps/ftx/security/key_schedule.h"
#include "base/contract.h"

namespace sluice::ftx {
namespace {

constexpr std::array<unsigned char, 6> protocols{5, 'f', 't', 'x', '/', '2'};  // RFC 7301: a length, then the name
constexpr std::array<unsigned char, 2> suite{0x13, 0x01};                      // TLS_AES_128_GCM_SHA256
constexpr std::array<unsigned char, 4> session_context{'f', 't', 'x', '2'};    // OpenSSL wants one for shared secrets
constexpr long certificates_bytes_max = 8L << 10;

struct FreeSsl {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};

std::string reason() {
  const char* const text = ERR_reason_error_string(ERR_peek_last_error());
  return text == nullptr ? "no reason given" : text;
}

}  // namespace

struct HandshakeContext::Shared {
  Role role;
  Options options;
  Secret secret_name;  // by which the peer finds the shared secret; derived from it, says nothing about it
  std::unique_ptr<SSL_CTX, FreeSsl> context;
};

struct Handshake::Engine {
  std::shared_ptr<const HandshakeContext::Shared> shared;
  std::unique_ptr<SSL, FreeSsl> ssl;
  BIO* input = nullptr;  // both are the SSL's
  BIO* output = nullptr;
  State state = State::in_progress;
  std::string error;
  std::string refusal;  // why the peer's key was not good enough
  std::optional<KeyPin> peer;
  std::size_t accepted = 0;
  std::vector<std::byte> data;  // the peer's, behind the handshake

  void advance();
  void read_after();
  void complete();
  void fail_with(std::string text);
  void fail_by_openssl(int result);
};

namespace {

using Shared = HandshakeContext::Shared;

Handshake::Engine& engine_of(const SSL* ssl) {
  return *static_cast<Handshake::Engine*>(SSL_get_app_data(const_cast<SSL*>(ssl)));
}

const char* peer_of(const Shared& shared) {
  return shared.role == HandshakeContext::Role::client ? "the server" : "the client";
}

/// In place of OpenSSL's checks of chains, names and times: the key decides. That the peer holds it, its
/// CertificateVerify proves (RFC 8446 section 4.4.3).
int verify(X509_STORE_CTX* store, void* /*argument*/) {
  const auto* const ssl =
      static_cast<const SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  Handshake::Engine& engine = engine_of(ssl);
  const X509* const certificate = X509_STORE_CTX_get0_cert(store);
  const auto& check = engine.shared->options.check_peer;
  const Result<KeyPin> pin = certificate == nullptr ? fail(EINVAL, "no certificate") : KeyPin::of(certificate);
  if (!pin) {
    engine.refusal = pin.error().text;
  } else if (!check) {
    engine.refusal = std::string(peer_of(*engine.shared)) + " does not know the shared secret";
  } else if (const Status good = check(*pin); !good) {
    engine.refusal = good.error().text;
  } else {
    engine.peer = *pin;
    X509_STORE_CTX_set_error(store, X509_V_OK);
    return 1;
  }
  X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
}

/// The shared secret as a session of which only this much is known: its key, suite and version.
SSL_SESSION* session_of(SSL* ssl) {
  const Secret& secret = engine_of(ssl).shared->options.shared_secret;
  std::unique_ptr<SSL_SESSION, FreeSsl> session(SSL_SESSION_new());
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl, suite.data());
  const auto* const key = reinterpret_cast<const unsigned char*>(secret.bytes().data());
  if (session == nullptr || cipher == nullptr || SSL_SESSION_set1_master_key(session.get(), key, secret.size()) != 1 ||
      SSL_SESSION_set1_id_context(session.get(), session_context.data(), session_context.size()) != 1 ||
      SSL_SESSION_set_cipher(session.get(), cipher) != 1 ||
      SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) != 1) {
    return nullptr;
  }
  return session.release();
}

int offer_secret(SSL* ssl, const EVP_MD* digest, const unsigned char** name, std::size_t* size, SSL_SESSION** session) {
  const ConstBytes secret_name = engine_of(ssl).shared->secret_name.bytes();
  *session = nullptr;
  if (digest != nullptr && EVP_MD_is_a(digest, "SHA256") != 1) {
    return 1;  // after a HelloRetryRequest: the suite's hash is not the secret's
  }
  *session = session_of(ssl);
  *name = reinterpret_cast<const unsigned char*>(secret_name.data());
  *size = secret_name.size();
  return *session == nullptr ? 0 : 1;
}

int find_secret(SSL* ssl, const unsigned char* name, std::size_t size, SSL_SESSION** session) {
  *session = nullptr;
  if (Secret::equal(std::as_bytes(std::span(name, size)), engine_of(ssl).shared->secret_name.bytes())) {
    *session = session_of(ssl);
    return *session == nullptr ? 0 : 1;
  }
  return 1;  // unknown here: keys decide
}

int select_protocol(SSL* /*ssl*/, const unsigned char** chosen, unsigned char* size, const unsigned char* offered,
                    unsigned offered_size, void* /*argument*/) {
  unsigned char* match = nullptr;
  if (SSL_select_next_proto(&match, size, protocols.data(), protocols.size(), offered, offered_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *chosen = match;
  return SSL_TLSEXT_ERR_OK;
}

Status check(HandshakeContext::Role role, const HandshakeContext::Options& options) {
  const bool has_secret = !options.shared_secret.empty();
  if (has_secret && options.shared_secret.size() != HandshakeContext::shared_secret_bytes) {
    return fail(EINVAL, "a shared secret has 32 bytes");
  }
  if (role == HandshakeContext::Role::server && !options.identity && !has_secret) {
    return fail(EINVAL, "a server needs a key or a shared secret");
  }
  const bool judges_keys = options.check_peer || (role == HandshakeContext::Role::server && options.anonymous_clients);
  return judges_keys || has_secret ? Status{} : fail(EINVAL, "neither a check of the peer's key nor a shared secret");
}

/// What is spoken: TLS 1.3, suites with SHA-256 (the hash of the shared secret), X25519 or P-256, Ed25519.
bool restrict(SSL_CTX* context) {
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_clear_options(context, SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  // A half-open handshake takes 45 KiB instead of 79: of those, strangers can make a server hold many.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_max_send_fragment(context, 4096);
  SSL_CTX_set_max_cert_list(context, certificates_bytes_max);
  return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_session_id_context(context, session_context.data(), session_context.size()) == 1 &&
         SSL_CTX_set_num_tickets(context, 0) == 1 && SSL_CTX_set_max_early_data(context, 0) == 1 &&
         SSL_CTX_set_recv_max_early_data(context, 0) == 1 &&
         SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256") == 1 &&
         SSL_CTX_set1_groups_list(context, "X25519:P-256") == 1 && SSL_CTX_set1_sigalgs_list(context, "ed25519") == 1;
}

bool configure(Shared& shared) {
  SSL_CTX* const context = shared.context.get();
  const bool is_server = shared.role == HandshakeContext::Role::server;
  if (context == nullptr || !restrict(context)) {
    return false;
  }
  const bool asks_for_key = !is_server || !shared.options.anonymous_clients;
  SSL_CTX_set_verify(context, asks_for_key ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT : SSL_VERIFY_NONE,
                     nullptr);
  SSL_CTX_set_cert_verify_callback(context, verify, nullptr);
  if (const auto& identity = shared.options.identity; identity) {
    if (SSL_CTX_use_certificate(context, identity->certificate()) != 1 ||
        SSL_CTX_use_PrivateKey(context, identity->key()) != 1) {
      return false;
    }
  }
  if (!shared.options.shared_secret.empty()) {
    is_server ? SSL_CTX_set_psk_find_session_callback(context, find_secret)
              : SSL_CTX_set_psk_use_session_callback(context, offer_secret);
  }
  if (is_server) {
    SSL_CTX_set_alpn_select_cb(context, select_protocol, nullptr);
    return true;
  }
  return SSL_CTX_set_alpn_protos(context, protocols.data(), protocols.size()) == 0;  // 0 is success here
}

}  // namespace

Result<HandshakeContext> HandshakeContext::create(Role role, Options options) {
  if (const Status good = check(role, options); !good) {
    return std::unexpected(good.error());
  }
  auto shared = std::make_shared<Shared>();
  shared->role = role;
  shared->options = std::move(options);
  if (const Secret& secret = shared->options.shared_secret; !secret.empty()) {
    Result<Secret> name = expand_label(secret, "psk name", {}, hash_bytes);
    if (!name) {
      return std::unexpected(name.error());
    }
    shared->secret_name = std::move(*name);
  }
  ERR_clear_error();
  shared->context.reset(SSL_CTX_new(role == Role::server ? TLS_server_method() : TLS_client_method()));
  if (!configure(*shared)) {
    return fail(ENOTSUP, "OpenSSL cannot speak TLS 1.3 as ftx needs it: " + reason());
  }
  HandshakeContext context;
  context.shared_ = std::move(shared);
  return context;
}

Result<Handshake> HandshakeContext::begin() const {
  auto engine = std::make_unique<Handshake::Engine>();
  engine->shared = shared_;
  engine->ssl.reset(SSL_new(shared_->context.get()));
  engine->input = BIO_new(BIO_s_mem());
  engine->output = BIO_new(BIO_s_mem());
  if (engine->ssl == nullptr || engine->input == nullptr || engine->output == nullptr) {
    BIO_free(engine->input);
    BIO_free(engine->output);
    return fail(ENOMEM, "no memory for a TLS handshake");
  }
  BIO_set_mem_eof_return(engine->input, -1);  // nothing there is not the end
  SSL_set_bio(engine->ssl.get(), engine->input, engine->output);
  SSL_set_app_data(engine->ssl.get(), engine.get());
  if (shared_->role == Role::server) {
    SSL_set_accept_state(engine->ssl.get());
  } else {
    SSL_set_connect_state(engine->ssl.get());
  }
  engine->advance();
  return Handshake(std::move(engine));
}

std::function<Status(const KeyPin&)> expect_key(const KeyPin& key) {
  return [key](const KeyPin& shown) -> Status {
    return shown == key ? Status{} : fail(EPERM, "the peer's key is " + shown.text() + ", not " + key.text());
  };
}

void Handshake::Engine::fail_with(std::string text) {
  state = State::failed;
  error = std::move(text);
  peer.reset();
}

void Handshake::Engine::fail_by_openssl(int result) {
  const int code = SSL_get_error(ssl.get(), result);
  if (code == SSL_ERROR_ZERO_RETURN) {
    fail_with(std::string(peer_of(*shared)) + " ended the session");
  } else {
    fail_with(refusal.empty() ? "TLS handshake with " + std::string(peer_of(*shared)) + ": " + reason() : refusal);
  }
  ERR_clear_error();
}

void Handshake::Engine::complete() {
  const unsigned char* protocol = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl.get(), &protocol, &size);
  if (size + 1 != protocols.size() || std::memcmp(protocol, protocols.data() + 1, size) != 0) {
    return fail_with(std::string(peer_of(*shared)) + " does not speak this version of ftx");
  }
  // Checked once more, whatever OpenSSL did: one of the two ways to know the peer, or an anonymous client.
  const bool anonymous = shared->role == HandshakeContext::Role::server && shared->options.anonymous_clients;
  if (SSL_version(ssl.get()) != TLS1_3_VERSION || (!peer && SSL_session_reused(ssl.get()) != 1 && !anonymous)) {
    return fail_with(std::string(peer_of(*shared)) + " has not proved who it is");
  }
  state = State::complete;
}

void Handshake::Engine::advance() {
  ERR_clear_error();
  if (state == State::in_progress) {
    const int result = SSL_do_handshake(ssl.get());
    if (result == 1) {
      complete();
    } else if (SSL_get_error(ssl.get(), result) != SSL_ERROR_WANT_READ) {
      return fail_by_openssl(result);
    }
  }
  if (state == State::complete) {
    read_after();
  }
}

/// What comes behind the handshake: data and alerts. It ends: there is no more data than input.
void Handshake::Engine::read_after() {
  std::array<std::byte, 1024> some;
  while (true) {
    std::size_t size = 0;
    const int result = SSL_read_ex(ssl.get(), some.data(), some.size(), &size);
    if (result != 1) {
      if (SSL_get_error(ssl.get(), result) != SSL_ERROR_WANT_READ) {
        fail_by_openssl(result);
      }
      return;
    }
    data.insert(data.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(size));
  }
}

Handshake::Handshake(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
Handshake::Handshake(Handshake&&) noexcept = default;
Handshake& Handshake::operator=(Handshake&&) noexcept = default;
Handshake::~Handshake() = default;

void Handshake::accept(ConstBytes input) {
  Engine& engine = *engine_;
  if (engine.state == State::failed || input.empty()) {
    return;
  }
  if (input.size() > input_bytes_max - engine.accepted) {
    return engine.fail_with(std::string(peer_of(*engine.shared)) + " sent more than a handshake's " +
                            std::to_string(input_bytes_max) + " bytes");
  }
  engine.accepted += input.size();
  if (BIO_write(engine.input, input.data(), static_cast<int>(input.size())) != static_cast<int>(input.size())) {
    return engine.fail_with("no memory for a TLS handshake");
  }
  engine.advance();
}

void Handshake::end_input() {
  if (engine_->state == State::in_progress) {
    engine_->fail_with("the handshake ended early");
  }
}

bool Handshake::write(ConstBytes data) {
  SLUICE_REQUIRE(!data.empty());
  std::size_t written = 0;
  ERR_clear_error();
  const bool done = engine_->state == State::complete &&
                    SSL_write_ex(engine_->ssl.get(), data.data(), data.size(), &written) == 1 && written == data.size();
  ERR_clear_error();
  return done;
}

std::vector<std::byte> Handshake::take_data() { return std::exchange(engine_->data, {}); }

std::vector<std::byte> Handshake::take_output() {
  std::vector<std::byte> output(BIO_ctrl_pending(engine_->output));
  if (!output.empty()) {
    BIO_read(engine_->output, output.data(), static_cast<int>(output.size()));
  }
  return output;
}

Handshake::State Handshake::state() const { return engine_->state; }

const std::string& Handshake::error() const { return engine_->error; }

Result<Secret> Handshake::export_secret(std::string_view label, ConstBytes context) const {
  if (engine_->state != State::complete) {
    return fail(EINVAL, "no secret before the handshake is complete");
  }
  Secret secret = Secret::of_size(exported_bytes);
  if (SSL_export_keying_material(engine_->ssl.get(), reinterpret_cast<unsigned char*>(secret.bytes().data()),
                                 secret.size(), label.data(), label.size(),
                                 reinterpret_cast<const unsigned char*>(context.data()), context.size(), 1) != 1) {
    ERR_clear_error();
    return fail(ENOTSUP, "OpenSSL exports no secret");
  }
  return secret;
}

std::optional<KeyPin> Handshake::peer() const {
  return engine_->state == State::complete ? engine_->peer : std::nullopt;
}

bool Handshake::used_shared_secret() const {
  return engine_->state == State::complete && SSL_session_reused(engine_->ssl.get()) == 1;
}

}  // namespace sluice::ftx
