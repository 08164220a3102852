// SPDX-License-Identifier: Apache-2.0
// Random posts, sends, cancels and probes against a model of what matching means, step by step; and, without a pause
// between them and over a network that loses, that messages of one sender do not overtake each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>

#include "base/prng.h"
#include "tests/msg/bed.h"

namespace sluice::test::msgs {
namespace {

constexpr std::size_t unexpected_bytes_max = 9000;
constexpr std::size_t unexpected_messages_max = 4;

struct Sent {
  std::uint64_t which;  // names its content
  std::size_t from;
  std::uint64_t bits;
  std::size_t size;
};

/// A receive, in the world and in the model.
struct Posted {
  Handle handle;
  Match match;
  std::vector<std::byte> buffer;
  std::optional<Sent> got;  // as the model has it
};

/// What one endpoint has: lists, searched from the front.
struct Model {
  std::list<Posted*> posted;
  std::list<Sent> unexpected;
  std::uint64_t refused = 0;

  [[nodiscard]] std::list<Sent>::iterator first_unexpected(const Match& match, const std::vector<Peer>& peers) {
    return std::ranges::find_if(unexpected, [&](const Sent& sent) {
      return (sent.bits & ~match.ignore) == (match.bits & ~match.ignore) &&
             (!match.from || *match.from == peers[sent.from]);
    });
  }
  void post(Posted& receive, const std::vector<Peer>& peers) {
    if (const auto found = first_unexpected(receive.match, peers); found != unexpected.end()) {
      receive.got = *found;
      unexpected.erase(found);
    } else {
      posted.push_back(&receive);
    }
  }
  void arrives(const Sent& sent, const std::vector<Peer>& peers) {
    const auto accepts = [&](const Posted* receive) {
      Model alone;
      alone.unexpected.push_back(sent);
      return alone.first_unexpected(receive->match, peers) != alone.unexpected.end();
    };
    if (const auto found = std::ranges::find_if(posted, accepts); found != posted.end()) {
      (*found)->got = sent;
      posted.erase(found);
      return;
    }
    std::size_t bytes = sent.size;
    for (const Sent& each : unexpected) {
      bytes += each.size;
    }
    if (unexpected.size() < unexpected_messages_max && bytes <= unexpected_bytes_max) {
      unexpected.push_back(sent);
    } else {
      ++refused;
    }
  }
};

class Case {
 public:
  explicit Case(std::uint64_t seed)
      : prng_(seed),
        rmpp_(seed % 2 == 0),
        bed_({.name = "model",
              .module = rmpp_ ? "rmpp" : "utopia",
              .mode = seed % 4 < 2 ? "layered" : "fused",
              .settings = "packet_bytes = " + std::to_string(packet_bytes),
              .seed = seed},
             3, {.unexpected_bytes_max = unexpected_bytes_max, .unexpected_messages_max = unexpected_messages_max}) {
    for (std::size_t at = 0; at < bed_.size(); ++at) {
      peers_.push_back(bed_.peer(at));
    }
  }

  void run() {
    for (int step = 0; step < 60 && !testing::Test::HasFailure(); ++step) {
      const std::size_t at = prng_.below(bed_.size());
      switch (prng_.below(8)) {
        case 0:
        case 1:
        case 2:
          post(at);
          break;
        case 3:
          cancel(at);
          break;
        case 4:
          probe(at);
          break;
        default:
          send(at);
      }
      check();
    }
  }

