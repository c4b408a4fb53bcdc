// A folder with a release: its signature, its rules, and its files.
#pragma once

#include "device_state.h"
#include "files.h"
#include "release_text.h"

namespace tunefarm {

constexpr size_t SIGNATURE_BYTES = 64;
constexpr size_t MAX_SIGNATURES = 16;

// A release whose signatures are right, with the bytes that were signed.
struct SignedRelease {
  Memory bytes;
  size_t size = 0;
  unsigned char signatures[MAX_SIGNATURES * SIGNATURE_BYTES];
  size_t signatures_size = 0;
  Memory parsed;
  const ReleaseText &text() const { return *reinterpret_cast<const ReleaseText *>(parsed.get()); }
};

const char *channel_of(const TunefarmRunnerOptions &options);

// Reads CHANNEL.runner and CHANNEL.sig of a folder or of runners/ below it. Nothing is parsed before its signatures are
// verified.
Code read_release(int folder, const TunefarmRunnerKeys &keys, const TunefarmRunnerOptions &options,
                  SignedRelease *release);

// Whether the device may run a release now. An installed one may be below the floor if the state names it.
Code check_release(const ReleaseText &release, const DeviceState &state, const TunefarmRunnerOptions &options,
                   int64_t now, bool is_installed);

// Opens a file, and compares its size and SHA-256. The descriptor is at the file's beginning.
Code open_verified(int folder, const ReleaseFile &expected, Descriptor *file);

// Copies the content of a file while it computes its SHA-256; an `output` of -1 copies nothing.
Code copy_verified(int folder, const ReleaseFile &expected, int output);

// Verifies all files but those that `Model::load` verifies itself before it loads any of them. SHA-256 takes most of the
// time until the first inference, so the large files are read once.
Code verify_other_files(int folder, const ReleaseText &release);

}  // namespace tunefarm
