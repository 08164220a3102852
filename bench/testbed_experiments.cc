// SPDX-License-Identifier: Apache-2.0

// Document 003 (The gigabit testbed initiative, final report, CNRI 1996): what checksums, data movements, alignment,
// buffer sizes and conversions cost.
//
//   checksum, checksum_gain   UDP with its checksum and without: ip, udp and timod over a wire in memory of 64 KiB and,
//                             `veth_*`, over `packet`; CPU time of both ends, layered and fused
//   movement, movement_gain   64 KiB and more from where they arrived to the user: `one` pass that sums and copies;
//                             `two` copies, by way of a buffer of the system's, and a sum; `three` copies and a sum
//   alignment                 a pass (`copy`, `sum_copy`) from and
//                             to addresses that are `offset` bytes past a page: how much faster on a page
//   buffer, buffer_ratio      the wire in messages of so many bytes: bytes a second, and as a multiple of the largest's
//   error_free, ..._ratio     XTP against TCP where nothing is lost: 4 MiB from user memory to user memory, in packets
//   of
//                             64 KiB, by the CPU time of both ends; xtp and tcp are our own, over a wire in memory,
//                             kernel_tcp is the kernel's over loopback
//   bit_errors*               XTP against TCP over a link with bit errors: bench/testbed_bit_errors.cc
//   xdr, cray                 conversion of an element a call, against the kernel: XDR of float; Cray floating point of
//                             64 bits to IEEE of 32
//   cipher                    what one pass gains over a pass each, for sum and byte order, and with ChaCha20 or
//                             AES-128-CTR beside them; one pass is tile by tile, so that the cipher's bytes are in
//                             cache

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <rpc/xdr.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/experiment.h"
#include "bench/transfers.h"
#include "bench/ways.h"
#include "ilp/cray.h"
#include "ilp/cray_scalar.h"
#include "ilp/kernels.h"

namespace sluice::bench {
namespace {

constexpr std::size_t KiB = 1024;
constexpr std::size_t MiB = 1024 * KiB;
constexpr std::size_t page = 4096;

// ---- The checksum ----

/// An arm whose time is that of both ends.
Arm both_ends(const std::string& name, Way& way, ProcessingMode mode, std::size_t size) {
  return {name, [&way, mode, size] {
            way.set_mode(mode);
            return way.seconds(true, size) + way.seconds(false, size);
          }};
}

struct Udp {
  TliWay summed;
  TliWay unsummed;