 private:
  std::size_t random_size() {
    constexpr std::array<std::size_t, 9> sizes = {0, 1, 100, 999, 1000, 1001, 2000, 3500, 9001};
    return sizes[prng_.below(sizes.size())];
  }
  Match random_match() {
    constexpr std::array<std::uint64_t, 4> ignored = {0, 0, 1, any_bits};
    Match match{.bits = prng_.below(4), .ignore = ignored[prng_.below(ignored.size())]};
    if (prng_.below(3) == 0) {
      match.from = peers_[prng_.below(peers_.size())];
    }
    return match;
  }
  void post(std::size_t at) {
    Posted& made = receives_[at].emplace_back();
    made.match = random_match();
    made.buffer.resize(random_size());
    made.handle = *bed_[at].post(made.buffer, made.match);
    models_[at].post(made, peers_);
  }
  void send(std::size_t at) {
    const std::size_t to = (at + 1 + prng_.below(bed_.size() - 1)) % bed_.size();
    const Sent sent{++which_, at, prng_.below(4), random_size()};
    const std::vector<std::byte> bytes = content(sent.which, sent.size);
    const Handle handle = *bed_[at].send(peers_[to], sent.bits, bytes);
    const std::uint64_t refused = std::exchange(models_[to].refused, 0);
    models_[to].arrives(sent, peers_);
    // Of what utopia sends in one packet nobody is told how it went.
    const bool told = models_[to].refused > 0 && (rmpp_ || sent.size > packet_bytes);
    models_[to].refused += refused;
    bed_.settle();
    const auto done = bed_[at].test(handle);
    ASSERT_TRUE(done);
    EXPECT_EQ(done->error, told ? EXFULL : 0);
  }
  void cancel(std::size_t at) {
    if (receives_[at].empty()) {
      return;
    }
    auto chosen = std::next(receives_[at].begin(), static_cast<std::ptrdiff_t>(prng_.below(receives_[at].size())));
    const bool waits = std::ranges::find(models_[at].posted, &*chosen) != models_[at].posted.end();
    EXPECT_EQ(bed_[at].cancel(chosen->handle), waits);
    if (waits) {
      models_[at].posted.remove(&*chosen);
      receives_[at].erase(chosen);
    }
  }
  void probe(std::size_t at) {
    const Match match = random_match();
    const auto said = bed_[at].probe(match);
    const auto meant = models_[at].first_unexpected(match, peers_);
    ASSERT_EQ(said.has_value(), meant != models_[at].unexpected.end());
    if (said) {
      EXPECT_EQ(said->bits, meant->bits);
      EXPECT_EQ(said->peer, peers_[meant->from]);
      EXPECT_EQ(said->total_bytes, meant->size);
      EXPECT_TRUE(said->whole);
    }
  }
  /// Every receive is where the model has it.
  void check() {
    for (std::size_t at = 0; at < bed_.size(); ++at) {
      for (auto each = receives_[at].begin(); each != receives_[at].end();) {
        const auto done = bed_[at].test(each->handle);
        ASSERT_EQ(done.has_value(), each->got.has_value()) << (done ? 0 : done.error().code);
        if (!done) {
          ++each;
          continue;
        }
        const Sent& got = *each->got;
        const std::size_t bytes = std::min(got.size, each->buffer.size());
        EXPECT_EQ(*done, (Completion{.error = bytes < got.size ? EMSGSIZE : 0,
                                     .peer = peers_[got.from],
                                     .bits = got.bits,
                                     .bytes = bytes,
                                     .total_bytes = got.size}));
        const std::vector<std::byte> meant = content(got.which, got.size);
        EXPECT_TRUE(
            std::equal(each->buffer.begin(), each->buffer.begin() + static_cast<std::ptrdiff_t>(bytes), meant.begin()));
        each = receives_[at].erase(each);
      }
      EXPECT_EQ(bed_[at].statistics().refused, models_[at].refused);
      EXPECT_EQ(bed_[at].statistics().unexpected_messages, models_[at].unexpected.size());
      EXPECT_EQ(bed_[at].statistics().stray, 0U);
    }
  }

  static constexpr std::size_t packet_bytes = 1000;

