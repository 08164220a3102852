// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a sender sends, ADU by ADU: first the manifest; once it is accepted the files in order, and between them the
// digests of files that have been read through. Digests what it gives, just before it gives it, and gives single ADUs
// again for repair. A payload lies where the source has it, or in memory of the Supply where the source can only be
// read: then it is read ahead.
//
// When bytes of a payload were found missing after it was given (Source::intact), the next call of next() or again()
// fails, whatever it was asked for.
//
// Borrows the Source. Not thread-safe. next() is O(1) but for a read of up to read_ahead_bytes once every
// read_ahead_bytes; no allocation after the constructor but the source's.

#include <optional>
#include <vector>

#include "apps/ftx/digest.h"
#include "apps/ftx/message.h"
#include "apps/ftx/source.h"

namespace sluice::ftx {

class Supply {
 public:
  static constexpr std::size_t read_ahead_bytes = 1U << 20;

  /// REQUIRES: adu_bytes obeys message.h; the source has at least one file and outlives this object.
  Supply(Source& source, std::uint32_t adu_bytes);

  struct Adu {
    AduName name;
    ConstBytes payload;  // valid until the next call of next() or again()
  };

  /// The next ADU that was never sent. Null: none now (see drained()).
  [[nodiscard]] std::expected<std::optional<Adu>, Failure> next();
  /// An ADU that was sent before.
  [[nodiscard]] std::expected<Adu, Failure> again(const AduName& name);

  /// From now on files and digests are given too.
  void accept() { accepted_ = true; }
  [[nodiscard]] bool accepted() const { return accepted_; }
  /// True when next() has nothing until accept(), or nothing ever.
  [[nodiscard]] bool drained() const;

  [[nodiscard]] const std::vector<std::byte>& manifest() const { return manifest_; }
  [[nodiscard]] std::uint64_t total_bytes() const { return total_bytes_; }
  /// File bytes given by next() so far.
  [[nodiscard]] std::uint64_t given_bytes() const { return given_bytes_; }
  /// File ADUs given by next() so far.
  [[nodiscard]] std::uint64_t given_adus() const { return given_adus_; }

 private:
  [[nodiscard]] std::optional<Adu> next_of_list(std::uint32_t file, ConstBytes list, std::uint64_t ready,
                                                std::uint64_t& given) const;
  [[nodiscard]] std::expected<std::optional<Adu>, Failure> next_of_files();
  [[nodiscard]] std::expected<ConstBytes, Failure> next_payload(std::uint32_t length);
  [[nodiscard]] std::expected<void, Failure> read_ahead();
  [[nodiscard]] std::expected<void, Failure> was_intact();
  [[nodiscard]] std::expected<void, Failure> finish_file();
  [[nodiscard]] Failure failure(std::uint32_t file, const Error& error) const;

  Source& source_;
  std::uint32_t adu_bytes_;
  bool accepted_ = false;
  std::vector<std::byte> manifest_;
  std::uint64_t manifest_given_ = 0;

  // The file being read, how much of it was given, and the part of it that is in memory.
  std::uint32_t file_ = 0;
  std::uint64_t offset_ = 0;
  std::vector<std::byte> ahead_;
  std::uint64_t ahead_from_ = 0;
  std::size_t ahead_size_ = 0;
  Digester digester_;
  std::optional<std::uint32_t> viewed_;  // the file whose bytes were given last where they lie

  std::vector<std::byte> digests_;
  std::uint64_t digests_given_ = 0;
  std::vector<std::byte> repair_;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t given_bytes_ = 0;
  std::uint64_t given_adus_ = 0;
};

}  // namespace sluice::ftx
