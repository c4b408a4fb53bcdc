"""Side by side with TVM's own tuner."""
