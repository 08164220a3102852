// SPDX-License-Identifier: Apache-2.0
#pragma once

// TPI 2.0.0 primitives, as they travel in the M_PROTO or M_PCPROTO block of a message: local management and
// connectionless mode here, connection mode in tpi_connection.h.
//
// Every struct X has
//   X::primitive                    its number (tpi_constants.h)
//   X::fixed_size                   bytes of the fixed part
//   std::size_t encoded_size() const
//   std::size_t encode(Bytes) const writes the block, returns its size. REQUIRES: room for encoded_size().
//   static decode(ConstBytes)       -> X or what is malformed. Longer blocks than needed are accepted.
// in the C layout of the specification: 32-bit words in the machine's byte order, length/offset pairs to addresses and
// options behind them. encode puts the address first, then the options at the next multiple of 4; a reader must not
// count on it, "the proper alignment of the destination address and options in the M_PROTO message block is not
// guaranteed".
//
// Addresses and options are opaque here, their format is the transport provider's affair: spans that view the block
// a struct was decoded from, or whatever the caller set them to. They must live as long as the struct is used.
// stack/wire/address.h says what is in the addresses of the ip and udp modules.

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>

#include "base/bytes.h"
#include "base/contract.h"
#include "stack/wire/tpi_constants.h"
#include "stack/wire/words.h"

namespace sluice::wire::tpi {

enum class Malformed : std::uint8_t {
  short_block,      ///< the block ends inside the fixed part
  wrong_primitive,  ///< the first word names another primitive
  bad_offset        ///< a length/offset pair points outside the block or into its fixed part
};

template <class T>
using Decoded = std::expected<T, Malformed>;

/// The number of the primitive a block holds; nothing if the block is too short to have one. Switch on it, then decode.
[[nodiscard]] inline std::optional<std::int32_t> primitive_of(ConstBytes block) {
  const auto word = first_word(block);
  return word ? std::optional(static_cast<std::int32_t>(*word)) : std::nullopt;
}

/// A primitive that is only its number.
template <std::int32_t Number>
struct Bare {
  static constexpr std::int32_t primitive = Number;
  static constexpr std::size_t fixed_size = word_size;

  [[nodiscard]] static Decoded<Bare> decode(ConstBytes block) {
    if (block.size() < fixed_size) {
      return std::unexpected(Malformed::short_block);
    }
    if (*primitive_of(block) != primitive) {
      return std::unexpected(Malformed::wrong_primitive);
    }
    return Bare{};
  }
  [[nodiscard]] std::size_t encoded_size() const { return fixed_size; }
  std::size_t encode(Bytes out) const { return store_words(out, {static_cast<std::uint32_t>(primitive)}); }
};

using InfoReq = Bare<T_INFO_REQ>;
using UnbindReq = Bare<T_UNBIND_REQ>;
using AddrReq = Bare<T_ADDR_REQ>;

// ---- Data transfer ----

/// Number, then an address and options: T_UNITDATA_REQ (destination) and T_UNITDATA_IND (source).
template <std::int32_t Number>
struct Unitdata {
  static constexpr std::int32_t primitive = Number;
  static constexpr std::size_t fixed_size = 5 * word_size;

  ConstBytes address;  ///< destination of a request, source of an indication
  ConstBytes options;

  [[nodiscard]] static Decoded<Unitdata> decode(ConstBytes block);
  [[nodiscard]] std::size_t encoded_size() const;
  std::size_t encode(Bytes out) const;
};

using UnitdataReq = Unitdata<T_UNITDATA_REQ>;
using UnitdataInd = Unitdata<T_UNITDATA_IND>;

/// "This primitive indicates to the transport user that a datagram with the specified destination address and options
/// produced an error."
struct UderrorInd {
  static constexpr std::int32_t primitive = T_UDERROR_IND;
  static constexpr std::size_t fixed_size = 6 * word_size;

  ConstBytes destination;
  ConstBytes options;
  std::int32_t error_type = 0;  ///< protocol-dependent; our modules put an errno value here

  [[nodiscard]] static Decoded<UderrorInd> decode(ConstBytes block);
  [[nodiscard]] std::size_t encoded_size() const;
  std::size_t encode(Bytes out) const;
};

// ---- Local management ----

/// What a provider says of itself. Sizes in bytes, or T_INFINITE, or T_INVALID where there is no such thing.
struct InfoAck {
  static constexpr std::int32_t primitive = T_INFO_ACK;
  static constexpr std::size_t fixed_size = 11 * word_size;

  std::int32_t tsdu_size = 0;
  std::int32_t etsdu_size = T_INVALID;
  std::int32_t cdata_size = T_INVALID;
  std::int32_t ddata_size = T_INVALID;
  std::int32_t addr_size = 0;
  std::int32_t opt_size = 0;
  std::int32_t tidu_size = 0;
  std::int32_t serv_type = T_CLTS;
  std::int32_t current_state = TS_UNBND;
  std::int32_t provider_flag = 0;  ///< ProviderFlag bits

  [[nodiscard]] static Decoded<InfoAck> decode(ConstBytes block);
  [[nodiscard]] std::size_t encoded_size() const { return fixed_size; }
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const InfoAck&, const InfoAck&) = default;
};

/// Number, then an address and a queue length: both bind requests and T_BIND_ACK. An empty address in a request asks
/// the provider to choose one.
template <std::int32_t Number>
struct Bind {
  static constexpr std::int32_t primitive = Number;
  static constexpr std::size_t fixed_size = 4 * word_size;

