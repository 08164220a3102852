// SPDX-License-Identifier: Apache-2.0
#include "dlpi/shared_link.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/contract.h"
#include "base/local_socket.h"
#include "base/passing.h"
#include "base/retried.h"
#include "dlpi/link_stream.h"
#include "dlpi/open_links.h"
#include "dlpi/wire_address.h"

namespace sluice::dlpi {
namespace {

constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Error system_error(const std::string& what) { return {errno, what + ": " + std::strerror(errno)}; }

}  // namespace

// ---- The memory ----

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) {
    ::munmap(bytes_.data(), bytes_.size());
  }
}

Result<std::pair<Descriptor, SharedMemory>> SharedMemory::make(std::size_t ring_bytes) {
  Descriptor memory(::memfd_create("sluice", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory || ::ftruncate(memory.get(), static_cast<off_t>(size_of(ring_bytes))) != 0 ||
      ::fcntl(memory.get(), F_ADD_SEALS, seals) != 0) {
    return std::unexpected(system_error("cannot make shared memory"));
  }
  Result<SharedMemory> mapped = map(memory, ring_bytes);
  if (!mapped) {
    return std::unexpected(std::move(mapped.error()));
  }
  return std::pair{std::move(memory), std::move(*mapped)};
}

Result<SharedMemory> SharedMemory::map(const Descriptor& memory, std::size_t ring_bytes) {
  const std::size_t size = size_of(ring_bytes);
  struct stat status{};
  const int sealed = ::fcntl(memory.get(), F_GET_SEALS);
  if (sealed < 0 || (sealed & F_SEAL_SHRINK) == 0 || ::fstat(memory.get(), &status) != 0 ||
      static_cast<std::size_t>(status.st_size) != size) {
    return fail(EINVAL, "the memory has another size, or may change it");
  }
  void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (at == MAP_FAILED) {
    return std::unexpected(system_error("cannot map shared memory"));
  }
  SharedMemory mapped;
  mapped.bytes_ = {static_cast<std::byte*>(at), size};
  return mapped;
}

SharedRing SharedMemory::ring(bool from_a) const {
  static_assert(2 * sizeof(SharedRingWords) <= words_bytes);
  const std::size_t size = (bytes_.size() - words_bytes) / 2;
  auto* const words = std::launder(reinterpret_cast<SharedRingWords*>(bytes_.data()));
  return {words + (from_a ? 0 : 1), bytes_.subspan(words_bytes + (from_a ? 0 : size), size)};
}

// ---- Meeting ----

/// A socket of the link, and what it calls while it is readable; that may destroy it.
class SharedLink::Socket final : public EventSource {
 public:
  Socket(SharedLink& link, Descriptor descriptor, void (SharedLink::*readable)())
      : link_(link), descriptor_(std::move(descriptor)), readable_(readable) {
    link_.set().add_source(*this);
  }
  ~Socket() override { link_.set().remove_source(*this); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  [[nodiscard]] int descriptor() const override { return descriptor_.get(); }
  bool on_readable() override {
    (link_.*readable_)();
    return false;
  }

 private:
  SharedLink& link_;
  Descriptor descriptor_;
  void (SharedLink::*readable_)();
};

SharedLink::SharedLink(StreamSet& set, const std::string& path, End end, std::size_t mtu)
    : Link(set, "shm:" + path, wire_address(path, end == End::a), mtu),
      path_(path),
      end_(end),
      again_(set.scheduler(), [this] { turn(); }) {
  set_up(false);
}

SharedLink::~SharedLink() = default;

Result<std::shared_ptr<Link>> SharedLink::open(StreamSet& set, const std::string& path, End end, std::size_t mtu) {
  if (const auto address = local_address(path); !address || path.front() == '\0') {
    return std::unexpected(address ? Error{EINVAL, "the path of a link begins with a zero byte"} : address.error());
  }
  std::shared_ptr<SharedLink> link(new SharedLink(set, path, end, mtu));
  if (end == End::a) {
    if (Status listens = link->listen(); !listens) {
      return std::unexpected(std::move(listens.error()));
    }
  } else {
    link->connect();
  }
  return link;
}

Status SharedLink::listen() {
  constexpr mode_t own = 0600;
  Result<Descriptor> listening = listen_at(path_, own);
  if (!listening) {
    return std::unexpected(std::move(listening.error()));
  }
  listening_ = std::make_unique<Socket>(*this, std::move(*listening), &SharedLink::accept);
  return {};
}

void SharedLink::turn() {
  if (ends_) {
    end_peer();
  } else if (peer_ == nullptr) {
    connect();
  } else {
    take();
  }
}

/// One peer at a time: others are turned away, and may try again.
void SharedLink::accept() {
  Descriptor connection(
      retried([&] { return ::accept4(listening_->descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); }));
  if (!connection || peer_ != nullptr) {
    return;
  }
  auto made = SharedMemory::make(ring_bytes(mtu()));
  const SharedHello hello{.mtu = mtu()};
  if (made && send_message(connection.get(), std::as_bytes(std::span(&hello, 1)), made->first.get()) == 0) {
    begin(std::move(connection), std::move(made->second));
  }
}

void SharedLink::connect() {
  again_.arm(set().now() + retry_delay);
  const auto address = local_address(path_);
  Descriptor connection(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connection &&
      ::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address->first), address->second) == 0) {
    again_.cancel();
    peer_ = std::make_unique<Socket>(*this, std::move(connection), &SharedLink::readable);
  }
}

