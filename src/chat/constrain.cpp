#include "chat/constrain.h"

#include <algorithm>

#include "base/error.h"
#include "chat/marks.h"
#include "grammar/free_text.h"
#include "grammar/json_schema.h"

namespace heddle::chat {

using grammar::Bytes;
using grammar::Grammar;
using grammar::Language;
using grammar::Languages;
using grammar::Symbol;
using Kind = CallFormat::Kind;

Symbol rule_of(Grammar& grammar, std::vector<Symbol> symbols) {
  const Symbol rule = grammar.rule();
  grammar.add_choice(rule, std::move(symbols));
  return rule;
}

Symbol CallWriter::text(std::string_view text) {
  return text.empty() ? rule_of(g_, {}) : g_.terminal(g_.languages.text(text));
}

Language CallWriter::slot(CallFormat::Slot slot) const {
  Bytes letters;
  for (int c = '0'; c <= '9'; ++c) letters.set(size_t(c));
  if (slot == CallFormat::Slot::index) return g_.languages.repeat(g_.languages.bytes(letters), 1, 4);
  if (slot == CallFormat::Slot::none) return Languages::empty;
  for (int c = 'a'; c <= 'z'; ++c) letters.set(size_t(c)).set(size_t(c - 'a' + 'A'));
  return g_.languages.repeat(g_.languages.bytes(letters), 9, 9);
}

Symbol CallWriter::json_arguments(const Tool& tool) { return grammar::add_json_schema(g_, tool.parameters); }

std::vector<Symbol> CallWriter::call(const Tool& tool, std::string_view begin) {
  Languages& all = g_.languages;
  const auto one = [&](std::string_view t) { return all.text(t); };
  switch (format_.kind) {
    case Kind::json:
      return {g_.terminal(
                  all.sequence(std::vector{one(begin), slot(format_.before), one(format_.name_begin), one(tool.name),
                                           one(format_.name_end), slot(format_.after), one(format_.arguments_begin)})),
              json_arguments(tool), text(format_.end)};
    case Kind::object: {
      const Language space = all.any_of({Languages::empty, one(" ")});
      const Language head =
          format_.name_is_key
              ? all.sequence(std::vector{one(begin), one("{"), one(quoted_text(tool.name)), one(":"), space})
              : all.sequence(std::vector{one(begin), one("{" + quoted_text(format_.name_key) + ":"), space,
                                         one(quoted_text(tool.name) + ","), space,
                                         one(quoted_text(format_.arguments_key) + ":"), space});
      return {g_.terminal(head), json_arguments(tool), text("}" + format_.end)};
    }
    case Kind::tags:
      return {text(std::string(begin) + tool.name + format_.arguments_begin), add_tag_parameters(g_, format_, tool),
              text(format_.arguments_end + format_.end)};
    default:
      return {text(std::string(begin) + tool.name), add_literal_arguments(g_, format_, tool), text(format_.end)};
  }
}

Symbol CallWriter::any_call(const Tools& tools, std::string_view begin) {
  const Symbol rule = g_.rule();
  for (const Tool& tool : tools) try {
      g_.add_choice(rule, call(tool, begin));
    } catch (const Error& error) {
      throw Error("{}: {}", tool.name, error.what());
    }
  return rule;
}

namespace {

class AnswerWriter {
 public:
  AnswerWriter(const ChatFormat& format, const Tools& tools, const AnswerRules& rules)
      : format_(format),
        calls_(format.calls),
        tools_(tools),
        rules_(rules),
        writer_(g_, format.calls),
        has_calls_(!tools.empty() && calls_.kind != Kind::none),
        parallel_(rules.parallel && !calls_.one_call),
        thought_end_(trimmed(format.thought.end)),
        thought_begin_(trimmed(format.thought.begin)) {}

  Grammar write() {
    g_.set_start(calls_.kind == Kind::harmony ? harmony() : marked());
    return std::move(g_);
  }

