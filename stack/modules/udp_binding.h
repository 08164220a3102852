// SPDX-License-Identifier: Apache-2.0
#pragma once

// How a udp stream gets and gives up its address: the conversation with ip that stands behind T_BIND_REQ and
// T_UNBIND_REQ.
//
// An unbound stream is bound to every address below, without a filter: so it sees the datagrams that no other stream of
// the link claims, and can have them answered with "port unreachable". When its user binds it, that binding is replaced
// by the one asked for, and a filter asks the driver for the port:
//
//   open      T_BIND_REQ(any) ─► T_BIND_ACK
//   bind      T_UNBIND_REQ ─► T_OK_ACK    T_BIND_REQ(address) ─► T_BIND_ACK    FilterReq(port) ─► DL_OK_ACK
//   unbind    T_UNBIND_REQ ─► T_OK_ACK    T_BIND_REQ(any) ─► T_BIND_ACK
//
// A port that another stream of the link has (DL_BOUND) is an error, [TADDRBUSY], unless the choice is ours: then the
// next one is tried. Any other refusal, or none at all in time, means a driver that cannot filter: the stream is bound
// all the same, and drops what is not for its port.
//
// Ownership: a part of the module; talks through the callbacks it is given. Threads: as its module's.

#include <cstdint>
#include <functional>

#include "base/prng.h"
#include "stack/core/message.h"
#include "stack/core/scheduler.h"
#include "stack/provider/connectionless.h"
#include "stack/wire/address.h"
#include "stack/wire/dlpi.h"
#include "stack/wire/tpi.h"

namespace sluice::udp {

using provider::State;

class Binding final : public provider::Connectionless {
 public:
  /// 65535 bytes of an IPv4 packet without its header and ours.
  static constexpr std::size_t datagram_bytes_max = 65507;
  /// RFC 6335 section 6: "the Dynamic Ports, also known as the Private or Ephemeral Ports, from 49152-65535 (never
  /// assigned)".
  static constexpr std::uint16_t ephemeral_port_min = 49152;
  static constexpr unsigned port_attempts_max = 32;
  static constexpr Duration network_answer_time_max = std::chrono::seconds(10);
  static constexpr Duration filter_answer_time_max = std::chrono::seconds(1);

  struct Hooks {
    std::function<void(Message)> down;  ///< to ip; an empty message as below
    std::function<void(Message)> up;    ///< to the user; an empty message is one that no memory was left for
    provider::OptionStore* options = nullptr;
    std::function<void()> unbinding = [] {};  ///< the user gives up his address
  };

  /// REQUIRES: `module` is part of a stream.
  Binding(Module& module, Hooks hooks);

  /// The stream has its place: binds it to every address.
  void open();

  /// An acknowledgement of ip's (T_BIND_ACK, T_OK_ACK, T_ERROR_ACK). False when none is expected.
  [[nodiscard]] bool acknowledged(const Message& answer);
  /// The driver's answer to a filter request, in M_CTL. False when it is none.
  [[nodiscard]] bool filter_answered(const Message& answer);
  /// Whether ip is giving up an address, which it announces with M_FLUSH: not the user's business, who hears of his own
  /// T_UNBIND_REQ from here.
  [[nodiscard]] bool releasing() const;

  /// The user's address. REQUIRES: the state is idle.
  [[nodiscard]] const wire::TransportAddress& local() const { return local_; }
  /// Whether the driver gives this stream its own port's datagrams only.
  [[nodiscard]] bool filtered() const { return filtered_; }

 private:
  /// What is being waited for.
  enum class Phase : std::uint8_t {
    quiet,
    bind_any,        // T_BIND_ACK for every address; nobody above waits
    bind_release,    // T_OK_ACK, before the user's address
    bind_network,    // T_BIND_ACK for the user's address
    bind_filter,     // the driver's answer
    unbind_release,  // T_OK_ACK, for the user
    undo_release,    // T_OK_ACK, after the user's bind failed
  };

  [[nodiscard]] std::int32_t tsdu_bytes_max() const override { return datagram_bytes_max; }
  void bind(ConstBytes address) override;
  void unbind() override;
  void release() override;
  void up(Message message) override { hooks_.up(std::move(message)); }
  [[nodiscard]] provider::OptionStore* options() override { return hooks_.options; }

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
  Hooks hooks_;
  Owed requests_;  // to ip
  Timer timer_;
  Phase phase_ = Phase::quiet;
  bool network_bound_ = false;
  bool filtered_ = false;
  wire::TransportAddress local_;
  bool any_port_ = false;  // the choice of port is ours
  unsigned port_attempts_ = 0;
};

}  // namespace sluice::udp
