// SPDX-License-Identifier: Apache-2.0
#pragma once

// AduScheduler: the order in which a sender sends ADUs. First the manifest, even where the receiver has accepted it
// before; then, once it has (or run_ahead), the pack, then the files with numbers of their own in order, and between
// them the digests of those that have been read to their end. The manifest is encoded while it is sent. It digests the
// payloads of a burst just before it returns the first of them (the pack holds its own digests), and it returns single
// ADUs again for retransmission. A payload is in the source's memory where the source can be mapped, else in the
// scheduler's read-ahead buffer.
//
// Payloads stay valid together, as a burst, until release(); a burst ends where full() says so.
//
// Of files that the receiver wants signed (sign) the signatures go behind the manifest, before it accepts.
//
// What the receiver says it has (take) is passed over: neither read nor sent, with one exception: a part of a file
// whose digest the receiver lacks is read for the digest.
//
// When bytes of a payload turn out missing after it was returned (Source::damaged), the next call of next() or
// retransmit() fails.
//
// A stream (EntryKind::stream) is sent as far as it has come: only full ADUs before its end, so that what comes in
// drops does not go in drops. What the receiver has of it the source may forget.
//
// With an AduCompressor an ADU of files may stand for more bytes than a datagram holds. The lists are never compressed.
//
// Borrows the Source. Not thread-safe. next() is O(1) apart from one read of read_ahead_bytes every read_ahead_bytes.
// Only the source allocates after the constructor.

#include <algorithm>
#include <optional>
#include <vector>

#include "apps/ftx/files/digest.h"
#include "apps/ftx/files/slots.h"
#include "apps/ftx/files/source.h"
#include "apps/ftx/protocol/contents.h"
#include "apps/ftx/protocol/message.h"
#include "apps/ftx/protocol/signature.h"
#include "apps/ftx/session/adu_compressor.h"
#include "apps/ftx/session/manifest_reader.h"
#include "apps/ftx/session/pack_reader.h"
#include "apps/ftx/session/present_ranges.h"

namespace sluice::ftx {

class AduScheduler {
 public:
  static constexpr std::size_t read_ahead_bytes = 1U << 20;

  /// REQUIRES: adu_bytes obeys message.h; the source has at least one entry. Source and compressor (null: none) outlive
  /// this object.
  AduScheduler(Source& source, std::uint32_t adu_bytes, AduCompressor* compressor = nullptr);
  AduScheduler(const AduScheduler&) = delete;
  AduScheduler& operator=(const AduScheduler&) = delete;
  /// Payloads have so many bytes at most from now on. REQUIRES: a multiple of adu_bytes_unit, from there to the
  /// constructor's adu_bytes.
  void set_adu_bytes(std::uint32_t adu_bytes);
  /// ADUs begin at multiples of this; the constructor's adu_bytes if not called.
  void set_slot_bytes(std::uint32_t slot_bytes) { slot_bytes_ = slot_bytes; }

  struct Adu {
    AduName name;
    ConstBytes payload;  // valid until release()
    bool compressed = false;
  };
  /// The caller needs no payload any more.
  void release();
  /// True when next() or retransmit() might overwrite payloads that have not been released.
  [[nodiscard]] bool full() const {
    return repair_used_ || (ahead_used_ && offset_ >= ahead_from_ + ahead_size_) ||
           (manifest_used_ && manifest_sent_ < manifest_.size_bytes() &&
            manifest_sent_ + manifest_adu_bytes() > manifest_ahead_from_ + manifest_ahead_.size());
  }

  /// The next ADU that was never sent. Null: none now (see drained()). REQUIRES of both: a burst begins, or !full().
  [[nodiscard]] std::expected<std::optional<Adu>, Failure> next();
  /// Full ADUs of one file, one behind the other.
  struct Run {
    AduName first;
    ConstBytes payloads;  // valid until release()
  };
  /// What next() would return from now on and is in memory already, `count_max` ADUs at most. Perhaps none even so.
  [[nodiscard]] Run run(std::uint64_t count_max);
  /// As if next() had returned the first `count` of them. REQUIRES: no call since run() answered so many.
  void sent_of_run(std::uint64_t count);
  /// An ADU that was sent before, for retransmission, or as much of its front as fits one datagram.
  [[nodiscard]] std::expected<Adu, Failure> retransmit(const AduName& name);

