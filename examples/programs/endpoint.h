// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the programs of this folder share: an endpoint on a declared stack, a datagram, and an end to errors.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "dlpi/register.h"
#include "edge/run_loop.h"
#include "stack/head/stack_file.h"
#include "stack/modules/register.h"
#include "stack/wire/address.h"
#include "tli/endpoint.h"

namespace programs {

using namespace sluice;

[[noreturn]] inline void give_up(const std::string& why) {
  std::cerr << why << '\n';
  std::exit(1);
}

/// What a call has brought; the program ends if it failed.
template <class T>
T must(std::string_view call, tli::Outcome<T> outcome) {
  if (!outcome) {
    give_up(tli::Endpoint::t_error(call, outcome.error()));
  }
  if constexpr (!std::is_void_v<T>) {
    return std::move(*outcome);
  }
}
template <class T>
T must(Result<T> result) {
  if (!result) {
    give_up(result.error().text);
  }
  return std::move(*result);
}

/// An endpoint on the stack that `file` calls `name`. Its calls wait through `waiter`.
inline std::unique_ptr<tli::Endpoint> open_endpoint(StreamSet& set, Waiter& waiter, const StackFile& file,
                                                    std::string_view name) {
  std::unique_ptr<Stream> stream = must(open_stack(set, *must(file.find(name))));
  stream->set_waiter(&waiter);
  return must("t_open", tli::Endpoint::t_open(std::move(stream), nullptr));
}

/// A data unit with room for an address and data.
struct Datagram {
  std::array<std::byte, wire::TransportAddress::encoded_size_max> address{};
  std::array<std::byte, 8192> data{};
  tli::t_unitdata unit{.addr = {.maxlen = address.size(), .len = 0, .buf = address.data()},
                       .opt = {},
                       .udata = {.maxlen = data.size(), .len = 0, .buf = data.data()}};

  Datagram() = default;
  Datagram(std::string_view to, ConstBytes bytes) {
    unit.addr.len = must(wire::TransportAddress::from_text(to)).encode(address);
    unit.udata.len = bytes.size();
    std::ranges::copy(bytes, data.begin());
  }
  Datagram(const Datagram&) = delete;  // it points into itself
  Datagram& operator=(const Datagram&) = delete;

  [[nodiscard]] Bytes bytes() { return Bytes(data).first(unit.udata.len); }
};

/// Two hosts in one program: an endpoint each on the stacks that `stacks` calls "a" and "b", which may name `own`, too.
/// "b" listens at port 7000.
struct Hosts {
  Hosts(std::string_view stacks, Entry own) {
    add_modules(registry);
    dlpi::add_drivers(registry);
    registry.add(std::move(own));
    const StackFile file = must(StackFile::parse(stacks, "this program", registry));
    a = open_endpoint(set, *loop, file, "a");
    b = open_endpoint(set, *loop, file, "b");
    Datagram port("0.0.0.0:7000", {});
    const tli::t_bind listening{.addr = port.unit.addr, .qlen = 0};
    must("t_bind", b->t_bind(&listening, nullptr));
    must("t_bind", a->t_bind(nullptr, nullptr));
  }

  StreamSet set;
  Registry registry;
  std::unique_ptr<RunLoop> loop = must(RunLoop::open(set));
  std::unique_ptr<tli::Endpoint> a;
  std::unique_ptr<tli::Endpoint> b;
};

}  // namespace programs
