#include "main/commands/constraint_options.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "grammar/source.h"

namespace heddle {
namespace {

constexpr const char* constraint_group = "What the answer must be (docs/running.md)";  // heading in --help

struct NamedSource {
  std::string name;  // for errors
  grammar::Source source;
};

std::optional<NamedSource> named_source(const ConstraintOptions& options) {
  using Kind = grammar::Source::Kind;
  std::optional<NamedSource> found;
  const auto add = [&](const std::string& option, const std::string& given, auto&& make) {
    if (given.empty()) return;
    if (found) throw Error("{}: expected one constraint, found {} as well", option, found->name);
    found = make();
  };
  add("--schema", options.schema, [&] {
    return NamedSource{options.schema, {Kind::json_schema, std::string(MappedFile(options.schema).text())}};
  });
  add("--grammar", options.grammar, [&] {
    const bool lark = options.grammar.ends_with(".lark"), gbnf = options.grammar.ends_with(".gbnf");
    const Kind kind = lark ? Kind::lark : gbnf ? Kind::gbnf : Kind::gbnf_or_lark;
    return NamedSource{options.grammar, {kind, std::string(MappedFile(options.grammar).text())}};
  });
  add("--choice", options.choices, [&] {
    nlohmann::json list = nlohmann::json::array();
    for (size_t at = 0; at <= options.choices.size();) {
      const size_t end = std::min(options.choices.find(',', at), options.choices.size());
      list.push_back(options.choices.substr(at, end - at));
      at = end + 1;
    }
    return NamedSource{"--choice", {Kind::choices, list.dump()}};
  });
  add("--regex", options.regex, [&] { return NamedSource{"--regex", {Kind::regex, options.regex}}; });
  return found;
}

}  // namespace

void describe_constraint(CLI::App& command, ConstraintOptions& options) {
  const auto add = [&command](const char* name, std::string& value, const char* type, const char* text) {
    command.add_option(name, value, text)->type_name(type)->group(constraint_group);
  };
  add("--schema", options.schema, "F.json", "JSON that this JSON Schema accepts");
  add("--grammar", options.grammar, "F", "A text of this grammar: GBNF, or Lark");
  add("--choice", options.choices, "A,B", "One of these texts");
  add("--regex", options.regex, "PATTERN", "A text that the pattern matches as a whole");
}

std::shared_ptr<grammar::CompiledGrammar> read_constraint(const ConstraintOptions& options) {
  const std::optional<NamedSource> named = named_source(options);
  if (!named) return nullptr;
  return compile_constraint(named->name, named->source);
}

}  // namespace heddle
