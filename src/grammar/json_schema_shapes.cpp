// From a set of literals to shapes: one for each way through the alternatives.
#include <algorithm>

#include "base/error.h"
#include "grammar/json_schema_writer.h"

namespace heddle::grammar {

Literal SchemaWriter::literal(const SchemaJson& schema, const std::string& pointer, const std::string& base,
                              bool is_made) {
  const auto [found, is_new] = place_numbers_.try_emplace(&schema, uint32_t(places_.size()));
  if (is_new) {
    if (!schema.is_object() && !schema.is_boolean()) refuse_schema(pointer, "a schema is an object or a boolean");
    if (places_.size() > 500'000) refuse_schema(pointer, "more than 500000 schemas");
    places_.push_back({&schema, pointer, SchemaReferences::base_of(schema, base), is_made, found->second});
  }
  return 2 * found->second;
}

Literal SchemaWriter::inner(const Place& at, const std::string& key) {
  return literal((*at.schema)[key], at.pointer + "/" + pointer_part(key), at.base, at.is_made);
}

Literal SchemaWriter::inner(const Place& at, const std::string& key, const std::string& name) {
  return literal((*at.schema)[key][name], at.pointer + "/" + pointer_part(key) + "/" + pointer_part(name), at.base,
                 at.is_made);
}

Literal SchemaWriter::inner(const Place& at, const std::string& key, size_t index) {
  return literal((*at.schema)[key][index], fmt::format("{}/{}/{}", at.pointer, pointer_part(key), index), at.base,
                 at.is_made);
}

Literal SchemaWriter::made(SchemaJson schema, const std::string& pointer) {
  const auto [found, is_new] =
      made_literals_.try_emplace(schema.dump(-1, ' ', false, SchemaJson::error_handler_t::replace), 0);
  if (is_new) {
    made_.push_back(std::move(schema));
    found->second = literal(made_.back(), pointer, "", true);
  }
  return found->second;
}

// Hostile schemas are refused by the amount of work they make, not by the clock: the answer is always the same.
void SchemaWriter::work(const std::string& pointer, size_t amount) {
  work_ += amount;
  if (work_ > 200'000)
    refuse_schema(pointer.empty() ? "#" : pointer, "the schema has too many combinations to be kept");
}

std::vector<Shape> SchemaWriter::shapes_of(const Literals& all) {
  std::vector<Shape> found;
  Branch branch;
  branch.open = all;
  spread(std::move(branch), found);
  return found;
}

bool SchemaWriter::take_literal(Branch& branch, Literal l) {
  if (branch.done.contains(negation(l))) return false;
  if (!branch.done.insert(l).second) return true;
  const Place at = places_[l / 2];  // a copy: others are added
  work(at.pointer);
  if (branch.done.size() > 5000) refuse_schema(at.pointer, "more than 5000 schemas for one value");
  if (at.schema->is_boolean()) return at.schema->get<bool>() == (l % 2 == 0);
  if (l % 2 == 1) {
    branch.choices.push_back({any_type, negated(l / 2)});
    return true;
  }
  take_keywords(at, branch);
  return true;
}

void SchemaWriter::spread(Branch branch, std::vector<Shape>& found) {
  while (true) {
    for (size_t i = 0; i < branch.open.size(); ++i) {  // grows
      const Literal l = branch.open[i];
      if (!take_literal(branch, l)) return;
    }
    branch.open.clear();
    Shape& shape = branch.shape;
    if (shape.types == 0) return;
    // constants are looked at one by one
    if (shape.constants) break;
    // what is decided already is no choice any more
    for (Choice& c : branch.choices)
      std::erase_if(c.alternatives, [&](const Literals& a) {
        return std::ranges::any_of(a, [&](Literal l) { return branch.done.contains(negation(l)); });
      });
    std::erase_if(branch.choices, [&](const Choice& c) {
      return !(c.types & shape.types) || std::ranges::any_of(c.alternatives, [&](const Literals& a) {
        return std::ranges::all_of(a, [&](Literal l) { return branch.done.contains(l); });
      });
    });
    if (branch.choices.empty()) break;
    const auto next =
        std::ranges::min_element(branch.choices, {}, [](const Choice& c) { return c.alternatives.size(); });
    const Alternatives alternatives = std::move(next->alternatives);
    branch.choices.erase(next);
    if (alternatives.empty()) return;
    if (alternatives.size() == 1) {
      branch.open = alternatives[0];
      continue;
    }
    if (branch.depth > 400)
      refuse_schema(places_[alternatives[0].empty() ? 0 : alternatives[0][0] / 2].pointer,
                    "more than 400 choices for one value");
    for (const Literals& a : alternatives) {
      Branch one = branch;
      ++one.depth;
      one.open = a;
      spread(std::move(one), found);
    }
    return;
  }
  if (found.size() >= 2000)
    refuse_schema(branch.shape.pointer.empty() ? "#" : branch.shape.pointer, "more than 2000 combinations of choices");
  found.push_back(std::move(branch.shape));
}

}  // namespace heddle::grammar
