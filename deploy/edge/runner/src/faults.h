// Fails, or ends the process, at one operation on files. Only builds with TUNEFARM_RUNNER_FAULTS contain it.
//
// The variable TUNEFARM_FAULT is "cut N" or "fail N" with the number of the operation. A cut also loses what was written
// and not synced, as a power cut does.
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace tunefarm {
namespace faults {

constexpr int EXIT_STATUS = 99;
constexpr int MAX_UNSYNCED = 64;

inline int unsynced_files[MAX_UNSYNCED];
inline int unsynced_count = 0;
inline long operations = 0;

inline void unsynced(int file) {
  if (file >= 0 && unsynced_count < MAX_UNSYNCED) unsynced_files[unsynced_count++] = dup(file);
}

// Only one file is written at a time, so a sync is that of all.
inline void synced(int) {
  while (unsynced_count > 0) close(unsynced_files[--unsynced_count]);
}

inline int operation(int file) {
  const char *fault = getenv("TUNEFARM_FAULT");
  if (fault == nullptr) return 0;
  bool cuts = strncmp(fault, "cut ", 4) == 0;
  if (++operations != atol(fault + (cuts ? 4 : 5))) return 0;
  if (cuts) {
    for (int i = 0; i < unsynced_count; ++i)
      if (ftruncate(unsynced_files[i], 0) != 0) _exit(1);
    _exit(EXIT_STATUS);
  }
  errno = file >= 0 ? ENOSPC : EIO;
  return -1;
}

}  // namespace faults
}  // namespace tunefarm
