// Items read into the messages of a chat.
#include "server/api/responses/response_items.h"

#include "tests/server/api/request_fixture.h"

namespace heddle::server {
namespace {

using Ordered = nlohmann::ordered_json;

ResponseInput read_items(std::string_view input, const ResponseStore& store = ResponseStore({}),
                         IgnoredFields* ignored = nullptr) {
  const Json body = Json::parse("{\"input\":" + std::string(input) + "}");
  return read_response_input(Fields(body, ignored), body["input"], Ordered::parse(input), store);
}
Json messages_of_items(std::string_view input, const ResponseStore& store = ResponseStore({})) {
  return Json::parse(read_items(input, store).messages.dump());
}

TEST(ResponseItems, AString) {
  const ResponseInput input = read_items(R"("Hi")");
  EXPECT_EQ(Json::parse(input.messages.dump()), Json::parse(R"([{"role":"user","content":"Hi"}])"));
  ASSERT_EQ(input.items.size(), 1u);
  Json item = Json::parse(input.items[0].json);
  EXPECT_EQ(item["id"], input.items[0].id);
  EXPECT_TRUE(input.items[0].id.starts_with("msg_"));
  item.erase("id");
  EXPECT_EQ(item, Json::parse(R"({"type":"message","role":"user","status":"completed",
    "content":[{"type":"input_text","text":"Hi"}]})"));
}

TEST(ResponseItems, Messages) {
  EXPECT_EQ(messages_of_items(R"([{"role":"developer","content":"a"},
    {"type":"message","role":"system","content":[{"type":"input_text","text":"b"}]},
    {"type":"message","id":"msg_1","role":"user","content":[{"type":"input_text","text":"c"},{"type":"input_text","text":"d"}]},
    {"type":"message","role":"assistant","status":"completed","phase":"final_answer",
     "content":[{"type":"output_text","text":"e","annotations":[],"logprobs":[]},{"type":"refusal","refusal":"f"}]},
    {"role":"user","content":[]}])"),
            Json::parse(R"([{"role":"system","content":"a"},{"role":"system","content":"b"},
    {"role":"user","content":"cd"},{"role":"assistant","content":"ef"},{"role":"user","content":""}])"));
}

// A thought, a text and calls are one message; results follow.
TEST(ResponseItems, ATurnOfTheModelIsOneMessage) {
  EXPECT_EQ(messages_of_items(R"([{"role":"user","content":"Hi"},
    {"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"Hm"},{"type":"reasoning_text","text":"!"}]},
    {"role":"assistant","content":"Wait."},
    {"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"b\":1,\"a\":2}","status":"completed"},
    {"type":"function_call","call_id":"c2","name":"g","arguments":""},
    {"type":"function_call_output","call_id":"c1","output":"one"},
    {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"two"}]},
    {"type":"reasoning","summary":[],"encrypted_content":null,"content":[{"type":"reasoning_text","text":"So"}]},
    {"type":"function_call","call_id":"c3","name":"f","arguments":"{}"},
    {"role":"assistant","content":"Done."},
    {"role":"assistant","content":"Really."}])"),
            Json::parse(R"([{"role":"user","content":"Hi"},
    {"role":"assistant","content":"Wait.","reasoning_content":"Hm!","tool_calls":[
      {"id":"c1","type":"function","function":{"name":"f","arguments":{"b":1,"a":2}}},
      {"id":"c2","type":"function","function":{"name":"g","arguments":{}}}]},
    {"role":"tool","content":"one","tool_call_id":"c1"},{"role":"tool","content":"two","tool_call_id":"c2"},
    {"role":"assistant","content":null,"reasoning_content":"So","tool_calls":[
      {"id":"c3","type":"function","function":{"name":"f","arguments":{}}}]},
    {"role":"assistant","content":"Done."},{"role":"assistant","content":"Really."}])"));
  EXPECT_EQ(read_items(R"([{"type":"function_call","call_id":"c","name":"f","arguments":"{\"b\":1,\"a\":2}"}])")
                .messages[0]["tool_calls"][0]["function"]["arguments"]
                .dump(),
            R"({"b":1,"a":2})");
}

TEST(ResponseItems, AThoughtAlone) {
  EXPECT_EQ(
      messages_of_items(R"([{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"Hm"}]},
    {"role":"user","content":"x"}])"),
      Json::parse(R"([{"role":"assistant","content":"","reasoning_content":"Hm"},{"role":"user","content":"x"}])"));
  EXPECT_EQ(messages_of_items(R"([{"type":"reasoning","id":"rs","summary":[]},{"role":"assistant","content":"x"}])"),
            Json::parse(R"([{"role":"assistant","content":"x"}])"));
}

