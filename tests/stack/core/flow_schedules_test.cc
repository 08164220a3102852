// SPDX-License-Identifier: Apache-2.0
// Flow control, proven over every short schedule. A small stream has a producer at one end, a consumer at the other,
// and modules between them. What can happen next is a set of actions; all sequences of them up to a depth are run, each
// from the start, and after each action the rules are checked:
//
//   - no wake-up is lost: when nothing is scheduled, whoever was refused waits for a queue that is not below its
//     low-water mark; and once the consumer has taken everything, everything has arrived and nobody waits;
//   - queues are bounded: a band holds less than its high-water mark plus one message, whatever was put back or
//     overtaken (high-priority messages, which no flow control holds, come on top);
//   - nothing is lost or reordered within a class, and nothing is freed but by a flush or with a popped module.
//
// A schedule that fails is printed, one letter an action (`Action`).

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "stack/core/chain.h"

namespace sluice::testing {
namespace {

enum class Action : char {
  produce = 'p',     // the producer sends its next message if can_put_next(), else waits to be back-enabled
  urgent = 'h',      // the producer sends a high-priority message, without asking
  step = 's',        // the scheduler runs one service procedure
  take = 't',        // the consumer takes one message
  take_all = 'a',    // the consumer takes all
  flush = 'f',       // all queues of the side are flushed
  flush_band = 'F',  // band 1 of them
  push = 'u',        // a module with a service procedure is pushed
  pop = 'o',         // the module at the top is popped, and what is on it is discarded
};

struct Setup {
  std::string name;
  Side side = Side::write;
  /// From the producer's end to the consumer's: P passes on, Q queues everything, T queues only what it cannot pass on.
  std::string modules;
  WaterMarks marks;
  /// The bands and sizes of the producer's messages.
  std::vector<std::uint8_t> bands;
  std::vector<std::size_t> sizes;
  std::string actions = "psta";
  std::size_t depth = 8;
};

std::ostream& operator<<(std::ostream& out, const Setup& setup) { return out << setup.name; }

/// One message's fate.
struct Record {
  int group = 0;  // its class: -1 for high priority, else the band
  bool delivered = false;
  bool freed = false;
  bool* discarding = nullptr;
  std::string* fault = nullptr;
};

constexpr std::size_t messages_max = 16;
constexpr std::size_t message_bytes_max = 4;
constexpr std::size_t urgent_max = 2;

class Producer : public Module {
 public:
  explicit Producer(Side side)
      : Module("producer", side == Side::write ? Services::write : Services::read), side_(side) {}
  void wsrv() override { serve(); }
  void rsrv() override { serve(); }
  void wput(Batch&& /*batch*/) override {}
  void rput(Batch&& /*batch*/) override {}
  Queue& out() { return queue(side_); }

  std::function<void()> serve;

 private:
  Side side_;
};

/// Keeps what arrives until the schedule takes it.
class Consumer : public Module {
 public:
  explicit Consumer(Side side) : Module("consumer"), side_(side) {}
  void wput(Batch&& batch) override { keep(std::move(batch)); }
  void rput(Batch&& batch) override { keep(std::move(batch)); }
  Queue& in() { return queue(side_); }

 private:
  void keep(Batch batch) {
    while (Message message = batch.pop()) {
      in().enqueue(std::move(message));
    }
  }
  Side side_;
};

class Pass : public Module {
 public:
  Pass() : Module("pass") {}
};

class Queueing : public Module {
 public:
  Queueing(WaterMarks marks, bool passes_through) : Module("queueing", Services::both), through_(passes_through) {
    for (const Side side : {Side::write, Side::read}) {
      queue(side).set_marks(marks);
    }
  }
  void wput(Batch&& batch) override { put(write_queue(), std::move(batch)); }
  void rput(Batch&& batch) override { put(read_queue(), std::move(batch)); }
  void wsrv() override { forward_waiting(write_queue()); }
  void rsrv() override { forward_waiting(read_queue()); }

