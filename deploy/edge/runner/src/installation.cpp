// Installs releases, and returns to earlier ones.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "release_folder.h"
#include "report_text.h"
#include "root_folder.h"
#include "self_test_child.h"

namespace tunefarm {
namespace {

constexpr const char *STAGING = "staging";
constexpr uint64_t BLOCK_BYTES = 4096;

class Installation {
 public:
  Installation(const char *path, const TunefarmRunnerKeys &keys, int64_t now, const TunefarmRunnerOptions &options)
      : path_(path), keys_(keys), now_(now == 0 ? clock_s() : now), options_(options) {}

  Code install(const char *source_path) {
    Code code = begin();
    if (code != TUNEFARM_RUNNER_OK) return code;
    Descriptor source(open_folder(AT_FDCWD, source_path));
    if (!source.is_open()) return fail_system("cannot open", source_path);
    code = read_release(source.get(), keys_, options_, &release_);
    if (code != TUNEFARM_RUNNER_OK) return code;
    code = check_release(release_.text(), state_, options_, now_, false);
    if (code == TUNEFARM_RUNNER_REVOKED || code == TUNEFARM_RUNNER_WRONG_TARGET) return cannot_run(code);
    if (code != TUNEFARM_RUNNER_OK) return finished(code);
    snprintf(target_, sizeof target_, "%s/%" PRIu64 "-%s", RELEASES, release_.text().sequence, release_.text().name);
    if (release_.text().sequence == current_sequence_) return again(source.get());
    code = remember();
    if (code == TUNEFARM_RUNNER_OK) code = stage(source.get());
    if (code == TUNEFARM_RUNNER_OK) code = tested(STAGING);
    if (code == TUNEFARM_RUNNER_OK) code = place();
    if (code != TUNEFARM_RUNNER_OK) {
      // What remains of it is removed by the next installation if that is not possible now.
      remove_tree(root_.root.get(), STAGING);
      return finished(code);
    }
    return activate();
  }

  Code rollback() {
    Code code = begin();
    if (code != TUNEFARM_RUNNER_OK) return code;
    if (state_.retained == current_sequence_ || !root_.find(state_.retained, target_, sizeof target_))
      return fail(TUNEFARM_RUNNER_UNREACHABLE, "there is no release before the current one");
    Descriptor folder(open_folder(root_.root.get(), target_));
    if (!folder.is_open()) return fail_system("cannot open", target_);
    code = read_release(folder.get(), keys_, options_, &release_);
    if (code == TUNEFARM_RUNNER_OK) code = check_release(release_.text(), state_, options_, now_, true);
    if (code == TUNEFARM_RUNNER_OK) code = verify_other_files(folder.get(), release_.text());
    if (code == TUNEFARM_RUNNER_OK) code = tested(target_);
    return code == TUNEFARM_RUNNER_OK ? root_.switch_to(target_) : code;
  }

 private:
  Code begin() {
    Code code = root_.open(path_, options_);
    if (code != TUNEFARM_RUNNER_OK) return code;
    if (make_folder(root_.root.get(), RELEASES) != 0) return fail_system("cannot make", RELEASES);
    lock_.reset(open_folder(root_.root.get(), RELEASES));
    if (!lock_.is_open() || flock(lock_.get(), LOCK_EX | LOCK_NB) != 0)
      return fail(TUNEFARM_RUNNER_INTERRUPTED, "another installation is running");
    code = load_state(root_.state.get(), &state_);
    return code != TUNEFARM_RUNNER_OK ? code : root_.current(current_, sizeof current_, &current_sequence_);
  }

  // The floor rises before anything is copied: what was seen once is not undone by what follows. What runs may run on.
  Code remember() {
    if (current_sequence_ != 0) state_.running = current_sequence_;
    raise_floor(release_.text().sequence, release_.text().revoked_below);
    return save();
  }

