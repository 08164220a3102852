// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/adu_scheduler.h"

#include <algorithm>
#include <cerrno>

#include "apps/ftx/files/block_signature.h"
#include "apps/ftx/protocol/stream_end.h"
#include "apps/ftx/session/endpoint.h"
#include "base/contract.h"

namespace sluice::ftx {
namespace {

/// Ranges of the contents that are there: beside one between two files, those of this many partial files.
constexpr std::size_t partial_ranges_max = 1U << 16;

/// How much of the manifest is encoded at once, where ADUs are no longer than that.
constexpr std::size_t manifest_ahead_bytes = 256 * 1024;

}  // namespace

AduScheduler::AduScheduler(Source& source, std::uint32_t adu_bytes, AduCompressor* compressor)
    : source_(source),
      compressor_(compressor),
      pack_(source.files()),
      pack_reader_(source, pack_),
      contents_(source.files(), pack_),
      present_(contents_.size_bytes(), source.files().size() + partial_ranges_max),
      adu_bytes_max_(adu_bytes),
      adu_bytes_(adu_bytes),
      slot_bytes_(adu_bytes),
      manifest_(source.files(), source.deletion()) {
  const std::vector<FileEntry>& entries = source.files();
  SLUICE_REQUIRE(!entries.empty() && adu_bytes >= adu_bytes_min && adu_bytes % adu_bytes_unit == 0);
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    total_bytes_ += entries[i].content_bytes();
    if (entries[i].numbered()) {
      numbered_.push_back(i);
    }
  }
  file_ = pack_.files() > 0 ? pack_file : 0;
  ahead_.resize(std::max<std::size_t>(read_ahead_bytes / adu_bytes, 1) * adu_bytes);
  digests_.reserve(digest_list_bytes());
  delivered_ = Slots(streams() ? file_content_max / adu_bytes_unit : 0);
  repair_.resize(compressor_ != nullptr ? std::max(adu_bytes, compressed_adu_bytes_max) : adu_bytes);
}

void AduScheduler::set_adu_bytes(std::uint32_t adu_bytes) {
  SLUICE_REQUIRE(adu_bytes > 0 && adu_bytes % adu_bytes_unit == 0 && adu_bytes <= adu_bytes_max_);
  adu_bytes_ = adu_bytes;
}

void AduScheduler::release() {
  source_.release();
  viewed_ = {};
  if (compressor_ != nullptr) {
    compressor_->release();
  }
  repair_used_ = false;
  ahead_used_ = false;
  manifest_used_ = false;
  if (streams()) {
    source_.stream_delivered(std::min(delivered_.prefix() * adu_bytes_unit, stream_to_));
  }
}

bool AduScheduler::drained() const {
  return files_may_go() ? all_sent() : manifest_sent() && signatures_sent_ == signed_.bytes();
}

bool AduScheduler::all_sent() const {
  const bool pack_sent = file_ != pack_file || offset_ == pack_.size_bytes();
  return manifest_sent() && pack_sent && digests_sent_ == digest_list_bytes();
}

std::uint64_t AduScheduler::digest_list_bytes() const {
  return streams() ? stream_end_bytes : numbered_.size() * digest_bytes;
}

std::size_t AduScheduler::files_sent() const {
  if (file_ != pack_file) {
    return pack_.files() + file_;
  }
  return offset_ < pack_.size_bytes() ? pack_.at(offset_) : pack_.files();
}

const FileEntry* AduScheduler::next_sent() {
  const std::size_t end = files_sent();
  while (told_ < end) {
    const std::size_t index = told_++;
    if (!present_.any() || !present_.covers(contents_.file(index))) {
      return &source_.files()[index < pack_.files() ? pack_[index].entry : numbered_[index - pack_.files()]];
    }
  }
  return nullptr;
}

std::expected<std::optional<AduScheduler::Adu>, Failure> AduScheduler::next() {
  if (auto good = intact(); !good) {
    return std::unexpected(good.error());
  }
  if (!manifest_sent()) {
    return next_of_manifest();
  }
  if (!files_may_go()) {
    return next_of_signatures();
  }
  // Digests go out as full ADUs between the files, and the rest after the last file.
  const bool all_read = file_ == numbered_.size();
  const std::uint64_t ready = all_read ? digests_.size() : digests_.size() / adu_bytes_ * adu_bytes_;
  if (auto adu = next_of_list(digest_file, digests_, ready, digests_sent_)) {
    return adu;
  }
  if (all_read) {
    return std::nullopt;
  }
  auto adu = next_of_files();
  if (!adu || *adu) {
    return adu;
  }
  return next_of_list(digest_file, digests_, digests_.size(), digests_sent_);
}

