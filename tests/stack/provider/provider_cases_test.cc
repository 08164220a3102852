// SPDX-License-Identifier: Apache-2.0
// One table of TPI cases over the transport providers, udp over ip on a memory link, kernel_udp and kernel_tcp on
// loopback: the same requests, the same answers, of local management by all, of data by those of one mode.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "stack/head/stream.h"
#include "stack/wire/receive_room.h"
#include "stack/wire/timod.h"
#include "tests/stack/head/simulated_waiter.h"
#include "tests/stack/provider/spoken_provider.h"
#include "tli/endpoint.h"

namespace sluice::test {
namespace {

const std::string unbound_info = " 65507 -2 -2 -2 20 484 65507 3 0 5";
const std::string idle_info = " 65507 -2 -2 -2 20 484 65507 3 3 5";

/// A datagram with these options.
std::function<std::string(Provider&)> sending(const Block& options, std::size_t bytes = 1,
                                              MessageType type = MessageType::proto) {
  return [=](Provider& provider) {
    const Block address = provider.peer();
    return provider.ask(block(UnitdataReq{.address = address, .options = options}), type, bytes);
  };
}

Block encoded_options(const Sending& options) {
  Block bytes(Sending::size);
  options.encode(bytes);
  return bytes;
}

constexpr std::uint32_t malformed_offset = 4000;

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      // T_INFO_ACK. The answer is M_PCPROTO, whatever the request came as.
      {"info", false, asking(block(InfoReq{}), MessageType::pcproto), "T_INFO_ACK" + unbound_info},
      {"info in M_PROTO", false, asking(block(InfoReq{})), "T_INFO_ACK" + unbound_info},
      {"info when bound", true, asking(block(InfoReq{})), "T_INFO_ACK" + idle_info},

