/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes send each other a message back and forth, through libsluice-msg.
 *
 *   ping_pong                                             both in one program, over the kernel's UDP on loopback
 *   ping_pong FILE STACK LOCAL BYTES ANSWER ROUNDS        answers, at the address LOCAL; prints "ready" when it listens
 *   ping_pong FILE STACK LOCAL BYTES ANSWER ROUNDS PEER   calls the one that answers at PEER
 *
 * A message has BYTES, and its answer the first ANSWER of them. Either side posts the receive of the next message
 * before it lets the other one send it, so that each lands in its buffer. The caller prints the time of a round trip.
 * Exits 0 if every byte arrived, both ways, else 1. */
#include <inttypes.h>
#include <pthread.h>
#include <sluice/msg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PING 1
#define PONG 2
#define TIMEOUT_MS 120000

static void must(int code, const char* what) {
  if (code != 0) {
    fprintf(stderr, "ping_pong: %s: %s\n", what, sluice_msg_error());
    exit(1);
  }
}

static void* allocate(size_t size) {
  void* const bytes = malloc(size > 0 ? size : 1);
  if (bytes == NULL) {
    perror("ping_pong");
    exit(1);
  }
  return bytes;
}

/* What stands in the message of a round, eight bytes at a time. */
static uint64_t word_of(uint64_t round, uint64_t at) { return (at + 1) * UINT64_C(0x9e3779b97f4a7c15) + round; }

static void fill(char* bytes, size_t size, uint64_t round) {
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t word = word_of(round, at / 8);
    memcpy(bytes + at, &word, size - at < 8 ? size - at : 8);
  }
}

static void check(const char* bytes, const sluice_msg_completion* came, size_t size, uint64_t round) {
  if (came->error != 0 || came->bytes != size || came->total_bytes != size) {
    fprintf(stderr, "ping_pong: round %" PRIu64 ": %zu of %zu bytes: %s\n", round, came->bytes, size,
            sluice_msg_code_meaning(came->error));
    exit(1);
  }
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t word = word_of(round, at / 8);
    if (memcmp(bytes + at, &word, size - at < 8 ? size - at : 8) != 0) {
      fprintf(stderr, "ping_pong: round %" PRIu64 ": wrong bytes at %zu\n", round, at);
      exit(1);
    }
  }
}

static sluice_msg_handle post(sluice_msg* messenger, uint64_t bits, char* buffer, size_t size) {
  sluice_msg_handle receive;
  must(sluice_msg_post(messenger, bits, 0, NULL, buffer, size, &receive), "post");
  return receive;
}

static sluice_msg_completion wait_for(sluice_msg* messenger, sluice_msg_handle handle) {
  sluice_msg_completion done;
  must(sluice_msg_wait(messenger, handle, TIMEOUT_MS, &done), "wait");
  return done;
}

static void send_whole(sluice_msg* messenger, const sluice_msg_peer* to, uint64_t bits, const char* bytes,
                       size_t size) {
  sluice_msg_handle sending;
  must(sluice_msg_send(messenger, to, bits, bytes, size, &sending), "send");
  const sluice_msg_completion done = wait_for(messenger, sending); /* until then the stack shows the bytes */
  if (done.error != 0) {
    fprintf(stderr, "ping_pong: send: %s\n", sluice_msg_code_meaning(done.error));
    exit(1);
  }
}

/* What a conversation is about. */
typedef struct sizes {
  size_t message;
  size_t answer; /* at most `message` */
  uint64_t rounds;
} sizes;

