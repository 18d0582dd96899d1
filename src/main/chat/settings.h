// Settings of a chat: options of its command line, by the same names.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "main/commands/constraint_options.h"
#include "main/commands/sampling_options.h"

namespace heddle {

struct AnswerOptions {
  SamplingOptions sampling;
  ConstraintOptions constraint;
  std::string system;
  bool parse_special = false;  // texts of messages may write control tokens
  uint32_t tokens = 0;         // maximum of an answer; 0: until the model ends or the context is full
};
void describe_answers(CLI::App& command, AnswerOptions& options);

// Keeps the values that were given, so that a setting can go back to its default.
class ChatSettings {
 public:
  ChatSettings() = default;
  explicit ChatSettings(const CLI::App& command);  // as parsed, with describe_answers() among its options

  const AnswerOptions& values() const { return values_; }

  // Names are those of the options without dashes. A list (stop) grows, any other value is replaced; an empty value
  // restores the default. Throws an Error for an unknown name or a value of the wrong kind; ranges are checked later.
  ChatSettings with(const std::string& name, const std::string& value) const;

  std::vector<std::pair<std::string, std::string>> changed() const;  // names and values that differ from the default

  static std::vector<std::string> names();

 private:
  void parse();  // given_ into values_

  std::map<std::string, std::vector<std::string>> given_;
  AnswerOptions values_;
};

}  // namespace heddle
