// SPDX-License-Identifier: Apache-2.0
#include "stack/head/stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/contract.h"
#include "stack/core/ioctl.h"

namespace sluice {
namespace {

/// Copies the front of `part`'s bytes to `out`; the rest stays in `part`, which is empty when nothing is left.
/// REQUIRES: the bytes are real.
std::size_t consume(Message& part, Bytes out) {
  std::size_t copied = 0;
  if (part && part.type() == MessageType::data) {
    const std::size_t size = std::min(out.size(), part.size());
    part.pool().touches().add(size, size);
  }
  while (part) {
    const std::size_t take = std::min(part.bytes().size(), out.size() - copied);
    std::copy_n(part.bytes().begin(), take, out.begin() + static_cast<std::ptrdiff_t>(copied));
    copied += take;
    part.first().rptr += take;
    if (part.first().size() > 0) {
      break;
    }
    part.pop_block();
  }
  return copied;
}

/// As consume(), where bytes may be owed something: what goes to `out` whole gets there in the pass that carries it
/// out, anything else is materialized first. Nothing when a check fails: the message is lost, and has been counted.
std::optional<std::size_t> deliver(Message& part, Bytes out) {
  const std::size_t size = part.size();
  const bool whole = size > 0 && size <= out.size() && size == part.data_size();
  if (!whole || !part.fused()) {
    return part.materialize() == TransformResult::done ? std::optional(consume(part, out)) : std::nullopt;
  }
  const Bytes place = out.first(size);
  const TransformResult landed = part.land(std::span(&place, 1));
  part.reset();
  return landed == TransformResult::done ? std::optional(size) : std::nullopt;
}

bool is_band(int number) { return number >= 0 && static_cast<std::size_t>(number) < bands_max; }

/// Copies without consuming.
std::size_t copy_front(const Block* block, bool protocol, Bytes out) {
  std::size_t copied = 0;
  for (; block != nullptr && copied < out.size(); block = block->cont) {
    if (is_protocol(block->type) == protocol) {
      const std::size_t take = std::min(block->size(), out.size() - copied);
      std::copy_n(block->rptr, take, out.begin() + static_cast<std::ptrdiff_t>(copied));
      copied += take;
    }
  }
  return copied;
}

/// Takes the data part off: what stays in `message` is the control part, or nothing.
Message take_data_part(Message& message) {
  if (!is_protocol(message.type())) {
    return std::move(message);
  }
  Block* last_control = &message.first();
  while (last_control->cont != nullptr && is_protocol(last_control->cont->type)) {
    last_control = last_control->cont;
  }
  return Message(std::exchange(last_control->cont, nullptr));
}

std::size_t part_size(const Block* block, bool protocol) {
  std::size_t size = 0;
  for (; block != nullptr; block = block->cont) {
    size += is_protocol(block->type) == protocol ? block->size() : 0;
  }
  return size;
}

bool has_data_part(const Block* block) {
  while (block != nullptr && is_protocol(block->type)) {
    block = block->cont;
  }
  return block != nullptr;
}

/// What is left of a message that began with a block of this type and band stays in its place among the others. A rest
/// that is data only is data, whatever the control part was.
void mark_rest(Message& rest, MessageType type, std::uint8_t band) {
  rest.first().type = is_protocol(rest.type()) ? type : rest.type();
  rest.first().band = is_high_priority(rest.type()) ? std::uint8_t{0} : band;
}

}  // namespace

Stream::Stream(StreamSet& set, const HeadOptions& options) : head_(options), chain_(set, head_) {
  SLUICE_REQUIRE(options.block_bytes_max > 0 && options.packet_bytes_max > 0);
  SLUICE_REQUIRE(options.write_offset + options.write_tail < BufferPool::capacity_max / 2);
}

Result<std::unique_ptr<Stream>> Stream::open(StreamSet& set, std::unique_ptr<Module> driver,
                                             const HeadOptions& options) {
  std::unique_ptr<Stream> stream(new Stream(set, options));
  if (Status opened = stream->chain_.open_driver(std::move(driver)); !opened) {
    return std::unexpected(opened.error());
  }
  stream->update_headroom();
  return stream;
}

Stream::~Stream() = default;

void Stream::update_headroom() {
  module_headroom_ = 0;
  for (const auto& module : chain_.modules()) {
    module_headroom_ += module->headroom();
  }
}

Status Stream::drain(Duration close_time) {
  const auto drained = [this] {
    return std::ranges::all_of(
        chain_.modules(), [](const auto& module) { return module->write_queue().empty() && !module->holds_data(); });
  };
  const TimePoint deadline = may_block() ? waiter_->now() + close_time : TimePoint{};
  bool in_time = may_block();
  // Nothing leaves a stream that has hung up, so there is nothing to wait for.
  while (!drained() && in_time && !head_.hung_up()) {
    in_time = waiter_->wait(deadline);
  }
  return drained() ? Status{} : fail(ETIME, "data was still waiting to be sent when the close time ended");
}

Status Stream::usable() const {
  const int error = head_.read_error() != 0 ? head_.read_error() : head_.write_error();
  if (error != 0) {
    return fail(error);
  }
  return head_.hung_up() ? fail(ENXIO, "the stream has hung up") : Status{};
}

Status Stream::push(std::unique_ptr<Module> module) {
  Status pushed = usable();
  // "[EINVAL] Invalid module name." (streamio(7I), I_PUSH): a driver is opened, not pushed.
  pushed = pushed && module->is_driver() ? fail(EINVAL, "a driver is opened, not pushed") : pushed;
  pushed = pushed ? chain_.push(std::move(module)) : pushed;
  update_headroom();
  return pushed;
}

Status Stream::pop() {
  Status popped = usable();
  popped = popped ? chain_.pop() : popped;
  update_headroom();
  return popped;
}

Result<std::string_view> Stream::look() const {
  if (chain_.modules().size() < 2) {
    return fail(EINVAL, "no module is on the stream");
  }
  return chain_.modules().front()->name();
}

bool Stream::find(std::string_view name) const {
  const auto& modules = chain_.modules();
  return std::ranges::any_of(modules, [&](const auto& module) { return module->name() == name; });
}

std::vector<std::string_view> Stream::list() const {
  std::vector<std::string_view> names;
  for (const auto& module : chain_.modules()) {
    names.push_back(module->name());
  }
  return names;
}

Status Stream::writable() const {
  const int error = write_refusal();
  return error == 0 ? Status{} : fail(error, head_.write_error() == 0 ? "the stream has hung up" : "");
}

Result<bool> Stream::canput(int band) {
  if (!is_band(band)) {
    return fail(EINVAL);
  }
  if (Status open = writable(); !open) {
    return std::unexpected(open.error());
  }
  return can_put(static_cast<std::uint8_t>(band));
}

Status Stream::set_read_options(ReadOptions options) {
  if (head_.read_error() != 0) {
    return fail(head_.read_error());
  }
  head_.options().read = options;
  return {};
}

Status Stream::wait_until_writable(std::uint8_t band) {
  for (bool may_wait = may_block();; may_wait = waiter_->wait(never)) {
    if (Status open = writable(); !open) {
      return open;
    }
    if (can_put(band)) {
      return {};
    }
    if (!may_wait) {
      return fail(EAGAIN);
    }
  }
}

Message Stream::allocate(std::size_t capacity, MessageType type) {
  return Message::allocate(set().pool(), capacity + head_.options().write_tail, headroom(), type);
}

Message Stream::message_of(std::span<const ConstBytes> parts, Loan& loan) {
  return loan.message(parts, headroom(), head_.options().write_tail);
}

Message Stream::segments_of(std::span<const ConstBytes> parts, Loan& loan) { return loan.segmented(parts, headroom()); }

/// A data part: room for headers in front of its first block, the tail room behind its last one.
Message Stream::build_data(ConstBytes data, Loan& loan) {
  if (mode() == ProcessingMode::fused && data.size() <= BufferPool::capacity_max / 2) {
    return message_of(std::span(&data, 1), loan);
  }
  Message message;
  do {
    const std::size_t headroom = message ? 0 : this->headroom();
    const std::size_t block_max =
        std::min(head_.options().block_bytes_max, BufferPool::capacity_max - headroom - head_.options().write_tail);
    const ConstBytes part = data.first(std::min(data.size(), block_max));
    data = data.subspan(part.size());
    const std::size_t tail = data.empty() ? head_.options().write_tail : 0;
    Message next = Message::allocate(set().pool(), part.size() + tail, headroom);
    if (!next) {
      return {};
    }
    std::copy_n(part.data(), part.size(), next.first().wptr);
    next.first().wptr += part.size();
    set().pool().touches().add(part.size(), part.size());
    if (message) {
      message.link(std::move(next));
    } else {
      message = std::move(next);
    }
  } while (!data.empty());
  return message;
}

Message Stream::build(std::optional<ConstBytes> control, std::optional<ConstBytes> data, bool high_priority,
                      std::uint8_t band, Loan& loan) {
  Message message;
  if (control) {
    const MessageType type = high_priority ? MessageType::pcproto : MessageType::proto;
    message = Message::copy_of(set().pool(), *control, 0, type);
    if (!message) {
      return {};
    }
  }
  if (data) {
    Message part = build_data(*data, loan);
    if (!part) {
      return {};
    }
    if (message) {
      message.link(std::move(part));
    } else {
      message = std::move(part);
    }
  }
  message.first().band = band;
  return message;
}

Result<std::size_t> Stream::write(ConstBytes data) {
  std::size_t written = 0;
  do {
    Status ready = wait_until_writable(0);
    const ConstBytes part =
        data.subspan(written).first(std::min(data.size() - written, head_.options().packet_bytes_max));
    Loan loan = this->loan();
    Message message = ready ? build(std::nullopt, part, false, 0, loan) : Message();
    if (!message) {
      // What was accepted before counts; the reason will meet the next call.
      return written > 0 ? Result<std::size_t>(written) : std::unexpected(ready ? Error{ENOSR, {}} : ready.error());
    }
    head_.write_queue().put_next(std::move(message));
    written += part.size();
  } while (written < data.size());
  return written;
}

Status Stream::putpmsg(std::optional<ConstBytes> control, std::optional<ConstBytes> data, bool high_priority,
                       int number) {
  // "If flags is set to MSG_HIPRI and either no control part is specified or band is set to a non-zero value, putpmsg()
  // fails and sets errno to EINVAL." (putmsg(2))
  if ((high_priority && (!control || number != 0)) || !is_band(number)) {
    return fail(EINVAL);
  }
  const auto band = static_cast<std::uint8_t>(number);
  // "putmsg() and putpmsg() will fail if the stream head had processed an asynchronous error before the call. In this
  // case, the value of errno does not reflect the result of putmsg() [...] but reflects the prior error."
  if (Status open = writable(); !open) {
    return open;
  }
  if ((control && control->size() > control_bytes_max) || (data && data->size() > head_.options().packet_bytes_max)) {
    return fail(ERANGE);
  }
  if (!control && !data) {
    return {};
  }
  // "Normally, putmsg() will block if the stream write queue is full [...] For high-priority messages, putmsg() does
  // not block on this condition."
  if (Status ready = high_priority ? Status{} : wait_until_writable(band); !ready) {
    return ready;
  }
  Loan loan = this->loan();
  Message message = build(control, data, high_priority, band, loan);
  if (!message) {
    return fail(ENOSR);
  }
  head_.write_queue().put_next(std::move(message));
  return {};
}

/// "If flags is set to MSG_BAND [...] getpmsg() shall only retrieve [...] the first message [...] if it is a message in
/// a priority band equal to, or greater than, the integer pointed to by bandp, or if it is a high-priority message."
/// (getpmsg(), XSH)
bool Stream::waits(Wanted wanted, std::uint8_t band) {
  const Block* const first = head_.read_queue().peek();
  return first != nullptr &&
         (wanted == Wanted::any || is_high_priority(first->type) || (wanted == Wanted::band && first->band >= band));
}

Result<Message> Stream::wait_for_message(Wanted wanted, std::uint8_t band) {
  for (bool may_wait = may_block();; may_wait = waiter_->wait(never)) {
    // "read() and readv() will fail if the stream head had processed an asynchronous error before the call" (read(2)).
    if (head_.read_error() != 0) {
      return fail(head_.read_error());
    }
    if (waits(wanted, band)) {
      if (Message message = head_.take()) {
        return message;
      }
    }
    // "If a hangup occurs [...], read() continues to operate normally until the stream head read queue is empty."
    if (head_.hung_up()) {
      return Message();
    }
    if (!may_wait) {
      return fail(EAGAIN);
    }
  }
}

Result<bool> Stream::read_message(Bytes& out, bool first) {
  for (;;) {
    Result<Message> taken = first ? wait_for_message(Wanted::any) : Result<Message>(head_.take());
    if (!taken) {
      return std::unexpected(taken.error());
    }
    Message message = std::move(*taken);
    if (!message) {
      return false;
    }
    const MessageType type = message.type();
    const std::uint8_t band = message.band();
    const bool refused = is_protocol(type) && head_.options().read.protocol == ProtocolMode::refuse;
    // What is refused or ends the reading must be good; what is read is verified on its way.
    if ((refused || message.data_size() == 0) && message.materialize() == TransformResult::failed) {
      continue;
    }
    if (refused) {
      head_.put_back(std::move(message));
      return first ? Result<bool>(fail(EBADMSG)) : Result<bool>(false);
    }
    if (is_protocol(type) && head_.options().read.protocol == ProtocolMode::discard) {
      message = take_data_part(message);
      if (!message) {
        return true;
      }
    }
    const bool empty = message.size() == 0;
    if (!empty) {
      const std::optional<std::size_t> delivered = deliver(message, out);
      if (!delivered) {
        continue;  // as if it had never come; each turn takes one message
      }
      out = out.subspan(*delivered);
    }
    // "read() accepts data until [...] a zero-byte message block is encountered. The read() function then returns the
    // number of bytes read, and places the zero-byte message back on the stream [...] When a zero-byte message is read
    // as the first message on a stream, the message is removed from the stream and 0 is returned" (read(2)).
    const bool stays = empty ? !first : head_.options().read.mode != ReadMode::message_discard;
    if (message && stays) {
      mark_rest(message, type, band);
      head_.put_back(std::move(message));
    }
    return !empty && head_.options().read.mode == ReadMode::byte_stream;
  }
}

Result<std::size_t> Stream::read(Bytes out) {
  Bytes rest = out;
  bool first = true;
  bool more = !out.empty();
  while (more && (first || !rest.empty())) {
    Result<bool> next = read_message(rest, first);
    if (!next) {
      return std::unexpected(next.error());
    }
    more = *next;
    first = rest.size() == out.size() && more;
  }
  return out.size() - rest.size();
}

Result<Received> Stream::getpmsg(std::optional<Bytes> control, std::optional<Bytes> data, Wanted wanted, int band) {
  if (!is_band(band) || (wanted != Wanted::band && band != 0)) {
    return fail(EINVAL);
  }
  Message message;
  Message data_part;
  Received received;
  MessageType type = MessageType::data;
  for (bool verified = false; !verified;) {
    Result<Message> taken = wait_for_message(wanted, static_cast<std::uint8_t>(band));
    if (!taken) {
      return std::unexpected(taken.error());
    }
    message = std::move(*taken);
    if (!message) {
      received.control = control ? std::optional<std::size_t>(0) : std::nullopt;
      received.data = data ? std::optional<std::size_t>(0) : std::nullopt;
      return received;
    }
    type = message.type();
    received.high_priority = is_high_priority(type);
    received.band = message.band();
    data_part = take_data_part(message);
    verified = true;
    if (data_part && data) {
      received.data = deliver(data_part, *data);
      verified = received.data.has_value();
    } else if (data_part) {
      verified = data_part.materialize() == TransformResult::done;
    }
  }
  if (message && control) {
    received.control = consume(message, *control);
  }
  received.more_control = static_cast<bool>(message);
  received.more_data = static_cast<bool>(data_part);
  if (message && data_part) {
    message.link(std::move(data_part));
  } else if (data_part) {
    message = std::move(data_part);
  }
  if (message) {
    mark_rest(message, type, received.band);
    head_.put_back(std::move(message));
  }
  return received;
}

Result<std::optional<Received>> Stream::peek(std::optional<Bytes> control, std::optional<Bytes> data,
                                             bool high_priority_only) {
  if (head_.read_error() != 0) {
    return fail(head_.read_error());
  }
  head_.materialize_first();
  const Block* first = head_.read_queue().peek();
  if (first == nullptr || (high_priority_only && !head_.high_priority_waits())) {
    return std::nullopt;
  }
  Received received;
  received.high_priority = is_high_priority(first->type);
  received.band = first->band;
  if (control && is_protocol(first->type)) {
    received.control = copy_front(first, true, *control);
  }
  if (data && has_data_part(first)) {
    received.data = copy_front(first, false, *data);
  }
  // What getmsg() with the same buffers would leave behind.
  received.more_control = is_protocol(first->type) && (!control || *received.control < part_size(first, true));
  received.more_data = has_data_part(first) && (!data || *received.data < part_size(first, false));
  return received;
}

Events Stream::poll() {
  const Block* first = head_.read_queue().peek();
  Events events;
  events.urgent = head_.high_priority_waits();
  events.readable = first != nullptr && !is_high_priority(first->type);
  events.readable_ordinary = events.readable && first->band == 0;
  events.readable_band = events.readable && first->band > 0;
  events.hangup = head_.hung_up();
  events.error = head_.read_error() != 0 || head_.write_error() != 0;
  // An error of the read side alone leaves the write side what it was.
  const bool open = !events.hangup && head_.write_error() == 0;
  events.writable = open && can_put();
  events.writable_band = open && head_.write_queue().can_put_next_in_some_band();
  return events;
}

Stream::Waiting Stream::nread() {
  head_.materialize_first();
  return {.messages = head_.read_queue().messages(), .first_data_bytes = part_size(head_.read_queue().peek(), false)};
}

Status Stream::flush(std::uint8_t flags, std::optional<int> band) {
  if (flags == 0 || (flags & ~(flush_read | flush_write)) != 0 || (band && !is_band(*band))) {
    return fail(EINVAL);
  }
  if (Status open = usable(); !open) {
    return open;
  }
  const std::array content{static_cast<std::byte>(flags | (band ? flush_band : 0)),
                           static_cast<std::byte>(band.value_or(0))};
  Message message = Message::copy_of(set().pool(), content, 0, MessageType::flush);
  if (!message) {
    return fail(ENOSR);
  }
  // The head's own queues come first; what comes back up from the driver finds them empty.
  head_.flush_own(message);
  head_.write_queue().put_next(std::move(message));
  return {};
}

Status Stream::ioctl_refusal(std::size_t argument_size, Duration timeout) const {
  // "ic_timout is the number of seconds (-1 = infinite, 0 = use default, >0 = as specified)" (streamio(7I), I_STR)
  if (timeout < Duration::zero() && timeout != ioctl_timeout_infinite) {
    return fail(EINVAL, "a timeout below zero that is not ioctl_timeout_infinite");
  }
  if (head_.ioctl_pending()) {
    return fail(EBUSY);
  }
  if (Status open = usable(); !open) {
    return open;
  }
  return argument_size > head_.options().packet_bytes_max ? fail(EINVAL) : Status{};
}

Result<Message> Stream::exchange_ioctl(std::int32_t command, std::uint32_t count, Message argument, Duration timeout) {
  const IoctlBlock block{.command = command, .id = next_ioctl_id_++, .count = count};
  Message request = Message::copy_of(set().pool(), std::as_bytes(std::span(&block, 1)), 0, MessageType::ioctl);
  if (!request) {
    return fail(ENOSR);
  }
  if (argument) {
    request.link(std::move(argument));
  }
  head_.expect_ioctl(block.id);
  head_.write_queue().put_next(std::move(request));

  Message answer = head_.take_ioctl_answer();
  const bool for_ever = waiter_ == nullptr || timeout == ioctl_timeout_infinite;
  const TimePoint deadline =
      for_ever ? never : waiter_->now() + (timeout == Duration::zero() ? ioctl_timeout_default : timeout);
  // "O_NDELAY and O_NONBLOCK [...] have no effect on this call." "An I_STR can also fail while waiting for an
  // acknowledgement if a message indicating an error or a hangup is received at the stream head." (streamio(7I))
  for (bool in_time = waiter_ != nullptr; !answer && in_time && usable();) {
    in_time = waiter_->wait(deadline);
    answer = head_.take_ioctl_answer();
  }
  if (!answer) {
    head_.abandon_ioctl();
    Status open = usable();
    return open ? fail(ETIME) : std::unexpected(open.error());
  }
  // "In addition, an error code can be returned in the positive or negative acknowledgement message".
  const IoctlBlock result = ioctl_block(answer);
  if (answer.type() == MessageType::iocnak || result.error != 0) {
    return fail(result.error != 0 ? result.error : EINVAL);
  }
  return answer;
}

Result<Stream::IoctlAnswer> Stream::ioctl(std::int32_t command, ConstBytes argument, Duration timeout) {
  if (Status allowed = ioctl_refusal(argument.size(), timeout); !allowed) {
    return std::unexpected(allowed.error());
  }
  Message data = Message::copy_of(set().pool(), argument);
  if (!data) {
    return fail(ENOSR);
  }
  Result<Message> answer =
      exchange_ioctl(command, static_cast<std::uint32_t>(argument.size()), std::move(data), timeout);
  if (!answer) {
    return std::unexpected(answer.error());
  }
  IoctlAnswer answered{.return_value = ioctl_block(*answer).return_value, .data = {}};
  answer->pop_block();
  answered.data.resize(*answer ? answer->size() : 0);
  if (*answer) {
    consume(*answer, answered.data);
  }
  return answered;
}

namespace {

/// The caller's memory while a transparent ioctl lasts. The threat: a module that answers too late, or never, still
/// holds the request and may write to its argument; by then the caller has left. So what is left of the loan moves to
/// memory of the message's own.
class LentArgument {
 public:
  LentArgument(BufferPool& pool, Bytes memory) : pool_(pool), memory_(memory) {
    const auto given_back = [](void* self, ConstBytes) { static_cast<LentArgument*>(self)->block_ = nullptr; };
    block_ = memory.empty() ? nullptr : pool.borrow(memory, /*read_only=*/false, given_back, this);
  }
  ~LentArgument() {
    if (block_ != nullptr) {
      pool_.reclaim(*block_);
    }
  }
  LentArgument(const LentArgument&) = delete;
  LentArgument& operator=(const LentArgument&) = delete;

