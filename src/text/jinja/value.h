// The values of a template, which are those of Python. Cheap to copy: lists and dicts never change, so they are shared.
#pragma once
#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle::text::jinja {

enum class Kind : uint8_t {
  missing,    // an argument that was not given; never seen by a template
  undefined,  // with the reason
  none,
  boolean,
  integer,
  big,  // an integer beyond 64 bits, as digits: can be printed and compared, not computed with
  real,
  string,
  list,
  tuple,
  dict,
  view,   // keys(), values() or items() of a dict
  range,  // start, stop and step
  function,
  object,  // has state: a namespace, a macro, an iterator
};

struct Str;
struct List;
struct Dict;
struct View;
struct Range;
struct Bound;
struct Undefined;
struct Function;
class Object;

class Value {
 public:
  Value() = default;
  static Value none() { return Value(Kind::none); }
  Value(std::same_as<bool> auto value) : kind_(Kind::boolean) { boolean_ = value; }  // no pointer becomes a bool
  Value(int64_t value) : kind_(Kind::integer) { integer_ = value; }
  Value(int value) : Value(int64_t{value}) {}
  Value(size_t) = delete;  // may not fit: use int64_t
  Value(const char*) = delete;
  Value(double value) : kind_(Kind::real) { real_ = value; }
  explicit Value(Object* object) : kind_(Kind::object) { object_ = object; }
  explicit Value(const Function* function) : kind_(Kind::function) { function_ = function; }
  Value(const Function* function, std::shared_ptr<const Bound> self);
  Value(std::shared_ptr<const Str> text);
  Value(std::shared_ptr<const Dict> dict);
  Value(std::shared_ptr<const View> view);
  Value(std::shared_ptr<const Range> range);
  Value(Kind list_or_tuple, std::shared_ptr<const List> items);
  static Value undefined(std::string reason);
  static Value big(std::string digits);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool given() const { return kind_ != Kind::missing; }
  bool is_list() const { return kind_ == Kind::list || kind_ == Kind::tuple; }
  bool is_integer() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }  // as Python: True is 1
  bool is_number() const { return is_integer() || kind_ == Kind::real; }

  bool boolean() const { return boolean_; }
  int64_t integer() const { return kind_ == Kind::boolean ? boolean_ : integer_; }
  double real() const { return kind_ == Kind::real ? real_ : double(integer()); }
  Object* object() const { return object_; }
  const Function* function() const { return function_; }
  const Str& str() const { return *static_cast<const Str*>(shared_.get()); }
  const std::string& text() const;  // of a string
  const List& list() const { return *static_cast<const List*>(shared_.get()); }
  const std::vector<Value>& items() const;  // of a list or tuple
  const Dict& dict() const { return *static_cast<const Dict*>(shared_.get()); }
  std::shared_ptr<const Dict> shared_dict() const { return std::static_pointer_cast<const Dict>(shared_); }
  const View& view() const { return *static_cast<const View*>(shared_.get()); }
  const Range& range() const { return *static_cast<const Range*>(shared_.get()); }
  const Bound* bound() const { return static_cast<const Bound*>(shared_.get()); }  // null for a plain function
  const Undefined& why() const { return *static_cast<const Undefined*>(shared_.get()); }
  const std::string& digits() const { return *static_cast<const std::string*>(shared_.get()); }
  bool same_as(const Value& other) const;  // Python's `is`

 private:
  explicit Value(Kind kind) : kind_(kind) {}
  Value(Kind kind, std::shared_ptr<const void> shared) : kind_(kind), shared_(std::move(shared)) {}

  Kind kind_ = Kind::missing;
  union {
    bool boolean_;
    int64_t integer_ = 0;
    double real_;
    Object* object_;
    const Function* function_;
  };
  std::shared_ptr<const void> shared_;
};

struct Str {
  explicit Str(std::string content, bool is_markup = false);
  bool ascii() const { return length == text.size(); }

  std::string text;  // UTF-8
  size_t length;     // in code points
  bool markup;       // jinja's Markup: what is joined to it is escaped first
};

// `depth` of a container: 1 more than that of its deepest item. Limited when containers are created, so that walking
// and destroying a value needs no check.
struct List {
  std::vector<Value> items;
  uint32_t depth = 1;
  bool group = false;  // of groupby: the two items also have names, grouper and list
};

// Keeps the order of insertion. Above a few keys an ordered index finds them, so that no input makes it quadratic.
struct Dict {
  const Value* find(const Value& key) const;  // throws Error for a key that cannot be hashed
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);
  size_t size() const { return items.size(); }

  std::vector<std::pair<Value, Value>> items;
  uint32_t depth = 1;

 private:
  size_t position(const Value& key) const;  // size() when absent
  std::map<std::string, uint32_t, std::less<>> index_;
};

struct View {
  enum class Of : uint8_t { keys, values, items } of;
  std::shared_ptr<const Dict> dict;
};

struct Range {
  int64_t length() const;
  Value at(int64_t index) const { return start + index * step; }
  int64_t start = 0, stop = 0, step = 1;
};

struct Bound {
  Value self;
};

struct Undefined {
  std::string reason;
};

inline const std::string& Value::text() const { return str().text; }
inline const std::vector<Value>& Value::items() const { return list().items; }

std::string_view type_name(const Value& value);  // as Python calls it
bool truth(const Value& value);
uint32_t depth_of(const Value& value);
// Equal keys of a dict have equal texts. Throws Error for a list or dict.
std::string key_of(const Value& key);
Value string_value(std::string text, bool markup = false);

}  // namespace heddle::text::jinja
