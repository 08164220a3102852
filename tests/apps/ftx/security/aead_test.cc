// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/security/aead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "apps/ftx/security/aead_engine.h"
#include "base/prng.h"
#include "tests/apps/ftx/security/hex.h"

namespace sluice::ftx {
namespace {

using test::counting;
using test::from_hex;
using test::to_hex;
using Buffer = std::vector<std::byte>;

constexpr std::array ciphers{Cipher::aes_128_gcm, Cipher::chacha20_poly1305};

Aead make(Cipher cipher, ConstBytes key, ConstBytes iv, Direction direction,
          AeadLibrary library = AeadLibrary::fastest) {
  auto aead = Aead::create(cipher, key, iv, direction, limits_of(cipher), library);
  EXPECT_TRUE(aead.has_value());
  return std::move(*aead);
}

Aead make(Cipher cipher, Direction direction, AeadLibrary library = AeadLibrary::fastest) {
  return make(cipher, counting(key_bytes(cipher)), counting(12, 0x80), direction, library);
}

/// What is asked of an Aead, whosever code it is.
class AeadByLibrary : public testing::TestWithParam<AeadLibrary> {};
INSTANTIATE_TEST_SUITE_P(, AeadByLibrary, testing::Values(AeadLibrary::fastest, AeadLibrary::openssl),
                         [](const auto& library) {
                           return library.param == AeadLibrary::openssl ? "openssl" : "fastest";
                         });

Buffer sealed_by(Aead& aead, std::uint64_t number, ConstBytes associated, ConstBytes plain) {
  Buffer sealed(plain.size() + aead_tag_bytes);
  EXPECT_TRUE(aead.seal({7, number, associated}, plain, sealed));
  return sealed;
}

struct AeadVector {
  Cipher cipher;
  std::string key, iv;
  std::uint32_t space;
  std::uint64_t number;
  std::string associated, plain, sealed;
};

const std::vector<AeadVector>& vectors() {
  static const std::string sunscreen(
      "4c616469657320616e642047656e746c656d656e206f662074686520636c617373206f66202739393a204966204920636f756c64206f"
      "6666657220796f75206f6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73637265656e20776f756c6420"
      "62652069742e");
  static const std::vector<AeadVector> list{
      // McGrew, Viega: The Galois/Counter Mode of Operation (GCM), appendix B, test cases 1 to 4.
      {Cipher::aes_128_gcm, std::string(32, '0'), std::string(24, '0'), 0, 0, "", "",
       "58e2fccefa7e3061367f1d57a4e7455a"},
      {Cipher::aes_128_gcm, std::string(32, '0'), std::string(24, '0'), 0, 0, "", std::string(32, '0'),
       "0388dace60b6a392f328c2b971b2fe78ab6e47d42cec13bdf53a67b21257bddf"},
      {Cipher::aes_128_gcm, "feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888", 0, 0, "",
       "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0d"
       "e657ba637b391aafd255",
       "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0a"
       "ac973d58e091473f59854d5c2af327cd64a62cf35abd2ba6fab4"},
      // The same key; its IV made of our space and number.
      {Cipher::aes_128_gcm, "feffe9928665731c6d6a8f9467308308", std::string(24, '0'), 0xcafebabe, 0xfacedbaddecaf888,
       "feedfacedeadbeeffeedfacedeadbeefabaddad2",
       "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0d"
       "e657ba637b39",
       "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0a"
       "ac973d58e0915bc94fbc3221a5db94fae95ae7121a47"},
      // RFC 8439 section 2.8.2.
      {Cipher::chacha20_poly1305, "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
       "070000004041424344454647", 0, 0, "50515253c0c1c2c3c4c5c6c7", sunscreen,
       "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b1a71de0a9e06"
       "0b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc3ff4def08e4b7a9de576d265"
       "86cec64b61161ae10b594f09e26a7e902ecbd0600691"},
      {Cipher::chacha20_poly1305, "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
       "f0000000000000000000000f", 0xf7000000, 0x4041424344454648, "50515253c0c1c2c3c4c5c6c7", sunscreen,
       "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b1a71de0a9e06"
       "0b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc3ff4def08e4b7a9de576d265"
       "86cec64b61161ae10b594f09e26a7e902ecbd0600691"},
  };
  return list;
}

TEST_P(AeadByLibrary, PublishedVectors) {
  for (const AeadVector& vector : vectors()) {
    SCOPED_TRACE(vector.sealed);
    Aead sealer = make(vector.cipher, from_hex(vector.key), from_hex(vector.iv), Direction::seal, GetParam());
    Aead opener = make(vector.cipher, from_hex(vector.key), from_hex(vector.iv), Direction::open, GetParam());
    const Buffer plain = from_hex(vector.plain);
    const Buffer associated = from_hex(vector.associated);
    Buffer sealed(plain.size() + aead_tag_bytes);
    Buffer opened(plain.size());
    for (int again = 0; again < 2; ++again) {  // one context, many datagrams
      ASSERT_TRUE(sealer.seal({vector.space, vector.number, associated}, plain, sealed));
      EXPECT_EQ(to_hex(sealed), vector.sealed);
      ASSERT_TRUE(opener.open({vector.space, vector.number, associated}, sealed, opened));
      EXPECT_EQ(to_hex(opened), vector.plain);
      Buffer other(48);
      ASSERT_TRUE(sealer.seal({1, 2, counting(3)}, counting(32), other));
      EXPECT_FALSE(opener.open({1, 3, counting(3)}, other, Bytes(other).first(32)));
    }
  }
}

TEST_P(AeadByLibrary, RunsInPlaceAndWholeAreTheSame) {
  for (const Cipher cipher : ciphers) {
    Aead sealer = make(cipher, Direction::seal, GetParam());
    Aead opener = make(cipher, Direction::open, GetParam());
    for (const unsigned size : {0U, 1U, 15U, 16U, 17U, 63U, 64U, 65U, 255U, 256U, 257U, 1408U, 9000U, 65000U}) {
      const Buffer plain = counting(size, 3);
      const Buffer associated = counting(20, 9);
      const Buffer whole = sealed_by(sealer, size, associated, plain);

      Buffer in_place = plain;
      in_place.resize(size + aead_tag_bytes);
      ASSERT_TRUE(sealer.seal({7, size, associated}, Bytes(in_place).first(size), in_place));
      EXPECT_EQ(in_place, whole) << size;

      for (const unsigned cut : {0U, size / 7, size / 2, size}) {
        const std::array<ConstBytes, 4> runs{ConstBytes(plain).first(cut / 2),
                                             ConstBytes(plain).subspan(cut / 2, cut - cut / 2), ConstBytes{},
                                             ConstBytes(plain).subspan(cut)};
        Buffer sealed(size + aead_tag_bytes);
        ASSERT_TRUE(sealer.seal({7, size, associated}, runs, sealed));
        EXPECT_EQ(sealed, whole) << size << ", " << cut;
      }
      ASSERT_TRUE(opener.open({7, size, associated}, in_place, Bytes(in_place).first(size)));
      EXPECT_EQ(Buffer(in_place.begin(), in_place.end() - aead_tag_bytes), plain) << size;
    }
  }
}

/// Opens in parts that end at `cuts`, to another place or where it lies.
bool open_in_parts(Aead& opener, std::uint64_t number, ConstBytes associated, Bytes sealed,
                   std::span<const std::size_t> cuts, Bytes plain) {
  opener.begin_open({7, number, associated});
  std::size_t at = 0;
  for (const std::size_t cut : cuts) {
    opener.open_part(sealed.subspan(at, cut - at), plain.subspan(at, cut - at));
    at = cut;
  }
  return opener.end_open(sealed.subspan(at));
}

TEST_P(AeadByLibrary, OpensInPartsAsInOnePiece) {
  Prng prng(5);
  for (const Cipher cipher : ciphers) {
    Aead sealer = make(cipher, Direction::seal, GetParam());
    Aead opener = make(cipher, Direction::open, GetParam());
    std::uint64_t number = 0;
    for (const unsigned size : {0U, 1U, 15U, 16U, 17U, 64U, 257U, 1408U, 2048U, 9000U}) {
      for (int round = 0; round < 20; ++round) {
        SCOPED_TRACE(testing::Message() << name(cipher) << " " << size << " " << round);
        const Buffer plain = counting(size, 3);
        const Buffer associated = counting(56, 9);
        Buffer sealed = sealed_by(sealer, ++number, associated, plain);
        std::vector<std::size_t> cuts(prng.below(5));
        std::ranges::generate(cuts, [&] { return prng.below(size + 1); });
        std::ranges::sort(cuts);
        cuts.push_back(size);
        const bool in_place = prng.chance(0.5);
        Buffer elsewhere(size);
        const Bytes to = in_place ? Bytes(sealed).first(size) : Bytes(elsewhere);
        const Buffer good = sealed;
        // What was begun and not ended is forgotten.
        opener.begin_open({7, number + 1, associated});
        opener.open_part(ConstBytes(good).first(size / 2), Bytes(elsewhere).first(size / 2));
        ASSERT_TRUE(open_in_parts(opener, number, associated, sealed, cuts, to));
        EXPECT_EQ(Buffer(to.begin(), to.end()), plain);

        const std::uint64_t forged = opener.forged();
        sealed = good;
        sealed[prng.below(sealed.size())] ^= std::byte{4};
        EXPECT_FALSE(open_in_parts(opener, number, associated, sealed, cuts, to));
        EXPECT_EQ(opener.forged(), forged + 1);
      }
    }
  }
}

/// A datagram changed anywhere is refused: each bit of what is sealed, of its tag, of the header, of number and space.
TEST_P(AeadByLibrary, RefusesEveryChange) {
  for (const Cipher cipher : ciphers) {
    Aead sealer = make(cipher, Direction::seal, GetParam());
    Aead opener = make(cipher, Direction::open, GetParam());
    const Buffer header = counting(24);
    const Buffer plain = counting(50);
    const Buffer sealed = sealed_by(sealer, 5, header, plain);
    Buffer opened(plain.size());
    std::uint64_t refused = 0;
    const auto refuses = [&](std::uint32_t space, std::uint64_t number, ConstBytes associated, ConstBytes bytes) {
      Buffer to(bytes.size() < aead_tag_bytes ? 0 : bytes.size() - aead_tag_bytes);
      ++refused;
      return !opener.open({space, number, associated}, bytes, to);
    };
    for (std::size_t bit = 0; bit < sealed.size() * 8; ++bit) {
      Buffer changed = sealed;
      changed[bit / 8] ^= std::byte{1} << (bit % 8);
      EXPECT_TRUE(refuses(7, 5, header, changed)) << bit;
    }
    for (std::size_t bit = 0; bit < header.size() * 8; ++bit) {
      Buffer changed = header;
      changed[bit / 8] ^= std::byte{1} << (bit % 8);
      EXPECT_TRUE(refuses(7, 5, changed, sealed)) << bit;
    }
    for (int bit = 0; bit < 64; ++bit) {
      EXPECT_TRUE(refuses(7, 5 ^ (std::uint64_t{1} << bit), header, sealed)) << bit;
    }
    for (int bit = 0; bit < 32; ++bit) {
      EXPECT_TRUE(refuses(7 ^ (std::uint32_t{1} << bit), 5, header, sealed)) << bit;
    }
    for (std::size_t size = 0; size < sealed.size(); ++size) {
      EXPECT_TRUE(refuses(7, 5, header, ConstBytes(sealed).first(size))) << size;
      EXPECT_TRUE(size == 0 || refuses(7, 5, header, ConstBytes(sealed).subspan(size))) << size;
    }
    EXPECT_TRUE(refuses(7, 5, ConstBytes(header).first(23), sealed));
    EXPECT_TRUE(refuses(7, 5, {}, sealed));
    EXPECT_EQ(opener.forged(), refused - 0U);
    ASSERT_TRUE(opener.open({7, 5, header}, sealed, opened));
    EXPECT_EQ(opened, plain);
    EXPECT_EQ(opener.forged(), refused);
  }
}

TEST_P(AeadByLibrary, AnotherKeyOrIvOpensNothing) {
  for (const Cipher cipher : ciphers) {
    Aead sealer = make(cipher, Direction::seal, GetParam());
    const Buffer sealed = sealed_by(sealer, 1, {}, counting(40));
    Buffer opened(40);
    Aead other_key = make(cipher, counting(key_bytes(cipher), 1), counting(12, 0x80), Direction::open);
    Aead other_iv = make(cipher, counting(key_bytes(cipher)), counting(12, 0x81), Direction::open);
    EXPECT_FALSE(other_key.open({7, 1, {}}, sealed, opened));
    EXPECT_FALSE(other_iv.open({7, 1, {}}, sealed, opened));
  }
}

/// RFC 9001 section 6.6: "For AEAD_AES_128_GCM and AEAD_AES_256_GCM, the confidentiality limit is 2^23 encrypted
/// packets"
static_assert(limits_of(Cipher::aes_128_gcm).sealed_max == 8'388'608);
/// "the integrity limit is 2^52 invalid packets"
static_assert(limits_of(Cipher::aes_128_gcm).forged_max == 4'503'599'627'370'496);
/// "For AEAD_CHACHA20_POLY1305, the integrity limit is 2^36 invalid packets"
static_assert(limits_of(Cipher::chacha20_poly1305).forged_max == 68'719'476'736);

/// RFC 9001 section 6.6: "If the total number of encrypted packets with the same key exceeds the confidentiality limit
/// for the selected AEAD, the endpoint MUST stop using those keys."
TEST(Aead, SealsNoMoreThanItsLimit) {
  for (const Cipher cipher : ciphers) {
    auto sealer = Aead::create(cipher, counting(key_bytes(cipher)), counting(12), Direction::seal,
                               {.sealed_max = 8, .forged_max = 9});
    ASSERT_TRUE(sealer.has_value());
    Buffer sealed(20);
    for (std::uint64_t number = 0; number < 8; ++number) {
      EXPECT_EQ(sealer->needs_new_key(), number >= 4) << number;
      EXPECT_FALSE(sealer->exhausted());
      EXPECT_TRUE(sealer->seal({0, number, {}}, counting(4), sealed));
    }
    EXPECT_TRUE(sealer->exhausted());
    sealed.assign(20, std::byte{0});
    EXPECT_FALSE(sealer->seal({0, 8, {}}, counting(4), sealed));
    EXPECT_EQ(sealed, Buffer(20, std::byte{0}));
    EXPECT_EQ(sealer->sealed(), 8U);
  }
}

TEST(Aead, OpensNothingAfterTooManyForgeries) {
  for (const Cipher cipher : ciphers) {
    Aead sealer = make(cipher, Direction::seal);
    const Buffer good = sealed_by(sealer, 0, {}, counting(4));
    auto opener = Aead::create(cipher, counting(key_bytes(cipher)), counting(12, 0x80), Direction::open,
                               {.sealed_max = 1, .forged_max = 5});
    ASSERT_TRUE(opener.has_value());
    opener->inherit_forged(2);
    Buffer opened(4);
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(opener->open({7, 0, {}}, good, opened));  // what holds is not counted
      EXPECT_FALSE(opener->open({7, 1, {}}, good, opened));
    }
    EXPECT_EQ(opener->forged(), 5U);
    EXPECT_TRUE(opener->exhausted());
    EXPECT_FALSE(opener->open({7, 0, {}}, good, opened));
    Buffer in_parts = counting(4, 0x55);
    opener->begin_open({7, 0, {}});
    opener->open_part(ConstBytes(good).first(4), in_parts);
    EXPECT_EQ(in_parts, Buffer(4)) << "nothing of it is shown";
    EXPECT_FALSE(opener->end_open(ConstBytes(good).subspan(4)));
  }
}

TEST(Aead, ForgeriesInPartsCountUntilItOpensNothing) {
  for (const Cipher cipher : ciphers) {
    Aead sealer = make(cipher, Direction::seal);
    Buffer good = sealed_by(sealer, 0, {}, counting(4));
    auto opener = Aead::create(cipher, counting(key_bytes(cipher)), counting(12, 0x80), Direction::open,
                               {.sealed_max = 1, .forged_max = 2});
    ASSERT_TRUE(opener.has_value());
    Buffer opened(4);
    const std::array<std::size_t, 1> whole{4};
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(open_in_parts(*opener, 0, {}, good, whole, opened));
      EXPECT_FALSE(open_in_parts(*opener, 1, {}, good, whole, opened));
    }
    EXPECT_TRUE(opener->exhausted());
    EXPECT_FALSE(open_in_parts(*opener, 0, {}, good, whole, opened));
  }
}

/// Whatever lengths, runs and places: what one library seals is what the other seals, and opens.
TEST(Aead, LibrariesAgree) {
  const std::uint64_t seed = 20261123;
  SCOPED_TRACE(seed);
  Prng prng(seed);
  for (int round = 0; round < 2000; ++round) {
    const Cipher cipher = ciphers[prng.below(2)];
    const Buffer key = counting(key_bytes(cipher), static_cast<unsigned>(prng.below(256)));
    const Buffer iv = counting(12, static_cast<unsigned>(prng.below(256)));
    const Buffer plain = counting(static_cast<unsigned>(prng.below(prng.below(2) == 0 ? 300 : 10000)), 7);
    const Buffer associated = counting(static_cast<unsigned>(prng.below(70)), 1);
    const std::size_t cut = prng.below(plain.size() + 1);
    const std::array runs{ConstBytes(plain).first(cut), ConstBytes(plain).subspan(cut)};
    const std::uint64_t number = prng();
    Buffer mine(plain.size() + aead_tag_bytes);
    Buffer theirs(mine.size());
    ASSERT_TRUE(make(cipher, key, iv, Direction::seal).seal({3, number, associated}, runs, mine));
    ASSERT_TRUE(
        make(cipher, key, iv, Direction::seal, AeadLibrary::openssl).seal({3, number, associated}, plain, theirs));
    ASSERT_EQ(mine, theirs) << round << ": " << plain.size() << " bytes, cut at " << cut;
    ASSERT_TRUE(make(cipher, key, iv, Direction::open)
                    .open({3, number, associated}, theirs, Bytes(theirs).first(plain.size())));
    ASSERT_EQ(Buffer(theirs.begin(), theirs.end() - aead_tag_bytes), plain) << round;
    mine[prng.below(mine.size())] ^= std::byte{1};
    ASSERT_FALSE(
        make(cipher, key, iv, Direction::open).open({3, number, associated}, mine, Bytes(mine).first(plain.size())));
  }
}

#if defined(SLUICE_IPSEC_MB) && defined(__x86_64__)
TEST(IpsecMb, IsThereForAesWhereTheProcessorHasTheInstructions) {
  const bool able = __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
  EXPECT_EQ(ipsec_mb_engine(Cipher::aes_128_gcm, counting(16)) != nullptr, able);
  EXPECT_EQ(ipsec_mb_engine(Cipher::chacha20_poly1305, counting(32)), nullptr);
}
#endif

TEST(AeadDeathTest, RoomForTheTagIsTheCallersDuty) {
  Aead sealer = make(Cipher::aes_128_gcm, Direction::seal);
  Buffer sealed(19);
  EXPECT_DEATH(static_cast<void>(sealer.seal({0, 0, {}}, counting(4), sealed)), "contract broken");
  EXPECT_DEATH(static_cast<void>(sealer.open({0, 0, {}}, sealed, Bytes(sealed).first(3))), "contract broken");
}

/// A clock by which each call takes as long as the test says, in the first turns that and `late` more for AES.
/// choose_cipher() asks it once at the start, then before and after each cipher, then once a turn.
class Clock {
 public:
  Clock(Duration aes, Duration chacha, Duration late = {}, int late_turns = 0)
      : steps_{aes, chacha}, late_(late), late_turns_(late_turns) {}

