#include "text/json/tokenizer_json_config.h"

#include <algorithm>

#include "base/error.h"
#include "text/json/tokenizer_json_fields.h"

namespace heddle::text {
namespace {

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
  Fields fields(json, where);  // most of the others are about training, so unknown fields are no error here
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
    if (found == pipeline.ids.end()) throw Error("{}: {}: \"{}\" is no token", where, name, *token);
    return found->second;
  };
  pipeline.bos = find(config.bos, "bos_token");
  pipeline.eos = find(config.eos, "eos_token");
  if (!decides_about_bos(config)) return;
  const bool add_bos = config.add_bos.value_or(true), add_eos = config.add_eos.value_or(false);
  if (add_bos && !pipeline.bos) throw Error("{}: add_bos_token, but there is no bos_token", where);
  if (add_eos && !pipeline.eos) throw Error("{}: add_eos_token, but there is no eos_token", where);
  pipeline.prefix.clear(), pipeline.suffix.clear();
  if (add_bos) pipeline.prefix = {*pipeline.bos};
  if (add_eos) pipeline.suffix = {*pipeline.eos};
}

}  // namespace heddle::text
