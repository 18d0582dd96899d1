// Anthropic's API: POST /v1/messages and /v1/messages/count_tokens, and its own form of the list of models and of
// errors.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "server/api/api_error.h"
#include "server/api/chat/chat.h"
#include "server/api/generation.h"

namespace heddle::server {

struct Call;
class Exchange;

// How the response is written.
struct MessageOptions {
  bool stream = false;         // as server-sent events
  bool shows_thinking = true;  // false: a thought is only in the signature of its block
};

struct MessageRequest : ChatRequest {
  MessageOptions options;
};

// From the body of a request. Throws an ApiError of status 400 that names the field.
MessageRequest read_create_message(std::string_view body, const RequestRules& rules);
MessageRequest read_count_tokens(std::string_view body, const RequestRules& rules);  // without the generation

// The signature of a thinking block. Clients send the block back as it was: the signature keeps a thought that they
// were not shown.
std::string thinking_signature(std::string_view hidden_thought);
std::string hidden_thought(std::string_view signature);  // empty: there is none in it

struct MessageHead {
  std::string id;  // "msg_..."
  std::string model;
};

// One message: as a document, or as events with at most one content block open at a time.
class MessageWriter : public AnswerWriter {
 public:
  MessageWriter(Exchange& exchange, MessageHead head, MessageOptions options, const GenerationRequest& request,
                const ChatReply& reply);

  void on_accepted() override;
  void on_end(const Usage& usage, std::string_view trace) override;
  void on_error(const ApiError& error) override;

 protected:
  void on_content(std::string_view text) override;
  void on_reasoning(std::string_view text) override;
  void on_call(const std::string& id, const std::string& name) override;
  void on_arguments(std::string_view text) override;
  void on_call_end() override { end_block(); }
  void on_answer_end(const AnswerEnd& end) override;

 private:
  enum class Block { none, thinking, text, tool_use };
  void begin_block(Block kind, std::string start);  // `start`: its JSON, without the closing brace
  void write_delta(std::string_view type, std::string_view member, std::string_view text);
  void end_block();
  void append_block(std::string& out) const;  // the open one, whole
  void write_event(std::string_view type, std::string_view members);
  std::string message(std::string_view content, std::string_view end, const Usage& usage) const;

  Exchange& exchange_;
  const MessageHead head_;
  const MessageOptions options_;
  const size_t prompt_tokens_;
  Block block_ = Block::none;
  std::string start_, text_;  // of the open block
  std::string space_;         // white space that is text if text follows
  std::string content_;       // the blocks before, in a document
  size_t index_ = 0;          // of the open block, or the next
  std::string end_;           // stop_reason and stop_sequence, once they are known
};

// {"type":"error","error":{"type":...,"message":...},"request_id":...}
std::string anthropic_error(const ApiError& error);

void create_message(const Call& call);
void count_message_tokens(const Call& call);
void list_anthropic_models(const Call& call);
void show_anthropic_model(const Call& call);

}  // namespace heddle::server
