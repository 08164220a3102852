// SPDX-License-Identifier: Apache-2.0
// Every message survives emit and parse; whatever is cut, stretched or out of range is refused.
#include "apps/ftx/protocol/message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "apps/ftx/protocol/deletion.h"

namespace sluice::ftx {
namespace {

const Envelope hello_envelope{Kind::hello, 0, 0x1122334455667788};

Report sample_report() {
  Report report;
  report.phase = Phase::data;
  report.window_adus = 1000;
  report.credit_bytes = 2000;
  report.highest = 100;
  report.from = 10;
  report.to = 90;
  report.received_bytes = 12345;
  report.out_of_order = 3;
  report.held_ns = 5;
  report.clock_ns = 6;
  report.range_count = 2;
  report.missing[0] = {12, 3};
  report.missing[1] = {90, 1};
  return report;
}

struct Sample {
  const char* name;
  std::vector<std::byte> bytes;
  std::function<bool(ConstBytes)> parses;
};

std::vector<Sample> samples() {
  std::vector<Sample> list;
  std::vector<std::byte> out(control_bytes_max);
  const auto add = [&](const char* name, std::size_t size, std::function<bool(ConstBytes)> parses) {
    list.push_back({name, {out.begin(), out.begin() + static_cast<std::ptrdiff_t>(size)}, std::move(parses)});
  };
  add("hello", emit_hello(hello_envelope, {1, 1408}, out), [](ConstBytes b) { return parse_hello(b).has_value(); });
  add("cookie", emit_cookie(hello_envelope, {1, 1408, {}}, out),
      [](ConstBytes b) { return parse_cookie(b).has_value(); });
  Offer offer{.total_bytes = 5, .adu_bytes = 1408, .files = 1, .manifest_bytes = 30, .path = "a/b"};
  add("offer", emit_offer(hello_envelope, offer, out), [](ConstBytes b) { return parse_offer(b).has_value(); });
  add("probe", emit_probe(hello_envelope, {9, 8, 1}, out), [](ConstBytes b) { return parse_probe(b).has_value(); });
  add("report", emit_report(hello_envelope, sample_report(), out),
      [](ConstBytes b) { return parse_report(b).has_value(); });
  add("error", emit_error(hello_envelope, {9, "full"}, out), [](ConstBytes b) { return parse_error(b).has_value(); });
  add("taken", emit_taken(hello_envelope, 9, out), [](ConstBytes b) { return parse_taken(b).has_value(); });
  emit_data_header(hello_envelope, {{9, 8, 1}, {0, 20, 1408}, true}, out);
  add("data", data_header_bytes + 20, [](ConstBytes b) { return parse_data(b, b.size()).has_value(); });
  return list;
}

TEST(Message, AControlIsItsHeaderAndTheRest) {
  std::vector<std::byte> out(control_bytes_max + 1);
  const std::vector<std::byte> bytes(control_bytes_max - control_header_bytes, std::byte{7});
  Control control{.cipher = 2, .offset = control_offset_max, .acknowledged = 9, .bytes = bytes};
  control.cookie[3] = std::byte{5};
  const std::size_t size = emit_control(hello_envelope, control, out);
  EXPECT_EQ(size, control_bytes_max);
  const auto parsed = parse_control(ConstBytes(out).first(size));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->cookie, control.cookie);
  EXPECT_EQ(parsed->cipher, 2);
  EXPECT_EQ(parsed->offset, control_offset_max);
  EXPECT_EQ(parsed->acknowledged, 9U);
  EXPECT_TRUE(std::ranges::equal(parsed->bytes, bytes));
  EXPECT_FALSE(parse_control(out)) << "larger than a control message";
  EXPECT_TRUE(parse_control(ConstBytes(out).first(control_header_bytes))) << "an acknowledgement";
  EXPECT_FALSE(parse_control(ConstBytes(out).first(control_header_bytes - 1)));
  control.offset = control_offset_max + 1;
  EXPECT_FALSE(parse_control(ConstBytes(out).first(emit_control(hello_envelope, control, out))));
  control.offset = 0;
  control.acknowledged = control_offset_max + 1;
  EXPECT_FALSE(parse_control(ConstBytes(out).first(emit_control(hello_envelope, control, out))));
}

TEST(Message, AHaveSurvives) {
  std::vector<std::byte> out(control_bytes_max);
  Have have{.from = 5, .to = place_max, .range_count = Have::ranges_max};
  for (std::uint64_t i = 0; i < Have::ranges_max; ++i) {
    have.ranges[i] = {10 * i + 5, 10 * i + 15};
  }
  have.ranges.back().to = place_max;
  const std::size_t size = emit_have(hello_envelope, have, out);
  EXPECT_LE(size + seal_bytes, control_bytes_max);
  const auto parsed = parse_have(ConstBytes(out).first(size));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->from, have.from);
  EXPECT_EQ(parsed->to, have.to);
  ASSERT_EQ(parsed->range_count, Have::ranges_max);
  EXPECT_EQ(parsed->ranges, have.ranges);
  EXPECT_FALSE(parse_have(ConstBytes(out).first(size - 1))) << "cut";
  EXPECT_FALSE(parse_have(ConstBytes(out).first(size + 16))) << "a range too many";
  const Have nothing{.from = 5, .to = 6};
  EXPECT_TRUE(parse_have(ConstBytes(out).first(emit_have(hello_envelope, nothing, out))));
}

