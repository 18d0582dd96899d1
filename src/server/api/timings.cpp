#include "server/api/timings.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle::server {
namespace {

// Four numbers about `count` tokens in `seconds`; rates of nothing are 0.
std::string rates(std::string_view name, uint64_t count, double seconds) {
  const double per_token = count ? seconds * 1e3 / double(count) : 0,
               per_second = seconds > 0 ? double(count) / seconds : 0;
  return fmt::format(R"("{0}_n":{1},"{0}_ms":{2:.3f},"{0}_per_token_ms":{3:.3f},"{0}_per_second":{4:.3f})", name, count,
                     seconds * 1e3, per_token, per_second);
}

}  // namespace

std::string timings_json(uint64_t prompt, const CompletionCost& cost) {
  return fmt::format(R"({{"cache_n":{},{},{}}})", cost.cached,
                     rates("prompt", prompt - std::min<uint64_t>(prompt, cost.cached), cost.timing.prompt),
                     rates("predicted", cost.tokens, cost.timing.generating));
}

}  // namespace heddle::server
