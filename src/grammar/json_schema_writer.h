// The parts of the JSON Schema compiler, which share one state.
//
// A value must satisfy several schemas at once, and others not: one and what it refers to, allOf, what two of them say
// about the same property, the choices of oneOf that must fail. So a rule is that of a set of literals: places in the
// schema, each to be satisfied or not. A set is spread into shapes, one for each way through its alternatives (anyOf,
// if, the keywords of which one must fail), and a shape is written as a choice for each type.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "grammar/grammar.h"
#include "grammar/json_text.h"
#include "grammar/json_types.h"
#include "grammar/numbers.h"

namespace heddle::grammar {

using SchemaJson = nlohmann::ordered_json;

// Values that the standard takes for equal have equal texts: 1 is 1.0, and the order of an object's names does not
// matter.
std::string canonical_value(const SchemaJson& v);
[[noreturn]] void refuse_schema(const std::string& pointer, std::string_view why);
std::string pointer_part(std::string_view name);  // with ~ and / escaped
// The pattern of a format that is kept.
std::optional<std::string> format_pattern(const std::string& name);

// The references of a document: what $id and $anchor name.
class SchemaReferences {
 public:
  struct Target {
    const SchemaJson* schema;
    std::string pointer;
    std::string base;  // address that references in it are relative to
  };
  explicit SchemaReferences(const SchemaJson& root);

  const Target& root() const { return root_; }
  // An Error that begins with `pointer` if nothing is there.
  Target find(const std::string& reference, const std::string& base, const std::string& pointer) const;
  // The base inside of a schema that stands in a schema of this base.
  static std::string base_of(const SchemaJson& schema, const std::string& base);
  size_t dynamic_anchors(const std::string& name) const;  // of this name
  bool has_recursive_anchor() const { return has_recursive_anchor_; }

 private:
  void add(const SchemaJson& schema, const std::string& pointer, const std::string& base);

  Target root_;
  std::map<std::string, Target> by_address_;  // with #anchor where it has one
  std::multiset<std::string> dynamic_;
  bool has_recursive_anchor_ = false;
};

using Literal = uint32_t;               // 2 * place, or 2 * place + 1 for what must not be satisfied
using Literals = std::vector<Literal>;  // all of them; sorted, without repetition
using Alternatives = std::vector<Literals>;
inline Literal negation(Literal l) { return l ^ 1; }

// What one schema says about the members of an object, and the items of an array.
struct ObjectClause {
  std::map<std::string, Literal> properties;
  std::vector<std::pair<Language, Literal>> patterns;
  std::optional<Literal> additional;
};
struct ArrayClause {
  std::vector<Literal> prefix;
  std::optional<Literal> rest;
};

struct Shape {
  uint32_t types = any_type;
  std::optional<std::vector<const SchemaJson*>> constants;  // only these
  std::vector<const SchemaJson*> excluded;                  // neither arrays nor objects

  NumberLimits numbers;
  std::vector<NumberLimits> more_numbers, not_numbers;  // also these, and not these

  uint32_t min_length = 0, max_length = Languages::unbounded;
  std::vector<Language> strings;  // what is inside of the quotation marks is in all of them

  std::vector<std::shared_ptr<const ArrayClause>> arrays;
  uint32_t min_items = 0, max_items = Languages::unbounded;
  struct Contains {
    Literal item;
    uint32_t from, least, most;  // index, counts
    std::string pointer;
  };
  std::vector<Contains> contains;
  std::string unique_at;  // pointer of uniqueItems, or empty

  std::vector<std::shared_ptr<const ObjectClause>> objects;
  std::vector<std::string> order;  // of names
  std::set<std::string> named;     // those in `order`
  std::set<std::string> required;
  std::vector<Language> names;                        // every name is in all of them
  std::vector<std::pair<Language, Literal>> members;  // there is one with such a name and value
  uint32_t min_properties = 0, max_properties = Languages::unbounded;
  std::string pointer;  // of a place that says something about members or items
};

class SchemaWriter {
 public:
  SchemaWriter(Grammar& grammar, const SchemaJson& root);
  Symbol write();

 private:
  // --- literals and shapes: json_schema_shapes.cpp
  struct Place {
    const SchemaJson* schema;
    std::string pointer, base;
    bool is_made;  // by this compiler, which has keywords of its own
    uint32_t number;
  };
  struct Choice {
    uint32_t types;  // of values that it says something about
    Alternatives alternatives;
  };
  struct Branch {
    std::vector<Literal> open;
    std::set<Literal> done;
    Shape shape;
    std::vector<Choice> choices;
    uint32_t depth = 0;
  };
  Literal literal(const SchemaJson& schema, const std::string& pointer, const std::string& base, bool is_made = false);
  // Of a keyword's value, or of one of its parts.
  Literal inner(const Place& at, const std::string& key);
  Literal inner(const Place& at, const std::string& key, const std::string& name);
  Literal inner(const Place& at, const std::string& key, size_t index);
  Literal made(SchemaJson schema, const std::string& pointer);
  static SchemaJson of_literal(Literal l) { return SchemaJson::object({{own_literal, l}}); }
  // Keywords of schemas that are made here: a literal; a language of names and a literal for the value of one such
  // member; an index and a literal for one item from there on; limits that a number is not in; a language that a string
  // is not in; scalars that a value is not.
  static constexpr const char *own_literal = "\1literal", *own_member = "\1member", *own_item = "\1item",
                              *own_number = "\1number", *own_string = "\1string", *own_excluded = "\1excluded";
  bool take_made_keyword(const std::string& key, const SchemaJson& v, Branch& branch);
  std::vector<Shape> shapes_of(const Literals& all);
  void spread(Branch branch, std::vector<Shape>& found);
  bool take_literal(Branch& branch, Literal l);
  void work(const std::string& pointer, size_t amount = 1);

