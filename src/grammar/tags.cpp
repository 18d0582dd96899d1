// Every format is a symbol. Free text inside of a tag goes until the tag's end, so the ends of what is around a format
// are given to it, and are written by it.
#include "grammar/tags.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "grammar/free_text.h"
#include "grammar/grammar_text.h"
#include "grammar/json_schema.h"
#include "grammar/regex.h"

namespace heddle::grammar {

namespace {

using TagJson = nlohmann::ordered_json;
using Ends = std::vector<std::string>;  // none: what follows is up to others

class TagWriter {
 public:
  explicit TagWriter(Grammar& grammar) : g_(grammar) {}

  Symbol write(const TagJson& tag) {
    expect_object(tag, "#");
    if (tag.contains("type") && tag["type"] != "structural_tag") fail("#/type", "expected \"structural_tag\"");
    if (tag.contains("format")) {
      expect_fields(tag, "#", {"type", "format"});
      return format(tag["format"], "#/format", {});
    }
    expect_fields(tag, "#", {"type", "structures", "triggers"});
    const TagJson& structures = list(tag, "#", "structures");
    const Ends triggers = texts(tag, "#", "triggers", true);
    FreeText text;
    for (size_t i = 0; i < structures.size(); ++i) {
      const std::string at = fmt::format("#/structures/{}", i);
      expect_object(structures[i], at);
      expect_fields(structures[i], at, {"begin", "schema", "end"});
      const std::string begin = string(structures[i], at, "begin"), end = string(structures[i], at, "end");
      const std::string trigger = trigger_of(begin, triggers, at + "/begin");
      const Symbol schema = embedded(member(structures[i], at, "schema"), at + "/schema");
      text.triggers.push_back({trigger, sequence({literal(begin.substr(trigger.size())), schema, literal(end)})});
    }
    return free_text(text, "#/triggers");
  }

 private:
  // --- reading ------------------------------------------------------------------------------------------------------
  [[noreturn]] static void fail(const std::string& at, std::string_view why) { throw Error("{}: {}", at, why); }
  static void expect_object(const TagJson& j, const std::string& at) {
    if (!j.is_object()) fail(at, fmt::format("expected an object, found {}", j.type_name()));
  }
  static void expect_fields(const TagJson& j, const std::string& at, std::initializer_list<std::string_view> known) {
    for (const auto& [name, value] : j.items())
      if (std::ranges::find(known, std::string_view(name)) == known.end())
        fail(at + "/" + name, fmt::format("this field cannot be kept; known are {}", fmt::join(known, ", ")));
  }
  static const TagJson& member(const TagJson& j, const std::string& at, const char* name) {
    const auto found = j.find(name);
    if (found == j.end()) fail(at, fmt::format("expected a field {}", name));
    return *found;
  }
  static std::string string(const TagJson& j, const std::string& at, const char* name) {
    const TagJson& found = member(j, at, name);
    if (!found.is_string())
      fail(at + "/" + name, fmt::format("expected a string, found {}; tokens cannot be kept", found.type_name()));
    return found.get<std::string>();
  }
  static bool flag(const TagJson& j, const std::string& at, const char* name, bool otherwise) {
    if (!j.contains(name)) return otherwise;
    if (!j[name].is_boolean()) fail(at + "/" + name, fmt::format("expected a boolean, found {}", j[name].type_name()));
    return j[name].get<bool>();
  }
  static const TagJson& list(const TagJson& j, const std::string& at, const char* name) {
    const TagJson& found = member(j, at, name);
    if (!found.is_array() || found.empty()) fail(at + "/" + name, "expected a list that is not empty");
    return found;
  }
  static Ends texts(const TagJson& j, const std::string& at, const char* name, bool required) {
    if (!required && !j.contains(name)) return {};
    const TagJson& found = member(j, at, name);
    if (!found.is_array() || (required && found.empty()))
      fail(at + "/" + name, "expected a list of strings that is not empty");
    Ends all;
    for (size_t i = 0; i < found.size(); ++i) {
      if (!found[i].is_string() || found[i].get_ref<const std::string&>().empty())
        fail(fmt::format("{}/{}/{}", at, name, i), "expected a string that is not empty");
      all.push_back(found[i].get<std::string>());
    }
    return all;
  }
  static int64_t count(const TagJson& j, const std::string& at, const char* name) {
    const TagJson& found = member(j, at, name);
    if (!found.is_number_integer()) fail(at + "/" + name, "expected a whole number");
    const auto value = found.get<int64_t>();
    if (value < -1 || value > 5000) fail(at + "/" + name, "expected a number of repetitions up to 5000");
    return value;
  }
  static std::string trigger_of(const std::string& begin, const Ends& triggers, const std::string& at) {
    const std::string* found = nullptr;
    for (const std::string& trigger : triggers) {
      if (!begin.starts_with(trigger)) continue;
      if (found && *found != trigger)
        fail(at, fmt::format("begins with two triggers, {} and {}", in_quotes(*found), in_quotes(trigger)));
      found = &trigger;
    }
    if (!found) fail(at, fmt::format("{} begins with none of the triggers", in_quotes(begin)));
    return *found;
  }