void SharedLink::begin(Descriptor connection, SharedMemory memory) {
  if (peer_ == nullptr) {
    peer_ = std::make_unique<Socket>(*this, std::move(connection), &SharedLink::readable);
  }
  memory_ = std::move(memory);
  writer_.emplace(memory_.ring(end_ == End::a));
  reader_.emplace(memory_.ring(end_ != End::a), mtu() + wire::EthernetHeader::size);
  refused_ = false;
  set_up(true);
  take();
}

void SharedLink::take_hello() {
  SharedHello hello;
  const Passed passed = receive_message(peer_->descriptor(), std::as_writable_bytes(std::span(&hello, 1)));
  if (passed.error == EAGAIN) {
    return;
  }
  const bool ours = passed.error == 0 && passed.size == sizeof hello && hello.magic == SharedHello::magic_value &&
                    hello.version == SharedHello::version_value && hello.mtu == mtu();
  Result<SharedMemory> memory =
      ours ? SharedMemory::map(passed.descriptor, ring_bytes(mtu())) : Result<SharedMemory>(fail(EPROTO));
  if (memory) {
    begin({}, std::move(*memory));
  } else {
    leave(passed.size > 0);
  }
}

/// Nothing is read or written any more. The rest waits for a turn of its own: streams may be in the middle of sending.
void SharedLink::leave(bool broke_the_rules) {
  count(LinkCounter::peer_refused, broke_the_rules ? 1 : 0);
  writer_.reset();
  reader_.reset();
  ends_ = true;
  again_.arm(set().now());
}

void SharedLink::end_peer() {
  ends_ = false;
  memory_ = SharedMemory();
  peer_.reset();
  set_up(false);
  if (end_ == End::b) {
    again_.arm(set().now() + retry_delay);
  }
}

/// Something came from the peer, or he is gone. A doorbell is worth no more than that the ring is looked at.
void SharedLink::readable() {
  if (ends_) {
    return;
  }
  if (!reader_) {
    return take_hello();
  }
  std::array<std::byte, 8> doorbell;
  for (std::size_t taken = 0; taken < doorbells_per_call_max; ++taken) {
    const ssize_t got =
        retried([&] { return ::recv(peer_->descriptor(), doorbell.data(), doorbell.size(), MSG_DONTWAIT); });
    if (got < 0 && errno == EAGAIN) {
      break;
    }
    if (got <= 0) {
      take();  // what he sent before he went
      return ends_ ? void() : leave(false);
    }
  }
  take();
  if (writer_ && std::exchange(refused_, false)) {
    transmit_ready();
  }
}

/// Where the connection is full of doorbells the peer has one to hear yet.
void SharedLink::ring_doorbell() const {
  const std::byte doorbell{};
  static_cast<void>(retried([&] { return ::send(peer_->descriptor(), &doorbell, 1, MSG_DONTWAIT | MSG_NOSIGNAL); }));
}

// ---- Frames ----

