// SPDX-License-Identifier: Apache-2.0
#include "stack/provider/options.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "stack/wire/words.h"

namespace sluice::provider {
namespace {

using namespace wire::tpi;
using namespace wire::xti;
using wire::IpAddress;

/// One option that has a value.
struct Kind {
  std::uint32_t level;
  std::uint32_t name;
  Setting setting;
  std::uint8_t size;  // of its value
  std::uint32_t least;
  std::uint32_t most;
  bool minus_one_is_initial = false;  // RFC 3493 section 5.1: "-1: use kernel default"
  bool negotiable = false;            // what is above 0 and beyond the limits becomes the nearest one
  bool read_only = false;

  [[nodiscard]] bool is_constant() const { return least == most; }
};

constexpr std::uint32_t buffer_bytes_min = 4096;
constexpr std::uint32_t buffer_bytes_max = std::uint32_t{1} << 30;

/// struct t_kpalive: kp_onoff, then kp_timeout in minutes. The kernel's seconds end at 32767.
constexpr std::uint8_t kpalive_size = 8;
constexpr std::uint32_t kpalive_minutes_max = 32767 / 60;

constexpr auto kinds = std::to_array<Kind>({
    {T_INET_IP, T_IP_TTL, Setting::ttl, 1, 1, 255},
    {T_INET_IP, T_IP_TOS, Setting::type_of_service, 1, 0, 255},
    {T_INET_IP, T_IP_BROADCAST, Setting::broadcast, 4, T_NO, T_YES},
    {T_INET_IP, T_IP_MULTICAST_TTL, Setting::multicast_ttl, 1, 0, 255},
    {T_INET_IP, T_IP_MULTICAST_LOOP, Setting::multicast_loop, 1, 0, 1},
    {T_INET_IP, T_IP_DONTFRAG, Setting::dont_fragment, 4, T_NO, T_YES},
    {T_INET_IPV6, T_IPV6_UNICAST_HOPS, Setting::hops, 4, 1, 255, true},
    {T_INET_IPV6, T_IPV6_MULTICAST_HOPS, Setting::multicast_hops, 4, 0, 255, true},
    {T_INET_IPV6, T_IPV6_MULTICAST_LOOP, Setting::multicast_loop_v6, 4, 0, 1},
    {T_INET_IPV6, T_IPV6_DONTFRAG, Setting::dont_fragment_v6, 4, 0, 1},
    {T_INET_IPV6, T_IPV6_V6ONLY, Setting::v6_only, 4, 0, 1},
    {T_INET_UDP, T_UDP_CHECKSUM, Setting::checksum, 4, T_NO, T_YES},
    {T_INET_UDP, T_UDP_RECEIVED, Setting::received, 4, T_NO, T_YES},
    {T_INET_TCP, T_TCP_NODELAY, Setting::no_delay, 4, T_NO, T_YES},
    {T_INET_TCP, T_TCP_MAXSEG, Setting::segment_bytes, 4, 0, 0xffff, false, false, true},
    {T_INET_TCP, T_TCP_KEEPALIVE, Setting::keep_alive, kpalive_size, 0, kpalive_minutes_max},
    {T_INET_TCP, T_TCP_KEEPIDLE, Setting::keep_idle, 4, 1, 32767},
    {T_INET_TCP, T_TCP_KEEPINTVL, Setting::keep_interval, 4, 1, 32767},
    {T_INET_TCP, T_TCP_KEEPCNT, Setting::keep_count, 4, 1, 127},
    {T_INET_TCP, T_TCP_MAXSEG_LIMIT, Setting::segment_limit, 4, 88, 32767},
    {XTI_GENERIC, XTI_RCVBUF, Setting::receive_buffer, 4, buffer_bytes_min, buffer_bytes_max, false, true},
    {XTI_GENERIC, XTI_SNDBUF, Setting::send_buffer, 4, buffer_bytes_min, buffer_bytes_max, false, true},
    {XTI_GENERIC, XTI_RCVLOWAT, Setting::receive_low_water, 4, 1, 1, false, true},
    {XTI_GENERIC, XTI_SNDLOWAT, Setting::send_low_water, 4, 1, 1, false, true},
});
static_assert(kinds.size() == setting_count);

constexpr std::uint32_t minus_one = 0xffff'ffff;
constexpr std::size_t mreq_size = 8;
constexpr std::size_t mreq_v6_size = 20;

/// Whether the option is a membership, which is joined or left and has no value.
std::optional<bool> joins(const Option& option) {
  const bool v4 = option.level == T_INET_IP;
  const bool v6 = option.level == T_INET_IPV6;
  if ((v4 && option.name == T_IP_ADD_MEMBERSHIP) || (v6 && option.name == T_IPV6_JOIN_GROUP)) {
    return true;
  }
  if ((v4 && option.name == T_IP_DROP_MEMBERSHIP) || (v6 && option.name == T_IPV6_LEAVE_GROUP)) {
    return false;
  }
  return std::nullopt;
}

std::optional<Membership> membership_of(const Option& option) {
  const std::byte* const at = option.value.data();
  if (option.level == T_INET_IP) {
    return option.value.size() == mreq_size
               ? std::optional(Membership{wire::Ipv4Address::load(at), wire::Ipv4Address::load(at + 4)})
               : std::nullopt;
  }
  return option.value.size() == mreq_v6_size
             ? std::optional(Membership{wire::Ipv6Address::load(at), wire::Ipv6Address{}, wire::load_word(at + 16)})
             : std::nullopt;
}

bool is_level(std::uint32_t level) {
  return level == T_INET_IP || level == T_INET_IPV6 || level == T_INET_UDP || level == T_INET_TCP ||
         level == XTI_GENERIC;
}

/// A scalar in one byte or in four.
std::optional<std::uint32_t> scalar(ConstBytes value) {
  if (value.size() == wire::word_size) {
    return wire::load_word(value.data());
  }
  return value.size() == 1 ? std::optional(std::to_integer<std::uint32_t>(value[0])) : std::nullopt;
}

/// "the rating is done according to the order T_NOTSUPPORT, T_READONLY, T_FAILURE, T_PARTSUCCESS, T_SUCCESS. The value
/// T_NOTSUPPORT is the worst result and T_SUCCESS is the best." (t_optmgmt())
int rank(std::int32_t status) {
  constexpr std::array order{T_SUCCESS, T_PARTSUCCESS, T_FAILURE, T_READONLY, T_NOTSUPPORT};
  return static_cast<int>(std::ranges::find(order, status) - order.begin());
}

/// Of a t_kpalive: the minutes, 0 where it is off. "On" without minutes, or with the garbage byte that XTI allows to be
/// sent (T_GARBAGE), is nothing that there is.
std::optional<std::uint32_t> keep_alive(ConstBytes value) {
  if (value.size() != kpalive_size) {
    return std::nullopt;
  }
  const std::uint32_t on = wire::load_word(value.data());
  const std::uint32_t minutes = wire::load_word(value.data() + wire::word_size);
  const bool known = on == T_NO || (on == T_YES && minutes > 0);
  return known ? std::optional(on == T_NO ? 0 : minutes) : std::nullopt;
}

class Manager {
 public:
  Manager(std::int32_t action, OptionStore* store) : action_(action), store_(store) {}

