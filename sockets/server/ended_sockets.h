// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a program may still ask of a socket of its own that is over for the server: its pair is shut, and whether the
// program has closed its end cannot be told. A bounded number is kept; the oldest goes first, and its program is told
// of a reset.

#include <sys/stat.h>

#include <iterator>
#include <list>
#include <unordered_map>
#include <utility>

#include "sockets/protocol/protocol.h"

namespace sluice::sockets {

class EndedSockets {
 public:
  struct Ended {
    Answer names;
    int pending_error = 0;  // errno
  };

  /// REQUIRES: most > 0.
  explicit EndedSockets(std::size_t most) : most_(most) {}

  /// In place of what was known under `inode`, that of the program's end.
  void add(ino_t inode, const Ended& ended) {
    forget(inode);
    if (ended_.size() == most_) {
      forget(ended_.front().first);
    }
    ended_.emplace_back(inode, ended);
    places_.emplace(inode, std::prev(ended_.end()));
  }
  /// Does nothing where it is not known.
  void forget(ino_t inode) {
    if (const auto place = places_.find(inode); place != places_.end()) {
      ended_.erase(place->second);
      places_.erase(place);
    }
  }
  /// nullptr: not known.
  [[nodiscard]] Ended* find(ino_t inode) {
    const auto place = places_.find(inode);
    return place == places_.end() ? nullptr : &place->second->second;
  }

 private:
  using List = std::list<std::pair<ino_t, Ended>>;

  std::size_t most_;
  List ended_;  // oldest first
  std::unordered_map<ino_t, List::iterator> places_;
};

}  // namespace sluice::sockets
