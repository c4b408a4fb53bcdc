#include "model.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "manifest.h"
#include "release_folder.h"
#include "tunefarm_comparison.h"

namespace tunefarm {
namespace {

constexpr size_t ALIGNMENT = 64;

Code read_tensor(int folder, const ReleaseText &release, const char *path, uint64_t bytes, Memory *memory) {
  const ReleaseFile *expected = release.find(path);
  Descriptor file;
  if (expected == nullptr || expected->bytes != bytes)
    return fail(TUNEFARM_RUNNER_SELF_TEST_FAILED, "%s is missing, or has another size than its tensor", path);
  Code code = open_verified(folder, *expected, &file);
  if (code != TUNEFARM_RUNNER_OK) return code;
  if (!memory->allocate(bytes, ALIGNMENT)) return fail(TUNEFARM_RUNNER_LOAD_FAILED, "out of memory");
  for (uint64_t at = 0; at < bytes;) {
    ssize_t got = read(file.get(), memory->get() + at, bytes - at);
    if (got <= 0) return fail_system("cannot read", path);
    at += static_cast<uint64_t>(got);
  }
  return TUNEFARM_RUNNER_OK;
}

const TunefarmTensor *tensor_of(const TunefarmModel &plan, const TunefarmArgument &argument) {
  return argument.tensor < 0 ? nullptr : &plan.tensor[argument.tensor];
}

}  // namespace

double seconds_now() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Model::~Model() {
  if (bundle_ != nullptr) bundle_->release_workspaces();
  if (weights_ != nullptr) munmap(weights_, weights_bytes_);
  // Threads of the model run its code until the process ends. A later library must not get the same descriptor either:
  // the loader would take it for this one.
  if (has_threads_)
    library_file_.release();
  else if (library_ != nullptr)
    dlclose(library_);
}

Code Model::load(int folder, const ReleaseText &release, int threads) {
  const ReleaseFile *library = release.find(LIBRARY), *weights = release.find(WEIGHTS);
  Manifest manifest;
  Code code = read_manifest(folder, release, &manifest);
  if (code != TUNEFARM_RUNNER_OK) return code;
  if (library == nullptr) return fail(TUNEFARM_RUNNER_LOAD_FAILED, "the release has no model.so");
  tolerance_ = manifest.tolerance;
  Descriptor weights_file;
  code = open_verified(folder, *library, &library_file_);
  if (code == TUNEFARM_RUNNER_OK && weights != nullptr) code = open_verified(folder, *weights, &weights_file);
  if (code != TUNEFARM_RUNNER_OK) return code;
  // By its descriptor, which is the file that was verified, whatever has its name by now.
  char path[40];
  snprintf(path, sizeof path, "/proc/self/fd/%d", library_file_.get());
  library_ = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) return fail(TUNEFARM_RUNNER_LOAD_FAILED, "model.so cannot be loaded: %s", dlerror());
  void *symbol = dlsym(library_, "tunefarm_bundle");
  BundleFunction function;
  static_assert(sizeof function == sizeof symbol, "POSIX: a function's address fits");
  memcpy(&function, &symbol, sizeof function);
  const TunefarmBundle *bundle = symbol == nullptr ? nullptr : function();
  if (bundle == nullptr || bundle->abi_version != RUNTIME_ABI)
    return fail(TUNEFARM_RUNNER_LOAD_FAILED, "model.so has another interface than version %u", RUNTIME_ABI);
  bundle_ = bundle;
  has_table_ = manifest.format >= TABLE_FORMAT;
  code = load_entries();
  if (code == TUNEFARM_RUNNER_OK) code = map_weights(weights, weights_file.get());
  if (code != TUNEFARM_RUNNER_OK) return code;
  has_threads_ = threads > 1;
  if (has_threads_) bundle_->start_threads(threads);
  return TUNEFARM_RUNNER_OK;
}

Code Model::load_entries() {
  if (entries() < 1 || entries() > MAX_ENTRIES)
    return fail(TUNEFARM_RUNNER_LOAD_FAILED, "model.so has not from 1 to %d entries", MAX_ENTRIES);
  uint64_t arena_bytes = 0;
  for (int i = 0; i < entries(); ++i) {
    if (entry(i).inputs > MAX_ARGUMENTS || entry(i).outputs > MAX_ARGUMENTS)
      return fail(TUNEFARM_RUNNER_LOAD_FAILED, "the model has more than %d inputs or outputs", MAX_ARGUMENTS);
    if (entry(i).arena_bytes > arena_bytes) arena_bytes = entry(i).arena_bytes;
  }
  if (!arena_.allocate(arena_bytes, ALIGNMENT)) return fail(TUNEFARM_RUNNER_LOAD_FAILED, "out of memory");
  selected_ = entries() == 1 ? &entry(0) : nullptr;
  return TUNEFARM_RUNNER_OK;
}

Code Model::map_weights(const ReleaseFile *weights, int file) {
  uint64_t bytes = entry(0).weights_bytes;
  if (bytes == 0) return TUNEFARM_RUNNER_OK;
  if (weights == nullptr || weights->bytes != bytes)
    return fail(TUNEFARM_RUNNER_LOAD_FAILED, "weights.bin is missing, or is not that of model.so");
  void *mapped = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  if (mapped == MAP_FAILED) return fail(TUNEFARM_RUNNER_LOAD_FAILED, "weights.bin cannot be mapped");
  weights_ = mapped;
  weights_bytes_ = bytes;
  return TUNEFARM_RUNNER_OK;
}

