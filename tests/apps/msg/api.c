/* SPDX-License-Identifier: Apache-2.0 */
/* The C API of the message library, from a program in C that sees nothing but its header: what each call does, with
 * and without a progress thread, over loopback; and what is answered to arguments that make no sense. */
#include <errno.h>
#include <pthread.h>
#include <sluice/msg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RMPP "[stack.messages]\ndriver = { kind = \"kernel_udp\" }\npush = [\"rmpp\", \"timod\"]\n"
#define TCP "[stack.messages]\ndriver = { kind = \"kernel_tcp\" }\npush = [\"timod\"]\n"
#define SOON 20000 /* ms; the end of a test that hangs */

static int failures;
static int failed(int line, const char* what, const char* detail) {
  fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, line, what, detail);
  ++failures;
  return 0;
}
#define CHECK(condition) ((condition) ? 1 : failed(__LINE__, #condition, sluice_msg_error()))
#define CHECK_CODE(call, code) check_code(__LINE__, #call, call, code)

static void check_code(int line, const char* call, int code, int expected) {
  char text[200];
  snprintf(text, sizeof text, "answered %d, expected %d: %s", code, expected, sluice_msg_error());
  if (code != expected) {
    failed(line, call, text);
  }
  if ((sluice_msg_error()[0] == '\0') != (code == 0)) {
    failed(line, call, "a text after a failure, and none after success");
  }
}

static sluice_msg_options options_of(int thread) {
  sluice_msg_options options;
  CHECK_CODE(sluice_msg_options_init(&options, sizeof options), 0);
  options.progress_thread = thread;
  options.local = "127.0.0.1:0";
  return options;
}

static sluice_msg* opened(const char* text, const sluice_msg_options* options) {
  sluice_msg* messenger = NULL;
  CHECK_CODE(sluice_msg_open_text(text, options, &messenger), 0);
  if (messenger == NULL) {
    exit(1);
  }
  return messenger;
}

static sluice_msg_peer address_of(const sluice_msg* messenger) {
  sluice_msg_peer peer;
  CHECK_CODE(sluice_msg_address(messenger, &peer), 0);
  return peer;
}

/* Two messengers; without threads a message moves in calls of both. */
typedef struct pair {
  sluice_msg *a, *b;
  sluice_msg_peer of_a, of_b;
} pair;

static pair open_pair(const char* text, int thread) {
  const sluice_msg_options options = options_of(thread);
  pair both = {opened(text, &options), opened(text, &options), {0}, {0}};
  both.of_a = address_of(both.a);
  both.of_b = address_of(both.b);
  return both;
}

static void close_pair(const pair* both) {
  CHECK_CODE(sluice_msg_close(both->a), 0);
  CHECK_CODE(sluice_msg_close(both->b), 0);
}

static int wait_for(sluice_msg* waits, sluice_msg* other, sluice_msg_handle handle, sluice_msg_completion* done) {
  sluice_msg_unexpected found;
  int code = ETIME;
  for (int turn = 0; turn < SOON && code == ETIME; ++turn) {
    code = sluice_msg_wait(waits, handle, 1, done);
    if (code == ETIME) {
      sluice_msg_probe(other, 0, ~(uint64_t)0, NULL, 0, &found);
    }
  }
  return code;
}

static void fill(unsigned char* bytes, size_t size, unsigned which) {
  for (size_t at = 0; at < size; ++at) {
    bytes[at] = (unsigned char)(which * 7 + at * 131 + (at >> 8) * 3);
  }
}

