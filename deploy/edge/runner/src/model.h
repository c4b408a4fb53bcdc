// A loaded model: its library, its weights and its arena.
#pragma once

#include "bundle.h"
#include "files.h"
#include "release_text.h"

namespace tunefarm {

constexpr int MAX_ARGUMENTS = 64;

class Model {
 public:
  Model() = default;
  ~Model();
  Model(const Model &) = delete;
  Model &operator=(const Model &) = delete;

  // Loads model.so and weights.bin after their digests are verified.
  Code load(int folder, const ReleaseText &release, int threads);

  Code run(void *const *inputs, void *const *outputs);

  // Runs all test vectors, or only the first. Compares outputs if `worst_error` is not null.
  Code run_vectors(int folder, const ReleaseText &release, bool only_first, double *worst_error, double *best_s);

  const TunefarmModel &plan() const { return *bundle_->model; }

 private:
  Code map_weights(int folder, const ReleaseText &release);
  Code run_vector(int folder, const ReleaseText &release, int vector, double tolerance, double *worst, double *best_s);

  const TunefarmBundle *bundle_ = nullptr;
  void *library_ = nullptr;
  bool has_threads_ = false;
  Descriptor library_file_;
  void *weights_ = nullptr;
  size_t weights_bytes_ = 0;
  Memory arena_;
};

double seconds_now();

}  // namespace tunefarm
