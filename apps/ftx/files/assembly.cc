// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/assembly.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/contract.h"

namespace sluice::ftx {
namespace {

constexpr std::size_t read_back_bytes = BlockDigests::read_back_bytes;

constexpr std::string_view large_list_text = "the list of files is larger than this server's memory for it";

std::unexpected<Failure> failed(ExitCode code, std::string text) {
  return std::unexpected(Failure{code, std::move(text)});
}

std::string bytes_text(std::uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

std::unexpected<Failure> too_large(std::uint64_t bytes, std::uint64_t most) {
  return failed(ExitCode::refused,
                "larger than a transfer to this server may be: " + bytes_text(bytes) + " of " + bytes_text(most));
}

/// Holes included. Saturates.
std::uint64_t sum_of_sizes(std::span<const FileEntry> entries) {
  std::uint64_t sum = 0;
  for (const FileEntry& entry : entries) {
    sum += std::min(entry.size_bytes, UINT64_MAX - sum);
  }
  return sum;
}

/// Null: so many bytes may be written.
std::optional<Failure> take_storage(Quota& storage, std::uint64_t bytes, std::uint64_t more) {
  if (storage.take(more)) {
    return std::nullopt;
  }
  return bytes > storage.most() ? too_large(bytes, storage.most()).error()
                                : Failure{ExitCode::refused, "over this server's quota: " + bytes_text(bytes) +
                                                                 " is more than what is left of it"};
}

/// Null: so many entries may be made.
///
/// Threat: a list of empty files and directories without end, which takes no byte of a quota and every inode of a disk.
std::optional<Failure> take_entries(Quota& entries, std::uint64_t count) {
  if (entries.take(count)) {
    return std::nullopt;
  }
  const std::string text = std::to_string(count) + " entries";
  return Failure{ExitCode::refused,
                 count > entries.most()
                     ? "more than a transfer to this server may make: " + text + " of " + std::to_string(entries.most())
                     : "over this server's quota: " + text + " are more than what is left of it"};
}

bool is_full(int code) { return code == ENOSPC || code == EDQUOT || code == EFBIG; }

}  // namespace

std::expected<std::unique_ptr<Assembly>, Failure> Assembly::start(Head head, Destination& destination, Budget& budget) {
  // Says at once what could never succeed; takes nothing for it.
  const std::uint64_t lists = std::uint64_t{head.manifest_bytes} + head.files * entry_memory_bytes;
  if (!budget.memory.could_take(lists + read_back_bytes)) {
    return failed(ExitCode::refused, std::string(large_list_text));
  }
  if (auto refused = take_entries(budget.entries, head.files)) {
    return std::unexpected(*std::move(refused));
  }
  if (auto refused = ftx::take_storage(budget.storage, head.total_bytes, head.total_bytes)) {
    budget.entries.give_back(head.files);
    return std::unexpected(*std::move(refused));
  }
  return std::unique_ptr<Assembly>(new Assembly(std::move(head), destination, budget));
}

Assembly::Assembly(Head head, Destination& destination, Budget& budget)
    : head_(std::move(head)), destination_(destination), budget_(budget), early_adus_(budget.memory) {
  manifest_.size = head_.manifest_bytes;
  manifest_.slots = Slots(slot_count(manifest_.size));
}

Assembly::~Assembly() {
  budget_.memory.give_back(budget_.memory.used());
  budget_.files.give_back(budget_.files.used());
  // Threat: a peer that fills the disk again and again, with transfers that never end well.
  budget_.storage.give_back(budget_.storage.used() - std::min(landed_bytes_, budget_.storage.used()));
  const std::uint64_t made = sink_ ? sink_->entries_made() : 0;
  budget_.entries.give_back(budget_.entries.used() - std::min(made, budget_.entries.used()));
}

std::string Assembly::path() const {
  if (sink_ && entries_.size() == 1) {
    return sink_->path(entries_[0]);
  }
  return head_.path;
}

// --- Places --------------------------------------------------------------------------------------------------------

bool Assembly::well_placed(const AduName& adu, std::uint64_t size) const {
  if (adu.offset % head_.adu_bytes != 0 || adu.offset >= size || adu.length > size - adu.offset) {
    return false;
  }
  return adu.length % head_.adu_bytes == 0 || adu.offset + adu.length == size;
}

/// Where nobody has said where a stream ends, an ADU of any length may be its last.
bool Assembly::well_placed(const File& file, const AduName& adu) const {
  const std::uint64_t size = content_bytes(file);
  if (!open_ended()) {
    return well_placed(adu, size);
  }
  return adu.offset % head_.adu_bytes == 0 && adu.offset < size && adu.length <= size - adu.offset;
}

std::uint64_t Assembly::marked(const Slots& slots, const AduName& adu) const {
  return slots.marked(first_slot(adu), last_slot(adu));
}

/// Makes sure that mark() allocates nothing; false: no memory.
bool Assembly::prepare(Slots& slots, const AduName& adu) {
  const std::uint64_t wanted = slots.wanted_bytes(first_slot(adu), last_slot(adu));
  if (!budget_.memory.take(wanted)) {
    return false;
  }
  if (wanted > 0) {
    slots.prepare(first_slot(adu), last_slot(adu));
  }
  return true;
}

/// Likewise, of a file.
bool Assembly::prepare(Arriving& arriving, const AduName& adu) {
  const std::uint64_t wanted = arriving.digests.wanted_bytes(arriving.slots, first_slot(adu), last_slot(adu));
  if (!prepare(arriving.slots, adu) || !budget_.memory.take(wanted)) {
    return false;
  }
  if (wanted > 0) {
    arriving.digests.prepare(arriving.slots, first_slot(adu), last_slot(adu));
  }
  return true;
}

/// REQUIRES: prepare() succeeded for these slots.
void Assembly::mark(Slots& slots, std::uint64_t first, std::uint64_t last) {
  const std::uint64_t before = slots.memory_bytes();
  slots.mark(first, last);
  budget_.memory.give_back(before - slots.memory_bytes());
}

/// Room for the bytes of `list` up to `end`; false: no memory. At most doubles what the list has, so that it grows in
/// few steps and by no more than what arrives.
bool Assembly::grow(List& list, std::uint64_t end) {
  const std::uint64_t has = list.bytes.size();
  if (end <= has) {
    return true;
  }
  const std::uint64_t size = std::min(list.size, std::max(end, 2 * has));
  if (!budget_.memory.take(size - has)) {
    return false;
  }
  std::vector<std::byte> larger;
  larger.reserve(size);
  larger = list.bytes;
  larger.resize(size);
  list.bytes.swap(larger);
  return true;
}

Placement Assembly::place_in_list(List& list, const AduName& adu) {
  if (!well_placed(adu, list.size)) {
    return {};
  }
  if (adu.offset > 2 * list.landed_bytes + list_ahead_bytes || !grow(list, adu.offset + adu.length) ||
      !prepare(list.slots, adu)) {
    return {.kind = Placement::Kind::no_room};
  }
  const std::uint64_t filled = marked(list.slots, adu);
  if (filled == slots_of(adu)) {
    return {.kind = Placement::Kind::duplicate};
  }
  return {.kind = Placement::Kind::memory,
          .memory = Bytes(list.bytes).subspan(adu.offset, adu.length),
          .verified_only = filled > 0};
}

std::expected<Placement, Failure> Assembly::place(const AduName& adu, Prefer prefer) {
  if (adu.file == manifest_file) {
    if (phase_ == Phase::manifest) {
      return place_in_list(manifest_, adu);
    }
    return Placement{.kind =
                         well_placed(adu, manifest_.size) ? Placement::Kind::duplicate : Placement::Kind::misplaced};
  }
  if (waits(adu)) {
    return place_early(adu);
  }
  // Threat: a sender that sends files in a dry run.
  if (!sink_) {
    return Placement{};
  }
  if (adu.file == digest_file) {
    return place_in_list(digests_, adu);
  }
  if (adu.file == signature_file) {
    return place_in_list(delta_.signatures, adu);
  }
  if (adu.file == pack_file) {
    return place_in_pack(adu);
  }
  return place_in_file(adu, prefer);
}

/// The file that `adu` may land in with no other change of the state: one that has been opened for an ADU before, where
/// nothing of this one is, and whose slots need no more memory. A stream's bytes are taken from the budget one ADU at a
/// time. Null: there is none.
const Assembly::File* Assembly::untouched(const AduName& adu) const {
  if (phase_ != Phase::data || holding_ || adu.file >= files_.size() || is_stream()) {
    return nullptr;
  }
  const File& file = files_[adu.file];
  if (!file.arriving || !well_placed(file, adu)) {
    return nullptr;
  }
  const Arriving& arriving = *file.arriving;
  const std::uint64_t first = first_slot(adu);
  const std::uint64_t last = last_slot(adu);
  const bool free = arriving.slots.marked(first, last) == 0 && arriving.slots.wanted_bytes(first, last) == 0 &&
                    arriving.digests.wanted_bytes(arriving.slots, first, last) == 0;
  return free ? &file : nullptr;
}

Bytes Assembly::memory_for(const AduName& adu) const {
  const File* const file = untouched(adu);
  return file != nullptr ? file->sink->place(adu.offset, adu.length).value_or(Bytes()) : Bytes();
}

Placement Assembly::placement_in(const AduName& adu, Bytes memory) const {
  SLUICE_REQUIRE(adu.file < files_.size() && files_[adu.file].sink != nullptr);
  return {.kind = Placement::Kind::memory, .memory = memory, .file = files_[adu.file].sink.get(), .offset = adu.offset};
}

std::expected<Placement, Failure> Assembly::place_in_file(const AduName& adu, Prefer prefer) {
  if (adu.file >= files_.size()) {
    return Placement{};
  }
  File& file = files_[adu.file];
  if (!well_placed(file, adu)) {
    return Placement{};
  }
  if (file.whole) {
    return Placement{.kind = Placement::Kind::duplicate};
  }
  if (!file.arriving && leaves_alone(pack_.files() + adu.file)) {
    return Placement{.kind = Placement::Kind::duplicate};
  }
  if (!file.arriving) {
    if (const auto taken = take_descriptor(); !taken || !*taken) {
      return taken ? std::expected<Placement, Failure>(Placement{.kind = Placement::Kind::no_room})
                   : std::unexpected(taken.error());
    }
    if (auto opened = open_file(file); !opened) {
      budget_.files.give_back(1);
      return std::unexpected(opened.error());
    }
  }
  if (!prepare(*file.arriving, adu)) {
    return failed(ExitCode::refused, "'" + entry_of(file).name + "' is larger than this server's memory for it");
  }
  const std::uint64_t filled = marked(file.arriving->slots, adu);
  if (filled == slots_of(adu)) {
    return Placement{.kind = Placement::Kind::duplicate};
  }
  if (!file.sink->takes(adu.offset, adu.length)) {
    return Placement{.kind = Placement::Kind::no_room};
  }
  if (const auto taken = take_storage(file, adu); !taken) {
    return std::unexpected(taken.error());
  }
  Placement place{
      .kind = Placement::Kind::file, .verified_only = filled > 0, .file = file.sink.get(), .offset = adu.offset};
  if (place.verified_only || prefer == Prefer::file) {
    return place;
  }
  if (const auto memory = file.sink->place(adu.offset, adu.length); memory) {
    place.kind = Placement::Kind::memory;
    place.memory = *memory;
  } else if (memory.error().code != ENOTSUP) {
    return std::unexpected(failure(&file, memory.error()));
  }
  return place;
}

bool Assembly::takes_run(const AduName& run, std::uint32_t adu_bytes) const {
  const File* const file = adu_bytes % head_.adu_bytes == 0 ? untouched(run) : nullptr;
  return file != nullptr && file->sink->takes(run.offset, run.length);
}

std::expected<void, Failure> Assembly::open_file(File& file) {
  auto created = sink_->create(entry_of(file));
  if (!created) {
    return std::unexpected(failure(nullptr, created.error()));
  }
  file.sink = std::move(*created);
  make_arriving(file);
  return {};
}

void Assembly::make_arriving(File& file) {
  const std::uint64_t size = content_bytes(file);
  file.arriving = std::make_unique<Arriving>(Slots(slot_count(size)), BlockDigests(size, head_.adu_bytes));
}

/// For one more file. A file that is whole and waits for its digest lets its own go rather than keep another from
/// coming. False: there is none.
std::expected<bool, Failure> Assembly::take_descriptor() {
  if (budget_.files.take(1)) {
    return true;
  }
  if (waiting_.empty()) {
    return false;
  }
  File& file = files_[waiting_.front()];
  if (Status closed = file.sink->let_go(); !closed) {
    return std::unexpected(failure(&file, closed.error()));
  }
  waiting_.erase(waiting_.begin());
  budget_.files.give_back(1);
  return budget_.files.take(1);
}

// --- What landed ---------------------------------------------------------------------------------------------------

std::expected<void, Failure> Assembly::landed(const AduName& adu) {
  if (adu.file == manifest_file) {
    land_in_list(manifest_, adu);
    if (manifest_.slots.whole()) {
      return phase_ == Phase::manifest ? manifest_whole() : std::expected<void, Failure>{};
    }
    if (adu.offset == 0) {
      accept_early(adu.length);
    }
    return {};
  }
  if (waits(adu)) {
    early_adus_.keep(adu);
    return {};
  }
  if (adu.file == digest_file) {
    land_in_list(digests_, adu);
    return digests_landed(adu);
  }
  if (adu.file == signature_file) {
    land_in_list(delta_.signatures, adu);
    return {};
  }
  if (adu.file == pack_file) {
    return land_in_pack(adu);
  }
  return file_landed(adu);
}

std::expected<void, Failure> Assembly::gather(const AduName& adu, ConstBytes payload) {
  Gathered& now = gathered_;
  if (now.count == now.pieces.size() || now.file != adu.file || now.end != adu.offset) {
    if (auto written = write_gathered(); !written) {
      return written;
    }
  }
  if (now.count == 0) {
    now.file = adu.file;
    now.from = adu.offset;
  }
  now.pieces[now.count++] = payload;
  now.end = adu.offset + payload.size();
  return {};
}

std::expected<void, Failure> Assembly::write_gathered() {
  const std::size_t count = std::exchange(gathered_.count, 0);
  if (count == 0) {
    return {};
  }
  File& file = files_[gathered_.file];
  const auto pieces = std::span<const ConstBytes>(gathered_.pieces).first(count);
  if (const Status written = file.sink->write_run(gathered_.from, pieces); !written) {
    return std::unexpected(failure(&file, written.error()));
  }
  BlockDigests& digests = file.arriving->digests;
  const std::uint64_t before = digests.memory_bytes();
  digests.written(file.arriving->slots, gathered_.from, pieces, *file.sink);
  budget_.memory.give_back(before - digests.memory_bytes());
  return {};
}

void Assembly::land_in_list(List& list, const AduName& adu) {
  const std::uint64_t before = list.slots.received();
  mark(list.slots, first_slot(adu), last_slot(adu));
  list.landed_bytes += (list.slots.received() - before) * head_.adu_bytes;
}

std::expected<void, Failure> Assembly::manifest_whole() {
  if (digest_of(manifest_.bytes) != head_.manifest_digest) {
    return failed(ExitCode::digest_mismatch, "the list of files arrived damaged");
  }
  // The list is as long as its files announce, so this follows what arrived.
  if (!budget_.memory.take(head_.files * entry_memory_bytes + read_back_bytes)) {
    return failed(ExitCode::refused, std::string(large_list_text));
  }
  const auto room = [this] { return budget_.memory.take(metadata_memory_bytes); };
  auto manifest = decode_whole_manifest(manifest_.bytes, head_.files, head_.total_bytes, room);
  if (!manifest && manifest.error().code == ENOMEM) {
    return failed(ExitCode::refused, std::string(large_list_text));
  }
  if (!manifest) {
    return failed(manifest.error().code == EPERM ? ExitCode::refused : ExitCode::protocol_error, manifest.error().text);
  }
  entries_ = std::move(manifest->entries);
  // Whoever copies or archives what lies here pays for holes as well.
  if (const std::uint64_t sizes = sum_of_sizes(entries_); sizes > budget_.storage.most()) {
    return too_large(sizes, budget_.storage.most());
  }
  manifest_.bytes = {};  // what they took now counts for the names
  early_adus_.close();
  if (const Update& update = head_.update; is_stream() && (update.leaves_alone() || update.told)) {
    return failed(ExitCode::protocol_error, "a stream is not compared with what is there");
  }
  const auto numbered = std::ranges::count_if(entries_, &FileEntry::numbered);
  if (!budget_.memory.take(static_cast<std::uint64_t>(numbered) * file_memory_bytes)) {
    return failed(ExitCode::refused, std::string(large_list_text));
  }
  auto deletion = destination_.deletion(manifest->deletion);
  if (!deletion) {
    return failed(ExitCode::refused, deletion.error().text);
  }
  deletion_ = *std::move(deletion);
  if (const auto opened = head_.update.told ? open_survey() : open_sink(); !opened) {
    return opened;
  }
  files_.reserve(static_cast<std::size_t>(numbered));
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].numbered()) {
      files_.emplace_back().entry = i;
    }
  }
  pack_ = Pack(entries_);
  pack_slots_ = Slots(slot_count(pack_.size_bytes()));
  present_.resize(pack_.files());
  contents_ = Contents(entries_, pack_);
  digests_.size = is_stream() ? stream_end_bytes : files_.size() * digest_bytes;
  digests_.slots = Slots(slot_count(digests_.size));
  read_back_.resize(read_back_bytes);
  phase_ = Phase::data;
  return survey_ ? std::expected<void, Failure>() : finish_if_whole();
}