static void messages_arrive(const char* text, int thread) {
  static unsigned char sent[300000], buffer[300000];
  const size_t sizes[] = {0, 1, 1400, sizeof sent};
  const pair both = open_pair(text, thread);
  for (unsigned which = 0; which < 4; ++which) {
    const size_t size = sizes[which];
    fill(sent, size, which + 1);
    memset(buffer, 0, sizeof buffer);
    sluice_msg_handle receive = 0, sending = 0;
    sluice_msg_completion came = {0}, left = {0};
    CHECK_CODE(sluice_msg_post(both.b, which, 0, NULL, size == 0 ? NULL : buffer, size, &receive), 0);
    CHECK_CODE(sluice_msg_send(both.a, &both.of_b, which, size == 0 ? NULL : sent, size, &sending), 0);
    CHECK(receive != 0 && sending != 0);
    CHECK_CODE(wait_for(both.b, both.a, receive, &came), 0);
    CHECK(came.error == 0 && came.bits == which && came.bytes == size && came.total_bytes == size);
    CHECK(memcmp(&came.peer, &both.of_a, sizeof came.peer) == 0);
    CHECK(memcmp(sent, buffer, size) == 0);
    CHECK_CODE(wait_for(both.a, both.b, sending, &left), 0);
    CHECK(left.error == 0 && left.bits == which && left.bytes == size && left.total_bytes == size);
    CHECK(memcmp(&left.peer, &both.of_b, sizeof left.peer) == 0);
    /* Both have been told: the handles are gone. */
    CHECK_CODE(sluice_msg_test(both.b, receive, &came), EINVAL);
    CHECK_CODE(sluice_msg_wait(both.a, sending, 0, &left), EINVAL);
    CHECK_CODE(sluice_msg_cancel(both.a, sending), EBUSY);
  }
  close_pair(&both);
}

/* Which of several is done, a receive of one sender alone, bits that are not looked at. */
static void wait_any_and_matching(const char* text, int thread) {
  const pair both = open_pair(text, thread);
  char buffers[3][8];
  sluice_msg_handle receives[3], sending;
  sluice_msg_completion done = {0};
  size_t which = 99;
  CHECK_CODE(sluice_msg_post(both.b, 5, 0, &both.of_b, buffers[0], 8, &receives[0]), 0); /* not this sender */
  CHECK_CODE(sluice_msg_post(both.b, 6, 0, NULL, buffers[1], 8, &receives[1]), 0);       /* not these bits */
  CHECK_CODE(sluice_msg_post(both.b, 0x10, 0xf, &both.of_a, buffers[2], 8, &receives[2]), 0);
  CHECK_CODE(sluice_msg_wait_any(both.b, receives, 3, 0, &which, &done), ETIME);
  CHECK_CODE(sluice_msg_wait_any(both.b, receives, 3, 20, &which, &done), ETIME);
  CHECK(which == 99 && done.bits == 0);
  CHECK_CODE(sluice_msg_send(both.a, &both.of_b, 0x15, "first", 6, &sending), 0);
  CHECK_CODE(wait_for(both.a, both.b, sending, &done), 0);
  CHECK_CODE(sluice_msg_wait_any(both.b, receives, 3, SOON, &which, &done), 0);
  CHECK(which == 2 && done.bits == 0x15 && done.bytes == 6 && strcmp(buffers[2], "first") == 0);
  CHECK_CODE(sluice_msg_wait_any(both.b, receives, 3, SOON, &which, &done), EINVAL); /* one is not there any more */
  CHECK_CODE(sluice_msg_test(both.b, receives[0], &done), EAGAIN);
  CHECK_CODE(sluice_msg_cancel(both.b, receives[0]), 0);
  CHECK_CODE(sluice_msg_cancel(both.b, receives[0]), EBUSY);
  CHECK_CODE(sluice_msg_test(both.b, receives[0], &done), EINVAL);
  CHECK_CODE(sluice_msg_wait_any(both.b, &receives[1], 1, 0, &which, &done), ETIME);
  close_pair(&both);
}

