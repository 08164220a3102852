// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the drivers of kernel interfaces (packet, xdp, pcap, tap) have in common in the registry: parameter `device`,
// style 1 with it and style 2 without, and one link for all streams of a set on one device.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dlpi/link_stream.h"
#include "stack/core/registry.h"
#include "stack/wire/address.h"

namespace sluice::dlpi {

struct DeviceDriver {
  /// String literals.
  std::string_view name;
  std::string_view summary;
  std::string_view effect;
  /// Besides `device`.
  std::vector<ParameterSpec> parameters;
  /// Absent: frames come in a ring that the kernel shares with us, where a fused path shows them.
  LinkWork work = {.up = {{.kind = PayloadWork::Kind::copy, .where = "ring slot to message", .fused = false}},
                   .uncounted_down = "sendmmsg copies from the frame",
                   .uncounted_up = "the kernel copies into the ring"};
  /// `station`: the parameter `mac`; unspecified where it is absent.
  std::function<Result<std::shared_ptr<Link>>(StreamSet&, const std::string& device, const wire::MacAddress& station,
                                              const Parameters&)>
      open;
  /// Has a parameter `offload`, true where absent: the kernel takes super-frames.
  bool offloads = false;
};

[[nodiscard]] Entry device_entry(DeviceDriver driver);

}  // namespace sluice::dlpi
