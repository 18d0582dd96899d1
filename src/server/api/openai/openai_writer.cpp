// Chunks are written straight into strings: each is a few hundred bytes, and a busy server writes 100 000 per second.
#include <cmath>
#include <iterator>

#include "server/api/json.h"
#include "server/api/openai/openai.h"
#include "server/api/timings.h"
#include "server/service/exchange.h"
#include "server/service/service.h"

namespace heddle::server {
namespace {

std::string document_head(const OpenAiHead& head, std::string_view object, bool is_event) {
  std::string out = is_event ? R"(data: {"id":)" : R"({"id":)";
  append_json(out, head.id);
  out.append(R"(,"object":")").append(object).append(R"(","created":)");
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

// As llama.cpp has them, of a response with one completion.
void append_timings(std::string& out, const Usage& usage) {
  if (usage.completions.size() == 1)
    out.append(R"(,"timings":)").append(timings_json(usage.prompt, usage.completions[0]));
}

void append_transfer(std::string& out, const Usage& usage) {
  if (!usage.kv_transfer.empty()) out.append(R"(,"kv_transfer_params":)").append(usage.kv_transfer);
}

void append_trace(std::string& out, std::string_view trace) {
  if (!trace.empty()) out.append(R"(,"trace":)").append(trace);
}

}  // namespace

OpenAiHead openai_head(std::string_view id_prefix, const ServedModel& model) {
  return {random_id(id_prefix), unix_time(), model.card().name};
}

OpenAiWriter::OpenAiWriter(Exchange& exchange, const OpenAiHead& head, const Shape& shape, StreamOptions options,
                           const GenerationRequest& request)
    : exchange_(exchange),
      options_(options),
      head_(document_head(head, options.stream ? shape.chunk_object : shape.object, options.stream)),
      tail_(options.include_usage ? "],\"usage\":null}\n\n" : "]}\n\n"),
      logprobs_(request.sampling.logprobs.has_value()),
      choices_(request.prompts.size() * request.n) {
  for (uint32_t i = 0; i < choices_.size(); ++i) {
    choices_[i].index = i;
    if (logprobs_) choices_[i].logprobs.emplace();
  }
}

void OpenAiWriter::on_accepted() {
  if (options_.stream) start();
}

void OpenAiWriter::on_text(uint32_t index, TextDelta delta) {
  add_part({.index = index, .text = std::move(delta.text)}, std::move(delta.logprobs));
}

void OpenAiWriter::add_part(Choice part, std::vector<TokenLogprobs> logprobs) {
  if (options_.stream) {
    if (!logprobs.empty()) part.logprobs = std::move(logprobs);
    return write_chunk(part);
  }
  Choice& choice = choices_[part.index];
  choice.text += part.text;
  if (logprobs_) std::move(logprobs.begin(), logprobs.end(), std::back_inserter(*choice.logprobs));
}

void OpenAiWriter::on_finish(uint32_t index, const Finish& finish) { end_choice(index, openai_name(finish), {}); }

void OpenAiWriter::end_choice(uint32_t index, std::string_view finish_reason, std::vector<TokenLogprobs> logprobs) {
  Choice part{.index = index, .finish_reason = finish_reason};
  if (!options_.stream) choices_[index].finish_reason = finish_reason;
  if (options_.stream || !logprobs.empty()) add_part(std::move(part), std::move(logprobs));
}

void OpenAiWriter::on_end(const Usage& usage, std::string_view trace) {
  std::string out = head_;
  if (!options_.stream) {
    size_t size = trace.size() + 320;
    for (const Choice& choice : choices_) size += choice.text.size() + 128;
    out.reserve(out.size() + size);
    for (const Choice& choice : choices_) {
      if (choice.index > 0) out += ",";
      append_choice(out, choice);
    }
    out += "]";
    append_usage(out, usage);
    append_timings(out, usage);
    append_transfer(out, usage);
    append_trace(out, trace);
    return exchange_.send_json(out += "}");
  }
  if (options_.include_usage || !trace.empty() || !usage.kv_transfer.empty()) {
    out += "]";
    if (options_.include_usage) append_usage(out, usage);
    if (options_.include_usage) append_timings(out, usage);
    append_transfer(out, usage);
    append_trace(out, trace);
    exchange_.write(out += "}\n\n");
  }
  exchange_.write("data: [DONE]\n\n");
  exchange_.finish();
}

void OpenAiWriter::on_error(const ApiError& error) {
  if (exchange_.started())
    exchange_.fail_stream(error, "data: " + openai_error(error) + "\n\n");
  else
    exchange_.fail(error);
}

void OpenAiWriter::start() {
  if (exchange_.started()) return;
  std::string first;
  for (const Choice& choice : choices_) {
    const size_t before = first.size();
    first += head_;
    append_first_chunk(first, choice.index);
    if (first.size() == before + head_.size())
      first.resize(before);
    else
      first += tail_;
  }
  exchange_.start_events(std::move(first));
}

void OpenAiWriter::write_chunk(const Choice& part) {
  start();
  std::string event;
  event.reserve(head_.size() + part.text.size() + part.members.size() + 128);
  event += head_;
  append_chunk(event, part);
  event += tail_;
  exchange_.write(std::move(event));
}

void append_index(std::string& out, uint32_t index) {
  out += R"({"index":)";
  append_json(out, uint64_t(index));
}

// JSON has no infinity: -9999 is what OpenAI's API has for "impossible". A float, because that is what the engine
// computes: more digits would mean nothing.
void append_logprob(std::string& out, double log_probability) {
  if (std::isfinite(log_probability))
    append_json(out, float(log_probability));
  else
    out += "-9999.0";
}

namespace {

// {"token":...,"logprob":...,"bytes":[...] without the closing brace.
void append_token(std::string& out, const TokenLogprob& token) {
  out += R"({"token":)";
  append_json(out, token.bytes);
  out += R"(,"logprob":)";
  append_logprob(out, token.log_probability);
  out += R"(,"bytes":)";
  append_json_list(out, token.bytes, [&out](char byte) { append_json(out, uint64_t(uint8_t(byte))); });
}

}  // namespace

void append_token_list(std::string& out, const std::vector<TokenLogprobs>& tokens) {
  append_json_list(out, tokens, [&out](const TokenLogprobs& one) {
    append_token(out, one.token);
    out += R"(,"top_logprobs":)";
    append_json_list(out, one.top, [&out](const TokenLogprob& top) {
      append_token(out, top);
      out += "}";
    });
    out += "}";
  });
}

}  // namespace heddle::server
