// SPDX-License-Identifier: Apache-2.0
#include "sockets/server/poller.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <memory>

namespace sluice::sockets {
namespace {

epoll_event wish(Poller::Watched& watched, bool room) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP | EPOLLET | (room ? EPOLLOUT : 0U);
  event.data.ptr = &watched;
  return event;
}

}  // namespace

Result<std::unique_ptr<Poller>> Poller::open(StreamSet& set) {
  Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) {
    return fail(errno, "cannot wait for sockets");
  }
  return std::unique_ptr<Poller>(new Poller(set, std::move(epoll)));
}

Poller::Poller(StreamSet& set, Descriptor epoll) : set_(set), epoll_(std::move(epoll)) { set_.add_source(*this); }

Poller::~Poller() { set_.remove_source(*this); }

int Poller::add(int descriptor, Watched& watched) {
  epoll_event event = wish(watched, false);
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0 ? 0 : errno;
}

void Poller::tell_of_room(int descriptor, Watched& watched, bool wanted) {
  epoll_event event = wish(watched, wanted);
  static_cast<void>(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, descriptor, &event));
}

void Poller::remove(int descriptor) {
  static_cast<void>(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr));
}

/// Nobody is destroyed meanwhile, since on_events() only notes.
bool Poller::on_readable() {
  std::array<epoll_event, burst_events_max> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), burst_events_max, 0);
  for (int at = 0; at < count; ++at) {
    const epoll_event& event = events[static_cast<std::size_t>(at)];
    static_cast<Watched*>(event.data.ptr)->on_events(event.events);
  }
  return count == burst_events_max;
}

}  // namespace sluice::sockets
