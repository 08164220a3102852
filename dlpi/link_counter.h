// SPDX-License-Identifier: Apache-2.0
#pragma once

// What can happen to frames and requests, each counted under its name. A stream has one counter for each. Events of the
// device rather than of a stream (a frame that nobody claims) are counted at the stream that has been on the link
// longest.
//
// The account of a frame. Every frame that came (LinkStatistics::frames_received) is given to the streams that want it,
// or ends under exactly one of these, tried in this order, whatever the driver:
//   super_frame_dropped, super_frame_malformed, no_memory, checksum_unknown
//                                                             the driver cannot make frames of it
//   short_frame, vlan_frame, oversize_frame                   it is none that we take
//   llc_frame, not_ours, unclaimed                            no stream wants it
// A stream's copy goes up, or ends under that stream's flow_dropped or no_memory. checksum_completed and
// super_frame_split say what was done to a frame on its way, and end none: what a super-frame was split into is what
// came. A kernel_dropped frame did not come, nor did a datagram of this host for itself: it is `looped`, or
// `unclaimed`.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::dlpi {

enum class LinkCounter : std::uint8_t {
  unclaimed,
  not_ours,
  short_frame,
  llc_frame,
  vlan_frame,
  oversize_frame,
  flow_dropped,
  no_memory,
  bad_unitdata,
  malformed,
  unexpected,
  transmit_overrun,
  transmit_error,
  link_down,
  kernel_dropped,
  checksum_completed,
  checksum_unknown,
  super_frame_split,
  super_frame_dropped,
  super_frame_malformed,
  super_frame_received,
  super_frame_sent,
  looped,
  peer_refused,
  count_
};

inline constexpr std::size_t link_counter_count = static_cast<std::size_t>(LinkCounter::count_);

struct LinkCounterText {
  std::string_view name;
  std::string_view meaning;
};

inline constexpr std::array<LinkCounterText, link_counter_count> link_counter_texts{{
    {"unclaimed", "frames to us for which no stream has the SAP, or only streams whose filters do not match"},
    {"not_ours", "frames to another station, or to a group that no stream has enabled"},
    {"short_frame", "frames under 14 bytes, dropped"},
    {"llc_frame", "IEEE 802.3 frames (length instead of EtherType) that no promiscuous stream took"},
    {"vlan_frame", "frames of a VLAN, or with two tags, dropped: use a VLAN interface"},
    {"oversize_frame", "frames above the MTU, dropped"},
    {"flow_dropped", "frames dropped because this stream was full and the link serves others, too"},
    {"no_memory", "messages dropped because the buffer pool was exhausted"},
    {"bad_unitdata", "DL_UNITDATA_REQ answered with DL_UDERROR_IND"},
    {"malformed", "messages too short to name a primitive, dropped"},
    {"unexpected", "messages of a type or in a mode that this provider does not take, dropped"},
    {"transmit_overrun", "frames dropped because the writer did not heed flow control"},
    {"transmit_error", "frames that the device refused for good, dropped"},
    {"link_down", "frames that waited when the link went down, dropped"},
    {"kernel_dropped", "frames that the kernel dropped before we could read them"},
    {"checksum_completed", "frames whose checksum a local sender had left to hardware, completed here"},
    {"checksum_unknown", "frames with such a checksum whose place is not in the frame, dropped"},
    {"super_frame_split", "segmentation-offload super-frames split here"},
    {"super_frame_dropped",
     "super-frames that are neither UDP nor TCP, or come without a checksum, dropped: ethtool -K DEVICE gso off"},
    {"super_frame_malformed", "super-frames whose headers are damaged or contradict the offload header, dropped"},
    {"super_frame_received", "super-frames given to a stream whole"},
    {"super_frame_sent", "super-frames that the device has taken whole"},
    {"looped", "datagrams of this host for itself, delivered without the device"},
    {"peer_refused", "peers in shared memory of another version or MTU, or that broke its rules"},
}};

}  // namespace sluice::dlpi
