#include "release_folder.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium/crypto_hash_sha256.h>
#include <sodium/crypto_sign_ed25519.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tunefarm {
namespace {

constexpr size_t CHUNK_BYTES = 16384;
static_assert(DIGEST_BYTES == crypto_hash_sha256_BYTES, "digests are SHA-256");

bool has_signed(const SignedRelease &release, const unsigned char *key) {
  for (size_t i = 0; i < release.signatures_size; i += SIGNATURE_BYTES)
    if (crypto_sign_ed25519_verify_detached(release.signatures + i, release.bytes.get(), release.size, key) == 0)
      return true;
  return false;
}

// Whether as many keys have signed as must. A key that is pinned twice counts once.
bool is_signed(const SignedRelease &release, const TunefarmRunnerKeys &keys, size_t threshold) {
  size_t found = 0;
  for (size_t i = 0; i < keys.count; ++i) {
    const unsigned char *key = keys.bytes + i * crypto_sign_ed25519_PUBLICKEYBYTES;
    bool is_new = true;
    for (size_t j = 0; j < i && is_new; ++j)
      is_new = memcmp(keys.bytes + j * crypto_sign_ed25519_PUBLICKEYBYTES, key, crypto_sign_ed25519_PUBLICKEYBYTES) != 0;
    if (is_new && has_signed(release, key)) ++found;
  }
  return found > 0 && found >= threshold;
}

// By its path, or in files/ by its digest.
int open_file(int folder, const ReleaseFile &expected) {
  int file = open_plain(folder, expected.path);
  if (file >= 0 || errno != ENOENT) return file;
  char path[6 + DIGEST_BYTES * 2 + 1] = "files/";
  for (size_t i = 0; i < DIGEST_BYTES; ++i) snprintf(path + 6 + i * 2, 3, "%02x", expected.digest[i]);
  return open_plain(folder, path);
}

// Reads a file to its end; `output` is a file that gets its content, or -1.
Code digested(int file, const ReleaseFile &expected, int output) {
  crypto_hash_sha256_state hash;
  unsigned char digest[DIGEST_BYTES], chunk[CHUNK_BYTES];
  uint64_t bytes = 0;
  crypto_hash_sha256_init(&hash);
  for (;;) {
    ssize_t got = read(file, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_system("cannot read", expected.path);
    if (got == 0) break;
    bytes += static_cast<uint64_t>(got);
    if (bytes > expected.bytes) break;
    crypto_hash_sha256_update(&hash, chunk, static_cast<unsigned long long>(got));
    if (output >= 0 && write_all(output, chunk, static_cast<size_t>(got)) != 0)
      return fail_system("cannot write", expected.path);
  }
  crypto_hash_sha256_final(&hash, digest);
  if (bytes != expected.bytes || memcmp(digest, expected.digest, sizeof digest) != 0)
    return fail(TUNEFARM_RUNNER_TAMPERED, "%s differs from the signed release", expected.path);
  return TUNEFARM_RUNNER_OK;
}

Code open_sized(int folder, const ReleaseFile &expected, Descriptor *file) {
  struct stat facts;
  file->reset(open_file(folder, expected));
  if (!file->is_open() || fstat(file->get(), &facts) != 0) return fail_system("cannot open", expected.path);
  if (static_cast<uint64_t>(facts.st_size) != expected.bytes)
    return fail(TUNEFARM_RUNNER_TAMPERED, "%s has another size than in the signed release", expected.path);
  return TUNEFARM_RUNNER_OK;
}

}  // namespace

const char *channel_of(const TunefarmRunnerOptions &options) {
  return options.channel == nullptr ? "stable" : options.channel;
}

Code read_release(int folder, const TunefarmRunnerKeys &keys, const TunefarmRunnerOptions &options,
                  SignedRelease *release) {
  char name[128];
  const char *channel = channel_of(options);
  if (!release->bytes.allocate(MAX_TEXT_BYTES) || !release->parsed.allocate(sizeof(ReleaseText), alignof(ReleaseText)))
    return fail(TUNEFARM_RUNNER_LOAD_FAILED, "out of memory");
  const char *place = "";
  snprintf(name, sizeof name, "%.100s.runner", channel);
  ssize_t size = read_small(folder, name, release->bytes.get(), MAX_TEXT_BYTES);
  if (size < 0 && errno == ENOENT) {
    place = "runners/";
    snprintf(name, sizeof name, "%s%.100s.runner", place, channel);
    size = read_small(folder, name, release->bytes.get(), MAX_TEXT_BYTES);
  }
  if (size < 0 && errno == EFBIG) return fail(TUNEFARM_RUNNER_TAMPERED, "%s is too large", name);
  if (size < 0) return fail_system("cannot read", name);
  release->size = static_cast<size_t>(size);
  snprintf(name, sizeof name, "%s%.100s.sig", place, channel);
  ssize_t signatures = read_small(folder, name, release->signatures, sizeof release->signatures);
  if (signatures < 0 && errno != EFBIG) return fail_system("cannot read", name);
  release->signatures_size = signatures < 0 ? 0 : static_cast<size_t>(signatures);
  if (release->signatures_size % SIGNATURE_BYTES != 0 || !is_signed(*release, keys, options.key_threshold))
    return fail(TUNEFARM_RUNNER_TAMPERED, "the release is not signed by enough known keys");
  Code code = parse_release(release->bytes.text(), release->size, reinterpret_cast<ReleaseText *>(release->parsed.get()));
  if (code != TUNEFARM_RUNNER_OK) return code;
  if (strcmp(release->text().channel, channel) != 0)
    return fail(TUNEFARM_RUNNER_WRONG_TARGET, "the release is for the channel %s", release->text().channel);
  return TUNEFARM_RUNNER_OK;
}

Code check_release(const ReleaseText &release, const DeviceState &state, const TunefarmRunnerOptions &options,
                   int64_t now, bool is_installed) {
  int64_t seen = release.issued > state.time ? release.issued : state.time;
  if (now + options.clock_tolerance_s < seen)
    return fail(TUNEFARM_RUNNER_CLOCK_ROLLED_BACK, "the clock is %" PRId64 " s behind a time seen before", seen - now);
  if (release.sequence < state.revoked_below)
    return fail(TUNEFARM_RUNNER_REVOKED, "the release of sequence %" PRIu64 " is revoked", release.sequence);
  bool is_permitted = is_installed && (release.sequence == state.retained || release.sequence == state.running);
  bool is_old = release.sequence < state.sequence && !is_permitted;
  if (is_old || release.sequence < options.min_sequence)
    return fail(TUNEFARM_RUNNER_DOWNGRADED, "a newer release than %s has been seen", release.name);
  if (now >= release.expires) return fail(TUNEFARM_RUNNER_EXPIRED, "release %s has expired", release.name);
  if (options.max_age_s > 0 && now - release.issued > options.max_age_s)
    return fail(TUNEFARM_RUNNER_EXPIRED, "release %s is older than permitted", release.name);
  if (release.sequence < release.revoked_below)
    return fail(TUNEFARM_RUNNER_REVOKED, "the release of sequence %" PRIu64 " is revoked", release.sequence);
  if (!release.has_variant)
    return fail(TUNEFARM_RUNNER_WRONG_TARGET, "release %s has no variant for this processor", release.name);
  return TUNEFARM_RUNNER_OK;
}

Code open_verified(int folder, const ReleaseFile &expected, Descriptor *file) {
  Code code = open_sized(folder, expected, file);
  if (code == TUNEFARM_RUNNER_OK) code = digested(file->get(), expected, -1);
  if (code == TUNEFARM_RUNNER_OK && lseek(file->get(), 0, SEEK_SET) != 0)
    code = fail_system("cannot read", expected.path);
  return code;
}

Code copy_verified(int folder, const ReleaseFile &expected, int output) {
  Descriptor file;
  Code code = open_sized(folder, expected, &file);
  return code != TUNEFARM_RUNNER_OK ? code : digested(file.get(), expected, output);
}

Code verify_other_files(int folder, const ReleaseText &release) {
  for (size_t i = 0; i < release.files; ++i) {
    const char *path = release.file[i].path;
    if (strcmp(path, MANIFEST) == 0 || strcmp(path, LIBRARY) == 0 || strcmp(path, WEIGHTS) == 0) continue;
    Code code = copy_verified(folder, release.file[i], -1);
    if (code != TUNEFARM_RUNNER_OK) return code;
  }
  return TUNEFARM_RUNNER_OK;
}

}  // namespace tunefarm
