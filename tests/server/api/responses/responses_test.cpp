// The routes of responses, with a model that counts: after 'a' it generates 'b'.
#include "server/api/responses/responses.h"

#include <gtest/gtest.h>

#include "tests/server/service/service_fixture.h"
#include "tests/support/refused.h"

namespace heddle::server {
namespace {

using test::expect_says;
using test::Recorded;
using test::ServiceFixture;

struct Responses : testing::Test {
  Responses() { fixture.serve(); }
  Recorded respond(std::string fields) { return fixture.post("/v1/responses", "{" + fields + "}"); }
  Recorded erase(std::string path) { return fixture.ask("DELETE", std::move(path)); }
  ServiceFixture fixture;
};

std::string output_text(const Json& response) { return response.at("output").at(0).at("content").at(0).at("text"); }
std::string error_of(const Recorded& recorded) { return recorded.json().at("error").at("message"); }
Json last_event(const Recorded& recorded) {
  const std::string text = recorded.text();
  const size_t begin = text.rfind("data: ") + 6;
  return parse_json(text.substr(begin, text.find('\n', begin) - begin), "the last event");
}

TEST_F(Responses, Whole) {
  const Recorded recorded = respond(R"("input":"abc","max_output_tokens":4)");
  ASSERT_EQ(recorded.status(), 200u) << recorded.response().body;
  const Json response = recorded.json();
  EXPECT_TRUE(response["id"].get<std::string>().starts_with("resp_"));
  EXPECT_EQ(response["model"], "count/er");
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(output_text(response), "defg");
  EXPECT_EQ(response["usage"]["input_tokens"], 4);
  EXPECT_EQ(response["usage"]["output_tokens"], 4);
  // every member that OpenAI's schema requires, and those that clients look for
  for (const char* name : {"id",
                           "object",
                           "created_at",
                           "status",
                           "error",
                           "incomplete_details",
                           "instructions",
                           "max_output_tokens",
                           "model",
                           "output",
                           "parallel_tool_calls",
                           "previous_response_id",
                           "reasoning",
                           "store",
                           "temperature",
                           "text",
                           "tool_choice",
                           "tools",
                           "top_p",
                           "truncation",
                           "usage",
                           "metadata",
                           "access_programs",
                           "user",
                           "service_tier"})
    EXPECT_TRUE(response.contains(name)) << name;
  EXPECT_EQ(respond(R"("input":"xy")").json()["status"], "completed");
}

TEST_F(Responses, Streamed) {
  const Recorded recorded = respond(R"("input":"xy","stream":true)");
  EXPECT_TRUE(recorded.streamed());
  EXPECT_EQ(recorded.response().type, "text/event-stream");
  EXPECT_TRUE(recorded.text().starts_with("event: response.created\ndata: {\"type\":\"response.created\""));
  const Json last = last_event(recorded);
  EXPECT_EQ(last["type"], "response.completed");
  EXPECT_EQ(output_text(last["response"]), "z{|}~\u00e9");
  EXPECT_EQ(fixture.get("/v1/responses/" + last["response"]["id"].get<std::string>()).json(), last["response"]);
}

TEST_F(Responses, AreKeptAndDeleted) {
  const Json response = respond(R"("input":"abc","max_output_tokens":2,"metadata":{"a":"b"})").json();
  const std::string path = "/v1/responses/" + response["id"].get<std::string>();
  EXPECT_EQ(fixture.get(path).json(), response);
  EXPECT_EQ(fixture.get(path + "?include=x").json(), response);
  EXPECT_EQ(erase(path).json(), (Json{{"id", response["id"]}, {"object", "response"}, {"deleted", true}}));
  for (const Recorded& gone :
       {fixture.get(path), erase(path), fixture.get(path + "/input_items"), fixture.post(path + "/cancel", "")}) {
    EXPECT_EQ(gone.status(), 404u);
    expect_says(error_of(gone), {"There is no response", response["id"].get<std::string>().c_str()});
  }
  const Json unstored = respond(R"("input":"abc","max_output_tokens":2,"store":false)").json();
  EXPECT_EQ(unstored["store"], false);
  EXPECT_EQ(fixture.get("/v1/responses/" + unstored["id"].get<std::string>()).status(), 404u);
}

TEST_F(Responses, AreContinued) {
  const Json first = respond(R"("input":"abc","max_output_tokens":2,"instructions":"x")").json();
  EXPECT_EQ(output_text(first), "de");
  const std::string id = first["id"];
  const Json second = respond(R"("input":"mn","max_output_tokens":1,"previous_response_id":")" + id + "\"").json();
  EXPECT_EQ(output_text(second), "o");
  EXPECT_EQ(second["previous_response_id"], id);
  EXPECT_EQ(second["instructions"], nullptr);
  EXPECT_EQ(second["usage"]["input_tokens"], 1 + 3 + 2 + 2);  // BOS, what was asked and answered, what is asked now
  // the model goes on where it ended; deleting the first leaves the second whole
  erase("/v1/responses/" + id);
  const Json third =
      respond(R"("max_output_tokens":1,"previous_response_id":")" + second["id"].get<std::string>() + "\"").json();
  EXPECT_EQ(output_text(third), "p");
  EXPECT_EQ(third["usage"]["input_tokens"], 9);
  const Recorded unknown = respond(R"("input":"a","previous_response_id":")" + id + "\"");
  EXPECT_EQ(unknown.status(), 400u);
  EXPECT_EQ(unknown.json()["error"]["code"], "previous_response_not_found");
  expect_says(error_of(unknown), {id});
}

