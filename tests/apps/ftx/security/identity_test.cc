// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/security/identity.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ui.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "tests/apps/ftx/security/scratch.h"
#include "tests/file_text.h"

namespace sluice::ftx {
namespace {

using test::Scratch;

/// RFC 8410 section 10.3; its public key is that of section 10.1.
constexpr std::string_view rfc_key =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n"
    "-----END PRIVATE KEY-----\n";
/// Of the DER of section 10.1, by `openssl dgst -sha256 -binary | base64`.
constexpr std::string_view rfc_pin = "ftx-key:oekVYFTgT6yJmunydRMs3Ael28TqLCrTof/G4NJTaB8";

TEST(KeyPin, IsTheDigestOfThePublicKeyInfo) {
  const auto identity = Identity::parse(as_bytes(rfc_key));
  ASSERT_TRUE(identity.has_value());
  EXPECT_EQ(identity->pin().text(), rfc_pin);
  EXPECT_EQ(KeyPin::parse(rfc_pin).value(), identity->pin());
}

TEST(KeyPin, HasOneSpelling) {
  const std::string good(rfc_pin);
  ASSERT_TRUE(KeyPin::parse(good).has_value());
  std::string alike = good;  // the same bytes to a decoder that ignores the last two bits
  alike.back() = static_cast<char>(alike.back() + 1);
  for (const std::string& bad :
       {std::string(), std::string("ftx-key:"), good.substr(0, good.size() - 1), good + "=", good + "A", " " + good,
        good.substr(0, 20) + " " + good.substr(21), good.substr(0, 20) + "\n" + good.substr(21),
        good.substr(0, 20) + "=" + good.substr(21), good.substr(0, 20) + "-" + good.substr(21),
        good.substr(0, 20) + std::string(1, '\0') + good.substr(21), "FTX-KEY:" + good.substr(8), alike,
        good.substr(0, good.size() - 1) + "=", good.substr(0, good.size() - 2) + "=="}) {
    const auto pin = KeyPin::parse(bad);
    ASSERT_FALSE(pin.has_value()) << bad;
    EXPECT_EQ(pin.error().code, EINVAL);
    EXPECT_FALSE(pin.error().text.empty());
  }
}

TEST(Identity, EachIsAnother) { EXPECT_NE(Identity::create()->pin(), Identity::create()->pin()); }

TEST(Identity, CertificateIsSignedByTheKeyItNamesAndNeverExpires) {
  const auto identity = Identity::create();
  ASSERT_TRUE(identity.has_value());
  EXPECT_EQ(X509_verify(identity->certificate(), identity->key()), 1);
  EXPECT_EQ(KeyPin::of(identity->certificate()).value(), identity->pin());
  const ASN1_TIME* const end = X509_get0_notAfter(identity->certificate());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(end))), "99991231235959Z");
}

TEST(Identity, IsTheSameAfterStoringAndLoading) {
  const Scratch scratch;
  const std::string path = scratch / "key";
  const auto made = Identity::load_or_create(path);
  ASSERT_TRUE(made.has_value()) << made.error().text;
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600U);
  EXPECT_EQ(Identity::load(path)->pin(), made->pin());
  EXPECT_EQ(Identity::load_or_create(path)->pin(), made->pin());
  EXPECT_EQ(scratch.files(), 1);
}

TEST(Identity, NeverOverwritesAKey) {
  const Scratch scratch;
  const std::string path = scratch.write("key", rfc_key, 0600);
  const Status stored = Identity::create()->store(path);
  ASSERT_FALSE(stored.has_value());
  EXPECT_EQ(stored.error().code, EEXIST);
  EXPECT_EQ(file_text(path), rfc_key);
  EXPECT_EQ(scratch.files(), 1);
  ASSERT_EQ(::symlink("elsewhere", (scratch / "link").c_str()), 0);  // a dangling link is no empty place
  EXPECT_FALSE(Identity::create()->store(scratch / "link").has_value());
  EXPECT_EQ(::access((scratch / "elsewhere").c_str(), F_OK), -1);
  EXPECT_EQ(scratch.files(), 2);
}

