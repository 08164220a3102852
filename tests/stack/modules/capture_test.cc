// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/capture.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "stack/modules/capture_file.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/udp.h"
#include "tests/capture_into.h"
#include "tests/file_text.h"
#include "tests/stack/modules/harness.h"

namespace sluice::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::Ipv4Address;
using wire::MacAddress;

const MacAddress own_mac{{2, 0, 0, 0, 0, 1}};
const MacAddress peer_mac{{2, 0, 0, 0, 0, 2}};
constexpr Duration wall_clock_start = seconds(1'700'000'000) + std::chrono::nanoseconds(123'456'789);

/// An IPv4 packet with a UDP datagram that carries `payload`, all sums right.
std::string packet(std::string_view payload) {
  const Ipv4Address from{{10, 0, 0, 1}};
  const Ipv4Address to{{10, 0, 0, 2}};
  const auto size = static_cast<std::uint16_t>(payload.size());
  std::array<std::byte, wire::Ipv4Header::size + wire::UdpHeader::size> headers{};
  wire::Ipv4Header{.payload_length = static_cast<std::uint16_t>(size + wire::UdpHeader::size),
                   .protocol = wire::protocol_udp,
                   .source = from,
                   .destination = to}
      .emit(headers);
  wire::UdpHeader udp{.source_port = 5000, .destination_port = 6000, .payload_length = size};
  udp.checksum = wire::udp_checksum_of(add_sums(wire::udp_sum(from, to, udp), header_sum(as_bytes(payload))));
  udp.emit(Bytes(headers).subspan(wire::Ipv4Header::size));
  return std::string(as_text(headers)) + std::string(payload);
}

Message dl_unitdata_req(Stack& stack, std::uint16_t sap, std::string_view text) {
  return with_data(proto(stack, wire::dlpi::UnitdataReq{{peer_mac, sap}, {}}), data(stack, text));
}
Message dl_unitdata_ind(Stack& stack, std::uint16_t sap, std::string_view text) {
  return with_data(proto(stack, wire::dlpi::UnitdataInd{{own_mac, sap}, {peer_mac, sap}, false}), data(stack, text));
}

/// A capture into memory, at a known time.
struct Recording {
  std::string bytes;
  std::vector<std::size_t> writes;
  bool writable = true;

  Capture::Options options(Capture::Link link = Capture::Link::automatic, std::uint32_t snap_bytes = 262144) {
    const CaptureSink sink = [this](ConstBytes more) {
      writes.push_back(more.size());
      bytes += as_text(more);
      return writable;
    };
    Capture::Options options = capture_into(sink, wall_clock_start);
    options.snap_bytes = snap_bytes;
    options.link = link;
    return options;
  }
};

std::filesystem::path temporary_file(const std::string& name) {
  return std::filesystem::temp_directory_path() / ("sluice_" + std::to_string(::getpid()) + "_" + name);
}

/// What `command` prints, and its exit status as a last line.
std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen((command + " 2>/dev/null; echo \"exit $?\"").c_str(), "r");
  SLUICE_REQUIRE(pipe != nullptr);
  std::string output;
  std::array<char, 4096> part{};
  while (const std::size_t size = std::fread(part.data(), 1, part.size(), pipe)) {
    output.append(part.data(), size);
  }
  ::pclose(pipe);
  return output;
}

/// tshark's fields of each packet of a recording, a line each. tshark must be there: scripts/packages installs it.
std::string tshark(const Recording& recording, const std::string& arguments) {
  const std::filesystem::path path = temporary_file("recording.pcapng");
  std::ofstream(path, std::ios::binary) << recording.bytes;
  const std::string output = output_of("LC_ALL=C tshark -d udp.port==6000,data -r " + path.string() + " " + arguments);
  std::filesystem::remove(path);
  return output;
}

TEST(Capture, PassesEverythingUnchangedAndABatchWhole) {
  Recording recording;
  Stack stack;
  stack.push<Capture>(recording.options());
  expect_everything_passes(stack);
}