 private:
  void put(Queue& queue, Batch batch) const {
    while (Message message = batch.pop()) {
      const bool urgent = is_high_priority(message.type());
      if (through_ && (urgent || (queue.empty() && queue.can_put_next(message.band())))) {
        queue.put_next(std::move(message));
      } else {
        queue.enqueue(std::move(message));
      }
    }
  }
  bool through_;
};

/// The stream of one schedule.
class World {
 public:
  World(StreamSet& set, const Setup& setup)
      : set_(set),
        setup_(setup),
        producer_(std::make_unique<Producer>(setup.side)),
        consumer_(std::make_unique<Consumer>(setup.side)) {
    producer_->serve = [this] { on_back_enabled(); };
    consumer_->in().set_marks(setup.marks);
    out_ = &producer_->out();
    in_ = &consumer_->in();
    build();
  }
  ~World() { discarding_ = true; }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] const std::string& fault() const { return fault_; }
  [[nodiscard]] std::uint64_t refusals() const { return refusals_; }

  [[nodiscard]] bool possible(Action action) {
    switch (action) {
      case Action::produce:
        return !waiting_ && next_ < setup_.bands.size();
      case Action::urgent:
        return urgent_sent_ < urgent_max;
      case Action::step:
        return !idle();
      case Action::take:
        return !in_->empty();
      case Action::take_all:
        return in_->messages() > 1;
      case Action::flush:
        return flushes_ < 1;
      case Action::flush_band:
        return band_flushes_ < 1;
      case Action::push:
        return pushes_ < 1;
      case Action::pop:
        return chain_->modules().size() > 1;
    }
    return false;
  }

  void perform(Action action) {
    switch (action) {
      case Action::produce:
        produce();
        break;
      case Action::urgent:
        ++urgent_sent_;
        send(-1, 1);
        break;
      case Action::step:
        set_.scheduler().poll(set_.now(), 1);
        break;
      case Action::take:
        take();
        break;
      case Action::take_all:
        take_all();
        break;
      case Action::flush:
        ++flushes_;
        discard([this] { each_queue([](Queue& queue) { queue.flush(FlushKind::data); }); });
        break;
      case Action::flush_band:
        ++band_flushes_;
        discard([this] { each_queue([](Queue& queue) { queue.flush_band(1, FlushKind::data); }); });
        break;
      case Action::push:
        ++pushes_;
        expect(chain_->push(make('Q')).has_value(), "push refused");
        break;
      case Action::pop:
        discard([this] { expect(chain_->pop().has_value(), "pop refused"); });
        break;
    }
    check();
  }

  /// Lets everything run out: the consumer takes what comes, the producer sends the rest. Bounded, so that a schedule
  /// that runs for ever is a fault as well.
  void finish() {
    constexpr int rounds_max = 100;
    for (int round = 0; round < rounds_max && fault_.empty(); ++round) {
      set_.scheduler().poll(set_.now(), rounds_max);
      check();
      take_all();
      if (idle() && in_->empty()) {
        expect(!waiting_, "lost wake-up: the producer waits, and nothing will ever happen");
        if (next_ == setup_.bands.size()) {
          break;
        }
        produce();
      }
    }
    expect(next_ == setup_.bands.size() && idle(), "the stream never comes to rest");
    each_queue([this](Queue& queue) { expect(queue.empty(), "messages are stuck on a queue"); });
    for (std::size_t i = 0; i < sent_; ++i) {
      expect(records_[i].delivered || records_[i].freed, "a message was lost");
    }
  }

 private:
  std::unique_ptr<Module> make(char kind) const {
    if (kind == 'P') {
      return std::make_unique<Pass>();
    }
    return std::make_unique<Queueing>(setup_.marks, kind == 'T');
  }

