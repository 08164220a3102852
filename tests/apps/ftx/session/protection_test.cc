// SPDX-License-Identifier: Apache-2.0
// Two ends of a sealed session, datagram by datagram.
#include "apps/ftx/session/protection.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/apps/ftx/security/hex.h"
#include "tests/apps/ftx/session/simulation.h"

namespace sluice::ftx::test {
namespace {

struct Ends {
  Protection initiator;
  Protection responder;
  explicit Ends(std::optional<AeadLimits> limits = std::nullopt, Cipher cipher = Cipher::aes_128_gcm)
      : initiator(protection_of(1, Side::initiator, cipher, limits)),
        responder(protection_of(1, Side::responder, cipher, limits)) {}
};

Content control_of(Protection& end, std::uint16_t code) {
  Content out(control_bytes_max);
  const std::size_t size = emit_error({Kind::error, 0, end.connection()}, {code, "text"}, out);
  out.resize(end.seal_control(out, size));
  return out;
}

Content data_of(Protection& end, std::uint64_t sequence, ConstBytes payload) {
  Content out(data_header_bytes + payload.size() + tag_bytes);
  const Envelope envelope{Kind::data, end.flags(), end.connection()};
  const Data data{{sequence, 0, 1}, {0, static_cast<std::uint32_t>(payload.size()), 1408 * sequence}, false};
  emit_data_header(envelope, data, out);
  EXPECT_TRUE(
      end.seal_payload(ConstBytes(out).first(data_header_bytes), payload, Bytes(out).subspan(data_header_bytes)));
  return out;
}

std::optional<Content> opened(Protection& end, ConstBytes datagram) {
  if (datagram.size() < data_header_bytes + tag_bytes || !parse_data(datagram, datagram.size())) {
    return std::nullopt;
  }
  Content payload(datagram.size() - data_header_bytes - tag_bytes);
  if (!end.open_payload(datagram, payload)) {
    return std::nullopt;
  }
  return payload;
}

TEST(Protection, BothEndsHaveOneConnectionAndTwoKeys) {
  Ends ends;
  EXPECT_EQ(ends.initiator.connection(), ends.responder.connection());
  EXPECT_NE(ends.initiator.connection(), protection_of(2, Side::initiator).connection());
  Content there = control_of(ends.initiator, 7);
  const ConstBytes plain = ends.responder.open_control(there);
  ASSERT_FALSE(plain.empty());
  EXPECT_EQ(parse_envelope(plain)->flags, 0);
  EXPECT_EQ(parse_error(plain)->code, 7);
  // Neither is what a side sealed any good to itself.
  EXPECT_TRUE(ends.initiator.open_control(control_of(ends.initiator, 7)).empty());
  EXPECT_FALSE(ends.responder.open_control(control_of(ends.initiator, 8)).empty());
  EXPECT_FALSE(ends.initiator.open_control(control_of(ends.responder, 9)).empty());
  EXPECT_FALSE(opened(ends.initiator, data_of(ends.initiator, 1, random_content(100, 1))));
}

// docs/formats/ftx.md, "Example": computed apart from this program, with libcrypto and Python's hmac.
TEST(Protection, TheExampleOfTheProtocolPage) {
  Content secret(session_secret_bytes);
  for (std::size_t i = 0; i < secret.size(); ++i) {
    secret[i] = static_cast<std::byte>(i);
  }
  const KeySchedule schedule{Secret(secret)};
  Protection initiator = Protection::create(schedule, Cipher::aes_128_gcm, Side::initiator).value();
  EXPECT_EQ(initiator.connection(), 0xda3a4ddbe7a33737U);
  Content close(control_bytes_max);
  const Envelope envelope{Kind::close, 0, initiator.connection()};
  close.resize(initiator.seal_control(close, emit_close(envelope, close)));
  EXPECT_EQ(to_hex(close), "030802da3a4ddbe7a337370000000000000000f062d295b8cc5eee815890fe9d5d32eb");
  Content data(data_header_bytes + 2 + tag_bytes);
  emit_data_header({Kind::data, initiator.flags(), initiator.connection()}, {{9, 5, 1000}, {0, 2, 1408}, true}, data);
  ASSERT_TRUE(initiator.seal_payload(ConstBytes(data).first(data_header_bytes), as_bytes("hi"),
                                     Bytes(data).subspan(data_header_bytes)));
  EXPECT_EQ(to_hex(data),
            "030403da3a4ddbe7a33737000000000009000005400000000000580000000000"
            "6d82a8b85bf13ae52c469ddbb9ceb2d350e9");
}

TEST(Protection, WhatIsSealedDoesNotShowWhatItIs) {
  Ends ends;
  const Content payload(1000, std::byte{'x'});
  for (const Content& sealed : {data_of(ends.initiator, 1, payload), data_of(ends.initiator, 2, payload)}) {
    EXPECT_LT(std::ranges::count(ConstBytes(sealed).subspan(data_header_bytes), std::byte{'x'}), 30);
  }
  const Content one = control_of(ends.initiator, 7), same = control_of(ends.initiator, 7);
  EXPECT_FALSE(std::ranges::equal(ConstBytes(one).subspan(24), ConstBytes(same).subspan(24)));
}

TEST(Protection, AChangedByteAnywhereIsRefused) {
  for (const Cipher cipher : {Cipher::aes_128_gcm, Cipher::chacha20_poly1305}) {
    Ends ends(std::nullopt, cipher);
    const Content payload = random_content(100, 3);
    const Content data = data_of(ends.initiator, 1, payload), control = control_of(ends.initiator, 1);
    std::uint64_t forged = 0;
    for (int bit = 0; bit < 8; ++bit) {
      for (std::size_t at = 0; at < data.size(); ++at) {
        Content changed = data;
        changed[at] ^= static_cast<std::byte>(1U << bit);
        EXPECT_FALSE(opened(ends.responder, changed)) << at;
      }
      for (std::size_t at = 0; at < control.size(); ++at) {
        Content changed = control;
        changed[at] ^= static_cast<std::byte>(1U << bit);
        EXPECT_TRUE(ends.responder.open_control(changed).empty()) << at;
        ++forged;
      }
    }
    EXPECT_GE(ends.responder.forged(), forged);
    EXPECT_EQ(ends.responder.opening_generation(), 0U) << "a forged key phase moves nothing";
    EXPECT_EQ(opened(ends.responder, data), payload);
    EXPECT_FALSE(ends.responder.open_control(control).empty());
  }
}

TEST(Protection, ATruncatedOneIsRefused) {
  Ends ends;
  const Content control = control_of(ends.initiator, 1);
  for (std::size_t size = envelope_bytes; size < control.size(); ++size) {
    EXPECT_TRUE(ends.responder.open_control(ConstBytes(control).first(size)).empty()) << size;
  }
  EXPECT_FALSE(ends.responder.open_control(control).empty());
}

TEST(Protection, AReplayedControlDatagramIsRefused) {
  Ends ends;
  std::vector<Content> sent;
  for (int i = 0; i < 100; ++i) {
    sent.push_back(control_of(ends.initiator, 1));
  }
  std::ranges::reverse(sent);
  for (const Content& one : sent) {
    EXPECT_FALSE(ends.responder.open_control(one).empty());
  }
  for (const Content& one : sent) {
    EXPECT_TRUE(ends.responder.open_control(one).empty());
  }
}

TEST(Protection, KeysOfAnotherSecretOrCipherOpenNothing) {
  Protection mine = protection_of(1, Side::initiator);
  Protection other = protection_of(2, Side::responder);
  Protection cipher = protection_of(1, Side::responder, Cipher::chacha20_poly1305);
  for (int i = 0; i < 10; ++i) {
    const Content control = control_of(mine, 1);
    EXPECT_TRUE(other.open_control(control).empty());
    EXPECT_TRUE(cipher.open_control(control).empty());
  }
}

/// As opened(), in two parts; nothing where the header's key is not the current one.
std::optional<Content> opened_in_parts(Protection& end, ConstBytes datagram) {
  const ConstBytes header = datagram.first(data_header_bytes);
  const ConstBytes sealed = datagram.subspan(data_header_bytes);
  Content payload(sealed.size() - tag_bytes);
  if (!end.opens_in_parts(header)) {
    return std::nullopt;
  }
  const std::size_t half = payload.size() / 2;
  end.begin_payload(header);
  end.open_part(sealed.first(half), Bytes(payload).first(half));
  end.open_part(sealed.subspan(half, payload.size() - half), Bytes(payload).subspan(half));
  return end.end_payload(header, sealed.last(tag_bytes)) ? std::optional(payload) : std::nullopt;
}

TEST(Protection, OpensInPartsWhatIsOfTheCurrentKey) {
  Ends ends(AeadLimits{.sealed_max = 8, .forged_max = UINT64_MAX});
  const Content payload = random_content(1408, 1);
  std::vector<Content> sent;
  for (std::uint64_t sequence = 1; sequence <= 6; ++sequence) {
    sent.push_back(data_of(ends.initiator, sequence, payload));
  }
  ASSERT_EQ(ends.initiator.sealing_generation(), 1U);
  EXPECT_EQ(opened_in_parts(ends.responder, sent[0]), payload);
  Content forged = sent[1];
  forged[0] ^= std::byte{0x10};  // a byte that the tag binds, and nobody looks at
  EXPECT_FALSE(opened_in_parts(ends.responder, forged));
  forged = sent[1];
  forged.back() ^= std::byte{1};
  EXPECT_FALSE(opened_in_parts(ends.responder, forged));
  EXPECT_EQ(ends.responder.forged(), 2U);
  EXPECT_FALSE(ends.responder.opens_in_parts(sent[5])) << "of the next key";
  EXPECT_EQ(opened(ends.responder, sent[5]), payload);
  EXPECT_FALSE(ends.responder.opens_in_parts(sent[1])) << "of the key before";
  EXPECT_EQ(opened(ends.responder, sent[1]), payload);
  EXPECT_EQ(opened_in_parts(ends.responder, sent[4]), payload);
  // What opened in parts is of the current key, so below it the key before counts no more.
  EXPECT_EQ(opened(ends.responder, sent[3]), payload);
  EXPECT_EQ(ends.responder.forged(), 2U);
}

// Over many generations, in an order that a bad network makes.
TEST(Protection, KeysChangeWhileDatagramsOvertakeEachOther) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Ends ends(AeadLimits{.sealed_max = 40, .forged_max = UINT64_MAX});
    Prng prng(seed);
    struct Travelling {
      std::uint64_t sent;
      bool is_data;
      Content datagram;
    };
    std::vector<Travelling> under_way;
    std::uint64_t sequence = 1;
    const auto arrive = [&] {
      // Nothing takes as long as a key lasts.
      const bool late = under_way.front().sent + 12 < sequence;
      const std::size_t which = late ? 0 : prng.below(under_way.size());
      const auto [sent, is_data, datagram] = under_way[which];
      under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(which));
      if (is_data) {
        EXPECT_TRUE(opened(ends.responder, datagram));
      } else {
        EXPECT_FALSE(ends.responder.open_control(datagram).empty());
      }
    };
    for (; sequence <= 1000; ++sequence) {
      const bool data = prng.chance(0.9);
      under_way.push_back(
          {sequence, data,
           data ? data_of(ends.initiator, sequence, random_content(10, 1)) : control_of(ends.initiator, 1)});
      if (under_way.size() > 8) {
        arrive();
      }
    }
    while (!under_way.empty()) {
      arrive();
    }
    EXPECT_GE(ends.initiator.sealing_generation(), 40U);
    EXPECT_EQ(ends.responder.opening_generation(), ends.initiator.sealing_generation());
    EXPECT_EQ(ends.responder.forged(), 0U);
  }
}

