// Grammars of requests, compiled for the model's vocabulary. Those used last are kept: clients send the same schema
// again and again.
#pragma once
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "grammar/source.h"
#include "grammar/token_masks.h"
#include "text/tokenizer.h"

namespace heddle::server {

class Constraints {
 public:
  // `vocabulary`: tokens the model has logits for. The tokenizer must outlive it.
  Constraints(const text::Tokenizer& tokenizer, uint32_t vocabulary) : tokenizer_(tokenizer), tokens_(vocabulary) {}

  // From any thread; may take long. An Error if the source cannot be kept, or allows nothing but the empty text.
  std::shared_ptr<grammar::TokenMasks> compile(const grammar::Source& source);

  // The same for a grammar that is not read from a text: `make` gives it unless one of this key is kept. Control tokens
  // that are `shown`, sorted, have their texts in it.
  struct Made {
    std::string key;
    std::function<grammar::Grammar()> make;
    std::vector<text::TokenId> shown = {};
  };
  std::shared_ptr<grammar::TokenMasks> compile(const Made& made);

  static constexpr size_t max_source = 1 << 20;  // bytes
  static constexpr size_t max_kept = 16;         // each may have megabytes of masks

 private:
  std::shared_ptr<const grammar::Vocabulary> vocabulary(const std::vector<text::TokenId>& shown);

  const text::Tokenizer& tokenizer_;
  const uint32_t tokens_;
  std::mutex vocabulary_mutex_;  // guards the next member: it takes a tenth of a second to make, at the first use
  std::map<std::vector<text::TokenId>, std::shared_ptr<const grammar::Vocabulary>> vocabularies_;  // by what is shown
  std::mutex mutex_;  // guards the members below
  struct Kept {
    std::string key;
    std::shared_ptr<grammar::TokenMasks> masks;
  };
  std::list<Kept> kept_;  // the last used first
  std::map<std::string, std::list<Kept>::iterator> places_;
};

}  // namespace heddle::server
