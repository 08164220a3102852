// SPDX-License-Identifier: Apache-2.0
#pragma once

// Assembly: puts the files of a transfer together from ADUs, which arrive in any order. It names the place of each ADU,
// records which ADUs have landed, digests what was written, and renames a file when its digest equals the sender's.
//
//   place(adu)      where the payload belongs, or why not
//   landed(adu)     it is there now
//
// Payloads that came together and belong together are written together: gather() instead of writing, landed(), and
// write_gathered() before the memory that they lie in is used again. ADUs of one file that follow each other may be
// named as one: takes_run() instead of place(), gather() of each payload, and landed() of all.
//
// Small files travel together in the pack (apps/ftx/protocol/pack.h; assembly_pack.cc): an ADU of it holds many of
// them. Those that it holds as a whole are digested, written and named at once; the parts of the others are collected.
//
// What is there already (Sink::present), and what an earlier transfer has left of a file (Sink::resume), is looked for
// piece by piece (assembly_present.cc), with compare(), in the order in which the sender sends, so that it can be told
// before it is sent. A file of which something has arrived is not looked for; what Update leaves alone whatever it
// holds is looked for then, and its data dropped. A file that somebody changes after that is left as it then is.
//
// A sender need not wait for an answer: what comes of files before the list is whole and has been checked, or while the
// caller has that wait (hold), waits in memory (early_adus.h; assembly_early.cc), and nothing is made of it. Where
// nothing of a tree can be there yet, the beginning of its list says so (Destination::nothing_there).
//
// Streams (EntryKind::stream): the size of the file comes with its digest, or with an ADU that is shorter than its
// slots. Until then the file ends nowhere, and its bytes are taken from the Budget as they come.
//
// Update::delta (assembly_delta.cc): of files that differ from what lies in their places, that is looked for first. The
// sender signs these, and compare() finds their blocks in there, copies them to where they belong, and tells of them as
// of what an earlier transfer has left.
//
// Where it is to be told what will change, the Survey of that comes first, and the Sink, which makes the first
// directory, is opened behind it. In a dry run it never is, and no data lands anywhere.
//
// Invariants: a file is renamed only when every ADU has landed and its digest equals the sender's. Assembly takes the
// memory for lists and slots and the descriptors of open files from the Budget before it allocates, and returns them.
// Borrows Destination and Budget. Not thread-safe. Amortised O(1) an ADU apart from reading back for the digest; no
// allocation per ADU.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "apps/ftx/files/block_digests.h"
#include "apps/ftx/files/block_search.h"
#include "apps/ftx/files/budget.h"
#include "apps/ftx/files/digest.h"
#include "apps/ftx/files/early_adus.h"
#include "apps/ftx/files/sink.h"
#include "apps/ftx/files/slots.h"
#include "apps/ftx/protocol/contents.h"
#include "apps/ftx/protocol/exit_code.h"
#include "apps/ftx/protocol/message.h"
#include "apps/ftx/protocol/pack.h"
#include "apps/ftx/protocol/stream_end.h"

namespace sluice::ftx {

/// Where an ADU's payload belongs.
struct Placement {
  enum class Kind {
    memory,     // put it into `memory`; of a file where `file` is set
    file,       // write it to `file` at `offset`
    duplicate,  // it is there already
    misplaced,  // no such file, or not where an ADU may lie
    no_room,    // treated as lost: the sender sends it again
  };
  Kind kind = Kind::misplaced;
  Bytes memory{};
  bool verified_only = false;  // part of it has landed before: only verified bytes may go there
  SinkFile* file = nullptr;
  std::uint64_t offset = 0;
};

/// Threat: an OFFER is a few bytes and announces up to 4 GiB of lists and files without end. So nothing is allocated
/// for what is announced: a list grows with what arrived of it, and an ADU far beyond that is treated as lost; slots
/// come in pages (apps/ftx/files/slots.h); the memory of the files is taken when their list is there; a packed file's
/// memory when a part of it arrives.
///
/// Names memory of a file only for an ADU of which nothing has landed. The caller may find the payload damaged while it
/// copies it; the garbage then lies where a payload is still missing, never over a good one.
class Assembly {
 public:
  /// An ADU of a list may begin so far beyond twice what has arrived of the list.
  static constexpr std::uint64_t list_ahead_bytes = 256 * 1024;

