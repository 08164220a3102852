// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/tcp.h"

namespace sluice::wire {
namespace {

enum OptionKind : std::uint8_t {
  option_end = 0,
  option_nop = 1,
  option_mss = 2,
  option_window_scale = 3,
  option_sack_permitted = 4,
  option_sack = 5,
  option_timestamps = 8,
};

// RFC 9293 section 3.1: "The option-length counts the two octets of option-kind and option-length as well as the
// option-data octets."
constexpr std::size_t option_head = 2;
constexpr std::size_t mss_length = option_head + 2;
constexpr std::size_t window_scale_length = option_head + 1;
constexpr std::size_t sack_block_size = 8;
constexpr std::size_t timestamps_length = option_head + 8;

constexpr std::size_t sack_length(std::size_t blocks) { return option_head + sack_block_size * blocks; }

constexpr std::size_t padded_length(std::size_t length) { return (length + 3) / 4 * 4; }

void read_sack(TcpOptions& options, ConstBytes option) {
  const std::size_t count = (option.size() - option_head) / sack_block_size;
  if (count == 0 || count > TcpOptions::sack_blocks_max || option.size() != sack_length(count)) {
    return;
  }
  options.sack = {};
  options.sack_count = count;
  for (std::size_t block = 0; block < count; ++block) {
    const std::byte* at = option.data() + sack_length(block);
    options.sack[block] = {load_big_endian<std::uint32_t>(at), load_big_endian<std::uint32_t>(at + 4)};
  }
}

/// One option of a kind with a length, which is its size.
void read_option(TcpOptions& options, ConstBytes option) {
  const std::byte* data = option.data() + option_head;
  switch (static_cast<std::uint8_t>(option[0])) {
    case option_mss:
      if (option.size() == mss_length) {
        options.segment_bytes_max = load_big_endian<std::uint16_t>(data);
      }
      return;
    case option_window_scale:
      if (option.size() == window_scale_length) {
        options.window_scale = static_cast<std::uint8_t>(*data);
      }
      return;
    case option_sack_permitted:
      if (option.size() == option_head) {
        options.sack_permitted = true;
      }
      return;
    case option_sack:
      read_sack(options, option);
      return;
    case option_timestamps:
      if (option.size() == timestamps_length) {
        options.timestamps = {load_big_endian<std::uint32_t>(data), load_big_endian<std::uint32_t>(data + 4)};
      }
      return;
    default:  // RFC 9293 section 3.1: "ignore without error any TCP Option it does not implement (MUST-6)"
      return;
  }
}

/// Writes options one after the other, each with No-Operation in front up to a multiple of 4 with its end.
class OptionWriter {
 public:
  explicit OptionWriter(Bytes out) : out_(out) {}

  /// The option's data, behind kind and length.
  std::byte* option(OptionKind kind, std::size_t length) {
    for (std::size_t padding = padded_length(length) - length; padding > 0; --padding) {
      out_[size_++] = std::byte{option_nop};
    }
    out_[size_] = std::byte{kind};
    out_[size_ + 1] = static_cast<std::byte>(length);
    std::byte* data = out_.data() + size_ + option_head;
    size_ += length;
    return data;
  }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  Bytes out_;
  std::size_t size_ = 0;
};

}  // namespace

TcpOptions TcpOptions::parse(ConstBytes options) {
  TcpOptions found;
  while (!options.empty() && static_cast<std::uint8_t>(options[0]) != option_end) {
    std::size_t length = 1;
    if (static_cast<std::uint8_t>(options[0]) != option_nop) {
      // "TCP implementations MUST be prepared to handle an illegal option length (e.g., zero); a suggested procedure is
      // to reset the connection and log the error cause (MUST-7)." What was read until here holds; the rest is nothing.
      length = options.size() < option_head ? 0 : static_cast<std::size_t>(options[1]);
      if (length < option_head || length > options.size()) {
        return found;
      }
      read_option(found, options.first(length));
    }
    options = options.subspan(length);
  }
  return found;
}

std::size_t TcpOptions::encoded_size() const {
  SLUICE_REQUIRE(sack_count <= sack_blocks_max);
  const std::size_t size =
      (timestamps ? padded_length(timestamps_length) : 0) + (segment_bytes_max ? padded_length(mss_length) : 0) +
      (window_scale ? padded_length(window_scale_length) : 0) + (sack_permitted ? padded_length(option_head) : 0) +
      (sack_count > 0 ? padded_length(sack_length(sack_count)) : 0);
  SLUICE_REQUIRE(size <= size_max);
  return size;
}

std::size_t TcpOptions::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= encoded_size());
  OptionWriter writer(out);
  // RFC 7323 appendix A recommends for segments other than SYN, "to achieve maximum feasible alignment of 32-bit and
  // 64-bit machines": NOP, NOP, TSopt, 10, then the two numbers.
  if (timestamps) {
    std::byte* data = writer.option(option_timestamps, timestamps_length);
    store_big_endian(data, timestamps->value);
    store_big_endian(data + 4, timestamps->echo);
  }
  if (segment_bytes_max) {
    store_big_endian(writer.option(option_mss, mss_length), *segment_bytes_max);
  }
  if (window_scale) {
    *writer.option(option_window_scale, window_scale_length) = std::byte{*window_scale};
  }
  if (sack_permitted) {
    writer.option(option_sack_permitted, option_head);
  }
  if (sack_count > 0) {
    std::byte* data = writer.option(option_sack, sack_length(sack_count));
    for (std::size_t block = 0; block < sack_count; ++block) {
      store_big_endian(data + sack_block_size * block, sack[block].left);
      store_big_endian(data + sack_block_size * block + 4, sack[block].right);
    }
  }
  return writer.size();
}

}  // namespace sluice::wire
