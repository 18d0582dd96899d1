// Chats and completions, whole and streamed, with a model that counts: after 'a' it generates 'b'.
#include <gtest/gtest.h>

#include "tests/server/service/service_fixture.h"
#include "tests/support/refused.h"

namespace heddle::server {
namespace {

using test::content_of;
using test::finish_of;
using test::Recorded;
using test::ServiceFixture;
using test::text_of;

struct Generation : testing::Test {
  Generation() { fixture.serve(); }
  ServiceFixture fixture;
};

Json usage(int prompt, int completion, int cached = 0) {
  return {{"prompt_tokens", prompt},
          {"completion_tokens", completion},
          {"total_tokens", prompt + completion},
          {"prompt_tokens_details", {{"cached_tokens", cached}}}};
}

// The texts of a stream's chunks, of one choice, with the end in brackets: "b", "c", "[length]".
std::vector<std::string> pieces(const Recorded& answer, int index = 0) {
  std::vector<std::string> out;
  for (const Json& chunk : answer.chunks())
    for (const Json& choice : chunk.at("choices")) {
      if (choice.at("index") != index) continue;
      const Json& part = choice.contains("text") ? choice : choice.at("delta");
      const std::string text = part.value("text", part.value("content", ""));
      if (!text.empty()) out.push_back(text);
      if (!choice.at("finish_reason").is_null())
        out.push_back("[" + choice.at("finish_reason").get<std::string>() + "]");
    }
  return out;
}
using Pieces = std::vector<std::string>;

TEST_F(Generation, ChatsWhole) {
  const Recorded recorded = fixture.chat("abc", R"("max_tokens":4)");
  EXPECT_EQ(recorded.status(), 200);
  EXPECT_EQ(recorded.response().type, "application/json");
  const Json answer = recorded.json();
  EXPECT_TRUE(answer.at("id").get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(answer.at("object"), "chat.completion");
  EXPECT_EQ(answer.at("model"), "count/er");
  EXPECT_EQ(content_of(answer), "defg");
  EXPECT_EQ(finish_of(answer), "length");
  EXPECT_EQ(answer.at("usage"), usage(4, 4)) << "BOS is the template's";
  EXPECT_FALSE(answer.contains("trace"));
}

TEST_F(Generation, EndsAtAnEndToken) {
  const Json answer = fixture.chat("x").json();
  EXPECT_EQ(content_of(answer), "yz{|}~\u00e9");
  EXPECT_EQ(finish_of(answer), "stop");
  EXPECT_EQ(answer.at("usage"), usage(2, 9)) << "the end token counts: it was generated";
}

TEST_F(Generation, IgnoresEndTokensIfAsked) {
  const Json answer = fixture.chat("}", R"("max_tokens":8,"ignore_eos":true)").json();
  EXPECT_EQ(content_of(answer), "~\u00e9 !") << "control tokens are not part of the text";
  EXPECT_EQ(finish_of(answer), "length");
}

TEST_F(Generation, FillsTheContextAndNoMore) {
  const Json answer = fixture.complete(R"("prompt":")" + std::string(198, 'a') + R"(","max_tokens":1)").json();
  EXPECT_EQ(finish_of(answer), "length");
  ServiceFixture small({}, {}, 10);
  small.serve();
  const Json full = small.chat("abcd").json();
  EXPECT_EQ(finish_of(full), "length") << "the context is full";
  EXPECT_EQ(content_of(full), "efghi");
  EXPECT_EQ(full.at("usage").at("total_tokens"), 10) << "prompt and completion together";
}

TEST_F(Generation, StopsAtAStringAcrossTokens) {
  for (const bool stream : {false, true}) {
    const Recorded answer =
        fixture.complete(fmt::format(R"("prompt":"a","max_tokens":50,"stop":["efg","zz"],"stream":{})", stream));
    if (stream)
      EXPECT_EQ(pieces(answer), (Pieces{"b", "c", "d", "[stop]"}));
    else
      EXPECT_EQ(text_of(answer.json()), "bcd");
    EXPECT_EQ(fixture.last_log().at("finish_reasons"), Json({"stop"}));
    EXPECT_EQ(fixture.last_log().at("completion_tokens"), 6) << "up to the token that completed it";
  }
  EXPECT_TRUE(fixture.wait_until_in_progress(0));
}

TEST_F(Generation, ShowsTextThatOnlyBeganAStopString) {
  const Recorded answer = fixture.complete(R"("prompt":"w","max_tokens":4,"stop":["zA","{|}"],"stream":true)");
  EXPECT_EQ(pieces(answer), (Pieces{"x", "y", "z", "{", "[length]"})) << "what was held back comes at the end";
}

TEST_F(Generation, StopsAtTokens) {
  const Json answer = fixture.complete(R"("prompt":"a","max_tokens":50,"stop_token_ids":[70])").json();
  EXPECT_EQ(text_of(answer), "bcd");
  EXPECT_EQ(finish_of(answer), "stop");
  EXPECT_EQ(answer.at("usage"), usage(2, 4));
}

TEST_F(Generation, StreamsAChat) {
  const Recorded answer = fixture.chat("a", R"("max_tokens":2,"stream":true)");
  EXPECT_TRUE(answer.streamed());
  EXPECT_EQ(answer.status(), 200);
  EXPECT_EQ(answer.response().type, "text/event-stream");
  EXPECT_EQ(answer.header("Cache-Control"), "no-cache");
  EXPECT_EQ(answer.header("X-Accel-Buffering"), "no");
  EXPECT_FALSE(answer.header("X-Request-Id").empty());
  const std::vector<Json> chunks = answer.chunks();
  ASSERT_EQ(chunks.size(), 4);
  for (const Json& chunk : chunks) {
    EXPECT_EQ(chunk.at("id"), chunks[0].at("id"));
    EXPECT_EQ(chunk.at("object"), "chat.completion.chunk");
    EXPECT_FALSE(chunk.contains("usage"));
  }
  EXPECT_EQ(chunks[0].at("choices")[0].at("delta").at("role"), "assistant");
  EXPECT_EQ(chunks[1].at("choices")[0].at("delta"), Json({{"content", "b"}}));
  EXPECT_EQ(chunks[2].at("choices")[0].at("delta"), Json({{"content", "c"}}));
  EXPECT_EQ(chunks[3].at("choices")[0].at("delta"), Json::object());
  EXPECT_EQ(chunks[3].at("choices")[0].at("finish_reason"), "length");
}

TEST_F(Generation, StreamsUsageIfAsked) {
  const std::vector<Json> chunks =
      fixture.complete(R"("prompt":"a","max_tokens":2,"stream":true,"stream_options":{"include_usage":true})").chunks();
  ASSERT_EQ(chunks.size(), 4);
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(chunks[i].at("usage").is_null());
  EXPECT_EQ(chunks[3].at("choices"), Json::array());
  EXPECT_EQ(chunks[3].at("usage"), usage(2, 2));
}

TEST_F(Generation, StreamsWholeCharacters) {
  EXPECT_EQ(pieces(fixture.chat("}", R"("stream":true)")), (Pieces{"~", "\u00e9", "[stop]"}));
}

TEST_F(Generation, GivesSeveralChoicesInOrder) {
  const Json answer = fixture.complete(R"("prompt":["a",[70],"x"],"max_tokens":2,"n":2)").json();
  ASSERT_EQ(answer.at("choices").size(), 6);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(answer.at("choices")[i].at("index"), i);
    EXPECT_EQ(text_of(answer, i), (std::array{"bc", "fg", "yz"}[i / 2]));
  }
  EXPECT_EQ(answer.at("usage"), usage(2 + 1 + 2, 12)) << "each prompt once";
}

TEST_F(Generation, StreamsSeveralChoices) {
  const Recorded answer = fixture.chat("a", R"("max_tokens":2,"n":3,"stream":true)");
  const std::vector<Json> chunks = answer.chunks();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(chunks[i].at("choices")[0].at("index"), i);
    EXPECT_EQ(chunks[i].at("choices")[0].at("delta").at("role"), "assistant");
    EXPECT_EQ(pieces(answer, i), (Pieces{"b", "c", "[length]"}));
  }
  const Recorded batch = fixture.complete(R"("prompt":["a","h"],"max_tokens":2,"n":2,"stream":true)");
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(pieces(batch, i), i < 2 ? (Pieces{"b", "c", "[length]"}) : (Pieces{"i", "j", "[length]"}));
}

TEST_F(Generation, ReturnsTheBestOfSeveral) {
  // so that tokens other than 'b' are drawn, which are far less likely
  const std::string fields = R"("prompt":"a","max_tokens":1,"logit_bias":{"67":-48},"seed":7,"logprobs":0,)";
  const Json all = fixture.complete(fields + R"("n":40)").json();
  std::vector<double> found;
  for (const Json& choice : all.at("choices")) found.push_back(choice.at("logprobs").at("token_logprobs")[0]);
  std::sort(found.rbegin(), found.rend());
  ASSERT_LT(found.back(), -40);
  ASSERT_GT(found.front(), -1);
  const Json best = fixture.complete(fields + R"("n":2,"best_of":40)").json();
  ASSERT_EQ(best.at("choices").size(), 2);
  EXPECT_EQ(best.at("choices")[0].at("index"), 0);
  EXPECT_EQ(best.at("choices")[1].at("index"), 1);
  EXPECT_EQ(best.at("choices")[0].at("logprobs").at("token_logprobs")[0], found[0]);
  EXPECT_EQ(best.at("choices")[1].at("logprobs").at("token_logprobs")[0], found[1]);
  EXPECT_EQ(best.at("usage"), usage(2, 40)) << "all that were generated";
  const Json quiet = fixture.complete(R"("prompt":"a","max_tokens":1,"n":1,"best_of":3)").json();
  EXPECT_TRUE(quiet.at("choices")[0].at("logprobs").is_null()) << "they were not asked for";
}

TEST_F(Generation, ReportsLogProbabilities) {
  const Json answer = fixture.chat("}", R"("logprobs":true,"top_logprobs":2)").json();
  const Json content = answer.at("choices")[0].at("logprobs").at("content");
  ASSERT_EQ(content.size(), 3) << "not the token that ended it";
  EXPECT_EQ(content[0].at("token"), "~");
  EXPECT_EQ(content[0].at("top_logprobs").size(), 2);
  EXPECT_NEAR(content[0].at("logprob").get<double>(), 0, 1e-6);
  EXPECT_NEAR(content[0].at("top_logprobs")[1].at("logprob").get<double>(), -50, 1e-3);
  EXPECT_EQ(content[1].at("bytes"), Json({0xc3}));
  EXPECT_EQ(content[2].at("bytes"), Json({0xa9}));

  std::string reported;
  const Recorded stream = fixture.chat("a", R"("logprobs":true,"stream":true,"max_tokens":9,"stop":["fgh"])");
  EXPECT_EQ(pieces(stream), (Pieces{"b", "c", "d", "e", "[stop]"}));
  for (const Json& chunk : stream.chunks()) {
    const Json logprobs = chunk.at("choices")[0].at("logprobs");
    if (logprobs.is_null()) continue;
    for (const Json& token : logprobs.at("content")) reported += token.at("token").get<std::string>();
  }
  EXPECT_EQ(reported, "bcde") << "nothing of the stop string";
}

TEST_F(Generation, EchoesThePrompt) {
  const Json answer = fixture.complete(R"("prompt":"ab","max_tokens":2,"echo":true,"logprobs":1)").json();
  EXPECT_EQ(text_of(answer), "abcd");
  const Json logprobs = answer.at("choices")[0].at("logprobs");
  EXPECT_EQ(logprobs.at("tokens"), Json({"<s>", "a", "b", "c", "d"}));
  ASSERT_EQ(logprobs.at("token_logprobs").size(), 5);
  EXPECT_TRUE(logprobs.at("token_logprobs")[0].is_null()) << "nothing comes before it";
  EXPECT_NEAR(logprobs.at("token_logprobs")[1].get<double>(), -50, 1e-3) << "' ' was expected";
  EXPECT_NEAR(logprobs.at("token_logprobs")[2].get<double>(), 0, 1e-6) << "'b' comes after 'a'";
  EXPECT_NEAR(logprobs.at("token_logprobs")[4].get<double>(), 0, 1e-6);

  const Json score = fixture.complete(R"("prompt":[66,67,70],"max_tokens":0,"echo":true,"logprobs":0)").json();
  EXPECT_EQ(text_of(score), "abe");
  EXPECT_EQ(finish_of(score), "length");
  EXPECT_EQ(score.at("usage"), usage(3, 0));
  EXPECT_NEAR(score.at("choices")[0].at("logprobs").at("token_logprobs")[2].get<double>(), -50, 1e-3);

  const Recorded stream = fixture.complete(R"("prompt":"ab","max_tokens":2,"echo":true,"stream":true)");
  EXPECT_EQ(pieces(stream), (Pieces{"ab", "c", "d", "[length]"}));
}

TEST_F(Generation, ScoresAPromptThatFillsTheContext) {
  const std::string ids = Json(std::vector<int>(200, 66)).dump();
  const Json answer = fixture.complete(R"("prompt":)" + ids + R"(,"max_tokens":0,"echo":true,"logprobs":0)").json();
  EXPECT_EQ(answer.at("choices")[0].at("logprobs").at("tokens").size(), 200);
}

TEST_F(Generation, ShowsWhatWasCached) {
  const std::string prompt = R"("prompt":")" + std::string(100, 'k') + R"(","max_tokens":1)";
  EXPECT_EQ(fixture.complete(prompt).json().at("usage"), usage(101, 1));
  const Json again = fixture.complete(prompt).json().at("usage");
  const int cached = again.at("prompt_tokens_details").at("cached_tokens");
  EXPECT_GE(cached, 64);
  EXPECT_LE(cached, 100);
  EXPECT_EQ(again, usage(101, 1, cached));
  EXPECT_EQ(fixture.last_log().at("cached_tokens"), cached);
  EXPECT_EQ(fixture.complete(prompt + R"(,"cache_prompt":false)").json().at("usage"), usage(101, 1));
}

TEST_F(Generation, RefusesWhatExceedsTheContext) {
  const auto refused = [&](const Recorded& answer, const std::string& param,
                           std::initializer_list<std::string_view> parts) {
    EXPECT_EQ(answer.status(), 400);
    const Json error = answer.json().at("error");
    EXPECT_EQ(error.at("code"), "context_length_exceeded");
    EXPECT_EQ(error.at("param"), param);
    test::expect_says(error.at("message").get<std::string>(), parts);
  };
  refused(fixture.chat(std::string(199, 'a')), "messages", {"200 tokens", "200 tokens"});
  refused(fixture.chat(std::string(300, 'a')), "messages", {"200 tokens", "301 tokens"});
  refused(fixture.complete(R"("prompt":["a",")" + std::string(200, 'a') + "\"]"), "prompt[1]", {"201 tokens"});
  EXPECT_EQ(fixture.chat("abc", R"("max_tokens":196)").header("X-Heddle-Clamped"), "");
  const Recorded clamped = fixture.chat("abc", R"("max_tokens":197,"ignore_eos":true)");
  EXPECT_EQ(clamped.header("X-Heddle-Clamped"), "max_tokens=196");
  EXPECT_EQ(clamped.json().at("usage").at("completion_tokens"), 196);
  EXPECT_EQ(clamped.json().at("choices").at(0).at("finish_reason"), "length");
  EXPECT_EQ(fixture.chat(std::string(198, 'a')).status(), 200) << "room for one more";
  EXPECT_EQ(fixture.service->in_progress(), 0);
}

