// SPDX-License-Identifier: Apache-2.0

// Document 000 (a lightweight transport over HIPPI, in user space, with packets of up to 2 MiB): 4 MiB from user memory
// to user memory by packet size, as a share of what the medium gives, and against the kernel's TCP. Both ends are in
// one thread; rates are per CPU second of both.
//
//   memory, memory_share, memory_ratio  packets of up to 2 MiB over a wire in memory, which have no IP: frames
//   (libdlpi)
//                                       on either path; tcp, in segments of up to 64 KiB. kernel_tcp is the kernel's
//                                       over loopback, which is its medium in memory; t_server is two programs' sockets
//                                       of one `sluice serve` (bench/served.h), its tcp looping. `limit` is what moving
//                                       the bytes in and out of the medium costs: two copies, through memory of a
//                                       packet's size
//   veth, veth_share, veth_ratio        the same over a veth pair with its largest MTU: packets of up to 64 KiB through
//                                       `packet`; messages above that for the two TCPs alone. The limit is `frames`
//                                       with the largest packet

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/experiment.h"
#include "bench/served.h"
#include "bench/transfers.h"
#include "bench/veth_lab.h"
#include "bench/ways.h"

namespace sluice::bench {
namespace {

constexpr std::size_t KiB = 1024;
constexpr std::size_t packet_bytes_max = 2048 * KiB;
constexpr unsigned veth_mtu_max = 65'535;
constexpr std::size_t veth_packet_bytes_max = 64'000;
constexpr std::size_t memory_window_bytes = 96 * KiB;  // as what is in a cache
constexpr std::size_t veth_window_bytes = 1024 * KiB;

struct Row {
  std::string name;
  Transfer* transfer;
  ProcessingMode mode = ProcessingMode::layered;
  std::size_t size_max = packet_bytes_max;
};

/// An end of a link of the lab whose ring has a place of the largest packet's size for every message of a window.
std::string large_ring(const std::string& link, char end) {
  return veth_end(link, end, "ring = 'frame', ring_bytes = 67108864");
}

/// An end of a link in memory that processes share.
std::string shared_end(const std::string& path, char end) {
  return "{ kind = 'shm', path = '" + path + "', end = '" + end + "', mtu = " + std::to_string(packet_bytes_max) + " }";
}

/// The arms of `rows` for messages of `size`, each tried once.
void add_arms(std::vector<Arm>& arms, const std::vector<Row>& rows, std::size_t size) {
  for (const Row& row : rows) {
    if (size > row.size_max) {
      continue;
    }
    row.transfer->set_mode(row.mode);
    EXPECT_TRUE(row.transfer->is_faithful(size)) << row.name << ' ' << size;
    arms.push_back(timed(row.name, [&row, size] {
      row.transfer->set_mode(row.mode);
      row.transfer->move(size);
    }));
  }
}

/// The figures `name`, `name`_share and `name`_ratio: `rows`, the last of which is kernel_tcp, beside the medium's
/// limit.
void sweep(const std::string& name, const std::vector<Row>& rows, const std::vector<std::size_t>& sizes,
           const std::function<void(std::size_t size)>& limit) {
  const Figure speed(name, "GB/s");
  const Figure share(name + "_share", "ratio");
  const Figure ratio(name + "_ratio", "ratio");
  for (const std::size_t size : sizes) {
    std::vector<Arm> arms{timed("limit", [&] { limit(size); })};
    add_arms(arms, rows, size);
    const Rounds rounds(std::move(arms));
    ASSERT_TRUE(std::ranges::all_of(rows, [](const Row& row) { return row.transfer->whole(); }))
        << "messages were lost, of " << size;
    for (const std::string& arm : rounds.arms()) {
      speed.add(arm, size, rounds.gigabytes_per_second(arm, file_bytes));
      if (arm != "limit") {
        share.add(arm + "/limit", size, rounds.ratio(arm, "limit"));
      }
      if (arm != "limit" && arm != "kernel_tcp") {
        ratio.add(arm + "/kernel_tcp", size, rounds.ratio(arm, "kernel_tcp"));
      }
    }
  }
}

/// Moves the file in and out of a medium that is memory of a packet's size.
class Copies {
 public:
  void move(std::size_t size) const {
    for (std::size_t at = 0; at < file_bytes; at += size) {
      const std::size_t part = std::min(size, file_bytes - at);
      std::memcpy(medium_.start(), from_.start() + at, part);
      keep(medium_.start());
      std::memcpy(to_.start() + at, medium_.start(), part);
      keep(to_.start());
    }
  }