static void probe_and_statistics(const char* text, int thread) {
  const pair both = open_pair(text, thread);
  sluice_msg_unexpected found = {0};
  sluice_msg_counts counts;
  sluice_msg_handle sending, receive;
  sluice_msg_completion done;
  char buffer[4];
  CHECK_CODE(sluice_msg_probe(both.b, 7, 0, NULL, 0, &found), EAGAIN);
  CHECK_CODE(sluice_msg_probe(both.b, 7, 0, NULL, 20, &found), ETIME);
  CHECK_CODE(sluice_msg_send(both.a, &both.of_b, 7, "longer", 7, &sending), 0);
  CHECK_CODE(wait_for(both.a, both.b, sending, &done), 0);
  CHECK_CODE(sluice_msg_probe(both.b, 7, 0, &both.of_a, SLUICE_MSG_FOREVER, &found), 0);
  CHECK(found.bits == 7 && found.total_bytes == 7 && found.whole == 1);
  CHECK(memcmp(&found.peer, &both.of_a, sizeof found.peer) == 0);
  CHECK_CODE(sluice_msg_probe(both.b, 7, 0, &both.of_b, 0, &found), EAGAIN);
  CHECK_CODE(sluice_msg_statistics(both.b, &counts, sizeof counts), 0);
  CHECK(counts.unexpected_messages == 1 && counts.unexpected_bytes == 7 && counts.truncated == 0);
  CHECK_CODE(sluice_msg_post(both.b, 7, 0, NULL, buffer, sizeof buffer, &receive), 0);
  CHECK_CODE(sluice_msg_wait(both.b, receive, INT64_MAX, &done), 0);
  CHECK(done.error == EMSGSIZE && done.bytes == 4 && done.total_bytes == 7 && memcmp(buffer, "long", 4) == 0);
  CHECK_CODE(sluice_msg_statistics(both.b, &counts, sizeof counts), 0);
  CHECK(counts.unexpected_messages == 0 && counts.unexpected_bytes == 0 && counts.truncated == 1);
  close_pair(&both);
}

/* With the thread a message arrives while neither program calls anything but test; without it that moves nothing. */
static void progress(const char* text, int thread) {
  const pair both = open_pair(text, thread);
  const struct timespec pause = {0, 1000000};
  char buffer[6];
  sluice_msg_handle receive, sending;
  sluice_msg_completion done;
  CHECK_CODE(sluice_msg_post(both.b, 1, 0, NULL, buffer, sizeof buffer, &receive), 0);
  CHECK_CODE(sluice_msg_send(both.a, &both.of_b, 1, "hello", 6, &sending), 0);
  int code = EAGAIN;
  for (int turn = 0; turn < (thread ? SOON : 100) && code == EAGAIN; ++turn) {
    nanosleep(&pause, NULL);
    code = sluice_msg_test(both.b, receive, &done);
  }
  CHECK(code == (thread ? 0 : EAGAIN));
  close_pair(&both);
}

static void refusals(const char* text, int thread) {
  sluice_msg_options options = options_of(thread);
  sluice_msg* a = opened(text, &options);
  options.unexpected_messages_max = 0;
  options.unexpected_bytes_max = 0;
  options.receives_max = 1;
  options.sends_max = 1;
  sluice_msg* b = opened(text, &options);
  const sluice_msg_peer of_a = address_of(a), of_b = address_of(b);
  sluice_msg_handle sending, other = 77;
  sluice_msg_completion done;
  sluice_msg_counts counts;
  CHECK_CODE(sluice_msg_send(a, &of_b, 1, "hello", 5, &sending), 0);
  CHECK_CODE(wait_for(a, b, sending, &done), 0);
  CHECK(done.error == EXFULL);
  CHECK(strstr(sluice_msg_code_meaning(done.error), "refused") != NULL);
  CHECK_CODE(sluice_msg_statistics(b, &counts, sizeof counts), 0);
  CHECK(counts.refused == 1);
  CHECK_CODE(sluice_msg_post(b, 1, 0, NULL, NULL, 0, &sending), 0);
  CHECK_CODE(sluice_msg_post(b, 1, 0, NULL, NULL, 0, &other), ENOBUFS);
  CHECK_CODE(sluice_msg_send(b, &of_a, 1, NULL, 0, &sending), 0);
  CHECK_CODE(sluice_msg_send(b, &of_a, 1, NULL, 0, &other), ENOBUFS);
  CHECK(other == 77);
  CHECK_CODE(sluice_msg_close(a), 0);
  CHECK_CODE(sluice_msg_close(b), 0);
}