  Udp(const std::array<std::string, 4>& ends, std::size_t largest)
      : summed(ends[0], ends[1], largest, "checksum = true"), unsummed(ends[2], ends[3], largest, "checksum = false") {}
};

void add_checksum(const std::string& name, Udp& udp, const std::vector<std::size_t>& sizes) {
  const Figure speed(name, "Mbit/s");
  const Figure gain(name + "_gain", "ratio");
  for (const std::size_t size : sizes) {
    std::vector<Arm> arms;
    for (const ProcessingMode mode : {ProcessingMode::layered, ProcessingMode::fused}) {
      arms.push_back(both_ends("with_" + std::string(name_of(mode)), udp.summed, mode, size));
      arms.push_back(both_ends("without_" + std::string(name_of(mode)), udp.unsummed, mode, size));
    }
    const Rounds rounds(std::move(arms));
    ASSERT_TRUE(udp.summed.whole() && udp.unsummed.whole()) << "messages were lost";
    for (const std::string& arm : rounds.arms()) {
      speed.add(arm, size, rounds.megabits_per_second(arm, size));
    }
    for (const std::string path : {"layered", "fused"}) {
      gain.add(path, size, rounds.ratio("with_" + path, "without_" + path));
    }
  }
}

TEST(testbed, checksum) {
  Udp udp({wire_end("sum", 'a', 65535), wire_end("sum", 'b', 65535), wire_end("none", 'a', 65535),
           wire_end("none", 'b', 65535)},
          65504);
  add_checksum("checksum", udp, full_or_tiny<std::size_t>({1400, 4096, 8192, 16384, 32768, 65504}, {1400, 65504}));
}

// ---- Data movements ----

TEST(testbed, movement) {
  const Figure speed("movement", "GB/s");
  const Figure gain("movement_gain", "ratio");
  for (const std::size_t size : full_or_tiny<std::size_t>({64 * KiB, 1 * MiB, 16 * MiB, 64 * MiB}, {64 * KiB})) {
    const Arena memory(4 * size);
    const auto place = [&](std::size_t at) { return Bytes(memory.start() + at * size, size); };
    const auto several = [&](std::size_t copies) {
      for (std::size_t at = 0; at + 1 < copies; ++at) {
        ilp::copy(place(at), place(at + 1));
      }
      keep(ilp::sum(place(copies - 1)));
      ilp::copy(place(copies - 1), place(3));
    };
    const Rounds rounds({timed("one", [&] { keep(ilp::sum_copy(place(0), place(3))); }),
                         timed("two", [&] { several(2); }), timed("three", [&] { several(3); })});
    for (const std::string& arm : rounds.arms()) {
      speed.add(arm, size, rounds.gigabytes_per_second(arm, size));
    }
    gain.add("one/two", size, rounds.ratio("one", "two"));
    gain.add("one/three", size, rounds.ratio("one", "three"));
  }
}

// ---- Alignment and buffer sizes ----

TEST(testbed, alignment) {
  const Figure figure("alignment", "ratio");
  const std::vector<std::size_t> offsets = full_or_tiny<std::size_t>({1, 4, 8, 16, 32, 64, 2048}, {1});
  for (const std::size_t size : full_or_tiny<std::size_t>({4 * KiB, 64 * KiB - page, 16 * MiB}, {4 * KiB})) {
    const Arena memory(2 * (size + page));
    std::byte* const target = memory.start() + size + page;
    std::vector<Arm> arms;
    for (std::size_t offset : std::vector<std::size_t>{0, 1, 4, 8, 16, 32, 64, 2048}) {
      if (offset != 0 && std::ranges::find(offsets, offset) == offsets.end()) {
        continue;
      }
      const ConstBytes from(memory.start() + offset, size);
      const Bytes to(target + offset, size);
      const std::string at = " offset=" + std::to_string(offset);
      arms.push_back(timed("copy" + at, [=] {
        std::memcpy(to.data(), from.data(), from.size());
        keep(to.data());
      }));
      arms.push_back(timed("sum_copy" + at, [=] { keep(ilp::sum_copy(from, to)); }));
    }
    const Rounds rounds(std::move(arms));
    for (const std::size_t offset : offsets) {
      const std::string at = " offset=" + std::to_string(offset);
      for (const std::string arm : {"copy", "sum_copy"}) {
        figure.add(arm + at, size, rounds.ratio(arm + " offset=0", arm + at));
      }
    }
  }
}

TEST(testbed, buffer) {
  const Figure speed("buffer", "GB/s");
  const Figure ratio("buffer_ratio", "ratio");
  constexpr std::size_t largest = 65504;
  TliWay way(wire_end("buffer", 'a', 65535), wire_end("buffer", 'b', 65535), largest);
  const std::vector<std::size_t> sizes =
      full_or_tiny<std::size_t>({512, 1024, 2048, 4096, 8192, 16384, 32768, 49152, largest}, {1024, largest});
  std::vector<Arm> arms;
  const auto key = [](const std::string& path, std::size_t size) { return path + ' ' + std::to_string(size); };
  for (const ProcessingMode mode : {ProcessingMode::layered, ProcessingMode::fused}) {
    for (const std::size_t size : sizes) {
      arms.push_back(both_ends(key(std::string(name_of(mode)), size), way, mode, size));
    }
  }
  const Rounds rounds(std::move(arms));
  ASSERT_TRUE(way.whole());
  for (const std::string path : {"layered", "fused"}) {
    for (const std::size_t size : sizes) {
      speed.add(path, size, rounds.gigabytes_per_second(key(path, size), size));
      const double share = static_cast<double>(size) / largest;
      ratio.add(path, size, rounds.ratio(key(path, size), key(path, largest)).times(share));
    }
  }
}

// ---- Transports ----

TEST(testbed, error_free) {
  const Figure speed("error_free", "Mbit/s");
  const Figure ratio("error_free_ratio", "ratio");
  const auto wire = [](const std::string& name) {
    return Drivers{wire_end(name, 'a', 65535), wire_end(name, 'b', 65535)};
  };
  const std::string settings = "packet_bytes = 65000, checksum = false";
  ConnectionTransfer xtp(wire("xtp"), {.name = "xtp", .transport = "udp", .module = "xtp", .settings = settings});
  ConnectionTransfer tcp(wire("tcp"));
  const KernelTransfer::Place here{.address = INADDR_LOOPBACK};
  KernelTransfer kernel_tcp(KernelTransfer::Kind::tcp, here, here);
  const std::vector<std::pair<std::string, Transfer*>> transfers{
      {"xtp", &xtp}, {"tcp", &tcp}, {"kernel_tcp", &kernel_tcp}};
  for (const std::size_t size : full_or_tiny<std::size_t>({4 * KiB, 16 * KiB, 64 * KiB, 256 * KiB, MiB}, {64 * KiB})) {
    std::vector<Arm> arms;
    for (const auto& [name, transfer] : transfers) {
      EXPECT_TRUE(transfer->is_faithful(size)) << name << ' ' << size;
      arms.push_back(timed(name, [one = transfer, size] { one->move(size); }));
    }
    const Rounds rounds(std::move(arms));
    for (const auto& [name, transfer] : transfers) {
      ASSERT_TRUE(transfer->whole()) << name << ' ' << size;
      speed.add(name, size, rounds.megabits_per_second(name, file_bytes));
    }
    ratio.add("xtp/tcp", size, rounds.ratio("xtp", "tcp"));
    ratio.add("xtp/kernel_tcp", size, rounds.ratio("xtp", "kernel_tcp"));
  }
}

// ---- Conversions ----

/// One element a call, as libraries convert.
[[gnu::noinline]] void one_cray_number(const std::byte*& from, std::byte*& to) {
  std::uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  const float value = ilp::scalar::binary32_from_cray(__builtin_bswap64(word));
  std::memcpy(to, &value, sizeof value);
  from += sizeof word;
  to += sizeof value;
}

void cray_by_element(ConstBytes cray, Bytes ieee) {
  std::byte* to = ieee.data();
  for (const std::byte* from = cray.data(); from != cray.data() + cray.size();) {
    one_cray_number(from, to);
  }
}

/// Finite numbers, and their Cray words in the machine's order.
struct Numbers {
  std::vector<std::byte> binary32;
  std::vector<std::byte> cray;

