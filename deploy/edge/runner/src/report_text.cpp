#include "report_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

namespace tunefarm {
namespace {

// At the first boot there may be no random bytes yet. The service takes reports of a device with one id for one report.
void make_unequal(unsigned char (&bytes)[12], int64_t time_s) {
  static uint32_t count = 0;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  uint32_t number = __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED) & 0xffff;
  uint32_t parts[3] = {static_cast<uint32_t>(time_s), static_cast<uint32_t>(now.tv_nsec),
                       static_cast<uint32_t>(getpid()) << 16 | number};
  static_assert(sizeof parts == sizeof bytes, "all bytes are written");
  memcpy(bytes, parts, sizeof parts);
}

// gmtime reads the time zone's files, and allocates. The algorithm is days_from_civil's inverse of Howard Hinnant,
// "chrono-compatible low-level date algorithms".
void utc(int64_t time_s, char *text, size_t size) {
  int64_t days = time_s / 86400, second = time_s % 86400;
  days += 719468;
  int64_t era = days / 146097, day_of_era = days % 146097;
  int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  int64_t shifted = (5 * day_of_year + 2) / 153;
  int day = static_cast<int>(day_of_year - (153 * shifted + 2) / 5 + 1);
  int month = static_cast<int>(shifted < 10 ? shifted + 3 : shifted - 9);
  int year = static_cast<int>(year_of_era + era * 400 + (month <= 2 ? 1 : 0));
  snprintf(text, size, "%04d-%02d-%02dT%02d:%02d:%02dZ", year % 10000, month, day, static_cast<int>(second / 3600),
           static_cast<int>(second / 60 % 60), static_cast<int>(second % 60));
}

}  // namespace

void Text::add(const char *text) {
  size_t length = strlen(text);
  fits_ = fits_ && length + 1 <= size_ - used_;
  if (!fits_) return;
  memcpy(buffer_ + used_, text, length + 1);
  used_ += length;
}

void Text::quoted(const char *text) {
  add("\"");
  for (; *text != 0; ++text) {
    char one[2] = {*text, 0};
    bool is_plain = *text >= ' ' && *text < 127 && *text != '"' && *text != '\\';
    add(is_plain ? one : "?");
  }
  add("\"");
}

void Text::number(uint64_t value) {
  char digits[24];
  snprintf(digits, sizeof digits, "%llu", static_cast<unsigned long long>(value));
  add(digits);
}

// In whole parts, since the decimal point of printf depends on the locale of the program.
void Text::seconds(double value) {
  char digits[48];
  double bounded = fmin(fmax(value, 1e-9), 1e9);
  auto nanoseconds = static_cast<unsigned long long>(bounded * 1e9);
  snprintf(digits, sizeof digits, "%llu.%09llu", nanoseconds / 1000000000, nanoseconds % 1000000000);
  add(digits);
}

void Text::identity(int64_t time_s) {
  unsigned char random[12] = {};
  char id[25], at[48];
  if (getrandom(random, sizeof random, GRND_NONBLOCK) != sizeof random) make_unequal(random, time_s);
  for (size_t i = 0; i < sizeof random; ++i) snprintf(id + i * 2, 3, "%02x", random[i]);
  utc(time_s, at, sizeof at);
  add("\"report_id\":");
  quoted(id);
  add(",\"at\":");
  quoted(at);
}

void Latencies::add(double latency_s) {
  double position = log2(fmax(latency_s, 1e-6) / 1e-6) * 8;
  ++count_[position < CLASSES - 1 ? static_cast<int>(position) : CLASSES - 1];
  ++runs_;
  sum_s_ += fmax(latency_s, 1e-9);
  max_s_ = fmax(max_s_, latency_s);
}

double Latencies::quantile_s(double part) const {
  uint64_t wanted = static_cast<uint64_t>(ceil(static_cast<double>(runs_) * part)), seen = 0;
  for (int i = 0; i < CLASSES; ++i) {
    seen += count_[i];
    if (seen >= wanted) return fmin(1e-6 * exp2((i + 1) / 8.0), max_s_);
  }
  return max_s_;
}

void write_event(const InstallOutcome &outcome, Code code, int64_t time_s, Text *text) {
  if (outcome.has_self_test) {
    text->add("{");
    text->identity(time_s);
    text->add(",\"body\":{\"kind\":\"self_test\",\"release\":");
    text->quoted(outcome.release);
    text->add(outcome.passed ? ",\"passed\":true,\"worst_error\":" : ",\"passed\":false,\"worst_error\":");
    text->seconds(outcome.worst_error);
    if (outcome.best_s > 0.0) {
      text->add(",\"best_s\":");
      text->seconds(outcome.best_s);
    }
    text->add("}},");
  }
  text->add("{");
  text->identity(time_s);
  text->add(",\"body\":{\"kind\":\"install\",\"release\":");
  text->quoted(outcome.release);
  text->add(",\"failure\":");
  if (code == TUNEFARM_RUNNER_OK) {
    text->add("null");
  } else {
    text->quoted(tunefarm_runner_code_name(code));
    text->add(",\"detail\":");
    text->quoted(tunefarm_runner_message());
  }
  if (outcome.rolled_back_to != nullptr) {
    text->add(",\"rolled_back_to\":");
    text->quoted(outcome.rolled_back_to);
  }
  text->add("}}");
}

}  // namespace tunefarm