  /// The receiver has this already. False: it cannot, or an earlier part of what it has is not known yet.
  /// REQUIRES: no payload is in use (release).
  bool take(const Have& have);
  /// Up to which place take() knows what the receiver has.
  [[nodiscard]] std::uint64_t taken() const { return present_.taken(); }
  /// Whether the receiver has all of an ADU that next() has returned.
  [[nodiscard]] bool present(const AduName& name) const;
  /// What the receiver has: whole files, and bytes of files.
  [[nodiscard]] const Contents::Amount& skipped() const { return skipped_; }

  /// The receiver, which has the manifest, wants the signatures of these files. False: it cannot, or it has wanted
  /// others. Nothing changes where it wants the same again.
  bool sign(std::span<const std::uint32_t> numbers);
  /// The receiver accepted the manifest: next() returns files and digests from now on.
  void accept() { accepted_ = true; }
  [[nodiscard]] bool accepted() const { return accepted_; }
  /// Whether next() returns files behind the manifest before accept() as well. REQUIRES: not where signatures may be
  /// wanted.
  void run_ahead(bool ahead) { files_ahead_ = ahead; }
  /// True when next() has returned the manifest.
  [[nodiscard]] bool manifest_sent() const { return manifest_sent_ == manifest_.size_bytes(); }
  /// True when next() has nothing more, or nothing more until accept().
  [[nodiscard]] bool drained() const;
  /// True when next() had nothing more because the stream has not come that far.
  [[nodiscard]] bool starved() const { return starved_; }
  /// The receiver has this ADU. It matters for a stream alone, of which release() tells the source what is there.
  void arrived(const AduName& name);
  /// It is a stream, and has not been sent to its end.
  [[nodiscard]] bool open_ended() const { return streams() && file_ != numbered_.size(); }
  [[nodiscard]] bool streams() const { return source_.files().front().stream(); }
  /// True when everything has been sent once. A list of directories and links is all that there is.
  [[nodiscard]] bool all_sent() const;

  [[nodiscard]] const ManifestReader& manifest() const { return manifest_; }
  /// Of a stream 0, until it has ended.
  [[nodiscard]] std::uint64_t total_bytes() const { return total_bytes_; }
  /// Regular files.
  [[nodiscard]] std::size_t file_count() const { return numbered_.size() + pack_.files(); }
  /// Regular files that next() has returned to their end.
  [[nodiscard]] std::size_t files_sent() const;
  /// The next regular file that next() has returned to its end, other than those that the receiver had. Null: none yet.
  [[nodiscard]] const FileEntry* next_sent();
  /// File bytes that next() has returned.
  [[nodiscard]] std::uint64_t sent_bytes() const { return sent_bytes_; }
  /// Those of them that the receiver had.
  [[nodiscard]] std::uint64_t wasted_bytes() const { return wasted_bytes_; }
  /// File ADUs that next() has returned.
  [[nodiscard]] std::uint64_t sent_adu_count() const { return sent_adu_count_; }

