#include "text/jinja/sandbox.h"

#include "base/error.h"

namespace heddle::text::jinja {
namespace {

uint32_t deepest(const std::vector<Value>& items) {
  uint32_t depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item));
  return depth;
}

}  // namespace

Value Sandbox::string(std::string text, bool markup) {
  bytes(text.size());
  return string_value(std::move(text), markup);
}

Value Sandbox::sequence(Kind kind, std::vector<Value> items) {
  this->items(items.size());
  const uint32_t depth = deepest(items) + 1;
  check_depth(depth);
  return Value(kind, std::make_shared<const List>(List{std::move(items), depth}));
}

Value Sandbox::pair(Value first, Value second) {
  std::vector<Value> items;
  items.reserve(2);
  items.push_back(std::move(first));
  items.push_back(std::move(second));
  return tuple(std::move(items));
}

Value Sandbox::group(Value first, Value second) {
  List list(pair(std::move(first), std::move(second)).list());
  list.group = true;
  return Value(Kind::tuple, std::make_shared<const List>(std::move(list)));
}

Value Sandbox::dict(Dict dict) {
  items(2 * dict.size());
  dict.depth = 1;
  for (const auto& [key, value] : dict.items)
    dict.depth = std::max({dict.depth, depth_of(key) + 1, depth_of(value) + 1});
  check_depth(dict.depth);
  return Value(std::make_shared<const Dict>(std::move(dict)));
}

void Sandbox::out_of_steps() const { throw Error("the template takes more than {} steps", limits_.steps); }
void Sandbox::too_large(size_t size) const {
  throw Error("a text or list of {} bytes: more than the limit of {}", size, limits_.output);
}
void Sandbox::too_deep() const { throw Error("nested deeper than {} levels", limits_.depth); }

}  // namespace heddle::text::jinja
