// Windows, breakers, and repetitions by the Z function of the text read backwards.
#include "engine/sampling/history.h"

#include <algorithm>

namespace heddle::engine {

std::optional<uint32_t> TokenWindow::push(uint32_t token) {
  if (limit_ == 0) return {};
  std::optional<uint32_t> leaves;
  if (tokens_.size() >= limit_) leaves = tokens_[tokens_.size() - limit_];
  if (leaves && tokens_.size() >= 2 * limit_)
    tokens_.erase(tokens_.begin(), tokens_.end() - ptrdiff_t(limit_) + 1);  // with the new token, the window is full
  tokens_.push_back(token);
  return leaves;
}

std::span<const uint32_t> TokenWindow::tokens() const {
  return std::span(tokens_).last(std::min(tokens_.size(), limit_));
}

Breakers::Breakers(const std::vector<std::vector<uint32_t>>& sequences) {
  for (const auto& sequence : sequences) by_last_[sequence.back()].push_back(sequence);
}

bool Breakers::is_one(uint32_t token) const {
  const auto found = by_last_.find(token);
  return found != by_last_.end() &&
         std::any_of(found->second.begin(), found->second.end(), [](const auto& s) { return s.size() == 1; });
}

size_t Breakers::tokens_after(std::span<const uint32_t> text) const {
  if (by_last_.empty()) return text.size();
  for (size_t end = text.size(); end > 0; --end) {
    const auto found = by_last_.find(text[end - 1]);
    if (found == by_last_.end()) continue;
    for (const auto& sequence : found->second)
      if (sequence.size() <= end &&
          std::equal(sequence.begin(), sequence.end(), text.begin() + ptrdiff_t(end - sequence.size())))
        return text.size() - end;
  }
  return text.size();
}

std::unordered_map<uint32_t, size_t> prolonged_repetitions(std::span<const uint32_t> text, size_t allowed,
                                                           size_t limit) {
  std::unordered_map<uint32_t, size_t> longest;
  if (limit < allowed) return longest;
  const size_t size = text.size();
  const auto backwards = [&](size_t i) { return text[size - 1 - i]; };
  std::vector<size_t> same(size);  // how many tokens before position k (from the end) are those before the end
  size_t left = 0, right = 0;      // [left, right) is known to be equal to [0, right - left)
  for (size_t k = 1; k < size; ++k) {
    size_t length = k < right ? std::min(right - k, same[k - left]) : 0;
    while (k + length < size && backwards(length) == backwards(k + length)) ++length;
    same[k] = length;
    if (k + length > right) {
      left = k;
      right = k + length;
    }
    const size_t counted = std::min(length, limit);
    if (counted < allowed) continue;
    size_t& known = longest[backwards(k - 1)];
    known = std::max(known, counted);
  }
  return longest;
}

}  // namespace heddle::engine