std::expected<void, Failure> Assembly::open_sink() {
  auto sink = destination_.open(head_.path, entries_);
  if (!sink) {
    return failed(ExitCode::refused, sink.error().text);
  }
  sink_ = std::move(*sink);
  sink_->follow(head_.update);
  sink_->believe(std::exchange(compared_contents_, {}));
  if (deletion_) {
    if (const auto removes = sink_->also_remove(*deletion_); !removes) {
      return failed(ExitCode::refused, removes.error().text);
    }
  }
  return {};
}

// --- What will change ----------------------------------------------------------------------------------------------

std::expected<void, Failure> Assembly::open_survey() {
  auto survey = destination_.survey(head_.path, entries_, head_.update, deletion_);
  if (!survey) {
    return failed(ExitCode::refused, survey.error().text);
  }
  survey_ = std::move(*survey);
  return {};
}

std::expected<void, Failure> Assembly::survey(std::size_t count_max, std::vector<Change>& changes) {
  SLUICE_REQUIRE(surveying());
  const auto all = survey_->look(count_max, changes);
  if (!all) {
    return std::unexpected(failure(nullptr, all.error()));
  }
  if (*all) {
    compared_contents_ = survey_->compared();
    survey_.reset();
  }
  return {};
}

std::expected<void, Failure> Assembly::begin() {
  SLUICE_REQUIRE(phase_ == Phase::data && !survey_ && !sink_);
  if (dry_run()) {
    phase_ = Phase::finished;
    return {};
  }
  if (const auto opened = open_sink(); !opened) {
    return opened;
  }
  return finish_if_whole();
}

