// Events are few but for the deltas, which are written straight into strings.
#include <iterator>

#include "server/api/openai/openai.h"
#include "server/api/responses/responses.h"
#include "server/service/exchange.h"
#include "server/service/service.h"

namespace heddle::server {
namespace {

using Ordered = nlohmann::ordered_json;

std::string dumped(const Ordered& json) { return json.dump(-1, ' ', false, Ordered::error_handler_t::replace); }

Ordered token_list(const std::vector<TokenLogprobs>& logprobs) {
  std::string text;
  append_token_list(text, logprobs);
  return Ordered::parse(text);
}

// Every member in OpenAI's order; what is not known yet is null.
Ordered first_response(const ResponseWriter::Options& options, Ordered asked) {
  Ordered response{{"id", options.id},
                   {"object", "response"},
                   {"created_at", options.created},
                   {"status", "in_progress"},
                   {"background", options.events != nullptr},
                   {"completed_at", nullptr},
                   {"error", nullptr},
                   {"incomplete_details", nullptr}};
  for (auto& [name, value] : asked.items()) response[name] = std::move(value);
  response["model"] = options.model;
  response["output"] = Ordered::array();
  response["service_tier"] = "default";
  response["access_programs"] = nullptr;
  response["usage"] = nullptr;
  return response;
}

}  // namespace

ResponseWriter::ResponseWriter(Exchange& exchange, Options options, Ordered asked, const GenerationRequest& request,
                               const ChatReply& reply)
    : AnswerWriter(request, reply),
      exchange_(exchange),
      options_(std::move(options)),
      response_(first_response(options_, std::move(asked))) {}

ResponseWriter::~ResponseWriter() {
  if (options_.events) options_.events->finish();
  if (options_.on_gone) options_.on_gone();
}

void ResponseWriter::on_accepted() {
  if (options_.on_begin) options_.on_begin(json());
  if (options_.stream)
    exchange_.start_events("");
  else if (options_.events)
    exchange_.send_early({.body = json()});
  write_event("response.created", {{"response", response_}});
  write_event("response.in_progress", {{"response", response_}});
}

std::string ResponseWriter::json() const { return dumped(response_); }

void ResponseWriter::write_event(std::string_view type, Ordered members) {
  if (!has_events()) return;
  Ordered data{{"type", type}};
  data.update(members);
  data["sequence_number"] = sequence_++;
  write(fmt::format("event: {}\ndata: {}\n\n", type, dumped(data)));
}

void ResponseWriter::write(std::string event) {
  if (options_.events) options_.events->append(event);
  if (options_.stream) exchange_.write(std::move(event));
}

void ResponseWriter::open(Kind kind, Ordered item, std::string_view delta_event) {
  close("completed");
  kind_ = kind;
  item_ = std::move(item);
  text_.clear();
  logprobs_.clear();
  write_event("response.output_item.added", {{"output_index", output_.size()}, {"item", item_}});
  const bool has_parts = kind != Kind::call;
  const std::string& id = item_["id"].get_ref<const std::string&>();
  if (has_parts)
    write_event("response.content_part.added",
                {{"item_id", id}, {"output_index", output_.size()}, {"content_index", 0}, {"part", part("")}});
  delta_head_ = fmt::format(R"(event: {0}
data: {{"type":"{0}","item_id":"{1}","output_index":{2},{3}"delta":)",
                            delta_event, id, output_.size(), has_parts ? R"("content_index":0,)" : "");
}

Ordered ResponseWriter::part(std::string text) const {
  if (kind_ == Kind::thought) return {{"type", "reasoning_text"}, {"text", std::move(text)}};
  return {{"type", "output_text"},
          {"annotations", Ordered::array()},
          {"logprobs", token_list(logprobs_)},
          {"text", std::move(text)}};
}

void ResponseWriter::write_delta(std::string_view text) {
  text_ += text;
  std::vector<TokenLogprobs> logprobs = std::exchange(new_logprobs_, {});
  if (kind_ != Kind::message) logprobs.clear();
  if (has_events()) {
    std::string event = delta_head_;
    event.reserve(event.size() + text.size() + 64);
    append_json(event, text);
    if (kind_ == Kind::message) {
      event += R"(,"logprobs":)";
      append_token_list(event, logprobs);
    }
    event += R"(,"sequence_number":)";
    append_json(event, sequence_++);
    write(event += "}\n\n");
  }
  std::move(logprobs.begin(), logprobs.end(), std::back_inserter(logprobs_));
}

void ResponseWriter::on_logprobs(std::vector<TokenLogprobs> logprobs) {
  std::move(logprobs.begin(), logprobs.end(), std::back_inserter(new_logprobs_));
}

void ResponseWriter::on_content(std::string_view text) {
  if (kind_ != Kind::message)
    open(Kind::message,
         {{"id", random_id("msg_")},
          {"type", "message"},
          {"status", "in_progress"},
          {"role", "assistant"},
          {"content", Ordered::array()}},
         "response.output_text.delta");
  write_delta(text);
}

void ResponseWriter::on_reasoning(std::string_view text) {
  if (kind_ != Kind::thought)
    open(Kind::thought,
         {{"id", random_id("rs_")},
          {"type", "reasoning"},
          {"status", "in_progress"},
          {"summary", Ordered::array()},
          {"content", Ordered::array()}},
         "response.reasoning_text.delta");
  write_delta(text);
}

void ResponseWriter::on_call(const std::string& id, const std::string& name) {
  open(Kind::call,
       {{"id", random_id("fc_")},
        {"type", "function_call"},
        {"status", "in_progress"},
        {"arguments", ""},
        {"call_id", id},
        {"name", name}},
       "response.function_call_arguments.delta");
}

void ResponseWriter::on_arguments(std::string_view text) { write_delta(text); }

// A call that is cut off ends too.
void ResponseWriter::on_call_end() { close(Ordered::accept(text_) ? "completed" : "incomplete"); }

// `status`: of the item.
void ResponseWriter::close(std::string_view status) {
  if (kind_ == Kind::none) return;
  if (kind_ == Kind::message) close_message();
  if (kind_ == Kind::thought) close_thought();
  if (kind_ == Kind::call) close_call(status);
  item_["status"] = status;
  write_event("response.output_item.done", {{"output_index", output_.size()}, {"item", item_}});
  output_.push_back(std::move(item_));
  kind_ = Kind::none;
}

void ResponseWriter::close_message() {
  const Ordered place{{"item_id", item_["id"]}, {"output_index", output_.size()}, {"content_index", 0}};
  Ordered done = place, part_done = place;
  done["text"] = text_;
  done["logprobs"] = token_list(logprobs_);
  write_event("response.output_text.done", std::move(done));
  part_done["part"] = part(text_);
  write_event("response.content_part.done", part_done);
  item_["content"].push_back(std::move(part_done["part"]));
  messages_.add_text("assistant", text_);
}

void ResponseWriter::close_thought() {
  const Ordered place{{"item_id", item_["id"]}, {"output_index", output_.size()}, {"content_index", 0}};
  Ordered done = place, part_done = place;
  done["text"] = text_;
  write_event("response.reasoning_text.done", std::move(done));
  part_done["part"] = part(text_);
  write_event("response.content_part.done", part_done);
  item_["content"].push_back(std::move(part_done["part"]));
  if (options_.wraps_thoughts) item_["encrypted_content"] = wrapped_thought(text_);
  if (options_.count_tokens) thought_tokens_ += options_.count_tokens(text_);
  messages_.add_thought(text_);
}

void ResponseWriter::close_call(std::string_view status) {
  write_event(
      "response.function_call_arguments.done",
      {{"item_id", item_["id"]}, {"output_index", output_.size()}, {"name", item_["name"]}, {"arguments", text_}});
  item_["arguments"] = text_;
  Ordered arguments = Ordered::parse(text_, nullptr, false);
  if (status == "completed" && arguments.is_object())  // what is cut off cannot be continued
    messages_.add_call(item_["call_id"], item_["name"], std::move(arguments));
}

void ResponseWriter::on_answer_end(const AnswerEnd& end) {
  close(end.is_cut() ? "incomplete" : "completed");
  response_["status"] = end.is_cut() ? "incomplete" : "completed";
  if (end.is_cut()) response_["incomplete_details"] = {{"reason", "max_output_tokens"}};
}

void ResponseWriter::on_end(const Usage& usage, std::string_view trace) {
  response_["usage"] = {
      {"input_tokens", usage.prompt},
      {"input_tokens_details", {{"cached_tokens", usage.cached}, {"cache_write_tokens", 0}}},
      {"output_tokens", usage.completion},
      {"output_tokens_details", {{"reasoning_tokens", std::min<uint64_t>(thought_tokens_, usage.completion)}}},
      {"total_tokens", usage.prompt + usage.completion}};
  if (!trace.empty()) response_["trace"] = Ordered::parse(trace);
  end_response(response_["status"] == "completed" ? "response.completed" : "response.incomplete");
  if (has_events()) exchange_.finish();
}

// Fills the output in, and writes the last event, or the document.
void ResponseWriter::end_response(std::string_view event) {
  if (response_["status"] == "completed") response_["completed_at"] = unix_time();
  response_["output"] = output_;
  // a client that comes back is told why its response has failed
  if (options_.on_done && (response_["status"] != "failed" || options_.events)) {
    StoredResponse stored{.id = options_.id, .json = json(), .events = options_.events};
    if (options_.events) stored.event_bytes = options_.events->bytes() + stored.json.size();  // the last event has it
    for (const Ordered& item : output_) stored.output.push_back({item["id"], dumped(item)});
    options_.on_done(std::move(stored), messages_.take());
  }
  if (has_events())
    write_event(event, {{"response", response_}});
  else
    exchange_.send_json(json());
  if (options_.events) options_.events->finish();
}

void ResponseWriter::on_error(const ApiError& error) {
  const bool is_cancelled = error.status == 409;
  if (!exchange_.started() && !is_cancelled) return exchange_.fail(error);
  close("incomplete");
  if (is_cancelled) {
    response_["status"] = "cancelled";
    end_response("response.incomplete");
    return exchange_.fail_stream(error, "");
  }
  const Ordered code = error.code.empty() ? Ordered("server_error") : Ordered(error.code);
  write_event(
      "error",
      {{"code", code}, {"message", error.what()}, {"param", error.param.empty() ? Ordered() : Ordered(error.param)}});
  response_["status"] = "failed";
  response_["error"] = {{"code", code}, {"message", error.what()}};
  end_response("response.failed");
  exchange_.fail_stream(error, "");
}

}  // namespace heddle::server
