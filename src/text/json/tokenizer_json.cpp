// tokenizer.json and tokenizer_config.json -> a Pipeline, as Hugging Face's tokenizers 0.23 reads them. Anything that
// heddle does not know is an Error. "truncation" and "padding" are ignored: they are settings of a training run that
// were saved along, and a prompt is never truncated silently.
#include "text/json/tokenizer_json.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/split/splitters.h"
#include "text/tokenizer.h"
#include "text/vocabulary_pipeline.h"

namespace heddle::text {

Fields::Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object.is_object()) throw Error("{}: expected an object, found {}", where_, shortened(object));
}

const Json* Fields::find(std::string_view name) {
  known_.emplace_back(name);
  const auto found = object_.find(known_.back());
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const Json& Fields::at(std::string_view name) {
  if (const Json* value = find(name)) return *value;
  throw Error("{}: \"{}\" is missing", where_, name);
}

const Json& Fields::list(std::string_view name) {
  const Json& value = at(name);
  if (!value.is_array()) throw Error("{}: expected a list, found {}", place(name), shortened(value));
  return value;
}

std::string Fields::text(std::string_view name) { return json_text(at(name), place(name)); }

std::string Fields::character(std::string_view name) {
  std::string found = text(name);
  if (found.empty() || code_point_at(found, 0).bytes != found.size())
    throw Error("{}: expected one character, found \"{}\"", place(name), found);
  return found;
}

std::string Fields::text_or(std::string_view name, std::string otherwise) {
  const Json* value = find(name);
  return value ? json_text(*value, place(name)) : otherwise;
}

bool Fields::flag(std::string_view name) { return json_flag(at(name), place(name)); }

bool Fields::flag_or(std::string_view name, bool otherwise) {
  const Json* value = find(name);
  return value ? json_flag(*value, place(name)) : otherwise;
}

uint32_t Fields::number(std::string_view name) { return json_number(at(name), place(name)); }

void Fields::finish() const {
  for (const auto& [name, value] : object_.items())
    if (std::find(known_.begin(), known_.end(), name) == known_.end())
      throw Error("{}: unknown field \"{}\": {}", where_, name, shortened(value));
}

std::string json_text(const Json& value, const std::string& place) {
  if (!value.is_string()) throw Error("{}: expected a string, found {}", place, shortened(value));
  return value.get<std::string>();
}

bool json_flag(const Json& value, const std::string& place) {
  if (!value.is_boolean()) throw Error("{}: expected true or false, found {}", place, shortened(value));
  return value.get<bool>();
}

uint32_t json_number(const Json& value, const std::string& place) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > UINT32_MAX)
    throw Error("{}: expected a whole number from 0 to {}, found {}", place, UINT32_MAX, shortened(value));
  return value.get<uint32_t>();
}

std::vector<JsonStep> json_steps(const Json* json, std::string_view list, const std::string& where) {
  if (!json) return {};
  Fields fields(*json, where);
  const std::string type = fields.text("type");
  if (type != "Sequence") return {{json, type, where}};
  std::vector<JsonStep> steps;
  const Json& inner = fields.list(list);
  for (size_t i = 0; i < inner.size(); ++i)
    for (JsonStep& step : json_steps(&inner[i], list, fmt::format("{}[{}]", fields.place(list), i)))
      steps.push_back(std::move(step));
  fields.finish();
  return steps;
}

void throw_unknown(const JsonStep& step, std::string_view what, std::string_view known) {
  throw Error("{}: unknown {} \"{}\"; known are {}", step.where, what, step.type, known);
}

JsonPattern json_pattern(Fields& fields, std::string_view name) {
  Fields pattern(fields.at(name), fields.place(name));
  JsonPattern result;
  if (const Json* regex = pattern.find("Regex"))
    result = {true, json_text(*regex, pattern.place("Regex"))};
  else
    result = {false, pattern.text("String")};
  pattern.finish();
  return result;
}

