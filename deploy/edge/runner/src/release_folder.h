// A folder with a release: its signature, its rules, and its files.
#pragma once

#include "device_state.h"
#include "files.h"
#include "release_text.h"

namespace tunefarm {

// A release whose signature is right, with the bytes that were signed.
struct SignedRelease {
  Memory bytes;
  size_t size = 0;
  unsigned char signature[64];
  Memory parsed;
  const ReleaseText &text() const { return *reinterpret_cast<const ReleaseText *>(parsed.get()); }
};

const char *channel_of(const TunefarmRunnerOptions &options);

// Reads CHANNEL.runner and CHANNEL.sig of a folder. Nothing is parsed before its signature is verified.
Code read_release(int folder, const TunefarmRunnerKeys &keys, const TunefarmRunnerOptions &options,
                  SignedRelease *release);

// Whether the device may run a release now. `allowed_old` is the sequence below the floor that it may, or 0.
Code check_release(const ReleaseText &release, const DeviceState &state, const TunefarmRunnerOptions &options,
                   int64_t now, uint64_t allowed_old);

// Opens a file, and compares its size and SHA-256. The descriptor is at the file's beginning.
Code open_verified(int folder, const ReleaseFile &expected, Descriptor *file);

// Copies the content of a file while it computes its SHA-256.
Code copy_verified(int folder, const ReleaseFile &expected, int output);

Code verify_files(int folder, const ReleaseText &release);

}  // namespace tunefarm
