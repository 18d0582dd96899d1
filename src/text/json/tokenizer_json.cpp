// tokenizer.json (and tokenizer_config.json) -> a Pipeline, as Hugging Face's tokenizers 0.23 reads it. What it would
// read and heddle does not know is an Error. "truncation" and "padding" are left aside: they are about batches of a
// training run that happened to be saved along, and a prompt is never cut quietly.
#include "base/error.h"
#include "text/end_tokens.h"
#include "text/json/tokenizer_json_config.h"
#include "text/json/tokenizer_json_parts.h"
#include "text/split/splitters.h"
#include "text/tokenizer.h"

namespace heddle::text {
namespace {

std::string normalized(std::string text, const std::vector<Normalizer>& normalizers) {
  Part part{std::move(text), true};
  for (const Normalizer& normalize : normalizers) normalize(part);
  return std::move(part.text);
}

// Tokens of the model keep their id; the others follow the model's, in their order.
TokenId id_of_added(const std::string& text, const Json& json_id, const std::string& place,
                    const JsonVocabulary& vocabulary, const Pipeline& pipeline, TokenId& next) {
  const TokenId said = json_number(json_id, place + ".id");
  const auto known = pipeline.ids.find(text);
  const TokenId id = known != pipeline.ids.end() ? known->second : next++;
  if (said != id)
    throw Error("{}: \"{}\" has id {}, but a vocabulary of {} gives it {}", place, text, said, vocabulary.count, id);
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
    if (token.text.empty()) continue;  // tokenizers has no use for it either
    token.id = id_of_added(token.text, id, fields.where(), vocabulary, pipeline, next);
    if (token.id >= pipeline.tokens.size()) pipeline.tokens.resize(token.id + 1);
    TokenInfo& info = pipeline.tokens[token.id];
    info.text = token.text;
    info.type = token.special ? TokenType::control : TokenType::user_defined;
    pipeline.ids.insert_or_assign(token.text, token.id);
    pipeline.added.push_back(std::move(token));
  }
}

// What the decoder is given for each token: its text, or what becomes of it where it is looked for after normalization.
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
    for (const TokenId id : byte_tokens(model.vocabulary, "")) pipeline.tokens[id].type = TokenType::byte;
  if (const auto unknown = model.vocabulary.find(model.unknown); unknown && model.has_unknown)
    if (pipeline.tokens[*unknown].type == TokenType::control) pipeline.tokens[*unknown].type = TokenType::unknown;
}

}  // namespace

Tokenizer Tokenizer::from_json(std::string_view tokenizer, std::string_view config, const std::string& source) {
  const std::string file = source + "/tokenizer.json";
  const Json json = parse_json(tokenizer, file);
  Fields fields(json, file);
  const auto where = [&](std::string_view name) { return fmt::format("{}: {}", file, name); };
  if (const std::string version = fields.text_or("version", "1.0"); version != "1.0")
    throw Error("{}: expected \"1.0\", found \"{}\"", where("version"), version);
  fields.ignore("truncation"), fields.ignore("padding");

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
  return Tokenizer(std::move(pipeline));
}

}  // namespace heddle::text
