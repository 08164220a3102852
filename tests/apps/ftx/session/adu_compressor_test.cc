// SPDX-License-Identifier: Apache-2.0
// Compressed ADUs: how they are made, and what of them is believed.
#include "apps/ftx/session/adu_compressor.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include "apps/ftx/session/adu_decompressor.h"
#include "apps/ftx/session/endpoint.h"
#include "tests/apps/ftx/content.h"

namespace sluice::ftx::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t payload_max = 1456;

TimePoint no_time() { return TimePoint(); }

Content frame_of(ConstBytes content, const std::vector<std::pair<ZSTD_cParameter, int>>& parameters = {},
                 ConstBytes dictionary = {}) {
  Content frame(ZSTD_compressBound(content.size()));
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  for (const auto& [parameter, value] : parameters) {
    ZSTD_CCtx_setParameter(context, parameter, value);
  }
  ZSTD_CCtx_refPrefix(context, dictionary.data(), dictionary.size());
  const std::size_t size = ZSTD_compress2(context, frame.data(), frame.size(), content.data(), content.size());
  ZSTD_freeCCtx(context);
  EXPECT_EQ(ZSTD_isError(size), 0U);
  frame.resize(size);
  return frame;
}

/// Sends all of `content` as a sender does, and answers what came out and how many bytes travelled.
struct Sent {
  Content arrived;
  std::size_t payload_bytes = 0;
  std::size_t adus = 0;
  std::size_t compressed = 0;
};
Sent send(AduCompressor& compressor, ConstBytes content, std::uint32_t payload_bytes) {
  AduDecompressor decompressor;
  Sent sent;
  for (std::size_t at = 0; at < content.size();) {
    const std::size_t most = std::min(compressor.content_bytes_for(payload_bytes), content.size() - at);
    EXPECT_LE(most, std::max<std::size_t>(compressed_adu_bytes_max, payload_bytes));
    const auto fitted = compressor.fit(content.subspan(at, most), payload_bytes);
    EXPECT_LE(fitted.payload.size(), payload_bytes);
    EXPECT_TRUE(fitted.content_bytes > 0 && fitted.content_bytes <= most);
    at += fitted.content_bytes;
    EXPECT_TRUE(at % adu_bytes_unit == 0 || at == content.size());
    EXPECT_EQ(fitted.compressed, fitted.payload.size() < fitted.content_bytes);
    const ConstBytes bytes =
        fitted.compressed ? decompressor.decompress(fitted.payload, static_cast<std::uint32_t>(fitted.content_bytes))
                          : fitted.payload;
    EXPECT_EQ(bytes.size(), fitted.content_bytes);
    sent.arrived.insert(sent.arrived.end(), bytes.begin(), bytes.end());
    sent.payload_bytes += fitted.payload.size();
    ++sent.adus;
    sent.compressed += fitted.compressed ? 1 : 0;
    if (sent.adus % Burst::datagrams_max == 0) {
      compressor.release();
    }
    if (bytes.empty()) {
      break;
    }
  }
  return sent;
}

TEST(AduCompressor, AllSizesOfAllKindsArrive) {
  for (const std::size_t size :
       {1UL, 15UL, 16UL, 1455UL, 1456UL, 1457UL, 3000UL, 65535UL, 65536UL, 65537UL, 1000000UL}) {
    for (const std::uint32_t payload : {std::uint32_t{480}, payload_max, std::uint32_t{8912}, std::uint32_t{65456}}) {
      for (const Content& content :
           {Content(size), text_content(size, 1), random_content(size, 1), mixed_content(size, 1)}) {
        SCOPED_TRACE(testing::Message() << size << " bytes, payloads of " << payload);
        AduCompressor compressor(Compress::always, no_time, payload);
        const Sent sent = send(compressor, content, payload);
        ASSERT_EQ(sent.arrived, content);
        EXPECT_LE(sent.payload_bytes, size);
      }
    }
  }
}

TEST(AduCompressor, DatagramsAreNearlyFull) {
  const Content text = text_content(4'000'000, 1);
  AduCompressor compressor(Compress::always, no_time, payload_max);
  const Sent sent = send(compressor, text, payload_max);
  EXPECT_LT(sent.payload_bytes, text.size() / 2) << "half of it is saved";
  EXPECT_GT(sent.payload_bytes, sent.adus * payload_max * 3 / 4);
  EXPECT_GT(sent.compressed, sent.adus * 9 / 10);
}

TEST(AduCompressor, WhatDoesNotGetSmallerGoesAsItIs) {
  const Content random = random_content(1'000'000, 1);
  AduCompressor compressor(Compress::always, no_time, payload_max);
  const Sent sent = send(compressor, random, payload_max);
  EXPECT_EQ(sent.compressed, 0U);
  EXPECT_EQ(sent.payload_bytes, random.size());
  EXPECT_EQ(sent.adus, (random.size() + payload_max - 1) / payload_max);
}

// The memory of frames is bounded: who never releases gets ADUs as they are.
TEST(AduCompressor, WithoutMemoryNothingIsCompressed) {
  AduCompressor compressor(Compress::always, no_time, payload_max);
  const Content text = text_content(60'000, 1);
  std::size_t compressed = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::size_t most = compressor.content_bytes_for(payload_max);
    compressed += compressor.fit(ConstBytes(text).first(most), payload_max).compressed ? 1 : 0;
  }
  EXPECT_GT(compressed, Burst::datagrams_max);
  EXPECT_LT(compressed, 200U);
  compressor.release();
  const std::size_t most = compressor.content_bytes_for(payload_max);
  EXPECT_TRUE(compressor.fit(ConstBytes(text).first(most), payload_max).compressed);
}

