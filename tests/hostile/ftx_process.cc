// SPDX-License-Identifier: Apache-2.0
#include "tests/hostile/ftx_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "base/contract.h"

namespace sluice::ftx::hostile {
namespace {

using Clock = std::chrono::steady_clock;

Millis left(Clock::time_point until) {
  return std::max(Millis(0), std::chrono::duration_cast<Millis>(until - Clock::now()));
}

}  // namespace

FtxProcess::FtxProcess(const std::vector<std::string>& arguments, const std::filesystem::path& folder) {
  std::array<int, 2> in{}, out{};
  SLUICE_REQUIRE(::pipe2(in.data(), O_CLOEXEC) == 0 && ::pipe2(out.data(), O_CLOEXEC) == 0);
  std::string program = std::string(SLUICE_BIN_DIR) + "/ftx";
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  pid_ = ::fork();
  SLUICE_REQUIRE(pid_ >= 0);
  if (pid_ == 0) {
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::setenv("HOME", folder.c_str(), 1);
    ::setenv("SSH_CONNECTION", "127.0.0.1 1 127.0.0.1 22", 1);
    if (::chdir(folder.c_str()) == 0) {
      ::execv(program.c_str(), argv.data());
    }
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  input_ = in[1];
  output_ = out[0];
}

FtxProcess::~FtxProcess() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  close_input();
  ::close(output_);
}

void FtxProcess::write(ConstBytes bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(input_, bytes.data(), bytes.size());
    SLUICE_REQUIRE(written > 0);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void FtxProcess::close_input() {
  if (input_ >= 0) {
    ::close(std::exchange(input_, -1));
  }
}

std::vector<std::byte> FtxProcess::read(Millis timeout) {
  pollfd one{output_, POLLIN, 0};
  if (::poll(&one, 1, static_cast<int>(timeout.count())) <= 0) {
    return {};
  }
  std::vector<std::byte> bytes(4096);
  const ssize_t got = ::read(output_, bytes.data(), bytes.size());
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  text_ += as_text(bytes);
  return bytes;
}

const std::string& FtxProcess::output() {
  while (!read(0ms).empty()) {
  }
  return text_;
}

std::optional<int> FtxProcess::wait(Millis timeout) {
  const auto until = Clock::now() + timeout;
  while (true) {
    output();  // a full pipe must not stop it
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
    look_at_memory();
    if (left(until) == 0ms) {
      return std::nullopt;
    }
    ::poll(nullptr, 0, static_cast<int>(std::min(left(until), Millis(10)).count()));
  }
}

void FtxProcess::signal(int number) const {
  if (pid_ > 0) {
    ::kill(pid_, number);
  }
}

void FtxProcess::look_at_memory() {
  std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) {
      own_kib_most_ = std::max<std::uint64_t>(own_kib_most_, std::strtoull(line.c_str() + 8, nullptr, 10));
    }
  }
}

}  // namespace sluice::ftx::hostile
