// SPDX-License-Identifier: Apache-2.0
#include "bench/cpu_kind.h"

#include <array>
#include <charconv>

namespace sluice::bench {
namespace {

/// Models first..last of a family. AMD's are those of Linux, arch/x86/kernel/cpu/amd.c; Intel's of
/// arch/x86/include/asm/intel-family.h.
struct Models {
  int family, first, last;
  std::string_view name;
};

constexpr std::array amd = {
    Models{0x17, 0x00, 0x2f, "Zen"},   Models{0x17, 0x30, 0xaf, "Zen 2"}, Models{0x19, 0x00, 0x0f, "Zen 3"},
    Models{0x19, 0x10, 0x1f, "Zen 4"}, Models{0x19, 0x20, 0x5f, "Zen 3"}, Models{0x19, 0x60, 0xaf, "Zen 4"},
    Models{0x1a, 0x00, 0x7f, "Zen 5"},
};

constexpr std::array intel = {
    Models{6, 0x3c, 0x3c, "Haswell"},         Models{6, 0x3f, 0x3f, "Haswell"},
    Models{6, 0x3d, 0x3d, "Broadwell"},       Models{6, 0x4f, 0x4f, "Broadwell"},
    Models{6, 0x56, 0x56, "Broadwell"},       Models{6, 0x4e, 0x4e, "Skylake"},
    Models{6, 0x5e, 0x5e, "Skylake"},         Models{6, 0x55, 0x55, "Skylake or Cascade Lake"},
    Models{6, 0x8e, 0x8e, "Kaby Lake"},       Models{6, 0x9e, 0x9e, "Kaby Lake"},
    Models{6, 0x6a, 0x6a, "Ice Lake"},        Models{6, 0x6c, 0x6c, "Ice Lake"},
    Models{6, 0x7e, 0x7e, "Ice Lake"},        Models{6, 0x8c, 0x8d, "Tiger Lake"},
    Models{6, 0x8f, 0x8f, "Sapphire Rapids"}, Models{6, 0xcf, 0xcf, "Emerald Rapids"},
    Models{6, 0xad, 0xae, "Granite Rapids"},  Models{6, 0xaf, 0xaf, "Sierra Forest"},
    Models{6, 0x97, 0x97, "Alder Lake"},      Models{6, 0x9a, 0x9a, "Alder Lake"},
    Models{6, 0xb7, 0xb7, "Raptor Lake"},     Models{6, 0xba, 0xba, "Raptor Lake"},
};

/// The value of the first line "key : value", or of none.
std::string_view value_of(std::string_view cpuinfo, std::string_view key) {
  while (!cpuinfo.empty()) {
    const std::string_view line = cpuinfo.substr(0, cpuinfo.find('\n'));
    cpuinfo.remove_prefix(line.size() == cpuinfo.size() ? line.size() : line.size() + 1);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1) != key) {
      continue;
    }
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string_view::npos ? std::string_view() : line.substr(start);
  }
  return {};
}

int number_of(std::string_view text) {
  int number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

bool has_flag(std::string_view flags, std::string_view flag) {
  for (std::size_t at = flags.find(flag); at != std::string_view::npos; at = flags.find(flag, at + 1)) {
    const std::size_t end = at + flag.size();
    if ((at == 0 || flags[at - 1] == ' ') && (end == flags.size() || flags[end] == ' ')) {
      return true;
    }
  }
  return false;
}

std::string_view vectors_of(std::string_view flags) {
  for (const std::string_view flag : {"avx512_vnni", "avx_vnni", "avx512bw", "avx2", "sse4_1", "asimddp", "asimd"}) {
    if (has_flag(flags, flag)) {
      return flag;
    }
  }
  return "no vectors known";
}

template <std::size_t size>
std::string architecture(const std::array<Models, size>& table, int family, int model) {
  for (const Models& models : table) {
    if (models.family == family && models.first <= model && model <= models.last) {
      return std::string(models.name);
    }
  }
  return "family " + std::to_string(family) + ", model " + std::to_string(model);
}

std::string brand(std::string_view vendor, std::string_view model_name) {
  for (const std::string_view name : {"EPYC", "Ryzen", "Xeon", "Core"}) {
    if (model_name.find(name) != std::string_view::npos) {
      return std::string(vendor) + " " + std::string(name);
    }
  }
  return std::string(vendor);
}

}  // namespace

std::string cpu_kind(std::string_view cpuinfo) {
  const std::string_view vendor = value_of(cpuinfo, "vendor_id");
  const std::string_view model_name = value_of(cpuinfo, "model name");
  const int family = number_of(value_of(cpuinfo, "cpu family"));
  const int model = number_of(value_of(cpuinfo, "model"));
  const std::string vectors = ", " + std::string(vectors_of(value_of(cpuinfo, "flags")));
  if (vendor == "AuthenticAMD") {
    return brand("AMD", model_name) + " (" + architecture(amd, family, model) + ")" + vectors;
  }
  if (vendor == "GenuineIntel") {
    return brand("Intel", model_name) + " (" + architecture(intel, family, model) + ")" + vectors;
  }
  if (const std::string_view part = value_of(cpuinfo, "CPU part"); !part.empty()) {
    return "Arm (implementer " + std::string(value_of(cpuinfo, "CPU implementer")) + ", part " + std::string(part) +
           "), " + std::string(vectors_of(value_of(cpuinfo, "Features")));
  }
  return "unknown CPU" + vectors;
}

}  // namespace sluice::bench
