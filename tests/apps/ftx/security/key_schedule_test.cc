// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/security/key_schedule.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/apps/ftx/security/hex.h"

namespace sluice::ftx {
namespace {

using test::counting;
using test::from_hex;
using test::to_hex;

/// RFC 5869 appendix A.1 to A.3.
TEST(Hkdf, PublishedVectors) {
  struct Vector {
    std::string input, salt, info, pseudorandom_key, output;
  };
  const std::vector<Vector> vectors{
      {std::string("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"), "000102030405060708090a0b0c",
       "f0f1f2f3f4f5f6f7f8f9", "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5",
       "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"},
      {to_hex(counting(80)), to_hex(counting(80, 0x60)), to_hex(counting(80, 0xb0)),
       "06a6b88c5853361a06104c9ceb35b45cef760014904671014a193f40c15fc244",
       "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09da3275600c2f09"
       "b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87"},
      {std::string("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"), "", "",
       "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04",
       "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"},
  };
  for (const Vector& vector : vectors) {
    const auto key = hkdf_extract(from_hex(vector.salt), from_hex(vector.input));
    ASSERT_TRUE(key.has_value());
    EXPECT_EQ(to_hex(key->bytes()), vector.pseudorandom_key);
    std::vector<std::byte> output(vector.output.size() / 2);
    ASSERT_TRUE(hkdf_expand(key->bytes(), from_hex(vector.info), output).has_value());
    EXPECT_EQ(to_hex(output), vector.output);
  }
}

/// Computed apart from this program, with `openssl dgst -mac HMAC` over the bytes of HkdfLabel and 0x01.
struct Generation {
  std::string traffic_secret, aes_key, aes_iv, chacha_key, chacha_iv;
};

const std::array<std::array<Generation, 3>, 2> expected{{
    {{{"b4ac9333e033d55f21c07193b51584b04c4a88f5af6c810b2778142f6b96b851", "9569b0cb1b35ed8d9a980354629c6bfb",
       "4e1519be46864d43c6388ede", "6729dfcbc258b35ab117f5eddb6d595bc9967f8fbde7e18ab708d31ac4a8de2c",
       "01a4f798640c9165b98573bc"},
      {"e45e37fce30ea804e95b48d2bf9751ee13eb7c5e7fd967aaf1f454b63d3459f4", "0a4262cb36dc7680a552b86a7cba71af",
       "6bcd3a267479f58fd52e296d", "0cb5134581bd6ba0eb0e8c3ed7bd3164fb36d7dbf9ce2eafeb3a92d1ee8ca5b2",
       "736ed61a7840d5caf4268402"},
      {"4cb2a85c64d90a623fbc07a171d6fed6c702de39ce1b335060fa4cf20bac4cdd", "b19655d717dd411f3b56ea9d0b5b0264",
       "346f619fb63426ec206618f8", "b79ef732bb293b88395de93374e7b0d0b3078b2a1270179b9a0c6e5a8d545829",
       "92f5656136e4aa4e84e9c82c"}}},
    {{{"7e341ac12bbc207590658bcbb26a63430e5ba0a9ee86b241451979e8b3de30c9", "67e9249545a86c05e15e8e4e1552aae3",
       "d2c33501fceb410a6d79b95a", "8ea8278b39b6b4ad3f760cb3de628d2d4d5f41952de670df80c31874b4fba723",
       "8ad5c0ba41bbcf2d5e08546b"},
      {"2be79a760b1eaf00a57ca3c9de33e5ef3034ebbc89910a3d66b785bfa4fe3de2", "7c4f394199073266b14bcae7759e21f1",
       "822ab715fa68a3d8678d886e", "1b384d54599f8d22ed092583969d95d49fed263aef7fd79c87432710f03fa0f9",
       "b80b27f70d07bc296ab469b2"},
      {"d5e53a82454e2658dbc415e68e479a5a6f027cf68fd641c0eaf350316fbbc41f", "71e0c79c2dffa71db04e4282bb2fef87",
       "10996e07a17e94bed66c3f16", "b562a3db766975f66534aee3705b86bc05ebd7554f5bce8ae34fa9413f870e1a",
       "dd0d27f32883747dbfb97289"}}},
}};

KeySchedule schedule() { return KeySchedule(Secret(counting(session_secret_bytes))); }

TEST(KeySchedule, TrafficKeysOfThreeGenerations) {
  for (const Way way : {Way::to_responder, Way::to_initiator}) {
    for (const Cipher cipher : {Cipher::aes_128_gcm, Cipher::chacha20_poly1305}) {
      auto keys = schedule().keys(way, cipher);
      for (std::uint32_t generation = 0; generation < 3; ++generation) {
        ASSERT_TRUE(keys.has_value());
        const Generation& want = expected[static_cast<std::size_t>(way)][generation];
        const bool aes = cipher == Cipher::aes_128_gcm;
        EXPECT_EQ(keys->generation, generation);
        EXPECT_EQ(to_hex(keys->traffic_secret.bytes()), want.traffic_secret);
        EXPECT_EQ(to_hex(keys->key.bytes()), aes ? want.aes_key : want.chacha_key);
        EXPECT_EQ(to_hex(keys->iv.bytes()), aes ? want.aes_iv : want.chacha_iv);
        keys = keys->next();
      }
    }
  }
}

TEST(KeySchedule, IdentifierAndConfirmations) {
  EXPECT_EQ(schedule().identifier().value(), 0xda3a4ddbe7a33737U);
  EXPECT_EQ(to_hex(schedule().confirmation(Way::to_responder, as_bytes("abc"))->bytes()),
            "89b1add87934c38ca3d85cff903305037e98905b152865d7ede58c2217491147");
  EXPECT_EQ(to_hex(schedule().confirmation(Way::to_initiator, as_bytes("abc"))->bytes()),
            "9bae2abf5c5629be1385782f81753d7761c48d76de8d3997883a860c5d95f5b0");
}

/// A datagram sent back to its sender, or kept until the next generation, is refused.
TEST(KeySchedule, EachDirectionAndGenerationHasItsOwnKey) {
  for (const Cipher cipher : {Cipher::aes_128_gcm, Cipher::chacha20_poly1305}) {
    const auto up = schedule().keys(Way::to_responder, cipher);
    const auto down = schedule().keys(Way::to_initiator, cipher);
    auto sealer = up->aead(Direction::seal);
    std::vector<std::byte> sealed(20);
    std::vector<std::byte> opened(4);
    ASSERT_TRUE(sealer->seal({0, 1, {}}, counting(4), sealed));
    EXPECT_FALSE(down->aead(Direction::open)->open({0, 1, {}}, sealed, opened));
    EXPECT_FALSE(up->next()->aead(Direction::open)->open({0, 1, {}}, sealed, opened));
    EXPECT_TRUE(up->aead(Direction::open)->open({0, 1, {}}, sealed, opened));
    EXPECT_EQ(opened, counting(4));
  }
}

TEST(KeyScheduleDeathTest, TheSessionSecretIsWhole) {
  EXPECT_DEATH(KeySchedule(Secret(counting(31))), "contract broken");
}

}  // namespace
}  // namespace sluice::ftx
