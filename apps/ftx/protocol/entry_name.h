// SPDX-License-Identifier: Apache-2.0
#pragma once

// EntryName: the name of an entry of a list, and EntryNames: the names of a whole list, one behind the other in pages
// of memory. A list may have millions, so a name takes a pointer's room in its entry and five bytes beside its own; as
// strings, each of more than 15 bytes would take 32 in its entry and as many more as the allocator rounds up to.
//
// A name never changes. Copies share its bytes, and a page goes with the last name in it, so names may outlive their
// list and EntryNames. A name that is made of a text alone has a page of its own.
//
// Thread-safe as a std::shared_ptr: threads may hold and read the same name; what assigns to one needs it alone.
// EntryNames belongs to one thread.

#include <atomic>
#include <compare>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "base/contract.h"

namespace sluice::ftx {

class EntryName {
 public:
  static constexpr std::size_t bytes_max = 60'000;  // a component has far less

  EntryName() = default;
  /// As a string converts, so does this. REQUIRES: bytes_max at most; no NUL in it.
  template <std::convertible_to<std::string_view> Text>
    requires(!std::same_as<std::remove_cvref_t<Text>, EntryName>)
  EntryName(const Text& text) : EntryName(std::string_view(text), nullptr) {}
  EntryName(const EntryName& other) noexcept : text_(other.text_) { hold(); }
  EntryName(EntryName&& other) noexcept : text_(std::exchange(other.text_, nullptr)) {}
  EntryName& operator=(EntryName other) noexcept {
    std::swap(text_, other.text_);
    return *this;
  }
  ~EntryName() {
    if (text_ != nullptr) {
      page_of(text_)->let_go();
    }
  }

  [[nodiscard]] bool empty() const { return text_ == nullptr; }
  [[nodiscard]] std::size_t size() const { return empty() ? 0 : number_at(text_ - sizeof(Number)); }
  /// With a NUL behind it.
  [[nodiscard]] const char* c_str() const { return empty() ? "" : text_; }
  [[nodiscard]] std::string_view view() const { return {c_str(), size()}; }
  operator std::string_view() const { return view(); }

  bool operator==(const EntryName& other) const { return view() == other.view(); }
  template <std::convertible_to<std::string_view> Text>
    requires(!std::same_as<std::remove_cvref_t<Text>, EntryName>)
  bool operator==(const Text& text) const {
    return view() == std::string_view(text);
  }
  auto operator<=>(const EntryName& other) const { return view() <=> other.view(); }
  friend std::string operator+(std::string left, const EntryName& right) {
    return std::move(left.append(right.view()));
  }
  friend std::string operator+(const EntryName& left, std::string_view right) {
    return std::string(left.view()).append(right);
  }

 private:
  friend class EntryNames;
  // In front of the bytes of a name: how far behind the beginning of its page they lie, and how many they are.
  using Number = std::uint16_t;
  static constexpr std::size_t numbers_bytes = 2 * sizeof(Number);

  struct Page {
    std::atomic<std::uint32_t> holders = 1;
    std::uint32_t used;
    std::uint32_t size;

    [[nodiscard]] static Page* make(std::size_t size) {
      return new (::operator new(size)) Page{.used = sizeof(Page), .size = static_cast<std::uint32_t>(size)};
    }
    void let_go() {
      if (holders.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        this->~Page();
        ::operator delete(this);
      }
    }
    [[nodiscard]] bool has_room(std::size_t bytes) const { return size - used >= bytes; }
  };

  static Number number_at(const char* at) {
    Number number = 0;
    std::memcpy(&number, at, sizeof number);
    return number;
  }
  static Page* page_of(const char* text) {
    return reinterpret_cast<Page*>(const_cast<char*>(text) - number_at(text - numbers_bytes));
  }
  [[nodiscard]] static std::size_t bytes_of(std::string_view text) { return numbers_bytes + text.size() + 1; }
  void hold() {
    if (text_ != nullptr) {
      page_of(text_)->holders.fetch_add(1, std::memory_order_relaxed);
    }
  }

  /// In `page`, which has room for it; in one of its own where that is null.
  EntryName(std::string_view text, Page* page) {
    SLUICE_REQUIRE(text.size() <= bytes_max);
    if (text.empty()) {
      return;
    }
    const bool own = page == nullptr;
    page = own ? Page::make(sizeof(Page) + bytes_of(text)) : page;
    char* const at = reinterpret_cast<char*>(page) + page->used + numbers_bytes;
    const Number numbers[] = {static_cast<Number>(page->used + numbers_bytes), static_cast<Number>(text.size())};
    std::memcpy(at - numbers_bytes, numbers, numbers_bytes);
    std::memcpy(at, text.data(), text.size());
    at[text.size()] = '\0';
    page->used += static_cast<std::uint32_t>(bytes_of(text));
    text_ = at;
    if (!own) {
      hold();
    }
  }

  const char* text_ = nullptr;
};

class EntryNames {
 public:
  EntryNames() = default;
  EntryNames(const EntryNames&) = delete;
  EntryNames& operator=(const EntryNames&) = delete;
  ~EntryNames() { take(nullptr); }

  /// `text`, in a page that it shares with those before it. REQUIRES: as EntryName's.
  [[nodiscard]] EntryName add(std::string_view text) {
    if (text.size() > shared_bytes_max) {
      return EntryName(text);
    }
    if (page_ == nullptr || !page_->has_room(EntryName::bytes_of(text))) {
      take(EntryName::Page::make(page_bytes));
    }
    return EntryName(text, page_);
  }

 private:
  static constexpr std::size_t page_bytes = 16 * 1024 - 32;
  static constexpr std::size_t shared_bytes_max = 1024;

  void take(EntryName::Page* page) {
    if (page_ != nullptr) {
      page_->let_go();
    }
    page_ = page;
  }

  EntryName::Page* page_ = nullptr;
};

}  // namespace sluice::ftx
