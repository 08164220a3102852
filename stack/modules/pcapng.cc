// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/pcapng.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace sluice::pcapng {
namespace {

enum BlockType : std::uint32_t { interface_description = 1, enhanced_packet = 6, section_header = 0x0a0d0d0a };

enum Option : std::uint16_t {
  opt_endofopt = 0,
  shb_userappl = 4,
  if_name = 2,
  if_tsresol = 9,
  epb_flags = 2,
};

/// One block. Section 3.1: "Block Type", "Block Total Length", body, and the total length again, all aligned to 32
/// bits.
class BlockWriter {
 public:
  BlockWriter(std::vector<std::byte>& out, std::uint32_t type) : out_(out), start_(out.size()) {
    value(type);
    value(std::uint32_t{0});  // the total length, once it is known
  }
  ~BlockWriter() {
    const auto total = static_cast<std::uint32_t>(out_.size() - start_ + sizeof(std::uint32_t));
    value(total);
    std::memcpy(out_.data() + start_ + sizeof(std::uint32_t), &total, sizeof total);
  }
  BlockWriter(const BlockWriter&) = delete;
  BlockWriter& operator=(const BlockWriter&) = delete;

  template <class T>
  void value(T number) {
    bytes(std::as_bytes(std::span(&number, 1)));
  }
  void bytes(ConstBytes data) { out_.insert(out_.end(), data.begin(), data.end()); }
  /// `size` bytes for the caller to fill. Valid until the next call.
  [[nodiscard]] Bytes space(std::size_t size) {
    out_.resize(out_.size() + size);
    return Bytes(out_).last(size);
  }
  /// "padded to a 32-bit boundary".
  void pad() { out_.resize(start_ + (out_.size() - start_ + 3) / 4 * 4); }
  void option(Option code, ConstBytes data) {
    value(static_cast<std::uint16_t>(code));
    value(static_cast<std::uint16_t>(data.size()));
    bytes(data);
    pad();
  }
  void end_options() { option(opt_endofopt, {}); }

 private:
  std::vector<std::byte>& out_;
  std::size_t start_;
};

}  // namespace

void append_section_header(std::vector<std::byte>& out, std::string_view application) {
  BlockWriter block(out, section_header);
  block.value(std::uint32_t{0x1a2b3c4d});  // byte-order magic
  block.value(std::uint16_t{1});           // major version
  block.value(std::uint16_t{0});           // minor version
  block.value(std::int64_t{-1});           // section length: "not specified"
  block.option(shb_userappl, as_bytes(application));
  block.end_options();
}

void append_interface(std::vector<std::byte>& out, LinkType link, std::string_view name, std::uint32_t snap_bytes) {
  constexpr std::byte nanoseconds{9};  // "the resolution is 10^-9"
  BlockWriter block(out, interface_description);
  block.value(static_cast<std::uint16_t>(link));
  block.value(std::uint16_t{0});  // reserved
  block.value(snap_bytes);
  block.option(if_name, as_bytes(name));
  block.option(if_tsresol, {&nanoseconds, 1});
  block.end_options();
}

void append_packet(std::vector<std::byte>& out, const Packet& packet) {
  const std::size_t original = packet.header.size() + packet.data_size;
  const std::size_t captured = std::min(original, packet.snap_bytes);
  const std::size_t of_header = std::min(captured, packet.header.size());
  BlockWriter block(out, enhanced_packet);
  block.value(packet.interface_id);
  block.value(static_cast<std::uint32_t>(packet.time_ns >> 32));
  block.value(static_cast<std::uint32_t>(packet.time_ns));
  block.value(static_cast<std::uint32_t>(captured));
  block.value(static_cast<std::uint32_t>(original));
  block.bytes(packet.header.first(of_header));
  static_cast<void>(packet.message->copy_data_to(0, block.space(captured - of_header)));
  block.pad();
  const auto flags = static_cast<std::uint32_t>(packet.direction);
  block.option(epb_flags, std::as_bytes(std::span(&flags, 1)));
  block.end_options();
}

}  // namespace sluice::pcapng
