// Encoding on one thread: English with each vocabulary, and text chosen to be slow. Vocabularies and text are reference
// data beside the checkout ($HEDDLE_SHARED_DATA).
#include <benchmark/benchmark.h>

#include <map>
#include <string>

#include "tests/support/shared_data.h"
#include "tests/text/gguf_vocabulary.h"
#include "tests/text/small_vocabulary.h"

namespace heddle::text {
namespace {

const Tokenizer* find_tokenizer(const std::string& name) {
  static std::map<std::string, Tokenizer> loaded;
  if (const auto found = loaded.find(name); found != loaded.end()) return &found->second;
  const auto path = test::shared_data("vocab/ggml-vocab-" + name + ".gguf");
  if (!path) return nullptr;
  return &loaded.emplace(name, test::gguf_tokenizer(*path)).first->second;
}

void encode(benchmark::State& state, const std::string& vocabulary, const std::string& text) {
  const Tokenizer* const tokenizer = find_tokenizer(vocabulary);
  if (!tokenizer || text.empty()) return state.SkipWithError("needs the reference data");
  size_t tokens = 0;
  for (auto _ : state) tokens = tokenizer->encode(text).size();
  state.SetBytesProcessed(int64_t(text.size()) * state.iterations());
  state.counters["tokens"] = double(tokens);
}

void load(benchmark::State& state, const std::string& name) {
  const auto path = test::shared_data("vocab/ggml-vocab-" + name + ".gguf");
  if (!path) return state.SkipWithError("needs the reference data");
  const Vocabulary vocabulary = test::gguf_vocabulary(*path);
  for (auto _ : state) benchmark::DoNotOptimize(Tokenizer::from_vocabulary(vocabulary).size());
}

const bool registered = [] {
  const auto moby_dick = test::shared_data("text/moby-dick.txt");
  const std::string english = moby_dick ? test::file_text(*moby_dick) : "";
  const std::map<std::string, std::string> hostile{{"letter", "a"},
                                                   {"space", " "},
                                                   {"line_end", "\n"},
                                                   {"mark", "\u0301"},
                                                   {"digit", "7"},
                                                   {"apostrophe", "'"},
                                                   {"space_and_line_end", " \n"},
                                                   {"bad_byte", "\xff"},
                                                   {"less_than", "<"},
                                                   {"han", "\u4e2d"}};
  for (const std::string name : {"gpt-2", "llama-bpe", "qwen2", "llama-spm", "phi-3"}) {
    benchmark::RegisterBenchmark(("load/" + name).c_str(), load, name)->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("english/" + name).c_str(), encode, name, english)->Unit(benchmark::kMillisecond);
    for (const auto& [what, unit] : hostile)
      benchmark::RegisterBenchmark(("1MB_of_" + what + "/" + name).c_str(), encode, name, test::repeated(unit, 1 << 20))
          ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace heddle::text
