// Filters that yield items on demand: nothing happens, and nothing fails, before the first is taken.
#include <set>

#include "base/error.h"
#include "text/jinja/machine.h"

namespace heddle::text::jinja {
namespace {

// Shared by the copies of a std::function.
using Source = std::shared_ptr<Walk>;

// map("upper") or map(attribute="a.b", default=x)
Value do_map(Machine& machine, Args& args) {
  const auto state = std::make_shared<Args>(std::move(args));
  return machine.iterator("generator", [state, source = Source()](Machine& m, Value& item) mutable {
    if (!truth(state->self)) return false;
    if (!source) source = std::make_shared<Walk>(m, state->self);
    const auto named = [&](std::string_view name) {
      for (const auto& [given, value] : state->named)
        if (given == name) return value;
      return Value();
    };
    const Value attribute = named("attribute");
    if (state->list.empty() && attribute.given()) {
      const Value standard = named("default");
      if (state->named.size() > 1u + standard.given()) throw Error("map takes attribute and default, or a filter");
      if (!source->next(item)) return false;
      item = AttributePath(attribute).get(m, item, standard);
      return true;
    }
    if (state->list.empty()) throw Error("map needs the name of a filter");
    const std::string& name = string_argument(state->list[0], "the filter of map").text();
    if (!source->next(item)) return false;
    const Function* filter = find_filter(name);
    if (!filter) throw Error("there is no filter \"{}\"", name);
    Args call{std::move(item), {state->list.begin() + 1, state->list.end()}, state->named};
    item = m.call(*filter, std::move(call));
    return true;
  });
}

template <bool by_attribute, bool wanted>
Value do_select(Machine& machine, Args& args) {
  const auto state = std::make_shared<Args>(std::move(args));
  return machine.iterator("generator", [state, source = Source()](Machine& m, Value& item) mutable {
    if (!truth(state->self)) return false;
    if (!source) source = std::make_shared<Walk>(m, state->self);
    constexpr size_t test_at = by_attribute;
    if (state->list.size() < test_at) throw Error("selectattr and rejectattr need the name of an attribute");
    const AttributePath path(by_attribute ? state->list[0] : Value());
    const Function* test = nullptr;
    if (state->list.size() > test_at) {
      const std::string& name = string_argument(state->list[test_at], "a test").text();
      test = find_test(name);
      if (!test) throw Error("there is no test \"{}\"", name);
    }
    while (source->next(item)) {
      m.sandbox.step();
      Value tested = path.get(m, item);
      if (test) {
        Args call{std::move(tested), {state->list.begin() + test_at + 1, state->list.end()}, state->named};
        tested = m.call(*test, std::move(call));
      }
      if (truth(tested) == wanted) return true;
    }
    return false;
  });
}

Value do_unique(Machine& machine, Args& args) {
  const auto source = std::make_shared<Walk>(machine, args.self);
  const auto seen = std::make_shared<std::set<std::string>>();
  return machine.iterator("generator",
                          [=, cased = args.flag(0), path = AttributePath(args[1])](Machine& m, Value& item) {
                            while (source->next(item)) {
                              const Value key = path.get(m, item);
                              m.sandbox.step();
                              std::string text = jinja::key_of(cased ? key : ignore_case(m, key));
                              m.sandbox.bytes(text.size() + 64);
                              if (seen->insert(std::move(text)).second) return true;
                            }
                            return false;
                          });
}

Value do_batch(Machine& machine, Args& args) {
  const auto source = std::make_shared<Walk>(machine, args.self);
  const Value fill = args[1];
  const Value size_value = args[0];
  return machine.iterator("generator", [=, held = Value(), done = false](Machine& m, Value& batch) mutable {
    if (done) return false;
    const int64_t size = integer_argument(size_value, "batch");
    std::vector<Value> items;
    if (held.given()) items.push_back(std::exchange(held, Value()));
    Value item;
    while (source->next(item)) {
      if (int64_t(items.size()) == size && !(items.empty() && size == 0 && held.given())) {
        held = std::move(item);
        batch = m.sandbox.list(std::move(items));
        return true;
      }
      m.sandbox.step();
      items.push_back(std::move(item));
    }
    done = true;
    if (items.empty()) return false;
    if (fill.given() && !fill.is(Kind::none) && int64_t(items.size()) < size) {
      m.sandbox.items(size_t(size));
      items.resize(size_t(size), fill);
    }
    batch = m.sandbox.list(std::move(items));
    return true;
  });
}

Value do_slice(Machine& machine, Args& args) {
  const auto state = std::make_shared<Args>(std::move(args));
  return machine.iterator("generator",
                          [state, at = int64_t{0}, items = std::vector<Value>()](Machine& m, Value& part) mutable {
                            const int64_t slices = integer_argument((*state)[0], "slice");
                            if (slices == 0) throw Error("slice into 0 parts");
                            if (at == 0) items = m.to_vector(state->self);
                            if (at >= slices) return false;
                            const auto length = int64_t(items.size());
                            const int64_t each = length / slices, extra = length % slices;
                            const int64_t start = at * each + std::min(at, extra), size = each + (at < extra);
                            std::vector<Value> picked(items.begin() + start, items.begin() + start + size);
                            const bool fills = state->has(1) && !(*state)[1].is(Kind::none);
                            if (fills && at >= extra) picked.push_back((*state)[1]);
                            ++at;
                            part = m.sandbox.list(std::move(picked));
                            return true;
                          });
}

Value do_items(Machine& machine, Args& args) {
  const Value dict = args.self;
  return machine.iterator("generator", [dict, at = size_t{0}](Machine& m, Value& item) mutable {
    if (dict.is(Kind::undefined)) return false;
    if (!dict.is(Kind::dict)) throw Error("items needs a dict, found {}", type_name(dict));
    if (at >= dict.dict().size()) return false;
    const auto& [key, value] = dict.dict().items[at++];
    item = m.sandbox.pair(key, value);
    return true;
  });
}

constexpr Function selecting_table[] = {
    {"batch", "linecount! fill_with", do_batch},
    {"items", "", do_items},
    {"map", "*", do_map},
    {"reject", "*", do_select<false, false>},
    {"rejectattr", "*", do_select<true, false>},
    {"select", "*", do_select<false, true>},
    {"selectattr", "*", do_select<true, true>},
    {"slice", "slices! fill_with", do_slice},
    {"unique", "case_sensitive attribute", do_unique},
};

}  // namespace

std::span<const Function> selecting_filters() { return selecting_table; }

}  // namespace heddle::text::jinja