  void raise_floor(uint64_t sequence, uint64_t revoked_below) {
    if (sequence > state_.sequence) state_.sequence = sequence;
    if (revoked_below > state_.revoked_below) state_.revoked_below = revoked_below;
  }

  // A text counts even if the device cannot run its release: none before it is installed, and what it revokes is left.
  Code cannot_run(Code code) {
    bool rises = release_.text().sequence > state_.sequence || release_.text().revoked_below > state_.revoked_below;
    Code saved = rises ? remember() : TUNEFARM_RUNNER_OK;
    return saved == TUNEFARM_RUNNER_OK ? finished(code) : saved;
  }

  // A runner may have raised the floor meanwhile.
  Code save() {
    FolderLock lock(root_.state.get());
    DeviceState now_there;
    Code code = load_state(root_.state.get(), &now_there);
    if (code != TUNEFARM_RUNNER_OK) return code;
    raise_floor(now_there.sequence, now_there.revoked_below);
    if (now_there.time > state_.time) state_.time = now_there.time;
    if (now_ > state_.time) state_.time = now_;
    return save_state(root_.state.get(), state_);
  }

  Code stage(int source) {
    const ReleaseText &text = release_.text();
    uint64_t needed = BLOCK_BYTES * (text.files + 8);
    for (size_t i = 0; i < text.files; ++i) needed += text.file[i].bytes;
    struct statvfs space;
    if (remove_tree(root_.root.get(), STAGING) != 0 || make_folder(root_.root.get(), STAGING) != 0)
      return fail_system("cannot make", STAGING);
    if (fstatvfs(root_.root.get(), &space) != 0) return fail_system("cannot read", path_);
    if (static_cast<uint64_t>(space.f_bavail) * space.f_frsize < needed)
      return fail(TUNEFARM_RUNNER_NO_SPACE, "release %s needs %" PRIu64 " free bytes", text.name, needed);
    Descriptor staging(open_folder(root_.root.get(), STAGING));
    if (!staging.is_open()) return fail_system("cannot open", STAGING);
    for (size_t i = 0; i < text.files; ++i) {
      Code code = stage_file(source, staging.get(), text.file[i]);
      if (code != TUNEFARM_RUNNER_OK) return code;
    }
    return write_texts(staging.get());
  }

  Code write_texts(int folder) {
    char name[128];
    snprintf(name, sizeof name, "%s.runner", release_.text().channel);
    if (replace_file(folder, name, release_.bytes.get(), release_.size) != 0)
      return fail_system("cannot write", name);
    snprintf(name, sizeof name, "%s.sig", release_.text().channel);
    if (replace_file(folder, name, release_.signatures, release_.signatures_size) != 0)
      return fail_system("cannot write", name);
    return TUNEFARM_RUNNER_OK;
  }

  static Code stage_file(int source, int staging, const ReleaseFile &expected) {
    if (make_parents(staging, expected.path) != 0) return fail_system("cannot make the folder of", expected.path);
    Descriptor output(create_file(staging, expected.path));
    if (!output.is_open()) return fail_system("cannot write", expected.path);
    Code code = copy_verified(source, expected, output.get());
    if (code != TUNEFARM_RUNNER_OK) return code;
    if (sync_file(output.get()) != 0 || sync_parents(staging, expected.path) != 0)
      return fail_system("cannot write", expected.path);
    return TUNEFARM_RUNNER_OK;
  }

  Code tested(const char *folder_path) {
    Descriptor folder(open_folder(root_.root.get(), folder_path));
    if (!folder.is_open()) return fail_system("cannot open", folder_path);
    return self_test_in_child(folder.get(), lock_.get(), release_.text(), options_, &outcome_);
  }

  // Gives the staged release its name. An earlier attempt that was rolled back may have it.
  Code place() {
    int failed = remove_tree(root_.root.get(), target_);
    if (failed == 0) failed = rename_in(root_.root.get(), STAGING, target_);
    if (failed == 0) failed = sync_folder(root_.root.get(), RELEASES);
    if (failed == 0) failed = sync_folder(root_.root.get(), ".");
    return failed == 0 ? TUNEFARM_RUNNER_OK : fail_system("cannot write", target_);
  }

