// SPDX-License-Identifier: Apache-2.0
#include "tests/hostile/far_side.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/sanitizers.h"
#include "tests/apps/ftx/content.h"
#include "tests/file_text.h"

namespace sluice::ftx::hostile {
namespace {

constexpr std::uint32_t idle_timeout_ms = 1000;
constexpr Millis end_within = 20s;  // of an end that gives up after a second

// What a session with a peer who tells the truth takes is a few MiB. Sanitizers keep what was freed, and shadows.
constexpr std::uint64_t transfer_kib_max = (sluice::sanitized ? 512 : 32) * 1024;

}  // namespace

std::vector<std::byte> random_content(std::size_t size) { return test::random_content(size, size); }

FarSide::FarSide(bool sealed, StartDirection direction, const std::string& path)
    : sealed_(sealed), direction_(direction) {
  std::string pattern = (std::filesystem::temp_directory_path() / "ftx-liar-XXXXXX").string();
  top_ = ::mkdtemp(pattern.data());
  std::filesystem::create_directory(home());
  std::ofstream(top_ / "outside") << "as it was";
  if (direction == StartDirection::pull) {
    const auto content = random_content(source_bytes);
    std::ofstream(home() / "a.bin", std::ios::binary) << as_text(content);
  }
  if (!sealed) {
    if (direction == StartDirection::push) {
      process_ = std::make_unique<FtxProcess>(
          std::vector<std::string>{"serve", ".", "--insecure", "--json", "--once", "--listen", "127.0.0.1", "--port",
                                   "0", "--idle-timeout", "1"},
          home());
      for (int i = 0; i < 200 && process_->output().find("listening") == std::string::npos; ++i) {
        static_cast<void>(process_->read(50ms));
      }
      const auto at = process_->output().find("127.0.0.1:");
      port_ = at == std::string::npos
                  ? std::uint16_t{0}
                  : static_cast<std::uint16_t>(std::strtoul(process_->output().c_str() + at + 10, nullptr, 10));
    }
    return;
  }
  const auto secret = random_content(session_secret_bytes);
  StartRequest request;
  request.secret = Secret(secret);
  request.direction = direction;
  request.session_version = protocol_version;
  request.idle_timeout_ms = idle_timeout_ms;
  request.program = "liar";
  request.paths = {direction == StartDirection::push ? path : "a.bin"};
  process_ = std::make_unique<FtxProcess>(std::vector<std::string>{"remote"}, home());
  const auto message = encode(request);
  if (!message) {
    return;
  }
  process_->write(*message);
  StartReader reader(StartReader::Preamble::none);
  for (int i = 0; i < 200 && port_ == 0; ++i) {
    reader.feed(process_->read(50ms));
    const auto next = reader.next();
    if (!next) {
      return;
    }
    if (*next && std::holds_alternative<StartReady>(**next)) {
      port_ = std::get<StartReady>(**next).udp_port;
    }
  }
  protection_ = Protection::create(KeySchedule(Secret(secret)), Cipher::aes_128_gcm, Side::initiator).value();
}

FarSide::~FarSide() {
  process_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(top_, ignored);
}

void FarSide::begin(std::uint16_t port) {
  process_ =
      std::make_unique<FtxProcess>(std::vector<std::string>{"a.bin", "ftx://127.0.0.1:" + std::to_string(port) + "/",
                                                            "--insecure", "--json", "--idle-timeout", "1"},
                                   home());
}

std::optional<int> FarSide::announced(Millis timeout) {
  for (Millis waited{}; waited <= timeout; waited += 50ms) {
    const std::string& text = process_->output();
    if (text.find("\"event\":\"done\"") != std::string::npos) {
      return 0;
    }
    const auto at = text.find("\"event\":\"error\",\"code\":");
    if (at != std::string::npos) {
      return std::atoi(text.c_str() + at + 23);
    }
    static_cast<void>(process_->read(50ms));
  }
  return std::nullopt;
}

void FarSide::expect_end(const std::set<ExitCode>& codes) {
  process_->look_at_memory();
  const bool waits = codes.contains(ExitCode::interrupted);
  std::optional<int> code;
  if (direction_ == StartDirection::pull) {
    code = process_->wait(end_within);
  } else if (sealed_) {
    // The near side closes the pipe when it knows the outcome, and so does the far side then.
    process_->close_input();
    code = process_->wait(end_within);
  } else {
    const auto said = announced(waits ? Millis(300) : end_within);
    process_->signal(SIGINT);
    code = process_->wait(end_within);
    code = code && said ? said : code;
  }
  ASSERT_TRUE(code.has_value()) << "it hangs: " << process_->output();
  const bool expected = std::ranges::any_of(codes, [&](ExitCode one) { return static_cast<int>(one) == *code; });
  EXPECT_TRUE(expected) << "exit code " << *code << ": " << process_->output();
  EXPECT_LE(process_->own_kib_most(), transfer_kib_max);
}

void FarSide::expect_files(const std::optional<std::vector<std::byte>>& content) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(top_)) {
    names.insert(std::filesystem::relative(entry.path(), top_).string());
  }
  std::set<std::string> expected{"home", "outside"};
  if (content) {
    expected.insert("home/a.bin");
  }
  EXPECT_EQ(names, expected);
  EXPECT_EQ(file_text(top_ / "outside"), "as it was");
  if (content) {
    EXPECT_TRUE(file_text(home() / "a.bin") == as_text(*content)) << "other bytes";
  }
}

}  // namespace sluice::ftx::hostile
