// How a model writes thoughts and tool calls: the marks that its chat template puts around them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::chat {

// BEGIN thought END. No thoughts where `end` is empty.
struct ThoughtFormat {
  std::string begin, end;
  bool operator==(const ThoughtFormat&) const = default;
};

// Marks are written as the template writes them, with their white space. When a text is read, white space at their ends
// and inside of them does not count, because models vary it.
struct CallFormat {
  enum class Kind : uint8_t {
    none,
    json,     // begin (before) name_begin NAME name_end (after) arguments_begin {"key": value} end
    object,   // begin {"name": "NAME", "arguments": {"key": value}} end
    tags,     // begin NAME arguments_begin (key_begin KEY key_end value_begin VALUE value_end)* arguments_end end
    quoted,   // begin NAME{KEY:quote VALUE quote,KEY:3} end
    python,   // begin NAME(KEY="VALUE", KEY=3) end
    harmony,  // messages in channels: gpt-oss
  };
  // What models write beside the name: an id, or the number of the call.
  enum class Slot : uint8_t { none, id, index };
  // The ids that the template accepts: any; nine letters and digits; functions.NAME:INDEX.
  enum class Ids : uint8_t { any, nine, functions };

  Kind kind = Kind::none;
  std::string section_begin, section_end;        // around all calls together; may be empty
  std::string between;                           // two calls
  std::string begin, end;                        // of one call. Where nothing begins it, a call is the whole answer
  std::string other_begin;                       // that some answers have instead
  std::string name_begin, name_end;              // json
  Slot before = Slot::none, after = Slot::none;  // json
  std::string arguments_begin, arguments_end;    // json, tags
  std::string name_key = "name", arguments_key = "arguments";                 // object
  bool name_is_key = false;                                                   // object: {"NAME": {"key": value}}
  std::string key_begin, key_end, value_begin, other_value_begin, value_end;  // tags; other: of what is no string
  std::string quote;                                                          // quoted
  Ids ids = Ids::any;
  std::vector<std::string> end_tokens;  // texts of tokens that end a turn of calls, beside those of the model
  bool one_call = false;                // the template takes one in a message
  bool operator==(const CallFormat&) const = default;

  bool has_section() const { return !section_begin.empty() || !between.empty(); }
};

// What a template wants as the content of a message that has nothing but calls.
enum class ContentOfCalls : uint8_t { empty, null, absent };

struct ChatFormat {
  std::string name;  // of the family where it is known by name, otherwise "template"
  ThoughtFormat thought;
  CallFormat calls;
  bool tools_in_template = false;  // the template writes the tools of a request
  std::string example;             // of a call, as the template writes it; empty: not known
  bool arguments_as_text = false;  // the template takes arguments as a string of JSON, not as an object
  ContentOfCalls content_of_calls = ContentOfCalls::empty;
  std::string thought_field = "reasoning_content";  // of a message, that the template reads
  std::string thought_switch;                       // the variable that turns thoughts on and off; empty: there is none
  bool late_system = true;                          // the template writes a system message that is not the first

  // All marks, to find the control tokens that have to be seen in a text.
  std::vector<std::string> marks() const;
  bool operator==(const ChatFormat&) const = default;
};

// The call format of a model family that is recognised by marks in its template. Without `any`: only if a rendering of
// the template does not show all of the format.
std::optional<CallFormat> call_format_by_name(std::string_view source, std::string& name, bool any);
// Formats by their names, for the list above and for tests: "harmony", "gemma", ...; an Error for others.
CallFormat named_call_format(std::string_view name);

// The way for templates without tools: calls as Hermes writes them.
CallFormat generic_call_format();
// What is put into the system message then; `tools` is a JSON list as requests have it, `example` a call.
std::string generic_tool_text(std::string_view tools, std::string_view example);
constexpr std::string_view generic_example =
    "<tool_call>\n{\"name\": \"NAME\", \"arguments\": {\"PARAMETER\": \"VALUE\", \"OTHER_PARAMETER\": "
    "2}}\n</tool_call>";

// The marks of the first thought of an answer; without an end: it has none.
ThoughtFormat thought_marks(const ChatFormat& format);

// Whether a prompt ends inside of a thought, because the template has begun it.
bool opens_thought(const ThoughtFormat& format, std::string_view prompt);

}  // namespace heddle::chat