  /// Head and driver by side: a producer at the top sends down, one at the bottom sends up.
  void build() {
    const bool down = setup_.side == Side::write;
    if (down) {
      head_ = std::move(producer_);
      chain_ = std::make_unique<Chain>(set_, *head_);
      expect(chain_->open_driver(std::move(consumer_)).has_value(), "no driver");
    } else {
      head_ = std::move(consumer_);
      chain_ = std::make_unique<Chain>(set_, *head_);
      expect(chain_->open_driver(std::move(producer_)).has_value(), "no driver");
    }
    const std::string from_the_bottom =
        down ? std::string(setup_.modules.rbegin(), setup_.modules.rend()) : setup_.modules;
    for (const char kind : from_the_bottom) {
      expect(chain_->push(make(kind)).has_value(), "no module");
    }
  }

  void expect(bool holds, const char* what) {
    if (!holds && fault_.empty()) {
      fault_ = what;
    }
  }

  [[nodiscard]] bool idle() const { return set_.scheduler().next_deadline() == never; }

  template <class Change>
  void discard(Change change) {
    discarding_ = true;
    change();
    discarding_ = false;
  }

  template <class Visit>
  void each_queue(Visit visit) {
    for (Queue* queue = out_; queue != nullptr; queue = queue->next()) {
      visit(*queue);
    }
  }

  void send(int group, std::size_t size) {
    Record& record = records_[sent_];
    record = {group, false, false, &discarding_, &fault_};
    const Bytes memory(memory_.data() + sent_ * message_bytes_max, size);
    ++sent_;
    Message message(set_.pool().allocate_external(memory, true, on_freed, &record));
    message.first().type = group < 0 ? MessageType::pcproto : MessageType::data;
    message.first().band = group < 0 ? std::uint8_t{0} : static_cast<std::uint8_t>(group);
    out_->put_next(std::move(message));
  }

  static void on_freed(void* argument, ConstBytes /*memory*/) {
    Record& record = *static_cast<Record*>(argument);
    if (record.freed) {
      *record.fault = "a message was freed twice";
    } else if (!record.delivered && !*record.discarding) {
      *record.fault = "a message was freed without flush or pop";
    }
    record.freed = true;
  }

  void produce() {
    const std::uint8_t band = setup_.bands[next_];
    if (!out_->can_put_next(band)) {
      waiting_ = true;
      ++refusals_;
      return;
    }
    const std::size_t size = setup_.sizes[next_ % setup_.sizes.size()];
    ++next_;
    send(band, size);
  }

  void on_back_enabled() {
    if (std::exchange(waiting_, false)) {
      produce();
    }
  }

  void take() {
    const Message message = in_->dequeue();
    const auto id = static_cast<std::size_t>(message.first().rptr - memory_.data()) / message_bytes_max;
    Record& record = records_[id];
    expect(!record.delivered, "a message was delivered twice");
    record.delivered = true;
    for (std::size_t earlier = 0; earlier < id; ++earlier) {
      const Record& other = records_[earlier];
      expect(other.group != record.group || other.delivered || other.freed, "messages of a class were reordered");
    }
  }

  void take_all() {
    while (!in_->empty()) {
      take();
    }
  }

  [[nodiscard]] bool ends_or_serves(const Queue& queue) const {
    return queue.next() == nullptr || queue.module().has_service(setup_.side);
  }

  /// The queue that can_put_next() asks.
  [[nodiscard]] Queue& target(Queue& queue) const {
    Queue* at = queue.next();
    while (!ends_or_serves(*at)) {
      at = at->next();
    }
    return *at;
  }

  /// Whether nobody may be waiting for `queue` any more: below the mark (with one band), or empty.
  [[nodiscard]] bool must_have_woken(const Queue& queue) const {
    const WaterMarks& marks = setup_.marks;
    const bool low = queue.bytes() < marks.low_bytes && queue.messages() < marks.low_bytes;
    return queue.empty() || (bands_used_ == 1 && low);
  }

