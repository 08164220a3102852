// SPDX-License-Identifier: Apache-2.0
#pragma once

// StandingServer: the real `ftx serve`, with a key, a list of allowed keys and some files, in a directory of its own;
// and TlsLiar, a client of it that says what a test wants in its handshake.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "apps/ftx/protocol/request.h"
#include "apps/ftx/security/handshake.h"
#include "apps/ftx/session/control_stream.h"
#include "tests/hostile/ftx_process.h"
#include "tests/hostile/liar.h"

namespace sluice::ftx::hostile {

class StandingServer {
 public:
  StandingServer();
  ~StandingServer();
  StandingServer(const StandingServer&) = delete;
  StandingServer& operator=(const StandingServer&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] const Identity& good() const { return good_; }
  [[nodiscard]] const KeyPin& pin() const { return key_.pin(); }
  /// A good client that begins to fetch "a.bin" into `as`, at `rate` Mbit/s.
  [[nodiscard]] std::unique_ptr<FtxProcess> fetch(const std::string& as, int rate);
  /// It ends well, and what it fetched is right. False: it did not, and may try again.
  [[nodiscard]] bool fetched(FtxProcess& client, const std::string& as);
  /// What must hold whatever happened: good clients are served, within `attempts` each, nothing has been written but
  /// theirs, nothing has got out, little memory was taken, and the server ends as it should.
  void expect_well(int attempts = 1);

 private:
  std::filesystem::path top_;
  Identity key_, good_;
  Content content_;
  std::unique_ptr<FtxProcess> process_;
  std::uint16_t port_ = 0;
};

class TlsLiar {
 public:
  enum class Key : std::uint8_t { allowed, foreign, none };

  explicit TlsLiar(StandingServer& server, Key key = Key::allowed, std::uint64_t connection = 0x1122334455667788);

  /// HELLO and COOKIE.
  void greet() { liar.greet(); }
  /// A segment as it is.
  void segment(std::size_t offset, ConstBytes bytes, std::size_t acknowledged = 0, std::uint8_t cipher = 1);
  /// What TLS has to say, honestly carried.
  void send();
  /// Takes what comes for so long, and answers.
  void listen(Millis time);
  /// Until the client is complete or has failed; sends its last flight only if told to. 5 s at most.
  bool shake(bool last_flight = true);
  /// Says something behind the handshake. REQUIRES: shake().
  void say(ConstBytes data);
  /// The server's refusal, if that is what it says within 5 s.
  [[nodiscard]] std::optional<PullRefusal> refusal();
  /// Keys the liar with the handshake's secret: what it hears from then on is the session's. REQUIRES: shake().
  void use_keys();

  Liar liar;
  Handshake handshake;
  ControlStream stream;
  std::size_t heard = 0;  // CONTROLs

 private:
  [[nodiscard]] static Handshake begin(StandingServer& server, Key key);
  Content data_;
};

}  // namespace sluice::ftx::hostile
