#include "server/api/reply_logprobs.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/utf8.h"
#include "server/api/json_text.h"

namespace heddle::server {
namespace {

// JSON has no infinity; this is what OpenAI's API says for "as good as impossible". A float, because that is what the
// engine computes: more digits would be made up.
void append_chance(std::string& out, double log_probability) {
  if (std::isfinite(log_probability))
    append_json(out, float(log_probability));
  else
    out += "-9999.0";
}

template <class List, class One>
void append_list(std::string& out, const List& list, One&& one) {
  out += "[";
  bool first = true;
  for (const auto& element : list) {
    if (!first) out += ",";
    first = false;
    one(element);
  }
  out += "]";
}

// {"token":...,"logprob":...,"bytes":[...] without the end.
void append_token(std::string& out, const TokenChance& token) {
  out += R"({"token":)";
  append_json(out, token.bytes);
  out += R"(,"logprob":)";
  append_chance(out, token.log_probability);
  out += R"(,"bytes":)";
  append_list(out, token.bytes, [&out](char byte) { append_json(out, uint64_t(uint8_t(byte))); });
}

// Completions have no "bytes": what is no text of its own is spelt byte by byte, as OpenAI's API does it.
std::string spelling(const std::string& bytes) {
  if (is_utf8(bytes)) return bytes;
  std::string out = "bytes:";
  for (const char byte : bytes) fmt::format_to(std::back_inserter(out), "\\x{:02x}", uint8_t(byte));
  return out;
}

// The most likely tokens, and the one that was taken, which need not be among them. Of tokens that are spelt alike the
// most likely one.
void append_top(std::string& out, const TokenReport& report) {
  std::vector<std::string> written;
  const auto append = [&](const TokenChance& chance) {
    std::string text = spelling(chance.bytes);
    if (std::find(written.begin(), written.end(), text) != written.end()) return;
    if (!written.empty()) out += ",";
    append_json(out, text);
    out += ":";
    append_chance(out, chance.log_probability);
    written.push_back(std::move(text));
  };
  out += "{";
  for (const TokenChance& chance : report.top) append(chance);
  append(report.token);
  out += "}";
}

// Where each token begins. One that goes on with a character begins where that character does.
std::vector<uint64_t> offsets_of(const std::vector<TokenReport>& reports, std::string_view text, uint64_t offset) {
  std::vector<uint64_t> offsets;
  offsets.reserve(reports.size());
  std::string held;  // the beginning of a character
  bool first = offset == 0;
  for (const TokenReport& report : reports) {
    offsets.push_back(offset);
    if (!report.in_text) continue;
    held += report.token.bytes;
    // some tokenizers put a space before a text, which is not written
    if (first && held.starts_with(' ') && !text.starts_with(' ')) held.erase(0, 1);
    first = false;
    const size_t whole = held.size() - incomplete_utf8_tail(held);
    for (size_t at = 0; at < whole; ++offset) at += code_point_at(held, at).bytes;
    held.erase(0, whole);
  }
  return offsets;
}

}  // namespace

void append_chat_logprobs(std::string& out, const std::vector<TokenReport>& reports) {
  out += R"({"content":)";
  append_list(out, reports, [&out](const TokenReport& report) {
    append_token(out, report.token);
    out += R"(,"top_logprobs":)";
    append_list(out, report.top, [&out](const TokenChance& chance) {
      append_token(out, chance);
      out += "}";
    });
    out += "}";
  });
  out += R"(,"refusal":null})";
}

void append_completion_logprobs(std::string& out, const std::vector<TokenReport>& reports, std::string_view text,
                                size_t offset) {
  out += R"({"tokens":)";
  append_list(out, reports, [&out](const TokenReport& report) { append_json(out, spelling(report.token.bytes)); });
  out += R"(,"token_logprobs":)";
  append_list(out, reports, [&out](const TokenReport& report) {
    if (report.has_chance)
      append_chance(out, report.token.log_probability);
    else
      out += "null";
  });
  out += R"(,"top_logprobs":)";
  append_list(out, reports, [&out](const TokenReport& report) {
    if (report.has_chance)
      append_top(out, report);
    else
      out += "null";
  });
  out += R"(,"text_offset":)";
  append_list(out, offsets_of(reports, text, offset), [&out](uint64_t at) { append_json(out, at); });
  out += "}";
}

}  // namespace heddle::server
