#include "text/rank_text.h"

#include <algorithm>

#include "base/error.h"
#include "text/pipeline.h"

namespace heddle::text {
namespace {

constexpr std::string_view query_mark = "{query}", document_mark = "{document}";

}  // namespace

RankText::RankText(const Tokenizer& tokenizer, std::string_view rank_template)
    : tokenizer_(tokenizer), joined_(rank_template.empty()) {
  if (joined_) {
    for (const PairPart& part : tokenizer.pipeline().pair) last_ = part.kind == PairPart::Kind::token ? last_ + 1 : 0;
    return;
  }
  const size_t query = rank_template.find(query_mark), document = rank_template.find(document_mark);
  if (query == rank_template.npos || document == rank_template.npos || document < query)
    throw Error("expected {} and then {} in the rerank template, found {}", query_mark, document_mark,
                query == rank_template.npos ? "no query" : "no document after the query");
  before_ = rank_template.substr(0, query);
  middle_ = rank_template.substr(query + query_mark.size(), document - query - query_mark.size());
  end_ = rank_template.substr(document + document_mark.size());
  last_ = tokenizer.encode(end_, {.add_special = false}).size();
}

EncodedPair RankText::whole(std::string_view query, std::string_view document) const {
  if (joined_) return tokenizer_.encode_pair(query, document);
  std::string text = before_;
  TextRanges given;
  const auto add = [&](std::string_view part, std::string_view after) {
    add_range(given, text.size(), text.size() + part.size());
    text.append(part).append(after);
  };
  add(query, middle_);
  add(document, end_);
  EncodedPair pair;
  pair.ids = tokenizer_.encode(text, {.add_special = false, .plain = given});
  pair.types.assign(pair.ids.size(), 0);
  return pair;
}

RankText::Encoded RankText::encode(std::string_view query, std::string_view document, size_t max_document,
                                   size_t max_tokens) const {
  Encoded encoded{whole(query, document)};
  EncodedPair& pair = encoded.pair;
  if (pair.ids.size() <= std::min(max_document, max_tokens)) return encoded;
  const size_t own = tokenizer_.encode(document, {.add_special = false, .parse_special = false}).size();
  size_t cut = own > max_document ? own - max_document : 0;
  if (pair.ids.size() - cut > max_tokens) cut = pair.ids.size() - max_tokens;
  cut = std::min({cut, own, pair.ids.size() - last_});
  const auto end = long(pair.ids.size() - last_);
  pair.ids.erase(pair.ids.begin() + end - long(cut), pair.ids.begin() + end);
  pair.types.erase(pair.types.begin() + end - long(cut), pair.types.begin() + end);
  encoded.cut = cut;
  return encoded;
}

}  // namespace heddle::text