  struct Head {
    std::string path;
    std::uint64_t total_bytes = 0;
    std::uint32_t adu_bytes = 0;
    std::uint32_t files = 0;
    std::uint32_t manifest_bytes = 0;
    Digest manifest_digest{};
    Update update{};
    bool early = false;  // the sender may learn that nothing of a tree is there, before he has sent its list
  };

  /// REQUIRES: `head` comes from parse_offer and its path is_relative_path; `budget` is this transfer's own.
  [[nodiscard]] static std::expected<std::unique_ptr<Assembly>, Failure> start(Head head, Destination& destination,
                                                                               Budget& budget);
  ~Assembly();
  Assembly(const Assembly&) = delete;
  Assembly& operator=(const Assembly&) = delete;

  /// `prefer`: what to name of a file where both are possible.
  enum class Prefer : std::uint8_t { memory, file };
  [[nodiscard]] std::expected<Placement, Failure> place(const AduName& adu, Prefer prefer = Prefer::memory);
  /// The memory that place(adu) would name; empty when it would name none or would change the state first.
  [[nodiscard]] Bytes memory_for(const AduName& adu) const;
  /// The placement for the memory that memory_for(adu) named. REQUIRES: no other call in between.
  [[nodiscard]] Placement placement_in(const AduName& adu, Bytes memory) const;
  /// REQUIRES: place(adu) named memory or a file, and the payload is there; for a file's memory SinkFile::placed()
  /// succeeded. Or takes_run(adu) was true, and the payloads are gathered.
  [[nodiscard]] std::expected<void, Failure> landed(const AduName& adu);
  /// Counts as the write of a payload to the file that place(adu) named. REQUIRES: `payload` stays valid until
  /// write_gathered().
  [[nodiscard]] std::expected<void, Failure> gather(const AduName& adu, ConstBytes payload);
  [[nodiscard]] std::expected<void, Failure> write_gathered();
  [[nodiscard]] bool gathers() const { return gathered_.count > 0; }
  /// Landed payloads are written when so many are gathered. What lands together may be as many more; of a longer run a
  /// part is written before it has landed, and read back.
  static constexpr std::size_t gathered_max = 64;
  /// True when place() would name the file, with room, of each of the ADUs of `adu_bytes` that make up `run`, as if
  /// each landed before the next, and would not change the state. False says nothing about the single ADUs. REQUIRES:
  /// run.length is a multiple of adu_bytes.
  [[nodiscard]] bool takes_run(const AduName& run, std::uint32_t adu_bytes) const;
  /// The failure that a failed write of `adu` causes. Keeps the partial file when the destination is full.
  [[nodiscard]] Failure landing_failed(const AduName& adu, const Error& error);

  /// Nothing of the list, which need not be whole, is there: the sender may send files. Once true, it stays so.
  [[nodiscard]] bool early() const { return early_; }
  /// What comes of files waits until release(), as it does before the list is whole: so it does not come before what is
  /// there has been looked for, which would then be written anew.
  void hold() { holding_ = true; }
  void release();
  /// Something of them waits that may land: land_early() has something to do.
  [[nodiscard]] bool early_waits() const { return phase_ == Phase::data && !holding_ && !early_adus_.empty(); }
  enum class Landed : std::uint8_t {
    some,
    with_the_end,
    nothing
  };  // the end: ends_data(); nothing: no room for it now
  /// Lands what came early, about `bytes` of it. REQUIRES: early_waits().
  [[nodiscard]] std::expected<Landed, Failure> land_early(std::uint64_t bytes);

  /// What will change is to be told, and has not been looked for to the end.
  [[nodiscard]] bool surveying() const { return survey_ != nullptr; }
  /// Looks further, for a while: adds `count_max` changes at most. REQUIRES: surveying().
  [[nodiscard]] std::expected<void, Failure> survey(std::size_t count_max, std::vector<Change>& changes);
  /// It has been told: data may come; in a dry run that was all. REQUIRES: the survey has come to its end.
  [[nodiscard]] std::expected<void, Failure> begin();
  [[nodiscard]] bool dry_run() const { return head_.update.dry_run; }
  [[nodiscard]] std::span<const FileEntry> entries() const { return entries_; }
  /// Size of the contents (apps/ftx/protocol/contents.h). REQUIRES: phase() is not manifest.
  [[nodiscard]] std::uint64_t contents_bytes() const { return contents_.size_bytes(); }