  void check() {
    const std::size_t largest = *std::max_element(setup_.sizes.begin(), setup_.sizes.end());
    const std::size_t bytes_bound = bands_used_ * (setup_.marks.high_bytes - 1 + largest) + urgent_sent_;
    const std::size_t messages_bound = bands_used_ * setup_.marks.high_bytes + urgent_sent_;
    each_queue([&](Queue& queue) {
      expect(queue.bytes() <= bytes_bound && queue.messages() <= messages_bound, "a queue grew beyond its bound");
    });
    if (!idle()) {
      return;
    }
    expect(!waiting_ || !must_have_woken(target(*out_)), "lost wake-up: there is room, and the producer still waits");
    for (Queue* queue = out_->next(); queue->next() != nullptr; queue = queue->next()) {
      expect(queue->empty() || !must_have_woken(target(*queue)),
             "lost wake-up: there is room, and a module's messages still wait");
    }
  }

  StreamSet& set_;
  const Setup& setup_;
  /// By the producer: counted once, since it is asked for after every action.
  std::size_t bands_used_ = std::set(setup_.bands.begin(), setup_.bands.end()).size();
  std::array<std::byte, messages_max * message_bytes_max> memory_{};
  std::array<Record, messages_max> records_;
  bool discarding_ = false;
  std::string fault_;
  bool waiting_ = false;
  std::size_t next_ = 0;  // of the producer's messages
  std::size_t sent_ = 0;
  std::size_t urgent_sent_ = 0;
  std::uint64_t refusals_ = 0;
  int flushes_ = 0, band_flushes_ = 0, pushes_ = 0;
  std::unique_ptr<Producer> producer_;
  std::unique_ptr<Consumer> consumer_;
  Queue* out_ = nullptr;
  Queue* in_ = nullptr;
  std::unique_ptr<Module> head_;
  std::unique_ptr<Chain> chain_;
};

/// Runs every schedule: each run makes the same choices as the one before up to the last place where another was left.
class Explorer {
 public:
  explicit Explorer(const Setup& setup) : setup_(setup) {}

  /// The first schedule that fails with what failed, or an empty text.
  std::string explore() {
    do {
      const std::string fault = run();
      if (!fault.empty()) {
        return "schedule '" + schedule_ + "': " + fault;
      }
    } while (another());
    return {};
  }
  [[nodiscard]] std::uint64_t schedules() const { return schedules_; }
  [[nodiscard]] std::uint64_t refusals() const { return refusals_; }

 private:
  struct Choice {
    std::size_t taken = 0;
    std::size_t of = 0;
  };

  std::string run() {
    World world(set_, setup_);
    schedule_.clear();
    for (std::size_t at = 0; at < setup_.depth && world.fault().empty(); ++at) {
      std::string possible;
      for (const char action : setup_.actions) {
        possible += world.possible(static_cast<Action>(action)) ? std::string(1, action) : "";
      }
      if (possible.empty()) {
        break;
      }
      if (at == choices_.size()) {
        choices_.push_back({0, possible.size()});
      }
      schedule_ += possible[choices_[at].taken];
      world.perform(static_cast<Action>(schedule_.back()));
    }
    world.finish();
    ++schedules_;
    refusals_ += world.refusals();
    return world.fault();
  }

  bool another() {
    while (!choices_.empty() && ++choices_.back().taken == choices_.back().of) {
      choices_.pop_back();
    }
    return !choices_.empty();
  }

