// SPDX-License-Identifier: Apache-2.0
#pragma once

// udp - the User Datagram Protocol over ip
//
// UDP (RFC 768; RFC 8200 section 8.1 over IPv6) as a connectionless transport provider (TPI, T_CLTS). One stream is one
// endpoint with one port.
//
// Accepts and produces
//   From above: TPI requests; addresses are TransportAddress (stack/wire/address.h). A bind address that is empty, or
//   has port 0, asks for a free port of 49152..65535; which families an unspecified one is of T_IPV6_V6ONLY says.
//   Options of T_UNITDATA_REQ, if any, are network::Sending: source address, hop limit, traffic class, don't fragment.
//
//   To above: T_UNITDATA_IND with the sender's address and, as options, network::Received (the local address it came
//   to, hop limit, traffic class) unless T_UDP_RECEIVED is T_NO. T_UDERROR_IND with the destination, an errno and, as
//   options, network::Failure (the path's MTU with EMSGSIZE), for datagrams of this port that could not be sent or that
//   an ICMP error quotes.
//
//   Segmented messages. A T_UNITDATA_REQ whose options have a segment size stands for several datagrams. Where route
//   and stream let it, it goes to ip as one, behind one header whose checksum field holds the pseudo-header's sum, and
//   the link does the rest; else it is taken apart here. On the way up such a message is passed on as it is, and its
//   checksum, which the link knows to be right, is not looked at.
//
//   Below: ip, as stack/wire/network.h says. A T_UNITDATA_REQ becomes a header in front of its data and a
//   T_UNITDATA_REQ to the destination's host, in the same blocks.
//
//   A request that cannot be sent is answered with T_UDERROR_IND: EINVAL (malformed address or options), EMSGSIZE (too
//   large), EAFNOSUPPORT (not the family of the bound address), ENOBUFS, or the errno of ip's route. (Its options are
//   then those of the request.) TPI would have a datagram above the TSDU size end the stream; here it is an error of
//   that datagram. T_UNITDATA_REQ on an unbound stream, M_DATA, and data requests of connection mode do end it, as TPI
//   says: M_ERROR with EPROTO. What is allowed when, and the answers to local management, are those of every
//   connectionless provider here: stack/provider/states.h, connectionless.h. Like every one, T_UNBIND_REQ flushes.
//
//   Options are managed as stack/provider/options.h says: all in its table. Groups are left with T_UNBIND_REQ and
//   close. A datagram to a broadcast address is refused (T_UDERROR_IND with EACCES) unless T_IP_BROADCAST is T_YES.
//
//   An unbound stream, and one whose driver cannot filter, answers datagrams to other ports with ICMP "port
//   unreachable".
//
// Parameters
//   checksum = true | false    whether datagrams over IPv4 carry a checksum unless T_UDP_CHECKSUM says otherwise; true
//                              if absent. Over IPv6 they always do
//
// Counters
//   sent              datagrams passed to ip
//   received          datagrams delivered
//   refused           T_UNITDATA_REQ answered with T_UDERROR_IND
//   malformed         messages dropped, since their primitive, addresses or options could not be read
//   short_header      datagrams of under 8 bytes, dropped
//   bad_length        datagrams whose length field is under 8 or more than there is, dropped
//   bad_checksum      datagrams that do not sum up, dropped
//   zero_checksum     datagrams over IPv6 without a checksum, dropped
//   not_my_port       datagrams to another port, dropped
//   port_unreachable  datagrams to another port, given to ip to be answered
//   errors            errors about datagrams of this port, passed up
//   foreign_error     errors about datagrams that this port did not send, dropped
//   unexpected        acknowledgements and M_CTL that nothing waits for, dropped
//   no_memory         messages dropped or not answered, since the pool was exhausted
//   out_of_state      primitives refused in this state
//   unsupported       requests that this provider does not know
//   protocol_errors   fatal errors: M_ERROR with EPROTO
//   dropped           messages dropped after a fatal error
//
// Flow control
//   No queues and no service procedures: can_put_next() looks through it. A batch in is a batch out.
//
// Example
//   push = ["ip", "udp", "timod"]
//   udp  = { checksum = true }
//
// Threads: as its stream set's.

#include <memory>
#include <optional>
#include <unordered_map>

#include "stack/core/registry.h"
#include "stack/modules/udp_binding.h"
#include "stack/modules/udp_options.h"
#include "stack/wire/address.h"
#include "stack/wire/data_unit.h"
#include "stack/wire/network.h"
#include "stack/wire/tpi.h"
#include "stack/wire/udp.h"

namespace sluice {

class Udp : public Module {
 public:
  static constexpr std::size_t tsdu_bytes_max = udp::Binding::datagram_bytes_max;
  /// Routes remembered; when there are more, all are forgotten and asked for again.
  static constexpr std::size_t routes_max = 1024;

  explicit Udp(bool checksum);