/// From what is encoded; else it encodes a number of whole ADUs, so that none spans two parts.
AduScheduler::Adu AduScheduler::next_of_manifest() {
  const std::uint64_t length = manifest_adu_bytes();
  if (manifest_sent_ + length > manifest_ahead_from_ + manifest_ahead_.size()) {
    const std::uint64_t whole = std::max<std::uint64_t>(manifest_ahead_bytes / adu_bytes_, 1) * adu_bytes_;
    manifest_ahead_from_ = manifest_sent_;
    manifest_ahead_.resize(std::min(whole, manifest_.size_bytes() - manifest_sent_));
    manifest_.read(manifest_ahead_from_, manifest_ahead_);
  }
  manifest_used_ = true;
  const Adu adu{{manifest_file, static_cast<std::uint32_t>(length), manifest_sent_},
                ConstBytes(manifest_ahead_).subspan(manifest_sent_ - manifest_ahead_from_, length)};
  manifest_sent_ += length;
  return adu;
}

// --- Signatures ----------------------------------------------------------------------------------------------------

bool AduScheduler::sign(std::span<const std::uint32_t> numbers) {
  if (!signed_.all().empty()) {
    return std::ranges::equal(numbers, signed_.all(), {}, {}, &SignedFiles::One::number);
  }
  if (accepted_ || manifest_sent_ < manifest_.size_bytes() || numbers.back() >= numbered_.size()) {
    return false;
  }
  SignedFiles files;
  for (const std::uint32_t number : numbers) {
    files.add(number, size_of(number));
  }
  if (files.bytes() > signatures_bytes_max) {
    return false;
  }
  signed_ = std::move(files);
  return true;
}

std::expected<std::optional<AduScheduler::Adu>, Failure> AduScheduler::next_of_signatures() {
  if (auto made = sign_some(signatures_sent_ + adu_bytes_); !made) {
    return std::unexpected(made.error());
  }
  const bool all = signatures_.size() == signed_.bytes();
  const std::uint64_t ready = all ? signatures_.size() : signatures_.size() / adu_bytes_ * adu_bytes_;
  return next_of_list(signature_file, signatures_, ready, signatures_sent_);
}

/// Makes signatures up to `end`, or as far as a turn goes. So large a file is read a part each turn.
std::expected<void, Failure> AduScheduler::sign_some(std::uint64_t end) {
  std::vector<std::byte> block;
  for (std::uint64_t read = 0; read < digest_turn_bytes && signatures_.size() < std::min(end, signed_.bytes());) {
    const SignedFiles::One& one = signed_.all()[signing_];
    const std::uint64_t done = signatures_.size() - one.signature.from;
    if (signatures_.size() == one.signature.to) {
      ++signing_;
      continue;
    }
    block.resize(signature_block_bytes(one.content_bytes));
    const std::uint64_t offset = done / block_signature_bytes * block.size();
    if (auto status = source_.read(numbered_[one.number], offset, block); !status) {
      return std::unexpected(failure(numbered_[one.number], status.error()));
    }
    read += block.size();
    signatures_.resize(signatures_.size() + block_signature_bytes);
    sign_block(block, Bytes(signatures_).last(block_signature_bytes));
  }
  return {};
}

std::optional<AduScheduler::Adu> AduScheduler::next_of_list(std::uint32_t file, ConstBytes list, std::uint64_t ready,
                                                            std::uint64_t& given) const {
  if (given >= ready) {
    return std::nullopt;
  }
  const std::uint64_t length = std::min<std::uint64_t>(adu_bytes_, ready - given);
  const Adu adu{{file, static_cast<std::uint32_t>(length), given}, list.subspan(given, length)};
  given += length;
  return adu;
}

std::uint64_t AduScheduler::size_of(std::uint32_t file) const {
  if (file == pack_file) {
    return pack_.size_bytes();
  }
  return streams() ? stream_to_ : source_.files()[numbered_[file]].content_bytes();
}

