// A fuzz target without libFuzzer: tries every seed of a folder, then mutations of them for a number of seconds. The
// same seed gives the same inputs. What it was trying when it died is kept in a file that the target takes as an
// argument.
//   NAME_fuzz FOLDER|FILE... [--seconds N] [--seed N]
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));  // there under a sanitizer

namespace {

using Input = std::vector<uint8_t>;
Input current;  // for the report of a crash

void keep_current() {
  if (FILE* file = std::fopen("crash-input", "wb")) {
    std::fwrite(current.data(), 1, current.size(), file);
    std::fclose(file);
    std::fprintf(stderr, "the input is in crash-input (%zu bytes)\n", current.size());
  }
}
void on_abort(int signal) {  // an exception that the target does not expect
  keep_current();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void try_input(const Input& input) {
  current = input;
  LLVMFuzzerTestOneInput(current.data(), current.size());
}

class Mutator {
 public:
  Mutator(const std::vector<Input>& seeds, uint64_t seed) : seeds_(seeds), random_(seed) {}

  Input next() {
    Input input = seeds_[below(seeds_.size())];
    for (size_t times = 1 + below(4); times > 0; --times) mutate(input);
    return input;
  }

 private:
  size_t below(size_t bound) { return bound ? random_() % bound : 0; }

  void mutate(Input& input) {
    const size_t at = below(input.size() + 1), length = 1 + below(16);
    switch (below(8)) {
      case 0:  // a bit
        if (at < input.size()) input[at] ^= uint8_t(1u << below(8));
        break;
      case 1:  // a byte
        if (at < input.size()) input[at] = uint8_t(random_());
        break;
      case 2:  // the end is missing
        input.resize(at);
        break;
      case 3:  // a piece is missing
        input.erase(input.begin() + long(at), input.begin() + long(std::min(input.size(), at + length)));
        break;
      case 4: {  // a number that is at a limit
        static constexpr uint64_t limits[] = {0,      1,          0x7f,       0xff,       0x7fff,
                                              0xffff, 0x7fffffff, 0xffffffff, 1ull << 32, 0x7fffffffffffffff,
                                              ~0ull,  1ull << 60};
        const uint64_t limit = limits[below(std::size(limits))];
        const size_t bytes = size_t(1) << below(4);
        if (at + bytes <= input.size()) std::memcpy(input.data() + at, &limit, bytes);
        break;
      }
      case 5: {  // a piece twice, or many times
        const Input piece(input.begin() + long(at), input.begin() + long(std::min(input.size(), at + length)));
        for (size_t times = below(8) ? 1 : 200; times > 0; --times)
          input.insert(input.begin() + long(at), piece.begin(), piece.end());
        break;
      }
      case 6: {  // a piece of another seed
        const Input& other = seeds_[below(seeds_.size())];
        const size_t from = below(other.size() + 1), to = std::min(other.size(), from + 1 + below(64));
        input.insert(input.begin() + long(at), other.begin() + long(from), other.begin() + long(to));
        break;
      }
      default:  // random bytes
        for (size_t i = 0; i < length; ++i) input.insert(input.begin() + long(at), uint8_t(random_()));
    }
  }

  const std::vector<Input>& seeds_;
  std::mt19937_64 random_;
};

Input read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Input(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

int main(int count, char** arguments) {
  namespace fs = std::filesystem;
  double seconds = 3;
  uint64_t seed = 1;
  std::vector<fs::path> paths;
  for (int i = 1; i < count; ++i) {
    const std::string word = arguments[i];
    if (word == "--seconds" && i + 1 < count)
      seconds = std::atof(arguments[++i]);
    else if (word == "--seed" && i + 1 < count)
      seed = std::strtoull(arguments[++i], nullptr, 10);
    else if (fs::is_directory(word))
      for (const auto& entry : fs::directory_iterator(word)) paths.push_back(entry.path());
    else
      paths.emplace_back(word);
  }
  std::sort(paths.begin(), paths.end());
  std::signal(SIGABRT, on_abort);
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(keep_current);

  std::vector<Input> seeds;
  for (const fs::path& path : paths) try_input(seeds.emplace_back(read(path)));
  if (seeds.empty()) seeds.emplace_back();
  if (paths.size() == 1 && !fs::is_directory(arguments[1])) return 0;  // one file: to look at a crash

  Mutator mutator(seeds, seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  uint64_t runs = 0;
  for (; std::chrono::steady_clock::now() < end; ++runs) try_input(mutator.next());
  std::printf("%zu seeds, %llu mutations, none went wrong\n", paths.size(), static_cast<unsigned long long>(runs));
}