/// Threat: ranges that make a sum overflow, a loop endless, or the same bytes counted twice.
TEST(Message, AHaveOfRangesOutOfOrderIsRefused) {
  const auto accepted = [](std::uint64_t from, std::uint64_t to, std::vector<ByteRange> ranges) {
    std::vector<std::byte> out(control_bytes_max);
    Have have{.from = from, .to = to, .range_count = ranges.size()};
    std::ranges::copy(ranges, have.ranges.begin());
    return parse_have(ConstBytes(out).first(emit_have(hello_envelope, have, out))).has_value();
  };
  EXPECT_TRUE(accepted(10, 20, {{10, 12}, {12, 13}, {15, 20}}));
  EXPECT_FALSE(accepted(10, 10, {})) << "covers nothing";
  EXPECT_FALSE(accepted(20, 10, {}));
  EXPECT_FALSE(accepted(10, place_max + 1, {}));
  EXPECT_FALSE(accepted(10, UINT64_MAX, {{UINT64_MAX - 1, UINT64_MAX}}));
  EXPECT_FALSE(accepted(10, 20, {{9, 12}})) << "begins before";
  EXPECT_FALSE(accepted(10, 20, {{15, 21}})) << "ends behind";
  EXPECT_FALSE(accepted(10, 20, {{12, 12}})) << "empty";
  EXPECT_FALSE(accepted(10, 20, {{13, 12}})) << "reversed";
  EXPECT_FALSE(accepted(10, 20, {{12, 15}, {14, 16}})) << "overlapping";
  EXPECT_FALSE(accepted(10, 20, {{15, 16}, {12, 13}})) << "descending";
  std::vector<std::byte> out(control_bytes_max);
  EXPECT_FALSE(parse_taken(ConstBytes(out).first(emit_taken(hello_envelope, place_max + 1, out))));
  EXPECT_TRUE(parse_taken(ConstBytes(out).first(emit_taken(hello_envelope, place_max, out))));
}

TEST(Message, ASignNamesFilesOnceAndInOrder) {
  std::vector<std::byte> out(control_bytes_max);
  SignedNumbers most(signed_files_max);
  std::iota(most.begin(), most.end(), 7U);
  const std::size_t size = emit_sign(hello_envelope, most, out);
  EXPECT_LE(size + seal_bytes, control_bytes_max);
  EXPECT_EQ(parse_sign(ConstBytes(out).first(size)), most);
  EXPECT_FALSE(parse_sign(ConstBytes(out).first(size - 1))) << "cut";
  EXPECT_FALSE(parse_sign(ConstBytes(out).first(size + 4))) << "one too many";
  EXPECT_FALSE(parse_sign(ConstBytes(out).first(envelope_bytes))) << "none";
  for (const SignedNumbers& numbers : {SignedNumbers{3, 3}, SignedNumbers{4, 3}, SignedNumbers{1, 2, 0}}) {
    EXPECT_FALSE(parse_sign(ConstBytes(out).first(emit_sign(hello_envelope, numbers, out))));
  }
}