// --- What is whole -------------------------------------------------------------------------------------------------

std::expected<void, Failure> Assembly::file_landed(const AduName& adu) {
  File& file = files_[adu.file];
  if (is_stream()) {
    stream_landed_to_ = std::max(stream_landed_to_, adu.offset + adu.length);
    if (adu.length % head_.adu_bytes != 0) {
      if (auto ended = stream_ends(adu.offset + adu.length); !ended) {
        return ended;
      }
    }
  }
  Arriving& arriving = *file.arriving;
  // Parts of it may have landed in ADUs of another size.
  const std::uint64_t filled = marked(arriving.slots, adu);
  landed_bytes_ += adu.length - std::min<std::uint64_t>(filled * head_.adu_bytes, adu.length);
  if (auto digested = mark_written(file, first_slot(adu), last_slot(adu)); !digested || !arriving.slots.whole()) {
    return digested;
  }
  if (auto finalized = file_whole(adu.file); !finalized) {
    return finalized;
  }
  return commit_if_equal(adu.file);
}

/// REQUIRES: prepare() succeeded for these slots.
std::expected<void, Failure> Assembly::mark_written(File& file, std::uint64_t first, std::uint64_t last) {
  Arriving& arriving = *file.arriving;
  arriving.digests.landing(arriving.slots, first, last);
  mark(arriving.slots, first, last);
  // What is gathered is digested when it is written, and need not be read back.
  const bool waits = gathered_.count > 0 && &files_[gathered_.file] == &file;
  if (arriving.digests.due(arriving.slots, first, last, waits ? gathered_.from : UINT64_MAX)) {
    return digest_written(file, first, last);
  }
  return gathered_.count >= gathered_max ? write_gathered() : std::expected<void, Failure>();
}

