// SPDX-License-Identifier: Apache-2.0
#pragma once

// A transport endpoint to test with: a connectionless TPI provider that the test commands, timod over it, and time that
// only passes when asked. Addresses and options are words.

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stack/core/ioctl.h"
#include "stack/core/module_handle.h"
#include "stack/modules/timod.h"
#include "stack/wire/tpi.h"
#include "tests/keeping_driver.h"
#include "tests/stack/head/simulated_waiter.h"
#include "tli/endpoint.h"

namespace sluice::test {

namespace tpi = wire::tpi;

/// A message of one block that holds `primitive`.
template <class Primitive>
Message message_of(BufferPool& pool, const Primitive& primitive, MessageType type) {
  Message message = Message::allocate(pool, primitive.encoded_size(), 0, type);
  message.first().wptr += primitive.encode({message.first().rptr, primitive.encoded_size()});
  return message;
}

/// t_errno of what failed, 0 for what did not.
template <class T>
int error_of(const tli::Outcome<T>& outcome) {
  return outcome ? 0 : outcome.error().t_errno;
}

/// The provider. It answers requests at once and keeps data units.
class Provider : public KeepingDriver {
 public:
  Provider() : KeepingDriver("provider", {.high_bytes = 1, .low_bytes = 1}) {}

  /// A data unit arrives, its data in one block a text.
  void arrives(std::string_view source, std::string_view options, const std::vector<std::string_view>& texts) {
    Message message = message_of(pool(), tpi::UnitdataInd{as_bytes(source), as_bytes(options)}, MessageType::proto);
    for (const std::string_view text : texts) {
      message.link(Message::copy_of(pool(), as_bytes(text)));
    }
    up(std::move(message));
  }
  /// One that was sent before failed.
  void fails(std::string_view destination, std::string_view options, std::int32_t error) {
    up(message_of(pool(), tpi::UderrorInd{as_bytes(destination), as_bytes(options), error}, MessageType::proto));
  }
  BufferPool& pool() { return set().pool(); }

  tpi::InfoAck info{.tsdu_size = 100,
                    .addr_size = 16,
                    .opt_size = 32,
                    .tidu_size = 100,
                    .serv_type = tpi::T_CLTS,
                    .current_state = tpi::TS_UNBND,
                    .provider_flag = 0};
  bool echoes = false;                   // sends every data unit back as it is
  bool silent = false;                   // answers nothing
  bool malformed = false;                // answers with the number of the answer alone
  std::function<void()> before_unbound;  // called before T_UNBIND_REQ is answered
  std::string bound;
  std::uint32_t queue_length_asked = 99;
  std::int32_t management_flags_asked = 0;

 private:
  void take(Message message) override {
    if (message.type() == MessageType::flush) {
      turn_flush(std::move(message));
    } else if (message.type() == MessageType::ioctl) {
      up(ioctl_refused(std::move(message), EINVAL));
    } else if (tpi::primitive_of(message.bytes()) != tpi::T_UNITDATA_REQ) {
      manage(message);
    } else if (stalled) {
      write_queue().enqueue(std::move(message));
    } else if (echoes) {
      echo(std::move(message));
    } else {
      sent.push_back(std::move(message));
    }
  }
  template <class Answer>
  void answer(const Answer& primitive) {
    if (malformed) {
      const std::int32_t number = Answer::primitive;
      up(Message::copy_of(pool(), std::as_bytes(std::span(&number, 1)), 0, MessageType::pcproto));
    } else if (!silent) {
      up(message_of(pool(), primitive, MessageType::pcproto));
    }
  }
  void refuse(std::int32_t primitive, tpi::TliError error, int unix_error = 0) {
    answer(tpi::ErrorAck{primitive, error, unix_error});
  }
  void manage(const Message& message) {
    const ConstBytes block = message.bytes();
    if (const auto bind = tpi::BindReq::decode(block)) {
      queue_length_asked = bind->connect_indications;
      return this->bind(as_text(bind->address));
    }
    if (tpi::UnbindReq::decode(block)) {
      info.current_state = tpi::TS_UNBND;
      if (before_unbound) {
        before_unbound();
      }
      return answer(tpi::OkAck{tpi::T_UNBIND_REQ});
    }
    if (const auto options = tpi::OptmgmtReq::decode(block)) {
      management_flags_asked = options->flags;
      return as_text(options->options) == "bad" ? refuse(tpi::T_OPTMGMT_REQ, tpi::TBADOPT)
                                                : answer(tpi::OptmgmtAck{options->options, tpi::T_SUCCESS});
    }
    if (tpi::AddrReq::decode(block)) {
      return answer(tpi::AddrAck{as_bytes(bound), {}});
    }
    answer(info);
  }
  void bind(std::string_view address) {
    static const std::vector<std::pair<std::string_view, tpi::TliError>> refusals{{"busy", tpi::TADDRBUSY},
                                                                                  {"bad", tpi::TBADADDR},
                                                                                  {"none left", tpi::TNOADDR},
                                                                                  {"root's", tpi::TACCES},
                                                                                  {"broken", tpi::TSYSERR}};
    for (const auto& [refused, error] : refusals) {
      if (address == refused) {
        return refuse(tpi::T_BIND_REQ, error, error == tpi::TSYSERR ? EIO : 0);
      }
    }
    info.current_state = tpi::TS_IDLE;
    bound = address.empty() ? "chosen" : address;
    answer(tpi::BindAck{as_bytes(bound), 7});
  }
  void echo(Message message) {
    // T_UNITDATA_REQ and T_UNITDATA_IND have one layout.
    const std::int32_t indication = tpi::T_UNITDATA_IND;
    std::memcpy(message.bytes().data(), &indication, sizeof indication);
    up(std::move(message));
  }
};

/// Makes data units whose checks are still owed, and counts those that do not hold.
class CheckWatcher : public Module {
 public:
  explicit CheckWatcher(StreamSet& set) : Module("watcher"), owner(set.module_handles().add()), pool_(set.pool()) {}