TEST_F(Responses, InputItems) {
  const Json response = respond(R"("max_output_tokens":1,"input":[{"id":"m1","role":"user","content":"a"},
    {"id":"m2","role":"assistant","content":"b"},{"id":"m3","role":"user","content":"c"}])")
                            .json();
  const std::string path = "/v1/responses/" + response["id"].get<std::string>() + "/input_items";
  const auto ids = [](const Json& page) {
    std::string all;
    for (const Json& item : page["data"]) all += item["id"].get<std::string>();
    return all;
  };
  const Json newest = fixture.get(path).json();
  EXPECT_EQ(newest["object"], "list");
  EXPECT_EQ(ids(newest), "m3m2m1");
  EXPECT_EQ(newest["first_id"], "m3");
  EXPECT_EQ(newest["last_id"], "m1");
  EXPECT_EQ(newest["has_more"], false);
  const Json page = fixture.get(path + "?order=asc&limit=2").json();
  EXPECT_EQ(ids(page), "m1m2");
  EXPECT_EQ(page["has_more"], true);
  EXPECT_EQ(ids(fixture.get(path + "?order=asc&limit=2&after=m2").json()), "m3");
  for (const auto& [query, says] : {std::pair{"?limit=0", "1 to 100"},
                                    {"?limit=x", "1 to 100"},
                                    {"?order=up", "asc or desc"},
                                    {"?after=m9", "m9"}}) {
    const Recorded refused = fixture.get(path + query);
    EXPECT_EQ(refused.status(), 400u);
    expect_says(error_of(refused), {says});
  }
}

TEST_F(Responses, AreCancelled) {
  fixture.hold_steps();
  const Recorded begun =
      fixture.begin("POST", "/v1/responses", R"({"input":"abc","max_output_tokens":50,"stream":true})");
  ASSERT_TRUE(begun.wait_for_parts(1));
  const std::string id = last_event(begun)["response"]["id"], path = "/v1/responses/" + id;
  EXPECT_EQ(fixture.begin("GET", path).json()["status"], "in_progress");
  const Recorded cancelled = fixture.begin("POST", path + "/cancel");
  EXPECT_EQ(cancelled.status(), 200u);
  EXPECT_EQ(cancelled.json()["id"], id);
  EXPECT_EQ(cancelled.json()["status"], "cancelled");
  fixture.release_steps();
  ASSERT_TRUE(begun.wait_for_end());
  EXPECT_EQ(last_event(begun)["type"], "response.incomplete");
  EXPECT_EQ(last_event(begun)["response"]["status"], "cancelled");
  EXPECT_TRUE(fixture.wait_until_in_progress(0));
  EXPECT_EQ(fixture.get(path).json()["status"], "cancelled");
  const Recorded late = fixture.post(path + "/cancel", "");
  EXPECT_EQ(late.status(), 400u);
  expect_says(error_of(late), {"has ended"});
}

