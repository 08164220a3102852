// SPDX-License-Identifier: Apache-2.0
#pragma once

// Stages: manipulations of a program's own, beside Swap, Sum and Check: a cipher, a digest. A
// module names one to a message,
//
//     message.transform(OwnStage{.stage = cipher_, .argument = nonce}, handle(), refused_);
//
// and the message's path decides when it runs, as for every manipulation: at once on a layered path, in the pass on a
// fused one, tile by tile and in the order in which modules asked.
//
// For each message that is carried out the pass calls
//
//     begin(argument)                  once
//     run(offset, from, to)            for each tile, in order
//     end(result)                      once, unless somebody only looks at the front of the data
//
// and never mixes two messages: what a stage keeps between begin() and end() (a cipher's context, a digest so far) are
// its own members, and nothing is allocated for a message.
//
// What the pass guarantees:
//   - run() gets 1 to run_bytes_max bytes; `offset` is 0 first, which is data byte `from`, and grows by what the call
//     before got, up to the end that the data had when the stage was asked for. Tiles end where blocks do: any size,
//     any alignment. Without data run() is not called.
//   - `from` and `to` lie inside the message or the place where it lands, whatever a packet's header says. For a stage
//     that converts they are the same memory or do not overlap; for others `to` is empty.
//   - `argument` holds the bytes that the module gave, `result` has the size of the field that it named.
//
// What a stage must guarantee:
//   - What comes out depends on the argument and the bytes alone. Messages are carried out in another order than
//   modules
//     saw them, twice at the front, or never: a stage that carries something from one message to the next is wrong.
//   - A stage that converts writes all of `to`. What it writes for a byte depends on that byte and those before it.
//   - It changes nothing outside of itself: on a fused path the bytes may be those of a message that an earlier check
//     refuses. What depends on the outcome belongs in when_verified().
//   - It does not call back into messages, queues or modules.
//
// Lengths and offsets that a module takes from a packet (how large its header is, where a tag lies) are its to check
// before it defers anything.
//
// Ownership: shared by the module and the messages that owe it: it outlives a module that is popped while messages are
// under way, and they come out as if the module had done its work at once. Threads: the set's.

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/bytes.h"

namespace sluice {

class Stage {
 public:
  static constexpr std::size_t argument_bytes_max = 48;
  static constexpr std::size_t result_bytes_max = 64;
  static constexpr std::size_t run_bytes_max = 2048;

  struct Nature {
    std::string_view name;  // one word, a string literal: what `explain` calls it
    bool converts = false;  // it changes bytes; else it only reads them
    bool verifies = false;  // end() may refuse the message: until then nobody acts on it
  };

  explicit Stage(const Nature& nature) : nature_(nature) {}
  virtual ~Stage() = default;
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  [[nodiscard]] const Nature& nature() const { return nature_; }

  /// A message begins. What was begun and not ended is forgotten.
  virtual void begin(ConstBytes argument) = 0;
  virtual void run(std::size_t offset, ConstBytes from, Bytes to) = 0;
  /// All of the data has come. Fills `result` (a digest, a tag), and answers whether the message is good.
  virtual bool end(Bytes /*result*/) { return true; }

 private:
  Nature nature_;
};

/// What a module asks for: `stage`, over the data of a message.
struct OwnStage {
  std::shared_ptr<Stage> stage;
  /// So many data bytes in front are left alone: a header. At most as many as there are.
  std::size_t from = 0;
  /// What begin() gets: a nonce, a tag to compare with. At most Stage::argument_bytes_max bytes, which are copied.
  ConstBytes argument = {};
  /// Where end()'s result goes, if anywhere: in a header that the caller has just prepended, zero until then, or
  /// outside of the message and valid until the manipulation has run. At most Stage::result_bytes_max bytes.
  Bytes field = {};
};

}  // namespace sluice
