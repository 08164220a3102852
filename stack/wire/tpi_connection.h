// SPDX-License-Identifier: Apache-2.0
#pragma once

// TPI 2.0.0 connection-mode primitives. Their form, and what a caller must guarantee, is that of stack/wire/tpi.h.
//
//     | primitive                   | words after the number                                                      |
//     |-----------------------------|-----------------------------------------------------------------------------|
//     | T_CONN_REQ, T_CONN_CON      | length and offset of an address, length and offset of options               |
//     | T_CONN_IND                  | the same, then SEQ_number                                                   |
//     | T_CONN_RES, O_T_CONN_RES    | ACCEPTOR_id, length and offset of options, SEQ_number                       |
//     | T_DISCON_REQ                | SEQ_number                                                                  |
//     | T_DISCON_IND                | DISCON_reason, SEQ_number                                                   |
//     | T_DATA_*, T_EXDATA_*        | MORE_flag                                                                   |
//     | T_ORDREL_REQ, T_ORDREL_IND  | none                                                                        |
//
// Threat: the blocks are a program's, or come through putmsg() from one; a length or an offset that lies is found
// before anything is read through it (tests/stack/wire/tpi_test.cc, fuzz/tpi_fuzz.cc).

#include <cstdint>

#include "stack/wire/tpi.h"

namespace sluice::wire::tpi {

/// SEQ_number of a T_DISCON_REQ or T_DISCON_IND that is about no connection indication.
inline constexpr std::int32_t no_sequence = -1;

using ConnReq = Unitdata<T_CONN_REQ>;  ///< `address` is the destination
using ConnCon = Unitdata<T_CONN_CON>;  ///< `address` is the responding one
using OrdrelReq = Bare<T_ORDREL_REQ>;
using OrdrelInd = Bare<T_ORDREL_IND>;

struct ConnInd {
  static constexpr std::int32_t primitive = T_CONN_IND;
  static constexpr std::size_t fixed_size = 6 * word_size;

  ConstBytes source;
  ConstBytes options;
  std::int32_t sequence = 0;  ///< what T_CONN_RES and T_DISCON_REQ name this indication by

  [[nodiscard]] static Decoded<ConnInd> decode(ConstBytes block);
  [[nodiscard]] std::size_t encoded_size() const;
  std::size_t encode(Bytes out) const;
};

template <std::int32_t Number>
struct ConnectionResponse {
  static constexpr std::int32_t primitive = Number;
  static constexpr std::size_t fixed_size = 5 * word_size;

  std::uint32_t acceptor_id = 0;  ///< the stream that gets the connection
  ConstBytes options;
  std::int32_t sequence = 0;

  [[nodiscard]] static Decoded<ConnectionResponse> decode(ConstBytes block);
  [[nodiscard]] std::size_t encoded_size() const { return fixed_size + options.size(); }
  std::size_t encode(Bytes out) const;
};

using ConnRes = ConnectionResponse<T_CONN_RES>;
using OldConnRes = ConnectionResponse<O_T_CONN_RES>;

struct DisconReq {
  static constexpr std::int32_t primitive = T_DISCON_REQ;
  static constexpr std::size_t fixed_size = 2 * word_size;

  std::int32_t sequence = no_sequence;  ///< the connection indication that is rejected

  [[nodiscard]] static Decoded<DisconReq> decode(ConstBytes block);
  [[nodiscard]] std::size_t encoded_size() const { return fixed_size; }
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const DisconReq&, const DisconReq&) = default;
};

struct DisconInd {
  static constexpr std::int32_t primitive = T_DISCON_IND;
  static constexpr std::size_t fixed_size = 3 * word_size;

  std::int32_t reason = 0;  ///< protocol-dependent; our providers put an errno value here
  std::int32_t sequence = no_sequence;

  [[nodiscard]] static Decoded<DisconInd> decode(ConstBytes block);
  [[nodiscard]] std::size_t encoded_size() const { return fixed_size; }
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const DisconInd&, const DisconInd&) = default;
};

/// Ordinary and expedited data, both ways: the data is in the blocks behind.
template <std::int32_t Number>
struct Data {
  static constexpr std::int32_t primitive = Number;
  static constexpr std::size_t fixed_size = 2 * word_size;

  std::int32_t more = 0;  ///< not 0: this TSDU (or ETSDU) goes on in the next primitive

  [[nodiscard]] static Decoded<Data> decode(ConstBytes block);
  [[nodiscard]] std::size_t encoded_size() const { return fixed_size; }
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const Data&, const Data&) = default;
};

using DataReq = Data<T_DATA_REQ>;
using DataInd = Data<T_DATA_IND>;
using ExdataReq = Data<T_EXDATA_REQ>;
using ExdataInd = Data<T_EXDATA_IND>;

}  // namespace sluice::wire::tpi
