// SPDX-License-Identifier: Apache-2.0
#pragma once

// The state table of a connection-mode (T_COTS, T_COTS_ORD) transport provider, shared by all of them: TPI 2.0.0,
// "Allowable Sequence of TPI Primitives", with its events by its names. A constant table; any thread.
//
//                          conn_req            conn_con
//                IDLE ───► WACK_CREQ ───► WCON_CREQ ───────────► DATA_XFER
//                 ▲ │                                              ▲ │ │
//                 │ │ conn_ind                conn_res             │ │ │ ordrel_req       ordrel_ind
//                 │ └─────► WRES_CIND ───► WACK_CRES ──────────────┘ │ └────────► WIND_ORDREL ───► IDLE
//                 │                         pass_conn: the accepting │ ordrel_ind       ordrel_req
//                 └── discon_ind, discon_req (WACK_DREQ*) ◄── all ◄──┴──────────► WREQ_ORDREL ───► IDLE
//
// Beyond TPI: pass_conn in TS_UNBND, since XTI lets t_accept() name an endpoint that is not bound.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "stack/wire/tpi_constants.h"

namespace sluice::provider {

enum class ConnectionEvent : std::uint8_t {
  // From the user.
  bind_req,
  unbind_req,
  conn_req,
  conn_res,
  discon_req,
  data_req,
  exdata_req,
  ordrel_req,
  // From the provider.
  bind_ack,
  error_ack,
  ok_ack1,  ///< no connection indication is outstanding
  ok_ack2,  ///< one is, and it is accepted on its own stream, or rejected
  ok_ack3,  ///< one is, and it is accepted on another stream
  ok_ack4,  ///< more than one are
  conn_con,
  conn_ind,
  data_ind,
  exdata_ind,
  ordrel_ind,
  discon_ind1,  ///< no connection indication is outstanding
  discon_ind2,  ///< the only one is taken back
  discon_ind3,  ///< one of several is taken back
  pass_conn,    ///< a connection that another stream accepts comes here
};
inline constexpr std::size_t connection_event_count = 23;

struct Transition {
  ConnectionEvent event;
  wire::tpi::State from;
  wire::tpi::State to;
};

inline constexpr auto connection_transitions = [] {
  using enum ConnectionEvent;
  using namespace wire::tpi;
  return std::to_array<Transition>({
      {bind_req, TS_UNBND, TS_WACK_BREQ},
      {bind_ack, TS_WACK_BREQ, TS_IDLE},
      {error_ack, TS_WACK_BREQ, TS_UNBND},
      {unbind_req, TS_IDLE, TS_WACK_UREQ},
      {ok_ack1, TS_WACK_UREQ, TS_UNBND},
      {error_ack, TS_WACK_UREQ, TS_IDLE},

      {conn_req, TS_IDLE, TS_WACK_CREQ},
      {ok_ack1, TS_WACK_CREQ, TS_WCON_CREQ},
      {error_ack, TS_WACK_CREQ, TS_IDLE},
      {conn_con, TS_WCON_CREQ, TS_DATA_XFER},

      {conn_ind, TS_IDLE, TS_WRES_CIND},
      {conn_ind, TS_WRES_CIND, TS_WRES_CIND},
      {conn_res, TS_WRES_CIND, TS_WACK_CRES},
      {ok_ack2, TS_WACK_CRES, TS_DATA_XFER},
      {ok_ack3, TS_WACK_CRES, TS_IDLE},
      {ok_ack4, TS_WACK_CRES, TS_WRES_CIND},
      {error_ack, TS_WACK_CRES, TS_WRES_CIND},
      {pass_conn, TS_IDLE, TS_DATA_XFER},
      {pass_conn, TS_UNBND, TS_DATA_XFER},

      {data_req, TS_DATA_XFER, TS_DATA_XFER},
      {data_req, TS_WREQ_ORDREL, TS_WREQ_ORDREL},
      {exdata_req, TS_DATA_XFER, TS_DATA_XFER},
      {exdata_req, TS_WREQ_ORDREL, TS_WREQ_ORDREL},
      {data_ind, TS_DATA_XFER, TS_DATA_XFER},
      {data_ind, TS_WIND_ORDREL, TS_WIND_ORDREL},
      {exdata_ind, TS_DATA_XFER, TS_DATA_XFER},
      {exdata_ind, TS_WIND_ORDREL, TS_WIND_ORDREL},

      {ordrel_req, TS_DATA_XFER, TS_WIND_ORDREL},
      {ordrel_req, TS_WREQ_ORDREL, TS_IDLE},
      {ordrel_ind, TS_DATA_XFER, TS_WREQ_ORDREL},
      {ordrel_ind, TS_WIND_ORDREL, TS_IDLE},

      {discon_req, TS_WCON_CREQ, TS_WACK_DREQ6},
      {discon_req, TS_WRES_CIND, TS_WACK_DREQ7},
      {discon_req, TS_DATA_XFER, TS_WACK_DREQ9},
      {discon_req, TS_WIND_ORDREL, TS_WACK_DREQ10},
      {discon_req, TS_WREQ_ORDREL, TS_WACK_DREQ11},
      {ok_ack1, TS_WACK_DREQ6, TS_IDLE},
      {ok_ack2, TS_WACK_DREQ7, TS_IDLE},
      {ok_ack4, TS_WACK_DREQ7, TS_WRES_CIND},
      {ok_ack1, TS_WACK_DREQ9, TS_IDLE},
      {ok_ack1, TS_WACK_DREQ10, TS_IDLE},
      {ok_ack1, TS_WACK_DREQ11, TS_IDLE},
      {error_ack, TS_WACK_DREQ6, TS_WCON_CREQ},
      {error_ack, TS_WACK_DREQ7, TS_WRES_CIND},
      {error_ack, TS_WACK_DREQ9, TS_DATA_XFER},
      {error_ack, TS_WACK_DREQ10, TS_WIND_ORDREL},
      {error_ack, TS_WACK_DREQ11, TS_WREQ_ORDREL},
      {discon_ind1, TS_WCON_CREQ, TS_IDLE},
      {discon_ind1, TS_DATA_XFER, TS_IDLE},
      {discon_ind1, TS_WIND_ORDREL, TS_IDLE},
      {discon_ind1, TS_WREQ_ORDREL, TS_IDLE},
      {discon_ind2, TS_WRES_CIND, TS_IDLE},
      {discon_ind3, TS_WRES_CIND, TS_WRES_CIND},
  });
}();

/// The state after `event`; nothing where it may not happen.
[[nodiscard]] constexpr std::optional<wire::tpi::State> next_state(wire::tpi::State state, ConnectionEvent event) {
  const auto* const found = std::ranges::find_if(
      connection_transitions, [&](const Transition& row) { return row.event == event && row.from == state; });
  return found == connection_transitions.end() ? std::nullopt : std::optional(found->to);
}

/// What becomes of a primitive of the user's.
enum class ConnectionAction : std::uint8_t {
  info,          ///< T_INFO_ACK, in every state
  capability,    ///< T_CAPABILITY_ACK, in every state
  addresses,     ///< T_ADDR_ACK, in every state
  options,       ///< T_OPTMGMT_ACK, where no acknowledgement is owed: as XTI, while TPI has it in TS_IDLE alone
  step,          ///< as its event says
  ignore,        ///< nothing: it has crossed the end of its connection
  out_of_state,  ///< T_ERROR_ACK with TOUTSTATE
  unsupported,   ///< T_ERROR_ACK with TNOTSUPPORT
  fatal,         ///< M_ERROR with EPROTO
};

/// Whether an acknowledgement is owed: no other request may come.
[[nodiscard]] constexpr bool awaits_acknowledgement(wire::tpi::State state) {
  using namespace wire::tpi;
  return state == TS_WACK_BREQ || state == TS_WACK_UREQ || state == TS_WACK_OPTREQ || state == TS_WACK_CREQ ||
         state == TS_WACK_CRES || state >= TS_WACK_DREQ6;
}

/// The event that a primitive of the user's is; nothing where it is none of the table.
[[nodiscard]] constexpr std::optional<ConnectionEvent> event_of(std::int32_t primitive) {
  using enum ConnectionEvent;
  using namespace wire::tpi;
  switch (primitive) {
    case T_BIND_REQ:
    case O_T_BIND_REQ:
      return bind_req;
    case T_UNBIND_REQ:
      return unbind_req;
    case T_CONN_REQ:
      return conn_req;
    case T_CONN_RES:
    case O_T_CONN_RES:
      return conn_res;
    case T_DISCON_REQ:
      return discon_req;
    case T_DATA_REQ:
      return data_req;
    case T_EXDATA_REQ:
      return exdata_req;
    case T_ORDREL_REQ:
      return ordrel_req;
    default:
      return std::nullopt;
  }
}

/// What to do with `primitive`, which may be any number, in `state`. Data and orderly release have no acknowledgement:
/// in TS_IDLE they are ignored, since a T_DISCON_IND may have crossed them, elsewhere they are fatal; so are data units
/// (T_UNITDATA_REQ, T_OPTDATA_REQ), which no T_ERROR_ACK answers either.
[[nodiscard]] constexpr ConnectionAction connection_action(std::int32_t primitive, wire::tpi::State state) {
  using namespace wire::tpi;
  switch (primitive) {
    case T_INFO_REQ:
      return ConnectionAction::info;
    case T_CAPABILITY_REQ:
      return ConnectionAction::capability;
    case T_ADDR_REQ:
      return ConnectionAction::addresses;
    case T_OPTMGMT_REQ:
    case T_SVR4_OPTMGMT_REQ:
      return awaits_acknowledgement(state) ? ConnectionAction::out_of_state : ConnectionAction::options;
    case T_UNITDATA_REQ:
    case T_OPTDATA_REQ:
      return ConnectionAction::fatal;
    default:
      break;
  }
  const auto event = event_of(primitive);
  if (!event) {
    return ConnectionAction::unsupported;
  }
  if (next_state(state, *event)) {
    return ConnectionAction::step;
  }
  const bool acknowledged = *event < ConnectionEvent::data_req;
  return acknowledged       ? ConnectionAction::out_of_state
         : state == TS_IDLE ? ConnectionAction::ignore
                            : ConnectionAction::fatal;
}

}  // namespace sluice::provider
