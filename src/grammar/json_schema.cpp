// A value must satisfy several schemas at once: one and what it refers to, allOf, and what two of them say about the
// same property. So a rule is that of a set of places in the schema; what they say is merged into one Shape, and a
// shape is written as a choice for each type.
#include "grammar/json_schema.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/utf8.h"
#include "grammar/numbers.h"
#include "grammar/pattern.h"

namespace heddle::grammar {

namespace {

using Json = nlohmann::ordered_json;

struct Place {
  const Json* schema;
  std::string pointer;
  bool operator<(const Place& other) const { return pointer < other.pointer; }
  bool operator==(const Place& other) const { return pointer == other.pointer; }
};
using Places = std::set<Place>;

enum Type : uint32_t { null = 1, boolean = 2, number = 4, string = 8, array = 16, object = 32, every_type = 63 };

struct Shape {
  uint32_t types = every_type;
  NumberLimits numbers;
  uint32_t least_length = 0, most_length = Languages::unbounded;
  std::vector<Language> strings;  // what is inside of the quotation marks is in all of them
  std::vector<Places> prefix;     // of an array
  Places items;
  uint32_t least_items = 0, most_items = Languages::unbounded;
  std::vector<std::string> order;  // of properties
  std::map<std::string, Places> properties;
  std::set<std::string> required;
  std::vector<std::pair<Language, Places>> patterns;  // of names
  Places others;                                      // additional properties
  std::vector<std::pair<Place, Place>> additional;    // and the place that says so
  uint32_t least_properties = 0, most_properties = Languages::unbounded;
  std::vector<Json> constants;  // only these, where there is a list
  bool has_constants = false;
};

[[noreturn]] void refuse(const std::string& pointer, std::string_view why) { throw Error("{}: {}", pointer, why); }

std::string escaped(std::string_view name) {
  std::string out;
  for (char c : name) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

class SchemaWriter {
 public:
  explicit SchemaWriter(const Json& root) : root_(root) {
    Languages& l = g_.languages;
    space_ = l.repeat(l.bytes(Bytes().set(' ').set('\n').set('\r').set('\t')), 0, 64);
    any_char_ = written(l, CodePoints::all(), Writing::json_string);
    any_chars_ = l.repeat(any_char_, 0);
  }

  Grammar write() {
    g_.set_start(rule_of({{&root_, "#"}}));
    return std::move(g_);
  }

 private:
  Language text(std::string_view t) { return g_.languages.text(t); }
  // A sign with the space that may stand around it.
  Symbol sign(std::string_view t, bool before, bool after) {
    Languages& l = g_.languages;
    return g_.terminal(
        l.sequence(std::vector{before ? space_ : Languages::empty, text(t), after ? space_ : Languages::empty}));
  }
  Symbol rule_with(const std::vector<std::vector<Symbol>>& choices) {
    const Symbol rule = g_.rule();
    for (const auto& choice : choices) g_.add_choice(rule, choice);
    return rule;
  }
  Symbol impossible() { return g_.terminal(Languages::nothing); }

  // --- what places say ----------------------------------------------------------------------------------------------
  Symbol rule_of(const Places& places) {
    if (const auto found = rules_.find(places); found != rules_.end()) return found->second;
    if (rules_.size() > 20'000) throw Error("#: the schema needs more than 20000 rules");
    const Symbol rule = g_.rule();
    rules_.emplace(places, rule);
    for (Shape& shape : shapes_of(places)) write_shape(rule, shape);
    if (!written_.contains(rule.number)) g_.add_choice(rule, {impossible()});
    return rule;
  }

  // One for each way through anyOf and oneOf.
  std::vector<Shape> shapes_of(const Places& places) {
    std::vector<Shape> all;
    spread({places.begin(), places.end()}, {}, {}, all);
    return all;
  }
  // `open`: places that are still to be looked at; `done`: those that are merged.
  void spread(std::vector<Place> open, std::set<std::string> done, Shape shape, std::vector<Shape>& all) {
    while (!open.empty()) {
      const Place at = open.front();
      open.erase(open.begin());
      if (!done.insert(at.pointer).second) continue;
      if (done.size() > 1000) refuse(at.pointer, "more than 1000 schemas for one value");
      if (at.schema->is_boolean()) {
        if (!at.schema->get<bool>()) return;
        continue;
      }
      if (!at.schema->is_object()) refuse(at.pointer, "a schema is an object or a boolean");
      for (const char* key : {"$ref"})
        if (at.schema->contains(key)) open.push_back(target((*at.schema)[key], at.pointer + "/" + key));
      if (at.schema->contains("allOf")) {
        size_t i = 0;
        for (const Json& part : list(at, "allOf")) open.push_back({&part, fmt::format("{}/allOf/{}", at.pointer, i++)});
      }
      merge(at, shape);
      for (const char* key : {"anyOf", "oneOf"}) {
        if (!at.schema->contains(key)) continue;
        const Json& choices = list(at, key);
        if (std::string_view(key) == "oneOf") expect_apart(choices, at.pointer + "/oneOf");
        // every choice goes on with what is left; the other of the two keywords too
        Json rest = *at.schema;
        std::vector<Shape> found;
        if (std::string_view(key) == "anyOf" && at.schema->contains("oneOf")) {
          const Json& others = list(at, "oneOf");
          expect_apart(others, at.pointer + "/oneOf");
          for (size_t j = 0; j < others.size(); ++j)
            for (size_t i = 0; i < choices.size(); ++i) {
              auto next = open;
              next.push_back({&others[j], fmt::format("{}/oneOf/{}", at.pointer, j)});
              next.push_back({&choices[i], fmt::format("{}/anyOf/{}", at.pointer, i)});
              spread(std::move(next), done, shape, all);
            }
          return;
        }
        for (size_t i = 0; i < choices.size(); ++i) {
          auto next = open;
          next.push_back({&choices[i], fmt::format("{}/{}/{}", at.pointer, key, i)});
          spread(std::move(next), done, shape, all);
          if (all.size() > 1000) refuse(at.pointer, "more than 1000 combinations of choices");
        }
        return;
      }
    }
    add_additional(shape);
    all.push_back(std::move(shape));
  }
  // What one place calls additional, another may name.
  void add_additional(Shape& s) {
    for (const auto& [others, at] : s.additional) {
      const Json& j = *at.schema;
      std::vector<Language> patterns;
      if (j.contains("patternProperties"))
        for (const auto& [name, one] : j["patternProperties"].items())
          patterns.push_back(search_pattern(g_.languages, name, Writing::json_string));
      for (auto& [name, places] : s.properties) {
        if (j.contains("properties") && j["properties"].contains(name)) continue;
        if (std::ranges::any_of(patterns, [&](Language p) { return g_.languages.contains(p, inside_text(name)); }))
          continue;
        places.insert(others);
      }
      if (s.patterns.size() > patterns.size() && !(others.schema->is_boolean() && others.schema->get<bool>()))
        refuse(others.pointer, "beside patternProperties of another schema it cannot be kept");
    }
  }

  const Json& list(const Place& at, const char* key) {
    const Json& found = (*at.schema)[key];
    if (!found.is_array() || found.empty()) refuse(at.pointer + "/" + key, "expected a list that is not empty");
    return found;
  }

  Place target(const Json& ref, const std::string& pointer) {
    if (!ref.is_string()) refuse(pointer, "expected a string");
    const auto text = ref.get<std::string>();
    if (!text.starts_with('#')) refuse(pointer, "only references inside of the schema can be followed");
    try {
      std::string plain;  // percent-encoding
      for (size_t i = 1; i < text.size(); ++i)
        if (text[i] == '%' && i + 2 < text.size()) {
          plain += char(std::stoi(text.substr(i + 1, 2), nullptr, 16));
          i += 2;
        } else {
          plain += text[i];
        }
      return {&root_.at(Json::json_pointer(plain)), "#" + plain};
    } catch (const std::exception&) {
      refuse(pointer, fmt::format("nothing is at {}", in_quotes(text)));
    }
  }

  // oneOf is anyOf where no value is valid for two of them; here if they have no type in common, or a property that
  // both require with different constants.
  void expect_apart(const Json& choices, const std::string& pointer) {
    std::vector<std::vector<Shape>> shapes;
    for (size_t i = 0; i < choices.size(); ++i)
      shapes.push_back(shapes_of({{&choices[i], fmt::format("{}/{}", pointer, i)}}));
    for (size_t i = 0; i < shapes.size(); ++i)
      for (size_t j = i + 1; j < shapes.size(); ++j)
        for (const Shape& a : shapes[i])
          for (const Shape& b : shapes[j])
            if (!apart(a, b, 0))
              refuse(pointer, fmt::format("choices {} and {} may both be valid, which cannot be kept", i, j));
  }
  bool apart(const Shape& a, const Shape& b, int depth) {
    if (a.has_constants && b.has_constants)
      return std::ranges::none_of(
          a.constants, [&](const Json& c) { return std::ranges::find(b.constants, c) != b.constants.end(); });
    const uint32_t common = types_of(a) & types_of(b);
    if (common == 0) return true;
    if (depth > 3) return false;
    if (common == Type::object)
      for (const std::string& name : a.required)
        if (b.required.contains(name) && a.properties.contains(name) && b.properties.contains(name)) {
          bool all_apart = true;
          for (const Shape& x : shapes_of(a.properties.at(name)))
            for (const Shape& y : shapes_of(b.properties.at(name))) all_apart = all_apart && apart(x, y, depth + 1);
          if (all_apart) return true;
        }
    if (common == Type::object)  // one requires what the other does not allow
      for (const auto& [x, y] : {std::pair{&a, &b}, std::pair{&b, &a}})
        for (const std::string& name : x->required)
          if (!y->properties.contains(name) && y->patterns.empty() && is_false(y->others)) return true;
    return false;
  }
  static bool is_false(const Places& places) {
    return std::ranges::any_of(places, [](const Place& p) { return p.schema->is_boolean() && !p.schema->get<bool>(); });
  }
  static uint32_t types_of(const Shape& s) {
    if (!s.has_constants) return s.types;
    uint32_t types = 0;
    for (const Json& c : s.constants) types |= type_of(c);
    return types & s.types;
  }
  static uint32_t type_of(const Json& v) {
    return v.is_null()      ? Type::null
           : v.is_boolean() ? Type::boolean
           : v.is_number()  ? Type::number
           : v.is_string()  ? Type::string
           : v.is_array()   ? Type::array
                            : Type::object;
  }

  uint32_t count(const Json& v, const std::string& pointer) {
    if (!v.is_number() || v.get<double>() < 0 || v.get<double>() != std::floor(v.get<double>()))
      refuse(pointer, "expected a whole number of 0 or more");
    return uint32_t(std::min(v.get<double>(), 1e9));
  }
  Decimal decimal(const Json& v, const std::string& pointer) {
    if (!v.is_number()) refuse(pointer, "expected a number");
    return Decimal(v.dump());
  }

  // Keywords that say something about values, and are not kept yet. All others are annotations, as the standard has it.
  static bool is_missing(std::string_view key) {
    static const std::set<std::string_view> known{"not",
                                                  "if",
                                                  "then",
                                                  "else",
                                                  "contains",
                                                  "minContains",
                                                  "maxContains",
                                                  "propertyNames",
                                                  "dependentRequired",
                                                  "dependentSchemas",
                                                  "dependencies",
                                                  "unevaluatedItems",
                                                  "unevaluatedProperties",
                                                  "$dynamicRef",
                                                  "$recursiveRef",
                                                  "uniqueItems",
                                                  "extends",
                                                  "disallow",
                                                  "divisibleBy"};
    return known.contains(key);
  }
  void merge(const Place& at, Shape& s) {
    const Json& j = *at.schema;
    Languages& l = g_.languages;
    for (const auto& [key, v] : j.items()) {
      const std::string pointer = at.pointer + "/" + escaped(key);
      auto at_least = [](uint32_t& bound, uint32_t by) { bound = std::max(bound, by); };
      auto at_most = [](uint32_t& bound, uint32_t by) { bound = std::min(bound, by); };
      if (key == "type") {
        uint32_t types = 0;
        bool whole = true;
        for (const Json& one : v.is_array() ? v : Json::array({v})) {
          if (!one.is_string()) refuse(pointer, "expected the name of a type");
          const auto name = one.get<std::string>();
          const std::map<std::string, uint32_t> names{
              {"null", Type::null},     {"boolean", Type::boolean}, {"number", Type::number}, {"integer", Type::number},
              {"string", Type::string}, {"array", Type::array},     {"object", Type::object}};
          const auto found = names.find(name);
          if (found == names.end()) refuse(pointer, fmt::format("there is no type {}", in_quotes(name)));
          types |= found->second;
          whole = whole && name != "number";
        }
        s.types &= types;
        if (whole && types & Type::number) s.numbers.whole = true;
      } else if (key == "enum" || key == "const") {
        std::vector<Json> values;
        if (key == "const")
          values = {v};
        else
          for (const Json& one : list(at, "enum")) values.push_back(one);
        if (s.has_constants)
          std::erase_if(s.constants, [&](const Json& c) { return std::ranges::find(values, c) == values.end(); });
        else
          s.constants = values;
        s.has_constants = true;
      } else if (key == "minimum" || key == "exclusiveMinimum" || key == "maximum" || key == "exclusiveMaximum") {
        if (v.is_boolean()) refuse(pointer, "expected a number (a boolean is draft 4's)");
        const bool low = key.find("inimum") != std::string::npos, strict = key.starts_with("ex");
        std::optional<Decimal>& bound = low ? s.numbers.least : s.numbers.most;
        bool& is_strict = low ? s.numbers.above_least : s.numbers.below_most;
        const Decimal d = decimal(v, pointer);
        const double is = bound ? std::stod(bound->text()) : 0, should = std::stod(d.text());
        if (!bound || (low ? should > is : should < is) || (should == is && strict)) {
          bound = d;
          is_strict = strict;
        }
      } else if (key == "multipleOf") {
        const Decimal d = decimal(v, pointer);
        if (s.numbers.multiple_of && s.numbers.multiple_of->text() != d.text())
          refuse(pointer, "two different multipleOf for one value cannot be kept");
        s.numbers.multiple_of = d;
      } else if (key == "minLength") {
        at_least(s.least_length, count(v, pointer));
      } else if (key == "maxLength") {
        at_most(s.most_length, count(v, pointer));
      } else if (key == "pattern") {
        s.strings.push_back(pattern(v, pointer));
      } else if (key == "format") {
        if (!v.is_string()) refuse(pointer, "expected a string");
        if (const auto p = format_pattern(v.get<std::string>()))
          s.strings.push_back(search_pattern(l, *p, Writing::json_string));
      } else if (key == "minItems") {
        at_least(s.least_items, count(v, pointer));
      } else if (key == "maxItems") {
        at_most(s.most_items, count(v, pointer));
      } else if (key == "prefixItems" || (key == "items" && v.is_array())) {
        for (size_t i = 0; i < v.size(); ++i) {
          // what `items` of other places says holds beyond their own prefix: kept only where there is none
          if (s.prefix.size() <= i) s.prefix.push_back(s.items);
          s.prefix[i].insert({&v[i], fmt::format("{}/{}", pointer, i)});
        }
      } else if (key == "items" || key == "additionalItems") {
        if (key == "additionalItems" && !(j.contains("items") && j["items"].is_array())) continue;
        if (j.contains("prefixItems") || key == "additionalItems")
          s.items.insert({&v, pointer});
        else {
          s.items.insert({&v, pointer});
          for (Places& p : s.prefix) p.insert({&v, pointer});
        }
      } else if (key == "properties") {
        if (!v.is_object()) refuse(pointer, "expected an object");
        for (const auto& [name, one] : v.items()) {
          if (!s.properties.contains(name)) s.order.push_back(name);
          s.properties[name].insert({&one, pointer + "/" + escaped(name)});
        }
      } else if (key == "patternProperties") {
        for (const auto& [name, one] : v.items())
          s.patterns.push_back(
              {search_pattern(l, name, Writing::json_string), {{&one, pointer + "/" + escaped(name)}}});
      } else if (key == "additionalProperties") {
        s.others.insert({&v, pointer});
        s.additional.push_back({{&v, pointer}, at});
      } else if (key == "minProperties") {
        at_least(s.least_properties, count(v, pointer));
      } else if (key == "maxProperties") {
        at_most(s.most_properties, count(v, pointer));
      } else if (is_missing(key)) {
        if (key == "uniqueItems" && v == false) continue;
        refuse(pointer, "this keyword cannot be kept");
      }
    }
    if (j.contains("required")) {
      if (!j["required"].is_array()) refuse(at.pointer + "/required", "expected a list of names");
      for (const Json& name : j["required"]) {
        if (!name.is_string()) refuse(at.pointer + "/required", "expected a list of names");
        const auto text = name.get<std::string>();
        s.required.insert(text);
      }
    }
  }

  Language pattern(const Json& v, const std::string& pointer) {
    if (!v.is_string()) refuse(pointer, "expected a string");
    try {
      return search_pattern(g_.languages, v.get<std::string>(), Writing::json_string);
    } catch (const Error& e) {
      refuse(pointer, e.what());
    }
  }

  // Formats are annotations in the standard: those that are known are kept all the same.
  static std::optional<std::string> format_pattern(const std::string& name) {
    const std::string leap = "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
    const std::string date =
        "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|"
        "1\\d|2[0-8]))|" +
        leap + "-02-29)";
    const std::string time = "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d+)?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)";
    const std::string byte = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
    const std::map<std::string, std::string> known{
        {"date", "^" + date + "$"},
        {"time", "^" + time + "$"},
        {"date-time", "^" + date + "T" + time + "$"},
        {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"},
        {"uri", "^[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#\\[\\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*$"},
        {"hostname",
         "^[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$"},
        {"ipv4", "^" + byte + "(?:\\." + byte + "){3}$"},
        {"email",
         "^[A-Za-z0-9.!#$%&'*+/"
         "=?^_`{|}~-]+@[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*$"}};
    const auto found = known.find(name);
    return found == known.end() ? std::nullopt : std::optional(found->second);
  }

  // --- shapes as rules ----------------------------------------------------------------------------------------------
  void choice(Symbol rule, std::vector<Symbol> symbols) {
    g_.add_choice(rule, std::move(symbols));
    written_.insert(rule.number);
  }

  void write_shape(Symbol rule, Shape& s) {
    if (s.has_constants) {
      for (const Json& c : s.constants)
        if (is_valid(c, s)) choice(rule, {constant(c)});
      return;
    }
    if (s.types & Type::null) choice(rule, {g_.terminal(text("null"))});
    if (s.types & Type::boolean) {
      choice(rule, {g_.terminal(text("true"))});
      choice(rule, {g_.terminal(text("false"))});
    }
    if (s.types & Type::number) choice(rule, {g_.terminal(numbers(g_.languages, s.numbers))});
    if (s.types & Type::string) choice(rule, {g_.terminal(quoted(inside(s)))});
    if (s.types & Type::array) write_array(rule, s);
    if (s.types & Type::object) write_object(rule, s);
  }

  Language inside(const Shape& s) {
    std::vector<Language> all = s.strings;
    if (s.least_length > s.most_length) return Languages::nothing;
    all.push_back(g_.languages.repeat(any_char_, s.least_length, s.most_length));
    return g_.languages.all_of(std::move(all));
  }
  Language quoted(Language inside) { return g_.languages.sequence(std::vector{text("\""), inside, text("\"")}); }
  // In any escape form.
  Language text_inside(std::string_view value) {
    std::vector<Language> parts;
    for (size_t i = 0; i < value.size();) {
      const CodePoint c = code_point_at(value, i);
      parts.push_back(written(g_.languages, {{c.value, c.value}}, Writing::json_string));
      i += c.bytes;
    }
    return g_.languages.sequence(parts);
  }

  Symbol constant(const Json& v) {
    if (v.is_string()) return g_.terminal(quoted(text_inside(v.get<std::string>())));
    if (v.is_number()) {
      const Decimal d(v.dump());
      return g_.terminal(numbers(g_.languages, {.least = d, .most = d}));
    }
    if (!v.is_structured()) return g_.terminal(text(v.dump()));
    const bool is_list = v.is_array();
    std::vector<Symbol> all{sign(is_list ? "[" : "{", false, true)};
    bool first = true;
    for (const auto& [name, one] : v.items()) {
      if (!first) all.push_back(sign(",", true, true));
      first = false;
      if (!is_list) {
        all.push_back(g_.terminal(quoted(text_inside(name))));
        all.push_back(sign(":", true, true));
      }
      all.push_back(constant(one));
    }
    all.push_back(sign(is_list ? "]" : "}", !first, false));
    return rule_with({all});
  }

  // Whether a constant satisfies the rest of its shape: only what is quick to see is looked at, and the rest refused.
  bool is_valid(const Json& v, const Shape& s) {
    if (!(type_of(v) & s.types)) return false;
    Languages& l = g_.languages;
    if (v.is_number()) return l.contains(numbers(l, s.numbers), Decimal(v.dump()).text());
    if (v.is_string()) {
      std::string raw = v.dump();
      return l.contains(quoted(inside(s)), raw);
    }
    return true;
  }

  void write_array(Symbol rule, const Shape& s) {
    const Symbol open = sign("[", false, true), close = sign("]", true, false), comma = sign(",", true, true);
    uint32_t most = s.most_items;
    const bool no_more = is_false(s.items);
    if (no_more) most = std::min<uint32_t>(most, uint32_t(s.prefix.size()));
    if (s.least_items > most) return;
    if (s.least_items == 0) choice(rule, {open, g_.terminal(text("]"))});
    if (most == 0) return;
    const uint32_t fixed = std::max({s.least_items, uint32_t(std::min<size_t>(s.prefix.size(), most)), 1u});
    if (fixed > 5000 || (most != Languages::unbounded && most > 5000))
      refuse("#", "more than 5000 items cannot be counted");
    auto item = [&](uint32_t i) { return i < s.prefix.size() ? rule_of(s.prefix[i]) : rule_of(s.items); };
    // from the end: what may follow item i
    Symbol tail = g_.rule();
    if (most == Languages::unbounded) {
      const Symbol more = g_.rule();
      g_.add_choice(more, {});
      g_.add_choice(more, {more, comma, item(fixed)});
      g_.add_choice(tail, {more});
    } else {
      g_.add_choice(tail, {});
      for (uint32_t i = most; i-- > fixed;) {
        const Symbol before = g_.rule();
        g_.add_choice(before, {});
        g_.add_choice(before, {comma, item(i), tail});
        tail = before;
      }
    }
    for (uint32_t i = fixed; i-- > 1;) {
      const Symbol before = g_.rule();
      g_.add_choice(before, {comma, item(i), tail});
      if (i >= s.least_items) g_.add_choice(before, {});
      tail = before;
    }
    choice(rule, {open, item(0), tail, close});
  }

  void write_object(Symbol rule, const Shape& s) {
    Languages& l = g_.languages;
    if (s.least_properties > s.required.size() || s.most_properties != Languages::unbounded) {
      const bool free_enough = s.least_properties <= s.required.size() && s.most_properties >= s.order.size() &&
                               is_false(s.others) && s.patterns.empty();
      if (!free_enough) refuse("#", "minProperties and maxProperties cannot be kept here");
    }
    const Symbol open = sign("{", false, true), close = sign("}", true, false), comma = sign(",", true, true),
                 colon = sign(":", true, true);
    // names that are required and not described come first of the others
    std::vector<std::string> order = s.order;
    for (const std::string& name : s.required)
      if (!s.properties.contains(name)) order.push_back(name);
    auto places_for = [&](const std::string& name) {
      Places all;
      if (const auto found = s.properties.find(name); found != s.properties.end()) all = found->second;
      bool matched = !all.empty() || s.properties.contains(name);
      for (const auto& [language, places] : s.patterns)
        if (l.contains(language, inside_text(name))) {
          all.insert(places.begin(), places.end());
          matched = true;
        }
      if (!matched) all = s.others;
      return all;
    };
    // other names: by pattern, and the rest
    std::vector<Language> named;
    for (const std::string& name : order) named.push_back(text_inside(name));
    const Language not_named = l.all_of({any_chars_, l.without(l.any_of(named))});
    std::vector<std::vector<Symbol>> pairs;
    if (s.patterns.size() > 1) {
      for (size_t i = 0; i < s.patterns.size(); ++i)
        for (size_t j = i + 1; j < s.patterns.size(); ++j)
          if (!l.is_nothing(l.all_of({s.patterns[i].first, s.patterns[j].first, not_named})))
            refuse("#", "patternProperties with names in common cannot be kept");
    }
    std::vector<Language> by_pattern;
    for (const auto& [language, places] : s.patterns) {
      by_pattern.push_back(language);
      if (const Language names = l.all_of({language, not_named}); !l.is_nothing(names))
        pairs.push_back({g_.terminal(quoted(names)), colon, rule_of(places)});
    }
    if (!is_false(s.others))
      if (const Language names = l.all_of({not_named, l.without(l.any_of(by_pattern))}); !l.is_nothing(names))
        pairs.push_back({g_.terminal(quoted(names)), colon, rule_of(s.others)});

    // from the end: what may follow, where nothing has come yet and where something has
    Symbol none = g_.rule(), some = g_.rule();
    g_.add_choice(none, {});
    g_.add_choice(some, {});
    if (!pairs.empty()) {
      const Symbol pair = rule_with(pairs), more = g_.rule();
      g_.add_choice(more, {pair});
      g_.add_choice(more, {more, comma, pair});
      g_.add_choice(none, {more});
      g_.add_choice(some, {comma, more});
    }
    for (size_t i = order.size(); i-- > 0;) {
      const Places places = places_for(order[i]);
      const bool required = s.required.contains(order[i]), never = is_false(places);
      if (never && required) return;
      const Symbol next_none = g_.rule(), next_some = g_.rule();
      if (!never) {
        const Symbol name = g_.terminal(quoted(text_inside(order[i]))), value = rule_of(places);
        g_.add_choice(next_none, {name, colon, value, some});
        g_.add_choice(next_some, {comma, name, colon, value, some});
      }
      if (!required) {
        g_.add_choice(next_none, {none});
        g_.add_choice(next_some, {some});
      }
      none = next_none;
      some = next_some;
    }
    choice(rule, {open, none, close});
  }
  static std::string inside_text(const std::string& name) {
    const std::string quoted = Json(name).dump();
    return quoted.substr(1, quoted.size() - 2);
  }

  const Json& root_;
  Grammar g_;
  Language space_, any_char_, any_chars_;
  std::map<Places, Symbol> rules_;
  std::set<uint32_t> written_;
};

}  // namespace

Grammar json_schema(const nlohmann::ordered_json& schema) { return SchemaWriter(schema).write(); }

}  // namespace heddle::grammar
