// SPDX-License-Identifier: Apache-2.0
// The packets of xtp: what is accepted names nothing outside of the packet, and comes back as it was.
#include "fuzz/round_trip.h"
#include "stack/wire/xtp.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  using namespace sluice::wire;
  const ConstBytes packet = fuzz::input(data, size);
  const auto header = XtpHeader::parse(packet, packet.size());
  if (!header) {
    return 0;
  }
  SLUICE_REQUIRE(header->length == size - XtpHeader::size);
  std::vector<std::byte> again(XtpHeader::size);
  header->emit(again);
  SLUICE_REQUIRE(XtpHeader::parse(again, packet.size()) == *header);
  const ConstBytes segment = packet.subspan(XtpHeader::size);
  if (header->is_control()) {
    const auto control = XtpControl::parse(segment, header->type);
    if (control) {
      std::uint64_t before = control->received;
      for (const XtpSpan& span : control->listed()) {
        SLUICE_REQUIRE(before < span.left && span.left < span.right);
        before = span.right;
      }
      std::vector<std::byte> bytes(control->encoded_size(header->type));
      SLUICE_REQUIRE(bytes.size() == segment.size());
      control->emit(bytes, header->type);
      SLUICE_REQUIRE(XtpControl::parse(bytes, header->type) == *control);
    }
  } else if (header->type == XtpHeader::Type::first) {
    const auto first = XtpFirst::parse(segment);
    if (first) {
      std::vector<std::byte> bytes(first->encoded_size());
      first->emit(bytes);
      SLUICE_REQUIRE(XtpFirst::parse(bytes)->traffic == first->traffic);
    }
  } else if (header->type == XtpHeader::Type::diag) {
    static_cast<void>(XtpDiagnosis::parse(segment));
  }
  return 0;
}