std::expected<void, Failure> Assembly::digest_written(File& file, std::uint64_t first, std::uint64_t last) {
  if (auto written = write_gathered(); !written) {
    return written;
  }
  BlockDigests& digests = file.arriving->digests;
  const std::uint64_t before = digests.memory_bytes();
  const Status digested = digests.digest(file.arriving->slots, first, last, *file.sink, read_back_);
  budget_.memory.give_back(before - digests.memory_bytes());
  return digested ? std::expected<void, Failure>() : std::unexpected(failure(&file, digested.error()));
}

std::expected<void, Failure> Assembly::file_whole(std::uint32_t index) {
  File& file = files_[index];
  const std::uint64_t slots = file.arriving->slots.count();
  // Of an empty file there is nothing to read; of another one perhaps nothing any more.
  if (slots > 0) {
    if (auto digested = digest_written(file, 0, slots - 1); !digested) {
      return digested;
    }
  }
  if (auto finalized = file.sink->finalize(); !finalized) {
    return std::unexpected(failure(&file, finalized.error()));
  }
  file.digest = file.arriving->digests.finish();
  file.whole = true;
  file.arriving.reset();  // its slots are whole, so they hold no page any more
  if (file.sink->open_until_commit()) {
    waiting_.push_back(index);
  } else if (slots > 0) {
    budget_.files.give_back(1);
  }
  return {};
}

