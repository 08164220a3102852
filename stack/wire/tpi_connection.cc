// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/tpi_connection.h"

#include "stack/wire/tpi_words.h"

namespace sluice::wire::tpi {

Decoded<ConnInd> ConnInd::decode(ConstBytes block) {
  if (const auto fixed = check_fixed<ConnInd>(block); !fixed) {
    return std::unexpected(fixed.error());
  }
  const auto source = slice_at(block, fixed_size, 1);
  const auto options = slice_at(block, fixed_size, 3);
  if (!source || !options) {
    return std::unexpected(Malformed::bad_offset);
  }
  return ConnInd{*source, *options, number_at(block, 5)};
}

std::size_t ConnInd::encoded_size() const { return Tail(fixed_size, source, options).size(); }

std::size_t ConnInd::encode(Bytes out) const {
  const Tail tail(fixed_size, source, options);
  SLUICE_REQUIRE(out.size() >= tail.size());
  store_words(out, {word(primitive), tail.first_length(), tail.first_offset(), tail.second_length(),
                    tail.second_offset(), word(sequence)});
  tail.store(out);
  return tail.size();
}

template <std::int32_t Number>
Decoded<ConnectionResponse<Number>> ConnectionResponse<Number>::decode(ConstBytes block) {
  if (const auto fixed = check_fixed<ConnectionResponse>(block); !fixed) {
    return std::unexpected(fixed.error());
  }
  const auto options = slice_at(block, fixed_size, 2);
  if (!options) {
    return std::unexpected(Malformed::bad_offset);
  }
  return ConnectionResponse{load_word(block.data() + word_size), *options, number_at(block, 4)};
}

template <std::int32_t Number>
std::size_t ConnectionResponse<Number>::encode(Bytes out) const {
  const Tail tail(fixed_size, options, {});
  SLUICE_REQUIRE(out.size() >= tail.size());
  store_words(out, {word(primitive), acceptor_id, tail.first_length(), tail.first_offset(), word(sequence)});
  tail.store(out);
  return tail.size();
}

template struct ConnectionResponse<T_CONN_RES>;
template struct ConnectionResponse<O_T_CONN_RES>;

Decoded<DisconReq> DisconReq::decode(ConstBytes block) {
  if (const auto fixed = check_fixed<DisconReq>(block); !fixed) {
    return std::unexpected(fixed.error());
  }
  return DisconReq{number_at(block, 1)};
}

std::size_t DisconReq::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= fixed_size);
  return store_words(out, {word(primitive), word(sequence)});
}

Decoded<DisconInd> DisconInd::decode(ConstBytes block) {
  if (const auto fixed = check_fixed<DisconInd>(block); !fixed) {
    return std::unexpected(fixed.error());
  }
  return DisconInd{number_at(block, 1), number_at(block, 2)};
}

std::size_t DisconInd::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= fixed_size);
  return store_words(out, {word(primitive), word(reason), word(sequence)});
}

template <std::int32_t Number>
Decoded<Data<Number>> Data<Number>::decode(ConstBytes block) {
  if (const auto fixed = check_fixed<Data>(block); !fixed) {
    return std::unexpected(fixed.error());
  }
  return Data{number_at(block, 1)};
}

template <std::int32_t Number>
std::size_t Data<Number>::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= fixed_size);
  return store_words(out, {word(primitive), word(more)});
}

template struct Data<T_DATA_REQ>;
template struct Data<T_DATA_IND>;
template struct Data<T_EXDATA_REQ>;
template struct Data<T_EXDATA_IND>;

}  // namespace sluice::wire::tpi
