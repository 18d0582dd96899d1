// Merges -> the scores of SentencePiece's BPE.
#pragma once
#include <string>
#include <vector>

#include "text/json/tokenizer_json_parts.h"

namespace heddle::text {

// SentencePiece joins any two neighbours that make a token, the best score first; merges are a list of pairs. They are
// the same when every pair that makes a token is in the list, and all pairs of one token before those of the next:
// then the place of a token's first merge is its score. That is how lists made from a SentencePiece model are. Any
// other list is an Error: the ids would be different ones.
std::vector<float> scores_of_merges(const JsonModel& model, const std::vector<TokenType>& types,
                                    const std::string& file);

}  // namespace heddle::text
