// Feeds a prompt, then one token after the other.
#include "main/run_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <istream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/clock.h"
#include "base/error.h"
#include "base/output_file.h"
#include "engine/sampler.h"
#include "main/text_commands.h"
#include "text/template.h"

namespace heddle {
namespace {

using text::Id;

// The message in the model's own words.
std::string as_chat(const RunningModel& running, const RunOptions& options, const std::string& message) {
  if (running.chat_template.empty()) throw Error("{}: the model has no chat template", options.model);
  nlohmann::json messages = nlohmann::json::array();
  if (!options.system.empty()) messages.push_back({{"role", "system"}, {"content", options.system}});
  messages.push_back({{"role", "user"}, {"content", message}});
  const text::Tokenizer& words = running.words();
  text::TemplateInput input;
  input.messages = messages.dump();
  if (words.bos()) input.bos = words.text(*words.bos());
  if (words.eos()) input.eos = words.text(*words.eos());
  input.now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return text::ChatTemplate(running.chat_template).render(input);
}

std::vector<Id> prompt_ids(const RunningModel& running, const RunOptions& options, const std::string& prompt) {
  const text::Tokenizer& words = running.words();
  if (!options.chat) return words.encode(prompt);
  return words.encode(as_chat(running, options, prompt), {.add_special = false});  // the template writes BOS itself
}

}  // namespace

void run_model(const RunOptions& options, std::istream& in, std::ostream& out, std::ostream& err) {
  const std::string prompt = options.prompt
                                 ? *options.prompt
                                 : std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  const auto running = open_running(options.model, options.device);
  const text::Tokenizer& words = running->words();
  const std::vector<Id> ids = prompt_ids(*running, options, prompt);
  if (ids.empty()) throw Error("expected a text to continue, found an empty one (and the model has no BOS token)");
  model::Session session = running->session();
  if (ids.size() >= session.context())
    throw Error("the prompt is too long: expected fewer than {} tokens, the context, found {}", session.context(),
                ids.size());
  engine::Sampler sampler(options.sampling, running->model.vocabulary);
  for (Id id : ids) sampler.accept(id, engine::Origin::prompt);

  const auto start = Clock::now();
  std::span<const float> logits = session.feed(ids);
  const double prompt_seconds = seconds_since(start);
  text::StreamDecoder decoder(words);
  const auto generating = Clock::now();
  uint32_t made = 0;
  const char* reason = "the context is full";
  while (true) {
    const Id id = sampler.pick(logits).id;
    sampler.accept(id);
    ++made;
    if (std::find(words.ends().begin(), words.ends().end(), id) != words.ends().end()) {
      reason = "the model ended";
      break;
    }
    out << decoder.push(id) << std::flush;
    if (options.tokens && made >= options.tokens) {
      reason = "as many as asked for";
      break;
    }
    if (session.length() >= session.context()) break;
    logits = session.feed({&id, 1});
  }
  out << decoder.finish() << std::endl;
  const double seconds = seconds_since(generating);
  err << fmt::format("prompt {} tokens, {:.1f} tok/s; generated {} tokens, {:.1f} tok/s ({}); seed {}\n", ids.size(),
                     double(ids.size()) / prompt_seconds, made, double(made) / seconds, reason, sampler.seed());
}

void write_logits(const LogitsOptions& options, std::ostream& out) {
  std::vector<Id> ids;
  read_ids(options.ids, ids);
  if (ids.empty()) throw Error("--ids: expected token ids such as 1,2,3, found \"{}\"", options.ids);
  const auto running = open_running(options.model, options.device);
  const uint64_t bytes = uint64_t(ids.size()) * running->model.vocabulary * sizeof(float);
  const nlohmann::json header{
      {"logits", {{"dtype", "F32"}, {"shape", {ids.size(), running->model.vocabulary}}, {"data_offsets", {0, bytes}}}}};
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  static_assert(std::endian::native == std::endian::little);
  OutputFile file(options.out);
  file.write({reinterpret_cast<const uint8_t*>(&length), sizeof length});
  file.write(text);
  model::Session session = running->session();
  session.feed_each(ids, [&](size_t, std::span<const float> row) {
    file.write({reinterpret_cast<const uint8_t*>(row.data()), row.size_bytes()});
  });
  file.commit();
  out << fmt::format("{}: {} rows of {} logits\n", options.out, ids.size(), running->model.vocabulary);
}

}  // namespace heddle
