// MaskBench: schemas with valid and invalid instances, token by token. A valid instance must be allowed to its end, an
// invalid one must not; prints the counts and the time of masks and of compiling, on one thread.
//   grammar_bench [SCHEMAS.jsonl [VOCABULARY.gguf]]
// Lines are {"name", "schema", "tests": [{"valid", "data"}]}. Without arguments: the sample and Llama 3's vocabulary of
// the reference data beside the checkout.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "grammar/constraint.h"
#include "grammar/json_schema.h"
#include "tests/support/shared_data.h"
#include "tests/text/gguf_vocabulary.h"

namespace heddle::grammar {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double microseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

// As models write it: with a space behind commas and colons.
std::string with_spaces(const Json& v) {
  if (!v.is_structured()) return v.dump();
  std::string all(1, v.is_array() ? '[' : '{');
  bool first = true;
  for (const auto& [name, one] : v.items()) {
    if (!first) all += ", ";
    first = false;
    if (v.is_object()) all += Json(name).dump() + ": ";
    all += with_spaces(one);
  }
  return all + (v.is_array() ? ']' : '}');
}

struct Times {
  std::vector<double> all;  // microseconds
  std::string text() {
    if (all.empty()) return "none";
    std::ranges::sort(all);
    auto at = [&](double part) { return all[std::min(all.size() - 1, size_t(part * double(all.size())))]; };
    double sum = 0;
    for (double one : all) sum += one;
    return fmt::format(
        "{} of them, us: mean {:.1f}, p50 {:.1f}, p75 {:.1f}, p90 {:.1f}, p95 {:.1f}, p99 {:.1f}, p99.9 {:.1f}, "
        "largest {:.0f}",
        all.size(), sum / double(all.size()), at(0.5), at(0.75), at(0.9), at(0.95), at(0.99), at(0.999), all.back());
  }
};

struct Run {
  const text::Tokenizer& tokenizer;
  std::shared_ptr<const Vocabulary> vocabulary;
  Times masks, takes, compiles, refusals;
  std::string slowest;
  double slowest_time = 0;

  bool accepts(const std::shared_ptr<TokenMasks>& all, const std::string& text, const std::string& name) {
    Constraint at(all, {});
    for (text::TokenId token : tokenizer.encode(text, {.add_special = false, .parse_special = false})) {
      const auto start = Clock::now();
      const TokenMask mask = at.mask();
      const auto between = Clock::now();
      if (!mask[uint32_t(token)]) return false;
      const auto before = Clock::now();
      const bool taken = at.take(uint32_t(token));
      takes.all.push_back(microseconds(before, Clock::now()));
      masks.all.push_back(microseconds(start, between));
      if (masks.all.back() > slowest_time) {
        slowest_time = masks.all.back();
        slowest = name;
      }
      if (!taken) throw Error("{}: a token of the mask cannot be taken", name);
    }
    return at.may_end();
  }
};

int bench(const std::string& schemas, const std::string& vocabulary_file, bool verbose) {
  const auto tokenizer = text::Tokenizer::from_vocabulary(test::gguf_vocabulary(vocabulary_file));
  std::vector<std::string> tokens;
  for (size_t i = 0; i < tokenizer.size(); ++i) tokens.emplace_back(tokenizer.bytes(text::TokenId(i)));
  const auto start = Clock::now();
  Run run{tokenizer, std::make_shared<const Vocabulary>(std::move(tokens)), {}, {}, {}, {}, {}};
  fmt::print("vocabulary: {} tokens, {:.0f} ms\n", run.vocabulary->size(), microseconds(start, Clock::now()) / 1000);
  std::ifstream in(schemas);
  if (!in) throw Error("{} cannot be read", schemas);
  size_t all = 0, passed = 0, refused = 0, failed = 0, wrong = 0, lost = 0, wrong_schemas = 0, lost_schemas = 0;
  for (std::string line; std::getline(in, line);) {
    const Json d = Json::parse(line);
    const auto name = d["name"].get<std::string>();
    ++all;
    std::shared_ptr<TokenMasks> masks;
    const auto before = Clock::now();
    try {
      auto grammar = std::make_shared<CompiledGrammar>(json_schema(d["schema"]));
      masks = std::make_shared<TokenMasks>(grammar, run.vocabulary);
      run.compiles.all.push_back(microseconds(before, Clock::now()));
      if (verbose && run.compiles.all.back() > 20'000)
        fmt::print("slow {}: {:.0f} us\n", name, run.compiles.all.back());
    } catch (const Error& e) {
      run.refusals.all.push_back(microseconds(before, Clock::now()));
      ++refused;
      if (verbose) fmt::print("refused {}: {}\n", name, e.what());
      continue;
    }
    size_t here_wrong = 0, here_lost = 0;
    bool here_failed = false;  // needs more than the limits allow
    for (const Json& t : d["tests"]) try {
        const bool valid = t["valid"].get<bool>(), accepted = run.accepts(masks, with_spaces(t["data"]), name);
        here_wrong += accepted && !valid;
        here_lost += !accepted && valid;
        if (accepted != valid) fmt::print("{} {}\n", valid ? "rejected" : "ACCEPTED WRONGLY", name);
      } catch (const Error& e) {
        if (!here_failed) fmt::print("failed {}: {}\n", name, e.what());
        here_failed = true;
      }
    wrong += here_wrong;
    lost += here_lost;
    wrong_schemas += here_wrong > 0;
    lost_schemas += here_lost > 0;
    failed += here_failed;
    passed += here_wrong + here_lost == 0 && !here_failed;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print(
      "schemas: {}, passed {} ({:.1f} %), refused {}, beyond the limits {}, with instances accepted wrongly {} ({}), "
      "rejected {} ({})\n",
      all, passed, 100 * double(passed) / double(std::max<size_t>(all, 1)), refused, failed, wrong_schemas, wrong,
      lost_schemas, lost);
  fmt::print("masks: {} ({})\ntakes: {}\ncompiles: {}\nrefusals: {}\nlargest memory: {} MiB\n", run.masks.text(),
             run.slowest, run.takes.text(), run.compiles.text(), run.refusals.text(), usage.ru_maxrss / 1024);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace heddle::grammar

int main(int count, char** given) {
  std::vector<std::string> arguments(given + 1, given + count);
  const bool verbose = std::erase(arguments, "--verbose") > 0;
  auto argument = [&](size_t i, const char* otherwise) {
    if (i < arguments.size()) return arguments[i];
    const auto found = heddle::test::shared_data(otherwise);
    return found ? found->string() : std::string(otherwise);
  };
  try {
    return heddle::grammar::bench(argument(0, "schemas/maskbench-sample.jsonl"),
                                  argument(1, "vocab/ggml-vocab-llama-bpe.gguf"), verbose);
  } catch (const std::exception& e) {
    fmt::print(stderr, "grammar_bench: {}\n", e.what());
    return 2;
  }
}
