// The terminals that %import common.NAME gives in Lark, as regular expressions.
#pragma once
#include <array>
#include <string_view>

namespace heddle::grammar {

struct CommonTerminal {
  std::string_view name, pattern;
};
inline constexpr std::array common_terminals{
    CommonTerminal{"DIGIT", "[0-9]"},
    CommonTerminal{"HEXDIGIT", "[0-9A-Fa-f]"},
    CommonTerminal{"INT", "[0-9]+"},
    CommonTerminal{"SIGNED_INT", "[+-]?[0-9]+"},
    CommonTerminal{"DECIMAL", "[0-9]+\\.[0-9]*|\\.[0-9]+"},
    CommonTerminal{"FLOAT", "[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"},
    CommonTerminal{"SIGNED_FLOAT", "[+-]?(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"},
    CommonTerminal{"NUMBER", "(?:[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"},
    CommonTerminal{"SIGNED_NUMBER", "[+-]?(?:[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"},
    CommonTerminal{"ESCAPED_STRING", "\"(?:[^\"\\\\\\n]|\\\\[^\\n])*\""},
    CommonTerminal{"LCASE_LETTER", "[a-z]"},
    CommonTerminal{"UCASE_LETTER", "[A-Z]"},
    CommonTerminal{"LETTER", "[A-Za-z]"},
    CommonTerminal{"WORD", "[A-Za-z]+"},
    CommonTerminal{"CNAME", "[_A-Za-z][_A-Za-z0-9]*"},
    CommonTerminal{"WS_INLINE", "[ \\t]+"},
    CommonTerminal{"WS", "[ \\t\\f\\r\\n]+"},
    CommonTerminal{"CR", "\\r"},
    CommonTerminal{"LF", "\\n"},
    CommonTerminal{"NEWLINE", "(?:\\r?\\n)+"},
    CommonTerminal{"SH_COMMENT", "#[^\\n]*"},
    CommonTerminal{"CPP_COMMENT", "//[^\\n]*"},
    CommonTerminal{"C_COMMENT", "/\\*(?:[^*]|\\*+[^*/])*\\*+/"},
    CommonTerminal{"SQL_COMMENT", "--[^\\n]*"},
};

}  // namespace heddle::grammar
