// SPDX-License-Identifier: Apache-2.0
#pragma once

// PipeTransport: the sessions over a byte stream in both directions, such as the pipe that ssh gives: where datagrams
// do not come through. It is reliable, in order, and holds back who writes too much. Datagrams are framed
// (apps/ftx/transport/frames.h).
//
// No call blocks. What the stream does not take now waits here, a bounded amount; beyond that send() refuses. Reading
// never waits for writing, so two ends that both have much to say do not block each other.
//
// Borrows the descriptors. One may be both. What is no socket is non-blocking while this lives; a socket is left as it
// is, since other processes may read and write through it, too. SIGPIPE must not end the process where `out` is no
// socket. Not thread-safe.

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "apps/ftx/session/endpoint.h"
#include "apps/ftx/transport/datagram_handler.h"
#include "apps/ftx/transport/frames.h"

namespace sluice::ftx {

class PipeTransport {
 public:
  /// What waits here before send() refuses; one datagram more may.
  static constexpr std::size_t waiting_bytes_max = 128 * 1024;
  static constexpr std::size_t tsdu_bytes = frame_datagram_bytes_max;
  /// What a receiver announces that it can hold. The stream loses nothing and holds the sender back by itself; this
  /// keeps what is under way within what a fast and long path needs.
  static constexpr std::uint64_t receive_room_bytes = 8U << 20;

  PipeTransport(int in, int out);
  PipeTransport(const PipeTransport&) = delete;
  PipeTransport& operator=(const PipeTransport&) = delete;

  /// Takes what is left in `burst`, in order, as long as there is room; writes what goes. False: some is left.
  bool send(Burst& burst);
  [[nodiscard]] bool can_send() const { return waiting() < waiting_bytes_max; }
  /// Writes of what waits as much as goes.
  void flush();
  /// Bytes that wait to be written.
  [[nodiscard]] std::size_t waiting() const { return out_buffer_.size() - written_; }
  /// Bytes that have been written since the beginning.
  [[nodiscard]] std::uint64_t written_bytes() const { return written_bytes_; }

  /// Reads once and hands over the datagrams that are whole. True when more may wait.
  bool receive(DatagramHandler& handler);

  /// The other end has closed the stream or broken the framing, or the stream fails: nothing more will come.
  [[nodiscard]] bool ended() const { return ended_; }
  /// The other end broke the framing.
  [[nodiscard]] bool broken() const { return reader_.broken(); }

 private:
  class End {
   public:
    explicit End(int descriptor);
    ~End();
    End(const End&) = delete;
    End& operator=(const End&) = delete;
    /// As read(2) and write(2) have it; neither blocks.
    [[nodiscard]] ssize_t read(Bytes out) const;
    [[nodiscard]] ssize_t write(ConstBytes bytes) const;
    [[nodiscard]] bool usable() const { return is_socket_ || flags_ >= 0; }

   private:
    int descriptor_;
    bool is_socket_;
    int flags_ = -1;  // as they were
  };

  End in_;
  End out_;
  FrameReader reader_;
  std::vector<std::byte> out_buffer_;
  std::size_t written_ = 0;  // of out_buffer_
  std::uint64_t written_bytes_ = 0;
  bool ended_ = false;
  bool closed_ = false;  // the other end takes nothing any more
};

/// Who is at the other end of a pipe.
[[nodiscard]] Peer pipe_peer();

}  // namespace sluice::ftx
