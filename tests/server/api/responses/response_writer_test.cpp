// Events and documents of responses, from the pieces of text that a model writes.
#include "chat/tools.h"
#include "server/api/responses/responses.h"
#include "tests/server/api/writer_fixture.h"

namespace heddle::server {
namespace {

using Ordered = nlohmann::ordered_json;

struct Event {
  std::string name;
  Json data;
};
std::vector<Event> events_in(const std::string& text) {
  std::vector<Event> events;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find("\n\n", at), line = text.find('\n', at);
    if (end == text.npos || text.compare(at, 7, "event: ") != 0 || text.compare(line + 1, 6, "data: ") != 0) {
      ADD_FAILURE() << "not an event: " << text.substr(at);
      break;
    }
    events.push_back({text.substr(at + 7, line - at - 7), strictly(text.substr(line + 7, end - line - 7))});
    at = end + 2;
  }
  return events;
}

// A response by these pieces, with a thought and calls between tags.
class WrittenResponse {
 public:
  explicit WrittenResponse(bool stream, bool wraps = false, bool logprobs = false)
      : logprobs_(logprobs),
        exchange_(Exchange::open(std::make_shared<Traffic>(nullptr, false), {}, recorded_.responder(), "")) {
    auto format = std::make_shared<chat::ChatFormat>();
    format->thought = {"<think>", "</think>"};
    format->calls = chat::generic_call_format();
    const ChatReply reply{format, std::make_shared<chat::Tools>(chat::Tools{{"f", Ordered::object()}})};
    GenerationRequest request;
    request.prompts.resize(1);
    ResponseWriter::Options options{
        .id = "resp_1", .created = 5, .model = "m", .stream = stream, .wraps_thoughts = wraps};
    options.count_tokens = [](std::string_view text) { return text.size(); };
    options.on_begin = [this](const std::string& json) { begun = json; };
    options.on_done = [this](StoredResponse stored, Ordered messages) {
      kept = std::move(stored);
      kept_messages = std::move(messages);
    };
    options.on_gone = [this] { gone = true; };
    writer_ =
        std::make_unique<ResponseWriter>(*exchange_, std::move(options), Ordered{{"store", true}}, request, reply);
    writer_->on_accepted();
  }
  WrittenResponse& write(const std::vector<std::string>& pieces) {
    for (const std::string& piece : pieces) {
      TextDelta delta{.text = piece};
      if (logprobs_) delta.logprobs.push_back({.token = {piece, -1}});
      writer_->on_text(0, std::move(delta));
    }
    return *this;
  }
  WrittenResponse& end(Finish finish = stopped) {
    writer_->on_finish(0, finish);
    writer_->on_end({.prompt = 10, .completion = 8, .cached = 6}, "");
    return *this;
  }
  void fail(const ApiError& error) { writer_->on_error(error); }
  void destroy() { writer_.reset(); }
  Json whole() const { return strictly(recorded_.response().body); }
  std::vector<Event> events() const { return events_in(recorded_.text()); }
  const test::Recorded& recorded() const { return recorded_; }

  std::string begun;
  StoredResponse kept;
  Ordered kept_messages;
  bool gone = false;