  // --- writing ------------------------------------------------------------------------------------------------------
  Symbol literal(std::string_view text) { return g_.symbol_of(g_.languages.text(text)); }
  Symbol sequence(std::vector<Symbol> symbols) {
    const Symbol rule = g_.rule();
    g_.add_choice(rule, std::move(symbols));
    return rule;
  }
  Symbol one_of(const std::vector<Symbol>& symbols) {
    const Symbol rule = g_.rule();
    for (const Symbol& one : symbols) g_.add_choice(rule, {one});
    return rule;
  }
  Symbol with_end(Symbol content, const Ends& ends) {
    if (ends.empty()) return content;
    return sequence({content, add_choices(g_, ends)});
  }
  Symbol free_text(const FreeText& text, const std::string& at) {
    try {
      return add_free_text(g_, text);
    } catch (const Error& e) {
      fail(at, e.what());
    }
  }
  // A schema's own pointers begin with #.
  Symbol embedded(const TagJson& schema, const std::string& at) {
    try {
      return add_json_schema(g_, schema);
    } catch (const Error& e) {
      const std::string_view what = e.what();
      if (what.starts_with('#')) throw Error("{}{}", at, what.substr(1));
      fail(at, what);
    }
  }

  Symbol format(const TagJson& j, const std::string& at, const Ends& ends) {
    if (++depth_ > 64) fail(at, "formats more than 64 deep");
    expect_object(j, at);
    const std::string type = string(j, at, "type");
    const Symbol found = format_of(type, j, at, ends);
    --depth_;
    return found;
  }
  Symbol format_of(const std::string& type, const TagJson& j, const std::string& at, const Ends& ends) {
    if (type == "const_string") {
      expect_fields(j, at, {"type", "value"});
      return with_end(literal(string(j, at, "value")), ends);
    }
    if (type == "json_schema") return with_end(schema(j, at), ends);
    if (type == "grammar" || type == "regex") return with_end(text_format(type, j, at), ends);
    if (type == "any_text") return any_text(j, at, ends);
    if (type == "sequence" || type == "or") return elements(type, j, at, ends);
    if (type == "optional" || type == "plus" || type == "star" || type == "repeat")
      return with_end(repeated(type, j, at), ends);
    if (type == "tag") return with_end(tag(j, at), ends);
    if (type == "triggered_tags") return triggered_tags(j, at, ends);
    if (type == "tags_with_separator") return with_end(separated_tags(j, at), ends);
    if (type == "dispatch") return dispatch(j, at, ends);
    fail(at + "/type", fmt::format("{} cannot be kept; known are const_string, json_schema, grammar, regex, any_text, "
                                   "sequence, or, optional, plus, star, repeat, tag, triggered_tags, "
                                   "tags_with_separator and dispatch",
                                   in_quotes(type)));
  }

  Symbol schema(const TagJson& j, const std::string& at) {
    expect_fields(j, at, {"type", "json_schema", "style", "any_order"});
    if (j.contains("style") && j["style"] != "json") fail(at + "/style", "only \"json\" can be kept");
    flag(j, at, "any_order", false);  // allows more orders than the one that is kept
    return embedded(member(j, at, "json_schema"), at + "/json_schema");
  }
  Symbol text_format(const std::string& type, const TagJson& j, const std::string& at) {
    const char* field = type == "grammar" ? "grammar" : "pattern";
    expect_fields(j, at, {"type", field});
    const std::string text = string(j, at, field);
    try {
      return type == "grammar" ? add_grammar_text(g_, text) : add_regex(g_, text);
    } catch (const Error& e) {
      fail(at + "/" + field, e.what());
    }
  }
  Symbol any_text(const TagJson& j, const std::string& at, const Ends& ends) {
    for (const char* limit : {"max_tokens", "max_chars"})
      if (j.contains(limit) && !j[limit].is_null())
        fail(at + "/" + limit, "a limit on the length of free text cannot be kept");
    expect_fields(j, at, {"type", "excludes", "max_tokens", "max_chars"});
    return free_text({.triggers = {}, .ends = ends, .excluded = texts(j, at, "excludes", false)}, at);
  }
  // The last of a sequence ends where the sequence does.
  Symbol elements(const std::string& type, const TagJson& j, const std::string& at, const Ends& ends) {
    expect_fields(j, at, {"type", "elements"});
    const TagJson& all = list(j, at, "elements");
    std::vector<Symbol> symbols;
    for (size_t i = 0; i < all.size(); ++i)
      symbols.push_back(
          format(all[i], fmt::format("{}/elements/{}", at, i), type == "or" || i + 1 == all.size() ? ends : Ends{}));
    return type == "or" ? one_of(symbols) : sequence(std::move(symbols));
  }
  Symbol repeated(const std::string& type, const TagJson& j, const std::string& at) {
    int64_t least = type == "plus" ? 1 : 0, most = type == "optional" ? 1 : -1;
    if (type == "repeat") {
      expect_fields(j, at, {"type", "min", "max", "content"});
      least = count(j, at, "min");
      most = count(j, at, "max");
      if (least < 0 || (most >= 0 && least > most)) fail(at + "/min", "expected a number from 0 to max");
    } else {
      expect_fields(j, at, {"type", "content"});
    }
    const Symbol content = format(member(j, at, "content"), at + "/content", {});
    Symbol more = g_.rule();
    g_.add_choice(more, {});
    if (most < 0) g_.add_choice(more, {more, content});
    for (int64_t i = least; i < most; ++i) {
      const Symbol longer = g_.rule();
      g_.add_choice(longer, {});
      g_.add_choice(longer, {content, more});
      more = longer;
    }
    std::vector<Symbol> all(size_t(least), content);
    all.push_back(more);
    return sequence(std::move(all));
  }

