// SPDX-License-Identifier: Apache-2.0
#include "apps/sluice/top.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>
#include <utility>

#include "apps/sluice/exit_code.h"
#include "apps/sluice/serve.h"
#include "base/descriptor.h"
#include "base/passing.h"
#include "base/result.h"
#include "sockets/server/snapshot.h"

namespace sluice {
namespace {

using sockets::SocketKind;
using sockets::SocketRecord;

std::string_view kind_of(const SocketRecord& record) { return record.kind == SocketKind::datagram ? "udp" : "tcp"; }

/// RFC 9293 section 3.3.2's names, by tcpi_state.
std::string_view state_of(const SocketRecord& record) {
  constexpr std::array<std::string_view, 12> names{"-",          "established", "syn-sent",  "syn-received",
                                                   "fin-wait-1", "fin-wait-2",  "time-wait", "closed",
                                                   "close-wait", "last-ack",    "listen",    "closing"};
  return record.state < names.size() ? names[record.state] : "?";
}

std::string text_of(const sockets::Address& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.size == sizeof(sockaddr_in)) {
    sockaddr_in in{};
    std::memcpy(&in, address.bytes, sizeof in);
    ::inet_ntop(AF_INET, &in.sin_addr, text.data(), text.size());
    return fmt::format("{}:{}", text.data(), ntohs(in.sin_port));
  }
  if (address.size == sizeof(sockaddr_in6)) {
    sockaddr_in6 in6{};
    std::memcpy(&in6, address.bytes, sizeof in6);
    ::inet_ntop(AF_INET6, &in6.sin6_addr, text.data(), text.size());
    return fmt::format("[{}]:{}", text.data(), ntohs(in6.sin6_port));
  }
  return "-";
}

/// Six columns at most.
std::string short_number(double value) {
  constexpr std::string_view units = "kMGTPE";
  if (value < 10000) {
    return fmt::format("{:.0f}", value);
  }
  std::size_t unit = 0;
  for (value /= 1000; value >= 1000 && unit + 1 < units.size(); ++unit) {
    value /= 1000;
  }
  return fmt::format("{:.1f}{}", value, units[unit]);
}
std::string short_number(std::uint64_t value) { return short_number(static_cast<double>(value)); }

struct Column {
  std::string_view title;
  bool to_the_left;
  std::string (*text)(const SocketRecord&);
};

constexpr auto columns = std::to_array<Column>({
    {"PID", false, [](const SocketRecord& one) { return std::to_string(one.pid); }},
    {"UID", false, [](const SocketRecord& one) { return std::to_string(one.uid); }},
    {"KIND", true, [](const SocketRecord& one) { return std::string(kind_of(one)); }},
    {"STATE", true, [](const SocketRecord& one) { return std::string(state_of(one)); }},
    {"LOCAL", true, [](const SocketRecord& one) { return text_of(one.local); }},
    {"PEER", true, [](const SocketRecord& one) { return text_of(one.peer); }},
    {"IN", false, [](const SocketRecord& one) { return short_number(one.received); }},
    {"OUT", false, [](const SocketRecord& one) { return short_number(one.sent); }},
    {"IN-Q", false, [](const SocketRecord& one) { return short_number(one.receive_queue); }},
    {"OUT-Q", false, [](const SocketRecord& one) { return short_number(one.send_queue); }},
    {"AGAIN", false, [](const SocketRecord& one) { return short_number(one.retransmissions); }},
    {"RTT-US", false, [](const SocketRecord& one) { return short_number(std::uint64_t{one.round_trip_us}); }},
});

/// Title and rows, each column as wide as what is in it; those that `width` has no room for are left out.
std::vector<std::string> table(const std::vector<SocketRecord>& records, std::size_t width) {
  std::vector<std::string> lines(records.size() + 1);
  for (const Column& column : columns) {
    std::vector<std::string> cells{std::string(column.title)};
    std::size_t widest = column.title.size();
    for (const SocketRecord& one : records) {
      cells.push_back(column.text(one));
      widest = std::max(widest, cells.back().size());
    }
    const std::size_t gap = lines.front().empty() ? 0 : 2;
    if (gap > 0 && lines.front().size() + gap + widest > width) {
      break;
    }
    for (std::size_t row = 0; row < lines.size(); ++row) {
      lines[row] += std::string(gap, ' ');
      lines[row] +=
          column.to_the_left ? fmt::format("{:<{}}", cells[row], widest) : fmt::format("{:>{}}", cells[row], widest);
    }
  }
  return lines;
}

std::size_t clients_of(const TopView& view) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < view.records.size(); ++at) {
    count += at == 0 || view.records[at].pid != view.records[at - 1].pid ? 1U : 0U;
  }
  return count;
}

