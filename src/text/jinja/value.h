// The values of a template, which are those of Python, and the sandbox that creates them within the limits of one
// rendering. Values are cheap to copy: lists and dicts never change, so they are shared.
#pragma once
#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/ranges.h"
#include "text/template.h"

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

// A text and which parts of it are the template's own words. The rest came with the conversation: no control token is
// read there. A function that does not keep track of the parts gives a text without any.
struct Text {
  std::string text;
  TextRanges own = {};
};

struct Str {
  explicit Str(std::string content, bool is_markup = false, TextRanges own_parts = {});
  bool ascii() const { return length == text.size(); }
  bool all_own() const { return own.size() == 1 && own[0] == TextRange{0, text.size()}; }

  std::string text;  // UTF-8
  size_t length;     // in code points
  bool markup;       // jinja's Markup: what is joined to it is escaped first
  TextRanges own;    // see Text
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
Value string_value(Text text, bool markup = false);
Value own_string(std::string text, bool markup = false);    // the template's own
Value part_of(const Str& text, size_t begin, size_t size);  // in bytes; begin and size may be too large

struct Args;
class Machine;

// Values with state. The rendering (Sandbox) owns them and values only point to them, so that cycles are freed and no
// destructor walks a chain of them.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string_view type() const = 0;
  // Sets `found` when the object has such an attribute.
  virtual bool attribute(Machine&, std::string_view, Value&) { return false; }
  virtual bool callable() const { return false; }
  virtual Value call(Machine& machine, Args& args);
  virtual std::string print(Machine&) const;  // refused by default: Python prints an address
  virtual bool iterable() const { return false; }
  virtual bool next(Machine&, Value&) { return false; }  // of an iterator; false at the end
};

// map, select, reverse and others: items are computed on demand, once.
class Iterator : public Object {
 public:
  using Next = std::function<bool(Machine&, Value&)>;
  Iterator(std::string_view type, Next next) : type_(type), next_(std::move(next)) {}
  std::string_view type() const override { return type_; }
  bool iterable() const override { return true; }
  bool next(Machine& machine, Value& value) override;

 private:
  std::string_view type_;
  Next next_;
  bool running_ = false;
};

class Namespace : public Object {
 public:
  std::string_view type() const override { return "Namespace"; }
  bool attribute(Machine&, std::string_view name, Value& found) override;
  std::string print(Machine&) const override;

  Dict members;
};

// The limits of one rendering: steps, depth, sizes. Every container and string of a template is created here.
class Sandbox {
 public:
  explicit Sandbox(const TemplateLimits& limits) : limits_(limits), steps_left_(limits.steps) {}
  Sandbox(const Sandbox&) = delete;

  void step(uint64_t count = 1) {
    if (count > steps_left_) [[unlikely]]
      out_of_steps();
    steps_left_ -= count;
  }
  // Called before that many bytes (items) are allocated. 64 bytes cost a step, so steps also bound the memory of all
  // values together.
  void bytes(size_t count) {
    if (count > limits_.output) [[unlikely]]
      too_large(count);
    step(count / 64);
  }
  // Before a text is searched: std::string compares at every place, so the worst case is the product.
  void search(std::string_view text, std::string_view what) {
    step(text.size() / 1024 * std::min(what.size(), text.size()));
  }
  void items(size_t count) { bytes(count > limits_.output ? count : count * sizeof(Value)); }
  void append(std::string& out, std::string_view text) {
    if (text.size() > limits_.output - std::min(out.size(), limits_.output)) [[unlikely]]
      too_large(out.size() + text.size());
    step(text.size() / 64);
    out += text;
  }
  void append(Text& out, std::string_view text) { append(out.text, text); }
  void append_own(Text& out, std::string_view text) {
    append(out.text, text);
    add_range(out.own, out.text.size() - text.size(), out.text.size());
  }
  // A part of a string, in bytes.
  void append(Text& out, const Str& text, size_t begin = 0, size_t size = std::string::npos) {
    const std::string_view part = std::string_view(text.text).substr(begin, size);
    const size_t to = out.text.size();
    append(out.text, part);
    step(text.own.size() / 64);
    add_ranges(out.own, text.own, begin, begin + part.size(), to);
  }

  Value string(std::string text, bool markup = false);
  Value string(Text text, bool markup = false);
  Value list(std::vector<Value> items) { return sequence(Kind::list, std::move(items)); }
  Value tuple(std::vector<Value> items) { return sequence(Kind::tuple, std::move(items)); }
  Value pair(Value first, Value second);
  Value group(Value first, Value second);
  Value dict(Dict dict);  // sets its depth
  template <class T, class... A>
  T* object(A&&... args) {
    bytes(sizeof(T) + 64);
    auto created = std::make_unique<T>(std::forward<A>(args)...);
    T* at = created.get();
    objects_.push_back(std::move(created));
    return at;
  }
  void check_depth(uint32_t depth) const {
    if (depth > limits_.depth) [[unlikely]]
      too_deep();
  }

  // Nested evaluation, of source and calls together: what the machine's own stack has to bear.
  class Deeper {
   public:
    explicit Deeper(Sandbox& sandbox) : sandbox_(sandbox) {
      if (++sandbox_.depth_ > 5 * sandbox_.limits_.depth) [[unlikely]] {
        --sandbox_.depth_;
        sandbox_.too_deep();
      }
    }
    ~Deeper() { --sandbox_.depth_; }
    Deeper(const Deeper&) = delete;

   private:
    Sandbox& sandbox_;
  };
  const TemplateLimits& limits() const { return limits_; }

 private:
  Value sequence(Kind kind, std::vector<Value> items);
  [[noreturn]] void out_of_steps() const;
  [[noreturn]] void too_large(size_t size) const;
  [[noreturn]] void too_deep() const;

  TemplateLimits limits_;
  uint64_t steps_left_;
  uint32_t depth_ = 0;
  std::vector<std::unique_ptr<Object>> objects_;
};

}  // namespace heddle::text::jinja
