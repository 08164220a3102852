// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/tpi.h"

#include "stack/wire/tpi_words.h"

namespace sluice::wire::tpi {
namespace {

/// The fields of T_INFO_ACK after its number, which T_CAPABILITY_ACK carries too.
InfoAck info_at(ConstBytes block, std::size_t first) {
  InfoAck info;
  info.tsdu_size = number_at(block, first);
  info.etsdu_size = number_at(block, first + 1);
  info.cdata_size = number_at(block, first + 2);
  info.ddata_size = number_at(block, first + 3);
  info.addr_size = number_at(block, first + 4);
  info.opt_size = number_at(block, first + 5);
  info.tidu_size = number_at(block, first + 6);
  info.serv_type = number_at(block, first + 7);
  info.current_state = number_at(block, first + 8);
  info.provider_flag = number_at(block, first + 9);
  return info;
}

}  // namespace

Decoded<UderrorInd> UderrorInd::decode(ConstBytes block) {
  if (const auto fixed = check_fixed<UderrorInd>(block); !fixed) {
    return std::unexpected(fixed.error());
  }
  const auto destination = slice_at(block, fixed_size, 1);
  const auto options = slice_at(block, fixed_size, 3);
  if (!destination || !options) {
    return std::unexpected(Malformed::bad_offset);
  }
  return UderrorInd{*destination, *options, number_at(block, 5)};
}

std::size_t UderrorInd::encoded_size() const { return Tail(fixed_size, destination, options).size(); }

std::size_t UderrorInd::encode(Bytes out) const {
  const Tail tail(fixed_size, destination, options);
  SLUICE_REQUIRE(out.size() >= tail.size());
  store_words(out, {word(primitive), tail.first_length(), tail.first_offset(), tail.second_length(),
                    tail.second_offset(), word(error_type)});
  tail.store(out);
  return tail.size();
}

Decoded<InfoAck> InfoAck::decode(ConstBytes block) {
  if (const auto fixed = check_fixed<InfoAck>(block); !fixed) {
    return std::unexpected(fixed.error());
  }
  return info_at(block, 1);
}

std::size_t InfoAck::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= fixed_size);
  return store_words(
      out, {word(primitive), word(tsdu_size), word(etsdu_size), word(cdata_size), word(ddata_size), word(addr_size),
            word(opt_size), word(tidu_size), word(serv_type), word(current_state), word(provider_flag)});
}

template <std::int32_t Number>
Decoded<Bind<Number>> Bind<Number>::decode(ConstBytes block) {
  if (const auto fixed = check_fixed<Bind>(block); !fixed) {
    return std::unexpected(fixed.error());
  }
  const auto address = slice_at(block, fixed_size, 1);
  if (!address) {
    return std::unexpected(Malformed::bad_offset);
  }
  return Bind{*address, load_word(block.data() + 3 * word_size)};
}

template <std::int32_t Number>
std::size_t Bind<Number>::encode(Bytes out) const {
  const Tail tail(fixed_size, address, {});
  SLUICE_REQUIRE(out.size() >= tail.size());
  store_words(out, {word(primitive), tail.first_length(), tail.first_offset(), connect_indications});
  tail.store(out);
  return tail.size();
}

template struct Bind<T_BIND_REQ>;
template struct Bind<O_T_BIND_REQ>;
template struct Bind<T_BIND_ACK>;

template <std::int32_t Number>
Decoded<Optmgmt<Number>> Optmgmt<Number>::decode(ConstBytes block) {
  if (const auto fixed = check_fixed<Optmgmt>(block); !fixed) {
    return std::unexpected(fixed.error());
  }
  const auto options = slice_at(block, fixed_size, 1);
  if (!options) {
    return std::unexpected(Malformed::bad_offset);
  }
  return Optmgmt{*options, number_at(block, 3)};
}

template <std::int32_t Number>
std::size_t Optmgmt<Number>::encode(Bytes out) const {
  const Tail tail(fixed_size, options, {});
  SLUICE_REQUIRE(out.size() >= tail.size());
  store_words(out, {word(primitive), tail.first_length(), tail.first_offset(), word(flags)});
  tail.store(out);
  return tail.size();
}

template struct Optmgmt<T_OPTMGMT_REQ>;
template struct Optmgmt<T_SVR4_OPTMGMT_REQ>;
template struct Optmgmt<T_OPTMGMT_ACK>;

Decoded<OkAck> OkAck::decode(ConstBytes block) {
  if (const auto fixed = check_fixed<OkAck>(block); !fixed) {
    return std::unexpected(fixed.error());
  }
  return OkAck{number_at(block, 1)};
}

std::size_t OkAck::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= fixed_size);
  return store_words(out, {word(primitive), word(correct_primitive)});
}

Decoded<ErrorAck> ErrorAck::decode(ConstBytes block) {
  if (const auto fixed = check_fixed<ErrorAck>(block); !fixed) {
    return std::unexpected(fixed.error());
  }
  return ErrorAck{number_at(block, 1), number_at(block, 2), number_at(block, 3)};
}

std::size_t ErrorAck::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= fixed_size);
  return store_words(out, {word(primitive), word(error_primitive), word(tli_error), word(unix_error)});
}

Decoded<AddrAck> AddrAck::decode(ConstBytes block) {
  if (const auto fixed = check_fixed<AddrAck>(block); !fixed) {
    return std::unexpected(fixed.error());
  }
  const auto local = slice_at(block, fixed_size, 1);
  const auto remote = slice_at(block, fixed_size, 3);
  if (!local || !remote) {
    return std::unexpected(Malformed::bad_offset);
  }
  return AddrAck{*local, *remote};
}

std::size_t AddrAck::encoded_size() const { return Tail(fixed_size, local, remote).size(); }

std::size_t AddrAck::encode(Bytes out) const {
  const Tail tail(fixed_size, local, remote);
  SLUICE_REQUIRE(out.size() >= tail.size());
  store_words(out,
              {word(primitive), tail.first_length(), tail.first_offset(), tail.second_length(), tail.second_offset()});
  tail.store(out);
  return tail.size();
}

Decoded<CapabilityReq> CapabilityReq::decode(ConstBytes block) {
  if (const auto fixed = check_fixed<CapabilityReq>(block); !fixed) {
    return std::unexpected(fixed.error());
  }
  return CapabilityReq{load_word(block.data() + word_size)};
}

std::size_t CapabilityReq::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= fixed_size);
  return store_words(out, {word(primitive), capabilities});
}

Decoded<CapabilityAck> CapabilityAck::decode(ConstBytes block) {
  if (const auto fixed = check_fixed<CapabilityAck>(block); !fixed) {
    return std::unexpected(fixed.error());
  }
  return CapabilityAck{load_word(block.data() + word_size), info_at(block, 3),
                       load_word(block.data() + 13 * word_size)};
}

std::size_t CapabilityAck::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= fixed_size);
  store_words(out, {word(primitive), capabilities});
  info.encode(out.subspan(2 * word_size));
  store_word(out.data() + 13 * word_size, acceptor_id);
  return fixed_size;
}

}  // namespace sluice::wire::tpi