// RFC 9001 section 6.5: "A recovered packet number that is lower than any packet number from the current key phase uses
// the previous packet protection keys". Whoever has the key before, and sends more under it, is not heard.
TEST(Protection, TheKeyBeforeOpensOnlyWhatIsBelowTheCurrentOne) {
  Protection changing = protection_of(1, Side::initiator, Cipher::aes_128_gcm, AeadLimits{8, UINT64_MAX});
  Protection old = protection_of(1, Side::initiator);
  Protection responder = protection_of(1, Side::responder);
  const Content payload = random_content(10, 1);
  for (std::uint64_t sequence = 1; sequence <= 4; ++sequence) {
    EXPECT_TRUE(opened(responder, data_of(changing, sequence, payload)));
  }
  const Content ten = data_of(changing, 10, payload), twelve = data_of(changing, 12, payload);
  ASSERT_EQ(changing.sealing_generation(), 1U);
  EXPECT_TRUE(opened(responder, twelve));
  EXPECT_TRUE(opened(responder, ten));
  EXPECT_TRUE(opened(responder, data_of(old, 9, payload)));
  for (const std::uint64_t sequence : {11U, 13U}) {
    EXPECT_FALSE(opened(responder, data_of(old, sequence, payload))) << sequence;
  }
}

TEST(Protection, ForgeriesCountForAllKeysTogether) {
  Protection changing = protection_of(1, Side::initiator, Cipher::aes_128_gcm, AeadLimits{8, UINT64_MAX});
  Protection responder = protection_of(1, Side::responder, Cipher::aes_128_gcm, AeadLimits{1000, 6});
  const Content payload = random_content(10, 1);
  std::uint64_t sequence = 0;
  const auto forge = [&](int count) {
    for (int i = 0; i < count; ++i) {
      Content forged = data_of(changing, ++sequence, payload);
      forged.back() ^= std::byte{1};
      EXPECT_FALSE(opened(responder, forged));
    }
  };
  forge(4);
  EXPECT_TRUE(opened(responder, data_of(changing, ++sequence, payload)));
  ASSERT_EQ(responder.opening_generation(), 1U);
  forge(2);
  EXPECT_FALSE(opened(responder, data_of(changing, ++sequence, payload))) << "six forgeries";
}

TEST(Protection, EachDirectionChangesItsKeysByItself) {
  Ends ends(AeadLimits{.sealed_max = 10, .forged_max = UINT64_MAX});
  for (std::uint64_t i = 1; i <= 100; ++i) {
    EXPECT_TRUE(opened(ends.responder, data_of(ends.initiator, i, random_content(10, 1))));
    if (i % 20 == 0) {
      EXPECT_FALSE(ends.initiator.open_control(control_of(ends.responder, 1)).empty());
    }
  }
  EXPECT_GE(ends.initiator.sealing_generation(), 15U);
  EXPECT_LE(ends.responder.sealing_generation(), 1U);
}

}  // namespace
}  // namespace sluice::ftx::test
