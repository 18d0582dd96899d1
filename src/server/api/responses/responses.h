// OpenAI's responses: POST /v1/responses, and what clients do with a response that is kept.
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/chat/chat.h"
#include "server/api/json.h"
#include "server/api/responses/response_items.h"
#include "server/api/responses/response_store.h"

namespace heddle::server {

struct Call;
class Exchange;

struct ResponsesRequest : ChatRequest {
  bool stream = false, store = true;
  bool background = false;      // it is generated to its end even if the client disconnects
  bool wraps_thoughts = false;  // "reasoning.encrypted_content" is included
  bool truncates = false;       // old messages are left out where the context is too short
  std::string instructions;
  ResponseInput input;              // of this request, without what came before
  nlohmann::ordered_json messages;  // the whole conversation without the instructions
  nlohmann::ordered_json response;  // members of the response that say what was asked for
};

// From the body of a request. Throws an ApiError of status 400 that names the field.
ResponsesRequest read_response(std::string_view body, const RequestRules& rules, const ResponseStore& store);

// Tools and tool_choice. `ordered`: the body with its keys in their order. `response` gets what was asked for.
ToolUse read_response_tools(Fields& fields, const RequestRules& rules, const nlohmann::ordered_json& ordered,
                            nlohmann::ordered_json& response);

// The messages of the prompt, as JSON. Instructions and system messages at the beginning are one message, because many
// templates take only one.
std::string prompt_messages(const std::string& instructions, const nlohmann::ordered_json& messages);

// Without the oldest messages: at least `count` of them, but never those of the system, nor the last one, nor the call
// that it is a result of. What is left begins with a message of the user, as templates want it.
nlohmann::ordered_json without_oldest(const nlohmann::ordered_json& messages, size_t count);

// A response as one document, or as a stream of events.
class ResponseWriter : public AnswerWriter {
 public:
  struct Options {
    std::string id;
    int64_t created = 0;
    std::string model;
    bool stream = false, wraps_thoughts = false;
    std::shared_ptr<EventLog> events = nullptr;  // gets all events; null: the response is not in the background
    std::function<size_t(std::string_view text)> count_tokens;
    // Gets the response as it is when it begins, and as it is in the end.
    std::function<void(const std::string& json)> on_begin;
    std::function<void(StoredResponse stored, nlohmann::ordered_json messages)> on_done;  // the output, as messages
    std::function<void()> on_gone;  // last of all, whether or not it has ended
  };
  ResponseWriter(Exchange& exchange, Options options, nlohmann::ordered_json asked, const GenerationRequest& request,
                 const ChatReply& reply);
  ~ResponseWriter() override;

  void on_accepted() override;
  void on_end(const Usage& usage, std::string_view trace) override;
  void on_error(const ApiError& error) override;

 private:
  enum class Kind { none, message, thought, call };
  void on_content(std::string_view text) override;
  void on_reasoning(std::string_view text) override;
  void on_call(const std::string& id, const std::string& name) override;
  void on_arguments(std::string_view text) override;
  void on_call_end() override;
  void on_answer_end(const AnswerEnd& end) override;
  void on_logprobs(std::vector<TokenLogprobs> logprobs) override;

  void open(Kind kind, nlohmann::ordered_json item, std::string_view delta_event);
  void close(std::string_view status);
  void close_message();
  void close_thought();
  void close_call(std::string_view status);
  void write_delta(std::string_view text);
  bool has_events() const { return options_.stream || options_.events; }
  void write_event(std::string_view type, nlohmann::ordered_json members);
  void write(std::string event);
  nlohmann::ordered_json part(std::string text) const;  // of the open item
  std::string json() const;                             // of the response as it is now
  void end_response(std::string_view event);

  Exchange& exchange_;
  const Options options_;
  nlohmann::ordered_json response_;  // its output is filled in the end
  nlohmann::ordered_json output_ = nlohmann::ordered_json::array();
  ItemMessages messages_;
  uint64_t sequence_ = 0;  // of the next event
  size_t thought_tokens_ = 0;

  // The item that is being written.
  Kind kind_ = Kind::none;
  nlohmann::ordered_json item_;
  std::string text_;                         // so far: of the message, the thought or the arguments
  std::string delta_head_;                   // of its events
  std::vector<TokenLogprobs> new_logprobs_;  // of text that is still to come
  std::vector<TokenLogprobs> logprobs_;
};

constexpr std::string_view responses_path = "/v1/responses/";
void create_response(const Call& call);
void count_response_tokens(const Call& call);
void show_response(const Call& call);  // with its input_items
void delete_response(const Call& call);
void cancel_response(const Call& call);

}  // namespace heddle::server
