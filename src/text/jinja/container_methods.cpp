// Methods of list, tuple, range and dict. Those that change one in place are refused where attributes are found.
#include <algorithm>

#include "base/error.h"
#include "text/jinja/machine.h"

namespace heddle::text::jinja {
namespace {

Value count(Machine& machine, Args& args) {
  int64_t found = 0;
  Walk walk(machine, args.self);
  for (Value item; walk.next(item);) found += machine.equal(item, args[0]);
  return found;
}

Value index(Machine& machine, Args& args) {
  const int64_t length = machine.length(args.self);
  const auto bound = [&](size_t at, int64_t standard) {
    if (!args.has(at)) return standard;
    const int64_t given = integer_argument(args[at], "index()");
    return given < 0 ? std::max<int64_t>(given < -length ? 0 : given + length, 0) : given;
  };
  const int64_t start = bound(1, 0), stop = bound(2, length);
  Walk walk(machine, args.self);
  Value item;
  for (int64_t at = 0; walk.next(item); ++at)
    if (at >= start && at < stop && machine.equal(item, args[0])) return at;
  throw Error("index(): the value is not in the {}", type_name(args.self));
}

template <View::Of of>
Value view(Machine&, Args& args) {
  return Value(std::make_shared<const View>(View{of, args.self.shared_dict()}));
}

Value get(Machine&, Args& args) {
  const Value* found = args.self.dict().find(args[0]);
  return found ? *found : args.has(1) ? args[1] : Value::none();
}

Value from_keys(Machine& machine, Args& args) {
  Dict dict;
  for (Value& key : machine.to_vector(args[0])) dict.set(std::move(key), args.has(1) ? args[1] : Value::none());
  return machine.sandbox.dict(std::move(dict));
}

constexpr Function list_table[] = {
    {"count", "/value!", count},
    {"index", "/value! start stop", index},
    {"copy", "/", [](Machine&, Args& args) { return args.self; }},
};
constexpr Function tuple_table[] = {
    {"count", "/value!", count},
    {"index", "/value! start stop", index},
};
constexpr Function dict_table[] = {
    {"get", "/key! default", get},
    {"items", "/", view<View::Of::items>},
    {"keys", "/", view<View::Of::keys>},
    {"values", "/", view<View::Of::values>},
    {"copy", "/", [](Machine&, Args& args) { return args.self; }},
    {"fromkeys", "/iterable! value", from_keys},
};

}  // namespace

std::span<const Function> list_methods() { return list_table; }
std::span<const Function> tuple_methods() { return tuple_table; }
std::span<const Function> dict_methods() { return dict_table; }

}  // namespace heddle::text::jinja