TEST(Capture, TsharkReadsFramesBothWaysWithTheirTimes) {
  Recording recording;
  {
    Stack stack;
    stack.push<Capture>(recording.options());
    stack.up(proto(stack, wire::dlpi::BindAck{.sap = 0x800, .address = {own_mac, 0x800}}, MessageType::pcproto));
    stack.down(dl_unitdata_req(stack, wire::ethertype_ipv4, packet("sent")));
    stack.advance(milliseconds(1500));
    stack.up(dl_unitdata_ind(stack, wire::ethertype_ipv4, packet("received")));
  }
  const std::string fields = tshark(
      recording,
      "-o udp.check_checksum:TRUE -o ip.check_checksum:TRUE -T fields -e frame.time_epoch -e "
      "frame.packet_flags_direction "
      "-e eth.dst -e eth.src -e ip.src -e udp.dstport -e udp.checksum.status -e ip.checksum.status -e data.data");
  EXPECT_EQ(fields,
            "1700000000.123456789\t0x00000002\t02:00:00:00:00:02\t02:00:00:00:00:01\t10.0.0.1\t6000\t1\t1\t73656e74\n"
            "1700000001.623456789\t0x00000001\t02:00:00:00:00:01\t02:00:00:00:00:02\t10.0.0.1\t6000\t1\t1\t"
            "7265636569766564\n"
            "exit 0\n");
}

TEST(Capture, TsharkFindsNothingMalformedAndTheInterfacesNames) {
  Recording recording;
  {
    Stack stack;
    stack.push<Capture>(recording.options());
    for (const std::size_t size : {0U, 1U, 2U, 3U, 4U, 1472U}) {
      stack.down(dl_unitdata_req(stack, wire::ethertype_ipv4, packet(std::string(size, 'x'))));
      stack.down(data(stack, "plain data"));
    }
  }
  EXPECT_EQ(tshark(recording, "-Y '_ws.malformed || (eth && _ws.expert.severity >= 0x600000)'"), "exit 0\n");
  const std::string kinds = tshark(recording, "-T fields -e frame.interface_name -e frame.encap_type -c 2");
  EXPECT_EQ(kinds, "dlpi\t1\ndata\t45\nexit 0\n");
}

TEST(Capture, DataOfManyBlocksIsOnePacket) {
  Recording recording;
  const std::string whole = packet("in several blocks");
  {
    Stack stack;
    stack.push<Capture>(recording.options());
    stack.up(with_data(proto(stack, wire::dlpi::UnitdataInd{{own_mac, 0x800}, {peer_mac, 0x800}, false}),
                       data_chain(stack, {whole.substr(0, 7), whole.substr(7, 20), whole.substr(27)})));
  }
  EXPECT_EQ(tshark(recording, "-T fields -e data.text -o data.show_as_text:TRUE"), "in several blocks\nexit 0\n");
}

TEST(Capture, MoreThanSnapBytesIsCutAndTheLengthKept) {
  Recording recording;
  {
    Stack stack;
    stack.push<Capture>(recording.options(Capture::Link::automatic, 64));
    stack.down(dl_unitdata_req(stack, wire::ethertype_ipv4, packet(std::string(1000, 'x'))));
  }
  EXPECT_EQ(tshark(recording, "-T fields -e frame.cap_len -e frame.len"), "64\t1042\nexit 0\n");
}

TEST(Capture, LinkIpLeavesTheLinkOutAndWhatIsNotIp) {
  Recording recording;
  {
    Stack stack;
    Capture& capture = stack.push<Capture>(recording.options(Capture::Link::ip));
    stack.down(dl_unitdata_req(stack, wire::ethertype_ipv4, packet("x")));
    stack.down(dl_unitdata_req(stack, wire::ethertype_arp, "an ARP packet"));
    EXPECT_EQ(count(capture, "captured"), 1U);
    EXPECT_EQ(count(capture, "not_ip"), 1U);
  }
  EXPECT_EQ(tshark(recording, "-T fields -e frame.encap_type -e ip.dst"), "7\t10.0.0.2\nexit 0\n");
}

