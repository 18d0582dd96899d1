// A query and a document as a reranker reads them: one sequence of tokens.
#pragma once
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace heddle::text {

// How a reranker's texts are joined: by a template with "{query}" and "{document}" in it, each once and in this order,
// or, where that is empty, as the tokenizer joins two texts.
class RankText {
 public:
  // An Error if the template lacks one of the two. The tokenizer must outlive it.
  RankText(const Tokenizer& tokenizer, std::string_view rank_template);

  struct Encoded {
    EncodedPair pair;
    size_t cut = 0;  // tokens of the document that were left out
  };
  // `max_document`: tokens of the document, the last ones are cut. `max_tokens`: of all; more of the document is cut
  // then, if it has as many. Neither text can write control tokens. Thread-safe.
  Encoded encode(std::string_view query, std::string_view document, size_t max_document, size_t max_tokens) const;

 private:
  EncodedPair whole(std::string_view query, std::string_view document) const;

  const Tokenizer& tokenizer_;
  bool joined_ = true;                 // by the tokenizer
  std::string before_, middle_, end_;  // of the template
  size_t last_ = 0;                    // tokens after the document
};

}  // namespace heddle::text
