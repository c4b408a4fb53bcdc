#include "release_text.h"

#include <string.h>

#include "bundle.h"
#include "cpu.h"

namespace tunefarm {
namespace {

constexpr uint64_t MAX_NUMBER = uint64_t{1} << 53;
constexpr const char *ARCHITECTURES[] = {"aarch64", "armv7", "riscv64", "x86_64", "wasm32", "cuda"};

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_path_begin(char c) { return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z') || c == '_'; }

// Reads the text once, from its begin to its end.
class Reader {
 public:
  Reader(const char *text, size_t size) : at_(text), end_(text + size) {}

  bool is_at_end() const { return at_ == end_; }
  size_t line() const { return line_; }

  bool starts_with(const char *word) const {
    size_t size = strlen(word);
    return static_cast<size_t>(end_ - at_) >= size && memcmp(at_, word, size) == 0;
  }

  // Takes a word and the space after it.
  bool take(const char *word) {
    if (!starts_with(word)) return false;
    at_ += strlen(word);
    return true;
  }

  bool field(Slice *field) {
    field->begin = at_;
    while (at_ < end_ && *at_ > ' ' && *at_ < 127) ++at_;
    field->size = static_cast<size_t>(at_ - field->begin);
    return field->size > 0;
  }

  bool space() { return character(' '); }

  bool line_end() {
    if (!character('\n')) return false;
    ++line_;
    return true;
  }

  bool number(uint64_t *value) {
    Slice digits;
    if (!field(&digits) || digits.size > 16 || (digits.begin[0] == '0' && digits.size > 1)) return false;
    *value = 0;
    for (size_t i = 0; i < digits.size; ++i) {
      if (digits.begin[i] < '0' || digits.begin[i] > '9') return false;
      *value = *value * 10 + static_cast<uint64_t>(digits.begin[i] - '0');
    }
    return *value <= MAX_NUMBER;
  }

 private:
  bool character(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }

  const char *at_, *end_;
  size_t line_ = 1;
};

bool is_name(const Slice &name) {
  if (name.size == 0 || name.size > 100 || !is_lower_or_digit(name.begin[0])) return false;
  for (size_t i = 0; i < name.size; ++i) {
    char c = name.begin[i];
    if (!is_lower_or_digit(c) && c != '.' && c != '_' && c != '-') return false;
  }
  return true;
}

bool is_path(const Slice &path) {
  if (path.size == 0 || path.size > 200 || path.begin[path.size - 1] == '/') return false;
  for (size_t i = 0; i < path.size; ++i) {
    char c = path.begin[i];
    bool begins = i == 0 || path.begin[i - 1] == '/';
    if (begins ? !is_path_begin(c) : !is_path_begin(c) && c != '.' && c != '-' && c != '/') return false;
  }
  return true;
}

bool ends_with(const Slice &text, const char *end) {
  size_t size = strlen(end);
  return text.size >= size && memcmp(text.begin + text.size - size, end, size) == 0;
}

void copy(const Slice &slice, char *text) {
  memcpy(text, slice.begin, slice.size);
  text[slice.size] = 0;
}

bool digest_of(const Slice &text, unsigned char *digest) {
  if (text.size != DIGEST_BYTES * 2) return false;
  for (size_t i = 0; i < text.size; ++i) {
    char c = text.begin[i];
    int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (value < 0) return false;
    digest[i / 2] = static_cast<unsigned char>(i % 2 == 0 ? value << 4 : digest[i / 2] | value);
  }
  return true;
}

bool is_architecture(const Slice &text) {
  for (const char *each : ARCHITECTURES)
    if (text.is(each)) return true;
  return false;
}

// Whether the text is a list of features; `here` says whether this processor has all of them.
bool features_of(const Slice &text, bool *here) {
  *here = true;
  if (text.is("-")) return true;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size; ++i) {
    if (i < text.size && text.begin[i] != ',') {
      char c = text.begin[i];
      if (!is_lower_or_digit(c) && c != '_' && c != '.' && c != '-') return false;
      continue;
    }
    if (i == begin || i - begin > 50) return false;
    *here = *here && has_cpu_feature(text.begin + begin, i - begin);
    begin = i + 1;
  }
  return true;
}

bool header_of(Reader *reader, ReleaseText *release) {
  Slice channel;
  uint64_t issued = 0, expires = 0;
  if (!reader->take("tunefarm-release 1") || !reader->line_end()) return false;
  if (!reader->take("channel ") || !reader->field(&channel) || !is_name(channel) || !reader->line_end()) return false;
  copy(channel, release->channel);
  if (!reader->take("sequence ") || !reader->number(&release->sequence) || !reader->line_end()) return false;
  if (!reader->take("issued ") || !reader->number(&issued) || !reader->line_end()) return false;
  if (!reader->take("expires ") || !reader->number(&expires) || !reader->line_end()) return false;
  if (reader->take("revoked-below "))
    if (!reader->number(&release->revoked_below) || !reader->line_end()) return false;
  release->issued = static_cast<int64_t>(issued);
  release->expires = static_cast<int64_t>(expires);
  return release->sequence >= 1 && issued < expires && release->revoked_below <= release->sequence + 1;
}

bool file_of(Reader *reader, ReleaseFile *file) {
  Slice path, digest;
  if (!reader->take("file ") || !reader->field(&path) || !is_path(path) || !reader->space()) return false;
  copy(path, file->path);
  // These names belong to the runner.
  if (ends_with(path, ".runner") || ends_with(path, ".sig")) return false;
  return reader->number(&file->bytes) && reader->space() && reader->field(&digest) && digest_of(digest, file->digest) &&
         reader->line_end();
}

bool files_of(Reader *reader, ReleaseText *release) {
  release->files = 0;
  while (reader->starts_with("file ")) {
    if (release->files == MAX_FILES || !file_of(reader, &release->file[release->files])) return false;
    for (size_t i = 0; i < release->files; ++i)
      if (strcmp(release->file[i].path, release->file[release->files].path) == 0) return false;
    ++release->files;
  }
  return release->files > 0 && strcmp(release->file[0].path, MANIFEST) == 0;
}

bool variant_of(Reader *reader, ReleaseText *release, bool is_first, bool *chosen) {
  Slice architecture, features, name;
  uint64_t abi = 0;
  bool has_features = false;
  if (!reader->take("variant ") || !reader->field(&architecture) || !is_architecture(architecture)) return false;
  if (!reader->space() || !reader->field(&features) || !features_of(features, &has_features)) return false;
  if (!reader->space() || !reader->number(&abi) || !reader->space()) return false;
  if (!reader->field(&name) || !is_name(name) || !reader->line_end()) return false;
  if (!is_first && !name.is(release->name)) return false;
  copy(name, release->name);
  *chosen = has_features && architecture.is(ARCHITECTURE) && abi == RUNTIME_ABI;
  return true;
}

// Later variants are read to a place of their own once one has been chosen. A revoked release has none.
bool variants_of(Reader *reader, ReleaseText *release, ReleaseText *others) {
  bool is_first = true;
  while (!reader->is_at_end()) {
    bool chosen = false;
    if (!variant_of(reader, release, is_first, &chosen)) return false;
    bool is_mine = chosen && !release->has_variant;
    if (!files_of(reader, is_mine ? release : others)) return false;
    release->has_variant = release->has_variant || is_mine;
    is_first = false;
  }
  return true;
}

}  // namespace

bool Slice::is(const char *text) const { return strlen(text) == size && memcmp(begin, text, size) == 0; }

const ReleaseFile *ReleaseText::find(const char *path) const {
  for (size_t i = 0; i < files; ++i)
    if (strcmp(file[i].path, path) == 0) return &file[i];
  return nullptr;
}

Code parse_release(const char *text, size_t size, ReleaseText *release) {
  Memory others;
  if (!others.allocate(sizeof(ReleaseText), alignof(ReleaseText))) return fail(TUNEFARM_RUNNER_LOAD_FAILED, "out of memory");
  release->has_variant = false;
  release->name[0] = 0;
  release->revoked_below = 0;
  release->files = 0;
  Reader reader(text, size);
  if (size > MAX_TEXT_BYTES || !header_of(&reader, release) ||
      !variants_of(&reader, release, reinterpret_cast<ReleaseText *>(others.get())))
    return fail(TUNEFARM_RUNNER_TAMPERED, "line %zu of the release is malformed", reader.line());
  return TUNEFARM_RUNNER_OK;
}

}  // namespace tunefarm
