// Literals as rules.
#include "grammar/json_schema.h"

#include <algorithm>

#include "base/error.h"
#include "grammar/json_schema_writer.h"

namespace heddle::grammar {

SchemaWriter::SchemaWriter(Grammar& grammar, const SchemaJson& root)
    : references_(root),
      g_(grammar),
      json_(grammar.languages),
      is_draft4_(root.is_object() && root.contains("$schema") && root["$schema"].is_string() &&
                 root["$schema"].get_ref<const std::string&>().find("/draft-04/") != std::string::npos) {}

Symbol SchemaWriter::write() {
  const SchemaReferences::Target& root = references_.root();
  const Symbol start = rule_of({literal(*root.schema, root.pointer, root.base)});
  while (!pending_.empty()) {  // grows
    const auto [rule, all] = std::move(pending_.front());
    pending_.pop_front();
    write_rule(rule, all);
  }
  if (!g_.has_text(start)) refuse_schema("#", "no value is valid");
  return start;
}

Symbol SchemaWriter::sign(char mark) { return g_.terminal(json_.sign(g_.languages, mark)); }

Symbol SchemaWriter::new_rule(const std::string& pointer) {
  if (++rules_made_ > 100'000)
    refuse_schema(pointer.empty() ? "#" : pointer, "the schema needs more than 100000 rules");
  return g_.rule();
}

void SchemaWriter::choice(Symbol rule, std::vector<Symbol> symbols) { g_.add_choice(rule, std::move(symbols)); }

Symbol SchemaWriter::rule_of(Literals all) {
  // what is always true is left out, so that places without limits have one rule
  std::erase_if(all, [&](Literal l) {
    const SchemaJson& schema = *places_[l / 2].schema;
    return l % 2 == 0 && (schema == true || (schema.is_object() && schema.empty()));
  });
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (const auto found = rules_.find(all); found != rules_.end()) return found->second;
  const Symbol rule = new_rule(all.empty() ? "" : places_[all[0] / 2].pointer);
  rules_.emplace(all, rule);
  pending_.push_back({rule, std::move(all)});
  return rule;
}

void SchemaWriter::write_rule(Symbol rule, const Literals& all) {
  std::vector<Language> single;
  std::vector<SchemaJson> constants;
  std::set<std::string> seen;
  for (const Shape& s : shapes_of(all)) {
    if (s.constants) {
      for (const SchemaJson* one : *s.constants)
        if (is_valid(*one, all) && seen.insert(canonical_value(*one)).second) constants.push_back(*one);
      continue;
    }
    single.push_back(scalars(s));
    if (s.types & array_type) write_array(rule, s);
    if (s.types & object_type) write_object(rule, s);
  }
  write_constants(rule, constants);
  const Language scalar = g_.languages.any_of(std::move(single));
  try {
    choice(rule, {g_.languages.is_nothing(scalar) ? impossible() : g_.terminal(scalar)});
  } catch (const Error& e) {
    refuse_schema(all.empty() ? "#" : places_[all[0] / 2].pointer, e.what());
  }
}

void SchemaWriter::write_constants(Symbol rule, const std::vector<SchemaJson>& values) {
  std::vector<Language> others;
  std::vector<std::string> strings;
  for (const SchemaJson& v : values) {
    if (v.is_structured())
      choice(rule, {constant(v)});
    else if (v.is_string())
      strings.push_back(v.get<std::string>());
    else
      others.push_back(constant_language(v));
  }
  if (!strings.empty()) others.push_back(quoted(texts_inside(std::move(strings), Form::plain)));
  if (!others.empty()) choice(rule, {g_.terminal(g_.languages.any_of(std::move(others)))});
}

Symbol SchemaWriter::constant(const SchemaJson& v) {
  const Symbol rule = new_rule("");
  if (!v.is_structured()) {
    choice(rule, {g_.terminal(constant_language(v))});
    return rule;
  }
  const bool is_list = v.is_array();
  std::vector<Symbol> all{sign(is_list ? '[' : '{')};
  bool first = true;
  for (const auto& [name, one] : v.items()) {
    if (!first) all.push_back(sign(','));
    first = false;
    if (!is_list) {
      all.push_back(g_.terminal(quoted(text_inside(name, Form::plain))));
      all.push_back(sign(':'));
    }
    all.push_back(constant(one));
  }
  const char close = is_list ? ']' : '}';
  all.push_back(first ? g_.terminal(g_.languages.text({&close, 1})) : sign(close));
  choice(rule, std::move(all));
  return rule;
}

Symbol add_json_schema(Grammar& grammar, const nlohmann::ordered_json& schema) {
  return SchemaWriter(grammar, schema).write();
}

Grammar json_schema(const nlohmann::ordered_json& schema) { return grammar_of(add_json_schema, schema); }

}  // namespace heddle::grammar
