// SPDX-License-Identifier: Apache-2.0
#include "dlpi/xdp_filter.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/if_link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "dlpi/vlan.h"
#include "stack/wire/ethernet.h"

namespace sluice::dlpi {
namespace {

// ---- Errors ----

/// The capabilities that this process has not, by name.
std::string missing_capabilities() {
  struct Wanted {
    unsigned number;
    const char* name;
  };
  constexpr std::array wanted{Wanted{CAP_NET_RAW, "CAP_NET_RAW"}, Wanted{CAP_NET_ADMIN, "CAP_NET_ADMIN"},
                              Wanted{CAP_BPF, "CAP_BPF"}};
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> has{};
  static_cast<void>(::syscall(SYS_capget, &header, has.data()));
  std::string names;
  for (const Wanted& each : wanted) {
    if ((has[each.number / 32].effective & (1U << each.number % 32)) == 0) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", each.name);
    }
  }
  return names;
}

std::string advice(int code, const Interface& interface) {
  switch (code) {
    case EPERM:
    case EACCES: {
      const std::string missing = missing_capabilities();
      return (missing.empty() ? std::string("This program has its capabilities only in a user namespace of its own")
                              : "This program lacks " + missing) +
             ". XDP takes CAP_NET_RAW in the interface's network namespace, and CAP_NET_ADMIN and CAP_BPF outside of "
             "all user namespaces (unshare -U): run as root, or give the program the capabilities (setcap "
             "cap_net_raw,cap_net_admin,cap_bpf+ep PROGRAM). The driver packet takes CAP_NET_RAW only";
    }
    case EBUSY:
    case EEXIST:
      return fmt::format(
          "Another XDP program is on the interface, or another socket on the queue: `ip link show dev {0}` names a "
          "program; end what attached it, or `ip link set dev {0} xdp off`",
          interface.name);
    case EOPNOTSUPP:
      return "The device or its driver cannot do this: mode = \"generic\" works on all devices, and so does the driver "
             "packet";
    case ERANGE:
      return fmt::format(
          "The MTU is too large for native XDP: `ip link set dev {} mtu 1500` (of a veth pair, at the peer, too), or "
          "mode = \"generic\"",
          interface.name);
    case ENOSPC:
      return fmt::format(
          "Native XDP on veth takes as many receive queues as the peer has transmit queues: `ethtool -L {} rx NUMBER`, "
          "or mode = \"generic\"",
          interface.name);
    case ENOBUFS:
    case ENOMEM:
      return "The memory for the slots is more than may be locked: fewer `frames`, or raise `ulimit -l`";
    default:
      return "";
  }
}

// ---- The program ----

constexpr std::uint8_t frame = BPF_REG_2;      // where the frame begins
constexpr std::uint8_t frame_end = BPF_REG_3;  // and ends
constexpr std::uint8_t limit = BPF_REG_4;      // what is compared with the end
constexpr std::uint8_t type = BPF_REG_5;       // in network byte order
constexpr std::uint8_t context = BPF_REG_6;
constexpr std::uint8_t station = BPF_REG_7;  // the destination's six octets
constexpr std::uint8_t scratch = BPF_REG_8;

class Assembler {
 public:
  enum class Label : std::uint8_t { pass, take, check_type, compare_type, count_ };

