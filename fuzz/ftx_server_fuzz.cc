// SPDX-License-Identifier: Apache-2.0
// A live server under arbitrary datagrams. The input is a list of records: an operation, a number (u16) and, but for
// operation 2, that many bytes. Operations: 0 a datagram as it is; 1 a datagram whose envelope is made good, so that it
// reaches the session; 2 so many milliseconds pass; 3 an OFFER whose cookie is made good. An operation of 4 or more is
// the same from another of three hosts; one of 12 or more is sealed as a peer who has the secret would. Whatever comes,
// memory, open files and sessions stay within their bounds, those of a host too, and everything is given back at the
// end.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "apps/ftx/protocol/cursor.h"
#include "tests/apps/ftx/session/simulation.h"

namespace {

using namespace sluice;
using namespace sluice::ftx;
using namespace sluice::ftx::test;

constexpr std::uint64_t seed = 1;
constexpr std::uint64_t connection = 42;
constexpr std::size_t offer_cookie_at = envelope_bytes;

class Harness {
 public:
  Harness() : server_(options(), destination_), jar_(seed), peer_(peers_[0]) {
    destination_.fresh = true;  // so that sealed trees are accepted by the beginning of their lists
  }

  void run(Reader input) {
    offer_one_file();
    for (int step = 0; step < 200 && !input.rest().empty(); ++step) {
      const auto operation = input.number<std::uint8_t>();
      const auto amount = input.number<std::uint16_t>();
      peer_ = peers_[operation / 4 % peers_.size()];
      if (operation % 4 == 2) {
        now_ += std::chrono::milliseconds(amount);
      } else {
        const ConstBytes bytes = input.take(std::min<std::size_t>(amount, input.rest().size()));
        const Content datagram(bytes.begin(), bytes.end());
        if (operation / 12 % 2 == 1 && bytes.size() >= envelope_bytes) {
          seal_and_deliver(datagram);
        } else {
          deliver(operation % 4, datagram);
        }
      }
      answer();
    }
    finish();
  }

 private:
  static ServerOptions options() {
    ServerOptions options;
    options.seed = seed;
    options.insecure = true;
    options.sessions_max = 3;
    options.sessions_per_host_max = 2;
    options.memory_bytes_max = 2U << 20;
    options.memory_per_host_bytes_max = 1U << 20;
    options.open_files_max = 6;
    options.open_files_per_host_max = 4;
    options.receiver.own_memory_bytes = 64U << 10;
    return options;
  }

  void deliver(int operation, Content bytes) {
    if (operation != 0 && bytes.size() >= envelope_bytes) {
      store_big_endian<std::uint8_t>(bytes.data(), protocol_version);
      store_big_endian<std::uint32_t>(bytes.data() + 4, 1);
      store_big_endian<std::uint64_t>(bytes.data() + 8, connection + std::to_integer<std::uint64_t>(bytes[8]) % 3);
    }
    if (operation == 3 && bytes.size() >= offer_cookie_at + cookie_bytes) {
      const auto id = load_big_endian<std::uint64_t>(bytes.data() + 8);
      const Cookie cookie = jar_.issue(now_, peer_, id);
      std::copy(cookie.begin(), cookie.end(), bytes.begin() + offer_cookie_at);
    }
    server_.receive(now_, bytes, peer_);
  }

  /// Keys cost more than all else that most inputs do, so they are made for those that seal.
  Protection& protection() {
    if (!protection_) {
      protection_ = protection_of(seed, Side::initiator);
      server_.expect(protection_of(seed, Side::responder));
    }
    return *protection_;
  }

  void seal_and_deliver(Content bytes) {
    Protection& protection = this->protection();
    store_big_endian<std::uint8_t>(bytes.data(), protocol_version);
    store_big_endian<std::uint32_t>(bytes.data() + 4, 1);
    store_big_endian<std::uint64_t>(bytes.data() + 8, protection.connection());
    const bool data = bytes[1] == static_cast<std::byte>(Kind::data);
    if (data && bytes.size() >= data_header_bytes) {
      const int own = load_big_endian<std::uint16_t>(bytes.data() + 2) & (flag_repair | flag_compressed);
      store_big_endian(bytes.data() + 2, static_cast<std::uint16_t>(protection.flags() | own));
      const Content payload(bytes.begin() + data_header_bytes, bytes.end());
      bytes.resize(bytes.size() + tag_bytes);
      SLUICE_REQUIRE(protection.seal_payload(ConstBytes(bytes).first(data_header_bytes), payload,
                                             Bytes(bytes).subspan(data_header_bytes)));
    } else if (!data) {
      const std::size_t size = std::min(bytes.size(), control_bytes_max - Protection::overhead_bytes);
      bytes.resize(control_bytes_max);
      bytes.resize(protection.seal_control(bytes, size));
    }
    server_.receive(now_, bytes, peer_);
  }

  /// A session with one file of 5000 bytes, so that most inputs begin where the interesting states are.
  void offer_one_file() {
    const std::vector<std::byte> manifest = encode_manifest({{"file", 5000}});
    const Envelope envelope{Kind::offer, 0, 1, connection};
    Content out(2000);
    Offer offer{.cookie = jar_.issue(now_, peer_, connection), .total_bytes = 5000, .adu_bytes = 256, .files = 1};
    offer.manifest_bytes = static_cast<std::uint32_t>(manifest.size());
    offer.manifest_digest = digest_of(manifest);
    server_.receive(now_, ConstBytes(out).first(emit_offer(envelope, offer, out)), peer_);
    const Data data{{1, 1, 1, 0}, {manifest_file, offer.manifest_bytes, 0}, false};
    const std::size_t header = emit_data_header(envelope, data, out);
    std::copy(manifest.begin(), manifest.end(), out.begin() + static_cast<std::ptrdiff_t>(header));
    server_.receive(now_, ConstBytes(out).first(header + manifest.size()), peer_);
  }

  void answer() {
    Content out(2000);
    Peer to;
    for (int sent = 0; sent < 100; ++sent) {
      const std::size_t size = server_.transmit(now_, out, to);
      if (size == 0) {
        break;
      }
      SLUICE_REQUIRE(size <= control_bytes_max && parse_envelope(ConstBytes(out).first(size)));
    }
    while (auto event = server_.next_event()) {
      SLUICE_REQUIRE(!to_json(*event).empty());
    }
    SLUICE_REQUIRE(server_.sessions() <= options().sessions_max && server_.open_files() <= options().open_files_max);
  }

  void finish() {
    for (int i = 0; i < 3; ++i) {
      now_ += std::chrono::seconds(31);
      answer();
    }
    SLUICE_REQUIRE(server_.sessions() == 0 && server_.memory_left() == options().memory_bytes_max);
    SLUICE_REQUIRE(server_.open_files() == 0);
    SLUICE_REQUIRE(destination_.temporaries.empty());
  }

  TimePoint now_{std::chrono::hours(1)};
  MemoryDestination destination_;
  Server server_;
  CookieJar jar_;
  std::array<Peer, 3> peers_{Peer(as_bytes("peer")), Peer(as_bytes("other")), Peer(as_bytes("third"))};
  Peer peer_;
  std::optional<Protection> protection_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Harness harness;
  harness.run(Reader(std::as_bytes(std::span(data, size))));
  return 0;
}
