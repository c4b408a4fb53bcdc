// tunefarm-runner: installs and runs releases from a shell.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tunefarm_runner.h"

namespace {

constexpr int MAX_KEYS = 8, MAX_TENSORS = 64;
constexpr const char *USAGE =
    "usage: tunefarm-runner install ROOT SOURCE --key HEX [options]\n"
    "       tunefarm-runner run ROOT --key HEX [--entry NAME] [--runs N] [--output PREFIX] [INPUT ...]\n"
    "       tunefarm-runner self-test ROOT --key HEX\n"
    "       tunefarm-runner rollback ROOT --key HEX\n"
    "       tunefarm-runner report ROOT --key HEX     print reports, and forget them\n"
    "       tunefarm-runner missing SOURCE --key HEX  print size and SHA-256 of each file that SOURCE lacks\n"
    "       tunefarm-runner features\n"
    "options: --channel NAME --state FOLDER --now SECONDS --max-age SECONDS --tolerance SECONDS --min-sequence N\n"
    "         --threads N --keep N --timeout SECONDS --health COMMAND; --key may be given several times,\n"
    "         and --key-threshold N says how many of them must have signed\n";

struct Arguments {
  unsigned char key_bytes[MAX_KEYS * 32];
  TunefarmRunnerKeys keys = {key_bytes, 0};
  TunefarmRunnerOptions options = {};
  int64_t now = 0;
  long runs = 1;
  const char *output = nullptr, *entry = nullptr;
  const char *words[MAX_TENSORS + 3];
  int count = 0;
};

bool add_key(Arguments *arguments, const char *hex) {
  unsigned char *key = arguments->key_bytes + arguments->keys.count * 32;
  if (arguments->keys.count == MAX_KEYS || strlen(hex) != 64 || strspn(hex, "0123456789abcdef") != 64) return false;
  for (int i = 0; i < 32; ++i) {
    char byte[3] = {hex[i * 2], hex[i * 2 + 1], 0};
    key[i] = static_cast<unsigned char>(strtoul(byte, nullptr, 16));
  }
  ++arguments->keys.count;
  return true;
}

bool set_option(Arguments *arguments, const char *name, const char *value) {
  TunefarmRunnerOptions &options = arguments->options;
  if (strcmp(name, "--key") == 0) return add_key(arguments, value);
  if (strcmp(name, "--channel") == 0) return options.channel = value, true;
  if (strcmp(name, "--state") == 0) return options.state_folder = value, true;
  if (strcmp(name, "--health") == 0) return options.health_command = value, true;
  if (strcmp(name, "--output") == 0) return arguments->output = value, true;
  if (strcmp(name, "--entry") == 0) return arguments->entry = value, true;
  char *end = nullptr;
  long long number = strtoll(value, &end, 10);
  if (*value == 0 || *end != 0 || number < 0) return false;
  if (strcmp(name, "--now") == 0) return arguments->now = number, true;
  if (strcmp(name, "--max-age") == 0) return options.max_age_s = number, true;
  if (strcmp(name, "--tolerance") == 0) return options.clock_tolerance_s = number, true;
  if (strcmp(name, "--min-sequence") == 0) return options.min_sequence = static_cast<uint64_t>(number), true;
  if (strcmp(name, "--key-threshold") == 0) return options.key_threshold = static_cast<size_t>(number), true;
  if (strcmp(name, "--threads") == 0) return options.threads = static_cast<int>(number), true;
  if (strcmp(name, "--keep") == 0) return options.keep = static_cast<int>(number), true;
  if (strcmp(name, "--timeout") == 0) return options.self_test_timeout_s = static_cast<int>(number), true;
  if (strcmp(name, "--runs") == 0) return arguments->runs = static_cast<long>(number), true;
  return false;
}

bool parse(int count, char **words, Arguments *arguments) {
  for (int i = 1; i < count; ++i) {
    if (strncmp(words[i], "--", 2) == 0) {
      if (i + 1 == count || !set_option(arguments, words[i], words[i + 1])) return false;
      ++i;
    } else {
      if (arguments->count == MAX_TENSORS + 3) return false;
      arguments->words[arguments->count++] = words[i];
    }
  }
  return arguments->count > 0;
}

int failed(TunefarmRunnerCode code) {
  fprintf(stderr, "%s: %s\n", tunefarm_runner_code_name(code), tunefarm_runner_message());
  return 10 + static_cast<int>(code);
}

void *aligned(uint64_t bytes) {
  void *memory = nullptr;
  if (posix_memalign(&memory, 64, bytes == 0 ? 1 : static_cast<size_t>(bytes)) != 0) exit(2);
  memset(memory, 0, static_cast<size_t>(bytes));
  return memory;
}

bool transfer(const char *path, void *data, uint64_t bytes, bool writes) {
  FILE *file = fopen(path, writes ? "wb" : "rb");
  if (file == nullptr) return false;
  size_t size = static_cast<size_t>(bytes);
  bool is_whole = (writes ? fwrite(data, 1, size, file) : fread(data, 1, size, file)) == size;
  return fclose(file) == 0 && is_whole;
}

int run(TunefarmRunner *runner, const Arguments &arguments) {
  void *inputs[MAX_TENSORS] = {}, *outputs[MAX_TENSORS] = {};
  TunefarmRunnerTensor tensor;
  for (int i = 0; i < tunefarm_runner_tensors(runner, TUNEFARM_RUNNER_INPUT); ++i) {
    tunefarm_runner_tensor(runner, TUNEFARM_RUNNER_INPUT, i, &tensor);
    inputs[i] = aligned(tensor.bytes);
    const char *path = i + 2 < arguments.count ? arguments.words[i + 2] : nullptr;
    if (path != nullptr && !transfer(path, inputs[i], tensor.bytes, false))
      return fprintf(stderr, "%s does not have the bytes of input %d\n", path, i), 2;
  }
  for (int i = 0; i < tunefarm_runner_tensors(runner, TUNEFARM_RUNNER_OUTPUT); ++i) {
    tunefarm_runner_tensor(runner, TUNEFARM_RUNNER_OUTPUT, i, &tensor);
    outputs[i] = aligned(tensor.bytes);
  }
  for (long n = 0; n < arguments.runs; ++n) {
    TunefarmRunnerCode code = tunefarm_runner_run(runner, inputs, outputs);
    if (code != TUNEFARM_RUNNER_OK) return failed(code);
  }
  for (int i = 0; arguments.output != nullptr && i < tunefarm_runner_tensors(runner, TUNEFARM_RUNNER_OUTPUT); ++i) {
    char path[1024];
    tunefarm_runner_tensor(runner, TUNEFARM_RUNNER_OUTPUT, i, &tensor);
    snprintf(path, sizeof path, "%s%d.bin", arguments.output, i);
    if (!transfer(path, outputs[i], tensor.bytes, true)) return fprintf(stderr, "cannot write %s\n", path), 2;
  }
  printf("%s %llu\n", tunefarm_runner_release(runner), static_cast<unsigned long long>(tunefarm_runner_sequence(runner)));
  return 0;
}

// 0 if there is nothing to report, or it is written.
int print_report(TunefarmRunner *runner, int64_t now) {
  char text[4096];
  long size = tunefarm_runner_report(runner, now, text, sizeof text);
  if (size == 0) return 0;
  if (size < 0 || puts(text) < 0 || fflush(stdout) != 0) return fputs("the report cannot be written\n", stderr), 2;
  return 0;
}

void print_missing(void *, const char *sha256, uint64_t bytes) {
  printf("%llu %s\n", static_cast<unsigned long long>(bytes), sha256);
}

int with_runner(const char *command, const Arguments &arguments) {
  TunefarmRunner *runner = nullptr;
  TunefarmRunnerCode code =
      tunefarm_runner_open(arguments.words[1], &arguments.keys, arguments.now, &arguments.options, &runner);
  if (code != TUNEFARM_RUNNER_OK) return failed(code);
  int status = 0;
  if (strcmp(command, "run") == 0) {
    code = tunefarm_runner_select(runner, arguments.entry);
    status = code == TUNEFARM_RUNNER_OK ? run(runner, arguments) : failed(code);
    // A new process starts with empty latencies, so those of this one are printed. Only `report` forgets.
    if (status == 0) status = print_report(runner, arguments.now);
  } else if (strcmp(command, "report") == 0) {
    status = print_report(runner, arguments.now);
    if (status == 0) tunefarm_runner_reported(runner);
  } else {
    double worst = 0.0;
    code = tunefarm_runner_self_test(runner, &worst);
    if (code == TUNEFARM_RUNNER_OK) printf("worst error %.3g of what is permitted\n", worst);
    status = code == TUNEFARM_RUNNER_OK ? 0 : failed(code);
  }
  tunefarm_runner_close(runner);
  return status;
}

}  // namespace

