// SPDX-License-Identifier: Apache-2.0
#pragma once

// A stream as its user sees it: open, close, read, write, putmsg, getmsg, poll and the ioctls of streamio(7I), as
// calls.
//
//     auto stream = Stream::open(set, std::make_unique<MyDriver>());
//     (*stream)->push(std::make_unique<MyModule>());
//     (*stream)->write(as_bytes("hello"));
//
// Errors carry the errno value that the STREAMS call of that name gives. Calls on a non-blocking stream, or on one
// without a Waiter, answer EAGAIN where they would wait; others wait through the Waiter.
//
// Ownership: a stream owns its modules; the set, the waiter and the registry outlive it. Threads: the set's thread
// only.

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "stack/core/chain.h"
#include "stack/head/loan.h"
#include "stack/head/stream_head.h"

namespace sluice {

/// What poll() found: the events of poll(2).
struct Events {
  bool readable = false;           // POLLIN: a message other than high priority
  bool readable_ordinary = false;  // POLLRDNORM: one of band 0
  bool readable_band = false;      // POLLRDBAND: one of a higher band
  bool urgent = false;             // POLLPRI: a high-priority message
  bool writable = false;           // POLLOUT, POLLWRNORM: an ordinary message would be accepted
  bool writable_band = false;      // POLLWRBAND: one of a higher band would be, in some band that has been used
  bool error = false;              // POLLERR: of either side
  bool hangup = false;             // POLLHUP
};

/// Which message getpmsg() is to bring: MSG_ANY, MSG_BAND, MSG_HIPRI.
enum class Wanted : std::uint8_t {
  any,
  band,  // of the band given or a higher one, or of high priority
  high_priority,
};

/// What getmsg() brought.
struct Received {
  /// Bytes stored, or nothing where the message has no such part.
  std::optional<std::size_t> control;
  std::optional<std::size_t> data;
  bool more_control = false;  // MORECTL: the rest is still there
  bool more_data = false;     // MOREDATA
  bool high_priority = false;
  std::uint8_t band = 0;
};

class Stream {
 public:
  static constexpr std::size_t control_bytes_max = 64 * 1024;
  static constexpr Duration ioctl_timeout_default = std::chrono::seconds(15);
  static constexpr Duration ioctl_timeout_infinite = std::chrono::seconds(-1);
  static constexpr Duration close_time_default = std::chrono::seconds(15);

  /// Opens a stream on `driver`.
  [[nodiscard]] static Result<std::unique_ptr<Stream>> open(StreamSet& set, std::unique_ptr<Module> driver,
                                                            const HeadOptions& options = {});
  /// Discards what waits and closes every module, top first.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Waits up to the close time for what still waits on write queues, or is kept by modules (Module::holds_data()), to
  /// leave (I_SETCLTIME), unless non-blocking. ETIME when something is left, which the destructor then discards.
  Status drain(Duration close_time = close_time_default);

  /// I_PUSH, I_POP. ENXIO after hangup, the errno of M_ERROR, what the module's open() answered; EINVAL when the stream
  /// is full, has no module to pop, or what is to be pushed is a driver.
  Status push(std::unique_ptr<Module> module);
  Status pop();
  /// I_LOOK: the name of the module just below the head. EINVAL when there is none but the driver.
  [[nodiscard]] Result<std::string_view> look() const;
  /// I_FIND: whether a module or the driver of the stream has that name.
  [[nodiscard]] bool find(std::string_view name) const;
  /// I_LIST: all names, top first, the driver last.
  [[nodiscard]] std::vector<std::string_view> list() const;

  /// From the next message on; those under way stay what they are.
  void set_mode(ProcessingMode mode) { chain_.set_mode(mode); }
  [[nodiscard]] ProcessingMode mode() const { return chain_.mode(); }

  void set_nonblocking(bool nonblocking) { nonblocking_ = nonblocking; }
  [[nodiscard]] bool nonblocking() const { return nonblocking_; }
  /// Whoever waits on this stream's behalf; nullptr: nobody.
  void set_waiter(Waiter* waiter) { waiter_ = waiter; }
  [[nodiscard]] Waiter* waiter() const { return waiter_; }
  [[nodiscard]] bool may_block() const { return !nonblocking_ && waiter_ != nullptr; }
  /// I_SRDOPT. The errno of M_ERROR for the read side.
  Status set_read_options(ReadOptions options);
  [[nodiscard]] ReadOptions read_options() const { return head_.options().read; }

