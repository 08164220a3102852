// SPDX-License-Identifier: Apache-2.0
// What the core costs: buffers, messages, queues, timers, and a module that does nothing.
//
//     build/release/bench/core_bench            # medians of 9 repetitions
//
// Method. Each benchmark is repeated 9 times and reported as median, standard deviation and coefficient of variation
// (Google Benchmark's aggregates); what is compared with a target is the median of CPU time. Memory comes from the
// pool's free lists, warm in the first-level cache: these are costs of instructions, not of cache misses. `DepthRatio`
// interleaves its two arms batch by batch in one run, so that a change of the clock rate hits both; its `ratio` is
// (cost of a module at depth 64) / (at depth 1), each the cost of the whole way, ends included, divided by the modules
// on it: below 1 where the ends weigh more than the module, and never far above 1 if cost is linear in depth.
//
// Precision. Neighbours on the machine cost wall time at once, and CPU time through shared caches and clock rates.
// Where the coefficient of variation is above 5 %, or two runs differ by more, the machine was too busy to say
// anything.
//
// Targets: Pool/allocate_release <= 10 ns; NullModule and LookingModule: `per_message_module` <= 10 ns up to depth 64.

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "stack/core/chain.h"

namespace {

using namespace sluice;

constexpr std::size_t batch_size = 32;
constexpr std::size_t datagram_bytes = 1400;

Message filled(BufferPool& pool, std::size_t size, std::size_t headroom = 0) {
  const std::vector<std::byte> bytes(size, std::byte{0x5a});
  return Message::copy_of(pool, bytes, headroom);
}

void pool_allocate_release(benchmark::State& state) {
  BufferPool pool;
  for (auto _ : state) {
    Block* block = pool.allocate(static_cast<std::size_t>(state.range(0)));
    benchmark::DoNotOptimize(block);
    pool.release(block);
  }
}

/// As a batch lives: 32 messages are made, then all are freed.
void message_allocate_free_batch(benchmark::State& state) {
  BufferPool pool;
  for (auto _ : state) {
    Batch batch;
    for (std::size_t i = 0; i < batch_size; ++i) {
      batch.push(Message::allocate(pool, datagram_bytes, 64));
    }
    benchmark::DoNotOptimize(batch.front());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(batch_size));
}

void message_duplicate_free(benchmark::State& state) {
  BufferPool pool;
  Message message = filled(pool, datagram_bytes);
  for (auto _ : state) {
    Message copy = message.duplicate();
    benchmark::DoNotOptimize(copy);
  }
}

void message_prepend(benchmark::State& state) {
  BufferPool pool;
  Message message = filled(pool, datagram_bytes, 64);
  for (auto _ : state) {
    benchmark::DoNotOptimize(message.prepend(8));
    message.trim_front(8);
  }
}

void message_sum(benchmark::State& state) {
  BufferPool pool;
  Message message = filled(pool, datagram_bytes);
  std::byte field[2];
  for (auto _ : state) {
    benchmark::DoNotOptimize(message.transform(Sum{.initial = 0, .field = field, .zero_is_sent_as_ones = true}));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(datagram_bytes));
}

/// The upper end: sends a batch down.
class Head : public Module {
 public:
  Head() : Module("head") {}
};

/// The lower end: keeps the batch, so that the next round can send the same messages again.
class Keeper : public Module {
 public:
  Keeper() : Module("keeper") {}
  void wput(Batch&& batch) override { kept = std::move(batch); }
  Batch kept;
};

/// Does nothing at all: what Module does by itself.
class Null : public Module {
 public:
  Null() : Module("null") {}
};

/// Does nothing either, but looks at each message, as a module that has something to do must.
class Looking : public Module {
 public:
  Looking() : Module("looking") {}
  void wput(Batch&& batch) override {
    Batch out;
    while (Message message = batch.pop()) {
      seen_ += message.type() == MessageType::data ? 1 : 0;
      out.push(std::move(message));
    }
    write_queue().put_next(std::move(out));
  }

 private:
  std::size_t seen_ = 0;
};

/// A chain of `depth` modules of one kind, and a batch of 32 messages that goes round it.
template <class M>
class Ring {
 public:
  explicit Ring(std::size_t depth) {
    auto keeper = std::make_unique<Keeper>();
    keeper_ = keeper.get();
    ready_ = chain_.open_driver(std::move(keeper)).has_value();
    for (std::size_t i = 0; i < depth; ++i) {
      ready_ = ready_ && chain_.push(std::make_unique<M>()).has_value();
    }
    for (std::size_t i = 0; i < batch_size; ++i) {
      keeper_->kept.push(filled(set_.pool(), datagram_bytes));
    }
  }
  [[nodiscard]] bool ready() const { return ready_; }
  void send() { head_.write_queue().put_next(std::move(keeper_->kept)); }