  bool has_health() const { return options_.health != nullptr || options_.health_command != nullptr; }

  // A release that was not confirmed is nothing to return to.
  Code activate() {
    if (state_.unconfirmed == 0 && current_sequence_ != 0) state_.retained = current_sequence_;
    state_.unconfirmed = has_health() ? release_.text().sequence : 0;
    Code code = save();
    if (code == TUNEFARM_RUNNER_OK) code = root_.switch_to(target_);
    return code == TUNEFARM_RUNNER_OK ? confirm() : finished(code);
  }

  // The installed release once more: what was damaged is replaced, and after a power cut its health is checked.
  Code again(int source) {
    bool is_repaired = false;
    Code code = strcmp(target_, current_) == 0 ? repair(source, &is_repaired) : TUNEFARM_RUNNER_OK;
    if (code != TUNEFARM_RUNNER_OK) {
      remove_tree(root_.root.get(), STAGING);
      return finished(code);
    }
    snprintf(target_, sizeof target_, "%s", current_);
    if (state_.unconfirmed == current_sequence_ && has_health()) return confirm();
    return is_repaired ? finished(code) : code;
  }

  // The files are those that the installed text names. If that is damaged, it comes last: without it nothing is run.
  Code repair(int source, bool *is_repaired) {
    if (make_folder(root_.root.get(), current_) != 0) return fail_system("cannot make", current_);
    Descriptor folder(open_folder(root_.root.get(), current_));
    if (!folder.is_open()) return fail_system("cannot open", current_);
    SignedRelease installed;
    bool has_text = read_release(folder.get(), keys_, options_, &installed) == TUNEFARM_RUNNER_OK;
    const ReleaseText &text = has_text ? installed.text() : release_.text();
    for (size_t i = 0; i < text.files; ++i) {
      if (copy_verified(folder.get(), text.file[i], -1) == TUNEFARM_RUNNER_OK) continue;
      Code code = replace_damaged(source, folder.get(), text.file[i]);
      if (code != TUNEFARM_RUNNER_OK) return code;
      *is_repaired = true;
    }
    if (has_text) return TUNEFARM_RUNNER_OK;
    *is_repaired = true;
    return write_texts(folder.get());
  }

  // By a rename: programs that have mapped the file keep it.
  Code replace_damaged(int source, int folder, const ReleaseFile &file) {
    char from[MAX_PATH_BYTES], to[MAX_PATH_BYTES];
    snprintf(from, sizeof from, "%s/%s", STAGING, file.path);
    snprintf(to, sizeof to, "%s/%s", current_, file.path);
    if (remove_tree(root_.root.get(), STAGING) != 0 || make_folder(root_.root.get(), STAGING) != 0)
      return fail_system("cannot make", STAGING);
    Descriptor staging(open_folder(root_.root.get(), STAGING));
    if (!staging.is_open()) return fail_system("cannot open", STAGING);
    Code code = stage_file(source, staging.get(), file);
    if (code != TUNEFARM_RUNNER_OK) return code;
    if (make_parents(folder, file.path) != 0 || rename_in(root_.root.get(), from, to) != 0 ||
        sync_parents(folder, file.path) != 0)
      return fail_system("cannot write", file.path);
    return TUNEFARM_RUNNER_OK;
  }

  Code confirm() {
    char folder[MAX_PATH_BYTES];
    snprintf(folder, sizeof folder, "%s/%s", path_, target_);
    Code code = TUNEFARM_RUNNER_OK;
    if (has_health() && health_of(options_, folder) != 0) {
      code = fail(TUNEFARM_RUNNER_HEALTH_CHECK_FAILED, "the health check of release %s failed", release_.text().name);
      return_to_retained();
      return finished(code);
    }
    state_.unconfirmed = 0;
    code = save();
    if (code == TUNEFARM_RUNNER_OK)
      root_.prune(options_.keep > 2 ? options_.keep : 2, release_.text().sequence, state_.retained);
    return finished(code);
  }