void SharedLink::send(Batch& frames) {
  if (!writer_) {
    count(LinkCounter::link_down, frames.size());
    frames.clear();
    return;
  }
  std::size_t sent_frames = 0;
  std::size_t sent_bytes = 0;
  bool broken = false;
  while (!frames.empty() && !broken) {
    Message frame = frames.pop();
    SharedRingWriter::Result result = writer_->write(frame);
    if (result == SharedRingWriter::Result::no_room) {
      // Said before it is looked once more, so that the reader cannot have made room unseen.
      writer_->wait();
      result = writer_->write(frame);
    }
    broken = result == SharedRingWriter::Result::broken;
    if (result == SharedRingWriter::Result::no_room) {
      refused_ = true;
      frames.push_front(std::move(frame));
      break;
    }
    if (!broken) {
      const std::size_t size = frame.data_size();
      set().pool().touches().add(size, size);
      sent_bytes += size;
      ++sent_frames;
    }
  }
  sent(sent_frames, sent_bytes);
  if (broken) {
    count(LinkCounter::link_down, frames.size() + 1);
    frames.clear();
    return leave(true);
  }
  if (sent_frames > 0 && writer_->publish()) {
    ring_doorbell();
  }
}

/// Takes some bursts; what is left is for a turn of its own, so that a peer who never stops does not keep others from
/// running.
void SharedLink::take() {
  bool more = reader_.has_value();
  bool broken = false;  // by the peer
  for (std::size_t round = 0; round < bursts_per_call_max && more && may_receive(); ++round) {
    Batch burst;
    std::size_t bytes = 0;
    while (more && burst.size() < burst_frames_max && bytes < burst_bytes_max) {
      const SharedRingReader::Next next = reader_->next();
      broken = next == SharedRingReader::Next::broken;
      more = next == SharedRingReader::Next::frame;
      if (!more) {
        break;
      }
      const std::size_t size = reader_->frame_bytes();
      Message frame = Message::of_size(set().pool(), size, 0, 0);
      if (frame) {
        reader_->copy(frame.bytes());
        set().pool().touches().add(size, size);
        burst.push(std::move(frame));
      } else {
        refuse(LinkCounter::no_memory, size);
      }
      bytes += size;
      reader_->skip();
    }
    if (reader_->publish()) {
      ring_doorbell();
    }
    receive(std::move(burst));
    more = more && reader_.has_value();
  }
  if (reader_ && !broken && !more) {
    // Said before the ring is looked at once more, so that the writer cannot have written unseen.
    reader_->wait();
    const SharedRingReader::Next next = reader_->next();
    broken = next == SharedRingReader::Next::broken;
    more = next == SharedRingReader::Next::frame;
  }
  if (broken && !ends_) {
    leave(true);
  } else if (more && may_receive()) {
    again_.arm(set().now());
  }
}

Status SharedLink::set_address(const wire::MacAddress& address) {
  change_address(address);
  return {};
}

Entry shared_link_entry() {
  return Entry{
      .name = "shm",
      .summary = "a link in memory that two processes share",
      .effect = "copies frames once each way, into and out of the shared memory",
      .kind = Entry::Kind::driver,
      .upper = Service::link,
      .parameters =
          {
              {.name = "path",
               .meaning = "where the two ends meet: a Unix socket, which end a makes",
               .required = true},
              {.name = "end", .meaning = "which end of it", .required = true, .choices = {"a", "b"}},
              {.name = "mtu",
               .type = ParameterSpec::Type::integer,
               .meaning = "largest data unit in bytes, the same at both ends; absent: 1500",
               .minimum = SharedLink::mtu_min,
               .maximum = Link::mtu_max},
          },
      .make = [](StreamSet&, const Parameters& parameters) -> Result<std::unique_ptr<Module>> {
        const LinkOpener opener = [parameters](StreamSet& set, std::uint32_t) {
          const std::string path = parameters.text("path", "");
          const auto end = parameters.text("end", "a") == "a" ? SharedLink::End::a : SharedLink::End::b;
          const auto mtu = static_cast<std::size_t>(parameters.integer("mtu", 1500));
          return open_link(set, "shm:" + path + (end == SharedLink::End::a ? ":a" : ":b"), parameters,
                           [&] { return SharedLink::open(set, path, end, mtu); });
        };
        return std::make_unique<LinkStream>(
            "shm", LinkStream::Style::one, opener,
            LinkWork{.up = {{.kind = PayloadWork::Kind::copy, .where = "shared memory to message"}},
                     .down = {{.kind = PayloadWork::Kind::copy, .where = "frame to shared memory"}}});
      },
  };
}

}  // namespace sluice::dlpi
