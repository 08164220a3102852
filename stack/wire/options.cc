// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/options.h"

#include <algorithm>

#include "stack/wire/words.h"

namespace sluice::wire::xti {

std::optional<Option> OptionReader::next() {
  if (rest_.empty()) {
    return std::nullopt;
  }
  const std::size_t size = rest_.size() < Option::header_size ? 0 : load_word(rest_.data());
  if (size < Option::header_size || size > rest_.size()) {
    malformed_ = true;
    rest_ = {};
    return std::nullopt;
  }
  const Option option{.level = load_word(rest_.data() + word_size),
                      .name = load_word(rest_.data() + 2 * word_size),
                      .status = load_word(rest_.data() + 3 * word_size),
                      .value = rest_.first(size).subspan(Option::header_size)};
  rest_ = rest_.subspan(std::min(aligned(size), rest_.size()));
  return option;
}

bool is_well_formed(ConstBytes buffer) {
  OptionReader reader(buffer);
  while (reader.next()) {
  }
  return !reader.malformed();
}

void append(std::vector<std::byte>& buffer, const Option& option) {
  const std::size_t at = aligned(buffer.size());
  buffer.resize(at + aligned(option.size()));
  const Bytes out = Bytes(buffer).subspan(at);
  store_words(out, {static_cast<std::uint32_t>(option.size()), option.level, option.name, option.status});
  std::ranges::copy(option.value, out.begin() + Option::header_size);
}

}  // namespace sluice::wire::xti