int main(int count, char **words) {
  Arguments arguments;
  if (!parse(count, words, &arguments)) return fputs(USAGE, stderr), 2;
  const char *command = arguments.words[0];
  TunefarmRunnerCode code = TUNEFARM_RUNNER_OK;
  if (strcmp(command, "features") == 0) {
    char text[2000];
    tunefarm_runner_cpu_features(text, sizeof text);
    return puts(text) < 0;
  }
  if (strcmp(command, "install") == 0 && arguments.count == 3)
    code = tunefarm_runner_install(arguments.words[1], arguments.words[2], &arguments.keys, arguments.now,
                                   &arguments.options);
  else if (strcmp(command, "rollback") == 0 && arguments.count == 2)
    code = tunefarm_runner_rollback(arguments.words[1], &arguments.keys, arguments.now, &arguments.options);
  else if (strcmp(command, "missing") == 0 && arguments.count == 2)
    code = tunefarm_runner_missing(arguments.words[1], &arguments.keys, arguments.now, &arguments.options, print_missing,
                                   nullptr);
  else if (arguments.count >= 2 &&
           (strcmp(command, "run") == 0 || strcmp(command, "self-test") == 0 || strcmp(command, "report") == 0))
    return with_runner(command, arguments);
  else
    return fputs(USAGE, stderr), 2;
  return code == TUNEFARM_RUNNER_OK ? 0 : failed(code);
}
