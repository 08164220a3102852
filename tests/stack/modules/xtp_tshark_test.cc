// SPDX-License-Identifier: Apache-2.0
// What associations send, read by Wireshark's own dissector of XTP, which knows nothing of us. It is registered for IP
// protocol 36, so each packet is given an IP header for that. tshark and text2pcap must be there: scripts/packages
// installs them.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/stack/modules/xtp_bed.h"

namespace sluice::test::associations {
namespace {

std::string printed_by(const std::string& command) {
  std::string output;
  FILE* const pipe = popen(command.c_str(), "r");
  SLUICE_REQUIRE(pipe != nullptr);
  std::array<char, 4096> part;
  for (std::size_t got = 0; (got = std::fread(part.data(), 1, part.size(), pipe)) > 0;) {
    output.append(part.data(), got);
  }
  EXPECT_EQ(pclose(pipe), 0) << command;
  return output;
}

TEST(XtpPackets, AreWhatWiresharkTakesThemFor) {
  std::string name = (std::filesystem::temp_directory_path() / "sluice_xtp_XXXXXX").string();
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  const std::filesystem::path folder(name);
  std::size_t packets = 0;
  {
    std::ofstream text(folder / "packets.txt");
    XtpBed bed({xtp::Options{.packet_bytes = 101}, xtp::Options{.packet_bytes = 101, .rate = 1'000'000}},
               ProcessingMode::fused, 3, {.loss = 0.1, .burst = 2});
    bed.network.on_send = [&](const Packet& packet) {
      ++packets;
      std::array<char, 16> digits;
      text << "000000";
      for (const std::byte byte : packet.bytes) {
        std::snprintf(digits.data(), digits.size(), " %02x", std::to_integer<unsigned>(byte));
        text << digits.data();
      }
      text << "\n";
    };
    const Plan plan{.pattern = 1, .ends = {5'000, 5'001, 9'000}};
    bed[0].user().expects = plan;
    bed[1].user().sends = plan;
    bed.connect();
    bed.run(std::chrono::seconds(100));
    EXPECT_EQ(bed[0].user().received, plan.size());
    bed[1].user().call(XtpBed::address(0));
    bed[0].close();  // and one that nobody answers any more: DIAG
    bed.run(std::chrono::milliseconds(1));
  }
  const std::string file = (folder / "packets.pcap").string();
  printed_by("text2pcap -q -i 36 " + (folder / "packets.txt").string() + " " + file + " 2>&1");
  const std::string lines = printed_by("LC_ALL=C tshark -r " + file + " -Y xtp 2>/dev/null");
  const std::string all = printed_by("LC_ALL=C tshark -r " + file + " -V 2>/dev/null");
  std::filesystem::remove_all(folder);
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(lines, '\n')), packets);
  for (const std::string_view type : {"DATA [", "CNTL [", "ECNTL [", "TCNTL [", "FIRST ["}) {
    EXPECT_NE(lines.find(type), std::string::npos) << type;
  }
  for (const std::string_view wrong : {"bogus", "incorrect", "Malformed", "Unknown", "Status: Bad", "Unsupported"}) {
    EXPECT_EQ(all.find(wrong), std::string::npos) << wrong << all.substr(all.find(wrong) - 200, 400);
  }
  EXPECT_NE(all.find("Status: Good"), std::string::npos);
}

}  // namespace
}  // namespace sluice::test::associations