TEST_F(Generation, RefusesAnEmptyPrompt) {
  fixture.serve("");
  const Recorded tokens = fixture.complete(R"("prompt":[[]])");
  EXPECT_EQ(tokens.status(), 400);
  EXPECT_EQ(text_of(fixture.complete(R"("prompt":"","max_tokens":2)").json()), " !") << "there is a BOS token";
}

TEST_F(Generation, RefusesTooManyCompletions) {
  std::string prompts = "[1]";
  for (int i = 1; i < 33; ++i) prompts += ",[1]";
  const Recorded answer = fixture.complete(R"("max_tokens":1,"n":128,"prompt":[)" + prompts + "]");
  EXPECT_EQ(answer.status(), 400);
  EXPECT_EQ(answer.json().at("error").at("param"), "prompt");
  test::expect_says(answer.json().at("error").at("message").get<std::string>(), {"4096", "33", "128"});
}

TEST_F(Generation, RefusesWhatTheTemplateRefuses) {
  const Recorded answer = fixture.chat("refuse");
  EXPECT_EQ(answer.status(), 400);
  test::expect_says(answer.json().at("error").at("message").get<std::string>(), {"refuses", "not that word"});
  EXPECT_EQ(answer.json().at("error").at("param"), "messages");
}

TEST_F(Generation, RefusesFieldsByName) {
  const Recorded answer = fixture.chat("a", R"("temperature":"warm")");
  EXPECT_EQ(answer.status(), 400);
  EXPECT_EQ(answer.json().at("error").at("param"), "temperature");
  EXPECT_EQ(fixture.post("/v1/chat/completions", "{").status(), 400);
  EXPECT_EQ(fixture.post("/v1/chat/completions", "").status(), 400);
}