/* A message that is too long is refused before its bytes are looked at. */
static void too_large(const char* text, int thread) {
  sluice_msg_options options = options_of(thread);
  options.connection_message_bytes_max = 1000;
  char limited[300];
  snprintf(limited, sizeof limited, "%s%s", text, strcmp(text, RMPP) == 0 ? "rmpp = { message_bytes = 1000 }\n" : "");
  sluice_msg* messenger = opened(limited, &options);
  const sluice_msg_peer itself = address_of(messenger);
  uint64_t most = 0;
  sluice_msg_handle handle = 77;
  char bytes[1001] = {0};
  CHECK_CODE(sluice_msg_bytes_max(messenger, &most), 0);
  CHECK(most == 1000);
  CHECK_CODE(sluice_msg_send(messenger, &itself, 1, bytes, 1001, &handle), EMSGSIZE);
  CHECK_CODE(sluice_msg_send(messenger, &itself, 1, bytes, SIZE_MAX, &handle), EMSGSIZE);
  CHECK(handle == 77);
  CHECK_CODE(sluice_msg_send(messenger, &itself, 1, bytes, 1000, &handle), 0);
  CHECK_CODE(sluice_msg_close(messenger), 0);
}

/* Where a call puts its answer. */
typedef struct {
  sluice_msg_handle handle;
  sluice_msg_completion done;
  sluice_msg_unexpected found;
  sluice_msg_counts counts;
  uint64_t number;
  size_t which;
} answers;

