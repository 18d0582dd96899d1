// Stop texts are few and short: each is looked for in what is held back and what is new.
#include "text/stop_strings.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace heddle::text {
namespace {

// How many bytes at the end of `text` are the beginning of `stop`.
size_t begun(std::string_view text, std::string_view stop) {
  for (size_t size = std::min(text.size(), stop.size() - 1); size > 0; --size)
    if (text.ends_with(stop.substr(0, size))) return size;
  return 0;
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> texts) : texts_(std::move(texts)) {
  for (const std::string& text : texts_)
    if (text.empty()) throw Error("stop: expected a text, found an empty one");
}

std::string StopStrings::push(std::string_view piece) {
  if (found_) return {};
  held_ += piece;
  size_t end = held_.npos, begin = held_.npos;
  for (const std::string& text : texts_) {
    const size_t at = held_.find(text);
    if (at == held_.npos || at + text.size() > end) continue;
    begin = at + text.size() < end ? at : std::min(begin, at);
    end = at + text.size();
  }
  size_t keep = 0;
  if (begin != held_.npos) {
    found_ = true;
    keep = held_.size() - begin;
  } else {
    for (const std::string& text : texts_) keep = std::max(keep, begun(held_, text));
  }
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, found_ ? held_.npos : out.size());
  return out;
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

}  // namespace heddle::text
