// A chat as every dialect sees it: the conversation, the tools and the thinking that a body is read into, the prompt
// that the model's template writes, and what the answer must be. How an answer is read again is in answers.h.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/tools.h"
#include "server/api/chat/answers.h"
#include "server/api/generation.h"
#include "server/service/service.h"

namespace heddle::server {

struct Call;
class PreparationTimer;

struct ToolUse {
  enum class Choice { automatic, required };  // required: at least one call
  // The tools for the prompt, a JSON list in the form of OpenAI's chats, keys in the order of the body; empty: none may
  // be called.
  std::string json;
  // Those that may be called: of the prompt those that ToolList::allow left, and those of ToolList::Place::messages.
  std::shared_ptr<const chat::Tools> tools;
  Choice choice = Choice::automatic;
  bool parallel = true;  // several calls in one answer

  explicit operator bool() const { return !json.empty(); }
};

// How much the model may think.
struct Thinking {
  std::string effort;                  // "none", "minimal", "low" ... "max"; empty: as the template does
  std::optional<uint32_t> max_tokens;  // of the thought
};

struct ChatRequest {
  std::string model;  // empty: absent
  // Messages in the form of OpenAI's chats: content a string or null, calls with arguments as objects, the thought of
  // an answer in reasoning_content. Tools and effort are filled from the members below.
  Conversation conversation;
  ToolUse tools;
  Thinking thinking;
  GenerationRequest generation;  // without the prompt
};

// Tools that a dialect reads one by one.
class ToolList {
 public:
  // {"type": "function", "function": {"name", "description", "parameters"}} as OpenAI's chats have it, keys in the
  // order of the body. `name_place`: of the name in the body. Throws an ApiError for a name that templates cannot
  // write, or that is there already. `where`: the tools of the prompt, or a message of the conversation describes it.
  enum class Place { prompt, messages };
  void add(const std::string& name_place, nlohmann::ordered_json tool, Place where = Place::prompt);
  bool has(std::string_view name) const { return chat::find_tool(tools_, name); }
  bool empty() const { return tools_.empty(); }
  void allow(const std::vector<std::string>& names);  // no others may be called; the prompt has all, and can be reused
  ToolUse use(ToolUse::Choice choice, bool parallel) &&;

 private:
  chat::Tools tools_;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::array();
};

// A conversation as the model reads it.
struct ChatPrompt {
  std::vector<text::TokenId> tokens;
  ChatReply reply;
};
// Throws an ApiError if the template refuses. `timer` may be null.
ChatPrompt render_chat(const Call& call, const ChatRequest& request, PreparationTimer* timer);
Conversation conversation_of(const ChatRequest& request);  // with its tools and effort

// Renders, and generates with the writer that `make` returns. The handler of a dialect is: read the body, call this.
using MakeChatWriter =
    std::function<std::unique_ptr<GenerationWriter>(const GenerationRequest& generation, const ChatReply& reply)>;
void generate_chat(const Call& call, ChatRequest request, PreparationTimer& timer, const MakeChatWriter& make);

}  // namespace heddle::server
