// SPDX-License-Identifier: Apache-2.0
#include "ilp/kernels.h"

#include "base/contract.h"
#include "ilp/scalar.h"

namespace sluice::ilp {
namespace {

void require_units(std::size_t unit, std::size_t size) {
  SLUICE_REQUIRE(unit == 2 || unit == 4 || unit == 8);
  SLUICE_REQUIRE(size % unit == 0);
}

}  // namespace

std::uint16_t sum(ConstBytes bytes) { return scalar::sum(bytes); }

std::uint16_t sum_at_odd_offset(ConstBytes bytes) { return byte_swapped(sum(bytes)); }

void swap(std::size_t unit, Bytes bytes) {
  require_units(unit, bytes.size());
  scalar::swap(unit, bytes);
}

void swap_copy(std::size_t unit, ConstBytes source, Bytes destination) {
  require_units(unit, source.size());
  SLUICE_REQUIRE(destination.size() >= source.size());
  scalar::swap_copy(unit, source, destination);
}

void copy(ConstBytes source, Bytes destination) {
  SLUICE_REQUIRE(destination.size() >= source.size());
  scalar::copy(source, destination);
}

std::uint16_t sum_copy(ConstBytes source, Bytes destination) {
  SLUICE_REQUIRE(destination.size() >= source.size());
  return scalar::sum_copy(source, destination);
}

}  // namespace sluice::ilp
