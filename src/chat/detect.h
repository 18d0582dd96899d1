// The format of a model's thoughts and calls, found from its chat template.
#pragma once
#include <string_view>

#include "chat/format.h"

namespace heddle::text {
class ChatTemplate;
}

namespace heddle::chat {

// The template is rendered with and without a call, with one and two, with and without a thought, and the results are
// compared. What that does not show is looked up by marks in the source. Never throws: a template that shows nothing
// has a format without calls.
ChatFormat detect_format(const text::ChatTemplate& chat_template, std::string_view source);

// For detect.cpp: how a template has written calls. The texts are those of an assistant's message, from where one with
// content would begin.
struct CallSamples {
  std::string one, two;  // calls; `two` is empty if the template takes only one
};
// The names and values in these samples.
struct SampleCall {
  static constexpr std::string_view name = "zqtool", key = "zqkeya", value = "zqvala", other_key = "zqkeyb",
                                    other_value = "73915", id = "zqidaaaaa", second_id = "zqidbbbbb",
                                    second_value = "zqvalc", second_other_value = "84026";
};
std::optional<CallFormat> format_of_samples(const CallSamples& samples);

}  // namespace heddle::chat
