/* Installs, verifies and runs models on devices without Python.
 *
 *     TunefarmRunnerOptions options = {0};
 *     TunefarmRunner *runner;
 *     if (tunefarm_runner_open("/var/lib/model", &keys, 0, &options, &runner) != TUNEFARM_RUNNER_OK)
 *       puts(tunefarm_runner_message());
 *     tunefarm_runner_run(runner, inputs, outputs);
 *
 * A runner belongs to one thread at a time. After `tunefarm_runner_open`, polling, inference and reports allocate no
 * memory. Link with libsodium, the C library and, on older systems, libdl. */
#ifndef TUNEFARM_RUNNER_H_
#define TUNEFARM_RUNNER_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Why a release is not run. The names are those of reports to the service. */
typedef enum {
  TUNEFARM_RUNNER_OK = 0,
  TUNEFARM_RUNNER_TAMPERED,            /* a signature, a digest, a size or the form of a file is wrong */
  TUNEFARM_RUNNER_EXPIRED,             /* past its expiry, or older than max_age_s */
  TUNEFARM_RUNNER_DOWNGRADED,          /* a newer release has been seen */
  TUNEFARM_RUNNER_WRONG_TARGET,        /* another channel, or no variant for this processor */
  TUNEFARM_RUNNER_REVOKED,
  TUNEFARM_RUNNER_NO_SPACE,
  TUNEFARM_RUNNER_CLOCK_ROLLED_BACK,   /* the clock is behind a time that the device has seen */
  TUNEFARM_RUNNER_UNREACHABLE,         /* there is no release, or one of its files is missing */
  TUNEFARM_RUNNER_INTERRUPTED,         /* reading or writing failed */
  TUNEFARM_RUNNER_LOAD_FAILED,         /* model.so cannot be loaded, memory is short, or a run failed */
  TUNEFARM_RUNNER_SELF_TEST_FAILED,
  TUNEFARM_RUNNER_HEALTH_CHECK_FAILED,
  TUNEFARM_RUNNER_CRASHED,             /* the self-test ended by a signal or took too long */
  TUNEFARM_RUNNER_NEWER                /* of tunefarm_runner_poll: open the root again; not an error */
} TunefarmRunnerCode;

typedef struct TunefarmRunner TunefarmRunner;

/* Ed25519 public keys, 32 bytes each, one after the other; at most 8. */
typedef struct {
  const unsigned char *bytes;
  size_t count;
} TunefarmRunnerKeys;

/* Zeros are the defaults. */
typedef struct {
  const char *channel;         /* null: stable */
  size_t key_threshold;        /* how many of the keys must have signed; 0: 1 */
  const char *state_folder;    /* where the device keeps what it has seen; null: the root */
  int64_t max_age_s;           /* since a release was issued; 0: until its expiry */
  int64_t clock_tolerance_s;   /* by how much the clock may go back */
  uint64_t min_sequence;       /* known to the program, for devices that lose their state */
  int threads;                 /* of parallel loops; 0: 1 */
  int skip_warm_up;            /* do not run the first test vector in tunefarm_runner_open */
  int keep;                    /* releases kept by an installation, at least 2; 0: 2 */
  int self_test_timeout_s;     /* 0: 60 */
  /* Called after the switch with the folder of the new release; not 0 rolls back. */
  int (*health)(void *context, const char *folder);
  void *health_context;
  const char *health_command;  /* a shell command, likewise; it gets the folder as $1 */
} TunefarmRunnerOptions;

typedef enum { TUNEFARM_RUNNER_INPUT, TUNEFARM_RUNNER_OUTPUT } TunefarmRunnerDirection;

/* An input or output: its name, DLPack's type code and bits, sizes, and bytes. */
typedef struct {
  const char *name;
  uint8_t code, bits;
  int32_t dimensions;
  const int64_t *shape;
  uint64_t bytes;
} TunefarmRunnerTensor;

