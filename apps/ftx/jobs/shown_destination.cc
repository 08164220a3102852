// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/shown_destination.h"

namespace sluice::ftx {
namespace {

class ShownSink final : public Sink {
 public:
  ShownSink(std::unique_ptr<Sink> below, std::span<const FileEntry> entries, Observer& observer)
      : below_(std::move(below)), entries_(entries), observer_(observer) {}

  [[nodiscard]] Result<std::unique_ptr<SinkFile>> create(const FileEntry& entry) override {
    show(entry);
    return below_->create(entry);
  }
  void follow(const Update& update) override { below_->follow(update); }
  [[nodiscard]] bool present(const FileEntry& entry) override { return below_->present(entry); }
  [[nodiscard]] bool examine(const FileEntry& entry, std::uint64_t& bytes) override {
    return below_->examine(entry, bytes);
  }
  [[nodiscard]] std::unique_ptr<SinkFile> resume(const FileEntry& entry) override {
    auto file = below_->resume(entry);
    if (file) {
      show(entry);
    }
    return file;
  }
  [[nodiscard]] std::unique_ptr<EarlierFile> earlier(const FileEntry& entry) override { return below_->earlier(entry); }
  [[nodiscard]] std::uint64_t room_bytes() override { return below_->room_bytes(); }
  [[nodiscard]] Status store(const FileEntry& entry, ConstBytes content) override {
    show(entry);
    return below_->store(entry, content);
  }
  [[nodiscard]] Status also_remove(const Deletion& deletion) override { return below_->also_remove(deletion); }
  [[nodiscard]] Status finish() override { return below_->finish(); }
  [[nodiscard]] std::uint64_t entries_made() const override { return below_->entries_made(); }
  [[nodiscard]] std::string path(const FileEntry& entry) const override { return below_->path(entry); }

 private:
  void show(const FileEntry& entry) {
    Event event;
    event.kind = Event::Kind::file;
    event.path = path_of(entries_, entry);
    event.bytes = entry.size_bytes;
    observer_.show(event);
  }

  std::unique_ptr<Sink> below_;
  std::span<const FileEntry> entries_;
  Observer& observer_;
};

}  // namespace

Result<std::unique_ptr<Sink>> ShownDestination::open(std::string_view path, std::span<const FileEntry> entries) {
  auto sink = below().open(path, entries);
  if (!sink || !observer_.wants_files()) {
    return sink;
  }
  return std::make_unique<ShownSink>(*std::move(sink), entries, observer_);
}

}  // namespace sluice::ftx