      // T_CAPABILITY_ACK: "The provider must only set those bits which it supports and must leave as zero any bits not
      // supported." T_CAPABILITY_REQ: "must be responded to with the same message type as itself".
      {"capability", false, asking(block(CapabilityReq{TC1_INFO | TC1_ACCEPTOR_ID}), MessageType::pcproto),
       "T_CAPABILITY_ACK 1:" + unbound_info},
      {"capability in M_PROTO", true, asking(block(CapabilityReq{TC1_INFO})),
       "T_CAPABILITY_ACK in M_PROTO 1:" + idle_info},
      {"no capability", false, asking(block(CapabilityReq{}), MessageType::pcproto),
       "T_CAPABILITY_ACK 0:" + unbound_info},
      {"bits that are none", false, asking(block(CapabilityReq{0xffff'fff8}), MessageType::pcproto),
       "T_CAPABILITY_ACK 0:" + unbound_info},
      {"short capability", false, asking(words({T_CAPABILITY_REQ})),
       "error of 30: " + std::to_string(TSYSERR) + " " + std::to_string(EINVAL), Mode::every},
      {"short capability when bound", true, asking(words({T_CAPABILITY_REQ}), MessageType::pcproto),
       "error of 30: " + std::to_string(TSYSERR) + " " + std::to_string(EINVAL), Mode::every},

      // T_ADDR_ACK: "If the transport endpoint is not bound to a local address, the LOCADDR_length field is set to 0."
      {"address", false, asking(block(AddrReq{})), "T_ADDR_ACK nothing nothing", Mode::every},
      {"address when bound", true, asking(block(AddrReq{})), "T_ADDR_ACK local:port nothing", Mode::every},

      // T_BIND_ACK: "If the ADDR_length field in the T_BIND_REQ primitive is 0, then the transport provider is to
      // assign a transport protocol address to the user." "CONIND_number should be ignored".
      {"bind anywhere", false, asking(block(BindReq{.address = {}, .connect_indications = 7})),
       "T_BIND_ACK other:port 0"},
      {"old bind anywhere", false, asking(block(OldBindReq{.address = {}})), "T_BIND_ACK other:port 0", Mode::every},
      {"bind to a foreign address", false, asking(block(BindReq{.address = foreign})),
       "error of 26: " + std::to_string(TBADADDR) + " 0", Mode::every},
      {"old bind to a foreign address", false, asking(block(OldBindReq{.address = foreign})),
       "error of 6: " + std::to_string(TBADADDR) + " 0", Mode::every},
      {"bind to nonsense", false, asking(block(BindReq{.address = Block(3)})),
       "error of 26: " + std::to_string(TBADADDR) + " 0", Mode::every},
      {"bind with a wrong offset", false, asking(words({T_BIND_REQ, 8, malformed_offset, 0})),
       "error of 26: " + std::to_string(TBADADDR) + " 0", Mode::every},
      {"short bind", false, asking(words({T_BIND_REQ})), "error of 26: " + std::to_string(TBADADDR) + " 0", Mode::every},
      {"short old bind", false, asking(words({O_T_BIND_REQ, 0})), "error of 6: " + std::to_string(TBADADDR) + " 0", Mode::every},
      {"bind when bound", true, asking(block(BindReq{.address = {}})),
       "error of 26: " + std::to_string(TOUTSTATE) + " 0", Mode::every},

      // "The transport provider must send up a M_FLUSH message to flush both the read and write queues after receiving
      // a successful T_UNBIND_REQ message and before issuing the T_OK_ACK primitive."
      {"unbind", true, asking(block(UnbindReq{})), "M_FLUSH 3, T_OK_ACK 7", Mode::every},
      {"unbind when unbound", false, asking(block(UnbindReq{})), "error of 7: " + std::to_string(TOUTSTATE) + " 0", Mode::every},
      {"bind again", true,
       [](Provider& provider) {
         provider.ask(block(UnbindReq{}));
         const std::string address = provider.ask(block(AddrReq{}));
         return address + ", " + provider.ask(block(BindReq{.address = provider.address()}));
       },
       "T_ADDR_ACK nothing nothing, T_BIND_ACK local:port 0", Mode::every},

      // t_optmgmt(): "The overall result of the negotiation is returned in ret->flags". "[TBADFLAG] The flags as
      // specified were incorrect or invalid. [TBADOPT] The options as specified were in an incorrect format, or they
      // contained invalid information."
      {"negotiate", true, asking(optmgmt(T_NEGOTIATE)), "T_OPTMGMT_ACK 0 32", Mode::every},
      {"check", true, asking(optmgmt(T_CHECK)), "T_OPTMGMT_ACK 0 32", Mode::every},
      {"default", true, asking(optmgmt(T_DEFAULT)), "T_OPTMGMT_ACK 0 32", Mode::every},
      {"current", true, asking(optmgmt(T_CURRENT)), "T_OPTMGMT_ACK 0 32", Mode::every},
      {"negotiate when unbound", false, asking(optmgmt(T_NEGOTIATE)), "T_OPTMGMT_ACK 0 32", Mode::every},
      {"current of TLI", true, asking(svr4_optmgmt(T_CURRENT)), "T_OPTMGMT_ACK 0 32", Mode::every},
      {"no flag", true, asking(optmgmt(0)), "error of 27: " + std::to_string(TBADFLAG) + " 0", Mode::every},
      {"two flags", true, asking(optmgmt(T_NEGOTIATE | T_CHECK)), "error of 27: " + std::to_string(TBADFLAG) + " 0", Mode::every},
      {"a result as flag", true, asking(svr4_optmgmt(T_SUCCESS)), "error of 9: " + std::to_string(TBADFLAG) + " 0", Mode::every},
      {"an option", true, asking(optmgmt(T_NEGOTIATE, 16)), "error of 27: " + std::to_string(TBADOPT) + " 0", Mode::every},
      {"an option of TLI", true, asking(svr4_optmgmt(T_CHECK, 16)), "error of 9: " + std::to_string(TBADOPT) + " 0", Mode::every},
      // illumos and XTI: a level that the provider does not know is an error, a name that it does not is a result.
      {"an option of no level", true, asking(managing(T_NEGOTIATE, option(99, 1))),
       "error of 27: " + std::to_string(TBADOPT) + " 0", Mode::every},
      {"an option of no name", true, asking(managing(T_CHECK, option(wire::xti::T_INET_IP, 0x7777))),
       "T_OPTMGMT_ACK 16 1024, 0/30583 1024", Mode::every},
      {"an option of no name, among others", true,
       asking(managing(T_NEGOTIATE, option(T_INET_IP, 0x7777, {std::byte{7}}) + scalar(T_INET_IP, T_IP_BROADCAST, 1))),
       "T_OPTMGMT_ACK 40 1024, 0/30583 1024 7, 0/262 32 1 0 0 0"},
      {"no generic option", true, asking(managing(T_CURRENT, option(XTI_GENERIC, 1))),
       "T_OPTMGMT_ACK 16 1024, 65535/1 1024"},

      // XTI_RCVBUF: "This request is not an absolute requirement. The implementation may place upper and lower limits on
      // the option value. Requests that fall short of the lower limit are negotiated to the lower limit. Legal values
      // are all positive numbers."
      {"a receive buffer", true,
       [](Provider& provider) {
         return provider.ask_in_turn({managing(T_NEGOTIATE, scalar(XTI_GENERIC, XTI_RCVBUF, 65536)),
                                      managing(T_CURRENT, option(XTI_GENERIC, XTI_RCVBUF))});
       },
       "T_OPTMGMT_ACK 20 32, 65535/4098 32 0 0 1 0; T_OPTMGMT_ACK 20 32, 65535/4098 32 0 0 1 0"},
      {"a receive buffer that is too small", false,
       [](Provider& provider) {
         return provider.ask_in_turn({managing(T_NEGOTIATE, scalar(XTI_GENERIC, XTI_RCVBUF, 100)),
                                      managing(T_CURRENT, option(XTI_GENERIC, XTI_RCVBUF))});
       },
       "T_OPTMGMT_ACK 20 256, 65535/4098 256 0 16 0 0; T_OPTMGMT_ACK 20 32, 65535/4098 32 0 16 0 0"},
      {"a receive buffer of nothing", true, asking(managing(T_NEGOTIATE, scalar(XTI_GENERIC, XTI_RCVBUF, 0))),
       "T_OPTMGMT_ACK 20 64, 65535/4098 64 0 0 0 0"},
      {"checking a receive buffer sets none", true,
       [](Provider& provider) {
         const std::string before = provider.ask(managing(T_CURRENT, option(XTI_GENERIC, XTI_RCVBUF)));
         const std::string checked = provider.ask(managing(T_CHECK, scalar(XTI_GENERIC, XTI_RCVBUF, 4095)));
         EXPECT_EQ(provider.ask(managing(T_CURRENT, option(XTI_GENERIC, XTI_RCVBUF))), before);
         return checked + "; " + provider.ask(managing(T_CHECK, scalar(XTI_GENERIC, XTI_RCVBUF, 4096)));
       },
       "T_OPTMGMT_ACK 20 256, 65535/4098 256 0 16 0 0; T_OPTMGMT_ACK 20 32, 65535/4098 32 0 16 0 0"},
      {"a receive buffer as it was", true,
       [](Provider& provider) {
         const std::string before = provider.ask(managing(T_CURRENT, option(XTI_GENERIC, XTI_RCVBUF)));
         provider.ask(managing(T_NEGOTIATE, scalar(XTI_GENERIC, XTI_RCVBUF, 8192)));
         provider.ask(managing(T_NEGOTIATE, scalar(XTI_GENERIC, XTI_RCVBUF, 16384)));
         EXPECT_EQ(provider.ask(managing(T_DEFAULT, option(XTI_GENERIC, XTI_RCVBUF))), before);
         provider.ask(managing(T_NEGOTIATE, option(XTI_GENERIC, T_ALLOPT)));
         EXPECT_EQ(provider.ask(managing(T_CURRENT, option(XTI_GENERIC, XTI_RCVBUF))), before);
         return std::string();
       },
       ""},
      // XTI_RCVLOWAT: "the minimal number of bytes that must have accumulated in the receive buffer before they become
      // visible to the transport user"; XTI_SNDLOWAT: "before they are sent".
      {"low-water marks are 1", true,
       asking(managing(T_NEGOTIATE, scalar(XTI_GENERIC, XTI_RCVLOWAT, 512) + scalar(XTI_GENERIC, XTI_SNDLOWAT, 1))),
       "T_OPTMGMT_ACK 40 256, 65535/4100 256 1 0 0 0, 65535/4099 32 1 0 0 0"},
      {"and are seen", false,
       asking(managing(T_CURRENT, option(XTI_GENERIC, XTI_RCVLOWAT) + option(XTI_GENERIC, XTI_SNDLOWAT))),
       "T_OPTMGMT_ACK 40 32, 65535/4100 32 1 0 0 0, 65535/4099 32 1 0 0 0"},
      {"a low-water mark of nothing", true, asking(managing(T_CHECK, scalar(XTI_GENERIC, XTI_SNDLOWAT, 0))),
       "T_OPTMGMT_ACK 20 64, 65535/4099 64 0 0 0 0"},
      // "The value T_NOTSUPPORT is the worst result and T_SUCCESS is the best": a failure is worse than a part of success.
      {"the worst result, last", true,
       asking(managing(T_NEGOTIATE, scalar(XTI_GENERIC, XTI_RCVLOWAT, 512) + scalar(XTI_GENERIC, XTI_SNDLOWAT, 0))),
       "T_OPTMGMT_ACK 40 64, 65535/4100 256 1 0 0 0, 65535/4099 64 0 0 0 0"},
      {"the worst result, first", true,
       asking(managing(T_NEGOTIATE, scalar(XTI_GENERIC, XTI_SNDLOWAT, 0) + scalar(XTI_GENERIC, XTI_RCVLOWAT, 512))),
       "T_OPTMGMT_ACK 40 64, 65535/4099 64 0 0 0 0, 65535/4100 256 1 0 0 0"},
      // XTI_LINGER: "to linger the execution of a t_close() or close() if send data is still queued in the send buffer".
      {"nothing lingers", true, asking(managing(T_NEGOTIATE, option(XTI_GENERIC, 0x80, words({1, 5})))),
       "T_OPTMGMT_ACK 24 1024, 65535/128 1024 1 0 0 0 5 0 0 0"},

      // T_NEGOTIATE: "If the status is T_SUCCESS, T_FAILURE, T_NOTSUPPORT or T_READONLY, the returned option value is
      // the same as the one requested on input."
      {"negotiate a broadcast", true, asking(managing(T_NEGOTIATE, scalar(T_INET_IP, T_IP_BROADCAST, 1))),
       "T_OPTMGMT_ACK 20 32, 0/262 32 1 0 0 0"},
      {"and see it", true,
       [](Provider& provider) {
         provider.ask(managing(T_NEGOTIATE, scalar(T_INET_IP, T_IP_BROADCAST, 1)));
         return provider.ask(managing(T_CURRENT, option(T_INET_IP, T_IP_BROADCAST)));
       },
       "T_OPTMGMT_ACK 20 32, 0/262 32 1 0 0 0"},
      {"a value that is none", true, asking(managing(T_NEGOTIATE, scalar(T_INET_IP, T_IP_BROADCAST, 2))),
       "T_OPTMGMT_ACK 20 64, 0/262 64 2 0 0 0"},
      {"a TTL of 0", true, asking(managing(T_NEGOTIATE, scalar(T_INET_IP, T_IP_TTL, 0))),
       "T_OPTMGMT_ACK 20 64, 0/4 64 0 0 0 0"},
      {"a TTL in one byte", true, asking(managing(T_NEGOTIATE, option(T_INET_IP, T_IP_TTL, {std::byte{9}}))),
       "T_OPTMGMT_ACK 20 32, 0/4 32 9"},
      {"a value of no known size", true, asking(managing(T_NEGOTIATE, option(T_INET_IP, T_IP_TTL, Block(2)))),
       "T_OPTMGMT_ACK 20 64, 0/4 64 0 0"},
      {"no value", true, asking(managing(T_NEGOTIATE, option(T_INET_IP, T_IP_TTL))), "T_OPTMGMT_ACK 16 64, 0/4 64"},
      {"set before it is bound", false,
       [](Provider& provider) {
         provider.ask(managing(T_NEGOTIATE, scalar(T_INET_IP, T_IP_TTL, 9)));
         provider.bind();
         return provider.ask(managing(T_CURRENT, option(T_INET_IP, T_IP_TTL)));
       },
       "T_OPTMGMT_ACK 20 32, 0/4 32 9"},

      // A family each; by default both are fragmented.
      {"no fragments", false,
       [](Provider& provider) {
         const Block both = option(T_INET_IP, T_IP_DONTFRAG) + option(T_INET_IPV6, T_IPV6_DONTFRAG);
         const std::string before = provider.ask(managing(T_CURRENT, both));
         EXPECT_EQ(provider.flags_of(managing(T_NEGOTIATE, scalar(T_INET_IPV6, T_IPV6_DONTFRAG, 1))), T_SUCCESS);
         provider.bind();
         const std::string between = provider.ask(managing(T_CURRENT, both));
         EXPECT_EQ(provider.flags_of(managing(T_NEGOTIATE, scalar(T_INET_IP, T_IP_DONTFRAG, T_YES))), T_SUCCESS);
         EXPECT_EQ(provider.flags_of(managing(T_NEGOTIATE, scalar(T_INET_IPV6, T_IPV6_DONTFRAG, 0))), T_SUCCESS);
         EXPECT_EQ(provider.flags_of(managing(T_NEGOTIATE, scalar(T_INET_IP, T_IP_DONTFRAG, 2))), T_FAILURE);
         return before + "; " + between + "; " + provider.ask(managing(T_CURRENT, both));
       },
       "T_OPTMGMT_ACK 40 32, 0/27 32 0 0 0 0, 41/33 32 0 0 0 0; "
       "T_OPTMGMT_ACK 40 32, 0/27 32 0 0 0 0, 41/33 32 1 0 0 0; "
       "T_OPTMGMT_ACK 40 32, 0/27 32 1 0 0 0, 41/33 32 0 0 0 0"},

      // T_CHECK: "Note that no negotiation takes place. All currently effective option values remain unchanged."
      {"check without a value", true, asking(managing(T_CHECK, option(T_INET_IP, T_IP_TTL))),
       "T_OPTMGMT_ACK 16 32, 0/4 32"},
      {"check", true,
       [](Provider& provider) {
         return provider.ask(managing(T_CHECK, scalar(T_INET_IP, T_IP_TTL, 9) + scalar(T_INET_IP, T_IP_TTL, 256))) +
                "; " + provider.ask(managing(T_CURRENT, option(T_INET_IP, T_IP_TTL)));
       },
       "T_OPTMGMT_ACK 40 64, 0/4 32 9 0 0 0, 0/4 64 0 1 0 0; T_OPTMGMT_ACK 20 32, 0/4 32 64"},

      // T_ALLOPT: "The result is returned option by option in ret->opt.buf."
      {"all that is set, and all by default", true,
       [](Provider& provider) {
         provider.ask(managing(T_NEGOTIATE, scalar(T_INET_IP, T_IP_TOS, 16) + scalar(T_INET_IP, T_IP_MULTICAST_TTL, 3) +
                                                scalar(T_INET_IP, T_IP_MULTICAST_LOOP, 0)));
         const std::string current = provider.ask(managing(T_CURRENT, option(T_INET_IP, T_ALLOPT)));
         const std::string reset = provider.ask(managing(T_NEGOTIATE, option(T_INET_IP, T_ALLOPT)));
         EXPECT_EQ(provider.ask(managing(T_CURRENT, option(T_INET_IP, T_ALLOPT))), reset);
         EXPECT_EQ(provider.ask(managing(T_DEFAULT, option(T_INET_IP, T_ALLOPT))), reset);
         return current + "; " + reset;
       },
       "T_OPTMGMT_ACK 120 32, 0/4 32 64, 0/264 32 16, 0/262 32 0 0 0 0, 0/17 32 3, 0/18 32 0, 0/27 32 0 0 0 0; "
       "T_OPTMGMT_ACK 120 32, 0/4 32 64, 0/264 32 0, 0/262 32 0 0 0 0, 0/17 32 1, 0/18 32 1, 0/27 32 0 0 0 0"},
      {"all of another level", true,
       [](Provider& provider) {
         provider.ask(managing(T_NEGOTIATE, scalar(T_INET_UDP, T_UDP_RECEIVED, T_YES)));
         return provider.ask(managing(T_CURRENT, option(T_INET_UDP, T_ALLOPT)));
       },
       "T_OPTMGMT_ACK 40 32, 17/1536 32 1 0 0 0, 17/65537 32 1 0 0 0"},
      {"check all", true, asking(managing(T_CHECK, option(T_INET_IP, T_ALLOPT))), "T_OPTMGMT_ACK 16 64, 0/0 64"},
      {"no checksum", true,
       [](Provider& provider) {
         provider.ask(managing(T_NEGOTIATE, scalar(T_INET_UDP, T_UDP_CHECKSUM, 0)));
         return provider.ask(managing(T_CURRENT, option(T_INET_UDP, T_UDP_CHECKSUM)));
       },
       "T_OPTMGMT_ACK 20 32, 17/1536 32 0 0 0 0"},

      // Groups. What is wrong with one is its status, and the others are done.
      {"join, twice, leave, twice", true,
       [](Provider& provider) {
         const Block member = provider.membership({{239, 1, 2, 3}});
         const Block joins = option(T_INET_IP, T_IP_ADD_MEMBERSHIP, member);
         const Block leaves = option(T_INET_IP, T_IP_DROP_MEMBERSHIP, member);
         std::string outcomes;
         for (const Block& request : {joins, joins, leaves, leaves, joins}) {
           outcomes += std::to_string(provider.flags_of(managing(T_NEGOTIATE, request))) + " ";
         }
         return outcomes;
       },
       "32 64 32 64 32 "},
      {"what is no group", true,
       [](Provider& provider) {
         const Block member = provider.membership({{10, 1, 2, 3}});
         const Block no_interface = Block{std::byte{239}, std::byte{1}, std::byte{2}, std::byte{3}, std::byte{192},
                                          std::byte{0}, std::byte{2}, std::byte{77}};
         std::string outcomes;
         for (const Block& value : {member, no_interface, Block(7), Block(9), Block{}}) {
           outcomes += std::to_string(
                           provider.flags_of(managing(T_NEGOTIATE, option(T_INET_IP, T_IP_ADD_MEMBERSHIP, value)))) +
                       " ";
         }
         return outcomes;
       },
       "64 64 64 64 64 "},
      {"checking joins nothing", true,
       [](Provider& provider) {
         const Block joins = option(T_INET_IP, T_IP_ADD_MEMBERSHIP, provider.membership({{239, 1, 2, 3}}));
         return std::to_string(provider.flags_of(managing(T_CHECK, joins))) + " " +
                std::to_string(provider.flags_of(managing(T_CHECK, joins)));
       },
       "32 32"},
      {"a membership has no value", true, asking(managing(T_CURRENT, option(T_INET_IP, T_IP_ADD_MEMBERSHIP))),
       "T_OPTMGMT_ACK 16 32, 0/19 32"},
      {"more groups than there may be", true,
       [](Provider& provider) {
         std::size_t joined = 0;
         for (std::uint8_t number = 1; number <= 40; ++number) {
           const Block joins = option(T_INET_IP, T_IP_ADD_MEMBERSHIP, provider.membership({{239, 1, 2, number}}));
           joined += provider.flags_of(managing(T_NEGOTIATE, joins)) == T_SUCCESS ? 1U : 0U;
         }
         return std::to_string(joined);
       },
       "20"},

      // Of a buffer that is malformed nothing is done.
      {"a malformed second one", true,
       [](Provider& provider) {
         const Block good = scalar(T_INET_IP, T_IP_TTL, 9);
         return provider.ask(managing(T_NEGOTIATE, good + words({15, 0, 4, 0}))) + "; " +
                provider.ask(managing(T_NEGOTIATE, good + option(99, 1))) + "; " +
                provider.ask(managing(T_CURRENT, option(T_INET_IP, T_IP_TTL)));
       },
       "error of 27: 2 0; error of 27: 2 0; T_OPTMGMT_ACK 20 32, 0/4 32 64"},
      {"more options than are looked at", true, asking(managing(T_CURRENT, option(T_INET_IP, T_IP_TTL, Block(1009)))),
       "error of 27: " + std::to_string(TBADOPT) + " 0"},
      {"an option that is cut", true,
       asking(managing(T_CHECK, words({20, wire::xti::T_INET_IP, wire::xti::T_IP_BROADCAST, 0}))),
       "error of 27: " + std::to_string(TBADOPT) + " 0", Mode::every},
      {"short option management", true, asking(words({T_OPTMGMT_REQ, 0})),
       "error of 27: " + std::to_string(TBADOPT) + " 0", Mode::every},

      // Connection mode. "This primitive does not require any acknowledgments, although it may generate a fatal error.
      // This is indicated via a M_ERROR message type".
      {"T_DATA_REQ", true, asking(words({T_DATA_REQ, 0})), "M_ERROR 71 71"},
      {"T_DATA_REQ when unbound", false, asking(words({T_DATA_REQ, 0})), "M_ERROR 71 71", Mode::every},
      {"T_EXDATA_REQ", true, asking(words({T_EXDATA_REQ, 0})), "M_ERROR 71 71"},
      {"T_OPTDATA_REQ", true, asking(words({T_OPTDATA_REQ, 0, 0, 0})), "M_ERROR 71 71", Mode::every},
      {"T_ORDREL_REQ", true, asking(words({T_ORDREL_REQ})), "M_ERROR 71 71"},
      {"M_DATA", true, asking(Block(10), MessageType::data), "M_ERROR 71 71"},
      {"T_CONN_REQ", true, asking(words({0, 0, 0, 0, 0})), "error of 0: " + std::to_string(TNOTSUPPORT) + " 0"},
      {"T_CONN_RES", true, asking(words({1, 0, 0, 0, 0})), "error of 1: " + std::to_string(TNOTSUPPORT) + " 0"},
      {"T_DISCON_REQ", true, asking(words({2, 0})), "error of 2: " + std::to_string(TNOTSUPPORT) + " 0"},
      {"nothing there is", true, asking(words({4711})), "error of 4711: " + std::to_string(TNOTSUPPORT) + " 0", Mode::every},
      {"a block too short", true, asking(Block(3)), "error of -1: " + std::to_string(TNOTSUPPORT) + " 0", Mode::every},
      // "If the transport provider sends a M_ERROR upstream, it should also drop any further messages received on its
      // write side of the stream."
      {"after a fatal error", true,
       [](Provider& provider) {
         provider.ask(words({T_ORDREL_REQ}));
         std::string answers = provider.ask(block(InfoReq{}), MessageType::pcproto);
         answers += provider.ask(words({T_CAPABILITY_REQ}));
         return answers + provider.ask(words({T_DATA_REQ, 0}));
       },
       ""},

      // Datagrams. T_UNITDATA_REQ: "If a non-fatal error occurs, it is the responsibility of the transport provider to
      // report it via the T_UDERROR_IND indication."
      {"datagram when unbound", false, sending({}), "M_ERROR 71 71"},
      {"datagram", true, sending({}), ""},
      {"datagram in M_PCPROTO", true, sending({}, 1, MessageType::pcproto), ""},
      {"datagram without destination", true, asking(block(UnitdataReq{.address = {}, .options = {}})),
       "T_UDERROR_IND " + std::to_string(EINVAL)},
      {"datagram with options that ask for nothing", true, sending(encoded_options({})), ""},
      {"datagram with a hop limit and a class", true, sending(encoded_options({.hop_limit = 9, .traffic_class = 0x10})), ""},
      {"datagram from an address of ours", true,
       [](Provider& provider) {
         const Block address = provider.peer();
         const Block options = encoded_options({.source = provider.own()});
         return provider.ask(block(UnitdataReq{.address = address, .options = options}), MessageType::proto, 1);
       },
       ""},
      {"datagram from an address that is not ours", true,
       sending(encoded_options({.source = IpAddress(wire::Ipv4Address{{192, 0, 2, 1}})})),
       "T_UDERROR_IND " + std::to_string(EADDRNOTAVAIL)},
      {"datagram from an address of another family", true,
       sending(encoded_options({.source = IpAddress(wire::Ipv6Address{{0xfd}})})),
       "T_UDERROR_IND " + std::to_string(EAFNOSUPPORT)},
      // t_rcvudata(): "opt identifies options that were associated with this data unit".
      {"how a datagram came", true,
       [](Provider& provider) {
         provider.ask(managing(T_NEGOTIATE, scalar(T_INET_UDP, T_UDP_RECEIVED, T_YES)));
         const std::string first = provider.ask_itself({.hop_limit = 9, .traffic_class = 0x10});
         return first + "; " + provider.ask_itself({});
       },
       "T_UNITDATA_IND local:port 5 bytes to local, 9 hops, class 16; "
       "T_UNITDATA_IND local:port 5 bytes to local, 64 hops, class 0"},
      {"how a datagram came does not matter", true,
       [](Provider& provider) {
         provider.ask(managing(T_NEGOTIATE, scalar(T_INET_UDP, T_UDP_RECEIVED, T_NO)));
         return provider.ask_itself({.hop_limit = 9});
       },
       "T_UNITDATA_IND local:port 5 bytes"},
      {"how a datagram came is yes or no", true, asking(managing(T_NEGOTIATE, scalar(T_INET_UDP, T_UDP_RECEIVED, 2))),
       "T_OPTMGMT_ACK 20 64, 17/65537 64 2 0 0 0"},
      {"datagram with malformed options", true, sending(Block(3)), "T_UDERROR_IND " + std::to_string(EINVAL)},
      {"datagram above the TSDU size", true, sending({}, 65508), "T_UDERROR_IND " + std::to_string(EMSGSIZE)},
  };
  return all;
}

class ProviderCases : public testing::TestWithParam<Arrangement> {};

void play(const std::vector<Case>& all, const Arrangement& arrangement, Mode mode) {
  for (const Case& one : all) {
    if (one.mode != mode && one.mode != Mode::every) {
      continue;
    }
    SCOPED_TRACE(one.name);
    Provider provider(arrangement);
    if (one.bound) {
      provider.bind();
    }
    EXPECT_EQ(one.ask(provider), one.answer);
  }
}

TEST_P(ProviderCases, AnswerAlike) { play(cases(), GetParam(), Mode::connectionless); }

TEST(ConnectionCases, AnswerAlike) {
  play(cases(), tcp_arrangement, Mode::connections);
  play(connection_cases(), tcp_arrangement, Mode::connections);
}

/// The same through the whole stack, as a program sees it: stream head, timod, the transport library.
class ProviderCalls : public testing::TestWithParam<Arrangement> {
 protected:
  std::unique_ptr<Stream> stream() {
    std::unique_ptr<Stream> opened = Stream::open(workshop.set(), workshop.driver()).value();
    for (auto& module : workshop.modules()) {
      EXPECT_TRUE(opened->push(std::move(module)));
    }
    EXPECT_TRUE(opened->push(workshop.make("timod", {})));
    opened->set_waiter(&waiter);
    return opened;
  }

  Workshop workshop{GetParam()};
  SimulatedWaiter waiter{workshop.set()};
};

// timod(7M): "If the ioctl returns with a value greater than 0, the lower 8 bits of the return value will be one of the
// TI error codes".
TEST_P(ProviderCalls, AShortCapabilityRequestIsAnsweredAndTheNextRequestServed) {
  const auto opened = stream();
  const Block request = words({T_CAPABILITY_REQ});
  const auto refused = opened->ioctl(wire::timod::TI_CAPABILITY, request);
  ASSERT_TRUE(refused) << refused.error().text;
  EXPECT_EQ(refused->return_value, TSYSERR | EINVAL << 8);
  const auto info = opened->ioctl(wire::timod::TI_GETINFO, block(InfoReq{}));
  ASSERT_TRUE(info) << info.error().text;
  EXPECT_EQ(info->return_value, 0);
  const auto capability = opened->ioctl(wire::timod::TI_CAPABILITY, block(CapabilityReq{TC1_INFO}));
  ASSERT_TRUE(capability) << capability.error().text;
  EXPECT_EQ(capability->return_value, 0);
}

// XTI_RCVBUF "is used to adjust the internal buffer size allocated for the receive buffer [...] to limit the possible
// backlog of incoming data", XTI_SNDBUF that "for the send buffer". Where that is differs, and so do these two.
TEST_P(ProviderCalls, BuffersAreThoseWhereDataWaits) {
  const bool kernel = GetParam().is_kernel();
  auto opened = tli::Endpoint::t_open(stream(), nullptr);
  ASSERT_TRUE(opened);
  tli::Endpoint& endpoint = **opened;
  const auto negotiate = [&](std::uint32_t name, std::uint32_t value) {
    Block wanted = scalar(XTI_GENERIC, name, value);
    Block outcome(wanted.size());
    tli::t_optmgmt answer{.opt = {outcome.size(), 0, outcome.data()}};
    EXPECT_TRUE(
        endpoint.t_optmgmt({.opt = {wanted.size(), wanted.size(), wanted.data()}, .flags = T_NEGOTIATE}, answer));
    return answer.flags;
  };
  EXPECT_EQ(negotiate(XTI_SNDBUF, 65536), kernel ? T_SUCCESS : T_NOTSUPPORT);
  EXPECT_EQ(negotiate(XTI_RCVBUF, 65536), T_SUCCESS);
  ASSERT_TRUE(endpoint.t_bind(nullptr, nullptr));
  const auto room = [&]() -> std::size_t {
    const auto answer = endpoint.stream().ioctl(wire::SLIOCRECEIVEROOM, {});
    EXPECT_TRUE(answer) << answer.error().text;
    return answer ? static_cast<std::size_t>(answer->return_value) : 0;
  };
  const auto waits = [&] { return kernel ? 2 * room() : endpoint.stream().head().read_queue().marks().high_bytes; };
  EXPECT_EQ(waits(), 65536U) << "asked for before it was bound";
  EXPECT_EQ(negotiate(XTI_RCVBUF, 32768), T_SUCCESS);
  EXPECT_EQ(waits(), 32768U);
  if (!kernel) {
    EXPECT_EQ(endpoint.stream().head().read_queue().marks().low_bytes, 8192U);
  }
}

TEST_P(ProviderCalls, LibraryCallsHaveOneResult) {
  tli::t_info info;
  auto opened = tli::Endpoint::t_open(stream(), &info);
  ASSERT_TRUE(opened);
  tli::Endpoint& endpoint = **opened;
  EXPECT_EQ(info.options, 484);
  EXPECT_EQ(info.tsdu, 65507);

  Block wanted = foreign;
  const tli::t_bind elsewhere{{.maxlen = 0, .len = wanted.size(), .buf = wanted.data()}, 0};
  const auto refused = endpoint.t_bind(&elsewhere, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().t_errno, TBADADDR);
  ASSERT_TRUE(endpoint.t_bind(nullptr, nullptr));

  tli::t_optmgmt managed{};
  ASSERT_TRUE(endpoint.t_optmgmt({{}, T_DEFAULT}, managed));
  EXPECT_EQ(managed.flags, T_SUCCESS);
  const auto bad_flag = endpoint.t_optmgmt({{}, 0}, managed);
  ASSERT_FALSE(bad_flag);
  EXPECT_EQ(bad_flag.error().t_errno, TBADFLAG);

  ASSERT_TRUE(endpoint.t_unbind());
  EXPECT_EQ(endpoint.t_sync().value_or(tli::T_UNINIT), tli::T_UNBND);
  ASSERT_TRUE(endpoint.t_bind(nullptr, nullptr));
  EXPECT_TRUE(endpoint.t_close());
}

// t_unbind(): "[TLOOK] An asynchronous event has occurred on this transport endpoint": data, or an error of data sent
// before. The endpoint stays bound, nothing is lost, and the program calls again.
TEST_P(ProviderCalls, UnbindLooksAtWhatWaits) {
  auto opened = tli::Endpoint::t_open(stream(), nullptr);
  ASSERT_TRUE(opened);
  tli::Endpoint& endpoint = **opened;
  ASSERT_TRUE(endpoint.t_bind(nullptr, nullptr));
  Queue& provider = endpoint.stream().chain().modules()[1]->read_queue();
  const auto comes = [&](const Block& primitive, std::size_t data_bytes) {
    Message message = Message::copy_of(workshop.set().pool(), primitive, 0, MessageType::proto);
    if (data_bytes > 0) {
      message.link(Message::copy_of(workshop.set().pool(), Block(data_bytes)));
    }
    provider.put_next(std::move(message));
  };
  const auto unbind_looks = [&] {
    const auto unbound = endpoint.t_unbind();
    return !unbound && unbound.error().t_errno == TLOOK;
  };
  comes(block(UnitdataInd{.address = foreign, .options = {}}), 5);
  EXPECT_TRUE(unbind_looks());
  EXPECT_EQ(endpoint.t_look().value_or(0), tli::T_DATA);
  EXPECT_EQ(endpoint.t_sync().value_or(tli::T_UNINIT), tli::T_IDLE) << "the provider is bound still";
  Block data(8);
  tli::t_unitdata unit;
  unit.udata = {.maxlen = data.size(), .len = 0, .buf = data.data()};
  int flags = 0;
  ASSERT_TRUE(endpoint.t_rcvudata(unit, flags));
  EXPECT_EQ(unit.udata.len, 5U);

  comes(block(UderrorInd{.destination = foreign, .options = {}, .error_type = ECONNREFUSED}), 0);
  EXPECT_TRUE(unbind_looks());
  EXPECT_EQ(endpoint.t_look().value_or(0), tli::T_UDERR);
  tli::t_uderr error;
  ASSERT_TRUE(endpoint.t_rcvuderr(&error));
  EXPECT_EQ(error.error, ECONNREFUSED);

  ASSERT_TRUE(endpoint.t_unbind());
  EXPECT_EQ(endpoint.t_sync().value_or(tli::T_UNINIT), tli::T_UNBND);
}

const auto name_of_arrangement = [](const testing::TestParamInfo<Arrangement>& instance) {
  return std::string(instance.param.name);
};
INSTANTIATE_TEST_SUITE_P(Both, ProviderCases, testing::ValuesIn(arrangements), name_of_arrangement);
INSTANTIATE_TEST_SUITE_P(Both, ProviderCalls, testing::ValuesIn(arrangements), name_of_arrangement);

}  // namespace
}  // namespace sluice::test
