// SPDX-License-Identifier: Apache-2.0
#include "stack/head/escaped.h"

#include <fmt/format.h>

namespace sluice {
namespace {

unsigned byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
}

/// C1 controls are U+0080 .. U+009F, in UTF-8 c2 80 .. c2 9f.
bool is_c1(std::string_view text, std::size_t at) {
  return byte_at(text, at) == 0xc2 && byte_at(text, at + 1) >= 0x80 && byte_at(text, at + 1) < 0xa0;
}

/// Where the character that `size` would cut begins.
std::size_t cut(std::string_view text, std::size_t size) {
  constexpr std::size_t character_bytes_max = 4;
  for (std::size_t back = 0; back < character_bytes_max && size > 0 && (byte_at(text, size) & 0xc0U) == 0x80U; ++back) {
    --size;
  }
  return size;
}

std::string escape(unsigned control) {
  switch (control) {
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    case '\r':
      return "\\r";
    default:
      return fmt::format("\\x{:02x}", control);
  }
}

}  // namespace

std::string escaped(std::string_view text, std::size_t bytes_max) {
  const std::string_view kept = text.size() <= bytes_max ? text : text.substr(0, cut(text, bytes_max));
  std::string shown;
  for (std::size_t at = 0; at < kept.size(); ++at) {
    const unsigned byte = byte_at(kept, at);
    if (is_c1(kept, at)) {
      shown += escape(byte_at(kept, ++at));
    } else if (byte < 0x20 || byte == 0x7f) {
      shown += escape(byte);
    } else {
      shown += kept[at];
    }
  }
  return kept.size() < text.size() ? shown + "..." : shown;
}

}  // namespace sluice
