// SPDX-License-Identifier: Apache-2.0
#pragma once

// Child: a program that runs beside this one, with one socket that is its standard input and output. Its standard error
// is ours. It inherits no other descriptor, and the signals that we ignore have their default action there.
//
// Ownership: a Child ends with its program ended and reaped, unless leave() was called. No call blocks but end() and
// write(), which are bounded.
// Not thread-safe; each thread may have children of its own.

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"

namespace sluice::ftx {

class Child {
 public:
  /// How long end() lets the program end by itself, and then again after SIGTERM, before it kills it.
  static constexpr Duration grace = std::chrono::seconds(2);

  /// Looks `arguments[0]` up in PATH where it has no '/'. ENOENT: there is no such program. REQUIRES: arguments.
  [[nodiscard]] static Result<std::unique_ptr<Child>> start(const std::vector<std::string>& arguments);
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Our end of the socket, readable when the program has written or closed its end. -1 after end().
  [[nodiscard]] int socket() const { return socket_; }
  /// Readable when the program has ended; -1 where the system has no such descriptors.
  [[nodiscard]] int process() const { return process_; }

  [[nodiscard]] pid_t pid() const { return pid_; }

  /// What has arrived; 0: the program has closed its end. EAGAIN: nothing now.
  [[nodiscard]] Result<std::size_t> read(Bytes out);
  /// Writes all of it or fails; EPIPE: the program has closed its end, EAGAIN: it has not read for 2 s.
  Status write(ConstBytes bytes);
  /// The program reads the end of its input.
  void close_input();

  /// How the program ended, as of waitpid(2); null: it runs.
  [[nodiscard]] std::optional<int> status();
  /// Closes the socket and waits until the program has ended; helps it along.
  void end();
  /// Closes the socket and waits for nothing: for a program that has done its work and ends by itself. A later start()
  /// reaps it, or the system when ours has ended.
  void leave();

 private:
  Child(pid_t pid, int socket, int process) : pid_(pid), socket_(socket), process_(process) {}
  [[nodiscard]] bool ended_within(Duration time);
  void close_socket();

  pid_t pid_;
  int socket_;
  int process_;
  std::optional<int> status_{};
  bool left_ = false;
};

}  // namespace sluice::ftx