TEST(Message, AnOfferSaysWhatIsLeftAlone) {
  for (unsigned bits = 0; bits < 256; ++bits) {
    const auto update = parse_update(static_cast<std::uint8_t>(bits));
    // No dry run of which nothing is told.
    EXPECT_EQ(update.has_value(), (bits & 96U) != 64) << bits;
    if (update) {
      EXPECT_EQ(encode(*update), bits);
    }
    std::vector<std::byte> out(control_bytes_max);
    Offer offer{.total_bytes = 5, .adu_bytes = 1408, .files = 1, .manifest_bytes = 30, .path = "a"};
    offer.update = update.value_or(Update{});
    const std::size_t size = emit_offer(hello_envelope, offer, out);
    out[size - 4] = static_cast<std::byte>(bits);
    const auto parsed = parse_offer(ConstBytes(out).first(size));
    ASSERT_EQ(parsed.has_value(), update.has_value()) << bits;
    EXPECT_TRUE(!parsed || parsed->update == *update);
  }
}

TEST(Message, AControlIsNeverSealed) {
  std::vector<std::byte> out(control_bytes_max);
  emit_control({Kind::control, flag_sealed, 1}, {}, out);
  EXPECT_FALSE(parse_envelope(out));
}

TEST(Message, ACutOrStretchedDatagramIsRefused) {
  for (const Sample& sample : samples()) {
    SCOPED_TRACE(sample.name);
    EXPECT_TRUE(parse_envelope(sample.bytes));
    EXPECT_TRUE(sample.parses(sample.bytes));
    // A DATA has the payload that it has.
    const bool data = sample.name == std::string_view("data");
    for (std::size_t size = 0; size < sample.bytes.size(); ++size) {
      EXPECT_EQ(sample.parses(ConstBytes(sample.bytes).first(size)), data && size > data_header_bytes) << size;
    }
    std::vector<std::byte> longer = sample.bytes;
    longer.push_back(std::byte{0});
    EXPECT_EQ(sample.parses(longer), data || sample.name == std::string_view("probe")) << "only a PROBE may be padded";
  }
}

TEST(Message, TheEnvelopeRefusesOtherVersionsUnknownKindsAndReservedBits) {
  std::vector<std::byte> out(control_bytes_max);
  emit_close(hello_envelope, out);
  const auto with = [&](std::size_t at, unsigned value) {
    std::vector<std::byte> changed = out;
    changed[at] = static_cast<std::byte>(value);
    return parse_envelope(changed).has_value();
  };
  EXPECT_TRUE(with(0, 3));
  EXPECT_FALSE(with(0, 0));
  EXPECT_FALSE(with(0, 2));
  EXPECT_FALSE(with(0, 4));
  EXPECT_FALSE(with(1, 0));
  EXPECT_TRUE(with(1, 14));
  EXPECT_TRUE(with(1, 17));
  EXPECT_FALSE(with(1, 18));
  EXPECT_FALSE(with(2, flag_repair));  // belongs to DATA
  EXPECT_FALSE(with(2, flag_compressed));
  EXPECT_TRUE(with(2, flag_sealed));
  EXPECT_TRUE(with(2, flag_sealed | flag_key_phase));
  EXPECT_FALSE(with(2, flag_key_phase));  // of a key that is not there
  EXPECT_FALSE(with(2, 16));
  for (std::size_t size = 0; size < envelope_bytes; ++size) {
    EXPECT_FALSE(parse_envelope(ConstBytes(out).first(size)));
  }
}

