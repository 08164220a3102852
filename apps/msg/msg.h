/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_MSG_H
#define SLUICE_MSG_H

/*
 * libsluice-msg: messages between processes over a stack that a file declares. C; programs in C++ have the same calls
 * in "progress/messenger.h" of the library sluice, on which these stand. sluice_msg(3) is the manual with examples.
 *
 *     sluice_msg_options options;
 *     sluice_msg_options_init(&options, sizeof options);
 *     sluice_msg* messenger;
 *     if (sluice_msg_open_file("stacks.toml", &options, &messenger) != 0) {
 *       fprintf(stderr, "%s\n", sluice_msg_error());
 *     }
 *     sluice_msg_handle receive, sending;
 *     sluice_msg_post(messenger, 7, 0, NULL, buffer, sizeof buffer, &receive);
 *     sluice_msg_send(messenger, &peer, 7, "hello", 5, &sending);
 *     sluice_msg_completion came;
 *     sluice_msg_wait(messenger, receive, SLUICE_MSG_FOREVER, &came);
 *     sluice_msg_close(messenger);
 *
 * Errors: calls answer 0, or an errno value, and then sluice_msg_error() says why in words. A call that fails changes
 * nothing and writes nothing through its arguments, but where it says so. Of every call: EINVAL (a pointer is NULL that
 * must not be), EBADF (the messenger has been closed), ENOMEM, EIO (a fault of the library itself).
 *
 * Memory: a posted buffer is written, and what is sent is shown to the stack where it lies, from the call until test,
 * wait or wait-any has told the end, or cancel has answered 0. Closing gives all of it back. Strings and structs are
 * read during the call alone. A buffer or message of 0 bytes may be NULL.
 *
 * Threads: a messenger belongs to one thread at a time; several share nothing. With `progress_thread` it has a thread
 * of its own, in which messages move while the program computes; that takes no signals, and is not there in a child
 * after fork(), where a messenger is of no use.
 *
 * Threats: whoever reaches the port may send messages with any bits; nothing authenticates a peer. What strangers can
 * make the process keep is bounded by the options. A stack file is checked before anything is opened.
 *
 * Structs with a `size` may get more members at their ends in later versions.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SLUICE_MSG_API __attribute__((visibility("default")))
#else
#define SLUICE_MSG_API
#endif

/* A messenger: stack, endpoint and perhaps a thread. What a closed one was is remembered (some 20 bytes), so that a
 * call with it is refused. */
typedef struct sluice_msg sluice_msg;

/* Names a receive or a send of one messenger until its end has been told; never given again, and never 0. */
typedef uint64_t sluice_msg_handle;

/* The address of a process. Two of the same process are equal byte for byte. */
typedef struct sluice_msg_peer {
  uint8_t version;  /* of IP: 4 or 6 */
  uint8_t reserved; /* 0 */
  uint16_t port;
  uint8_t address[16]; /* in network order; of IPv4 the first four, then 0 */
} sluice_msg_peer;

/* "[", 45 characters of an IPv6 address, "]:", 5 of a port, NUL. */
#define SLUICE_MSG_PEER_TEXT_MAX 54

/* Of *_max below but the two in bytes. */
#define SLUICE_MSG_OPTION_MAX 1048576

typedef struct sluice_msg_options {
  size_t size;                    /* of this struct; sluice_msg_options_init() sets it */
  const char* stack;              /* which of the file's stacks; NULL: the only one */
  const char* local;              /* "10.0.0.1:7000"; port 0 and NULL: the provider chooses */
  int progress_thread;            /* 1: messages move all the time. 0: in wait, wait-any and probe alone */
  uint32_t calls_max;             /* how often a peer is called that does not answer; of stacks with connections */
  size_t unexpected_bytes_max;    /* that are kept of messages for which no receive is posted */
  size_t unexpected_messages_max; /* how many of them */
  size_t receives_max;            /* posted, or done and not told */
  size_t sends_max;               /* not done, or done and not told */
  size_t connections_max;         /* each way; of stacks with connections */
  uint64_t connection_message_bytes_max; /* the longest message; of stacks with connections */
} sluice_msg_options;

/* How a receive or a send ended. */
typedef struct sluice_msg_completion {
  int error; /* 0; of receives EMSGSIZE (the buffer holds its beginning), ECONNABORTED (lost on its way); of sends
                EXFULL (refused: no receive and no room), ETIMEDOUT, ECONNREFUSED, ECONNRESET (it may not have come) */
  sluice_msg_peer peer;
  uint64_t bits;
  size_t bytes; /* of the buffer that hold the message */
  uint64_t total_bytes;
} sluice_msg_completion;

/* A message that no receive has accepted. */
typedef struct sluice_msg_unexpected {
  sluice_msg_peer peer;
  uint64_t bits;
  uint64_t total_bytes;
  int whole; /* 1: all of it has come */
} sluice_msg_unexpected;

typedef struct sluice_msg_counts {
  uint64_t refused;             /* unexpected messages beyond the bounds */
  uint64_t truncated;           /* messages longer than their buffers */
  uint64_t lost;                /* messages that began and will not be whole */
  uint64_t malformed;           /* connections ended, since their peer did not keep to the format */
  uint64_t callers_refused;     /* beyond connections_max, or for want of a stream */
  uint64_t stray;               /* indications that fit nothing */
  uint64_t unexpected_bytes;    /* held now */
  uint64_t unexpected_messages; /* held now, or on their way in */
} sluice_msg_counts;

