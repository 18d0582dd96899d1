// Ollama's routes with the model that counts: from a request to its response.
#include "server/api/ollama/ollama.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/server/api/ollama/ollama_fixture.h"
#include "tests/server/service/service_fixture.h"
#include "tests/support/refused.h"

namespace heddle::server {
namespace {

using test::Recorded;
using test::ServiceFixture;

struct OllamaService : ServiceFixture {
  explicit OllamaService(ServiceOptions options = {}) : ServiceFixture(std::move(options)) { serve(); }
  // Greedy: the counting model is sure of the next letter, but not of every one.
  Recorded chat(std::string text, std::string fields = {}, std::string options = {}) {
    return post("/api/chat", fmt::format(R"({{"model":"count/er","messages":[{{"role":"user","content":"{}"}}],)"
                                         R"("options":{{"temperature":0{}{}}}{}{}}})",
                                         text, options.empty() ? "" : ",", options, fields.empty() ? "" : ",", fields));
  }
  Recorded generate(std::string text, std::string fields = {}) {
    return post("/api/generate", fmt::format(R"({{"prompt":"{}","options":{{"temperature":0}}{}{}}})", text,
                                             fields.empty() ? "" : ",", fields));
  }
};

void expect_refused(const Recorded& answer, unsigned status, std::initializer_list<std::string_view> parts) {
  EXPECT_EQ(answer.status(), status) << answer.response().body;
  const Json body = answer.json();
  EXPECT_EQ(body.size(), 1u);
  test::expect_says(body.at("error").get<std::string>(), parts);
}

TEST(Ollama, AChatIsAStreamUnlessToldOtherwise) {
  OllamaService service;
  const Recorded streamed = service.chat("xy");
  EXPECT_TRUE(streamed.streamed());
  EXPECT_EQ(streamed.response().type, "application/x-ndjson");
  std::string text;
  const std::vector<Json> lines = lines_of(streamed.text());
  for (const Json& line : lines) {
    EXPECT_EQ(line["model"], "count/er");
    EXPECT_EQ(line["done"], &line == &lines.back());
    text += line["message"]["content"].get<std::string>();
  }
  EXPECT_EQ(text, "z{|}~\u00e9");
  const Recorded whole = service.chat("xy", R"("stream":false)");
  EXPECT_FALSE(whole.streamed());
  const Json answer = whole.json(), &last = lines.back();
  EXPECT_EQ(answer["message"], Json::parse("{\"role\":\"assistant\",\"content\":\"z{|}~\u00e9\"}"));
  for (const Json& end : {answer, last}) {
    EXPECT_EQ(end["done_reason"], "stop");
    EXPECT_EQ(end["prompt_eval_count"], 3);  // <s> x y
    EXPECT_EQ(end["eval_count"], 8);         // five letters, two bytes and the end
    const double total = end["total_duration"], load = end["load_duration"], prompt = end["prompt_eval_duration"],
                 generating = end["eval_duration"];
    EXPECT_GT(load, 0);
    EXPECT_GT(prompt, 0);
    EXPECT_GT(generating, 0);
    EXPECT_NEAR(load + prompt + generating, total, 3);  // each is rounded down
  }
  EXPECT_EQ(service.last_log()["model"], "count/er");
  EXPECT_EQ(service.last_log()["finish_reasons"], Json::array({"stop"}));
}

TEST(Ollama, OptionsHaveAnEffect) {
  OllamaService service;
  const Json cut = service.chat("ab", R"("stream":false)", R"("num_predict":4)").json();
  EXPECT_EQ(cut["message"]["content"], "cdef");
  EXPECT_EQ(cut["done_reason"], "length");
  EXPECT_EQ(cut["eval_count"], 4);
  const Json stopped = service.chat("ab", R"("stream":false)", R"("stop":["ef"])").json();
  EXPECT_EQ(stopped["message"]["content"], "cd");
  EXPECT_EQ(stopped["done_reason"], "stop");
  const Recorded taken = service.chat("xy", R"("keep_alive":"1h")", R"("num_ctx":4096)");
  EXPECT_EQ(taken.header("X-Heddle-Ignored"), "options.num_ctx, keep_alive");
}

TEST(Ollama, Prompts) {
  OllamaService service;
  EXPECT_EQ(service.generate("xy", R"("stream":false)").json()["response"], "z{|}~\u00e9");
  EXPECT_EQ(service.generate("xy", R"("stream":false)").json()["model"], "count/er:latest");
  // a system message stands before it, and a raw prompt is not rendered: the template would refuse this word
  EXPECT_EQ(service.generate("y", R"("stream":false,"system":"x")").json()["prompt_eval_count"], 3);
  expect_refused(service.generate("refuse"), 400, {"the model's chat template refuses"});
  EXPECT_EQ(service.generate("refuse", R"("raw":true,"stream":false)").json()["response"],
            "fghijklmnopqrstuvwxyz{|}~\u00e9");
  std::string text;
  for (const Json& line : lines_of(service.generate("w", R"("raw":true)").text()))
    text += line["response"].get<std::string>();
  EXPECT_EQ(text, "xyz{|}~\u00e9");
}

TEST(Ollama, WithoutATemplateOnlyRawPrompts) {
  OllamaService service;
  service.serve("");
  expect_refused(service.chat("x"), 400, {"no chat template"});
  expect_refused(service.generate("x"), 400, {"no chat template"});
  EXPECT_EQ(service.generate("x", R"("raw":true,"stream":false)").json()["response"], "yz{|}~\u00e9");
}

TEST(Ollama, LoadingIsAnsweredAtOnce) {
  OllamaService service;
  const Recorded load = service.post("/api/generate", R"({"model":"count/er"})");
  EXPECT_FALSE(load.streamed());
  EXPECT_EQ(load.json()["done_reason"], "load");
  const Json unload = service.post("/api/chat", R"({"messages":[],"keep_alive":0})").json();
  EXPECT_EQ(unload["done_reason"], "unload");
  EXPECT_EQ(unload["message"]["content"], "");
  EXPECT_EQ(service.chat("xy", R"("stream":false)").json()["done_reason"], "stop") << "it is still there";
}

TEST(Ollama, NamesOfTheModel) {
  OllamaService service;
  const auto asks = [&](std::string_view model) {
    return service.post("/api/chat", fmt::format(R"({{"model":"{}","messages":[]}})", model));
  };
  EXPECT_EQ(asks("count/er:latest").json()["model"], "count/er:latest");
  EXPECT_EQ(asks("count/er").json()["model"], "count/er");
  EXPECT_EQ(asks("").json()["model"], "count/er:latest");
  for (const char* path : {"/api/chat", "/api/generate", "/api/embed", "/api/embeddings", "/api/show"})
    expect_refused(service.post(path, R"({"model":"count/er:8b"})"), 404,
                   {"model \"count/er:8b\" not found", "\"count/er\""});
  OllamaService any({.any_model = true});
  EXPECT_EQ(any.post("/api/chat", R"({"model":"llama3.2","messages":[]})").json()["model"], "llama3.2");
}

TEST(Ollama, ThinkingNeedsAModelThatThinks) {
  OllamaService service;
  expect_refused(service.chat("xy", R"("think":true)"), 400, {"think", "\"count/er\" does not support thinking"});
  expect_refused(service.chat("xy", R"("think":"low")"), 400, {"does not support thinking"});
  EXPECT_EQ(service.chat("xy", R"("think":false,"stream":false)").status(), 200u);
}

TEST(Ollama, ThinkingIsSwitchedOnAndOff) {
  OllamaService service;
  service.serve(std::string(test::counting_template) + "{% if thinking %}<think>{% endif %}{# </think> #}");
  // behind ">" come "?" and all that follow it
  std::string thought;
  for (char c = '?'; c <= '~'; ++c) thought += c;
  const Json on = service.chat("xy", R"("think":true,"stream":false)").json()["message"];
  EXPECT_EQ(on["thinking"], thought + "\u00e9");
  EXPECT_EQ(on["content"], "");
  for (const char* off : {R"("think":false,"stream":false)", R"("stream":false)"}) {
    const Json message = service.chat("xy", off).json()["message"];
    EXPECT_EQ(message["content"], "z{|}~\u00e9");
    EXPECT_FALSE(message.contains("thinking"));
  }
  std::string streamed;
  for (const Json& line : lines_of(service.generate("xy", R"("think":"high")").text()))
    streamed += line.value("thinking", "");
  EXPECT_EQ(streamed, thought + "\u00e9");
}

TEST(Ollama, ErrorsHaveOllamasForm) {
  OllamaService service({.keys = {"k"}});
  expect_refused(service.chat("xy"), 401, {"API key"});
  OllamaService open;
  expect_refused(open.post("/api/chat", "{"), 400, {"the body of the request"});
  expect_refused(open.chat("xy", R"("format":7)"), 400, {"format", "found 7"});
  expect_refused(open.post("/api/chat", "{}", {{"content-type", "text/plain"}}), 415, {"application/json"});
  open.service->drain();
  expect_refused(open.chat("xy"), 503, {"shutting down"});
}

TEST(Ollama, AStreamThatFailsEndsWithAnError) {
  OllamaService service;
  service.hold_steps();
  const Recorded answer = service.begin("POST", "/api/chat", R"({"messages":[{"role":"user","content":"a"}]})");
  service.service->cancel_all();
  service.release_steps();
  ASSERT_TRUE(answer.wait_for_end());
  const std::vector<Json> lines = lines_of(answer.text());
  ASSERT_FALSE(lines.empty());
  test::expect_says(lines.back().at("error").get<std::string>(), {"shutting down"});
}

TEST(Ollama, Embeddings) {
  OllamaService service;
  const Json answer = service.post("/api/embed", R"({"model":"count/er","input":["a","bc"]})").json();
  EXPECT_EQ(answer["model"], "count/er");
  ASSERT_EQ(answer["embeddings"].size(), 2u);
  for (const Json& vector : answer["embeddings"]) {
    ASSERT_EQ(vector.size(), test::counting_width);
    double sum = 0;
    for (const Json& value : vector) sum += value.get<double>() * value.get<double>();
    EXPECT_NEAR(sum, 1, 1e-5);
  }
  EXPECT_EQ(answer["prompt_eval_count"], 5);  // <s> a, <s> b c
  EXPECT_GT(answer["total_duration"], 0);
  EXPECT_GE(answer["total_duration"].get<uint64_t>(), answer["load_duration"].get<uint64_t>());
  const Json one = service.post("/api/embed", R"({"input":"a"})").json();
  EXPECT_EQ(one["embeddings"][0], answer["embeddings"][0]);
  EXPECT_EQ(service.post("/api/embeddings", R"({"prompt":"a"})").json(),
            (Json{{"embedding", answer["embeddings"][0]}}));
  const Json openai = service.post("/v1/embeddings", R"({"input":"a"})").json();
  EXPECT_EQ(openai["data"][0]["embedding"], one["embeddings"][0]);
  EXPECT_EQ(service.post("/api/embed", "{}").json()["embeddings"], Json::array());
  EXPECT_EQ(service.post("/api/embeddings", "{}").json()["embedding"], Json::array());
  EXPECT_EQ(service.post("/api/embed", R"({"input":"a","dimensions":8})").status(), 200u);
  EXPECT_EQ(service.post("/api/embed", R"({"input":"a","dimensions":4})").json()["embeddings"][0].size(), 4u);
  expect_refused(service.post("/api/embed", R"({"input":"a","dimensions":9})"), 400, {"dimensions", "at most 8"});
}

TEST(Ollama, InputsBeyondTheContextAreCut) {
  OllamaService service;  // 200 tokens, of which one is <s>
  const std::string most(199, 'a'), more(5000, 'a');
  const auto embed = [&](const std::string& input, std::string_view fields) {
    return service.post("/api/embed", fmt::format(R"({{"input":["{}"]{}}})", input, fields));
  };
  const Recorded cut = embed(more, "");
  EXPECT_EQ(cut.json()["prompt_eval_count"], 200);
  EXPECT_EQ(cut.header("X-Heddle-Clamped"), "input=200");
  const Recorded whole = embed(most, "");
  EXPECT_EQ(whole.header("X-Heddle-Clamped"), "");
  EXPECT_EQ(whole.json()["embeddings"], cut.json()["embeddings"]);
  expect_refused(embed(more, R"(,"truncate":false)"), 400, {"maximum context length is 200"});
  EXPECT_EQ(embed(most, R"(,"truncate":false)").status(), 200u);
}

}  // namespace
}  // namespace heddle::server
