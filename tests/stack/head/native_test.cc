// SPDX-License-Identifier: Apache-2.0
// Native descriptors at the stream head: programs see the bytes of primitives, libraries that ask for it the value.
#include "stack/wire/data_unit.h"
#include "stack/wire/tpi.h"
#include "tests/stack/head/harness.h"

namespace sluice::test {
namespace {

using wire::DataUnit;

class NativeAtHead : public StreamTest {
 protected:
  NativeAtHead() {
    unit_.kind = DataUnit::Kind::transport_indication;
    unit_.peer = wire::Ipv4Address{{10, 0, 0, 2}};
    unit_.peer_port = 9;
    bytes_.resize(DataUnit::codec.encoded_size(reinterpret_cast<const std::byte*>(&unit_)));
    DataUnit::codec.encode(reinterpret_cast<const std::byte*>(&unit_), std::as_writable_bytes(std::span(bytes_)));
    Message message = Message::of_native(set.pool(), unit_);
    message.link(Message::copy_of(set.pool(), as_bytes("data")));
    device->up(std::move(message));
  }
  /// The control part and the data part, as a call with room for both gives them.
  template <class Call>
  std::string parts(Call call) {
    std::string control(100, '\0');
    std::string data(100, '\0');
    const auto got = call(std::as_writable_bytes(std::span(control)), std::as_writable_bytes(std::span(data)));
    EXPECT_TRUE(got);
    return control.substr(0, got->control.value_or(0)) + "/" + data.substr(0, got->data.value_or(0));
  }

  DataUnit unit_;
  std::string bytes_;
};

TEST_F(NativeAtHead, GetmsgBringsTheBytes) {
  EXPECT_EQ(parts([&](Bytes control, Bytes data) { return stream->getmsg(control, data); }), bytes_ + "/data");
}

TEST_F(NativeAtHead, PeekShowsTheBytesAndLeavesThem) {
  EXPECT_EQ(parts([&](Bytes control, Bytes data) { return *stream->peek(control, data); }), bytes_ + "/data");
  EXPECT_EQ(parts([&](Bytes control, Bytes data) { return stream->getmsg(control, data); }), bytes_ + "/data");
}

TEST_F(NativeAtHead, GetmsgInPiecesLosesNothing) {
  std::string control(7, '\0');
  const auto first = stream->getmsg(std::as_writable_bytes(std::span(control)), std::nullopt);
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->more_control && first->more_data);
  EXPECT_EQ(control, bytes_.substr(0, 7));
  EXPECT_EQ(parts([&](Bytes rest, Bytes data) { return stream->getmsg(rest, data); }), bytes_.substr(7) + "/data");
}

TEST_F(NativeAtHead, NreadCountsTheDataAlone) {
  EXPECT_EQ(stream->nread().first_data_bytes, 4U);
  EXPECT_EQ(stream->nread().messages, 1U);
}

TEST_F(NativeAtHead, ReadAsDataBringsTheBytes) {
  stream->set_read_options({.mode = ReadMode::byte_stream, .protocol = ProtocolMode::as_data});
  EXPECT_EQ(read(100), bytes_ + "data");
}

TEST_F(NativeAtHead, ReceiveMakesTheBytesAndReceiveNativeDoesNot) {
  device->up(Message::of_native(set.pool(), unit_));
  const Message encoded = stream->receive();
  EXPECT_EQ(encoded.native<DataUnit>(), nullptr);
  EXPECT_EQ(text_of(encoded, true), bytes_);
  const Message native = stream->receive_native();
  ASSERT_NE(native.native<DataUnit>(), nullptr);
  EXPECT_EQ(*native.native<DataUnit>(), unit_);
}

}  // namespace
}  // namespace sluice::test