TEST_F(Responses, AClientThatLeavesEndsIt) {
  fixture.hold_steps();
  Recorded begun = fixture.begin("POST", "/v1/responses", R"({"input":"abc","max_output_tokens":50,"stream":true})");
  ASSERT_TRUE(begun.wait_for_parts(1));
  const std::string id = last_event(begun)["response"]["id"];
  begun.disconnect();
  fixture.release_steps();
  EXPECT_TRUE(fixture.wait_until_in_progress(0));
  EXPECT_EQ(fixture.get("/v1/responses/" + id).status(), 404u);
}

TEST_F(Responses, InTheBackgroundGoOnWithoutTheirClient) {
  fixture.hold_steps();
  Recorded begun = fixture.begin("POST", "/v1/responses",
                                 R"({"input":"abc","max_output_tokens":5,"stream":true,"background":true})");
  ASSERT_TRUE(begun.wait_for_parts(2));
  const Json created = last_event(begun)["response"];
  EXPECT_EQ(created["background"], true);
  const std::string path = "/v1/responses/" + created["id"].get<std::string>();
  begun.disconnect();
  // one client comes back before the first token, one with what it has seen, one only to leave again
  const Recorded whole = fixture.begin("GET", path + "?stream=true"),
                 rest = fixture.begin("GET", path + "?stream=true&starting_after=1");
  Recorded brief = fixture.begin("GET", path + "?stream=true");
  ASSERT_TRUE(brief.streamed());
  brief.disconnect();
  EXPECT_EQ(fixture.begin("GET", path).json()["status"], "in_progress");
  fixture.release_steps();
  ASSERT_TRUE(whole.wait_for_end());
  ASSERT_TRUE(rest.wait_for_end());
  EXPECT_TRUE(fixture.wait_until_in_progress(0));
  EXPECT_EQ(whole.response().type, "text/event-stream");
  EXPECT_EQ(last_event(whole)["type"], "response.incomplete");
  EXPECT_EQ(output_text(last_event(whole)["response"]), "defgh");
  // the first two events are those that the second client has seen
  const size_t third = whole.text().find("event: response.output_item.added");
  EXPECT_EQ(rest.text(), whole.text().substr(third));
  EXPECT_EQ(fixture.get(path).json(), last_event(whole)["response"]);
  // and after the end they are still there
  EXPECT_EQ(fixture.get(path + "?stream=true").text(), whole.text());
  const uint64_t last = last_event(whole)["sequence_number"];
  EXPECT_EQ(fixture.get(path + fmt::format("?stream=true&starting_after={}", last - 1)).text(),
            whole.text().substr(whole.text().rfind("event: ")));
  EXPECT_EQ(fixture.get(path + fmt::format("?stream=true&starting_after={}", last)).text(), "");
  const Recorded refused = fixture.get(path + "?stream=true&starting_after=x");
  EXPECT_EQ(refused.status(), 400u);
  expect_says(error_of(refused), {"starting_after", "the number of an event", "\"x\""});
  EXPECT_EQ(erase(path).status(), 200u);
  EXPECT_EQ(fixture.get(path + "?stream=true").status(), 404u);
}

TEST_F(Responses, InTheBackgroundWithoutAStream) {
  fixture.hold_steps();
  const Recorded begun =
      fixture.begin("POST", "/v1/responses", R"({"input":"abc","max_output_tokens":3,"background":true})");
  ASSERT_TRUE(begun.wait_for_end());
  EXPECT_FALSE(begun.streamed());
  const Json early = begun.json();
  EXPECT_EQ(early["status"], "in_progress");
  EXPECT_EQ(early["output"], Json::array());
  EXPECT_EQ(fixture.service->in_progress(), 1u) << "the server waits for it when it shuts down";
  fixture.release_steps();
  EXPECT_TRUE(fixture.wait_until_in_progress(0));
  const std::string path = "/v1/responses/" + early["id"].get<std::string>();
  EXPECT_EQ(output_text(fixture.get(path).json()), "def");
  EXPECT_EQ(last_event(fixture.get(path + "?stream=true"))["type"], "response.incomplete");
}

