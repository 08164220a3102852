// SPDX-License-Identifier: Apache-2.0
#include "apps/sluice/manual.h"

#include <gtest/gtest.h>

#include <string>

#include "stack/modules/register.h"
#include "tests/stack/modules/harness.h"

namespace sluice::test {
namespace {

Registry registry_of_modules() {
  Registry registry;
  add_modules(registry);
  return registry;
}

TEST(Manual, EveryModuleHasOneWithAllSections) {
  const Registry registry = registry_of_modules();
  for (const auto& [name, entry] : registry.entries()) {
    const std::string manual(manual_of(name));
    EXPECT_EQ(manual.find(std::string(name) + " - "), 0U) << name;
    for (const std::string_view section :
         {"\nAccepts and produces\n", "\nParameters\n", "\nCounters\n", "\nFlow control\n", "\nExample\n"}) {
      EXPECT_NE(manual.find(section), std::string::npos) << name << " lacks " << section;
    }
  }
}

TEST(Manual, EveryParameterIsInIt) {
  const Registry registry = registry_of_modules();
  for (const auto& [name, entry] : registry.entries()) {
    for (const ParameterSpec& parameter : entry.parameters) {
      EXPECT_NE(manual_of(name).find("\n  " + std::string(parameter.name)), std::string::npos)
          << name << " lacks " << parameter.name;
    }
  }
}

TEST(Manual, WhatIsNoModuleHasNone) {
  EXPECT_EQ(manual_of("register"), "");
  EXPECT_EQ(manual_of("udp_binding"), "");
  EXPECT_EQ(manual_of(""), "");
}

TEST(Register, EveryEntryHasASummaryAndAFactory) {
  const Registry registry = registry_of_modules();
  for (const auto& [name, entry] : registry.entries()) {
    EXPECT_FALSE(entry.summary.empty()) << name;
    EXPECT_TRUE(entry.make != nullptr) << name;
    EXPECT_EQ(entry.kind, Entry::Kind::module) << name;
    for (const ParameterSpec& parameter : entry.parameters) {
      EXPECT_FALSE(parameter.meaning.empty()) << name << " " << parameter.name;
    }
  }
}

}  // namespace
}  // namespace sluice::test
