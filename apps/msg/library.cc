// SPDX-License-Identifier: Apache-2.0
// The functions of msg.h, over msg::Messenger. Arguments are checked here; nothing gets out of here but error codes.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/common/entropy.h"
#include "apps/common/registry.h"
#include "apps/msg/msg.h"
#include "progress/messenger.h"
#include "stack/head/stack_file.h"

/// One that was opened; it stays when it has been closed, and its address is not given again.
struct sluice_msg {
  std::unique_ptr<sluice::msg::Messenger> messenger;
};

namespace {

using sluice::Bytes;
using sluice::ConstBytes;
using sluice::Error;
using sluice::fail;
using sluice::Result;
using sluice::Status;
using sluice::msg::Completion;
using sluice::msg::Handle;
using sluice::msg::Match;
using sluice::msg::Messenger;
using sluice::msg::Peer;
using sluice::wire::Family;
using sluice::wire::IpAddress;

static_assert(sizeof(sluice_msg_peer) == 20, "no padding: peers are compared byte for byte");

constexpr std::size_t options_bytes_min = sizeof(sluice_msg_options);  // the first version's
constexpr std::size_t counts_bytes_min = sizeof(sluice_msg_counts);    // likewise

thread_local std::string last_error;
thread_local const char* last_failure = nullptr;  // instead, where no memory was left for a text

/// No exception gets out of a function of C.
template <class Function>
int guarded(Function&& function) noexcept {
  last_error.clear();
  last_failure = nullptr;
  try {
    Status status = function();
    if (status) {
      return 0;
    }
    last_error = status.error().text.empty() ? sluice_msg_code_meaning(status.error().code) : status.error().text;
    return status.error().code;
  } catch (const std::bad_alloc&) {
    last_failure = "no memory is left";
    return ENOMEM;
  } catch (const std::exception&) {
    last_failure = "a fault of the library itself";
    return EIO;
  }
}

/// What a program has opened. Never destroyed: a program that ends without closing has its threads until then.
sluice_msg* keep(std::unique_ptr<Messenger> messenger) {
  static std::mutex mutex;
  static auto& all = *new std::deque<sluice_msg>();
  const std::scoped_lock lock(mutex);
  return &all.emplace_back(std::move(messenger));
}

/// Outlives every declaration that was read with it.
const sluice::Registry& registry() {
  static const auto& all = *new sluice::Registry(sluice::standard_registry());
  return all;
}

std::unexpected<Error> null(const char* argument) { return fail(EINVAL, std::string(argument) + " is NULL"); }

Result<Messenger*> opened(const sluice_msg* messenger) {
  if (messenger == nullptr) {
    return null("messenger");
  }
  if (messenger->messenger == nullptr) {
    return fail(EBADF, "this messenger has been closed");
  }
  return messenger->messenger.get();
}

/// `function` with the messenger behind it, if it is open.
template <class Function>
int with(const sluice_msg* messenger, Function&& function) noexcept {
  return guarded([&]() -> Status {
    Result<Messenger*> found = opened(messenger);
    return found ? function(**found) : Status(std::unexpected(std::move(found.error())));
  });
}

Result<Peer> peer_of(const sluice_msg_peer& peer) {
  if (peer.version == 4 || peer.version == 6) {
    return Peer{IpAddress::load(static_cast<Family>(peer.version), reinterpret_cast<const std::byte*>(peer.address)),
                peer.port};
  }
  return fail(EINVAL, "a peer has an address of IP version 4 or 6, not " + std::to_string(peer.version));
}

sluice_msg_peer told(const Peer& peer) {
  sluice_msg_peer made{};
  made.version = peer.address.is_v4() ? 4 : 6;
  made.port = peer.port;
  std::memcpy(made.address, peer.address.bytes().data(), peer.address.size());
  return made;
}

sluice_msg_completion told(const Completion& done) {
  sluice_msg_completion made{};
  made.error = done.error;
  made.peer = told(done.peer);
  made.bits = done.bits;
  made.bytes = done.bytes;
  made.total_bytes = done.total_bytes;
  return made;
}

Result<Match> match_of(std::uint64_t bits, std::uint64_t ignore, const sluice_msg_peer* from) {
  Match match{.bits = bits, .ignore = ignore, .from = {}};
  if (from != nullptr) {
    const Result<Peer> peer = peer_of(*from);
    if (!peer) {
      return std::unexpected(peer.error());
    }
    match.from = *peer;
  }
  return match;
}

sluice::TimePoint deadline_of(std::int64_t timeout_ms) {
  const sluice::TimePoint now = Messenger::now();
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(sluice::never - now);
  return timeout_ms < 0 || timeout_ms >= left.count() ? sluice::never : now + std::chrono::milliseconds(timeout_ms);
}

sluice_msg_options defaults() {
  const sluice::msg::Options endpoint;
  sluice_msg_options made{};
  made.size = sizeof made;
  made.progress_thread = 1;
  made.calls_max = endpoint.calls_max;
  made.unexpected_bytes_max = endpoint.unexpected_bytes_max;
  made.unexpected_messages_max = endpoint.unexpected_messages_max;
  made.receives_max = endpoint.receives_max;
  made.sends_max = endpoint.sends_max;
  made.connections_max = endpoint.connections_max;
  made.connection_message_bytes_max = endpoint.connection_message_bytes_max;
  return made;
}

/// What the program's struct says, which may be of a later version.
Result<sluice_msg_options> read(const sluice_msg_options* given) {
  sluice_msg_options read = defaults();
  if (given == nullptr) {
    return read;
  }
  if (given->size < options_bytes_min) {
    return fail(EINVAL, "options.size is " + std::to_string(given->size) + ": call sluice_msg_options_init() first");
  }
  const ConstBytes bytes(reinterpret_cast<const std::byte*>(given), given->size);
  const std::size_t known = std::min(bytes.size(), sizeof read);
  if (std::ranges::any_of(bytes.subspan(known), [](std::byte byte) { return byte != std::byte{0}; })) {
    return fail(E2BIG, "an option is set that this version of the library does not know");
  }
  std::memcpy(&read, given, known);
  const auto bounded = {std::pair{"unexpected_messages_max", read.unexpected_messages_max},
                        std::pair{"receives_max", read.receives_max}, std::pair{"sends_max", read.sends_max},
                        std::pair{"connections_max", read.connections_max},
                        std::pair{"calls_max", std::size_t{read.calls_max}}};
  for (const auto& [name, value] : bounded) {
    if (value > SLUICE_MSG_OPTION_MAX) {
      return fail(EINVAL, std::string(name) + " is " + std::to_string(value) + ": at most " +
                              std::to_string(SLUICE_MSG_OPTION_MAX));
    }
  }
  return read;
}

Result<std::unique_ptr<Messenger>> open(const Result<sluice::StackFile>& file, const sluice_msg_options& options) {
  if (!file) {
    return std::unexpected(file.error());
  }
  const auto declaration = file->find(options.stack == nullptr ? "" : options.stack);
  if (!declaration) {
    return std::unexpected(declaration.error());
  }
  Messenger::Options wanted;
  wanted.progress_thread = options.progress_thread != 0;
  wanted.set.seed = sluice::entropy();
  wanted.endpoint.unexpected_bytes_max = options.unexpected_bytes_max;
  wanted.endpoint.unexpected_messages_max = options.unexpected_messages_max;
  wanted.endpoint.receives_max = options.receives_max;
  wanted.endpoint.sends_max = options.sends_max;
  wanted.endpoint.connections_max = options.connections_max;
  wanted.endpoint.calls_max = options.calls_max;
  wanted.endpoint.connection_message_bytes_max = options.connection_message_bytes_max;
  if (options.local != nullptr) {
    auto local = Peer::from_text(options.local);
    if (!local) {
      return std::unexpected(std::move(local.error()));
    }
    wanted.endpoint.local = *local;
  }
  return Messenger::open(**declaration, std::move(wanted));
}

/// `load` makes a stack file of `source`.
template <class Load>
int open(const char* source, const sluice_msg_options* options, sluice_msg** opened, Load&& load) noexcept {
  return guarded([&]() -> Status {
    if (source == nullptr || opened == nullptr) {
      return null(source == nullptr ? "the stack file" : "opened");
    }
    const Result<sluice_msg_options> wanted = read(options);
    if (!wanted) {
      return std::unexpected(wanted.error());
    }
    auto made = open(load(source), *wanted);
    if (!made) {
      return std::unexpected(std::move(made.error()));
    }
    *opened = keep(std::move(*made));
    return {};
  });
}

/// Memory of a program: nothing of 0 bytes may lie anywhere.
template <class Byte, class Void>
Result<std::span<Byte>> memory(Void* at, std::size_t size, const char* name) {
  if (at == nullptr && size > 0) {
    return null(name);
  }
  return std::span<Byte>(static_cast<Byte*>(at), at == nullptr ? 0 : size);
}

/// Hands a completion, or why there is none, to the program.
Status tell(const Result<Completion>& result, sluice_msg_completion* done) {
  if (!result) {
    return std::unexpected(result.error());
  }
  *done = told(*result);
  return {};
}

}  // namespace