  /// Sends `data` as one or more M_DATA messages; answers the bytes accepted. EAGAIN, ENXIO after hangup, the errno of
  /// M_ERROR, ENOSR when the pool is exhausted.
  Result<std::size_t> write(ConstBytes data);
  /// Reads as the read options say. 0 at hangup. EAGAIN, EBADMSG.
  Result<std::size_t> read(Bytes out);

  /// Sends one message: M_PROTO (M_PCPROTO with `high_priority`) with the control part, M_DATA with the data part.
  /// Neither part: nothing is sent. EINVAL: high priority without a control part or with a band, a band that is not
  /// 0..255. ERANGE: a part is too large. EAGAIN, ENXIO, ENOSR.
  Status putmsg(std::optional<ConstBytes> control, std::optional<ConstBytes> data, bool high_priority = false) {
    return putpmsg(control, data, high_priority, 0);
  }
  Status putpmsg(std::optional<ConstBytes> control, std::optional<ConstBytes> data, bool high_priority, int band);
  /// Takes the first message apart into `control` and `data`; a part without a buffer stays for the next call. With
  /// `high_priority_only`, an ordinary message first answers EAGAIN. EAGAIN, the errno of M_ERROR; at hangup both parts
  /// empty.
  Result<Received> getmsg(std::optional<Bytes> control, std::optional<Bytes> data, bool high_priority_only = false) {
    return getpmsg(control, data, high_priority_only ? Wanted::high_priority : Wanted::any);
  }
  /// As getmsg; a first message that is not `wanted` answers EAGAIN. EINVAL: a band that is not 0..255 or, but for
  /// Wanted::band, not 0.
  Result<Received> getpmsg(std::optional<Bytes> control, std::optional<Bytes> data, Wanted wanted, int band = 0);
  /// As getmsg, but the message stays whole. Nothing when none waits, or, with `high_priority_only`, when the first is
  /// an ordinary one. The errno of M_ERROR for the read side. (I_PEEK)
  [[nodiscard]] Result<std::optional<Received>> peek(std::optional<Bytes> control, std::optional<Bytes> data,
                                                     bool high_priority_only = false);

  [[nodiscard]] Events poll();
  /// What refuses write-like calls before flow control does: the write side's error, a hangup (ENXIO), or 0.
  [[nodiscard]] int write_refusal() const {
    return head_.write_error() == 0 && head_.hung_up() ? ENXIO : head_.write_error();
  }
  /// The user takes, and may send, the data of several datagrams in one message (wire::network::Received). For
  /// libraries that read native descriptors: others would take several datagrams for one.
  void accept_segments() {
    head_.options().segments = true;
    chain_.update_segments();
  }
  /// Whether flow control lets a message of `band` go down; leaves the want there if not.
  [[nodiscard]] bool can_put(std::uint8_t band = 0) { return head_.write_queue().can_put_next(band); }
  /// I_CANPUT: as can_put(), where the stream is good. EINVAL: a band that is not 0..255; ENXIO after hangup, the errno
  /// of M_ERROR for the write side.
  [[nodiscard]] Result<bool> canput(int band);
  /// I_NREAD: messages waiting, and the data bytes of the first.
  struct Waiting {
    std::size_t messages = 0;
    std::size_t first_data_bytes = 0;
  };
  [[nodiscard]] Waiting nread();
  /// I_FLUSH, I_FLUSHBAND: sends M_FLUSH down; `flags` of flush_read, flush_write. EINVAL for others,
  /// ENXIO after hangup, the errno of M_ERROR, ENOSR.
  Status flush(std::uint8_t flags, std::optional<int> band = std::nullopt);

  /// I_STR. `timeout` as ic_timout: 0 is the default, ioctl_timeout_infinite waits for ever. One at a time: EBUSY when
  /// another is in flight. ETIME when no answer comes in time, EINVAL when no module knows the command, the argument is
  /// too large or the timeout below zero, ENXIO after hangup, ENOSR, the errno of M_ERROR, else the errno of
  /// the refusal. Where streamio(7I) has a second caller wait, here there is one thread, which would wait for itself.
  struct IoctlAnswer {
    std::int32_t return_value = 0;
    std::vector<std::byte> data;
  };
  Result<IoctlAnswer> ioctl(std::int32_t command, ConstBytes argument = {}, Duration timeout = ioctl_timeout_default);
  /// A transparent ioctl: any other command than those of streamio(7I), whose argument is memory that the module which
  /// knows it reads and writes in place, as a rule one value: std::as_writable_bytes(std::span(&value, 1)). Answers the
  /// return value of the acknowledgement; data in it that lies elsewhere is copied to the front of `argument` as
  /// far as it fits. Waits, times out and fails as ioctl() does; a failed one may have written to `argument`. When it
  /// returns, nobody below refers to that memory any more, whatever has become of the request.
  Result<std::int32_t> transparent_ioctl(std::int32_t command, Bytes argument = {},
                                         Duration timeout = ioctl_timeout_default);