 private:
  Languages& all() { return g_.languages; }
  Symbol text(std::string_view t) { return t.empty() ? nothing() : g_.terminal(all().text(t)); }
  Symbol nothing() { return rule_of(g_, {}); }
  Symbol choice(std::vector<std::vector<Symbol>> choices) {
    const Symbol rule = g_.rule();
    for (auto& one : choices) g_.add_choice(rule, std::move(one));
    return rule;
  }
  // A few line ends and spaces, or none.
  Symbol space() {
    const Language one = all().bytes(Bytes().set(' ').set('\n'));
    return choice({{}, {g_.terminal(all().repeat(one, 1, 4))}});
  }
  Symbol until(std::string_view mark) {
    const std::vector<std::string> marks{std::string(mark)};
    return g_.terminal(grammar::text_until(all(), marks, {}));
  }
  // The rest of a thought: up to its mark, or to a call, which ends it as well.
  std::vector<std::string> call_marks() const {
    std::vector<std::string> marks;
    for (const std::string& mark : {trigger(calls_.section_begin), trigger(calls_.begin), trigger(calls_.other_begin)})
      if (has_calls_ && !mark.empty() && std::ranges::find(marks, mark) == marks.end()) marks.push_back(mark);
    return marks;
  }
  Symbol thought_until_mark() {
    const std::vector<std::string> end{std::string(thought_end_)};
    return g_.terminal(grammar::text_until(all(), end, call_marks()));
  }
  Symbol thought_until_call() {
    const std::string mark = first_mark();
    std::vector<std::string> never = call_marks();
    std::erase(never, mark);
    never.emplace_back(thought_end_);
    const std::vector<std::string> marks{mark};
    return rule_of(g_, {g_.terminal(grammar::text_until(all(), marks, never)), calls_behind(mark)});
  }
  // What follows calls that ended a thought.
  Symbol behind_calls(Symbol body) {
    if (!parallel_) return nothing();
    if (is_free()) return body;
    if (calls_.has_section()) return nothing();
    const Symbol more = g_.rule();
    g_.add_choice(more, {});
    g_.add_choice(more, {space(), calls_alone()});
    return more;
  }
  Symbol any_text(const std::vector<std::string>& never) {
    return choice({{}, {g_.terminal(all().all_of({grammar::text_without(all(), never), not_empty()}))}});
  }
  Language not_empty() { return all().without(Languages::empty); }

  // --- answers with marks -------------------------------------------------------------------------------------------
  Symbol marked() {
    const Symbol start = g_.rule();
    const bool has_thought = !thought_end_.empty();
    const Symbol body = this->body();
    if (has_thought && rules_.in_thought) {
      g_.add_choice(start, {thought_until_mark(), behind_thought(body)});
      if (has_calls_ && !is_bare()) g_.add_choice(start, {thought_until_call(), behind_calls(body)});
      return start;
    }
    // free text has thoughts in it wherever they begin
    if (has_thought && !thought_begin_.empty() && !is_free()) {
      g_.add_choice(start, {space(), text(thought_begin_), thought_until_mark(), behind_thought(body)});
      if (has_calls_ && !is_bare())
        g_.add_choice(start, {space(), text(thought_begin_), thought_until_call(), behind_calls(body)});
    }
    g_.add_choice(start, {body});
    return start;
  }
  bool is_free() const { return !rules_.content && !(has_calls_ && rules_.must_call) && !is_bare(); }
  Symbol behind_thought(Symbol body) { return is_free() ? body : rule_of(g_, {space(), body}); }
  bool is_bare() const { return has_calls_ && trimmed(calls_.section_begin + calls_.begin).empty(); }

  Symbol body() {
    if (has_calls_ && rules_.must_call) return calls_alone();
    if (rules_.content) {
      const Symbol content = rules_.content(g_);
      return has_calls_ ? choice({{content}, {calls_alone()}}) : content;
    }
    if (is_bare()) return bare();
    return free();
  }

  std::string first_mark() const { return trigger(calls_.section_begin.empty() ? calls_.begin : calls_.section_begin); }

  // Content with calls, and thoughts, in it.
  Symbol free() {
    grammar::FreeText text;
    if (!thought_end_.empty() && !thought_begin_.empty())
      text.triggers.push_back(
          {std::string(thought_begin_),
           has_calls_ && parallel_ ? choice({{thought_until_mark()}, {thought_until_call()}}) : thought_until_mark()});
    if (!has_calls_) return grammar::add_free_text(g_, text);
    std::vector<std::string> marks{first_mark()};
    for (const std::string& other : {trigger(calls_.begin), trigger(calls_.other_begin)})
      if (!other.empty() && marks[0].find(other) == other.npos) {
        const bool begins_call = other == calls_.other_begin && calls_.begin.ends_with(other);
        (begins_call ? marks : text.excluded).push_back(other);
      }
    if (parallel_) {
      for (const std::string& mark : marks) text.triggers.push_back({mark, calls_behind(mark)});
      return grammar::add_free_text(g_, text);
    }
    grammar::FreeText without = text;
    without.excluded.insert(without.excluded.end(), marks.begin(), marks.end());
    std::vector<std::vector<Symbol>> choices{{grammar::add_free_text(g_, without)}};
    for (const std::string& mark : marks) {
      grammar::FreeText before = without;
      std::erase(before.excluded, mark);
      before.ends = {mark};
      choices.push_back({grammar::add_free_text(g_, before), calls_behind(mark)});
    }
    return choice(std::move(choices));
  }

