// SPDX-License-Identifier: Apache-2.0
// Processes that send a message each to each other one, several times over, and check every byte that comes.
//
//   all_to_all                                          makes four processes of itself, over loopback
//   all_to_all FILE STACK RANK BYTES ROUNDS PEER...     one of them: RANK says which of the addresses is its own
//
// Shows: msg::Messenger with a progress thread, receives that are posted before anybody sends, wait_any, statistics.
// A process says "ready" when its receives are posted, begins when its input has a line, and prints what it has done;
// it answers its peers until its input has another or ends. So no message is lost for want of a receive or of a peer,
// not even over a stack without recovery. Exits 0 if all has arrived as it was sent, else 1.

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpi/register.h"
#include "progress/messenger.h"
#include "stack/head/stack_file.h"
#include "stack/modules/register.h"
#include "tpi/register.h"

namespace {

using namespace sluice;
using msg::Completion;
using msg::Handle;
using msg::Messenger;
using msg::Peer;

constexpr std::string_view loopback_stack = R"(
[stack.messages]
driver = { kind = "kernel_udp" }
push   = ["rmpp", "timod"]
)";

[[noreturn]] void give_up(const std::string& why) {
  std::cerr << "all_to_all: " << why << '\n';
  std::exit(1);
}

template <class T>
T must(Result<T> result) {
  if (!result) {
    give_up(result.error().text + " (errno " + std::to_string(result.error().code) + ")");
  }
  return std::move(*result);
}

/// The bytes that one process sends to another in a round.
std::vector<std::byte> content(std::uint64_t from, std::uint64_t to, std::uint64_t round, std::size_t size) {
  std::mt19937_64 words(from << 40 | to << 20 | round);
  std::vector<std::byte> bytes(size);
  for (std::size_t at = 0; at < size; at += 8) {
    const std::uint64_t word = words();
    std::memcpy(bytes.data() + at, &word, std::min<std::size_t>(8, size - at));
  }
  return bytes;
}

class Process {
 public:
  Process(const StackDeclaration& stack, std::size_t rank, std::vector<Peer> peers, std::size_t bytes,
          std::uint64_t rounds)
      : rank_(rank), peers_(std::move(peers)), bytes_(bytes), rounds_(rounds), buffers_(2 * peers_.size()) {
    Messenger::Options options;
    options.endpoint.local = peers_.at(rank);
    std::random_device device;  // what others must not guess is drawn from it
    options.set.seed = std::uint64_t{device()} << 32 | device();
    messenger_ = must(Messenger::open(stack, options));
    for (std::vector<std::byte>& buffer : buffers_) {
      buffer.resize(bytes_);
    }
  }

  void run() {
    post(0);
    std::cout << "ready" << std::endl;
    std::string line;
    if (!std::getline(std::cin, line)) {
      give_up("nobody said when to begin");
    }
    const TimePoint start = Messenger::now();
    for (std::uint64_t round = 0; round < rounds_; ++round) {
      // Who has this round's message of this process may send that of the next.
      std::vector<Handle> handles = std::exchange(receives_, {});
      std::vector<std::size_t> senders = std::exchange(senders_, {});
      if (round + 1 < rounds_) {
        post(round + 1);
      }
      send(round, handles);
      wait(round, std::move(handles), std::move(senders));
    }
    const auto time = std::chrono::duration<double, std::milli>(Messenger::now() - start);
    const msg::Statistics counted = messenger_->statistics();
    const std::uint64_t messages = rounds_ * (peers_.size() - 1);
    std::cout << "rank " << rank_ << ": " << messages << " messages each way, " << messages * bytes_
              << " bytes each way, refused " << counted.refused << ", truncated " << counted.truncated << ", lost "
              << counted.lost << ", malformed " << counted.malformed << ", " << time.count() << " ms" << std::endl;
    std::getline(std::cin, line);
  }

