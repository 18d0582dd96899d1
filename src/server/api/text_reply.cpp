#include "server/api/text_reply.h"

#include <algorithm>

namespace heddle::server {
namespace {

size_t characters(std::string_view text) {  // of valid UTF-8
  return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (uint8_t(c) & 0xc0) != 0x80; }));
}

void append_event(std::string& out, std::string_view json) { out.append("data: ").append(json).append("\n\n"); }

}  // namespace

TextReply::TextReply(Exchange& exchange, ReplyHead head, ReplyForm form, size_t choices)
    : exchange_(exchange), head_(std::move(head)), form_(form), choices_(choices), characters_(choices) {
  for (uint32_t i = 0; i < choices; ++i) {
    choices_[i].index = i;
    if (form.reports) choices_[i].reports.emplace();
  }
}

void TextReply::add(uint32_t index, Piece piece) {
  if (piece.empty()) return;
  Choice& choice = choices_[index];
  if (!form_.stream) {
    choice.text += piece.text;
    if (form_.reports) std::move(piece.reports.begin(), piece.reports.end(), std::back_inserter(*choice.reports));
    return;
  }
  if (exchange_.logs_prompts()) choice.text += piece.text;
  start();
  const size_t offset = characters_[index];
  characters_[index] += characters(piece.text);
  Choice chunk{.index = index, .text = std::move(piece.text)};
  if (!piece.reports.empty()) chunk.reports = std::move(piece.reports);
  write_choice(chunk, offset);
}

void TextReply::end(uint32_t index, std::string finish) {
  choices_[index].finish = finish;
  if (!form_.stream) return;
  start();
  write_choice({.index = index, .finish = std::move(finish)}, characters_[index]);
}

void TextReply::finish(const Usage& usage, std::string_view trace, std::span<const uint32_t> kept) {
  if (form_.stream) {
    const Usage* figures = form_.usage ? &usage : nullptr;
    if (figures || !trace.empty())
      write(form_.chat ? chat_last_chunk(head_, figures, trace) : completion_last_chunk(head_, figures, trace));
    exchange_.write("data: [DONE]\n\n");
    exchange_.finish();
    return;
  }
  std::vector<Choice> given;
  for (const uint32_t index : kept) {
    given.push_back(choices_[index]);
    given.back().index = uint32_t(given.size() - 1);
  }
  exchange_.send_json(form_.chat ? chat_completion(head_, given, usage, trace)
                                 : completion(head_, given, usage, trace));
}

void TextReply::start() {
  if (exchange_.started()) return;
  HttpResponse head{.type = "text/event-stream",
                    .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}};
  if (form_.chat)
    for (const Choice& choice : choices_) append_event(head.body, chat_role_chunk(head_, choice.index, form_.usage));
  exchange_.start(std::move(head));
}

void TextReply::write(const std::string& json) {
  std::string event;
  event.reserve(json.size() + 8);
  append_event(event, json);
  exchange_.write(std::move(event));
}

void TextReply::write_choice(const Choice& choice, size_t offset) {
  write(form_.chat ? chat_chunk(head_, choice, form_.usage) : completion_chunk(head_, choice, offset, form_.usage));
}

}  // namespace heddle::server
