// Reports in JSON, as the service takes them.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "failure.h"

namespace tunefarm {

// Text in a buffer of the caller. Once it does not fit, nothing more is written.
class Text {
 public:
  Text(char *buffer, size_t size) : buffer_(buffer), size_(size) {}
  void add(const char *text);
  void quoted(const char *text);
  void number(uint64_t value);
  void seconds(double value);
  // "report_id":"...","at":"..."
  void identity(int64_t time_s);
  bool fits() const { return fits_; }
  size_t size() const { return used_; }

 private:
  char *buffer_;
  size_t size_, used_ = 0;
  bool fits_ = true;
};

// Latencies in a fixed number of classes, eight an octave, from a microsecond on.
class Latencies {
 public:
  void add(double latency_s);
  uint64_t runs() const { return runs_; }
  double mean_s() const { return sum_s_ / static_cast<double>(runs_); }
  double max_s() const { return max_s_; }
  double quantile_s(double part) const;

 private:
  static constexpr int CLASSES = 256;
  uint32_t count_[CLASSES] = {};
  uint64_t runs_ = 0;
  double sum_s_ = 0.0, max_s_ = 0.0;
};

// What an installation reports: its own outcome, and that of its self-test if there was one.
struct InstallOutcome {
  const char *release;
  const char *rolled_back_to = nullptr;  // null: nothing
  bool has_self_test = false, passed = false;
  double worst_error = 0.0, best_s = 0.0;
};

void write_event(const InstallOutcome &outcome, Code code, int64_t time_s, Text *text);

}  // namespace tunefarm
