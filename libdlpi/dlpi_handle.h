// SPDX-License-Identifier: Apache-2.0
#pragma once

// Links made easy: the calls of illumos' libdlpi(3LIB) as members of a handle over a stream on a DLPI driver.
//
//     // Where links come from: here, every device is opened with the registry's `packet` driver.
//     Links links{
//         .open = [&](std::string_view linkname) -> Result<std::unique_ptr<Stream>> {
//           Parameters parameters;
//           parameters.set("device", std::string(linkname));
//           auto driver = registry.find("packet")->make(set, parameters);
//           if (!driver) return std::unexpected(driver.error());
//           auto stream = Stream::open(set, std::move(*driver));
//           if (stream) (*stream)->set_waiter(&loop);
//           return stream;
//         },
//         .names = [] { return std::vector<std::string>{"veth0"}; }};
//
//     auto handle = Handle::dlpi_open(links, "veth0");
//     if (!handle) { print(dlpi_strerror(handle.error())); return; }
//     (*handle)->dlpi_bind(0x88b5, nullptr);
//     (*handle)->dlpi_send(wire::mac_broadcast, as_bytes("hello"));
//     std::array<std::byte, 1500> buffer;
//     auto received = (*handle)->dlpi_recv(buffer, 1000);      // waits a second at most
//     if (received) use(ConstBytes(buffer).first(received->bytes), received->source);
//
// Manual
//   state    A handle is DL_UNBOUND once it is open and DL_IDLE once it is bound. Style 2 links are attached by
//            dlpi_open: the digits at the end of their name are the PPA.
//   waiting  Calls that the link acknowledges wait through the stream's Waiter for the handle's timeout at most, then
//            answer DLPI_ETIMEDOUT. On a non-blocking stream, or on one without a Waiter, no call waits: what is not
//            there at once is DLPI_ETIMEDOUT, and a send that flow control stops is DL_SYSERR with EAGAIN.
//   data     What arrives while a call waits for its acknowledgement is kept for dlpi_recv: at most messages_kept_max
//            messages; more are dropped and counted in messages_dropped().
//   raw      DLPI_RAW: messages start with the Ethernet header in both directions. It lasts until the handle goes.
//
// Where this library differs from libdlpi(3LIB):
//
//   | call            | libdlpi                               | here                                                 |
//   |-----------------|---------------------------------------|------------------------------------------------------|
//   | all             | int, errno                            | Outcome with the error, and the errno, in it         |
//   | dlpi_open       | /dev/net, /dev                        | what the program's Links opens                       |
//   | dlpi_open flags | RAW PASSIVE NATIVE DEVIPNET IPNETINFO | DLPI_RAW; others are DLPI_EINVAL                     |
//   | dlpi_close      | a call                                | the destructor                                       |
//   | dlpi_fd         | a descriptor to poll                  | stream().poll(), stream().set_waiter()               |
//   | dlpi_info       | di_qos_sel, di_qos_range              | none: no driver has quality of service               |
//   | dlpi_recv       | a failed send is not told             | fails with the link's error, once for each such send |
//   | dlpi_walk       | the links of the system               | the names that the program's Links gives             |
//
// Ownership: a handle owns its stream. Threads: the stream set's. dlpi_open(3DLPI): "The DLPI handles can only be used
// by one thread at a time".

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "libdlpi/error.h"
#include "stack/head/stream.h"
#include "stack/wire/dlpi.h"

