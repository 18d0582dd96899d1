// heddle tokenize, detokenize and template: texts as a model sees them.
#include <CLI/CLI.hpp>
#include <charconv>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/utf8.h"
#include "main/commands/commands.h"
#include "main/device/device_options.h"
#include "main/device/open_model.h"
#include "main/process.h"
#include "text/template.h"

namespace heddle {
namespace {

using text::TokenId;

// A file, or standard input for "-".
std::string read_text(const std::string& path, std::istream& in, std::ostream& err, const char* what) {
  return path == "-" ? read_all(in, err, what) : std::string(MappedFile(path).text());
}

// A token's bytes as JSON: a string, or a list of numbers if they are not valid UTF-8.
Json piece_json(std::string_view bytes) {
  if (is_utf8(bytes)) return std::string(bytes);
  Json numbers = Json::array();
  for (char byte : bytes) numbers.push_back(static_cast<uint8_t>(byte));
  return numbers;
}

struct TokenizeOptions {
  std::string model, text;
  bool no_special = false, plain = false, pieces = false, json = false;
};

void tokenize(const TokenizeOptions& options, const std::string& input, std::ostream& out) {
  const text::Tokenizer tokenizer = open_tokenizer(open_texts(options.model));
  const std::vector<TokenId> ids =
      tokenizer.encode(input, {.add_special = !options.no_special, .parse_special = !options.plain});
  if (options.json) {
    Json result{{"ids", ids}};
    if (options.pieces) {
      Json pieces = Json::array();
      for (TokenId id : ids) pieces.push_back(piece_json(tokenizer.bytes(id)));
      result["pieces"] = pieces;
    }
    out << result << '\n';
  } else if (options.pieces) {
    for (TokenId id : ids) out << fmt::format("{:>8}  {}\n", id, piece_json(tokenizer.bytes(id)).dump());
  } else {
    out << fmt::format("{}\n", fmt::join(ids, " "));
  }
}

struct DetokenizeOptions {
  std::string model;
  std::vector<std::string> ids;
  bool special = false, no_special = false;
};

// The inverse of tokenize: without the BOS and EOS that it adds.
std::span<const TokenId> without_added(const text::Tokenizer& tokenizer, std::span<const TokenId> ids) {
  const std::vector<TokenId> added = tokenizer.encode("", {});  // BOS and EOS alone
  size_t before = 0;
  while (before < std::min(added.size(), ids.size()) && ids[before] == added[before]) ++before;
  ids = ids.subspan(before);
  size_t after = 0;
  while (before + after < added.size() && after < ids.size() &&
         ids[ids.size() - 1 - after] == added[added.size() - 1 - after])
    ++after;
  return ids.first(ids.size() - after);
}

void detokenize(const DetokenizeOptions& options, std::istream& in, std::ostream& out, std::ostream& err) {
  std::vector<TokenId> ids;
  if (options.ids.empty()) read_ids(read_all(in, err, "token ids"), ids);
  for (const std::string& word : options.ids) read_ids(word, ids);
  const text::Tokenizer tokenizer = open_tokenizer(open_texts(options.model));
  out << (options.special      ? tokenizer.decode(ids, true)
          : options.no_special ? tokenizer.decode(ids, false)
                               : tokenizer.decode(without_added(tokenizer, ids), true));
}

struct TemplateOptions {
  std::string source, name, messages, tools, bos, eos, date;
  std::vector<std::string> settings;
  bool no_generation_prompt = false;
};

int64_t seconds_of(const std::string& date) {
  int year = 0, month = 0, day = 0, read = 0;
  const std::chrono::year_month_day given{std::sscanf(date.c_str(), "%4d-%2d-%2d%n", &year, &month, &day, &read) == 3 &&
                                                  size_t(read) == date.size()
                                              ? std::chrono::year(year) / month / day
                                              : std::chrono::year_month_day{}};
  if (!given.ok()) throw Error("--date: expected a day such as 2026-01-31, found \"{}\"", date);
  return std::chrono::sys_seconds(std::chrono::sys_days(given)).time_since_epoch().count();
}

// NAME=VALUE pairs as one JSON object. A value that is not JSON is a string.
std::string extra_variables(const std::vector<std::string>& settings) {
  Json extra = Json::object();
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) throw Error("--set: expected NAME=VALUE, found \"{}\"", setting);
    const std::string value = setting.substr(equals + 1);
    const bool is_json = Json::accept(value);
    extra[setting.substr(0, equals)] = is_json ? parse_json(value, "--set " + setting) : Json(value);
  }
  return extra.dump();
}

