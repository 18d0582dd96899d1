// A turn works on a copy of the messages, which takes their place when there is an answer.
#include "main/chat/talk.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <ostream>

#include "base/error.h"
#include "base/utf8.h"
#include "chat/detect.h"
#include "main/process.h"
#include "text/template.h"

namespace heddle {
namespace {

// Control characters as the sign for what cannot be shown: a terminal would obey them.
std::string harmless(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const bool shown = point.value == '\n' || point.value == '\t' || !is_control(point.value);
    append_utf8(result, shown ? point.value : U'\uFFFD');
    at += point.bytes;
  }
  return result;
}

bool is_user(const Message& message) { return message.role == "user"; }
bool ends_with_answer(const std::vector<Message>& messages) { return !messages.empty() && !is_user(messages.back()); }

// The last message of the user; messages.size() if there is none.
size_t last_of_user(const std::vector<Message>& messages) {
  const auto last = std::find_if(messages.rbegin(), messages.rend(), is_user);
  return last == messages.rend() ? messages.size() : size_t(messages.rend() - last) - 1;
}

size_t turns_of(const std::vector<Message>& messages) {
  return size_t(std::count_if(messages.begin(), messages.end(), is_user));
}

// Streams an answer to where it belongs.
class AnswerWriter {
 public:
  AnswerWriter(const ChatOutput& output, DimThoughts thoughts) : output_(output), thoughts_(std::move(thoughts)) {
    if (output.terminal()) wrap_.emplace(output.width);
  }
  void write(std::string_view text) {
    output_.answers << (wrap_ ? shown(wrap_->push(thoughts_.push(harmless(text)))) : std::string(text)) << std::flush;
  }
  void finish() {
    if (wrap_) {
      const std::string rest = wrap_->push(thoughts_.finish());
      output_.answers << shown(rest + wrap_->finish());
    }
    output_.answers << '\n' << std::flush;
  }

 private:
  static std::string shown(std::string_view text) { return DimThoughts::with_styles(text); }

  const ChatOutput& output_;
  DimThoughts thoughts_;
  std::optional<WordWrap> wrap_;
};

}  // namespace

ChatTalk::ChatTalk(const RunningModel& running, ChatSettings settings, ChatOutput output)
    : running_(running), output_(std::move(output)), begun_(now_in_seconds()), generator_(running) {
  if (running.chat_template.empty())
    throw Error("{}: the model has no chat template, so that it cannot chat; heddle run continues a text with it",
                running.model.name);
  take(std::move(settings));
}

std::vector<Message> ChatTalk::with_system(const std::vector<Message>& messages, const ChatSettings& settings) const {
  std::vector<Message> all;
  if (!settings.values().system.empty()) all.push_back({"system", settings.values().system});
  all.insert(all.end(), messages.begin(), messages.end());
  return all;
}

std::vector<text::TokenId> ChatTalk::ids_of(std::vector<Message> messages) const {
  std::string begun;  // of the answer
  if (ends_with_answer(messages)) {
    begun = std::move(messages.back().content);
    messages.pop_back();
  }
  return chat_ids(running_, with_system(messages, settings_), begun_, begun, settings_.values().parse_special);
}

DimThoughts ChatTalk::thoughts_of(const std::vector<Message>& messages) const {
  if (!output_.styled) return {};
  const std::string& source = running_.chat_template;
  const chat::ThoughtFormat marks = chat::thought_marks(chat::detect_format(text::ChatTemplate(source), source));
  std::vector<Message> before = messages;
  if (ends_with_answer(messages)) before.pop_back();
  const std::string prompt = chat_prompt(running_, with_system(before, settings_), begun_).text;
  DimThoughts thoughts(marks, chat::opens_thought(marks, prompt));
  if (ends_with_answer(messages)) thoughts.skip(harmless(messages.back().content));
  return thoughts;
}

void ChatTalk::take(ChatSettings settings) {
  engine::Sampling sampling = sampling_of(settings.values().sampling, running_.tokenizer(), running_.model.vocabulary);
  constraint_ = constraint_for(running_, read_constraint(settings.values().constraint));
  sampling_ = std::move(sampling);
  settings_ = std::move(settings);
}

void ChatTalk::notice(std::string_view text) const {
  output_.notices << (output_.terminal() ? wrapped(harmless(text), output_.width()) : std::string(text)) << '\n'
                  << std::flush;
}

void ChatTalk::answer(std::vector<Message> messages) {
  const std::vector<text::TokenId> ids = ids_of(messages);
  if (ids.size() >= generator_.context()) {
    refused_ = turns_of(messages) > 1 ? messages : std::vector<Message>();
    throw Error("the conversation is too long: expected fewer than {} tokens, the context, found {}; {}",
                generator_.context(), ids.size(),
                !refused_.empty() ? "/drop forgets the oldest turns and goes on, /undo takes back the last turn, "
                                    "/reset begins anew"
                : messages_.empty()
                    ? "a larger --ctx has room for longer messages"
                    : "/undo takes back the last turn, /reset begins anew, a larger --ctx has more room");
  }
  refused_.clear();
  AnswerWriter writer(output_, thoughts_of(messages));
  const Interrupt interrupt;
  const GenerateRequest request{.sampling = sampling_,
                                .stop_strings = settings_.values().sampling.stops,
                                .constraint = constraint_,
                                .max_tokens = settings_.values().tokens ? settings_.values().tokens : engine::no_limit,
                                .show = [&writer](std::string_view text) { writer.write(text); },
                                .interrupted = &interrupt.flag(),
                                .progress = output_.terminal() ? &std::cerr : nullptr};
  last_ = generator_.generate(ids, request);
  ++answers_;
  writer.finish();
  if (last_->end == Generated::End::interrupted && last_->text.empty())
    return notice("(stopped before an answer: the conversation is as it was)");
  if (ends_with_answer(messages))
    messages.back().content += last_->text;
  else
    messages.push_back({"assistant", last_->text});
  messages_ = std::move(messages);
  explain_ending();
}