  // --- what a schema says, and what must fail for it to fail: json_schema_keywords.cpp, json_schema_not.cpp
  void take_keywords(const Place& at, Branch& branch);
  void take_own_keyword(const Place& at, const std::string& key, const SchemaJson& v, Branch& branch);
  bool take_number_keyword(const Place& at, const std::string& key, const SchemaJson& v, Shape& s);
  bool take_string_keyword(const Place& at, const std::string& key, const SchemaJson& v, Shape& s);
  bool take_array_keyword(const Place& at, const std::string& key, const SchemaJson& v, Shape& s);
  bool take_object_keyword(const Place& at, const std::string& key, const SchemaJson& v, Branch& branch);
  bool take_choice(const Place& at, const std::string& key, const SchemaJson& v, Branch& branch);
  void take_type(const Place& at, const SchemaJson& v, Shape& s);
  void take_dependency(const Place& at, const std::string& key, const std::string& name, Branch& branch);
  Alternatives one_of(const Place& at);
  std::optional<Literal> reference(const Place& at, const std::string& key, const SchemaJson& v);
  std::shared_ptr<const ObjectClause> object_clause(const Place& at);
  std::shared_ptr<const ArrayClause> array_clause(const Place& at);
  NumberLimits number_limits(const Place& at);
  const Alternatives& negated(uint32_t place);
  void negate_keyword(const Place& at, const std::string& key, const SchemaJson& v, Alternatives& all);
  bool negate_of_arrays(const Place& at, const std::string& key, const SchemaJson& v, Alternatives& all);
  bool negate_of_objects(const Place& at, const std::string& key, const SchemaJson& v, Alternatives& all);
  static SchemaJson other_than(const SchemaJson& v);
  Decimal decimal(const SchemaJson& v, const std::string& pointer);
  Language pattern(const std::string& text, const std::string& pointer);

  // --- values: json_schema_values.cpp
  bool is_valid(const SchemaJson& v, const Literals& all, int depth = 0);
  bool is_valid(const SchemaJson& v, Literal l, int depth);
  bool is_valid_keyword(const SchemaJson& v, const Place& at, const std::string& key, const SchemaJson& k, int depth);
  bool is_valid_array(const SchemaJson& v, const Shape& s, int depth);
  bool is_valid_object(const SchemaJson& v, const Shape& s, int depth);
  bool is_valid_shape(const SchemaJson& v, const Branch& branch, int depth);
  // All values, if they are finitely many and can be listed.
  std::optional<std::vector<SchemaJson>> values_of(const Literals& all);
  // Whether it is proved that no value satisfies all of them.
  bool is_unsatisfiable(const Literals& all, int depth);
  bool is_unsatisfiable(const Shape& s, const Literals& all, int depth);

  // --- scalars: json_schema_scalars.cpp
  Language scalars(const Shape& s);
  Language number_language(const Shape& s);
  Language string_language(const Shape& s);  // inside of the quotation marks
  Language names_of(const Literals& all);    // the strings that satisfy them
  Language constant_language(const SchemaJson& v);
  Language numbers_at(const NumberLimits& limits, const std::string& pointer);
  Language quoted(Language inside);
  // Names and constants are written in one form. In every form they are what other names and strings must not be.
  enum class Form : uint8_t { plain, every };
  Language text_inside(std::string_view value, Form form);
  Language texts_inside(std::vector<std::string> values, Form form);
  bool contains_name(Language names, const std::string& name);

  // --- rules: json_schema.cpp, json_schema_objects.cpp, json_schema_arrays.cpp
  Symbol rule_of(Literals all);
  void write_rule(Symbol rule, const Literals& all);
  void write_constants(Symbol rule, const std::vector<SchemaJson>& values);
  Symbol constant(const SchemaJson& v);
  void write_object(Symbol rule, const Shape& s);
  struct Members;
  Members members_of(const Shape& s);
  Literals literals_for(const Shape& s, const std::string& name, bool& never);
  void split_names(const Shape& s, Members& members);
  Symbol write_members(const Shape& s, const Members& members);
  void write_array(Symbol rule, const Shape& s);
  Symbol write_items(const Shape& s, uint32_t max_items);
  void write_plain_items(Symbol rule, const Shape& s, uint32_t max_items);
  bool write_unique_items(Symbol rule, const Shape& s, uint32_t max_items);
  Literals literals_at(const Shape& s, uint32_t index);
  void choice(Symbol rule, std::vector<Symbol> symbols);
  Symbol new_rule(const std::string& pointer);
  Symbol sign(char mark);
  Symbol impossible() { return g_.terminal(Languages::nothing); }

  const SchemaReferences references_;
  Grammar& g_;
  const JsonText json_;
  const bool is_draft4_;  // in which 1.0 is not an integer
  std::vector<Place> places_;
  std::unordered_map<const SchemaJson*, uint32_t> place_numbers_;
  std::deque<SchemaJson> made_;
  std::map<std::string, Literal> made_literals_;
  std::map<uint32_t, Alternatives> negated_;
  std::map<uint32_t, Alternatives> one_of_;
  std::map<uint32_t, std::shared_ptr<const ObjectClause>> object_clauses_;
  std::map<uint32_t, std::shared_ptr<const ArrayClause>> array_clauses_;
  std::unordered_map<const SchemaJson*, std::unordered_set<std::string>> listed_;  // values of enum and const
  std::map<std::string, Language> patterns_;
  std::unordered_map<char32_t, Language> letters_;  // in every form they can be written
  std::map<Literals, Symbol> rules_;
  std::deque<std::pair<Symbol, Literals>> pending_;
  size_t rules_made_ = 0, work_ = 0;
  int nested_ = 0;
};

}  // namespace heddle::grammar
