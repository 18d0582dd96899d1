// A stream of Anthropic's API, checked event by event: their order, one content block open at a time, indices, and
// deltas that fit the block. What it adds up to is the message that a response without a stream would be.
#pragma once
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/utf8.h"

namespace heddle::test {

struct MessageStream {
  std::vector<std::string> types;   // of all events
  Json message;                     // that they add up to
  Json error;                       // the error event, which is the last then
  std::vector<std::string> deltas;  // their texts
};

inline std::vector<Json> message_events(const std::string& text) {
  EXPECT_TRUE(is_utf8(text));
  std::vector<Json> events;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find("\n\n", at), line = text.find('\n', at);
    if (end == text.npos || text.compare(at, 7, "event: ") != 0 || text.compare(line, 7, "\ndata: ") != 0) {
      ADD_FAILURE() << "not an event: " << text.substr(at);
      break;
    }
    events.push_back(parse_json(std::string_view(text).substr(line + 7, end - line - 7), "an event"));
    EXPECT_EQ(events.back().at("type"), text.substr(at + 7, line - at - 7)) << "the name of the event";
    at = end + 2;
  }
  return events;
}

inline MessageStream read_message_stream(const std::string& text) {
  MessageStream stream;
  enum class State { before, between, in_block, ended, stopped } state = State::before;
  std::string input;  // of a tool_use block
  for (const Json& event : message_events(text)) {
    const std::string type = event.at("type");
    SCOPED_TRACE(event.dump());
    stream.types.push_back(type);
    EXPECT_TRUE(stream.error.is_null() && state != State::stopped) << "an event behind the last one";
    Json& content = stream.message["content"];
    if (type == "message_start") {
      EXPECT_EQ(state, State::before);
      stream.message = event.at("message");
      EXPECT_EQ(stream.message.at("content"), Json::array());
      EXPECT_EQ(stream.message.at("stop_reason"), nullptr);
      EXPECT_EQ(stream.message.at("stop_sequence"), nullptr);
      state = State::between;
    } else if (type == "content_block_start") {
      EXPECT_EQ(state, State::between);
      EXPECT_EQ(event.at("index"), content.size());
      content.push_back(event.at("content_block"));
      input.clear();
      state = State::in_block;
    } else if (type == "content_block_delta") {
      EXPECT_EQ(state, State::in_block);
      EXPECT_EQ(event.at("index"), content.size() - 1);
      Json& block = content.back();
      const Json& delta = event.at("delta");
      const std::string kind = delta.at("type");
      const auto add = [&](const char* of, const char* member) {
        EXPECT_EQ(block.at("type"), of);
        EXPECT_EQ(block.value("signature", ""), "") << "the signature comes last";
        block[member] = block.at(member).get<std::string>() + delta.at(member).get<std::string>();
        stream.deltas.push_back(delta.at(member));
      };
      if (kind == "text_delta") {
        add("text", "text");
      } else if (kind == "thinking_delta") {
        add("thinking", "thinking");
      } else if (kind == "signature_delta") {
        add("thinking", "signature");
      } else {
        EXPECT_EQ(kind, "input_json_delta");
        EXPECT_EQ(block.at("type"), "tool_use");
        input += delta.at("partial_json").get<std::string>();
        stream.deltas.push_back(delta.at("partial_json"));
      }
    } else if (type == "content_block_stop") {
      EXPECT_EQ(state, State::in_block);
      EXPECT_EQ(event.at("index"), content.size() - 1);
      Json& block = content.back();
      EXPECT_NE(block.value("text", "x"), "");
      EXPECT_NE(block.value("signature", "x"), "");
      if (block.at("type") == "tool_use") {
        EXPECT_EQ(block.at("input"), Json::object()) << "it comes in deltas";
        if (Json::accept(input)) block["input"] = Json::parse(input);
      }
      state = State::between;
    } else if (type == "message_delta") {
      EXPECT_EQ(state, State::between);
      stream.message.update(event.at("delta"));
      stream.message["usage"].update(event.at("usage"));
      EXPECT_TRUE(event.at("delta").at("stop_reason").is_string());
      state = State::ended;
    } else if (type == "message_stop") {
      EXPECT_EQ(state, State::ended);
      state = State::stopped;
    } else if (type == "error") {
      stream.error = event;
    } else {
      EXPECT_EQ(type, "ping");
      EXPECT_NE(state, State::before);
    }
  }
  EXPECT_TRUE(!stream.error.is_null() || state == State::stopped) << "the end is missing";
  return stream;
}

}  // namespace heddle::test