TEST(Capture, LinkEthernetTakesDataAsFramesAndLinkUserAsData) {
  Recording frames;
  {
    Stack stack;
    stack.push<Capture>(frames.options(Capture::Link::ethernet));
    stack.down(data(stack, std::string("\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0", 14) + packet("raw mode")));
  }
  EXPECT_EQ(tshark(frames, "-T fields -e eth.src -e ip.dst"), "02:00:00:00:00:01\t10.0.0.2\nexit 0\n");

  Recording user;
  {
    Stack stack;
    stack.push<Capture>(user.options(Capture::Link::user));
    stack.down(dl_unitdata_req(stack, wire::ethertype_ipv4, "abc"));
  }
  EXPECT_EQ(tshark(user, "-T fields -e frame.encap_type -e frame.len"), "45\t3\nexit 0\n");
}

TEST(Capture, TransportDatagramsAreTheirData) {
  Recording recording;
  {
    Stack stack;
    stack.push<Capture>(recording.options());
    const std::vector<std::byte> address = encoded(wire::TransportAddress{Ipv4Address{{10, 0, 0, 2}}, 7});
    stack.down(unitdata_req(stack, address, {}, "down"));
    stack.up(unitdata_ind(stack, address, {}, "up"));
  }
  EXPECT_EQ(tshark(recording, "-T fields -e frame.encap_type -e frame.len"), "45\t4\n45\t2\nexit 0\n");
}

