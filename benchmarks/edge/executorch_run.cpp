// Runs a program of ExecuTorch once on one thread: PROGRAM INPUT OUTPUT. Like its opponents it reads the input from a file,
// writes the output to one, and ends without tidying up.
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>
#include <executorch/extension/threadpool/threadpool_guard.h>
#include <unistd.h>

#include <array>
#include <cstdio>

namespace {

std::array<float, 1 * 3 * 64 * 64> image;

// Stops with the exit status, which says which step failed.
template <typename T>
void require(T succeeded, int step) {
  if (!succeeded) _exit(step);
}

}  // namespace

int main(int count, char** words) {
  using namespace executorch::extension;
  require(count == 4, 2);
  std::FILE* input = std::fopen(words[2], "rb");
  require(input != nullptr && std::fread(image.data(), sizeof image, 1, input) == 1, 3);
  const threadpool::NoThreadPoolGuard on_this_thread_only;
  Module module(words[1], Module::LoadMode::Mmap);
  const auto outputs = module.forward(from_blob(image.data(), {1, 3, 64, 64}));
  require(outputs.ok(), 4);
  const auto& scores = outputs->at(0).toTensor();
  std::FILE* output = std::fopen(words[3], "wb");
  require(output != nullptr && std::fwrite(scores.const_data_ptr(), scores.nbytes(), 1, output) == 1, 5);
  require(std::fflush(output) == 0, 6);
  _exit(0);
}