/* Verifies the release in `root` completely, then loads it. `root` is where tunefarm_runner_install installs, or a folder
 * with stable.runner and stable.sig, or with both in runners/, and either files/<sha256> or the files by their names. `now` is in seconds since 1970;
 * 0 reads the clock. */
TunefarmRunnerCode tunefarm_runner_open(const char *root, const TunefarmRunnerKeys *keys, int64_t now,
                                        const TunefarmRunnerOptions *options, TunefarmRunner **runner);

/* Checks expiry and revocation again, and whether another release is installed. */
TunefarmRunnerCode tunefarm_runner_poll(TunefarmRunner *runner, int64_t now);

/* The entries of a release are functions with inputs and outputs of their own. A release of a model has one, which
 * tunefarm_runner_open selects; of several, select one first. The name of a position that is none is null. */
int tunefarm_runner_entries(const TunefarmRunner *runner);
const char *tunefarm_runner_entry(const TunefarmRunner *runner, int position);

/* Sets the entry that tunefarm_runner_run, _tensors and _tensor are about; null means the only one. */
TunefarmRunnerCode tunefarm_runner_select(TunefarmRunner *runner, const char *entry);

/* Runs the selected entry. Inputs and outputs begin at multiples of 64 bytes. */
TunefarmRunnerCode tunefarm_runner_run(TunefarmRunner *runner, void *const *inputs, void *const *outputs);

/* Runs the test vectors of all entries. `worst_error` is relative to what the manifest permits; may be null. */
TunefarmRunnerCode tunefarm_runner_self_test(TunefarmRunner *runner, double *worst_error);

int tunefarm_runner_tensors(const TunefarmRunner *runner, TunefarmRunnerDirection direction);
TunefarmRunnerCode tunefarm_runner_tensor(const TunefarmRunner *runner, TunefarmRunnerDirection direction, int position,
                                          TunefarmRunnerTensor *tensor);
const char *tunefarm_runner_release(const TunefarmRunner *runner);
uint64_t tunefarm_runner_sequence(const TunefarmRunner *runner);

/* Writes what the service takes as EdgeReports, with a 0 at its end: the last installation, and latencies since the last
 * report. Returns the bytes of the text; 0 if there is nothing to report; -1 if `size` is too small (4096 suffice). */
long tunefarm_runner_report(TunefarmRunner *runner, int64_t now, char *buffer, size_t size);

/* Forgets what tunefarm_runner_report wrote last; call it when the service has it. */
void tunefarm_runner_reported(TunefarmRunner *runner);

void tunefarm_runner_close(TunefarmRunner *runner);

/* Copies a release from the folder `source` into `root`, runs its self-test in a child process, switches to it, and checks
 * its health. After a failure `root` has the release that it had. If the installed release is as new, replaces
 * those of its files that are damaged, and does nothing else. */
TunefarmRunnerCode tunefarm_runner_install(const char *root, const char *source, const TunefarmRunnerKeys *keys,
                                           int64_t now, const TunefarmRunnerOptions *options);

/* Verifies the text of the release in the folder `source`, and calls `each` with the SHA-256 in hexadecimal and the size of
 * each file that this device needs of it and the folder lacks or has with other content. */
TunefarmRunnerCode tunefarm_runner_missing(const char *source, const TunefarmRunnerKeys *keys, int64_t now,
                                           const TunefarmRunnerOptions *options,
                                           void (*each)(void *context, const char *sha256, uint64_t bytes), void *context);

/* Returns to the release before the last installation. */
TunefarmRunnerCode tunefarm_runner_rollback(const char *root, const TunefarmRunnerKeys *keys, int64_t now,
                                            const TunefarmRunnerOptions *options);

/* Why the last call of this thread failed. */
const char *tunefarm_runner_message(void);

/* The name of a code in reports, such as "tampered". */
const char *tunefarm_runner_code_name(TunefarmRunnerCode code);

/* Features of this processor as the operating system names them, with a space after each. */
size_t tunefarm_runner_cpu_features(char *buffer, size_t size);

#ifdef __cplusplus
}
#endif
#endif