 private:
  [[nodiscard]] bool files_may_go() const { return accepted_ || files_ahead_; }
  [[nodiscard]] std::uint64_t manifest_adu_bytes() const {
    return std::min<std::uint64_t>(adu_bytes_, manifest_.size_bytes() - manifest_sent_);
  }
  [[nodiscard]] Adu next_of_manifest();
  [[nodiscard]] std::optional<Adu> next_of_list(std::uint32_t file, ConstBytes list, std::uint64_t ready,
                                                std::uint64_t& given) const;
  [[nodiscard]] std::expected<std::optional<Adu>, Failure> next_of_files();
  [[nodiscard]] std::expected<std::optional<Adu>, Failure> next_of_signatures();
  [[nodiscard]] std::expected<void, Failure> sign_some(std::uint64_t end);
  [[nodiscard]] std::expected<AduCompressor::Fitted, Failure> next_payload(std::uint64_t bytes_max);
  [[nodiscard]] AduCompressor::Fitted next_viewed(std::size_t bytes_max);
  void digest(std::uint64_t from, ConstBytes bytes);
  [[nodiscard]] std::uint64_t burst_bytes() const;
  [[nodiscard]] std::size_t content_bytes_max();
  [[nodiscard]] AduCompressor::Fitted fit(ConstBytes content);
  [[nodiscard]] std::expected<ConstBytes, Failure> read_again(const AduName& name);
  [[nodiscard]] std::expected<void, Failure> read_ahead();
  [[nodiscard]] std::expected<void, Failure> intact();
  [[nodiscard]] std::expected<void, Failure> finish_file();
  [[nodiscard]] std::expected<void, Failure> follow_stream();
  [[nodiscard]] std::uint64_t digest_list_bytes() const;
  void go_to(std::uint32_t file);
  [[nodiscard]] std::uint64_t place() const;
  [[nodiscard]] std::uint64_t base() const;
  void skip_present();
  void skip_digests();
  [[nodiscard]] std::uint64_t present_to() const;
  [[nodiscard]] std::uint64_t absent_to() const;
  [[nodiscard]] std::uint64_t absent_bytes(const ByteRange& range) const;
  [[nodiscard]] std::expected<void, Failure> digest_present(std::uint64_t to);
  [[nodiscard]] std::expected<void, Failure> read_pack(std::uint64_t offset, Bytes out);
  [[nodiscard]] std::uint64_t size_of(std::uint32_t file) const;
  [[nodiscard]] Failure failure(std::uint32_t entry, const Error& error) const;

  Source& source_;
  AduCompressor* compressor_;
  std::vector<std::uint32_t> numbered_;  // the entries of the files with numbers of their own, by number
  Pack pack_;
  PackReader pack_reader_;
  Contents contents_;
  PresentRanges present_;
  Contents::Amount skipped_;
  std::uint32_t adu_bytes_max_;
  std::uint32_t adu_bytes_;
  std::uint32_t slot_bytes_;
  bool accepted_ = false;
  bool files_ahead_ = false;
  ManifestReader manifest_;
  std::uint64_t manifest_sent_ = 0;
  std::vector<std::byte> manifest_ahead_;  // a part of it, encoded
  std::uint64_t manifest_ahead_from_ = 0;
  bool manifest_used_ = false;  // since release()

  // The number of the file that is being read, how much of it next() has returned, and the part of it in memory: viewed
  // for this burst, or read ahead.
  std::uint32_t file_ = 0;
  std::uint64_t offset_ = 0;
  ConstBytes viewed_;  // from offset_ on
  std::vector<std::byte> ahead_;
  std::uint64_t ahead_from_ = 0;
  std::size_t ahead_size_ = 0;
  bool ahead_used_ = false;  // since release()
  FileDigester digester_;
  std::uint64_t digested_to_ = 0;

  // Of a stream: up to where next() may go, whether that is its end, and what the receiver has of it.
  std::uint64_t stream_to_ = 0;
  bool stream_ended_ = false;
  bool starved_ = false;
  Slots delivered_;

  SignedFiles signed_;
  std::size_t signing_ = 0;            // of signed_
  std::vector<std::byte> signatures_;  // as far as they are made
  std::uint64_t signatures_sent_ = 0;

  std::vector<std::byte> digests_;
  std::uint64_t digests_sent_ = 0;
  std::vector<std::byte> repair_;
  bool repair_used_ = false;  // since release()
  std::size_t told_ = 0;      // files of the contents that next_sent() has passed
  std::uint64_t total_bytes_ = 0;
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t wasted_bytes_ = 0;
  std::uint64_t sent_adu_count_ = 0;
};

}  // namespace sluice::ftx