  Prng prng_;
  const bool rmpp_;
  std::array<std::list<Posted>, 3> receives_;  // their buffers outlive the endpoints
  std::array<Model, 3> models_;
  std::vector<Peer> peers_;
  std::uint64_t which_ = 0;
  Bed bed_;
};

TEST(MsgModel, EveryMessageGoesWhereTheModelPutsIt) {
  over_seeds([](std::uint64_t seed) { Case(seed).run(); });
}

// ---- Not overtaking ----

struct Arrived {
  Match match;
  std::uint64_t posted = 0;  // its place among the receives of its endpoint
  Sent sent;
};

/// Whether two messages of one sender, which both receives accept, came to these the wrong way round: in the sense of
/// MPI's rule of order, of messages that match the same receive the one that was sent first is received first.
bool overtook(const Arrived& earlier, const Arrived& later, const std::vector<Peer>& peers) {
  const auto accepts = [&](const Match& match, const Sent& sent) { return match.accepts(peers[sent.from], sent.bits); };
  return earlier.posted < later.posted && earlier.sent.from == later.sent.from &&
         earlier.sent.which > later.sent.which && accepts(earlier.match, later.sent) &&
         accepts(later.match, earlier.sent);
}

void hurried_case(std::uint64_t seed) {
  Prng prng(seed);
  constexpr std::size_t count = 3;
  std::list<Posted> receives;
  std::list<std::vector<std::byte>> lent;
  Bed bed({.name = "hurried",
           .mode = seed % 2 == 0 ? "layered" : "fused",
           .settings = "packet_bytes = 1000, attempts = 200",
           .fault = "loss = 5, duplicate = 5",
           .seed = seed},
          count);
  std::vector<Peer> peers;
  for (std::size_t at = 0; at < count; ++at) {
    peers.push_back(bed.peer(at));
  }
  struct At {
    std::vector<std::pair<Posted*, std::uint64_t>> posted;
    std::size_t sent_here = 0;
  };
  std::array<At, count> ends;
  std::map<std::uint64_t, Sent> sent;
  std::uint64_t which = 0;
  const auto post = [&](std::size_t at, const Match& match) {
    Posted& made = receives.emplace_back();
    made.match = match;
    made.buffer.resize(6000);
    made.handle = *bed[at].post(made.buffer, match);
    ends[at].posted.emplace_back(&made, ends[at].posted.size());
  };
  for (int step = 0; step < 80; ++step) {
    const std::size_t at = prng.below(count);
    if (prng.below(2) == 0) {
      const std::size_t to = (at + 1 + prng.below(count - 1)) % count;
      ++which;
      // The first eight bytes say which it is.
      std::vector<std::byte>& bytes = lent.emplace_back(content(which, 8 + prng.below(5000)));
      std::memcpy(bytes.data(), &which, sizeof which);
      sent[which] = {which, at, prng.below(3), bytes.size()};
      ASSERT_TRUE(bed[at].send(peers[to], sent[which].bits, bytes));
      ++ends[to].sent_here;
    } else {
      Match match{.bits = prng.below(3), .ignore = prng.below(2) == 0 ? 0 : any_bits};
      if (prng.below(2) == 0) {
        match.from = peers[prng.below(count)];
      }
      post(at, match);
    }
    if (prng.below(3) == 0) {
      bed.pass(std::chrono::microseconds(prng.below(30'000)));
    }
  }
  for (std::size_t at = 0; at < count; ++at) {
    for (std::size_t left = 0; left < ends[at].sent_here; ++left) {
      post(at, {.ignore = any_bits});
    }
  }
  bed.pass(std::chrono::minutes(5));
  std::size_t arrived_in_all = 0;
  for (std::size_t at = 0; at < count; ++at) {
    std::vector<Arrived> arrived;
    for (const auto& [receive, place] : ends[at].posted) {
      const auto done = bed[at].test(receive->handle);
      if (!done) {
        continue;
      }
      EXPECT_EQ(done->error, 0);
      std::uint64_t got = 0;
      std::memcpy(&got, receive->buffer.data(), sizeof got);
      ASSERT_TRUE(sent.contains(got));
      std::vector<std::byte> meant = content(got, sent[got].size);
      std::memcpy(meant.data(), &got, sizeof got);
      EXPECT_TRUE(std::equal(meant.begin(), meant.end(), receive->buffer.begin()));
      EXPECT_TRUE(receive->match.accepts(peers[sent[got].from], sent[got].bits));
      arrived.push_back({receive->match, place, sent[got]});
    }
    EXPECT_EQ(arrived.size(), ends[at].sent_here);
    arrived_in_all += arrived.size();
    for (const Arrived& one : arrived) {
      EXPECT_TRUE(std::ranges::none_of(arrived, [&](const Arrived& other) { return overtook(one, other, peers); }))
          << "receive " << one.posted << " of endpoint " << at;
    }
  }
  EXPECT_EQ(arrived_in_all, sent.size());
}

TEST(MsgModel, MessagesOfASenderDoNotOvertakeEachOther) { over_seeds(hurried_case); }

}  // namespace
}  // namespace sluice::test::msgs
