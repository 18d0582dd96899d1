#include "text/bpe/bpe_merge.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "base/error.h"

namespace heddle::text {

namespace {

// Up to this length looking at all pairs is faster than keeping a heap (words of English have 5 bytes).
constexpr size_t longest_scan = 48;

// Looks for the lowest rank among all pairs, joins it and closes the gap.
void merge_by_scan(const MergeTable& merges, std::vector<TokenId>& tokens) {
  std::array<MergeTable::Joined, longest_scan> pairs;  // of tokens i and i + 1
  TokenId* const token = tokens.data();
  size_t count = tokens.size();
  for (size_t i = 0; i + 1 < count; ++i) pairs[i] = merges.find(token[i], token[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i)
      if (pairs[i].rank < pairs[best].rank) best = i;
    if (pairs[best].rank == MergeTable::never) break;
    token[best] = pairs[best].id;
    std::copy(token + best + 2, token + count, token + best + 1);
    std::copy(pairs.begin() + ptrdiff_t(best) + 1, pairs.begin() + ptrdiff_t(count) - 1,
              pairs.begin() + ptrdiff_t(best));
    --count;
    if (best + 1 < count) pairs[best] = merges.find(token[best], token[best + 1]);
    if (best > 0) pairs[best - 1] = merges.find(token[best - 1], token[best]);
  }
  tokens.resize(count);
}

// A linked list of tokens, and a heap of pairs: the rank above, the place of the left token below. An entry is stale
// when the pair at its place has another rank by now.
class HeapMerge {
 public:
  HeapMerge(const MergeTable& merges, std::vector<TokenId>& tokens) : merges_(merges), tokens_(tokens) {
    check(tokens.size() < end, "more tokens than the heap can number");
    const uint32_t count = uint32_t(tokens.size());
    links_.resize(count);
    pairs_.resize(count);
    for (uint32_t i = 0; i < count; ++i) links_[i] = {i == 0 ? end : i - 1, i + 1 == count ? end : i + 1};
    for (uint32_t i = 0; i + 1 < count; ++i) {
      pairs_[i] = merges.find(tokens[i], tokens[i + 1]);
      if (pairs_[i].rank != MergeTable::never) heap_.push_back(entry(i));
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>{});
  }

  void run() {
    while (!heap_.empty()) {
      const uint64_t lowest = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>{});
      heap_.pop_back();
      const uint32_t at = uint32_t(lowest);
      if (pairs_[at].rank == lowest >> 32) join(at);
    }
    size_t count = 0;
    for (uint32_t i = 0; i != end; i = links_[i].next) tokens_[count++] = tokens_[i];
    tokens_.resize(count);
  }

 private:
  static constexpr uint32_t end = std::numeric_limits<uint32_t>::max();
  struct Link {
    uint32_t previous, next;
  };

  uint64_t entry(uint32_t at) const { return uint64_t(pairs_[at].rank) << 32 | at; }

  void join(uint32_t at) {
    const uint32_t gone = links_[at].next;
    tokens_[at] = pairs_[at].id;
    pairs_[gone].rank = MergeTable::never;
    links_[at].next = links_[gone].next;
    if (links_[at].next != end) links_[links_[at].next].previous = at;
    look_at(at);
    if (links_[at].previous != end) look_at(links_[at].previous);
  }

  void look_at(uint32_t at) {
    const uint32_t next = links_[at].next;
    pairs_[at] = next == end ? MergeTable::Joined{} : merges_.find(tokens_[at], tokens_[next]);
    if (pairs_[at].rank == MergeTable::never) return;
    heap_.push_back(entry(at));
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>{});
  }

  const MergeTable& merges_;
  std::vector<TokenId>& tokens_;
  std::vector<Link> links_;
  std::vector<MergeTable::Joined> pairs_;  // of the token here and the next one
  std::vector<uint64_t> heap_;
};

}  // namespace

void merge_tokens(const MergeTable& merges, std::vector<TokenId>& tokens) {
  if (tokens.size() <= longest_scan)
    merge_by_scan(merges, tokens);
  else
    HeapMerge(merges, tokens).run();
}

}  // namespace heddle::text
