// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the drivers over sockets of the kernel do alike: each is a module at the end of a stream and an event source,
// and gives what comes down to the procedure that its type asks for.
//
// Ownership: a base of a driver. Threads: that of its stream set.

#include <string_view>
#include <utility>

#include "stack/core/module.h"
#include "stack/core/stream_set.h"

namespace sluice::tpi {

class SocketDriver : public Module, protected EventSource {
 public:
  [[nodiscard]] bool handles_deferred() const final { return true; }
  [[nodiscard]] bool is_driver() const final { return true; }
  void wput(Batch&& batch) final {
    while (Message message = batch.pop()) {
      take(std::move(message));
    }
  }

 protected:
  SocketDriver(std::string_view name, const WaterMarks& write_marks) : Module(name, Services::both) {
    write_queue().set_marks(write_marks);
  }

 private:
  /// Data or a primitive.
  virtual void take_request(Message message) = 0;
  /// An M_IOCTL.
  virtual void answer_ioctl(Message message) = 0;
  /// M_FLUSH has been acted on and turned.
  virtual void flushed() {}
  /// A message of a type that nobody here takes.
  virtual void drop(Message message) = 0;

  void take(Message message) {
    switch (message.type()) {
      case MessageType::proto:
      case MessageType::pcproto:
      case MessageType::data:
        return take_request(std::move(message));
      case MessageType::flush:
        turn_flush(std::move(message));
        return flushed();
      case MessageType::ioctl:
        return answer_ioctl(std::move(message));
      default:
        drop(std::move(message));
    }
  }
};

}  // namespace sluice::tpi