/* Two buffers: the next message may come while an answer still leaves from the other one. */
static void answer(sluice_msg* messenger, const sizes* of) {
  char* const buffers[] = {allocate(of->message), allocate(of->rounds > 1 ? of->message : 0)};
  sluice_msg_handle receive = post(messenger, PING, buffers[0], of->message);
  puts("ready");
  fflush(stdout);
  for (uint64_t round = 0; round < of->rounds; ++round) {
    const sluice_msg_completion came = wait_for(messenger, receive);
    check(buffers[round % 2], &came, of->message, round);
    if (round + 1 < of->rounds) {
      receive = post(messenger, PING, buffers[(round + 1) % 2], of->message);
    }
    send_whole(messenger, &came.peer, PONG, buffers[round % 2], of->answer);
  }
  free(buffers[0]);
  free(buffers[1]);
}

static void call(sluice_msg* messenger, const sluice_msg_peer* peer, const sizes* of) {
  char* const bytes = allocate(of->message);
  char* const buffer = allocate(of->answer);
  double seconds = 0;
  for (uint64_t round = 0; round < of->rounds; ++round) {
    struct timespec start, end;
    fill(bytes, of->message, round);
    const sluice_msg_handle receive = post(messenger, PONG, buffer, of->answer);
    clock_gettime(CLOCK_MONOTONIC, &start);
    send_whole(messenger, peer, PING, bytes, of->message);
    const sluice_msg_completion came = wait_for(messenger, receive);
    clock_gettime(CLOCK_MONOTONIC, &end);
    check(buffer, &came, of->answer, round);
    seconds += (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
  }
  printf("%zu bytes, answered by %zu, %" PRIu64 " times: %.1f us there and back\n", of->message, of->answer, of->rounds,
         seconds * 1e6 / (double)of->rounds);
  free(bytes);
  free(buffer);
}

static sluice_msg* open_messenger(const char* file, const char* stack, const char* local) {
  sluice_msg_options options;
  sluice_msg* messenger;
  must(sluice_msg_options_init(&options, sizeof options), "options");
  options.stack = stack;
  options.local = local;
  must(file != NULL ? sluice_msg_open_file(file, &options, &messenger)
                    : sluice_msg_open_text("[stack.messages]\n"
                                           "driver = { kind = \"kernel_udp\" }\n"
                                           "push   = [\"rmpp\", \"timod\"]\n"
                                           "rmpp   = { packet_bytes = 8192 }\n",
                                           &options, &messenger),
       "open");
  return messenger;
}

static const sizes of_both = {1000000, 1000000, 20};

static void* answer_in_thread(void* messenger) {
  answer(messenger, &of_both);
  return NULL;
}

static void both(void) {
  sluice_msg* const here = open_messenger(NULL, NULL, "127.0.0.1:0");
  sluice_msg* const there = open_messenger(NULL, NULL, "127.0.0.1:0");
  sluice_msg_peer peer;
  pthread_t thread;
  must(sluice_msg_address(there, &peer), "address");
  if (pthread_create(&thread, NULL, answer_in_thread, there) != 0) {
    fputs("ping_pong: no thread\n", stderr);
    exit(1);
  }
  call(here, &peer, &of_both);
  pthread_join(thread, NULL);
  must(sluice_msg_close(here), "close");
  must(sluice_msg_close(there), "close");
}

int main(int argc, char** argv) {
  if (argc == 1) {
    both();
    return 0;
  }
  if (argc != 7 && argc != 8) {
    fputs("usage: ping_pong [FILE STACK LOCAL BYTES ANSWER ROUNDS [PEER]]\n", stderr);
    return 2;
  }
  const sizes asked = {strtoull(argv[4], NULL, 10), strtoull(argv[5], NULL, 10), strtoull(argv[6], NULL, 10)};
  if (asked.answer > asked.message) {
    fputs("ping_pong: an answer is no longer than its message\n", stderr);
    return 2;
  }
  sluice_msg* const messenger = open_messenger(argv[1], argv[2], argv[3]);
  if (argc == 8) {
    sluice_msg_peer peer;
    must(sluice_msg_peer_from_text(argv[7], &peer), "the peer's address");
    call(messenger, &peer, &asked);
  } else {
    answer(messenger, &asked);
  }
  must(sluice_msg_close(messenger), "close");
  return 0;
}
