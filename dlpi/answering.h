// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which stream of a link answers for which address (stack/wire/answering.h). Of those that have an address it is the
// first one without a filter, since that one gets what nobody else claims; where all have filters, the first. So there
// is one as long as any stream has the address, and never two.
//
// Bounded: addresses_max a stream; what is beyond is answered by each stream that has it. Streams are borrowed: one
// that leaves the link must be forgotten. Threads: one stream set, one thread.

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "stack/wire/address.h"
#include "stack/wire/answering.h"

namespace sluice::dlpi {

class LinkStream;

class Answering {
 public:
  static constexpr std::size_t addresses_max = 128;

  struct Change {
    LinkStream* stream = nullptr;
    wire::dlpi::AnswerInd told;
  };

  /// False where there is no room.
  bool set(LinkStream& stream, const wire::dlpi::AddressReq& request);
  void forget(const LinkStream& stream);
  /// Assigns anew: what streams are to be told. `streams`: those of the link, in the order of attachment.
  [[nodiscard]] std::vector<Change> assign(std::span<LinkStream* const> streams) const;
  /// The addresses of all streams that are bound to IP, groups aside, in any order; none where one of them has told
  /// no address, or more than there is room for.
  [[nodiscard]] std::optional<std::vector<wire::IpAddress>> hosts(std::span<LinkStream* const> streams) const;
  /// A stream has been told; one that was not, for want of memory, is told next time.
  void told(const Change& change);

 private:
  struct Entry {
    LinkStream* stream = nullptr;
    wire::dlpi::AnswerInd told;
  };

  std::vector<Entry> entries_;  // of one stream together, in no order among streams
};

}  // namespace sluice::dlpi