  explicit Numbers(std::size_t count) : binary32(count * sizeof(float)), cray(count * sizeof(std::uint64_t)) {
    for (std::size_t at = 0; at < count; ++at) {
      const float value = (static_cast<float>(at % 1000) - 500) * 1.25e-3F;
      std::memcpy(binary32.data() + at * sizeof value, &value, sizeof value);
    }
    ilp::cray_from_binary32(binary32, cray, std::endian::big);
  }
};

TEST(testbed, cray) {
  const Figure speed("cray", "Mbit/s");
  const Figure ratio("cray_ratio", "ratio");
  for (const std::size_t size : full_or_tiny<std::size_t>({1024, 4096, 16384, 65536, MiB}, {4096})) {
    const Numbers numbers(size / sizeof(float));
    std::vector<std::byte> out(size);
    std::vector<std::byte> expected(size);
    cray_by_element(numbers.cray, expected);
    ilp::binary32_from_cray(numbers.cray, out, std::endian::big);
    EXPECT_EQ(out, expected);
    const Rounds rounds({timed("an_element_a_call", [&] { cray_by_element(numbers.cray, out); }),
                         timed("vector", [&] { ilp::binary32_from_cray(numbers.cray, out, std::endian::big); })});
    for (const std::string& arm : rounds.arms()) {
      speed.add(arm, size, rounds.megabits_per_second(arm, size));
    }
    ratio.add("vector/an_element_a_call", size, rounds.ratio("vector", "an_element_a_call"));
  }
}

TEST(testbed, xdr) {
  const Figure speed("xdr", "Mbit/s");
  const Figure ratio("xdr_ratio", "ratio");
  for (const std::size_t size : full_or_tiny<std::size_t>({1024, 4096, 16384, 65536, MiB}, {4096})) {
    Numbers numbers(size / sizeof(float));
    std::vector<std::byte> out(size);
    const auto library = [&] {
      XDR stream;
      ::xdrmem_create(&stream, reinterpret_cast<char*>(out.data()), static_cast<u_int>(size), XDR_ENCODE);
      const auto convert = reinterpret_cast<xdrproc_t>(reinterpret_cast<void (*)()>(::xdr_float));
      SLUICE_REQUIRE(::xdr_vector(&stream, reinterpret_cast<char*>(numbers.binary32.data()),
                                  static_cast<u_int>(size / sizeof(float)), sizeof(float), convert) != 0);
    };
    library();
    const std::vector<std::byte> expected = out;
    ilp::swap_copy(sizeof(float), numbers.binary32, out);
    EXPECT_EQ(out, expected);
    const Rounds rounds(
        {timed("library", library), timed("vector", [&] { ilp::swap_copy(sizeof(float), numbers.binary32, out); })});
    for (const std::string& arm : rounds.arms()) {
      speed.add(arm, size, rounds.megabits_per_second(arm, size));
    }
    ratio.add("vector/library", size, rounds.ratio("vector", "library"));
  }
}

// ---- A cipher beside sum and conversion ----

/// OpenSSL's stream ciphers, one message at a time.
class Cipher {
 public:
  explicit Cipher(const EVP_CIPHER* kind) : context_(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free) {
    SLUICE_REQUIRE(context_ != nullptr && EVP_EncryptInit_ex(context_.get(), kind, nullptr, key_.data(), nullptr) == 1);
  }
  void begin() { SLUICE_REQUIRE(EVP_EncryptInit_ex(context_.get(), nullptr, nullptr, nullptr, nonce_.data()) == 1); }
  void run(Bytes bytes) {
    int written = 0;
    SLUICE_REQUIRE(EVP_EncryptUpdate(context_.get(), reinterpret_cast<unsigned char*>(bytes.data()), &written,
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size())) == 1);
  }

