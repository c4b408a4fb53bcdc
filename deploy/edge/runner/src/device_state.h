// What a device has seen: kept in a file, so that neither an old release nor an old clock is believed later.
#pragma once

#include <stdint.h>

#include "failure.h"

namespace tunefarm {

struct DeviceState {
  uint64_t sequence = 0;       // the highest that was verified: the floor of installations
  uint64_t retained = 0;       // the release before the installed one, to which the device may return
  uint64_t running = 0;        // the release that ran when a higher sequence was seen, and may run on
  uint64_t revoked_below = 0;  // no release below this sequence is run
  uint64_t unconfirmed = 0;    // installed, and its health not yet checked
  int64_t time = 0;            // the latest time seen
};

constexpr const char *STATE_NAME = "state";
constexpr const char *EVENT_NAME = "event";
constexpr size_t MAX_EVENT_BYTES = 2000;

Code load_state(int folder, DeviceState *state);
Code save_state(int folder, const DeviceState &state);

int64_t clock_s();

// Other processes wait until this ends.
class FolderLock {
 public:
  explicit FolderLock(int folder);
  ~FolderLock();
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;

 private:
  int folder_;
};

}  // namespace tunefarm