static void null_arguments(void) {
  const sluice_msg_options options = options_of(0);
  sluice_msg* open = opened(RMPP, &options);
  sluice_msg* unused;
  sluice_msg_peer peer = address_of(open), bad = peer;
  answers out;
  char text[SLUICE_MSG_PEER_TEXT_MAX];
  bad.version = 5;

  CHECK_CODE(sluice_msg_options_init(NULL, sizeof options), EINVAL);
  CHECK_CODE(sluice_msg_open_file(NULL, &options, &unused), EINVAL);
  CHECK_CODE(sluice_msg_open_file("stacks.toml", &options, NULL), EINVAL);
  CHECK_CODE(sluice_msg_open_text(NULL, &options, &unused), EINVAL);
  CHECK_CODE(sluice_msg_open_text(RMPP, &options, NULL), EINVAL);
  CHECK_CODE(sluice_msg_close(NULL), EINVAL);
  CHECK_CODE(sluice_msg_address(NULL, &peer), EINVAL);
  CHECK_CODE(sluice_msg_address(open, NULL), EINVAL);
  CHECK_CODE(sluice_msg_bytes_max(NULL, &out.number), EINVAL);
  CHECK_CODE(sluice_msg_bytes_max(open, NULL), EINVAL);
  CHECK_CODE(sluice_msg_peer_from_text(NULL, &peer), EINVAL);
  CHECK_CODE(sluice_msg_peer_from_text("10.0.0.1:7", NULL), EINVAL);
  CHECK_CODE(sluice_msg_peer_to_text(NULL, text, sizeof text), EINVAL);
  CHECK_CODE(sluice_msg_peer_to_text(&peer, NULL, sizeof text), EINVAL);
  CHECK_CODE(sluice_msg_peer_to_text(&bad, text, sizeof text), EINVAL);
  CHECK_CODE(sluice_msg_post(NULL, 1, 0, NULL, text, 1, &out.handle), EINVAL);
  CHECK_CODE(sluice_msg_post(open, 1, 0, NULL, NULL, 1, &out.handle), EINVAL);
  CHECK_CODE(sluice_msg_post(open, 1, 0, NULL, text, 1, NULL), EINVAL);
  CHECK_CODE(sluice_msg_post(open, 1, 0, &bad, text, 1, &out.handle), EINVAL);
  CHECK_CODE(sluice_msg_send(NULL, &peer, 1, text, 1, &out.handle), EINVAL);
  CHECK_CODE(sluice_msg_send(open, NULL, 1, text, 1, &out.handle), EINVAL);
  CHECK_CODE(sluice_msg_send(open, &bad, 1, text, 1, &out.handle), EINVAL);
  CHECK_CODE(sluice_msg_send(open, &peer, 1, NULL, 1, &out.handle), EINVAL);
  CHECK_CODE(sluice_msg_send(open, &peer, 1, text, 1, NULL), EINVAL);
  CHECK_CODE(sluice_msg_test(NULL, 1, &out.done), EINVAL);
  CHECK_CODE(sluice_msg_test(open, 1, NULL), EINVAL);
  CHECK_CODE(sluice_msg_wait(NULL, 1, 0, &out.done), EINVAL);
  CHECK_CODE(sluice_msg_wait(open, 1, 0, NULL), EINVAL);
  CHECK_CODE(sluice_msg_post(open, 1, 0, NULL, text, 1, &out.handle), 0);
  CHECK_CODE(sluice_msg_wait_any(NULL, &out.handle, 1, 0, &out.which, &out.done), EINVAL);
  CHECK_CODE(sluice_msg_wait_any(open, NULL, 1, 0, &out.which, &out.done), EINVAL);
  CHECK_CODE(sluice_msg_wait_any(open, &out.handle, 1, 0, NULL, &out.done), EINVAL);
  CHECK_CODE(sluice_msg_wait_any(open, &out.handle, 1, 0, &out.which, NULL), EINVAL);
  CHECK_CODE(sluice_msg_wait_any(open, &out.handle, 0, 0, &out.which, &out.done), EINVAL);
  CHECK_CODE(sluice_msg_wait_any(open, &out.handle, SIZE_MAX, 0, &out.which, &out.done), EINVAL);
  CHECK_CODE(sluice_msg_test(open, out.handle, &out.done), EAGAIN); /* none of these has touched it */
  CHECK_CODE(sluice_msg_test(open, 0, &out.done), EINVAL);
  CHECK_CODE(sluice_msg_test(open, UINT64_MAX, &out.done), EINVAL);
  CHECK_CODE(sluice_msg_cancel(open, UINT64_MAX), EBUSY);
  CHECK_CODE(sluice_msg_probe(NULL, 1, 0, NULL, 0, &out.found), EINVAL);
  CHECK_CODE(sluice_msg_probe(open, 1, 0, NULL, 0, NULL), EINVAL);
  CHECK_CODE(sluice_msg_probe(open, 1, 0, &bad, 0, &out.found), EINVAL);
  CHECK_CODE(sluice_msg_cancel(NULL, 1), EINVAL);
  CHECK_CODE(sluice_msg_statistics(NULL, &out.counts, sizeof out.counts), EINVAL);
  CHECK_CODE(sluice_msg_statistics(open, NULL, sizeof out.counts), EINVAL);
  CHECK_CODE(sluice_msg_statistics(open, &out.counts, sizeof out.counts - 1), EINVAL);
  CHECK_CODE(sluice_msg_close(open), 0);
}