extern "C" {

int sluice_msg_options_init(sluice_msg_options* options, size_t size) {
  return guarded([&]() -> Status {
    if (options == nullptr) {
      return null("options");
    }
    if (size < options_bytes_min) {
      return fail(EINVAL, "size is " + std::to_string(size) + ": say sizeof(sluice_msg_options)");
    }
    sluice_msg_options made = defaults();
    made.size = size;
    std::memset(static_cast<void*>(options), 0, size);
    std::memcpy(options, &made, std::min(size, sizeof made));
    return {};
  });
}

int sluice_msg_open_file(const char* path, const sluice_msg_options* options, sluice_msg** opened) {
  return open(path, options, opened, [](const char* name) { return sluice::StackFile::load(name, registry()); });
}

int sluice_msg_open_text(const char* text, const sluice_msg_options* options, sluice_msg** opened) {
  return open(text, options, opened,
              [](const char* content) { return sluice::StackFile::parse(content, "stack text", registry()); });
}

int sluice_msg_close(sluice_msg* messenger) {
  return with(messenger, [&](Messenger& /*open*/) -> Status {
    messenger->messenger.reset();
    return {};
  });
}

int sluice_msg_address(const sluice_msg* messenger, sluice_msg_peer* address) {
  return with(messenger, [&](const Messenger& open) -> Status {
    if (address == nullptr) {
      return null("address");
    }
    *address = told(open.address());
    return {};
  });
}

int sluice_msg_bytes_max(const sluice_msg* messenger, uint64_t* bytes) {
  return with(messenger, [&](const Messenger& open) -> Status {
    if (bytes == nullptr) {
      return null("bytes");
    }
    *bytes = open.message_bytes_max();
    return {};
  });
}

int sluice_msg_peer_from_text(const char* text, sluice_msg_peer* peer) {
  return guarded([&]() -> Status {
    if (text == nullptr || peer == nullptr) {
      return null(text == nullptr ? "text" : "peer");
    }
    auto read = Peer::from_text(text);
    if (!read) {
      return std::unexpected(std::move(read.error()));
    }
    *peer = told(*read);
    return {};
  });
}

int sluice_msg_peer_to_text(const sluice_msg_peer* peer, char* text, size_t size) {
  return guarded([&]() -> Status {
    if (peer == nullptr || text == nullptr) {
      return null(peer == nullptr ? "peer" : "text");
    }
    const Result<Peer> read = peer_of(*peer);
    if (!read) {
      return std::unexpected(read.error());
    }
    const std::string written = read->to_text();
    if (written.size() >= size) {
      return fail(ERANGE, "the address takes " + std::to_string(written.size() + 1) + " characters");
    }
    std::memcpy(text, written.c_str(), written.size() + 1);
    return {};
  });
}

int sluice_msg_post(sluice_msg* messenger, uint64_t bits, uint64_t ignore, const sluice_msg_peer* from, void* buffer,
                    size_t size, sluice_msg_handle* handle) {
  return with(messenger, [&](Messenger& open) -> Status {
    if (handle == nullptr) {
      return null("handle");
    }
    const auto place = memory<std::byte>(buffer, size, "buffer");
    if (!place) {
      return std::unexpected(place.error());
    }
    const Result<Match> match = match_of(bits, ignore, from);
    if (!match) {
      return std::unexpected(match.error());
    }
    const Result<Handle> posted = open.post(*place, *match);
    if (!posted) {
      return std::unexpected(posted.error());
    }
    *handle = posted->value;
    return {};
  });
}

int sluice_msg_send(sluice_msg* messenger, const sluice_msg_peer* to, uint64_t bits, const void* data, size_t size,
                    sluice_msg_handle* handle) {
  return with(messenger, [&](Messenger& open) -> Status {
    if (to == nullptr || handle == nullptr) {
      return null(to == nullptr ? "to" : "handle");
    }
    const auto bytes = memory<const std::byte>(data, size, "data");
    if (!bytes) {
      return std::unexpected(bytes.error());
    }
    const Result<Peer> peer = peer_of(*to);
    if (!peer) {
      return std::unexpected(peer.error());
    }
    const Result<Handle> sending = open.send(*peer, bits, *bytes);
    if (!sending) {
      return std::unexpected(sending.error());
    }
    *handle = sending->value;
    return {};
  });
}

int sluice_msg_test(sluice_msg* messenger, sluice_msg_handle handle, sluice_msg_completion* done) {
  return with(messenger, [&](Messenger& open) -> Status {
    return done == nullptr ? null("done") : tell(open.test(Handle{handle}), done);
  });
}

int sluice_msg_wait(sluice_msg* messenger, sluice_msg_handle handle, int64_t timeout_ms, sluice_msg_completion* done) {
  return with(messenger, [&](Messenger& open) -> Status {
    return done == nullptr ? null("done") : tell(open.wait(Handle{handle}, deadline_of(timeout_ms)), done);
  });
}

int sluice_msg_wait_any(sluice_msg* messenger, const sluice_msg_handle* handles, size_t count, int64_t timeout_ms,
                        size_t* which, sluice_msg_completion* done) {
  return with(messenger, [&](Messenger& open) -> Status {
    if (handles == nullptr || which == nullptr || done == nullptr) {
      return null(handles == nullptr ? "handles" : which == nullptr ? "which" : "done");
    }
    if (count > std::size_t{2} * SLUICE_MSG_OPTION_MAX) {
      return fail(EINVAL, std::to_string(count) + " handles: there cannot be as many");
    }
    std::vector<Handle> asked(count);
    std::transform(handles, handles + count, asked.begin(), [](sluice_msg_handle each) { return Handle{each}; });
    const auto first = open.wait_any(asked, deadline_of(timeout_ms));
    if (!first) {
      return std::unexpected(first.error());
    }
    *which = first->first;
    *done = told(first->second);
    return {};
  });
}

int sluice_msg_probe(sluice_msg* messenger, uint64_t bits, uint64_t ignore, const sluice_msg_peer* from,
                     int64_t timeout_ms, sluice_msg_unexpected* found) {
  return with(messenger, [&](Messenger& open) -> Status {
    if (found == nullptr) {
      return null("found");
    }
    const Result<Match> match = match_of(bits, ignore, from);
    if (!match) {
      return std::unexpected(match.error());
    }
    const auto seen = open.probe(*match, timeout_ms == 0 ? sluice::TimePoint::min() : deadline_of(timeout_ms));
    if (!seen) {
      return std::unexpected(seen.error());
    }
    found->peer = told(seen->peer);
    found->bits = seen->bits;
    found->total_bytes = seen->total_bytes;
    found->whole = seen->whole ? 1 : 0;
    return {};
  });
}

int sluice_msg_cancel(sluice_msg* messenger, sluice_msg_handle handle) {
  return with(messenger, [&](Messenger& open) -> Status {
    return open.cancel(Handle{handle}) ? Status() : fail(EBUSY, "it is done or has left, or there is no such handle");
  });
}

int sluice_msg_statistics(sluice_msg* messenger, sluice_msg_counts* counts, size_t size) {
  return with(messenger, [&](Messenger& open) -> Status {
    if (counts == nullptr) {
      return null("counts");
    }
    if (size < counts_bytes_min) {
      return fail(EINVAL, "size is " + std::to_string(size) + ": say sizeof(sluice_msg_counts)");
    }
    const sluice::msg::Statistics now = open.statistics();
    sluice_msg_counts made{};
    made.refused = now.refused;
    made.truncated = now.truncated;
    made.lost = now.lost;
    made.malformed = now.malformed;
    made.callers_refused = now.callers_refused;
    made.stray = now.stray;
    made.unexpected_bytes = now.unexpected_bytes;
    made.unexpected_messages = now.unexpected_messages;
    std::memset(static_cast<void*>(counts), 0, size);
    std::memcpy(counts, &made, std::min(size, sizeof made));
    return {};
  });
}

const char* sluice_msg_error() { return last_failure != nullptr ? last_failure : last_error.c_str(); }

const char* sluice_msg_code_meaning(int code) {
  switch (code) {
    case 0:
      return "success";
    case EAGAIN:
      return "not done yet, or nothing there";
    case EBADF:
      return "the messenger has been closed";
    case EBUSY:
      return "it is done or has left";
    case ECONNABORTED:
      return "the message was lost on its way in";
    case ECONNRESET:
      return "the peer has gone; the message may not have arrived";
    case EMSGSIZE:
      return "the message is longer than the buffer or the stack takes";
    case ETIME:
      return "not within the timeout";
    case ETIMEDOUT:
      return "the peer does not answer";
    case EXFULL:
      return "the peer refused the message: no receive was posted and no room left";
    default: {
      thread_local std::string other;
      try {
        other = std::system_category().message(code);
      } catch (const std::exception&) {
        return "an error";
      }
      return other.c_str();
    }
  }
}

const char* sluice_msg_version() { return SLUICE_VERSION; }

}  // extern "C"
