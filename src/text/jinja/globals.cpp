// Functions that every template has.
#include "base/error.h"
#include "text/jinja/format.h"
#include "text/jinja/machine.h"
#include "text/jinja/number.h"

namespace heddle::text::jinja {
namespace {

constexpr int64_t max_range = 100'000;  // jinja2's limit in its sandbox

class Cycler : public Object {
 public:
  explicit Cycler(Value items) : items_(std::move(items)) {}
  std::string_view type() const override { return "Cycler"; }
  bool attribute(Machine&, std::string_view name, Value& found) override {
    static constexpr Function next = {"next", "/", [](Machine&, Args& args) {
                                        auto* cycler = static_cast<Cycler*>(args.self.object());
                                        const size_t at = cycler->at_++;
                                        cycler->at_ %= cycler->items_.items().size();
                                        return cycler->items_.items()[at];
                                      }};
    static constexpr Function reset = {"reset", "/", [](Machine&, Args& args) {
                                         static_cast<Cycler*>(args.self.object())->at_ = 0;
                                         return Value::none();
                                       }};
    if (name == "current")
      found = items_.items()[at_];
    else if (name == "items")
      found = items_;
    else if (name == "pos")
      found = int64_t(at_);
    else if (name == "next" || name == "reset")
      found = Value(name == "next" ? &next : &reset, std::make_shared<const Bound>(Bound{Value(this)}));
    return found.given();
  }

 private:
  Value items_;
  size_t at_ = 0;
};

class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string_view type() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Value call(Machine&, Args& args) override {
    if (!args.list.empty() || !args.named.empty()) throw Error("a joiner is called without arguments");
    return std::exchange(used_, true) ? separator_ : string_value("");
  }
  bool attribute(Machine&, std::string_view name, Value& found) override {
    if (name == "sep") found = separator_;
    if (name == "used") found = used_;
    return found.given();
  }

 private:
  Value separator_;
  bool used_ = false;
};

// dict(pairs or dict, name=value, ...)
Dict make_dict(Machine& machine, Args& args) {
  Dict dict;
  if (args.list.size() > 1) throw Error("dict() takes one argument, found {}", args.list.size());
  if (!args.list.empty() && args.list[0].is(Kind::dict)) {
    machine.sandbox.items(2 * args.list[0].dict().size());
    dict = args.list[0].dict();
  } else if (!args.list.empty()) {
    Walk walk(machine, args.list[0]);
    for (Value item; walk.next(item);) {
      std::vector<Value> pair = machine.to_vector(item);
      if (pair.size() != 2) throw Error("dict() needs pairs, found {} values", pair.size());
      dict.set(std::move(pair[0]), std::move(pair[1]));
    }
  }
  for (auto& [name, value] : args.named) dict.set(string_value(name), std::move(value));
  return dict;
}

Value make_range(Machine&, Args& args) {
  if (args.list.empty() || args.list.size() > 3 || !args.named.empty())
    throw Error("range() takes one to three arguments, found {}", args.list.size() + args.named.size());
  Range range;
  if (args.list.size() == 1) {
    range.stop = integer_argument(args.list[0], "range()");
  } else {
    range.start = integer_argument(args.list[0], "range()");
    range.stop = integer_argument(args.list[1], "range()");
    if (args.list.size() == 3) range.step = integer_argument(args.list[2], "range()");
  }
  if (range.step == 0) throw Error("range() with a step of 0");
  if (range.length() > max_range) throw Error("range() with {} items: more than {}", range.length(), max_range);
  return Value(std::make_shared<const Range>(range));
}

Value raise_exception(Machine& machine, Args& args) {
  const std::string words = machine.print(args[0]);
  throw TemplateRefused("{}", words);
}

constexpr Function table[] = {
    {"range", "*", make_range},
    {"dict", "*", [](Machine& machine, Args& args) { return machine.sandbox.dict(make_dict(machine, args)); }},
    {"namespace", "*",
     [](Machine& machine, Args& args) {
       auto* space = machine.sandbox.object<Namespace>();
       space->members = make_dict(machine, args);
       return Value(space);
     }},
    {"cycler", "*",
     [](Machine& machine, Args& args) {
       if (args.list.empty()) throw Error("cycler() needs at least one value");
       return Value(machine.sandbox.object<Cycler>(machine.sandbox.tuple(std::move(args.list))));
     }},
    {"joiner", "sep",
     [](Machine& machine, Args& args) {
       return Value(machine.sandbox.object<Joiner>(args.has(0) ? args[0] : string_value(", ")));
     }},
    {"lipsum", "*",
     [](Machine&, Args&) -> Value { throw Error("lipsum() gives another text each time: not in heddle"); }},
    {"raise_exception", "message!", raise_exception},
    {"strftime_now", "format!",
     [](Machine& machine, Args& args) {
       const std::string& format = string_argument(args[0], "strftime_now()").text();
       machine.sandbox.bytes(format.size() * 16);
       return machine.sandbox.string(strftime_utc(format, machine.now()));
     }},
};

}  // namespace

std::span<const Function> globals() { return table; }

}  // namespace heddle::text::jinja
