// SPDX-License-Identifier: Apache-2.0
#pragma once

// MemoryDestination: keeps what arrives in memory until the transfer is over, and then forgets it. Whoever uses it
// bounds the transfer (ServerOptions::transfer_bytes_max).
//
// Not thread-safe.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "apps/ftx/files/sink.h"

namespace sluice::ftx {

class MemoryDestination final : public Destination {
 public:
  [[nodiscard]] Result<std::unique_ptr<Sink>> open(std::string_view, std::span<const FileEntry>) override {
    return std::make_unique<Files>();
  }

 private:
  class File final : public SinkFile {
   public:
    [[nodiscard]] Status write(std::uint64_t offset, ConstBytes bytes) override {
      content_.resize(std::max<std::size_t>(content_.size(), offset + bytes.size()));
      std::copy(bytes.begin(), bytes.end(), content_.begin() + static_cast<std::ptrdiff_t>(offset));
      return {};
    }
    [[nodiscard]] Status read(std::uint64_t offset, Bytes out) override {
      std::copy_n(content_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
      return {};
    }
    [[nodiscard]] Status finalize() override { return {}; }
    [[nodiscard]] Status commit() override { return {}; }
    std::string keep() override { return {}; }

   private:
    std::vector<std::byte> content_;
  };
  class Files final : public Sink {
   public:
    [[nodiscard]] Result<std::unique_ptr<SinkFile>> create(const FileEntry&) override {
      return std::make_unique<File>();
    }
    [[nodiscard]] Status finish() override { return {}; }
    [[nodiscard]] std::string path(const FileEntry& entry) const override { return std::string(entry.name); }
  };
};

}  // namespace sluice::ftx