// --- What is there already -----------------------------------------------------------------------------------------

/// Where the file that is being read begins in the contents.
std::uint64_t AduScheduler::base() const {
  if (file_ == pack_file || streams()) {  // nothing of a stream is there already, so it has no place
    return 0;
  }
  return file_ == numbered_.size() ? contents_.size_bytes() : contents_.numbered(file_).from;
}

std::uint64_t AduScheduler::place() const { return base() + offset_; }

bool AduScheduler::take(const Have& have) {
  const std::uint64_t sent_to = place();
  const bool taken = present_.take(have, [&](const ByteRange& range) {
    const Contents::Amount amount = contents_.in(range);
    skipped_.files += amount.files;
    skipped_.bytes += amount.bytes;
    if (range.from < sent_to) {
      wasted_bytes_ += contents_.in({range.from, std::min(range.to, sent_to)}).bytes;
    }
  });
  skip_present();
  return taken;
}

/// Goes to what is to be sent or read next, so that full() speaks of that.
void AduScheduler::skip_present() {
  if (!present_.any()) {
    return;
  }
  if (file_ == pack_file) {
    const std::uint64_t to = present_to();
    if (to == pack_.size_bytes() && to > offset_) {
      go_to(0);
    } else {
      offset_ = to;
    }
  }
  if (file_ < numbered_.size()) {
    // With its digest, all of it is there; and so are perhaps files behind it.
    const std::size_t next = contents_.first_behind(present_.end_at(place())) - contents_.packed();
    if (next > file_) {
      digests_.resize(next * digest_bytes);
      go_to(static_cast<std::uint32_t>(next));
    }
  }
  skip_digests();
}

/// Of digests of files that are there: whole slots of them.
void AduScheduler::skip_digests() {
  const std::size_t first = digests_sent_ / digest_bytes;
  if (first >= numbered_.size()) {
    return;
  }
  const std::uint64_t from = contents_.numbered(static_cast<std::uint32_t>(first)).from;
  const std::size_t next = contents_.first_behind(present_.end_at(from)) - contents_.packed();
  const std::uint64_t to = next * digest_bytes;
  digests_sent_ = std::max(digests_sent_, next == numbered_.size() ? to : to / slot_bytes_ * slot_bytes_);
}

/// Up to where what is being read is there, from offset_ on, in whole slots.
std::uint64_t AduScheduler::present_to() const {
  if (!present_.any()) {
    return offset_;
  }
  const std::uint64_t to = present_.end_at(place()) - base();
  const std::uint64_t size = size_of(file_);
  return to >= size ? size : std::max(offset_, to / slot_bytes_ * slot_bytes_);
}

/// Up to where it is not there, in whole slots.
std::uint64_t AduScheduler::absent_to() const {
  const std::uint64_t size = size_of(file_);
  if (!present_.any()) {
    return size;
  }
  const std::uint64_t present = present_.next_behind(place());
  if (present >= base() + size) {
    return size;
  }
  return std::min(size, (present - base() + slot_bytes_ - 1) / slot_bytes_ * slot_bytes_);
}

/// Of files, without digests.
std::uint64_t AduScheduler::absent_bytes(const ByteRange& range) const {
  std::uint64_t bytes = 0;
  for (std::uint64_t at = range.from; at < range.to;) {
    at = std::min(present_.end_at(at), range.to);
    const std::uint64_t to = std::min(present_.next_behind(at), range.to);
    bytes += contents_.in({at, to}).bytes;
    at = to;
  }
  return bytes;
}

bool AduScheduler::present(const AduName& name) const {
  if (name.file == signature_file) {
    return accepted_;  // it needs them no more
  }
  if (name.file == manifest_file || !present_.any()) {
    return false;
  }
  if (name.file == digest_file) {
    const auto first = static_cast<std::uint32_t>(name.offset / digest_bytes);
    const auto last = static_cast<std::uint32_t>((name.offset + name.length - 1) / digest_bytes);
    return present_.covers({contents_.numbered(first).from, contents_.numbered(last).to});
  }
  const std::uint64_t from = name.offset + (name.file == pack_file ? 0 : contents_.numbered(name.file).from);
  return present_.covers({from, from + name.length});
}