TEST(Message, DataKeepsItsFields) {
  std::vector<std::byte> out(data_header_bytes);
  const Data data{{sequence_max - 1, 98, 49152}, {files_max - 1, 1408, file_content_max - 1408}, true};
  ASSERT_EQ(emit_data_header(hello_envelope, data, out), data_header_bytes);
  const auto parsed = parse_data(out, data_header_bytes + 1408);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->stamp.sequence, sequence_max - 1);
  EXPECT_EQ(parsed->stamp.round_trip_us, 49152U);
  EXPECT_EQ(parsed->stamp.behind, 98U);
  EXPECT_EQ(parsed->adu, data.adu);
  EXPECT_TRUE(parsed->repair);
  EXPECT_EQ(parse_envelope(out)->connection, hello_envelope.connection);
}

TEST(Message, StreamsTravelByNumbersThatNoFileHas) {
  for (const std::uint32_t file : {manifest_file, digest_file, no_file, pack_file, signature_file}) {
    std::vector<std::byte> out(data_header_bytes);
    emit_data_header(hello_envelope, {{1, 0, 0}, {file, 16, 0}, false}, out);
    EXPECT_EQ(parse_data(out, data_header_bytes + 16)->adu.file, file);
    EXPECT_GE(file, files_max);
  }
}

TEST(Message, ARoundTripIsKeptWithinASixteenth) {
  const auto kept = [](std::uint64_t microseconds) {
    std::vector<std::byte> out(probe_bytes);
    emit_probe(hello_envelope, {1, 0, microseconds}, out);
    return parse_probe(out)->round_trip_us;
  };
  std::uint64_t last = 0;
  for (std::uint64_t us = 0; us < 100'000; us += us < 1000 ? 1 : 17) {
    const std::uint64_t there = kept(us);
    ASSERT_EQ(kept(there), there) << us << ": what has travelled once stays as it is";
    ASSERT_GE(there, last) << us;
    ASSERT_LE(there > us ? there - us : us - there, us / 16) << us;
    last = there;
  }
  EXPECT_EQ(kept(15), 15U);
  EXPECT_EQ(kept(60'000'000), 58'720'256U);
  EXPECT_EQ(kept(UINT64_MAX), std::uint64_t{15} << 30) << "four and a half hours are the most";
}

TEST(Message, DataOutOfRangeIsRefused) {
  const Data good{{99, 98, 1}, {3, 1408, 0}, false};
  const auto accepted = [](const Data& data) {
    std::vector<std::byte> out(data_header_bytes);
    emit_data_header(hello_envelope, data, out);
    return parse_data(out, data_header_bytes + data.adu.length).has_value();
  };
  EXPECT_TRUE(accepted(good));
  Data data = good;
  data.stamp.sequence = 0;
  EXPECT_FALSE(accepted(data));
  data = good;
  data.stamp.behind = 99;  // would ask about sequence 0
  EXPECT_FALSE(accepted(data));
  data = good;
  data.adu.length = 0;
  EXPECT_FALSE(accepted(data));
  data = good;
  data.adu.length = adu_bytes_max;
  EXPECT_TRUE(accepted(data));
  data.adu.length += adu_bytes_unit;
  EXPECT_FALSE(accepted(data));
}

