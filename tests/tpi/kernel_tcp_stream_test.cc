// SPDX-License-Identifier: Apache-2.0
// kernel_tcp under a real stream head, on either path: a user that speaks TPI through putmsg() and getmsg(), writes
// from its own memory, and waits where the peer is slow.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "stack/core/owed.h"
#include "stack/head/stream.h"
#include "tests/tpi/tcp_endpoint.h"

namespace sluice::tpi {
namespace {

using namespace wire::tpi;

class KernelTcpStream : public testing::TestWithParam<ProcessingMode> {
 protected:
  template <class Primitive>
  void put(const Primitive& primitive) {
    const Status done = stream->putmsg(Owed::bytes_of(primitive), std::nullopt);
    EXPECT_TRUE(done) << "primitive " << Primitive::primitive << ": errno " << done.error().code;
  }
  /// The next message: its primitive in `control`, its data behind what `data` has.
  std::int32_t get(std::string& data) {
    std::array<std::byte, 256> control{};
    std::vector<std::byte> part(std::size_t{1} << 16);
    const auto received = stream->getmsg(control, part);
    if (!received) {
      ADD_FAILURE() << "getmsg: errno " << received.error().code;
      return -1;
    }
    data += as_text(ConstBytes(part).first(received->data.value_or(0)));
    EXPECT_FALSE(received->more_data);
    return primitive_of(ConstBytes(control).first(received->control.value_or(0))).value_or(-1);
  }
  std::int32_t get() {
    std::string none;
    return get(none);
  }

  StreamSet set{{.defer_bytes_min = 0}};
  std::unique_ptr<RunLoop> loop = std::move(RunLoop::open(set)).value();
  std::unique_ptr<Stream> stream;
};

TEST_P(KernelTcpStream, WritesFromTheUsersMemoryAndGetsItBack) {
  stream = std::move(Stream::open(set, std::make_unique<KernelTcp>(set, TcpSocket::Options{}))).value();
  stream->set_mode(GetParam());
  stream->set_waiter(loop.get());
  Peer listener;
  const wire::TransportAddress to = listener.listen();
  std::string at_peer;
  std::thread echo([&] {
    const Peer peer = listener.accept();
    std::string part(50'000, '\0');
    for (ssize_t size = 1; size > 0;) {
      size = ::recv(peer.descriptor(), part.data(), part.size(), 0);
      at_peer.append(part, 0, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    }
    for (std::size_t sent = 0; sent < at_peer.size();) {
      const ssize_t size = ::send(peer.descriptor(), at_peer.data() + sent, at_peer.size() - sent, MSG_NOSIGNAL);
      if (size <= 0) {
        return;
      }
      sent += static_cast<std::size_t>(size);
    }
  });
  put(BindReq{});
  EXPECT_EQ(get(), T_BIND_ACK);
  std::array<std::byte, wire::TransportAddress::encoded_size_max> address{};
  put(ConnReq{ConstBytes(address).first(to.encode(address)), {}});
  EXPECT_EQ(get(), T_OK_ACK);
  EXPECT_EQ(get(), T_CONN_CON);
  Prng prng(1);
  std::string text(std::size_t{4} << 20, '\0');
  for (char& one : text) {
    one = static_cast<char>(prng());
  }
  for (std::size_t sent = 0; sent < text.size();) {
    // A buffer that is used again at once.
    std::string piece = text.substr(sent, 100'000);
    const auto written = stream->write(as_bytes(piece));
    std::ranges::fill(piece, 'x');
    ASSERT_TRUE(written);
    sent += *written;
  }
  put(OrdrelReq{});
  std::string back;
  std::int32_t primitive = T_DATA_IND;
  while (primitive == T_DATA_IND) {
    primitive = get(back);
  }
  EXPECT_EQ(primitive, T_ORDREL_IND);
  echo.join();
  EXPECT_TRUE(at_peer == text);
  EXPECT_TRUE(back == text);
}

INSTANTIATE_TEST_SUITE_P(BothModes, KernelTcpStream, testing::Values(ProcessingMode::layered, ProcessingMode::fused),
                         [](const auto& mode) { return std::string(name_of(mode.param)); });

}  // namespace
}  // namespace sluice::tpi
