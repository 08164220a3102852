// SPDX-License-Identifier: Apache-2.0
#pragma once

// What is seen of a module whose peer is the test: which of its counters grow, which packets it sends, and what its
// user has.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>

#include "stack/core/module.h"

namespace sluice::test {

class WatchedNode {
 public:
  /// What `act` changes: counters that grow, and the packets that are sent; the user is told nothing.
  std::string changed_by(const std::function<void()>& act) {
    const Counts before = counters();
    const std::string user_before = user_has();
    answered_.clear();
    act();
    EXPECT_EQ(user_has(), user_before);
    return grown_since(before) + (answered_.empty() ? "" : " -> " + answered_);
  }

 protected:
  using Counts = std::map<std::string, std::uint64_t>;

  /// `of_sending`: counters that tell nothing but that packets are sent.
  WatchedNode(std::initializer_list<std::string> of_sending) : of_sending_(of_sending) {}
  ~WatchedNode() = default;

  Counts counters() {
    Counts now;
    for (const Counter* counter : watched().counters()) {
      now[std::string(counter->name())] = counter->value();
    }
    return now;
  }
  std::string grown_since(const Counts& before) {
    std::string told;
    for (const auto& [name, value] : counters()) {
      const std::uint64_t grown = value - before.at(name);
      if (grown > 0 && !of_sending_.contains(name)) {
        told += (told.empty() ? "" : " ") + name + (grown == 1 ? "" : "*" + std::to_string(grown));
      }
    }
    return told;
  }
  /// Names a packet that the module has sent.
  void note_answer(const std::string& name) { answered_ += (answered_.empty() ? "" : " ") + name; }

  std::string answered_;

 private:
  virtual const Module& watched() = 0;
  /// What the user has been told, and what is kept.
  virtual std::string user_has() = 0;

  std::set<std::string> of_sending_;
};

}  // namespace sluice::test