  ConstBytes address;
  std::uint32_t connect_indications = 0;  ///< CONIND_number, 0 for connectionless service

  [[nodiscard]] static Decoded<Bind> decode(ConstBytes block);
  [[nodiscard]] std::size_t encoded_size() const { return fixed_size + address.size(); }
  std::size_t encode(Bytes out) const;
};

using BindReq = Bind<T_BIND_REQ>;       ///< XTI semantics
using OldBindReq = Bind<O_T_BIND_REQ>;  ///< TLI semantics
using BindAck = Bind<T_BIND_ACK>;

/// Number, then options and flags: both option management requests and T_OPTMGMT_ACK.
template <std::int32_t Number>
struct Optmgmt {
  static constexpr std::int32_t primitive = Number;
  static constexpr std::size_t fixed_size = 4 * word_size;

  ConstBytes options;
  std::int32_t flags = 0;  ///< ManagementFlag bits

  [[nodiscard]] static Decoded<Optmgmt> decode(ConstBytes block);
  [[nodiscard]] std::size_t encoded_size() const { return fixed_size + options.size(); }
  std::size_t encode(Bytes out) const;
};

using OptmgmtReq = Optmgmt<T_OPTMGMT_REQ>;           ///< XTI option format
using Svr4OptmgmtReq = Optmgmt<T_SVR4_OPTMGMT_REQ>;  ///< TLI option format
using OptmgmtAck = Optmgmt<T_OPTMGMT_ACK>;

struct OkAck {
  static constexpr std::int32_t primitive = T_OK_ACK;
  static constexpr std::size_t fixed_size = 2 * word_size;

  std::int32_t correct_primitive = 0;

  [[nodiscard]] static Decoded<OkAck> decode(ConstBytes block);
  [[nodiscard]] std::size_t encoded_size() const { return fixed_size; }
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const OkAck&, const OkAck&) = default;
};

struct ErrorAck {
  static constexpr std::int32_t primitive = T_ERROR_ACK;
  static constexpr std::size_t fixed_size = 4 * word_size;

  std::int32_t error_primitive = 0;
  std::int32_t tli_error = 0;   ///< a TliError
  std::int32_t unix_error = 0;  ///< errno, meaningful with TSYSERR

  [[nodiscard]] static Decoded<ErrorAck> decode(ConstBytes block);
  [[nodiscard]] std::size_t encoded_size() const { return fixed_size; }
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const ErrorAck&, const ErrorAck&) = default;
};

/// The addresses of an endpoint; each empty where there is none.
struct AddrAck {
  static constexpr std::int32_t primitive = T_ADDR_ACK;
  static constexpr std::size_t fixed_size = 5 * word_size;

  ConstBytes local;
  ConstBytes remote;

  [[nodiscard]] static Decoded<AddrAck> decode(ConstBytes block);
  [[nodiscard]] std::size_t encoded_size() const;
  std::size_t encode(Bytes out) const;
};

struct CapabilityReq {
  static constexpr std::int32_t primitive = T_CAPABILITY_REQ;
  static constexpr std::size_t fixed_size = 2 * word_size;

  std::uint32_t capabilities = 0;  ///< Capability bits asked for

  [[nodiscard]] static Decoded<CapabilityReq> decode(ConstBytes block);
  [[nodiscard]] std::size_t encoded_size() const { return fixed_size; }
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const CapabilityReq&, const CapabilityReq&) = default;
};

/// `info` means something if capabilities has TC1_INFO, `acceptor_id` if it has TC1_ACCEPTOR_ID.
struct CapabilityAck {
  static constexpr std::int32_t primitive = T_CAPABILITY_ACK;
  static constexpr std::size_t fixed_size = 2 * word_size + InfoAck::fixed_size + word_size;

  std::uint32_t capabilities = 0;
  InfoAck info;
  std::uint32_t acceptor_id = 0;

  [[nodiscard]] static Decoded<CapabilityAck> decode(ConstBytes block);
  [[nodiscard]] std::size_t encoded_size() const { return fixed_size; }
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const CapabilityAck&, const CapabilityAck&) = default;
};

// ---- The data path, inline ----

template <std::int32_t Number>
Decoded<Unitdata<Number>> Unitdata<Number>::decode(ConstBytes block) {
  if (block.size() < fixed_size) {
    return std::unexpected(Malformed::short_block);
  }
  const std::byte* at = block.data();
  if (load_word(at) != static_cast<std::uint32_t>(primitive)) {
    return std::unexpected(Malformed::wrong_primitive);
  }
  const auto address = slice(block, fixed_size, load_word(at + 4), load_word(at + 8));
  const auto options = slice(block, fixed_size, load_word(at + 12), load_word(at + 16));
  if (!address || !options) {
    return std::unexpected(Malformed::bad_offset);
  }
  return Unitdata{*address, *options};
}

template <std::int32_t Number>
std::size_t Unitdata<Number>::encoded_size() const {
  return Tail(fixed_size, address, options).size();
}

template <std::int32_t Number>
std::size_t Unitdata<Number>::encode(Bytes out) const {
  const Tail tail(fixed_size, address, options);
  SLUICE_REQUIRE(out.size() >= tail.size());
  store_words(out, {static_cast<std::uint32_t>(primitive), tail.first_length(), tail.first_offset(),
                    tail.second_length(), tail.second_offset()});
  tail.store(out);
  return tail.size();
}

}  // namespace sluice::wire::tpi