// --- Streams -------------------------------------------------------------------------------------------------------

/// Threat: a sender that announces nothing and writes without end. Of a stream each byte is taken from the budget
/// before it is written.
std::expected<void, Failure> Assembly::take_storage(const File& file, const AduName& adu) {
  if (!is_stream()) {
    return {};
  }
  const std::uint64_t filled = marked(file.arriving->slots, adu) * head_.adu_bytes;
  const std::uint64_t bytes = landed_bytes_ + adu.length - std::min<std::uint64_t>(filled, adu.length);
  const std::uint64_t more = bytes - std::min(bytes, budget_.storage.used());
  auto refused = ftx::take_storage(budget_.storage, bytes, more);
  return refused ? std::unexpected(*std::move(refused)) : std::expected<void, Failure>();
}

/// Threat: a sender that says twice where the stream ends, or has sent what lies behind.
std::expected<void, Failure> Assembly::stream_ends(std::uint64_t size_bytes) {
  if (size_bytes < stream_landed_to_ || stream_end_.value_or(size_bytes) != size_bytes) {
    return failed(ExitCode::protocol_error, "the sender contradicts itself on where the stream ends");
  }
  if (Arriving* const arriving = files_.front().arriving.get(); arriving != nullptr && !stream_end_) {
    const auto memory = [arriving] { return arriving->slots.memory_bytes() + arriving->digests.memory_bytes(); };
    const std::uint64_t before = memory();
    arriving->slots.end_at(slot_count(size_bytes));
    arriving->digests.end_at(size_bytes);
    budget_.memory.give_back(before - memory());
  }
  stream_end_ = size_bytes;
  return {};
}