TEST(Capture, BytesAreGatheredAndWrittenAfterASecondAtTheLatest) {
  Recording recording;
  Stack stack;
  stack.push<Capture>(recording.options());
  EXPECT_EQ(recording.writes.size(), 1U);  // the section header
  for (int i = 0; i < 10; ++i) {
    stack.down(data(stack, "x"));
  }
  stack.advance(milliseconds(999));
  EXPECT_EQ(recording.writes.size(), 1U);
  stack.advance(milliseconds(1));
  EXPECT_EQ(recording.writes.size(), 2U);
  const std::string large(10'000, 'x');
  for (int i = 0; i < 20; ++i) {
    stack.down(data(stack, large));
  }
  EXPECT_EQ(recording.writes.size(), 4U);
  EXPECT_LE(recording.writes.back(), CaptureRecording::buffer_bytes_max + 10'100);
}

TEST(Capture, WhenTheDiskIsFullNothingMoreIsWrittenAndEverythingPasses) {
  Recording recording;
  Stack stack;
  Capture& capture = stack.push<Capture>(recording.options());
  stack.down(data(stack, "x"));
  recording.writable = false;
  stack.advance(seconds(1));
  const std::size_t size = recording.bytes.size();
  stack.down(data(stack, "y"));
  stack.advance(seconds(2));
  EXPECT_EQ(recording.bytes.size(), size);
  EXPECT_EQ(count(capture, "not_written"), 1U);
  EXPECT_EQ(take_texts(stack.driver()), (std::vector<std::string>{"x", "y"}));
}

TEST(Capture, MalformedPrimitivesAreDataAndDoNoHarm) {
  Recording recording;
  {
    Stack stack;
    stack.push<Capture>(recording.options());
    stack.down(with_data(raw_proto(stack, {wire::dlpi::DL_UNITDATA_REQ, 8, 4000}), data(stack, "abc")));
    stack.up(raw_proto(stack, {wire::dlpi::DL_BIND_ACK}));
  }
  EXPECT_EQ(tshark(recording, "-T fields -e frame.encap_type"), "45\nexit 0\n");
}

TEST(CaptureFile, TheEntryWritesAFileThatOnlyItsOwnerReads) {
  const std::filesystem::path path = temporary_file("entry.pcapng");
  {
    Stack stack;
    stack.push(make(capture_entry(), stack, {{"file", path.string()}}).value());
    stack.down(data(stack, "x"));
  }
  struct ::stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  EXPECT_EQ(output_of("capinfos -Mc " + path.string() + " | tail -1"), "Number of packets:   1\nexit 0\n");
  std::filesystem::remove(path);
}

TEST(CaptureFile, AFileThatIsThereIsReplaced) {
  const std::filesystem::path path = temporary_file("replaced.pcapng");
  std::ofstream(path) << std::string(10'000, '.');
  {
    Stack stack;
    stack.push(make(capture_entry(), stack, {{"file", path.string()}}).value());
  }
  EXPECT_LT(file_text(path).size(), 100U);
  EXPECT_EQ(file_text(path).substr(0, 4), "\x0a\x0d\x0d\x0a");
  std::filesystem::remove(path);
}

TEST(CaptureFile, AFileInUseOrOutOfReachIsRefused) {
  const std::filesystem::path path = temporary_file("busy.pcapng");
  const auto first = open_capture_file(path.string(), CaptureFileStart::empty);
  ASSERT_TRUE(first.has_value());
  const auto second = open_capture_file(path.string(), CaptureFileStart::empty);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, EBUSY);
  std::filesystem::remove(path);
  const auto nowhere = open_capture_file("/nonexistent/directory/file", CaptureFileStart::empty);
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(nowhere.error().code, ENOENT);
  EXPECT_NE(nowhere.error().text.find("/nonexistent/directory/file"), std::string::npos);
}

/// Streams of one set whose captures name one file: such as the connections of a server, which are made of one
/// declaration, and come and go.
struct SharedFile {
  ~SharedFile() { std::filesystem::remove(path); }

  std::unique_ptr<Stack> stream(std::int64_t snap_bytes = 262144) {
    auto stack = std::make_unique<Stack>(set);
    stack->push(make(capture_entry(), *stack, {{"file", path.string()}, {"snap_bytes", snap_bytes}}).value());
    return stack;
  }
  /// Number, size and interface of each packet.
  [[nodiscard]] std::string packets() const {
    return output_of("tshark -r " + path.string() +
                     " -T fields -E separator=/s -e frame.number -e frame.len -e frame.cap_len -e frame.interface_id");
  }

  std::filesystem::path path = temporary_file("shared.pcapng");
  StreamSet set;
};

TEST(CaptureFile, StreamsOfASetShareIt) {
  SharedFile file;
  const auto first = file.stream();
  auto second = file.stream(64);
  auto third = file.stream();
  first->down(data(*first, "1"));
  second->down(data(*second, std::string(100, '2')));
  third->up(data(*third, "333"));
  second.reset();
  const std::string until_now = "1 1 1 0\n2 100 64 1\n3 3 3 0\n";
  EXPECT_EQ(file.packets(), until_now + "exit 0\n") << "written when a stream closes";
  first->down(data(*first, "4444"));
  third.reset();
  EXPECT_EQ(file.packets(), until_now + "4 4 4 0\nexit 0\n");
}

TEST(CaptureFile, OneThatComesWhenAllHaveGoneAddsToIt) {
  SharedFile file;
  for (const std::string_view text : {"1", "22", "333"}) {
    const auto stack = file.stream();
    stack->down(data(*stack, text));
  }
  EXPECT_EQ(output_of("tshark -r " + file.path.string() + " -T fields -e frame.len"), "1\n2\n3\nexit 0\n");
}

TEST(CaptureFile, AnotherSetIsRefusedWhileItIsWrittenTo) {
  SharedFile file;
  const auto here = file.stream();
  Stack there;
  const Status pushed = there.try_push(make(capture_entry(), there, {{"file", file.path.string()}}).value());
  ASSERT_FALSE(pushed.has_value());
  EXPECT_EQ(pushed.error().code, EBUSY);
}

// Whoever makes a module to ask it something, as `sluice explain` does, writes nothing.
TEST(CaptureFile, IsOpenedWithTheModuleNotWhenItIsMade) {
  const std::filesystem::path path = temporary_file("precious.pcapng");
  std::ofstream(path) << "precious";
  Stack stack;
  std::unique_ptr<Module> capture = make(capture_entry(), stack, {{"file", path.string()}}).value();
  EXPECT_EQ(file_text(path), "precious");
  stack.push(std::move(capture));
  EXPECT_EQ(file_text(path).find("precious"), std::string::npos);
  std::filesystem::remove(path);
}

TEST(CaptureFile, AFileOutOfReachRefusesThePush) {
  Stack stack;
  const Status pushed =
      stack.try_push(make(capture_entry(), stack, {{"file", std::string("/nonexistent/file")}}).value());
  ASSERT_FALSE(pushed.has_value());
  EXPECT_EQ(pushed.error().code, ENOENT);
}

TEST(CaptureFile, AFullDiskIsToldToTheWriter) {
  const auto sink = open_capture_file("/dev/full", CaptureFileStart::empty);
  ASSERT_TRUE(sink.has_value());
  EXPECT_FALSE((*sink)(as_bytes("x")));
}

}  // namespace
}  // namespace sluice::test
