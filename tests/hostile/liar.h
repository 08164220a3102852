// SPDX-License-Identifier: Apache-2.0
#pragma once

// Liar: an end of a session that sends whatever a test wants, over a socket on loopback, sealed where it has the
// secret. What it does by itself is honest; a row of a table leaves the truth where it likes.

#include <optional>
#include <string>
#include <vector>

#include "apps/ftx/protocol/manifest.h"
#include "apps/ftx/protocol/message.h"
#include "apps/ftx/session/protection.h"
#include "tests/hostile/ftx_process.h"

namespace sluice::ftx::hostile {

using Content = std::vector<std::byte>;

inline constexpr std::uint32_t adu_bytes = 1024;

class Liar {
 public:
  /// Sends to 127.0.0.1:`port`; with 0, to whoever sent something first. Without `protection`, nothing is sealed.
  Liar(std::uint16_t port, std::optional<Protection> protection);
  ~Liar();
  Liar(const Liar&) = delete;
  Liar& operator=(const Liar&) = delete;

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] bool sealed() const { return protection.has_value(); }

  // --- What any end does

  void raw(ConstBytes datagram);
  /// Sends the control datagram in the first `size` bytes of `out`, sealed if the session is.
  void control(std::size_t size);
  struct Heard {
    Envelope envelope;
    Content datagram;  // as if it had not been sealed
  };
  /// The next datagram that opens.
  std::optional<Heard> hear(Millis timeout);
  /// The next of that kind; others are skipped.
  std::optional<Heard> hear(Kind kind, Millis timeout);

  // --- What a sender does

  void add(std::string name, Content content);
  [[nodiscard]] Offer honest_offer();
  /// The address is validated by a COOKIE where the session is not sealed.
  void greet();
  void offer(const Offer& message);
  void data(const AduName& adu, ConstBytes payload, std::optional<Stamp> stamp = {}, std::uint8_t more_flags = 0,
            bool compressed = false);
  void probe(Stamp stamp);
  [[nodiscard]] Stamp next_stamp();
  /// All of a list or file, ADU by ADU.
  void all_of(std::uint32_t file, ConstBytes bytes);
  void manifest() { all_of(manifest_file, list); }
  void digests();
  /// OFFER, manifest, and until the receiver has accepted them.
  bool begin();
  /// Files, digests, until the receiver has finished, and CLOSE. Sends everything again where a datagram was lost.
  bool finish();
  /// Until a REPORT of `phase` or later comes, 5 s at most; asks with a PROBE.
  bool until(Phase phase);

  // --- What a receiver does

  /// Until the sender's OFFER is here: answers HELLO, or knocks. 10 s at most.
  bool invite();
  /// Takes what comes until the sender has nothing more to say for `silence`; notes what arrived.
  void take(Millis silence);
  /// The honest reports of a receiver that gets everything, until the sender closes.
  bool receive_all(Millis silence = 20ms);
  [[nodiscard]] Report honest_report(Phase phase) const;
  void report(const Report& message) { control(emit_report(envelope, message, out)); }

  Envelope envelope{Kind::hello, 0, 0x1122334455667788};
  std::optional<Protection> protection;
  Content out = Content(70'000);
  Content list;      // the manifest as it is sent
  std::string path;  // where it is to go
  std::vector<FileEntry> entries;
  std::vector<Content> contents;
  Cookie cookie{};
  std::uint64_t sequence = 0;

  std::optional<Offer> offered;  // its path is not kept
  std::uint64_t highest = 0, received_bytes = 0, datagrams = 0, errors = 0, closes = 0;

 private:
  void note(const Heard& heard);

  int socket_ = -1;
  bool connected_ = false;
};

}  // namespace sluice::ftx::hostile