std::string summary(const TopView& view) {
  return fmt::format("{} sockets of {} processes; requests {}, refused {}, malformed {}, crowded out {}",
                     view.totals.sockets, clients_of(view), view.totals.requests, view.totals.refused,
                     view.totals.malformed, view.totals.crowded_out);
}

// ---- The server ----

Result<TopView> ask(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return fail(ENAMETOOLONG, path + ": the path of a socket is shorter");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const Descriptor channel(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!channel || ::connect(channel.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return fail(errno, fmt::format("no server at {}: {}", path, std::strerror(errno)));
  }
  sockets::Request request;
  request.operation = sockets::Operation::statistics;
  if (const int error = send_message(channel.get(), std::as_bytes(std::span(&request, 1)), -1); error != 0) {
    return fail(error, fmt::format("{}: {}", path, std::strerror(error)));
  }
  constexpr int answer_ms_max = 10'000;
  pollfd waiting{.fd = channel.get(), .events = POLLIN, .revents = 0};
  int ready = -1;
  for (int attempt = 0; attempt < 100 && ready < 0; ++attempt) {  // a signal may come
    ready = ::poll(&waiting, 1, answer_ms_max);
  }
  sockets::Answer answer;
  Passed passed;
  if (ready == 1) {
    passed = receive_message(channel.get(), std::as_writable_bytes(std::span(&answer, 1)));
  }
  if (passed.size != sizeof answer || answer.version != sockets::protocol_version) {
    return fail(EPROTO, path + ": no answer of a server of this version");
  }
  if (answer.error != 0 || !passed.descriptor) {
    return fail(answer.error, fmt::format("{}: {}", path, std::strerror(answer.error)));
  }
  auto read = sockets::read_snapshot(passed.descriptor);
  if (!read) {
    return std::unexpected(read.error());
  }
  TopView view{.totals = read->first, .records = std::move(read->second)};
  sort_for_top(view);
  return view;
}

// ---- The terminal ----

volatile std::sig_atomic_t stopped = 0;

/// Its size, and the screen while it is ours.
class Screen {
 public:
  /// Ends with SIGINT and SIGTERM, which come, as SIGWINCH does, only while it waits.
  Screen() {
    struct sigaction action{};
    action.sa_handler = [](int) { stopped = 1; };
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
    action.sa_handler = [](int) {};
    ::sigaction(SIGWINCH, &action, nullptr);
    sigset_t held;
    ::sigemptyset(&held);
    for (const int signal : {SIGINT, SIGTERM, SIGWINCH}) {
      ::sigaddset(&held, signal);
    }
    ::sigprocmask(SIG_BLOCK, &held, &before_);
    put("\x1b[?1049h\x1b[?25l");  // another screen, without cursor
  }
  ~Screen() { put("\x1b[?25h\x1b[?1049l"); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  [[nodiscard]] static std::pair<std::size_t, std::size_t> size() {
    winsize found{};
    const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &found) == 0 && found.ws_col > 0 && found.ws_row > 0;
    return known ? std::pair<std::size_t, std::size_t>(found.ws_col, found.ws_row)
                 : std::pair<std::size_t, std::size_t>(80, 24);
  }
  /// In one piece, and over what is there: nothing flickers.
  static void draw(const std::vector<std::string>& lines) {
    std::string all = "\x1b[H";
    for (std::size_t at = 0; at < lines.size(); ++at) {
      all += at == 0 ? "" : "\r\n";
      all += lines[at] + "\x1b[K";
    }
    put(all + "\x1b[J");
  }
  void wait(unsigned seconds) const {
    const timespec time{.tv_sec = static_cast<time_t>(seconds), .tv_nsec = 0};
    static_cast<void>(::ppoll(nullptr, 0, &time, &before_));
  }

 private:
  static void put(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
  sigset_t before_{};
};

int watch(const std::string& path, unsigned interval_s, TopView view) {
  std::string error;
  {
    const Screen screen;
    auto then = std::chrono::steady_clock::now();
    TopRates rates;
    while (stopped == 0 && error.empty()) {
      const auto [width, height] = Screen::size();
      Screen::draw(top_screen(view, rates, width, height));
      screen.wait(interval_s);
      auto next = ask(path);
      if (!next) {
        error = next.error().text;
        continue;
      }
      const auto now = std::chrono::steady_clock::now();
      rates = rates_between(view, *next, now - then);
      then = now;
      view = std::move(*next);
    }
  }
  if (!error.empty() && stopped == 0) {
    fmt::print(stderr, "sluice: top: {}\n", error);
    return exit_failed;
  }
  return exit_ok;
}

auto key_of(const SocketRecord& one) {
  return std::tuple(one.pid, kind_of(one), text_of(one.local), text_of(one.peer));
}

}  // namespace

/// A socket that has come since then has moved all its bytes since; one that is gone tells no more.
TopRates rates_between(const TopView& before, const TopView& now, std::chrono::duration<double> time) {
  std::map<decltype(key_of(now.records.front())), const SocketRecord*> known;
  for (const SocketRecord& one : before.records) {
    known[key_of(one)] = &one;
  }
  TopRates rates;
  for (const SocketRecord& one : now.records) {
    const auto found = known.find(key_of(one));
    const SocketRecord then = found == known.end() ? SocketRecord{} : *found->second;
    rates.received += static_cast<double>(one.received - std::min(one.received, then.received));
    rates.sent += static_cast<double>(one.sent - std::min(one.sent, then.sent));
  }
  const double seconds = std::max(time.count(), 1e-3);
  return {.received = rates.received / seconds, .sent = rates.sent / seconds};
}

void sort_for_top(TopView& view) {
  std::ranges::sort(view.records, {}, [](const SocketRecord& one) { return key_of(one); });
}

std::vector<std::string> top_screen(const TopView& view, const TopRates& rates, std::size_t width, std::size_t height) {
  std::vector<std::string> lines{
      summary(view), fmt::format("in {} B/s, out {} B/s", short_number(rates.received), short_number(rates.sent))};
  const std::vector<std::string> rows = table(view.records, width);
  lines.insert(lines.end(), rows.begin(), rows.end());
  if (lines.size() > height) {
    const std::size_t hidden = lines.size() - height + 1;
    lines.resize(height);
    if (height > 0) {
      lines.back() = fmt::format("and {} lines more", hidden);
    }
  }
  for (std::string& line : lines) {
    line.resize(std::min(line.size(), width));
  }
  return lines;
}

std::vector<std::string> top_lines(const TopView& view) {
  std::vector<std::string> lines = table(view.records, SIZE_MAX);
  lines.push_back(summary(view));
  return lines;
}

std::vector<std::string> top_json(const TopView& view) {
  using nlohmann::ordered_json;
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < view.records.size();) {
    const std::int32_t pid = view.records[at].pid;
    ordered_json client{{"event", "client"}, {"pid", pid}, {"uid", view.records[at].uid}};
    std::uint64_t received = 0;
    std::uint64_t sent = 0;
    std::size_t count = 0;
    for (; at < view.records.size() && view.records[at].pid == pid; ++at, ++count) {
      received += view.records[at].received;
      sent += view.records[at].sent;
    }
    client["sockets"] = count;
    client["received"] = received;
    client["sent"] = sent;
    lines.push_back(client.dump());
  }
  for (const SocketRecord& one : view.records) {
    lines.push_back(ordered_json{{"event", "socket"},
                                 {"pid", one.pid},
                                 {"uid", one.uid},
                                 {"kind", kind_of(one)},
                                 {"state", state_of(one)},
                                 {"local", text_of(one.local)},
                                 {"peer", text_of(one.peer)},
                                 {"received", one.received},
                                 {"sent", one.sent},
                                 {"receive_queue", one.receive_queue},
                                 {"send_queue", one.send_queue},
                                 {"retransmissions", one.retransmissions},
                                 {"round_trip_us", one.round_trip_us}}
                        .dump());
  }
  lines.push_back(ordered_json{{"event", "totals"},
                               {"sockets", view.totals.sockets},
                               {"clients", clients_of(view)},
                               {"requests", view.totals.requests},
                               {"refused", view.totals.refused},
                               {"malformed", view.totals.malformed},
                               {"crowded_out", view.totals.crowded_out}}
                      .dump());
  return lines;
}

int run_top(const TopOptions& options) {
  const std::string path = options.path.empty() ? default_server_path() : options.path;
  auto view = ask(path);
  if (!view) {
    fmt::print(stderr, "sluice: top: {}\n", view.error().text);
    return exit_open;
  }
  if (!options.json && ::isatty(STDOUT_FILENO) != 0) {
    return watch(path, options.interval_s, std::move(*view));
  }
  for (const std::string& line : options.json ? top_json(*view) : top_lines(*view)) {
    fmt::print("{}\n", line);
  }
  return std::fflush(stdout) == 0 ? exit_ok : exit_failed;
}

}  // namespace sluice