/* Of timeouts, which are milliseconds: any negative one. */
#define SLUICE_MSG_FOREVER (-1)

/* All defaults: no stack's name, no address, a progress thread, the bounds of msg/endpoint.h. `size`: sizeof of
 * *options. EINVAL: less than this library's first version had. */
SLUICE_MSG_API int sluice_msg_options_init(sluice_msg_options* options, size_t size);

/* Opens the declared stack, with the stream that answers for the host beside it where it has one, and binds it.
 * `options` may be NULL. EINVAL: the file or an option is wrong, the address is none of this host, or the stack carries
 * no messages; E2BIG: an option that this version does not know is set; ENOENT: no such file, stack or device; EACCES,
 * EPERM: of these; EADDRINUSE, EADDRNOTAVAIL: of the port; EAGAIN: there is no thread. */
SLUICE_MSG_API int sluice_msg_open_file(const char* path, const sluice_msg_options* options, sluice_msg** opened);
/* As sluice_msg_open_file(), of a stack file's text. */
SLUICE_MSG_API int sluice_msg_open_text(const char* text, const sluice_msg_options* options, sluice_msg** opened);
/* Ends all that is not done; over connections it waits up to a second until peers have what was answered to them. */
SLUICE_MSG_API int sluice_msg_close(sluice_msg* messenger);

/* What it is bound to. */
SLUICE_MSG_API int sluice_msg_address(const sluice_msg* messenger, sluice_msg_peer* address);
/* The longest message that it sends. */
SLUICE_MSG_API int sluice_msg_bytes_max(const sluice_msg* messenger, uint64_t* bytes);

/* Reads "10.0.0.1:7000" or "[fd00::1]:7000". EINVAL. */
SLUICE_MSG_API int sluice_msg_peer_from_text(const char* text, sluice_msg_peer* peer);
/* Writes that, with a NUL. ERANGE: `size` is too small; SLUICE_MSG_PEER_TEXT_MAX is enough. EINVAL: no address. */
SLUICE_MSG_API int sluice_msg_peer_to_text(const sluice_msg_peer* peer, char* text, size_t size);

/* Posts a receive for the first message whose bits are `bits`, but for those of `ignore`, by `from` or, if NULL, by
 * anybody. EINVAL: `from` is no address; ENOBUFS: receives_max. */
SLUICE_MSG_API int sluice_msg_post(sluice_msg* messenger, uint64_t bits, uint64_t ignore, const sluice_msg_peer* from,
                                   void* buffer, size_t size, sluice_msg_handle* handle);
/* Sends a message. EINVAL: `to` is no address; EMSGSIZE: longer than sluice_msg_bytes_max(); ENOBUFS: sends_max. */
SLUICE_MSG_API int sluice_msg_send(sluice_msg* messenger, const sluice_msg_peer* to, uint64_t bits, const void* data,
                                   size_t size, sluice_msg_handle* handle);

/* Tells how it ended, once. EAGAIN: not yet; EINVAL: no such handle; what ended the stream. */
SLUICE_MSG_API int sluice_msg_test(sluice_msg* messenger, sluice_msg_handle handle, sluice_msg_completion* done);
/* As sluice_msg_test(), and waits for it. ETIME: not within `timeout_ms`. */
SLUICE_MSG_API int sluice_msg_wait(sluice_msg* messenger, sluice_msg_handle handle, int64_t timeout_ms,
                                   sluice_msg_completion* done);
/* As sluice_msg_wait(), for whichever of `count` handles is done first; *which is its place among them. EINVAL: one of
 * them, or `count` is 0. */
SLUICE_MSG_API int sluice_msg_wait_any(sluice_msg* messenger, const sluice_msg_handle* handles, size_t count,
                                       int64_t timeout_ms, size_t* which, sluice_msg_completion* done);
/* Tells the first unexpected message that a receive of these bits would accept; it stays. Waits for one: ETIME. With a
 * timeout of 0 it looks once: EAGAIN. EINVAL: `from` is no address. */
SLUICE_MSG_API int sluice_msg_probe(sluice_msg* messenger, uint64_t bits, uint64_t ignore, const sluice_msg_peer* from,
                                    int64_t timeout_ms, sluice_msg_unexpected* found);
/* Takes back a receive that is not done, or a send of which nothing has left; the handle is gone then. EBUSY: it is
 * done or has left, and its end is still to be told, or there is no such handle. */
SLUICE_MSG_API int sluice_msg_cancel(sluice_msg* messenger, sluice_msg_handle handle);

/* `size`: sizeof of *counts. EINVAL: less than this library's first version had. */
SLUICE_MSG_API int sluice_msg_statistics(sluice_msg* messenger, sluice_msg_counts* counts, size_t size);

/* Why the last call of this thread failed, in one line or, of a stack file, one a fault; "" after success. Good until
 * the thread's next call. */
SLUICE_MSG_API const char* sluice_msg_error(void);
/* What an error of a call or a completion means; never NULL. Good until the thread's next call of it. */
SLUICE_MSG_API const char* sluice_msg_code_meaning(int code);
/* Of this library: "0.1.0". */
SLUICE_MSG_API const char* sluice_msg_version(void);

#ifdef __cplusplus
}
#endif

#endif
