// The formats of strings that are kept, as patterns.
#include <fmt/format.h>

#include <map>

#include "grammar/json_schema_writer.h"

namespace heddle::grammar {
namespace {

// Expressions that ECMA 262 and Python both take: groups three deep, classes and counts that cannot be wrong.
std::string pattern_of_patterns() {
  const std::string escape = R"(\\(?:[dDwWsSnrtfv.*+?^${}()|\[\]\\/]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}))";
  const std::string range = "[a-z]-z|a-[a-z]|[A-Z]-Z|A-[A-Z]|[0-9]-9|0-[0-9]";
  const std::string klass = R"(\[\^?(?:)" + range + R"(|[^\[\]\\^\-]|\\-|)" + escape + R"()+-?\])";
  const std::string count =
      R"((?:[*+?]|\{(?:\d{1,3},?|0,\d{1,3}|1,[1-9]\d{0,2}|2,(?:[2-9]|[1-9]\d{1,2})|3,(?:[3-9]|[1-9]\d{1,2}))\})\??)";
  std::string inside;
  for (int depth = 0; depth <= 3; ++depth) {
    const std::string group = inside.empty() ? "" : R"(|\((?:\?:)?)" + inside + R"(\))";
    const std::string one =
        R"((?:[^\\()\[\]{}*+?|^$]|)" + klass + "|" + escape + group + ")(?:" + count + R"()?|[\^$]|\\[bB])";
    inside = "(?:" + one + R"()*(?:\|(?:)" + one + ")*)*";
  }
  return "^" + inside + "$";
}

}  // namespace

// Formats are annotations in the standard: those that are known are kept all the same.
std::optional<std::string> format_pattern(const std::string& name) {
  static const std::map<std::string, std::string> known = [] {
    const std::string leap = "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
    const std::string date =
        "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|"
        "1\\d|2[0-8]))|" +
        leap + "-02-29)";
    const std::string time = "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d+)?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)";
    const std::string byte = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)", ipv4 = byte + "(?:\\." + byte + "){3}";
    // groups of hexadecimal digits, of which one run of zeros may be left out
    const std::string group = "[0-9a-fA-F]{1,4}", last = "(?:" + group + ":" + group + "|" + ipv4 + ")";
    std::string ipv6 = "(?:" + group + ":){6}" + last;
    for (int before = 0; before <= 7; ++before) {
      const std::string left =
          before == 0 ? "" : group + fmt::format("(?::{}){{0,{}}}", group, before - 1);  // up to `before` groups
      const int rest = 7 - before;
      if (rest >= 1) ipv6 += "|(?:" + left + ")?::" + fmt::format("(?:{}(?::{}){{0,{}}})?", group, group, rest - 1);
      if (rest >= 2) ipv6 += "|(?:" + left + ")?::" + fmt::format("(?:{}:){{0,{}}}{}", group, rest - 2, ipv4);
      if (rest == 0) ipv6 += "|" + group + fmt::format("(?::{}){{0,6}}::", group);
    }
    const std::string letter = "[A-Za-z0-9]", label = letter + "(?:[A-Za-z0-9-]{0,61}" + letter + ")?";
    const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
    const std::string scheme = "[A-Za-z][A-Za-z0-9+.-]*:", uri_sign = "A-Za-z0-9._~:/?#\\[\\]@!$&'()*+,;=-",
                      percent = "%[0-9A-Fa-f]{2}", beyond_ascii = "\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef";
    const std::string variable =
        fmt::format("(?:[A-Za-z0-9_]|{0})(?:\\.?(?:[A-Za-z0-9_]|{0}))*(?:\\*|:[1-9]\\d{{0,3}})?", percent);
    return std::map<std::string, std::string>{
        {"date", "^" + date + "$"},
        {"time", "^" + time + "$"},
        {"date-time", "^" + date + "T" + time + "$"},
        {"duration",
         "^P(?:\\d+W|(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)(?:T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)"
         "?|\\d+S))?|T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S))$"},
        {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"},
        {"uri", fmt::format("^{}(?:[{}]|{})*$", scheme, uri_sign, percent)},
        {"iri", fmt::format("^{}(?:[{}{}]|{})*$", scheme, beyond_ascii, uri_sign, percent)},
        {"uri-template", fmt::format("^(?:[!#$&(-;=?-\\[\\]_a-z~{}]|{}|\\{{[+#./;?&=,!@|]?{}(?:,{})*\\}})*$",
                                     beyond_ascii, percent, variable, variable)},
        {"regex", pattern_of_patterns()},
        {"hostname", "^" + label + "(?:\\." + label + ")*$"},
        {"ipv4", "^" + ipv4 + "$"},
        {"ipv6", "^(?:" + ipv6 + ")$"},
        {"email", "^" + atom + "(?:\\." + atom + ")*@" + label + "(?:\\." + label + ")*$"}};
  }();
  const auto found = known.find(name);
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace heddle::grammar