TEST_F(Responses, InTheBackgroundAreCancelled) {
  fixture.hold_steps();
  Recorded begun = fixture.begin("POST", "/v1/responses",
                                 R"({"input":"abc","max_output_tokens":50,"stream":true,"background":true})");
  ASSERT_TRUE(begun.wait_for_parts(1));
  const std::string path = "/v1/responses/" + last_event(begun)["response"]["id"].get<std::string>();
  begun.disconnect();
  const Recorded reader = fixture.begin("GET", path + "?stream=true");
  EXPECT_EQ(fixture.begin("POST", path + "/cancel").json()["status"], "cancelled");
  fixture.release_steps();
  ASSERT_TRUE(reader.wait_for_end());
  EXPECT_EQ(last_event(reader)["response"]["status"], "cancelled");
  EXPECT_TRUE(fixture.wait_until_in_progress(0));
  EXPECT_EQ(fixture.get(path).json()["status"], "cancelled");
}

TEST_F(Responses, OnlyThoseInTheBackgroundAreStreamedAgain) {
  const std::string id = respond(R"("input":"abc","max_output_tokens":1)").json()["id"];
  const Recorded refused = fixture.get("/v1/responses/" + id + "?stream=true");
  EXPECT_EQ(refused.status(), 400u);
  EXPECT_EQ(refused.json()["error"]["param"], "stream");
  expect_says(error_of(refused), {"\"background\": true"});
}

TEST(ResponsesInTheBackground, EndWithTheServer) {
  ServiceFixture fixture;
  fixture.serve();
  fixture.hold_steps();
  const Recorded begun = fixture.begin("POST", "/v1/responses",
                                       R"({"input":"abc","max_output_tokens":50,"stream":true,"background":true})");
  ASSERT_TRUE(begun.wait_for_parts(1));
  const std::string path = "/v1/responses/" + last_event(begun)["response"]["id"].get<std::string>();
  const Recorded reader = fixture.begin("GET", path + "?stream=true");
  fixture.service->cancel_all();
  fixture.release_steps();
  fixture.service.reset();
  EXPECT_TRUE(begun.wait_for_end());
  EXPECT_TRUE(reader.wait_for_end());
}

TEST(ResponsesInTheBackground, NeedMemory) {
  ServiceFixture without({.store_bytes = 0}), little({.store_bytes = 6000});
  without.serve();
  little.serve();
  const std::string body = R"({"input":"a","max_output_tokens":25,"stream":true,"background":true})";
  const Recorded refused = without.post("/v1/responses", body);
  EXPECT_EQ(refused.status(), 400u);
  expect_says(error_of(refused), {"background", "--store-mb 0"});
  // the first stream has everything; the copy for others has grown beyond the limit
  const Recorded whole = little.post("/v1/responses", body);
  EXPECT_EQ(output_text(last_event(whole)["response"]), "bcdefghijklmnopqrstuvwxyz");
  const std::string path = "/v1/responses/" + last_event(whole)["response"]["id"].get<std::string>();
  const Recorded again = little.get(path + "?stream=true");
  EXPECT_EQ(again.status(), 400u);
  EXPECT_EQ(again.json()["error"]["code"], "events_not_kept");
  EXPECT_EQ(little.get(path).json()["status"], "incomplete");
}

TEST(ContinuedAnswers, GoOnWithinTheLastMessage) {
  ServiceFixture fixture;
  fixture.serve(
      "{{ bos_token }}{% for m in messages %}<{{ m['content'] | trim }}>{% endfor %}"
      "{% if add_generation_prompt %}?{% endif %}");
  const auto answer = [&](std::string fields) {
    return fixture.post("/v1/responses", "{\"max_output_tokens\":3," + fields + "}");
  };
  const std::string input = R"("input":[{"role":"user","content":"q"},{"role":"assistant","content":"ab"}])";
  EXPECT_EQ(output_text(answer(input).json()), "@AB") << "after the template's ?";
  const Json continued = answer(input + R"(,"continue_final_message":true)").json();
  EXPECT_EQ(output_text(continued), "cde");
  EXPECT_EQ(continued["usage"]["input_tokens"], 1 + 3 + 3) << "BOS, <q>, <ab";
  const Recorded chat = fixture.post("/v1/chat/completions", R"({"continue_final_message":true,"max_tokens":2,
    "messages":[{"role":"user","content":"q"},{"role":"assistant","content":" ab \n"}]})");
  EXPECT_EQ(test::content_of(chat.json()), "cd") << "the template has no blanks there";
  const auto refused = [&](std::string fields, std::vector<std::string> says) {
    const Recorded recorded = answer(fields + R"(,"continue_final_message":true)");
    EXPECT_EQ(recorded.status(), 400u) << fields;
    EXPECT_EQ(recorded.json()["error"]["param"], "continue_final_message");
    for (const std::string& one : says) expect_says(error_of(recorded), {one.c_str()});
  };
  refused(R"("input":"q")", {"a text of the assistant", "input[0]"});
  refused(R"("input":[{"role":"assistant","content":" "}])", {"expected a text", "found none"});
  refused(input + R"(,"text":{"format":{"type":"json_object"}})", {"cannot be constrained", "text.format"});
  fixture.serve("{% for m in messages %}{{ m['content'] | upper }}{% endfor %}");
  refused(input, {"does not write the text of input[1] as it is"});
}

