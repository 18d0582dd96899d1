#include "text/json/vocabulary_json_merges.h"

#include <unordered_set>

#include "base/error.h"
#include "base/utf8.h"

namespace heddle::text {
namespace {

void check_pairs(const JsonModel& model, const std::vector<TokenType>& types, const std::string& file) {
  std::unordered_set<std::string> listed;  // "left right": tokens have no spaces here
  for (const auto& [left, right] : model.merges) listed.insert(left + ' ' + right);
  const auto is_piece = [&](const std::string& text) {
    const auto id = model.vocabulary.find(text);
    return id && types[*id] == TokenType::normal;
  };
  for (TokenId id = 0; id < model.vocabulary.texts.size(); ++id) {
    const std::string& text = model.vocabulary.texts[id];
    if (text.empty() || types[id] != TokenType::normal) continue;
    for (size_t at = code_point_at(text, 0).bytes; at < text.size(); at += code_point_at(text, at).bytes) {
      const std::string left = text.substr(0, at), right = text.substr(at);
      if (is_piece(left) && is_piece(right) && !listed.contains(left + ' ' + right))
        throw Error(
            "{}: model.merges: \"{}\" and \"{}\" make a token, but are not merged; SentencePiece would merge "
            "them, so GGUF has no words for this list",
            file, left, right);
    }
  }
}

}  // namespace

std::vector<float> scores_of_merges(const JsonModel& model, const std::vector<TokenType>& types,
                                    const std::string& file) {
  check_pairs(model, types, file);
  constexpr float none = 1;  // scores are at most 0
  std::vector<float> scores(types.size(), none);
  const std::string* last = nullptr;  // what the merge before makes
  std::string joined;
  for (size_t rank = 0; rank < model.merges.size(); ++rank) {
    joined = model.merges[rank].first + model.merges[rank].second;
    if (last && *last == joined) continue;
    const TokenId id = *model.vocabulary.find(joined);
    if (scores[id] != none)
      throw Error(
          "{}: model.merges[{}]: a second place for \"{}\", with other tokens between; GGUF has one score for it", file,
          rank, joined);
    scores[id] = -static_cast<float>(rank);
    last = &model.vocabulary.texts[id];
  }
  for (float& score : scores)
    if (score == none) score = -static_cast<float>(model.merges.size());
  return scores;
}

}  // namespace heddle::text
