// SPDX-License-Identifier: Apache-2.0
#include "tpi/register.h"

#include <gtest/gtest.h>

#include "stack/core/stream_set.h"

namespace sluice::tpi {
namespace {

TEST(Providers, KernelUdpIsADriverThatOffersTransportService) {
  Registry registry;
  add_providers(registry);
  const Entry* entry = registry.find("kernel_udp");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->kind, Entry::Kind::driver);
  EXPECT_EQ(entry->upper, Service::transport);
  StreamSet set;
  Parameters parameters;
  parameters.set("gso", false);
  parameters.set("receive_buffer_bytes", std::int64_t{65536});
  const auto made = entry->make(set, parameters);
  ASSERT_TRUE(made);
  EXPECT_EQ((*made)->name(), "kernel_udp");
}

TEST(Providers, KernelTcpIsADriverThatOffersTransportService) {
  Registry registry;
  add_providers(registry);
  const Entry* entry = registry.find("kernel_tcp");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->kind, Entry::Kind::driver);
  EXPECT_EQ(entry->upper, Service::transport);
  StreamSet set;
  Parameters parameters;
  parameters.set("send_buffer_bytes", std::int64_t{65536});
  const auto made = entry->make(set, parameters);
  ASSERT_TRUE(made);
  EXPECT_EQ((*made)->name(), "kernel_tcp");
}

}  // namespace
}  // namespace sluice::tpi