namespace sluice::dlpi {

/// Which links there are and how one is opened: drivers are the program's business, not the library's.
struct Links {
  /// Opens a stream on the DLPI driver of the link of that name. ENODEV, ENXIO or ENOENT: there is none.
  std::function<Result<std::unique_ptr<Stream>>(std::string_view linkname)> open;
  /// All links, in the order in which dlpi_walk visits them.
  std::function<std::vector<std::string>()> names;
};

/// Flags of dlpi_open().
inline constexpr unsigned DLPI_RAW = 0x0004;

inline constexpr std::size_t DLPI_LINKNAME_MAX = 32;
inline constexpr std::uint32_t DLPI_ANY_SAP = 0xffff'ffff;
/// Seconds.
inline constexpr int DLPI_DEF_TIMEOUT = 5;

/// What dlpi_info() tells. (dlpi_info_t)
struct Info {
  std::uint32_t max_sdu = 0;
  std::uint32_t min_sdu = 0;
  wire::dlpi::State state = wire::dlpi::DL_UNBOUND;
  std::uint32_t mac_type = wire::dlpi::DL_ETHER;
  std::string linkname;
  /// Nothing while unbound.
  std::optional<wire::MacAddress> physical_address;
  std::optional<wire::MacAddress> broadcast_address;
  /// 0 while unbound.
  std::uint32_t sap = 0;
  int timeout_s = DLPI_DEF_TIMEOUT;
};

/// How a message is to be sent. (dlpi_sendinfo_t)
struct SendInfo {
  std::uint32_t sap = 0;
  /// "The priority range spans from 0 to 100, with 0 being the highest priority."
  wire::dlpi::Priority priority{wire::dlpi::DL_QOS_DONT_CARE, wire::dlpi::DL_QOS_DONT_CARE};
};

/// What dlpi_recv() brought. (saddrp and dlpi_recvinfo_t) In raw mode the addresses are in the message, and empty here.
struct RecvInfo {
  /// Stored in the buffer.
  std::size_t bytes = 0;
  /// "dri_totmsglen contains the total length of the message received"; what did not fit is lost.
  std::size_t total_bytes = 0;
  wire::MacAddress source;
  wire::MacAddress destination;
  /// Sent to a multicast or the broadcast address. (DLPI_ADDRTYPE_GROUP)
  bool group_address = false;
};

/// What a notification says. (dlpi_notifyinfo_t)
struct NotifyInfo {
  /// One wire::dlpi::Notification.
  std::uint32_t note = 0;
  /// "Valid only for DL_NOTE_SPEED": kbit/s.
  std::uint32_t speed_kbit = 0;
  /// "Valid only for DL_NOTE_SDU_SIZE": bytes.
  std::uint32_t max_sdu = 0;
  /// "Valid only for DL_NOTE_PHYS_ADDR".
  wire::MacAddress physical_address;
};

class Handle {
 public:
  static constexpr std::size_t messages_kept_max = 1024;
  static constexpr std::size_t registrations_max = 64;

  using NotifyFunction = std::function<void(Handle&, const NotifyInfo&)>;
  using NotifyId = std::uint64_t;

  /// Opens the link of that name; it is DL_UNBOUND then. DLPI_ELINKNAMEINVAL, DLPI_ENOLINK, DLPI_EBADLINK,
  /// DLPI_EMODENOTSUP, DLPI_ERAWNOTSUP, DLPI_EINVAL (flags), DLPI_ETIMEDOUT, DL_BADPPA, DL_SYSERR.
  [[nodiscard]] static Outcome<std::unique_ptr<Handle>> dlpi_open(const Links& links, std::string_view linkname,
                                                                  unsigned flags = 0);
  /// Closes the link; callbacks are gone with it. (dlpi_close)
  ~Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  /// Calls `visit` with the name of each link until it answers true.
  static void dlpi_walk(const Links& links, const std::function<bool(std::string_view linkname)>& visit);

  /// Binds to an EtherType, or, with DLPI_ANY_SAP, to none: what comes then is what promiscuous mode brings, and sends
  /// must say their SAP. `bound_sap` gets what was bound; where it is nullptr and that is another, DLPI_EUNAVAILSAP.
  /// DL_BADADDR: no EtherType. DL_OUTSTATE.
  Outcome<> dlpi_bind(std::uint32_t sap, std::uint32_t* bound_sap);
  /// What was received and not taken is lost. DL_OUTSTATE.
  Outcome<> dlpi_unbind();

  [[nodiscard]] Outcome<Info> dlpi_info();
  [[nodiscard]] const std::string& dlpi_linkname() const { return linkname_; }
  /// `type` is DL_FACT_PHYS_ADDR or DL_CURR_PHYS_ADDR.
  [[nodiscard]] Outcome<wire::MacAddress> dlpi_get_physaddr(std::uint32_t type);
  /// DL_NOTSUPPORTED: the device does not let us. DL_BADADDR: a group address, or all zeros.
  Outcome<> dlpi_set_physaddr(const wire::MacAddress& address);

  /// Enables or disables a group address. DL_BADADDR: it is none. DL_NOTENAB: it was not enabled. DL_TOOMANY.
  Outcome<> dlpi_enabmulti(const wire::MacAddress& group);
  Outcome<> dlpi_disabmulti(const wire::MacAddress& group);
  /// `level` is DL_PROMISC_PHYS, _SAP or _MULTI. DL_NOTENAB: it was not on.
  Outcome<> dlpi_promiscon(std::uint32_t level);
  Outcome<> dlpi_promiscoff(std::uint32_t level);

