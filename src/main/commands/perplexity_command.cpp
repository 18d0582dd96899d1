// Windows follow llama.cpp: they do not overlap, each begins with BOS where the model wants one, and of each the second
// half is scored. Sliding ones overlap, and every token is scored once with as much before it as fits.
#include "main/commands/perplexity_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <vector>

#include "base/error.h"
#include "base/files.h"

namespace heddle {
namespace {

using text::TokenId;

// Tokens [begin, end) are fed; those from `first` on are scored, by the logits after the token before.
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

// The logits of a whole window, row by row.
std::vector<float> logits_of(model::Session& session, std::span<const TokenId> tokens, uint32_t vocabulary) {
  std::vector<float> all;
  all.reserve(tokens.size() * vocabulary);
  session.rewind(0);
  session.feed_each(tokens, [&](size_t, std::span<const float> row) { all.insert(all.end(), row.begin(), row.end()); });
  return all;
}

}  // namespace

Perplexity measure_perplexity(const PerplexityOptions& options, std::string_view text,
                              const std::function<void(const Perplexity&, uint64_t)>& progress, std::ostream* log) {
  check_options(options);
  DeviceOptions device = options.device;
  device.context = options.window;
  const auto running = open_running(options.model, device, log),
             other = options.other.empty() ? nullptr : open_running(options.other, device, log);
  const uint32_t vocabulary = running->model.vocabulary;
  if (other && other->model.vocabulary != vocabulary)
    throw Error("--kl: expected a vocabulary of {}, as in {}, found {} in {}", vocabulary, options.model,
                other->model.vocabulary, options.other);
  const text::Tokenizer& tokenizer = running->tokenizer();
  std::vector<TokenId> tokens = tokenizer.encode(text, {.add_special = true, .parse_special = false});
  const bool begins = tokenizer.bos() && !tokens.empty() && tokens[0] == *tokenizer.bos();
  const std::vector<Window> windows = windows_of(options, tokens.size());
  if (windows.empty())
    throw Error("{}: expected at least {} tokens, found {}", options.file, options.window, tokens.size());

  model::Session session = running->session();
  std::optional<model::Session> other_session;
  if (other) other_session.emplace(other->session());
  Perplexity result;
  double sum = 0, squares = 0, divergence = 0;
  uint64_t same = 0;
  for (const Window& window : windows) {
    std::vector<TokenId> fed(tokens.begin() + long(window.begin), tokens.begin() + long(window.end));
    if (begins && options.method == "windows") fed[0] = *tokenizer.bos();
    const std::vector<float> logits = logits_of(session, fed, vocabulary);
    std::vector<float> others;
    if (other) others = logits_of(*other_session, fed, vocabulary);
    for (size_t at = window.first; at < window.end; ++at) {
      const std::span<const float> row(&logits[(at - window.begin - 1) * vocabulary], vocabulary);
      const double norm = log_sum(row), loss = norm - row[tokens[at]];
      sum += loss;
      squares += loss * loss;
      ++result.tokens;
      if (!other) continue;
      const std::span<const float> base(&others[(at - window.begin - 1) * vocabulary], vocabulary);
      const double base_norm = log_sum(base);
      double distance = 0;
      for (uint32_t i = 0; i < vocabulary; ++i)
        distance += std::exp(base[i] - base_norm) * ((base[i] - base_norm) - (row[i] - norm));
      divergence += distance;
      result.largest_divergence = std::max(result.largest_divergence, distance);
      same += std::max_element(row.begin(), row.end()) - row.begin() ==
              std::max_element(base.begin(), base.end()) - base.begin();
    }
    ++result.windows;
    const double count = double(result.tokens), mean = sum / count;
    result.value = std::exp(mean);
    result.error =
        result.tokens > 1 ? result.value * std::sqrt(std::max(0.0, squares / count - mean * mean) / (count - 1)) : 0;
    result.divergence = divergence / count;
    result.same_best = double(same) / count;
    if (progress) progress(result, windows.size());
  }
  return result;
}

void perplexity(const PerplexityOptions& options, std::ostream& out, std::ostream& err) {
  const MappedFile file(options.file);
  const bool shown = ::isatty(STDERR_FILENO) == 1;
  const Perplexity result = measure_perplexity(
      options, file.text(),
      [&](const Perplexity& so_far, uint64_t windows) {
        if (shown)
          err << fmt::format("\r\x1b[Kwindow {} of {}, perplexity {:.4f}", so_far.windows, windows, so_far.value)
              << std::flush;
      },
      &err);
  if (shown) err << "\r\x1b[K" << std::flush;
  out << fmt::format("perplexity {:.4f} +- {:.4f} ({} tokens scored in {} windows of {})\n", result.value, result.error,
                     result.tokens, result.windows, options.window);
  if (!options.other.empty())
    out << fmt::format("KL divergence from {}: mean {:.6f}, largest {:.4f}; same favourite {:.2f} %\n", options.other,
                       result.divergence, result.largest_divergence, 100 * result.same_best);
}

}  // namespace heddle
