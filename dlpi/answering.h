// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which stream of a link answers for which address (stack/wire/answering.h). Of those that have an address it is the
// first one without a filter, since that one gets what nobody else claims; where all have filters, the first. So there
// is one as long as any stream has the address, and never two.
//
// Cost: of a change, what the stream at hand has, however many others there are; but where an address gets another who
// answers, or is shared or no longer, what all have of it.
//
// Bounded: addresses_max a stream; what is beyond is answered by each stream that has it. Streams are borrowed: one
// that leaves the link must be forgotten. Threads: one stream set, one thread.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stack/wire/address.h"
#include "stack/wire/answering.h"

namespace sluice::dlpi {

class LinkStream;
struct Subscription;

class Answering {
 public:
  static constexpr std::size_t addresses_max = 128;

  struct Change {
    LinkStream* stream = nullptr;
    wire::dlpi::AnswerInd told;
  };

  /// A stream has been attached, after those before.
  void add(LinkStream& stream);
  void forget(LinkStream& stream);
  /// It wants that from now on. REQUIRES: it was added, as for set().
  void renew(LinkStream& stream, const Subscription& wanted);
  /// It has an address, or has it no longer. False where there is no room.
  bool set(LinkStream& stream, const wire::dlpi::AddressReq& request);
  /// What a stream does not know yet; it counts as told from now on. Nothing where all is known.
  [[nodiscard]] std::optional<Change> next();
  /// It could not be told, and is due again.
  void not_told(const Change& change);
  /// The addresses of all streams that are bound to IP, groups aside, in any order; none where one of them has told
  /// no address, or more than there is room for.
  [[nodiscard]] std::optional<std::vector<wire::IpAddress>> hosts() const;

 private:
  /// Whether and how a stream is bound to the SAP of one IP version; what answers sooner is less.
  enum class Kind : std::uint8_t { without_filter, with_filter, unbound };
  struct Rank {
    Kind kind = Kind::unbound;
    std::uint64_t serial = 0;  // in the order of attachment

    friend auto operator<=>(const Rank&, const Rank&) = default;
  };
  struct Binding {
    Kind v4 = Kind::unbound;
    Kind v6 = Kind::unbound;

    [[nodiscard]] bool is_bound() const { return v4 != Kind::unbound || v6 != Kind::unbound; }
    friend bool operator==(const Binding&, const Binding&) = default;
  };
  struct Member {
    std::uint64_t serial = 0;
    Binding binding;
    std::vector<wire::IpAddress> addresses;

    /// It may get packets to addresses that are not known.
    [[nodiscard]] bool is_open() const {
      return binding.is_bound() && (addresses.empty() || addresses.size() == addresses_max);
    }
  };
  struct Claim {
    LinkStream* stream = nullptr;
    std::optional<wire::dlpi::AnswerInd> told;  // nothing: it could not be
  };
  struct Host {
    std::map<Rank, Claim> claims;
    std::size_t sharing = 0;  // of the claims; who has a group is a member, with a filter or without
    std::size_t bound = 0;    // of the claims: to IP, whichever version
  };
  /// What all claims to an address depend on.
  struct Decision {
    LinkStream* answers = nullptr;  // none: each, since none gets a question
    std::size_t sharing = 0;        // 2: or more
  };

  [[nodiscard]] static Rank rank_at(const wire::IpAddress& address, const Binding& binding, std::uint64_t serial) {
    return {address.is_v4() ? binding.v4 : binding.v6, serial};
  }
  [[nodiscard]] static bool shares(const wire::IpAddress& address, const Rank& rank) {
    return rank.kind == Kind::with_filter || (rank.kind == Kind::without_filter && address.is_multicast());
  }
  [[nodiscard]] static Decision decision_of(const Host& host);
  /// The stream of `member` claims `address` as `to` says, and no longer as `from` says; nothing: not at all.
  void change_claim(const wire::IpAddress& address, LinkStream& stream, const Member& member,
                    const std::optional<Binding>& from, const std::optional<Binding>& to);
  /// Those are due for whom a decision is another than it was.
  void compare(const wire::IpAddress& address, const Host& host, const Decision& before);
  /// Null where it has none (any more).
  [[nodiscard]] Claim* find_claim(const wire::IpAddress& address, const LinkStream* stream);

  std::unordered_map<const LinkStream*, Member> members_;
  std::unordered_map<wire::IpAddress, Host> hosts_;
  std::size_t open_ = 0;  // members that are
  std::uint64_t serial_ = 0;
  std::deque<std::pair<wire::IpAddress, const LinkStream*>> due_;  // may know already, or have left
};

}  // namespace sluice::dlpi