Code Model::select(const char *name) {
  for (int i = 0; i < entries(); ++i) {
    if (name == nullptr ? entries() > 1 : strcmp(entry(i).name, name) != 0) continue;
    selected_ = &entry(i);
    return TUNEFARM_RUNNER_OK;
  }
  char names[200] = "";
  for (int i = 0; i < entries(); ++i) {
    size_t size = strlen(names);
    snprintf(names + size, sizeof names - size, "%s%s", i == 0 ? "" : ", ", entry(i).name);
  }
  if (name == nullptr) return fail(TUNEFARM_RUNNER_LOAD_FAILED, "the release has several entries; name one of: %s", names);
  return fail(TUNEFARM_RUNNER_LOAD_FAILED, "the release has no entry %.100s; name one of: %s", name, names);
}

Code Model::run(void *const *inputs, void *const *outputs) {
  if (selected_ == nullptr) return select(nullptr);
  return run(*selected_, inputs, outputs);
}

Code Model::run(const TunefarmModel &plan, void *const *inputs, void *const *outputs) {
  if (bundle_->run(&plan, weights_, arena_.get(), inputs, outputs) != 0)
    return fail(TUNEFARM_RUNNER_LOAD_FAILED, "the model failed: %s", bundle_->last_error());
  return TUNEFARM_RUNNER_OK;
}

Code Model::run_vector(int folder, const ReleaseText &release, const TunefarmModel &plan, const char *vector,
                       double *worst, double *best_s) {
  Memory input[MAX_ARGUMENTS], output[MAX_ARGUMENTS];
  void *inputs[MAX_ARGUMENTS] = {}, *outputs[MAX_ARGUMENTS] = {};
  char path[sizeof ReleaseFile().path];
  for (int i = 0; i < plan.inputs; ++i) {
    const TunefarmTensor *tensor = tensor_of(plan, plan.input[i]);
    if (tensor == nullptr) continue;
    snprintf(path, sizeof path, "%s/input%d.bin", vector, i);
    Code code = read_tensor(folder, release, path, tensor->bytes, &input[i]);
    if (code != TUNEFARM_RUNNER_OK) return code;
    inputs[i] = input[i].get();
  }
  for (int i = 0; i < plan.outputs; ++i) {
    const TunefarmTensor *tensor = tensor_of(plan, plan.output[i]);
    if (!output[i].allocate(tensor->bytes, ALIGNMENT)) return fail(TUNEFARM_RUNNER_LOAD_FAILED, "out of memory");
    outputs[i] = output[i].get();
  }
  double began_s = seconds_now();
  Code code = run(plan, inputs, outputs);
  double took_s = seconds_now() - began_s;
  if (code != TUNEFARM_RUNNER_OK || worst == nullptr) return code;
  if (*best_s == 0.0 || took_s < *best_s) *best_s = took_s;
  for (int i = 0; i < plan.outputs; ++i) {
    const TunefarmTensor *tensor = tensor_of(plan, plan.output[i]);
    Memory expected;
    snprintf(path, sizeof path, "%s/output%d.bin", vector, i);
    code = read_tensor(folder, release, path, tensor->bytes, &expected);
    if (code != TUNEFARM_RUNNER_OK) return code;
    *worst = fmax(*worst, tunefarm_error_of(tensor, output[i].get(), expected.get(), tolerance_));
  }
  return TUNEFARM_RUNNER_OK;
}

Code Model::run_vectors(int folder, const ReleaseText &release, bool only_first, double *worst_error, double *best_s) {
  if (worst_error != nullptr && !(tolerance_ > 0.0))
    return fail(TUNEFARM_RUNNER_SELF_TEST_FAILED, "manifest.json has no tolerance");
  Code code = TUNEFARM_RUNNER_OK;
  for (int i = 0; code == TUNEFARM_RUNNER_OK && i < entries(); ++i) {
    double of_others_s = 0.0, *shortest_s = i == 0 ? best_s : &of_others_s;
    for (int vector = 0; code == TUNEFARM_RUNNER_OK && !(only_first && vector == 1); ++vector) {
      // Room for the names of tensors below it.
      char folder_of_vector[sizeof ReleaseFile().path - 20], path[sizeof ReleaseFile().path];
      bool is_first = i == 0;
      int length = snprintf(folder_of_vector, sizeof folder_of_vector, "vectors/%s%s%d", is_first ? "" : entry(i).name,
                            is_first ? "" : "/", vector);
      snprintf(path, sizeof path, "%s/output0.bin", folder_of_vector);
      if (length >= static_cast<int>(sizeof folder_of_vector) || release.find(path) == nullptr) break;
      code = run_vector(folder, release, entry(i), folder_of_vector, worst_error, shortest_s);
    }
  }
  if (code == TUNEFARM_RUNNER_OK && worst_error != nullptr && !(*worst_error <= 1.0))
    code = fail(TUNEFARM_RUNNER_SELF_TEST_FAILED, "outputs of test vectors differ by more than permitted");
  return code;
}

}  // namespace tunefarm
