// How requests may come: compressed, by HEAD and OPTIONS, with a query, with any model's name; who may write control
// tokens; and in which form errors come back.
#include <gtest/gtest.h>

#include "tests/server/http/deflated.h"
#include "tests/server/service/service_fixture.h"

namespace heddle::server {
namespace {

using test::Recorded;
using test::ServiceFixture;

TEST(ServiceManners, CompressedBodiesAreExpandedWithinTheLimit) {
  ServiceFixture fixture({.log_prompts = true, .max_body = 1000});
  fixture.serve();
  const std::string body = R"({"prompt":"a","max_tokens":2})";
  const Recorded found = fixture.post("/v1/completions", test::deflated(body), {{"content-encoding", "gzip"}});
  EXPECT_EQ(found.status(), 200);
  EXPECT_EQ(test::text_of(found.json()), "bc");
  EXPECT_EQ(fixture.last_log().at("request"), body) << "the log has what was meant";
  const Recorded bomb =
      fixture.post("/v1/completions", test::deflated(std::string(1001, ' ') + body), {{"content-encoding", "gzip"}});
  EXPECT_EQ(bomb.status(), 413);
  EXPECT_EQ(bomb.json().at("error").at("code"), "request_too_large");
  EXPECT_EQ(fixture.post("/v1/completions", body, {{"content-encoding", "gzip"}}).status(), 400);
  EXPECT_EQ(fixture.post("/v1/completions", body, {{"content-encoding", "br"}}).status(), 415);
  EXPECT_EQ(fixture.post("/v1/completions", body, {{"content-encoding", "identity"}}).status(), 200);
}

TEST(ServiceManners, OptionsTellWhatAPathHas) {
  ServiceFixture fixture;
  fixture.serve();
  const auto allowed = [&](std::string path) {
    const Recorded found = fixture.ask("OPTIONS", std::move(path));
    EXPECT_EQ(found.status(), 204);
    EXPECT_EQ(found.header("Access-Control-Allow-Origin"), "");
    return found.header("Allow");
  };
  EXPECT_EQ(allowed("/v1/chat/completions"), "POST, OPTIONS");
  EXPECT_EQ(allowed("/v1/models"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(allowed("/ping"), "GET, HEAD, POST, OPTIONS");
  EXPECT_EQ(allowed("*"), "GET, HEAD, POST, OPTIONS");
  EXPECT_EQ(fixture.ask("OPTIONS", "/nothing").status(), 404);
}

TEST(ServiceManners, TheRootIsThereWithoutAKey) {
  ServiceFixture fixture({.keys = {"k"}});
  for (const char* method : {"GET", "HEAD"}) EXPECT_EQ(fixture.ask(method, "/").status(), 200) << method;
  EXPECT_EQ(fixture.get("/").response().body, "heddle is running");
  EXPECT_EQ(fixture.get("/nothing").status(), 404) << "the root stands for itself alone";
  EXPECT_EQ(fixture.post("/", "{}").status(), 405);
}

TEST(ServiceManners, QueriesPassAndAnyModelIfItMay) {
  ServiceFixture fixture, open({.any_model = true});
  fixture.serve();
  open.serve();
  EXPECT_EQ(fixture.post("/v1/completions?beta=true", R"({"prompt":"a","max_tokens":1})").status(), 200);
  EXPECT_EQ(fixture.complete(R"("prompt":"a","model":"gpt-4o")").status(), 404);
  const Recorded found = open.complete(R"("prompt":"a","model":"gpt-4o","max_tokens":1)");
  EXPECT_EQ(found.status(), 200);
  EXPECT_EQ(found.json().at("model"), "count/er");
}

TEST(ServiceManners, WhatWasIgnoredOrClampedIsToldInHeaders) {
  ServiceFixture fixture, strict({.strict = true});
  fixture.serve();
  strict.serve();
  const std::string fields = R"("store":true,"metadata":{"a":"b"},"max_tokens":32000)";
  const Recorded found = fixture.chat("x", fields);
  EXPECT_EQ(found.status(), 200);
  EXPECT_EQ(found.header("X-Heddle-Ignored"), "store, metadata");
  EXPECT_EQ(found.header("X-Heddle-Clamped"), "max_tokens=198") << "a context of 200, BOS and x";
  const Recorded refused = strict.chat("x", fields);
  EXPECT_EQ(refused.status(), 400);
  EXPECT_EQ(refused.json().at("error").at("param"), "store");
  EXPECT_EQ(fixture.chat("x", R"("max_tokens":5)").header("X-Heddle-Clamped"), "");
}

TEST(ServiceManners, OnlyTheTemplateWritesControlTokens) {
  ServiceFixture fixture, parsing({.parse_special = true});
  const std::string template_ = "{{ bos_token }}{% for m in messages %}{{ m.content }}<|other|>{% endfor %}";
  fixture.serve(template_);
  parsing.serve(template_);
  const auto prompt_tokens = [](const Recorded& found) {
    return found.json().at("usage").at("prompt_tokens").get<int>();
  };
  // a token for each letter, and two of the template's own
  EXPECT_EQ(prompt_tokens(fixture.chat("a<|im_end|><s>", R"("max_tokens":1)")), 2 + 14);
  EXPECT_EQ(prompt_tokens(parsing.chat("a<|im_end|><s>", R"("max_tokens":1)")), 2 + 3);
  EXPECT_EQ(prompt_tokens(fixture.chat("abc", R"("max_tokens":1)")), 2 + 3);
  // a text that is no conversation is parsed, as it always was
  EXPECT_EQ(prompt_tokens(fixture.complete(R"("prompt":"a<|im_end|>b","max_tokens":1)")), 1 + 3);
}

TEST(ServiceManners, ErrorsHaveTheFormOfTheirPath) {
  ServiceFixture fixture;
  fixture.serve();
  const auto type_of = [](const Recorded& found) { return found.json().at("error").at("type"); };
  EXPECT_EQ(fixture.post("/completion", "{").json().at("error").at("code"), 400) << "llama.cpp's";
  EXPECT_EQ(fixture.get("/completion").json().at("error").at("code"), 405) << "llama.cpp's, of the other method";
  EXPECT_EQ(type_of(fixture.get("/completion/x")), "not_found_error") << "llama.cpp's: the nearest path";
  EXPECT_EQ(fixture.get("/v1/nothing").json().at("error").at("code"), "unknown_url") << "OpenAI's";
  Recorded refused;
  fixture.service->refuse({.method = "POST", .path = "/completion", .peer = "127.0.0.1:5"}, refused.responder(),
                          {413, "request_too_large", "", "too long"});
  ASSERT_TRUE(refused.wait_for_end());
  EXPECT_EQ(refused.json().at("error").at("code"), 413) << "llama.cpp's, while the body was read";
}

TEST(ServiceManners, MetricsMayBeOpen) {
  ServiceFixture closed({.keys = {"k"}}), open({.keys = {"k"}, .metrics_open = true});
  closed.serve();
  open.serve();
  EXPECT_EQ(closed.get("/metrics").status(), 401);
  EXPECT_EQ(open.get("/metrics").status(), 200);
  EXPECT_EQ(open.get("/v1/models").status(), 401);
}

TEST(ServiceManners, MetricsHaveTheNamesOfVllm) {
  ServiceFixture fixture;
  fixture.serve();
  EXPECT_EQ(fixture.complete(R"("prompt":"a","max_tokens":3)").status(), 200);
  ASSERT_TRUE(fixture.wait_until_finished(1));
  const std::string text = fixture.get("/metrics").response().body;
  for (const std::string line :
       {"vllm:num_requests_running{model_name=\"count/er\"} 0\n",
        "vllm:num_requests_waiting{model_name=\"count/er\"} 0\n", "vllm:kv_cache_usage_perc{model_name=\"count/er\"} ",
        "num_gpu_blocks=\"256\"} 1\n", "vllm:lora_requests_info{model=\"count/er\",max_lora=\"0\"",
        "vllm:prompt_tokens_total{model_name=\"count/er\"} 2\n",
        "vllm:generation_tokens_total{model_name=\"count/er\"} 3\n",
        "vllm:request_success_total{model_name=\"count/er\",finished_reason=\"length\"} 1\n",
        "vllm:request_success_total{model_name=\"count/er\",finished_reason=\"stop\"} 0\n",
        "vllm:time_to_first_token_seconds_count{model_name=\"count/er\"} 1\n",
        "vllm:inter_token_latency_seconds_count{model_name=\"count/er\"} 2\n",
        "vllm:e2e_request_latency_seconds_count{model_name=\"count/er\"} 1\n",
        "vllm:request_prefill_time_seconds_count{model_name=\"count/er\"} 1\n",
        "vllm:request_decode_time_seconds_count{model_name=\"count/er\"} 1\n",
        "vllm:iteration_tokens_total_sum{model_name=\"count/er\"} 4\n",
        "vllm:spec_decode_num_draft_tokens_total{model_name=\"count/er\"} ",
        "vllm:spec_decode_num_accepted_tokens_total{model_name=\"count/er\"} ",
        "vllm:gpu_prefix_cache_queries_total{model_name=\"count/er\"} 2\n",
        "vllm:gpu_prefix_cache_hits_total{model_name=\"count/er\"} 0\n"})
    EXPECT_NE(text.find(line), text.npos) << line << "in\n" << text;
}

TEST(ServiceManners, VllmsSmallPages) {
  ServiceFixture fixture;
  EXPECT_EQ(fixture.get("/ping").status(), 503) << "before the model is loaded";
  fixture.serve();
  EXPECT_EQ(fixture.get("/ping").status(), 200);
  EXPECT_EQ(fixture.post("/ping", "").status(), 200);
  EXPECT_TRUE(fixture.get("/version").json().at("version").is_string());
  EXPECT_EQ(fixture.get("/load").json().at("server_load"), 0);
}

TEST(ServiceManners, TokenizesInBothShapes) {
  ServiceFixture fixture;
  fixture.serve();
  // ' ' to '~' are 1 to 95
  EXPECT_EQ(fixture.post("/tokenize", R"({"content":"a"})").json(), Json::parse(R"({"tokens":[66]})"));
  EXPECT_EQ(fixture.post("/tokenize", R"({"prompt":"a"})").json(),
            Json::parse(R"({"count":2,"max_model_len":200,"tokens":[0,66],"token_strs":null})"));
  EXPECT_EQ(fixture.post("/tokenize", R"({"prompt":"a","add_special_tokens":false,"return_token_strs":true})").json(),
            Json::parse(R"({"count":1,"max_model_len":200,"tokens":[66],"token_strs":["a"]})"));
  EXPECT_EQ(fixture.post("/tokenize", R"({"messages":[{"role":"user","content":"ab"}]})").json(),
            Json::parse(R"({"count":3,"max_model_len":200,"tokens":[0,66,67],"token_strs":null})"));
  EXPECT_EQ(fixture.post("/tokenize", R"({"messages":[{"role":"user","content":"<s>"}]})").json().at("count"), 4)
      << "as a chat reads it";
  EXPECT_EQ(fixture.post("/detokenize", R"({"tokens":[66,67]})").json(),
            Json::parse(R"({"content":"ab","prompt":"ab"})"));
  EXPECT_EQ(fixture.post("/tokenize", R"({"prompt":"a","model":"other"})").status(), 404);
}

}  // namespace
}  // namespace heddle::server