  void op(std::uint8_t code, std::uint8_t to, std::uint8_t from, std::int16_t offset, std::int32_t value) {
    bpf_insn instruction{};
    instruction.code = code;
    instruction.dst_reg = to & 0xfU;
    instruction.src_reg = from & 0xfU;
    instruction.off = offset;
    instruction.imm = value;
    program_.push_back(instruction);
  }
  void load(std::uint8_t size, std::uint8_t to, std::uint8_t from, std::size_t offset) {
    op(BPF_LDX | BPF_MEM | size, to, from, static_cast<std::int16_t>(offset), 0);
  }
  void compute(std::uint8_t operation, std::uint8_t to, std::int32_t value) {
    op(BPF_ALU64 | BPF_K | operation, to, 0, 0, value);
  }
  void compute_with(std::uint8_t operation, std::uint8_t to, std::uint8_t from) {
    op(BPF_ALU64 | BPF_X | operation, to, from, 0, 0);
  }
  void load_wide(std::uint8_t to, std::uint64_t value, std::uint8_t kind = 0) {
    op(BPF_LD | BPF_DW | BPF_IMM, to, kind, 0, static_cast<std::int32_t>(value & 0xffff'ffffU));
    op(0, 0, 0, 0, static_cast<std::int32_t>(value >> 32));
  }
  void jump(Label label) { jump_op(BPF_JMP | BPF_JA, 0, 0, 0, label); }
  void jump_if(std::uint8_t condition, std::uint8_t left, std::int32_t value, Label label) {
    jump_op(BPF_JMP | BPF_K | condition, left, 0, value, label);
  }
  void jump_if_with(std::uint8_t condition, std::uint8_t left, std::uint8_t right, Label label) {
    jump_op(BPF_JMP | BPF_X | condition, left, right, 0, label);
  }
  void call(std::int32_t helper) { op(BPF_JMP | BPF_CALL, 0, 0, 0, helper); }
  void exit() { op(BPF_JMP | BPF_EXIT, 0, 0, 0, 0); }
  /// The label is here.
  void place(Label label) { places_[static_cast<std::size_t>(label)] = program_.size(); }
  [[nodiscard]] std::vector<bpf_insn> finish() {
    for (const auto& [at, label] : jumps_) {
      program_[at].off = static_cast<std::int16_t>(places_[static_cast<std::size_t>(label)] - at - 1);
    }
    return std::move(program_);
  }

 private:
  void jump_op(std::uint8_t code, std::uint8_t left, std::uint8_t right, std::int32_t value, Label label) {
    jumps_.emplace_back(program_.size(), label);
    op(code, left, right, 0, value);
  }

  std::vector<bpf_insn> program_;
  std::vector<std::pair<std::size_t, Label>> jumps_;
  std::array<std::size_t, static_cast<std::size_t>(Label::count_)> places_{};
};

using Label = Assembler::Label;

/// The kernel's no unless the frame has so many bytes; what lies in them may be read from here on.
void require_bytes(Assembler& code, std::int32_t bytes) {
  code.compute_with(BPF_MOV, limit, frame);
  code.compute(BPF_ADD, limit, bytes);
  code.jump_if_with(BPF_JGT, limit, frame_end, Label::pass);
}

/// An address as the program puts it together: three loads of two octets.
std::uint64_t number_of(const wire::MacAddress& address) {
  std::uint64_t number = 0;
  for (std::size_t at = 0; at < wire::MacAddress::size; at += 2) {
    std::uint16_t octets = 0;
    std::memcpy(&octets, &address.octets[at], sizeof octets);
    number |= std::uint64_t{octets} << (8 * at);
  }
  return number;
}

void check_destination(Assembler& code, const XdpFilter::Rules& rules) {
  if (rules.any_group || rules.groups.size() > XdpFilter::groups_max) {
    code.load(BPF_B, scratch, frame, 0);
    code.compute(BPF_AND, scratch, 1);  // IEEE 802: the first octet's lowest bit says that it is a group
    code.jump_if(BPF_JNE, scratch, 0, Label::check_type);
  }
  code.load(BPF_H, station, frame, 0);
  for (std::int32_t at = 2; at < 6; at += 2) {
    code.load(BPF_H, scratch, frame, static_cast<std::size_t>(at));
    code.compute(BPF_LSH, scratch, 8 * at);
    code.compute_with(BPF_OR, station, scratch);
  }
  const auto accept = [&code](const wire::MacAddress& address) {
    code.load_wide(scratch, number_of(address));
    code.jump_if_with(BPF_JEQ, station, scratch, Label::check_type);
  };
  accept(rules.station);
  accept(wire::mac_broadcast);
  for (std::size_t at = 0; at < std::min(rules.groups.size(), XdpFilter::groups_max); ++at) {
    accept(rules.groups[at]);
  }
  code.jump(Label::pass);
}

void check_type(Assembler& code, const XdpFilter::Rules& rules) {
  if (rules.any_type) {
    return code.jump(Label::take);
  }
  constexpr std::size_t type_at = wire::EthernetHeader::size - 2;
  code.load(BPF_H, type, frame, type_at);
  code.jump_if(BPF_JNE, type, htons(ethertype_vlan), Label::compare_type);
  require_bytes(code, wire::EthernetHeader::size + 4);
  code.load(BPF_H, scratch, frame, type_at + 2);
  code.compute(BPF_AND, scratch, htons(0xfff));
  code.jump_if(BPF_JNE, scratch, 0, Label::pass);
  code.load(BPF_H, type, frame, type_at + 4);
  code.place(Label::compare_type);
  for (const std::uint16_t bound : rules.types) {
    code.jump_if(BPF_JEQ, type, htons(bound), Label::take);
  }
}

std::vector<bpf_insn> assemble(const XdpFilter::Rules& rules, int map) {
  Assembler code;
  if (!rules.any_type && rules.types.empty()) {  // the verifier wants no code that is never reached
    code.compute(BPF_MOV, BPF_REG_0, XDP_PASS);
    code.exit();
    return code.finish();
  }
  code.compute_with(BPF_MOV, context, BPF_REG_1);
  code.load(BPF_W, frame, context, offsetof(xdp_md, data));
  code.load(BPF_W, frame_end, context, offsetof(xdp_md, data_end));
  require_bytes(code, wire::EthernetHeader::size);
  if (!rules.any_station) {
    check_destination(code, rules);
  }
  code.place(Label::check_type);
  check_type(code, rules);
  code.place(Label::pass);
  code.compute(BPF_MOV, BPF_REG_0, XDP_PASS);
  code.exit();
  // bpf-helpers(7), bpf_redirect_map: the lower two bits of the flags are "the return code if the map lookup fails".
  code.place(Label::take);
  code.load(BPF_W, BPF_REG_2, context, offsetof(xdp_md, rx_queue_index));
  code.load_wide(BPF_REG_1, static_cast<std::uint64_t>(map), BPF_PSEUDO_MAP_FD);
  code.compute(BPF_MOV, BPF_REG_3, XDP_PASS);
  code.call(BPF_FUNC_redirect_map);
  code.exit();
  return code.finish();
}

}  // namespace

std::unexpected<Error> xdp_failure(int code, const std::string& what, const Interface& interface) {
  const std::string to_do = advice(code, interface);
  return fail(code, fmt::format("{} '{}': {}{}{}", what, interface.name, std::strerror(code), to_do.empty() ? "" : ". ",
                                to_do));
}

Result<XdpFilter> XdpFilter::attach(const Interface& interface, Mode mode, unsigned queues) {
  constexpr std::uint32_t entry_bytes = sizeof(std::uint32_t);
  Descriptor map(::bpf_map_create(BPF_MAP_TYPE_XSKMAP, "sluice", entry_bytes, entry_bytes, queues, nullptr));
  if (!map) {
    return xdp_failure(errno, "making a map of XDP sockets for", interface);
  }
  XdpFilter filter(interface, mode, std::move(map));
  Rules nothing;
  nothing.station = interface.address;
  const Result<Descriptor> program = filter.load(nothing);
  if (!program) {
    return std::unexpected(program.error());
  }
  bpf_link_create_opts options{};
  options.sz = sizeof options;
  options.flags = mode == Mode::native ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;
  filter.link_ = Descriptor(::bpf_link_create(program->get(), interface.index, BPF_XDP, &options));
  if (!filter.link_) {
    return xdp_failure(
        errno == EEXIST ? EBUSY : errno,
        mode == Mode::native ? "attaching a native XDP program to" : "attaching a generic XDP program to", interface);
  }
  return filter;
}

/// At once: the kernel is free to put off what closing the descriptor ends.
XdpFilter::~XdpFilter() {
  if (link_) {
    static_cast<void>(::bpf_link_detach(link_.get()));
  }
}

Status XdpFilter::serve(unsigned queue, int socket) {
  const std::uint32_t key = queue;
  if (::bpf_map_update_elem(map_.get(), &key, &socket, BPF_ANY) != 0) {
    return xdp_failure(errno, "giving an XDP socket the frames of", interface_);
  }
  return {};
}

Result<Descriptor> XdpFilter::load(const Rules& rules) const {
  if (rules.types.size() > types_max) {
    return fail(E2BIG, fmt::format("more than {} EtherTypes are bound on '{}'", types_max, interface_.name));
  }
  const std::vector<bpf_insn> program = assemble(rules, map_.get());
  Descriptor loaded(
      ::bpf_prog_load(BPF_PROG_TYPE_XDP, "sluice", "Apache-2.0", program.data(), program.size(), nullptr));
  if (!loaded) {
    return xdp_failure(errno, "loading an XDP program for", interface_);
  }
  return loaded;
}

Status XdpFilter::accept_only(const Rules& rules) {
  const Result<Descriptor> program = load(rules);
  if (!program) {
    return std::unexpected(program.error());
  }
  if (::bpf_link_update(link_.get(), program->get(), nullptr) != 0) {
    return xdp_failure(errno, "filtering what is received on", interface_);
  }
  return {};
}

}  // namespace sluice::dlpi
