// Handlers, the response, and what /props and /slots tell.
#include "server/api/llama_cpp/llama_completion.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "base/version.h"
#include "server/api/json.h"
#include "server/api/timings.h"
#include "server/api/tokenize.h"
#include "server/http/query.h"
#include "server/service/service_state.h"

namespace heddle::server {
namespace {

using Ordered = nlohmann::ordered_json;

std::string written(const Ordered& json) { return json.dump(-1, ' ', false, Ordered::error_handler_t::replace); }

std::string_view stop_type(const Finish& finish) {
  switch (finish.reason) {
    case Finish::Reason::end_token:
      return "eos";
    case Finish::Reason::stop_string:
      return "word";
    case Finish::Reason::max_tokens:
    case Finish::Reason::context:
      return "limit";
  }
  return "none";
}

// "generation_settings/seed" is found in the object of that name.
Ordered picked_fields(const Ordered& document, const std::vector<std::string>& paths) {
  Ordered picked = Ordered::object();
  for (const std::string& path : paths) {
    const Ordered* at = &document;
    for (size_t begin = 0; at && begin <= path.size();) {
      const size_t end = std::min(path.find('/', begin), path.size());
      const auto found = at->is_object() ? at->find(path.substr(begin, end - begin)) : at->end();
      at = at->is_object() && found != at->end() ? &*found : nullptr;
      begin = end + 1;
    }
    if (at) picked[path] = *at;
  }
  return picked;
}

double shown(float value) {  // 0.95, not 0.949999988
  return std::isfinite(value) ? std::stod(fmt::format("{}", value)) : 0;
}

void generate_llama(const Call& call, LlamaCompletionRequest request, std::vector<std::vector<text::TokenId>> prompts,
                    PreparationTimer& timer) {
  GenerationRequest& generation = request.generation;
  for (const auto& prompt : prompts)
    expect_fits(*call.model, generation.prompt_field, prompt.size(), generation.max_tokens);
  generation.prompts = std::move(prompts);
  timer.encoded();
  auto writer = std::make_unique<LlamaWriter>(*call.exchange, *call.model, request);
  generate(call, std::move(generation), std::move(writer), timer.times());
}

}  // namespace

std::string llama_error(const ApiError& error) {
  const std::string_view type = error.status == 401   ? "authentication_error"
                                : error.status == 403 ? "permission_error"
                                : error.status == 404 ? "not_found_error"
                                : error.status == 501 ? "not_supported_error"
                                : error.status == 503 ? "unavailable_error"
                                : error.status >= 500 ? "server_error"
                                                      : "invalid_request_error";
  return written({{"error", {{"code", error.status}, {"message", error.what()}, {"type", type}}}});
}

Ordered generation_settings(const GenerationRequest& request) {
  const engine::Sampling& s = request.sampling;
  Ordered bias = Ordered::array();
  for (const auto& [id, value] : s.logit_bias)
    bias.push_back({id, std::isfinite(value) ? Ordered(shown(value)) : Ordered(false)});
  return {{"seed", s.seed ? Ordered(*s.seed) : Ordered(4294967295u)},
          {"temperature", shown(s.temperature)},
          {"dynatemp_range", shown(s.dynamic_range)},
          {"dynatemp_exponent", shown(s.dynamic_exponent)},
          {"top_k", s.top_k},
          {"top_p", shown(s.top_p)},
          {"min_p", shown(s.min_p)},
          {"top_n_sigma", shown(s.top_n_sigma)},
          {"xtc_probability", shown(s.xtc_probability)},
          {"xtc_threshold", shown(s.xtc_threshold)},
          {"typical_p", shown(s.typical_p)},
          {"repeat_last_n", s.repetition_last_n},
          {"repeat_penalty", shown(s.repetition_penalty)},
          {"presence_penalty", shown(s.presence_penalty)},
          {"frequency_penalty", shown(s.frequency_penalty)},
          {"dry_multiplier", shown(s.dry_multiplier)},
          {"dry_base", shown(s.dry_base)},
          {"dry_allowed_length", s.dry_allowed_length},
          {"dry_penalty_last_n", s.dry_penalty_last_n},
          {"dry_sequence_breakers", request.dry_sequence_breakers},
          {"mirostat", s.mirostat},
          {"mirostat_tau", shown(s.mirostat_tau)},
          {"mirostat_eta", shown(s.mirostat_eta)},
          {"stop", request.stop_strings},
          {"max_tokens", request.max_tokens ? int64_t(*request.max_tokens) : -1},
          {"n_predict", request.max_tokens ? int64_t(*request.max_tokens) : -1},
          {"n_keep", 0},
          {"ignore_eos", request.ignore_eos},
          {"logit_bias", std::move(bias)},
          {"n_probs", s.logprobs.value_or(0)},
          {"min_keep", s.min_keep},
          {"grammar", request.constraint ? request.constraint->source.text : ""},
          {"samplers", s.order},
          {"post_sampling_probs", s.logprobs_after}};
}

LlamaWriter::LlamaWriter(Exchange& exchange, const ServedModel& model, const LlamaCompletionRequest& request)
    : exchange_(exchange),
      model_(model.card().name),
      stream_(request.stream),
      is_list_(request.is_list),
      return_tokens_(request.return_tokens),
      with_probs_(request.generation.sampling.logprobs.has_value()),
      after_sampling_(request.generation.sampling.logprobs_after),
      fields_(request.response_fields),
      settings_(generation_settings(request.generation)),
      n_(request.generation.n),
      answers_(request.generation.prompts.size() * request.generation.n) {
  settings_["stream"] = stream_;
  for (const auto& prompt : request.generation.prompts) {
    prompts_.push_back(model.tokenizer().decode(prompt, true));
    prompt_tokens_.push_back(prompt.size());
  }
}

void LlamaWriter::on_accepted() {
  if (stream_) exchange_.start_events("");
}

// With the tokens in the place of each.
Ordered LlamaWriter::probabilities(const std::vector<TokenLogprobs>& tokens) const {
  const auto one = [this](const TokenLogprob& token) {
    Ordered bytes = Ordered::array();
    for (const char byte : token.bytes) bytes.push_back(uint8_t(byte));
    Ordered out{{"id", token.id}, {"token", replace_invalid_utf8(token.bytes)}, {"bytes", std::move(bytes)}};
    const double value = token.log_probability;
    if (after_sampling_)
      out["prob"] = std::exp(value);
    else
      out["logprob"] = std::isfinite(value) ? value : -9999.0;
    return out;
  };
  Ordered list = Ordered::array();
  for (const TokenLogprobs& token : tokens) {
    Ordered out = one(token.token), top = Ordered::array();
    for (const TokenLogprob& other : token.top) top.push_back(one(other));
    out[after_sampling_ ? "top_probs" : "top_logprobs"] = std::move(top);
    list.push_back(std::move(out));
  }
  return list;
}

void LlamaWriter::on_text(uint32_t index, TextDelta delta) {
  Answer& answer = answers_[index];
  answer.generated += delta.tokens.size();
  answer.has_new_line |= delta.text.find('\n') != std::string::npos;
  if (!stream_) {
    answer.content += delta.text;
    answer.tokens.insert(answer.tokens.end(), delta.tokens.begin(), delta.tokens.end());
    std::move(delta.logprobs.begin(), delta.logprobs.end(), std::back_inserter(answer.probs));
    return;
  }
  Ordered chunk{{"index", index},
                {"content", std::move(delta.text)},
                {"tokens", std::move(delta.tokens)},
                {"stop", false},
                {"id_slot", -1},
                {"tokens_predicted", answer.generated},
                {"tokens_evaluated", prompt_tokens_[index / n_]}};
  if (with_probs_) chunk["completion_probabilities"] = probabilities(delta.logprobs);
  exchange_.write("data: " + written(chunk) + "\n\n");
}

void LlamaWriter::on_finish(uint32_t index, const Finish& finish) { answers_[index].finish = finish; }

Ordered LlamaWriter::last_document(uint32_t index, const Usage& usage) const {
  const Answer& answer = answers_[index];
  const uint64_t prompt = prompt_tokens_[index / n_];
  const CompletionCost cost = index < usage.completions.size() ? usage.completions[index] : CompletionCost();
  Ordered out{{"index", index},
              {"content", answer.content},
              {"tokens", return_tokens_ ? answer.tokens : std::vector<text::TokenId>()},
              {"id_slot", -1},
              {"stop", true},
              {"model", replace_invalid_utf8(model_)},
              {"tokens_predicted", cost.tokens},
              {"tokens_evaluated", prompt},
              {"generation_settings", settings_},
              {"prompt", prompts_[index / n_]},
              {"has_new_line", answer.has_new_line},
              {"truncated", answer.finish.reason == Finish::Reason::context},
              {"stop_type", stop_type(answer.finish)},
              {"stopping_word", answer.finish.stop_string},
              {"tokens_cached", cost.cached},
              {"timings", Ordered::parse(timings_json(prompt, cost))}};
  if (with_probs_ && !stream_) out["completion_probabilities"] = probabilities(answer.probs);
  return fields_.empty() ? out : picked_fields(out, fields_);
}

void LlamaWriter::on_end(const Usage& usage, std::string_view) {
  if (stream_) {
    for (uint32_t i = 0; i < answers_.size(); ++i)
      exchange_.write("data: " + written(last_document(i, usage)) + "\n\n");
    return exchange_.finish();
  }
  if (!is_list_) return exchange_.send_json(written(last_document(0, usage)));
  Ordered list = Ordered::array();
  for (uint32_t i = 0; i < answers_.size(); ++i) list.push_back(last_document(i, usage));
  exchange_.send_json(written(list));
}

void LlamaWriter::on_error(const ApiError& error) {
  if (exchange_.started())
    exchange_.fail_stream(error, "data: " + llama_error(error) + "\n\n");
  else
    exchange_.fail(error);
}

void llama_completion(const Call& call) {
  PreparationTimer timer(*call.exchange);
  LlamaCompletionRequest request = call.read(read_llama_completion);
  call.expect_model(request.model);
  timer.parsed();
  std::vector<std::vector<text::TokenId>> prompts;
  for (const MixedPrompt& prompt : request.prompts) prompts.push_back(encode_mixed(call.model->tokenizer(), prompt));
  generate_llama(call, std::move(request), std::move(prompts), timer);
}

void infill(const Call& call) {
  PreparationTimer timer(*call.exchange);
  InfillRequest request = call.read(read_infill);
  call.expect_model(request.completion.model);
  timer.parsed();
  std::vector<std::vector<text::TokenId>> prompts = {encode_infill(call.model->tokenizer(), request)};
  for (const text::TokenId id : infill_tokens(call.model->tokenizer()).ends)
    if (id < call.model->card().vocabulary) request.completion.generation.stop_tokens.push_back(id);
  generate_llama(call, std::move(request.completion), std::move(prompts), timer);
}

namespace {

// The model that the query names, or the first; an ApiError 503 if it is not loaded.
std::shared_ptr<const ServedModel> loaded_model(const Call& call) {
  const ListedModel model = call.describe(query_value(call.exchange->request().query, "model").value_or(""));
  if (!model.model)
    throw unavailable(fmt::format("{} is not loaded: a request for it loads it", in_quotes(model.card.name, 200)));
  return model.model;
}

}  // namespace

void show_props(const Call& call) {
  const auto model = loaded_model(call);
  const ModelCard& card = model->card();
  const text::Tokenizer& tokenizer = model->tokenizer();
  const auto text_of = [&](std::optional<text::TokenId> id) { return id ? std::string(tokenizer.text(*id)) : ""; };
  GenerationRequest standard;
  standard.sampling.temperature = 0.8f;
  standard.sampling.top_k = 40;
  standard.sampling.top_p = 0.95f;
  standard.sampling.min_p = 0.05f;
  const engine::Metrics metrics = model->engine().metrics();
  const Ordered props{{"default_generation_settings",
                       {{"id", 0},
                        {"id_task", -1},
                        {"n_ctx", card.context},
                        {"speculative", false},
                        {"is_processing", metrics.running > 0},
                        {"params", generation_settings(standard)}}},
                      {"total_slots", std::max<uint64_t>(1, metrics.running)},
                      {"model_alias", card.name},
                      {"model_path", card.name},
                      {"modalities", {{"vision", false}, {"audio", false}}},
                      {"chat_template", card.chat_template},
                      {"bos_token", text_of(tokenizer.bos())},
                      {"eos_token", text_of(tokenizer.eos())},
                      {"build_info", fmt::format("heddle {}", version)},
                      {"is_sleeping", false}};
  call.exchange->send_json(written(props));
}

// heddle has no fixed number of slots: those that are in use, and one more that is free if no request waits.
void show_slots(const Call& call) {
  const auto model = loaded_model(call);
  const engine::Metrics metrics = model->engine().metrics();
  Ordered slots = Ordered::array();
  const auto add = [&](bool is_processing) {
    slots.push_back(
        {{"id", slots.size()}, {"n_ctx", model->context()}, {"speculative", false}, {"is_processing", is_processing}});
  };
  for (uint64_t i = 0; i < metrics.running; ++i) add(true);
  if (metrics.waiting == 0) add(false);
  if (metrics.waiting > 0 && call.exchange->request().query.find("fail_on_no_slot=1") != std::string::npos)
    throw unavailable("all slots are in use");
  call.exchange->send_json(written(slots));
}

}  // namespace heddle::server