  void handle(const Option& option) {
    if (option.name == T_ALLOPT) {
      return handle_all(option);
    }
    const auto* const kind = std::ranges::find_if(
        kinds, [&](const Kind& one) { return one.level == option.level && one.name == option.name; });
    if (store_ != nullptr && joins(option)) {
      handle_membership(option);
    } else if (kind != kinds.end() && current(*kind)) {
      handle_kind(*kind, option);
    } else {
      result(option, T_NOTSUPPORT);
    }
  }

  Managed take() { return std::move(managed_); }

 private:
  /// "For each level, the option T_ALLOPT can be requested on input. No value is given with this option; only the
  /// t_opthdr part is specified." (t_optmgmt()) It means nothing with T_CHECK; as in illumos that is T_FAILURE.
  void handle_all(const Option& option) {
    if (action_ == T_CHECK) {
      return result(option, T_FAILURE);
    }
    for (const Kind& kind : kinds) {
      if (kind.level != option.level || !current(kind)) {
        continue;
      }
      if (action_ == T_NEGOTIATE) {
        // "This input requests to negotiate all supported options of this level to their default values."
        if (kind.read_only) {
          tell(kind, *current(kind), T_READONLY);
          continue;
        }
        const std::uint32_t value = initial(kind);
        tell(kind, value, set(kind, value) ? T_SUCCESS : T_FAILURE);
      } else {
        handle_kind(kind, {});
      }
    }
  }