static void closed_messengers(void) {
  sluice_msg_options options = options_of(1);
  sluice_msg* const closed = opened(RMPP, &options);
  sluice_msg_peer peer = address_of(closed);
  char address[SLUICE_MSG_PEER_TEXT_MAX];
  answers out;
  char byte;
  CHECK_CODE(sluice_msg_post(closed, 1, 0, NULL, &byte, 1, &out.handle), 0);
  CHECK_CODE(sluice_msg_close(closed), 0); /* with a receive that is not out.done */
  CHECK_CODE(sluice_msg_peer_to_text(&peer, address, sizeof address), 0);
  options.local = address;
  sluice_msg* const later = opened(RMPP, &options); /* its port is free again */
  CHECK(later != closed);
  CHECK_CODE(sluice_msg_close(closed), EBADF);
  CHECK_CODE(sluice_msg_address(closed, &peer), EBADF);
  CHECK_CODE(sluice_msg_bytes_max(closed, &out.number), EBADF);
  CHECK_CODE(sluice_msg_post(closed, 1, 0, NULL, &byte, 1, &out.handle), EBADF);
  CHECK_CODE(sluice_msg_send(closed, &peer, 1, &byte, 1, &out.handle), EBADF);
  CHECK_CODE(sluice_msg_test(closed, out.handle, &out.done), EBADF);
  CHECK_CODE(sluice_msg_wait(closed, out.handle, SLUICE_MSG_FOREVER, &out.done), EBADF);
  CHECK_CODE(sluice_msg_wait_any(closed, &out.handle, 1, SLUICE_MSG_FOREVER, &out.which, &out.done), EBADF);
  CHECK_CODE(sluice_msg_probe(closed, 1, 0, NULL, SLUICE_MSG_FOREVER, &out.found), EBADF);
  CHECK_CODE(sluice_msg_cancel(closed, out.handle), EBADF);
  CHECK_CODE(sluice_msg_statistics(closed, &out.counts, sizeof out.counts), EBADF);
  CHECK_CODE(sluice_msg_close(later), 0);
}

static void addresses(void) {
  static const char* const good[] = {"10.0.0.1:7000", "[fd00::1]:65535", "0.0.0.0:0",
                                     "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"};
  static const char* const wrong[] = {"", "10.0.0.1", "10.0.0.1:", "10.0.0.1:65536", "10.0.0.256:1", "fd00::1:1", "x"};
  sluice_msg_peer peer;
  char text[SLUICE_MSG_PEER_TEXT_MAX];
  for (size_t at = 0; at < sizeof good / sizeof *good; ++at) {
    const size_t size = strlen(good[at]) + 1;
    CHECK_CODE(sluice_msg_peer_from_text(good[at], &peer), 0);
    memset(text, 'x', sizeof text);
    CHECK_CODE(sluice_msg_peer_to_text(&peer, text, size - 1), ERANGE);
    CHECK_CODE(sluice_msg_peer_to_text(&peer, text, 0), ERANGE);
    CHECK(text[0] == 'x' && size <= sizeof text);
    CHECK_CODE(sluice_msg_peer_to_text(&peer, text, size), 0);
    CHECK(strcmp(text, good[at]) == 0);
  }
  CHECK_CODE(sluice_msg_peer_from_text("10.0.0.1:7000", &peer), 0);
  CHECK(peer.version == 4 && peer.reserved == 0 && peer.port == 7000 && peer.address[0] == 10 && peer.address[3] == 1 &&
        peer.address[4] == 0 && peer.address[15] == 0);
  const sluice_msg_peer before = peer;
  for (size_t at = 0; at < sizeof wrong / sizeof *wrong; ++at) {
    CHECK_CODE(sluice_msg_peer_from_text(wrong[at], &peer), EINVAL);
  }
  CHECK(memcmp(&peer, &before, sizeof peer) == 0);
}

