// SPDX-License-Identifier: Apache-2.0
// data_run() against what parsing each datagram says.
#include "apps/ftx/protocol/data_run.h"

#include <gtest/gtest.h>

#include <vector>

#include "apps/ftx/protocol/message.h"
#include "base/prng.h"

namespace sluice::ftx {
namespace {

using RunDatagram = std::vector<std::byte>;

constexpr std::uint32_t run_adu_bytes = 320;

/// A run of `count` that begins with `stamp` at `offset`.
std::vector<RunDatagram> run_of(std::size_t count, Stamp stamp, std::uint64_t offset, std::uint8_t flags = 0) {
  std::vector<RunDatagram> run;
  for (std::size_t i = 0; i < count; ++i) {
    RunDatagram& datagram = run.emplace_back(data_header_bytes + run_adu_bytes + (flags != 0 ? tag_bytes : 0));
    const AduName adu{7, run_adu_bytes, offset + i * run_adu_bytes};
    emit_data_header({Kind::data, flags, 42}, {.stamp = stamp, .adu = adu}, datagram);
    ++stamp.sequence;
    ++stamp.behind;
  }
  return run;
}

std::size_t run_in(std::vector<RunDatagram>& datagrams) {
  const std::vector<Bytes> spans(datagrams.begin(), datagrams.end());
  return data_run(spans);
}

/// By the definition, one datagram after the other.
std::size_t run_by_parsing(const std::vector<RunDatagram>& datagrams) {
  std::size_t count = 0;
  std::optional<Data> first;
  for (; count < datagrams.size(); ++count) {
    const RunDatagram& datagram = datagrams[count];
    const auto envelope = parse_envelope(datagram);
    const auto data = envelope && envelope->kind == Kind::data ? parse_data(datagram, datagram.size()) : std::nullopt;
    if (!data || data->compressed || datagram.size() != datagrams[0].size()) {
      break;
    }
    first = count == 0 ? data : first;
    const bool envelopes = std::equal(datagram.begin(), datagram.begin() + envelope_bytes, datagrams[0].begin());
    if (!envelopes || data->stamp.sequence != first->stamp.sequence + count ||
        data->stamp.round_trip_us != first->stamp.round_trip_us ||
        data->stamp.behind != std::uint64_t{first->stamp.behind} + count || data->adu.file != first->adu.file ||
        data->adu.length != first->adu.length || data->adu.offset != first->adu.offset + count * first->adu.length) {
      break;
    }
  }
  return std::max<std::size_t>(count, 1);
}

TEST(DataRun, IsWhatParsingEachDatagramSays) {
  Prng prng(1);
  std::size_t longer = 0;
  for (int round = 0; round < 20'000; ++round) {
    const Stamp stamp{100 + prng.below(1000), static_cast<std::uint32_t>(prng.below(90)), prng.below(1U << 30)};
    std::vector<RunDatagram> datagrams =
        run_of(1 + prng.below(12), stamp, prng.below(100) * run_adu_bytes, prng.below(2) == 0 ? flag_sealed : 0);
    RunDatagram& changed = datagrams[prng.below(datagrams.size())];
    switch (prng.below(5)) {
      case 0:
        break;
      case 1:  // any bit of a header
        changed[prng.below(data_header_bytes)] ^= std::byte{1} << prng.below(8);
        break;
      case 2:
        changed.resize(prng.below(changed.size()));
        break;
      case 3:
        changed.push_back({});
        break;
      default:
        std::swap(changed, datagrams[prng.below(datagrams.size())]);
    }
    const std::size_t count = run_in(datagrams);
    ASSERT_EQ(count, run_by_parsing(datagrams)) << round;
    longer += count > 1 ? 1 : 0;
  }
  EXPECT_GT(longer, 5000U);
}

TEST(DataRun, HasALongestOne) {
  std::vector<RunDatagram> datagrams = run_of(data_run_max + 1, {9, 0, 1}, 0);
  EXPECT_EQ(run_in(datagrams), data_run_max);
}

// A number behind the last that its field holds is 0 there, and ends the run though all else goes on.
TEST(DataRun, EndsWhereANumberEnds) {
  struct Field {
    const char* name;
    std::size_t at;
    std::size_t bytes;
    std::uint64_t step;  // from one datagram of a run to the next
  };
  for (const Field& field :
       {Field{"sequence", 11, 6, 1}, {"behind", 17, 3, 1}, {"offset", 21, 6, run_adu_bytes / adu_bytes_unit}}) {
    SCOPED_TRACE(field.name);
    std::vector<RunDatagram> run = run_of(4, {1U << 30, 5, 3}, 0);
    EXPECT_EQ(run_in(run), 4U);
    for (std::uint64_t i = 0; i < run.size(); ++i) {
      const std::uint64_t value = (i - 2) * field.step;  // the two before the end, and then from 0 on
      for (std::size_t k = 0; k < field.bytes; ++k) {
        run[i][field.at + k] = static_cast<std::byte>(value >> (8 * (field.bytes - 1 - k)));
      }
    }
    EXPECT_EQ(run_in(run), 2U);
    EXPECT_EQ(run_by_parsing(run), 2U);
  }
}

}  // namespace
}  // namespace sluice::ftx