  TimePoint operator()() {
    const int in_turn = calls_++ == 0 ? 4 : (calls_ - 2) % 5;
    if (in_turn == 1 || in_turn == 3) {
      now_ += steps_[static_cast<std::size_t>(in_turn / 2)];
      now_ += in_turn == 1 && late_turns_-- > 0 ? late_ : Duration{};
    }
    return now_;
  }
  int calls() const { return calls_; }

 private:
  std::array<Duration, 2> steps_;
  Duration late_;
  int late_turns_;
  TimePoint now_{};
  int calls_ = 0;
};

TEST(ChooseCipher, TakesTheFaster) {
  using std::chrono::microseconds;
  Clock aes(microseconds(10), microseconds(30));
  EXPECT_EQ(choose_cipher(std::ref(aes)), Cipher::aes_128_gcm);
  Clock chacha(microseconds(90), microseconds(30));
  EXPECT_EQ(choose_cipher(std::ref(chacha)), Cipher::chacha20_poly1305);
  Clock still(microseconds(0), microseconds(0));
  EXPECT_EQ(choose_cipher(std::ref(still)), Cipher::aes_128_gcm);
  Clock hardly(microseconds(36), microseconds(30));
  EXPECT_EQ(choose_cipher(std::ref(hardly)), Cipher::aes_128_gcm);
}

// The first seals load pages and wake the vectors, and a virtual machine stops for milliseconds: a sender that believed
// its first turn took ChaCha20 in two of five transfers on a busy machine, at twice the time.
TEST(ChooseCipher, BelievesNoTurnThatWasLate) {
  using std::chrono::microseconds;
  for (const int turns : {1, 2, 3}) {
    Clock late(microseconds(10), microseconds(30), microseconds(3000), turns);
    EXPECT_EQ(choose_cipher(std::ref(late)), Cipher::aes_128_gcm) << turns;
  }
}

TEST(ChooseCipher, EndsAfterTwoMillisecondsAndFourTurnsAndWithAnyClock) {
  using std::chrono::microseconds;
  Clock slow(microseconds(1500), microseconds(1500));
  static_cast<void>(choose_cipher(std::ref(slow)));
  EXPECT_EQ(slow.calls(), 1 + 4 * 5);
  Clock fast(microseconds(200), microseconds(201));
  static_cast<void>(choose_cipher(std::ref(fast)));
  EXPECT_EQ(fast.calls(), 1 + 5 * 5);
  Clock still(microseconds(0), microseconds(0));
  static_cast<void>(choose_cipher(std::ref(still)));
  EXPECT_EQ(still.calls(), 1 + 16 * 5);
}

}  // namespace
}  // namespace sluice::ftx