TEST(ResponseItems, WrappedThoughts) {
  for (const std::string text : {"", "a", "ab", "abc", "Hm? \xc3\xa4\xe2\x82\xac \n"})
    EXPECT_EQ(unwrapped_thought(wrapped_thought(text)), text);
  EXPECT_EQ(wrapped_thought("Hm"), "heddle-thought-1:SG0=");  // as coreutils' base64 writes it
  for (const char* other : {"gAAAAABo", "heddle-thought-1:a", "heddle-thought-1:S!0=", "heddle-thought-1:=AAA",
                            "heddle-thought-1://///w=="})
    EXPECT_EQ(unwrapped_thought(other), std::nullopt) << other;
  const std::string item = R"([{"type":"reasoning","summary":[],"encrypted_content":")";
  EXPECT_EQ(messages_of_items(item + wrapped_thought("Hm") + "\"},{\"role\":\"assistant\",\"content\":\"x\"}]"),
            Json::parse(R"([{"role":"assistant","content":"x","reasoning_content":"Hm"}])"));
  IgnoredFields ignored;
  EXPECT_EQ(read_items(item + R"(gAAA"},{"role":"user","content":"x"}])", ResponseStore({}), &ignored).messages.size(),
            1u);
  EXPECT_EQ(ignored.names(), std::vector<std::string>{"input[].encrypted_content"});
}

TEST(ResponseItems, References) {
  ResponseStore store({});
  store.add({.id = "resp_1",
             .json = "{}",
             .input = {},
             .output = {{"msg_1", R"({"id":"msg_1","type":"message","status":"completed","role":"assistant",
               "content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"Hi"}]})"}},
             .messages = "[]"});
  const Json want = Json::parse(R"([{"role":"assistant","content":"Hi"},{"role":"user","content":"x"}])");
  EXPECT_EQ(messages_of_items(R"([{"type":"item_reference","id":"msg_1"},{"role":"user","content":"x"}])", store),
            want);
  EXPECT_EQ(messages_of_items(R"([{"id":"msg_1"},{"role":"user","content":"x"}])", store), want);
  EXPECT_BAD(read_items(R"([{"type":"item_reference","id":"msg_2"}])", store), "input[0].id", "item_not_found",
             "input[0].id: there is no stored item", "msg_2");
}

TEST(ResponseItems, ItemsAreKeptAsTheyCame) {
  const ResponseInput input = read_items(R"([{"type":"function_call_output","call_id":"c","output":"one"},
    {"type":"message","id":"mine","role":"user","content":"x","status":"incomplete"}])");
  ASSERT_EQ(input.items.size(), 2u);
  EXPECT_TRUE(input.items[0].id.starts_with("fco_"));
  EXPECT_EQ(Json::parse(input.items[0].json)["output"], "one");
  EXPECT_EQ(
      input.items[1].json,
      R"({"id":"mine","type":"message","status":"incomplete","role":"user","content":[{"type":"input_text","text":"x"}]})");
}

TEST(ResponseItems, Refused) {
  EXPECT_BAD(read_items("5"), "input", "invalid_type", "expected a string or a list of items", "5");
  EXPECT_BAD(read_items(R"([5])"), "input[0]", "invalid_type", "an object");
  EXPECT_BAD(read_items(R"([{}])"), "input[0].type", "missing_required_parameter", "missing");
  EXPECT_BAD(read_items(R"([{"type":"web_search_call","id":"ws_1"}])"), "input[0].type", "unsupported_value",
             "expected message, function_call", "web_search_call");
  EXPECT_BAD(read_items(R"([{"role":"tool","content":"x"}])"), "input[0].role", "invalid_value",
             "user, assistant, system or developer", "tool");
  for (const char* type : {"input_image", "input_file", "input_audio"})
    EXPECT_BAD(read_items(fmt::format(R"([{{"role":"user","content":[{{"type":"{}"}}]}}])", type)),
               "input[0].content[0].type", "unsupported_value", "text alone", type);
  EXPECT_BAD(read_items(R"([{"type":"function_call_output","call_id":"c","output":[{"type":"input_image"}]}])"),
             "input[0].output[0].type", "unsupported_value", "input_image");
  EXPECT_BAD(read_items(R"([{"type":"function_call","call_id":"c","name":"f","arguments":"[]"}])"),
             "input[0].arguments", "invalid_value", "JSON object");
  EXPECT_BAD(read_items(R"([{"type":"function_call","call_id":"c","name":"f","arguments":"{"}])"), "input[0].arguments",
             "invalid_value", "input[0].arguments");
  EXPECT_BAD(read_items(R"([{"type":"function_call","name":"f","arguments":"{}"}])"), "input[0].call_id",
             "missing_required_parameter", "missing");
  EXPECT_BAD(read_items(R"([{"type":"reasoning","summary":5}])"), "input[0].summary", "invalid_type", "a list");
  EXPECT_BAD(read_items(R"([{"role":"user","content":"x","wings":2}])"), "input[0].wings", "unknown_parameter",
             "wings");
}

}  // namespace
}  // namespace heddle::server
