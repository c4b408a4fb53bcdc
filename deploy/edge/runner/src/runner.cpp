// The runner of an installed release.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model.h"
#include "release_folder.h"
#include "report_text.h"
#include "root_folder.h"

using namespace tunefarm;

namespace {
// Storage wears out; a clock that goes back by less than this after a power cut is not noticed.
constexpr int64_t TIME_STEP_S = 3600;
}  // namespace

struct TunefarmRunner {
  // In memory of malloc: devices need no C++ library.
  static void *operator new(size_t, void *memory) { return memory; }
  static void operator delete(void *) {}

  RootFolder root;
  Descriptor folder;
  SignedRelease release;
  Model model;
  TunefarmRunnerOptions options;
  char channel[101], current[256];
  uint64_t current_sequence;
  Latencies latencies;
  char event[MAX_EVENT_BYTES + 1], latency_event[600];

  Code open(const char *path, const TunefarmRunnerKeys &keys, int64_t now);
  Code check(int64_t now, int64_t time_step_s);
  void event_of_latencies(int64_t now);
};

Code TunefarmRunner::open(const char *path, const TunefarmRunnerKeys &keys, int64_t now) {
  Code code = root.open(path, options);
  if (code == TUNEFARM_RUNNER_OK) code = root.current(current, sizeof current, &current_sequence);
  if (code != TUNEFARM_RUNNER_OK) return code;
  folder.reset(open_folder(root.root.get(), current_sequence == 0 ? "." : current));
  if (!folder.is_open()) return fail_system("cannot open", current_sequence == 0 ? path : current);
  code = read_release(folder.get(), keys, options, &release);
  if (code == TUNEFARM_RUNNER_OK) code = check(now, 0);
  if (code == TUNEFARM_RUNNER_OK) code = verify_other_files(folder.get(), release.text());
  if (code == TUNEFARM_RUNNER_OK) code = model.load(folder.get(), release.text(), options.threads);
  double unused = 0.0;
  if (code == TUNEFARM_RUNNER_OK && !options.skip_warm_up)
    code = model.run_vectors(folder.get(), release.text(), true, nullptr, &unused);
  return code;
}

Code TunefarmRunner::check(int64_t now, int64_t time_step_s) {
  FolderLock lock(root.state.get());
  DeviceState state;
  Code code = load_state(root.state.get(), &state);
  if (code != TUNEFARM_RUNNER_OK) return code;
  code = check_release(release.text(), state, options, now, true);
  if (code != TUNEFARM_RUNNER_OK) return code;
  bool rises = release.text().sequence > state.sequence || release.text().revoked_below > state.revoked_below;
  if (!rises && now <= state.time + time_step_s) return TUNEFARM_RUNNER_OK;
  if (release.text().sequence > state.sequence) state.sequence = release.text().sequence;
  if (release.text().revoked_below > state.revoked_below) state.revoked_below = release.text().revoked_below;
  if (now > state.time) state.time = now;
  return save_state(root.state.get(), state);
}

void TunefarmRunner::event_of_latencies(int64_t now) {
  Text text(latency_event, sizeof latency_event);
  text.add("{");
  text.identity(now);
  text.add(",\"body\":{\"kind\":\"latency\",\"release\":");
  text.quoted(release.text().name);
  text.add(",\"runs\":");
  text.number(latencies.runs());
  text.add(",\"mean_s\":");
  text.seconds(latencies.mean_s());
  text.add(",\"p50_s\":");
  text.seconds(latencies.quantile_s(0.5));
  text.add(",\"p95_s\":");
  text.seconds(latencies.quantile_s(0.95));
  text.add(",\"max_s\":");
  text.seconds(latencies.max_s());
  text.add("}}");
  latencies = Latencies();
}