  /// Files are left that look_for_earlier() has to see before compare() may be called.
  [[nodiscard]] bool looks_for_earlier() const {
    return head_.update.delta && phase_ == Phase::data && sink_ && delta_.looked < files_.size();
  }
  /// Looks whether the next `count_max` files will replace earlier versions. REQUIRES: looks_for_earlier().
  void look_for_earlier(std::size_t count_max);
  /// Files whose signatures compare() has to wait for. REQUIRES: !looks_for_earlier().
  [[nodiscard]] bool awaits_signatures() const { return !delta_.signatures.slots.whole(); }
  [[nodiscard]] std::vector<std::uint32_t> to_sign() const;
  /// The sender knows of them.
  [[nodiscard]] bool signatures_begun() const { return delta_.signatures.landed_bytes > 0; }

  /// The most parts of one file that an earlier transfer has left.
  static constexpr std::size_t known_parts_max = 64;
  /// Looks whether the next files are there already, as a whole or in part, and adds their places in the contents to
  /// `present`, in ascending order: `count_max` files and ranges at most. Where contents are read for that, it reads
  /// about digest_turn_bytes. REQUIRES: phase() is data; no signatures are waited for.
  [[nodiscard]] std::expected<void, Failure> compare(std::size_t count_max, std::vector<ByteRange>& present);
  /// Contents are read before they can come: compared, or searched for blocks.
  [[nodiscard]] bool reads_contents() const {
    return head_.update.compare == Update::Compare::digest || looks_for_earlier() || compared_ < delta_.compare_to;
  }
  /// Files or parts of them are left that compare() has not looked for, or not told.
  [[nodiscard]] bool comparing() const {
    return phase_ == Phase::data && sink_ && (compared_ < contents_.files() || told_known_ < known_.size());
  }
  /// What was there already.
  [[nodiscard]] const Contents::Amount& skipped() const { return skipped_; }

  [[nodiscard]] Phase phase() const { return phase_; }
  /// How many bytes of files more there is room for at the destination, where somebody has to take them from there.
  [[nodiscard]] std::uint64_t room_bytes() const {
    if (phase_ == Phase::manifest && early_) {
      return early_adus_.room_bytes();
    }
    return sink_ ? sink_->room_bytes() : UINT64_MAX;
  }
  [[nodiscard]] std::uint64_t landed_bytes() const { return landed_bytes_; }
  [[nodiscard]] std::uint64_t total_bytes() const { return stream_end_.value_or(head_.total_bytes); }
  /// It is a stream, and nobody has said yet where it ends.
  [[nodiscard]] bool open_ended() const { return phase_ == Phase::data && is_stream() && !stream_end_; }
  /// Regular files, as soon as their list is there.
  [[nodiscard]] std::size_t files() const { return files_.size() + pack_.files(); }
  /// How many of them have their final names.
  [[nodiscard]] std::size_t files_done() const { return committed_ + stored_; }
  /// Whether a sender sends this ADU after all others, if it sends none again: the end of the digests, or of the pack
  /// where there are none.
  [[nodiscard]] bool ends_data(const AduName& adu) const {
    const std::uint64_t end = adu.offset + adu.length;
    return digests_.size > 0 ? adu.file == digest_file && end == digests_.size
                             : adu.file == pack_file && end == pack_.size_bytes();
  }
  /// Where the transfer went, for people: the file's path, or the directory of several files.
  [[nodiscard]] std::string path() const;

 private:
  /// State of a file between its first ADU and its last.
  struct Arriving {
    Slots slots;
    BlockDigests digests;
  };
  struct File {
    std::uint32_t entry = 0;
    std::unique_ptr<SinkFile> sink;      // from its first ADU until it has its final name
    std::unique_ptr<Arriving> arriving;  // from its first ADU to its last
    Digest digest{};                     // of what was written; set when whole
    bool whole = false;
  };
  /// The most memory that an entry needs apart from the bytes of its list.
  static constexpr std::uint64_t entry_memory_bytes = 144;
  /// What one with a number of its own needs besides, apart from its slots.
  static constexpr std::uint64_t file_memory_bytes = 768;
  struct List {
    std::uint64_t size = 0;  // as announced
    std::uint64_t landed_bytes = 0;
    std::vector<std::byte> bytes;  // as far as it has arrived
    Slots slots;
  };

