// SPDX-License-Identifier: Apache-2.0

// Document 004 (Altintas, Aida and Saito, Improving end-to-end throughput for file transfer using combined layers):
// what the layers above IP cost, and what in-order delivery does to an application.
//
//   throughput, throughput_ratio  the document's Figure 2: 4 MiB between two processes of one host, by the size of the
//                                 messages; kernel_tcp, kernel_udp and raw_ip are sockets over loopback, ip_*, udp_*
//                                 and tcp_* our stacks over a wire in memory, layered and fused, ip by putmsg() and
//                                 getmsg(). Both ends are in one thread and what counts is its CPU time: the rate of a
//                                 processor that does both, as the document's did
//   order_*                       the document's discussion, in simulated time: bench/layering_order.cc

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/experiment.h"
#include "bench/transfers.h"
#include "bench/veth_lab.h"
#include "bench/ways.h"

namespace sluice::bench {
namespace {

constexpr std::uint32_t loopback = INADDR_LOOPBACK;
constexpr std::size_t datagram_bytes_max = 65'504;

Arm moves(const std::string& name, Transfer& transfer, std::size_t size, ProcessingMode mode) {
  return timed(name, [&transfer, size, mode] {
    transfer.set_mode(mode);
    transfer.move(size);
  });
}

TEST(layering, throughput) {
  if (const std::string missing = VethLab::missing(); !missing.empty()) {
    GTEST_SKIP() << "this figure needs " << missing;
  }
  veth_lab().enter_near();
  const KernelTransfer::Place here{.address = loopback};
  KernelTransfer kernel_tcp(KernelTransfer::Kind::tcp, here, here);
  KernelTransfer kernel_udp(KernelTransfer::Kind::udp, here, here);
  KernelTransfer raw_ip(KernelTransfer::Kind::raw, here, here);
  IpTransfer ip({wire_end("ip", 'a', 65'535), wire_end("ip", 'b', 65'535)});
  UdpTransfer udp({wire_end("udp", 'a', 65'535), wire_end("udp", 'b', 65'535)});
  ConnectionTransfer tcp({wire_end("tcp", 'a', 65'535), wire_end("tcp", 'b', 65'535)});
  struct Row {
    const char* name;
    Transfer& transfer;
    ProcessingMode mode;
  };
  const std::vector<Row> rows{{"kernel_tcp", kernel_tcp, ProcessingMode::layered},
                              {"kernel_udp", kernel_udp, ProcessingMode::layered},
                              {"raw_ip", raw_ip, ProcessingMode::layered},
                              {"ip_layered", ip, ProcessingMode::layered},
                              {"ip_fused", ip, ProcessingMode::fused},
                              {"udp_layered", udp, ProcessingMode::layered},
                              {"udp_fused", udp, ProcessingMode::fused},
                              {"tcp_layered", tcp, ProcessingMode::layered},
                              {"tcp_fused", tcp, ProcessingMode::fused}};
  const Figure speed("throughput", "Mbit/s");
  const Figure ratio("throughput_ratio", "ratio");
  for (const std::size_t size :
       full_or_tiny<std::size_t>({256, 1024, 4096, 8192, 16'384, 32'768, datagram_bytes_max}, {4096})) {
    std::vector<Arm> arms;
    for (const Row& row : rows) {
      row.transfer.set_mode(row.mode);
      ASSERT_TRUE(row.transfer.is_faithful(size)) << row.name << ' ' << size;
      arms.push_back(moves(row.name, row.transfer, size, row.mode));
    }
    const Rounds rounds(std::move(arms));
    for (const Row& row : rows) {
      ASSERT_TRUE(row.transfer.whole()) << "messages were lost: " << row.name << ' ' << size;
      speed.add(row.name, size, rounds.megabits_per_second(row.name, file_bytes));
    }
    for (const auto& [arm, reference] :
         std::vector<std::pair<std::string, std::string>>{{"kernel_udp", "kernel_tcp"},
                                                          {"raw_ip", "kernel_udp"},
                                                          {"raw_ip", "kernel_tcp"},
                                                          {"ip_layered", "udp_layered"},
                                                          {"ip_layered", "raw_ip"},
                                                          {"udp_layered", "kernel_udp"},
                                                          {"udp_fused", "udp_layered"},
                                                          {"tcp_layered", "kernel_tcp"},
                                                          {"tcp_fused", "tcp_layered"}}) {
      ratio.add(arm + "/" + reference, size, rounds.ratio(arm, reference));
    }
  }
}

}  // namespace
}  // namespace sluice::bench
