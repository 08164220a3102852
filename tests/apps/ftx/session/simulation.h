// SPDX-License-Identifier: Apache-2.0
#pragma once

// A sender and a server joined by a simulated link, in simulated time: files in memory, faults by a seed.
// The same seed gives the same run. Every run ends: by the sessions' own timers or at `run_max`.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "apps/ftx/files/digest.h"
#include "apps/ftx/recovery/bbr.h"
#include "apps/ftx/recovery/fixed_rate.h"
#include "apps/ftx/session/sender.h"
#include "apps/ftx/session/server.h"
#include "base/prng.h"
#include "tests/apps/ftx/content.h"
#include "tests/seeds.h"

namespace sluice::ftx::test {

using namespace std::chrono_literals;

// --- Files in memory -----------------------------------------------------------------------------------------------

class MemorySource final : public Source {
 public:
  void add(std::string name, Content content) {
    FileEntry entry;
    entry.name = std::move(name);
    entry.size_bytes = content.size();
    entry.parent = parent_;
    entries_.push_back(std::move(entry));
    contents_.push_back(std::move(content));
  }

  /// Everything that is added lies in the last one.
  void add_directory(std::string name) {
    add(std::move(name), {});
    entries_.back().kind = EntryKind::directory;
    parent_ = static_cast<std::uint32_t>(entries_.size());
  }
  void add_packed(std::string name, Content content) {
    add(std::move(name), std::move(content));
    entries_.back().kind = EntryKind::packed;
  }

  const std::vector<FileEntry>& files() const override { return entries_; }
  Status read(std::uint32_t index, std::uint64_t offset, Bytes out) override {
    if (vanished) {
      return fail(EIO, "vanished");
    }
    std::memcpy(out.data(), contents_[index].data() + offset, out.size());
    return {};
  }
  Status unchanged(std::uint32_t) override {
    return changed ? Status(fail(ESTALE, "it changed while it was sent")) : Status();
  }
  /// A turn, where reading_turns has any left; then all have theirs, if there were any.
  std::expected<bool, Failure> digest_some(std::uint64_t) override {
    if (reading_turns == 0) {
      return true;
    }
    if (vanished) {
      return std::unexpected(source_failure(*this, 0, {EIO, "vanished"}));
    }
    if (--reading_turns > 0) {
      return false;
    }
    for (std::uint32_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].regular()) {
        entries_[i].digest = file_digest_of(contents_[i]);
      }
    }
    return true;
  }
  std::string path(std::uint32_t index) const override { return std::string(entries_[index].name); }
  Content& content(std::uint32_t index) { return contents_[index]; }

  bool changed = false;
  bool vanished = false;
  int reading_turns = 0;

 private:
  std::vector<FileEntry> entries_;
  std::vector<Content> contents_;
  std::uint32_t parent_ = 0;
};

/// Holds what arrived; fails on purpose when told to.
class MemoryDestination final : public Destination {
 public:
  std::map<std::string, Content> files;        // under their final names
  std::map<std::string, Content> temporaries;  // removed ones are gone
  std::uint64_t capacity_bytes = UINT64_MAX;   // ENOSPC beyond
  int create_error = 0;
  bool corrupt = false;  // what is written is not what was asked for
  std::uint64_t writes = 0;
  Update update;               // what the last sink was to follow
  bool fresh = false;          // nothing of a tree is there
  bool equal = false;          // all is there already, where contents are compared
  bool same = false;           // all is there already
  std::uint64_t examined = 0;  // turns
  std::function<bool()> examine = [] { return true; };
  std::vector<Change> changes;             // what a survey finds
  int survey_error = 0;                    // behind them
  std::uint64_t opened = 0;                // sinks
  std::map<std::string, Content> earlier;  // what lies in the places of files

  bool nothing_there(std::string_view, const FileEntry&) override { return fresh; }
  Result<std::unique_ptr<Sink>> open(std::string_view path, std::span<const FileEntry>) override {
    if (path == "forbidden") {
      return fail(EACCES, "cannot open 'forbidden'");
    }
    ++opened;
    return std::make_unique<MemorySink>(*this);
  }
  Result<std::unique_ptr<Survey>> survey(std::string_view, std::span<const FileEntry>, const Update&,
                                         const std::optional<Deletion>&) override {
    return std::make_unique<MemorySurvey>(*this);
  }

