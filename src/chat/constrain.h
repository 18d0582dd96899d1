// What an answer must be, as a grammar: a thought, then content and calls of the tools with arguments that their
// schemas allow.
#pragma once
#include <functional>
#include <memory>

#include "chat/format.h"
#include "chat/tools.h"
#include "grammar/grammar.h"

namespace heddle::chat {

struct AnswerRules {
  bool in_thought = false;  // the prompt ends inside of a thought
  bool must_call = false;   // behind the thought comes a call
  bool parallel = true;     // several calls
  // What content must be, as a rule of the grammar; empty: any text.
  std::function<grammar::Symbol(grammar::Grammar& grammar)> content;
};

// Without tools it is about thought and content alone. From the mark that begins a call on, only calls are allowed that
// the parser reads, of these tools, with valid arguments. An Error begins with the name of the tool and the JSON
// pointer of what cannot be kept.
grammar::Grammar answer_grammar(const ChatFormat& format, const Tools& tools, const AnswerRules& rules);

// For answer_grammar: parts of it that are files of their own.
class CallWriter {
 public:
  CallWriter(grammar::Grammar& grammar, const CallFormat& format) : g_(grammar), format_(format) {}
  // One call of one of the tools, from behind `head`, which is the beginning of the marks before it and written
  // already.
  grammar::Symbol any_call(const Tools& tools, std::string_view head);
  // The arguments alone, as JSON.
  grammar::Symbol json_arguments(const Tool& tool);

 private:
  std::vector<grammar::Symbol> call(const Tool& tool, std::string_view begin);
  grammar::Language slot(CallFormat::Slot slot) const;
  grammar::Symbol text(std::string_view text);

  grammar::Grammar& g_;
  const CallFormat& format_;
};

// The parameters of a call between tags, and the arguments of calls in Python's or Gemma's notation.
grammar::Symbol add_tag_parameters(grammar::Grammar& grammar, const CallFormat& format, const Tool& tool);
grammar::Symbol add_literal_arguments(grammar::Grammar& grammar, const CallFormat& format, const Tool& tool);

// Strings that the schema allows, as plain text.
grammar::Language plain_strings(grammar::Grammar& grammar, const nlohmann::ordered_json& schema,
                                const nlohmann::ordered_json& root, const std::string& pointer, int depth = 0);
// JSON of these types that the schema allows.
grammar::Symbol add_json_of_types(grammar::Grammar& grammar, const nlohmann::ordered_json& schema,
                                  const nlohmann::ordered_json& root, uint32_t types);
const nlohmann::ordered_json& referred(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& root,
                                       const std::string& pointer);
// A rule with one choice; the empty text is a rule without symbols.
grammar::Symbol rule_of(grammar::Grammar& grammar, std::vector<grammar::Symbol> symbols);

}  // namespace heddle::chat