  const Setup& setup_;
  StreamSet set_;
  std::vector<Choice> choices_;
  std::string schedule_;
  std::uint64_t schedules_ = 0;
  std::uint64_t refusals_ = 0;
};

class EverySchedule : public ::testing::TestWithParam<Setup> {};

TEST_P(EverySchedule, KeepsTheRules) {
  Explorer explorer(GetParam());
  EXPECT_EQ(explorer.explore(), "");
  RecordProperty("schedules", std::to_string(explorer.schedules()));
  // Guards against a setup in which nothing of interest can happen.
  EXPECT_GT(explorer.schedules(), 500U);
  EXPECT_GT(explorer.refusals(), 50U);
}

const std::vector<std::uint8_t> ordinary(8, 0);
const std::vector<std::uint8_t> two_bands{0, 1, 0, 1, 1, 0, 0, 1};
const std::vector<std::uint8_t> three_bands{0, 2, 1, 2, 0, 1, 2, 0};
constexpr WaterMarks one{.high_bytes = 1, .low_bytes = 1};
constexpr WaterMarks two{.high_bytes = 2, .low_bytes = 1};
constexpr WaterMarks tight{.high_bytes = 2, .low_bytes = 2};
constexpr WaterMarks to_empty{.high_bytes = 2, .low_bytes = 0};
constexpr WaterMarks three{.high_bytes = 3, .low_bytes = 2};

std::vector<Setup> setups() {
  return {
      {"NoModule", Side::write, "", two, ordinary, {1}, "psta", 18},
      {"NoModuleUp", Side::read, "", two, ordinary, {1}, "psta", 18},
      {"OneQueueing", Side::write, "Q", two, ordinary, {1}, "psta", 13},
      {"OneQueueingTight", Side::write, "Q", tight, ordinary, {1}, "psta", 13},
      {"OneQueueingToEmpty", Side::write, "Q", to_empty, ordinary, {1}, "psta", 13},
      {"OneQueueingOne", Side::write, "Q", one, ordinary, {1}, "psta", 13},
      {"MixedSizes", Side::write, "Q", three, ordinary, {1, 4, 2}, "psta", 13},
      {"NoBytes", Side::write, "Q", two, ordinary, {0}, "psta", 13},
      {"PassThrough", Side::write, "T", two, ordinary, {1}, "psta", 13},
      {"PassAround", Side::write, "PQP", two, ordinary, {1}, "psta", 13},
      {"TwoQueueing", Side::write, "QQ", two, ordinary, {1}, "psta", 13},
      {"TwoQueueingUp", Side::read, "QTP", two, ordinary, {1}, "psta", 13},
      {"ThreeQueueing", Side::write, "QTQ", one, ordinary, {1}, "psta", 13},
      {"TwoBands", Side::write, "Q", one, two_bands, {1}, "psta", 13},
      {"TwoBandsTwoModules", Side::write, "TQ", one, two_bands, {1}, "psta", 13},
      {"ThreeBands", Side::write, "Q", one, three_bands, {1}, "psta", 13},
      {"ThreeBandsUp", Side::read, "TP", one, three_bands, {1}, "psta", 13},
      {"HighPriority", Side::write, "Q", one, ordinary, {1}, "psth", 11},
      {"HighPriorityThreeBands", Side::write, "TQ", one, three_bands, {1}, "psth", 11},
      {"Flush", Side::write, "Q", one, ordinary, {1}, "psthf", 10},
      {"FlushBands", Side::write, "TQ", one, two_bands, {1}, "pstfF", 10},
      {"FlushUp", Side::read, "QQ", two, two_bands, {1}, "pstfF", 10},
      {"PushPop", Side::write, "", one, ordinary, {1}, "pstuo", 10},
      {"PushPopQueueing", Side::write, "Q", one, ordinary, {1}, "pstuo", 10},
      {"PushPopPass", Side::write, "PQ", two, two_bands, {1}, "pstuo", 10},
      {"PushPopUp", Side::read, "Q", one, ordinary, {1}, "pstuo", 10},
      {"Everything", Side::write, "Q", one, two_bands, {1}, "psthfFuo", 7},
      {"EverythingUp", Side::read, "T", one, two_bands, {1}, "psthfFuo", 7},
  };
}

INSTANTIATE_TEST_SUITE_P(FlowControl, EverySchedule, ::testing::ValuesIn(setups()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace sluice::testing
