// SPDX-License-Identifier: Apache-2.0
#pragma once

// The kernel's network interfaces: what they are, and when they change.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/descriptor.h"
#include "base/result.h"
#include "stack/core/scheduler.h"
#include "stack/core/stream_set.h"
#include "stack/wire/address.h"

namespace sluice::dlpi {

struct Interface {
  std::string name;
  int index = 0;
  wire::MacAddress address;
  std::size_t mtu = 0;
  bool enabled = false;  // administratively up
  bool up = false;       // that, and with a carrier, as the device itself says; the kernel's operational state
                         // (IFF_RUNNING) follows up to seconds later, and frames come and go before it does
};

/// ENODEV where there is none: the text names those that exist. EPROTONOSUPPORT where its frames are not Ethernet.
[[nodiscard]] Result<Interface> find_interface(const std::string& name);
/// The name of an interface index (a PPA); ENXIO where there is none.
[[nodiscard]] Result<std::string> interface_name(std::uint32_t index);
/// How many frames the kernel has dropped that it was to send by the interface; nothing where it does not say.
[[nodiscard]] std::optional<std::uint64_t> transmit_drops(int index);
/// The interfaces of this network namespace, separated by commas.
[[nodiscard]] std::string interface_names();

/// "WHAT DEVICE: why", with what to do about it where the program lacks a privilege. `code` is an errno value.
[[nodiscard]] std::unexpected<Error> device_failure(int code, const std::string& what, const std::string& device);

/// Watches one interface through rtnetlink and tells each change. open() itself tells once how the interface is, after
/// it began to watch: what changed since the caller looked for himself is not missed. An interface that cannot be
/// looked up is told as down, and looked up again: it may have gone, have another name for a while, or the process may
/// just now have no descriptor left.
class InterfaceMonitor final : public EventSource {
 public:
  using Changed = std::function<void(const Interface&)>;

  [[nodiscard]] static Result<std::unique_ptr<InterfaceMonitor>> open(StreamSet& set, const Interface& interface,
                                                                      Changed changed);
  ~InterfaceMonitor() override;

  [[nodiscard]] int descriptor() const override { return socket_.get(); }
  bool on_readable() override;
  /// Tells how the interface is now. For who has reason to think that it has changed though nothing was told yet: the
  /// kernel tells of a carrier in its own time.
  void look() { tell(); }

 private:
  InterfaceMonitor(StreamSet& set, Descriptor socket, const Interface& interface, Changed changed);
  [[nodiscard]] bool concerns_us(ConstBytes messages) const;
  void tell();

  static constexpr Duration again_after_min = std::chrono::milliseconds(100);
  static constexpr Duration again_after_max = std::chrono::seconds(10);

  StreamSet& set_;
  Descriptor socket_;
  Interface interface_;
  Changed changed_;
  Timer again_;
  Duration again_after_ = again_after_min;
};

}  // namespace sluice::dlpi
