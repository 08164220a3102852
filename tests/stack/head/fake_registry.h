// SPDX-License-Identifier: Apache-2.0
#pragma once

// A small world for stack files: two drivers and a few modules, of each kind of parameter one.

#include <memory>
#include <string>

#include "stack/core/registry.h"

namespace sluice::test {

/// Passes everything on; as a driver, it swallows what comes down.
class Anything : public Module {
 public:
  explicit Anything(std::string_view name, bool is_driver, int open_error)
      : Module(name, is_driver ? Services::write : Services::none), is_driver_(is_driver), open_error_(open_error) {}
  Status open() override { return open_error_ == 0 ? Status{} : fail(open_error_); }
  void wput(Batch&& batch) override {
    if (!is_driver_) {
      write_queue().put_next(std::move(batch));
    }
  }

 private:
  bool is_driver_;
  int open_error_;
};

/// Makes an entry's module. Parameters "fails" and "opens" ask for failures.
inline Entry::Factory maker(std::string_view name, bool is_driver) {
  return [name, is_driver](StreamSet&, const Parameters& parameters) -> Result<std::unique_ptr<Module>> {
    if (parameters.has("fails")) {
      return fail(ENODEV, parameters.text("fails", ""));
    }
    return std::make_unique<Anything>(name, is_driver, parameters.has("opens") ? EACCES : 0);
  };
}

inline Entry driver_entry(std::string_view name, Service upper, std::vector<ParameterSpec> parameters) {
  return {.name = name,
          .summary = "",
          .kind = Entry::Kind::driver,
          .upper = upper,
          .parameters = std::move(parameters),
          .make = maker(name, true)};
}

inline Entry module_entry(std::string_view name, Service lower, Service upper, std::vector<ParameterSpec> parameters) {
  return {.name = name,
          .summary = "",
          .lower = accepts(lower),
          .upper = upper,
          .parameters = std::move(parameters),
          .make = maker(name, false)};
}

inline ParameterSpec failing(std::string_view name) { return {.name = name, .meaning = "fails"}; }

inline Registry fake_registry() {
  using Type = ParameterSpec::Type;
  Registry registry;
  registry.add(driver_entry("packet", Service::link,
                            {{.name = "device", .meaning = "the name of a network device", .required = true},
                             {.name = "ring", .type = Type::integer, .meaning = "", .minimum = 1, .maximum = 4096},
                             {.name = "blocking", .type = Type::boolean, .meaning = ""},
                             failing("fails"),
                             failing("opens")}));
  registry.add(driver_entry("kernel", Service::transport, {failing("opens")}));
  registry.add(module_entry("ip", Service::link, Service::network,
                            {{.name = "address", .type = Type::texts, .meaning = ""},
                             {.name = "loss", .type = Type::real, .meaning = "", .minimum = 0, .maximum = 1},
                             {.name = "mtu", .type = Type::integer, .meaning = "", .minimum = 68},
                             {.name = "mode", .meaning = "", .choices = {"host", "router"}},
                             {.name = "roles", .type = Type::texts, .meaning = "", .choices = {"a", "b"}},
                             failing("fails"),
                             failing("opens")}));
  registry.add(module_entry("udp", Service::network, Service::transport, {}));
  registry.add(module_entry("timod", Service::transport, Service::user, {}));
  Entry tap = module_entry("tap", Service::link, Service::link, {{.name = "file", .meaning = "where to write to"}});
  tap.lower = accepts_any;
  tap.transparent = true;
  registry.add(std::move(tap));
  return registry;
}

}  // namespace sluice::test