  /// I_SETSIG: has `handler` called for `events` (stack/head/signal_events.h), instead of what was asked for before;
  /// for none with 0. EINVAL: unknown events, S_BANDURG without S_RDBAND, or 0 where nothing was asked for. REQUIRES:
  /// a handler, unless `events` is 0.
  Status set_signal(std::uint32_t events, SignalHandler handler = {});
  /// I_GETSIG: the events that were asked for. EINVAL: none.
  [[nodiscard]] Result<std::uint32_t> signal_events() const;

  // Without copies, for programs that handle messages themselves.

  /// A message with room for the headers that the modules below will prepend. Empty when the pool is exhausted.
  [[nodiscard]] Message allocate(std::size_t capacity, MessageType type = MessageType::data);
  /// For message_of(), in a call that sends.
  [[nodiscard]] Loan loan() { return {set().pool(), mode(), set().defer_bytes_min()}; }
  /// A data message of `parts` with that room, which on a fused path shows them where they lie while `loan` lasts.
  /// Empty when the pool is exhausted. REQUIRES: `loan` is of this stream's pool and path.
  [[nodiscard]] Message message_of(std::span<const ConstBytes> parts, Loan& loan);
  /// As message_of(), of several datagrams' parts (Loan::segmented()).
  [[nodiscard]] Message segments_of(std::span<const ConstBytes> parts, Loan& loan);
  /// Sends messages down. The caller has asked can_put(); errors and hangup discard them.
  Status send(Batch batch);
  /// The next message, its primitive as bytes; empty when there is none.
  [[nodiscard]] Message receive() { return head_.take(); }
  /// As receive(), but a native descriptor stays one: for libraries that read it.
  [[nodiscard]] Message receive_native() { return head_.read_queue().empty() ? Message() : head_.take_native(); }

  [[nodiscard]] const Chain& chain() const { return chain_; }
  /// The place where the caller waits for bytes of a stream: for libraries, which open and close it.
  [[nodiscard]] ReaderPlace& reader_place() { return chain_.reader_place(); }
  [[nodiscard]] StreamHead& head() { return head_; }
  [[nodiscard]] StreamSet& set() const { return chain_.set(); }

 private:
  Stream(StreamSet& set, const HeadOptions& options);
  void update_headroom();
  /// Whole cache lines, so that the data starts on one.
  [[nodiscard]] std::size_t headroom() const {
    const std::size_t wanted = head_.options().write_offset + module_headroom_;
    return (wanted + cache_line_bytes - 1) / cache_line_bytes * cache_line_bytes;
  }
  /// What refuses everything else that acts on the stream: either side's error, or a hangup.
  [[nodiscard]] Status usable() const;
  /// write_refusal() as a Status.
  [[nodiscard]] Status writable() const;
  Status wait_until_writable(std::uint8_t band);
  /// The first message, waiting for it where that is allowed; empty at hangup.
  Result<Message> wait_for_message(Wanted wanted, std::uint8_t band = 0);
  [[nodiscard]] bool waits(Wanted wanted, std::uint8_t band);
  [[nodiscard]] Message build_data(ConstBytes data, Loan& loan);
  [[nodiscard]] Message build(std::optional<ConstBytes> control, std::optional<ConstBytes> data, bool high_priority,
                              std::uint8_t band, Loan& loan);
  Result<bool> read_message(Bytes& out, bool first);
  /// What forbids an ioctl before anything is sent.
  [[nodiscard]] Status ioctl_refusal(std::size_t argument_size, Duration timeout) const;
  /// Sends M_IOCTL with `argument` (which may be empty) and waits; answers the acknowledgement.
  Result<Message> exchange_ioctl(std::int32_t command, std::uint32_t count, Message argument, Duration timeout);

  StreamHead head_;
  Chain chain_;
  Waiter* waiter_ = nullptr;
  bool nonblocking_ = false;
  std::size_t module_headroom_ = 0;
  std::uint32_t next_ioctl_id_ = 1;
};

}  // namespace sluice
