// What can be set in a chat: the options of its command line, by the same names.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "main/commands/sampling_options.h"

namespace heddle {

struct AnswerOptions {
  SamplingOptions sampling;
  std::string system;
  uint32_t tokens = 0;  // of an answer; 0: until the model ends or the context is full
};
void describe_answers(CLI::App& command, AnswerOptions& options);

// Remembers what was said, so that a setting can be taken back.
class ChatSettings {
 public:
  ChatSettings() = default;
  explicit ChatSettings(const CLI::App& command);  // as parsed, with describe_answers() among its options

  const AnswerOptions& values() const { return values_; }

  // Names are those of the options without dashes. A list (stop) grows, anything else is replaced; an empty value puts
  // back the default. Throws an Error for a name or value that there is not; values have still to be validated.
  ChatSettings with(const std::string& name, const std::string& value) const;

  std::vector<std::pair<std::string, std::string>> changed() const;  // names and values that are not the default

  static std::vector<std::string> names();

 private:
  void read();  // said_ into values_

  std::map<std::string, std::vector<std::string>> said_;
  AnswerOptions values_;
};

}  // namespace heddle
