// SPDX-License-Identifier: Apache-2.0
#pragma once

// capture - writes what passes to a pcapng file
//
// A tap at any place of a stack, for Wireshark and tshark. It changes nothing, and on a fused path it makes the bytes
// real (materializes) where it stands.
//
// Accepts and produces
//   Any message, unchanged, in both directions. A transparent module.
//
//   Messages that carry data are written, with the time and the direction (down is outbound). How they look in the file
//   depends on what flows; each kind is an interface of its own there:
//     DLPI unitdata      Ethernet frames: the header is made of the primitive's addresses and SAP. A DL_UNITDATA_REQ
//                        names no source; it is learnt from the DL_BIND_ACK or DL_PHYS_ADDR_ACK that passed
//     everything else    LINKTYPE_USER0: the data alone
//
//   Wireshark reads what rmpp, utopia, xtp and the message library send with tools/wireshark/sluice.lua, installed in
//   share/sluice/wireshark.
//
// Parameters
//   file        path of the file, required. A file that is there is replaced. Captures of one stream set that name the
//               same file share it: those of several streams, such as the connections of a server, or of several
//               places of one stream; once all have gone, one that comes adds to it. A file that somebody else's
//               capture writes to is an error. Only its owner may read it
//   snap_bytes  the most written of each message; 262144 if absent
//   link        as said above if absent. "ethernet": M_DATA is whole Ethernet frames. "ip": data is IP packets; what
//               DLPI says of the link is left out, and so are SAPs that are not IP's. "user": the data alone, always
//
// Counters
//   captured       messages written
//   not_ip         messages left out, since link = "ip" and their SAP is not IP's
//   not_written    messages lost, since the file could not be written: the disk is full. Nothing more is written then
//
// Flow control
//   No queues and no service procedures: can_put_next() looks through it. Bytes are gathered and written
//   64 KiB at a time, at the latest a second after they came, and when a stream that writes to the file closes.
//
// Example
//   push    = ["capture", "ip", "udp", "timod"]
//   capture = { file = "trace.pcapng" }
//
// This is the one module with a file. It does not write it itself: its registry entry gives it what opens the recording
// (capture_recording.h) when the module gets its place in a stream, not before. Threads: as its stream set's.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "stack/core/registry.h"
#include "stack/modules/capture_recording.h"
#include "stack/wire/address.h"

namespace sluice {

class Capture : public Module {
 public:
  enum class Link : std::uint8_t { automatic, ethernet, ip, user };

  struct Options {
    /// Asked when the module opens.
    std::function<Result<std::shared_ptr<CaptureRecording>>(StreamSet&)> open;
    std::uint32_t snap_bytes = 262144;
    Link link = Link::automatic;
  };

  explicit Capture(Options options);

  Status open() override;
  void close() override;
  [[nodiscard]] bool handles_deferred() const override { return true; }
  [[nodiscard]] PayloadWork payload_work(Side) const override {
    return {.items = {}, .materializes = "every byte goes to its file", .uncounted = "copies into the file's buffer"};
  }
  void wput(Batch&& batch) override;
  void rput(Batch&& batch) override;

 private:
  static constexpr std::size_t ethernet_header_size = 14;

  /// How a message is to look in the file.
  struct Shape {
    pcapng::LinkType link;
    std::array<std::byte, ethernet_header_size> header{};
    std::size_t header_size = 0;
  };

  void look_at(Batch& batch, pcapng::Direction direction);
  void learn_address(const Message& message);
  void write(Message& message, pcapng::Direction direction);
  [[nodiscard]] std::optional<Shape> shape_of(const Message& message, pcapng::Direction direction);
  [[nodiscard]] std::optional<Shape> link_shape(const wire::MacAddress& to, const wire::MacAddress& from,
                                                std::uint16_t sap);
  [[nodiscard]] Shape plain_shape() const;

  Options options_;
  std::shared_ptr<CaptureRecording> recording_;
  wire::MacAddress own_address_;

  Counter captured_{*this, "captured", "messages written"};
  Counter not_ip_{*this, "not_ip", "messages left out, since their SAP is not IP's"};
  Counter not_written_{*this, "not_written", "messages lost, since the file could not be written"};
};

[[nodiscard]] Entry capture_entry();

}  // namespace sluice
