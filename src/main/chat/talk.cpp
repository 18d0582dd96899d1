// A turn works on a copy of the messages, which takes their place when there is an answer.
#include "main/chat/talk.h"

#include <fmt/format.h>

#include <iostream>

#include "base/error.h"
#include "base/utf8.h"
#include "main/chat/interrupt.h"

namespace heddle {
namespace {

// What a terminal would obey, as the sign for what cannot be shown.
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

// The last message of the user; messages.size() if there is none.
size_t last_of_user(const std::vector<Message>& messages) {
  for (size_t at = messages.size(); at-- > 0;)
    if (messages[at].role == "user") return at;
  return messages.size();
}

}  // namespace

ChatTalk::ChatTalk(const RunningModel& running, ChatSettings settings, std::ostream& out, bool terminal)
    : running_(running), out_(out), terminal_(terminal), begun_(now_in_seconds()), generator_(running) {
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

void ChatTalk::take(ChatSettings settings) {
  sampling_ = sampling_of(settings.values().sampling, running_.tokenizer(), running_.model.vocabulary);
  settings_ = std::move(settings);
}

void ChatTalk::show(std::string_view text) const {
  out_ << (terminal_ ? harmless(text) : std::string(text)) << std::flush;
}

void ChatTalk::answer(std::vector<Message> messages) {
  const std::vector<text::TokenId> ids = chat_ids(running_, with_system(messages, settings_), begun_);
  const Interrupt interrupt;
  const GenerateRequest request{.sampling = sampling_,
                                .stop_strings = settings_.values().sampling.stops,
                                .max_tokens = settings_.values().tokens ? settings_.values().tokens : engine::no_limit,
                                .show = [this](std::string_view text) { show(text); },
                                .interrupted = &interrupt.flag(),
                                .progress = terminal_ ? &std::cerr : nullptr};
  last_ = generator_.generate(ids, request);
  ++answers_;
  out_ << '\n';
  if (last_->end == Generated::End::interrupted && last_->text.empty()) {
    out_ << "(stopped before an answer: the conversation is as it was)\n";
    return;
  }
  if (last_->end == Generated::End::context)
    out_ << fmt::format("(the context of {} tokens is full: /reset begins anew, /undo takes the last turn back)\n",
                        generator_.context());
  messages.push_back({"assistant", last_->text});
  messages_ = std::move(messages);
}

void ChatTalk::say(std::string message) {
  std::vector<Message> messages = messages_;
  messages.push_back({"user", std::move(message)});
  answer(std::move(messages));
}

void ChatTalk::again() {
  std::vector<Message> messages = messages_;
  if (!messages.empty() && messages.back().role == "assistant") messages.pop_back();
  if (messages.empty()) throw Error("there is no message to answer again");
  answer(std::move(messages));
}

void ChatTalk::undo() {
  const size_t last = last_of_user(messages_);
  if (last == messages_.size()) throw Error("there is no message to take back");
  messages_.resize(last);
  out_ << fmt::format("taken back; {} messages are left\n", messages_.size());
}

void ChatTalk::reset() {
  messages_.clear();
  out_ << "the conversation begins anew\n";
}

void ChatTalk::set(const std::string& name, const std::string& value) {
  take(settings_.with(name, value));
  if (value.empty()) out_ << fmt::format("{} is the default again\n", name);
}

void ChatTalk::save(const std::filesystem::path& path) const {
  save_conversation(path, {.model = running_.model.name, .messages = with_system(messages_, settings_)});
  out_ << fmt::format("{} messages saved in {}\n", messages_.size(), path.string());
}

void ChatTalk::load(const std::filesystem::path& path) {
  SavedConversation saved = load_conversation(path);
  std::string system;
  if (!saved.messages.empty() && saved.messages.front().role == "system") {
    system = saved.messages.front().content;
    saved.messages.erase(saved.messages.begin());
  }
  ChatSettings settings = settings_.with("system", system);
  const std::vector<text::TokenId> ids = chat_ids(running_, with_system(saved.messages, settings), begun_);
  generator_.expect_fits(ids.size());
  take(std::move(settings));
  messages_ = std::move(saved.messages);
  out_ << fmt::format("{} messages, {} of {} tokens{}\n", messages_.size(), ids.size(), generator_.context(),
                      saved.model == running_.model.name ? "" : fmt::format("; saved with {}", saved.model));
  for (size_t at = last_of_user(messages_); at < messages_.size(); ++at) {
    if (messages_[at].role == "user") out_ << "> ";
    show(messages_[at].content);
    out_ << '\n';
  }
}

void ChatTalk::show_settings() const {
  const auto changed = settings_.changed();
  if (changed.empty()) out_ << "every setting has its default\n";
  for (const auto& [name, value] : changed) {
    out_ << name << ' ';
    show(value);
    out_ << '\n';
  }
}

void ChatTalk::show_system() const {
  const std::string& system = settings_.values().system;
  show(system.empty() ? "there is no system message" : system);
  out_ << '\n';
}

void ChatTalk::show_stats() const {
  out_ << (last_ ? figures(*last_) : "nothing was said yet") << '\n';
  out_ << fmt::format("context: {} of {} tokens; {}\n", generator_.length(), generator_.context(),
                      running_.backend->describe());
}

}  // namespace heddle
