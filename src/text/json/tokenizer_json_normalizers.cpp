// "normalizer" of tokenizer.json.
#include "base/error.h"
#include "text/json/tokenizer_json_parts.h"
#include "text/normalize/normalizers.h"

namespace heddle::text {
namespace {

std::string from_base64(std::string_view text, const std::string& place) {
  std::string out;
  uint32_t bits = 0;
  int count = 0;  // of bits waiting
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  for (const char c : text) {
    uint32_t digit = 0;
    if (c >= 'A' && c <= 'Z')
      digit = static_cast<uint32_t>(c - 'A');
    else if (c >= 'a' && c <= 'z')
      digit = static_cast<uint32_t>(c - 'a' + 26);
    else if (c >= '0' && c <= '9')
      digit = static_cast<uint32_t>(c - '0' + 52);
    else if (c == '+' || c == '/')
      digit = c == '+' ? 62 : 63;
    else
      throw Error("{}: '{}' is no base64", place, c);
    bits = bits << 6 | digit;
    count += 6;
    if (count >= 8) out.push_back(static_cast<char>(bits >> (count -= 8)));
  }
  return out;
}

Normalizer read_replace(Fields& fields) {
  JsonPattern pattern = json_pattern(fields, "pattern");
  std::string content = fields.text("content");
  if (pattern.is_regex) return replace_normalizer(Regex(pattern.text), std::move(content));
  if (pattern.text.empty()) throw Error("{}: an empty pattern", fields.where());
  return replace_normalizer(std::move(pattern.text), std::move(content));
}

Normalizer read_bert(Fields& fields) {
  BertOptions options;
  options.clean_text = fields.flag("clean_text");
  options.handle_chinese_chars = fields.flag("handle_chinese_chars");
  options.lower_case = fields.flag("lowercase");
  options.strip_accents = fields.flag_or("strip_accents", options.lower_case);
  return bert_normalizer(options);
}

Normalizer read_normalizer(const JsonStep& step) {
  Fields fields(*step.json, step.where);
  fields.ignore("type");
  Normalizer result;
  if (step.type == "NFC") {
    result = normal_form_normalizer(Form::nfc);
  } else if (step.type == "NFD") {
    result = normal_form_normalizer(Form::nfd);
  } else if (step.type == "NFKC") {
    result = normal_form_normalizer(Form::nfkc);
  } else if (step.type == "NFKD") {
    result = normal_form_normalizer(Form::nfkd);
  } else if (step.type == "Lowercase") {
    result = lower_case_normalizer();
  } else if (step.type == "Strip") {
    const bool left = fields.flag("strip_left");
    result = strip_normalizer(left, fields.flag("strip_right"));
  } else if (step.type == "StripAccents") {
    result = strip_accents_normalizer();
  } else if (step.type == "Prepend") {
    result = prepend_normalizer(fields.text("prepend"));
  } else if (step.type == "Replace") {
    result = read_replace(fields);
  } else if (step.type == "Nmt") {
    result = nmt_normalizer();
  } else if (step.type == "ByteLevel") {
    result = byte_level_normalizer();
  } else if (step.type == "BertNormalizer") {
    result = read_bert(fields);
  } else if (step.type == "Precompiled") {
    fields.ignore("precompiled_charsmap");
    result = charsmap_normalizer(std::make_shared<const Charsmap>(charsmap_bytes(step), step.where));
  } else {
    throw_unknown(step, "normalizer",
                  "BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, Replace, "
                  "Sequence, Strip, StripAccents");
  }
  fields.finish();
  return result;
}

}  // namespace

std::string charsmap_bytes(const JsonStep& precompiled) {
  Fields fields(*precompiled.json, precompiled.where);
  return from_base64(fields.text("precompiled_charsmap"), fields.place("precompiled_charsmap"));
}

std::vector<Normalizer> read_normalizers(const Json* json, const std::string& where) {
  std::vector<Normalizer> result;
  for (const JsonStep& step : json_steps(json, "normalizers", where)) result.push_back(read_normalizer(step));
  return result;
}

}  // namespace heddle::text