  Ends ends_of(const TagJson& j, const std::string& at) {
    if (member(j, at, "end").is_array()) return texts(j, at, "end", true);
    return {string(j, at, "end")};
  }
  // From behind its beginning on, of which `skip` bytes are written already.
  Symbol tag(const TagJson& j, const std::string& at, size_t skip = 0) {
    expect_object(j, at);
    if (j.contains("type") && j["type"] != "tag") fail(at + "/type", "expected \"tag\"");
    expect_fields(j, at, {"type", "begin", "content", "end"});
    const std::string begin = string(j, at, "begin");
    Ends ends = ends_of(j, at);
    if (ends == Ends{""}) ends.clear();  // nothing marks the end
    const Symbol content = format(member(j, at, "content"), at + "/content", ends);
    return sequence({literal(begin.substr(skip)), content});
  }
  Symbol triggered_tags(const TagJson& j, const std::string& at, const Ends& ends) {
    expect_fields(j, at, {"type", "triggers", "tags", "at_least_one", "stop_after_first", "excludes"});
    const Ends triggers = texts(j, at, "triggers", true);
    const TagJson& tags = list(j, at, "tags");
    FreeText text{.triggers = {},
                  .ends = ends,
                  .excluded = texts(j, at, "excludes", false),
                  .again = !flag(j, at, "stop_after_first", false)};
    std::vector<Symbol> whole;
    for (size_t i = 0; i < tags.size(); ++i) {
      const std::string here = fmt::format("{}/tags/{}", at, i);
      expect_object(tags[i], here);
      const std::string trigger = trigger_of(string(tags[i], here, "begin"), triggers, here + "/begin");
      text.triggers.push_back({trigger, tag(tags[i], here, trigger.size())});
      whole.push_back(sequence({literal(trigger), text.triggers.back().then}));
    }
    if (!flag(j, at, "at_least_one", false)) return free_text(text, at);
    // the first comes at once, without free text before it
    const Symbol first = one_of(whole);
    return text.again ? sequence({first, free_text(text, at)}) : with_end(first, ends);
  }
  Symbol separated_tags(const TagJson& j, const std::string& at) {
    expect_fields(j, at, {"type", "tags", "separator", "at_least_one", "stop_after_first"});
    const TagJson& tags = list(j, at, "tags");
    std::vector<Symbol> all;
    for (size_t i = 0; i < tags.size(); ++i) all.push_back(tag(tags[i], fmt::format("{}/tags/{}", at, i)));
    const Symbol one = one_of(all), several = g_.rule(), found = g_.rule();
    g_.add_choice(several, {one});
    const Symbol separator = literal(string(j, at, "separator"));
    if (!flag(j, at, "stop_after_first", false)) g_.add_choice(several, {several, separator, one});
    g_.add_choice(found, {several});
    if (!flag(j, at, "at_least_one", false)) g_.add_choice(found, {});
    return found;
  }
  Symbol dispatch(const TagJson& j, const std::string& at, const Ends& ends) {
    expect_fields(j, at, {"type", "rules", "loop", "excludes"});
    const TagJson& rules = list(j, at, "rules");
    FreeText text{
        .triggers = {}, .ends = ends, .excluded = texts(j, at, "excludes", false), .again = flag(j, at, "loop", true)};
    for (size_t i = 0; i < rules.size(); ++i) {
      const std::string here = fmt::format("{}/rules/{}", at, i);
      if (!rules[i].is_array() || rules[i].size() != 2 || !rules[i][0].is_string())
        fail(here, "expected a list of a string and a format");
      text.triggers.push_back({rules[i][0].get<std::string>(), format(rules[i][1], here + "/1", {})});
    }
    return free_text(text, at);
  }

  Grammar& g_;
  uint32_t depth_ = 0;
};

}  // namespace

Symbol add_structural_tag(Grammar& grammar, const nlohmann::ordered_json& tag) { return TagWriter(grammar).write(tag); }

Grammar structural_tag(const nlohmann::ordered_json& tag) { return grammar_of(add_structural_tag, tag); }

}  // namespace heddle::grammar