static void wrong_stacks(void) {
  sluice_msg_options options = options_of(1);
  sluice_msg* messenger = NULL;
  CHECK_CODE(sluice_msg_open_file("/nowhere/stacks.toml", &options, &messenger), ENOENT);
  CHECK(strstr(sluice_msg_error(), "/nowhere/stacks.toml") != NULL);
  CHECK_CODE(sluice_msg_open_text("[stack", &options, &messenger), EINVAL);
  CHECK_CODE(
      sluice_msg_open_text("[stack.a]\ndriver = { kind = \"kernel_upd\" }\npush = [\"timod\"]\n", &options, &messenger),
      EINVAL);
  CHECK(strstr(sluice_msg_error(), "kernel_udp") != NULL);
  /* No messages, no module that makes them. */
  CHECK_CODE(
      sluice_msg_open_text("[stack.a]\ndriver = { kind = \"kernel_udp\" }\npush = [\"timod\"]\n", &options, &messenger),
      EINVAL);
  options.stack = "messagse";
  CHECK_CODE(sluice_msg_open_text(RMPP, &options, &messenger), ENOENT);
  CHECK(strstr(sluice_msg_error(), "\"messages\"") != NULL);
  options.stack = "messages";
  options.local = "127.0.0.1";
  CHECK_CODE(sluice_msg_open_text(RMPP, &options, &messenger), EINVAL);
  options.local = "192.0.2.1:7000"; /* another host's */
  CHECK_CODE(sluice_msg_open_text(RMPP, &options, &messenger), EINVAL);
  CHECK(messenger == NULL);
  options.local = "127.0.0.1:0";
  sluice_msg* const first = opened(TCP, &options);
  const sluice_msg_peer taken = address_of(first);
  char text[SLUICE_MSG_PEER_TEXT_MAX];
  CHECK_CODE(sluice_msg_peer_to_text(&taken, text, sizeof text), 0);
  options.local = text;
  CHECK_CODE(sluice_msg_open_text(TCP, &options, &messenger), EADDRINUSE);
  CHECK(messenger == NULL);
  CHECK_CODE(sluice_msg_close(first), 0);
}

static void stack_files(void) {
  char path[] = "/tmp/sluice_msg_api_XXXXXX";
  const int file = mkstemp(path);
  CHECK(file >= 0 && write(file, RMPP, strlen(RMPP)) == (ssize_t)strlen(RMPP) && close(file) == 0);
  sluice_msg* messenger = NULL;
  CHECK_CODE(sluice_msg_open_file(path, NULL, &messenger), 0); /* all defaults */
  CHECK_CODE(sluice_msg_close(messenger), 0);
  CHECK(unlink(path) == 0);
}

/* Programs that were built with an older or a later header. */
static void versions_of_options(void) {
  struct {
    sluice_msg_options known;
    char later[64];
  } options;
  sluice_msg* messenger = NULL;
  memset(&options, 0xff, sizeof options);
  CHECK_CODE(sluice_msg_options_init(&options.known, sizeof options.known - 1), EINVAL);
  CHECK_CODE(sluice_msg_options_init(&options.known, sizeof options), 0);
  CHECK(options.known.size == sizeof options && options.known.progress_thread == 1 && options.known.stack == NULL);
  CHECK(options.later[0] == 0 && options.later[63] == 0);
  CHECK_CODE(sluice_msg_open_text(RMPP, &options.known, &messenger), 0);
  CHECK_CODE(sluice_msg_close(messenger), 0);
  options.later[63] = 1;
  messenger = NULL;
  CHECK_CODE(sluice_msg_open_text(RMPP, &options.known, &messenger), E2BIG);
  options.known.size = sizeof options.known - 1;
  CHECK_CODE(sluice_msg_open_text(RMPP, &options.known, &messenger), EINVAL);
  options.known.size = 0;
  CHECK_CODE(sluice_msg_open_text(RMPP, &options.known, &messenger), EINVAL);
  CHECK(messenger == NULL);

  for (int which = 0; which < 5; ++which) {
    for (size_t beyond = 0; beyond < 2; ++beyond) {
      sluice_msg_options bounded = options_of(0);
      size_t* const bounds[] = {&bounded.receives_max, &bounded.sends_max, &bounded.unexpected_messages_max,
                                &bounded.connections_max};
      if (which < 4) {
        *bounds[which] = SLUICE_MSG_OPTION_MAX + beyond;
      } else {
        bounded.calls_max = SLUICE_MSG_OPTION_MAX + (uint32_t)beyond;
      }
      CHECK_CODE(sluice_msg_open_text(RMPP, &bounded, &messenger), beyond == 0 ? 0 : EINVAL);
      if (beyond == 0) {
        CHECK_CODE(sluice_msg_close(messenger), 0);
      }
    }
  }
  struct {
    sluice_msg_counts known;
    char later[64];
  } counts;
  const sluice_msg_options plain = options_of(0);
  messenger = opened(RMPP, &plain);
  memset(&counts, 0xff, sizeof counts);
  CHECK_CODE(sluice_msg_statistics(messenger, &counts.known, sizeof counts), 0);
  CHECK(counts.known.lost == 0 && counts.later[63] == 0);
  CHECK_CODE(sluice_msg_close(messenger), 0);
}