  // What follows the mark by which calls are found: the rest of it, and one call, or in a section one or more.
  Symbol calls_behind(std::string_view mark) {
    const std::string whole = calls_.section_begin + calls_.begin;
    const std::string_view rest = std::string_view(whole).substr(whole.find(mark) + mark.size());
    const Symbol first = writer_.any_call(tools_, rest);
    if (!calls_.has_section()) return first;
    if (!parallel_) return rule_of(g_, {first, text(calls_.section_end)});
    const Symbol more = g_.rule();
    g_.add_choice(more, {});
    g_.add_choice(more, {writer_.any_call(tools_, calls_.between + calls_.begin), more});
    return rule_of(g_, {first, more, text(calls_.section_end)});
  }

  Symbol calls_alone() {
    const std::string mark = first_mark();
    const Symbol one = rule_of(g_, {text(mark), calls_behind(mark)});
    if (!parallel_ || calls_.has_section()) return one;
    const Symbol more = g_.rule();
    g_.add_choice(more, {});
    g_.add_choice(more, {space(), one, more});
    return rule_of(g_, {one, more});
  }

  // Nothing begins a call but its brace, so that content does not begin with one.
  Symbol bare() {
    const Language brace =
        all().sequence(std::vector{all().repeat(all().bytes(Bytes().set(' ').set('\n').set('\r').set('\t')), 0),
                                   all().text("{"), Languages::anything});
    const std::string other(trimmed(calls_.other_begin));
    const std::vector<std::string> marks = other.empty() ? std::vector<std::string>{} : std::vector{other};
    const Symbol calls = calls_alone();
    std::vector<std::vector<Symbol>> choices{
        {calls},
        {},
        {g_.terminal(all().all_of({grammar::text_without(all(), marks), all().without(brace), not_empty()}))}};
    if (!marks.empty())
      choices.push_back(
          {g_.terminal(all().all_of({grammar::text_until(all(), marks, {}), all().without(brace)})), calls});
    return choice(std::move(choices));
  }

  // --- messages in channels -----------------------------------------------------------------------------------------
  Symbol harmony() {
    constexpr std::string_view next = "<|start|>assistant";
    const Symbol analysis = rule_of(g_, {text("<|channel|>analysis<|message|>"), until("<|end|>"), text(next)});
    const Symbol start = g_.rule();
    g_.add_choice(start, {analysis, start});
    if (!(has_calls_ && rules_.must_call)) {
      const Symbol content = rules_.content ? rules_.content(g_) : any_text(ends_of_messages());
      g_.add_choice(start, {text("<|channel|>final<|message|>"), content});
    }
    if (!has_calls_) return start;
    const Symbol preamble =
        rule_of(g_, {text("<|channel|>commentary<|message|>"), until("<|end|>"), text(next), harmony_calls()});
    g_.add_choice(start, {preamble});
    g_.add_choice(start, {harmony_calls()});
    return start;
  }
  static std::vector<std::string> ends_of_messages() {
    return {"<|end|>", "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|call|>", "<|return|>"};
  }
  // The recipient stands before the channel or behind it.
  Symbol harmony_calls() {
    if (harmony_call_) return *harmony_call_;
    const Symbol rule = g_.rule();
    const Language kind = all().any_of(
        {Languages::empty, all().text(" json"), all().text(" <|constrain|>json"), all().text("<|constrain|>json")});
    for (const Tool& tool : tools_) try {
        const std::string to = " to=functions." + tool.name;
        const Language head = all().any_of({all().sequence(all().text("<|channel|>commentary" + to), kind),
                                            all().sequence(all().text(to + "<|channel|>commentary"), kind)});
        g_.add_choice(rule,
                      {g_.terminal(all().sequence(head, all().text("<|message|>"))), writer_.json_arguments(tool)});
      } catch (const Error& error) {
        throw Error("{}: {}", tool.name, error.what());
      }
    harmony_call_ = rule;
    return rule;
  }

  const ChatFormat& format_;
  const CallFormat& calls_;
  const Tools& tools_;
  const AnswerRules& rules_;
  Grammar g_;
  CallWriter writer_;
  const bool has_calls_, parallel_;
  const std::string_view thought_end_, thought_begin_;
  std::optional<Symbol> harmony_call_;
};

}  // namespace

Grammar answer_grammar(const ChatFormat& format, const Tools& tools, const AnswerRules& rules) {
  return AnswerWriter(format, tools, rules).write();
}

}  // namespace heddle::chat