  Message data_unit(std::string_view from, std::string_view text, bool good) {
    Message message = message_of(pool_, tpi::UnitdataInd{as_bytes(from), {}}, MessageType::proto);
    Message data = Message::copy_of(pool_, as_bytes(text));
    data.defer();
    const auto holds = static_cast<std::uint16_t>(~data.data_sum());
    EXPECT_EQ(data.transform(Check{good ? holds : static_cast<std::uint16_t>(holds + 1)}, owner, refused),
              TransformResult::deferred);
    message.link(std::move(data));
    return message;
  }

  Counter refused{*this, "refused", "checks that did not hold"};
  ModuleHandle owner;

 private:
  BufferPool& pool_;
};

/// What a call reads from. It does not write to it.
inline tli::netbuf in(std::string_view text) {
  return {.maxlen = 0, .len = text.size(), .buf = const_cast<std::byte*>(as_bytes(text).data())};
}
/// What a call writes to.
inline tli::netbuf out(std::string& text) {
  return {.maxlen = text.size(), .len = 0, .buf = std::as_writable_bytes(std::span(text)).data()};
}
inline std::string_view text_of(const tli::netbuf& buffer) { return as_text({buffer.buf, buffer.len}); }

/// An endpoint, and what its calls come to; which provider it has, a test of that mode says.
class TliTest : public testing::Test {
 protected:
  std::uint16_t look() { return endpoint->t_look().value_or(0xffff); }

  template <class T>
  static int system_error_of(const tli::Outcome<T>& outcome) {
    return outcome ? 0 : outcome.error().system_errno;
  }
  static std::string error(tpi::TliError number) { return "error " + std::to_string(number); }

  StreamSet set{{.defer_bytes_min = 0}};
  tli::t_info info;
  std::unique_ptr<tli::Endpoint> endpoint;
};

class EndpointTest : public TliTest {
 protected:
  EndpointTest() { open(); }

  std::unique_ptr<Stream> stream() {
    auto made = std::make_unique<Provider>();
    provider = made.get();
    auto opened = std::move(*Stream::open(set, std::move(made)));
    EXPECT_TRUE(opened->push(std::make_unique<Timod>()));
    return opened;
  }
  /// An endpoint in T_UNBND whose provider is what `prepare` makes of it.
  void open(const std::function<void(Provider&)>& prepare = {}) {
    auto made = stream();
    if (prepare) {
      prepare(*provider);
    }
    auto opened = tli::Endpoint::t_open(std::move(made), &info);
    ASSERT_TRUE(opened);
    endpoint = std::move(*opened);
  }
  void open_bound(const std::function<void(Provider&)>& prepare = {}) {
    open(prepare);
    ASSERT_TRUE(endpoint->t_bind(nullptr, nullptr));
  }
  void wait_with(SimulatedWaiter& waiter) { endpoint->stream().set_waiter(&waiter); }

  tli::Outcome<> send(std::string_view text, std::string_view to = "peer", std::string_view options = "") {
    return endpoint->t_sndudata({in(to), in(options), in(text)});
  }
  /// What one t_rcvudata() with buffers of these sizes brings, or its t_errno.
  std::string receive(std::size_t size, std::size_t address_size = 16, std::size_t options_size = 32) {
    std::string address(address_size, '\0');
    std::string options(options_size, '\0');
    std::string text(size, '\0');
    tli::t_unitdata unit{out(address), out(options), out(text)};
    int flags = 99;
    if (const auto got = endpoint->t_rcvudata(unit, flags); !got) {
      EXPECT_EQ(flags, 0);
      return "error " + std::to_string(got.error().t_errno);
    }
    return std::string(text_of(unit.addr)) + "/" + std::string(text_of(unit.opt)) + ": " +
           std::string(text_of(unit.udata)) + (flags == tli::T_MORE ? " T_MORE" : "");
  }

  Provider* provider = nullptr;
};

}  // namespace sluice::test
