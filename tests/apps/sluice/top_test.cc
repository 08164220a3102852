// SPDX-License-Identifier: Apache-2.0
// What `sluice top` shows of a server's statistics.
#include "apps/sluice/top.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sluice {
namespace {

using sockets::SocketKind;
using sockets::SocketRecord;

sockets::Address v4(const char* text, std::uint16_t port) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET, text, &in.sin_addr), 1);
  sockets::Address address;
  address.size = sizeof in;
  std::memcpy(address.bytes, &in, sizeof in);
  return address;
}

TopView some_view() {
  TopView view;
  view.records = {{.pid = 300,
                   .uid = 1000,
                   .kind = SocketKind::stream,
                   .state = TCP_ESTABLISHED,
                   .family = AF_INET,
                   .round_trip_us = 250,
                   .local = v4("10.77.0.11", 80),
                   .peer = v4("10.77.0.12", 51234),
                   .received = 1'234'567,
                   .sent = 9999,
                   .receive_queue = 1,
                   .send_queue = 12'345,
                   .retransmissions = 7},
                  {.pid = 20, .kind = SocketKind::datagram, .local = v4("0.0.0.0", 53), .peer = {}},
                  {.pid = 300,
                   .uid = 1000,
                   .kind = SocketKind::listening,
                   .state = TCP_LISTEN,
                   .local = v4("0.0.0.0", 80),
                   .peer = {}}};
  view.totals = {.records = 3, .sockets = 3, .requests = 40, .refused = 4, .malformed = 2, .crowded_out = 1};
  sort_for_top(view);
  return view;
}

TEST(Top, ALineForEachSocketAndOneForAll) {
  EXPECT_THAT(
      top_lines(some_view()),
      testing::ElementsAre(
          "PID   UID  KIND  STATE        LOCAL          PEER                IN   OUT  IN-Q  OUT-Q  AGAIN  RTT-US",
          " 20     0  udp   -            0.0.0.0:53     -                    0     0     0      0      0       0",
          "300  1000  tcp   listen       0.0.0.0:80     -                    0     0     0      0      0       0",
          "300  1000  tcp   established  10.77.0.11:80  10.77.0.12:51234  1.2M  9999     1  12.3k      7     250",
          "3 sockets of 2 processes; requests 40, refused 4, malformed 2, crowded out 1"));
}

TEST(Top, AScreenHasRoomForWhatIsOnIt) {
  const TopView view = some_view();
  for (std::size_t width = 0; width < 130; ++width) {
    for (std::size_t height = 0; height < 8; ++height) {
      const auto lines = top_screen(view, {.received = 1e9, .sent = 12}, width, height);
      EXPECT_LE(lines.size(), height);
      for (const std::string& line : lines) {
        EXPECT_LE(line.size(), width) << line;
      }
    }
  }
  EXPECT_THAT(top_screen(view, {.received = 1e9, .sent = 12}, 40, 4),
              testing::ElementsAre("3 sockets of 2 processes; requests 40, r", "in 1.0G B/s, out 12 B/s",
                                   "PID   UID  KIND  STATE      ", "and 3 lines more"));
}

TEST(Top, RatesAreOfWhatHasMovedSince) {
  const TopView before = some_view();
  TopView now = before;
  now.records[2].received += 5000;
  now.records[0].sent += 300;
  EXPECT_DOUBLE_EQ(rates_between(before, now, std::chrono::seconds(2)).received, 2500);
  EXPECT_DOUBLE_EQ(rates_between(before, now, std::chrono::seconds(2)).sent, 150);
  now.records.pop_back();
  EXPECT_DOUBLE_EQ(rates_between(before, now, std::chrono::seconds(2)).received, 0) << "one that is gone";
  EXPECT_DOUBLE_EQ(rates_between({}, before, std::chrono::seconds(1)).sent, 9999) << "one that is new";
}

TEST(Top, JsonHasClientsSocketsAndTotals) {
  std::vector<nlohmann::json> events;
  for (const std::string& line : top_json(some_view())) {
    events.push_back(nlohmann::json::parse(line));
  }
  ASSERT_EQ(events.size(), 6U);
  EXPECT_EQ(
      events[1],
      (nlohmann::json{
          {"event", "client"}, {"pid", 300}, {"uid", 1000}, {"sockets", 2}, {"received", 1'234'567}, {"sent", 9999}}));
  EXPECT_EQ(events[4]["peer"], "10.77.0.12:51234");
  EXPECT_EQ(events[4]["send_queue"], 12'345);
  EXPECT_EQ(events[4]["retransmissions"], 7);
  EXPECT_EQ(events[5]["event"], "totals");
  EXPECT_EQ(events[5]["clients"], 2);
}

}  // namespace
}  // namespace sluice