/// Reads what is not sent, for the digest that the receiver lacks: so much at a time as one ADU might cost.
std::expected<void, Failure> AduScheduler::digest_present(std::uint64_t to) {
  viewed_ = {};
  if (offset_ < digested_to_) {
    offset_ = std::min(to, digested_to_);
    return {};
  }
  if (ahead_used_) {
    return {};
  }
  ahead_from_ = offset_;
  ahead_size_ = static_cast<std::size_t>(std::min<std::uint64_t>(ahead_.size(), to - offset_));
  const Bytes part = Bytes(ahead_).first(ahead_size_);
  if (auto status = source_.read(numbered_[file_], offset_, part); !status) {
    return std::unexpected(failure(numbered_[file_], status.error()));
  }
  digest(offset_, part);
  offset_ += ahead_size_;
  return {};
}

// --- Files ---------------------------------------------------------------------------------------------------------

std::expected<std::optional<AduScheduler::Adu>, Failure> AduScheduler::next_of_files() {
  if (auto followed = streams() ? follow_stream() : std::expected<void, Failure>(); !followed) {
    return std::unexpected(followed.error());
  }
  while (file_ != numbered_.size() && offset_ == size_of(file_) && !starved_) {
    if (auto finished = finish_file(); !finished) {
      return std::unexpected(finished.error());
    }
  }
  if (file_ == numbered_.size() || starved_) {
    return std::nullopt;
  }
  if (const std::uint64_t to = present_to(); to > offset_) {
    const auto digested = digest_present(to);
    return digested ? std::expected<std::optional<Adu>, Failure>() : std::unexpected(digested.error());
  }
  const auto fitted = next_payload(absent_to() - offset_);
  if (!fitted) {
    return std::unexpected(fitted.error());
  }
  const auto length = static_cast<std::uint32_t>(fitted->content_bytes);
  const Adu adu{{file_, length, offset_}, fitted->payload, fitted->compressed};
  const std::uint64_t end = offset_ + length;
  const std::uint64_t bytes = file_ == pack_file ? pack_.content_before(end) - pack_.content_before(offset_) : length;
  sent_bytes_ += bytes;
  wasted_bytes_ += present_.any() ? bytes - absent_bytes({place(), base() + end}) : 0;
  offset_ = end;
  ++sent_adu_count_;
  skip_present();
  return adu;
}

/// Only of a whole file that is sent as it is: there neither a list comes in between, nor what the receiver has.
AduScheduler::Run AduScheduler::run(std::uint64_t count_max) {
  const std::uint64_t digests_ready = digests_.size() / adu_bytes_ * adu_bytes_;
  const bool list_waits = manifest_sent_ < manifest_.size_bytes() || digests_sent_ < digests_ready;
  if (!accepted_ || list_waits || file_ >= numbered_.size() || streams() || present_.any() || compressor_ != nullptr ||
      source_.damaged()) {
    return {};
  }
  ConstBytes memory = viewed_;
  if (const std::uint64_t end = ahead_from_ + ahead_size_; memory.empty() && offset_ < end) {
    memory = ConstBytes(ahead_).first(ahead_size_).last(end - offset_);
  }
  const std::uint64_t count = std::min<std::uint64_t>(count_max, memory.size() / adu_bytes_);
  return {{file_, adu_bytes_, offset_}, memory.first(count * adu_bytes_)};
}

void AduScheduler::sent_of_run(std::uint64_t count) {
  const std::uint64_t bytes = count * adu_bytes_;
  viewed_ = viewed_.empty() ? viewed_ : viewed_.subspan(bytes);
  offset_ += bytes;
  sent_bytes_ += bytes;
  sent_adu_count_ += count;
}

