// SPDX-License-Identifier: Apache-2.0
// Jobs of the library: two of them in one process, over loopback.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "apps/ftx/library/ftx.h"
#include "apps/ftx/library/ftx.hpp"
#include "tests/file_text.h"

namespace {

using sluice::file_text;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

class FtxJob : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "ftx_job_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    top_ = pattern;
    fs::create_directories(top_ / "source/deeper");
    fs::create_directory(top_ / "served");
    write(top_ / "secret", std::string(64, 'a'));
    fs::permissions(top_ / "secret", fs::perms::owner_read | fs::perms::owner_write);
    write(top_ / "source/small", "small");
    write(top_ / "source/deeper/large", std::string(3'000'000, 'x'));
  }
  void TearDown() override { fs::remove_all(top_); }

  static void write(const fs::path& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
  }

  ftx::Job server() {
    ftx::Job job(ftx::Job::Kind::serve);
    job.set("listen", "127.0.0.1").set("port", "0").set("secret-file", (top_ / "secret").string());
    job.add((top_ / "served").string());
    return job;
  }
  ftx::Job transfer() {
    ftx::Job job(ftx::Job::Kind::transfer);
    job.set("secret-file", (top_ / "secret").string());
    return job;
  }

  fs::path top_;
};

/// A descriptor of the process leads elsewhere while this lives.
class Redirected {
 public:
  Redirected(int descriptor, int to) : descriptor_(descriptor), before_(::dup(descriptor)) {
    EXPECT_EQ(::dup2(to, descriptor), descriptor);
    ::close(to);
  }
  ~Redirected() {
    ::dup2(before_, descriptor_);
    ::close(before_);
  }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;

 private:
  int descriptor_, before_;
};

/// A server in a thread of its own, until this goes.
class Running {
 public:
  explicit Running(ftx::Job job) : job_(std::move(job)) {
    job_.on_event([this](const ftx::Event& event) {
      if (event.kind == FTX_LISTENING) {
        address_.set_value(event.path);
      }
      kinds_.push_back(event.kind);
    });
    thread_ = std::thread([this] { outcome_ = job_.run(); });
  }
  ~Running() { end(); }
  std::string url() { return "ftx://" + address_.get_future().get() + "/"; }
  ftx::Outcome end() {
    if (thread_.joinable()) {
      job_.stop();
      thread_.join();
    }
    return outcome_;
  }
  [[nodiscard]] const std::vector<ftx_event_kind>& kinds() const { return kinds_; }

 private:
  ftx::Job job_;
  std::promise<std::string> address_;
  std::vector<ftx_event_kind> kinds_;  // of the thread
  ftx::Outcome outcome_;
  std::thread thread_;
};

TEST_F(FtxJob, ATreeGoesThereAndBack) {
  Running running(server());
  const std::string url = running.url();
  std::vector<std::string> files;
  nlohmann::json done;
  ftx::Job push = transfer();
  push.set("archive").add((top_ / "source").string()).add(url).watch_files();
  push.on_event([&](const ftx::Event& event) {
    if (event.kind == FTX_FILE) {
      files.emplace_back(event.path);
    } else if (event.kind == FTX_DONE) {
      EXPECT_EQ(event.files, 2U);
      EXPECT_EQ(event.bytes, 3'000'005U);
      done = nlohmann::json::parse(ftx::json(event));
    }
  });
  const ftx::Outcome pushed = push.run();
  ASSERT_TRUE(pushed) << pushed.text;
  EXPECT_EQ(pushed.text, "");
  EXPECT_EQ(files.size(), 2U);
  EXPECT_EQ(done["event"], "done");
  EXPECT_EQ(done["bytes"], 3'000'005);
  EXPECT_EQ(file_text(top_ / "served/source/small"), "small");

  ftx::Job fetch = transfer();
  fetch.set("archive").add(url + "source").add((top_ / "back/").string());
  fs::create_directory(top_ / "back");
  const ftx::Outcome fetched = fetch.run();
  ASSERT_TRUE(fetched) << fetched.text;
  EXPECT_EQ(file_text(top_ / "back/source/deeper/large"), std::string(3'000'000, 'x'));

  const ftx::Outcome ended = running.end();
  EXPECT_EQ(ended.code, 130);
  EXPECT_EQ(running.kinds().front(), FTX_LISTENING);
}

