// heddle grammar check: whether a grammar can be kept, and whether a text is one of its texts.
#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/utf8.h"
#include "grammar/gbnf.h"
#include "grammar/json_schema.h"
#include "grammar/lark.h"
#include "grammar/parser.h"
#include "grammar/regex.h"
#include "grammar/tags.h"
#include "main/commands/commands.h"
#include "main/process.h"

namespace heddle {
namespace {

struct GrammarOptions {
  std::string path, text, text_path;
  std::map<std::string, bool> kinds;  // by the name of the option
};

struct GrammarKind {
  const char *option, *extension, *name, *help;
};
constexpr GrammarKind grammar_kinds[] = {
    {"schema", ".json", "JSON Schema", "The file is a JSON Schema; default for .json"},
    {"tags", ".tags", "structural tags", "The file has structural tags as JSON; default for .json of that type"},
    {"gbnf", ".gbnf", "GBNF", "The file is GBNF, as llama.cpp has it; default for .gbnf"},
    {"lark", ".lark", "Lark", "The file is a grammar in Lark's notation; default for .lark"},
    {"regex", ".regex", "regular expression", "The file is a regular expression; default for .regex"},
    {"choices", ".choices", "choices",
     "The file has a text on each line, one of which is allowed; default for .choices"},
};

const GrammarKind& grammar_kind_of(const GrammarOptions& options) {
  for (const GrammarKind& kind : grammar_kinds)
    if (options.kinds.at(kind.option)) return kind;
  for (const GrammarKind& kind : grammar_kinds)
    if (options.path.ends_with(kind.extension)) return kind;
  throw Error(
      "{}: expected .json, .tags, .gbnf, .lark, .regex or .choices at the end of the name, or an option such as --gbnf",
      options.path);
}

// One newline at the end belongs to the file.
std::string_view without_last_newline(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.emplace_back(without_last_newline(text.substr(at, end + 1 - at)));
    at = end + 1;
  }
  return lines;
}

struct NamedGrammar {
  const char* name;
  grammar::Grammar grammar;
};
NamedGrammar read_grammar(const GrammarKind& kind, std::string_view text, const std::string& path) {
  const std::string_view option = kind.option;
  if (option == "gbnf") return {kind.name, grammar::gbnf(text)};
  if (option == "lark") return {kind.name, grammar::lark(text)};
  if (option == "regex") return {kind.name, grammar::regex(without_last_newline(text))};
  if (option == "choices") return {kind.name, grammar::choices(lines_of(text))};
  parse_json(text, path, 256);  // is strict, but does not keep the order
  const auto json = nlohmann::ordered_json::parse(text);
  const bool has_tags = json.is_object() && json.contains("type") && json["type"] == "structural_tag";
  if (option == "tags" || has_tags) return {"structural tags", grammar::structural_tag(json)};
  return {kind.name, grammar::json_schema(json)};
}

// What may follow, in a line that is not too long.
std::string expected_text(const grammar::Position& at) {
  std::vector<std::string> all;
  const grammar::Bytes bytes = at.next_bytes();
  size_t others = 0;
  for (size_t b = 0; b < 256; ++b) {
    if (!bytes[b]) continue;
    if (b < 0x80 && all.size() < 20)
      all.push_back(in_quotes(std::string(1, char(b))));
    else
      ++others;
  }
  if (others) all.push_back(fmt::format("{} other bytes", others));
  if (at.may_end()) all.emplace_back("the end");
  return fmt::format("{}", fmt::join(all, ", "));
}

void check_text(const std::shared_ptr<grammar::CompiledGrammar>& compiled, std::string_view text) {
  grammar::Position at(compiled);
  for (size_t i = 0; i < text.size(); ++i) {
    if (at.take(uint8_t(text[i]))) continue;
    const std::string_view before = text.substr(0, i);
    const size_t line = size_t(std::ranges::count(before, '\n')) + 1, column = i - (before.rfind('\n') + 1) + 1;
    throw Error("the text is not accepted at byte {} (line {}, column {}): found {}, expected {}", i, line, column,
                in_quotes(text.substr(i, 20)), expected_text(at));
  }
  if (!at.may_end()) throw Error("the text is not complete: expected {} at its end", expected_text(at));
}

void check_grammar(const GrammarOptions& options, bool has_text, std::istream& in, std::ostream& out,
                   std::ostream& err) {
  const GrammarKind& kind = grammar_kind_of(options);
  const auto read = [&](const std::string& path, const char* what) {
    return path == "-" ? read_all(in, err, what) : std::string(MappedFile(path).text());
  };
  const std::string source = read(options.path, "a grammar");
  std::shared_ptr<grammar::CompiledGrammar> compiled;
  const char* name = kind.name;
  try {
    NamedGrammar found = read_grammar(kind, source, options.path);
    name = found.name;
    compiled = std::make_shared<grammar::CompiledGrammar>(std::move(found.grammar));
    const grammar::Position begin(compiled);
    if (begin.must_end() && !begin.may_end()) throw Error("no text is one of the grammar");
  } catch (const Error& e) {
    const std::string_view what = e.what();
    if (what.starts_with(options.path)) throw;
    throw Error("{}: {}", options.path, what);
  }
  if (has_text || !options.text_path.empty()) {
    check_text(compiled, has_text ? options.text : read(options.text_path, "a text"));
    out << "the text is accepted\n";
    return;
  }
  out << fmt::format("{}: {}, can be kept ({} rules, {} terminals)\n", options.path, name,
                     compiled->parts().choices.size(), compiled->grammar().terminals().size());
}

}  // namespace

void describe_grammar(CLI::App& program, std::istream& in, std::ostream& out, std::ostream& err) {
  CLI::App* group = program.add_subcommand("grammar", "Look at grammars that constrain what a model generates");
  group->require_subcommand(1);
  const auto options = std::make_shared<GrammarOptions>();
  CLI::App* command = group->add_subcommand(
      "check", "Say whether a schema or a grammar can be kept, or why not; and whether it accepts a text");
  command->add_option("FILE", options->path, "The grammar; - reads standard input")->required()->type_name("");
  std::vector<CLI::Option*> kinds;
  for (const GrammarKind& kind : grammar_kinds) {
    CLI::Option* option = command->add_flag(std::string("--") + kind.option, options->kinds[kind.option], kind.help);
    for (CLI::Option* other : kinds) option->excludes(other);
    kinds.push_back(option);
  }
  CLI::Option* text = command->add_option("--text", options->text, "Also say whether this text is accepted");
  text->type_name("TEXT");
  command->add_option("--text-file", options->text_path, "The same for a file, byte for byte; - reads standard input")
      ->type_name("FILE")
      ->excludes(text);
  command->callback([options, text, &in, &out, &err] { check_grammar(*options, text->count() > 0, in, out, err); });
}

}  // namespace heddle
