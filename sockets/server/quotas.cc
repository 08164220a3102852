// SPDX-License-Identifier: Apache-2.0
#include "sockets/server/quotas.h"

#include <algorithm>

namespace sluice::sockets {
namespace {

std::size_t promised(const Buffers& buffers) {
  return buffers.receive + buffers.send + std::min(buffers.receive, Quotas::turn_piece_bytes_max) +
         std::min(buffers.send, Quotas::turn_piece_bytes_max);
}

}  // namespace

void Quotas::Share::swap(Share& other) noexcept {
  std::swap(quotas_, other.quotas_);
  std::swap(user_, other.user_);
  std::swap(what_, other.what_);
  std::swap(amount_, other.amount_);
}

void Quotas::Share::give_back() {
  if (quotas_ == nullptr) {
    return;
  }
  if (const auto user = quotas_->users_.find(user_); user != quotas_->users_.end()) {
    user->second[at(what_)] -= amount_;
    if (user->second == Amounts{}) {
      quotas_->users_.erase(user);
    }
  }
  quotas_ = nullptr;
}

Quotas::Share Quotas::take(uid_t user, What what, std::size_t amount) {
  const std::size_t has = taken(user, what);
  if (amount == 0 || has + amount > limits_[at(what)]) {
    return {};
  }
  users_[user][at(what)] += amount;
  return {*this, user, what, amount};
}

std::size_t Quotas::taken(uid_t user, What what) const {
  const auto found = users_.find(user);
  return found == users_.end() ? 0 : found->second[at(what)];
}

std::optional<Quotas::Connection> Quotas::take_connection(uid_t user, const Buffers& wanted) {
  const Buffers bounded{.receive = std::min(wanted.receive, buffer_bytes_max),
                        .send = std::min(wanted.send, buffer_bytes_max)};
  const Buffers small{.receive = std::min(wanted.receive, buffer_bytes_short),
                      .send = std::min(wanted.send, buffer_bytes_short)};
  const bool plenty = taken(user, What::memory) + promised(bounded) <= limits_[at(What::memory)] / 2;
  const Buffers& buffers = plenty ? bounded : small;
  Share memory = take(user, What::memory, promised(buffers));
  return memory ? std::optional(Connection{buffers, std::move(memory)}) : std::nullopt;
}

}  // namespace sluice::sockets
