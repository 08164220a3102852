// SPDX-License-Identifier: Apache-2.0
#pragma once

// Streams of a stack file's words, and endpoints on them, for experiments: what cannot be opened ends the program.
//
// Threads: those of the stream sets.

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "apps/common/registry.h"
#include "base/contract.h"
#include "stack/head/stack_file.h"
#include "stack/wire/address.h"
#include "tli/endpoint.h"

namespace sluice::bench {

inline const Registry& registry() {
  static const Registry all = standard_registry();
  return all;
}

/// The value of what an experiment cannot do without.
template <class T>
T needed(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().text.c_str());
    std::exit(1);
  }
  return std::move(*result);
}
inline void needed(const Status& status) {
  if (!status) {
    std::fprintf(stderr, "%s\n", status.error().text.c_str());
    std::exit(1);
  }
}

/// The stream that `stack`, the body of a [stack.NAME], declares.
inline std::unique_ptr<Stream> opened(StreamSet& set, const std::string& stack) {
  const StackFile file = needed(StackFile::parse("[stack.end]\n" + stack, "experiment", registry()));
  return needed(open_stack(set, file.stacks().front()));
}

/// A transport address as TLI wants it.
class Name {
 public:
  Name() = default;
  explicit Name(const wire::TransportAddress& address) : size_(address.encode(bytes_)) {}

  [[nodiscard]] tli::netbuf buffer() { return {bytes_.size(), size_, bytes_.data()}; }

 private:
  std::array<std::byte, wire::TransportAddress::encoded_size_max> bytes_{};
  std::size_t size_ = 0;
};

/// A data unit to or from `name`.
inline tli::t_unitdata unit_of(Name& name, Bytes data) {
  return {.addr = name.buffer(), .opt = {}, .udata = {data.size(), data.size(), data.data()}};
}

/// An endpoint bound to `address`; with a `qlen` it listens.
inline std::unique_ptr<tli::Endpoint> bound(std::unique_ptr<Stream> stream, const wire::TransportAddress& address,
                                            std::uint32_t qlen = 0) {
  auto endpoint = tli::Endpoint::t_open(std::move(stream), nullptr);
  SLUICE_REQUIRE(endpoint.has_value());
  Name name(address);
  const tli::t_bind request{.addr = name.buffer(), .qlen = qlen};
  SLUICE_REQUIRE((*endpoint)->t_bind(&request, nullptr).has_value());
  return std::move(*endpoint);
}

}  // namespace sluice::bench