TEST(AduCompressor, MeasuresWhatItCosts) {
  TimePoint now{1h};
  Duration cost = 1us;
  AduCompressor compressor(Compress::when_it_pays, [&] { return now += cost; }, payload_max);
  compressor.policy().on_delivery(10'000'000, false);
  const Content text = text_content(60'000, 1);
  const auto compresses = [&] {
    const std::size_t most = compressor.content_bytes_for(payload_max);
    return compressor.fit(ConstBytes(text).first(most), payload_max).compressed;
  };
  EXPECT_TRUE(compresses() && compresses());
  cost = 100ms;
  while (compresses()) {
    compressor.release();
  }
  EXPECT_FALSE(compresses());
}

// --- What comes in -------------------------------------------------------------------------------------------------

constexpr std::uint32_t text_bytes = 5000;

struct Bad {
  const char* name;
  Content frame;
  std::uint32_t bytes = 5000;
};

std::vector<Bad> bad_frames() {
  const Content text = text_content(text_bytes, 1);
  const Content good = frame_of(text);
  Content truncated(good.begin(), good.end() - 1);
  Content trailing = good;
  trailing.push_back({});
  Content two = frame_of(ConstBytes(text).first(2500));
  const Content second = frame_of(ConstBytes(text).last(2500));
  two.insert(two.end(), second.begin(), second.end());
  Content skippable{std::byte{0x50}, std::byte{0x2a}, std::byte{0x4d}, std::byte{0x18},
                    std::byte{0},    std::byte{0},    std::byte{0},    std::byte{0}};
  Content behind_skippable = skippable;
  behind_skippable.insert(behind_skippable.end(), good.begin(), good.end());
  Content in_front = good;
  in_front.insert(in_front.end(), skippable.begin(), skippable.end());
  // The size stands behind magic number and descriptor (RFC 8878 section 3.1.1.1): 2 bytes, less 256.
  Content says_more = good, says_less = good;
  says_more[5] ^= std::byte{1};
  says_less[6] = std::byte{0};
  Content no_block = good;
  no_block[7] |= std::byte{6};  // RFC 8878 section 3.1.1.2.2: a block of type 3 "is not a block"
  // The descriptor's two lowest bits say how long the dictionary's number behind it is.
  Content numbered = good;
  numbered[4] |= std::byte{1};
  numbered.insert(numbered.begin() + 5, std::byte{9});
  Content old = good;
  old[0] = std::byte{0x27};  // the format of 0.7
  Content bad_checksum = frame_of(text, {{ZSTD_c_checksumFlag, 1}});
  bad_checksum.back() ^= std::byte{1};
  return {{"empty", {}},
          {"garbage", random_content(300, 7)},
          {"magic number alone", Content(good.begin(), good.begin() + 4)},
          {"header alone", Content(good.begin(), good.begin() + 7)},
          {"truncated", truncated},
          {"something behind it", trailing},
          {"two frames", two},
          {"a skippable frame", skippable, 1},
          {"a skippable frame in front", behind_skippable},
          {"a skippable frame behind it", in_front},
          {"says one byte more than the name", good, text_bytes - 1},
          {"says one byte less than the name", good, text_bytes + 1},
          {"says more than it holds, as the name", says_more, 5001},
          {"says less than it holds, as the name", says_less, 5000 - (((5000 - 256) >> 8) << 8)},
          {"no size", frame_of(text, {{ZSTD_c_contentSizeFlag, 0}})},
          {"a block of no type", no_block},
          {"a bad checksum", bad_checksum},
          {"an old format", old},
          {"a dictionary's number", numbered},
          {"a dictionary without a number", frame_of(text, {}, text_content(4000, 2))},
          {"a bomb", frame_of(Content(100'000'000)), text_bytes}};
}

TEST(AduDecompressor, AGoodFrameIsDecompressed) {
  AduDecompressor decompressor;
  const Content text = text_content(text_bytes, 1);
  const ConstBytes out = decompressor.decompress(frame_of(text), text_bytes);
  EXPECT_TRUE(std::ranges::equal(out, text));
  const ConstBytes checked = decompressor.decompress(frame_of(text, {{ZSTD_c_checksumFlag, 1}}), text_bytes);
  EXPECT_TRUE(std::ranges::equal(checked, text));
}

// docs/formats/ftx.md, "Example": 4,096 zeros.
TEST(AduDecompressor, TheFrameOfTheDocumentIsDecompressed) {
  constexpr unsigned char frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0x60, 0x00, 0x0f, 0x4d, 0x00, 0x00,
                                     0x10, 0x00, 0x00, 0x01, 0x00, 0xfb, 0xf7, 0x01, 0x16};
  AduDecompressor decompressor;
  const ConstBytes out = decompressor.decompress(std::as_bytes(std::span(frame)), 4096);
  EXPECT_TRUE(std::ranges::equal(out, Content(4096)));
}

TEST(AduDecompressor, EverythingElseIsRefused) {
  AduDecompressor decompressor;
  for (const Bad& bad : bad_frames()) {
    EXPECT_TRUE(decompressor.decompress(bad.frame, bad.bytes).empty()) << bad.name;
  }
  const Content text = text_content(text_bytes, 1);
  EXPECT_TRUE(std::ranges::equal(decompressor.decompress(frame_of(text), text_bytes), text)) << "and does no harm";
}

}  // namespace
}  // namespace sluice::ftx::test
