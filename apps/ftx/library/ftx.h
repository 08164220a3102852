/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FTX_H
#define FTX_H

/*
 * libftx: transfers of files and trees, as the program ftx makes them, within a process of one's own. C; <ftx.hpp> is
 * the same for C++, and the Python package ftx is made of it.
 *
 *     ftx_job *job = ftx_job_new(FTX_TRANSFER);
 *     ftx_job_set(job, "archive", NULL);
 *     ftx_job_add(job, "photos/");
 *     ftx_job_add(job, "backup.example:photos/");
 *     if (ftx_job_run(job) != 0) {
 *       fprintf(stderr, "%s\n", ftx_job_error(job));
 *     }
 *     ftx_job_free(job);
 *
 * A job is made, told what to do, and run once. What it may be told is what the program may: ftx(1) is the manual of
 * operands, options and exit codes. Not of a job are the options that say how the program shows what it does (--json,
 * --quiet, --verbose, --progress and --no-progress), --help and --version. No configuration file is read.
 *
 * Threads: a job belongs to the thread that runs it; jobs of several threads share nothing. Only ftx_job_stop() may be
 * called from anywhere, a signal handler included.
 *
 * The process: a job leaves signals alone, but that it guards its own windows of mapped files against SIGBUS and hands
 * on what is not theirs. It confines nothing: a program that reads a peer's bytes with more rights than it needs should
 * give them up itself (docs/security.md says what ftx gives up). A process that limits the size of its files ignores
 * SIGXFSZ, so that a file beyond the limit is an error and not its end; one that ignores SIGCHLD cannot use ssh.
 * Nothing is printed or read, but that the destination "-" is standard output and the source "-" standard input, both
 * of the process. Nothing is asked: a server that is not known yet is refused unless "accept-key" has its key. Through
 * ssh, ssh itself may ask on the terminal, unless "ssh" says `ssh -o BatchMode=yes`.
 *
 * Strings are UTF-8 or whatever bytes the file system has, and end in NUL. Those that a job takes are copied; those
 * that it gives are good until its next call, those of an event until the handler returns.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FTX_API __attribute__((visibility("default")))
#else
#define FTX_API
#endif

/* What a job does. */
typedef enum ftx_job_kind {
  FTX_TRANSFER = 0, /* `ftx SRC... DEST`: sources and destination are its operands */
  FTX_SERVE = 1     /* `ftx serve DIR`: the directory is its operand; runs until it is stopped, or its "once" is over */
} ftx_job_kind;

/* What happens, as in docs/formats/ftx-json.md. */
typedef enum ftx_event_kind {
  FTX_LISTENING = 1, /* path: the address, text: the key */
  FTX_OFFER,         /* files, bytes, path: what is to travel is known */
  FTX_FILE,          /* path, bytes: of a file that travels, after ftx_job_watch_files() */
  FTX_CHANGE,        /* path, text: of option "itemize-changes", as `rsync -i` writes it */
  FTX_PROGRESS,      /* bytes, total_bytes, files_done, files, skipped_files, skipped_bytes */
  FTX_FALLBACK,      /* path: how it goes on, code: why, text */
  FTX_LEFT_OUT,      /* files, text: what of the sources is not sent */
  FTX_REPAIR,        /* datagrams: asked for again since the last event of this kind */
  FTX_ERROR,         /* code, text */
  FTX_REJECTED,      /* text: a client of a server that may not come */
  FTX_DONE,          /* files, bytes, skipped_files, skipped_bytes, seconds, path */
  FTX_WARNING        /* text: what somebody should know although the job goes on */
} ftx_event_kind;

/* Members that an event does not have are 0, strings "". Later versions may have more members at the end, and more
 * kinds: a handler passes over what it does not know. */
typedef struct ftx_event {
  ftx_event_kind kind;
  int code; /* an exit code */
  uint64_t files;
  uint64_t files_done;
  uint64_t bytes;
  uint64_t total_bytes;
  uint64_t skipped_files; /* that the receiver had already */
  uint64_t skipped_bytes;
  uint64_t datagrams;
  double seconds;
  const char* path;
  const char* text;
} ftx_event;

typedef struct ftx_job ftx_job;

/* Called in the thread of ftx_job_run(). It must not call a function of this job but ftx_job_stop() and
 * ftx_event_json(), must not let an exception out, and should return soon: the transfer waits for it. */
typedef void ftx_event_handler(void* user, const ftx_event* event);

/* NULL: no memory or no descriptor is left (errno). */
FTX_API ftx_job* ftx_job_new(ftx_job_kind kind);
/* NULL is no job. REQUIRES: it does not run. */
FTX_API void ftx_job_free(ftx_job* job);

/* Sets an option by its name in the manual, without dashes: "archive", "rate", "p". `value` is NULL, "true" or "false"
 * of one that takes none. One that may be said several times, such as "exclude", may be set several times, and the
 * order of filter rules counts. 0, or 2 with an ftx_job_error(): there is no such option, it takes no value or needs
 * one. Whether the value is good ftx_job_run() finds out. */
FTX_API int ftx_job_set(ftx_job* job, const char* name, const char* value);
/* Adds an operand: sources first, the destination last. 0, or 1 where no memory is left. */
FTX_API int ftx_job_add(ftx_job* job, const char* operand);
FTX_API void ftx_job_on_event(ftx_job* job, ftx_event_handler* handler, void* user);
/* There are events of kind FTX_FILE. */
FTX_API void ftx_job_watch_files(ftx_job* job);

/* Does it, and answers the exit code that the program would: 0 is success, 130 that ftx_job_stop() ended it. A second
 * run is refused (2). */
FTX_API int ftx_job_run(ftx_job* job);
/* Ends the job soon, also one that does not run yet. From any thread or signal handler, as long as the job is not
 * freed. */
FTX_API void ftx_job_stop(ftx_job* job);
/* Why the last call failed, in one line that says what to do; "" after success. */
FTX_API const char* ftx_job_error(const ftx_job* job);

/* The event as the line of JSON that `ftx --json` prints; "" of a warning. */
FTX_API const char* ftx_event_json(const ftx_event* event);
/* What an exit code means; "" for one that there is not. */
FTX_API const char* ftx_code_meaning(int code);
/* Of this library: "0.1.0". */
FTX_API const char* ftx_version(void);

#ifdef __cplusplus
}
#endif

#endif