/// What one ADU holds of the `bytes_max` at offset_, digested. Less where a read ends.
std::expected<AduCompressor::Fitted, Failure> AduScheduler::next_payload(std::uint64_t bytes_max) {
  const std::size_t wanted = std::min<std::uint64_t>(content_bytes_max(), bytes_max);
  if (!viewed_.empty()) {
    return next_viewed(wanted);
  }
  if (offset_ >= ahead_from_ + ahead_size_) {
    const std::size_t at_once = compressor_ != nullptr ? wanted : std::min(burst_bytes(), bytes_max);
    const auto view = file_ == pack_file ? fail(ENOTSUP) : source_.view(numbered_[file_], offset_, at_once);
    if (view) {
      viewed_ = *view;
      const AduCompressor::Fitted fitted = next_viewed(wanted);
      if (compressor_ != nullptr) {
        viewed_ = {};
      }
      // The digest brings the bytes into the cache for the pass that follows, and accesses every page.
      digest(offset_, view->first(fitted.content_bytes + viewed_.size()));
      if (auto good = intact(); !good) {
        return std::unexpected(good.error());
      }
      return fitted;
    }
    if (view.error().code != ENOTSUP) {
      return std::unexpected(failure(numbered_[file_], view.error()));
    }
    if (auto read = read_ahead(); !read) {
      return std::unexpected(read.error());
    }
  }
  ahead_used_ = true;
  const std::size_t at = offset_ - ahead_from_;
  return fit(ConstBytes(ahead_).subspan(at, std::min<std::size_t>(wanted, ahead_size_ - at)));
}

/// The front of what is viewed and has not been returned.
AduCompressor::Fitted AduScheduler::next_viewed(std::size_t bytes_max) {
  const AduCompressor::Fitted fitted = fit(viewed_.first(std::min(bytes_max, viewed_.size())));
  viewed_ = viewed_.subspan(fitted.content_bytes);
  return fitted;
}

/// Of the file that is being read, each byte once. REQUIRES: everything before `from` is digested.
void AduScheduler::digest(std::uint64_t from, ConstBytes bytes) {
  SLUICE_REQUIRE(from <= digested_to_);
  if (from + bytes.size() > digested_to_) {
    digester_.update(bytes.subspan(static_cast<std::size_t>(digested_to_ - from)));
    digested_to_ = from + bytes.size();
  }
}

/// What one burst holds of a file.
std::uint64_t AduScheduler::burst_bytes() const {
  return adu_bytes_ * std::clamp<std::uint64_t>(Burst::bytes_max / adu_bytes_, 1, Burst::datagrams_max);
}

/// How many bytes of a file fit() is to choose from.
std::size_t AduScheduler::content_bytes_max() {
  return compressor_ != nullptr ? compressor_->content_bytes_for(adu_bytes_) : adu_bytes_;
}

/// As much of the front of `content` as one datagram holds.
AduCompressor::Fitted AduScheduler::fit(ConstBytes content) {
  return compressor_ != nullptr ? compressor_->fit(content, adu_bytes_)
                                : AduCompressor::Fitted{content.size(), content, false};
}

std::expected<void, Failure> AduScheduler::intact() {
  if (const auto damage = source_.damaged()) {
    return std::unexpected(failure(damage->index, damage->error));
  }
  return {};
}

std::expected<void, Failure> AduScheduler::read_ahead() {
  ahead_from_ = offset_;
  // A whole number of ADUs, so that no ADU spans two reads.
  const std::size_t whole = ahead_.size() / adu_bytes_ * adu_bytes_;
  ahead_size_ = static_cast<std::size_t>(std::min<std::uint64_t>(whole, absent_to() - offset_));
  const Bytes part = Bytes(ahead_).first(ahead_size_);
  if (file_ == pack_file) {
    return read_pack(offset_, part);
  }
  if (auto status = source_.read(numbered_[file_], offset_, part); !status) {
    return std::unexpected(failure(numbered_[file_], status.error()));
  }
  digest(offset_, part);
  return {};
}

std::expected<void, Failure> AduScheduler::read_pack(std::uint64_t offset, Bytes out) {
  const auto read = pack_reader_.read(offset, out);
  return read ? std::expected<void, Failure>() : std::unexpected(failure(read.error().index, read.error().error));
}

/// Sends the digest only if the file is still the one that was offered: the digest then covers one state of it.
std::expected<void, Failure> AduScheduler::finish_file() {
  if (file_ == pack_file) {
    go_to(0);
  } else {
    if (auto status = source_.unchanged(numbered_[file_]); !status) {
      return std::unexpected(failure(numbered_[file_], status.error()));
    }
    const Digest digest = digester_.finish();
    if (streams()) {
      digests_ = encode_stream_end({digest, offset_});
      total_bytes_ = offset_;
    } else {
      digests_.insert(digests_.end(), digest.begin(), digest.end());
    }
    go_to(file_ + 1);
  }
  skip_present();
  return {};
}