std::expected<void, Failure> Assembly::stream_end_landed() {
  if (!digests_.slots.whole()) {
    return {};
  }
  const auto end = parse_stream_end(digests_.bytes);
  if (!end) {
    return failed(ExitCode::protocol_error, "the stream is larger than a file may be");
  }
  if (auto ended = stream_ends(end->size_bytes); !ended) {
    return ended;
  }
  File& file = files_.front();
  if (end->size_bytes == 0 && !file.arriving && !file.whole) {  // no ADU of its own will come; open for a moment only
    if (auto opened = open_file(file); !opened) {
      return opened;
    }
  }
  if (file.arriving && file.arriving->slots.whole()) {
    if (auto finalized = file_whole(0); !finalized) {
      return finalized;
    }
  }
  return commit_if_equal(0);
}

// --- Digests -------------------------------------------------------------------------------------------------------

std::expected<void, Failure> Assembly::digests_landed(const AduName& adu) {
  if (is_stream()) {
    return stream_end_landed();
  }
  const auto first = static_cast<std::uint32_t>(adu.offset / digest_bytes);
  const auto last = static_cast<std::uint32_t>((adu.offset + adu.length) / digest_bytes);
  for (std::uint32_t index = first; index < last; ++index) {
    File& file = files_[index];
    if (entry_of(file).content_bytes() == 0 && !file.whole) {  // no ADU of its own will come; open for a moment only
      if (auto opened = open_file(file); !opened) {
        return opened;
      }
      if (auto finalized = file_whole(index); !finalized) {
        return finalized;
      }
    }
    if (auto committed = commit_if_equal(index); !committed) {
      return committed;
    }
  }
  return {};
}

