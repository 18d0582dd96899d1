#include "server/service/constraints.h"

#include "base/error.h"

namespace heddle::server {

std::shared_ptr<const grammar::Vocabulary> Constraints::vocabulary() {
  const std::lock_guard lock(vocabulary_mutex_);
  if (!vocabulary_) vocabulary_ = std::make_shared<const grammar::Vocabulary>(tokenizer_.generated_texts(tokens_));
  return vocabulary_;
}

std::shared_ptr<grammar::TokenMasks> Constraints::compile(const grammar::Source& source) {
  if (source.text.size() > max_source)
    throw Error("expected at most {} bytes, found {}", max_source, source.text.size());
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = places_.find(source); found != places_.end()) {
      kept_.splice(kept_.begin(), kept_, found->second);
      return kept_.front().masks;
    }
  }
  auto compiled = std::make_shared<grammar::CompiledGrammar>(grammar::read(source));
  if (grammar::Position(compiled).must_end()) throw Error("expected a text that is not empty, found nothing else");
  auto masks = std::make_shared<grammar::TokenMasks>(std::move(compiled), vocabulary());
  const std::lock_guard lock(mutex_);
  if (places_.contains(source)) return places_.at(source)->masks;  // compiled by another thread meanwhile
  kept_.push_front({source, masks});
  places_[source] = kept_.begin();
  if (kept_.size() > max_kept) {
    places_.erase(kept_.back().source);
    kept_.pop_back();
  }
  return masks;
}

}  // namespace heddle::server
