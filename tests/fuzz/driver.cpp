// Fuzz targets without libFuzzer: tries every seed of a target, then mutations of them for a number of seconds. The
// same --seed gives the same inputs. What it was trying when it died is kept in a file, to be tried again by --input.
//   fuzz_tests [TARGET...] [--seconds N] [--seed N]     without a TARGET: all
//   fuzz_tests TARGET --input FILE
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

#include "tests/fuzz/target.h"
#include "tests/support/sanitized.h"

extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));  // there under a sanitizer

namespace {

using Input = std::vector<uint8_t>;
struct Trying {
  std::string target;
  Input input;
} current;  // for the report of a crash

void keep_current() {
  const std::string path = "crash-" + current.target;
  if (FILE* file = std::fopen(path.c_str(), "wb")) {
    std::fwrite(current.input.data(), 1, current.input.size(), file);
    std::fclose(file);
    std::fprintf(stderr, "the input of %s is in %s (%zu bytes)\n", current.target.c_str(), path.c_str(),
                 current.input.size());
  }
}
void on_abort(int signal) {  // an exception that the target does not expect
  keep_current();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void try_input(heddle::fuzz::Target target, const Input& input) {
  current.input = input;
  target(current.input.data(), current.input.size());
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

Input contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Input(std::istreambuf_iterator<char>(file), {});
}

struct Options {
  double seconds = heddle::test::sanitized ? 3 : 1;  // in one, as many inputs as the sanitizers try in ten
  uint64_t seed = 1;
  std::string input;
  std::vector<std::string> targets;
};

void fuzz(heddle::fuzz::Target target, const Options& options) {
  namespace fs = std::filesystem;
  if (!options.input.empty()) return try_input(target, contents(options.input));
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(HEDDLE_SOURCE_DIR "/tests/fuzz/corpus/" + current.target))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Input> seeds;
  for (const fs::path& path : paths) try_input(target, seeds.emplace_back(contents(path)));

  Mutator mutator(seeds, options.seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(options.seconds);
  uint64_t runs = 0;
  for (; std::chrono::steady_clock::now() < end; ++runs) try_input(target, mutator.next());
  std::printf("%s: %zu seeds, %llu mutations, none went wrong\n", current.target.c_str(), seeds.size(),
              static_cast<unsigned long long>(runs));
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = arguments[i];
    if (word == "--seconds" && i + 1 < count)
      options.seconds = std::atof(arguments[++i]);
    else if (word == "--seed" && i + 1 < count)
      options.seed = std::strtoull(arguments[++i], nullptr, 10);
    else if (word == "--input" && i + 1 < count)
      options.input = arguments[++i];
    else
      options.targets.push_back(word);
  }
  const auto& all = heddle::fuzz::targets();
  if (options.targets.empty())
    for (const auto& [name, target] : all) options.targets.push_back(name);
  std::signal(SIGABRT, on_abort);
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(keep_current);
  for (const std::string& name : options.targets) {
    const auto found = all.find(name);
    if (found == all.end()) {
      std::fprintf(stderr, "expected a target of tests/fuzz, found %s\n", name.c_str());
      return 2;
    }
    current.target = name;
    fuzz(found->second, options);
  }
}
