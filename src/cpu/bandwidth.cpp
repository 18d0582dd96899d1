// Every thread reads its part of a block that no cache holds.
#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/memory.h"
#include "cpu/cpu.h"
#include "cpu/isa.h"
#include "cpu/pages.h"
#include "cpu/team.h"

namespace heddle::cpu {
namespace {

constexpr uint64_t piece = 4 << 20;

}  // namespace

double read_bandwidth(uint32_t threads) {
  const Isa& isa = choose_isa("auto");
  const uint64_t bytes = std::clamp<uint64_t>(available_memory() / 4, 64 << 20, 2ull << 30) / piece * piece;
  const Pages pages(bytes, Pages::Size::large);
  Team team(threads);
  team.run(bytes / piece, [&](uint64_t i, uint32_t) { std::memset(pages.data() + i * piece, 1, piece); });
  std::atomic<uint64_t> sink{0};
  double best = 0;
  for (int run = 0; run < 5; ++run) {
    const auto start = Clock::now();
    team.run(bytes / piece, [&](uint64_t i, uint32_t) { sink ^= isa.read_all(pages.data() + i * piece, piece); });
    best = std::max(best, double(bytes) / seconds_since(start));
  }
  return best;
}

}  // namespace heddle::cpu