TEST(Identity, IsCreatedOnceByManyAtATime) {
  const Scratch scratch;
  std::vector<KeyPin> pins(8);
  std::vector<std::thread> threads;
  for (KeyPin& pin : pins) {
    threads.emplace_back([&pin, path = scratch / "key"] { pin = Identity::load_or_create(path)->pin(); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(std::count(pins.begin(), pins.end(), pins[0]), 8);
  EXPECT_EQ(pins[0], Identity::load(scratch / "key")->pin());
  EXPECT_EQ(scratch.files(), 1);
}

TEST(Identity, IsNotStoredWhereNothingCanBe) {
  const Scratch scratch;
  const Status stored = Identity::create()->store(scratch / "no/such/directory/key");
  ASSERT_FALSE(stored.has_value());
  EXPECT_EQ(stored.error().code, ENOENT);
}

/// A key that group or others can read, or could have written, is no secret.
TEST(Identity, RefusesAKeyFileThatOthersCanTouch) {
  const Scratch scratch;
  for (const mode_t mode : {0640U, 0620U, 0610U, 0604U, 0602U, 0601U, 0644U, 0666U, 0777U}) {
    const std::string path = scratch.write("key", rfc_key, mode);
    const auto identity = Identity::load(path);
    ASSERT_FALSE(identity.has_value()) << std::oct << mode;
    EXPECT_EQ(identity.error().code, EPERM);
    EXPECT_NE(identity.error().text.find(path), std::string::npos);
    EXPECT_FALSE(Identity::load_or_create(path).has_value());  // and no new one takes its place
    EXPECT_EQ(file_text(path), rfc_key);
  }
  for (const mode_t mode : {0600U, 0400U, 0700U}) {
    EXPECT_TRUE(Identity::load(scratch.write("key", rfc_key, mode)).has_value()) << std::oct << mode;
    EXPECT_EQ(::unlink((scratch / "key").c_str()), 0);
  }
}

TEST(Identity, RefusesAnotherUsersKeyFile) {
  const Scratch scratch;
  const std::string path = scratch.write("key", rfc_key, 0600);
  if (::chown(path.c_str(), 12345, 12345) != 0) {
    GTEST_SKIP() << "only root gives a file away";
  }
  const auto identity = Identity::load(path);
  ASSERT_FALSE(identity.has_value());
  EXPECT_EQ(identity.error().code, EPERM);
}

TEST(Identity, RefusesWhatIsNoRegularFile) {
  const Scratch scratch;
  ASSERT_EQ(::mkfifo((scratch / "fifo").c_str(), 0600), 0);  // an open that waits would never end
  ASSERT_EQ(::mkdir((scratch / "directory").c_str(), 0700), 0);
  for (const std::string& path : {scratch / "fifo", scratch / "directory", std::string("/dev/zero")}) {
    const auto identity = Identity::load(path);
    ASSERT_FALSE(identity.has_value()) << path;
    EXPECT_EQ(identity.error().code, EINVAL) << path;
  }
  EXPECT_EQ(Identity::load(scratch / "nothing").error().code, ENOENT);
  const auto long_file = Identity::load(scratch.write("long", std::string((1 << 20) + 1, 'x'), 0600));
  ASSERT_FALSE(long_file.has_value());
  EXPECT_EQ(long_file.error().code, EFBIG);
}

TEST(Identity, ParsesNoPartOfAKey) {
  for (std::size_t size = 0; size + 26 < rfc_key.size(); ++size) {  // from there on only dashes and the end line lack
    const auto identity = Identity::parse(as_bytes(rfc_key.substr(0, size)));
    ASSERT_FALSE(identity.has_value()) << size;
    EXPECT_EQ(identity.error().code, EINVAL);
  }
}

std::string pem_of(EVP_PKEY* key, const char* password) {
  BIO* const bio = BIO_new(BIO_s_mem());
  const auto* const text = reinterpret_cast<const unsigned char*>(password);
  EXPECT_EQ(PEM_write_bio_PrivateKey(bio, key, password == nullptr ? nullptr : EVP_aes_128_cbc(), text,
                                     password == nullptr ? 0 : 6, nullptr, nullptr),
            1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string pem(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  EVP_PKEY_free(key);
  return pem;
}

TEST(Identity, RefusesOtherKindsOfKeysAndPasswords) {
  const auto identity = Identity::create();
  EVP_PKEY_up_ref(identity->key());
  for (const std::string& pem :
       {pem_of(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"), nullptr),
        pem_of(EVP_PKEY_Q_keygen(nullptr, nullptr, "X25519"), nullptr), pem_of(identity->key(), "secret"),
        std::string("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")}) {
    EXPECT_FALSE(Identity::parse(as_bytes(pem)).has_value()) << pem;
  }
}

/// A server that nobody sits at must not wait for a password at a terminal.
TEST(Identity, AsksNobodyForAPassword) {
  static int asked;
  asked = 0;
  UI_METHOD* const terminal = UI_create_method("a terminal");
  UI_method_set_opener(terminal, [](UI*) { return ++asked, 0; });
  const UI_METHOD* const before = UI_get_default_method();
  UI_set_default_method(terminal);
  EXPECT_FALSE(Identity::parse(as_bytes(pem_of(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), "secret"))).has_value());
  EXPECT_EQ(asked, 0);
  UI_set_default_method(before);
  UI_destroy_method(terminal);
}

}  // namespace
}  // namespace sluice::ftx
