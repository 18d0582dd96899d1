#include "tiers/rank_questions.h"

#include <gtest/gtest.h>

#include "tests/tiers/some_parts.h"

namespace heddle::tiers {
namespace {

using Kind = DiskQuestion::Kind;

TEST(RankQuestions, AreDecodedAsTheyWereEncoded) {
  const engine::KvKey one = some_key(1), two = some_key(2, model::KvPart::state);
  for (const DiskQuestion& question :
       {DiskQuestion{Kind::which}, DiskQuestion{Kind::which, 0, {one, two, one}},
        DiskQuestion{Kind::save, 1ull << 40, {two}}, DiskQuestion{Kind::load, 3, {one}}}) {
    const ranks::Bytes bytes = encode(question);
    const DiskQuestion found = decode_disk_question(bytes);
    EXPECT_EQ(found.kind, question.kind);
    EXPECT_EQ(found.buffer, question.buffer);
    EXPECT_EQ(found.parts, question.parts);
    for (size_t size = 0; size < bytes.size(); ++size) {
      if (question.kind == Kind::which && size % 33 == 1) continue;  // fewer parts
      EXPECT_THROW(decode_disk_question(std::span(bytes).first(size)), Error) << size;
    }
  }
  EXPECT_THROW(decode_disk_question(ranks::Bytes{3}), Error);
  ranks::Bytes bad_part = encode(DiskQuestion{Kind::which, 0, {one}});
  bad_part[1] = 3;
  EXPECT_THROW(decode_disk_question(bad_part), Error);
  EXPECT_THROW(decode_disk_question(encode(DiskQuestion{Kind::save, 1, {one, two}})), Error);
}

TEST(RankQuestions, SoAreAnswers) {
  for (const DiskAnswer& answer :
       {DiskAnswer{}, DiskAnswer{DiskAnswer::Kind::absent}, DiskAnswer{DiskAnswer::Kind::failed, "no space left"}}) {
    const DiskAnswer found = decode_disk_answer(encode(answer));
    EXPECT_EQ(found.kind, answer.kind);
    EXPECT_EQ(found.why, answer.why);
  }
  EXPECT_THROW(decode_disk_answer({}), Error);
  EXPECT_THROW(decode_disk_answer(ranks::Bytes{3}), Error);
  for (size_t count : {0u, 1u, 7u, 8u, 9u, 1000u}) {
    std::vector<bool> there(count);
    for (size_t i = 0; i < count; ++i) there[i] = i * i % 7 < 3;
    EXPECT_EQ(decode_there(encode(there), count), there);
    EXPECT_THROW(decode_there(encode(there), count + 8), Error);
  }
}

}  // namespace
}  // namespace heddle::tiers
