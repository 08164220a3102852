// SPDX-License-Identifier: Apache-2.0
#pragma once

// A link on one of the kernel's interfaces that chooses what it receives: by a filter of the driver's own, and by the
// memberships of a packet socket (dlpi/packet_membership.h), which let groups and other stations through the device.
// Its station address is the interface's, whose changes it follows, or one of its own.
//
// A driver derives from it, adds how it filters, and calls start() when it can.
//
// Ownership: owns what watches the interface. Threads: as its stream set.

#include <memory>

#include "dlpi/interface.h"
#include "dlpi/link.h"

namespace sluice::dlpi {

class InterfaceLink : public Link {
 public:
  Status set_address(const wire::MacAddress& address) override;

 protected:
  InterfaceLink(StreamSet& set, const Interface& interface);

  /// Begins to watch the interface, then sets the address to `station`; unspecified: it stays the interface's.
  [[nodiscard]] Status start(const wire::MacAddress& station);
  /// Makes the driver's filter accept what is wanted at that address, and nothing else.
  [[nodiscard]] virtual Status filter_for(const Interests& wanted, const wire::MacAddress& station) = 0;
  /// A packet socket on the interface.
  [[nodiscard]] virtual int membership_socket() const = 0;
  /// Called with the interface's state when that may have changed.
  virtual void changed(const Interface& interface);

  /// With the interface's address as it is now, and the rest as it was opened.
  [[nodiscard]] const Interface& interface() const { return interface_; }
  /// Looks now: for a driver that has reason to think that the interface has changed.
  void look_at_interface() { monitor_->look(); }

 private:
  Status set_interests(const Interests& wanted, const Interests& before) final;

  Interface interface_;
  bool own_address_ = false;  // not the interface's
  std::unique_ptr<InterfaceMonitor> monitor_;
};

}  // namespace sluice::dlpi
