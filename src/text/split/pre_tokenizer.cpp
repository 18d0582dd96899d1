// The patterns are those of the models' own tokenizer.json.
#include <algorithm>
#include <memory>
#include <string>

#include "base/error.h"
#include "text/split/regex.h"
#include "text/split/splitters.h"

namespace heddle::text {

namespace {

constexpr std::string_view digit = R"(\p{N})";
constexpr std::string_view three_digits = R"(\p{N}{1,3})";
constexpr std::string_view three_ascii_digits = "[0-9][0-9][0-9]";
constexpr std::string_view line_end = R"([\r\n])";
constexpr std::string_view east_asian = R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)";
constexpr std::string_view han_and_kana = R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)";
constexpr std::string_view not_stops = R"( ?[^(\s|[.,!?\x{2026}\x{3002}\x{ff0c}\x{3001}\x{964}\x{6d4}\x{60c}])]+)";

// DeepSeek LLM: letters of Latin, Greek, Cyrillic and other scripts with cases.
constexpr std::string_view cased_words =
    R"(\s?[A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}\x{295}-\x{2af})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5})"
    R"(\x{3f7}-\x{481}\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd})"
    R"(\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15})"
    R"(\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d})"
    R"(\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb})"
    R"(\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d})"
    R"(\x{2124}\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e})"
    R"(\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d})"
    R"(\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06})"
    R"(\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3}\x{104d8}-\x{104fb})"
    R"(\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df}\x{1e900}-\x{1e943}]+)";
constexpr std::string_view deepseek_signs =
    R"(\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+)";
constexpr std::string_view deepseek_v3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view bailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view seed_coder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view mini_cpm5 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view youtu_east_asian =
    R"([\x{ac00}-\x{d7a3}\x{3131}-\x{318e}]+)"
    R"(|[\x{ff01}\x{2026}\x{201c}\x{201d}\x{2018}\x{2019}\x{2014}\x{ff1a}\x{ff1b}\x{ff0c}\x{3001}-\x{303f})"
    R"(\x{fe30}-\x{fe4f}]+|[\x{3105}-\x{312f}]+|[\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)";
constexpr std::string_view youtu =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Kimi K2: ideographs apart; otherwise GPT-4o's words, and line ends alone after signs.
constexpr std::string_view kimi_k2 =
    R"([\p{Han}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// K-EXAONE: words with single spaces between them are one piece.
constexpr std::string_view exaone_moe =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)";
// Chameleon: its image tokens, and white space that its vocabulary has.
constexpr std::string_view chameleon_sentinel = "<sentinel:[0-9]+>";
constexpr std::string_view chameleon_image = "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z";
constexpr std::string_view chameleon_space = R"(([\t\n]|    |  ))";
constexpr std::string_view one_sign = R"([\p{P}!-/:-@\[-`{-~])";

}  // namespace

const std::vector<PreTokenizer>& pre_tokenizers() {
  using namespace patterns;
  static const std::vector<PreTokenizer> table{
      {{R"([\p{P}\$\+<=>\^~\|]+)", gpt2, R"(\p{N}+)", three_ascii_digits}, false, false, {"default"}},
      {{gpt2},
       false,
       false,
       {"gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum",
        "modern-bert", "jina-v1-en", "jina-v2-code", "roberta-bpe", "exaone4", "mpt", "olmo", "jais", "trillion",
        "granite-docling"}},
      {{llama3},
       true,
       true,
       {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"}},
      {{llama3}, false, false, {"dbrx", "smaug-bpe", "chatglm-bpe", "glm4"}},
      {{qwen2},
       false,
       false,
       {"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"}},
      {{qwen35}, false, false, {"qwen35"}},
      {{gpt4o}, false, false, {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}},
      {{tekken}, true, true, {"tekken"}},
      {{digit, gpt2},
       false,
       false,
       {"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"}},
      {{R"([\p{P}\$\+<=>\^~\|`]+)", gpt2, three_ascii_digits}, false, false, {"falcon"}},
      {{line_end, cased_words, deepseek_signs, R"(\s+$)", east_asian, R"(\p{N}+)"}, false, false, {"deepseek-llm"}},
      {{line_end, R"(\s?\p{L}+)", R"(\s?\p{P}+)", east_asian, digit}, false, false, {"deepseek-coder"}},
      {{three_digits, han_and_kana, deepseek_v3}, false, false, {"deepseek-v3", "hunyuan-dense", "joyai-llm"}},
      {{not_stops}, false, false, {"bloom", "poro-chat", "gpt3-finnish"}},
      {{not_stops, digit}, false, false, {"viking"}},
      {{bailing}, false, false, {"bailingmoe", "bailingmoe2", "llada-moe"}},
      {{seed_coder}, false, false, {"seed-coder"}},
      {{three_digits, mini_cpm5}, true, false, {"minicpm5"}},
      {{youtu_east_asian, youtu}, true, false, {"youtu"}},
      {{R"([^\n]+|[\n]+)", qwen2}, false, false, {"laguna"}},
      {{kimi_k2}, false, false, {"kimi-k2"}},
      {{R"(\p{N}+)", before_three_digits}, false, false, {"superbpe"}},
      {{up_to_three_digits, gpt4o}, false, false, {"tiny_aya", "cohere2moe"}},
      {{gpt4o}, true, false, {"granite-embed-multi-97m"}},
      {{exaone_moe}, false, false, {"exaone-moe"}},
      {{chameleon_sentinel, chameleon_image, chameleon_space, digit, one_sign, gpt2}, false, true, {"chameleon"}},
  };
  return table;
}

const PreTokenizer& find_pre_tokenizer(std::string_view name, std::string_view source) {
  if (name.empty()) name = "default";
  std::string known;
  for (const PreTokenizer& one : pre_tokenizers()) {
    for (const std::string_view its : one.names) {
      if (its == name) return one;
      known.append(known.empty() ? "" : ", ").append(its);
    }
  }
  throw Error("{}: unknown pre-tokenizer \"{}\" (tokenizer.ggml.pre); known are {}", source, name, known);
}

std::vector<Splitter> splitters(const PreTokenizer& pre_tokenizer) {
  std::vector<Splitter> out;
  for (const std::string_view pattern : pre_tokenizer.patterns) {
    out.push_back([regex = std::make_shared<const Regex>(pattern)](std::string_view text, bool, Pieces& pieces) {
      regex->for_each_piece(text, [&](std::string_view piece) { pieces.add(piece); });
    });
  }
  return out;
}

}  // namespace heddle::text
