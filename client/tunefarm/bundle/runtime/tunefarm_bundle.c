/* See tunefarm_bundle.h. */
#include "tunefarm_bundle.h"

#include "bundle.h"

const TunefarmBundle *tunefarm_bundle(void) {
  static const TunefarmBundle bundle = {TUNEFARM_BUNDLE_ABI,    &BUNDLE_MODEL,          tunefarm_model_run,
                                        tunefarm_last_error,    tunefarm_start_threads, tunefarm_release_workspaces};
  return &bundle;
}
