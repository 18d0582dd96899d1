// "normalizer", "pre_tokenizer" and "post_processor" of tokenizer.json.
#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/json/tokenizer_json.h"
#include "text/normalize/normalizers.h"
#include "text/split/regex.h"
#include "text/split/splitters.h"

namespace heddle::text {
namespace {

std::string from_base64(std::string_view text, const std::string& place) {
  std::string out;
  uint32_t bits = 0;
  int count = 0;  // of bits in `bits` that are not in `out`
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
      throw Error("{}: '{}' is not base64", place, c);
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

namespace {

Delimiters read_delimiters(const std::string& name, const std::string& place) {
  if (name == "Removed") return Delimiters::removed;
  if (name == "Isolated") return Delimiters::isolated;
  if (name == "MergedWithPrevious") return Delimiters::merged_with_previous;
  if (name == "MergedWithNext") return Delimiters::merged_with_next;
  if (name == "Contiguous") return Delimiters::contiguous;
  throw Error(
      "{}: unknown behavior \"{}\"; known are Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous", place,
      name);
}

Splitter read_split(Fields& fields) {
  JsonPattern pattern = json_pattern(fields, "pattern");
  const Delimiters delimiters = read_delimiters(fields.text("behavior"), fields.place("behavior"));
  const bool invert = fields.flag("invert");
  if (pattern.is_regex) return split_splitter(Regex(pattern.text), delimiters, invert);
  if (pattern.text.empty()) throw Error("{}: an empty pattern", fields.where());
  return split_splitter(std::move(pattern.text), delimiters, invert);
}

Splitter read_metaspace(Fields& fields) {
  std::string replacement = fields.character("replacement");
  const std::string scheme = fields.text_or("prepend_scheme", "always");
  PrependScheme prepend = PrependScheme::always;
  if (scheme == "never")
    prepend = PrependScheme::never;
  else if (scheme == "first")
    prepend = PrependScheme::first;
  else if (scheme != "always")
    throw Error("{}: expected always, never or first, found \"{}\"", fields.place("prepend_scheme"), scheme);
  // the older form of prepend_scheme
  if (!fields.flag_or("add_prefix_space", true) && prepend != PrependScheme::never)
    throw Error("{}: add_prefix_space is false, but prepend_scheme \"{}\"", fields.where(), scheme);
  fields.ignore("str_rep");  // the replacement again, in old files
  return metaspace_splitter(std::move(replacement), prepend, fields.flag_or("split", true));
}

void add_byte_level(Fields& fields, std::vector<Splitter>& out) {
  fields.ignore("trim_offsets");
  if (fields.flag("add_prefix_space")) out.push_back(prefix_space_splitter());
  if (fields.flag_or("use_regex", true))
    out.push_back(split_splitter(Regex(patterns::gpt2), Delimiters::isolated, false));
}

// All but ByteLevel.
Splitter read_splitter(const JsonStep& step, Fields& fields) {
  if (step.type == "Split") return read_split(fields);
  if (step.type == "Metaspace") return read_metaspace(fields);
  if (step.type == "Whitespace") return white_space_splitter();
  if (step.type == "WhitespaceSplit") return white_space_split_splitter();
  if (step.type == "Digits") return digits_splitter(fields.flag("individual_digits"));
  if (step.type == "BertPreTokenizer") return bert_splitter();
  if (step.type == "CharDelimiterSplit")
    return delimiter_splitter(code_point_at(fields.character("delimiter"), 0).value);
  if (step.type == "Punctuation")
    return punctuation_splitter(read_delimiters(fields.text_or("behavior", "Isolated"), fields.place("behavior")));
  if (step.type == "FixedLength") {
    const Json* length = fields.find("length");
    const uint32_t characters = length ? json_number(*length, fields.place("length")) : 5;
    if (characters == 0) throw Error("{}: pieces of 0 characters", fields.place("length"));
    return fixed_length_splitter(characters);
  }
  throw_unknown(step, "pre-tokenizer",
                "BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, Punctuation, "
                "Sequence, Split, Whitespace, WhitespaceSplit");
}

}  // namespace

JsonSplitters read_splitters(const Json* json, const std::string& where) {
  JsonSplitters result;
  for (const JsonStep& step : json_steps(json, "pretokenizers", where)) {
    if (result.spells_bytes) result.splitters.push_back(byte_level_splitter());  // it was not the last
    Fields fields(*step.json, step.where);
    fields.ignore("type");
    result.spells_bytes = step.type == "ByteLevel";
    if (result.spells_bytes)
      add_byte_level(fields, result.splitters);
    else
      result.splitters.push_back(read_splitter(step, fields));
    fields.finish();
  }
  return result;
}

namespace {

// A template for one text or two, as its parts.
using Parts = std::vector<PairPart>;
using Kind = PairPart::Kind;

void check_id(TokenId id, const std::string& place, const Pipeline& pipeline) {
  if (id >= pipeline.tokens.size()) throw Error("{}: id {} in a vocabulary of {}", place, id, pipeline.tokens.size());
}

// ["[SEP]", 102]
TokenId read_special_token(Fields& fields, std::string_view name, const Pipeline& pipeline) {
  const Json& pair = fields.list(name);
  if (pair.size() != 2 || !pair[0].is_string())
    throw Error("{}: expected a token and its id, found {}", fields.place(name), shortened(pair));
  const TokenId id = json_number(pair[1], fields.place(name));
  check_id(id, fields.place(name), pipeline);
  return id;
}

std::vector<TokenId> read_special(const Json& tokens, const std::string& name, const std::string& place,
                                  const Pipeline& pipeline) {
  const auto found = tokens.is_object() ? tokens.find(name) : tokens.end();
  if (found == tokens.end()) throw Error("{}: \"{}\" is missing", place, name);
  Fields fields(*found, fmt::format("{}[\"{}\"]", place, name));
  fields.ignore({"id", "tokens"});
  std::vector<TokenId> ids;
  for (const Json& id : fields.list("ids")) {
    ids.push_back(json_number(id, fields.place("ids")));
    check_id(ids.back(), fields.place("ids"), pipeline);
  }
  fields.finish();
  return ids;
}

// The list `name`: "single" or "pair". Each text that it has stands there once.
Parts read_template(Fields& fields, std::string_view name, const Json* special_tokens, const Pipeline& pipeline) {
  Parts parts;
  const Json& list = fields.list(name);
  for (size_t i = 0; i < list.size(); ++i) {
    Fields piece(list[i], fmt::format("{}[{}]", fields.place(name), i));
    const Json* sequence = piece.find("Sequence");
    Fields inner(sequence ? *sequence : piece.at("SpecialToken"), piece.place(sequence ? "Sequence" : "SpecialToken"));
    const std::string id = inner.text("id");
    const uint32_t type = inner.number("type_id");
    inner.finish();
    if (sequence) {
      const Kind kind = id == "A" ? Kind::first : Kind::second;
      const bool twice =
          std::any_of(parts.begin(), parts.end(), [&](const PairPart& part) { return part.kind == kind; });
      if (twice || (id != "A" && (id != "B" || name == "single")))
        throw Error("{}: expected the text{} once, found \"{}\"", inner.where(), name == "single" ? " A" : "s A and B",
                    id);
      parts.push_back({.kind = kind, .type = type});
    } else {
      if (!special_tokens) throw Error("{}: \"special_tokens\" is missing", fields.where());
      for (const TokenId token : read_special(*special_tokens, id, fields.place("special_tokens"), pipeline))
        parts.push_back({.token = token, .type = type});
    }
    piece.finish();
  }
  return parts;
}

// What a post-processor puts around one text and around two.
struct Processor {
  Parts single, pair;
};

Processor read_processor(const JsonStep& step, const Pipeline& pipeline) {
  Fields fields(*step.json, step.where);
  // those of ByteLevel are about offsets, and stand in processors of other types as well (Command R)
  fields.ignore({"type", "trim_offsets", "add_prefix_space", "use_regex"});
  Processor processor;
  if (step.type == "TemplateProcessing") {
    const Json* special_tokens = fields.find("special_tokens");
    processor.single = read_template(fields, "single", special_tokens, pipeline);
    processor.pair = fields.find("pair") ? read_template(fields, "pair", special_tokens, pipeline) : Parts();
    if (std::none_of(processor.single.begin(), processor.single.end(),
                     [](const PairPart& part) { return part.kind == Kind::first; }))
      throw Error("{}: the text A is missing", fields.place("single"));
  } else if (step.type == "BertProcessing" || step.type == "RobertaProcessing") {
    const TokenId cls = read_special_token(fields, "cls", pipeline), sep = read_special_token(fields, "sep", pipeline);
    processor.single = {{.token = cls}, {.kind = Kind::first}, {.token = sep}};
    processor.pair = processor.single;
    if (step.type == "BertProcessing")
      processor.pair.insert(processor.pair.end(), {{.kind = Kind::second, .type = 1}, {.token = sep, .type = 1}});
    else
      processor.pair.insert(processor.pair.end(), {{.token = sep}, {.kind = Kind::second}, {.token = sep}});
  } else if (step.type != "ByteLevel") {
    throw_unknown(step, "post-processor", "BertProcessing, ByteLevel, RobertaProcessing, Sequence, TemplateProcessing");
  }
  fields.finish();
  return processor;
}

}  // namespace

void read_post_processor(const Json* json, const std::string& where, Pipeline& pipeline) {
  const Parts joined{{.kind = Kind::first}, {.kind = Kind::second, .type = 1}};
  pipeline.pair = joined;
  bool adds = false;  // there was a processor that adds tokens
  for (const JsonStep& step : json_steps(json, "processors", where)) {
    const Processor processor = read_processor(step, pipeline);
    if (processor.single.empty()) continue;
    const auto text = std::find_if(processor.single.begin(), processor.single.end(),
                                   [](const PairPart& part) { return part.kind == Kind::first; });
    std::vector<TokenId> before, after;
    for (auto part = processor.single.begin(); part != processor.single.end(); ++part)
      if (part != text) (part < text ? before : after).push_back(part->token);
    pipeline.prefix.insert(pipeline.prefix.begin(), before.begin(), before.end());
    pipeline.suffix.insert(pipeline.suffix.end(), after.begin(), after.end());
    pipeline.pair = adds ? Parts() : processor.pair;  // what two of them make of two texts is not defined
    adds = true;
  }
}

}  // namespace heddle::text
