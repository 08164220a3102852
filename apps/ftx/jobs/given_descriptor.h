// SPDX-License-Identifier: Apache-2.0
#pragma once

// GivenDescriptor: a descriptor that this process was given, such as standard input or output: a pipe, a socket, a
// file, a terminal. A thread reads or writes it, and waits as long as it takes, until another one wakes it. Whoever
// else has the same descriptor finds it as it was: where that would take O_NONBLOCK, this one is opened anew.
//
// interrupt() may be called by any thread, the others by one.

#include <sys/types.h>

#include <cstdint>
#include <utility>

#include "apps/ftx/files/descriptor.h"
#include "base/bytes.h"
#include "base/result.h"

namespace sluice::ftx {

class GivenDescriptor {
 public:
  enum class Access : std::uint8_t { read, write };

  /// The descriptor stays the caller's, and outlives this object. Errors are errno values: it is none, or a directory.
  [[nodiscard]] static Result<GivenDescriptor> open(int descriptor, Access access);

  /// As read(2). EAGAIN: not now, or not any more.
  [[nodiscard]] ssize_t read_some(Bytes out) const;
  /// As write(2), without SIGPIPE of a socket. EAGAIN: not now, or not any more.
  [[nodiscard]] ssize_t write_some(ConstBytes bytes) const;
  /// Nobody waits from now on.
  void interrupt() const;

 private:
  /// How it is used without waiting for ever.
  enum class Kind : std::uint8_t { file, pipe, socket, other };

  GivenDescriptor(int descriptor, Descriptor own, Descriptor wake, Kind kind)
      : descriptor_(own.valid() ? own.get() : descriptor), own_(std::move(own)), wake_(std::move(wake)), kind_(kind) {}
  [[nodiscard]] bool ready(short events) const;

  int descriptor_;
  Descriptor own_;   // of a pipe, with flags of its own
  Descriptor wake_;  // an eventfd
  Kind kind_;
};

}  // namespace sluice::ftx
