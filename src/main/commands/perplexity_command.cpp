// Windows follow llama.cpp: they do not overlap, each begins with BOS where the model wants one, and of each the second
// half is scored. Sliding ones overlap, and every token is scored once with as much before it as fits.
#include "main/commands/perplexity_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <ostream>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "main/commands/commands.h"
#include "main/commands/generate.h"
#include "main/progress.h"

namespace heddle {
namespace {

using text::TokenId;

// Of tokens [begin, end), those from `first` on are scored, by the logits after the token before.
struct Window {
  size_t begin, first, end;
};

std::vector<Window> windows_of(const PerplexityOptions& options, size_t tokens) {
  const size_t size = options.window;
  std::vector<Window> windows;
  if (options.method == "windows") {
    for (size_t begin = 0; begin + size <= tokens; begin += size)
      windows.push_back({begin, begin + size / 2 + 1, begin + size});
  } else {
    const size_t stride = options.stride ? options.stride : size / 2;
    size_t scored = 1;  // the first token has nothing before it
    while (scored < tokens) {
      const size_t end = std::min(tokens, scored == 1 ? size : scored + stride);
      windows.push_back({end > size ? end - size : 0, scored, end});
      scored = end;
    }
  }
  if (options.limit && windows.size() > options.limit) windows.resize(options.limit);
  return windows;
}

// log of softmax, as what has to be subtracted from a logit.
double log_sum(std::span<const float> logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(double(logit) - largest);
  return largest + std::log(sum);
}

void check_options(const PerplexityOptions& options) {
  if (options.method != "windows" && options.method != "sliding")
    throw Error("--method: expected windows or sliding, found \"{}\"", options.method);
  if (options.window < 4) throw Error("--window: expected at least 4 tokens, found {}", options.window);
  if (options.stride > options.window)
    throw Error("--stride: expected at most the window ({}), found {}", options.window, options.stride);
}

// A model and the engine that scores with it.
struct Scorer {
  explicit Scorer(std::unique_ptr<RunningModel> opened)
      : running(std::move(opened)), engine(running->model, *running->backend, running->limits, options()) {}

  std::unique_ptr<RunningModel> running;
  engine::Engine engine;

 private:
  engine::EngineOptions options() const {
    engine::EngineOptions options = single_user(*running);
    options.max_prompt_logits = running->limits.rows;
    return options;
  }
};

// What the tokens scored so far come to.
class Sums {
 public:
  void add(std::span<const float> logits, TokenId token) {
    const double loss = log_sum(logits) - logits[token];
    sum_ += loss;
    squares_ += loss * loss;
    ++tokens_;
  }
  // The divergence of `logits` from those of the other model.
  void compare(std::span<const float> logits, std::span<const float> base) {
    const double norm = log_sum(logits), base_norm = log_sum(base);
    double distance = 0;
    for (size_t i = 0; i < logits.size(); ++i)
      distance += std::exp(base[i] - base_norm) * ((base[i] - base_norm) - (logits[i] - norm));
    divergence_ += distance;
    largest_ = std::max(largest_, distance);
    agreed_ += best(logits) == best(base);
  }
  Perplexity result(uint64_t windows) const {
    const double count = double(tokens_), mean = sum_ / count, value = std::exp(mean);
    const double variance = std::max(0.0, squares_ / count - mean * mean);
    return {.tokens = tokens_,
            .windows = windows,
            .value = value,
            .error = tokens_ > 1 ? value * std::sqrt(variance / (count - 1)) : 0,
            .divergence = divergence_ / count,
            .largest_divergence = largest_,
            .top1_agreement = double(agreed_) / count};
  }

