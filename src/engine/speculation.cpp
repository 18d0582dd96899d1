// Slots of the tables hold positions: the tokens before a position are read from the text.
#include "engine/speculation.h"

#include <algorithm>

#include "base/error.h"

namespace heddle::engine {

// The slot of the `length` tokens before `after`, or the free slot for them.
uint32_t& PromptLookup::slot_of(Table& table, uint32_t length, uint32_t after) const {
  const auto tokens = std::span(text_).subspan(after - length, length);
  uint64_t hash = 0;
  for (const uint32_t token : tokens) hash = (hash ^ token) * 0x9e3779b97f4a7c15u;
  const size_t mask = table.slots.size() - 1;
  for (size_t slot = (hash >> 32) & mask;; slot = (slot + 1) & mask) {
    const uint32_t there = table.slots[slot];
    if (there == 0 || std::equal(tokens.begin(), tokens.end(), text_.begin() + (there - length)))
      return table.slots[slot];
  }
}

void PromptLookup::grow(Table& table, uint32_t length) const {
  std::vector<uint32_t> old(std::max<size_t>(64, table.slots.size() * 2));
  old.swap(table.slots);
  for (const uint32_t after : old)
    if (after) slot_of(table, length, after) = after;
}

void PromptLookup::accept(uint32_t token) {
  check(text_.size() < UINT32_MAX, "positions fit into 32 bits");
  text_.push_back(token);
  const uint32_t end = uint32_t(text_.size());
  for (uint32_t length = shortest; length <= std::min(longest, end); ++length) {
    Table& table = tables_[length - shortest];
    if (table.slots.size() <= table.used * size_t(2)) grow(table, length);
    uint32_t& slot = slot_of(table, length, end);
    found_[length - shortest] = slot;
    if (slot == 0) ++table.used;
    slot = end;
  }
}

void PromptLookup::accept(std::span<const uint32_t> tokens) {
  text_.reserve(text_.size() + tokens.size());
  for (const uint32_t token : tokens) accept(token);
}

std::vector<uint32_t> PromptLookup::propose(uint32_t count) const {
  const auto found = std::find_if(found_.rbegin(), found_.rend(), [](uint32_t after) { return after != 0; });
  if (found == found_.rend()) return {};
  std::vector<uint32_t> proposed(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t from = *found + i;
    proposed[i] = from < text_.size() ? text_[from] : proposed[from - text_.size()];
  }
  return proposed;
}

namespace {

constexpr double decay = 0.9;                        // per token: about the last ten count
constexpr double min_gain = 1.1;                     // over the rate of plain steps
constexpr uint32_t proposals_after_pause = 2;        // to try again
constexpr uint32_t min_pause = 16, max_pause = 512;  // tokens

double accepted_of(uint32_t count, double probability) {
  double tokens = 0, all_accepted = 1;
  for (uint32_t i = 0; i < count; ++i) tokens += all_accepted *= probability;
  return tokens;
}

double rate_of(double probability, uint32_t count, const Price& price) {
  return (1 + accepted_of(count, probability)) / (1 + price.once + count * price.row);
}

// The number of proposals with the best rate; 0: no number pays.
uint32_t best_count(double probability, const Price& price, uint32_t max_proposals) {
  uint32_t best = 0;
  double best_rate = min_gain;
  for (uint32_t count = 1; count <= max_proposals; ++count) {
    const double rate = rate_of(probability, count, price);
    if (rate < best_rate) continue;
    best = count;
    best_rate = rate;
  }
  return best;
}

}  // namespace

uint32_t Payoff::next(const Price& price) {
  if (pause_left_ > 0) {
    trying_ = --pause_left_ == 0;
    return 0;
  }
  const uint32_t best = best_count(probability(), price, max_proposals_);
  if (best > 0) {
    pause_ = min_pause;
    return best;
  }
  if (best_count(1, price, max_proposals_) == 0) return 0;  // at this price it never pays
  if (trying_) return std::min(proposals_after_pause, max_proposals_);
  pause_left_ = pause_;
  pause_ = std::min(2 * pause_, max_pause);
  return 0;
}

double Payoff::rate(uint32_t count, const Price& price) const { return rate_of(probability(), count, price); }

double Payoff::expect(uint32_t count) const { return accepted_of(count, probability()); }

void Payoff::add(uint32_t proposed, uint32_t accepted) {
  check(accepted <= proposed && proposed > 0, "no more accepted than proposed");
  for (uint32_t i = 0; i < std::min(accepted + 1, proposed); ++i) {
    accepted_ = accepted_ * decay + (i < accepted ? 1 : 0);
    tried_ = tried_ * decay + 1;
  }
  trying_ = trying_ && accepted == proposed;
}

}  // namespace heddle::engine
