// SPDX-License-Identifier: Apache-2.0
#pragma once

// The options of a udp stream (stack/provider/options.h). Whether datagrams over IPv4 carry a checksum, and whether an
// indication tells how its datagram came, and what [::] stands for, is udp's; how datagrams leave, and which groups the
// stream is in, is ip's, which is asked in M_CTL and answers before the request's put_next() returns
// (stack/wire/network.h). Where nothing answers, those options are not supported. How much may wait for the reader is a
// mark of the stream head's queue, which is set there (strqset(): QHIWAT, QLOWAT).
//
// An endpoint is in a group until it leaves, unbinds or closes; it may join before it binds.
//
// Ownership: a part of the module. Threads: as its module's.

#include <functional>
#include <optional>

#include "stack/core/buffer_pool.h"
#include "stack/core/message.h"
#include "stack/core/module.h"
#include "stack/core/owed.h"
#include "stack/provider/options.h"
#include "stack/wire/network.h"

namespace sluice::udp {

class Options final : public provider::OptionStore {
 public:
  /// Of the module, where it looks whether datagrams carry a checksum, and whether indications tell how they came.
  struct Switches {
    bool& checksum;
    bool& received;
    bool& v6_only;
  };

  /// `up` is the module's read queue, `owed` sends to ip what need not be answered at once. `changed` is called when
  /// datagrams may leave otherwise than before.
  Options(BufferPool& pool, Switches switches, Queue& up, Owed& owed, std::function<void(Message)> down,
          std::function<void()> changed)
      : pool_(pool),
        initial_checksum_(switches.checksum),
        switches_(switches),
        up_(up),
        owed_(owed),
        down_(std::move(down)),
        changed_(std::move(changed)) {}

  [[nodiscard]] std::optional<std::uint32_t> current(provider::Setting setting) override;
  [[nodiscard]] std::optional<std::uint32_t> initial(provider::Setting setting) override;
  [[nodiscard]] bool set(provider::Setting setting, std::uint32_t value) override;
  [[nodiscard]] bool join(const provider::Membership& membership, bool check) override;
  [[nodiscard]] bool leave(const provider::Membership& membership, bool check) override;

  /// The user unbinds.
  void leave_all();
  /// An M_CTL of ip's. False when it is no answer of these.
  [[nodiscard]] bool answered(ConstBytes block);

 private:
  [[nodiscard]] std::optional<wire::network::SettingsAck> ask(const wire::network::SettingsReq& request);
  [[nodiscard]] bool ask(const wire::network::GroupReq& request);

  [[nodiscard]] std::optional<std::uint32_t> value_of_ip(provider::Setting setting,
                                                         wire::network::Settings wire::network::SettingsAck::* which);
  [[nodiscard]] bool set_of_ip(provider::Setting setting, std::uint32_t value);
  /// The last queue upwards.
  [[nodiscard]] Queue& head() const;

  BufferPool& pool_;
  bool initial_checksum_;
  Switches switches_;
  Queue& up_;
  Owed& owed_;
  std::optional<WaterMarks> initial_marks_;  // of the stream head, once they were changed from here
  std::function<void(Message)> down_;
  std::function<void()> changed_;
  provider::JoinedGroups joined_;
  std::optional<wire::network::SettingsAck> settings_;  // the answer, while its request runs
  std::optional<std::uint32_t> group_error_;            // likewise
};

}  // namespace sluice::udp
