/* SPDX-License-Identifier: Apache-2.0 */
/* transfer SRC... DEST: sends or fetches trees as `ftx -a` does, and says how far it is. */
#include <ftx.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static ftx_job* job;

static void interrupted(int signal) {
  (void)signal;
  ftx_job_stop(job);
}

static void told(void* user, const ftx_event* event) {
  (void)user;
  if (event->kind == FTX_PROGRESS) {
    printf("%" PRIu64 " of %" PRIu64 " bytes\n", event->bytes, event->total_bytes);
  } else if (event->kind == FTX_DONE) {
    printf("done: %" PRIu64 " files, %" PRIu64 " bytes\n", event->files, event->bytes);
  }
}

int main(int argc, char** argv) {
  job = ftx_job_new(FTX_TRANSFER);
  if (job == NULL) {
    perror("transfer");
    return 1;
  }
  /* $FTX_SECRET names a file with a secret of both ends; of ftx:// alone. */
  const char* const secret = getenv("FTX_SECRET");
  int code = ftx_job_set(job, "archive", NULL);
  if (code == 0 && secret != NULL) {
    code = ftx_job_set(job, "secret-file", secret);
  }
  for (int at = 1; code == 0 && at < argc; ++at) {
    code = ftx_job_add(job, argv[at]);
  }
  ftx_job_on_event(job, told, NULL);
  signal(SIGINT, interrupted);
  if (code == 0) {
    code = ftx_job_run(job);
  }
  signal(SIGINT, SIG_DFL);
  if (code != 0) {
    fprintf(stderr, "transfer: %s\n", ftx_job_error(job));
  }
  ftx_job_free(job);
  return code;
}