 private:
  static ptrdiff_t best(std::span<const float> logits) {
    return std::max_element(logits.begin(), logits.end()) - logits.begin();
  }
  uint64_t tokens_ = 0, agreed_ = 0;
  double sum_ = 0, squares_ = 0, divergence_ = 0, largest_ = 0;
};

}  // namespace

Perplexity measure_perplexity(const PerplexityOptions& options, std::string_view text,
                              const std::function<void(const Perplexity&, uint64_t)>& progress, std::ostream* log) {
  check_options(options);
  DeviceOptions device = options.device;
  device.context = options.window;
  Scorer model(open_running(options.model, device, log));
  std::optional<Scorer> other;
  if (!options.other.empty()) other.emplace(open_running(options.other, device, log));
  const uint32_t vocabulary = model.running->model.vocabulary;
  if (other && other->running->model.vocabulary != vocabulary)
    throw Error("--kl: expected a vocabulary of {}, as in {}, found {} in {}", vocabulary, options.model,
                other->running->model.vocabulary, options.other);
  const text::Tokenizer& tokenizer = model.running->tokenizer();
  const std::vector<TokenId> tokens = tokenizer.encode(text, {.add_special = true, .parse_special = false});
  const bool begins = tokenizer.bos() && !tokens.empty() && tokens[0] == *tokenizer.bos();
  const std::vector<Window> windows = windows_of(options, tokens.size());
  if (windows.empty())
    throw Error("{}: expected at least {} tokens, found {}", options.file, options.window, tokens.size());

  Sums sums;
  std::vector<float> base;  // logits of the other model, of the rows that are scored
  Perplexity result;
  if (progress) progress(result, windows.size());
  for (const Window& window : windows) {
    std::vector<TokenId> prompt(tokens.begin() + long(window.begin), tokens.begin() + long(window.end) - 1);
    if (begins && options.method == "windows") prompt[0] = *tokenizer.bos();
    const auto first = uint32_t(window.first - window.begin - 1);  // its logits are those of the first token scored
    base.clear();
    if (other)
      compute_logits(other->engine, prompt, first,
                     [&](uint32_t, std::span<const float> row) { base.insert(base.end(), row.begin(), row.end()); });
    compute_logits(model.engine, prompt, first, [&](uint32_t i, std::span<const float> row) {
      sums.add(row, tokens[window.begin + i + 1]);
      if (other) sums.compare(row, std::span(base).subspan(size_t(i - first) * vocabulary, vocabulary));
    });
    result = sums.result(result.windows + 1);
    if (progress) progress(result, windows.size());
  }
  return result;
}

void perplexity(const PerplexityOptions& options, std::ostream& out, std::ostream& err) {
  const MappedFile file(options.file);
  std::optional<ProgressLine> line;  // from when the models are loaded
  const Perplexity result = measure_perplexity(
      options, file.text(),
      [&](const Perplexity& so_far, uint64_t windows) {
        if (!line) line.emplace(&err);
        line->count(so_far.windows ? fmt::format("perplexity {:.4f},", so_far.value) : "perplexity:", so_far.windows,
                    windows, "windows");
      },
      &err);
  line.reset();
  out << fmt::format("perplexity {:.4f} +- {:.4f} ({} tokens scored in {} windows of {})\n", result.value, result.error,
                     result.tokens, result.windows, options.window);
  if (!options.other.empty())
    out << fmt::format("KL divergence from {}: mean {:.6f}, largest {:.4f}; top-1 agreement {:.2f} %\n", options.other,
                       result.divergence, result.largest_divergence, 100 * result.top1_agreement);
}

void describe_perplexity(CLI::App& program, std::ostream& out, std::ostream& err) {
  const auto options = std::make_shared<PerplexityOptions>();
  CLI::App* command = program.add_subcommand("perplexity", "Measure perplexity on a text");
  describe_required_model(*command, options->model);
  command->add_option("FILE", options->file, "Text file")->required()->type_name("");
  command->add_option("--method", options->method, "windows (as in llama.cpp) or sliding")->type_name("NAME");
  command->add_option("--window", options->window, "Tokens in a window")->type_name("N");
  command->add_option("--stride", options->stride, "Tokens between sliding windows; 0: half a window")->type_name("N");
  command->add_option("--windows", options->limit, "Maximum number of windows; 0: all")->type_name("N");
  command->add_option("--kl", options->other, "Also report the KL divergence from this model")->type_name("MODEL");
  describe_device(*command, options->device);
  command->callback([options, &out, &err] { perplexity(*options, out, err); });
}

}  // namespace heddle