 private:
  StreamSet set_;
  Head head_;
  Chain chain_{set_, head_};
  Keeper* keeper_ = nullptr;
  bool ready_ = false;
};

template <class M>
void module_cost(benchmark::State& state) {
  const auto depth = static_cast<std::size_t>(state.range(0));
  Ring<M> ring(depth);
  if (!ring.ready()) {
    state.SkipWithError("the chain could not be built");
    return;
  }
  for (auto _ : state) {
    ring.send();
  }
  state.counters["per_message_module"] =
      benchmark::Counter(static_cast<double>(batch_size * depth),
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

template <class M>
void depth_ratio(benchmark::State& state) {
  constexpr std::size_t deep = 64;
  constexpr std::size_t rounds = 64;  // of the shallow arm, so that both take about as long
  Ring<M> shallow_ring(1);
  Ring<M> deep_ring(deep);
  if (!shallow_ring.ready() || !deep_ring.ready()) {
    state.SkipWithError("a chain could not be built");
    return;
  }
  using Clock = std::chrono::steady_clock;
  Clock::duration shallow_time{};
  Clock::duration deep_time{};
  for (auto _ : state) {
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < rounds; ++i) {
      shallow_ring.send();
    }
    const auto middle = Clock::now();
    deep_ring.send();
    deep_time += Clock::now() - middle;
    shallow_time += middle - begin;
  }
  const double per_module_deep = static_cast<double>(deep_time.count()) / deep;
  const double per_module_shallow = static_cast<double>(shallow_time.count()) / rounds;
  state.counters["ratio"] = per_module_deep / per_module_shallow;
}

void queue_enqueue_dequeue(benchmark::State& state) {
  BufferPool pool;
  Head head;
  Queue& queue = head.write_queue();
  Message message = filled(pool, datagram_bytes);
  for (auto _ : state) {
    queue.enqueue(std::move(message));
    message = queue.dequeue();
  }
}

/// Arms and cancels one timer among `range` others, at pseudo-random times.
void timer_arm_cancel(benchmark::State& state) {
  Scheduler scheduler;
  Prng prng(1);
  const auto later = [&prng] { return TimePoint(Duration(1 + static_cast<std::int64_t>(prng.below(1'000'000)))); };
  std::vector<std::unique_ptr<Timer>> others;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    others.push_back(std::make_unique<Timer>(scheduler, [] {}));
    others.back()->arm(later());
  }
  Timer timer(scheduler, [] {});
  for (auto _ : state) {
    timer.arm(later());
    timer.cancel();
  }
}

void report(benchmark::internal::Benchmark* benchmark) { benchmark->Repetitions(9)->ReportAggregatesOnly(true); }

void depths(benchmark::internal::Benchmark* benchmark) { report(benchmark->RangeMultiplier(2)->Range(1, 64)); }

BENCHMARK(pool_allocate_release)->Name("Pool/allocate_release")->Arg(64)->Arg(1500)->Arg(65536)->Apply(report);
BENCHMARK(message_allocate_free_batch)->Name("Message/allocate_free_32")->Apply(report);
BENCHMARK(message_duplicate_free)->Name("Message/duplicate_free")->Apply(report);
BENCHMARK(message_prepend)->Name("Message/prepend_trim_front")->Apply(report);
BENCHMARK(message_sum)->Name("Message/transform_sum_1400")->Apply(report);
BENCHMARK(queue_enqueue_dequeue)->Name("Queue/enqueue_dequeue")->Apply(report);
BENCHMARK(timer_arm_cancel)->Name("Timer/arm_cancel")->Arg(0)->Arg(100)->Arg(10000)->Apply(report);
BENCHMARK(module_cost<Null>)->Name("NullModule")->Apply(depths);
BENCHMARK(module_cost<Looking>)->Name("LookingModule")->Apply(depths);
BENCHMARK(depth_ratio<Null>)->Name("DepthRatio/null")->Apply(report);
BENCHMARK(depth_ratio<Looking>)->Name("DepthRatio/looking")->Apply(report);

}  // namespace

BENCHMARK_MAIN();
