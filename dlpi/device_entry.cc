// SPDX-License-Identifier: Apache-2.0
#include "dlpi/device_entry.h"

#include <cerrno>
#include <utility>

#include "dlpi/interface.h"
#include "dlpi/link_stream.h"
#include "dlpi/open_links.h"

namespace sluice::dlpi {
namespace {

/// The parameter `mac`: unspecified where it is absent, EINVAL where it is not the address of one station.
Result<wire::MacAddress> station_address(const Parameters& parameters) {
  if (!parameters.has("mac")) {
    return wire::MacAddress{};
  }
  Result<wire::MacAddress> address = wire::MacAddress::from_text(parameters.text("mac", ""));
  if (address && (address->is_multicast() || address->is_unspecified())) {
    return fail(EINVAL, "mac '" + address->to_text() + "' is not the address of one station");
  }
  return address;
}

Result<std::shared_ptr<Link>> open_device(const DeviceDriver& driver, StreamSet& set, const std::string& device,
                                          const Parameters& parameters) {
  // Two kinds of driver may be on one device.
  const std::string key = std::string(driver.name) + ":" + device;
  return open_link(set, key, parameters, [&]() -> Result<std::shared_ptr<Link>> {
    const Result<wire::MacAddress> station = station_address(parameters);
    return station ? driver.open(set, device, *station, parameters) : std::unexpected(station.error());
  });
}

Result<std::shared_ptr<Link>> open_ppa(const DeviceDriver& driver, StreamSet& set, std::uint32_t ppa,
                                       const Parameters& parameters) {
  const Result<std::string> device = interface_name(ppa);
  return device ? open_device(driver, set, *device, parameters) : std::unexpected(device.error());
}

}  // namespace

Entry device_entry(DeviceDriver driver) {
  std::vector<ParameterSpec> parameters{
      {.name = "device", .meaning = "name of the interface; absent: the stream opens unattached (style 2)"}};
  parameters.insert(parameters.end(), driver.parameters.begin(), driver.parameters.end());
  Entry entry{.name = driver.name,
              .summary = driver.summary,
              .effect = driver.effect,
              .kind = Entry::Kind::driver,
              .upper = Service::link,
              .parameters = std::move(parameters),
              .make = {}};
  entry.make = [driver = std::move(driver)](StreamSet&, const Parameters& given) -> Result<std::unique_ptr<Module>> {
    const bool named = given.has("device");
    const LinkOpener opener = [driver, given, named](StreamSet& set, std::uint32_t ppa) {
      return named ? open_device(driver, set, given.text("device", ""), given) : open_ppa(driver, set, ppa, given);
    };
    LinkWork work = driver.work;
    if (driver.offloads && given.boolean("offload", true)) {
      work.segments = LinkWork::kernel_splits;
    }
    return std::make_unique<LinkStream>(driver.name, named ? LinkStream::Style::one : LinkStream::Style::two, opener,
                                        std::move(work));
  };
  return entry;
}

}  // namespace sluice::dlpi