 private:
  std::array<unsigned char, 32> key_{1, 2, 3};
  std::array<unsigned char, 16> nonce_{4, 5, 6};
  std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)> context_;
};

constexpr std::size_t tile = 2048;

TEST(testbed, cipher) {
  const Figure speed("cipher", "GB/s");
  const Figure gain("cipher_gain", "ratio");
  Cipher chacha(EVP_chacha20());
  Cipher aes(EVP_aes_128_ctr());
  struct Chain {
    const char* name;
    Cipher* cipher;
  };
  const std::array<Chain, 3> chains{{{"light", nullptr}, {"aes_ctr", &aes}, {"chacha20", &chacha}}};
  for (const std::size_t size :
       full_or_tiny<std::size_t>({4 * KiB, 64 * KiB, 1 * MiB, 16 * MiB}, {4 * KiB, 64 * KiB})) {
    const Arena memory(2 * size);
    const Bytes from(memory.start(), size);
    const Bytes to(memory.start() + size, size);
    std::vector<Arm> arms;
    for (const Chain& chain : chains) {
      // The sum covers what is sent: what has been converted, before it is encrypted.
      const auto layered = [=, cipher = chain.cipher] {
        ilp::copy(from, to);
        ilp::swap(4, to);
        keep(ilp::sum(to));
        if (cipher != nullptr) {
          cipher->begin();
          cipher->run(to);
        }
      };
      const auto fused = [=, cipher = chain.cipher] {
        if (cipher == nullptr) {
          keep(ilp::swap_sum_copy(4, from, to));
          return;
        }
        cipher->begin();
        for (std::size_t at = 0; at < size; at += tile) {
          keep(ilp::swap_sum_copy(4, from.subspan(at, tile), to.subspan(at, tile)));
          cipher->run(to.subspan(at, tile));
        }
      };
      layered();
      const std::vector<std::byte> expected(to.begin(), to.end());
      std::ranges::fill(to, std::byte{0});
      fused();
      EXPECT_TRUE(std::ranges::equal(to, expected)) << chain.name;
      arms.push_back(timed(std::string(chain.name) + "_layered", layered));
      arms.push_back(timed(std::string(chain.name) + "_fused", fused));
    }
    const Rounds rounds(std::move(arms));
    for (const std::string& arm : rounds.arms()) {
      speed.add(arm, size, rounds.gigabytes_per_second(arm, size));
    }
    for (const Chain& chain : chains) {
      const std::string name = chain.name;
      gain.add(name, size, rounds.ratio(name + "_fused", name + "_layered"));
    }
  }
}

/// Last, since it enters namespaces of its own.
TEST(testbed, veth) {
  if (const std::string missing = VethLab::missing(); !missing.empty()) {
    GTEST_SKIP() << "this figure needs " << missing;
  }
  veth_lab().add_link("summed", 9000);
  veth_lab().add_link("none", 9000);
  Udp udp({veth_end("summed", '0'), veth_end("summed", '1'), veth_end("none", '0'), veth_end("none", '1')}, 8192);
  add_checksum("veth_checksum", udp, full_or_tiny<std::size_t>({1400, 4096, 8192}, {1400}));
}

}  // namespace
}  // namespace sluice::bench