 private:
  const bool logprobs_;
  test::Recorded recorded_;
  std::shared_ptr<Exchange> exchange_;
  std::unique_ptr<ResponseWriter> writer_;
};

const std::vector<std::string> answer_events{
    "<thi",           "nk>Hm.</think>", "Text", " more <tool_call>{\"name\": \"f\", \"argu", "ments\": {\"a\": ",
    "1}}</tool_call>"};

// Ids are random: each is replaced by its kind and its number.
void name_ids(Json& value, std::vector<std::string>& ids) {
  if (value.is_structured())
    for (Json& inner : value) name_ids(inner, ids);
  if (!value.is_string()) return;
  const std::string text = value;
  for (const std::string_view prefix : {"msg_", "rs_", "fc_", "call_"}) {
    if (!text.starts_with(prefix) || text.size() != prefix.size() + 24) continue;
    size_t number = size_t(std::ranges::find(ids, text) - ids.begin());
    if (number == ids.size()) ids.push_back(text);
    value = std::string(prefix) + std::to_string(number);
  }
}
Json named(Json value) {
  std::vector<std::string> ids;
  name_ids(value, ids);
  return value;
}

const Json output_of_answer = Json::parse(R"([
  {"id":"rs_0","type":"reasoning","status":"completed","summary":[],"content":[{"type":"reasoning_text","text":"Hm."}]},
  {"id":"msg_1","type":"message","status":"completed","role":"assistant",
   "content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"Text more"}]},
  {"id":"fc_2","type":"function_call","status":"completed","arguments":"{\"a\": 1}","call_id":"call_3","name":"f"}])");

TEST(ResponseWriter, WholeResponses) {
  WrittenResponse written(false);
  const Json whole = written.write(answer_events).end().whole();
  // order of the output, not of the keys, names the ids
  Json output = whole["output"];
  std::vector<std::string> ids;
  for (Json& item : output) {
    name_ids(item["id"], ids);
    if (item.contains("call_id")) name_ids(item["call_id"], ids);
  }
  EXPECT_EQ(output, output_of_answer);
  EXPECT_EQ(whole["id"], "resp_1");
  EXPECT_EQ(whole["object"], "response");
  EXPECT_EQ(whole["created_at"], 5);
  EXPECT_EQ(whole["status"], "completed");
  EXPECT_TRUE(whole["completed_at"].is_number());
  EXPECT_EQ(whole["error"], nullptr);
  EXPECT_EQ(whole["incomplete_details"], nullptr);
  EXPECT_EQ(whole["model"], "m");
  EXPECT_EQ(whole["store"], true);
  EXPECT_EQ(whole["usage"],
            Json::parse(R"({"input_tokens":10,"input_tokens_details":{"cached_tokens":6,"cache_write_tokens":0},
    "output_tokens":8,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":18})"));
}

TEST(ResponseWriter, EventsInOrder) {
  WrittenResponse written(true);
  written.write(answer_events).end();
  Json events = Json::array(), numbers = Json::array();
  std::vector<std::string> ids;
  for (Event& event : written.events()) {
    EXPECT_EQ(event.name, event.data["type"]);
    numbers.push_back(event.data["sequence_number"]);
    event.data.erase("sequence_number");
    if (event.data.contains("response")) {
      EXPECT_EQ(event.data["response"]["id"], "resp_1");
      event.data["response"] = event.data["response"]["status"];
    }
    for (const char* where : {"item_id"})
      if (event.data.contains(where)) name_ids(event.data[where], ids);
    if (event.data.contains("item")) {
      name_ids(event.data["item"]["id"], ids);
      if (event.data["item"].contains("call_id")) name_ids(event.data["item"]["call_id"], ids);
    }
    events.push_back(event.data);
  }
  Json counted = Json::array();
  for (size_t i = 0; i < numbers.size(); ++i) counted.push_back(i);
  EXPECT_EQ(numbers, counted);
  const Json want = Json::parse(R"([
    {"type":"response.created","response":"in_progress"},
    {"type":"response.in_progress","response":"in_progress"},
    {"type":"response.output_item.added","output_index":0,
     "item":{"id":"rs_0","type":"reasoning","status":"in_progress","summary":[],"content":[]}},
    {"type":"response.content_part.added","item_id":"rs_0","output_index":0,"content_index":0,
     "part":{"type":"reasoning_text","text":""}},
    {"type":"response.reasoning_text.delta","item_id":"rs_0","output_index":0,"content_index":0,"delta":"Hm."},
    {"type":"response.reasoning_text.done","item_id":"rs_0","output_index":0,"content_index":0,"text":"Hm."},
    {"type":"response.content_part.done","item_id":"rs_0","output_index":0,"content_index":0,
     "part":{"type":"reasoning_text","text":"Hm."}},
    {"type":"response.output_item.done","output_index":0,"item":{}},
    {"type":"response.output_item.added","output_index":1,
     "item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}},
    {"type":"response.content_part.added","item_id":"msg_1","output_index":1,"content_index":0,
     "part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}},
    {"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"Text","logprobs":[]},
    {"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":" more","logprobs":[]},
    {"type":"response.output_text.done","item_id":"msg_1","output_index":1,"content_index":0,"text":"Text more","logprobs":[]},
    {"type":"response.content_part.done","item_id":"msg_1","output_index":1,"content_index":0,
     "part":{"type":"output_text","annotations":[],"logprobs":[],"text":"Text more"}},
    {"type":"response.output_item.done","output_index":1,"item":{}},
    {"type":"response.output_item.added","output_index":2,
     "item":{"id":"fc_2","type":"function_call","status":"in_progress","arguments":"","call_id":"call_3","name":"f"}},
    {"type":"response.function_call_arguments.delta","item_id":"fc_2","output_index":2,"delta":"{\"a\": "},
    {"type":"response.function_call_arguments.delta","item_id":"fc_2","output_index":2,"delta":"1}"},
    {"type":"response.function_call_arguments.done","item_id":"fc_2","output_index":2,"name":"f","arguments":"{\"a\": 1}"},
    {"type":"response.output_item.done","output_index":2,"item":{}},
    {"type":"response.completed","response":"completed"}])");
  ASSERT_EQ(events.size(), want.size()) << events.dump(1);
  for (size_t i = 0; i < want.size(); ++i) {
    Json expected = want[i];
    if (expected["type"] == "response.output_item.done")
      expected["item"] = output_of_answer[size_t(expected["output_index"])];
    EXPECT_EQ(events[i], expected) << i;
  }
  const Json last = written.events().back().data["response"];
  EXPECT_EQ(named(last["output"]).size(), 3u);
  EXPECT_EQ(last["usage"]["total_tokens"], 18);
  EXPECT_TRUE(written.recorded().ended());
}

TEST(ResponseWriter, CutOff) {
  for (const bool stream : {false, true}) {
    WrittenResponse written(stream);
    written.write({"<think>Hm.</think><tool_call>{\"name\": \"f\", \"arguments\": {\"a\": "}).end(too_long);
    const Json response = stream ? written.events().back().data["response"] : written.whole();
    if (stream) {
      EXPECT_EQ(written.events().back().name, "response.incomplete");
    }
    EXPECT_EQ(response["status"], "incomplete");
    EXPECT_EQ(response["completed_at"], nullptr);
    EXPECT_EQ(response["incomplete_details"], Json::parse(R"({"reason":"max_output_tokens"})"));
    EXPECT_EQ(response["output"][0]["status"], "completed");
    EXPECT_EQ(response["output"][1]["status"], "incomplete");
    EXPECT_EQ(response["output"][1]["arguments"], "{\"a\": ");
    // a call that is cut off is no part of the conversation to come
    EXPECT_EQ(written.kept_messages.dump(), R"([{"role":"assistant","content":"","reasoning_content":"Hm."}])");
  }
  WrittenResponse written(false);
  written.write({"Text"}).end({Finish::Reason::context});
  EXPECT_EQ(written.whole()["status"], "incomplete");
  EXPECT_EQ(written.whole()["output"][0]["status"], "incomplete");
}

TEST(ResponseWriter, WhatIsKept) {
  WrittenResponse written(false);
  EXPECT_EQ(Json::parse(written.begun)["status"], "in_progress");
  written.write(answer_events).end();
  EXPECT_EQ(written.kept.id, "resp_1");
  EXPECT_EQ(Json::parse(written.kept.json), written.whole());
  ASSERT_EQ(written.kept.output.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(Json::parse(written.kept.output[i].json), written.whole()["output"][i]);
    EXPECT_EQ(written.kept.output[i].id, written.whole()["output"][i]["id"]);
  }
  Json messages = Json::parse(written.kept_messages.dump());
  EXPECT_EQ(messages[0]["tool_calls"][0]["id"], written.whole()["output"][2]["call_id"]);
  messages[0]["tool_calls"][0].erase("id");
  EXPECT_EQ(messages, Json::parse(R"([{"role":"assistant","content":"Text more","reasoning_content":"Hm.",
    "tool_calls":[{"type":"function","function":{"name":"f","arguments":{"a":1}}}]}])"));
  EXPECT_FALSE(written.gone);
  written.destroy();
  EXPECT_TRUE(written.gone);
}

TEST(ResponseWriter, ThoughtsForTheClientToKeep) {
  WrittenResponse written(false, true);
  written.write(answer_events).end();
  EXPECT_EQ(written.whole()["output"][0]["encrypted_content"], wrapped_thought("Hm."));
}

TEST(ResponseWriter, LogProbabilities) {
  for (const bool stream : {false, true}) {
    WrittenResponse written(stream, false, true);
    written.write({"<think>", "Hm.", "</think>", "One", " two"}).end();
    const Json response = stream ? written.events().back().data["response"] : written.whole();
    const Json& logprobs = response["output"][1]["content"][0]["logprobs"];
    std::vector<std::string> tokens;
    for (const Json& one : logprobs) tokens.push_back(one["token"]);
    EXPECT_EQ(std::vector<std::string>(tokens.end() - 2, tokens.end()), (std::vector<std::string>{"One", " two"}));
    EXPECT_EQ(logprobs.back()["logprob"], -1);
    EXPECT_EQ(logprobs.back()["bytes"], Json::parse("[32,116,119,111]"));
    EXPECT_EQ(logprobs.back()["top_logprobs"], Json::array());
    if (!stream) continue;
    Json of_deltas = Json::array();
    for (const Event& event : written.events())
      if (event.name == "response.output_text.delta")
        for (const Json& one : event.data["logprobs"]) of_deltas.push_back(one);
    EXPECT_EQ(of_deltas, logprobs);
  }
}

TEST(ResponseWriter, AnAnswerOfNothing) {
  WrittenResponse written(true);
  written.end();
  const std::vector<Event> events = written.events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[2].name, "response.completed");
  EXPECT_EQ(events[2].data["response"]["output"], Json::array());
}

TEST(ResponseWriter, BytesThatAreNoText) {
  WrittenResponse written(true);
  written.write({"a\xff\"\n", "b"}).end();  // events_in() reads strictly
  EXPECT_EQ(written.events().back().data["response"]["output"][0]["content"][0]["text"], "a\xef\xbf\xbd\"\nb");
}

TEST(ResponseWriter, FailuresInAStream) {
  WrittenResponse written(true);
  written.write({"Text"});
  written.fail(server_fault("the device is gone"));
  const std::vector<Event> events = written.events();
  ASSERT_GE(events.size(), 2u);
  const Event &error = events[events.size() - 2], &failed = events.back();
  EXPECT_EQ(error.name, "error");
  EXPECT_EQ(error.data["message"], "the device is gone");
  EXPECT_EQ(error.data["code"], "server_error");
  EXPECT_EQ(error.data["param"], nullptr);
  EXPECT_EQ(failed.name, "response.failed");
  EXPECT_EQ(failed.data["response"]["status"], "failed");
  EXPECT_EQ(failed.data["response"]["error"], Json::parse(R"({"code":"server_error","message":"the device is gone"})"));
  EXPECT_EQ(failed.data["response"]["output"][0]["status"], "incomplete");
  EXPECT_TRUE(written.recorded().ended());
  EXPECT_EQ(written.kept.id, "");  // it cannot be continued
}

TEST(ResponseWriter, FailuresOfAWholeResponse) {
  WrittenResponse written(false);
  written.write({"Text"});
  written.fail(server_fault("the device is gone"));
  EXPECT_EQ(written.recorded().status(), 500u);
  EXPECT_EQ(written.whole()["error"]["message"], "the device is gone");
}

TEST(ResponseWriter, Cancelled) {
  for (const bool stream : {false, true}) {
    WrittenResponse written(stream);
    written.write({"Text"});
    written.fail(cancelled_by_request());
    const Json response = stream ? written.events().back().data["response"] : written.whole();
    if (stream) {
      EXPECT_EQ(written.events().back().name, "response.incomplete");
    }
    EXPECT_EQ(written.recorded().status(), 200u);
    EXPECT_TRUE(written.recorded().ended());
    EXPECT_EQ(response["status"], "cancelled");
    EXPECT_EQ(response["output"][0]["content"][0]["text"], "Text");
    EXPECT_EQ(written.kept.id, "resp_1");
  }
}

}  // namespace
}  // namespace heddle::server
