/* See tunefarm_bundle.h. */
#include "tunefarm_bundle.h"

#include "bundle.h"

static const TunefarmModel *const models[] = {BUNDLE_MODELS};

const TunefarmBundle *tunefarm_bundle(void) {
  static const TunefarmBundle bundle = {TUNEFARM_BUNDLE_ABI,
                                        &BUNDLE_MODEL,
                                        tunefarm_model_run,
                                        tunefarm_last_error,
                                        tunefarm_start_threads,
                                        tunefarm_release_workspaces,
                                        (int32_t)(sizeof models / sizeof models[0]),
                                        models};
  return &bundle;
}
