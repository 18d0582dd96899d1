// Messages with thoughts and calls, as documents and as events.
#include <gtest/gtest.h>

#include "chat/tools.h"
#include "server/api/anthropic/anthropic.h"
#include "tests/server/api/anthropic/message_stream.h"
#include "tests/server/api/writer_fixture.h"

namespace heddle::server {
namespace {

ChatReply message_reply() {
  auto format = std::make_shared<chat::ChatFormat>();
  format->thought = {"<think>", "</think>"};
  format->calls = chat::generic_call_format();
  return {format, std::make_shared<chat::Tools>(chat::Tools{{"f", nlohmann::ordered_json::object()}})};
}

const std::vector<std::string> message_pieces{"<thi",
                                              "nk>Hm",
                                              ".</think>",
                                              "\n",
                                              "\nText ",
                                              "two",
                                              "\n",
                                              "<tool_call>{\"name\": \"f\", \"argu",
                                              "ments\": {\"z\": ",
                                              "1, \"a\": 2}}</tool_call>"};

// The response to these pieces of text.
struct WrittenMessage {
  WrittenMessage(MessageOptions options, const std::vector<std::string>& pieces, Finish finish = stopped,
                 bool accepted = true)
      : exchange(Exchange::open(std::make_shared<Traffic>(nullptr, false), {}, recorded.responder(), "")) {
    GenerationRequest request;
    request.prompts = {std::vector<text::TokenId>(9)};
    writer.emplace(*exchange, MessageHead{"msg_1", "m"}, options, request, message_reply());
    if (accepted) writer->on_accepted();
    for (const std::string& piece : pieces) writer->on_text(0, {.text = piece});
    if (!accepted) return;
    writer->on_finish(0, finish);
    writer->on_end({.prompt = 9, .completion = 5, .cached = 4}, "");
  }
  Json whole() const { return strictly(recorded.response().body); }
  test::MessageStream stream() const { return test::read_message_stream(recorded.text()); }

  test::Recorded recorded;
  std::shared_ptr<Exchange> exchange;
  std::optional<MessageWriter> writer;
};

Json without_call_ids(Json message) {
  for (Json& block : message["content"])
    if (block["type"] == "tool_use") {
      EXPECT_TRUE(block["id"].get<std::string>().starts_with("call_"));
      block["id"] = "";
    }
  return message;
}

TEST(MessageWriter, Documents) {
  const Json message = without_call_ids(WrittenMessage({}, message_pieces).whole());
  EXPECT_EQ(message, Json::parse(R"({"id":"msg_1","type":"message","role":"assistant","model":"m","content":[
      {"type":"thinking","thinking":"Hm.","signature":"heddle."},
      {"type":"text","text":"Text two","citations":null},
      {"type":"tool_use","id":"","name":"f","input":{"z":1,"a":2},"caller":{"type":"direct"}}],
    "stop_reason":"tool_use","stop_sequence":null,"stop_details":null,"container":null,"diagnostics":null,
    "usage":{"input_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":5,
      "output_tokens_details":null,"server_tool_use":null,"cache_creation":null,"inference_geo":null,
      "service_tier":null,"speed":null}})"));
}

TEST(MessageWriter, InputKeepsItsOrder) {
  EXPECT_NE(WrittenMessage({}, message_pieces).recorded.response().body.find(R"("input":{"z":1,"a":2})"),
            std::string::npos);
}

TEST(MessageWriter, Events) {
  const WrittenMessage written({.stream = true}, message_pieces);
  EXPECT_EQ(written.recorded.response().type, "text/event-stream");
  const test::MessageStream stream = written.stream();
  EXPECT_EQ(stream.types, (std::vector<std::string>{"message_start", "ping", "content_block_start",
                                                    "content_block_delta", "content_block_delta", "content_block_delta",
                                                    "content_block_stop",  // a thought and its signature
                                                    "content_block_start", "content_block_delta", "content_block_delta",
                                                    "content_block_stop",  // the text
                                                    "content_block_start", "content_block_delta", "content_block_delta",
                                                    "content_block_stop",  // the call
                                                    "message_delta", "message_stop"}));
  EXPECT_EQ(stream.deltas,
            (std::vector<std::string>{"Hm", ".", "heddle.", "Text", " two", "{\"z\": ", "1, \"a\": 2}"}));
  EXPECT_EQ(without_call_ids(stream.message), without_call_ids(WrittenMessage({}, message_pieces).whole()));
}

TEST(MessageWriter, TheFirstEventHasTheWholePrompt) {
  const WrittenMessage written({.stream = true}, message_pieces);
  const Json first = test::message_events(written.recorded.text()).at(0);
  EXPECT_EQ(first["message"]["usage"]["input_tokens"], 9);
  EXPECT_EQ(first["message"]["usage"]["cache_read_input_tokens"], 0);
  EXPECT_EQ(first["message"]["usage"]["output_tokens"], 0);
}

TEST(MessageWriter, HiddenThoughtsAreInTheSignature) {
  const std::string signature = thinking_signature("Hm.");
  EXPECT_EQ(signature, "heddle.SG0u");
  const Json whole = WrittenMessage({.shows_thinking = false}, message_pieces).whole();
  EXPECT_EQ(whole["content"][0], (Json{{"type", "thinking"}, {"thinking", ""}, {"signature", signature}}));
  const test::MessageStream stream = WrittenMessage({true, false}, message_pieces).stream();
  EXPECT_EQ(stream.message["content"][0], whole["content"][0]);
  for (const std::string thought : {"", "a", "ab", "abc", "\xc3\xa9\n\"", "four"})
    EXPECT_EQ(hidden_thought(thinking_signature(thought)), thought);
  EXPECT_EQ(hidden_thought("SG0u"), "") << "of another server";
  EXPECT_EQ(hidden_thought("heddle.SG0u*"), "");
  EXPECT_EQ(hidden_thought("heddle./w=="), "") << "not UTF-8";
}

TEST(MessageWriter, Ends) {
  const auto end = [](const Finish& finish) {
    std::vector<Json> ends;
    for (const bool stream : {false, true}) {
      const WrittenMessage written({.stream = stream}, {"Text"}, finish);
      const Json message = stream ? written.stream().message : written.whole();
      ends.push_back({message.at("stop_reason"), message.at("stop_sequence")});
    }
    EXPECT_EQ(ends[0], ends[1]);
    return ends[0].dump();
  };
  EXPECT_EQ(end(stopped), R"(["end_turn",null])");
  EXPECT_EQ(end(too_long), R"(["max_tokens",null])");
  EXPECT_EQ(end({Finish::Reason::stop_string, "\"x\n"}), R"(["stop_sequence","\"x\n"])");
  EXPECT_EQ(end({Finish::Reason::context}), R"(["model_context_window_exceeded",null])");
}

