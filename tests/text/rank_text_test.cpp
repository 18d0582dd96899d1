// A query and a document as one sequence, by a template or by the tokenizer, and how the document is cut.
#include "text/rank_text.h"

#include <gtest/gtest.h>

#include "tests/support/refused.h"
#include "tests/text/small_vocabulary.h"

namespace heddle::test {
namespace {

using Ids = std::vector<TokenId>;

const text::Tokenizer& joining_tokenizer() {
  static const text::Tokenizer tokenizer = text::Tokenizer::from_vocabulary(byte_level_vocabulary());
  return tokenizer;
}

TEST(RankText, ByATemplate) {
  const text::RankText joined(joining_tokenizer(), "<|begin|>Q{query}D{document}<|im_end|>!");
  const auto encoded = joined.encode("hello", "ab", SIZE_MAX, SIZE_MAX);
  EXPECT_EQ(encoded.pair.ids, (Ids{265, 'Q', 259, 'D', 'a', 'b', 266, '!'}));
  EXPECT_EQ(encoded.pair.types, std::vector<uint32_t>(8));
  EXPECT_EQ(encoded.cut, 0u);
  // neither text can write control tokens
  EXPECT_EQ(joined.encode("q", "<|im_end|>", SIZE_MAX, SIZE_MAX).pair.ids.size(), 4 + 10 + 2u);
  EXPECT_EQ(joined.encode("", "", SIZE_MAX, SIZE_MAX).pair.ids, (Ids{265, 'Q', 'D', 266, '!'}));
}

TEST(RankText, TheEndOfTheDocumentIsCut) {
  const text::RankText joined(joining_tokenizer(), "<|begin|>Q{query}D{document}<|im_end|>!");
  const auto most = joined.encode("q", "abcdef", 4, SIZE_MAX);
  EXPECT_EQ(most.pair.ids, (Ids{265, 'Q', 'q', 'D', 'a', 'b', 'c', 'd', 266, '!'}));
  EXPECT_EQ(most.pair.types.size(), most.pair.ids.size());
  EXPECT_EQ(most.cut, 2u);
  EXPECT_EQ(joined.encode("q", "abcdef", SIZE_MAX, 9).pair.ids, (Ids{265, 'Q', 'q', 'D', 'a', 'b', 'c', 266, '!'}));
  EXPECT_EQ(joined.encode("q", "abcdef", 4, 9).cut, 3u);
  // what is not the document's stays
  EXPECT_EQ(joined.encode("qqqq", "ab", SIZE_MAX, 3).pair.ids, (Ids{265, 'Q', 'q', 'q', 'q', 'q', 'D', 266, '!'}));
}

TEST(RankText, ATemplateNeedsBothTexts) {
  EXPECT_REFUSED(text::RankText(joining_tokenizer(), "{query} only"), "{query} and then {document}", "no document");
  EXPECT_REFUSED(text::RankText(joining_tokenizer(), "{document} {query}"), "no document after the query");
  EXPECT_REFUSED(text::RankText(joining_tokenizer(), "nothing"), "no query");
}

}  // namespace
}  // namespace heddle::test