 private:
  class MemoryFile final : public SinkFile {
   public:
    MemoryFile(MemoryDestination& owner, const FileEntry& entry)
        : owner_(owner), name_(entry.name), temporary_("." + entry.name + ".ftx-" + std::to_string(owner.created_++)) {
      owner_.temporaries[temporary_].resize(entry.size_bytes);
    }
    ~MemoryFile() override {
      if (!temporary_.empty()) {
        owner_.temporaries.erase(temporary_);
      }
    }
    Status write(std::uint64_t offset, ConstBytes bytes) override {
      ++owner_.writes;
      if (owner_.used_ + bytes.size() > owner_.capacity_bytes) {
        return fail(ENOSPC, "cannot write '" + name_ + "': No space left on device");
      }
      owner_.used_ += bytes.size();
      Content& content = owner_.temporaries[temporary_];
      content.resize(std::max<std::size_t>(content.size(), offset + bytes.size()));  // a stream has no size yet
      std::byte* at = content.data() + offset;
      std::memcpy(at, bytes.data(), bytes.size());
      if (owner_.corrupt) {
        at[0] ^= std::byte{1};
      }
      return {};
    }
    Status read(std::uint64_t offset, Bytes out) override {
      std::memcpy(out.data(), owner_.temporaries[temporary_].data() + offset, out.size());
      return {};
    }
    Status finalize() override { return {}; }
    Status commit() override {
      owner_.files[name_] = std::move(owner_.temporaries[temporary_]);
      owner_.temporaries.erase(std::exchange(temporary_, {}));
      return {};
    }
    std::string keep() override { return std::exchange(temporary_, {}); }

   private:
    MemoryDestination& owner_;
    std::string name_;
    std::string temporary_;
  };

  class MemorySurvey final : public Survey {
   public:
    explicit MemorySurvey(MemoryDestination& owner) : owner_(owner) {}
    Result<bool> look(std::size_t count_max, std::vector<Change>& found) override {
      while (found.size() < count_max && next_ < owner_.changes.size()) {
        found.push_back(owner_.changes[next_++]);
      }
      if (next_ == owner_.changes.size() && owner_.survey_error != 0) {
        return fail(owner_.survey_error, std::strerror(owner_.survey_error));
      }
      return next_ == owner_.changes.size();
    }

   private:
    MemoryDestination& owner_;
    std::size_t next_ = 0;
  };

  class MemoryEarlier final : public EarlierFile {
   public:
    explicit MemoryEarlier(ConstBytes content) : content_(content) {}
    Result<std::size_t> read_on(Bytes out) override {
      const std::size_t size = std::min(out.size(), content_.size());
      std::ranges::copy(content_.first(size), out.begin());
      content_ = content_.subspan(size);
      return size;
    }

   private:
    ConstBytes content_;
  };

  class MemorySink final : public Sink {
   public:
    explicit MemorySink(MemoryDestination& owner) : owner_(owner) {}
    Result<std::unique_ptr<SinkFile>> create(const FileEntry& entry) override {
      ++made_;
      if (owner_.create_error != 0) {
        return fail(owner_.create_error, std::strerror(owner_.create_error));
      }
      return std::make_unique<MemoryFile>(owner_, entry);
    }
    void follow(const Update& asked) override { owner_.update = asked; }
    bool examine(const FileEntry&, std::uint64_t&) override {
      ++owner_.examined;
      return owner_.examine();
    }
    bool present(const FileEntry&) override {
      return owner_.same || (owner_.equal && owner_.update.compare == Update::Compare::digest);
    }
    std::unique_ptr<EarlierFile> earlier(const FileEntry& entry) override {
      const auto found = owner_.earlier.find(std::string(entry.name));
      return found == owner_.earlier.end() ? nullptr : std::make_unique<MemoryEarlier>(found->second);
    }
    Status finish() override { return {}; }
    std::uint64_t entries_made() const override { return made_; }
    std::string path(const FileEntry& entry) const override { return std::string(entry.name); }

   private:
    MemoryDestination& owner_;
    std::uint64_t made_ = 0;
  };

  std::uint64_t used_ = 0;
  std::uint64_t created_ = 0;
};

// --- The link ------------------------------------------------------------------------------------------------------

struct LinkFaults {
  double loss = 0;
  double burst = 1;                      // mean length of a run of losses
  Duration burst_max = Duration::max();  // it ends then, however few were sent
  double reorder = 0;                    // chance of an extra delay of up to reorder_delay
  Duration reorder_delay = 10ms;
  double duplicate = 0;
  double corrupt = 0;  // a flipped bit that no checksum caught
  Duration delay = 5ms;
  std::uint64_t rate = 0;  // bytes a second, 0: without bound
  std::uint64_t queue_bytes = UINT64_MAX;
};

/// Makes `link` a bad one, drawn by `prng`: up to `loss_max` lost, half reordered, a tenth doubled, 100 ms of delay.
inline void draw_faults(LinkFaults& link, Prng& prng, double loss_max) {
  link.loss = prng.unit() * loss_max;
  link.burst = 1 + prng.unit() * 5;
  link.reorder = prng.unit() * 0.5;
  link.duplicate = prng.unit() * 0.1;
  link.delay = Duration(static_cast<Duration::rep>(prng.below(100'000'000)));
}

/// One direction. Keeps count of what it did.
class Link {
 public:
  using Filter = std::function<bool(TimePoint, ConstBytes)>;  // false: lose it

  Link(LinkFaults faults, std::uint64_t seed) : faults_(faults), prng_(seed) {}

  void set_filter(Filter filter) { filter_ = std::move(filter); }
  struct Arrival {
    Content bytes;
    Peer from;
  };

