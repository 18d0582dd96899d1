// Items of OpenAI's responses and the messages of a chat, which say the same in different ways: a thought, a text and
// calls that follow each other are one message.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/json.h"
#include "server/api/responses/response_store.h"

namespace heddle::server {

// Messages as chat::prepare takes them, made of items one after the other.
class ItemMessages {
 public:
  void add_text(std::string role, std::string text);
  void add_thought(std::string text);
  void add_call(std::string call_id, std::string name, nlohmann::ordered_json arguments);
  void add_result(std::string call_id, std::string text);
  nlohmann::ordered_json take();  // the list

 private:
  nlohmann::ordered_json& reply(bool begins);  // the assistant's message that the next item belongs to
  nlohmann::ordered_json list_ = nlohmann::ordered_json::array();
};

// The input of a request. `ordered`: the same with the keys in the order of the body. References are looked up in the
// store. Throws an ApiError that names the place.
struct ResponseInput {
  std::vector<ResponseItem> items;  // each with an id
  nlohmann::ordered_json messages;
};
ResponseInput read_response_input(const Fields& body, const Json& input, const nlohmann::ordered_json& ordered,
                                  const ResponseStore& store);

// A thought that a client keeps for the server and sends back with the next request. It can read it elsewhere in the
// response, so that it is wrapped, not encrypted.
std::string wrapped_thought(std::string_view text);
std::optional<std::string> unwrapped_thought(std::string_view wrapped);  // nothing: it is not of this server

}  // namespace heddle::server