  void return_to_retained() {
    if (root_.find(state_.retained, previous_, sizeof previous_) && strcmp(previous_, target_) != 0) {
      if (root_.switch_to(previous_) != TUNEFARM_RUNNER_OK) return;
      outcome_.rolled_back_to = strchr(previous_ + strlen(RELEASES), '-') + 1;
    } else {
      remove_file(root_.root.get(), CURRENT);
      sync_folder(root_.root.get(), ".");
    }
    state_.unconfirmed = 0;
    if (save() == TUNEFARM_RUNNER_OK) remove_tree(root_.root.get(), target_);
    fail(TUNEFARM_RUNNER_HEALTH_CHECK_FAILED, "the health check of release %s failed", release_.text().name);
  }

  // Leaves a report. Its loss is not a failure of the installation.
  Code finished(Code code) {
    char buffer[MAX_EVENT_BYTES];
    Text text(buffer, sizeof buffer);
    outcome_.release = release_.text().name;
    // A text without variants has no name of a release: what it stops is the current one.
    if (*outcome_.release == 0 && current_sequence_ != 0) outcome_.release = strchr(current_ + strlen(RELEASES), '-') + 1;
    if (*outcome_.release == 0) return code;
    write_event(outcome_, code, now_, &text);
    if (text.fits()) replace_file(root_.state.get(), EVENT_NAME, buffer, text.size());
    return code;
  }

  const char *path_;
  const TunefarmRunnerKeys &keys_;
  int64_t now_;
  const TunefarmRunnerOptions &options_;
  RootFolder root_;
  Descriptor lock_;
  DeviceState state_;
  SignedRelease release_;
  InstallOutcome outcome_ = {};
  char current_[256], target_[256], previous_[256];
  uint64_t current_sequence_ = 0;
};

}  // namespace
}  // namespace tunefarm

extern "C" TunefarmRunnerCode tunefarm_runner_install(const char *root, const char *source,
                                                      const TunefarmRunnerKeys *keys, int64_t now,
                                                      const TunefarmRunnerOptions *options) {
  return tunefarm::Installation(root, *keys, now, *options).install(source);
}

extern "C" TunefarmRunnerCode tunefarm_runner_rollback(const char *root, const TunefarmRunnerKeys *keys, int64_t now,
                                                       const TunefarmRunnerOptions *options) {
  return tunefarm::Installation(root, *keys, now, *options).rollback();
}

extern "C" TunefarmRunnerCode tunefarm_runner_missing(const char *source, const TunefarmRunnerKeys *keys, int64_t now,
                                                      const TunefarmRunnerOptions *options,
                                                      void (*each)(void *context, const char *sha256, uint64_t bytes),
                                                      void *context) {
  using namespace tunefarm;
  SignedRelease release;
  Descriptor folder(open_folder(AT_FDCWD, source));
  if (!folder.is_open()) return fail_system("cannot open", source);
  Code code = read_release(folder.get(), *keys, *options, &release);
  if (code == TUNEFARM_RUNNER_OK)
    code = check_release(release.text(), DeviceState(), *options, now == 0 ? clock_s() : now, false);
  if (code != TUNEFARM_RUNNER_OK) return code;
  for (size_t i = 0; i < release.text().files; ++i) {
    char digest[DIGEST_BYTES * 2 + 1];
    const ReleaseFile &file = release.text().file[i];
    for (size_t j = 0; j < DIGEST_BYTES; ++j) snprintf(digest + j * 2, 3, "%02x", file.digest[j]);
    if (copy_verified(folder.get(), file, -1) != TUNEFARM_RUNNER_OK) each(context, digest, file.bytes);
  }
  return TUNEFARM_RUNNER_OK;
}