static void* fails_elsewhere(void* unused) {
  CHECK_CODE(sluice_msg_close(NULL), EINVAL);
  return unused;
}

static void texts(void) {
  static const int codes[] = {0,     EAGAIN,       EBADF,     EBUSY,  ECONNABORTED, ECONNRESET, EMSGSIZE,
                              ETIME, ECONNREFUSED, ETIMEDOUT, EXFULL, EINVAL,       ENOENT,     -1};
  for (size_t at = 0; at < sizeof codes / sizeof *codes; ++at) {
    CHECK(sluice_msg_code_meaning(codes[at])[0] != '\0');
    for (size_t other = 0; other < at; ++other) {
      char first[200];
      snprintf(first, sizeof first, "%s", sluice_msg_code_meaning(codes[at]));
      CHECK(strcmp(first, sluice_msg_code_meaning(codes[other])) != 0);
    }
  }
  sluice_msg_peer peer;
  pthread_t thread;
  CHECK_CODE(sluice_msg_peer_from_text("10.0.0.1:7", &peer), 0);
  CHECK(pthread_create(&thread, NULL, fails_elsewhere, NULL) == 0 && pthread_join(thread, NULL) == 0);
  CHECK(sluice_msg_error()[0] == '\0'); /* what failed there is not of this thread */
  CHECK(strlen(sluice_msg_version()) >= 5);
}

int main(void) {
  static const struct {
    const char* name;
    void (*run)(const char* text, int thread);
  } everywhere[] = {{"messages arrive", messages_arrive},
                    {"wait-any and matching", wait_any_and_matching},
                    {"probe and statistics", probe_and_statistics},
                    {"progress", progress},
                    {"refusals", refusals},
                    {"too large", too_large}};
  static const struct {
    const char* name;
    void (*run)(void);
  } once[] = {{"NULL", null_arguments},
              {"closed messengers", closed_messengers},
              {"addresses", addresses},
              {"wrong stacks", wrong_stacks},
              {"stack files", stack_files},
              {"versions of options", versions_of_options},
              {"texts", texts}};
  for (size_t at = 0; at < sizeof everywhere / sizeof *everywhere; ++at) {
    for (int arm = 0; arm < 4; ++arm) {
      const int before = failures;
      everywhere[at].run(arm < 2 ? RMPP : TCP, arm % 2);
      printf("%s: %s, %s, %s\n", failures == before ? "ok" : "FAILED", everywhere[at].name, arm < 2 ? "rmpp" : "tcp",
             arm % 2 ? "with a progress thread" : "without");
    }
  }
  for (size_t at = 0; at < sizeof once / sizeof *once; ++at) {
    const int before = failures;
    once[at].run();
    printf("%s: %s\n", failures == before ? "ok" : "FAILED", once[at].name);
  }
  return failures == 0 ? 0 : 1;
}