// --- Streams -------------------------------------------------------------------------------------------------------

/// How far next() may go. A compressed ADU takes what it is to choose from.
std::expected<void, Failure> AduScheduler::follow_stream() {
  const std::uint64_t wanted = compressor_ != nullptr ? std::max(adu_bytes_, compressed_adu_bytes_max) : adu_bytes_;
  if (stream_ended_ || stream_to_ >= offset_ + wanted) {
    return {};
  }
  const auto state = source_.stream_state();
  if (!state) {
    return std::unexpected(failure(numbered_.front(), state.error()));
  }
  if (state->bytes > stream_bytes_max) {
    return std::unexpected(failure(numbered_.front(), {EFBIG, "larger than a file may be"}));
  }
  stream_ended_ = state->ended;
  const std::uint64_t ready = state->bytes - offset_;
  starved_ = !stream_ended_ && ready < wanted;
  stream_to_ = stream_ended_ ? state->bytes : offset_ + (starved_ ? 0 : ready / adu_bytes_ * adu_bytes_);
  return {};
}

void AduScheduler::arrived(const AduName& name) {
  if (streams() && name.file == 0) {
    delivered_.mark(name.offset / adu_bytes_unit, (name.offset + name.length - 1) / adu_bytes_unit);
  }
}

void AduScheduler::go_to(std::uint32_t file) {
  file_ = file;
  if (compressor_ != nullptr) {
    compressor_->policy().on_new_file();
  }
  offset_ = ahead_from_ = digested_to_ = 0;
  ahead_size_ = 0;
  viewed_ = {};
  digester_.reset();
}

std::expected<AduScheduler::Adu, Failure> AduScheduler::retransmit(const AduName& name) {
  if (auto good = intact(); !good) {
    return std::unexpected(good.error());
  }
  const auto piece = [&](ConstBytes list) {
    const std::uint32_t length = std::min(name.length, adu_bytes_);
    return Adu{{name.file, length, name.offset}, list.subspan(name.offset, length)};
  };
  if (name.file == manifest_file) {
    const Bytes part = Bytes(repair_).first(std::min(name.length, adu_bytes_));
    manifest_.read(name.offset, part);
    repair_used_ = true;
    return Adu{{name.file, static_cast<std::uint32_t>(part.size()), name.offset}, part};
  }
  if (name.file == digest_file) {
    return piece(digests_);
  }
  if (name.file == signature_file) {
    return piece(signatures_);
  }
  const auto content = read_again(name);
  if (!content) {
    return std::unexpected(content.error());
  }
  const AduCompressor::Fitted fitted = fit(*content);
  return Adu{
      {name.file, static_cast<std::uint32_t>(fitted.content_bytes), name.offset}, fitted.payload, fitted.compressed};
}

/// The front of an ADU of files, as much as fit() is to choose from.
std::expected<ConstBytes, Failure> AduScheduler::read_again(const AduName& name) {
  const std::size_t length = std::min<std::size_t>(name.length, content_bytes_max());
  const Bytes part = Bytes(repair_).first(length);
  if (name.file == pack_file) {
    if (auto read = read_pack(name.offset, part); !read) {
      return std::unexpected(read.error());
    }
    repair_used_ = true;
    return part;
  }
  const std::uint32_t entry = numbered_[name.file];
  ConstBytes content;
  if (const auto view = source_.view(entry, name.offset, length); view) {
    content = *view;
  } else if (view.error().code == ENOTSUP) {
    if (auto status = source_.read(entry, name.offset, part); !status) {
      return std::unexpected(failure(entry, status.error()));
    }
    repair_used_ = true;
    content = part;
  } else {
    return std::unexpected(failure(entry, view.error()));
  }
  // A retransmission must come from the same state of the file as the digest.
  if (auto status = source_.unchanged(entry); !status) {
    return std::unexpected(failure(entry, status.error()));
  }
  return content;
}

Failure AduScheduler::failure(std::uint32_t entry, const Error& error) const {
  return source_failure(source_, entry, error);
}

}  // namespace sluice::ftx
