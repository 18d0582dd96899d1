// Written directly: a chunk of a stream is a few hundred bytes, and there may be 20 000 of them a second.
#include "server/api/replies.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "server/api/json_text.h"
#include "server/api/reply_logprobs.h"

namespace heddle::server {
namespace {

static_assert(std::endian::native == std::endian::little, "base64 of embeddings is little-endian");

constexpr std::string_view null = "null";

struct Kind {
  std::string_view object;
  bool is_chat;
};
constexpr Kind chat{"chat.completion", true}, chat_piece{"chat.completion.chunk", true},
    text{"text_completion", false};  // a piece of it has the same name

// Up to the choices.
std::string begin(const ReplyHead& head, const Kind& kind, size_t size) {
  std::string out;
  out.reserve(size + 160);
  out += R"({"id":)";
  append_json(out, head.id);
  out.append(R"(,"object":")").append(kind.object).append(R"(","created":)");
  append_json(out, head.created);
  out += R"(,"model":)";
  append_json(out, head.model);
  return out += R"(,"choices":[)";
}

void append_usage(std::string& out, const Usage& usage) {
  out += R"(,"usage":{"prompt_tokens":)";
  append_json(out, usage.prompt);
  out += R"(,"completion_tokens":)";
  append_json(out, usage.completion);
  out += R"(,"total_tokens":)";
  append_json(out, usage.prompt + usage.completion);
  out += R"(,"prompt_tokens_details":{"cached_tokens":)";
  append_json(out, usage.cached);
  out += "}}";
}

std::string finish(std::string out, std::string_view trace) {
  if (!trace.empty()) out.append(R"(,"trace":)").append(trace);
  return out += "}";
}
std::string finish_chunk(std::string out, bool usage_comes) { return out += usage_comes ? R"(],"usage":null})" : "]}"; }

void append_index(std::string& out, uint32_t index) {
  out += R"({"index":)";
  append_json(out, uint64_t(index));
}
// What stands behind the text of a choice. `offset`: see completion_chunk().
void append_end(std::string& out, const Choice& choice, const Kind& kind, size_t offset) {
  out += R"(,"logprobs":)";
  if (!choice.reports)
    out += null;
  else if (kind.is_chat)
    append_chat_logprobs(out, *choice.reports);
  else
    append_completion_logprobs(out, *choice.reports, choice.text, offset);
  out += R"(,"finish_reason":)";
  if (choice.finish.empty())
    out += null;
  else
    append_json(out, choice.finish);
  out += "}";
}

void append_completion_choice(std::string& out, const Choice& choice, size_t offset) {
  append_index(out, choice.index);
  out += R"(,"text":)";
  append_json(out, choice.text);
  append_end(out, choice, text, offset);
}
void append_chat_choice(std::string& out, const Choice& choice) {
  append_index(out, choice.index);
  out += R"(,"message":{"role":"assistant","content":)";
  append_json(out, choice.text);
  out += R"(,"refusal":null})";
  append_end(out, choice, chat, 0);
}

std::string whole(const ReplyHead& head, const Kind& kind, std::span<const Choice> choices, const Usage& usage,
                  std::string_view trace) {
  size_t size = trace.size() + 160;
  for (const Choice& choice : choices) size += choice.text.size() + 100;
  std::string out = begin(head, kind, size);
  for (const Choice& choice : choices) {
    if (&choice != choices.data()) out += ",";
    if (kind.is_chat)
      append_chat_choice(out, choice);
    else
      append_completion_choice(out, choice, 0);
  }
  out += "]";
  append_usage(out, usage);
  return finish(std::move(out), trace);
}

std::string last_chunk(const ReplyHead& head, const Kind& kind, const Usage* usage, std::string_view trace) {
  std::string out = begin(head, kind, trace.size() + 160) + "]";
  if (usage) append_usage(out, *usage);
  return finish(std::move(out), trace);
}

void append_vector(std::string& out, const std::vector<float>& vector, bool as_base64) {
  if (as_base64) {
    const auto* bytes = reinterpret_cast<const char*>(vector.data());
    out.append("\"").append(base64({bytes, vector.size() * sizeof(float)})).append("\"");
    return;
  }
  out += "[";
  for (const float& value : vector) {
    if (&value != vector.data()) out += ",";
    append_json(out, value);
  }
  out += "]";
}

}  // namespace

std::string chat_completion(const ReplyHead& head, std::span<const Choice> choices, const Usage& usage,
                            std::string_view trace) {
  return whole(head, chat, choices, usage, trace);
}
std::string completion(const ReplyHead& head, std::span<const Choice> choices, const Usage& usage,
                       std::string_view trace) {
  return whole(head, text, choices, usage, trace);
}

std::string chat_role_chunk(const ReplyHead& head, uint32_t index, bool usage_comes) {
  std::string out = begin(head, chat_piece, 160);
  append_index(out, index);
  out += R"(,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null})";
  return finish_chunk(std::move(out), usage_comes);
}

std::string chat_chunk(const ReplyHead& head, const Choice& choice, bool usage_comes) {
  std::string out = begin(head, chat_piece, choice.text.size() + 120);
  append_index(out, choice.index);
  out += R"(,"delta":{)";
  if (!choice.text.empty() || choice.finish.empty()) {  // the end has nothing more to say
    out += R"("content":)";
    append_json(out, choice.text);
  }
  out += "}";
  append_end(out, choice, chat_piece, 0);
  return finish_chunk(std::move(out), usage_comes);
}

std::string completion_chunk(const ReplyHead& head, const Choice& choice, size_t offset, bool usage_comes) {
  std::string out = begin(head, text, choice.text.size() + 120);
  append_completion_choice(out, choice, offset);
  return finish_chunk(std::move(out), usage_comes);
}

std::string chat_last_chunk(const ReplyHead& head, const Usage* usage, std::string_view trace) {
  return last_chunk(head, chat_piece, usage, trace);
}
std::string completion_last_chunk(const ReplyHead& head, const Usage* usage, std::string_view trace) {
  return last_chunk(head, text, usage, trace);
}

std::string embeddings(std::string_view model, std::span<const std::vector<float>> vectors, bool base64,
                       uint64_t prompt_tokens) {
  std::string out = R"({"object":"list","data":[)";
  for (size_t i = 0; i < vectors.size(); ++i) {
    if (i > 0) out += ",";
    out += R"({"object":"embedding","index":)";
    append_json(out, uint64_t(i));
    out += R"(,"embedding":)";
    append_vector(out, vectors[i], base64);
    out += "}";
  }
  out += R"(],"model":)";
  append_json(out, model);
  out += R"(,"usage":{"prompt_tokens":)";
  append_json(out, prompt_tokens);
  out += R"(,"total_tokens":)";
  append_json(out, prompt_tokens);
  return out += "}}";
}

}  // namespace heddle::server
