// "decoder" of tokenizer.json: a chain of functions over the list of tokens. Nearly all of them treat every token by
// itself, or the first one differently, so the chain is applied once to each token, which gives its bytes.
#include <functional>

#include "base/error.h"
#include "base/utf8.h"
#include "text/bpe/bpe.h"
#include "text/json/tokenizer_json.h"
#include "text/vocabulary_pipeline.h"

namespace heddle::text {
namespace {

using Decoder = std::function<std::string(std::string token, bool first)>;

std::string replace_all(std::string text, std::string_view pattern, std::string_view content) {
  std::string out;
  size_t at = 0;
  for (size_t found; (found = text.find(pattern, at)) != std::string::npos; at = found + pattern.size())
    out.append(text, at, found - at).append(content);
  return at == 0 ? std::move(text) : std::move(out.append(text, at));
}

std::string clean_up(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> rules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [pattern, content] : rules) text = replace_all(std::move(text), pattern, content);
  return text;
}

std::string strip(std::string token, std::string_view content, size_t start, size_t stop) {
  size_t begin = 0, end = token.size();
  const auto is_content = [&](size_t at) { return token.compare(at, content.size(), content) == 0; };
  for (size_t i = 0; i < start && begin < end && is_content(begin); ++i) begin += content.size();
  for (size_t i = 0; i < stop && end >= begin + content.size() && is_content(end - content.size()); ++i)
    end -= content.size();
  return token.substr(begin, end - begin);
}

// The chain as it is read. After the tokens are joined, few functions can still be applied token by token.
struct Chain {
  std::vector<Decoder> decoders;
  bool joined = false;
  bool strip_first_space = false;

  void add(Decoder decoder, const JsonStep& step) {
    if (joined)
      throw Error("{}: a decoder \"{}\" after the tokens were joined is not supported", step.where, step.type);
    decoders.push_back(std::move(decoder));
  }
};

void add_replace(Fields& fields, const JsonStep& step, Chain& chain) {
  const JsonPattern pattern = json_pattern(fields, "pattern");
  const std::string content = fields.text("content");
  if (pattern.is_regex)
    throw Error("{}: a decoder \"Replace\" with a regular expression (\"{}\") is not supported", step.where,
                pattern.text);
  // one character lies in one token, so that joining the tokens first makes no difference
  const bool one = !pattern.text.empty() && code_point_at(pattern.text, 0).bytes == pattern.text.size();
  if (pattern.text.empty() || (chain.joined && !one))
    throw Error("{}: a decoder \"Replace\" of \"{}\" here is not supported", step.where, pattern.text);
  chain.decoders.push_back(
      [=](std::string token, bool) { return replace_all(std::move(token), pattern.text, content); });
}

void add_strip(Fields& fields, const JsonStep& step, Chain& chain) {
  const std::string content = fields.character("content");
  const uint32_t start = fields.number("start"), stop = fields.number("stop");
  if (!chain.joined)
    return chain.add([=](std::string token, bool) { return strip(std::move(token), content, start, stop); }, step);
  if (start == 0 && stop == 0) return;
  if (content != " " || start != 1 || stop != 0 || chain.strip_first_space)
    throw Error(
        "{}: a decoder \"Strip\" of a whole text is supported for one space at the beginning, not for "
        "\"{}\", start {}, stop {}",
        step.where, content, start, stop);
  chain.strip_first_space = true;
}

void add_metaspace(Fields& fields, const JsonStep& step, Chain& chain) {
  const std::string replacement = fields.character("replacement");
  const std::string scheme = fields.text_or("prepend_scheme", "always");
  if (scheme != "always" && scheme != "never" && scheme != "first")
    throw Error("{}: expected always, never or first, found \"{}\"", fields.place("prepend_scheme"), scheme);
  bool never = scheme == "never";
  if (!fields.flag_or("add_prefix_space", true) && !never)
    throw Error("{}: add_prefix_space is false, but prepend_scheme \"{}\"", step.where, scheme);
  fields.ignore({"split", "str_rep"});
  chain.add([=](std::string token,
                bool first) { return replace_all(std::move(token), replacement, first && !never ? "" : " "); },
            step);
}

void add_word_piece(Fields& fields, const JsonStep& step, Chain& chain) {
  const std::string prefix = fields.text("prefix");
  const bool cleanup = fields.flag("cleanup");
  chain.add(
      [=](std::string token, bool first) {
        if (!first) token = token.compare(0, prefix.size(), prefix) == 0 ? token.substr(prefix.size()) : " " + token;
        return cleanup ? clean_up(std::move(token)) : token;
      },
      step);
}

void add_step(const JsonStep& step, Chain& chain) {
  Fields fields(*step.json, step.where);
  fields.ignore("type");
  if (step.type == "ByteLevel") {
    chain.add([](std::string token, bool) { return byte_level_bytes(token).value_or(token); }, step);
    chain.joined = true;
    fields.ignore({"add_prefix_space", "trim_offsets", "use_regex"});
  } else if (step.type == "ByteFallback") {
    chain.add(
        [](std::string token, bool) {
          const auto byte = named_byte(token);
          return byte ? std::string(1, static_cast<char>(*byte)) : token;
        },
        step);
  } else if (step.type == "Fuse") {
    chain.joined = true;
  } else if (step.type == "Replace") {
    add_replace(fields, step, chain);
  } else if (step.type == "Strip") {
    add_strip(fields, step, chain);
  } else if (step.type == "Metaspace") {
    add_metaspace(fields, step, chain);
  } else if (step.type == "WordPiece") {
    add_word_piece(fields, step, chain);
  } else {
    throw_unknown(step, "decoder", "ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Sequence, Strip, WordPiece");
  }
  fields.finish();
}

}  // namespace

void read_decoder(const Json* json, const std::string& where, const std::vector<std::string>& spellings,
                  Pipeline& pipeline) {
  Chain chain;
  for (const JsonStep& step : json_steps(json, "decoders", where)) add_step(step, chain);
  if (!json) chain.decoders.push_back([](std::string token, bool first) { return first ? token : " " + token; });

  const auto without_space = [](const std::string& text) { return text[0] == ' ' ? text.substr(1) : text; };
  std::vector<std::string> first_bytes;
  for (TokenId id = 0; id < spellings.size(); ++id) {
    std::string bytes = spellings[id], first = spellings[id];
    for (const Decoder& decode : chain.decoders) {
      bytes = decode(std::move(bytes), false);
      first = decode(std::move(first), true);
    }
    if (chain.strip_first_space) first = without_space(first);
    if (first != bytes) pipeline.strip_first_space = true;
    first_bytes.push_back(std::move(first));
    pipeline.tokens[id].bytes = std::move(bytes);
  }
  // The usual case needs no list: the first token loses the space before it.
  if (!pipeline.strip_first_space) return;
  for (TokenId id = 0; id < spellings.size(); ++id)
    if (first_bytes[id] != without_space(pipeline.tokens[id].bytes)) pipeline.first_bytes.emplace(id, first_bytes[id]);
}

}  // namespace heddle::text