bool Assembly::digest_is_there(std::uint32_t index) const {
  return is_stream() ? digests_.slots.whole()
                     : digests_.slots.marked(std::size_t{index} * digest_bytes / head_.adu_bytes);
}

std::expected<void, Failure> Assembly::commit_if_equal(std::uint32_t index) {
  File& file = files_[index];
  const std::size_t at = std::size_t{index} * digest_bytes;
  if (!file.whole || !file.sink || !digest_is_there(index)) {
    return {};
  }
  if (!std::equal(file.digest.begin(), file.digest.end(), digests_.bytes.begin() + static_cast<std::ptrdiff_t>(at))) {
    // What an earlier transfer has left may be of another state of the source: the next one begins anew.
    file.sink->discard();
    return failed(ExitCode::digest_mismatch, "'" + entry_of(file).name + "' as written differs from its source");
  }
  const bool open = file.sink->open_until_commit();
  if (auto committed = file.sink->commit(); !committed) {
    return std::unexpected(failure(&file, committed.error()));
  }
  if (open) {
    std::erase(waiting_, index);
    budget_.files.give_back(1);
  }
  file.sink.reset();
  ++committed_;
  return finish_if_whole();
}

std::expected<void, Failure> Assembly::finish_if_whole() {
  if (committed_ < files_.size() || stored_ < pack_.files()) {
    return {};
  }
  if (auto finished = sink_->finish(); !finished) {
    return std::unexpected(failure(nullptr, finished.error()));
  }
  phase_ = Phase::finished;
  return {};
}

Failure Assembly::landing_failed(const AduName& adu, const Error& error) { return failure(&files_[adu.file], error); }

Failure Assembly::failure(File* file, const Error& error) const {
  if (error.code == ECANCELED) {
    return {ExitCode::refused, error.text};
  }
  if (!is_full(error.code)) {
    return {ExitCode::write_failed, error.text};
  }
  std::string text = error.text;
  // Of a stream nothing is of use: its source is gone.
  if (file != nullptr && file->sink && !is_stream()) {
    text += "; what arrived is kept as '" + file->sink->keep() + "'";
  }
  return {ExitCode::disk_full, text};
}

}  // namespace sluice::ftx
