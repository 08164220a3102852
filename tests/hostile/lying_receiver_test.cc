// SPDX-License-Identifier: Apache-2.0
// A receiver that lies to the real ftx over loopback: `ftx remote` where the session is sealed, `ftx SRC ftx://...`
// where it is not. One row, one lie, with the sentence of docs/formats/ftx.md that it breaks. Whatever it says, ftx
// ends in time with the code of the row, and has taken little memory; and success is only what everything was sent for.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "tests/hostile/far_side.h"
#include "tests/hostile/liar.h"

namespace sluice::ftx::hostile {
namespace {

struct ReceiverLie {
  const char* name;
  const char* sentence;
  std::function<void(Liar&)> tell;  // the sender has offered
  std::set<ExitCode> ends;
};

constexpr const char* rule_finished =
    "A REPORT of phase 2 ends the transfer with success (before everything has been sent once it is dropped)";
constexpr const char* rule_report = "those in its ranges are missing, all others arrived";
constexpr const char* rule_sender_progress = "the sender when no report said that payload arrived";
constexpr const char* rule_kinds = "1, 3, 4, 5, 14 and 16 go to the receiver, 2, 6, 9, 13 and 15 to the sender";
constexpr const char* rule_have = "One that leaves a gap, or goes beyond the contents, is dropped";

/// Reports that `change` has been at, for a while; then silence.
void only(Liar& liar, const std::function<void(Report&)>& change, Phase phase = Phase::data) {
  for (int i = 0; i < 100 && liar.errors == 0; ++i) {
    Report message = liar.honest_report(phase);
    change(message);
    liar.report(message);
    liar.take(20ms);
  }
}

/// A few of those, and then the truth.
void first(Liar& liar, const std::function<void(Report&)>& change, Phase phase = Phase::data) {
  for (int i = 0; i < 5; ++i) {
    Report message = liar.honest_report(phase);
    change(message);
    liar.report(message);
    liar.hear(5ms);
  }
  liar.receive_all();
}

/// A REPORT whose byte at `at` is another, and then the truth.
void with_byte(Liar& liar, std::size_t at, std::uint8_t value) {
  liar.report(liar.honest_report(Phase::data));
  liar.hear(5ms);
  const std::size_t size = emit_report(liar.envelope, liar.honest_report(Phase::finished), liar.out);
  liar.out[at] = std::byte{value};
  liar.control(size);
  liar.receive_all();
}

/// What the transfer's files hold, with a digest of each.
std::uint64_t contents_bytes(const Liar& liar) {
  return liar.offered->total_bytes + std::uint64_t{liar.offered->files} * digest_bytes;
}

/// HAVEs of one range each, and then the truth.
void have(Liar& liar, std::vector<ByteRange> ranges) {
  liar.report(liar.honest_report(Phase::data));
  for (const ByteRange& range : ranges) {
    liar.control(
        emit_have(liar.envelope, {.from = range.from, .to = range.to, .range_count = 1, .ranges = {range}}, liar.out));
    liar.hear(5ms);
  }
  liar.receive_all();
}

/// CHANGES that nobody has asked for, or that are none, and then the truth.
void changes(Liar& liar, std::uint64_t from, const Change& change) {
  std::vector<std::byte> record(change_bytes_max);
  Writer writer(record);
  put(writer, change);
  liar.report(liar.honest_report(Phase::data));
  for (int i = 0; i < 100; ++i) {
    liar.control(emit_changes(liar.envelope, from, ConstBytes(record).first(writer.size()), liar.out));
  }
  liar.hear(5ms);
  liar.receive_all();
}

const std::vector<ReceiverLie>& receiver_lies() {
  static const std::vector<ReceiverLie> table{
      {"TheTruth", "", [](Liar& liar) { EXPECT_TRUE(liar.receive_all()); }, {ok}},

      // --- Success
      {"FinishedAtOnce", rule_finished, [](Liar& liar) { only(liar, [](Report&) {}, Phase::finished); }, {timed_out}},
      {"FinishedBeforeTheFiles",
       rule_finished,
       [](Liar& liar) {
         Report none = liar.honest_report(Phase::data);
         none.credit_bytes = 0;
         none.window_adus = 0;
         liar.report(none);
         only(liar, [](Report& report) { report.credit_bytes = report.window_adus = 0; }, Phase::finished);
       },
       {timed_out}},
      {"ErrorOfSuccess",
       rule_error,
       [](Liar& liar) { liar.control(emit_error(liar.envelope, {0, "it went well"}, liar.out)); },
       {wrong}},
      {"ErrorOfAnUnknownCode",
       rule_error,
       [](Liar& liar) { liar.control(emit_error(liar.envelope, {256, "?"}, liar.out)); },
       {wrong}},
      {"ErrorWithAnEscape",
       "text[text_bytes] printable, 512 bytes at most",
       [](Liar& liar) {
         liar.report(liar.honest_report(Phase::data));
         const std::size_t size = emit_error(liar.envelope, {5, "abcd"}, liar.out);
         liar.out[size - 2] = std::byte{0x1b};
         liar.control(size);
         liar.receive_all();
       },
       {ok, ExitCode::source_unreadable}},
      {"ChangesThatNobodyAskedFor",
       "if it has asked for them",
       [](Liar& liar) { changes(liar, 0, {.kind = Change::Kind::content, .entry = 1}); },
       {ok}},
      {"ChangesWithAnEscape",
       "A CHANGES with anything else is dropped",
       [](Liar& liar) { changes(liar, UINT64_MAX, {.kind = Change::Kind::removed, .path = "\x1b[2J"}); },
       {ok}},
      {"CloseInTheMiddle",
       "the end that gets either answers CLOSE",
       [](Liar& liar) {
         liar.report(liar.honest_report(Phase::data));
         liar.control(emit_close(liar.envelope, liar.out));
         liar.receive_all();
       },
       {ok}},

      // --- What arrived
      {"AllIsMissingForEver",
       rule_sender_progress,
       [](Liar& liar) {
         only(liar, [](Report& report) {
           report.range_count = report.highest > 0 ? 1 : 0;
           report.missing[0] = {1, static_cast<std::uint32_t>(report.highest)};
         });
       },
       {timed_out}},
      {"NothingIsEverResolved",
       rule_sender_progress,
       [](Liar& liar) { only(liar, [](Report& report) { report.to = 0; }); },
       {timed_out}},
      {"SequencesThatWereNeverSent",
       rule_report,
       [](Liar& liar) { first(liar, [](Report& report) { report.highest = report.to = 1'000'000'000; }); },
       {ok}},
      {"SequencesOfAll",
       rule_report,
       [](Liar& liar) { first(liar, [](Report& report) { report.highest = report.to = UINT64_MAX; }); },
       {ok}},
      {"AHighestBelowWhatIsCovered",
       rule_report,
       [](Liar& liar) { first(liar, [](Report& report) { report.to = report.highest + 5; }); },
       {ok}},
      {"FromZero",
       "Every DATA and PROBE has a sequence number of its own, from 1 up",
       [](Liar& liar) { first(liar, [](Report& report) { report.from = 0; }); },
       {ok}},
      {"ToBeforeFrom",
       "A REPORT covers the sequences `from`..`to`",
       [](Liar& liar) { first(liar, [](Report& report) { report.from = report.to + 100; }); },
       {ok}},
      {"ARangeOfNothing",
       "range := first:u64 count:u32",
       [](Liar& liar) {
         first(liar, [](Report& report) {
           report.range_count = 1;
           report.missing[0] = {1, 0};
         });
       },
       {ok}},
      {"ARangeOfAll",
       rule_report,
       [](Liar& liar) {
         first(liar, [](Report& report) {
           report.range_count = 1;
           report.missing[0] = {1, UINT32_MAX};
         });
       },
       {ok}},
      {"ARangeAtTheEndOfNumbers",
       rule_report,
       [](Liar& liar) {
         first(liar, [](Report& report) {
           report.range_count = 1;
           report.missing[0] = {UINT64_MAX, 2};
         });
       },
       {ok}},
      {"RangesThatOverlap",
       rule_report,
       [](Liar& liar) {
         first(liar, [](Report& report) {
           report.range_count = 2;
           report.missing[0] = {1, 2};
           report.missing[1] = {2, 1};
         });
       },
       {ok}},
      {"RangesInReverse",
       rule_report,
       [](Liar& liar) {
         first(liar, [](Report& report) {
           report.range_count = 2;
           report.missing[0] = {3, 1};
           report.missing[1] = {1, 1};
         });
       },
       {ok}},
      {"MoreRangesThanItSays", "88 ranges at most", [](Liar& liar) { with_byte(liar, 19, 1); }, {ok}},
      {"PhaseThree", "phase 0, 1, 2", [](Liar& liar) { with_byte(liar, 16, 3); }, {ok}},
      {"AZeroThatIsNone", "zero:u8", [](Liar& liar) { with_byte(liar, 17, 1); }, {ok}},
      {"PhasesGoBack",
       "phase 0: needs the manifest; 1: accepted; 2: finished",
       [](Liar& liar) {
         liar.report(liar.honest_report(Phase::data));
         liar.hear(5ms);
         first(liar, [](Report&) {}, Phase::manifest);
       },
       {ok}},

      // --- What it can take
      {"NoCreditEver",
       "A sender never has more under way than that",
       [](Liar& liar) {
         only(liar, [](Report& report) {
           report.credit_bytes = 0;
           report.received_bytes = 0;
         });
       },
       {timed_out, ok}},
      {"NoWindowEver",
       "`window_adus` bounds how many sequences may be open",
       [](Liar& liar) { only(liar, [](Report& report) { report.window_adus = 0; }); },
       {timed_out}},
      {"AWindowOfAll",
       "a sender takes a larger number for this one",
       [](Liar& liar) { first(liar, [](Report& report) { report.window_adus = UINT32_MAX; }); },
       {ok}},
      {"CreditAboveTwoTo62",
       "below 2^62",
       [](Liar& liar) { first(liar, [](Report& report) { report.credit_bytes = UINT64_MAX; }); },
       {ok}},
      {"MoreBytesThanWereSent",
       "differences of `received_bytes` give the delivery rate",
       [](Liar& liar) { first(liar, [](Report& report) { report.received_bytes = file_bytes_max - 1; }); },
       {ok}},

      // --- What it has
      {"ItHasEverything", "A HAVE only saves work", [](Liar& liar) { have(liar, {{0, contents_bytes(liar)}}); }, {ok}},
      {"ItHasMoreThanThereIs",
       rule_have,
       [](Liar& liar) { have(liar, {{0, contents_bytes(liar) + 1}, {0, place_max}}); },
       {ok}},
      {"ItHasWhatComesLater", rule_have, [](Liar& liar) { have(liar, {{100, contents_bytes(liar)}}); }, {ok}},
      {"ItHasTheSameOften",
       "of what it has taken before it takes nothing again",
       [](Liar& liar) { have(liar, std::vector<ByteRange>(200, {0, 100})); },
       {ok}},
      {"ItHasTheSameForEver",
       "is progress if it says something new",
       [](Liar& liar) {
         for (int i = 0; i < 100 && liar.errors == 0; ++i) {
           liar.control(emit_have(liar.envelope, {.from = 0, .to = 1}, liar.out));
           liar.take(20ms);
         }
       },
       {timed_out}},
      {"RangesOutOfOrder",
       "its ranges, ascending and disjoint, are there",
       [](Liar& liar) {
         const Have reversed{.from = 0, .to = 9, .range_count = 2, .ranges = {{{5, 6}, {1, 2}}}};
         liar.control(emit_have(liar.envelope, reversed, liar.out));
         have(liar, {{7, 3}});
       },
       {ok}},

      // --- Time
      {"HeldForAges",
       "`held_ns` (how long ago `highest` came), give the round trip",
       [](Liar& liar) { first(liar, [](Report& report) { report.held_ns = file_bytes_max - 1; }); },
       {ok}},
      {"AClockThatStands",
       "clock_ns:u64",
       [](Liar& liar) { first(liar, [](Report& report) { report.clock_ns = 1; }); },
       {ok}},
      {"AClockAtItsEnd",
       "clock_ns:u64",
       [](Liar& liar) { first(liar, [](Report& report) { report.clock_ns = UINT64_MAX; }); },
       {ok}},

      // --- What is no matter of a receiver's
      {"DatagramsOfASender",
       rule_kinds,
       [](Liar& liar) {
         liar.report(liar.honest_report(Phase::data));
         liar.add("x", Content(10));
         liar.offer(liar.honest_offer());
         liar.control(emit_hello(liar.envelope, {1, adu_bytes}, liar.out));
         liar.data({0, 10, 0}, liar.contents[0]);
         liar.probe({1, 0, 1});
         liar.control(emit_taken(liar.envelope, 1, liar.out));
         liar.receive_all();
       },
       {ok}},
      {"TheOtherKindOfSeal",
       "nothing on the wire negotiates that",
       [](Liar& liar) {
         std::array<std::byte, control_bytes_max> plain{};
         Envelope here = liar.envelope;
         here.flags = liar.sealed() ? std::uint8_t{0} : flag_sealed;
         liar.raw(ConstBytes(plain).first(emit_error(here, {5, "no"}, plain)));
         liar.raw(ConstBytes(plain).first(emit_report(here, liar.honest_report(Phase::finished), plain)));
         liar.receive_all();
       },
       {ok}},
      {"AThousandKnocks",
       "three times as much as came from there at most, until a REPORT opens",
       [](Liar& liar) {
         for (int i = 0; i < 1000; ++i) {
           liar.control(emit_knock(liar.envelope, liar.out));
         }
         liar.receive_all();
       },
       {ok}},
      {"AThousandChallenges",
       "its RESPONSE with the same nonce",
       [](Liar& liar) {
         liar.report(liar.honest_report(Phase::data));
         for (std::uint64_t i = 0; i < 1000; ++i) {
           liar.control(emit_challenge(liar.envelope, i, liar.out));
         }
         liar.receive_all();
       },
       {ok}},
      {"AThousandCookies",
       "2, 6 and 9 to the sender",
       [](Liar& liar) {
         for (std::uint64_t i = 0; i < 1000; ++i) {
           liar.control(emit_cookie(liar.envelope, {i, 256, {}}, liar.out));
         }
         liar.receive_all();
       },
       {ok}},
      {"SilenceAfterTheOffer", rule_sender_progress, [](Liar&) {}, {ExitCode::no_answer, ExitCode::timeout}},
  };
  return table;
}

class LyingReceiver : public testing::TestWithParam<std::tuple<bool, std::size_t>> {};

TEST_P(LyingReceiver, MakesNoSuccess) {
  const auto [sealed, row] = GetParam();
  const ReceiverLie& lie = receiver_lies()[row];
  SCOPED_TRACE(testing::Message() << lie.name << ": " << lie.sentence);
  FarSide far(sealed, StartDirection::pull);
  Liar liar(far.port(), far.take_protection());
  if (!sealed) {
    far.begin(liar.port());
  }
  ASSERT_TRUE(liar.invite());
  lie.tell(liar);
  far.expect_end(lie.ends);
  far.expect_files(random_content(source_bytes));
}

INSTANTIATE_TEST_SUITE_P(Table, LyingReceiver,
                         testing::Combine(testing::Bool(), testing::Range<std::size_t>(0, receiver_lies().size())),
                         [](const auto& instance) {
                           return std::string(std::get<0>(instance.param) ? "Sealed" : "Insecure") +
                                  receiver_lies()[std::get<1>(instance.param)].name;
                         });

}  // namespace
}  // namespace sluice::ftx::hostile