void render(const TemplateOptions& options, std::istream& in, std::ostream& out, std::ostream& err) {
  text::TemplateInput input;
  std::string source;
  if (options.source.ends_with(".jinja")) {
    source = MappedFile(options.source).text();
  } else {
    const formats::Checkpoint checkpoint = open_texts(options.source);
    source = checkpoint.chat_template(options.name);
    if (source.empty()) {
      const std::string which =
          options.name.empty() ? "chat template" : fmt::format("chat template \"{}\"", options.name);
      throw Error("{}: the model has no {}", options.source, which);
    }
    const text::Tokenizer tokenizer = open_tokenizer(checkpoint);
    if (tokenizer.bos()) input.bos = tokenizer.text(*tokenizer.bos());
    if (tokenizer.eos()) input.eos = tokenizer.text(*tokenizer.eos());
  }
  if (!options.bos.empty()) input.bos = options.bos;
  if (!options.eos.empty()) input.eos = options.eos;
  input.messages = read_text(options.messages, in, err, "a JSON list of messages");
  if (!options.tools.empty()) input.tools = read_text(options.tools, in, err, "a JSON list of tools");
  input.extra = extra_variables(options.settings);
  input.add_generation_prompt = !options.no_generation_prompt;
  input.now = options.date.empty() ? std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())
                                   : seconds_of(options.date);
  out << text::ChatTemplate(source).render(input);
}

}  // namespace

void read_ids(std::string_view list, std::vector<TokenId>& ids) {
  constexpr std::string_view between = " \t\r\n,[]";
  for (size_t at = list.find_first_not_of(between); at != list.npos; at = list.find_first_not_of(between, at)) {
    const std::string_view word = list.substr(at, list.find_first_of(between, at) - at);
    TokenId id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size())
      throw Error("expected the number of a token, found \"{}\"", word.substr(0, 40));
    ids.push_back(id);
    at += word.size();
  }
}

void describe_text(CLI::App& program, std::istream& in, std::ostream& out, std::ostream& err) {
  const auto tokenize_options = std::make_shared<TokenizeOptions>();
  CLI::App* command = program.add_subcommand("tokenize", "Print the token ids of a text");
  describe_required_model(*command, tokenize_options->model);
  CLI::Option* given =
      command->add_option("TEXT", tokenize_options->text, "Text; default: standard input, byte for byte");
  given->type_name("");
  command->add_flag("--no-special", tokenize_options->no_special, "Do not add BOS and EOS");
  command->add_flag("--plain", tokenize_options->plain,
                    "Take \"<|eot_id|>\" in the text as text, not as a special token");
  command->add_flag("--pieces", tokenize_options->pieces, "Print each id with the text it stands for");
  describe_json(*command, tokenize_options->json);
  command->callback([tokenize_options, given, &in, &out, &err] {
    tokenize(*tokenize_options, given->count() ? tokenize_options->text : read_all(in, err, "a text"), out);
  });

  const auto detokenize_options = std::make_shared<DetokenizeOptions>();
  command = program.add_subcommand("detokenize", "Print the text of token ids; the inverse of tokenize");
  describe_required_model(*command, detokenize_options->model);
  command->add_option("ID", detokenize_options->ids, "Token ids; default: standard input")->type_name("");
  CLI::Option* special = command->add_flag("--special", detokenize_options->special, "Also print BOS and EOS");
  command->add_flag("--no-special", detokenize_options->no_special, "Omit every special token")->excludes(special);
  command->callback([detokenize_options, &in, &out, &err] { detokenize(*detokenize_options, in, out, err); });

  const auto template_options = std::make_shared<TemplateOptions>();
  command = program.add_subcommand("template", "Render a conversation with a model's chat template");
  command->add_option("MODEL", template_options->source, "A model, or a template in a file that ends with .jinja")
      ->required()
      ->type_name("");
  command->add_option("--messages", template_options->messages, "JSON list of messages; - reads standard input")
      ->required()
      ->type_name("FILE");
  command->add_option("--tools", template_options->tools, "JSON list of tools")->type_name("FILE");
  command->add_flag("--no-generation-prompt", template_options->no_generation_prompt, "Do not begin an answer");
  command->add_option("--name", template_options->name, "Name of the template, if the model has several")
      ->type_name("NAME");
  command->add_option("--set", template_options->settings, "Set a variable; VALUE is JSON or a text; repeatable")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  command->add_option("--bos", template_options->bos, "Text of BOS; default: the model's")->type_name("TEXT");
  command->add_option("--eos", template_options->eos, "Text of EOS; default: the model's")->type_name("TEXT");
  command->add_option("--date", template_options->date, "Date given to the template; default: today")
      ->type_name("YYYY-MM-DD");
  command->callback([template_options, &in, &out, &err] { render(*template_options, in, out, err); });
}

}  // namespace heddle