// A few bytes that stand for more: files' bytes alone, 65,536 at most.
TEST(Message, CompressedDataIsShorterThanItsName) {
  const auto parsed = [](const AduName& adu, std::size_t payload_bytes, bool compressed, bool sealed = false) {
    std::vector<std::byte> out(data_header_bytes);
    Envelope of = hello_envelope;
    of.flags = sealed ? flag_sealed : std::uint8_t{0};
    emit_data_header(of, {{99, 98, 1}, adu, false, compressed}, out);
    EXPECT_TRUE(parse_envelope(out));
    return parse_data(out, data_header_bytes + payload_bytes + (sealed ? tag_bytes : 0));
  };
  for (const bool sealed : {false, true}) {
    const auto data = parsed({3, 4000, 160}, 1400, true, sealed);
    ASSERT_TRUE(data);
    EXPECT_TRUE(data->compressed);
    EXPECT_EQ(data->payload_bytes, 1400U);
    EXPECT_EQ(data->adu, (AduName{3, 4000, 160}));
    EXPECT_EQ(parsed({3, 1400, 160}, 1400, false, sealed)->payload_bytes, 1400U);
    EXPECT_FALSE(parsed({3, 4000, 160}, 0, true, sealed));
  }
  EXPECT_TRUE(parsed({3, 2, 0}, 1, true));
  EXPECT_FALSE(parsed({3, 1, 0}, 1, true)) << "it saves nothing";
  EXPECT_FALSE(parsed({3, 1400, 0}, 1401, true));
  EXPECT_TRUE(parsed({3, compressed_adu_bytes_max, 0}, 1400, true));
  EXPECT_EQ(parsed({3, compressed_adu_bytes_max, 0}, 1400, true)->adu.length, compressed_adu_bytes_max);
  EXPECT_TRUE(parsed({pack_file, 4000, 0}, 1400, true));
  EXPECT_FALSE(parsed({manifest_file, 4000, 0}, 1400, true));
  EXPECT_FALSE(parsed({digest_file, 4000, 0}, 1400, true));
  // What is not compressed says no length.
  std::vector<std::byte> out(data_header_bytes);
  emit_data_header(hello_envelope, {{99, 98, 1}, {3, 1400, 160}, false}, out);
  out.back() = std::byte{1};
  EXPECT_FALSE(parse_data(out, data_header_bytes + 1400));
}

TEST(Message, AReportWithReversedHugeOrOverlappingRangesIsRefused) {
  const auto accepted = [](const std::function<void(Report&)>& change) {
    Report report = sample_report();
    change(report);
    std::vector<std::byte> out(control_bytes_max);
    return parse_report(ConstBytes(out).first(emit_report(hello_envelope, report, out))).has_value();
  };
  EXPECT_TRUE(accepted([](Report&) {}));
  EXPECT_TRUE(accepted([](Report& r) { r.range_count = 0, r.from = 91; }));  // about nothing
  EXPECT_FALSE(accepted([](Report& r) { r.range_count = 0, r.from = 92; }));
  EXPECT_FALSE(accepted([](Report& r) { r.from = 0; }));
  EXPECT_FALSE(accepted([](Report& r) { r.to = 101; }));  // beyond the highest
  EXPECT_FALSE(accepted([](Report& r) { r.to = UINT64_MAX, r.highest = UINT64_MAX; }));
  EXPECT_FALSE(accepted([](Report& r) { r.missing[0].first = 9; }));
  EXPECT_FALSE(accepted([](Report& r) { r.missing[0].count = 0; }));
  EXPECT_FALSE(accepted([](Report& r) { r.missing[0].count = 80; }));  // overlaps the second
  EXPECT_FALSE(accepted([](Report& r) { r.missing[1].count = 2; }));   // beyond `to`
  EXPECT_FALSE(accepted([](Report& r) { r.missing[1].count = UINT32_MAX; }));
  EXPECT_FALSE(accepted([](Report& r) { std::swap(r.missing[0], r.missing[1]); }));
  EXPECT_FALSE(accepted([](Report& r) { r.phase = static_cast<Phase>(3); }));
}

