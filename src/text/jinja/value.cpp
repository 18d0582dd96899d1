// Values: strings, dicts, truth, names of types; and what the sandbox allows.
#include "text/jinja/value.h"

#include <cmath>

#include "base/error.h"

namespace heddle::text::jinja {
namespace {

constexpr size_t linear_keys = 8;  // up to here looking at every key is faster than an index

size_t code_points(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0u) != 0x80u;
  return count;
}

bool is_same_key(const Value& key, const Value& other) {
  if (key.is(Kind::string) && other.is(Kind::string)) return key.text() == other.text();
  if (key.is(Kind::string) || other.is(Kind::string)) return false;
  return key_of(key) == key_of(other);
}

}  // namespace

Value::Value(const Function* function, std::shared_ptr<const Bound> self)
    : Value(Kind::function, std::shared_ptr<const void>(std::move(self))) {
  function_ = function;
}
Value::Value(std::shared_ptr<const Str> text) : Value(Kind::string, std::shared_ptr<const void>(std::move(text))) {}
Value::Value(std::shared_ptr<const Dict> dict) : Value(Kind::dict, std::shared_ptr<const void>(std::move(dict))) {}
Value::Value(std::shared_ptr<const View> view) : Value(Kind::view, std::shared_ptr<const void>(std::move(view))) {}
Value::Value(std::shared_ptr<const Range> range) : Value(Kind::range, std::shared_ptr<const void>(std::move(range))) {}
Value::Value(Kind list_or_tuple, std::shared_ptr<const List> items)
    : Value(list_or_tuple, std::shared_ptr<const void>(std::move(items))) {}
Value Value::undefined(std::string reason) {
  return Value(Kind::undefined,
               std::shared_ptr<const void>(std::make_shared<const Undefined>(Undefined{std::move(reason)})));
}
Value Value::big(std::string digits) {
  return Value(Kind::big, std::shared_ptr<const void>(std::make_shared<const std::string>(std::move(digits))));
}

bool Value::same_as(const Value& other) const {
  if (kind_ != other.kind_) return false;
  switch (kind_) {
    case Kind::boolean:
      return boolean_ == other.boolean_;
    case Kind::integer:
      return integer_ == other.integer_;
    case Kind::real:
      return real_ == other.real_;
    case Kind::string:  // Python shares equal short strings; whether two long ones are one is chance there
      return text() == other.text();
    case Kind::object:
      return object_ == other.object_;
    case Kind::none:
    case Kind::missing:
      return true;
    default:
      return shared_ == other.shared_;
  }
}

Str::Str(std::string content, bool is_markup, TextRanges own_parts)
    : text(std::move(content)), length(code_points(text)), markup(is_markup), own(std::move(own_parts)) {}

size_t Dict::position(const Value& key) const {
  if (index_.empty()) {
    if (!key.is(Kind::string)) key_of(key);  // refuses what cannot be a key
    size_t at = 0;
    while (at < items.size() && !is_same_key(items[at].first, key)) ++at;
    return at;
  }
  const auto found = index_.find(key_of(key));
  return found == index_.end() ? items.size() : found->second;
}

const Value* Dict::find(const Value& key) const {
  const size_t at = position(key);
  return at == items.size() ? nullptr : &items[at].second;
}

const Value* Dict::find(std::string_view key) const {
  if (!index_.empty()) return find(string_value(std::string(key)));
  for (const auto& [name, value] : items)
    if (name.is(Kind::string) && name.text() == key) return &value;
  return nullptr;
}

void Dict::set(Value key, Value value) {
  const size_t at = position(key);
  if (at < items.size()) {
    items[at].second = std::move(value);
    return;
  }
  items.emplace_back(std::move(key), std::move(value));
  if (items.size() == linear_keys + 1)
    for (uint32_t i = 0; i < items.size(); ++i) index_.emplace(key_of(items[i].first), i);
  else if (items.size() > linear_keys)
    index_.emplace(key_of(items.back().first), uint32_t(at));
}