  /// nullptr: the pool is exhausted, or there is none.
  [[nodiscard]] Block* block() const { return block_; }
  [[nodiscard]] bool shown_by(const Block& block) const {
    return !memory_.empty() && block.buffer->base() == memory_.data();
  }

 private:
  BufferPool& pool_;
  Bytes memory_;
  Block* block_ = nullptr;  // while a message shows the memory
};

}  // namespace

Result<std::int32_t> Stream::transparent_ioctl(std::int32_t command, Bytes argument, Duration timeout) {
  if (Status allowed = ioctl_refusal(argument.size(), timeout); !allowed) {
    return std::unexpected(allowed.error());
  }
  LentArgument lent(set().pool(), argument);
  if (!argument.empty() && lent.block() == nullptr) {
    return fail(ENOSR);
  }
  Result<Message> answer = exchange_ioctl(command, ioctl_transparent, Message(lent.block()), timeout);
  if (!answer) {
    return std::unexpected(answer.error());
  }
  const std::int32_t return_value = ioctl_block(*answer).return_value;
  answer->pop_block();
  if (*answer && !lent.shown_by(std::as_const(*answer).first())) {
    consume(*answer, argument);
  }
  return return_value;
}

Status Stream::set_signal(std::uint32_t events, SignalHandler handler) {
  const bool known = (events & ~SignalEvents::all) == 0;
  const bool alone = (events & SignalEvents::S_BANDURG) != 0 && (events & SignalEvents::S_RDBAND) == 0;
  // "[EINVAL] The value of arg is invalid. [EINVAL] The value of arg is 0 and the calling process is not registered to
  // receive the SIGPOLL signal." (ioctl(), XSH, I_SETSIG)
  if (!known || alone || (events == 0 && head_.watched() == 0)) {
    return fail(EINVAL);
  }
  head_.watch(events, std::move(handler));
  return {};
}

Result<std::uint32_t> Stream::signal_events() const {
  // "[EINVAL] User process is not registered to receive the SIGPOLL signal." (streamio(7), I_GETSIG)
  return head_.watched() == 0 ? Result<std::uint32_t>(fail(EINVAL)) : head_.watched();
}

Status Stream::send(Batch batch) {
  Status open = writable();
  if (open) {
    head_.write_queue().put_next(std::move(batch));
  }
  return open;
}

}  // namespace sluice
