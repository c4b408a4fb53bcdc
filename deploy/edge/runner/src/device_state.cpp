#include "device_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "files.h"

namespace tunefarm {
namespace {

constexpr size_t MAX_STATE_BYTES = 300;

// The last line is left out where it says nothing new: runners before it read the rest.
int written(const DeviceState &state, char *text) {
  int size = snprintf(text, MAX_STATE_BYTES,
                      "tunefarm-state 1\nsequence %" PRIu64 "\nretained %" PRIu64 "\nrevoked-below %" PRIu64
                      "\nunconfirmed %" PRIu64 "\ntime %" PRId64 "\n",
                      state.sequence, state.retained, state.revoked_below, state.unconfirmed, state.time);
  if (state.running == state.retained) return size;
  size_t left = MAX_STATE_BYTES - static_cast<size_t>(size);
  return size + snprintf(text + size, left, "running %" PRIu64 "\n", state.running);
}

}  // namespace

Code load_state(int folder, DeviceState *state) {
  char text[MAX_STATE_BYTES + 1], again[MAX_STATE_BYTES + 1];
  ssize_t size = read_small(folder, STATE_NAME, text, MAX_STATE_BYTES);
  if (size < 0 && errno == ENOENT) return TUNEFARM_RUNNER_OK;
  if (size < 0) return fail_system("cannot read", "the state of the device");
  text[size] = 0;
  int found = sscanf(text,
                     "tunefarm-state 1\nsequence %" SCNu64 "\nretained %" SCNu64 "\nrevoked-below %" SCNu64
                     "\nunconfirmed %" SCNu64 "\ntime %" SCNd64 "\nrunning %" SCNu64 "\n",
                     &state->sequence, &state->retained, &state->revoked_below, &state->unconfirmed, &state->time,
                     &state->running);
  if (found == 5) state->running = state->retained;
  // sscanf is lenient; the text has to be exactly what is written.
  if (found < 5 || written(*state, again) != size || memcmp(text, again, static_cast<size_t>(size)) != 0)
    return fail(TUNEFARM_RUNNER_TAMPERED, "the state of the device is malformed");
  return TUNEFARM_RUNNER_OK;
}

Code save_state(int folder, const DeviceState &state) {
  char text[MAX_STATE_BYTES];
  int size = written(state, text);
  if (replace_file(folder, STATE_NAME, text, static_cast<size_t>(size)) != 0)
    return fail_system("cannot write", "the state of the device");
  return TUNEFARM_RUNNER_OK;
}

int64_t clock_s() { return static_cast<int64_t>(time(nullptr)); }

FolderLock::FolderLock(int folder) : folder_(folder) {
  while (flock(folder, LOCK_EX) != 0 && errno == EINTR) continue;
}

FolderLock::~FolderLock() { flock(folder_, LOCK_UN); }

}  // namespace tunefarm