 private:
  Arena from_{file_bytes};
  Arena to_{file_bytes};
  Arena medium_{packet_bytes_max};
};

TEST(l3, memory) {
  FrameTransfer frames(wire_end("frames", 'a', packet_bytes_max), wire_end("frames", 'b', packet_bytes_max),
                       memory_window_bytes);
  const std::string path = testing::TempDir() + "l3_" + std::to_string(::getpid());
  FrameTransfer shared(shared_end(path, 'a'), shared_end(path, 'b'), memory_window_bytes);
  ConnectionTransfer tcp({wire_end("tcp", 'a', 65'535), wire_end("tcp", 'b', 65'535)});
  ServedTransfer t_server(wire_end("server", 'a', 65'535), path + "_server");
  const KernelTransfer::Place here{.address = INADDR_LOOPBACK};
  KernelTransfer kernel_tcp(KernelTransfer::Kind::tcp, here, here);
  const std::vector<Row> rows{{"frames_layered", &frames}, {"frames_fused", &frames, ProcessingMode::fused},
                              {"shared", &shared},         {"tcp", &tcp},
                              {"t_server", &t_server},     {"kernel_tcp", &kernel_tcp}};
  const Copies copies;
  sweep("memory", rows,
        full_or_tiny<std::size_t>({1 * KiB, 4 * KiB, 16 * KiB, 64 * KiB, 256 * KiB, 1024 * KiB, packet_bytes_max},
                                  {4 * KiB, packet_bytes_max}),
        [&](std::size_t size) { copies.move(size); });
  std::filesystem::remove(path);
}

TEST(l3, veth) {
  if (const std::string missing = VethLab::missing(); !missing.empty()) {
    GTEST_SKIP() << "this figure needs " << missing;
  }
  const auto set_mtu = [](const char* device) {
    VethLab::run(std::string("ip link set ") + device + " mtu " + std::to_string(veth_mtu_max));
  };
  veth_lab().add_link("l3f", veth_mtu_max);
  veth_lab().add_link("l3t", veth_mtu_max);
  veth_lab().enter_far();
  set_mtu("far");
  veth_lab().enter_near();
  set_mtu("near");
  FrameTransfer frames(large_ring("l3f", '0'), large_ring("l3f", '1'), veth_window_bytes);
  ConnectionTransfer tcp({large_ring("l3t", '0'), large_ring("l3t", '1')});
  KernelTransfer kernel_tcp(KernelTransfer::Kind::tcp,
                            {.address = 0x0a4d0001, .enter = [] { veth_lab().enter_near(); }},
                            {.address = 0x0a4d0002, .enter = [] { veth_lab().enter_far(); }});
  veth_lab().enter_near();
  const std::vector<Row> rows{{"frames_layered", &frames, ProcessingMode::layered, veth_packet_bytes_max},
                              {"frames_fused", &frames, ProcessingMode::fused, veth_packet_bytes_max},
                              {"tcp", &tcp},
                              {"kernel_tcp", &kernel_tcp}};
  sweep("veth", rows,
        full_or_tiny<std::size_t>({1 * KiB, 4 * KiB, 16 * KiB, veth_packet_bytes_max, 1024 * KiB, packet_bytes_max},
                                  {4 * KiB, packet_bytes_max}),
        [&](std::size_t) { frames.move(veth_packet_bytes_max); });
}

}  // namespace
}  // namespace sluice::bench
