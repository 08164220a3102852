// SPDX-License-Identifier: Apache-2.0
#pragma once

// What `sluice nc` is over datagrams and over a connection alike: the user of one endpoint, with standard input and
// output on its other side, who ends when a call fails.
//
// Borrows the program, the endpoint and the options. Threads: the loop's.

#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <string_view>
#include <vector>

#include "apps/sluice/exit_code.h"
#include "apps/sluice/netcat.h"
#include "apps/sluice/netcat_input.h"
#include "apps/sluice/program.h"
#include "tli/endpoint.h"

namespace sluice {

class NetcatUser {
 public:
  /// Of one call that receives.
  static constexpr std::size_t received_bytes_max = 65536;

  NetcatUser(Program& program, tli::Endpoint& endpoint, const NetcatOptions& options)
      : program_(program),
        endpoint_(endpoint),
        options_(options),
        input_(program.loop(), options),
        received_(received_bytes_max) {}

 protected:
  ~NetcatUser() = default;

  void fail(std::string_view what, const tli::Failure& failure) {
    fmt::print(stderr, "sluice: nc: {}\n", tli::Endpoint::t_error(what, failure));
    exit_code_ = exit_failed;
  }

  Program& program_;
  tli::Endpoint& endpoint_;
  const NetcatOptions& options_;
  NetcatInput input_;
  std::vector<std::byte> received_;
  int exit_code_ = exit_ok;
};

}  // namespace sluice
