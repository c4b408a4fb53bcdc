"""The pages in Chromium: time to paint, interactions, viewers, and Optuna's dashboard beside them."""