TEST(MessageWriter, ACallThatIsCutOffHasNoInput) {
  const std::vector<std::string> pieces(message_pieces.begin() + 7, message_pieces.end() - 1);
  const Json whole = WrittenMessage({}, pieces, too_long).whole();
  EXPECT_EQ(whole["content"][0]["input"], Json::object());
  EXPECT_EQ(whole["stop_reason"], "max_tokens");
  const test::MessageStream stream = WrittenMessage({.stream = true}, pieces, too_long).stream();
  EXPECT_EQ(stream.deltas, std::vector<std::string>{"{\"z\": "});
  EXPECT_EQ(without_call_ids(stream.message), without_call_ids(whole));
}

TEST(MessageWriter, NoBlockForWhiteSpaceAlone) {
  EXPECT_EQ(WrittenMessage({}, {" \n", "\t"}).whole()["content"], Json::array());
  EXPECT_EQ(WrittenMessage({.stream = true}, {" \n", "\t"}).stream().message["content"], Json::array());
  EXPECT_EQ(WrittenMessage({}, {" ", "\n x \n"}).whole()["content"][0]["text"], " \n x \n");
  EXPECT_EQ(WrittenMessage({}, {}).whole()["content"], Json::array());
}

TEST(MessageWriter, Errors) {
  WrittenMessage begun({.stream = true}, {}, stopped, false);
  begun.writer->on_accepted();
  begun.writer->on_text(0, {.text = "Text"});
  begun.writer->on_error(server_fault("the device \"0\" has failed"));
  const test::MessageStream stream = begun.stream();
  EXPECT_EQ(stream.types.back(), "error");
  EXPECT_EQ(stream.error["error"], (Json{{"type", "api_error"}, {"message", "the device \"0\" has failed"}}));
  EXPECT_EQ(stream.error["request_id"], begun.exchange->id());
  EXPECT_TRUE(begun.recorded.ended());

  WrittenMessage refused({.stream = true}, {}, stopped, false);
  refused.writer->on_error(unavailable("full"));
  EXPECT_FALSE(refused.recorded.streamed());
  EXPECT_EQ(refused.recorded.status(), 503u);
}

TEST(MessageWriter, Traces) {
  for (const bool stream : {false, true}) {
    WrittenMessage written({.stream = stream}, {}, stopped, false);
    written.writer->on_accepted();
    written.writer->on_finish(0, stopped);
    written.writer->on_end({}, R"({"total_ms":1})");
    const Json found = stream ? test::message_events(written.recorded.text()).at(2) : written.whole();
    EXPECT_EQ(found.at("trace"), (Json{{"total_ms", 1}}));
  }
}

}  // namespace
}  // namespace heddle::server