extern "C" {

TunefarmRunnerCode tunefarm_runner_open(const char *root, const TunefarmRunnerKeys *keys, int64_t now,
                                        const TunefarmRunnerOptions *options, TunefarmRunner **runner) {
  *runner = nullptr;
  void *memory = malloc(sizeof(TunefarmRunner));
  if (memory == nullptr) return fail(TUNEFARM_RUNNER_LOAD_FAILED, "out of memory");
  TunefarmRunner *opened = new (memory) TunefarmRunner();
  opened->options = *options;
  // The caller's texts may end before the runner does.
  strncpy(opened->channel, channel_of(*options), sizeof opened->channel - 1);
  opened->options.channel = opened->channel;
  Code code = opened->open(root, *keys, now == 0 ? clock_s() : now);
  if (code != TUNEFARM_RUNNER_OK) {
    tunefarm_runner_close(opened);
    return code;
  }
  opened->options.state_folder = nullptr;
  *runner = opened;
  return TUNEFARM_RUNNER_OK;
}

TunefarmRunnerCode tunefarm_runner_poll(TunefarmRunner *runner, int64_t now) {
  char current[sizeof runner->current];
  uint64_t sequence = 0;
  Code code = runner->check(now == 0 ? clock_s() : now, TIME_STEP_S);
  if (code == TUNEFARM_RUNNER_OK) code = runner->root.current(current, sizeof current, &sequence);
  if (code != TUNEFARM_RUNNER_OK) return code;
  return sequence != runner->current_sequence ? TUNEFARM_RUNNER_NEWER : TUNEFARM_RUNNER_OK;
}

TunefarmRunnerCode tunefarm_runner_run(TunefarmRunner *runner, void *const *inputs, void *const *outputs) {
  double began_s = seconds_now();
  Code code = runner->model.run(inputs, outputs);
  if (code == TUNEFARM_RUNNER_OK) runner->latencies.add(seconds_now() - began_s);
  return code;
}

TunefarmRunnerCode tunefarm_runner_self_test(TunefarmRunner *runner, double *worst_error) {
  double worst = 0.0, best_s = 0.0;
  Code code = runner->model.run_vectors(runner->folder.get(), runner->release.text(), false, &worst, &best_s);
  if (worst_error != nullptr) *worst_error = worst;
  return code;
}

int tunefarm_runner_entries(const TunefarmRunner *runner) { return runner->model.entries(); }

const char *tunefarm_runner_entry(const TunefarmRunner *runner, int position) {
  bool exists = position >= 0 && position < runner->model.entries();
  return exists ? runner->model.entry(position).name : nullptr;
}

TunefarmRunnerCode tunefarm_runner_select(TunefarmRunner *runner, const char *entry) {
  return runner->model.select(entry);
}

int tunefarm_runner_tensors(const TunefarmRunner *runner, TunefarmRunnerDirection direction) {
  const TunefarmModel *plan = runner->model.selected();
  return plan == nullptr ? 0 : direction == TUNEFARM_RUNNER_INPUT ? plan->inputs : plan->outputs;
}

TunefarmRunnerCode tunefarm_runner_tensor(const TunefarmRunner *runner, TunefarmRunnerDirection direction, int position,
                                          TunefarmRunnerTensor *tensor) {
  if (position < 0 || position >= tunefarm_runner_tensors(runner, direction))
    return fail(TUNEFARM_RUNNER_LOAD_FAILED, "the model has no input or output %d", position);
  const TunefarmModel &plan = *runner->model.selected();
  const TunefarmArgument &argument = (direction == TUNEFARM_RUNNER_INPUT ? plan.input : plan.output)[position];
  *tensor = TunefarmRunnerTensor();
  tensor->name = argument.name;
  if (argument.tensor < 0) return TUNEFARM_RUNNER_OK;
  const TunefarmTensor &found = plan.tensor[argument.tensor];
  tensor->code = found.type.code;
  tensor->bits = found.type.bits;
  tensor->dimensions = found.dimensions;
  tensor->shape = found.shape;
  tensor->bytes = found.bytes;
  return TUNEFARM_RUNNER_OK;
}

const char *tunefarm_runner_release(const TunefarmRunner *runner) { return runner->release.text().name; }
uint64_t tunefarm_runner_sequence(const TunefarmRunner *runner) { return runner->release.text().sequence; }

long tunefarm_runner_report(TunefarmRunner *runner, int64_t now, char *buffer, size_t size) {
  if (runner->event[0] == 0) {
    ssize_t length = read_small(runner->root.state.get(), EVENT_NAME, runner->event, MAX_EVENT_BYTES);
    runner->event[length > 0 ? length : 0] = 0;
  }
  // What was not confirmed is sent again under its id, so that it counts once.
  if (runner->latency_event[0] == 0 && runner->latencies.runs() > 0)
    runner->event_of_latencies(now == 0 ? clock_s() : now);
  bool has_event = runner->event[0] != 0, has_latencies = runner->latency_event[0] != 0;
  if (!has_event && !has_latencies) return 0;
  Text text(buffer, size);
  text.add("{\"reports\":[");
  text.add(runner->event);
  text.add(has_event && has_latencies ? "," : "");
  text.add(runner->latency_event);
  text.add("],\"dropped\":0}");
  return text.fits() ? static_cast<long>(text.size()) : -1;
}

void tunefarm_runner_reported(TunefarmRunner *runner) {
  char there[MAX_EVENT_BYTES + 1];
  runner->latency_event[0] = 0;
  if (runner->event[0] == 0) return;
  ssize_t length = read_small(runner->root.state.get(), EVENT_NAME, there, MAX_EVENT_BYTES);
  there[length > 0 ? length : 0] = 0;
  // A later installation may have written another one.
  if (strcmp(there, runner->event) == 0) remove_file(runner->root.state.get(), EVENT_NAME);
  runner->event[0] = 0;
}

void tunefarm_runner_close(TunefarmRunner *runner) {
  if (runner == nullptr) return;
  runner->~TunefarmRunner();
  free(runner);
}

}  // extern "C"