  /// Payloads that follow each other in a file and are not written yet.
  struct Gathered {
    std::uint32_t file = 0;
    std::uint64_t from = 0;
    std::uint64_t end = 0;
    std::size_t count = 0;
    std::array<ConstBytes, 2 * gathered_max> pieces;
  };

  /// Earlier versions of files.
  struct Delta {
    std::size_t looked = 0;              // of files_
    std::vector<std::uint32_t> found{};  // files that have one, by number
    SignedFiles files{};                 // those of them that the sender is to sign
    std::size_t compare_to = 0;          // of contents_: up to the last of them
    List signatures;
    // The file that compare() is at.
    std::unique_ptr<EarlierFile> earlier{};
    std::unique_ptr<BlockSearch> search{};
    std::uint64_t memory_bytes = 0;  // taken for that and for known_
  };

  Assembly(Head head, Destination& destination, Budget& budget);

  [[nodiscard]] std::uint64_t slot_count(std::uint64_t bytes) const {
    return (bytes + head_.adu_bytes - 1) / head_.adu_bytes;
  }
  [[nodiscard]] bool well_placed(const AduName& adu, std::uint64_t size) const;
  [[nodiscard]] bool well_placed(const File& file, const AduName& adu) const;
  /// As far as it is known.
  [[nodiscard]] std::uint64_t content_bytes(const File& file) const {
    return is_stream() ? stream_end_.value_or(stream_bytes_max) : entry_of(file).content_bytes();
  }
  [[nodiscard]] bool is_stream() const { return entries_.size() == 1 && entries_.front().stream(); }
  /// How many of the slots of `adu` are filled already.
  [[nodiscard]] std::uint64_t marked(const Slots& slots, const AduName& adu) const;
  [[nodiscard]] std::uint64_t slots_of(const AduName& adu) const { return slot_count(adu.length); }
  [[nodiscard]] std::uint64_t first_slot(const AduName& adu) const { return adu.offset / head_.adu_bytes; }
  [[nodiscard]] std::uint64_t last_slot(const AduName& adu) const { return first_slot(adu) + slots_of(adu) - 1; }
  [[nodiscard]] bool prepare(Slots& slots, const AduName& adu);
  [[nodiscard]] bool prepare(Arriving& arriving, const AduName& adu);
  [[nodiscard]] const File* untouched(const AduName& adu) const;
  void mark(Slots& slots, std::uint64_t first, std::uint64_t last);
  [[nodiscard]] Placement place_in_list(List& list, const AduName& adu);
  [[nodiscard]] bool grow(List& list, std::uint64_t end);
  void land_in_list(List& list, const AduName& adu);
  [[nodiscard]] std::expected<Placement, Failure> place_in_file(const AduName& adu, Prefer prefer);
  [[nodiscard]] std::expected<void, Failure> open_file(File& file);
  [[nodiscard]] std::expected<bool, Failure> take_descriptor();
  void make_arriving(File& file);
  [[nodiscard]] const FileEntry& entry_of(const File& file) const { return entries_[file.entry]; }

  // assembly_present.cc
  [[nodiscard]] std::expected<bool, Failure> find_parts(std::uint32_t index, std::uint64_t& bytes);
  [[nodiscard]] std::expected<void, Failure> resume(std::uint32_t index);
  [[nodiscard]] std::expected<void, Failure> take_known(File& file);
  [[nodiscard]] std::optional<ByteRange> mark_known(Arriving& arriving, std::uint64_t from, std::uint64_t end);
  [[nodiscard]] std::expected<bool, Failure> look_at_next(std::uint64_t& bytes, std::vector<ByteRange>& present);
  void skip(const ByteRange& place);
  void add_present(const ByteRange& place, std::vector<ByteRange>& present);
  [[nodiscard]] bool take_present(std::size_t index);
  [[nodiscard]] bool examine(std::size_t index, std::uint64_t& bytes);
  [[nodiscard]] bool leaves_alone(std::size_t index);

  // assembly_delta.cc
  void choose_signed();
  [[nodiscard]] std::expected<bool, Failure> begin_search(std::uint32_t index);
  [[nodiscard]] std::expected<bool, Failure> search(std::uint32_t index, std::uint64_t& bytes);
  [[nodiscard]] std::expected<bool, Failure> keep_block(std::uint32_t index, std::uint64_t block, ConstBytes bytes);
  [[nodiscard]] ByteRange slots_with(std::uint64_t content_bytes, std::uint64_t block, std::uint64_t block_bytes) const;
  void end_search(std::uint32_t index);

