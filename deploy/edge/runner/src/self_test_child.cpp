#include "self_test_child.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model.h"

namespace tunefarm {
namespace {

struct Answer {
  Code code;
  double worst_error, best_s;
  char message[300];
};

// The child ends with its parent, and by itself if nobody waits for it.
void bind_to(pid_t parent, int seconds) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  signal(SIGALRM, SIG_DFL);
  alarm(static_cast<unsigned>(seconds) + 1);
}

void answer(int folder, const ReleaseText &release, int threads, int output) {
  Answer given = {};
  {
    Model model;
    given.code = model.load(folder, release, threads);
    if (given.code == TUNEFARM_RUNNER_OK)
      given.code = model.run_vectors(folder, release, false, &given.worst_error, &given.best_s);
  }
  snprintf(given.message, sizeof given.message, "%s", tunefarm_runner_message());
  _exit(write(output, &given, sizeof given) == sizeof given ? 0 : 1);
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

}  // namespace

Code self_test_in_child(int folder, int lock, const ReleaseText &release, const TunefarmRunnerOptions &options,
                        InstallOutcome *outcome) {
  int ends[2], seconds = options.self_test_timeout_s > 0 ? options.self_test_timeout_s : 60;
  if (pipe(ends) != 0) return fail_system("cannot start", "the self-test");
  pid_t parent = getpid(), child = fork();
  if (child == 0) {
    close(ends[0]);
    close(lock);
    bind_to(parent, seconds);
    answer(folder, release, options.threads, ends[1]);
  }
  close(ends[1]);
  Descriptor input(ends[0]);
  if (child < 0) return fail_system("cannot start", "the self-test");
  double until_s = seconds_now() + seconds;
  struct pollfd wanted = {input.get(), POLLIN, 0};
  int ready = -1;
  while (ready < 0) {
    double left_s = fmax(until_s - seconds_now(), 0.0);
    ready = poll(&wanted, 1, static_cast<int>(fmin(left_s, 1e6) * 1000));
    if (ready < 0 && errno != EINTR) break;
  }
  Answer given = {};
  bool answered = ready > 0 && read(input.get(), &given, sizeof given) == sizeof given;
  if (!answered) kill(child, SIGKILL);
  int status = wait_for(child);
  if (!answered && ready > 0 && WIFSIGNALED(status))
    return fail(TUNEFARM_RUNNER_CRASHED, "the self-test ended by signal %d", WTERMSIG(status));
  if (!answered) return fail(TUNEFARM_RUNNER_CRASHED, "the self-test took more than %d s", seconds);
  outcome->has_self_test = true;
  outcome->passed = given.code == TUNEFARM_RUNNER_OK;
  outcome->worst_error = given.worst_error;
  outcome->best_s = given.best_s;
  return outcome->passed ? TUNEFARM_RUNNER_OK : fail(given.code, "%s", given.message);
}

int health_of(const TunefarmRunnerOptions &options, const char *folder) {
  if (options.health != nullptr && options.health(options.health_context, folder) != 0) return -1;
  if (options.health_command == nullptr) return 0;
  pid_t child = fork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", options.health_command, "sh", folder, static_cast<char *>(nullptr));
    _exit(127);
  }
  return child < 0 ? -1 : wait_for(child);
}

}  // namespace tunefarm
