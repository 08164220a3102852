// SPDX-License-Identifier: Apache-2.0
#pragma once

// The kind of a CPU, as a claim names it: "AMD EPYC (Zen 3), avx2", "Intel Xeon (Sapphire Rapids), avx512_vnni".

#include <string>
#include <string_view>

namespace sluice::bench {

/// From the text of /proc/cpuinfo: vendor and brand, microarchitecture, widest vector instructions that ilp/ has
/// kernels for. An unknown microarchitecture is given by its numbers: "AMD EPYC (family 25, model 200), avx2".
[[nodiscard]] std::string cpu_kind(std::string_view cpuinfo);

}  // namespace sluice::bench