namespace {

std::string normalized(std::string text, const std::vector<Normalizer>& normalizers) {
  Segment segment{std::move(text), true};
  for (const Normalizer& normalize : normalizers) normalize(segment);
  return std::move(segment.text);
}

// Tokens of the model keep their id; the others follow in their order.
TokenId id_of_added(const std::string& text, const Json& json_id, const std::string& place,
                    const JsonVocabulary& vocabulary, const Pipeline& pipeline, TokenId& next) {
  const TokenId given = json_number(json_id, place + ".id");
  const auto known = pipeline.ids.find(text);
  const TokenId id = known != pipeline.ids.end() ? known->second : next++;
  if (given != id)
    throw Error("{}: \"{}\" has id {}, but a vocabulary of {} gives it {}", place, text, given, vocabulary.count, id);
  return id;
}

void read_added_tokens(const Json* json, const std::string& where, const JsonVocabulary& vocabulary,
                       Pipeline& pipeline) {
  if (!json) return;
  if (!json->is_array()) throw Error("{}: expected a list, found {}", where, shortened(*json));
  TokenId next = static_cast<TokenId>(vocabulary.count);
  for (size_t i = 0; i < json->size(); ++i) {
    Fields fields((*json)[i], fmt::format("{}[{}]", where, i));
    AddedToken token;
    token.text = fields.text("content");
    const Json& id = fields.at("id");
    token.special = fields.flag("special");
    token.normalized = fields.flag("normalized");
    token.lstrip = fields.flag("lstrip");
    token.rstrip = fields.flag("rstrip");
    token.single_word = fields.flag("single_word");
    fields.finish();
    if (token.text.empty()) continue;  // tokenizers skips it, too
    token.id = id_of_added(token.text, id, fields.where(), vocabulary, pipeline, next);
    if (token.id >= pipeline.tokens.size()) pipeline.tokens.resize(token.id + 1);
    TokenInfo& info = pipeline.tokens[token.id];
    info.text = token.text;
    info.type = token.special ? TokenType::control : TokenType::user_defined;
    pipeline.ids.insert_or_assign(token.text, token.id);
    pipeline.added.push_back(std::move(token));
  }
}

// The input of the decoder for each token: its text, normalized where the token is looked for after normalization.
std::vector<std::string> spellings(const Pipeline& pipeline) {
  std::vector<std::string> result;
  for (const TokenInfo& token : pipeline.tokens) result.push_back(token.text);
  for (const AddedToken& token : pipeline.added)
    if (token.normalized) result[token.id] = normalized(token.text, pipeline.normalizers);
  return result;
}

void set_types(const JsonModel& model, Pipeline& pipeline) {
  for (size_t id = 0; id < pipeline.tokens.size(); ++id)
    if (pipeline.tokens[id].text.empty()) pipeline.tokens[id].type = TokenType::unused;
  if (model.byte_fallback)
    for (const TokenId id : byte_tokens(model.vocabulary.ids))
      if (id != no_token) pipeline.tokens[id].type = TokenType::byte;
  if (const auto unknown = model.vocabulary.find(model.unknown); unknown && model.has_unknown)
    if (pipeline.tokens[*unknown].type == TokenType::control) pipeline.tokens[*unknown].type = TokenType::unknown;
}

// A string, or an object with the text as "content".
std::optional<std::string> read_token(Fields& fields, std::string_view name) {
  const Json* token = fields.find(name);
  if (!token) return std::nullopt;
  if (token->is_object()) return Fields(*token, fields.place(name)).text("content");
  return json_text(*token, fields.place(name));
}

std::optional<bool> read_flag(Fields& fields, std::string_view name) {
  const Json* flag = fields.find(name);
  return flag ? std::optional<bool>(json_flag(*flag, fields.place(name))) : std::nullopt;
}

}  // namespace

TokenizerConfig read_tokenizer_config(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where);
  Fields fields(json, where);  // unknown fields are allowed: most are about training
  TokenizerConfig config;
  config.tokenizer_class = fields.text_or("tokenizer_class", "");
  config.bos = read_token(fields, "bos_token");
  config.eos = read_token(fields, "eos_token");
  config.unknown = read_token(fields, "unk_token");
  config.separator = read_token(fields, "sep_token");
  config.padding = read_token(fields, "pad_token");
  config.mask = read_token(fields, "mask_token");
  config.cls = read_token(fields, "cls_token");
  config.add_bos = read_flag(fields, "add_bos_token");
  config.add_eos = read_flag(fields, "add_eos_token");
  return config;
}

bool decides_about_bos(const TokenizerConfig& config) {
  std::string name = config.tokenizer_class;
  if (name.size() > 4 && name.substr(name.size() - 4) == "Fast") name.resize(name.size() - 4);
  constexpr std::string_view classes[] = {"LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer", "CohereTokenizer"};
  return std::find(std::begin(classes), std::end(classes), name) != std::end(classes) &&
         (config.add_bos || config.add_eos);
}

