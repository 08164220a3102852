// SPDX-License-Identifier: Apache-2.0
// The xdp driver on a veth pair in a namespace of the test's own.
#include "dlpi/xdp.h"

#include <string>
#include <string_view>
#include <tuple>

#include "tests/dlpi/datagram.h"
#include "tests/dlpi/test_stream.h"
#include "tests/dlpi/traffic.h"
#include "tests/dlpi/xdp/xdp_namespace.h"

namespace sluice::dlpi::test {
namespace {

constexpr std::uint16_t sap = 0x9000;
constexpr wire::MacAddress near_mac{{0x02, 0, 0, 0, 0, 1}};
constexpr wire::MacAddress far_mac{{0x02, 0, 0, 0, 0, 2}};

/// In both modes that veth has, on either path.
class Xdp : public XdpVethTest, public testing::WithParamInterface<std::tuple<const char*, ProcessingMode>> {
 protected:
  Xdp() { add_drivers(registry_); }

  static const char* mode() { return std::get<0>(GetParam()); }
  static Parameters parameters(const char* device, std::int64_t frames = 2048) {
    Parameters result;
    result.set("device", device);
    result.set("mode", mode());
    result.set("frames", frames);
    return result;
  }
  void open(Stream& stream, const char* device, std::uint16_t bound, std::int64_t frames = 2048) {
    stream.set_mode(std::get<1>(GetParam()));
    const Status opened = stream.open(registry_, "xdp", parameters(device, frames));
    ASSERT_TRUE(opened) << opened.error().text;
    stream.bind(bound);
  }

  StreamSet set_;
  Registry registry_;
};

TEST_P(Xdp, CarriesFramesBothWays) {
  Stream near(set_);
  Stream far(set_);
  open(near, "near", sap);
  open(far, "far", sap);
  expect_frames_both_ways(set_, {near, near_mac}, {far, far_mac}, sap, 1400, 1000);
  EXPECT_EQ(near.counted("transmit_error") + far.counted("kernel_dropped"), 0U);
}

INSTANTIATE_TEST_SUITE_P(Modes, Xdp,
                         testing::Combine(testing::Values("generic", "native"),
                                          testing::Values(ProcessingMode::layered, ProcessingMode::fused)),
                         [](const auto& parameter) {
                           return std::string(std::get<0>(parameter.param)) + "_" +
                                  std::string(name_of(std::get<1>(parameter.param)));
                         });

}  // namespace
}  // namespace sluice::dlpi::test