 private:
  /// A receive of each other process's message.
  void post(std::uint64_t round) {
    for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
      if (peer != rank_) {
        receives_.push_back(
            must(messenger_->post(buffer(peer, round), {.bits = round, .ignore = 0, .from = peers_[peer]})));
        senders_.push_back(peer);
      }
    }
  }

  void send(std::uint64_t round, std::vector<Handle>& handles) {
    sent_.clear();
    for (std::size_t step = 1; step < peers_.size(); ++step) {
      const std::size_t to = (rank_ + step) % peers_.size();  // not all to the same one first
      sent_.push_back(content(rank_, to, round, bytes_));
      handles.push_back(must(messenger_->send(peers_[to], round, sent_.back())));
    }
  }

  /// Until all of `handles` are done: the first are receives from `senders`, the others sends.
  void wait(std::uint64_t round, std::vector<Handle> handles, std::vector<std::size_t> senders) {
    const TimePoint deadline = Messenger::now() + std::chrono::seconds(60);
    while (!handles.empty()) {
      const auto [which, done] = must(messenger_->wait_any(handles, deadline));
      const bool received = which < senders.size();
      if (done.error != 0 || done.bytes != bytes_) {
        give_up("rank " + std::to_string(rank_) + ", round " + std::to_string(round) + ": a " +
                (received ? "receive from " : "send to ") + done.peer.to_text() + " ended with errno " +
                std::to_string(done.error));
      }
      if (received) {
        const std::size_t from = senders[which];
        if (buffer(from, round) != content(from, rank_, round, bytes_)) {
          give_up("rank " + std::to_string(rank_) + ": rank " + std::to_string(from) +
                  "'s message is not what it sent");
        }
        senders.erase(senders.begin() + static_cast<std::ptrdiff_t>(which));
      }
      handles.erase(handles.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }

  std::vector<std::byte>& buffer(std::size_t peer, std::uint64_t round) { return buffers_[2 * peer + round % 2]; }

  std::size_t rank_;
  std::vector<Peer> peers_;
  std::size_t bytes_;
  std::uint64_t rounds_;
  std::vector<std::vector<std::byte>> buffers_;
  std::vector<std::vector<std::byte>> sent_;  // the stack shows them until their sends are done
  std::vector<Handle> receives_;              // of the round that comes
  std::vector<std::size_t> senders_;          // of those
  std::unique_ptr<Messenger> messenger_;      // goes first
};

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    give_up("'" + std::string(text) + "' is no number");
  }
  return value;
}

/// Of loopback's 16 million addresses those that are this program's by its process number.
std::vector<Peer> loopback_addresses(std::size_t count) {
  const auto own = static_cast<std::uint32_t>(::getpid());
  std::vector<Peer> peers;
  for (std::size_t at = 0; at < count; ++at) {
    peers.push_back(must(Peer::from_text("127." + std::to_string(own >> 8 & 255) + "." + std::to_string(own & 255) +
                                         "." + std::to_string(at + 1) + ":7000")));
  }
  return peers;
}

/// All of them, on this machine.
int run_alone(const StackDeclaration& stack) {
  constexpr std::size_t count = 4;
  const std::vector<Peer> peers = loopback_addresses(count);
  struct Child {
    pid_t process;
    int line;  // a socket: its input and output
  };
  std::vector<Child> children;
  for (std::size_t rank = 0; rank < count; ++rank) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      give_up(std::strerror(errno));
    }
    const pid_t process = ::fork();
    if (process == 0) {
      for (const Child& sibling : children) {
        ::close(sibling.line);
      }
      ::close(ends[0]);
      ::dup2(ends[1], STDIN_FILENO);
      ::dup2(ends[1], STDOUT_FILENO);
      Process(stack, rank, peers, 100'000, 3).run();
      std::exit(0);
    }
    ::close(ends[1]);
    children.push_back({process, ends[0]});
  }
  const auto line_of = [](const Child& child) {
    std::string line;
    for (char read = 0; ::read(child.line, &read, 1) == 1 && read != '\n';) {
      line += read;
    }
    return line;
  };
  bool good = true;
  for (const Child& child : children) {
    good = line_of(child) == "ready" && good;
  }
  for (const Child& child : children) {
    good = ::write(child.line, "go\n", 3) == 3 && good;
  }
  for (const Child& child : children) {
    std::cout << line_of(child) << '\n';
  }
  for (const Child& child : children) {
    ::close(child.line);  // all have what was sent to them
  }
  for (const Child& child : children) {
    int status = 0;
    good =
        ::waitpid(child.process, &status, 0) == child.process && WIFEXITED(status) && WEXITSTATUS(status) == 0 && good;
  }
  std::cout << (good ? "all arrived" : "not all arrived") << '\n';
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Registry registry;  // what a stack file may name
  add_modules(registry);
  dlpi::add_drivers(registry);
  tpi::add_providers(registry);
  if (argc == 1) {
    const StackFile file = must(StackFile::parse(loopback_stack, "all_to_all", registry));
    return run_alone(*must(file.find("messages")));
  }
  if (argc < 8) {
    give_up("usage: all_to_all [FILE STACK RANK BYTES ROUNDS PEER PEER...]");
  }
  const StackFile file = must(StackFile::load(argv[1], registry));
  std::vector<Peer> peers;
  for (int at = 6; at < argc; ++at) {
    peers.push_back(must(Peer::from_text(argv[at])));
  }
  const std::uint64_t rank = number(argv[3]);
  if (rank >= peers.size()) {
    give_up("RANK is the place of one's own address among the PEERs, from 0");
  }
  Process(*must(file.find(argv[2])), rank, std::move(peers), number(argv[4]), number(argv[5])).run();
  return 0;
}