TEST_F(Responses, Truncation) {
  std::string items;  // 90 messages of 3 tokens, of a context of 200
  for (int i = 0; i < 90; ++i) items += R"({"role":"user","content":"abc"},)";
  const std::string input =
      "\"max_output_tokens\":20,\"instructions\":\"xyz\",\"input\":[" + items + R"({"role":"user","content":"mno"}])";
  const Recorded refused = respond(input);
  EXPECT_EQ(refused.status(), 400u);
  EXPECT_EQ(refused.json()["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(refused.json()["error"]["param"], "input");
  const Recorded fitted = respond(input + R"(,"truncation":"auto")");
  ASSERT_EQ(fitted.status(), 200u) << fitted.response().body;
  EXPECT_EQ(output_text(fitted.json()), "pqrstuvwxyz{|}~\u00e9");
  // BOS, the instructions and as many messages as leave 20 tokens: 1 + 3 + 58 * 3 + 3
  EXPECT_EQ(fitted.json()["usage"]["input_tokens"], 178);
  EXPECT_EQ(fitted.header("X-Heddle-Truncated"), "messages=33");
  EXPECT_EQ(respond(R"("input":"abc","max_output_tokens":1,"truncation":"auto")").header("X-Heddle-Truncated"), "");
  const std::string whole = R"("truncation":"auto","input":")" + std::string(300, 'a') + "\"";
  EXPECT_EQ(respond(whole).json()["error"]["code"], "context_length_exceeded");
}

TEST_F(Responses, CountsTokens) {
  const Json counted = fixture.post("/v1/responses/input_tokens", R"({"input":"abc","instructions":"xy"})").json();
  EXPECT_EQ(counted, Json::parse(R"({"object":"response.input_tokens","input_tokens":6})"));
}

TEST_F(Responses, RefusesInPlainHttp) {
  const Recorded refused = respond(R"("input":"abc","stream":true,"background":true,"store":false)");
  EXPECT_EQ(refused.status(), 400u);
  EXPECT_FALSE(refused.streamed());
  EXPECT_EQ(refused.json()["error"]["param"], "background");
  EXPECT_EQ(respond(R"("input":"abc","model":"gpt-4o")").status(), 404u);
  EXPECT_EQ(fixture.get("/v1/responses/resp_1/wings").status(), 404u);
  EXPECT_EQ(fixture.post("/v1/responses/resp_1/wings", "").status(), 404u);
  EXPECT_EQ(fixture.get("/v1/responses/resp_1?stream=true").status(), 404u);
  EXPECT_EQ(fixture.get("/v1/responses").status(), 405u);
  const Recorded ignored =
      respond(R"("input":"abc","max_output_tokens":1,"tools":[{"type":"web_search"}],"service_tier":"flex")");
  EXPECT_EQ(ignored.header("X-Heddle-Ignored"), "tools[].type=web_search, service_tier");
}

TEST(ResponsesStore, HasASize) {
  ServiceFixture fixture({.store_bytes = 0});
  fixture.serve();
  const Json response = fixture.post("/v1/responses", R"({"input":"abc","max_output_tokens":1})").json();
  EXPECT_EQ(fixture.get("/v1/responses/" + response["id"].get<std::string>()).status(), 404u);
}

}  // namespace
}  // namespace heddle::server
