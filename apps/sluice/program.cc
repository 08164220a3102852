// SPDX-License-Identifier: Apache-2.0
#include "apps/sluice/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/common/entropy.h"
#include "apps/common/statistics.h"

namespace sluice {

Program::Program(std::size_t pool_bytes)
    : set_(StreamSet::Options{.pool_bytes_max = std::max(pool_bytes, BufferPool::bytes_max_default),
                              .seed = entropy()}) {}

std::unique_ptr<Program> Program::start(std::size_t pool_bytes) {
  std::unique_ptr<Program> program(new Program(pool_bytes));
  auto loop = RunLoop::open(program->set_);
  if (!loop) {
    fmt::print(stderr, "sluice: {}\n", loop.error().text);
    return nullptr;
  }
  program->loop_ = std::move(*loop);
  const auto stop = [raw = program.get()] {
    raw->stopped_ = true;
    raw->loop_->stop();
  };
  for (const int signal : {SIGINT, SIGTERM}) {
    if (Status status = program->loop_->on_signal(signal, stop); !status) {
      fmt::print(stderr, "sluice: {}\n", status.error().text);
      return nullptr;
    }
  }
  return program;
}

std::unique_ptr<Stream> Program::open(const StackDeclaration& stack) {
  auto stream = open_stack(set_, stack);
  if (!stream) {
    fmt::print(stderr, "sluice: {}\n", stream.error().text);
    return nullptr;
  }
  (*stream)->set_waiter(loop_.get());
  return std::move(*stream);
}

void print_statistics(const StackDeclaration& stack, Stream& stream, bool json) {
  fmt::print("{}{}", json ? statistics_json(stack.name, stream).dump() : statistics_text(stack.name, stream),
             json ? "\n" : "");
  std::fflush(stdout);
}

}  // namespace sluice