TEST_F(FtxJob, StandardInputGoesThereAndComesBackOnStandardOutput) {
  Running running(server());
  const std::string url = running.url();
  std::string content(3'000'001, 'x');
  for (std::size_t i = 0; i < content.size(); i += 1000) {
    content[i] = static_cast<char>('a' + i / 1000 % 26);
  }
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  std::thread writer([&content, to = ends[1]] {
    for (std::size_t at = 0; at < content.size();) {
      const ssize_t put = ::write(to, content.data() + at, std::min<std::size_t>(content.size() - at, 100'000));
      ASSERT_GT(put, 0);
      at += static_cast<std::size_t>(put);
    }
    ::close(to);
  });
  {
    const Redirected input(STDIN_FILENO, ends[0]);
    ftx::Job push = transfer();
    const ftx::Outcome pushed = push.add("-").add(url + "piped").run();
    EXPECT_TRUE(pushed) << pushed.text;
  }
  writer.join();
  EXPECT_EQ(file_text(top_ / "served/piped"), content);

  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  std::string back;
  std::thread reader([&back, from = ends[0]] {
    char some[65536];
    for (ssize_t got = ::read(from, some, sizeof some); got > 0; got = ::read(from, some, sizeof some)) {
      back.append(some, static_cast<std::size_t>(got));
    }
    ::close(from);
  });
  ftx::Outcome fetched;
  {
    const Redirected output(STDOUT_FILENO, ends[1]);
    ftx::Job fetch = transfer();
    fetched = fetch.add(url + "piped").add("-").run();
  }
  reader.join();
  EXPECT_TRUE(fetched) << fetched.text;
  EXPECT_EQ(back, content);
}

TEST_F(FtxJob, StandardInputThatCannotBeSentSoIsAnErrorAtOnce) {
  for (const std::string option : {"checksum", "itemize-changes", "delta"}) {
    ftx::Job push = transfer();
    const ftx::Outcome outcome = push.set(option).add("-").add("ftx://127.0.0.1:9/x").run();
    EXPECT_EQ(outcome.code, 2) << option;
    EXPECT_THAT(outcome.text, HasSubstr("standard input is not compared")) << option;
  }
}

TEST_F(FtxJob, TheProcessIsLeftAlone) {
  ASSERT_EQ(::prctl(PR_GET_DUMPABLE), 1);
  struct sigaction before{}, after{};
  ::sigaction(SIGINT, nullptr, &before);
  {
    Running running(server());
    ftx::Job push = transfer();
    push.add((top_ / "source/small").string()).add(running.url());
    EXPECT_TRUE(push.run());
  }
  EXPECT_EQ(::prctl(PR_GET_DUMPABLE), 1);
  EXPECT_EQ(::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 0);
  ::sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
  write(top_ / "outside", "no Landlock");
  EXPECT_EQ(file_text(top_ / "outside"), "no Landlock");
}

TEST_F(FtxJob, AStopEndsItAlsoBeforeItBegins) {
  ftx::Job job = server();
  job.stop();
  EXPECT_EQ(job.run().code, 130);
}

TEST_F(FtxJob, AStopWhileNobodyAnswersEndsIt) {
  const int silent = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(::bind(silent, reinterpret_cast<sockaddr*>(&at), size), 0);
  ASSERT_EQ(::getsockname(silent, reinterpret_cast<sockaddr*>(&at), &size), 0);
  ftx::Job push = transfer();
  push.add((top_ / "source/small").string()).add("ftx://127.0.0.1:" + std::to_string(ntohs(at.sin_port)) + "/");
  std::thread stopper([&push, silent] {
    char greeting[2000];
    EXPECT_GT(::recv(silent, greeting, sizeof greeting, 0), 0);
    push.stop();
  });
  const ftx::Outcome outcome = push.run();
  stopper.join();
  ::close(silent);
  EXPECT_EQ(outcome.code, 130);
  EXPECT_THAT(outcome.text, HasSubstr("interrupted"));
}

TEST_F(FtxJob, AFailureSaysWhatAndWhatToDo) {
  ftx::Job push = transfer();
  push.add((top_ / "no such").string()).add("ftx://127.0.0.1:9/");
  const ftx::Outcome outcome = push.run();
  EXPECT_EQ(outcome.code, 5);
  EXPECT_THAT(outcome.text, HasSubstr("no such"));
  EXPECT_THAT(outcome.text, HasSubstr("check its name"));
}

TEST_F(FtxJob, WrongOptionsAreRefusedAtOnce) {
  ftx::Job job(ftx::Job::Kind::transfer);
  for (const std::string name : {"", "no-such", "-r", "--rate", "help", "h", "json", "quiet", "version", "port"}) {
    EXPECT_THROW(job.set(name), std::invalid_argument) << name;
  }
  EXPECT_THROW(job.set("rate"), std::invalid_argument) << "needs a value";
  EXPECT_THROW(job.set("archive", "yes"), std::invalid_argument);
  EXPECT_NO_THROW(job.set("archive", false).set("rate", "12").set("p", "22"));
}

TEST_F(FtxJob, WrongValuesAndOperandsAreErrorsOfTheRun) {
  ftx::Job rate(ftx::Job::Kind::transfer);
  rate.set("rate", "-1").add("a").add("host:b");
  ftx::Outcome outcome = rate.run();
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.text, HasSubstr("--rate"));

  ftx::Job nothing(ftx::Job::Kind::transfer);
  outcome = nothing.run();
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.text, HasSubstr("SRC... DEST"));

  ftx::Job local(ftx::Job::Kind::transfer);
  local.add("--help").add("there");  // operands, whatever they begin with
  outcome = local.run();
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.text, HasSubstr("is on this host"));
  outcome = local.run();
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.text, HasSubstr("make another one"));
}

TEST_F(FtxJob, TheOrderOfRulesCounts) {
  Running running(server());
  ftx::Job push = transfer();
  push.set("archive").set("include", "small").set("exclude", "*").add((top_ / "source/").string()).add(running.url());
  const ftx::Outcome outcome = push.run();
  ASSERT_TRUE(outcome) << outcome.text;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(top_ / "served")) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, ElementsAre("small"));
}

TEST_F(FtxJob, WhatAHandlerThrowsEndsTheJobAndComesOut) {
  Running running(server());
  ftx::Job push = transfer();
  push.set("archive").add((top_ / "source").string()).add(running.url());
  push.on_event([](const ftx::Event&) { throw std::runtime_error("enough"); });
  EXPECT_THROW(push.run(), std::runtime_error);
}

TEST(FtxLibrary, Codes) {
  EXPECT_STREQ(ftx_code_meaning(11), "what was written differs from what was read");
  EXPECT_STREQ(ftx_code_meaning(99), "");
  ftx_job_free(nullptr);
}

}  // namespace
