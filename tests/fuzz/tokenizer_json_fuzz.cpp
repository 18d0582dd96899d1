// Any bytes as a tokenizer.json: read or refused; what was read encodes and decodes, and streams what it decodes.
#include "base/error.h"
#include "base/utf8.h"
#include "tests/fuzz/target.h"
#include "text/completion_text.h"
#include "text/json/vocabulary_json.h"
#include "text/tokenizer.h"

FUZZ_TARGET(tokenizer_json) {
  using namespace heddle::text;
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  try {
    const Tokenizer tokenizer = Tokenizer::from_json(file, R"({"add_bos_token": true})", "fuzz");
    for (const std::string_view text :
         {std::string_view("Hello, \u4e16\u754c <s> it's  e\u0301\n12\xff"), file.substr(0, 200)}) {
      try {
        const std::vector<TokenId> ids = tokenizer.encode(text);
        StreamDecoder stream(tokenizer);
        std::string joined;
        for (const TokenId id : ids) joined += stream.push(id);
        joined += stream.finish();
        heddle::check(joined == heddle::replace_invalid_utf8(tokenizer.decode(ids)), "a stream joins to decode()");
      } catch (const heddle::Error&) {
      }
    }
    try {
      const EncodedPair pair = tokenizer.encode_pair("Hello", file.substr(0, 50));
      heddle::check(pair.ids.size() == pair.types.size(), "every token of a pair has a type");
      tokenizer.decode(pair.ids, true);
    } catch (const heddle::Error&) {
    }
    Tokenizer::from_vocabulary(vocabulary_from_json(file, "", "fuzz")).encode_pair("Hello", "12");
  } catch (const heddle::Error&) {
  }
  return 0;
}