  // assembly_pack.cc
  [[nodiscard]] Placement place_in_pack(const AduName& adu);
  [[nodiscard]] bool room_for_parts(const AduName& adu);
  [[nodiscard]] std::expected<void, Failure> land_in_pack(const AduName& adu);
  [[nodiscard]] bool whole_in_pack(const Pack::File& file) const;
  /// Its bytes are of no use: it is in place, or was there already.
  [[nodiscard]] bool done_in_pack(std::size_t index) const { return present_[index] || whole_in_pack(pack_[index]); }
  [[nodiscard]] bool take_present_in_pack(std::size_t index);
  [[nodiscard]] std::expected<void, Failure> store(const Pack::File& file, ConstBytes bytes);
  void drop_part(std::size_t index);

  // assembly_early.cc
  [[nodiscard]] bool waits(const AduName& adu) const;
  void accept_early(std::size_t front_bytes);
  [[nodiscard]] Placement place_early(const AduName& adu);
  [[nodiscard]] std::expected<bool, Failure> land_early(const EarlyAdus::One& one);

  [[nodiscard]] std::expected<void, Failure> manifest_whole();
  [[nodiscard]] std::expected<void, Failure> open_sink();
  [[nodiscard]] std::expected<void, Failure> open_survey();
  [[nodiscard]] std::expected<void, Failure> file_landed(const AduName& adu);
  [[nodiscard]] std::expected<void, Failure> mark_written(File& file, std::uint64_t first, std::uint64_t last);
  [[nodiscard]] std::expected<void, Failure> digest_written(File& file, std::uint64_t first, std::uint64_t last);
  [[nodiscard]] std::expected<void, Failure> file_whole(std::uint32_t index);
  [[nodiscard]] std::expected<void, Failure> digests_landed(const AduName& adu);
  [[nodiscard]] bool digest_is_there(std::uint32_t index) const;
  [[nodiscard]] std::expected<void, Failure> commit_if_equal(std::uint32_t index);
  [[nodiscard]] std::expected<void, Failure> take_storage(const File& file, const AduName& adu);
  [[nodiscard]] std::expected<void, Failure> stream_ends(std::uint64_t size_bytes);
  [[nodiscard]] std::expected<void, Failure> stream_end_landed();
  [[nodiscard]] std::expected<void, Failure> finish_if_whole();
  [[nodiscard]] Failure failure(File* file, const Error& error) const;

  Head head_;
  Destination& destination_;
  Budget& budget_;
  Phase phase_ = Phase::manifest;
  List manifest_;
  List digests_;
  bool early_ = false;
  bool early_asked_ = false;
  bool holding_ = false;
  EarlyAdus early_adus_;
  std::vector<FileEntry> entries_;  // before sink_, which borrows them
  std::optional<Deletion> deletion_;
  std::unique_ptr<Survey> survey_;
  ComparedContents compared_contents_;  // what it has read
  std::unique_ptr<Sink> sink_;          // before files_: they must not outlive it
  std::vector<File> files_;             // with numbers of their own, by number
  Pack pack_;
  Slots pack_slots_;
  std::vector<bool> present_;                                      // packed files that were there already
  std::vector<std::byte> pack_adu_;                                // where a payload of the pack lands
  std::unordered_map<std::size_t, std::vector<std::byte>> parts_;  // of packed files, some of which is missing
  std::vector<std::size_t> arriving_;                              // packed files of the ADU that has landed
  std::size_t stored_ = 0;                                         // packed files, also those that were there
  Contents contents_;                                              // what compare() has looked for
  std::size_t compared_ = 0;                                       // files of contents_
  std::vector<ByteRange> known_;                                   // of the file that compare() is at: of its content
  std::size_t told_known_ = 0;
  std::uint64_t known_from_ = 0;  // where its content begins in contents_
  Delta delta_;
  Contents::Amount skipped_;
  std::vector<std::uint32_t> waiting_;  // files that are whole, wait for their digest, and have a descriptor
  std::vector<std::byte> read_back_;
  Gathered gathered_;
  std::size_t committed_ = 0;
  std::uint64_t landed_bytes_ = 0;
  std::optional<std::uint64_t> stream_end_;  // of a stream: its size, once it is known
  std::uint64_t stream_landed_to_ = 0;       // up to where its ADUs have landed
};

}  // namespace sluice::ftx
