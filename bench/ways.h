// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ways for messages from user memory to user memory whose sender and receiver are timed apart: DLPI alone, and TLI on
// ip and udp.
//
// A window of messages is sent, then received, by one thread; the CPU time of either part is what that side needs.
//
// Threads: one.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "bench/experiment.h"
#include "bench/opened.h"
#include "bench/stack_pair.h"
#include "libdlpi/dlpi_handle.h"

namespace sluice::bench {

/// Messages one way, in one stream set with one run loop.
class Way {
 public:
  explicit Way(std::size_t largest) : set_({.defer_bytes_min = afar_defer_bytes_min}), memory_(largest, 0) {
    loop_ = needed(RunLoop::open(set_));
  }
  virtual ~Way() = default;

  virtual void set_mode(ProcessingMode mode) = 0;
  virtual Stream& sender_stream() = 0;
  /// CPU seconds of one message in a window of them, of the side that is asked for.
  double seconds(bool sender, std::size_t size) {
    const std::size_t window = std::clamp<std::size_t>(window_bytes / std::max<std::size_t>(size, 1), 1, 128);
    double spent = 0;
    std::size_t messages = 0;
    for (double both = 0; whole_ && (messages == 0 || both < slice_seconds());) {
      const double start = thread_cpu_ns();
      for (std::size_t at = 0; whole_ && at < window; ++at) {
        whole_ = send(memory_.from().first(size));
      }
      const double between = thread_cpu_ns();
      set_.scheduler().poll(set_.now());
      for (std::size_t at = 0; whole_ && at < window;) {
        if (receive(memory_.to().first(size))) {
          ++at;
        } else {
          whole_ = loop_->wait(loop_->now() + silence_max);
        }
      }
      const double end = thread_cpu_ns();
      both += (end - start) * 1e-9;
      spent += (sender ? between - start : end - between) * 1e-9;
      messages += window;
    }
    return spent / static_cast<double>(messages);
  }
  /// Whether every message has come.
  [[nodiscard]] bool whole() const { return whole_; }
  void expect_bytes(std::size_t size) {
    std::ranges::fill(memory_.to(), std::byte{0});
    seconds(true, size);
    EXPECT_TRUE(whole_ && std::ranges::equal(memory_.from().first(size), memory_.to().first(size))) << size;
  }

 protected:
  static constexpr std::size_t window_bytes = 96 * 1024;  // less than a wire in memory holds

  [[nodiscard]] virtual bool send(Bytes message) = 0;
  /// Whether one has come.
  [[nodiscard]] virtual bool receive(Bytes to) = 0;

  StreamSet set_;
  std::unique_ptr<RunLoop> loop_;
  UserMemory memory_;
  bool whole_ = true;
};

/// `near` and `far` are drivers, as in a stack file.
class DlpiWay final : public Way {
 public:
  DlpiWay(const std::string& near, const std::string& far, std::size_t largest) : Way(largest) {
    near_ = open(near);
    far_ = open(far);
    const auto address = far_->dlpi_get_physaddr(wire::dlpi::DL_CURR_PHYS_ADDR);
    SLUICE_REQUIRE(address.has_value());
    to_ = *address;
  }
  void set_mode(ProcessingMode mode) override {
    near_->stream().set_mode(mode);
    far_->stream().set_mode(mode);
  }
  Stream& sender_stream() override { return near_->stream(); }

 private:
  static constexpr std::uint16_t sap = 0x88b5;

  std::unique_ptr<dlpi::Handle> open(const std::string& driver) {
    const dlpi::Links links{.open = [&](std::string_view) -> Result<std::unique_ptr<Stream>> {
                              auto stream = opened(set_, "driver = " + driver + "\n");
                              stream->set_nonblocking(true);
                              return stream;
                            },
                            .names = {}};
    auto handle = dlpi::Handle::dlpi_open(links, "link");
    SLUICE_REQUIRE(handle.has_value() && (*handle)->dlpi_bind(sap, nullptr).has_value());
    return std::move(*handle);
  }
  bool send(Bytes message) override { return near_->dlpi_send(to_, message).has_value(); }
  bool receive(Bytes to) override {
    const auto received = far_->dlpi_recv(to, 0);
    whole_ = whole_ && (!received || received->total_bytes == to.size());
    return received.has_value();
  }

  std::unique_ptr<dlpi::Handle> near_;
  std::unique_ptr<dlpi::Handle> far_;
  wire::MacAddress to_;
};

class TliWay final : public Way {
 public:
  /// `udp` is that module's settings.
  TliWay(const std::string& near, const std::string& far, std::size_t largest, const std::string& udp = "")
      : Way(largest), peer_(address(2)) {
    far_ = open(far, 2, udp);
    near_ = open(near, 1, udp);
    whole_ = send(memory_.from().first(smallest));  // finds the neighbour
    for (int tries = 0; whole_ && !receive(memory_.to().first(smallest)); ++tries) {
      static_cast<void>(loop_->wait(loop_->now() + std::chrono::milliseconds(1)));
      whole_ = tries < 1000;
    }
  }
  void set_mode(ProcessingMode mode) override {
    near_->stream().set_mode(mode);
    far_->stream().set_mode(mode);
  }
  Stream& sender_stream() override { return near_->stream(); }

 private:
  static wire::TransportAddress address(std::uint8_t host) { return {wire::Ipv4Address{{10, 78, 0, host}}, 7000}; }
  std::unique_ptr<tli::Endpoint> open(const std::string& driver, std::uint8_t host, const std::string& udp) {
    auto stream = opened(set_, "driver = " + driver + "\nip = { address = '10.78.0." + std::to_string(host) +
                                   "/24' }\nudp = { " + udp + " }\npush = ['ip', 'udp', 'timod']\n");
    stream->set_nonblocking(true);
    return bound(std::move(stream), address(host));
  }
  bool send(Bytes message) override { return near_->t_sndudata(unit_of(peer_, message)).has_value(); }
  bool receive(Bytes to) override {
    Name sender;
    tli::t_unitdata unit = unit_of(sender, to);
    int flags = 0;
    if (!far_->t_rcvudata(unit, flags)) {
      return false;
    }
    whole_ = whole_ && flags == 0 && unit.udata.len == to.size();
    return true;
  }

  Name peer_;
  std::unique_ptr<tli::Endpoint> near_;
  std::unique_ptr<tli::Endpoint> far_;
};

/// A driver, as in a stack file: an end, "a" or "b", of a wire in memory.
inline std::string wire_end(const std::string& name, char end, std::size_t mtu = 1500) {
  return "{ kind = 'wire', name = '" + name + "', end = '" + end + "', mtu = " + std::to_string(mtu) + " }";
}

/// The end, "0" or "1", of a link of VethLab::add_link(); `more` are the driver's parameters.
inline std::string veth_end(const std::string& name, char end, const std::string& more = "ring = 'frame'") {
  return "{ kind = 'packet', device = '" + name + end + "', mac = '02:00:00:00:00:0" + end + "', " + more + " }";
}

}  // namespace sluice::bench
