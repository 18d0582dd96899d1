#include "server/service/constraints.h"

#include "base/error.h"

namespace heddle::server {

std::shared_ptr<const grammar::Vocabulary> Constraints::vocabulary(const std::vector<text::TokenId>& shown) {
  const std::lock_guard lock(vocabulary_mutex_);
  auto& vocabulary = vocabularies_[shown];
  if (vocabulary) return vocabulary;
  std::vector<std::string> texts = tokenizer_.generated_texts(tokens_);
  for (const text::TokenId id : shown)
    if (id < texts.size()) texts[id] = tokenizer_.bytes(id);
  vocabulary = std::make_shared<const grammar::Vocabulary>(std::move(texts));
  return vocabulary;
}

std::shared_ptr<grammar::TokenMasks> Constraints::compile(const grammar::Source& source) {
  return compile(Made{fmt::format("{} {}", int(source.kind), source.text), [&] { return grammar::read(source); }});
}

std::shared_ptr<grammar::TokenMasks> Constraints::compile(const Made& made) {
  if (made.key.size() > max_source) throw Error("expected at most {} bytes, found {}", max_source, made.key.size());
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = places_.find(made.key); found != places_.end() && !found->second->masks->is_full()) {
      kept_.splice(kept_.begin(), kept_, found->second);
      return kept_.front().masks;
    }
  }
  auto compiled = std::make_shared<grammar::CompiledGrammar>(made.make());
  if (grammar::Position(compiled).must_end()) throw Error("expected a text that is not empty, found nothing else");
  auto masks = std::make_shared<grammar::TokenMasks>(std::move(compiled), vocabulary(made.shown));
  const std::lock_guard lock(mutex_);
  if (const auto found = places_.find(made.key); found != places_.end()) {
    if (!found->second->masks->is_full()) return found->second->masks;  // compiled by another thread meanwhile
    kept_.erase(found->second);
    places_.erase(found);
  }
  kept_.push_front({made.key, masks});
  places_[made.key] = kept_.begin();
  if (kept_.size() > max_kept) {
    places_.erase(kept_.back().key);
    kept_.pop_back();
  }
  return masks;
}

}  // namespace heddle::server
