// SPDX-License-Identifier: Apache-2.0
#include "apps/sluice/netcat_connection.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <system_error>

#include "apps/sluice/exit_code.h"
#include "apps/sluice/netcat_user.h"

namespace sluice {
namespace {

using tli::Endpoint;
using wire::TransportAddress;

class ConnectionNetcat : NetcatUser {
 public:
  using NetcatUser::NetcatUser;

  int run(const std::optional<TransportAddress>& peer) {
    if (peer) {
      call(*peer);
    }
    program_.loop().attend(endpoint_.stream(), [this] { return turn(); });
    while (!program_.stopped() && !finished() && exit_code_ == exit_ok && !input_.failed() && !input_.expired()) {
      input_.update(sending());
      [[maybe_unused]] const bool happened = program_.loop().wait(input_.deadline());
    }
    program_.loop().unattend(endpoint_.stream());
    input_.update(false);
    if (input_.failed() || exit_code_ != exit_ok) {
      // The peer must not take what it has for the whole.
      [[maybe_unused]] const auto aborted = endpoint_.t_snddis(nullptr);
      return exit_failed;
    }
    endpoint_.stream().set_nonblocking(false);
    [[maybe_unused]] const Status drained = endpoint_.stream().drain(std::chrono::seconds(1));
    return exit_ok;
  }

 private:
  /// What waits on standard input may be sent.
  [[nodiscard]] bool sending() const {
    return endpoint_.t_getstate() == tli::T_DATAXFER || endpoint_.t_getstate() == tli::T_INREL;
  }

  /// Both sides have released, and what was sent before has left.
  [[nodiscard]] bool finished() { return over_ && endpoint_.stream().drain(Duration::zero()).has_value(); }

  void call(const TransportAddress& peer) {
    std::array<std::byte, TransportAddress::encoded_size_max> bytes{};
    tli::t_call request;
    request.addr = {.maxlen = bytes.size(), .len = peer.encode(bytes), .buf = bytes.data()};
    if (const auto asked = endpoint_.t_connect(request, nullptr);
        !asked && asked.error().t_errno != wire::tpi::TNODATA) {
      fail("connect", asked.error());
    }
  }

  /// Takes an event, and sends what waits; whether it did either.
  bool turn() {
    if (over_ || exit_code_ != exit_ok) {
      return false;
    }
    const auto event = endpoint_.t_look();
    if (!event) {
      fail("look", event.error());
      return false;
    }
    const bool took = *event != 0 && *event != tli::T_GODATA;
    if (took) {
      take(*event);
    }
    const bool sent = exit_code_ == exit_ok && sending() && send();
    return took || sent;
  }

  void take(std::uint16_t event) {
    switch (event) {
      case tli::T_LISTEN:
        return accept();
      case tli::T_CONNECT:
        return check("connect", endpoint_.t_rcvconnect(nullptr));
      case tli::T_DATA:
      case tli::T_EXDATA:
        return receive();
      case tli::T_ORDREL:
        check("release", endpoint_.t_rcvrel());
        over_ = endpoint_.t_getstate() == tli::T_IDLE;
        return;
      default:
        return disconnected();
    }
  }

  void accept() {
    std::array<std::byte, TransportAddress::encoded_size_max> bytes{};
    tli::t_call call;
    call.addr = {.maxlen = bytes.size(), .len = 0, .buf = bytes.data()};
    auto done = endpoint_.t_listen(call);
    done = done ? endpoint_.t_accept(endpoint_, call) : done;
    if (done && options_.verbose) {
      const auto caller = TransportAddress::decode(ConstBytes(bytes).first(call.addr.len));
      fmt::print(stderr, "sluice: nc: connection from {}\n", caller ? caller->to_text() : "an unknown address");
    }
    if (!done && done.error().t_errno != wire::tpi::TLOOK) {
      fail("accept", done.error());
    }
  }

  void receive() {
    int flags = 0;
    const auto got = endpoint_.t_rcv(received_, flags);
    if (got) {
      input_.write(ConstBytes(received_).first(*got));
    } else if (got.error().t_errno != wire::tpi::TLOOK) {
      fail("receive", got.error());
    }
  }

  /// The peer, or the network, has ended it; or a caller is gone that was not yet answered.
  void disconnected() {
    const bool waiting = endpoint_.t_getstate() == tli::T_INCON;
    tli::t_discon discon;
    check("disconnect", endpoint_.t_rcvdis(&discon));
    if (!waiting && exit_code_ == exit_ok) {
      fmt::print(stderr, "sluice: nc: {}\n", std::generic_category().message(discon.reason));
      exit_code_ = exit_failed;
    }
  }

  /// Whether something has left: of standard input, or its end.
  bool send() {
    if (input_.chunk().empty()) {
      if (!input_.ended()) {
        return false;
      }
      const auto released = endpoint_.t_sndrel();
      over_ = released && endpoint_.t_getstate() == tli::T_IDLE;
      return stopped("release", released);
    }
    const auto sent = endpoint_.t_snd(input_.chunk(), 0);
    input_.sent(sent.value_or(0));
    return stopped("send", sent);
  }

  /// False where there is no room now. What the peer has done meanwhile is the next turn's.
  template <class T>
  bool stopped(std::string_view what, const tli::Outcome<T>& outcome) {
    const auto t_errno = outcome ? 0 : int{outcome.error().t_errno};
    if (t_errno != 0 && t_errno != wire::tpi::TFLOW && t_errno != wire::tpi::TLOOK) {
      fail(what, outcome.error());
    }
    return t_errno != wire::tpi::TFLOW;
  }

  void check(std::string_view what, const tli::Outcome<>& outcome) {
    if (!outcome) {
      fail(what, outcome.error());
    }
  }

  bool over_ = false;  // both sides have released
};

}  // namespace

int run_netcat_connection(Program& program, Endpoint& endpoint, const NetcatOptions& options,
                          const std::optional<TransportAddress>& peer) {
  return ConnectionNetcat(program, endpoint, options).run(peer);
}

}  // namespace sluice