  void send(TimePoint now, ConstBytes datagram, const Peer& from);
  [[nodiscard]] TimePoint next_arrival() const { return queue_.empty() ? never : queue_.top().at; }
  [[nodiscard]] std::optional<Arrival> arrive(TimePoint now);

  std::uint64_t sent = 0, sent_bytes = 0, lost = 0, lost_data = 0, overflowed = 0, overflowed_data = 0;

 private:
  struct Travelling {
    TimePoint at{};
    std::uint64_t order = 0;
    Arrival arrival;
    bool operator<(const Travelling& other) const { return std::pair(at, order) > std::pair(other.at, other.order); }
  };

  bool lose(TimePoint now, ConstBytes datagram);
  void travel(TimePoint at, ConstBytes datagram, const Peer& from);

  LinkFaults faults_;
  Prng prng_;
  Filter filter_;
  bool in_burst_ = false;
  TimePoint burst_began_{};
  TimePoint free_at_{};
  std::uint64_t order_ = 0;
  std::priority_queue<Travelling> queue_;
};

/// What a datagram of the sender carries: the header of a DATA is in the clear.
[[nodiscard]] inline std::optional<AduName> adu_of(ConstBytes datagram) {
  const auto envelope = parse_envelope(datagram);
  const auto data =
      envelope && envelope->kind == Kind::data ? parse_data(datagram, datagram.size()) : std::optional<Data>();
  return data ? std::optional(data->adu) : std::nullopt;
}

// --- The world -----------------------------------------------------------------------------------------------------

/// One end of a session whose secret the seed makes.
[[nodiscard]] inline Protection protection_of(std::uint64_t seed, Side side, Cipher cipher = Cipher::aes_128_gcm,
                                              std::optional<AeadLimits> limits = std::nullopt) {
  return Protection::create(KeySchedule(Secret(random_content(session_secret_bytes, seed))), cipher, side, limits)
      .value();
}

/// The receiving program: it reads from a buffer of a size, at a rate, and not at all while it is stopped.
struct ReaderModel {
  std::uint64_t room_bytes = UINT64_MAX;  // what does not fit is lost
  std::uint64_t rate = 0;                 // bytes a second, 0: without bound
  Duration stopped_from{};                // of simulated time since the start
  Duration stopped_for{};
};

struct WorldOptions {
  std::uint64_t seed = 1;
  ReaderModel reader;
  LinkFaults forward;
  LinkFaults back;
  SenderOptions sender;
  ServerOptions server;
  std::uint64_t fixed_rate = 0;  // 0: Bbr
  Duration run_max = 600s;
  bool sealed = false;  // by a secret that the seed makes
  bool pull = false;    // sealed; the server knocks, the sender waits for that
  Duration invite_timeout = 10s;
  Cipher cipher = Cipher::aes_128_gcm;
  std::optional<AeadLimits> limits;
  bool land_by_hand = false;  // the caller puts payloads in their places, not the server
  // What is sent and where to, if not World's own.
  Source* from = nullptr;
  Destination* to = nullptr;
};

class World {
 public:
  explicit World(WorldOptions options);

  /// Runs until the sender has finished and nothing is under way, `stop` says so, or run_max has passed.
  void run(const std::function<bool()>& stop = {});

  /// Hands a datagram to the server as if it came from `peer`.
  void inject(ConstBytes datagram) { server->receive(now, datagram, peer); }

  [[nodiscard]] const Event* sender_event(Event::Kind kind) const { return find(sender_events, kind); }
  [[nodiscard]] const Event* server_event(Event::Kind kind) const { return find(server_events, kind); }
  [[nodiscard]] bool all_equal() const;

  WorldOptions options;
  TimePoint now{1h};
  MemorySource source;
  MemoryDestination destination;
  std::unique_ptr<CongestionControl> congestion;
  std::unique_ptr<Sender> sender;
  std::unique_ptr<Server> server;
  Link forward;
  Link back;
  Peer peer;                      // where the sender is
  Peer server_peer;               // where the server is
  std::uint64_t misdirected = 0;  // datagrams to where nobody is
  bool sender_alive = true;
  bool server_alive = true;
  std::function<void()> each_step;
  std::function<TimePoint()> input_at;  // when there will be more to send than now
  std::uint64_t overrun = 0;            // datagrams that found the reader's buffer full
  std::uint64_t spins = 0;              // times a session had nothing to send and yet wanted to be asked again at once
  std::vector<Event> sender_events;
  std::vector<Event> server_events;

 private:
  static const Event* find(const std::vector<Event>& events, Event::Kind kind) {
    for (const Event& event : events) {
      if (event.kind == kind) {
        return &event;
      }
    }
    return nullptr;
  }
  void step();
  void arrive(Link::Arrival datagram);
  void read();
  [[nodiscard]] bool stopped() const;
  void deliver(ConstBytes datagram, const Peer& from);
  void start();
  [[nodiscard]] TimePoint next_event_at() const;

  TimePoint started_at_{1h};
  std::queue<Link::Arrival> unread_;
  std::uint64_t unread_bytes_ = 0;
  TimePoint reads_at_{};
};

}  // namespace sluice::ftx::test