TEST_F(Generation, FindsTheTokensOfDryBreakers) {
  const auto next = [&](const std::string& breakers) {
    return text_of(fixture
                       .complete(R"("prompt":"abcabcab","max_tokens":1,"temperature":0,"dry_multiplier":100,)"
                                 R"("dry_sequence_breakers":)" +
                                 breakers)
                       .json());
  };
  EXPECT_EQ(next(R"(["b"])"), "c") << "no repetition reaches across a breaker";
  EXPECT_NE(next("[]"), "c") << "it would be repeated";
  EXPECT_EQ(next(R"(["b","~"])"), "c") << "a token with ~ is beyond the model's vocabulary";
}

TEST_F(Generation, StopsSomeCompletionsAndNotOthers) {
  // the first tokens differ, then each completion counts
  const std::string fields = R"("prompt":"a","max_tokens":20,"n":8,"logit_bias":{"67":-50},"seed":3,"ignore_eos":true)";
  const Json all = fixture.complete(fields).json();
  const Json answer = fixture.complete(fields + R"(,"stop":["mno"])").json();
  int stopped = 0;
  for (int i = 0; i < 8; ++i) {
    const std::string text = text_of(all, i);
    const size_t stop = text.find("mno");
    stopped += stop != text.npos;
    EXPECT_EQ(text_of(answer, i), text.substr(0, stop));
    EXPECT_EQ(finish_of(answer, i), stop == text.npos ? "length" : "stop");
  }
  EXPECT_GT(stopped, 0);
  EXPECT_LT(stopped, 8);
}

