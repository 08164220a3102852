// SPDX-License-Identifier: Apache-2.0
#include "tests/hostile/standing_server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>

#include "apps/ftx/session/client_handshake.h"
#include "base/sanitizers.h"
#include "tests/file_text.h"
#include "tests/hostile/far_side.h"

namespace sluice::ftx::hostile {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t content_bytes = 3'000'000;
constexpr std::uint64_t server_kib_max = (sluice::sanitized ? 1024 : 96) * 1024;

TimePoint now() { return TimePoint(std::chrono::duration_cast<Duration>(Clock::now().time_since_epoch())); }

}  // namespace

StandingServer::StandingServer()
    : key_(Identity::create().value()), good_(Identity::create().value()), content_(random_content(content_bytes)) {
  std::string pattern = (std::filesystem::temp_directory_path() / "ftx-standing-XXXXXX").string();
  top_ = ::mkdtemp(pattern.data());
  std::filesystem::create_directories(top_ / "served" / "sub");
  std::filesystem::create_directory(top_ / "client");
  std::ofstream(top_ / "outside") << "secret";
  std::ofstream(top_ / "served" / "a.bin", std::ios::binary) << as_text(content_);
  std::ofstream(top_ / "served" / "sub" / "b") << "b";
  std::filesystem::create_symlink("../outside", top_ / "served" / "link");
  std::filesystem::create_symlink("..", top_ / "served" / "up");
  EXPECT_EQ(::mkfifo((top_ / "served" / "fifo").c_str(), 0600), 0);
  EXPECT_TRUE(key_.store(top_ / "server.key") && good_.store(top_ / "client.key"));
  std::ofstream(top_ / "allowed") << good_.pin().text() << " the good one\n";
  process_ = std::make_unique<FtxProcess>(
      std::vector<std::string>{"serve", "served", "--json", "--listen", "127.0.0.1", "--port", "0", "--key",
                               "server.key", "--allow", "allowed", "--idle-timeout", "2"},
      top_);
  for (int i = 0; i < 200 && process_->output().find("listening") == std::string::npos; ++i) {
    static_cast<void>(process_->read(50ms));
  }
  const auto at = process_->output().find("127.0.0.1:");
  if (at != std::string::npos) {
    port_ = static_cast<std::uint16_t>(std::strtoul(process_->output().c_str() + at + 10, nullptr, 10));
  }
}

StandingServer::~StandingServer() {
  process_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(top_, ignored);
}

std::unique_ptr<FtxProcess> StandingServer::fetch(const std::string& as, int rate) {
  const std::string url = "ftx://127.0.0.1:" + std::to_string(port_) + "/a.bin";
  return std::make_unique<FtxProcess>(
      std::vector<std::string>{url, "client/" + as, "--key", "client.key", "--known-hosts", "known", "--accept-key",
                               key_.pin().text(), "--json", "--rate", std::to_string(rate)},
      top_);
}

bool StandingServer::fetched(FtxProcess& client, const std::string& as) {
  const auto code = client.wait(20s);
  process_->look_at_memory();
  const bool good = code == 0 && file_text(top_ / "client" / as) == as_text(content_);
  std::filesystem::remove(top_ / "client" / as);
  return good;
}

void StandingServer::expect_well(int attempts) {
  bool served = false;
  for (int i = 0; i < attempts && !served; ++i) {
    const auto client = fetch("good", 2000);
    served = fetched(*client, "good");
    if (!served) {
      EXPECT_LT(i + 1, attempts) << "a good client: " << client->output() << process_->output();
      ::poll(nullptr, 0, 1000);
    }
  }
  FtxProcess push({"client.key", "ftx://127.0.0.1:" + std::to_string(port_) + "/pushed", "--key", "client.key",
                   "--known-hosts", "known", "--json"},
                  top_);
  EXPECT_EQ(push.wait(20s), 0) << push.output();
  process_->look_at_memory();
  EXPECT_LE(process_->own_kib_most(), server_kib_max);
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(top_)) {
    names.insert(entry.path().lexically_relative(top_).string());
  }
  EXPECT_EQ(names, (std::set<std::string>{"allowed", "client", "client.key", "known", "outside", "server.key", "served",
                                          "served/a.bin", "served/fifo", "served/link", "served/pushed", "served/sub",
                                          "served/sub/b", "served/up"}));
  EXPECT_EQ(file_text(top_ / "outside"), "secret");
  process_->signal(SIGINT);
  EXPECT_EQ(process_->wait(10s), static_cast<int>(ExitCode::interrupted)) << process_->output();
}

// --- The liar ------------------------------------------------------------------------------------------------------

Handshake TlsLiar::begin(StandingServer& server, Key key) {
  HandshakeContext::Options options;
  if (key != Key::none) {
    options.identity = key == Key::allowed ? server.good() : Identity::create().value();
  }
  options.check_peer = expect_key(server.pin());
  return HandshakeContext::create(HandshakeContext::Role::client, std::move(options)).value().begin().value();
}

TlsLiar::TlsLiar(StandingServer& server, Key key, std::uint64_t connection)
    : liar(server.port(), std::nullopt), handshake(begin(server, key)), stream(50ms) {
  liar.envelope.connection = connection;
}

void TlsLiar::segment(std::size_t offset, ConstBytes bytes, std::size_t acknowledged, std::uint8_t cipher) {
  const Control control{.cookie = liar.cookie,
                        .cipher = cipher,
                        .offset = static_cast<std::uint32_t>(offset),
                        .acknowledged = static_cast<std::uint32_t>(acknowledged),
                        .bytes = bytes};
  liar.raw(ConstBytes(liar.out).first(emit_control(liar.envelope, control, liar.out)));
}

void TlsLiar::send() {
  EXPECT_TRUE(stream.send(handshake.take_output()));
  while (const auto control = stream.next(now())) {
    segment(control->offset, control->bytes, control->acknowledged);
  }
}

void TlsLiar::listen(Millis time) {
  const auto datagram = liar.hear(time);
  const auto control =
      datagram && datagram->envelope.kind == Kind::control ? parse_control(datagram->datagram) : std::nullopt;
  if (!control) {
    return;
  }
  ++heard;
  stream.receive(now(), *control);
  handshake.accept(stream.take_received());
  if (handshake.state() == Handshake::State::complete) {
    const Content more = handshake.take_data();
    data_.insert(data_.end(), more.begin(), more.end());
  }
}

bool TlsLiar::shake(bool last_flight) {
  if (liar.cookie == Cookie{}) {
    greet();
  }
  for (int i = 0; i < 100 && handshake.state() == Handshake::State::in_progress; ++i) {
    send();
    listen(50ms);
  }
  if (last_flight) {
    send();
  }
  return handshake.state() == Handshake::State::complete;
}

void TlsLiar::say(ConstBytes data) {
  EXPECT_TRUE(handshake.write(data));
  send();
}

std::optional<PullRefusal> TlsLiar::refusal() {
  for (int i = 0; i < 100 && data_.empty() && handshake.state() == Handshake::State::complete; ++i) {
    listen(50ms);
    send();
  }
  const auto message = parse_pull_message(data_);
  const auto* refusal = message && *message ? std::get_if<PullRefusal>(&**message) : nullptr;
  return refusal != nullptr ? std::optional(*refusal) : std::nullopt;
}

void TlsLiar::use_keys() {
  liar.protection = protection_of(handshake, Cipher::aes_128_gcm, Side::initiator).value();
  liar.envelope.connection = liar.protection->connection();
}

}  // namespace sluice::ftx::hostile