  /// Sends one message to `destination`, on the bound SAP and with the default priority unless `info` says otherwise;
  /// in raw mode both are ignored. Waits for flow control. DL_OUTSTATE, DL_BADDATA (size), DLPI_EINVAL (no SAP),
  /// DL_SYSERR. Success means accepted, not delivered; what the link finds out later, dlpi_recv tells.
  Outcome<> dlpi_send(const wire::MacAddress& destination, ConstBytes message, const SendInfo* info = nullptr);
  /// Receives one message, waiting `timeout_ms` at most; 0: does not wait, -1: for ever. An empty buffer only looks for
  /// notifications and takes no message. DLPI_ETIMEDOUT, DL_OUTSTATE, DLPI_EBADMSG, DLPI_EINVAL (timeout), DL_SYSERR;
  /// and the dl_errno of a message sent before that the link refused (DL_UNDELIVERABLE, DL_BADADDR, ...).
  [[nodiscard]] Outcome<RecvInfo> dlpi_recv(Bytes buffer, int timeout_ms);

  /// Calls back at each notification in `notes` (DL_NOTE_* bits), from within later calls of this handle that wait for
  /// the link, dlpi_recv above all; the first of them tells the present state of each. The callback must not wait:
  /// calls that do are DLPI_FAILURE there. DLPI_ENOTEINVAL: no such bit, or none. DLPI_ENOTENOTSUP: the link does not
  /// tell all of them. DLPI_EINVAL: no callback. DLPI_FAILURE: too many registrations.
  Outcome<NotifyId> dlpi_enabnotify(std::uint32_t notes, NotifyFunction callback);
  /// From a callback, too. DLPI_ENOTEIDINVAL.
  Outcome<> dlpi_disabnotify(NotifyId id);

  /// How long calls wait for the link's acknowledgement. DLPI_EINVAL: less than a second.
  Outcome<> dlpi_set_timeout(int seconds);

  /// Messages that came while a call waited for its acknowledgement and for which there was no room.
  [[nodiscard]] std::uint64_t messages_dropped() const { return messages_dropped_; }
  [[nodiscard]] Stream& stream() { return *stream_; }

 private:
  struct Registration {
    NotifyId id = 0;
    std::uint32_t notes = 0;
    NotifyFunction callback;
  };

  Handle(std::unique_ptr<Stream> stream, std::string_view linkname) : stream_(std::move(stream)), linkname_(linkname) {}

  Outcome<> attach_if_needed();
  Outcome<> enter_raw_mode();
  [[nodiscard]] Waiter* waiter() const { return stream_->nonblocking() ? nullptr : stream_->waiter(); }
  [[nodiscard]] TimePoint deadline_after(Duration duration) const;
  [[nodiscard]] bool past(TimePoint deadline) const { return waiter() != nullptr && waiter()->now() > deadline; }

  /// Sends a request and waits for its acknowledgement.
  template <class Ack, class Request>
  Outcome<Ack> exchange(const Request& request);
  /// As exchange, for what is acknowledged by DL_OK_ACK.
  template <class Request>
  Outcome<> command(const Request& request);
  Outcome<> put_request(ConstBytes request, TimePoint deadline);
  Outcome<Message> await(std::uint32_t request, std::uint32_t acknowledgement, TimePoint deadline);
  /// The next message from the stream.
  Outcome<Message> take(TimePoint deadline);
  void set_aside(Message message);

  Outcome<> check_size(std::size_t bytes);
  Outcome<RecvInfo> deliver(const Message& message, Bytes buffer) const;
  void notify(const Message& message);
  [[nodiscard]] std::uint32_t wanted_notes() const;

  std::unique_ptr<Stream> stream_;
  std::string linkname_;
  wire::dlpi::State state_ = wire::dlpi::DL_UNBOUND;
  std::uint32_t sap_ = 0;
  std::uint32_t max_sdu_ = 0;  // as last told
  bool raw_ = false;
  int timeout_s_ = DLPI_DEF_TIMEOUT;
  Batch kept_;  // data and errors for dlpi_recv
  std::uint64_t messages_dropped_ = 0;
  std::vector<Registration> registrations_;
  NotifyId last_id_ = 0;
  bool calling_back_ = false;
};

}  // namespace sluice::dlpi