void read_config(std::string_view text, const std::string& where, Pipeline& pipeline) {
  const TokenizerConfig config = read_tokenizer_config(text, where);
  const auto find = [&](const std::optional<std::string>& token, std::string_view name) -> std::optional<TokenId> {
    if (!token) return std::nullopt;
    const auto found = pipeline.ids.find(*token);
    if (found == pipeline.ids.end()) throw Error("{}: {}: \"{}\" is not a token", where, name, *token);
    return found->second;
  };
  pipeline.bos = find(config.bos, "bos_token");
  pipeline.eos = find(config.eos, "eos_token");
  if (!decides_about_bos(config)) return;
  const bool add_bos = config.add_bos.value_or(true), add_eos = config.add_eos.value_or(false);
  if (add_bos && !pipeline.bos) throw Error("{}: add_bos_token, but there is no bos_token", where);
  if (add_eos && !pipeline.eos) throw Error("{}: add_eos_token, but there is no eos_token", where);
  pipeline.prefix.clear();
  pipeline.suffix.clear();
  if (add_bos) pipeline.prefix = {*pipeline.bos};
  if (add_eos) pipeline.suffix = {*pipeline.eos};
  pipeline.pair.clear();
  for (const uint32_t type : {0u, 1u}) {
    if (add_bos) pipeline.pair.push_back({.token = *pipeline.bos, .type = type});
    pipeline.pair.push_back({.kind = type == 0 ? PairPart::Kind::first : PairPart::Kind::second, .type = type});
    if (add_eos) pipeline.pair.push_back({.token = *pipeline.eos, .type = type});
  }
}

// eos_token_id: a token or a list of tokens; those beyond the tokenizer's are rows of the embedding without a text.
void add_generation_ends(std::string_view text, const std::string& where, Pipeline& pipeline) {
  const Json json = parse_json(text, where);
  Fields fields(json, where);  // the rest is about sampling
  const Json* ends = fields.find("eos_token_id");
  if (!ends) return;
  for (const Json& end : ends->is_array() ? *ends : Json::array({*ends})) {
    const TokenId id = json_number(end, fields.place("eos_token_id"));
    if (id < pipeline.tokens.size()) add_end_token(pipeline, id);
  }
}

Tokenizer Tokenizer::from_json(std::string_view tokenizer, std::string_view config, const std::string& source,
                               std::string_view generation) {
  const std::string file = source + "/tokenizer.json";
  const Json json = parse_json(tokenizer, file);
  Fields fields(json, file);
  const auto where = [&](std::string_view name) { return fmt::format("{}: {}", file, name); };
  if (const std::string version = fields.text_or("version", "1.0"); version != "1.0")
    throw Error("{}: expected \"1.0\", found \"{}\"", where("version"), version);
  fields.ignore({"truncation", "padding"});

  Pipeline pipeline;
  const JsonModel model = read_model(fields.at("model"), where("model"));
  for (const std::string& text : model.vocabulary.texts) pipeline.tokens.push_back({text, "", TokenType::normal});
  pipeline.ids = model.vocabulary.ids;
  pipeline.normalizers = read_normalizers(fields.find("normalizer"), where("normalizer"));

  JsonSplitters splitters = read_splitters(fields.find("pre_tokenizer"), where("pre_tokenizer"));
  const bool marks_words = !model.continuing_prefix.empty() || !model.word_suffix.empty();
  const bool bytes = splitters.spells_bytes && model.type == "BPE" && !marks_words && has_all_bytes(model);
  if (splitters.spells_bytes && !bytes) splitters.splitters.push_back(byte_level_splitter());
  pipeline.splitters = std::move(splitters.splitters);
  pipeline.model = make_model(model, bytes, where("model"));

  read_added_tokens(fields.find("added_tokens"), where("added_tokens"), model.vocabulary, pipeline);
  set_types(model, pipeline);
  read_decoder(fields.find("decoder"), where("decoder"), spellings(pipeline), pipeline);
  read_post_processor(fields.find("post_processor"), where("post_processor"), pipeline);
  fields.finish();
  if (!config.empty()) read_config(config, source + "/tokenizer_config.json", pipeline);
  add_end_tokens(pipeline, false, {pipeline.eos});
  if (!generation.empty()) add_generation_ends(generation, source + "/generation_config.json", pipeline);
  return Tokenizer(std::move(pipeline));
}

}  // namespace heddle::text
