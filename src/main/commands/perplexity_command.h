// heddle perplexity: perplexity on a text, and the KL divergence from another model.
#pragma once
#include <functional>
#include <iosfwd>
#include <span>
#include <string>

#include "main/device/running_model.h"

namespace heddle {

struct PerplexityOptions {
  std::string model, file, other;  // `other`: model to compare with; empty: no comparison
  std::string method = "windows";  // windows or sliding
  uint32_t window = 512;           // tokens
  uint32_t stride = 0;             // tokens between sliding windows; 0: half a window
  uint32_t limit = 0;              // maximum number of windows; 0: all
  DeviceOptions device;
};

struct Perplexity {
  uint64_t tokens = 0, windows = 0;               // tokens that were scored
  double value = 0, error = 0;                    // `error`: one standard deviation
  double divergence = 0, largest_divergence = 0;  // from `other`: the mean over tokens and the largest, in nats
  double top1_agreement = 0;                      // share of positions where both have the same most likely token
};
// `text`: the bytes of the file. `progress` is called with what is known so far, before the first window
// and after each. `log`: see
// open_running().
Perplexity measure_perplexity(const PerplexityOptions& options, std::string_view text,
                              const std::function<void(const Perplexity&, uint64_t windows)>& progress,
                              std::ostream* log = nullptr);

void perplexity(const PerplexityOptions& options, std::ostream& out, std::ostream& err);

}  // namespace heddle