  void handle_kind(const Kind& kind, const Option& option) {
    // "The option values are irrelevant and will be ignored; it is sufficient to specify the t_opthdr part of an option
    // only." (t_optmgmt(), T_DEFAULT and T_CURRENT)
    if (action_ == T_CURRENT) {
      return tell(kind, *current(kind), T_SUCCESS);
    }
    if (action_ == T_DEFAULT) {
      return tell(kind, initial(kind), T_SUCCESS);
    }
    if (action_ == T_CHECK && option.value.empty()) {
      return result(option, T_SUCCESS);
    }
    // "T_READONLY: the option was read-only": no value is looked at.
    if (kind.read_only) {
      return result(option, T_READONLY);
    }
    const bool structure = kind.size == kpalive_size;
    std::optional<std::uint32_t> value = structure ? keep_alive(option.value) : scalar(option.value);
    if (value == minus_one && kind.minus_one_is_initial) {
      value = initial(kind);
    }
    if (kind.negotiable && value.value_or(0) > 0) {
      return negotiate(kind, option, *value);
    }
    const bool legal = value && *value >= kind.least && *value <= kind.most;
    const bool done = legal && (action_ == T_CHECK || set(kind, *value));
    result(option, done ? T_SUCCESS : T_FAILURE);
  }

  /// "T_PARTSUCCESS: the negotiation of this option [...] was only partially successful: the value returned is of lower
  /// quality than the one requested" (t_optmgmt(), of a request that is not an absolute requirement).
  void negotiate(const Kind& kind, const Option& option, std::uint32_t wanted) {
    std::uint32_t value = std::clamp(wanted, kind.least, kind.most);
    if (action_ == T_NEGOTIATE) {
      if (!set(kind, value)) {
        return result(option, T_FAILURE);
      }
      value = *current(kind);
    }
    if (value == wanted) {
      return result(option, T_SUCCESS);
    }
    tell(kind, value, T_PARTSUCCESS);
  }

  // Where there is no store, or none of the option, there is no value.
  [[nodiscard]] std::optional<std::uint32_t> current(const Kind& kind) const {
    return store_ == nullptr    ? std::nullopt
           : kind.is_constant() ? std::optional(kind.least)
                                : store_->current(kind.setting);
  }
  [[nodiscard]] std::uint32_t initial(const Kind& kind) const {
    return kind.is_constant() ? kind.least : *store_->initial(kind.setting);
  }
  [[nodiscard]] bool set(const Kind& kind, std::uint32_t value) const {
    return kind.is_constant() || store_->set(kind.setting, value);
  }

  void handle_membership(const Option& option) {
    const bool asks = action_ == T_CURRENT || action_ == T_DEFAULT || (action_ == T_CHECK && option.value.empty());
    if (asks) {
      return result({option.level, option.name}, T_SUCCESS);  // there is no value
    }
    const auto membership = membership_of(option);
    const bool check = action_ == T_CHECK;
    const bool done =
        membership && (*joins(option) ? store_->join(*membership, check) : store_->leave(*membership, check));
    result(option, done ? T_SUCCESS : T_FAILURE);
  }

  void tell(const Kind& kind, std::uint32_t value, std::int32_t status) {
    std::array<std::byte, kpalive_size> bytes{};
    if (kind.size == 1) {
      bytes[0] = static_cast<std::byte>(value);
    } else if (kind.size == kpalive_size) {
      wire::store_word(bytes.data(), value == 0 ? T_NO : T_YES);
      wire::store_word(bytes.data() + wire::word_size, value);
    } else {
      wire::store_word(bytes.data(), value);
    }
    result({kind.level, kind.name, 0, ConstBytes(bytes).first(kind.size)}, status);
  }

  /// "If the status is T_SUCCESS, T_FAILURE, T_NOTSUPPORT or T_READONLY, the returned option value is the same as the
  /// one requested on input." (t_optmgmt(), T_NEGOTIATE and T_CHECK)
  void result(Option option, std::int32_t status) {
    option.status = static_cast<std::uint32_t>(status);
    append(managed_.options, option);
    managed_.flags = rank(status) > rank(managed_.flags) ? status : managed_.flags;
  }

  std::int32_t action_;
  OptionStore* store_;
  Managed managed_;
};

}  // namespace

bool JoinedGroups::has(const IpAddress& group) const {
  return std::ranges::find(all_, group, &Membership::group) != all_.end();
}

void JoinedGroups::remove(const IpAddress& group) {
  std::erase_if(all_, [&](const Membership& membership) { return membership.group == group; });
}

std::size_t all_options_size() {
  std::size_t size = 0;
  for (const Kind& kind : kinds) {
    size += aligned(Option::header_size + kind.size);
  }
  return size;
}

std::expected<Managed, TliError> manage(std::int32_t action, ConstBytes options, OptionStore* store) {
  if (options.size() > request_bytes_max || !is_well_formed(options)) {
    return std::unexpected(TBADOPT);
  }
  OptionReader levels(options);
  while (const auto option = levels.next()) {
    if (!is_level(option->level)) {
      return std::unexpected(TBADOPT);  // as illumos
    }
  }
  Manager manager(action, store);
  OptionReader reader(options);
  while (const auto option = reader.next()) {
    manager.handle(*option);
  }
  return manager.take();
}

}  // namespace sluice::provider
