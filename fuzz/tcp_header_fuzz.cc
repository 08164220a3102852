// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fuzz/round_trip.h"
#include "stack/wire/tcp.h"

namespace {

using sluice::ConstBytes;
using sluice::wire::TcpHeader;
using sluice::wire::TcpOptions;

/// Whatever was read of `bytes` can be written, and reads the same again.
void check_options(ConstBytes bytes) {
  TcpOptions options = TcpOptions::parse(bytes);
  SLUICE_REQUIRE(options.sack_count <= TcpOptions::sack_blocks_max);
  SLUICE_REQUIRE(std::ranges::all_of(std::span(options.sack).subspan(options.sack_count),
                                     [](const auto& block) { return block == sluice::wire::SackBlock{}; }));
  // Aligned, what came in 40 bytes can need more: then there is room for fewer blocks.
  TcpOptions others = options;
  others.sack_count = 0;
  const std::size_t blocks_max = (TcpOptions::size_max - others.encoded_size() - 4) / 8;
  for (; options.sack_count > blocks_max; --options.sack_count) {
    options.sack[options.sack_count - 1] = {};
  }
  std::vector<std::byte> written(options.encoded_size());
  SLUICE_REQUIRE(written.size() % 4 == 0 && options.encode(written) == written.size());
  SLUICE_REQUIRE(TcpOptions::parse(written) == options);
}

}  // namespace

/// The input is a segment, then nothing but options.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConstBytes segment = sluice::fuzz::input(data, size);
  check_options(segment);
  const auto header = TcpHeader::parse(segment, segment.size());
  if (!header) {
    return 0;
  }
  SLUICE_REQUIRE(header->header_size <= segment.size());
  check_options(segment.subspan(TcpHeader::size_min, header->header_size - TcpHeader::size_min));
  std::vector<std::byte> written(TcpHeader::size_min);
  header->emit(written);
  SLUICE_REQUIRE(TcpHeader::parse(written, header->header_size) == header);
  return 0;
}