  [[nodiscard]] bool handles_deferred() const override { return true; }
  [[nodiscard]] bool handles_segments() const override { return true; }
  [[nodiscard]] PayloadWork payload_work(Side side) const override;
  [[nodiscard]] std::size_t headroom() const override { return wire::UdpHeader::size; }
  Status open() override;
  void close() override;
  void wput(Batch&& batch) override;
  void rput(Batch&& batch) override;

 private:
  struct Source {
    wire::IpAddress address;
    int error = 0;  // an errno: there is none
    std::uint32_t mtu = 0;
    bool segments = false;  // as RouteAck has them
  };

  // What datagrams to, and from, the host of the last one have in common. Whatever passes that is no datagram (a bind,
  // a route that changed, an acknowledgement) makes both be found anew.
  struct Flow {
    bool known = false;
    wire::IpAddress destination{};
    bool has_wanted = false;  // the user's choice of a source
    wire::IpAddress wanted{};
    wire::IpAddress source{};
    std::uint16_t pseudo_header_sum = 0;  // without the length

    [[nodiscard]] bool serves(const wire::DataUnit& unitdata) const {
      return known && unitdata.peer == destination && unitdata.has_local == has_wanted &&
             (!has_wanted || unitdata.local == wanted);
    }
  };
  struct Arrivals {
    bool known = false;
    wire::IpAddress source{};
    wire::IpAddress local{};
    std::uint16_t pseudo_header_sum = 0;
  };
  void forget_flows() {
    flow_ = {};
    arrivals_ = {};
  }

  // Down.
  [[nodiscard]] bool from_user(Message& message);
  [[nodiscard]] inline wire::DataUnit* request_of(Message& message);
  [[nodiscard]] bool send(Message& message);
  [[nodiscard]] inline bool send_datagram(Message& message, wire::DataUnit& unitdata);
  inline void to_network(wire::DataUnit& unitdata);
  bool send_segments(Message& message, wire::DataUnit& unitdata);
  void take_apart(Message message);
  [[nodiscard]] bool goes_whole(const wire::DataUnit& unitdata, std::size_t size);
  [[nodiscard]] int find_flow(const wire::DataUnit& unitdata);
  [[nodiscard]] Source source_for(const wire::IpAddress& destination, const std::optional<wire::IpAddress>& wanted);
  [[nodiscard]] Source route(const wire::IpAddress& destination);
  [[nodiscard]] inline bool put_header(Message& message, std::uint16_t destination_port, std::uint16_t size);
  [[nodiscard]] inline std::uint16_t pseudo_header_sum(std::size_t size) const;
  bool refuse(Message request, int error);
  void up(Message message);
  void down(Message message);

  // Up.
  [[nodiscard]] bool from_network(Message& message);
  [[nodiscard]] wire::DataUnit* indication_of(Message& message);
  [[nodiscard]] inline bool receive(Message& message);
  [[nodiscard]] inline bool verified(Message& message, const wire::UdpHeader& header, bool trimmed,
                                     const wire::DataUnit& unitdata);
  [[nodiscard]] inline bool is_mine(const wire::UdpHeader& header, wire::Family family) const;
  void unclaimed(Message message, const wire::DataUnit& received);
  [[nodiscard]] bool failed(Message& message);
  void control(const Message& message);
  void route_changed(const wire::network::RouteAck& ack);

  bool checksum_;
  bool tells_received_ = true;
  bool v6_only_ = false;
  Owed owed_{*this, [this](Message message) { down(std::move(message)); }};
  std::unique_ptr<udp::Options> options_;
  std::unique_ptr<udp::Binding> binding_;
  std::unordered_map<wire::IpAddress, Source> routes_;
  Flow flow_;
  Arrivals arrivals_;

  Counter sent_{*this, "sent", "datagrams passed to ip"};
  Counter received_{*this, "received", "datagrams delivered"};
  Counter refused_{*this, "refused", "requests answered with T_UDERROR_IND"};
  Counter malformed_{*this, "malformed", "messages whose primitive, addresses or options could not be read"};
  Counter short_header_{*this, "short_header", "datagrams of under 8 bytes"};
  Counter bad_length_{*this, "bad_length", "datagrams whose length field is under 8 or more than there is"};
  Counter bad_checksum_{*this, "bad_checksum", "datagrams that do not sum up"};
  Counter zero_checksum_{*this, "zero_checksum", "datagrams over IPv6 without a checksum"};
  Counter not_my_port_{*this, "not_my_port", "datagrams to another port, dropped"};
  Counter port_unreachable_{*this, "port_unreachable", "datagrams to another port, given to ip to be answered"};
  Counter errors_{*this, "errors", "errors about datagrams of this port, passed up"};
  Counter foreign_error_{*this, "foreign_error", "errors about datagrams that this port did not send"};
  Counter unexpected_{*this, "unexpected", "acknowledgements and M_CTL that nothing waits for"};
  Counter no_memory_{*this, "no_memory", "messages dropped or not answered, since the pool was exhausted"};
};

[[nodiscard]] Entry udp_entry();

}  // namespace sluice
