// The merging itself: a list of tokens is shortened in place.
#pragma once
#include <vector>

#include "text/bpe/bpe_tables.h"

namespace heddle::text {

// Joins the pair of neighbours with the lowest rank, the leftmost of equal ones, until no pair can be joined. Linear
// times the logarithm of the length.
void merge_tokens(const MergeTable& merges, std::vector<TokenId>& tokens);

}  // namespace heddle::text