void ChatTalk::explain_ending() const {
  if (last_->end == Generated::End::max_tokens)
    notice(fmt::format("(stopped at the limit of {} tokens: {}/set tokens N changes the limit)",
                       settings_.values().tokens, constraint_ ? "" : "/continue goes on, "));
  if (last_->end == Generated::End::context)
    notice(fmt::format("(the context of {} tokens is full: {}/undo takes back this turn, /reset begins anew)",
                       generator_.context(),
                       turns_of(messages_) > 1 ? "/drop forgets the oldest turns, then /continue goes on; " : ""));
}

void ChatTalk::say(std::string message) {
  std::vector<Message> messages = messages_;
  messages.push_back({"user", std::move(message)});
  answer(std::move(messages));
}

void ChatTalk::again() {
  std::vector<Message> messages = messages_;
  if (ends_with_answer(messages)) messages.pop_back();
  if (messages.empty()) throw Error("there is no message to answer again");
  answer(std::move(messages));
}

void ChatTalk::go_on() {
  if (!ends_with_answer(messages_)) throw Error("there is no answer to continue");
  if (constraint_)
    throw Error("an answer that must be of a certain form cannot be continued: /again gives another one");
  using End = Generated::End;
  if (last_ && (last_->end == End::end_token || last_->end == End::stop_string || last_->end == End::complete))
    throw Error("the answer is complete: /again gives another one");
  answer(messages_);
}

void ChatTalk::drop() {
  const bool waiting = !refused_.empty();
  std::vector<Message> messages = waiting ? refused_ : messages_;
  const size_t context = generator_.context();
  const size_t room = std::min<size_t>(context / 4, settings_.values().tokens ? settings_.values().tokens : context);
  size_t turns = 0, tokens = 0;
  do {
    const auto second = std::find_if(messages.begin() + !messages.empty(), messages.end(), is_user);
    if (second == messages.end()) throw Error("there is no turn to forget but the last one: /undo takes that back");
    messages.erase(messages.begin(), second);
    ++turns;
    tokens = ids_of(messages).size();
  } while (tokens + room > context && turns_of(messages) > 1);
  notice(fmt::format("(forgot the {} oldest {}: {} of {} tokens are used)", turns, turns == 1 ? "turn" : "turns",
                     tokens, context));
  if (waiting) return answer(std::move(messages));
  messages_ = std::move(messages);
}

void ChatTalk::undo() {
  const size_t last = last_of_user(messages_);
  if (last == messages_.size()) throw Error("there is no message to take back");
  messages_.resize(last);
  refused_.clear();
  notice(fmt::format("taken back; {} messages are left", messages_.size()));
}

void ChatTalk::reset() {
  messages_.clear();
  refused_.clear();
  notice("the conversation begins anew");
}

void ChatTalk::set(const std::string& name, const std::string& value) {
  take(settings_.with(name, value));
  if (value.empty()) notice(fmt::format("{} is the default again", name));
}

void ChatTalk::save(const std::filesystem::path& path) const {
  save_conversation(path, {.model = running_.model.name, .messages = with_system(messages_, settings_)});
  notice(fmt::format("{} messages saved in {}", messages_.size(), path.string()));
}

void ChatTalk::load(const std::filesystem::path& path) {
  SavedConversation saved = load_conversation(path);
  std::string system;
  if (!saved.messages.empty() && saved.messages.front().role == "system") {
    system = saved.messages.front().content;
    saved.messages.erase(saved.messages.begin());
  }
  ChatSettings settings = settings_.with("system", system);
  const std::vector<text::TokenId> ids =
      chat_ids(running_, with_system(saved.messages, settings), begun_, {}, settings.values().parse_special);
  generator_.expect_fits(ids.size());
  take(std::move(settings));
  messages_ = std::move(saved.messages);
  refused_.clear();
  last_.reset();
  notice(fmt::format("{} messages, {} of {} tokens{}", messages_.size(), ids.size(), generator_.context(),
                     saved.model == running_.model.name ? "" : fmt::format("; saved with {}", saved.model)));
  for (size_t at = last_of_user(messages_); at < messages_.size(); ++at)
    notice((is_user(messages_[at]) ? "> " : "") + messages_[at].content);
}

void ChatTalk::show_settings() const {
  const auto changed = settings_.changed();
  if (changed.empty()) notice("every setting has its default");
  for (const auto& [name, value] : changed) notice(fmt::format("{} {}", name, value));
}

void ChatTalk::show_system() const {
  const std::string& system = settings_.values().system;
  notice(system.empty() ? "there is no system message" : system);
}

void ChatTalk::show_stats() const {
  notice(last_ ? figures(*last_) : "nothing was said yet");
  notice(fmt::format("context: {} of {} tokens; {}", generator_.length(), generator_.context(),
                     running_.backend->describe()));
}

}  // namespace heddle
