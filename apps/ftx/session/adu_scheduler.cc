// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/adu_scheduler.h"

#include <algorithm>
#include <cerrno>

#include "base/contract.h"

namespace sluice::ftx {

AduScheduler::AduScheduler(Source& source, std::uint32_t adu_bytes)
    : source_(source),
      pack_(source.files()),
      pack_reader_(source, pack_),
      adu_bytes_(adu_bytes),
      manifest_(encode_manifest(source.files())) {
  const std::vector<FileEntry>& entries = source.files();
  SLUICE_REQUIRE(!entries.empty() && adu_bytes >= adu_bytes_min && adu_bytes % adu_bytes_unit == 0);
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    total_bytes_ += entries[i].size_bytes;
    if (entries[i].kind == EntryKind::file) {
      numbered_.push_back(i);
    }
  }
  file_ = pack_.files() > 0 ? pack_file : 0;
  ahead_.resize(std::max<std::size_t>(read_ahead_bytes / adu_bytes, 1) * adu_bytes);
  digests_.reserve(numbered_.size() * digest_bytes);
  repair_.resize(adu_bytes);
}

void AduScheduler::set_adu_bytes(std::uint32_t adu_bytes) {
  SLUICE_REQUIRE(adu_bytes > 0 && adu_bytes % adu_bytes_unit == 0 && adu_bytes <= repair_.size());
  adu_bytes_ = adu_bytes;
}

void AduScheduler::release() {
  source_.release();
  repair_used_ = false;
}

bool AduScheduler::drained() const {
  if (manifest_sent_ < manifest_.size()) {
    return false;
  }
  const bool pack_sent = file_ != pack_file || offset_ == pack_.size_bytes();
  return !accepted_ || (pack_sent && digests_sent_ == numbered_.size() * digest_bytes);
}

std::expected<std::optional<AduScheduler::Adu>, Failure> AduScheduler::next() {
  if (auto good = intact(); !good) {
    return std::unexpected(good.error());
  }
  if (auto adu = next_of_list(manifest_file, manifest_, manifest_.size(), manifest_sent_)) {
    return adu;
  }
  if (!accepted_) {
    return std::nullopt;
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
  return file == pack_file ? pack_.size_bytes() : source_.files()[numbered_[file]].size_bytes;
}

std::expected<std::optional<AduScheduler::Adu>, Failure> AduScheduler::next_of_files() {
  while (file_ != numbered_.size() && offset_ == size_of(file_)) {
    if (auto finished = finish_file(); !finished) {
      return std::unexpected(finished.error());
    }
  }
  if (file_ == numbered_.size()) {
    return std::nullopt;
  }
  const auto length = static_cast<std::uint32_t>(std::min<std::uint64_t>(adu_bytes_, size_of(file_) - offset_));
  const auto payload = next_payload(length);
  if (!payload) {
    return std::unexpected(payload.error());
  }
  const Adu adu{{file_, static_cast<std::uint32_t>(payload->size()), offset_}, *payload};
  const std::uint64_t end = offset_ + payload->size();
  sent_bytes_ += file_ == pack_file ? pack_.content_before(end) - pack_.content_before(offset_) : payload->size();
  offset_ = end;
  ++sent_adu_count_;
  return adu;
}

/// Up to `length_max` bytes at offset_, digested. Less where a read ends, if the size of ADUs changed since.
std::expected<ConstBytes, Failure> AduScheduler::next_payload(std::uint32_t length_max) {
  if (offset_ >= ahead_from_ + ahead_size_) {
    const auto view = file_ == pack_file ? fail(ENOTSUP) : source_.view(numbered_[file_], offset_, length_max);
    if (view) {
      // The digest brings the bytes into the cache for the pass that follows, and accesses every page.
      digester_.update(*view);
      if (auto good = intact(); !good) {
        return std::unexpected(good.error());
      }
      return *view;
    }
    if (view.error().code != ENOTSUP) {
      return std::unexpected(failure(numbered_[file_], view.error()));
    }
    if (auto read = read_ahead(); !read) {
      return std::unexpected(read.error());
    }
  }
  const std::size_t at = offset_ - ahead_from_;
  return ConstBytes(ahead_).subspan(at, std::min<std::size_t>(length_max, ahead_size_ - at));
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
  ahead_size_ = static_cast<std::size_t>(std::min<std::uint64_t>(whole, size_of(file_) - offset_));
  const Bytes part = Bytes(ahead_).first(ahead_size_);
  if (file_ == pack_file) {
    return read_pack(offset_, part);
  }
  if (auto status = source_.read(numbered_[file_], offset_, part); !status) {
    return std::unexpected(failure(numbered_[file_], status.error()));
  }
  digester_.update(part);
  return {};
}

std::expected<void, Failure> AduScheduler::read_pack(std::uint64_t offset, Bytes out) {
  const auto read = pack_reader_.read(offset, out);
  return read ? std::expected<void, Failure>() : std::unexpected(failure(read.error().index, read.error().error));
}

/// Sends the digest only if the file is still the one that was offered: the digest then covers one state of it.
std::expected<void, Failure> AduScheduler::finish_file() {
  if (file_ == pack_file) {
    file_ = 0;
  } else {
    if (auto status = source_.unchanged(numbered_[file_]); !status) {
      return std::unexpected(failure(numbered_[file_], status.error()));
    }
    const Digest digest = digester_.value();
    digests_.insert(digests_.end(), digest.begin(), digest.end());
    digester_.reset();
    ++file_;
  }
  offset_ = ahead_from_ = 0;
  ahead_size_ = 0;
  return {};
}

std::expected<AduScheduler::Adu, Failure> AduScheduler::retransmit(const AduName& name) {
  if (auto good = intact(); !good) {
    return std::unexpected(good.error());
  }
  if (name.file == manifest_file) {
    return Adu{name, ConstBytes(manifest_).subspan(name.offset, name.length)};
  }
  if (name.file == digest_file) {
    return Adu{name, ConstBytes(digests_).subspan(name.offset, name.length)};
  }
  const Bytes part = Bytes(repair_).first(name.length);
  if (name.file == pack_file) {
    if (auto read = read_pack(name.offset, part); !read) {
      return std::unexpected(read.error());
    }
    repair_used_ = true;
    return Adu{name, part};
  }
  const std::uint32_t entry = numbered_[name.file];
  ConstBytes payload;
  if (const auto view = source_.view(entry, name.offset, name.length); view) {
    payload = *view;
  } else if (view.error().code == ENOTSUP) {
    if (auto status = source_.read(entry, name.offset, part); !status) {
      return std::unexpected(failure(entry, status.error()));
    }
    repair_used_ = true;
    payload = part;
  } else {
    return std::unexpected(failure(entry, view.error()));
  }
  // A retransmission must come from the same state of the file as the digest.
  if (auto status = source_.unchanged(entry); !status) {
    return std::unexpected(failure(entry, status.error()));
  }
  return Adu{name, payload};
}

Failure AduScheduler::failure(std::uint32_t entry, const Error& error) const {
  const ExitCode code = error.code == ESTALE ? ExitCode::source_changed : ExitCode::source_unreadable;
  return {code, "source '" + source_.path(entry) + "': " + error.text};
}

}  // namespace sluice::ftx
