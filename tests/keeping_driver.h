// SPDX-License-Identifier: Apache-2.0
#pragma once

// A driver for tests, which keeps what it is given. While stalled, that waits on its write queue.

#include <string_view>
#include <utility>
#include <vector>

#include "stack/core/module.h"

namespace sluice::test {

class KeepingDriver : public Module {
 public:
  KeepingDriver(std::string_view name, const WaterMarks& marks) : Module(name, Services::write) {
    write_queue().set_marks(marks);
  }

  void wput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      take(std::move(message));
    }
  }
  void wsrv() override {
    while (!stalled) {
      Message message = write_queue().dequeue();
      if (!message) {
        return;
      }
      sent.push_back(std::move(message));
    }
  }
  void resume() {
    stalled = false;
    write_queue().enable();
  }
  void up(Message message) { read_queue().put_next(std::move(message)); }

  bool stalled = false;
  std::vector<Message> sent;

 private:
  virtual void take(Message message) = 0;
};

}  // namespace sluice::test
