// SPDX-License-Identifier: Apache-2.0
// What connection-mode providers answer: rows of the table of TPI cases (provider_cases_test.cc). Each is bound, where
// it is, to an address of its own without a queue; the peers are sockets of the kernel.
#include <utility>

#include "tests/kernel_peer.h"
#include "tests/stack/provider/spoken_provider.h"

namespace sluice::test {
namespace {

using Peer = KernelPeer;

Block connecting(const TransportAddress& to) {
  const Block address = encoded(to);
  return block(ConnReq{address, {}});
}

/// A case that begins connected; `ask` gets the peer.
std::function<std::string(Provider&)> connected(std::function<std::string(Provider&, Peer&)> ask) {
  return [ask = std::move(ask)](Provider& provider) {
    const Peer listener;
    std::string all = provider.ask(connecting(listener.listen()));
    all += all == "T_OK_ACK 0" ? ", " + provider.wait() : "";
    if (all != "T_OK_ACK 0, T_CONN_CON local:port") {
      return "not connected: " + all;
    }
    Peer peer = listener.accept();
    return ask(provider, peer);
  };
}

/// One that listens, bound here, and has been called so many times; `ask` gets the callers.
std::function<std::string(Provider&)> called(std::size_t callers,
                                             std::function<std::string(Provider&, std::vector<Peer>&)> ask) {
  return [=](Provider& provider) {
    const Block address = provider.address();
    provider.ask(block(BindReq{.address = address, .connect_indications = 3}));
    std::vector<Peer> peers;
    for (std::size_t i = 0; i < callers; ++i) {
      peers.emplace_back();
      peers.back().connect(provider.bound_address());
      const std::string indication = provider.wait();
      if (indication != "T_CONN_IND local:port " + std::to_string(i + 1)) {
        return "not called: " + indication;
      }
    }
    return ask(provider, peers);
  };
}

std::function<std::string(Provider&)> responding(std::size_t callers, std::int32_t sequence, bool here = true) {
  return called(callers, [=](Provider& provider, std::vector<Peer>&) {
    return provider.ask(block(ConnRes{here ? provider.acceptor_id() : 0xffff'ffffU, {}, sequence}));
  });
}

std::string error_of(std::int32_t primitive, std::int32_t tli_error, int unix_error = 0) {
  return "error of " + std::to_string(primitive) + ": " + std::to_string(tli_error) + " " + std::to_string(unix_error);
}

const std::string fatal_error = "M_ERROR 71 71";

}  // namespace

const std::vector<Case>& connection_cases() {
  static const std::vector<Case> cases{
      // T_INFO_ACK: TSDU_size "A value of zero specifies that the transport provider does not support the concept of
      // TSDU,
      // although it supports the sending of a data stream".
      {"info", false, asking(block(InfoReq{}), MessageType::pcproto), "T_INFO_ACK 0 -2 -2 -2 20 484 65536 2 0 4",
       Mode::connections},
      {"info when bound", true, asking(block(InfoReq{})), "T_INFO_ACK 0 -2 -2 -2 20 484 65536 2 3 4",
       Mode::connections},
      {"capability", false,
       [](Provider& provider) {
         return provider.ask(block(CapabilityReq{TC1_INFO | TC1_ACCEPTOR_ID | 4}), MessageType::pcproto).substr(0, 20);
       },
       "T_CAPABILITY_ACK 3: ", Mode::connections},
      {"bind with a queue", false,
       [](Provider& provider) {
         const Block address = provider.address();
         return provider.ask(block(BindReq{.address = address, .connect_indications = 7}));
       },
       "T_BIND_ACK local:port 7", Mode::connections},

      // T_CONN_REQ. "[TOUTSTATE] The primitive would place the transport interface out of state." "[TBADADDR] This
      // indicates that the protocol address as specified was in an incorrect format or the address contained illegal
      // information."
      {"T_CONN_REQ when unbound", false,
       [](Provider& provider) { return provider.ask(connecting({wire::Ipv4Address{{127, 0, 0, 1}}, 9})); },
       error_of(T_CONN_REQ, TOUTSTATE), Mode::connections},
      {"T_CONN_REQ to nobody", true, asking(block(ConnReq{{}, {}})), error_of(T_CONN_REQ, TBADADDR), Mode::connections},
      {"T_CONN_REQ to nonsense", true, asking(block(ConnReq{Block(3), {}})), error_of(T_CONN_REQ, TBADADDR),
       Mode::connections},
      {"T_CONN_REQ with a wrong offset", true, asking(words({T_CONN_REQ, 8, 4000, 0, 0})),
       error_of(T_CONN_REQ, TBADADDR), Mode::connections},
      {"short T_CONN_REQ", true, asking(words({T_CONN_REQ, 0})), error_of(T_CONN_REQ, TBADADDR), Mode::connections},
      {"T_CONN_REQ with options that are none", true,
       [](Provider& provider) {
         const Block address = provider.peer();
         const Block options(16);
         return provider.ask(block(ConnReq{address, options}));
       },
       error_of(T_CONN_REQ, TBADOPT), Mode::connections},
      {"T_CONN_REQ", true,
       [](Provider& provider) {
         const Peer listener;
         const std::string all = provider.ask(connecting(listener.listen()));
         return all.starts_with("T_OK_ACK 0, ") ? all : all + ", " + provider.wait();
       },
       "T_OK_ACK 0, T_CONN_CON local:port", Mode::connections},
      {"T_CONN_REQ to a port where nobody listens", true,
       [](Provider& provider) {
         TransportAddress closed;
         {
           const Peer gone;
           closed = gone.listen();
         }
         const std::string all = provider.ask(connecting(closed));
         return all.starts_with("T_OK_ACK 0, ") ? all : all + ", " + provider.wait();
       },
       "T_OK_ACK 0, T_DISCON_IND " + std::to_string(ECONNREFUSED) + " -1", Mode::connections},
      {"T_CONN_REQ when connected", true, connected([](Provider& provider, Peer&) {
         return provider.ask(connecting({wire::Ipv4Address{{127, 0, 0, 1}}, 9}));
       }),
       error_of(T_CONN_REQ, TOUTSTATE), Mode::connections},

      // Data. T_DATA_REQ out of state is fatal, but in the idle state, where "the transport provider should just drop
      // the
      // message" that has crossed a T_DISCON_IND, in the sense of TPI.
      {"T_DATA_REQ when idle", true, asking(words({T_DATA_REQ, 0})), "", Mode::connections},
      {"M_DATA when unbound", false, asking(Block(10), MessageType::data), fatal_error, Mode::connections},
      {"M_DATA when idle", true, asking(Block(10), MessageType::data), "", Mode::connections},
      {"T_ORDREL_REQ when idle", true, asking(words({T_ORDREL_REQ})), "", Mode::connections},
      {"T_ORDREL_REQ when unbound", false, asking(words({T_ORDREL_REQ})), fatal_error, Mode::connections},
      {"T_EXDATA_REQ", true,
       connected([](Provider& provider, Peer&) { return provider.ask(words({T_EXDATA_REQ, 0})); }), fatal_error,
       Mode::connections},
      {"T_UNITDATA_REQ", true,
       [](Provider& provider) {
         const Block address = provider.peer();
         return provider.ask(block(UnitdataReq{.address = address, .options = {}}), MessageType::proto, 1);
       },
       fatal_error, Mode::connections},
      {"data comes", true, connected([](Provider& provider, Peer& peer) {
         peer.send("five!");
         return provider.wait();
       }),
       "T_DATA_IND 5 bytes", Mode::connections},

      // Both releases, and a reset.
      {"the peer releases", true, connected([](Provider& provider, Peer& peer) {
         peer.end();
         std::string answers = provider.wait() + "; ";
         answers += provider.ask(words({T_ORDREL_REQ}));
         return answers + provider.ask(block(UnbindReq{}));
       }),
       "T_ORDREL_IND; M_FLUSH 3, T_OK_ACK 7", Mode::connections},
      {"this side releases", true, connected([](Provider& provider, Peer& peer) {
         const std::string none = provider.ask(words({T_ORDREL_REQ}));
         const std::string fails = provider.ask(block(UnbindReq{}));
         peer.end();
         return none + fails + "; " + provider.wait();
       }),
       error_of(T_UNBIND_REQ, TOUTSTATE) + "; T_ORDREL_IND", Mode::connections},
      {"the peer resets", true, connected([](Provider& provider, Peer& peer) {
         peer.reset();
         return provider.wait();
       }),
       "M_FLUSH 3, T_DISCON_IND " + std::to_string(ECONNRESET) + " -1", Mode::connections},

      // T_DISCON_REQ. "[TBADSEQ] The sequence number specified in the message was incorrect".
      {"T_DISCON_REQ when unbound", false, asking(block(DisconReq{})), error_of(T_DISCON_REQ, TOUTSTATE),
       Mode::connections},
      {"T_DISCON_REQ when idle", true, asking(block(DisconReq{})), error_of(T_DISCON_REQ, TOUTSTATE),
       Mode::connections},
      {"T_DISCON_REQ", true, connected([](Provider& provider, Peer&) { return provider.ask(block(DisconReq{})); }),
       "M_FLUSH 3, T_OK_ACK 2", Mode::connections},
      {"short T_DISCON_REQ", true,
       connected([](Provider& provider, Peer&) { return provider.ask(words({T_DISCON_REQ})); }),
       error_of(T_DISCON_REQ, TSYSERR, EINVAL), Mode::connections},
      {"T_DISCON_REQ of a caller", false,
       called(1, [](Provider& provider, std::vector<Peer>&) { return provider.ask(block(DisconReq{1})); }),
       "T_OK_ACK 2", Mode::connections},
      {"T_DISCON_REQ of no caller", false,
       called(1, [](Provider& provider, std::vector<Peer>&) { return provider.ask(block(DisconReq{2})); }),
       error_of(T_DISCON_REQ, TBADSEQ), Mode::connections},
      {"T_DISCON_REQ of a caller twice", false,
       called(2,
              [](Provider& provider, std::vector<Peer>&) {
                return provider.ask_in_turn({block(DisconReq{2}), block(DisconReq{2}), block(DisconReq{1})});
              }),
       "T_OK_ACK 2; " + error_of(T_DISCON_REQ, TBADSEQ) + "; T_OK_ACK 2", Mode::connections},

      // T_CONN_RES. "[TBADF] This indicates that the response queue pointer was illegal."
      {"T_CONN_RES when idle", true, asking(block(ConnRes{7, {}, 1})), error_of(T_CONN_RES, TOUTSTATE),
       Mode::connections},
      {"T_CONN_RES", false, responding(1, 1), "T_OK_ACK 28", Mode::connections},
      {"T_CONN_RES of another one's stream that is gone", false, responding(1, 1, false), error_of(T_CONN_RES, TBADF),
       Mode::connections},
      {"T_CONN_RES of no caller", false, responding(1, 2), error_of(T_CONN_RES, TBADSEQ), Mode::connections},
      {"T_CONN_RES while another one is outstanding", false, responding(2, 1), error_of(T_CONN_RES, TINDOUT),
       Mode::connections},
      {"T_CONN_RES with options", false,
       called(1,
              [](Provider& provider, std::vector<Peer>&) {
                const Block options(16);
                return provider.ask(block(ConnRes{provider.acceptor_id(), options, 1}));
              }),
       error_of(T_CONN_RES, TBADOPT), Mode::connections},
      {"short T_CONN_RES", false,
       called(1, [](Provider& provider, std::vector<Peer>&) { return provider.ask(words({T_CONN_RES, 0})); }),
       error_of(T_CONN_RES, TSYSERR, EINVAL), Mode::connections},
      {"O_T_CONN_RES", false,
       called(1, [](Provider& provider,
                    std::vector<Peer>&) { return provider.ask(block(OldConnRes{provider.acceptor_id(), {}, 1})); }),
       "T_OK_ACK 1", Mode::connections},
      {"after T_CONN_RES it is connected", false,
       called(1,
              [](Provider& provider, std::vector<Peer>& peers) {
                provider.ask(block(ConnRes{provider.acceptor_id(), {}, 1}));
                peers[0].send("hello");
                const std::string data = provider.wait();
                return data + "; " + provider.ask(block(DisconReq{}));
              }),
       "T_DATA_IND 5 bytes; M_FLUSH 3, T_OK_ACK 2", Mode::connections},
      {"T_UNBIND_REQ while one is outstanding", false,
       called(1, [](Provider& provider, std::vector<Peer>&) { return provider.ask(block(UnbindReq{})); }),
       error_of(T_UNBIND_REQ, TOUTSTATE), Mode::connections},

      // Option management in every state but T_UNINIT, as XTI has it.
      {"options when connected", true, connected([](Provider& provider, Peer&) {
         return provider.ask(managing(T_NEGOTIATE, scalar(T_INET_TCP, T_TCP_NODELAY, T_YES)));
       }),
       "T_OPTMGMT_ACK 20 32, 6/1 32 1 0 0 0", Mode::connections},
      {"keep-alive: set, read, and back to the default", true,
       [](Provider& provider) {
         const Block both = option(T_INET_TCP, T_TCP_KEEPIDLE) + option(T_INET_TCP, T_TCP_KEEPINTVL) +
                            option(T_INET_TCP, T_TCP_KEEPCNT);
         return provider.ask_in_turn(
             {managing(T_CURRENT, both),
              managing(T_NEGOTIATE, scalar(T_INET_TCP, T_TCP_KEEPIDLE, 30) + scalar(T_INET_TCP, T_TCP_KEEPINTVL, 7) +
                                        scalar(T_INET_TCP, T_TCP_KEEPCNT, 3)),
              managing(T_CURRENT, both), managing(T_DEFAULT, both)});
       },
       "T_OPTMGMT_ACK 60 32, 6/65537 32 32 28 0 0, 6/65538 32 75 0 0 0, 6/65539 32 9 0 0 0; "
       "T_OPTMGMT_ACK 60 32, 6/65537 32 30 0 0 0, 6/65538 32 7 0 0 0, 6/65539 32 3 0 0 0; "
       "T_OPTMGMT_ACK 60 32, 6/65537 32 30 0 0 0, 6/65538 32 7 0 0 0, 6/65539 32 3 0 0 0; "
       "T_OPTMGMT_ACK 60 32, 6/65537 32 32 28 0 0, 6/65538 32 75 0 0 0, 6/65539 32 9 0 0 0",
       Mode::connections},
      {"keep-alive while it is connected", true, connected([](Provider& provider, Peer&) {
         return provider.ask_in_turn({managing(T_NEGOTIATE, scalar(T_INET_TCP, T_TCP_KEEPIDLE, 45)),
                                      managing(T_CURRENT, option(T_INET_TCP, T_TCP_KEEPIDLE))});
       }),
       "T_OPTMGMT_ACK 20 32, 6/65537 32 45 0 0 0; "
       "T_OPTMGMT_ACK 20 32, 6/65537 32 45 0 0 0",
       Mode::connections},
      {"keep-alive: what is out of range", true,
       [](Provider& provider) {
         std::string outcomes;
         for (const auto& [name, value] : {std::pair{T_TCP_KEEPIDLE, 0U},
                                           {T_TCP_KEEPIDLE, 32768U},
                                           {T_TCP_KEEPINTVL, 0U},
                                           {T_TCP_KEEPINTVL, 32768U},
                                           {T_TCP_KEEPCNT, 0U},
                                           {T_TCP_KEEPCNT, 128U}}) {
           outcomes +=
               (outcomes.empty() ? "" : "; ") + provider.ask(managing(T_NEGOTIATE, scalar(T_INET_TCP, name, value)));
         }
         return outcomes;
       },
       "T_OPTMGMT_ACK 20 64, 6/65537 64 0 0 0 0; "
       "T_OPTMGMT_ACK 20 64, 6/65537 64 0 128 0 0; "
       "T_OPTMGMT_ACK 20 64, 6/65538 64 0 0 0 0; "
       "T_OPTMGMT_ACK 20 64, 6/65538 64 0 128 0 0; "
       "T_OPTMGMT_ACK 20 64, 6/65539 64 0 0 0 0; "
       "T_OPTMGMT_ACK 20 64, 6/65539 64 128 0 0 0",
       Mode::connections},
      {"keep-alive: the ends of the ranges", true,
       [](Provider& provider) {
         std::string outcomes;
         for (const auto& [name, value] : {std::pair{T_TCP_KEEPIDLE, 1U},
                                           {T_TCP_KEEPIDLE, 32767U},
                                           {T_TCP_KEEPINTVL, 1U},
                                           {T_TCP_KEEPINTVL, 32767U},
                                           {T_TCP_KEEPCNT, 1U},
                                           {T_TCP_KEEPCNT, 127U}}) {
           outcomes +=
               (outcomes.empty() ? "" : "; ") + provider.ask(managing(T_NEGOTIATE, scalar(T_INET_TCP, name, value)));
         }
         return outcomes;
       },
       "T_OPTMGMT_ACK 20 32, 6/65537 32 1 0 0 0; "
       "T_OPTMGMT_ACK 20 32, 6/65537 32 255 127 0 0; "
       "T_OPTMGMT_ACK 20 32, 6/65538 32 1 0 0 0; "
       "T_OPTMGMT_ACK 20 32, 6/65538 32 255 127 0 0; "
       "T_OPTMGMT_ACK 20 32, 6/65539 32 1 0 0 0; "
       "T_OPTMGMT_ACK 20 32, 6/65539 32 127 0 0 0",
       Mode::connections},
      {"addresses when connected", true,
       connected([](Provider& provider, Peer&) { return provider.ask(block(AddrReq{})); }),
       "T_ADDR_ACK local:port local:port", Mode::connections},

      // "If the transport provider sends a M_ERROR upstream, it should also drop any further messages received on its
      // write side of the stream."
      {"after a fatal error", true, connected([](Provider& provider, Peer&) {
         provider.ask(words({T_EXDATA_REQ, 0}));
         const std::string info = provider.ask(block(InfoReq{}), MessageType::pcproto);
         return info + provider.ask(block(DisconReq{}));
       }),
       "", Mode::connections},
  };
  return cases;
}

}  // namespace sluice::test