TEST(Message, AnOfferOutOfRangeIsRefused) {
  const auto accepted = [](const std::function<void(Offer&)>& change) {
    Offer offer{.total_bytes = 5, .adu_bytes = 1408, .files = 1, .manifest_bytes = 30, .path = "a"};
    change(offer);
    std::vector<std::byte> out(control_bytes_max);
    return parse_offer(ConstBytes(out).first(emit_offer(hello_envelope, offer, out))).has_value();
  };
  EXPECT_TRUE(accepted([](Offer&) {}));
  EXPECT_FALSE(accepted([](Offer& o) { o.adu_bytes = 0; }));
  EXPECT_TRUE(accepted([](Offer& o) { o.adu_bytes = adu_bytes_unit; }));
  EXPECT_FALSE(accepted([](Offer& o) { o.adu_bytes = 2 * adu_bytes_unit; }));
  EXPECT_FALSE(accepted([](Offer& o) { o.adu_bytes = 1400; }));  // no multiple of 16
  EXPECT_FALSE(accepted([](Offer& o) { o.adu_bytes = adu_bytes_max + 16; }));
  EXPECT_FALSE(accepted([](Offer& o) { o.files = 0; }));
  EXPECT_FALSE(accepted([](Offer& o) { o.files = files_max + 1; }));
  EXPECT_FALSE(accepted([](Offer& o) { o.manifest_bytes = 0; }));
  // "Sizes and offsets are below 2^62" (docs/formats/ftx.md).
  EXPECT_TRUE(accepted([](Offer& o) { o.total_bytes = file_bytes_max - 1; }));
  EXPECT_FALSE(accepted([](Offer& o) { o.total_bytes = file_bytes_max; }));
  EXPECT_FALSE(accepted([](Offer& o) { o.total_bytes = file_bytes_max + 1; }));
  // An entry takes 28 to 2097978 bytes; what asks for removals may stand behind them.
  for (const std::uint32_t files : {1U, 3U, 1000U}) {
    const auto list = [&](std::uint32_t bytes) {
      return accepted([&](Offer& o) {
        o.files = files;
        o.manifest_bytes = bytes;
      });
    };
    EXPECT_FALSE(list(files * 28 - 1));
    EXPECT_TRUE(list(files * 28));
    EXPECT_TRUE(list(files * 2097978 + deletion_bytes_max));
    EXPECT_FALSE(list(files * 2097978 + deletion_bytes_max + 1));
  }
}

TEST(Message, AnErrorTextIsPrintableOrRefusedAndNeverTooLong) {
  std::vector<std::byte> out(control_bytes_max);
  EXPECT_FALSE(parse_error(ConstBytes(out).first(emit_error(hello_envelope, {9, "\x1b[2J"}, out))));
  const std::string text(2000, 'x');
  const auto error = parse_error(ConstBytes(out).first(emit_error(hello_envelope, {9, text}, out)));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->text.size(), error_text_bytes_max);
}

TEST(Message, AnAduFillsWhatTheTransportCarries) {
  EXPECT_EQ(adu_bytes_for(1199), 0U);
  EXPECT_EQ(adu_bytes_for(1200), 1168U);
  EXPECT_EQ(adu_bytes_for(1472), 1440U);
  EXPECT_EQ(adu_bytes_for(1472, true), 1424U);
  EXPECT_EQ(adu_bytes_for(65'507), 65'472U);
  EXPECT_EQ(adu_bytes_for(1U << 30), adu_bytes_max);
}

std::vector<std::byte> from_hex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoul(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

// docs/formats/ftx.md, "Example".
TEST(Message, TheExampleOfTheProtocolPage) {
  const Envelope example{Kind::data, 0, 0xdeadbeef};
  std::vector<std::byte> out(control_bytes_max);
  const std::size_t header = emit_data_header(example, {{9, 5, 1000}, {0, 2, 1408}, true}, out);
  const auto data = from_hex(
      "03040100000000deadbeef"
      "000000000009"
      "000005"
      "40"
      "000000000058"
      "000000"
      "0000");
  EXPECT_EQ(std::vector(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(header)), data);

  Report report;
  report.phase = Phase::data;
  report.window_adus = 131072;
  report.credit_bytes = 1 << 20;
  report.highest = report.to = 9;
  report.from = 4;
  report.received_bytes = 1440;
  report.held_ns = 2'000'000;
  report.clock_ns = 10'000'000;
  report.range_count = 1;
  report.missing[0] = {6, 2};
  const std::size_t size = emit_report(example, report, out);
  const auto bytes = from_hex(
      "03060000000000deadbeef"
      "0100000100020000"
      "0000000000100000"
      "000000000000000900000000000000040000000000000009"
      "00000000000005a00000000000000000"
      "00000000001e84800000000000989680"
      "000000000000000600000002");
  EXPECT_EQ(std::vector(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(size)), bytes);
  EXPECT_TRUE(parse_report(bytes));
}

}  // namespace
}  // namespace sluice::ftx
