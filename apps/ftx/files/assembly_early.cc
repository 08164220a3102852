// SPDX-License-Identifier: Apache-2.0
// What comes of files before they may land.
#include <algorithm>
#include <utility>

#include "apps/ftx/files/assembly.h"

namespace sluice::ftx {

/// Looks whether anything of the tree can be there, once. What takes a receiver time before it accepts is not accepted
/// early, nor what it will not make.
///
/// Threat: the list is not verified yet. What first_entry() names of it is one component, and decides nothing but when
/// the sender begins.
void Assembly::accept_early(std::size_t front_bytes) {
  const Update& update = head_.update;
  const bool waits = update.told || update.delta || update.compare == Update::Compare::digest;
  if (!head_.early || waits || update.existing || std::exchange(early_asked_, true)) {
    return;
  }
  const auto first = first_entry(ConstBytes(manifest_.bytes).first(front_bytes));
  early_ = first && first->kind == EntryKind::directory && destination_.nothing_there(head_.path, *first);
}

/// Signatures come before the sender has been told that files may.
bool Assembly::waits(const AduName& adu) const {
  return phase_ == Phase::manifest || (holding_ && adu.file != signature_file);
}

void Assembly::release() {
  holding_ = false;
  early_adus_.close();
}

/// Threat: a sender that sends what has no place, or in a dry run.
Placement Assembly::place_early(const AduName& adu) {
  if (dry_run() || adu.file == signature_file || adu.offset % head_.adu_bytes != 0) {
    return {};
  }
  const Bytes memory = early_adus_.place(adu.length);
  return memory.empty() ? Placement{.kind = Placement::Kind::no_room}
                        : Placement{.kind = Placement::Kind::memory, .memory = memory};
}

std::expected<Assembly::Landed, Failure> Assembly::land_early(std::uint64_t bytes) {
  SLUICE_REQUIRE(early_waits());
  Landed landed = Landed::nothing;
  for (std::uint64_t done = 0; done < bytes && early_waits();) {
    const EarlyAdus::One& one = early_adus_.front();
    done += one.bytes.size();
    const auto has = land_early(one);
    if (!has) {
      return std::unexpected(has.error());
    }
    if (!*has) {
      break;
    }
    const bool ends = landed == Landed::with_the_end || ends_data(one.name);
    landed = ends ? Landed::with_the_end : Landed::some;
    early_adus_.pop();
  }
  return landed;
}

/// False: there is no room for it now, and it will not come again.
///
/// Threat: a sender that has sent what is in no file of its list. It counts as received, so nobody repairs it.
std::expected<bool, Failure> Assembly::land_early(const EarlyAdus::One& one) {
  const auto place = this->place(one.name);
  if (!place) {
    return std::unexpected(place.error());
  }
  Status written;
  switch (place->kind) {
    case Placement::Kind::memory:
      std::copy(one.bytes.begin(), one.bytes.end(), place->memory.begin());
      written = place->file != nullptr ? place->file->placed(place->offset, place->memory) : written;
      break;
    case Placement::Kind::file:
      written = place->file->write(place->offset, one.bytes);
      break;
    case Placement::Kind::duplicate:
      return true;
    case Placement::Kind::no_room:
      return false;
    case Placement::Kind::misplaced:
      return std::unexpected(Failure{ExitCode::protocol_error, "the sender has sent what is in no file of its list"});
  }
  if (!written) {
    return std::unexpected(landing_failed(one.name, written.error()));
  }
  const auto landed = this->landed(one.name);
  return landed ? std::expected<bool, Failure>(true) : std::unexpected(landed.error());
}

}  // namespace sluice::ftx
