// SPDX-License-Identifier: Apache-2.0
// A live server under arbitrary datagrams. The input is a list of records: an operation, a number (u16) and, but for
// operation 2, that many bytes. Operations: 0 a datagram as it is; 1 a datagram whose envelope is made good, so that it
// reaches the session; 2 so many milliseconds pass; 3 an OFFER whose cookie is made good. An operation of 4 or more is
// the same from another of three hosts; one of 12 or more is sealed as a peer who has the secret would. An operation of
// 128 or more is a list of entries: `update`, the bytes of the list and nothing else. The OFFER of it and the DATA that
// carry it are made good, so that what stands in its entries decides. Whatever comes, memory, open files and sessions
// stay within their bounds, those of a host too, and everything is given back at the end.
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
constexpr std::size_t connection_at = 3;
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
        if (operation >= 128) {
          offer_list(operation % 4, bytes);
        } else if (operation / 12 % 2 == 1 && bytes.size() >= envelope_bytes) {
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
    options.session_limits.sessions_max = 3;
    options.session_limits.per_host_max = 2;
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
      store_big_endian<std::uint64_t>(bytes.data() + connection_at,
                                      connection + std::to_integer<std::uint64_t>(bytes[connection_at]) % 3);
    }
    if (operation == 3 && bytes.size() >= offer_cookie_at + cookie_bytes) {
      const auto id = load_big_endian<std::uint64_t>(bytes.data() + connection_at);
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
    store_big_endian<std::uint64_t>(bytes.data() + connection_at, protection.connection());
    const bool data = bytes[1] == static_cast<std::byte>(Kind::data);
    if (data && bytes.size() >= data_header_bytes) {
      const int own = load_big_endian<std::uint8_t>(bytes.data() + 2) & (flag_repair | flag_compressed);
      store_big_endian(bytes.data() + 2, static_cast<std::uint8_t>(protection.flags() | own));
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
  void offer_one_file() { offer_manifest(connection, 0, 1, 5000, encode_manifest({{"file", 5000}})); }

  /// The entries as far as they are whole, and the bytes of their files: what an OFFER has to say of the list.
  struct Announced {
    std::uint32_t entries = 0;
    std::uint64_t content_bytes = 0;
  };
  static Announced announced(ConstBytes list) {
    Announced counted;
    for (Reader reader(list); !reader.rest().empty(); ++counted.entries) {
      const auto kind = reader.number<std::uint8_t>();
      reader.take(4 + 2);
      const auto size = reader.number<std::uint64_t>();
      reader.take(8 + 4);
      reader.take(reader.number<std::uint8_t>());
      const bool link = kind % 32 == static_cast<int>(EntryKind::link);
      reader.take(link ? static_cast<std::size_t>(size) : 0);
      reader.take((kind & 0x80U) != 0 ? digest_bytes : 0);
      std::uint64_t content =
          kind % 32 == static_cast<int>(EntryKind::file) || kind % 32 == static_cast<int>(EntryKind::packed) ? size : 0;
      if ((kind & 0x40U) != 0) {
        content = 0;
        for (auto left = reader.number<std::uint32_t>(); left > 0 && reader.ok(); --left) {
          const auto from = reader.number<std::uint64_t>();
          content += reader.number<std::uint64_t>() - from;
        }
      }
      if (!reader.ok()) {
        break;
      }
      counted.content_bytes += content;
    }
    return counted;
  }

  void offer_list(int which, ConstBytes input) {
    if (input.empty()) {
      return;
    }
    const ConstBytes list = input.subspan(1);
    const auto [entries, content_bytes] = announced(list);
    offer_manifest(connection + static_cast<std::uint64_t>(which), std::to_integer<std::uint8_t>(input[0]), entries,
                   content_bytes, list);
  }

  void offer_manifest(std::uint64_t id, std::uint8_t update, std::uint32_t entries, std::uint64_t content_bytes,
                      ConstBytes manifest) {
    constexpr std::uint32_t slot_bytes = 256;
    const Envelope envelope{Kind::offer, 0, id};
    Content out(2000);
    Offer offer{
        .cookie = jar_.issue(now_, peer_, id), .total_bytes = content_bytes, .adu_bytes = slot_bytes, .files = entries};
    offer.manifest_bytes = static_cast<std::uint32_t>(manifest.size());
    offer.manifest_digest = digest_of(manifest);
    offer.update = parse_update(update).value_or(Update{});
    server_.receive(now_, ConstBytes(out).first(emit_offer(envelope, offer, out)), peer_);
    std::uint64_t sequence = 1;
    for (std::uint64_t at = 0; at < manifest.size(); ++sequence) {
      const ConstBytes part = manifest.subspan(at, std::min<std::size_t>(manifest.size() - at, 4 * slot_bytes));
      const Data data{{sequence, 0, 1}, {manifest_file, static_cast<std::uint32_t>(part.size()), at}, false};
      const std::size_t header = emit_data_header(envelope, data, out);
      std::ranges::copy(part, out.begin() + static_cast<std::ptrdiff_t>(header));
      server_.receive(now_, ConstBytes(out).first(header + part.size()), peer_);
      at += part.size();
    }
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
    SLUICE_REQUIRE(server_.sessions() <= options().session_limits.sessions_max &&
                   server_.open_files() <= options().open_files_max);
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