TEST_F(Generation, TracesWhereTheTimeWent) {
  const Json whole = fixture.chat("ab", R"("max_tokens":3,"n":2)", {{"x-trace-level", "request"}}).json();
  const Json trace = whole.at("trace");
  for (const char* name : {"total_ms", "waiting_ms", "parse_ms", "template_ms", "tokenize_ms"})
    EXPECT_GE(trace.at(name), 0) << name;
  ASSERT_EQ(trace.at("completions").size(), 2);
  for (int i = 0; i < 2; ++i) {
    const Json answer = trace.at("completions")[i];
    EXPECT_EQ(answer.at("index"), i);
    EXPECT_GE(answer.at("steps"), 2);
    EXPECT_FALSE(answer.contains("step"));
    EXPECT_LE(answer.at("queue_ms").get<double>() + answer.at("prompt_ms").get<double>() +
                  answer.at("generation_ms").get<double>(),
              trace.at("total_ms").get<double>());
  }
  const std::vector<Json> chunks =
      fixture.chat("ab", R"("max_tokens":3,"stream":true)", {{"x-trace-level", "step"}}).chunks();
  for (size_t i = 0; i + 1 < chunks.size(); ++i) EXPECT_FALSE(chunks[i].contains("trace"));
  const Json steps = chunks.back().at("trace").at("completions")[0].at("step");
  ASSERT_EQ(steps.size(), 3);
  EXPECT_EQ(steps[0].at("rows"), 3) << "the prompt";
  EXPECT_EQ(steps[1].at("rows"), 1);
  EXPECT_EQ(steps[2].at("generated"), 1);
  const Recorded wrong = fixture.chat("ab", "", {{"x-trace-level", "all"}});
  EXPECT_EQ(wrong.status(), 400);
  EXPECT_EQ(wrong.json().at("error").at("param"), "X-Trace-Level");
}

}  // namespace
}  // namespace heddle::server
