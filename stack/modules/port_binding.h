// SPDX-License-Identifier: Apache-2.0
#pragma once

// How a stream of a transport module gets and gives up its address and port: the conversation with ip that stands
// behind T_BIND_REQ and T_UNBIND_REQ, whatever the module tells its user of it.
//
// A stream without a port is bound to every address below, without a filter: so it sees what no other stream of the
// link claims, and can have it answered. When a port is wanted, that binding is replaced by the one asked for, and a
// filter asks the driver for the port. A binding to a port can be replaced by another one in the same way:
//
//   open      T_BIND_REQ(any) ─► T_BIND_ACK
//   bind      T_UNBIND_REQ ─► T_OK_ACK    T_BIND_REQ(address) ─► T_BIND_ACK    FilterReq(port) ─► DL_OK_ACK
//   unbind    T_UNBIND_REQ ─► T_OK_ACK    T_BIND_REQ(any) ─► T_BIND_ACK
//
// A port that another stream of the link has (DL_BOUND) is an error, [TADDRBUSY], unless the choice is ours: then the
// next one is tried. Any other refusal, or none at all in time, means a driver that cannot filter: the stream is bound
// all the same, and drops what is not for its port. A bind that fails leaves the stream without a port.
//
// Ownership: a part of the module; talks through the callbacks it is given, which may call it again. Threads: as its
// module's.

#include <cstdint>
#include <functional>
#include <optional>

#include "base/prng.h"
#include "stack/core/message.h"
#include "stack/core/module.h"
#include "stack/core/owed.h"
#include "stack/core/scheduler.h"
#include "stack/wire/address.h"
#include "stack/wire/tpi.h"

namespace sluice {

class PortBinding {
 public:
  /// RFC 6335 section 6: "the Dynamic Ports, also known as the Private or Ephemeral Ports, from 49152-65535 (never
  /// assigned)".
  static constexpr std::uint16_t ephemeral_port_min = 49152;
  static constexpr unsigned port_attempts_max = 32;
  static constexpr Duration network_answer_time_max = std::chrono::seconds(10);
  static constexpr Duration filter_answer_time_max = std::chrono::seconds(1);

  struct Hooks {
    std::function<void(Message)> down;  ///< to ip; an empty message is one that no memory was left for
    // The outcome of bind() and unbind(): one of these, while it runs or later.
    std::function<void()> bound;  ///< to local()
    std::function<void()> unbound;
    std::function<void(std::int32_t tli_error, std::int32_t unix_error)> refused;
  };

  /// REQUIRES: `module` is part of a stream.
  PortBinding(Module& module, std::uint8_t protocol, Hooks hooks);
  PortBinding(const PortBinding&) = delete;
  PortBinding& operator=(const PortBinding&) = delete;

  /// The stream has its place: binds it to every address, for nobody above.
  void open();
  struct Wanted {
    wire::TransportAddress address;
    bool both_families = false;  ///< the address is unspecified, and stands for every one of either family
  };
  /// What T_BIND_REQ names; nothing where it cannot be read. TPI: "If the ADDR_length field in the T_BIND_REQ primitive
  /// is 0, then the transport provider is to assign a transport protocol address to the user"; then it is of both
  /// families. So is [::], unless `v6_only` (T_IPV6_V6ONLY); 0.0.0.0 is of IPv4 alone.
  [[nodiscard]] static std::optional<Wanted> wanted_by(ConstBytes address, bool v6_only);
  /// Binds in place of what the stream is bound to. The port is ours to choose where it is 0 and, with `replaces_busy`,
  /// where another stream has it. REQUIRES: no outcome is due.
  void bind(const Wanted& wanted, bool replaces_busy);
  /// As bind(), for one connection: only what comes from `remote`, beside a stream that listens on that port.
  /// REQUIRES: `local` and `remote` are of one family, and whole.
  void bind_connection(const wire::TransportAddress& local, const wire::TransportAddress& remote);
  /// Where it is refused, the stream stays bound. REQUIRES: bound, and no outcome is due.
  void unbind();
  /// The module has failed: nothing is waited or asked for any more, and no outcome comes.
  void abandon();

  /// An acknowledgement of ip's (T_BIND_ACK, T_OK_ACK, T_ERROR_ACK). False when none is expected.
  [[nodiscard]] bool acknowledged(const Message& answer);
  /// The driver's answer to a filter request, in M_CTL. False when it is none.
  [[nodiscard]] bool filter_answered(const Message& answer);
  /// Whether ip is giving up an address, which it announces with M_FLUSH: not the user's business, who hears of his own
  /// T_UNBIND_REQ from the module.
  [[nodiscard]] bool releasing() const;

  [[nodiscard]] bool held() const { return claim_ == Claim::held; }
  /// The other end of the connection that the port is for; nothing where it is for all. REQUIRES: bound.
  [[nodiscard]] const std::optional<wire::TransportAddress>& remote() const { return remote_; }
  /// REQUIRES: bound.
  [[nodiscard]] const wire::TransportAddress& local() const { return local_; }
  /// Whether what is sent to an address of that family is for this port. REQUIRES: bound.
  [[nodiscard]] bool takes(wire::Family family) const { return both_families_ || family == local_.address.family(); }
  /// Whether the driver gives this stream its own port's packets only.
  [[nodiscard]] bool filtered() const { return filtered_; }

 private:
  /// What is being waited for.
  enum class Phase : std::uint8_t {
    quiet,
    bind_any,        // T_BIND_ACK for every address; nobody above waits
    bind_release,    // T_OK_ACK, before the address wanted
    bind_network,    // T_BIND_ACK for the address wanted
    bind_filter,     // the driver's answer
    unbind_release,  // T_OK_ACK, of unbind()
    undo_release,    // T_OK_ACK, after a bind that failed
    abandoned,       // nothing, for good
  };
  /// What local_ is.
  enum class Claim : std::uint8_t { none, wanted, held };

  void want(const Wanted& local);
  void wait(Phase phase, Duration time_max);
  /// What lacks memory waits for it, as long as anybody waits for the answer.
  template <class Primitive>
  void ask(const Primitive& request, MessageType type) {
    if (!requests_.send(request, type)) {
      hooks_.down({});
    }
  }
  void start_bind();
  void network_is_unbound();
  void ask_bind(Phase phase, const wire::IpAddress& address);
  void ask_unbind(Phase phase);
  void ask_filter();
  void on_success(const Message& answer);
  void on_refusal(const wire::tpi::ErrorAck& error);
  void on_silence();
  void try_next_port();
  void bound_with(bool filtered);
  void rest();
  void bind_failed(std::int32_t tli_error, std::int32_t unix_error);
  [[nodiscard]] std::uint16_t ephemeral_port();

  Prng& prng_;
  std::uint8_t protocol_;
  Hooks hooks_;
  Owed requests_;  // to ip
  Timer timer_;
  Phase phase_ = Phase::quiet;
  bool network_bound_ = false;
  bool filtered_ = false;
  Claim claim_ = Claim::none;
  wire::TransportAddress local_;
  bool both_families_ = false;
  std::optional<wire::TransportAddress> remote_;  // of the one connection that the port is for
  bool any_port_ = false;                         // the choice of port is ours
  unsigned port_attempts_ = 0;
};

}  // namespace sluice