int64_t Range::length() const {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const auto span = step > 0 ? uint64_t(stop) - uint64_t(start) : uint64_t(start) - uint64_t(stop);
  const auto stride = step > 0 ? uint64_t(step) : uint64_t(0) - uint64_t(step);
  const uint64_t count = (span - 1) / stride + 1;
  return int64_t(std::min<uint64_t>(count, INT64_MAX));
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::missing:
      return "nothing";
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
    case Kind::big:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return value.str().markup ? "Markup" : "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::view:
      return value.view().of == View::Of::keys     ? "dict_keys"
             : value.view().of == View::Of::values ? "dict_values"
                                                   : "dict_items";
    case Kind::range:
      return "range";
    case Kind::function:
      return "function";
    case Kind::object:
      return value.object()->type();
  }
  return "";
}

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::missing:
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
      return value.boolean();
    case Kind::integer:
      return value.integer() != 0;
    case Kind::real:
      return value.real() != 0;
    case Kind::string:
      return !value.text().empty();
    case Kind::list:
    case Kind::tuple:
      return !value.items().empty();
    case Kind::dict:
      return value.dict().size() != 0;
    case Kind::view:
      return value.view().dict->size() != 0;
    case Kind::range:
      return value.range().length() != 0;
    case Kind::big:
    case Kind::function:
    case Kind::object:
      return true;
  }
  return true;
}

uint32_t depth_of(const Value& value) {
  switch (value.kind()) {
    case Kind::list:
    case Kind::tuple:
      return value.list().depth;
    case Kind::dict:
      return value.dict().depth;
    case Kind::view:
      return value.view().dict->depth + 1;
    case Kind::function:
      return value.bound() ? depth_of(value.bound()->self) + 1 : 0;
    default:
      return 0;
  }
}

std::string key_of(const Value& key) {
  switch (key.kind()) {
    case Kind::string:
      return "s" + key.text();
    case Kind::boolean:
    case Kind::integer:
      return fmt::format("i{}", key.integer());
    case Kind::big:
      return "i" + key.digits();
    case Kind::real: {
      const double number = key.real();
      if (number == std::floor(number) && std::abs(number) < 9.2e18) return fmt::format("i{}", int64_t(number));
      return fmt::format("f{}", number);
    }
    case Kind::tuple: {
      std::string all = "t";
      for (const Value& item : key.items()) {
        const std::string part = key_of(item);
        all += fmt::format("{}:", part.size()) + part;
      }
      return all;
    }
    case Kind::list:
    case Kind::dict:
    case Kind::view:
      throw Error("a {} cannot be a key of a dict", type_name(key));
    case Kind::object:
      return fmt::format("o{}", fmt::ptr(key.object()));
    case Kind::function:
      return fmt::format("c{}{}", fmt::ptr(key.function()), fmt::ptr(key.bound()));
    case Kind::range:
      return fmt::format("r{}:{}:{}", key.range().start, key.range().stop, key.range().step);
    default:
      return std::string(1, key.is(Kind::none) ? 'n' : 'u');
  }
}

Value string_value(std::string text, bool markup) {
  return Value(std::make_shared<const Str>(std::move(text), markup));
}
Value string_value(Text text, bool markup) {
  return Value(std::make_shared<const Str>(std::move(text.text), markup, std::move(text.own)));
}
Value own_string(std::string text, bool markup) {
  TextRanges all;
  add_range(all, 0, text.size());
  return string_value(Text{std::move(text), std::move(all)}, markup);
}
Value part_of(const Str& text, size_t begin, size_t size) {
  begin = std::min(begin, text.text.size());
  Text part{text.text.substr(begin, size)};
  add_ranges(part.own, text.own, begin, begin + part.text.size(), 0);
  return string_value(std::move(part), text.markup);
}

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

Value Sandbox::string(Text text, bool markup) {
  bytes(text.text.size());
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
