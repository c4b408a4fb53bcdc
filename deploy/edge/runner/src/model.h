// A loaded model: its library, its weights, and an arena for all entries, of which one runs at a time.
#pragma once

#include "bundle.h"
#include "files.h"
#include "release_text.h"

namespace tunefarm {

constexpr int MAX_ARGUMENTS = 64;
constexpr int MAX_ENTRIES = 256;

class Model {
 public:
  Model() = default;
  ~Model();
  Model(const Model &) = delete;
  Model &operator=(const Model &) = delete;

  // Verifies manifest.json, model.so and weights.bin, and then loads them.
  Code load(int folder, const ReleaseText &release, int threads);

  int entries() const { return bundle_ == nullptr ? 0 : has_table_ ? bundle_->count : 1; }
  const TunefarmModel &entry(int position) const { return has_table_ ? *bundle_->models[position] : *bundle_->model; }

  // Sets the entry that `run` runs; a null name means the only one.
  Code select(const char *name);
  const TunefarmModel *selected() const { return selected_; }
  Code run(void *const *inputs, void *const *outputs);

  // Runs all test vectors of all entries, or only the first of each. Compares outputs if `worst_error` is not null.
  // `best_s` becomes the shortest run of the first entry.
  Code run_vectors(int folder, const ReleaseText &release, bool only_first, double *worst_error, double *best_s);

 private:
  Code load_entries();
  Code map_weights(const ReleaseFile *weights, int file);
  Code run(const TunefarmModel &plan, void *const *inputs, void *const *outputs);
  Code run_vector(int folder, const ReleaseText &release, const TunefarmModel &plan, const char *vector,
                  double *worst, double *best_s);

  const TunefarmBundle *bundle_ = nullptr;
  const TunefarmModel *selected_ = nullptr;
  void *library_ = nullptr;
  bool has_table_ = false;
  double tolerance_ = 0.0;
  bool has_threads_ = false;
  Descriptor library_file_;
  void *weights_ = nullptr;
  size_t weights_bytes_ = 0;
  Memory arena_;
};

double seconds_now();

}  // namespace tunefarm
